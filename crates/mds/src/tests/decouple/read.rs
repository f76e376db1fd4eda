//! Subtrees that others read while their owner works: what they may ask for and see, who may do what with objects when, and what becomes of
//! what was overwritten and not merged. What a copy of objects is, is the object server's (`loligo_osd`).

use loligo_types::{FileLock, LockKind, LockOwner};

use super::*;
use crate::{DataAccess, Input};

fn read_op(owner: u64) -> SubtreeOp {
    SubtreeOp::Decouple {
        owner,
        resume: 0,
        inos: 100,
        lease_ms: 5000,
        interfere: Interfere::Read,
        promise: Promise::NONE,
    }
}

/// As the scene of all, with a file that lives in objects, and the directory decoupled.
fn read_scene() -> (World, usize, usize, Ino, Ino, Owner) {
    let (mut world, a, b, dir, _) = scene();
    let big = world.create(a, dir, "big", WRITE, 2).ino;
    world.call(a, set_data(big, 2, 0, 100_000, true)).expect("it is open");
    world.call(a, close(2)).expect("it is open");
    let mut owner = Owner::with(&mut world, a, dir, read_op(77)).expect("nobody has it");
    owner.subtree = with_objects(&owner);
    (world, a, b, dir, big, owner)
}

fn with_objects(owner: &Owner) -> Subtree {
    let (settings, record) = (owner.subtree.settings().clone(), owner.subtree.record().clone());
    let root = owner.subtree.inode(record.dir).expect("it is there").clone();
    Subtree::new(settings, record, root).with_objects()
}

fn overwrite(world: &mut World, owner: &Owner, inos: Vec<Ino>) -> FsResult<DecoupledRecord> {
    let (dir, epoch) = (owner.subtree.root(), owner.epoch());
    told(ask(world, owner.at, dir, SubtreeOp::Overwrite { epoch, inos })).map(|(record, ..)| record)
}

fn lock(exclusive: bool) -> FileLock {
    FileLock { kind: LockKind::Flock, owner: LockOwner(5), pid: 1, exclusive, start: 0, end: u64::MAX }
}

#[test]
fn others_see_the_state_of_the_last_merge_and_change_nothing() {
    let (mut world, _, b, dir, big, mut owner) = read_scene();
    let old = world.lookup(b, dir, "old").expect("it is seen").ino;
    let sub = owner.made(&mut world, &mkdir(dir, "sub"));
    owner.write(&mut world, sub, "f", b"data");
    owner.run(&mut world, &unlink(dir, "old")).expect("it is there");
    owner.run(&mut world, &chmod(big, 0o600)).expect("it is his");
    let mode = world.lookup(b, dir, "big").expect("it is seen").mode;
    assert_ne!(mode, 0o600);
    assert_eq!(world.lookup(b, dir, "sub"), Err(FsError::NotFound));
    assert_eq!(world.call(b, Op::GetAttr { ino: sub }), Err(FsError::Stale), "not by its number either");
    let (opened, rights) = world.open(b, old, READ, 20);
    assert_eq!((opened.size, rights), (6, loligo_types::Lease::NONE), "nothing is to be asked back");
    let Ok(Answer::Bytes(bytes)) = world.call(b, Op::ReadInline { ino: old, handle: 20 }) else { panic!("no bytes") };
    assert_eq!(&*bytes, b"before");
    world
        .call(b, Op::Control(Control::SetLock { ino: old, handle: 20, lock: lock(false), wait: false }))
        .expect("it keeps nobody out");
    let outside = world.create(b, Ino::ROOT, "out", WRITE, 9).ino;
    for op in [
        Op::Control(Control::SetLock { ino: old, handle: 20, lock: lock(true), wait: false }),
        chmod(old, 0o600),
        Op::Open { ino: old, flags: WRITE, handle: 21 },
        Op::Open { ino: old, flags: loligo_types::OpenFlags { truncate: true, ..READ }, handle: 21 },
        create(dir, "x", WRITE, 21),
        create(dir, "old", READ, 21),
        Op::Tmpfile { dir, mode: 0o600, umask: 0, flags: WRITE, linkable: true, handle: 22 },
        mkdir(dir, "m"),
        Op::Symlink { dir, name: name("s"), target: b"t"[..].into() },
        Op::Link { ino: outside, dir, name: name("l") },
        Op::Link { ino: old, dir: Ino::ROOT, name: name("l") },
        unlink(dir, "old"),
        Op::Rename { dir, name: name("old"), new_dir: Ino::ROOT, new_name: name("n"), mode: RenameMode::Replace },
        Op::Rename { dir: Ino::ROOT, name: name("out"), new_dir: dir, new_name: name("n"), mode: RenameMode::Replace },
        Op::RemoveXattr { ino: old, name: b"user.a"[..].into() },
        Op::Rmdir { dir: Ino::ROOT, name: name("job") },
    ] {
        assert_eq!(world.call(b, op.clone()), Err(FsError::Busy), "{op:?}");
    }
    // What its owner asks for so it asks for of what is not its own: it has what is there.
    assert_eq!(world.lookup(owner.at, dir, "big"), Err(FsError::Busy));
    owner.merge(&mut world).expect("it is his");
    assert_eq!(world.lookup(b, dir, "old"), Err(FsError::NotFound));
    assert_eq!(world.lookup(b, dir, "big").expect("it is seen").mode, 0o600);
    assert_eq!(world.lookup(b, sub, "f").expect("it is seen").size, 4);
    // Whoever has open what is gone is told so, and closes it.
    assert_eq!(world.call(b, Op::ReadInline { ino: old, handle: 20 }), Err(FsError::Stale));
    world.call(b, close(20)).expect("it is open");
    owner.run(&mut world, &mkdir(dir, "late")).expect("it is his");
    owner.end(&mut world).expect("it is his");
    assert_eq!(world.lookup(b, dir, "late"), Err(FsError::NotFound));
    assert!(world.call(b, mkdir(dir, "others")).is_ok(), "it is a directory like others again");
}

