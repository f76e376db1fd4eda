//! Random operations of two sessions, effects carried out in random order: every answer is what it is
//! when one operation runs after the other, and what a sync covered survives every crash.

use std::collections::BTreeMap;

use loligo_store::mem::{CrashPlan, MemDisk, Torn};
use loligo_store::{Backend, Blobs, Identity};
use loligo_types::Random;

use super::*;
use crate::execute;

const SPAN: u64 = 5 * OBJECT as u64;

/// A file as one array; what was never written is zero.
#[derive(Clone)]
struct Model(Vec<u8>);

impl Model {
    fn apply(&mut self, op: &DataOp) -> Option<DataAnswer> {
        let end = self.0.len() as u64;
        match op {
            DataOp::Read { offset, len } => {
                return Some(DataAnswer::Bytes(self.0[*offset as usize..][..*len as usize].into()));
            }
            DataOp::Write { offset, data } => self.0[*offset as usize..][..data.len()].copy_from_slice(data),
            DataOp::Punch { offset, len } => self.0[*offset as usize..(offset + len).min(end) as usize].fill(0),
            DataOp::Discard { from } => self.0[*from as usize..].fill(0),
            DataOp::Seek { .. } => return None,
            DataOp::Sync => {}
        }
        Some(DataAnswer::Done)
    }
}

fn random_op(rng: &mut Random) -> DataOp {
    let (offset, len) = (rng.below(SPAN), rng.below(2 * u64::from(OBJECT)));
    let len = len.min(SPAN - offset);
    match rng.below(12) {
        0..=3 => DataOp::Read { offset, len: len as u32 },
        4..=7 => write_op(offset, &vec![1 + rng.below(255) as u8; len as usize]),
        8 => DataOp::Punch { offset, len },
        9 => DataOp::Discard { from: offset },
        10 => DataOp::Sync,
        _ => DataOp::Seek { offset, size: SPAN, data: rng.below(2) == 0 },
    }
}

struct World {
    disk: MemDisk,
    blobs: Arc<dyn Blobs>,
    osd: Osd,
    out: Vec<(EffectId, Effect)>,
    expected: BTreeMap<Tag, Option<DataAnswer>>,
    answered: Vec<Tag>,
}

impl World {
    fn new() -> Self {
        let disk = MemDisk::new(Identity::new([1; 16], [2; 16]));
        let blobs = disk.open().expect("open").blobs();
        let mut osd = osd();
        osd.handle(Input::Trust { session: BOB });
        Self { disk, blobs, osd, out: Vec::new(), expected: BTreeMap::new(), answered: Vec::new() }
    }

