//! Random operations on objects, compared with plain byte arrays and with another backend. What is compared is everything a caller
//! can see: bytes, lengths, which objects there are, and of each block whether it is data or a hole.

use std::collections::{BTreeMap, BTreeSet};

use super::blobs::{listed, read};
use loligo_types::Random;

use super::Make;
use crate::{BLOCK_SIZE, Blobs, Extent, ObjectId};

/// Bytes of an object that random operations reach.
pub const SPAN: u64 = 10 * BLOCK_SIZE;

/// An operation on an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // The fields are those of the calls of [`Blobs`].
pub enum Step {
    /// `len` bytes that follow from `seed`; seed 0: zeros.
    Write {
        id: ObjectId,
        offset: u64,
        len: u64,
        seed: u64,
    },
    Truncate {
        id: ObjectId,
        len: u64,
    },
    Punch {
        id: ObjectId,
        offset: u64,
        len: u64,
    },
    Sync {
        id: ObjectId,
    },
    Delete {
        id: ObjectId,
    },
    DeleteAll {
        ino: u64,
    },
    /// Read the range, and ask for its extents.
    Look {
        id: ObjectId,
        offset: u64,
        len: u64,
    },
}

impl Step {
    fn random(rng: &mut Random) -> Step {
        let id = ObjectId::new(1 + rng.below(2), rng.below(3));
        let longest = if rng.below(2) == 0 { 300 } else { 3 * BLOCK_SIZE };
        let (offset, len) = (rng.below(SPAN), rng.below(longest));
        let offset = if rng.below(3) == 0 { offset / BLOCK_SIZE * BLOCK_SIZE } else { offset };
        match rng.below(12) {
            0..=4 => Step::Write { id, offset, len, seed: if rng.below(8) == 0 { 0 } else { rng.bits() } },
            5 | 6 => Step::Truncate { id, len: offset },
            7 => Step::Punch { id, offset, len },
            8 => Step::Sync { id },
            9 => Step::Delete { id },
            _ => Step::Look { id, offset, len },
        }
    }

    fn data(len: u64, seed: u64) -> Vec<u8> {
        let mut rng = Random::new(seed);
        (0..len).map(|_| if seed == 0 { 0 } else { rng.bits() as u8 }).collect()
    }

    /// Carries it out; gives all that can be seen of it, as text.
    fn run(&self, blobs: &dyn Blobs) -> String {
        match self {
            Step::Write { id, offset, len, seed } => {
                format!("{:?}", blobs.write_at(*id, *offset, &Self::data(*len, *seed)))
            }
            Step::Truncate { id, len } => format!("{:?}", blobs.truncate(*id, *len)),
            Step::Punch { id, offset, len } => format!("{:?}", blobs.punch(*id, *offset, *len)),
            Step::Sync { id } => format!("{:?}", blobs.sync(*id)),
            Step::Delete { id } => format!("{:?}", blobs.delete(*id)),
            Step::DeleteAll { ino } => format!("{:?}", blobs.delete_all(*ino)),
            Step::Look { id, offset, len } => {
                let bytes = read(blobs, *id, *offset, *len as usize);
                let (extents, length) = (blobs.extents(*id, *offset, *len), blobs.len(*id));
                let (all, crc) = (blobs.objects_of(id.ino), crc32c::crc32c(&bytes));
                format!(
                    "{} bytes with checksum {crc:08x}, {extents:?}, length {length:?}, objects {all:?}",
                    bytes.len()
                )
            }
        }
    }
}

/// Carries the steps out on several backends that hold the same; panics where one shows something else than the first does.
pub fn alike(backends: &[(&str, &dyn Blobs)], steps: &[Step]) {
    for (number, step) in steps.iter().enumerate() {
        let mut seen = backends.iter().map(|(name, blobs)| (*name, step.run(*blobs)));
        let Some((first, expected)) = seen.next() else { return };
        for (name, shown) in seen {
            assert_eq!(shown, expected, "step {number}, {step:?}: {name} differs from {first}");
        }
    }
}

/// An object as bytes, and which of its blocks were written.
#[derive(Default)]
struct Model {
    bytes: Vec<u8>,
    data: BTreeSet<u64>,
}

impl Model {
    fn set_len(&mut self, len: u64) {
        self.bytes.resize(len as usize, 0);
        self.data.split_off(&len.div_ceil(BLOCK_SIZE));
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        self.bytes.resize(self.bytes.len().max(end as usize), 0);
        self.bytes[offset as usize..end as usize].copy_from_slice(data);
        self.data.extend(offset / BLOCK_SIZE..end.div_ceil(BLOCK_SIZE));
    }

