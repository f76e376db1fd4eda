//! Writes of the journal and others of the same blocks, in random order with crashes of the disk: what was acknowledged is there after the
//! records that still count are written again, and nothing older.

use loligo_journal::DataLog;
use loligo_store::mem::{CrashPlan, MemDisk, Torn};
use loligo_store::{BLOCK_SIZE, Backend, Blobs, Identity};
use loligo_types::{Event, Lsn, Patches, Random};

use super::*;
use crate::execute;

/// Blocks of the file, over several objects.
const BLOCKS: u64 = 10;

/// The values of a block: those of which it is made for certain, if no later write is there, and those writes in their order.
struct Block {
    certain: Vec<u8>,
    later: Vec<u8>,
}

struct World {
    rng: Random,
    disk: MemDisk,
    blobs: Arc<dyn Blobs>,
    osd: Osd,
    out: Vec<(EffectId, Effect)>,
    /// The journal, all of it durable.
    journal: Vec<(Lsn, Event)>,
    /// Answers of the object server that the journal does not repeat yet.
    in_place: Vec<(Ino, Lsn)>,
    blocks: Vec<Block>,
    /// Writes that are not answered: their blocks, and the value.
    asked: Vec<(Tag, std::ops::Range<u64>, u8)>,
    /// Syncs that are not answered: the values that are certain then.
    syncs: Vec<(Tag, Vec<u8>)>,
    /// Last answered value of each block.
    answered: Vec<u8>,
    next: u64,
    /// Number of writes: each has a value of its own.
    writes: u8,
    /// Other changes of the journal's bytes do not wait.
    lies: bool,
}

/// An object server that refuses nothing for want of room in its queue.
fn roomy() -> Osd {
    let mut osd = Osd::new(Config { queue_bytes: 1 << 40, ..Config::default() });
    osd.handle(Input::Access { session: ALICE, ino: FILE, access: Access::Write });
    osd.handle(Input::Access { session: BOB, ino: FILE, access: Access::Read });
    osd
}

