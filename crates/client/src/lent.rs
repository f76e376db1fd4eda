//! The answer that is being dealt with, and whether it may be cached: by the leases that ranks have lent, by what is decoupled for
//! this client, and as far as no change is under way that nobody waits for. Not here: the leases by themselves (`leases`).

use loligo_types::{Answer, Attr, Ino, Lease, Op, Rank, Seq};

use crate::Done;
use crate::calls::Calls;
use crate::core::Core;
use crate::file::Files;
use crate::own::{OWN, Own};
use crate::ranks::Ranks;
use crate::session::HeldNames;

/// The answer that is being dealt with.
#[derive(Debug, Default)]
pub(crate) struct AtHand {
    /// The rank that granted it; none: no rank did.
    rank: Option<Rank>,
    seq: u64,
    /// Leases that came with it.
    granted: Vec<(Ino, Lease)>,
    /// The same, of lookup leases.
    pub(crate) ways: Vec<(Ino, u16)>,
    /// The rank that answered for the names in it.
    pub(crate) names_from: Option<Rank>,
}

impl AtHand {
    /// An answer is dealt with from now on.
    pub(crate) fn take_up(&mut self, rank: Rank, seq: u64, granted: &[(Ino, Lease)]) {
        (self.rank, self.seq) = (Some(rank), seq);
        self.granted.clear();
        self.ways.clear();
        self.granted.extend_from_slice(granted);
        self.names_from = Some(rank);
    }

    /// Ends the handling of a rank's answer.
    pub(crate) fn put_down(&mut self) {
        (self.rank, self.names_from) = (None, None);
    }
}

/// Parts on which depends whether something of the answer at hand may be cached.
pub(crate) struct Lent<'a> {
    pub at_hand: &'a mut AtHand,
    pub core: &'a Core,
    pub calls: &'a Calls,
    pub ranks: &'a mut Ranks,
    pub own: &'a mut Own,
}

