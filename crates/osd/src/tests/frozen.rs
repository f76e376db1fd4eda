//! Files that one session changes while all others read them as they were.

use loligo_store::mem::{CrashPlan, MemDisk, Torn};
use loligo_store::{Backend, Blobs, Identity, ObjectId};
use loligo_types::limits::DATA_OP_MAX;

use super::*;
use crate::execute;

const COPY: Ino = Ino(0x900);
const SIZE: u64 = 2 * OBJECT as u64 + 100;

/// A machine with a store, which does at once whatever it may.
struct World {
    osd: Osd,
    disk: MemDisk,
    blobs: Arc<dyn Blobs>,
    tag: Tag,
}

impl World {
    fn new() -> World {
        let disk = MemDisk::new(Identity::new([1; 16], [2; 16]));
        let blobs = disk.open().expect("a new disk").blobs();
        World { osd: osd(), disk, blobs, tag: 100 }
    }

    /// Another process of the server, which knows of the file what the record of the subtree says.
    fn again(self) -> World {
        let blobs = self.disk.open().map_or(self.blobs, |store| store.blobs());
        let mut world = World { osd: osd(), disk: self.disk, blobs, tag: 0 };
        world.osd.handle(Input::Freeze { ino: FILE, copy: COPY, size: u64::MAX, owner: ALICE, shared: false });
        world
    }

    fn copied(&self) -> usize {
        self.blobs.objects_of(COPY.0).expect("in memory").len()
    }

    /// Carries out what the machine gives out, until there is no more; what it says.
    fn settle(&mut self) -> Vec<Output> {
        settle(&mut self.osd, &*self.blobs)
    }

    fn ask(&mut self, session: SessionId, op: DataOp) -> Result<DataAnswer, DataError> {
        self.tag += 1;
        answer(&mut self.osd, &*self.blobs, session, self.tag, op)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        assert_eq!(self.ask(ALICE, write_op(offset, bytes)), Ok(DataAnswer::Done));
    }

    fn read(&mut self, session: SessionId, offset: u64, len: u32) -> Vec<u8> {
        match self.ask(session, DataOp::Read { offset, len }) {
            Ok(DataAnswer::Bytes(bytes)) => bytes.to_vec(),
            other => panic!("unexpected {other:?}"),
        }
    }

    fn freeze(&mut self) {
        self.osd.handle(Input::Freeze { ino: FILE, copy: COPY, size: SIZE, owner: ALICE, shared: false });
    }

    /// A file of three objects, of which the second is a hole, and that is frozen.
    fn with_file() -> (World, Vec<u8>) {
        let mut world = World::new();
        world.write(0, &[1; 5000]);
        world.write(2 * u64::from(OBJECT), &[3; 100]);
        let was = world.read(BOB, 0, SIZE as u32);
        world.freeze();
        (world, was)
    }
}

#[test]
fn others_read_a_file_as_it_was_however_it_is_changed_and_its_owner_reads_it_as_it_is() {
    for op in [
        write_op(10, &[9; 40_000]),
        write_op(u64::from(OBJECT) + 7, b"into the hole"),
        write_op(SIZE - 1, &[8; 300]),
        DataOp::Punch { offset: 0, len: SIZE },
        DataOp::Discard { from: 0 },
        DataOp::Discard { from: 3000 },
    ] {
        let (mut world, was) = World::with_file();
        assert_eq!(world.ask(ALICE, op.clone()), Ok(DataAnswer::Done), "{op:?}");
        let now = world.read(ALICE, 0, SIZE as u32);
        assert_ne!(now, was, "{op:?}");
        assert_eq!(world.read(BOB, 0, SIZE as u32), was, "{op:?}");
        // The copy is made once, of what was there first.
        world.write(0, &[7; 60_000]);
        assert_eq!(world.read(BOB, 0, SIZE as u32), was, "{op:?}");
        for data in [true, false] {
            let seek = |offset| DataOp::Seek { offset, size: SIZE + 5000, data };
            let mut plain = World::new();
            plain.write(0, &was[..5000]);
            plain.write(2 * u64::from(OBJECT), &was[2 * OBJECT as usize..]);
            for offset in [0, 4999, 8192, u64::from(OBJECT), 2 * u64::from(OBJECT) + 5] {
                let as_it_was = plain.ask(ALICE, DataOp::Seek { offset, size: SIZE, data });
                assert_eq!(world.ask(BOB, seek(offset)), as_it_was, "{op:?}, from {offset}, data {data}");
            }
        }
        world.osd.handle(Input::Thaw { ino: FILE });
        let thawed = world.read(ALICE, 0, SIZE as u32);
        assert_eq!(world.read(BOB, 0, SIZE as u32), thawed, "{op:?}");
    }
}

