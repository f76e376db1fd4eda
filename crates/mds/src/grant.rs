//! Which leases and rights go with an answer; decided when the answer leaves, so that a recall always comes after.

use loligo_namespace::Tree;
use loligo_types::{Answer, Attr, FsError, FsResult, Ino, Kind, Lease, Op};

use crate::background::Background;
use crate::core::Core;
use crate::gate::Reply;
use crate::machine::Mds;
use crate::park::Job;
use crate::session::Slot;

/// A lease that would be welcome: bits on an inode, and the inode's change counter when the answer was made.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) ino: Ino,
    pub(crate) bits: Lease,
    pub(crate) change: u64,
}

/// The leases that would be welcome with an answer.
#[derive(Default)]
pub(crate) struct Asks {
    list: [Option<Ask>; 2],
    /// ATTR on each entry of a readdir answer.
    entries: bool,
}

impl Asks {
    /// Leases that an operation may bring, as far as the client wants them.
    pub(crate) fn of(tree: &Tree, job: &Job, result: &FsResult<Answer>) -> Asks {
        let mut asks = Asks::default();
        if job.want.is_none() {
            return asks;
        }
        if job.want.has(Lease::ATTR) {
            asks.entries = matches!(job.op, Op::Readdir { plus: true, .. });
            asks.list[0] = asks_attr(tree, job, result);
        }
        if job.want.has(Lease::NAMES) {
            asks.list[1] = asks_names(tree, job, result);
        }
        asks
    }
}

fn asks_attr(tree: &Tree, job: &Job, result: &FsResult<Answer>) -> Option<Ask> {
    let ask = |ino, change| Some(Ask { ino, bits: Lease::ATTR, change });
    match (&job.op, result) {
        (_, Ok(Answer::Entry(attr) | Answer::Opened { attr, .. })) => ask(attr.ino, attr.change),
        (Op::GetXattr { ino, .. }, Ok(_) | Err(FsError::NoData))
        | (Op::ListXattr { ino } | Op::Readlink { ino } | Op::Access { ino, .. }, Ok(_)) => {
            ask(*ino, tree.inode(*ino)?.change)
        }
        _ => None,
    }
}

fn asks_names(tree: &Tree, job: &Job, result: &FsResult<Answer>) -> Option<Ask> {
    let dir = match (&job.op, result) {
        (Op::Lookup { dir, .. }, Ok(_) | Err(FsError::NotFound)) => dir,
        (
            Op::Create { dir, .. }
            | Op::Mknod { dir, .. }
            | Op::Mkdir { dir, .. }
            | Op::Symlink { dir, .. }
            | Op::Link { dir, .. }
            | Op::Unlink { dir, .. }
            | Op::Rmdir { dir, .. }
            | Op::Readdir { dir, .. },
            Ok(_),
        ) => dir,
        // What caches above the client know of the old name becomes true of the new one, which may be another rank's to lend.
        (Op::Rename { new_dir, new_name, .. }, Ok(_)) => {
            tree.own_until(*new_dir, tree.hash(new_name))?;
            new_dir
        }
        _ => return None,
    };
    // `NotFound` may also mean that the directory itself is gone.
    let inode = tree.inode(*dir).filter(|inode| inode.kind == Kind::Dir)?;
    Some(Ask { ino: *dir, bits: Lease::NAMES, change: inode.change })
}

impl Mds {
    /// Gives what can be given with an answer, and writes it into the answer.
    pub(crate) fn grant(&mut self, reply: &mut Reply) -> Vec<(Ino, Lease)> {
        let mut granted = Vec::new();
        for ask in reply.asks.list.into_iter().flatten() {
            if self.may_lease(&ask, reply.slot) {
                self.leases.grant(ask.ino, reply.slot, ask.bits);
                granted.push((ask.ino, ask.bits));
            }
        }
        if reply.asks.entries {
            self.grant_entries(reply);
        }
        if let Ok(Answer::Opened { attr, rights, data, .. }) = &mut reply.result {
            let fresh = self.core.tree.inode(attr.ino).is_some_and(|inode| inode.change == attr.change);
            *rights = self.give_rights(attr, fresh, reply.slot);
            if !fresh {
                *data = None;
            }
        }
        granted
    }

