//! Files of which the owner of a subtree has one version and all others another one.

use loligo_store::mem::{CrashPlan, MemDisk, Torn};
use loligo_store::{Backend, Blobs, Identity, ObjectId};
use loligo_types::Random;

use super::*;
use crate::execute;
use crate::frozen::MARK;

const COPY: Ino = Ino(0x900);
const KEPT: Ino = Ino(0x901);
const SIZE: u64 = 2 * OBJECT as u64 + 100;
/// As much as anybody looks at.
const LOOKED: u64 = 6 * OBJECT as u64;

/// A machine with a store, which does at once whatever it may.
struct World {
    osd: Osd,
    disk: MemDisk,
    blobs: Arc<dyn Blobs>,
    tag: Tag,
}

fn machine() -> Osd {
    let mut osd = osd();
    osd.handle(Input::Access { session: BOB, ino: FILE, access: Access::Write });
    osd
}

fn freeze(osd: &mut Osd, size: u64) {
    osd.handle(Input::Freeze { ino: FILE, copy: COPY, size, owner: ALICE, shared: true });
}

impl World {
    /// A file of three objects, of which the second is a hole, and that is forked.
    fn new() -> World {
        let disk = MemDisk::new(Identity::new([1; 16], [2; 16]));
        let blobs = disk.open().expect("a new disk").blobs();
        let mut world = World { osd: machine(), disk, blobs, tag: 100 };
        world.write(ALICE, 0, &[1; 5000]);
        world.write(ALICE, 2 * u64::from(OBJECT), &[3; 100]);
        assert_eq!(world.ask(ALICE, DataOp::Sync), Ok(DataAnswer::Done));
        freeze(&mut world.osd, SIZE);
        world
    }

    /// Another process of the server, which does not know how long the file was.
    fn again(self) -> World {
        let blobs = self.disk.open().map_or(self.blobs, |store| store.blobs());
        let mut world = World { osd: machine(), disk: self.disk, blobs, tag: self.tag };
        freeze(&mut world.osd, u64::MAX);
        world
    }

    fn settle(&mut self) -> Vec<Output> {
        settle(&mut self.osd, &*self.blobs)
    }

    fn ask(&mut self, session: SessionId, op: DataOp) -> Result<DataAnswer, DataError> {
        self.tag += 1;
        answer(&mut self.osd, &*self.blobs, session, self.tag, op)
    }

    fn write(&mut self, session: SessionId, offset: u64, bytes: &[u8]) {
        assert_eq!(self.ask(session, write_op(offset, bytes)), Ok(DataAnswer::Done));
    }

    fn read(&mut self, session: SessionId, len: u64) -> Vec<u8> {
        match self.ask(session, DataOp::Read { offset: 0, len: len as u32 }) {
            Ok(DataAnswer::Bytes(bytes)) => bytes.to_vec(),
            other => panic!("unexpected {other:?}"),
        }
    }

    /// The metadata server drops what others have cut off.
    fn cut(&mut self, from: u64) {
        self.osd.handle(Input::Discard { tag: 7, ino: FILE, object_size: OBJECT, from });
        assert!(self.settle().contains(&Output::Discarded { tag: 7, ino: FILE, result: Ok(()) }));
    }

    fn restore(&mut self) {
        self.osd.handle(Input::Restore { tag: 1, ino: FILE, copy: COPY });
        assert_eq!(self.settle(), [Output::Restored { tag: 1, ino: FILE, result: Ok(()) }]);
    }

    fn keep(&mut self, len: u64) {
        let (tag, ino, copy, object_size, to) = (8, FILE, COPY, OBJECT, KEPT);
        self.osd.handle(Input::KeepTheirs { tag, ino, copy, object_size, to, len });
        assert_eq!(self.settle(), [Output::Kept { tag, ino, to, result: Ok(()) }]);
    }

    fn look(&mut self) -> Option<u64> {
        self.osd.handle(Input::LookAtFork { tag: 9, ino: FILE, copy: COPY });
        match self.settle().pop() {
            Some(Output::Fork { tag: 9, ino: FILE, result: Ok(size) }) => size,
            other => panic!("unexpected {other:?}"),
        }
    }

