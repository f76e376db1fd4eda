//! Floors and ceilings: what an administrator says of a directory holds for all below, however somebody comes: by an attribute, with options of his
//! own, with a directory that is moved, as a user, as a limited identity.

use std::sync::Arc;

use loligo_subtree_policy::{Cell, Consistency, Durability};
use loligo_types::{Promise, RefusedBy, XattrMode};

use super::*;
use crate::tests::cluster_harness::{rename, two_ranks};

const POLICY: &[u8] = b"loligo.policy.subtree";
const FLOOR: &str = "floor.consistency = 'weak'\nfloor.durability = 'global'";

fn set(ino: Ino, text: &str) -> Op {
    Op::SetXattr { ino, name: POLICY.into(), value: text.as_bytes().into(), mode: XattrMode::Set }
}

fn unset(ino: Ino) -> Op {
    Op::RemoveXattr { ino, name: POLICY.into() }
}

fn promise(consistency: Consistency, durability: Durability) -> Promise {
    Cell::new(consistency, durability).promise().expect("it is not strong")
}

fn hdfs() -> Promise {
    promise(Consistency::Weak, Durability::Global)
}

fn wanted(inos: u64, lease_ms: u32, promise: Promise) -> SubtreeOp {
    SubtreeOp::Decouple { owner: 77, resume: 0, inos, lease_ms, interfere: Interfere::Block, promise }
}

fn refusal(answer: FsResult<Answer>) -> Option<(RefusedBy, Ino)> {
    let Answer::Subtree(answer) = answer.expect("it is answered") else { panic!("no such answer") };
    match *answer {
        SubtreeAnswer::Refused { by, dir } => Some((by, dir)),
        SubtreeAnswer::Decoupled { .. } => None,
        other => panic!("{other:?}"),
    }
}

/// Decouples and ends it; or what is in the way.
fn tried(world: &mut World, at: usize, dir: Ino, what: SubtreeOp) -> Option<(RefusedBy, Ino)> {
    let answer = ask(world, at, dir, what);
    if let Ok(Answer::Subtree(told)) = &answer
        && let SubtreeAnswer::Decoupled { record, .. } = &**told
    {
        ask(world, at, dir, SubtreeOp::End { epoch: record.epoch }).expect("his");
    }
    refusal(answer)
}

/// A world with `top/mine/job`, of which the user 1000 has the last two: clients as root and as that one.
fn bounded() -> (World, usize, usize, [Ino; 3]) {
    let mut world = World::new();
    let root = world.client();
    let user = world.client_as(
        1000,
        crate::Peer { uid: Some(1000), groups: vec![1000], trusted: false, local: false, identity: None },
    );
    world.clients[user].uid = 1000;
    let top = world.mkdir(root, Ino::ROOT, "top").ino;
    let mine = world.mkdir(root, top, "mine").ino;
    let job = world.mkdir(root, mine, "job").ino;
    for dir in [mine, job] {
        let set = loligo_types::SetAttr { uid: Some(1000), gid: Some(1000), ..Default::default() };
        world.call(root, Op::SetAttr { ino: dir, set, handle: None }).expect("root may");
    }
    (world, root, user, [top, mine, job])
}

#[test]
fn a_user_decouples_nothing_below_a_floor_with_less_whatever_options_he_names() {
    let (mut world, root, user, [top, _, job]) = bounded();
    world.call(root, set(top, FLOOR)).expect("root may");
    for at in [user, root] {
        for code in 0..6 {
            let promise = Promise::from_code(code).expect("there are six");
            let kept = Cell::of_promise(promise).keeps(Cell::of_promise(hdfs()));
            let way = tried(&mut world, at, job, wanted(10, 5000, promise));
            assert_eq!(way, (!kept).then_some((RefusedBy::Floor, top)), "{promise:?}");
        }
    }
    world.call(root, set(top, "floor.consistency = 'strong'")).expect("root may");
    assert_eq!(tried(&mut world, user, job, wanted(10, 5000, hdfs())), Some((RefusedBy::Floor, top)));
    world.crash();
    for at in [root, user] {
        world.resume(at);
        world.reclaim(at, loligo_types::msg::Reclaim::default());
    }
    world.wait_alive(500);
    assert_eq!(tried(&mut world, user, job, wanted(10, 5000, hdfs())), Some((RefusedBy::Floor, top)), "cold, too");
    world.call(root, unset(top)).expect("root may");
    assert_eq!(tried(&mut world, user, job, wanted(10, 5000, Promise::NONE)), None);
}

