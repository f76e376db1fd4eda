//! Replicas that other ranks hold of this one's directories: who has which, and that they are asked back before a directory changes. What
//! goes to a holder is said in the order in which it was decided, and when it is durable: what is asked back was lent before.

use std::collections::BTreeMap;

use loligo_namespace::Need;
use loligo_types::{Event, Ino, Name, Rank, limits};

use crate::cluster::Atlas;
use crate::core::Core;
use crate::job::{Job, WaitReason};
use crate::load::Waiter;
use crate::peer::PeerMsg;
use crate::shortcuts::is_same_way;

/// Time that replicas count for the rank that lends them, milliseconds.
const LENT_MS: u64 = limits::REPLICA_MS + limits::REPLICA_MS / 10;
/// Questions that wait for records at most.
const LATE_MAX: usize = 10_000;

/// A question that waits for records.
pub(in crate::cluster) enum Late {
    Name(Ino, Name),
    /// With when it was asked, by the clock of who asks.
    Dir(Ino, u64),
}

/// All of them.
#[derive(Default)]
pub(crate) struct Lent {
    /// By directory, who has one; whether it was asked back.
    pub(in crate::cluster) by_ino: BTreeMap<Ino, BTreeMap<Rank, bool>>,
    /// Until when those of a rank count, milliseconds.
    pub(in crate::cluster) until_ms: BTreeMap<Rank, u64>,
    /// Questions that wait for records, and who asks.
    pub(in crate::cluster) late: Vec<(Rank, Late)>,
    /// Number of times that a replica was asked back.
    pub(crate) asked_back: u64,
}

impl Lent {
    /// True if no rank holds any replica.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_ino.is_empty()
    }

    /// Number of directories of which ranks hold replicas.
    pub(crate) fn len(&self) -> usize {
        self.by_ino.len()
    }

    /// Which, ascending.
    pub(in crate::cluster) fn inos(&self) -> Vec<Ino> {
        self.by_ino.keys().copied().collect()
    }

    pub(in crate::cluster) fn is_asked_back(&self, ino: Ino) -> bool {
        self.by_ino.get(&ino).is_some_and(|ranks| ranks.values().any(|asked| *asked))
    }

    /// The ranks of which those do not count any more.
    pub(in crate::cluster) fn late(&self, now_ms: u64) -> Vec<Rank> {
        self.until_ms.iter().filter(|(_, until)| **until < now_ms).map(|(rank, _)| *rank).collect()
    }

    /// A rank has none any more.
    pub(in crate::cluster) fn forget(&mut self, rank: Rank) {
        self.by_ino.retain(|_, ranks| {
            ranks.remove(&rank);
            !ranks.is_empty()
        });
        self.until_ms.remove(&rank);
    }

    /// A rank has one less.
    pub(in crate::cluster) fn give(&mut self, ino: Ino, rank: Rank) {
        if let Some(ranks) = self.by_ino.get_mut(&ino) {
            ranks.remove(&rank);
            if ranks.is_empty() {
                self.by_ino.remove(&ino);
            }
        }
    }

    /// Reads the records that a question needs, and answers later. False if so much is being read that it would only be asked for
    /// in vain.
    pub(in crate::cluster) fn answer_later(
        &mut self,
        core: &mut Core,
        atlas: &mut Atlas,
        from: Rank,
        what: Late,
        needs: Vec<Need>,
    ) -> bool {
        if needs.is_empty() || self.late.len() >= core.config.some(LATE_MAX) {
            return false;
        }
        self.late.push((from, what));
        atlas.load(core, needs, Waiter::Replicas);
        true
    }

    pub(in crate::cluster) fn note_holder(&mut self, core: &Core, rank: Rank) {
        self.until_ms.insert(rank, core.now.mono_ms + LENT_MS);
    }

    /// A rank goes on to hold what it has.
    pub(crate) fn keep_replicas(&mut self, core: &mut Core, from: Rank, sent_ms: u64) {
        // Those that have come to their end are not known any more.
        if self.until_ms.get(&from).is_some_and(|until| core.now.mono_ms <= *until) {
            self.note_holder(core, from);
            core.tell_durably(from, PeerMsg::ReplicasKept { sent_ms });
        }
    }

    /// Asks all who have replicas of some directories for them; whether somebody has one.
    pub(crate) fn take_replicas_back(&mut self, core: &mut Core, inos: &[Ino]) -> bool {
        let mut due = Vec::new();
        for ino in inos {
            let Some(ranks) = self.by_ino.get_mut(ino) else { continue };
            for (rank, asked) in ranks {
                if !std::mem::replace(asked, true) {
                    due.push((*rank, *ino));
                }
            }
        }
        self.asked_back += due.len() as u64;
        due.into_iter().for_each(|(rank, ino)| core.tell_durably(rank, PeerMsg::DropReplica { ino }));
        inos.iter().any(|ino| self.by_ino.contains_key(ino))
    }

    /// The same of all.
    pub(crate) fn take_all_replicas_back(&mut self, core: &mut Core) -> bool {
        let lent = self.inos();
        self.take_replicas_back(core, &lent)
    }

    /// Nothing, if a decided change may be applied as far as replicas go; else they are asked back, and this is what to wait for.
    pub(crate) fn settle_replicas(&mut self, core: &mut Core, job: &mut Job, events: &[Event]) -> Option<WaitReason> {
        let due = self.changed_replicas(core, events);
        if due.is_empty() || !self.take_replicas_back(core, &due) {
            return None;
        }
        core.parked.mark(job, due);
        Some(WaitReason::Replicas)
    }

    /// The directories that somebody has a replica of and that events change in a way that matters to it.
    fn changed_replicas(&self, core: &Core, events: &[Event]) -> Vec<Ino> {
        let lent = &self.by_ino;
        let changed = |event: &Event| match event {
            Event::Inode(inode) if lent.contains_key(&inode.ino) && inode.part_of().is_none() => {
                let before = core.tree.inode(inode.ino)?;
                (!is_same_way(before, inode)).then_some(inode.ino)
            }
            Event::InodeGone(ino) => lent.contains_key(ino).then_some(*ino),
            _ => None,
        };
        events.iter().filter_map(changed).collect()
    }

    /// Asserts that committed events make no replica untrue that somebody has: a mistake of this code, which simulations look
    /// for.
    #[inline]
    pub(crate) fn check_replicas(&self, core: &Core, events: &[Event]) {
        if cfg!(debug_assertions) && !self.is_empty() {
            let untrue = self.changed_replicas(core, events);
            assert!(untrue.is_empty(), "rank {} changes what others have replicas of: {untrue:?}", core.me());
        }
    }
}