    fn grant_entries(&mut self, reply: &mut Reply) {
        let Ok(Answer::Entries { entries, .. }) = &mut reply.result else { return };
        for entry in entries {
            let Some(attr) = &entry.attr else { continue };
            let ask = Ask { ino: attr.ino, bits: Lease::ATTR, change: attr.change };
            if self.may_lease(&ask, reply.slot) {
                self.leases.grant(ask.ino, reply.slot, ask.bits);
                entry.lease = ask.bits;
            }
        }
    }

    /// A lease is given only on what has not changed since the answer was made, and that nobody waits to change.
    #[inline]
    fn may_lease(&mut self, ask: &Ask, slot: Slot) -> bool {
        if self.cluster.exports.is_active()
            && self.cluster.exports.is_leaving(&mut self.core, &mut self.cluster.atlas, ask.ino)
        {
            // What clients hold of it is on its way to another rank.
            return false;
        }
        if self.core.parked.is_marked(ask.ino) || !self.recalls.pending(ask.ino, slot).is_none() {
            return false;
        }
        if self.cluster.exports.is_spreading(ask.ino) {
            return false;
        }
        if self.core.tree.has_decoupled()
            && self.decoupled.is_decoupled(&mut self.core, &mut self.cluster, ask.ino, ask.bits)
        {
            return false;
        }
        let Some(inode) = self.core.tree.inode(ask.ino).filter(|inode| inode.change == ask.change) else {
            return false;
        };
        // Of a directory whose fragments are several ranks' nobody alone knows the attributes. Each lends the names that are its own, and
        // asks them back before a fragment goes.
        if inode.is_spread() && ask.bits != Lease::NAMES {
            return false;
        }
        // Attributes that another session is about to change (or may change without telling) are not lent.
        !self.background.is_contended(&self.core, ask.ino)
            && (ask.bits == Lease::NAMES || !self.opens.others_write(ask.ino, slot))
    }

    /// Gives a session the rights on an open file that all opens of this moment allow; what it has in the end. Nothing
    /// new, if the file has changed since the answer was made, somebody waits to change it, or what a dead session left of it is to be dropped.
    fn give_rights(&mut self, attr: &Attr, fresh: bool, slot: Slot) -> Lease {
        let ino = attr.ino;
        let recalled = self.recalls.pending(ino, slot);
        // Who writes in the store by himself would leave an object without a file.
        let unborn = self.core.config.direct.is_some() && self.relaxed.is_volatile(ino);
        // Who has changes at hand, or makes them in the store by himself, changes the owner's version of a file that has two.
        let forked = self.decoupled.is_still(ino)
            || self.core.config.direct.is_some()
                && self.core.tree.has_decoupled()
                && self.decoupled.is_forked(&self.core, ino);
        let waits = self.core.parked.is_marked(ino) || self.tidy.is_left(ino) || unborn || forked;
        // Of what is merged there nobody is asked to give anything back.
        let merged = self.core.tree.has_decoupled()
            && self.decoupled.is_decoupled(&mut self.core, &mut self.cluster, ino, Lease::CACHE);
        if fresh && recalled.is_none() && attr.kind == Kind::File && !waits && !merged {
            let mut rights = self.opens.allowed(ino, slot);
            if self.leases.others_hold(ino, slot, Lease::ATTR) {
                rights = rights.without(Lease::BUFFER);
            }
            self.opens.give(ino, slot, rights);
            if rights.has(Lease::CACHE) && self.opens.any_writer(ino) {
                // From now on it looks itself after what lies beyond the end.
                self.tidy.forget(ino);
            }
        }
        self.opens.rights(ino, slot).without(recalled)
    }
}

impl Background {
    /// True if leases on the directory had to be asked back lately, because its entries changed.
    fn is_contended(&self, core: &Core, dir: Ino) -> bool {
        let contended = &self.contended;
        !contended.is_empty() && contended.get(&dir).is_some_and(|until| core.now.mono_ms < *until)
    }
}
