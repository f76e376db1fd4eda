//! Metrics of a server: plain counters and histograms with fixed buckets. No names of a monitoring system here.
//!
//! Each value has one writing thread, so an addition is a load and a store without a locked instruction; any thread
//! may read.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use loligo_types::OpKind;

use super::data::Work;

/// A number that only grows (or is set).
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds. One thread only.
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Sets. One thread only.
    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// The value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Four buckets for each power of two, up to 2^40.
const BUCKETS: usize = 4 * 39;

/// A distribution of whole numbers (nanoseconds, or a count), exact to a quarter of a power of two.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: Counter,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum: Counter::default() }
    }
}

impl Histogram {
    /// Adds one value, from any thread.
    pub fn add(&self, value: u64) {
        self.buckets[bucket_of(value)].fetch_add(1, Relaxed);
        self.sum.0.fetch_add(value, Relaxed);
    }

    /// Adds one value. One thread only.
    pub(crate) fn record(&self, value: u64) {
        let bucket = &self.buckets[bucket_of(value)];
        bucket.store(bucket.load(Relaxed) + 1, Relaxed);
        self.sum.add(value);
    }

    /// Its present values.
    pub fn snapshot(&self) -> Distribution {
        let buckets: Vec<u64> = self.buckets.iter().map(|b| b.load(Relaxed)).collect();
        Distribution { count: buckets.iter().sum(), sum: self.sum.get(), buckets }
    }
}

/// A histogram at one time.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
    buckets: Vec<u64>,
}

impl Distribution {
    /// The value below or at which this share (0..=1) of the values lies, rounded up to its bucket; 0 if there are none.
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= wanted {
                return upper(at);
            }
        }
        0
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Distribution) {
        self.count += other.count;
        self.sum += other.sum;
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), 0);
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(bucket, n)| *bucket += n);
    }

    /// Upper bound (inclusive) and number of values of each bucket that is not empty, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter().enumerate().filter(|(_, n)| **n > 0).map(|(at, n)| (upper(at), *n))
    }
}

fn bucket_of(value: u64) -> usize {
    if value < 4 {
        return value as usize;
    }
    let power = 63 - value.leading_zeros() as usize;
    let quarter = (value >> (power - 2)) as usize & 3;
    ((power - 1) * 4 + quarter).min(BUCKETS - 1)
}

fn upper(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let (power, quarter) = (bucket / 4 + 1, (bucket % 4) as u64);
    ((4 + quarter + 1) << (power - 2)) - 1
}

/// Name of data requests among the operations.
const DATA: &str = "data";

/// Place of data requests in [`Ops`], behind the kinds of operations.
pub(crate) const OP_DATA: usize = OpKind::COUNT;

/// One kind of operation.
#[derive(Debug, Default)]
pub struct OpMetrics {
    /// Answered.
    pub done: Counter,
    /// Of these, with an error.
    pub errors: Counter,
    /// From decoding to the answer's encoding, nanoseconds.
    pub latency: Histogram,
}

/// By kind of operation ([`OpKind`]); data requests are the last.
#[derive(Debug)]
pub struct Ops([OpMetrics; OpKind::COUNT + 1]);

impl Default for Ops {
    fn default() -> Ops {
        Ops(std::array::from_fn(|_| OpMetrics::default()))
    }
}

impl Ops {
    /// Each kind with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &OpMetrics)> {
        OpKind::all().map(OpKind::name).chain([DATA]).zip(&self.0)
    }

    pub(crate) fn at(&self, op: usize) -> &OpMetrics {
        &self.0[op]
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    /// By operation.
    pub ops: Ops,
    /// Connections accepted.
    pub accepted: Counter,
    /// Connections closed for bytes that made no sense, or for their slowness.
    pub dropped: Counter,
    /// Connections closed because there was no room for them.
    pub refused: Counter,
    /// Connections now.
    pub connections: Counter,
    /// Bytes received.
    pub bytes_in: Counter,
    /// Bytes sent.
    pub bytes_out: Counter,
    /// Rounds of the rank's loop.
    pub rounds: Counter,
    /// Requests of a round that had any.
    pub round_requests: Histogram,
    /// Requests answered in the last second or so, per second.
    pub requests_per_s: Counter,
    /// CPU time of the rank thread, nanoseconds; refreshed with each tick.
    pub rank_cpu_ns: Counter,
    /// Records written to the journal.
    pub journal_records: Counter,
    /// Bytes written to the journal.
    pub journal_bytes: Counter,
    /// Time of a sync, nanoseconds.
    pub journal_sync: Histogram,
    /// Bytes of file data that went into objects, and were in no journal.
    pub data_direct: Counter,
    /// Bytes of file data that the journal had, and that went into objects.
    pub data_logged: Counter,
    /// Time of a sync of objects, nanoseconds.
    pub object_sync: Histogram,
    /// Records that shared one sync.
    pub journal_batch: Histogram,
    /// Bytes of journal segments that exist.
    pub journal_space: Counter,
    /// 1 while the journal waits for space on the disk.
    pub journal_full: Counter,
    /// Loads from the table.
    pub loads: Counter,
    /// Rows that they read.
    pub load_rows: Counter,
    /// Checkpoints written.
    pub checkpoints: Counter,
    /// Records in them.
    pub checkpoint_records: Counter,
    /// Time of one, nanoseconds.
    pub checkpoint_time: Histogram,
    /// Rows of merges that went into the table in bulk.
    pub merge_rows: Counter,
    /// Time of one such merge, nanoseconds.
    pub merge_rows_time: Histogram,
}

impl Metrics {
    /// A data thread has done something.
    pub(crate) fn note_data(&self, work: Work) {
        self.data_direct.add(work.direct);
        self.data_logged.add(work.logged);
        if let Some(nanos) = work.sync_ns {
            self.object_sync.record(nanos);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_requests_are_counted_behind_the_operations() {
        let names: Vec<&str> = Ops::default().iter().map(|(name, _)| name).collect();
        assert_eq!((names.len(), names[0], names[OP_DATA]), (OP_DATA + 1, "lookup", "data"));
    }

    #[test]
    fn every_value_lies_in_its_bucket() {
        for value in (0..5000).chain((0..40).flat_map(|p| [(1u64 << p) - 1, 1 << p, (1 << p) + 1])) {
            let at = bucket_of(value);
            if at < BUCKETS - 1 {
                assert!(value <= upper(at), "{value}");
            }
            assert!(at == 0 || at == BUCKETS - 1 || value > upper(at - 1), "{value}");
        }
    }

    #[test]
    fn quantiles_come_from_the_right_end() {
        let histogram = Histogram::default();
        (1..=1000).for_each(|n| histogram.record(n));
        let d = histogram.snapshot();
        assert_eq!((d.count, d.sum), (1000, 500_500));
        assert!((500..640).contains(&d.quantile(0.5)), "{}", d.quantile(0.5));
        assert!((990..1280).contains(&d.quantile(0.99)));
        assert_eq!(Distribution::default().quantile(0.5), 0);
        let mut all = Distribution::default();
        all.merge(&d);
        all.merge(&d);
        assert_eq!((all.count, all.sum, all.quantile(0.5)), (2000, 1_001_000, d.quantile(0.5)));
    }
}
