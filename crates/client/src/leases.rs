//! Which leases are held of each rank, and giving back those that are of no use. Nothing is cached here.

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::hash::IntMap;
use loligo_types::msg::ToServer;
use loligo_types::{Ino, Lease, Rank};

use crate::core::Core;
use crate::file::Files;
use crate::own::Own;
use crate::ranks::Ranks;

/// Lease on one inode.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    bits: Lease,
    /// Answers to requests from this number on, of which the lower half is kept, were asked for when all of it was held.
    since: u32,
}

impl Held {
    /// `next_seq`: of the next request to the rank that lends it.
    fn add(&mut self, bits: Lease, next_seq: u64) {
        if !self.bits.has(bits) {
            self.since = next_seq as u32;
        }
        self.bits = self.bits | bits;
    }

    /// No request is open for as long as its number would take to come round.
    fn is_before(&self, seq: u64) -> bool {
        (seq as u32).wrapping_sub(self.since) < 1 << 31
    }
}

/// Leases of one rank.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    held: IntMap<Ino, Held>,
    /// Given back: answers to requests below this number were made before the server knew, so what they grant is void.
    void_below: BTreeMap<Ino, u64>,
    /// To be given back with the next batch.
    pub forgotten: BTreeSet<Ino>,
}

/// Number of losses of directories' names, counted for many directories together. Never too small.
#[derive(Debug, Default)]
pub(crate) struct NamesLost {
    of: [u64; 32],
}

impl NamesLost {
    fn place(dir: Ino) -> usize {
        (dir.0 % 32) as usize
    }

    /// They are not held any more.
    pub(crate) fn add(&mut self, dir: Ino) {
        self.of[NamesLost::place(dir)] += 1;
    }

    /// A number that changes when they are given up.
    pub(crate) fn count(&self, dir: Ino) -> u64 {
        self.of[NamesLost::place(dir)]
    }
}

/// As many leases are given back in one message at most.
pub(crate) const RELEASE_MAX: usize = 4096;

impl Leases {
    pub(crate) fn has_attr(&self, ino: Ino) -> bool {
        self.of(ino).has(Lease::ATTR)
    }

    pub(crate) fn has_names(&self, dir: Ino) -> bool {
        self.of(dir).has(Lease::NAMES)
    }

    /// Takes what came with the answer to request `seq`; the next one will have the number `next_seq`. All requests below
    /// `answered` are answered.
    pub(crate) fn grant(&mut self, seq: u64, next_seq: u64, granted: &[(Ino, Lease)], answered: u64) {
        for (ino, bits) in granted {
            let bits = *bits & (Lease::ATTR | Lease::NAMES);
            if bits.is_none() || self.is_void(*ino, seq) {
                continue;
            }
            self.held.entry(*ino).or_default().add(bits, next_seq);
        }
        if answered > 0 && !self.void_below.is_empty() {
            self.void_below.retain(|_, below| *below > answered);
        }
    }

    /// Another rank wanted something back of an inode: it has moved there, and what answers to requests below a number say that
    /// this one lends was said before that.
    pub(crate) fn void(&mut self, ino: Ino, below: u64) {
        let known = self.void_below.entry(ino).or_default();
        *known = below.max(*known);
    }

    /// True if a lease in the answer to a request does not count.
    pub(crate) fn is_void(&self, ino: Ino, seq: u64) -> bool {
        self.void_below.get(&ino).is_some_and(|below| seq < *below)
    }

    /// Gives bits up. Which of them were held.
    pub(crate) fn take(&mut self, ino: Ino, bits: Lease) -> Lease {
        let Some(held) = self.held.get_mut(&ino) else { return Lease::NONE };
        let taken = held.bits & bits;
        held.bits = held.bits.without(bits);
        if held.bits.is_none() {
            self.held.remove(&ino);
        }
        taken
    }

    /// Gives everything up, by inode.
    pub(crate) fn take_all(&mut self) -> Vec<(Ino, Lease)> {
        let mut all: Vec<_> = self.held.drain().map(|(ino, held)| (ino, held.bits)).collect();
        all.sort_unstable();
        self.forgotten.clear();
        self.void_below.clear();
        all
    }

    /// Takes over what another rank lent.
    pub(crate) fn adopt(&mut self, ino: Ino, bits: Lease, next_seq: u64) {
        self.held.entry(ino).or_default().add(bits, next_seq);
    }

    /// True if a lease was held already when a request was sent.
    pub(crate) fn was_held(&self, ino: Ino, bits: Lease, seq: u64) -> bool {
        self.held.get(&ino).is_some_and(|held| held.bits.has(bits) && held.is_before(seq))
    }

    /// The lease on an inode.
    pub(crate) fn of(&self, ino: Ino) -> Lease {
        self.held.get(&ino).map_or(Lease::NONE, |held| held.bits)
    }

    /// Everything held, by inode.
    pub(crate) fn all(&self) -> Vec<(Ino, Lease)> {
        let mut all: Vec<_> = self.held.iter().map(|(ino, held)| (*ino, held.bits)).collect();
        all.sort_unstable();
        all
    }
}

impl Ranks {
    /// True if a lease covers the attributes of an inode.
    pub(crate) fn has_attr(&self, own: &Own, ino: Ino) -> bool {
        if own.is_any() && own.may_cache(ino, Lease::ATTR) {
            return true;
        }
        self.sessions.values().any(|session| session.leases.has_attr(ino))
    }

    pub(crate) fn remember(&mut self, ino: Ino) {
        self.sessions.values_mut().for_each(|session| _ = session.leases.forgotten.remove(&ino));
    }

    /// Gives back the leases of forgotten inodes.
    pub(crate) fn release_forgotten(&mut self, core: &mut Core, files: &Files, rank: Rank) {
        if !self.is_up(rank) {
            return;
        }
        let Some(session) = self.sessions.get_mut(&rank) else { return };
        let next_seq = session.next_seq;
        let mut released = Vec::new();
        for ino in std::mem::take(&mut session.leases.forgotten) {
            // An open file's attributes are in use here, whatever the kernel keeps.
            if files.map.contains_key(&ino) {
                continue;
            }
            let bits = session.leases.take(ino, Lease::ATTR | Lease::NAMES);
            if bits.has(Lease::NAMES) {
                core.names_lost.add(ino);
            }
            if !bits.is_none() {
                session.leases.void_below.insert(ino, next_seq);
                released.push((ino, bits));
            }
        }
        for batch in released.chunks(core.config.some(RELEASE_MAX)) {
            self.send(core, rank, ToServer::Release(batch.to_vec()));
        }
    }
}
