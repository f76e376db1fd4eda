//! Requests of the kernel that are not answered, so that a signal can end them. Which signals do is decided here; not here: how a call ends.
//!
//! The kernel tells of the first signal that comes to a thread which waits, whatever that signal does. Programs do not expect that a call
//! on a file ends because of one. So only a wait for a lock ends by any signal, and everything else when the signal ends the program: the
//! kernel says what is pending, and what the program has made of it. It does not tell of further signals, nor of any to a thread that ends
//! and closes its files meanwhile; so such requests are looked at with every tick.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use loligo_client::CallId;
use loligo_types::{Ino, LockOwner};

use crate::metrics::FuseOp;
use crate::table::{Tick, guard};
use crate::threads::{Fate, fate};

const SHARDS: usize = 16;
/// Interrupts that are remembered for requests which are not there (yet).
const EARLY_MAX: usize = 64;
/// For so long.
const EARLY_TICKS: u32 = 100;
/// Requests that waited for less are answered soon.
const LOOK_TICKS: u32 = 2;

/// A request that is not answered.
#[derive(Clone, Copy, Debug)]
struct Wait {
    call: CallId,
    tid: u32,
    /// The lock that it waits for.
    lock: Option<(Ino, LockOwner)>,
    /// A thread that ends may ask for it: the kernel tells that one's signals to nobody.
    at_exit: bool,
    since: Tick,
    interrupted: bool,
}

/// A call to be ended, and its error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub call: CallId,
    /// The wait for this lock is to be cancelled where it is.
    pub lock: Option<(Ino, LockOwner)>,
    /// Only if the call waits for a server that cannot be reached; else in any case.
    pub unserved: bool,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Waits {
    shards: [Mutex<HashMap<u64, Wait>>; SHARDS],
    /// Interrupted before they were seen here, when several threads take requests; or answered already.
    early: Mutex<VecDeque<(u64, Tick)>>,
    /// Their number.
    early_count: AtomicUsize,
}

impl Waits {
    /// The lowest bit of a number is the kernel's.
    fn shard(&self, unique: u64) -> MutexGuard<'_, HashMap<u64, Wait>> {
        guard(&self.shards[(unique >> 1) as usize % SHARDS])
    }

    /// A request is about to be served by a call.
    pub fn begin(
        &self,
        unique: u64,
        (op, tid): (FuseOp, u32),
        call: CallId,
        lock: Option<(Ino, LockOwner)>,
        now: Tick,
    ) {
        let at_exit = op == FuseOp::Flush;
        self.shard(unique).insert(unique, Wait { call, tid, lock, at_exit, since: now, interrupted: false });
    }

    /// Another call serves it now.
    pub fn goes_on(&self, unique: u64, call: CallId) {
        if let Some(wait) = self.shard(unique).get_mut(&unique) {
            wait.call = call;
        }
    }

    /// It has its answer.
    pub fn end(&self, unique: u64) {
        self.shard(unique).remove(&unique);
    }

    /// Its call was submitted: whether it was interrupted before it was known here.
    pub fn came_late(&self, unique: u64) -> bool {
        if self.early_count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut early = guard(&self.early);
        let at = early.iter().position(|(early, _)| *early == unique);
        at.map(|at| early.remove(at));
        self.early_count.store(early.len(), Ordering::Release);
        at.is_some()
    }

    /// The thread that waits for a request has a signal to take. What is to be ended now.
    pub fn interrupt(&self, unique: u64, now: Tick) -> Option<End> {
        self.interrupt_by(unique, now, fate)
    }

    fn interrupt_by(&self, unique: u64, now: Tick, fate: impl Fn(u32) -> Fate) -> Option<End> {
        let wait = {
            let mut shard = self.shard(unique);
            match shard.get_mut(&unique) {
                Some(wait) => {
                    wait.interrupted = true;
                    *wait
                }
                None => {
                    // With the shard locked: a request that begins after this finds it.
                    let mut early = guard(&self.early);
                    if early.len() == EARLY_MAX {
                        early.pop_front();
                    }
                    early.push_back((unique, now));
                    self.early_count.store(early.len(), Ordering::Release);
                    return None;
                }
            }
        };
        let end = decide(&wait, fate);
        // A lock is not waited for after any signal.
        end.or(wait.lock.map(|lock| End { call: wait.call, lock: Some(lock), unserved: true }))
    }

    /// Calls to be ended, of all that wait for longer than a moment.
    pub fn look(&self, now: Tick) -> Vec<End> {
        self.look_by(now, fate)
    }

    fn look_by(&self, now: Tick, fate: impl Fn(u32) -> Fate) -> Vec<End> {
        if self.early_count.load(Ordering::Acquire) != 0 {
            let mut early = guard(&self.early);
            early.retain(|(_, since)| since + EARLY_TICKS > now);
            self.early_count.store(early.len(), Ordering::Release);
        }
        let mut looked_at = Vec::new();
        for shard in &self.shards {
            let shard = guard(shard);
            let old = shard.values().filter(|wait| wait.since + LOOK_TICKS <= now);
            looked_at.extend(old.filter(|wait| wait.interrupted || wait.at_exit));
        }
        let any_signal = |wait: &Wait| wait.lock.is_some() && wait.interrupted;
        let end = |wait: &Wait| {
            // That it is cancelled was asked for already.
            let unserved = || any_signal(wait).then_some(End { call: wait.call, lock: None, unserved: true });
            decide(wait, &fate).or_else(unserved)
        };
        looked_at.iter().filter_map(end).collect()
    }
}