#[test]
fn a_policy_below_a_floor_is_refused_as_an_attribute_and_root_alone_sets_changes_and_removes_bounds() {
    let (mut world, root, user, [top, mine, job]) = bounded();
    world.call(root, set(top, FLOOR)).expect("root may");
    for at in [user, root] {
        assert_eq!(world.call(at, set(job, "preset = 'ramdisk'")), Err(FsError::Perm));
        assert_eq!(world.call(at, set(job, "preset = 'batchfs'")), Err(FsError::Perm));
        world.call(at, set(job, "preset = 'hdfs'")).expect("it is at least that");
    }
    world.call(user, unset(job)).expect("it is his");
    for text in [FLOOR, "ceiling.decouple = false", "ceiling.lease = '1s'"] {
        assert_eq!(world.call(user, set(mine, text)), Err(FsError::Perm), "{text}");
    }
    world.call(root, set(mine, "ceiling.allocated_inodes = 100\npreset = 'hdfs'")).expect("root may");
    for text in ["preset = 'hdfs'", "ceiling.allocated_inodes = 101\npreset = 'hdfs'", "", FLOOR] {
        assert_eq!(world.call(user, set(mine, text)), Err(FsError::Perm), "{text}");
    }
    assert_eq!(world.call(user, unset(mine)), Err(FsError::Perm));
    world.call(user, set(mine, "ceiling.allocated_inodes = 100\npreset = 'posix'")).expect("the ceiling stays");
}

#[test]
fn an_identity_that_is_limited_to_paths_sets_no_bounds_though_it_says_to_be_root() {
    let (mut world, root, _, [top, mine, job]) = bounded();
    let limited = world.client_from_afar(crate::tests::paths::limited(&["rw:/top/mine"]));
    world.call(root, set(mine, FLOOR)).expect("root may");
    assert_eq!(world.call(limited, set(job, "ceiling.decouple = false")), Err(FsError::Perm));
    assert_eq!(world.call(limited, set(mine, "")), Err(FsError::Perm));
    assert_eq!(world.call(limited, unset(mine)), Err(FsError::Perm));
    assert_eq!(world.call(limited, set(job, "preset = 'ramdisk'")), Err(FsError::Perm));
    world.call(limited, set(job, "preset = 'hdfs'")).expect("it is at least that");
    assert_eq!(tried(&mut world, limited, job, wanted(10, 5000, Promise::NONE)), Some((RefusedBy::Floor, mine)));
    // What it does not see counts, too.
    world.call(root, set(top, "ceiling.decouple = false")).expect("root may");
    assert_eq!(tried(&mut world, limited, job, wanted(10, 5000, hdfs())), Some((RefusedBy::Forbidden, top)));
}

#[test]
fn below_a_ceiling_nothing_is_decoupled_or_with_no_more_numbers_and_no_longer_than_it_says() {
    let (mut world, root, user, [top, mine, job]) = bounded();
    world.call(root, set(mine, "ceiling.allocated_inodes = 20\nceiling.lease = '10s'")).expect("root may");
    assert_eq!(tried(&mut world, user, job, wanted(21, 5000, hdfs())), Some((RefusedBy::Limit, mine)));
    assert_eq!(tried(&mut world, user, job, wanted(20, 10_001, hdfs())), Some((RefusedBy::Limit, mine)));
    assert_eq!(tried(&mut world, user, mine, wanted(21, 5000, hdfs())), Some((RefusedBy::Limit, mine)), "itself");
    let (record, ..) = told(ask(&mut world, user, job, wanted(15, 10_000, hdfs()))).expect("within it");
    let grant = SubtreeOp::Grant { epoch: record.epoch, inos: 100 };
    let (more, ..) = told(ask(&mut world, user, job, grant.clone())).expect("there is room for five");
    assert_eq!(more.left(), record.left() + 5);
    assert_eq!(ask(&mut world, user, job, grant).err(), Some(FsError::Quota));
    ask(&mut world, user, job, SubtreeOp::End { epoch: record.epoch }).expect("his");
    world.call(root, set(top, "ceiling.decouple = false")).expect("root may");
    for at in [user, root] {
        assert_eq!(tried(&mut world, at, job, wanted(1, 1, hdfs())), Some((RefusedBy::Forbidden, top)));
    }
}

#[test]
fn a_ceiling_counts_also_for_whoever_decouples_a_directory_above_it() {
    let (mut world, root, user, [_, mine, job]) = bounded();
    let ramdisk = promise(Consistency::Invisible, Durability::None);
    world.call(root, set(job, "preset = 'ramdisk'\nceiling.decouple = false")).expect("root may");
    assert_eq!(tried(&mut world, user, mine, wanted(100, 60_000, ramdisk)), Some((RefusedBy::Forbidden, job)));
    let limits = "preset = 'ramdisk'\nceiling.allocated_inodes = 100\nceiling.lease = '1min'";
    world.call(root, set(job, limits)).expect("root may");
    assert_eq!(tried(&mut world, user, mine, wanted(101, 60_000, ramdisk)), Some((RefusedBy::Limit, job)));
    assert_eq!(tried(&mut world, user, mine, wanted(100, 60_001, ramdisk)), Some((RefusedBy::Limit, job)));
    assert_eq!(tried(&mut world, user, mine, wanted(100, 60_000, ramdisk)), None);
    world.call(root, unset(job)).expect("root may");
    assert_eq!(tried(&mut world, user, mine, wanted(100_000, 60_001, ramdisk)), None);
}

