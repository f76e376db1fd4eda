//! Directories below a decoupled one that have policies of their own: what those promise is kept, or the directory is not decoupled. All pairs of
//! cells, whenever the policy of the one below came to be. Through a mount and with whoever may die: `crates/cli/tests/cli/cells.rs`.

use loligo_subtree_policy::{Cell, Consistency, SubtreePolicy};
use loligo_types::{Promise, RefusedBy, XattrMode};

use super::*;
use crate::tests::cluster_harness::{Cluster, rename, two_ranks};

fn document(cell: Cell) -> String {
    let text = format!("consistency = '{}'\ndurability = '{}'", cell.consistency, cell.durability);
    assert!(SubtreePolicy::parse(&text).is_ok_and(|policy| policy.cell() == cell));
    text
}

fn set(ino: Ino, cell: Cell) -> Op {
    let value = document(cell).into_bytes().into();
    Op::SetXattr { ino, name: b"loligo.policy.subtree"[..].into(), value, mode: XattrMode::Set }
}

fn unset(ino: Ino) -> Op {
    Op::RemoveXattr { ino, name: b"loligo.policy.subtree"[..].into() }
}

fn promised(promise: Promise) -> SubtreeOp {
    let interfere = Interfere::Block;
    SubtreeOp::Decouple { owner: 77, resume: 0, inos: 10, lease_ms: 5000, interfere, promise }
}

/// Decouples and ends it: `Some` of a directory: that one's policy is in the way.
fn tried(world: &mut World, at: usize, dir: Ino, promise: Promise) -> Option<Ino> {
    let answer = ask(world, at, dir, promised(promise)).expect("it is answered");
    let Answer::Subtree(answer) = answer else { panic!("no such answer") };
    match *answer {
        SubtreeAnswer::Refused { by: RefusedBy::Below, dir } => Some(dir),
        SubtreeAnswer::Decoupled { record, .. } => {
            assert_eq!(record.promise, promise);
            ask(world, at, dir, SubtreeOp::End { epoch: record.epoch }).expect("his");
            None
        }
        other => panic!("{other:?}"),
    }
}

fn promises() -> impl Iterator<Item = Promise> {
    (0..).map_while(Promise::from_code)
}

const STRONG: Cell = Cell::POSIX;

fn hdfs() -> Promise {
    Cell::new(Consistency::Weak, loligo_subtree_policy::Durability::Global).promise().expect("it is not strong")
}

#[test]
fn a_directory_is_decoupled_only_if_what_is_given_is_at_least_what_each_directory_below_promises() {
    let (mut world, a, b, dir, _) = scene();
    let sub = world.mkdir(b, dir, "sub").ino;
    let kid = world.mkdir(b, sub, "kid").ino;
    for below in Cell::all() {
        world.call(b, set(kid, below)).expect("nobody has it");
        for promise in promises() {
            let kept = Cell::of_promise(promise).keeps(below);
            let way = tried(&mut world, a, dir, promise);
            assert_eq!(way, (!kept).then_some(kid), "{below} below {:?}", Cell::of_promise(promise));
        }
    }
    world.call(b, unset(kid)).expect("it has one");
    assert_eq!(tried(&mut world, a, dir, Promise::NONE), None, "it promises nothing of its own any more");
    // Of the root itself its owner says what counts.
    world.call(b, set(dir, STRONG)).expect("nobody has it");
    assert_eq!(tried(&mut world, a, dir, Promise::NONE), None);
}

#[test]
fn a_policy_below_is_found_wherever_it_lies_also_cold_and_after_restarts_of_the_rank() {
    let mut world = World::with(crate::Config { dirty_ms_max: 50, checkpoint_records: 7, ..config() });
    let a = world.client();
    let dir = world.mkdir(a, Ino::ROOT, "job").ino;
    let other = world.mkdir(a, Ino::ROOT, "other").ino;
    let mut at = dir;
    for n in 0..5 {
        at = world.mkdir(a, at, &format!("d{n}")).ino;
    }
    for n in 0..20 {
        let beside = world.mkdir(a, other, &format!("o{n}")).ino;
        world.call(a, set(beside, STRONG)).expect("nobody has it");
    }
    world.call(a, set(at, STRONG)).expect("nobody has it");
    assert_eq!(tried(&mut world, a, dir, hdfs()), Some(at), "only the journal has it");
    world.crash();
    world.resume(a);
    world.wait_alive(500);
    assert_eq!(tried(&mut world, a, dir, hdfs()), Some(at), "the journal of the life before has it");
    world.wait_alive(2000);
    world.crash();
    world.resume(a);
    world.wait_alive(500);
    assert_eq!(tried(&mut world, a, dir, hdfs()), Some(at), "the table has it");
    world.call(a, unset(at)).expect("it has one");
    world.wait_alive(2000);
    world.crash();
    world.resume(a);
    world.wait_alive(500);
    assert_eq!(tried(&mut world, a, dir, hdfs()), None, "it is gone from the table, too");
}