    fn drain(&mut self) {
        while let Some(output) = self.osd.next_output() {
            match output {
                Output::Run { id, effect } => self.out.push((id, effect)),
                Output::Reply { tag, result, .. } => self.check(tag, result),
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    fn check(&mut self, tag: Tag, result: Result<DataAnswer, DataError>) {
        let expected = self.expected.remove(&tag).expect("answered once");
        let answer = result.expect("nothing fails here");
        assert!(expected.is_none_or(|expected| expected == answer), "answer {tag} differs");
        self.answered.push(tag);
    }

    fn run_one(&mut self, rng: &mut Random) {
        let (id, effect) = self.out.swap_remove(rng.below(self.out.len() as u64) as usize);
        let result = execute(&*self.blobs, &effect);
        self.osd.handle(Input::Done { id, result });
        self.drain();
    }
}

#[test]
fn answers_are_those_of_one_operation_after_the_other() {
    for seed in 1..30 {
        let mut rng = Random::new(seed);
        let mut world = World::new();
        let mut model = Model(vec![0; SPAN as usize]);
        for tag in 0..200 {
            let op = random_op(&mut rng);
            world.expected.insert(tag, model.apply(&op));
            ask(&mut world.osd, if rng.below(2) == 0 { ALICE } else { BOB }, tag, op);
            world.drain();
            while rng.below(3) > 0 && !world.out.is_empty() {
                world.run_one(&mut rng);
            }
        }
        while !world.out.is_empty() {
            world.run_one(&mut rng);
        }
        assert_eq!(world.answered.len(), 200, "everything was answered");
        assert!(world.osd.is_idle());
    }
}

#[test]
fn what_a_sync_covered_survives_a_crash() {
    let mut compared = 0;
    for seed in 1..60 {
        let mut rng = Random::new(seed);
        let mut world = World::new();
        let mut model = Model(vec![0; SPAN as usize]);
        let mut synced = (0, model.clone());
        let mut cuts = Vec::new();
        for tag in 0..30 {
            let op = random_op(&mut rng);
            world.expected.insert(tag, model.apply(&op));
            let is_sync = op == DataOp::Sync;
            if let DataOp::Discard { from } = op {
                // It is durable; the rest of the object that is cut may be so, too, and earlier removals of objects.
                synced.1.0[from as usize..].fill(0);
                cuts.push((from - from % u64::from(OBJECT), model.0[..from as usize].to_vec()));
            }
            ask(&mut world.osd, ALICE, tag, op);
            world.drain();
            while !world.out.is_empty() {
                world.run_one(&mut rng);
            }
            if is_sync {
                synced = (tag, model.clone());
                cuts.clear();
            }
        }
        ask(&mut world.osd, ALICE, 99, DataOp::Sync);
        world.expected.insert(99, None);
        world.drain();
        let kept = rng.below(2) == 0;
        if kept {
            world.run_one(&mut rng);
            synced = (99, model);
        }
        // Lost are changes after the last sync, so of these only a run without any can be compared.
        let plan = if rng.below(2) == 0 { CrashPlan::lose_all() } else { CrashPlan::lose_some(Torn::Byte, seed) };
        world.disk.crash(&plan);
        if !kept && plan != CrashPlan::lose_all() {
            continue;
        }
        compared += u64::from(!kept);
        let blobs = world.disk.open().expect("open").blobs();
        let effect = Effect::Read { ino: FILE, object_size: u64::from(OBJECT), offset: 0, len: SPAN as u32 };
        let Ok(DataAnswer::Bytes(bytes)) = execute(&*blobs, &effect) else { panic!("the file is readable") };
        let of_cut = |at: usize| {
            let may_be = |(first, kept): &(u64, Vec<u8>)| {
                (at as u64 >= *first || bytes[at] == 0) && kept.get(at) == Some(&bytes[at])
            };
            cuts.iter().any(may_be)
        };
        let wrong = (0..bytes.len()).find(|at| bytes[*at] != synced.1.0[*at] && !of_cut(*at));
        assert_eq!(wrong, None, "seed {seed}: the sync of operation {} is not what is left", synced.0);
    }
    assert!(compared > 3, "hardly any crash lost something: {compared}");
}

#[test]
fn seeks_find_data_and_holes_over_objects() {
    let world = World::new();
    let (ino, object_size) = (FILE, u64::from(OBJECT));
    let data: Arc<[u8]> = vec![1; 2 * OBJECT as usize].into();
    let write = Effect::Write { ino, object_size, offset: 4096, data };
    execute(&*world.blobs, &write).expect("write");
    let seek = |offset, data| {
        let effect = Effect::Seek { ino, object_size, offset, size: SPAN, data };
        execute(&*world.blobs, &effect).expect("seek")
    };
    let at = |place| DataAnswer::Offset(Some(place));
    assert_eq!((seek(0, true), seek(0, false)), (at(4096), at(0)));
    assert_eq!((seek(5000, true), seek(5000, false)), (at(5000), at(4096 + 2 * object_size)));
    assert_eq!((seek(40_000, true), seek(40_000, false)), (DataAnswer::Offset(None), at(40_000)));
    assert_eq!((seek(SPAN, true), seek(SPAN, false)), (DataAnswer::Offset(None), DataAnswer::Offset(None)));
}

/// Results of both searches at a place.
fn search(world: &World, offset: u64, size: u64) -> [Option<u64>; 2] {
    [true, false].map(|data| {
        let effect = Effect::Seek { ino: FILE, object_size: u64::from(OBJECT), offset, size, data };
        match execute(&*world.blobs, &effect) {
            Ok(DataAnswer::Offset(place)) => place,
            other => panic!("{other:?}"),
        }
    })
}

#[test]
fn going_from_data_to_hole_ends_and_passes_over_zeros_only() {
    for seed in 1..30 {
        let mut rng = Random::new(seed);
        let world = World::new();
        let mut model = Model(vec![0; SPAN as usize]);
        for _ in 0..20 {
            let op = random_op(&mut rng);
            model.apply(&op);
            if !matches!(op, DataOp::Sync) {
                execute(&*world.blobs, &crate::admit::to_effect(FILE, u64::from(OBJECT), op)).expect("nothing fails");
            }
        }
        // The file may end inside an object, or far behind the last.
        for size in [SPAN, 1 + rng.below(SPAN), SPAN + rng.below(SPAN)] {
            let zeros = |from: u64, to: u64| {
                let end = SPAN.min(to) as usize;
                model.0[end.min(from as usize)..end].iter().all(|byte| *byte == 0)
            };
            let mut places: Vec<u64> = (0..40).map(|_| rng.below(size)).collect();
            let borders = (0..size).step_by(4096).flat_map(|border| [border.saturating_sub(1), border, border + 1]);
            places.extend(borders.filter(|place| *place < size));
            for place in places {
                let [data, hole] = search(&world, place, size);
                assert!(data.is_none_or(|data| data >= place && data < size), "seed {seed}: {place} {data:?}");
                assert!(hole.is_some_and(|hole| hole >= place && hole <= size), "seed {seed}: {place} {hole:?}");
                assert_ne!(data == Some(place), hole == Some(place), "seed {seed}: {place} is data or hole");
                assert!(zeros(place, data.unwrap_or(size)), "seed {seed}: data behind {place} is passed over");
            }
            let (mut place, mut steps) = (0, 0);
            while let [Some(data), _] = search(&world, place, size) {
                place = search(&world, data, size)[1].expect("a hole is at the end at least");
                steps += 1;
                assert!(place > data && steps <= 2 * SPAN / 4096, "seed {seed}: it does not get on at {data}");
            }
        }
    }
}

#[test]
fn a_spill_replaces_all_objects_durably() {
    let mut world = World::new();
    let (ino, object_size) = (FILE, u64::from(OBJECT));
    let old = Effect::Write { ino, object_size, offset: 0, data: vec![9; 60_000].into() };
    execute(&*world.blobs, &old).expect("write");
    execute(&*world.blobs, &Effect::SyncAll).expect("sync");
    world.osd.handle(Input::Spill { tag: 5, ino, object_size: OBJECT, data: b"inline bytes"[..].into() });
    let (id, effect) = runs(&mut world.osd).remove(0);
    world.osd.handle(Input::Done { id, result: execute(&*world.blobs, &effect) });
    assert_eq!(outputs(&mut world.osd), [Output::Spilled { tag: 5, ino, result: Ok(()) }]);
    world.disk.crash(&CrashPlan::lose_all());
    let blobs = world.disk.open().expect("open").blobs();
    assert_eq!(blobs.objects_of(ino.0).expect("objects_of"), [0]);
    assert_eq!(blobs.len(loligo_store::ObjectId::new(ino.0, 0)).expect("len"), Some(12));
}