    fn drop_copy(&mut self) {
        self.osd.handle(Input::Thaw { ino: FILE });
        self.osd.handle(Input::Discard { tag: 2, ino: COPY, object_size: OBJECT, from: 0 });
        assert_eq!(self.settle(), [Output::Discarded { tag: 2, ino: COPY, result: Ok(()) }]);
        assert_eq!(self.blobs.objects_of(COPY.0).expect("in memory"), []);
    }

    /// The bytes of an unforked file.
    fn bytes(&self, ino: Ino, len: u64) -> Vec<u8> {
        let read = Effect::Read { ino, object_size: u64::from(OBJECT), offset: 0, len: len as u32 };
        match execute(&*self.blobs, &read) {
            Ok(DataAnswer::Bytes(bytes)) => bytes.to_vec(),
            other => panic!("unexpected {other:?}"),
        }
    }
}

/// A version as one side sees it.
#[derive(Clone)]
struct Side(Vec<u8>);

impl Side {
    fn new(bytes: &[u8]) -> Side {
        let mut all = bytes.to_vec();
        all.resize(LOOKED as usize, 0);
        Side(all)
    }

    fn take(&mut self, op: &DataOp) {
        match op {
            DataOp::Write { offset, data } => {
                self.0[*offset as usize..*offset as usize + data.len()].copy_from_slice(data);
            }
            DataOp::Punch { offset, len } => self.0[*offset as usize..(*offset + *len) as usize].fill(0),
            DataOp::Discard { from } => self.0[*from as usize..].fill(0),
            _ => {}
        }
    }
}

fn any_op(random: &mut Random) -> DataOp {
    let offset = match random.below(4) {
        0 => SIZE,
        1 => random.below(5) * u64::from(OBJECT),
        _ => random.below(5 * u64::from(OBJECT)),
    };
    let most = [50, u64::from(OBJECT)][random.below(2) as usize];
    let len = 1 + random.below(most);
    let byte = 1 + random.below(250) as u8;
    match random.below(5) {
        0..=2 => write_op(offset, &vec![byte; len as usize]),
        3 => DataOp::Punch { offset, len },
        _ => DataOp::Discard { from: offset },
    }
}

#[test]
fn each_side_sees_its_own_version_whatever_both_do_and_either_can_be_the_one_that_counts() {
    for start in 0..400u64 {
        let mut random = Random::new(start);
        let mut world = World::new();
        let was = world.read(ALICE, SIZE);
        let (mut mine, mut theirs) = (Side::new(&was), Side::new(&was));
        let mut changed = false;
        for _ in 0..random.below(12) {
            let op = any_op(&mut random);
            match random.below(6) {
                0 => world = world.again(),
                1 | 2 => {
                    mine.take(&op);
                    assert_eq!(world.ask(ALICE, op), Ok(DataAnswer::Done));
                }
                3 if matches!(op, DataOp::Discard { .. }) => {
                    let DataOp::Discard { from } = op else { unreachable!("it is one") };
                    theirs.take(&op);
                    world.cut(from);
                }
                _ => {
                    changed |= matches!(op, DataOp::Write { .. });
                    theirs.take(&op);
                    assert_eq!(world.ask(BOB, op), Ok(DataAnswer::Done));
                }
            }
            assert_eq!(world.read(ALICE, LOOKED), mine.0, "seed {start}: the owner's");
            assert_eq!(world.read(BOB, LOOKED), theirs.0, "seed {start}: others'");
            for offset in [0, 4096, SIZE, 3 * u64::from(OBJECT)] {
                let Ok(DataAnswer::Offset(found)) = world.ask(BOB, DataOp::Seek { offset, size: LOOKED, data: true })
                else {
                    panic!("no answer")
                };
                // Zeros may have been written; but no data is missed.
                let first = theirs.0[offset as usize..].iter().position(|byte| *byte != 0);
                let first = first.map(|at| at as u64 + offset);
                assert!(found.is_none_or(|at| at <= first.unwrap_or(LOOKED)), "seed {start}");
                assert!(found.is_some() || first.is_none(), "seed {start}");
            }
        }
        assert!(!changed || world.look().is_none(), "seed {start}: it is not seen that others have changed it");
        let len = random.below(LOOKED);
        world.keep(len);
        world.keep(len);
        let mut kept = theirs.0.clone();
        kept[len as usize..].fill(0);
        assert_eq!(world.bytes(KEPT, LOOKED), kept, "seed {start}: it is kept as another file");
        if random.below(2) == 0 {
            world.restore();
            if random.below(2) == 0 {
                world = world.again();
                world.restore();
            }
            world.drop_copy();
            assert_eq!(world.read(BOB, LOOKED), theirs.0, "seed {start}: others' counts");
        } else {
            world.drop_copy();
            assert_eq!(world.read(BOB, LOOKED), mine.0, "seed {start}: the owner's counts");
        }
        assert_eq!(world.bytes(KEPT, LOOKED), kept, "seed {start}");
    }
}