#[test]
fn what_is_appended_is_neither_copied_nor_read_by_others() {
    let (mut world, was) = World::with_file();
    world.write(SIZE, &[5; 70_000]);
    assert_eq!(world.copied(), 0);
    let read = world.read(BOB, 0, DATA_OP_MAX.min(100_000) as u32);
    assert_eq!(&read[..was.len()], &was[..]);
    assert!(read[was.len()..].iter().all(|byte| *byte == 0), "nobody reads behind its end");
}

#[test]
fn a_copy_that_a_crash_has_cut_off_is_made_again_and_a_whole_one_is_not() {
    let (mut world, was) = World::with_file();
    // Of one that was begun, and has no mark yet.
    world.blobs.write_at(ObjectId::new(COPY.0, 0), 0, &[0xee; 100]).expect("in memory");
    assert_eq!(world.read(BOB, 0, SIZE as u32), was, "it does not count");
    world.write(0, b"new");
    assert_eq!(world.read(BOB, 0, SIZE as u32), was);
    let mut again = world.again();
    assert_eq!(again.read(BOB, 0, SIZE as u32), was);
    again.write(1, b"newer");
    assert_eq!(again.read(BOB, 0, SIZE as u32), was);
}

#[test]
fn after_lost_power_others_read_it_as_it_was_whatever_of_the_changes_is_left() {
    let some = (0..20).map(|seed| CrashPlan::lose_some(Torn::Byte, seed));
    for plan in some.chain([CrashPlan::lose_all(), CrashPlan::lose_nothing()]) {
        let mut world = World::new();
        world.write(0, &[1; 5000]);
        world.write(2 * u64::from(OBJECT), &[3; 100]);
        let was = world.read(BOB, 0, SIZE as u32);
        assert_eq!(world.ask(ALICE, DataOp::Sync), Ok(DataAnswer::Done));
        world.freeze();
        world.write(10, &[9; 40_000]);
        world.disk.crash(&plan);
        let mut world = world.again();
        assert_eq!(world.read(BOB, 0, SIZE as u32), was);
        world.write(10, &[8; 40_000]);
        assert_eq!(world.read(BOB, 0, SIZE as u32), was);
    }
}

#[test]
fn what_is_put_back_is_as_it_was_also_when_it_is_done_twice() {
    let (mut world, was) = World::with_file();
    world.write(10, &[9; 40_000]);
    assert_eq!(world.ask(ALICE, DataOp::Discard { from: 100 }), Ok(DataAnswer::Done));
    for _ in 0..2 {
        world.osd.handle(Input::Restore { tag: 1, ino: FILE, copy: COPY });
        assert_eq!(world.settle(), [Output::Restored { tag: 1, ino: FILE, result: Ok(()) }]);
        assert_eq!(world.read(ALICE, 0, SIZE as u32), was);
    }
    world.osd.handle(Input::Thaw { ino: FILE });
    world.osd.handle(Input::Discard { tag: 2, ino: COPY, object_size: OBJECT, from: 0 });
    assert_eq!(world.settle(), [Output::Discarded { tag: 2, ino: COPY, result: Ok(()) }]);
    assert_eq!(world.copied(), 0);
    assert_eq!(world.read(BOB, 0, SIZE as u32), was);
}

#[test]
fn a_copy_is_dropped_behind_the_reads_of_it_that_are_under_way() {
    let (mut world, was) = World::with_file();
    world.write(0, &[9; 5000]);
    ask(&mut world.osd, BOB, 1, DataOp::Read { offset: 0, len: SIZE as u32 });
    let read = runs(&mut world.osd);
    world.osd.handle(Input::Access { session: BOB, ino: FILE, access: Access::None });
    world.osd.handle(Input::Thaw { ino: FILE });
    world.osd.handle(Input::Discard { tag: 2, ino: COPY, object_size: OBJECT, from: 0 });
    assert_eq!(outputs(&mut world.osd), [], "it waits");
    let result = execute(&*world.blobs, &read[0].1);
    assert!(matches!(&result, Ok(DataAnswer::Bytes(bytes)) if bytes[..] == was[..]));
    world.osd.handle(Input::Done { id: read[0].0, result });
    assert!(world.settle().contains(&Output::Discarded { tag: 2, ino: COPY, result: Ok(()) }));
}
