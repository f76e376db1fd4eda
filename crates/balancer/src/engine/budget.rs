//! Rest of an evaluation's budget, checked at each call, return and round of a loop. Counting only.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Why an evaluation was ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Trip {
    Steps,
    Time,
}

/// Memory that makes each step cost one more: what a single step can do (copy a string, look through a table) grows with
/// what there is, so that steps bound the time also without a clock.
const BYTES_PER_STEP: usize = 4096;

/// So much of it costs nothing, so that what little most policies allocate does not show in their steps.
const BYTES_FREE: usize = 64 << 10;

/// Steps after which the clock is read again; reading it costs as much as several steps.
const STEPS_PER_LOOK: u64 = 64;

#[derive(Default)]
pub(super) struct Budget {
    all: Cell<u64>,
    left: Cell<u64>,
    base_bytes: Cell<usize>,
    deadline: Cell<Option<Instant>>,
    look_at: Cell<u64>,
    tripped: Cell<Option<Trip>>,
}

impl Budget {
    pub(super) fn begin(&self, steps: u64, time: Option<Duration>) {
        self.all.set(steps);
        self.left.set(steps);
        self.look_at.set(steps);
        self.deadline.set(time.and_then(|time| Instant::now().checked_add(time)));
        self.tripped.set(None);
    }

    /// Memory in use that is not the policy's doing.
    pub(super) fn set_base(&self, bytes: usize) {
        self.base_bytes.set(bytes);
    }

    /// One step, with so much memory in use. False: it is over.
    pub(super) fn step(&self, used_bytes: usize) -> bool {
        let own = used_bytes.saturating_sub(self.base_bytes.get()).saturating_sub(BYTES_FREE);
        self.charge(1 + (own / BYTES_PER_STEP) as u64)
    }

    /// So many steps at once.
    pub(super) fn charge(&self, steps: u64) -> bool {
        if self.tripped.get().is_some() {
            return false;
        }
        let Some(left) = self.left.get().checked_sub(steps) else {
            self.left.set(0);
            self.tripped.set(Some(Trip::Steps));
            return false;
        };
        self.left.set(left);
        if left <= self.look_at.get() {
            self.look_at.set(left.saturating_sub(STEPS_PER_LOOK));
            return self.is_in_time();
        }
        true
    }

    /// Looks at the clock.
    pub(super) fn is_in_time(&self) -> bool {
        match self.deadline.get() {
            Some(deadline) if Instant::now() > deadline => {
                self.tripped.set(Some(Trip::Time));
                false
            }
            _ => true,
        }
    }

    pub(super) fn tripped(&self) -> Option<Trip> {
        self.tripped.get()
    }

    pub(super) fn used(&self) -> u64 {
        self.all.get() - self.left.get()
    }
}
