//! The names that the kernel was told to believe without asking again, by directory, so that it can be told of each of them when that
//! ends. What they lead to is not known here, and whether the kernel has kept them neither: there may be more here than it has, never less.
//!
//! Three things keep it from being less.
//! - *Answers on the way to the kernel.* Time is counted in moments, and a new one begins whenever names are doubted: an answer is to be
//!   believed only if nothing of its directory was doubted since its request was taken from the kernel.
//! - *Answers that the kernel is just taking in.* Most are taken in under the directory's lock, which the kernel takes before it doubts
//!   a name. Not so the answer to a lookup of a name that the kernel has, and wants to know to be true still: the thread that asked sets how
//!   long the name is believed some moment after it was woken. So it is noted to whom such an answer goes until it asks again.
//! - *Names that the kernel drops by itself* (removed, renamed): they stay here for longer than it takes to do that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use loligo_types::Ino;

use crate::table::{BARRIER_TICKS, SHARDS, Tick, guard, shard_of};

/// So many names of one directory are known one by one. To tell the kernel of all of them takes some 0.1 s.
const NAMES_MAX: usize = 1 << 16;
/// For so long names of a directory are not believed out of which something has moved to where no names are lent: others may follow it.
const LEAVES_TICKS: u32 = 200;
/// An answer that was taken in later than this after it was told counts from when that was noticed.
const TAKEN_LATE: Duration = Duration::from_millis(10);
/// Time for which the last moment is kept at which the kernel was told to believe a name of a directory. It is longer than the time limit of names
/// and the longest wait for a thread that takes an answer in together, so a wait for the limit of a directory finds it.
const TOLD_KEPT: Duration = Duration::from_secs(10);
/// With the number of a directory: threads that are not seen. No thread has such a number.
const UNSEEN: u64 = 1 << 63;

/// A number of a moment.
pub type Moment = u64;

/// Names of a directory that the kernel may have cached and that no lease covers any more.
#[derive(PartialEq, Eq, Debug)]
pub enum Doubted {
    /// These names at most.
    Names(Vec<Box<[u8]>>),
    /// More than are known one by one.
    Many,
}

/// One directory.
#[derive(Default)]
struct Known {
    /// Each name with the tick since which the kernel drops it by itself; 0: it does not.
    names: HashMap<Box<[u8]>, Tick>,
    /// There were more.
    many: bool,
    /// Answers to requests from before this moment are not believed.
    since: Moment,
    /// Until this tick none are.
    leaves: Tick,
    /// When the kernel was last told to believe a name.
    told: Option<Instant>,
}

impl Known {
    fn add(&mut self, name: &[u8], now: Tick) {
        if self.many {
            return;
        }
        if let Some(gone) = self.names.get_mut(name) {
            *gone = 0;
            return;
        }
        if self.names.len() >= NAMES_MAX {
            self.names.retain(|_, gone| *gone == 0 || *gone + BARRIER_TICKS >= now);
            if self.names.len() >= NAMES_MAX {
                self.many = true;
                self.names = HashMap::new();
                return;
            }
        }
        self.names.insert(name.into(), 0);
    }

    /// True if a cached name of the kernel is covered. A name that it had dropped before is another one.
    fn has(&self, name: &[u8]) -> bool {
        self.many || self.names.get(name) == Some(&0)
    }
}

/// An answer to a thread that may not have taken it in yet.
struct InHand {
    /// The thread; 0: one that this process cannot see, so that it is not known when that one asks again.
    tid: u32,
    dir: u64,
    /// Number of the request.
    unique: u64,
    /// The kernel has the answer.
    given: bool,
    since: Tick,
    /// When it was told, where the time for which a name is believed is limited.
    told: Option<Instant>,
}

/// All directories, and all threads that were told of a name lately.
pub struct DentryCache {
    dirs: Vec<Mutex<HashMap<u64, Known>>>,
    /// Number of calls under way for which the kernel has a directory locked, as far as the requests show it.
    calls: Vec<Mutex<HashMap<u64, u32>>>,
    /// By thread; of those that are not seen one for each directory is kept.
    in_hand: Vec<Mutex<HashMap<u64, InHand>>>,
    moment: AtomicU64,
    /// Answers to requests from before this moment are not believed, whatever they are about.
    floor: AtomicU64,
}

impl Default for DentryCache {
    fn default() -> DentryCache {
        DentryCache {
            dirs: (0..SHARDS).map(|_| Mutex::default()).collect(),
            calls: (0..SHARDS).map(|_| Mutex::default()).collect(),
            in_hand: (0..SHARDS).map(|_| Mutex::default()).collect(),
            moment: AtomicU64::new(1),
            floor: AtomicU64::new(0),
        }
    }
}

