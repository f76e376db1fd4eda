//! Calls in relaxed directories, passed on from the world to their check ([`crate::relaxed`]).

use std::collections::BTreeMap;

use loligo_client::CallResult;
use loligo_journal::table::Row;
use loligo_namespace::SUBTREE;
use loligo_types::{Answer, FsError, Ino, Kind, Op, XattrMode};

use crate::node::Pending;
use crate::relaxed::Target;
use crate::tree::{NameId, NsOp};
use crate::workload::{Deed, Track, id_of};
use crate::world::{Event, World};

/// The directories that there are at first; the last one stays strict.
const DIRS: [&str; 3] = ["r0", "r1", "s0"];

impl World {
    /// Makes the directories.
    pub fn set_up_relaxed(&mut self) {
        for (at, name) in DIRS.into_iter().enumerate() {
            let ino = self.make_dir(name);
            self.relaxed.borrow_mut().begin(ino);
            if at + 1 < DIRS.len() {
                let text = self.relaxed.borrow_mut().new_policy(true, &mut self.policy_rng);
                let value = text.as_bytes().into();
                let op = Op::SetXattr { ino, name: SUBTREE.into(), value, mode: XattrMode::Set };
                self.must(loligo_client::Call::Op(op), Track::None);
            }
        }
    }

    /// True if a client knows of all crashes so far, and has dropped all that they invalidated.
    pub fn knows_all(&self, at: usize) -> bool {
        let node = &self.nodes[at];
        let is_of_this_life = |number, id: &u64| {
            let conn = self.net.conns.get(id);
            node.ready.contains(number)
                && conn.is_some_and(|conn| conn.server_life == self.seats[conn.rank].life && !conn.gone_up)
        };
        let conns =
            node.sessions.keys().all(|number| node.conns.get(number).is_some_and(|id| is_of_this_life(number, id)));
        node.up && node.dropping == 0 && conns && !node.sessions.is_empty()
    }

    /// A call begins.
    pub(crate) fn begin_deed(&mut self, at: usize, op: u64, deed: &Deed) {
        if !self.options.relaxed {
            return;
        }
        let (client, now) = (self.nodes[at].life, self.now);
        match deed {
            Deed::Sync(ino) => self.relaxed.borrow_mut().sync_begins(op, client, *ino, now),
            Deed::Open(ino) => {
                let knows = self.knows_all(at);
                self.relaxed.borrow_mut().opens(client, *ino, knows);
            }
            _ => {}
        }
    }

    /// A call is answered.
    pub(crate) fn check_deed(&mut self, at: usize, pending: &Pending, deed: &Deed, result: &CallResult) {
        if !self.options.relaxed {
            return;
        }
        self.crash_after(deed, result);
        let (client, now) = (self.nodes[at].life, self.now);
        let times = (pending.begun, now);
        let relaxed = std::rc::Rc::clone(&self.relaxed);
        let mut relaxed = relaxed.borrow_mut();
        let attr = result.as_ref().ok().and_then(|done| done.attr());
        match (deed, result) {
            (Deed::Names(NsOp::Lookup { dir, name }), result) => {
                let found = match result {
                    Ok(done) => done.attr().map(|attr| (attr.ino, attr.kind == Kind::Dir)),
                    Err(failed) if failed.error == FsError::NotFound && self.relaxed_is_there(&relaxed, Ino(*dir)) => {
                        None
                    }
                    Err(_) => return,
                };
                relaxed.look(Ino(*dir), *name, found, times, "looked up");
                if let (Some(attr), false) = (attr, self.seats.len() > 1) {
                    relaxed.look_at_mode(attr.ino, attr.mode & 0o7777, times, "looked up");
                }
            }
            (Deed::Names(NsOp::GetAttr { .. }), Ok(_)) => {
                if let Some(attr) = attr {
                    relaxed.look_at_mode(attr.ino, attr.mode & 0o7777, times, "the");
                }
            }
            (Deed::Names(NsOp::Readdir { dir }), Ok(done)) => {
                let parts = self.spread.contains(&Ino(*dir)) && !self.quiet;
                if let (Answer::Entries { entries, end: true, .. }, false) = (&done.answer, parts) {
                    let target = |kind: Kind, ino| -> Target { (ino, kind == Kind::Dir) };
                    let found: BTreeMap<NameId, Target> = entries
                        .iter()
                        .filter_map(|entry| Some((id_of(entry.name.as_bytes())?, target(entry.kind, entry.ino))))
                        .collect();
                    relaxed.list(Ino(*dir), &found, times);
                }
            }
            (Deed::Names(ns @ NsOp::Create { .. }), Ok(_)) => {
                if let Some(attr) = attr {
                    relaxed.opens(client, attr.ino, true);
                }
                relaxed.answered(pending.op, client, ns, attr.map(|attr| attr.ino), now);
            }
            (Deed::Names(ns), Ok(_)) => relaxed.answered(pending.op, client, ns, attr.map(|attr| attr.ino), now),
            (Deed::Policy { dir, text }, Ok(_)) => relaxed.policy_set(client, *dir, text, now),
            (Deed::Sync(_), Ok(_)) => relaxed.sync_ends(pending.op, Some(false)),
            (Deed::Sync(_), Err(failed)) => {
                let tells =
                    matches!(failed.error, FsError::Io | FsError::Stale | FsError::BadHandle | FsError::NoSpace);
                relaxed.sync_ends(pending.op, tells.then_some(true));
            }
            (Deed::Open(ino), Err(_)) | (Deed::Close(ino), _) => relaxed.closes(client, *ino),
            _ => {}
        }
    }

