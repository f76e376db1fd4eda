//! Random journals, crashes and damage: what was durable comes back, in order, or it is said that it cannot.

use std::collections::BTreeMap;

use loligo_types::Lsn;
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::*;
use super::{FS, RANK};
use crate::writer::{Writer, WriterConfig};

/// A step of a life.
#[derive(Clone, Debug)]
enum Step {
    Append { len: usize },
    Write,
    Sync,
    Trim { below: u64 },
    Crash { loss: Vec<Loss> },
}

/// Effect of a crash on the bytes that were written and not synced.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// Only a part of them is there (of 256).
    Cut(u8),
    /// Sectors are zeros, by a pattern of bits.
    Zeros(u64),
    /// All are there.
    Kept,
}

const SECTOR: usize = 512;

fn step() -> impl Strategy<Value = Step> {
    let loss = prop_oneof![any::<u8>().prop_map(Loss::Cut), any::<u64>().prop_map(Loss::Zeros), Just(Loss::Kept)];
    prop_oneof![
        12 => (1usize..900).prop_map(|len| Step::Append { len }),
        4 => Just(Step::Write),
        4 => Just(Step::Sync),
        1 => (0u64..60).prop_map(|below| Step::Trim { below }),
        1 => vec(loss, 4).prop_map(|loss| Step::Crash { loss }),
    ]
}

/// A disk that knows how much of each segment is durable, and a writer on it.
struct Life {
    writer: Writer,
    disk: MemSource,
    synced: BTreeMap<u64, usize>,
    written: Lsn,
    /// Bodies by LSN as appended last; those up to `durable` may never change or vanish.
    bodies: BTreeMap<u64, Vec<u8>>,
    /// Where replay begins.
    from: u64,
}

impl Life {
    fn new() -> Life {
        Life {
            writer: Writer::new(WriterConfig { fs: FS, rank: RANK, segment_size: 4000 }),
            disk: MemSource::default(),
            synced: BTreeMap::new(),
            written: Lsn(0),
            bodies: BTreeMap::new(),
            from: 1,
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Append { len } => {
                let body = vec![(self.writer.next_lsn().0 % 251) as u8; *len];
                let lsn = self.writer.append(&body).expect("the writer has not failed");
                self.bodies.insert(lsn.0, body);
            }
            Step::Write => {
                // Those of a new segment wait for the next sync.
                while let Some(batch) = self.writer.take_batch() {
                    self.disk.write(&batch);
                    self.written = batch.last;
                    self.writer.recycle(batch.bytes);
                }
            }
            Step::Sync => {
                self.synced = self.disk.0.iter().map(|(id, bytes)| (*id, bytes.len())).collect();
                self.writer.synced(self.written);
            }
            Step::Trim { below } => {
                let below = (*below).clamp(self.from, self.writer.durable().0 + 1);
                self.from = below;
                for id in self.writer.trim(Lsn(below)) {
                    self.disk.0.remove(&id);
                }
            }
            Step::Crash { loss } => self.crash(loss),
        }
    }

    fn crash(&mut self, loss: &[Loss]) {
        for (n, (id, bytes)) in self.disk.0.iter_mut().enumerate() {
            let synced = self.synced.get(id).copied().unwrap_or(0);
            match loss[n % loss.len()] {
                Loss::Kept => {}
                Loss::Cut(part) => bytes.truncate(synced + (bytes.len() - synced) * usize::from(part) / 256),
                Loss::Zeros(pattern) => {
                    for (at, byte) in bytes.iter_mut().enumerate().skip(synced) {
                        if (pattern >> (at / SECTOR % 64)) & 1 == 1 {
                            *byte = 0;
                        }
                    }
                }
            }
        }
        let durable = self.writer.durable();
        let tail = self.recover();
        assert!(tail.next_lsn > durable, "durable up to {durable}, read up to {}", tail.next_lsn);
        // Recovery ends with a sync: what was read may be acted on.
        self.synced = self.disk.0.iter().map(|(id, bytes)| (*id, bytes.len())).collect();
        self.bodies.retain(|lsn, _| *lsn < tail.next_lsn.0);
        self.written = Lsn(tail.next_lsn.0 - 1);
        self.writer = Writer::resume(WriterConfig { fs: FS, rank: RANK, segment_size: 4000 }, &tail);
    }

    /// Reads all and compares it with what was appended.
    fn recover(&mut self) -> Tail {
        let config = ReadConfig { fs: Some(FS), rank: Some(RANK), from: Lsn(self.from), synced: None };
        let mut reader = Reader::open(&mut self.disk, config).expect("a crash alone is no error");
        let mut next = self.from;
        while let Some(record) = reader.next_record().expect("a crash alone is no error") {
            assert_eq!(record.lsn.0, next);
            assert_eq!(Some(record.body), self.bodies.get(&next).map(Vec::as_slice));
            next += 1;
        }
        let tail = reader.tail().expect("read to the end");
        assert_eq!(tail.next_lsn.0, next.max(self.from));
        tail
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn what_is_durable_survives_any_number_of_crashes(steps in vec(step(), 1..150)) {
        let mut life = Life::new();
        steps.iter().for_each(|step| life.run(step));
        life.crash(&[Loss::Zeros(0x5555_5555_5555_5555), Loss::Cut(99)]);
    }

    #[test]
    fn damage_is_never_read_as_something_else(
        lens in vec(1usize..900, 2..40), at in any::<prop::sample::Index>(), bits in 1u8..=255,
    ) {
        let mut life = Life::new();
        for len in &lens {
            [Step::Append { len: *len }, Step::Write, Step::Sync].iter().for_each(|step| life.run(step));
        }
        let places: Vec<(u64, usize)> =
            life.disk.0.iter().flat_map(|(id, bytes)| (0..bytes.len()).map(move |at| (*id, at))).collect();
        let (id, byte) = places[at.index(places.len())];
        life.disk.0.get_mut(&id).expect("listed")[byte] ^= bits;
        let mut reader = Reader::open(&mut life.disk, ReadConfig { fs: Some(FS), rank: Some(RANK), from: Lsn(1), synced: None });
        let mut count = 0;
        let damaged = loop {
            match reader.as_mut().map(|reader| reader.next_record()) {
                Err(_) | Ok(Err(_)) => break true,
                Ok(Ok(None)) => break false,
                Ok(Ok(Some(record))) => {
                    count += 1;
                    prop_assert_eq!(Some(record.body), life.bodies.get(&record.lsn.0).map(Vec::as_slice));
                }
            }
        };
        // Only of the very last record nothing tells that it was once whole.
        prop_assert!(damaged || count >= lens.len() - 1, "{} of {} records, and no error", count, lens.len());
    }

    #[test]
    fn random_segments_never_panic(
        first in vec(any::<u8>(), 0..300), second in vec(any::<u8>(), 0..300), from in 0u64..3, good in any::<bool>(),
    ) {
        let mut first = first;
        if good {
            let header = SegmentHeader { fs: FS, rank: RANK, id: 1, first: Lsn(1) };
            first.splice(0..0, header.encode());
        }
        let source = MemSource(BTreeMap::from([(1, first), (2, second)]));
        let config = ReadConfig { fs: Some(FS), rank: Some(RANK), from: Lsn(from), synced: None };
        if let Ok(mut reader) = Reader::open(source, config) {
            while let Ok(Some(_)) = reader.next_record() {}
        }
    }
}
