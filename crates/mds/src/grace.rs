//! The time after a restart in which the sessions of before tell what they held. Nobody else may act in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loligo_namespace::{Ctx, Found, Need, prepare};
use loligo_types::msg::Reclaim;
use loligo_types::{Cred, Ino, Kind, Lease, Op, OpenFlags, SessionId, Stamp};

use crate::cluster::Cluster;
use crate::core::Core;
use crate::io::Identity;
use crate::open::{HANDLES_MAX, Opens};
use crate::paths::PathCache;
use crate::recall::Recalls;
use crate::rights::{NOBODY, Squash};
use crate::session::{Session, Sessions, Slot, Standing};

/// It goes on.
#[derive(Debug)]
pub(crate) struct Grace {
    /// At the latest until then.
    until_ms: u64,
    /// The same for clients of the network. One of this machine hears at once that the server is gone; one that is cut off does
    /// not, and relies on what was lent to it for as long as its session lives.
    cut_off_until_ms: u64,
    /// Reclaims of sessions, while the inodes in them are being read.
    told: BTreeMap<SessionId, Telling>,
}

/// Reclaim of one session.
#[derive(Debug)]
struct Telling {
    held: Reclaim,
    /// Reads that it waits for.
    left: usize,
    /// Number of times that something was read for it.
    rounds: usize,
    /// A read has failed: it is tried again.
    has_failed: bool,
    /// Number of failed reads, in all.
    failures: u32,
    /// It came over a connection that may act for everybody, which may be gone before it is read.
    trusted: bool,
    /// Which users its identity does not act for.
    squash: Squash,
    /// The identity that told it, if its rights depend on where something is.
    limited: Option<Arc<Identity>>,
}

/// Reads for one reclaim, one after the other, at most: as many directories as can lie above each other, and their entries.
const ROUNDS_MAX: usize = 2 * loligo_types::limits::DEPTH_MAX;

/// Reads for one reclaim that may fail: a table that cannot be read for so many ticks will not be, and what cannot be found is not given back.
const FAILED_MAX: u32 = 100;

impl Grace {
    pub(crate) fn until(until_ms: u64, cut_off_until_ms: u64) -> Grace {
        Grace { until_ms, cut_off_until_ms, told: BTreeMap::new() }
    }

    /// It goes on for so much longer, milliseconds.
    pub(crate) fn wait_longer(&mut self, ms: u64) {
        self.until_ms += ms;
        self.cut_off_until_ms += ms;
    }

    /// A session tells what it held. `peer`: it came over a connection that may act for everybody; which users it does not act for.
    pub(crate) fn begin(
        &mut self,
        id: SessionId,
        held: Reclaim,
        (trusted, squash): (bool, Squash),
        limited: Option<Arc<Identity>>,
    ) {
        let telling = Telling { held, left: 0, rounds: 0, has_failed: false, failures: 0, trusted, squash, limited };
        self.told.insert(id, telling);
    }

    /// One of the reads for a reclaim is done; whether all are, and none has failed.
    pub(crate) fn one_is_read(&mut self, id: SessionId) -> bool {
        let Some(told) = self.told.get_mut(&id) else { return false };
        told.left -= 1;
        told.left == 0 && !told.has_failed
    }

    /// One of them has failed.
    pub(crate) fn one_has_failed(&mut self, id: SessionId) {
        if let Some(told) = self.told.get_mut(&id)
            && told.failures < FAILED_MAX
        {
            if !told.has_failed {
                // What was not read in this round is wanted once more.
                told.rounds = told.rounds.saturating_sub(1);
            }
            (told.has_failed, told.failures) = (true, told.failures + 1);
        }
    }

    /// The reclaims for which something is to be read again.
    pub(crate) fn take_failed(&mut self) -> Vec<SessionId> {
        let failed = self.told.iter_mut().filter(|(_, told)| told.has_failed && told.left == 0);
        failed
            .map(|(id, told)| {
                told.has_failed = false;
                *id
            })
            .collect()
    }

    /// The inodes that a session had open, and how often something was read for it.
    pub(crate) fn open_inos(&self, id: SessionId) -> Option<(Vec<Ino>, usize)> {
        let told = self.told.get(&id)?;
        let mut inos: Vec<Ino> = told.held.opens.iter().take(HANDLES_MAX).map(|(_, ino, ..)| *ino).collect();
        inos.sort();
        inos.dedup();
        Some((inos, told.rounds))
    }

    /// So many reads are under way for a reclaim; whether it waits for them.
    pub(crate) fn is_read_for(&mut self, id: SessionId, count: usize) -> bool {
        match self.told.get_mut(&id) {
            Some(told) if count > 0 => {
                (told.left, told.rounds) = (count, told.rounds + 1);
                true
            }
            _ => false,
        }
    }

    /// The reclaims of sessions whose rights depend on where something is, as far as nothing is read for them.
    pub(crate) fn limited(&self) -> Vec<SessionId> {
        let waits = |told: &Telling| told.limited.is_some() && told.left == 0;
        self.told.iter().filter(|(_, told)| waits(told)).map(|(id, _)| *id).collect()
    }

    /// Takes a reclaim out: what was held, and who has told it.
    pub(crate) fn end(&mut self, id: SessionId) -> Option<(Reclaim, (bool, Squash))> {
        let told = self.told.remove(&id)?;
        Some((told.held, (told.trusted, told.squash)))
    }

