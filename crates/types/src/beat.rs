//! Beats: a rank's messages to the others about itself. The numbers of a load are listed once, in [`load_numbers!`]: bytes on the wire, names
//! in policies, metrics and the JSON of the admin plane are made of that list.

#[cfg(doc)]
use crate::PolicyId;
use crate::{LoadVec, Rank, Weighed};

/// The list of the numbers of a load, for a macro to be called with. Their order is that of the bytes of a beat. Of each: the field of
/// [`Load`], with its type; name in balancing policies (`MDSs[i].NAME`); metric of a monitoring system, with its description; type in the
/// JSON of the admin plane, where the description is the same. A number that came later has `serde(default)` there: older servers do not
/// tell it.
#[macro_export]
macro_rules! load_numbers {
    ($make:ident) => {
        $make! {
            /// Metadata load (docs/cluster.md, "Heat and load") of what it has authority over: the sum of `own`, weighted.
            auth: f64, None, "loligo_rank_load_auth",
                "metadata load of what the rank has authority over: decayed counts of reads, writes, readdirs, fetches and stores, \
                 weighted 1, 2, 1, 2 and 4",
                f64 [];
            /// The same with what it does besides: redirects, and changes for which it borrows from others.
            all: f64, None, "loligo_rank_load_all",
                "the same with redirects and changes for which the rank borrows",
                f64 [];
            /// Requests answered or redirected, per second, averaged over the half-life.
            requests_per_s: f64, Some("req"), "loligo_rank_load_requests_per_second",
                "requests answered or redirected, averaged by decay",
                f64 [];
            /// Requests that wait for something, and answers that wait for the journal, at this moment.
            queue: u32, Some("q"), "loligo_rank_load_queue",
                "requests and answers that wait",
                u64 [];
            /// Memory of the cache, percent of what it may take (more than 100 is possible for a while).
            memory_percent: f32, Some("mem"), "loligo_rank_load_memory_percent",
                "the cache, of what it may take",
                f64 [];
            /// Processor time of the rank's thread, percent of one processor, over the last second; looking for the next request is in it.
            cpu_percent: f32, Some("cpu"), "loligo_rank_load_cpu_percent",
                "the rank's thread, of one processor, over the last second",
                f64 [];
            /// Part of the last second for which the rank's thread was at work, percent: not asleep, and not looking for the next
            /// request. It is at work also while it waits for a processor or a disk.
            busy_percent: f32, Some("busy"), "loligo_rank_load_busy_percent",
                "how much of the last second the rank's thread was at work",
                f64 [serde(default)];
            /// Requests per second that it could answer if it were at work all the time, as measured while it was busy enough to
            /// tell; 0: not known yet.
            capacity_per_s: f64, Some("capacity"), "loligo_rank_load_capacity_per_second",
                "requests that it could answer, as measured; 0: not known yet",
                f64 [serde(default)];
        }
    };
}

/// Description of a number of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoadNumber {
    /// Name in balancing policies; none: the policy makes this itself.
    pub policy_name: Option<&'static str>,
    /// Name of the metric for monitoring systems.
    pub metric: &'static str,
    /// Description of the metric.
    pub help: &'static str,
    /// Bytes of the number side by side with others.
    pub bytes: usize,
    /// The fewest bytes of it on the wire, where a count is the shorter the smaller it is.
    pub bytes_min: usize,
}

trait Kind: Sized {
    const BYTES_MIN: usize = size_of::<Self>();
}

impl Kind for f64 {}
impl Kind for f32 {}
impl Kind for u32 {
    const BYTES_MIN: usize = 1;
}