#[test]
fn it_is_decoupled_though_others_read_there_and_not_while_they_write() {
    let (mut world, a, b, dir, old) = scene();
    world.open(b, old, WRITE, 20);
    let seq = world.send(a, Op::Control(Control::Subtree { dir, what: Box::new(read_op(77)) }));
    world.wait_alive(3000);
    assert!(matches!(world.reply(a, seq), Some((Err(FsError::Busy), _))));
    world.call(b, close(20)).expect("it is open");
    let (_, rights) = world.open(b, old, READ, 21);
    assert!(rights.has(loligo_types::Lease::CACHE));
    world.clients[b].obeys = false;
    let what = Box::new(read_op(77));
    let seq = world.send(a, Op::Control(Control::Subtree { dir, what }));
    assert_eq!(world.reply(a, seq), None, "what it may keep is asked back");
    world.clients[b].obeys = true;
    world.pump();
    assert!(matches!(world.reply(a, seq), Some((Ok(_), _))));
    assert!(world.call(b, Op::ReadInline { ino: old, handle: 21 }).is_ok());
}

#[test]
fn before_objects_of_what_others_know_are_changed_that_is_put_down_and_it_ends_with_the_merge() {
    let (mut world, a, b, dir, big, mut owner) = read_scene();
    let (mine, theirs) = (world.session(a), world.session(b));
    let right = |world: &World, session, ino| world.access.get(&(session, ino)).copied();
    let made = owner.made(&mut world, &create(dir, "made", WRITE, 1));
    let epoch = owner.epoch();
    ask(&mut world, a, dir, SubtreeOp::Data { epoch, inos: vec![made, big] }).expect("they are its own");
    assert_eq!(right(&world, mine, made), Some(DataAccess::Write), "nobody knows it");
    assert_eq!(right(&world, mine, big), Some(DataAccess::Read), "others read it");
    world.open(b, big, READ, 20);
    assert_eq!(right(&world, theirs, big), Some(DataAccess::Read));
    let record = overwrite(&mut world, &owner, vec![big]).expect("it is his");
    let copy = record.copy_of(big).expect("it is put down");
    assert!(!record.is_granted(copy) && world.mds.core.tree.decoupled(dir) == Some(&record));
    assert_eq!((right(&world, mine, big), world.frozen.get(&big)), (Some(DataAccess::Write), Some(&(copy, mine))));
    assert_eq!(overwrite(&mut world, &owner, vec![big]).expect("once more"), record, "nothing is new");
    for (ino, why) in [(made, FsError::Invalid), (dir, FsError::Invalid), (Ino(1 << 40), FsError::NotFound)] {
        assert_eq!(overwrite(&mut world, &owner, vec![ino]).err(), Some(why), "{ino}");
    }
    assert_eq!(ask(&mut world, b, dir, SubtreeOp::Overwrite { epoch, inos: vec![big] }), Err(FsError::Stale));
    // Another life of the rank knows it before anybody reads.
    world.crash();
    assert_eq!(world.frozen.get(&big), Some(&(copy, mine)));
    for at in [a, b] {
        world.resume(at);
        world.reclaim(at, loligo_types::msg::Reclaim::default());
    }
    told(ask(&mut world, a, dir, decouple_op(77, epoch, 1))).expect("it goes on");
    overwrite(&mut world, &owner, vec![big]).expect("it is his still");
    world.open(b, big, READ, 21);
    world.discards = false;
    owner.run(&mut world, &set_data(big, 1, 0, 200_000, false)).expect("it is his");
    owner.merge(&mut world).expect("it is his");
    assert!(
        world.frozen.is_empty() && world.mds.core.tree.decoupled(dir).is_some_and(|now| now.overwritten.is_empty())
    );
    assert!(world.pending_discards.contains(&(copy, 0)), "{:?}", world.pending_discards);
    assert_eq!(right(&world, mine, big), Some(DataAccess::Read), "it is to be asked for once more");
    assert_eq!(right(&world, mine, made), Some(DataAccess::Read), "others know it by now");
    // Nobody reads bytes of the file that it is now for as long as it was before.
    assert_eq!(right(&world, theirs, big), Some(DataAccess::Hidden));
    assert_eq!(
        world.call(b, Op::GetAttr { ino: big }).expect("it is seen").attr().map(|attr| attr.size),
        Some(200_000)
    );
    assert_eq!(right(&world, theirs, big), Some(DataAccess::Read));
    let again = overwrite(&mut world, &owner, vec![big, made]).expect("it is his");
    assert!(again.copy_of(big).is_some_and(|new| new != copy) && again.copy_of(made).is_some());
}

