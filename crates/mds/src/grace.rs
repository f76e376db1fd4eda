//! The time after a restart in which the sessions of before tell what they held. Nobody else may act in it.

use loligo_types::msg::Reclaim;
use loligo_types::{Lease, SessionId};

use crate::machine::Mds;
use crate::open::{HANDLES_MAX, Handle};
use crate::park::Why;
use crate::recall::{DATA, SHARED};
use crate::session::Slot;

/// It goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grace {
    /// At the latest until then.
    pub(crate) until_ms: u64,
}

/// How long after the grace time orphans that nobody has open are kept: for requests sent again that made them.
const ORPHANS_KEPT_MS: u64 = 2000;

impl Mds {
    /// Ends the grace time if all known sessions came back or are gone, or if it is over; those that did not come back
    /// are evicted then.
    pub(crate) fn check_grace(&mut self) {
        let Some(grace) = self.grace else { return };
        let waiting = |s: &crate::session::Session| s.lost || s.may_reclaim;
        let all_back = !self.sessions.iter().any(|(_, session)| waiting(session));
        if !all_back && self.now.mono_ms < grace.until_ms {
            return;
        }
        self.grace = None;
        let lost: Vec<Slot> = self.sessions.iter().filter(|(_, s)| waiting(s)).map(|(slot, _)| slot).collect();
        lost.into_iter().for_each(|slot| self.evict_session(slot));
        self.background.orphans_at_ms = Some(self.now.mono_ms + ORPHANS_KEPT_MS);
        self.parked.wake(&Why::Grace);
    }

    /// The driver knows that the process of a session is dead.
    pub(crate) fn peer_dead(&mut self, session: SessionId) {
        if let Some(slot) = self.sessions.find(session)
            && self.sessions.get(slot).is_some_and(|session| session.conn.is_none())
        {
            self.end_session(slot);
        }
    }

    /// A session that came back sends something else than a reclaim: it held nothing.
    pub(crate) fn reclaimed(&mut self, slot: Slot) {
        if let Some(session) = self.sessions.get_mut(slot)
            && session.may_reclaim
        {
            session.may_reclaim = false;
            self.check_grace();
        }
    }

    /// What a session held before the restart. What conflicts with what others said before is asked back at once.
    pub(crate) fn reclaim(&mut self, slot: Slot, held: Reclaim) {
        let Some(session) = self.sessions.get(slot).filter(|session| session.may_reclaim) else { return };
        self.reclaim_opens(slot, session.id, &held);
        for (ino, handle, lock) in held.locks {
            let known = self.opens.handle(slot, handle).is_some_and(|open| open.ino == ino);
            if known && self.locks.conflict(ino, slot, &lock).is_none() {
                self.locks.set(ino, slot, handle, lock);
            }
        }
        for (ino, bits) in held.leases.into_iter().take(self.config.leases_max) {
            if bits.any(SHARED) {
                self.leases.grant(ino, slot, bits & SHARED);
            }
        }
        self.reclaimed(slot);
    }

    fn reclaim_opens(&mut self, slot: Slot, id: SessionId, held: &Reclaim) {
        for (number, ino, flags, rights) in &held.opens {
            if self.opens.handles(slot) >= HANDLES_MAX || self.opens.handle(slot, *number).is_some() {
                continue;
            }
            let change = self.opens.open(slot, *number, Handle::new(*ino, *flags));
            self.tell_access(id, change);
            self.opens.give(*ino, slot, *rights & DATA);
        }
        for (_, ino, ..) in &held.opens {
            self.settle_reclaimed(*ino);
        }
    }

    /// Rights that several sessions claim although they exclude each other: all give them up.
    fn settle_reclaimed(&mut self, ino: loligo_types::Ino) {
        let holders: Vec<(Slot, Lease)> = self.opens.all_rights(ino).collect();
        for (slot, rights) in holders {
            let excess = rights.without(self.opens.allowed(ino, slot));
            if !excess.is_none() && !self.recalls.pending(ino, slot).has(excess) {
                self.recall(ino, slot, excess | Lease::ATTR, 0);
            }
        }
    }
}
