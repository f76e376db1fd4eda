//! State of each inode as far as the adapter shares it with the kernel: the lookup count, whether the kernel has pages of it, and until
//! when answers under way are too old to be cached.
//!
//! Time is counted in ticks ([`Table::tick`]): every request remembers the tick at which it was submitted. When a lease
//! on an inode is given up, the inode gets a *barrier* at the current tick; answers to requests that were submitted at
//! or before it may have been decided under the lease that is gone, so they are passed on as not to be cached.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use loligo_types::{Attr, Ino};

pub(crate) const SHARDS: usize = 64;
/// Ticks for which a barrier is kept; far longer than an answer takes from the client to the kernel.
pub(crate) const BARRIER_TICKS: u32 = 400;
/// Ticks that an inode must be unknown to the kernel before its leases are given back.
const IDLE_TICKS: u32 = 10;

/// A number of the tick counter.
pub type Tick = u32;

#[derive(Default)]
struct Known {
    /// Lookups that the kernel has not forgotten.
    lookups: u64,
    /// Open handles in cached mode.
    cached: u32,
    /// Open handles through which pages may be mapped to be written.
    mappable: u32,
    /// The kernel may have pages of it.
    paged: bool,
    /// The kernel was given pages of it that others may write.
    others: bool,
    /// The right to cache was lost while such handles were open.
    uncached: bool,
    /// A record lock was taken since the file was first known.
    locked: bool,
    /// It had a setuid or setgid bit when last seen.
    setid: bool,
    /// It has no xattrs and no ACLs, as long as its attributes may be cached.
    plain: bool,
    /// The kernel was told that the file is so long, and of nothing shorter since.
    size: u64,
    /// Requests up to this tick must not be cached.
    barrier: Tick,
    /// When `lookups` became 0.
    idle: Tick,
}

impl Known {
    fn see(&mut self, attr: &Attr, cached: bool, start: Tick) -> bool {
        let cached = cached && start > self.barrier;
        self.setid = crate::convert::has_setid(attr);
        self.plain = cached && !attr.has_xattrs;
        self.size = self.size.min(attr.size);
        cached
    }
}

#[derive(Default)]
struct Shard {
    known: HashMap<u64, Known>,
    /// Inodes whose count became zero, oldest first.
    idle: VecDeque<(Tick, u64)>,
    /// Entries to look at again once a barrier is old.
    barred: VecDeque<(Tick, u64)>,
}

/// All inodes that the kernel knows.
pub struct Table {
    shards: Vec<Mutex<Shard>>,
    tick: AtomicU32,
    /// Inodes with `uncached`, to skip the look on every read.
    uncached: AtomicU64,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            tick: AtomicU32::new(1),
            uncached: AtomicU64::new(0),
        }
    }
}

/// Locks, whatever became of the thread that had it locked before.
pub(crate) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In which of [`SHARDS`] an inode is.
pub(crate) fn shard_of(ino: Ino) -> usize {
    (loligo_types::hash::spread(ino.0) >> 58) as usize
}