impl World {
    fn new(seed: u64, lies: bool) -> World {
        let disk = MemDisk::new(Identity::new([1; 16], [2; 16]));
        let blobs = disk.open().expect("open").blobs();
        World {
            rng: Random::new(seed),
            disk,
            blobs,
            osd: roomy(),
            out: Vec::new(),
            journal: Vec::new(),
            in_place: Vec::new(),
            blocks: (0..BLOCKS).map(|_| Block { certain: vec![0], later: Vec::new() }).collect(),
            asked: Vec::new(),
            syncs: Vec::new(),
            answered: vec![0; BLOCKS as usize],
            next: 1,
            writes: 0,
            lies,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn drain(&mut self) {
        while let Some(output) = self.osd.next_output() {
            match output {
                Output::Run { id, effect } => self.out.push((id, effect)),
                Output::InPlace { ino, upto, .. } => self.in_place.push((ino, upto)),
                Output::Reply { tag, result, .. } => {
                    result.expect("nothing fails");
                    self.replied(tag);
                }
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn replied(&mut self, tag: Tag) {
        if let Some(at) = self.syncs.iter().position(|(sync, _)| *sync == tag) {
            let (_, certain) = self.syncs.remove(at);
            for (block, value) in self.blocks.iter_mut().zip(certain) {
                // A later write of the journal may be certain already.
                if let Some(at) = block.later.iter().position(|known| *known == value) {
                    block.later.drain(..=at);
                    block.certain = vec![value];
                }
            }
        } else if let Some(at) = self.asked.iter().position(|(write, ..)| *write == tag) {
            let (_, blocks, value) = self.asked.remove(at);
            blocks.for_each(|block| self.answered[block as usize] = value);
        }
    }

    fn some_blocks(&mut self) -> (u64, u64) {
        let first = self.rng.below(BLOCKS);
        (first, (first + 1 + self.rng.below(3)).min(BLOCKS))
    }

    fn step(&mut self) -> Option<String> {
        let (first, end) = self.some_blocks();
        let number = self.number();
        let what = self.rng.below(30);
        self.writes += u8::from(what < 8);
        let value = self.writes;
        let data: Arc<[u8]> = vec![value; ((end - first) * BLOCK_SIZE) as usize].into();
        match what {
            0..5 => {
                let patches = Arc::new(Patches::of(&[(first * BLOCK_SIZE, data)]).expect("within the limits"));
                let lsn = Lsn(number);
                self.journal.push((lsn, Event::Data { ino: FILE, object_size: OBJECT, patches: patches.clone() }));
                self.osd.handle(Input::WriteLogged { lsn, ino: FILE, object_size: OBJECT, patches });
                if self.lies {
                    self.osd.handle(Input::Forget { ino: FILE, upto: lsn });
                }
                for block in first..end {
                    self.blocks[block as usize] = Block { certain: vec![value], later: Vec::new() };
                }
                (first..end).for_each(|block| self.answered[block as usize] = value);
            }
            5..8 => {
                self.asked.push((number, first..end, value));
                (first..end).for_each(|block| self.blocks[block as usize].later.push(value));
                ask(&mut self.osd, ALICE, number, DataOp::Write { offset: first * BLOCK_SIZE, data });
            }
            8..11 if self.asked.is_empty() => {
                self.syncs.push((number, self.answered.clone()));
                ask(&mut self.osd, ALICE, number, DataOp::Sync);
            }
            11 => self.osd.handle(Input::SettleLogged),
            12..14 if !self.in_place.is_empty() => {
                let (ino, upto) = self.in_place.remove(0);
                self.journal.push((Lsn(number), Event::DataInPlace { ino, upto }));
                self.osd.handle(Input::Forget { ino, upto });
            }
            14 if self.rng.below(4) == 0 => return self.crash(),
            _ if !self.out.is_empty() => {
                let at = self.rng.below(self.out.len() as u64) as usize;
                let (id, effect) = self.out.swap_remove(at);
                let result = execute(&*self.blobs, &effect);

                self.osd.handle(Input::Done { id, result });
            }
            _ => {}
        }
        self.drain();
        None
    }

    /// The disk loses some of what was not synced; a new life writes what counts again. What is wrong then.
    fn crash(&mut self) -> Option<String> {
        let seed = self.rng.below(u64::MAX);
        self.disk.crash(&CrashPlan::lose_some(Torn::Byte, seed));
        self.blobs = self.disk.open().expect("open").blobs();
        self.osd = roomy();
        self.out.clear();
        self.in_place.clear();
        self.asked.clear();
        self.syncs.clear();
        let mut log = DataLog::default();
        self.journal.iter().for_each(|(lsn, event)| log.note(*lsn, event));
        for record in log.iter() {
            let (lsn, ino, object_size, patches) = (record.lsn, record.ino, record.object_size, record.patches.clone());
            self.osd.handle(Input::WriteLogged { lsn, ino, object_size, patches });
            if self.lies {
                self.osd.handle(Input::Forget { ino, upto: lsn });
            }
        }
        let len = (BLOCKS * BLOCK_SIZE) as u32;
        ask(&mut self.osd, BOB, 1, DataOp::Read { offset: 0, len });
        let Some(Output::Reply { result: Ok(DataAnswer::Bytes(bytes)), .. }) =
            settle(&mut self.osd, &*self.blobs).pop()
        else {
            panic!("no bytes")
        };
        for (index, (block, found)) in self.blocks.iter_mut().zip(bytes.chunks(BLOCK_SIZE as usize)).enumerate() {
            // A torn write leaves bytes of several.
            let may_be = |value: &&u8| block.certain.contains(value) || block.later.contains(value);
            if let Some(wrong) = found.iter().find(|value| !may_be(value)) {
                return Some(format!("block {index} has {wrong}, and may have {:?}, {:?}", block.certain, block.later));
            }
            *block = Block { certain: found.to_vec(), later: Vec::new() };
            // No write of this life.
            self.answered[index] = 0;
        }
        None
    }
}

fn run(seed: u64, lies: bool) -> Option<String> {
    let mut world = World::new(seed, lies);
    (0..800).find_map(|_| if world.writes < u8::MAX { world.step() } else { None }).or_else(|| world.crash())
}

#[test]
fn what_was_acknowledged_is_there_after_any_crash() {
    for seed in 0..400 {
        if let Some(wrong) = run(seed, false) {
            panic!("seed {seed}: {wrong}");
        }
    }
}

#[test]
fn a_record_that_is_repeated_over_what_was_synced_after_it_is_found() {
    assert!((0..400).any(|seed| run(seed, true).is_some()));
}