#[test]
fn bounds_are_not_set_above_what_breaks_them_already() {
    let (mut world, root, user, [top, _, job]) = bounded();
    world.call(user, set(job, "preset = 'batchfs'")).expect("it is his");
    assert_eq!(world.call(root, set(top, FLOOR)), Err(FsError::Busy), "a policy is weaker");
    world.call(root, set(top, "floor.durability = 'local'")).expect("it is at least that");
    world.call(root, unset(top)).expect("root may");
    world.call(user, set(job, "preset = 'hdfs'")).expect("it is his");
    let (record, ..) = told(ask(&mut world, user, job, wanted(50, 5000, Promise::NONE))).expect("nothing is said");
    for text in [FLOOR, "ceiling.decouple = false", "ceiling.allocated_inodes = 49", "ceiling.lease = '4s'"] {
        assert_eq!(world.call(root, set(top, text)), Err(FsError::Busy), "{text}");
    }
    world.call(root, set(top, "ceiling.allocated_inodes = 50\nceiling.lease = '5s'")).expect("it is within them");
    ask(&mut world, user, job, SubtreeOp::End { epoch: record.epoch }).expect("his");
    world.call(root, set(top, FLOOR)).expect("nothing is weaker any more");
}

#[test]
fn nothing_that_breaks_bounds_is_moved_below_them() {
    let (mut world, root, _, [top, _, _]) = bounded();
    world.call(root, set(top, FLOOR)).expect("root may");
    let free = world.mkdir(root, Ino::ROOT, "free").ino;
    let outer = world.mkdir(root, free, "outer").ino;
    let weak = world.mkdir(root, outer, "weak").ino;
    world.call(root, set(weak, "preset = 'ramdisk'")).expect("nothing is above it");
    for (dir, text) in [(outer, "weak"), (free, "outer")] {
        assert_eq!(world.call(root, rename(dir, text, top, "in")), Err(FsError::CrossDevice), "{text}");
    }
    let inside = world.mkdir(root, top, "inside").ino;
    let exchange = Op::Rename {
        dir: top,
        name: name("inside"),
        new_dir: free,
        new_name: name("outer"),
        mode: RenameMode::Exchange,
    };
    assert_eq!(world.call(root, exchange), Err(FsError::CrossDevice));
    world.call(root, set(weak, "preset = 'hdfs'")).expect("nothing is above it");
    let (record, ..) = told(ask(&mut world, root, weak, wanted(10, 5000, Promise::NONE))).expect("nothing is above it");
    assert_eq!(world.call(root, rename(free, "outer", top, "in")), Err(FsError::Busy), "something in it is decoupled");
    ask(&mut world, root, weak, SubtreeOp::End { epoch: record.epoch }).expect("his");
    world.call(root, rename(free, "outer", top, "in")).expect("it is at least that");
    world.call(root, rename(top, "in", inside, "deeper")).expect("it stays below the same floor");
}

#[test]
fn a_merge_says_nothing_of_policies_and_bounds() {
    let (mut world, root, user, [top, _, job]) = bounded();
    world.call(root, set(top, FLOOR)).expect("root may");
    let kid = world.mkdir(user, job, "kid").ino;
    for at in [user, root] {
        for (text, ino) in [("preset = 'ramdisk'", kid), ("", job), ("ceiling.decouple = false", kid)] {
            let mut owner = Owner::with(&mut world, at, job, wanted(10, 5000, hdfs())).expect("it is at least that");
            assert_eq!(owner.run(&mut world, &set(ino, text)), Err(FsError::NotSupported));
            let event = Event::Xattr { ino, name: POLICY.into(), value: text.as_bytes().into() };
            let mut body = Vec::new();
            encode_record(&mut body, None, &[event]);
            let body: Arc<[u8]> = body.into();
            for blind in [false, true] {
                let part = SubtreeOp::Part { epoch: owner.epoch(), merge: 1, part: 0, blind, body: body.clone() };
                let wrong = if blind && at == user { FsError::Perm } else { FsError::Invalid };
                assert_eq!(ask(&mut world, at, job, part).err(), Some(wrong), "{text}");
            }
            owner.end(&mut world).expect("his");
        }
    }
}