#[test]
fn an_owner_drops_objects_of_its_own_files_that_a_merge_removed_and_of_no_other_number() {
    let (mut world, a, b, dir, _, mut owner) = read_scene();
    let mine = world.session(a);
    let elsewhere = world.create(b, Ino::ROOT, "elsewhere", WRITE, 5).ino;
    world.call(b, close(5)).expect("it is open");
    world.call(b, unlink(Ino::ROOT, "elsewhere")).expect("it is there");
    world.wait_alive(1000);
    let made = owner.made(&mut world, &create(dir, "made", WRITE, 1));
    owner.merge(&mut world).expect("it is his");
    owner.run(&mut world, &unlink(dir, "made")).expect("it is there, and open");
    owner.merge(&mut world).expect("it is his");
    let record = overwrite(&mut world, &owner, vec![made]).expect("it was his");
    assert_eq!((world.access.get(&(mine, made)), record.copy_of(made)), (Some(&DataAccess::Write), None));
    for ino in [elsewhere, Ino(1 << 40)] {
        assert_eq!(overwrite(&mut world, &owner, vec![ino]).err(), Some(FsError::NotFound), "{ino}");
        assert_eq!(world.access.get(&(mine, ino)), None, "{ino}");
    }
    owner.end(&mut world).expect("nothing is outstanding");
    assert_ne!(world.access.get(&(mine, made)), Some(&DataAccess::Write), "the right ends with the subtree");
}