    fn punch(&mut self, offset: u64, len: u64) {
        let all = self.bytes.len() as u64;
        let end = all.min(offset + len);
        self.bytes[end.min(offset) as usize..end as usize].fill(0);
        let is_gone = |block: &u64| {
            let (from, to) = (block * BLOCK_SIZE, (block * BLOCK_SIZE + BLOCK_SIZE).min(all));
            offset <= from && to <= end
        };
        self.data.retain(|block| !is_gone(block));
    }

    /// The extents of a range. Without `tells_zeros` a block counts as data if it has something else than zeros.
    fn extents(&self, offset: u64, len: u64, tells_zeros: bool) -> Vec<Extent> {
        let end = (offset + len).min(self.bytes.len() as u64);
        let mut out: Vec<Extent> = Vec::new();
        let has_something = |block: &u64| {
            let from = (block * BLOCK_SIZE) as usize;
            let to = self.bytes.len().min(from + BLOCK_SIZE as usize);
            self.bytes[from..to].iter().any(|byte| *byte != 0)
        };
        for block in self.data.iter().filter(|block| tells_zeros || has_something(block)) {
            let (from, to) = ((block * BLOCK_SIZE).max(offset), (block * BLOCK_SIZE + BLOCK_SIZE).min(end));
            match out.last_mut() {
                _ if from >= to => {}
                Some(last) if last.end() == from => last.len += to - from,
                _ => out.push(Extent { offset: from, len: to - from }),
            }
        }
        out
    }
}

/// Random operations over several openings, some of which end without a close.
pub(super) fn equals_arrays(make: Make<'_>) {
    let mut fixture = make();
    let tells_zeros = fixture.tells_zeros_from_holes();
    let mut model: BTreeMap<ObjectId, Model> = BTreeMap::new();
    let mut rng = Random::new(42);
    for round in 0..4 {
        let store = fixture.open();
        let blobs = store.blobs();
        for number in 0..300 {
            let step = Step::random(&mut rng);
            let at = format!("round {round}, step {number}, {step:?}");
            apply(&step, &mut model, &*blobs, tells_zeros, &at);
            if number % 20 == 0 {
                compare(&*blobs, &model, tells_zeros, &at);
            }
        }
        compare(&*blobs, &model, tells_zeros, "the end of a round");
        if round % 2 == 0 {
            drop(blobs);
            store.close().expect("close");
        }
    }
    let store = fixture.open();
    compare(&*store.blobs(), &model, tells_zeros, "the last opening");
}

fn apply(step: &Step, model: &mut BTreeMap<ObjectId, Model>, blobs: &dyn Blobs, tells_zeros: bool, at: &str) {
    step.run(blobs);
    match step {
        Step::Write { len: 0, .. } | Step::Sync { .. } => {}
        Step::Write { id, offset, len, seed } => {
            model.entry(*id).or_default().write(*offset, &Step::data(*len, *seed));
        }
        Step::Truncate { id, len } => {
            if *len > 0 || model.contains_key(id) {
                model.entry(*id).or_default().set_len(*len);
            }
        }
        Step::Punch { id, offset, len } => {
            if let Some(object) = model.get_mut(id) {
                object.punch(*offset, *len);
            }
        }
        Step::Delete { id } => _ = model.remove(id),
        Step::DeleteAll { ino } => model.retain(|id, _| id.ino != *ino),
        Step::Look { id, offset, len } => {
            let expected = model.get(id).map(|object| object.extents(*offset, *len, tells_zeros));
            assert_eq!(blobs.extents(*id, *offset, *len), Ok(expected.unwrap_or_default()), "{at}");
        }
    }
}

fn compare(blobs: &dyn Blobs, model: &BTreeMap<ObjectId, Model>, tells_zeros: bool, at: &str) {
    let lens: BTreeMap<ObjectId, u64> = model.iter().map(|(id, object)| (*id, object.bytes.len() as u64)).collect();
    assert_eq!(listed(blobs), lens, "{at}");
    for (id, object) in model {
        let len = object.bytes.len();
        assert!(read(blobs, *id, 0, len + 100) == object.bytes, "{id} differs at {at}");
        let extents = blobs.extents(*id, 0, SPAN * 2).expect("extents");
        assert_eq!(extents, object.extents(0, SPAN * 2, tells_zeros), "{id} at {at}");
    }
}
