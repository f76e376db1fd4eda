//! Beats: a rank's messages to the others about itself.

#[cfg(doc)]
use crate::PolicyId;
use crate::{LoadVec, Rank, Weighed};

/// The load of a rank at one time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Load {
    /// Counters of all that it has authority over; decayed. So each policy can weigh them for itself.
    pub own: LoadVec,
    /// Counters for directories of others; decayed.
    pub besides: LoadVec,
    /// Metadata load (docs/cluster.md, "Heat and load") of what it has authority over: the sum of `own`, weighted.
    pub auth: f64,
    /// The same with what it does besides: redirects, and changes for which it borrows from others.
    pub all: f64,
    /// Requests answered or redirected, per second, averaged over the half-life.
    pub requests_per_s: f64,
    /// Requests that wait for something, and answers that wait for the journal, at this moment.
    pub queue: u32,
    /// Memory of the cache, percent of what it may take (more than 100 is possible for a while).
    pub memory_percent: f32,
    /// Processor time of the rank's thread, percent of one processor, over the last second; looking for the next request is in it.
    pub cpu_percent: f32,
    /// Part of the last second for which the rank's thread was at work, percent: not asleep, and not looking for the next
    /// request. It is at work also while it waits for a processor or a disk.
    pub busy_percent: f32,
    /// Requests per second that it could answer if it were at work all the time, as measured while it was busy enough to
    /// tell; 0: not known yet.
    pub capacity_per_s: f64,
}

impl Load {
    /// True if every number can be one: finite and not negative.
    pub fn is_sound(&self) -> bool {
        let wide = [self.auth, self.all, self.requests_per_s, self.capacity_per_s];
        let narrow = [self.memory_percent, self.cpu_percent, self.busy_percent];
        let counted = self.own.is_sound() && self.besides.is_sound();
        counted && wide.into_iter().chain(narrow.map(f64::from)).all(|n| n.is_finite() && n >= 0.0)
    }
}

/// A rank's load with the rank's name, as it goes from rank to rank.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Beat {
    /// The rank.
    pub rank: Rank,
    /// Grows with each beat of the rank, in all its lives. Never 0 or the largest number.
    pub seq: u64,
    /// Age of the load when it was sent, milliseconds; time on the way is not in it.
    pub age_ms: u32,
    /// The load.
    pub load: Load,
    /// The same as the policy in force there weighs it, at its last tick; [`PolicyId::NONE`]: it has none, or none was made.
    pub weighed: Weighed,
}

impl Beat {
    /// Bytes of its numbers side by side.
    pub const BYTES: usize = 2 + 8 + 4 + 4 * 8 + 4 + 3 * 4 + 10 * 8 + 4 + 2 * 8;
}