    /// Until when it goes on for a session that has not come back.
    fn lasts(&self, session: &Session) -> u64 {
        if session.is_remote() { self.cut_off_until_ms } else { self.until_ms }
    }
}

/// Time after the grace time for which orphans that nobody has open are kept: for requests sent again that made them.
pub(crate) const ORPHANS_KEPT_MS: u64 = 2000;

impl Sessions {
    /// Known sessions that have not come back all the way.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (Slot, &Session)> + '_ {
        self.iter().filter(|(_, session)| session.standing != Standing::Here && session.ending.is_none())
    }

    /// Until when the grace time lasts for those that have not come back; 0: there are none.
    pub(crate) fn grace_until(&self, grace: &Grace) -> u64 {
        self.missing().map(|(_, session)| grace.lasts(session)).max().unwrap_or(0)
    }

    /// A peer that may not act for everybody must be allowed to open it itself (by its user alone: its groups are not known):
    /// its word that it had it open is not enough. One that acts for all but root, if a user is who may. What another one may write to has no
    /// setuid and setgid: that ended when it was opened.
    pub(crate) fn may_take_back(&self, core: &Core, slot: Slot, squash: Squash, ino: Ino, flags: OpenFlags) -> bool {
        let (Some(session), Found::Here(inode)) = (self.get(slot), core.tree.find(ino)) else {
            return false;
        };
        if flags.write && inode.kind == Kind::File && inode.mode & 0o6000 != 0 {
            return false;
        }
        let users = match squash {
            Squash::None => vec![Cred::user(session.uid, u32::MAX)],
            Squash::Root => {
                vec![Cred::user(inode.uid, NOBODY), Cred::user(NOBODY, inode.gid), Cred::user(NOBODY, NOBODY)]
            }
            Squash::All => vec![Cred::user(NOBODY, NOBODY)],
        };
        users.into_iter().any(|mut cred| {
            squash.apply(&mut cred);
            core.may_open(&cred, ino, flags)
        })
    }
}

impl PathCache {
    /// The opens that a limited session reclaims where it may not have them. `None`: something must be read, or another rank asked, first.
    pub(crate) fn refused_by_paths(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        grace: &mut Option<Grace>,
        slot: Slot,
        id: SessionId,
    ) -> Option<BTreeSet<(Ino, bool)>> {
        let told = grace.as_ref().and_then(|grace| grace.told.get(&id))?;
        let Some(identity) = told.limited.clone() else { return Some(BTreeSet::new()) };
        let opens = told.held.opens.iter().take(HANDLES_MAX);
        let opens: BTreeSet<(Ino, bool)> = opens.map(|(_, ino, flags, _)| (*ino, flags.write)).collect();
        let (mut refused, mut reads, mut asks) = (BTreeSet::new(), 0, false);
        for open in opens {
            match self.may_have_open(core, cluster, slot, id, &identity.rights, open) {
                Some(Ok(true)) => {}
                Some(Ok(false)) => drop(refused.insert(open)),
                Some(Err(count)) => reads += count,
                None => asks = true,
            }
        }
        if let Some(told) = grace.as_mut().and_then(|grace| grace.told.get_mut(&id)) {
            told.left = reads;
        }
        (reads == 0 && !asks).then_some(refused)
    }
}

impl Cluster {
    /// Records to read before it is known which of these inodes are there, and are this rank's: in a cluster also
    /// directories above them, one by one.
    pub(crate) fn reclaim_needs(&mut self, core: &mut Core, inos: &[Ino], rounds: usize) -> Vec<Need> {
        let mut needs = Vec::new();
        if self.is_alone() {
            let unknown = inos.iter().filter(|ino| rounds == 0 && matches!(core.tree.find(**ino), Found::Unknown));
            needs.extend(unknown.map(|ino| Need::Inode(*ino)));
        } else if rounds < ROUNDS_MAX {
            inos.iter().for_each(|ino| _ = self.locate(core, *ino, &mut needs));
            needs.sort();
            needs.dedup();
        }
        needs
    }
}

impl Core {
    fn may_open(&self, cred: &Cred, ino: Ino, flags: OpenFlags) -> bool {
        let stamp = Stamp { now: self.now.wall, ino: self.tree.next_ino() };
        let ctx = Ctx {
            cred,
            distrusted: false,
            stamp,
            handle_read: false,
            handle_write: false,
            open_count: &|_| 1,
            route_version: &|_| None,
        };
        let flags = OpenFlags { truncate: false, ..flags };
        prepare(&self.tree, &Op::Open { ino, flags, handle: 0 }, &ctx).is_ok()
    }
}

impl Recalls {
    /// Rights that several sessions claim although they exclude each other: all give them up.
    pub(crate) fn settle_reclaimed(&mut self, core: &mut Core, sessions: &Sessions, opens: &Opens, ino: Ino) {
        let holders: Vec<(Slot, Lease)> = opens.all_rights(ino).collect();
        for (slot, rights) in holders {
            let excess = rights.without(opens.allowed(ino, slot));
            if !excess.is_none() && !self.pending(ino, slot).has(excess) {
                self.recall(core, sessions, ino, slot, excess | Lease::ATTR, 0);
            }
        }
    }
}