impl Lent<'_> {
    /// True if a lease covers the answer at hand: the answer brought the lease, or the lease was already held when the request was sent.
    /// An answer that was decided before the lease's and arrives after it may be older than the lease.
    pub(crate) fn counts(&self, ino: Ino, bits: Lease) -> bool {
        if self.at_hand.rank == Some(OWN) {
            let wanted = self.core.config.cache && (self.core.config.cache_names || !bits.has(Lease::NAMES));
            return wanted && self.own.may_cache(ino, bits);
        }
        if self.calls.is_unsettled(self.ranks, ino, bits) {
            return false;
        }
        let at_hand = &self.at_hand;
        let session = at_hand.rank.and_then(|rank| self.ranks.session(rank));
        session.is_some_and(|session| {
            session.leases.was_held(ino, bits, at_hand.seq)
                || session.leases.of(ino).has(bits)
                    && !session.leases.is_void(ino, at_hand.seq)
                    && at_hand.granted.iter().any(|(of, given)| *of == ino && given.has(bits))
        })
    }

    /// True if the lease counts; the answer is noted as cached then.
    fn noted(&mut self, ino: Ino, bits: Lease) -> bool {
        let counts = self.counts(ino, bits);
        if counts && self.at_hand.rank == Some(OWN) {
            self.own.note_cached(ino, bits);
        }
        counts
    }

    /// True if attributes that are given out now may be cached; then they are not forgotten any more.
    pub(crate) fn use_attr(&mut self, ino: Ino) -> bool {
        self.ranks.remember(ino);
        self.noted(ino, Lease::ATTR)
    }

    /// The same for an entry of a listing, which brought the lease.
    fn use_entry(&mut self, ino: Ino) -> bool {
        self.ranks.remember(ino);
        if self.at_hand.rank == Some(OWN) {
            return self.noted(ino, Lease::ATTR);
        }
        if self.calls.is_unsettled(self.ranks, ino, Lease::ATTR) {
            return false;
        }
        let session = self.at_hand.rank.and_then(|rank| self.ranks.session(rank));
        session.is_some_and(|session| session.leases.has_attr(ino) && !session.leases.is_void(ino, self.at_hand.seq))
    }

    /// The same for names of a directory: those that came with the answer at hand, or with the one before of which it is
    /// the second part.
    pub(crate) fn use_names(&mut self, dir: Ino) -> bool {
        let Some(rank) = self.at_hand.names_from else { return false };
        if rank == OWN {
            return self.at_hand.rank == Some(OWN) && self.noted(dir, Lease::NAMES);
        }
        // At all ranks: the lease may move to one that has lent other names of the directory, which caches above forgot before.
        self.ranks.remember(dir);
        let Some(session) = self.ranks.session(rank) else { return false };
        if self.at_hand.rank != Some(rank) {
            return session.leases.has_names(dir) && !self.calls.is_unsettled(self.ranks, dir, Lease::NAMES);
        }
        self.counts(dir, Lease::NAMES)
    }

    /// The same for a name that something has got by a rename, and for the other one in `other` if two have changed places. Whoever
    /// gave the answer lends names of the directory with it only if the new name is among those that it has: another one may have it.
    pub(crate) fn use_renamed(&mut self, dir: Ino, other: Option<Ino>) -> bool {
        let brought = |(of, bits): &(Ino, Lease)| *of == dir && bits.has(Lease::NAMES);
        (self.at_hand.rank == Some(OWN) || self.at_hand.granted.iter().any(brought))
            && self.use_names(dir)
            && other.is_none_or(|other| self.use_names(other))
    }

    /// The lease on a directory's names by a rank, if the names in the answer at hand are covered by it.
    pub(crate) fn held_names(&self, rank: Rank, dir: Ino) -> Option<HeldNames> {
        let held = self.at_hand.rank == Some(rank) && self.counts(dir, Lease::NAMES);
        held.then(|| HeldNames { dir, of: rank, lost: self.core.names_lost.count(dir) })
    }

    /// Takes attributes that the server sent. They are current if the ATTR lease is held with them.
    pub(crate) fn learn(&self, files: &mut Files, attr: &Attr) {
        let current = self.counts(attr.ino, Lease::ATTR);
        if let Some(file) = files.map.get_mut(&attr.ino)
            && file.learn(attr)
        {
            file.current = current;
        }
    }

    /// Attributes as they are with what is held back, and whether they may be cached.
    pub(crate) fn done_attr(&mut self, files: &Files, mut attr: Attr) -> Done {
        files.overlay(&mut attr);
        self.own.overlay(&mut attr);
        Done { attr_cached: self.use_attr(attr.ino), ..Done::plain(Answer::Entry(attr)) }
    }

    /// The answer of a path walk, with attributes as they are with the writes that are held back.
    pub(crate) fn done_walked(&mut self, files: &Files, mut walked: Answer) -> Done {
        if let Answer::Walked { last, .. } = &mut walked {
            match &mut **last {
                Answer::Entry(attr) => {
                    files.overlay(attr);
                    self.own.overlay(attr);
                }
                Answer::Entries { entries, .. } => {
                    for entry in entries {
                        self.overlay_entry(files, &mut entry.attr, &mut entry.lease);
                    }
                }
                _ => {}
            }
        }
        Done::plain(walked)
    }

    /// Attributes in a listing: with what is held back, and only leases that count.
    pub(crate) fn overlay_entry(&mut self, files: &Files, attr: &mut Option<Attr>, lease: &mut loligo_types::Lease) {
        if let Some(attr) = attr {
            files.overlay(attr);
            if !lease.is_none() && !self.use_entry(attr.ino) {
                *lease = loligo_types::Lease::NONE;
            }
        }
    }

    pub(crate) fn learn_answer(&mut self, files: &mut Files, rank: Rank, seq: Seq, op: &Op, answer: &Answer) {
        match answer {
            Answer::Entry(attr) => self.learn(files, attr),
            Answer::Opened { .. } => {
                if let Some((handle, _)) = op.opens() {
                    files.at.insert(handle, rank);
                }
            }
            Answer::Entries { entries, .. } => {
                let Some(session) = self.ranks.sessions.get_mut(&rank) else { return };
                for entry in entries.iter().filter(|entry| !entry.lease.is_none()) {
                    session.leases.grant(seq.0, session.next_seq, &[(entry.ino, entry.lease)], 0);
                }
            }
            _ => {}
        }
        if !self.ranks.router.is_single() {
            self.ranks.notice(files, rank, op, answer);
        }
    }
}
