//! Points in time with nanoseconds. No clock: whoever stamps an operation brings the time.

/// Nanoseconds since 1970-01-01 UTC, negative before; reaches from the year 1677 to 2262, as ext4's extra bits and XFS bigtime do within a few centuries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Time(pub i64);

impl Time {
    /// From seconds and nanoseconds as in `struct timespec`; clamps to what can be held.
    pub fn new(sec: i64, nsec: u32) -> Time {
        Time(sec.saturating_mul(1_000_000_000).saturating_add(i64::from(nsec.min(999_999_999))))
    }

    /// Whole seconds, rounded down, so that `nsec` is never negative.
    pub fn sec(self) -> i64 {
        self.0.div_euclid(1_000_000_000)
    }

    /// Nanoseconds within the second, 0..=999_999_999.
    pub fn nsec(self) -> u32 {
        self.0.rem_euclid(1_000_000_000) as u32
    }
}