#[test]
fn what_the_owner_appended_is_in_no_hole_that_others_make_nor_there_when_it_gives_up() {
    for restart in [false, true] {
        let mut world = World::new();
        let was = world.read(BOB, SIZE);
        world.write(ALICE, SIZE, &[9; 70_000]);
        if restart {
            world = world.again();
        }
        world.write(BOB, LOOKED - 10, &[7; 10]);
        let mut theirs = Side::new(&was);
        theirs.take(&write_op(LOOKED - 10, &[7; 10]));
        assert_eq!(world.read(BOB, LOOKED), theirs.0);
        let hole = DataOp::Seek { offset: SIZE, size: LOOKED, data: false };
        assert_eq!(world.ask(BOB, hole), Ok(DataAnswer::Offset(Some(SIZE))));
        world.restore();
        world.drop_copy();
        assert_eq!(world.read(ALICE, LOOKED), theirs.0, "nothing of it is left");
    }
}

#[test]
fn a_length_that_nobody_knew_before_the_first_change_is_none_and_both_versions_are_right() {
    let mut world = World::new();
    // Nobody has changed anything yet.
    world = world.again();
    let was = world.read(BOB, SIZE);
    world.write(ALICE, SIZE, &[9; 40_000]);
    assert_eq!(world.read(BOB, LOOKED), Side::new(&was).0);
    world.write(BOB, 3 * u64::from(OBJECT) + 5, b"theirs");
    world = world.again();
    let mut theirs = Side::new(&was);
    theirs.take(&write_op(3 * u64::from(OBJECT) + 5, b"theirs"));
    assert_eq!(world.read(BOB, LOOKED), theirs.0);
    world.restore();
    world.drop_copy();
    assert_eq!(world.read(ALICE, LOOKED), theirs.0);
}

#[test]
fn a_file_that_was_in_its_inode_for_others_is_moved_to_the_copy_when_they_make_it_large() {
    let mut world = World::new();
    world.osd = machine();
    freeze(&mut world.osd, 0);
    world.write(ALICE, 0, &[9; 40_000]);
    let mine = world.read(ALICE, LOOKED);
    assert_eq!(world.read(BOB, LOOKED), vec![0; LOOKED as usize], "its objects are the owner's");
    let data: Arc<[u8]> = Arc::from(&b"it was small"[..]);
    world.osd.handle(Input::Spill { tag: 3, ino: FILE, object_size: OBJECT, data });
    assert_eq!(world.settle(), [Output::Spilled { tag: 3, ino: FILE, result: Ok(()) }]);
    world.write(BOB, 50_000, b"and is not");
    let mut theirs = Side::new(b"it was small");
    theirs.take(&write_op(50_000, b"and is not"));
    for _ in 0..2 {
        assert_eq!(world.read(BOB, LOOKED), theirs.0);
        assert_eq!(world.read(ALICE, LOOKED), mine);
        world = world.again();
    }
}

#[test]
fn it_is_seen_whether_others_have_changed_the_bytes() {
    let changes = |world: &mut World, change: &dyn Fn(&mut World)| {
        change(world);
        world.look()
    };
    let nothing: &dyn Fn(&mut World) = &|_| {};
    assert_eq!(changes(&mut World::new(), nothing), Some(u64::MAX), "there is nothing that it is known from");
    assert_eq!(changes(&mut World::new(), &|world| world.write(ALICE, 10, &[9; 40_000])), Some(SIZE));
    assert_eq!(changes(&mut World::new(), &|world| world.write(ALICE, SIZE, b"more")), Some(SIZE));
    assert_eq!(changes(&mut World::new(), &|world| world.write(BOB, 10, b"x")), None);
    assert_eq!(changes(&mut World::new(), &|world| world.cut(100)), None);
    let both: &dyn Fn(&mut World) = &|world| {
        world.write(ALICE, 10, b"x");
        world.write(BOB, 10, b"y");
    };
    assert_eq!(changes(&mut World::new(), both), None);
    let mut world = World::new();
    both(&mut world);
    assert_eq!(world.again().look(), None);
}

