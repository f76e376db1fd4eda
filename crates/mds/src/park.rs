//! Requests that wait, and what for.
//!
//! A waiting request holds nothing that another one waits for. While it waits for recalls it *marks* the inodes that
//! it is about to touch: no lease or right is granted on a marked inode. So the set of holders that it waits for only
//! shrinks, each holder answers or is evicted in bounded time, and no order of locking is needed: no deadlock, no
//! starvation. Requests that conflict with nobody may pass it; they were concurrent.

use std::collections::{BTreeMap, VecDeque};

use loligo_types::Ino;

use crate::job::{Job, WaitReason};
use crate::session::Slot;
use crate::weight::Weights;

/// Reads that a request waits for before nothing leaves memory until it has all that it needs: a path over many directories in
/// a cache that holds fewer would else be read for ever.
const READS_MAX: usize = 100;

/// All waiting requests.
#[derive(Default)]
pub(crate) struct Parked {
    last_id: u64,
    jobs: BTreeMap<u64, (Job, WaitReason)>,
    weights: Weights,
    marks: BTreeMap<Ino, u32>,
    /// Those that are woken together: for the end of the grace time, for room, for the data of an inode.
    queues: BTreeMap<WaitReason, Vec<u64>>,
    /// Those whose wait is over, in the order in which they are to go on.
    ready: VecDeque<u64>,
}

impl Parked {
    /// The number under which a request waits.
    pub(crate) fn number(&mut self, job: &mut Job) -> u64 {
        if job.id == 0 {
            self.last_id += 1;
            job.id = self.last_id;
        }
        job.id
    }

    /// Lets it wait.
    pub(crate) fn park(&mut self, mut job: Job, why: WaitReason) {
        let id = self.number(&mut job);
        let alone = matches!(
            why,
            WaitReason::Load(_) | WaitReason::Recall(_) | WaitReason::Lock | WaitReason::Stop | WaitReason::Borrow
        );
        if !alone {
            self.queues.entry(why.clone()).or_default().push(id);
        }
        self.weights.add(&job);
        if let Some((before, _)) = self.jobs.insert(id, (job, why)) {
            self.weights.take(&before);
        }
    }

    /// One of the loads or recalls it waits for is done.
    pub(crate) fn less(&mut self, id: u64) {
        let Some((_, why)) = self.jobs.get_mut(&id) else { return };
        if *why == WaitReason::Close {
            return self.ready.push_back(id);
        }
        if let WaitReason::Load(left) | WaitReason::Recall(left) = why {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.ready.push_back(id);
            }
        }
    }

    /// Ends the wait of all that wait for this, in the order in which they came to it.
    pub(crate) fn wake(&mut self, which: &WaitReason) {
        if !self.queues.is_empty() {
            self.ready.extend(self.queues.remove(which).unwrap_or_default());
        }
    }

    /// Ends the wait of one.
    pub(crate) fn ready(&mut self, id: u64) {
        if self.jobs.contains_key(&id) && !self.ready.contains(&id) {
            self.ready.push_back(id);
        }
    }

    /// Forbids new grants on these.
    pub(crate) fn mark_inos(&mut self, inos: &[Ino]) {
        inos.iter().for_each(|ino| *self.marks.entry(*ino).or_default() += 1);
    }

    /// Allows them again.
    pub(crate) fn unmark_inos(&mut self, inos: &[Ino]) {
        for ino in inos {
            if let Some(count) = self.marks.get_mut(ino) {
                *count -= 1;
                if *count == 0 {
                    self.marks.remove(ino);
                }
            }
        }
    }

    /// The next one that may go on.
    pub(crate) fn next_ready(&mut self) -> Option<Job> {
        while let Some(id) = self.ready.pop_front() {
            if let Some(job) = self.take(id) {
                return Some(job);
            }
        }
        None
    }

    /// True if one may go on.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Takes one out.
    pub(crate) fn take(&mut self, id: u64) -> Option<Job> {
        let (job, _) = self.jobs.remove(&id)?;
        self.weights.take(&job);
        Some(job)
    }

    /// Takes out all that wait for this.
    pub(crate) fn take_waiting(&mut self, which: &WaitReason) -> Vec<Job> {
        let ids = self.queues.remove(which).unwrap_or_default();
        ids.into_iter().filter_map(|id| self.take(id)).collect()
    }

    /// Takes out those of a session.
    pub(crate) fn take_session(&mut self, slot: Slot) -> Vec<Job> {
        let ids: Vec<u64> = self.jobs.iter().filter(|(_, (job, _))| job.slot == slot).map(|(id, _)| *id).collect();
        for queue in self.queues.values_mut() {
            queue.retain(|id| ids.binary_search(id).is_err());
        }
        self.queues.retain(|_, queue| !queue.is_empty());
        ids.into_iter().filter_map(|id| self.take(id)).collect()
    }

    /// True if a request has read so much that the first of its records may have left memory before it had the rest.
    pub(crate) fn starves(&self) -> bool {
        self.jobs.values().any(|(job, why)| matches!(why, WaitReason::Load(_)) && job.reads > READS_MAX)
    }

    /// All, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Job, &WaitReason)> + '_ {
        self.jobs.values().map(|(job, why)| (job, why))
    }

    /// Number of waiting requests.
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// True if those of a session may be more, if all together may take so many bytes.
    pub(crate) fn has_room(&self, slot: Slot, most: u64) -> bool {
        self.weights.may_have_more(slot, most)
    }

    /// True if new grants on the inode are forbidden.
    #[inline]
    pub(crate) fn is_marked(&self, ino: Ino) -> bool {
        !self.marks.is_empty() && self.marks.contains_key(&ino)
    }

    /// Marks these for a request, instead of what it had marked before.
    pub(crate) fn mark(&mut self, job: &mut Job, inos: Vec<Ino>) {
        inos.iter().for_each(|ino| *self.marks.entry(*ino).or_default() += 1);
        self.unmark(job);
        job.marks = inos;
    }

    /// Takes a request's marks away.
    pub(crate) fn unmark(&mut self, job: &mut Job) {
        let marks = std::mem::take(&mut job.marks);
        self.unmark_inos(&marks);
    }
}