fn decide(wait: &Wait, fate: impl Fn(u32) -> Fate) -> Option<End> {
    let unserved = match fate(wait.tid) {
        Fate::Killed => false,
        // Nobody hears how a close at the end of a program went; and whether the signal of a thread that is not seen ends it is not known.
        Fate::Ending if wait.at_exit => true,
        Fate::Unknown if wait.interrupted => true,
        Fate::Ending | Fate::Unknown | Fate::GoesOn => return None,
    };
    Some(End { call: wait.call, lock: wait.lock, unserved })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: (Ino, LockOwner) = (Ino(300), LockOwner(5));

    fn waits(op: FuseOp, lock: Option<(Ino, LockOwner)>) -> Waits {
        let waits = Waits::default();
        waits.begin(2, (op, 7), CallId(70), lock, 1);
        waits
    }

    fn end(lock: Option<(Ino, LockOwner)>, unserved: bool) -> End {
        End { call: CallId(70), lock, unserved }
    }

    #[test]
    fn a_signal_that_ends_the_program_ends_its_call() {
        let waits = waits(FuseOp::StatFs, None);
        assert_eq!(waits.interrupt_by(2, 1, |_| Fate::GoesOn), None);
        assert_eq!(waits.look_by(9, |_| Fate::GoesOn), []);
        assert_eq!(
            waits.look_by(9, |_| Fate::Killed),
            [end(None, false)],
            "of the second one the kernel does not tell"
        );
        assert_eq!(
            waits.interrupt_by(2, 1, |tid| if tid == 7 { Fate::Killed } else { Fate::GoesOn }),
            Some(end(None, false))
        );
        waits.end(2);
        assert_eq!(waits.look_by(9, |_| Fate::Killed), []);
    }

    #[test]
    fn any_signal_ends_the_wait_for_a_lock() {
        let waits = waits(FuseOp::SetLock, Some(LOCK));
        assert_eq!(waits.look_by(9, |_| Fate::GoesOn), []);
        assert_eq!(waits.interrupt_by(2, 1, |_| Fate::GoesOn), Some(end(Some(LOCK), true)));
        assert_eq!(waits.look_by(9, |_| Fate::GoesOn), [end(None, true)], "its server may not be reached any more");
        assert_eq!(waits.interrupt_by(2, 1, |_| Fate::Killed), Some(end(Some(LOCK), false)));
    }

    #[test]
    fn an_interrupt_that_comes_before_its_request_is_found_by_that() {
        let waits = Waits::default();
        assert_eq!(waits.interrupt_by(2, 1, |_| Fate::Killed), None);
        waits.begin(4, (FuseOp::Lookup, 7), CallId(70), None, 1);
        assert!(!waits.came_late(4));
        waits.begin(2, (FuseOp::Lookup, 7), CallId(71), None, 1);
        assert!(waits.came_late(2) && !waits.came_late(2));
    }

    #[test]
    fn interrupts_of_requests_that_are_answered_are_forgotten_in_time() {
        let waits = Waits::default();
        for n in 0..10 * EARLY_MAX as u64 {
            waits.interrupt_by(2 * n, 1, |_| Fate::Killed);
        }
        assert_eq!(guard(&waits.early).len(), EARLY_MAX);
        waits.look_by(1 + EARLY_TICKS, |_| Fate::GoesOn);
        assert!(guard(&waits.early).is_empty() && !waits.came_late(2));
    }

    #[test]
    fn a_close_at_the_end_of_a_program_does_not_wait_for_a_server_that_is_away() {
        let waits = waits(FuseOp::Flush, None);
        assert_eq!(waits.look_by(1, |_| Fate::Ending), [], "it is answered soon");
        assert_eq!(waits.look_by(9, |_| Fate::Ending), [end(None, true)]);
        assert_eq!(waits.look_by(9, |_| Fate::Killed), [end(None, false)]);
        assert_eq!(waits.look_by(9, |_| Fate::GoesOn), []);
    }

    #[test]
    fn of_a_thread_that_is_not_seen_a_signal_ends_only_what_no_server_serves() {
        let waits = waits(FuseOp::Lookup, None);
        assert_eq!(waits.look_by(9, |_| Fate::Unknown), []);
        assert_eq!(waits.interrupt_by(2, 1, |_| Fate::Unknown), Some(end(None, true)));
        assert_eq!(waits.look_by(9, |_| Fate::Unknown), [end(None, true)]);
    }

    #[test]
    fn a_request_that_is_made_again_is_known_by_its_last_call() {
        let waits = waits(FuseOp::Lookup, None);
        waits.goes_on(2, CallId(71));
        assert_eq!(waits.interrupt_by(2, 1, |_| Fate::Killed).map(|end| end.call), Some(CallId(71)));
    }
}