    /// Now and then a rank crashes just after something was answered, which then may be lost.
    fn crash_after(&mut self, deed: &Deed, result: &CallResult) {
        if self.quiet || self.options.calm || deed.change().is_none() || result.is_err() || !self.policy_rng.one_in(25)
        {
            return;
        }
        let (rank, us) = (self.policy_rng.below(self.seats.len() as u64) as usize, self.policy_rng.range(0, 5_000));
        let (life, all) = (self.seats[rank].life, false);
        self.after(us, Event::Crash { rank, life, all });
    }

    /// Of a directory that is gone nothing is found.
    fn relaxed_is_there(&self, relaxed: &crate::relaxed::Relaxed, dir: Ino) -> bool {
        relaxed.roots.contains(&dir) || relaxed.there().any(|(.., target)| target.0 == dir)
    }

    /// Out of the cache of a kernel.
    pub(crate) fn glance_relaxed(&mut self, at: usize, dir: Ino, name: NameId, found: Option<Target>) {
        if self.knows_all(at) {
            let how = format!("in the cache of client {at}");
            self.relaxed.borrow_mut().look(dir, name, found, (self.now, self.now), &how);
        }
    }

    /// Attributes out of it.
    pub(crate) fn glance_relaxed_mode(&mut self, at: usize, ino: Ino, mode: u16) {
        if self.knows_all(at) {
            let how = format!("in the cache of client {at} the");
            self.relaxed.borrow_mut().look_at_mode(ino, mode & 0o7777, (self.now, self.now), &how);
        }
    }

    /// All caches, when nothing goes wrong any more.
    pub fn look_at_caches(&mut self) {
        for at in 0..self.nodes.len() {
            let names: Vec<_> = self.nodes[at].kernel.names.iter().map(|(key, found)| (*key, *found)).collect();
            for ((dir, name), found) in names {
                if self.relaxed.borrow().has(dir) && self.nodes[at].kernel.names_usable(dir) {
                    self.glance_relaxed(at, dir, name, found);
                }
            }
        }
    }

    /// Lists the relaxed directories at the end, through a client.
    pub fn look_at_relaxed(&mut self) {
        let mut dirs = self.relaxed.borrow().roots.clone();
        dirs.extend(self.relaxed.borrow().there().filter(|(.., target)| target.1).map(|(.., target)| target.0));
        for dir in dirs {
            self.read_file(dir, |world, fh| {
                let call = loligo_client::Call::Readdir { fh, cookie: 0, limit: 10_000, plus: true };
                world.must(call, Track::Relaxed(Deed::Names(NsOp::Readdir { dir: dir.0 })));
            });
        }
        self.look_at_caches();
    }

    /// And what the table has.
    pub fn compare_relaxed(&mut self, rows: &[Row]) {
        let mut found = BTreeMap::new();
        for row in rows {
            if let Row::Entry { dir, name, target, .. } = row
                && let (true, Some(id)) = (self.relaxed.borrow().has(*dir), id_of(name.as_bytes()))
            {
                found.insert((*dir, id), target.ino);
            }
        }
        self.relaxed.borrow_mut().compare(&found);
        self.gather();
    }
}
