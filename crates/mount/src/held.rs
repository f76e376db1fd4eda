//! Files that are held open for a moment, because the kernel looks for them again.
//!
//! When a file that the kernel has is gone, its call ends with `ESTALE`, and it looks its name up once more, at the server, before it tells
//! the program. Of a file that another mount replaces again and again the second one may be gone by then, too. So what a thread finds that was just
//! told of a file which is gone is held open, until what it looked for it for is done. It finds what was there at some moment of its call.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use loligo_client::Fh;

use crate::metrics::FuseOp;
use crate::table::{Tick, guard};

/// A thread that was told so looks again within this, or does not.
const RETRY_TICKS: Tick = 200;
/// So long a file is held: longer than the kernel takes for its next request.
const HOLD_TICKS: Tick = 20;
/// Lookups that a retry may make: each of two names is revalidated, and looked up again if it leads to another inode.
const LOOKS: u32 = 4;
/// Threads that are remembered.
const THREADS_MAX: usize = 4096;

/// Threads that may look again, and what is held for them.
#[derive(Default)]
pub(crate) struct Held {
    /// Since when, and how often they may look.
    told: Mutex<HashMap<u32, (Tick, u32)>>,
    told_count: AtomicUsize,
    open: Mutex<Vec<(Tick, Fh)>>,
}

impl Held {
    /// A thread is told that the file which an operation is on is gone.
    pub fn gone(&self, tid: u32, op: FuseOp, now: Tick) {
        use FuseOp::*;
        // Those for which the kernel goes by a name.
        if !matches!(
            op,
            GetAttr | SetAttr | Open | Access | Link | GetXattr | ListXattr | SetXattr | RemoveXattr | Readlink
        ) {
            return;
        }
        let mut told = guard(&self.told);
        if told.len() >= THREADS_MAX {
            told.clear();
        }
        told.insert(tid, (now, LOOKS));
        self.told_count.store(told.len(), Ordering::Release);
    }

    /// True if a thread that looks up a name may do so because of that.
    pub fn looks_again(&self, tid: u32) -> bool {
        self.told_count.load(Ordering::Acquire) != 0 && guard(&self.told).contains_key(&tid)
    }

    /// It has found something, which is held.
    pub fn hold(&self, tid: u32, fh: Fh, now: Tick) {
        let mut told = guard(&self.told);
        if let Some((_, looks)) = told.get_mut(&tid) {
            *looks -= 1;
            if *looks == 0 {
                told.remove(&tid);
            }
        }
        self.told_count.store(told.len(), Ordering::Release);
        guard(&self.open).push((now, fh));
    }

    /// Handles that need not be held any more.
    pub fn tick(&self, now: Tick) -> Vec<Fh> {
        if self.told_count.load(Ordering::Acquire) != 0 {
            let mut told = guard(&self.told);
            told.retain(|_, (since, _)| *since + RETRY_TICKS > now);
            self.told_count.store(told.len(), Ordering::Release);
        }
        let old = |(since, _): &mut (Tick, Fh)| *since + HOLD_TICKS <= now;
        guard(&self.open).extract_if(.., old).map(|(_, fh)| fh).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_was_told_of_a_file_that_is_gone_looks_again_a_few_times() {
        let held = Held::default();
        assert!(!held.looks_again(7));
        held.gone(7, FuseOp::Read, 1);
        assert!(!held.looks_again(7), "what is open is looked up by nobody");
        held.gone(7, FuseOp::Open, 1);
        assert!(held.looks_again(7) && !held.looks_again(8));
        let all = [Fh(5), Fh(6), Fh(7), Fh(8)];
        for fh in all {
            assert!(held.looks_again(7));
            held.hold(7, fh, 1);
        }
        assert!(!held.looks_again(7));
        assert_eq!(held.tick(2), []);
        assert_eq!(held.tick(1 + HOLD_TICKS), all);
        assert_eq!(held.tick(1 + HOLD_TICKS), []);
    }

    #[test]
    fn a_thread_that_does_not_look_again_is_forgotten() {
        let held = Held::default();
        held.gone(7, FuseOp::GetAttr, 1);
        held.tick(RETRY_TICKS);
        assert!(held.looks_again(7));
        held.tick(1 + RETRY_TICKS);
        assert!(!held.looks_again(7));
    }
}
