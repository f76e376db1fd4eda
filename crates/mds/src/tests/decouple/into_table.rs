//! Merges whose rows go into the table in bulk: what is there when, and what if the table or the rank fails meanwhile; and merges that are not
//! looked through.

use std::sync::Arc;

use loligo_types::Seq;

use super::*;

const FILES: usize = 600;

fn text(n: usize) -> String {
    format!("file{n}")
}

/// An owner whose merges go into the table, with many files made below a directory of its own and in the root, over a table that has
/// everything else.
fn many() -> (World, usize, Ino, Owner) {
    let mut world = World::with(crate::Config { dirty_ms_max: 50, ..config() });
    let a = world.client();
    let dir = world.mkdir(a, Ino::ROOT, "job").ino;
    world.create(a, dir, "old", WRITE, 1);
    world.call(a, close(1)).expect("it is open");
    (0..5).for_each(|_| world.wait_alive(100));
    assert_eq!(world.mds.core.tree.oldest_dirty(), None, "the table has all");
    let mut owner = Owner::new(&mut world, a, dir, 10_000).expect("free");
    owner.into = MergeInto::Table;
    let sub = owner.made(&mut world, &mkdir(dir, "sub"));
    for n in 0..FILES {
        owner.write(&mut world, if n % 2 == 0 { dir } else { sub }, &text(n), b"x");
    }
    // Of the record of the subtree, too.
    (0..5).for_each(|_| world.wait_alive(100));
    (world, a, dir, owner)
}

/// True if all of it is there, false if nothing is.
fn is_there(world: &mut World, at: usize, dir: Ino) -> bool {
    let size = world.lookup(at, Ino::ROOT, "job").map(|attr| attr.size).expect("the root is there");
    let Ok(sub) = world.lookup(at, dir, "sub") else {
        assert_eq!(size, 1);
        assert!((0..FILES).all(|n| world.lookup(at, dir, &text(n)).is_err()));
        return false;
    };
    assert_eq!((size, sub.size), (2 + FILES as u64 / 2, FILES as u64 / 2));
    assert!(world.lookup(at, dir, "old").is_ok());
    for n in 0..FILES {
        let of = if n % 2 == 0 { dir } else { sub.ino };
        let file = world.lookup(at, of, &text(n)).expect("a file");
        world.open(at, file.ino, READ, 99);
        assert!(world.call(at, Op::ReadInline { ino: file.ino, handle: 99 }).is_ok(), "its data");
        world.call(at, close(99)).expect("it is open");
    }
    true
}

/// Sends what is outstanding, and waits for no answer.
fn send(world: &mut World, owner: &mut Owner) -> Seq {
    let group = owner.subtree.groups().remove(0);
    owner.send_parts(world, &group).expect("his");
    world.send(owner.at, owner.merge_op(&group))
}

/// A copy of what is on the disk starts anew, without the owner.
fn copy_of(world: &World) -> (World, usize) {
    let mut copy = World::new();
    (copy.table, copy.journal, copy.trimmed) = (world.table.clone(), world.journal.clone(), world.trimmed);
    copy.crash();
    copy.wait(20_000);
    let b = copy.client();
    (copy, b)
}

#[test]
fn what_is_new_goes_into_the_table_and_not_into_memory() {
    let (mut world, a, dir, mut owner) = many();
    let before = world.mds.status().cache_inodes;
    owner.merge(&mut world).expect("his");
    owner.end(&mut world).expect("his");
    let after = world.mds.status().cache_inodes;
    assert!(after < before + 10, "{before} inodes in memory became {after}");
    assert!(is_there(&mut world, a, dir));
    let (mut copy, b) = copy_of(&world);
    assert!(is_there(&mut copy, b, dir));
}

#[test]
fn it_is_answered_when_the_rows_are_there_and_the_rank_may_die_at_any_time() {
    let (mut world, _, dir, mut owner) = many();
    world.checkpoints = false;
    let seq = send(&mut world, &mut owner);
    assert_eq!(world.pending_rows.len(), 1);
    assert_eq!(world.reply(owner.at, seq), None, "nobody would find it");
    let (mut copy, b) = copy_of(&world);
    assert!(is_there(&mut copy, b, dir), "the journal has it");
    world.merge_rows_one(false);
    let (mut copy, b) = copy_of(&world);
    assert!(is_there(&mut copy, b, dir), "half of the rows are there, too");
    (0..20).for_each(|_| world.wait_alive(10));
    assert!(world.reply(owner.at, seq).is_some_and(|(result, _)| result.is_ok()), "memory has taken it");
    let (mut copy, b) = copy_of(&world);
    assert!(is_there(&mut copy, b, dir));
}

#[test]
fn a_merge_waits_for_the_journal_before_a_row_is_written() {
    let (mut world, _, dir, mut owner) = many();
    let group = owner.subtree.groups().remove(0);
    owner.send_parts(&mut world, &group).expect("his");
    world.syncs = false;
    world.send(owner.at, owner.merge_op(&group));
    assert_eq!(world.pending_rows.len(), 0);
    let (mut copy, b) = copy_of(&world);
    assert!(!is_there(&mut copy, b, dir), "it never was true");
}

