//! Lookup leases: promises to clients that a directory on a path stays where it is for a time, and may be searched by those that may now.
//! No holder is remembered, only the latest end: `IndexFS`'s stateless leases (Xiao et al., `SoCC` 2015, digest §2.3). The length of a
//! lease is decided here. Leases in answers, and the wait of changes, are in `lookup.rs`.
//!
//! A time is told, not a moment, and the client counts it from before it asked: so clocks need not agree, only run alike. Here it counts
//! for a tenth longer: a client's clock may so run a tenth slower than this one.

use loligo_types::{Ino, LOOKUP_LEASE_MS_MAX, LeaseTime, LookupLease};

use loligo_types::hash::IntMap;

/// Most directories of which it is known; beyond, nothing new is promised.
const MOST: usize = 1 << 18;
/// Time for which counts of looks and changes of a directory are remembered, milliseconds after its last lease has ended.
const KEPT_MS: u64 = 10_000;
/// More looks and changes than this are halved, both: what was long ago counts less.
const SAMPLES_MAX: u32 = 1024;
/// By depth (digest §3.9): so long at the root, a half of that one below, a third, and never less.
const DEPTH_MS: u32 = 6400;
const DEPTH_MS_MIN: u32 = 100;
/// By rate: so long for what only is asked for; and most, by depth, for what nothing is known of.
const RATE_MS: u32 = 800;
const UNKNOWN_MS: u32 = 400;

/// Loss where clocks are read in whole milliseconds: by the rank that promises, by the client that asks and goes by it, and
/// of the tenth.
const ROUNDED_MS: u64 = 4;

/// So long this rank waits for what was promised for a time, milliseconds.
fn longer(ms: u64) -> u64 {
    ms + ms / 10 + ROUNDED_MS
}

/// The longest that anything promised lasts.
fn longest() -> u64 {
    longer(u64::from(LOOKUP_LEASE_MS_MAX))
}

/// State of one directory.
#[derive(Clone, Copy, Default)]
struct Promise {
    until_ms: u64,
    looks: u32,
    changes: u32,
}

/// All of them.
#[derive(Default)]
pub(crate) struct LookupLeases {
    by_ino: IntMap<Ino, Promise>,
    /// No single one lasts longer.
    latest_ms: u64,
    /// Until then it is not known what others, or this rank in an earlier life, have promised of what has such a policy.
    floor_ms: u64,
    /// Somebody waits for the end of one.
    awaited: bool,
    swept_ms: u64,
    /// Number of leases given so far, and of changes that have waited.
    pub(crate) given: u64,
    pub(crate) waits: u64,
}

impl LookupLeases {
    /// The time for which a directory can be promised to stay as it is, milliseconds; 0: not at all. It counts as a look at it. `depth`:
    /// below the root.
    pub(crate) fn time(&mut self, ino: Ino, lease: LookupLease, depth: u32) -> u16 {
        let by_depth = (DEPTH_MS / (depth + 1)).max(DEPTH_MS_MIN).min(u32::from(LOOKUP_LEASE_MS_MAX));
        let ms = match lease.time {
            LeaseTime::None => return 0,
            LeaseTime::Ms(ms) => return ms,
            LeaseTime::Depth => by_depth,
            LeaseTime::Rate => match self.by_ino.get_mut(&ino) {
                Some(known) if known.looks + known.changes > 1 => {
                    known.looks += 1;
                    if known.looks + known.changes > SAMPLES_MAX {
                        (known.looks, known.changes) = (known.looks / 2, known.changes / 2);
                    }
                    RATE_MS * known.looks / (known.looks + known.changes).max(1)
                }
                known => {
                    if let Some(known) = known {
                        known.looks += 1;
                    } else if self.by_ino.len() < MOST {
                        self.by_ino.insert(ino, Promise { looks: 1, ..Promise::default() });
                    }
                    by_depth.min(UNKNOWN_MS)
                }
            },
        };
        u16::try_from(ms).unwrap_or(LOOKUP_LEASE_MS_MAX)
    }

    /// It is promised for so long from now on. Whether there is room to remember that.
    pub(crate) fn give(&mut self, ino: Ino, ms: u16, now_ms: u64) -> bool {
        if self.by_ino.len() >= MOST && !self.by_ino.contains_key(&ino) {
            return false;
        }
        self.given += 1;
        self.note(ino, longer(u64::from(ms)), now_ms);
        true
    }

    /// Another rank has promised it, and is to wait for so long: the tenth is in it.
    pub(crate) fn note(&mut self, ino: Ino, left_ms: u64, now_ms: u64) {
        let until = now_ms + left_ms.min(longest());
        let promise = self.by_ino.entry(ino).or_default();
        promise.until_ms = promise.until_ms.max(until);
        self.latest_ms = self.latest_ms.max(until);
    }

    /// For how long this rank would wait for the end of what is promised of it, milliseconds.
    pub(crate) fn left_ms(&self, ino: Ino, now_ms: u64) -> u32 {
        let left = self.by_ino.get(&ino).map_or(0, |promise| promise.until_ms.saturating_sub(now_ms));
        left.min(longest()) as u32
    }