#[test]
fn a_directory_with_a_policy_that_is_moved_below_counts_there_and_one_that_is_removed_does_not() {
    let (mut world, a, b, dir, _) = scene();
    let kid = world.mkdir(b, Ino::ROOT, "kid").ino;
    world.call(b, set(kid, STRONG)).expect("nobody has it");
    assert_eq!(tried(&mut world, a, dir, hdfs()), None, "it is elsewhere");
    world.call(b, rename(Ino::ROOT, "kid", dir, "kid")).expect("nobody has it");
    assert_eq!(tried(&mut world, a, dir, hdfs()), Some(kid));
    world.call(b, Op::Rmdir { dir, name: name("kid") }).expect("it is empty");
    assert_eq!(tried(&mut world, a, dir, hdfs()), None);
}

#[test]
fn while_it_is_decoupled_nobody_gives_a_directory_below_a_policy_that_does_not_hold_there() {
    let (mut world, a, b, dir, _) = scene();
    let kid = world.mkdir(b, dir, "kid").ino;
    let mut owner = Owner::with(&mut world, a, dir, promised(hdfs())).expect("nobody has it");
    assert_eq!(owner.run(&mut world, &set(kid, STRONG)), Err(FsError::NotSupported), "its owner");
    assert_eq!(world.call(b, set(kid, STRONG)), Err(FsError::Busy), "others");
    owner.end(&mut world).expect("his");
    world.call(b, set(kid, STRONG)).expect("nobody has it");
}

#[test]
fn where_others_may_work_they_give_directories_weaker_policies_and_none_that_does_not_hold_there() {
    let (mut world, a, b, dir, _) = scene();
    let kid = world.mkdir(b, dir, "kid").ino;
    let (interfere, promise) = (Interfere::Allow, hdfs());
    let what = SubtreeOp::Decouple { owner: 77, resume: 0, inos: 10, lease_ms: 5000, interfere, promise };
    let _owner = Owner::with(&mut world, a, dir, what).expect("nobody has it");
    for below in Cell::all() {
        let kept = Cell::of_promise(promise).keeps(below);
        let set = world.call(b, set(kid, below));
        assert_eq!(set.err(), (!kept).then_some(FsError::Busy), "{below}");
    }
}

#[test]
fn an_owner_gives_its_root_no_policy_that_is_less_than_what_a_directory_below_promises() {
    let (mut world, a, b, dir, _) = scene();
    let kid = world.mkdir(b, dir, "kid").ino;
    let batchfs = Cell::new(Consistency::Weak, loligo_subtree_policy::Durability::Local);
    let ramdisk = Cell::new(Consistency::Invisible, loligo_subtree_policy::Durability::None);
    world.call(b, set(kid, batchfs)).expect("nobody has it");
    let mut owner = Owner::with(&mut world, a, dir, promised(hdfs())).expect("it is at least that");
    world.call(a, set(dir, batchfs)).expect("it is as much");
    let record = |world: &World| world.mds.core.tree.decoupled(dir).map(|record| record.promise);
    assert_eq!(record(&world), batchfs.promise(), "that is what it gives from now on");
    assert_eq!(world.call(a, set(dir, ramdisk)), Err(FsError::Busy), "a directory below promises more");
    assert_eq!(world.call(a, set(dir, STRONG)), Err(FsError::Busy), "it is to be given back first");
    assert_eq!(record(&world), batchfs.promise(), "nothing of what was refused counts");
    world.crash();
    assert_eq!(record(&world), batchfs.promise());
    for at in [a, b] {
        world.resume(at);
        world.reclaim(at, loligo_types::msg::Reclaim::default());
    }
    world.wait_alive(500);
    owner.end(&mut world).expect("his");
}

#[test]
fn a_policy_of_a_directory_that_another_rank_had_is_found_when_that_comes() {
    let (mut cluster, client, here, there) = two_ranks();
    let kid = cluster.mkdir(client, there, "kid");
    cluster.call(client, rename(Ino::ROOT, "there", here, "there")).expect("it can move");
    cluster.call(client, set(kid, STRONG)).expect("nobody has it");
    let tried = |cluster: &mut Cluster| {
        let what = Box::new(promised(hdfs()));
        match cluster.call(client, Op::Control(Control::Subtree { dir: here, what })).expect("it is answered") {
            Answer::Subtree(answer) => *answer,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(tried(&mut cluster), SubtreeAnswer::Refused { by: RefusedBy::Below, dir: kid });
    cluster.wait(3000);
    for at in 0..2 {
        cluster.crash(at);
    }
    cluster.come_back(client, 0, loligo_types::msg::Reclaim::default());
    cluster.wait(3000);
    assert_eq!(tried(&mut cluster), SubtreeAnswer::Refused { by: RefusedBy::Below, dir: kid }, "after restarts, too");
    cluster.call(client, unset(kid)).expect("it has one");
    assert!(matches!(tried(&mut cluster), SubtreeAnswer::Decoupled { .. }));
}
