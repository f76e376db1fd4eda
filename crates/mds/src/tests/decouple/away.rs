//! A decoupled subtree whose owner is gone, and has left its journal in the store: it waits, and who may take it over.

use loligo_types::{Lease, SetAttr, StoredJournal};

use super::*;

fn keep(world: &mut World, owner: &Owner, bytes: u64) -> StoredJournal {
    let journal = StoredJournal { ino: owner.subtree.record().journal_inos()[0], bytes };
    let (dir, epoch) = (owner.subtree.root(), owner.epoch());
    ask(world, owner.at, dir, SubtreeOp::Data { epoch, inos: vec![journal.ino] }).expect("it is reserved for it");
    ask(world, owner.at, dir, SubtreeOp::Keep { epoch, journal }).expect("it is reserved for it");
    journal
}

fn take(world: &mut World, at: usize, dir: Ino, owner: u64) -> FsResult<DecoupledRecord> {
    told(ask(world, at, dir, SubtreeOp::TakeOver { owner, now: false })).map(|(record, ..)| record)
}

fn user(world: &mut World, uid: u32) -> usize {
    let peer = crate::Peer { uid: Some(uid), groups: vec![uid], trusted: false, local: false, identity: None };
    let at = world.client_as(uid, peer);
    world.clients[at].uid = uid;
    at
}

#[test]
fn one_with_a_journal_in_the_store_waits_for_somebody_who_takes_it_over_and_its_owner_of_before_has_lost_it() {
    let (mut world, a, b, dir, old) = scene();
    let mut owner = Owner::new(&mut world, a, dir, 100).expect("free");
    let made = owner.write(&mut world, dir, "f", b"data");
    let journal = keep(&mut world, &owner, 300);
    assert_eq!(take(&mut world, b, dir, 78), Err(FsError::Busy), "its owner is here");
    world.disconnect(a);
    world.wait_alive(3000);
    assert_eq!(take(&mut world, b, dir, 78), Err(FsError::Busy), "its owner may come back");
    world.wait_alive(20_000);
    assert_eq!(world.lookup(b, dir, "old"), Err(FsError::Busy), "it is decoupled still");
    let shown = world.mds.status().decoupled.remove(0);
    assert_eq!((shown.stored, shown.away.map(|away| away.left_ms)), (Some(300), Some(0)));
    assert_eq!(take(&mut world, b, dir, 0), Err(FsError::Invalid));
    let record = take(&mut world, b, dir, 78).expect("it waits");
    assert_eq!((record.epoch, record.owner, record.uid), (owner.epoch(), 78, 0));
    assert_eq!((record.journal, record.session, &*record.name), (Some(journal), world.session(b), &b"client 1"[..]));
    assert_eq!(take(&mut world, b, dir, 78).expect("the same again"), record);
    // Whoever knows the number of before comes too late, also after a restart.
    let c = world.client();
    for crashed in [false, true] {
        if crashed {
            world.crash();
            for at in [b, c] {
                world.resume(at);
                world.reclaim(at, loligo_types::msg::Reclaim::default());
            }
        }
        let late = told(ask(&mut world, c, dir, decouple_op(77, owner.epoch(), 10)));
        assert_eq!(late.err(), Some(FsError::Stale));
        assert_eq!(take(&mut world, c, dir, 79), Err(FsError::Busy), "it has an owner");
        let epoch = owner.epoch();
        assert_eq!(ask(&mut world, c, dir, SubtreeOp::End { epoch }), Err(FsError::Stale));
    }
    // It has the objects, and merges what it read there.
    let (epoch, taker) = (owner.epoch(), world.session(b));
    ask(&mut world, b, dir, SubtreeOp::Data { epoch, inos: vec![journal.ino] }).expect("it is its own");
    assert_eq!(world.access.get(&(taker, journal.ino)), Some(&crate::DataAccess::Write));
    owner.at = b;
    owner.merge(&mut world).expect("it is its own");
    world.discards = false;
    owner.end(&mut world).expect("it is its own");
    assert!(world.pending_discards.iter().any(|(ino, _)| *ino == journal.ino), "nobody needs it any more");
    let seen = world.lookup(c, dir, "f").expect("merged");
    assert_eq!((seen.ino, seen.size), (made, 4));
    assert!(world.lookup(c, dir, "old").is_ok_and(|attr| attr.ino == old));
}

