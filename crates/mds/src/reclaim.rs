//! Reclaims: which of the holdings that a session tells after a restart it gets back. The time in which it may tell them is `grace.rs`.

use std::collections::BTreeSet;

use loligo_namespace::{Ctx, Found, Need, prepare};
use loligo_types::{Cred, Ino, Kind, Lease, Op, OpenFlags, SessionId, Stamp};

use crate::cluster::Cluster;
use crate::core::Core;
use crate::grace::Grace;
use crate::open::Opens;
use crate::paths::PathCache;
use crate::recall::Recalls;
use crate::rights::{NOBODY, Squash};
use crate::session::{Sessions, Slot};

/// Reads for one reclaim, one after the other, at most: as many directories as can lie above each other, and their entries.
const ROUNDS_MAX: usize = 2 * loligo_types::limits::DEPTH_MAX;

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
        let (limited, opens) = grace.as_ref().and_then(|grace| grace.opens_of(id))?;
        let Some(identity) = limited else { return Some(BTreeSet::new()) };
        let (mut refused, mut reads, mut asks) = (BTreeSet::new(), 0, false);
        for open in opens {
            match self.may_have_open(core, cluster, slot, id, &identity.rights, open) {
                Some(Ok(true)) => {}
                Some(Ok(false)) => drop(refused.insert(open)),
                Some(Err(count)) => reads += count,
                None => asks = true,
            }
        }
        if let Some(grace) = grace {
            grace.waits_for(id, reads);
        }
        (reads == 0 && !asks).then_some(refused)
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

impl Sessions {
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