impl Table {
    fn shard(&self, ino: Ino) -> MutexGuard<'_, Shard> {
        guard(&self.shards[shard_of(ino)])
    }

    /// The current tick.
    pub fn now(&self) -> Tick {
        self.tick.load(Ordering::Acquire)
    }

    /// The kernel is about to be told of an inode by an answer to a request of `start`; `cached`: under a lease. Says
    /// whether the attributes may be cached, which they may not if the lease was given up meanwhile.
    pub fn told(&self, attr: &Attr, cached: bool, start: Tick) -> bool {
        let mut shard = self.shard(attr.ino);
        let known = shard.known.entry(attr.ino.0).or_default();
        known.lookups += 1;
        known.see(attr, cached, start)
    }

    /// Attributes of an inode are about to be passed on without a new reference. Says as [`Table::told`].
    pub fn seen(&self, attr: &Attr, cached: bool, start: Tick) -> bool {
        match self.shard(attr.ino).known.get_mut(&attr.ino.0) {
            Some(known) => known.see(attr, cached, start),
            None => cached,
        }
    }

    /// True if the kernel has been told of an inode and has not forgotten it.
    pub fn referenced(&self, ino: Ino) -> bool {
        self.shard(ino).known.get(&ino.0).is_some_and(|k| k.lookups > 0)
    }

    /// The kernel forgot `n` lookups of an inode.
    pub fn forget(&self, ino: Ino, n: u64) {
        let now = self.now();
        let mut shard = self.shard(ino);
        if let Some(known) = shard.known.get_mut(&ino.0) {
            known.lookups = known.lookups.saturating_sub(n);
            if known.lookups == 0 {
                known.idle = now;
                shard.idle.push_back((now, ino.0));
            }
        }
    }

    /// Bars answers that are on the way from being cached.
    pub fn bar(&self, ino: Ino) {
        let now = self.now();
        bar(&mut self.shard(ino), ino, now);
    }

    /// A handle is about to be opened with the right to cache, by a request of `start`. Says whether it may be used: not
    /// if the right was recalled meanwhile.
    pub fn open_cached(&self, ino: Ino, start: Tick) -> bool {
        let mut shard = self.shard(ino);
        let known = shard.known.entry(ino.0).or_default();
        let allowed = start > known.barrier && !known.uncached;
        if allowed {
            known.cached += 1;
        }
        allowed
    }

    /// A handle in cached mode is gone.
    pub fn close_cached(&self, ino: Ino) {
        if let Some(known) = self.shard(ino).known.get_mut(&ino.0) {
            known.cached = known.cached.saturating_sub(1);
            if known.cached == 0 && std::mem::take(&mut known.uncached) {
                self.uncached.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// A handle is about to be opened for reading and writing: its pages can be mapped to be written, which the kernel tells nobody.
    pub fn open_mappable(&self, ino: Ino) {
        self.shard(ino).known.entry(ino.0).or_default().mappable += 1;
    }

    /// Such a handle is gone; what was written through its mappings was written back before.
    pub fn close_mappable(&self, ino: Ino) {
        if let Some(known) = self.shard(ino).known.get_mut(&ino.0) {
            known.mappable = known.mappable.saturating_sub(1);
        }
    }

    /// The kernel asks in order to fill pages, or writes what it has in pages. It does not tell when it drops them.
    pub fn page(&self, ino: Ino) {
        self.shard(ino).known.entry(ino.0).or_default().paged = true;
    }

    /// The kernel is given pages of a file that others may write: a program may have it mapped.
    pub fn page_of_others(&self, ino: Ino) {
        self.shard(ino).known.entry(ino.0).or_default().others = true;
    }

    /// True if the kernel was ever given such pages of the file.
    pub fn has_pages_of_others(&self, ino: Ino) -> bool {
        self.shard(ino).known.get(&ino.0).is_some_and(|k| k.others)
    }

    /// True if the kernel may have pages of the file.
    pub fn may_have_pages(&self, ino: Ino) -> bool {
        self.shard(ino).known.get(&ino.0).is_some_and(|k| k.paged)
    }

    /// True if the kernel may have pages of the file that were written through a mapping and not written back.
    pub fn may_have_dirty_pages(&self, ino: Ino) -> bool {
        self.shard(ino).known.get(&ino.0).is_some_and(|k| k.paged && k.mappable > 0)
    }

    /// The right to cache is lost: handles that are open in cached mode must not leave pages behind from now on, and
    /// opens on the way must not be cached.
    pub fn lose_cache(&self, ino: Ino) {
        let now = self.now();
        let mut shard = self.shard(ino);
        bar(&mut shard, ino, now);
        if let Some(known) = shard.known.get_mut(&ino.0)
            && known.cached > 0
            && !std::mem::replace(&mut known.uncached, true)
        {
            self.uncached.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// True if pages of the inode must not stay in the kernel although it has handles in cached mode.
    pub fn is_uncached(&self, ino: Ino) -> bool {
        self.uncached.load(Ordering::Relaxed) != 0 && self.shard(ino).known.get(&ino.0).is_some_and(|k| k.uncached)
    }

    /// The kernel was told that a file is so long, in a way that it cannot pass over.
    pub fn grown(&self, ino: Ino, size: u64) {
        let mut shard = self.shard(ino);
        let known = shard.known.entry(ino.0).or_default();
        known.size = known.size.max(size);
    }

    /// The kernel is about to be told, in a way that it may pass over, that a file ends here.
    pub fn ends(&self, ino: Ino, size: u64) {
        if let Some(known) = self.shard(ino).known.get_mut(&ino.0) {
            known.size = known.size.min(size);
        }
    }

    /// True if the kernel surely knows this size of a file, if it was not cut.
    pub fn knows_size(&self, ino: Ino, size: u64) -> bool {
        self.shard(ino).known.get(&ino.0).is_some_and(|k| k.size >= size)
    }

    /// A record lock is taken on the file: closing any descriptor of it matters from now on.
    pub fn lock_taken(&self, ino: Ino) {
        self.shard(ino).known.entry(ino.0).or_default().locked = true;
    }

    /// True if a record lock was ever taken on the file.
    pub fn ever_locked(&self, ino: Ino) -> bool {
        self.shard(ino).known.get(&ino.0).is_some_and(|k| k.locked)
    }

    /// True if the file had a setuid or setgid bit when last seen.
    pub fn setid(&self, ino: Ino) -> bool {
        self.shard(ino).known.get(&ino.0).is_some_and(|k| k.setid)
    }

    /// True if a lease says that the inode has no xattrs and no ACLs.
    pub fn has_no_xattrs(&self, ino: Ino) -> bool {
        self.shard(ino).known.get(&ino.0).is_some_and(|k| k.plain)
    }

    /// Next tick. Returns the inodes that the kernel has not known for a while: their leases may be given back. Answers
    /// on the way that name them will not be cached.
    pub fn advance(&self) -> Vec<Ino> {
        let now = self.tick.fetch_add(1, Ordering::AcqRel);
        let mut gone = Vec::new();
        for shard in &self.shards {
            let mut shard = guard(shard);
            while let Some((since, ino)) = shard.idle.front().copied().filter(|(t, _)| t + IDLE_TICKS < now) {
                shard.idle.pop_front();
                if shard.known.get(&ino).is_some_and(|k| k.lookups == 0 && k.idle == since && k.cached == 0) {
                    bar(&mut shard, Ino(ino), now);
                    gone.push(Ino(ino));
                }
            }
            while let Some((_, ino)) = shard.barred.front().copied().filter(|(t, _)| t + BARRIER_TICKS < now) {
                shard.barred.pop_front();
                if shard.known.get(&ino).is_some_and(|k| {
                    k.lookups == 0 && k.cached == 0 && k.mappable == 0 && k.barrier + BARRIER_TICKS < now
                }) {
                    shard.known.remove(&ino);
                }
            }
        }
        gone
    }

    /// Inodes in the table.
    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| guard(shard).known.len()).sum()
    }
}

fn bar(shard: &mut Shard, ino: Ino, now: Tick) {
    let known = shard.known.entry(ino.0).or_default();
    known.plain = false;
    if known.barrier != now {
        known.barrier = now;
        shard.barred.push_back((now, ino.0));
    }
}

#[cfg(test)]
mod tests {
    use loligo_types::{Inode, Kind, Time};

    use super::*;

    fn attr(ino: u64) -> Attr {
        Inode::new(Ino(ino), Kind::File, 0o644, 0, 0, Ino::ROOT, Time(0)).attr()
    }

    #[test]
    fn an_answer_on_the_way_is_not_cached_after_a_recall() {
        let table = Table::default();
        let start = table.now();
        assert!(table.told(&attr(300), true, start));
        table.bar(Ino(300));
        assert!(!table.seen(&attr(300), true, start));
        table.advance();
        assert!(table.seen(&attr(300), true, table.now()));
    }

    #[test]
    fn an_unknown_inode_is_barred_too() {
        let table = Table::default();
        table.bar(Ino(300));
        assert!(!table.told(&attr(300), true, table.now()));
    }

    #[test]
    fn leases_are_given_back_only_when_the_kernel_forgot_all_lookups_for_a_while() {
        let table = Table::default();
        table.told(&attr(300), true, 1);
        table.told(&attr(300), true, 1);
        table.forget(Ino(300), 1);
        for _ in 0..2 * IDLE_TICKS {
            assert!(table.advance().is_empty());
        }
        let start = table.now();
        table.forget(Ino(300), 1);
        let gone: Vec<Ino> = (0..2 * IDLE_TICKS).flat_map(|_| table.advance()).collect();
        assert_eq!(gone, vec![Ino(300)]);
        assert!(!table.told(&attr(300), true, start), "an answer from before is not cached");
        assert!(table.told(&attr(300), true, table.now()), "a later one is");
    }

    #[test]
    fn an_inode_that_is_looked_up_again_keeps_its_leases() {
        let table = Table::default();
        table.told(&attr(300), true, 1);
        table.forget(Ino(300), 1);
        table.told(&attr(300), true, 1);
        assert!((0..2 * IDLE_TICKS).all(|_| table.advance().is_empty()));
        assert!(table.referenced(Ino(300)));
    }

    #[test]
    fn a_table_shrinks_after_all_is_forgotten() {
        let table = Table::default();
        for ino in 300..400 {
            table.told(&attr(ino), true, 1);
            table.forget(Ino(ino), 1);
        }
        for _ in 0..2 * (IDLE_TICKS + BARRIER_TICKS) {
            table.advance();
        }
        assert_eq!(table.count(), 0);
    }

    #[test]
    fn losing_the_cache_concerns_open_handles_and_opens_on_the_way() {
        let table = Table::default();
        let start = table.now();
        assert!(table.open_cached(Ino(300), start));
        assert!(!table.is_uncached(Ino(300)));
        table.lose_cache(Ino(300));
        assert!(table.is_uncached(Ino(300)));
        table.advance();
        assert!(!table.open_cached(Ino(300), table.now()), "as long as the other handle is open");
        table.close_cached(Ino(300));
        assert!(!table.is_uncached(Ino(300)));
        assert!(!table.open_cached(Ino(300), start));
        assert!(table.open_cached(Ino(300), table.now()));
    }

    #[test]
    fn pages_may_be_dirty_while_a_handle_could_map_them() {
        let table = Table::default();
        table.open_mappable(Ino(300));
        assert!(!table.may_have_dirty_pages(Ino(300)), "there are none");
        table.page(Ino(300));
        assert!(table.may_have_pages(Ino(300)) && table.may_have_dirty_pages(Ino(300)));
        table.close_mappable(Ino(300));
        assert!(table.may_have_pages(Ino(300)) && !table.may_have_dirty_pages(Ino(300)));
    }

    #[test]
    fn a_size_is_sure_until_the_kernel_may_have_been_told_of_a_smaller_one() {
        let table = Table::default();
        let of = |size| Attr { size, ..attr(300) };
        table.told(&of(700), false, 1);
        assert!(!table.knows_size(Ino(300), 700), "it may have passed over that");
        table.grown(Ino(300), 700);
        table.seen(&of(900), false, 1);
        assert!(table.knows_size(Ino(300), 700) && !table.knows_size(Ino(300), 701));
        table.grown(Ino(300), 500);
        assert!(table.knows_size(Ino(300), 700), "nothing makes it smaller");
        table.seen(&of(600), false, 1);
        assert!(table.knows_size(Ino(300), 600) && !table.knows_size(Ino(300), 700));
        table.ends(Ino(300), 10);
        assert!(!table.knows_size(Ino(300), 600));
    }

    #[test]
    fn setid_bits_are_remembered_as_last_seen() {
        let table = Table::default();
        table.told(&Attr { mode: 0o4755, ..attr(300) }, true, 1);
        assert!(table.setid(Ino(300)));
        table.seen(&attr(300), true, 1);
        assert!(!table.setid(Ino(300)));
    }

    #[test]
    fn the_absence_of_xattrs_is_known_only_under_a_lease() {
        let table = Table::default();
        assert!(!table.told(&attr(300), false, 1));
        assert!(!table.has_no_xattrs(Ino(300)));
        assert!(table.seen(&attr(300), true, 1));
        assert!(table.has_no_xattrs(Ino(300)));
        table.bar(Ino(300));
        assert!(!table.has_no_xattrs(Ino(300)));
        assert!(!table.seen(&attr(300), true, 1), "decided before the recall");
        assert!(!table.has_no_xattrs(Ino(300)));
        table.advance();
        table.seen(&Attr { has_xattrs: true, ..attr(300) }, true, table.now());
        assert!(!table.has_no_xattrs(Ino(300)));
    }
}