impl DentryCache {
    fn dir(&self, dir: Ino) -> MutexGuard<'_, HashMap<u64, Known>> {
        guard(&self.dirs[shard_of(dir)])
    }

    fn calls(&self, dir: Ino) -> MutexGuard<'_, HashMap<u64, u32>> {
        guard(&self.calls[shard_of(dir)])
    }

    fn of_thread(&self, key: u64) -> MutexGuard<'_, HashMap<u64, InHand>> {
        guard(&self.in_hand[key as usize % SHARDS])
    }

    /// The present moment. Of every request it is noted when it is taken from the kernel.
    pub fn now(&self) -> Moment {
        self.moment.load(Ordering::Acquire)
    }

    fn next(&self) -> Moment {
        self.moment.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The kernel is about to be told that a name, present or absent, can be believed, in answer to a request of a moment. Whether it may be
    /// told that.
    pub fn may_believe(&self, dir: Ino, name: &[u8], moment: Moment, now: Tick) -> bool {
        let mut dirs = self.dir(dir);
        if moment < self.floor.load(Ordering::Acquire) {
            return false;
        }
        let known = dirs.entry(dir.0).or_default();
        let may = moment >= known.since && now >= known.leaves;
        if may {
            known.add(name, now);
            known.told = Some(Instant::now());
        }
        may
    }

    /// Nothing that the kernel was told of a directory's names is to be believed any more, nor what is on the way. What it may believe,
    /// and when it was last told so.
    pub fn doubt(&self, dir: Ino) -> (Doubted, Option<Instant>) {
        let mut dirs = self.dir(dir);
        let known = dirs.entry(dir.0).or_default();
        known.since = self.next();
        if std::mem::take(&mut known.many) {
            return (Doubted::Many, known.told);
        }
        (Doubted::Names(std::mem::take(&mut known.names).into_keys().collect()), known.told)
    }

    /// When the kernel was last told to believe a name of a directory, as far as that is known still.
    pub fn told(&self, dir: Ino) -> Option<Instant> {
        self.dir(dir).get(&dir.0).and_then(|known| known.told)
    }

    /// An answer has been taken in by now. The kernel counts the time for which it believes a name from then on.
    fn taken(&self, in_hand: &InHand) {
        if in_hand.told.is_some_and(|told| told.elapsed() > TAKEN_LATE)
            && let Some(known) = self.dir(Ino(in_hand.dir)).get_mut(&in_hand.dir)
        {
            known.told = Some(Instant::now());
        }
    }

    /// The kernel knows nothing of an inode any more, so no name if that was a directory.
    pub fn forget(&self, ino: Ino) {
        if let Some(known) = self.dir(ino).get_mut(&ino.0) {
            *known = Known { since: self.next(), leaves: known.leaves, ..Known::default() };
        }
    }

    /// The kernel has a name no more, by its own doing.
    pub fn removed(&self, dir: Ino, name: &[u8], now: Tick) {
        if let Some(gone) = self.dir(dir).get_mut(&dir.0).and_then(|known| known.names.get_mut(name)) {
            *gone = now;
        }
    }

    /// A request of a moment has renamed something, and the kernel takes what it knows of the old name for the new one (`swapped`: and the other way round).
    /// `lent`: the new name (both names) may be believed. Whether the kernel may do so; else it may believe what it must not, until that is dropped; so that
    /// this does not happen again with the next one, no name of the directory is believed for a while.
    pub fn renamed(
        &self,
        (dir, name): (Ino, &[u8]),
        (new_dir, new_name): (Ino, &[u8]),
        swapped: bool,
        lent: bool,
        moment: Moment,
        now: Tick,
    ) -> bool {
        // Who doubts a name while it moves waits for the directory's lock, and then finds it no more: it may be believed all the same.
        let believed = |dir: Ino, name: &[u8]| {
            let dirs = self.dir(dir);
            let doubted = |known: &Known| moment < known.since;
            moment < self.floor.load(Ordering::Acquire)
                || dirs.get(&dir.0).is_some_and(|known| doubted(known) || known.has(name))
        };
        let (old, new) = (believed(dir, name), swapped && believed(new_dir, new_name));
        // The new ones first: whoever doubts meanwhile meets one or the other.
        let mut may = !old || lent && self.may_believe(new_dir, new_name, moment, now);
        may &= !new || lent && self.may_believe(dir, name, moment, now);
        // What is on the way of the old name will be taken in for the new one.
        let barred = self.next();
        for dir in [Some(dir), swapped.then_some(new_dir)].into_iter().flatten() {
            self.dir(dir).entry(dir.0).or_default().since = barred;
        }
        if !swapped {
            self.removed(dir, name, now);
        }
        if !may {
            for dir in [old.then_some(dir), new.then_some(new_dir)].into_iter().flatten() {
                self.dir(dir).entry(dir.0).or_default().leaves = now + LEAVES_TICKS;
            }
        }
        may
    }

    /// A call begins for which the kernel has a directory locked.
    pub fn begin(&self, dir: Ino) {
        *self.calls(dir).entry(dir.0).or_default() += 1;
    }

    /// It has its answer.
    pub fn end(&self, dir: Ino) {
        let mut calls = self.calls(dir);
        if let Some(count) = calls.get_mut(&dir.0) {
            *count -= 1;
            if *count == 0 {
                calls.remove(&dir.0);
            }
        }
    }

    /// True if no such call is under way.
    pub fn is_free(&self, dir: Ino) -> bool {
        !self.calls(dir).contains_key(&dir.0)
    }

    /// A thread is about to be told of a name of a directory that it can believe it, in answer to this request. `limited`: for a limited
    /// time.
    pub fn answers(&self, tid: u32, unique: u64, dir: Ino, limited: bool, now: Tick) {
        let key = if tid == 0 { UNSEEN | dir.0 } else { u64::from(tid) };
        let told = limited.then(Instant::now);
        self.of_thread(key).insert(key, InHand { tid, dir: dir.0, unique, given: false, since: now, told });
    }

    /// The kernel has been given the answer.
    pub fn answered(&self, tid: u32, unique: u64) {
        let key = u64::from(tid);
        if let Some(in_hand) = self.of_thread(key).get_mut(&key).filter(|in_hand| in_hand.unique == unique) {
            in_hand.given = true;
        }
    }

    /// A thread asks for something else and waits for that, so it has taken in what it was told before.
    pub fn asks(&self, tid: u32) {
        let in_hand = self.of_thread(tid.into()).remove(&tid.into());
        in_hand.inspect(|in_hand| self.taken(in_hand));
    }

    /// True if a thread may not have processed yet an answer with a name of the directory. `is_past`: true if a thread has finished what
    /// the answer woke it for.
    pub fn in_hand(&self, dir: Ino, mut is_past: impl FnMut(u32) -> bool) -> bool {
        let mut any = false;
        for shard in &self.in_hand {
            guard(shard).retain(|_, in_hand| {
                if in_hand.dir != dir.0 {
                    return true;
                }
                let stays = !(in_hand.given && is_past(in_hand.tid));
                if !stays {
                    self.taken(in_hand);
                }
                any |= stays;
                stays
            });
        }
        any
    }

    /// Forgets what is of no use any more: directories of which nothing is believed, answers of long ago.
    pub fn tidy(&self, now: Tick) {
        for shard in &self.dirs {
            let mut dirs = guard(shard);
            // What is on the way may be of a directory that is forgotten now.
            self.floor.fetch_max(self.next(), Ordering::AcqRel);
            dirs.retain(|_, known| {
                let is_limit_running = known.told.is_some_and(|told| told.elapsed() < TOLD_KEPT);
                known.many || !known.names.is_empty() || known.leaves > now || is_limit_running
            });
        }
        for shard in &self.in_hand {
            guard(shard).retain(|_, in_hand| in_hand.since + BARRIER_TICKS >= now);
        }
    }

    /// Directories and threads of which something is known.
    #[cfg(test)]
    fn sizes(&self) -> (usize, usize) {
        (self.dirs.iter().map(|s| guard(s).len()).sum(), self.in_hand.iter().map(|s| guard(s).len()).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: Ino = Ino(300);
    const E: Ino = Ino(301);

    fn names(doubted: Doubted) -> Vec<String> {
        let Doubted::Names(names) = doubted else { panic!("{doubted:?}") };
        let mut names: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn names_are_doubted_by_directory_and_once() {
        let believed = DentryCache::default();
        let moment = believed.now();
        for (dir, name) in [(D, b"a"), (D, b"b"), (E, b"c"), (D, b"a")] {
            assert!(believed.may_believe(dir, name, moment, 1));
        }
        assert_eq!(names(believed.doubt(D).0), ["a", "b"]);
        assert_eq!(names(believed.doubt(D).0), [""; 0]);
        assert_eq!(names(believed.doubt(E).0), ["c"]);
    }

    #[test]
    fn of_what_the_kernel_forgot_nothing_is_believed() {
        let believed = DentryCache::default();
        let moment = believed.now();
        assert!(believed.may_believe(D, b"a", moment, 1));
        believed.forget(D);
        believed.forget(E);
        assert_eq!(believed.sizes().0, 1, "nothing is kept of what was not known");
        assert!(!believed.may_believe(D, b"a", moment, 1));
        assert_eq!(names(believed.doubt(D).0), [""; 0]);
    }

    #[test]
    fn an_answer_to_a_request_from_before_a_doubt_is_not_believed() {
        let believed = DentryCache::default();
        let moment = believed.now();
        believed.doubt(D);
        assert!(!believed.may_believe(D, b"a", moment, 1));
        assert!(believed.may_believe(E, b"a", moment, 1), "another directory was not doubted");
        assert!(believed.may_believe(D, b"a", believed.now(), 1));
    }

    #[test]
    fn what_is_forgotten_of_a_directory_lets_no_old_answer_pass() {
        let believed = DentryCache::default();
        let moment = believed.now();
        believed.doubt(D);
        believed.tidy(1);
        assert_eq!(believed.sizes(), (0, 0));
        assert!(!believed.may_believe(D, b"a", moment, 1));
        assert!(believed.may_believe(D, b"a", believed.now(), 1));
        believed.tidy(1);
        assert_eq!(names(believed.doubt(D).0), ["a"], "what is believed is not forgotten");
    }

    /// A recall waits for the limit that begins then.
    #[test]
    fn the_time_at_which_the_kernel_was_told_of_a_name_is_known_after_the_name_was_doubted() {
        let believed = DentryCache::default();
        assert!(believed.may_believe(D, b"a", believed.now(), 1));
        let told = believed.doubt(D).1;
        believed.tidy(1);
        assert!(told.is_some() && believed.told(D) == told);
    }

    #[test]
    fn a_name_that_the_kernel_drops_by_itself_makes_room_later() {
        let believed = DentryCache::default();
        let add = |i: usize, now| believed.may_believe(D, i.to_string().as_bytes(), believed.now(), now);
        for i in 0..NAMES_MAX {
            assert!(add(i, 1));
            believed.removed(D, i.to_string().as_bytes(), 1);
        }
        assert!(add(NAMES_MAX, 2 + BARRIER_TICKS));
        assert_eq!(names(believed.doubt(D).0), [NAMES_MAX.to_string()]);
        for i in 0..NAMES_MAX {
            add(i, 1);
            believed.removed(D, i.to_string().as_bytes(), 1);
        }
        assert!(add(NAMES_MAX, 2));
        assert_eq!(believed.doubt(D).0, Doubted::Many, "the kernel may not have dropped them yet");
        assert_eq!(names(believed.doubt(D).0), [""; 0]);
    }

    #[test]
    fn a_removed_name_that_is_looked_up_again_is_believed_again() {
        let believed = DentryCache::default();
        believed.may_believe(D, b"a", believed.now(), 1);
        believed.removed(D, b"a", 1);
        believed.may_believe(D, b"a", believed.now(), 1);
        assert_eq!(believed.dir(D)[&D.0].names[b"a".as_slice()], 0);
    }

    #[test]
    fn a_renamed_name_is_believed_under_the_new_one_only_if_that_is_lent() {
        for (told, lent, may) in [(true, true, true), (true, false, false), (false, false, true), (false, true, true)] {
            let believed = DentryCache::default();
            let moment = believed.now();
            if told {
                believed.may_believe(D, b"a", moment, 1);
            }
            assert_eq!(believed.renamed((D, b"a"), (E, b"b"), false, lent, moment, 1), may, "{told} {lent}");
            assert_eq!(names(believed.doubt(E).0).len(), usize::from(told && lent));
            assert!(!believed.may_believe(D, b"a", moment, 1), "an answer on the way was about what has moved");
        }
    }

    #[test]
    fn a_renamed_name_is_not_believed_if_the_new_directory_was_doubted_meanwhile() {
        let believed = DentryCache::default();
        let moment = believed.now();
        believed.may_believe(D, b"a", moment, 1);
        believed.doubt(E);
        assert!(!believed.renamed((D, b"a"), (E, b"b"), false, true, moment, 1));
    }

    #[test]
    fn a_name_that_is_doubted_while_it_moves_is_still_known_to_be_believed() {
        for (lent, then) in [(true, vec!["b"]), (false, vec![])] {
            let believed = DentryCache::default();
            believed.may_believe(D, b"a", believed.now(), 1);
            let moment = believed.now();
            assert_eq!(names(believed.doubt(D).0), ["a"]);
            assert_eq!(believed.renamed((D, b"a"), (E, b"b"), false, lent, moment, 1), lent);
            assert_eq!(names(believed.doubt(E).0), then);
        }
        let believed = DentryCache::default();
        let moment = believed.now();
        believed.doubt(D);
        believed.tidy(1);
        assert!(!believed.renamed((D, b"a"), (E, b"b"), false, true, moment, 1), "nor is it forgotten");
    }

    #[test]
    fn a_directory_out_of_which_names_move_to_where_none_is_lent_is_not_believed_for_a_while() {
        let believed = DentryCache::default();
        assert!(believed.may_believe(D, b"a", believed.now(), 1));
        assert!(!believed.renamed((D, b"a"), (E, b"b"), false, false, believed.now(), 1));
        assert!(!believed.may_believe(D, b"c", believed.now(), 2));
        believed.tidy(2);
        believed.forget(D);
        assert!(!believed.may_believe(D, b"c", believed.now(), LEAVES_TICKS));
        believed.doubt(D);
        assert!(believed.renamed((D, b"c"), (E, b"d"), false, false, believed.now(), 3), "so the next may move");
        assert!(believed.may_believe(E, b"e", believed.now(), 3));
        assert!(believed.may_believe(D, b"c", believed.now(), 1 + LEAVES_TICKS));
    }

    #[test]
    fn names_that_change_places_are_both_believed_or_doubted() {
        for (lent, may) in [(true, true), (false, false)] {
            let believed = DentryCache::default();
            let moment = believed.now();
            // The one that is renamed is not believed, the other one is.
            believed.may_believe(E, b"b", moment, 1);
            assert_eq!(believed.renamed((D, b"a"), (E, b"b"), true, lent, moment, 1), may);
            assert_eq!(names(believed.doubt(D).0).len(), usize::from(lent));
            assert_eq!(names(believed.doubt(E).0), ["b"]);
            assert!(!believed.may_believe(E, b"b", moment, 1) && !believed.may_believe(D, b"a", moment, 1));
        }
    }

    #[test]
    fn a_directory_is_free_when_all_calls_on_it_have_ended() {
        let believed = DentryCache::default();
        believed.begin(D);
        believed.begin(D);
        believed.end(D);
        assert!(!believed.is_free(D) && believed.is_free(E));
        believed.end(D);
        assert!(believed.is_free(D));
        assert!(believed.calls(D).is_empty());
    }

    #[test]
    fn an_answer_is_in_hand_until_its_thread_asks_again_or_is_past_it() {
        let believed = DentryCache::default();
        believed.answers(7, 1, D, false, 1);
        assert!(!believed.in_hand(E, |_| false));
        assert!(believed.in_hand(D, |_| true), "it has not been given to the kernel");
        believed.answered(7, 1);
        assert!(believed.in_hand(D, |_| false));
        assert!(!believed.in_hand(D, |tid| tid == 7));
        believed.answers(7, 2, D, false, 1);
        believed.answered(7, 1);
        assert!(believed.in_hand(D, |_| true), "it was the answer before that was given");
        believed.asks(7);
        assert!(!believed.in_hand(D, |_| false));
    }

    #[test]
    fn what_threads_that_are_not_seen_were_told_is_in_hand_for_long() {
        let believed = DentryCache::default();
        for (unique, dir) in [(1, D), (2, E), (3, D)] {
            believed.answers(0, unique, dir, false, 1);
            believed.answered(0, unique);
            believed.asks(0);
        }
        assert_eq!(believed.sizes().1, 2);
        assert!(believed.in_hand(D, |_| true) && believed.in_hand(E, |_| true));
        believed.tidy(2 + BARRIER_TICKS);
        assert!(!believed.in_hand(D, |_| false));
    }

    #[test]
    fn a_name_is_told_when_its_answer_was_taken_in_at_the_latest() {
        let believed = DentryCache::default();
        assert_eq!(believed.doubt(D).1, None);
        believed.may_believe(D, b"a", believed.now(), 1);
        let told = believed.told(D).expect("told");
        believed.answers(7, 1, D, true, 1);
        believed.answered(7, 1);
        believed.asks(7);
        assert_eq!(believed.told(D), Some(told), "it was taken in at once");
        for taken in [|b: &DentryCache| b.asks(7), |b: &DentryCache| assert!(!b.in_hand(D, |_| true))] {
            let before = believed.told(D);
            believed.answers(7, 2, D, true, 1);
            believed.answered(7, 2);
            let late = Instant::now() + 2 * TAKEN_LATE;
            while Instant::now() < late {
                std::thread::yield_now();
            }
            taken(&believed);
            assert!(believed.told(D) > before, "its thread was late");
        }
        assert_eq!(believed.doubt(D).1, believed.told(D));
    }
}