#[test]
fn only_its_user_and_root_take_it_over_and_only_what_was_left_with_a_journal() {
    let (mut world, a, b, dir, _) = scene();
    let (one, same, other) = (user(&mut world, 1000), user(&mut world, 1000), user(&mut world, 1001));
    let chown = SetAttr { uid: Some(1000), ..SetAttr::default() };
    world.call(a, Op::SetAttr { ino: dir, set: chown, handle: None }).expect("root may");
    assert_eq!(take(&mut world, b, dir, 5), Err(FsError::NotFound), "it is not decoupled");
    let mut owner = Owner::new(&mut world, one, dir, 100).expect("it is his");
    owner.made(&mut world, &mkdir(dir, "sub"));
    keep(&mut world, &owner, 300);
    world.disconnect(one);
    world.wait_alive(20_000);
    assert_eq!(take(&mut world, other, dir, 5), Err(FsError::Perm));
    assert_eq!(take(&mut world, same, dir, 6).map(|record| (record.owner, record.uid)), Ok((6, 1000)));
    // Who took it over may go away as well; root merges in its name.
    world.disconnect(same);
    world.wait_alive(3000);
    assert_eq!(take(&mut world, b, dir, 7), Err(FsError::Busy), "its lease is not over");
    world.wait_alive(20_000);
    let record = take(&mut world, b, dir, 7).expect("root may");
    assert_eq!((record.owner, record.uid), (7, 1000));
    // Nothing of its journal counts any more: it is as one that never had any.
    let journal = StoredJournal { ino: record.journal_inos()[0], bytes: 0 };
    ask(&mut world, b, dir, SubtreeOp::Keep { epoch: record.epoch, journal }).expect("its own");
    assert_eq!(world.mds.status().decoupled[0].stored, None);
    world.disconnect(b);
    world.wait_alive(20_000);
    assert_eq!(take(&mut world, a, dir, 8), Err(FsError::NotFound), "it was taken back");
    assert_eq!(world.lookup(a, dir, "sub"), Err(FsError::NotFound));
    assert_eq!(world.mds.status().decouplings_lost, 1);
}

#[test]
fn root_takes_one_at_once_whether_its_owner_is_here_or_gone_and_nobody_else_does() {
    for (here, kept) in [(true, false), (true, true), (false, false), (false, true)] {
        let (mut world, a, b, dir, _) = scene();
        let (one, same) = (user(&mut world, 1000), user(&mut world, 1000));
        let chown = SetAttr { uid: Some(1000), ..SetAttr::default() };
        world.call(a, Op::SetAttr { ino: dir, set: chown, handle: None }).expect("root may");
        let now = |owner| SubtreeOp::TakeOver { owner, now: true };
        assert_eq!(ask(&mut world, b, dir, now(5)).err(), Some(FsError::NotFound), "it is not decoupled");
        let mut owner = Owner::new(&mut world, one, dir, 100).expect("it is his");
        owner.made(&mut world, &mkdir(dir, "sub"));
        if kept {
            keep(&mut world, &owner, 300);
        }
        if !here {
            world.disconnect(one);
            world.wait_alive(3000);
        }
        assert_eq!(ask(&mut world, same, dir, now(6)).err(), Some(FsError::Perm), "its user waits for the lease");
        assert_eq!(ask(&mut world, b, dir, now(0)).err(), Some(FsError::Invalid));
        world.clients[one].obeys = false;
        let seq = world.send(b, Op::Control(Control::Subtree { dir, what: Box::new(now(7)) }));
        if here {
            // Its owner is told first: from the answer on it lets no program believe that something succeeded.
            assert_eq!(world.reply(b, seq), None, "its owner has not heard it");
            let (ino, id, bits) = world.clients[one].recalls.pop().expect("it is told");
            assert_eq!((ino, bits), (dir, Lease::NAMES));
            assert_eq!(told(ask(&mut world, one, dir, decouple_op(77, owner.epoch(), 10))).err(), Some(FsError::Stale));
            world.message(one, loligo_types::msg::ToServer::RecallDone { ino, id });
        }
        let record = told(world.reply(b, seq).expect("it is told, or not here").0).expect("root may").0;
        assert_eq!((record.epoch, record.owner, record.uid), (owner.epoch(), 7, 1000));
        assert_eq!(record.session, world.session(b));
        if here {
            // Its owner hears that it has lost it, with all that it asks.
            let epoch = owner.epoch();
            assert_eq!(ask(&mut world, one, dir, SubtreeOp::Grant { epoch, inos: 1 }).err(), Some(FsError::Stale));
            assert_eq!(told(ask(&mut world, one, dir, decouple_op(77, epoch, 10))).err(), Some(FsError::Stale));
        }
        ask(&mut world, b, dir, SubtreeOp::End { epoch: record.epoch }).expect("its own");
        assert_eq!(world.lookup(b, dir, "sub"), Err(FsError::NotFound), "it was not merged");
        assert!(world.lookup(b, dir, "old").is_ok(), "it is a directory like others");
        Owner::new(&mut world, same, dir, 100).expect("free");
    }
}