    /// Anything may have been promised by whom this rank does not know.
    pub(crate) fn raise_floor(&mut self, now_ms: u64) {
        self.floor_ms = self.floor_ms.max(now_ms + longest());
    }

    /// True if nothing is promised.
    #[inline]
    pub(crate) fn is_empty(&self, now_ms: u64) -> bool {
        self.latest_ms <= now_ms && self.floor_ms <= now_ms
    }

    /// True if anything is promised; `unknown`: also if only others may have.
    pub(crate) fn is_any(&self, now_ms: u64, unknown: bool) -> bool {
        self.latest_ms > now_ms || unknown && self.floor_ms > now_ms
    }

    /// True if a directory is promised to stay as it is by this rank, or by another one that has said so.
    pub(crate) fn holds(&self, ino: Ino, now_ms: u64) -> bool {
        self.latest_ms > now_ms && self.by_ino.get(&ino).is_some_and(|promise| promise.until_ms > now_ms)
    }

    /// True if it may be promised by somebody else, if it has a policy that allows it.
    pub(crate) fn may_hold(&self, now_ms: u64) -> bool {
        self.floor_ms > now_ms
    }

    /// A change has to wait, or still has to.
    pub(crate) fn wait(&mut self, first: bool) {
        (self.awaited, self.waits) = (true, self.waits + u64::from(first));
    }

    /// It is about to change: that counts for how long others are promised.
    pub(crate) fn changes(&mut self, ino: Ino) {
        if let Some(known) = self.by_ino.get_mut(&ino) {
            known.changes += 1;
        }
    }

    /// Forgets what has ended long ago. Whether somebody waits for an end.
    pub(crate) fn tick(&mut self, now_ms: u64) -> bool {
        let full = self.by_ino.len() >= MOST;
        if now_ms >= self.swept_ms + KEPT_MS || full && now_ms >= self.swept_ms + longest() {
            self.swept_ms = now_ms;
            let kept_ms = if full { 0 } else { KEPT_MS };
            self.by_ino.retain(|_, promise| promise.until_ms + kept_ms > now_ms);
        }
        std::mem::take(&mut self.awaited)
    }

    /// Number of directories of which something is known.
    pub(crate) fn len(&self) -> usize {
        self.by_ino.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIR: Ino = Ino(7);

    fn lease(text: &str) -> LookupLease {
        LookupLease::named(text.as_bytes()).expect("a policy")
    }

    #[test]
    fn one_counts_a_tenth_longer_here_and_the_longest_of_several_counts() {
        let mut promises = LookupLeases::default();
        assert!(promises.give(DIR, 250, 1000));
        assert!(promises.give(DIR, 50, 1100));
        assert!(promises.holds(DIR, 1278) && !promises.holds(DIR, 1279) && !promises.holds(Ino(8), 1100));
        assert!(!promises.is_empty(1278) && promises.is_empty(1279));
        assert_eq!((promises.left_ms(DIR, 1100), promises.left_ms(DIR, 2000)), (179, 0));
    }

    #[test]
    fn what_nobody_knows_lasts_as_long_as_the_longest_could() {
        let mut promises = LookupLeases::default();
        promises.raise_floor(500);
        assert!(promises.may_hold(1603) && !promises.may_hold(1604));
        assert!(!promises.holds(DIR, 600));
    }

    #[test]
    fn by_depth_it_is_shorter_further_down_and_never_too_short() {
        let mut promises = LookupLeases::default();
        let mut at = |depth| promises.time(DIR, lease("depth"), depth);
        assert_eq!([at(0), at(6), at(9), at(63), at(10_000)], [1000, 914, 640, 100, 100]);
    }

    #[test]
    fn by_rate_it_is_the_shorter_the_more_often_it_changes() {
        let mut promises = LookupLeases::default();
        let time = |promises: &mut LookupLeases| promises.time(DIR, lease("rate"), 3);
        assert_eq!([time(&mut promises), time(&mut promises)], [400, 400], "nothing is known of it yet");
        assert_eq!(time(&mut promises), 800);
        (0..3).for_each(|_| promises.changes(DIR));
        assert_eq!(time(&mut promises), 800 * 4 / 7);
        for _ in 0..10_000 {
            time(&mut promises);
        }
        assert!(time(&mut promises) >= 790, "what was long ago counts less");
    }

    #[test]
    fn what_has_ended_is_forgotten_and_nothing_is_promised_that_cannot_be_remembered() {
        let mut promises = LookupLeases::default();
        for ino in 0..MOST as u64 {
            assert!(promises.give(Ino(ino), 100, 20_000));
        }
        assert!(!promises.give(Ino(u64::MAX), 100, 20_050));
        assert!(promises.give(DIR, 1000, 20_050));
        promises.wait(true);
        assert!(promises.tick(20_200) && !promises.tick(20_200));
        assert_eq!(promises.len(), 1, "one is left");
        assert!(promises.give(Ino(u64::MAX), 100, 20_200));
    }
}