#[test]
fn a_merge_moves_no_bounds_away_and_nothing_below_bounds_that_breaks_them() {
    let (mut world, root, user, [_, mine, job]) = bounded();
    let (weak, kid) = (world.mkdir(user, mine, "weak").ino, world.mkdir(user, job, "kid").ino);
    world.call(user, set(weak, "preset = 'ramdisk'")).expect("nothing is above it");
    world.call(root, set(job, &format!("preset = 'hdfs'\n{FLOOR}"))).expect("root may");
    let begin =
        |world: &mut World, at| Owner::with(world, at, mine, wanted(10, 5000, hdfs())).expect("it is at least that");
    // Away with the bounds, by another name, to elsewhere, or for ever: root alone may.
    let rmdir = |dir: Ino, text: &str| Op::Rmdir { dir, name: name(text) };
    for away in [rename(mine, "job", mine, "other"), rename(mine, "job", weak, "job")] {
        let mut owner = begin(&mut world, user);
        owner.run(&mut world, &away).expect("it is his");
        assert_eq!(owner.merge(&mut world), Err(FsError::Perm), "{away:?}");
        owner.end(&mut world).expect("his");
    }
    let mut owner = begin(&mut world, user);
    owner.run(&mut world, &rmdir(job, "kid")).expect("it is his");
    owner.run(&mut world, &rmdir(mine, "job")).expect("it is his");
    assert_eq!(owner.merge(&mut world), Err(FsError::Perm), "it is gone");
    owner.end(&mut world).expect("his");
    assert!(world.lookup(root, mine, "job").is_ok() && world.lookup(root, job, "kid").is_ok());
    // Below them, also in a directory that is new there; back again it is as it was.
    for at in [user, root] {
        let mut owner = begin(&mut world, at);
        let new = owner.made(&mut world, &mkdir(kid, "new"));
        owner.run(&mut world, &rename(mine, "weak", new, "in")).expect("it is his");
        assert_eq!(owner.merge(&mut world), Err(FsError::CrossDevice));
        owner.run(&mut world, &rename(new, "in", mine, "weak")).expect("it is his");
        owner.run(&mut world, &rmdir(kid, "new")).expect("it is his");
        owner.merge(&mut world).expect("nothing is below the floor");
        owner.end(&mut world).expect("his");
    }
    world.call(user, set(weak, "preset = 'hdfs'")).expect("it is his");
    let mut owner = begin(&mut world, user);
    owner.run(&mut world, &rename(mine, "weak", kid, "in")).expect("it is his");
    owner.run(&mut world, &rename(job, "kid", mine, "kid")).expect("bounds do not hold fast what is below them");
    owner.merge(&mut world).expect("it is at least that");
    owner.end(&mut world).expect("his");
    let mut owner = begin(&mut world, root);
    owner.run(&mut world, &rename(mine, "job", mine, "other")).expect("root may");
    owner.merge(&mut world).expect("root may");
    owner.end(&mut world).expect("his");
    assert!(world.lookup(root, mine, "other").is_ok());
}

#[test]
fn a_directory_goes_into_one_of_another_rank_that_has_attributes() {
    let (mut cluster, a, here, there) = two_ranks();
    for dir in [here, there] {
        let op = Op::SetXattr {
            ino: dir,
            name: b"user.x".as_slice().into(),
            value: b"1".as_slice().into(),
            mode: XattrMode::Set,
        };
        cluster.call(a, op).expect("it takes it");
    }
    cluster.mkdir(a, here, "d");
    cluster.mkdir(a, there, "e");
    assert_eq!(cluster.call(a, rename(here, "d", there, "d")), Ok(Answer::Done));
    assert_eq!(cluster.call(a, rename(there, "e", here, "e")), Ok(Answer::Done));
    cluster.finish();
}

#[test]
fn bounds_of_directories_of_other_ranks_count() {
    let (mut cluster, client, _, there) = two_ranks();
    let job = cluster.mkdir(client, there, "job");
    let decouple = |promise| Op::Control(Control::Subtree { dir: job, what: Box::new(wanted(10, 5000, promise)) });
    cluster.call(client, set(Ino::ROOT, FLOOR)).expect("root may");
    assert_eq!(refusal(cluster.call(client, decouple(Promise::NONE))), Some((RefusedBy::Floor, Ino::ROOT)));
    assert_eq!(cluster.call(client, set(job, "preset = 'ramdisk'")), Err(FsError::Perm));
    cluster.call(client, set(job, "preset = 'hdfs'")).expect("it is at least that");
    cluster.call(client, set(Ino::ROOT, "ceiling.decouple = false")).expect("root may");
    cluster.wait(2000);
    assert_eq!(refusal(cluster.call(client, decouple(hdfs()))), Some((RefusedBy::Forbidden, Ino::ROOT)));
    cluster.call(client, unset(Ino::ROOT)).expect("root may");
    cluster.wait(2000);
    assert_eq!(refusal(cluster.call(client, decouple(hdfs()))), None);
}