/// A number of a load, to be read or set.
#[derive(PartialEq, Debug)]
pub enum LoadField<'a> {
    /// A wide number.
    Wide(&'a mut f64),
    /// A narrow number.
    Narrow(&'a mut f32),
    /// A count.
    Count(&'a mut u32),
}

impl<'a> From<&'a mut f64> for LoadField<'a> {
    fn from(number: &'a mut f64) -> LoadField<'a> {
        LoadField::Wide(number)
    }
}

impl<'a> From<&'a mut f32> for LoadField<'a> {
    fn from(number: &'a mut f32) -> LoadField<'a> {
        LoadField::Narrow(number)
    }
}

impl<'a> From<&'a mut u32> for LoadField<'a> {
    fn from(number: &'a mut u32) -> LoadField<'a> {
        LoadField::Count(number)
    }
}

macro_rules! load {
    ($($(#[$doc:meta])* $field:ident: $kind:ident, $policy:expr, $metric:literal, $help:literal,
        $json:ident [$($since:meta)?];)+) => {
        /// The load of a rank at one time.
        #[derive(Clone, Copy, PartialEq, Debug, Default)]
        pub struct Load {
            /// Counters of all that it has authority over; decayed. So each policy can weigh them for itself.
            pub own: LoadVec,
            /// Counters for directories of others; decayed.
            pub besides: LoadVec,
            $($(#[$doc])* pub $field: $kind,)+
        }

        impl Load {
            /// Descriptions of its numbers but the counters, in their order.
            pub const NUMBERS: &[LoadNumber] = &[
                $(LoadNumber {
                    policy_name: $policy,
                    metric: $metric,
                    help: $help,
                    bytes: size_of::<$kind>(),
                    bytes_min: <$kind as Kind>::BYTES_MIN,
                }),+
            ];

            /// Its numbers but the counters, in the order of [`Load::NUMBERS`].
            pub fn values(&self) -> [f64; Load::NUMBERS.len()] {
                [$(f64::from(self.$field)),+]
            }

            /// The same to be read as they are, or set.
            pub fn fields(&mut self) -> [LoadField<'_>; Load::NUMBERS.len()] {
                [$(LoadField::from(&mut self.$field)),+]
            }
        }
    };
}

load_numbers!(load);

impl Load {
    /// Bytes of its numbers but the counters, side by side.
    const BYTES: usize = Load::sum(false);

    /// The fewest bytes of them on the wire.
    pub const BYTES_MIN: usize = Load::sum(true);

    const fn sum(least: bool) -> usize {
        let (mut bytes, mut at) = (0, 0);
        while at < Load::NUMBERS.len() {
            bytes += if least { Load::NUMBERS[at].bytes_min } else { Load::NUMBERS[at].bytes };
            at += 1;
        }
        bytes
    }

    /// True if every number can be one: finite and not negative.
    pub fn is_sound(&self) -> bool {
        let counted = self.own.is_sound() && self.besides.is_sound();
        counted && self.values().into_iter().all(|n| n.is_finite() && n >= 0.0)
    }
}

/// Part of a rank's load that only its driver can measure, over the time since it was told last; see [`Load`].
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ThreadLoad {
    /// Processor time of the rank's thread, percent of one processor.
    pub cpu_percent: f32,
    /// Part of the time for which the thread was at work, percent.
    pub busy_percent: f32,
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
    pub const BYTES: usize = 2 + 8 + 4 + Load::BYTES + 10 * 8 + 4 + 2 * 8;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_has_the_bytes_of_its_numbers() {
        assert_eq!(Beat::BYTES, 2 + 8 + 4 + 4 * 8 + 4 + 3 * 4 + 10 * 8 + 4 + 2 * 8);
    }

    #[test]
    fn each_number_can_be_set_and_must_be_sound() {
        for at in 0..Load::NUMBERS.len() {
            let mut load = Load::default();
            match &mut load.fields()[at] {
                LoadField::Wide(number) => **number = 7.0,
                LoadField::Narrow(number) => **number = 7.0,
                LoadField::Count(number) => **number = 7,
            }
            assert!(load.values().iter().enumerate().all(|(of, n)| *n == if of == at { 7.0 } else { 0.0 }), "{load:?}");
            assert!(load.is_sound());
            match &mut load.fields()[at] {
                LoadField::Wide(number) => **number = -1.0,
                LoadField::Narrow(number) => **number = f32::NAN,
                LoadField::Count(_) => continue,
            }
            assert!(!load.is_sound(), "{:?}", Load::NUMBERS[at]);
        }
    }
}