#[test]
fn what_was_looked_for_before_it_was_made_is_found_when_it_is() {
    let (mut world, a, dir, mut owner) = many();
    let b = world.client();
    let numbers: Vec<Ino> = (0..40).map(|n| Ino(owner.subtree.record().used.0 + n)).collect();
    for ino in &numbers {
        assert!(world.call(b, Op::GetAttr { ino: *ino }).is_err(), "a guess");
    }
    world.loads = false;
    let late = *numbers.last().expect("some");
    world.mds.core.tree.forget(late);
    let guess = world.send(b, Op::GetAttr { ino: late });
    let seq = send(&mut world, &mut owner);
    world.wait_alive(10);
    assert_eq!(world.reply(owner.at, seq), None, "what is being read may be of before");
    world.loads = true;
    (0..10).for_each(|_| world.wait_alive(10));
    assert!(world.reply(owner.at, seq).is_some_and(|(result, _)| result.is_ok()));
    world.reply(b, guess);
    owner.end(&mut world).expect("his");
    assert!(is_there(&mut world, a, dir));
    assert!(numbers.iter().all(|ino| world.call(b, Op::GetAttr { ino: *ino }).is_ok()));
}

#[test]
fn names_that_the_table_does_not_have_yet_stay_in_memory_with_what_the_merge_says_of_their_directory() {
    let (mut world, a, dir, mut owner) = many();
    // Made without the table, and so is what is merged first.
    world.checkpoints = false;
    owner.into = MergeInto::Memory;
    owner.merge(&mut world).expect("his");
    assert!(world.mds.core.tree.oldest_dirty().is_some());
    owner.into = MergeInto::Table;
    owner.made(&mut world, &mkdir(dir, "later"));
    owner.run(&mut world, &unlink(dir, &text(0))).expect("his");
    let seq = send(&mut world, &mut owner);
    assert_eq!(world.pending_rows.front().map(|(_, rows)| rows.dirs.clone()), Some(Default::default()));
    world.checkpoints = true;
    (0..10).for_each(|_| world.wait_alive(100));
    assert!(world.reply(owner.at, seq).is_some_and(|(result, _)| result.is_ok()));
    world.crash();
    world.resume(a);
    world.reclaim(a, loligo_types::msg::Reclaim::default());
    ask(&mut world, a, dir, SubtreeOp::End { epoch: owner.epoch() }).expect("his");
    assert!(world.lookup(a, dir, "later").is_ok());
    assert_eq!(world.lookup(a, dir, &text(0)).map(drop), Err(FsError::NotFound));
    assert!(world.lookup(a, dir, &text(2)).is_ok());
}

#[test]
fn roots_word_is_taken_for_what_it_merges_blind_and_nobody_elses() {
    let (mut world, a, b, dir, old) = scene();
    let owner = Owner::new(&mut world, a, dir, 100).expect("free");
    let epoch = owner.epoch();
    let inode = world.mds.core.tree.inode(old).expect("it is there").clone();
    let changed = Inode { mode: 0o4777, uid: 77, ..inode.clone() };
    let body = |events: &[Event]| {
        let mut bytes = Vec::new();
        encode_record(&mut bytes, None, events);
        Arc::<[u8]>::from(bytes)
    };
    let outside = Inode { kind: Kind::Dir, ..inode.clone() };
    let wrong = body(&[Event::Inode(Box::new(outside))]);
    let part = |blind, body: &Arc<[u8]>| SubtreeOp::Part { epoch, merge: 1, part: 0, blind, body: body.clone() };
    assert_eq!(ask(&mut world, a, dir, part(false, &wrong)), Err(FsError::Invalid), "it was no directory");
    let other = body(&[Event::SessionGone(loligo_types::SessionId(1))]);
    assert_eq!(ask(&mut world, a, dir, part(true, &other)), Err(FsError::Invalid), "it is not of a subtree");
    let states = body(&[Event::Inode(Box::new(inode)), Event::Inode(Box::new(changed))]);
    assert_eq!(ask(&mut world, a, dir, part(true, &states)), Ok(Answer::Done));
    let used = owner.subtree.used();
    let what = Box::new(SubtreeOp::Merge { epoch, merge: 1, parts: 1, used, into: MergeInto::Table });
    let seq = world.send(a, Op::Control(Control::Subtree { dir, what }));
    (0..5).for_each(|_| world.wait_alive(10));
    assert!(world.reply(a, seq).is_some_and(|(result, _)| result.is_ok()));
    let attr = world.mds.core.tree.inode(old).map(|inode| (inode.mode, inode.uid));
    assert_eq!(attr, Some((0o4777, 77)));

    let peer = crate::Peer { uid: Some(1000), groups: vec![1000], trusted: false, local: false, identity: None };
    let alien = world.client_as(1000, peer);
    world.clients[alien].uid = 1000;
    let home = world.mkdir(b, Ino::ROOT, "home").ino;
    let set = loligo_types::SetAttr { uid: Some(1000), ..Default::default() };
    world.call(b, Op::SetAttr { ino: home, set, handle: None }).expect("root may");
    let his = Owner::new(&mut world, alien, home, 10).expect("his");
    let what = SubtreeOp::Part { epoch: his.epoch(), merge: 1, part: 0, blind: true, body: states.clone() };
    assert_eq!(ask(&mut world, alien, home, what), Err(FsError::Perm));
    let free = world.mkdir(b, Ino::ROOT, "free").ino;
    let allow = SubtreeOp::Decouple {
        owner: 78,
        resume: 0,
        inos: 10,
        lease_ms: 5000,
        interfere: Interfere::Allow,
        promise: loligo_types::Promise::NONE,
    };
    let shared = Owner::with(&mut world, b, free, allow).expect("free");
    let what = SubtreeOp::Part { epoch: shared.epoch(), merge: 1, part: 0, blind: true, body: states };
    assert_eq!(ask(&mut world, b, free, what), Err(FsError::NotSupported));
}