#[test]
fn who_has_a_copy_of_the_journal_of_an_owner_that_is_connected_takes_nothing_from_it() {
    let (mut world, a, b, dir, _) = scene();
    let mut owner = Owner::new(&mut world, a, dir, 100).expect("free");
    owner.write(&mut world, dir, "f", b"data");
    keep(&mut world, &owner, 300);
    let copy = decouple_op(77, owner.epoch(), 10);
    let same = SubtreeOp::TakeOver { owner: 77, now: false };
    for crashed in [false, true] {
        if crashed {
            world.crash();
            for at in [a, b] {
                world.resume(at);
                world.reclaim(at, loligo_types::msg::Reclaim::default());
            }
        }
        for what in [&copy, &same] {
            assert_eq!(told(ask(&mut world, b, dir, what.clone())).err(), Some(FsError::Busy), "{what:?}");
        }
        told(ask(&mut world, a, dir, copy.clone())).expect("it is the owner");
    }
    // The rank does not hear the owner any more: a client with its journal goes on.
    world.disconnect(a);
    told(ask(&mut world, b, dir, copy)).expect("it knows the number");
    owner.at = b;
    owner.merge(&mut world).expect("it is his");
}

#[test]
fn an_owner_that_does_not_answer_holds_up_nobody_who_takes_its_subtree() {
    let (mut world, a, b, dir, _) = scene();
    let owner = Owner::new(&mut world, a, dir, 100).expect("free");
    let what = SubtreeOp::TakeOver { owner: 7, now: true };
    world.clients[a].obeys = false;
    let seq = world.send(b, Op::Control(Control::Subtree { dir, what: Box::new(what) }));
    assert_eq!(world.reply(b, seq), None);
    world.wait_alive(1500);
    let record = told(world.reply(b, seq).expect("it was waited for long enough").0).expect("root may").0;
    assert_eq!((record.epoch, record.owner), (owner.epoch(), 7));
}

#[test]
fn what_is_taken_back_at_the_end_of_a_lease_is_said_with_whether_something_was_not_merged() {
    for wrote in [false, true] {
        let (mut world, a, _, dir, _) = scene();
        let owner = Owner::new(&mut world, a, dir, 100).expect("free");
        if wrote {
            let (epoch, inos) = (owner.epoch(), vec![owner.subtree.record().used]);
            ask(&mut world, a, dir, SubtreeOp::Data { epoch, inos }).expect("it is granted");
        }
        world.disconnect(a);
        world.wait_alive(20_000);
        assert_eq!(world.taken_back, [(dir, wrote)]);
    }
}

#[test]
fn the_owner_of_before_goes_on_as_long_as_nobody_has_taken_it_over() {
    let (mut world, a, b, dir, _) = scene();
    let mut owner = Owner::new(&mut world, a, dir, 100).expect("free");
    owner.write(&mut world, dir, "f", b"data");
    keep(&mut world, &owner, 300);
    world.disconnect(a);
    world.wait_alive(50_000);
    world.crash();
    world.resume(b);
    world.reclaim(b, loligo_types::msg::Reclaim::default());
    assert_eq!(take(&mut world, b, dir, 78), Err(FsError::Busy), "after a restart its lease begins anew");
    let c = world.client();
    told(ask(&mut world, c, dir, decouple_op(77, owner.epoch(), 10))).expect("it knows the number");
    world.wait_alive(20_000);
    assert_eq!(take(&mut world, b, dir, 78), Err(FsError::Busy), "it is here again");
    owner.at = c;
    owner.merge(&mut world).expect("it is his");
    owner.end(&mut world).expect("it is his");
    assert_eq!(world.lookup(b, dir, "f").map(|attr| attr.size), Ok(4));
}

#[test]
fn after_a_restart_the_owner_goes_on_though_its_root_is_not_in_memory_any_more() {
    let (mut world, a, b, dir, _) = scene();
    let mut owner = Owner::new(&mut world, a, dir, 2).expect("free");
    // All of the journal is in the table.
    world.wait_alive(50_000);
    world.crash();
    for at in [a, b] {
        world.resume(at);
        world.reclaim(at, loligo_types::msg::Reclaim::default());
    }
    assert!(world.mds.core.tree.inode(dir).is_none(), "nobody has looked at it");
    for n in 0..5 {
        owner.write(&mut world, dir, &format!("f{n}"), b"data");
    }
    owner.merge(&mut world).expect("it is his");
    owner.end(&mut world).expect("it is his");
    assert_eq!(world.lookup(b, dir, "f4").map(|attr| attr.size), Ok(4));
}