#[test]
fn a_sync_of_others_makes_their_version_durable() {
    let mut world = World::new();
    world.write(BOB, 10, &[5; 20_000]);
    assert_eq!(world.ask(BOB, DataOp::Discard { from: 15_000 }), Ok(DataAnswer::Done));
    assert_eq!(world.ask(BOB, DataOp::Sync), Ok(DataAnswer::Done));
    let theirs = world.read(BOB, LOOKED);
    world.disk.crash(&CrashPlan::lose_all());
    assert_eq!(world.again().read(BOB, LOOKED), theirs);
}

/// Steps of both, each in its own objects or over the other's.
const STEPS: usize = 6;

fn step(world: &mut World, at: usize) {
    match at {
        0 => world.write(ALICE, 10, &[9; 20_000]),
        1 => world.write(ALICE, SIZE + 5, &[9; 40_000]),
        2 => world.write(BOB, 100, &[5; 30]),
        3 => world.write(BOB, 3 * u64::from(OBJECT), &[5; 30]),
        4 => world.cut(3000),
        _ => assert_eq!(world.ask(BOB, DataOp::Punch { offset: 0, len: 50 }), Ok(DataAnswer::Done)),
    }
}

#[test]
fn after_lost_power_others_see_nothing_of_the_owners_and_what_was_synced_is_there() {
    for steps in 0..=STEPS {
        let some = (0..12).map(|seed| CrashPlan::lose_some(Torn::Byte, seed));
        for plan in some.chain([CrashPlan::lose_all(), CrashPlan::lose_nothing()]) {
            for synced in [false, true] {
                let mut world = World::new();
                let was = world.read(BOB, LOOKED);
                (0..steps).for_each(|at| step(&mut world, at));
                let (mine, theirs) = (world.read(ALICE, LOOKED), world.read(BOB, LOOKED));
                if synced {
                    assert_eq!(world.ask(BOB, DataOp::Sync), Ok(DataAnswer::Done));
                }
                world.disk.crash(&plan);
                let mut world = world.again();
                let now = world.read(BOB, LOOKED);
                assert!(!now.contains(&9), "{steps} {plan:?}: the owner's bytes are the owner's");
                if synced {
                    assert_eq!((world.read(ALICE, LOOKED), &now), (mine, &theirs), "{steps} {plan:?}");
                }
                if steps <= 2 {
                    assert_eq!(now, was, "{steps} {plan:?}");
                }
                // Each goes on.
                world.write(ALICE, 3 * u64::from(OBJECT) + 7, &[9; 300]);
                assert_eq!(world.read(BOB, LOOKED), now, "{steps} {plan:?}");
                world.write(BOB, 3 * u64::from(OBJECT) + 8, &[4; 3]);
                let now = world.read(BOB, LOOKED);
                world.restore();
                world.drop_copy();
                assert_eq!(world.bytes(FILE, LOOKED), now, "{steps} {plan:?}");
            }
        }
    }
}

#[test]
fn a_copy_that_a_crash_has_cut_off_is_made_again_also_where_it_comes_to_a_hole() {
    let mut world = World::new();
    let was = world.read(BOB, LOOKED);
    world.blobs.write_at(ObjectId::new(COPY.0, 0), 0, &[0xee; 9000]).expect("in memory");
    world.blobs.write_at(ObjectId::new(COPY.0, 1), 0, &[0xee; 9000]).expect("in memory");
    world.write(ALICE, 0, &[9; 40_000]);
    assert_eq!(world.read(BOB, LOOKED), was);
    world.write(BOB, 1, b"x");
    assert!(world.blobs.len(ObjectId::new(COPY.0, MARK)).expect("in memory").is_some());
}