#[test]
fn what_was_overwritten_and_not_merged_is_put_back_before_it_ends() {
    for lost in [false, true] {
        let (mut world, a, b, dir, big, owner) = read_scene();
        let copy = overwrite(&mut world, &owner, vec![big]).expect("it is his").copy_of(big).expect("put down");
        world.discards = false;
        let seq = if lost {
            world.disconnect(a);
            world.wait_alive(20_000);
            None
        } else {
            let what = Box::new(SubtreeOp::End { epoch: owner.epoch() });
            Some(world.send(a, Op::Control(Control::Subtree { dir, what })))
        };
        assert_eq!(Vec::from(world.pending_restores.clone()), [(big, copy)], "lost: {lost}");
        assert_eq!(seq.and_then(|seq| world.reply(a, seq)), None);
        assert!(world.mds.core.tree.decoupled(dir).is_some() && world.frozen.contains_key(&big));
        assert!(world.lookup(b, dir, "big").is_ok(), "others read on");
        assert_eq!(world.call(b, mkdir(dir, "m")), Err(FsError::Busy));
        // The rank dies: it begins anew.
        if lost {
            world.crash();
            world.pending_restores.clear();
            world.resume(b);
            world.reclaim(b, loligo_types::msg::Reclaim::default());
            world.wait_alive(20_000);
            assert_eq!(Vec::from(world.pending_restores.clone()), [(big, copy)]);
        }
        world.input(Input::Restored { ino: big });
        world.wait_alive(100);
        assert!(world.mds.core.tree.decoupled(dir).is_none() && world.frozen.is_empty(), "lost: {lost}");
        assert!(world.pending_discards.contains(&(copy, 0)));
        assert!(seq.is_none_or(|seq| matches!(world.reply(a, seq), Some((Ok(_), _)))));
        assert!(world.call(b, mkdir(dir, "m")).is_ok());
    }
}

#[test]
fn nobody_goes_on_with_a_subtree_whose_files_are_being_put_back() {
    for crash in [false, true] {
        let (mut world, a, b, dir, big, owner) = read_scene();
        overwrite(&mut world, &owner, vec![big]).expect("it is his");
        world.discards = false;
        world.disconnect(a);
        world.wait_alive(20_000);
        assert!(!world.pending_restores.is_empty(), "its lease is over");
        if crash {
            world.crash();
            world.pending_restores.clear();
            world.resume(b);
            world.reclaim(b, loligo_types::msg::Reclaim::default());
        }
        let SubtreeOp::Decouple { owner: number, inos, lease_ms, interfere, promise, .. } = read_op(77) else {
            unreachable!("it is one")
        };
        let resume = owner.epoch();
        let again = SubtreeOp::Decouple { owner: number, resume, inos, lease_ms, interfere, promise };
        let back = world.client();
        assert_eq!(ask(&mut world, back, dir, again).err(), Some(FsError::Stale), "crash: {crash}");
        let other = SubtreeOp::TakeOver { owner: 78, now: true };
        assert_eq!(ask(&mut world, back, dir, other).err(), Some(FsError::Stale), "crash: {crash}");
        // It ends by itself, as soon as all is as it was.
        world.wait_alive(100);
        world.input(Input::Restored { ino: big });
        world.wait_alive(100);
        assert!(world.mds.core.tree.decoupled(dir).is_none() && world.frozen.is_empty(), "crash: {crash}");
    }
}

#[test]
fn others_wait_while_a_merge_is_on_its_way_into_memory_and_see_all_of_it_then() {
    let (mut world, _, b, dir, _, mut owner) = read_scene();
    for n in 0..3000 {
        owner.made(&mut world, &mkdir(dir, &format!("d{n}")));
    }
    let group = owner.subtree.groups().remove(0);
    owner.send_parts(&mut world, &group).expect("they are his");
    let merge = world.send(owner.at, owner.merge_op(&group));
    let mut waited = false;
    for n in [0, 1500, 2999] {
        let seen = world.send(b, Op::Lookup { dir, name: name(&format!("d{n}")) });
        match world.reply(b, seen) {
            Some((result, _)) => assert!(result.is_ok(), "half of a merge is seen: {n}"),
            None => {
                waited = true;
                for _ in 0..1000 {
                    world.wait_alive(10);
                }
                assert!(matches!(world.reply(b, seen), Some((Ok(_), _))), "{n}");
            }
        }
    }
    assert!(waited && matches!(world.reply(owner.at, merge), Some((Ok(_), _))));
}
