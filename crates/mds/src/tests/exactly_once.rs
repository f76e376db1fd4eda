//! A request is executed once, however often it is sent.

use std::sync::Arc;

use loligo_types::{Answer, FsError, Ino, Lease, Op, Seq};

use super::*;

fn sizes(world: &World) -> (usize, usize) {
    (world.journal.len(), world.volatile.len())
}

#[test]
fn a_retry_after_the_answer_was_lost_is_answered_again() {
    let mut world = World::new();
    let a = world.client();
    let op = mkdir(Ino::ROOT, "d");
    let seq = world.send(a, op.clone());
    let (first, _) = world.reply(a, seq).expect("it is durable");
    let before = sizes(&world);
    world.reconnect(a);
    world.send_again(a, seq, op);
    assert_eq!(world.reply(a, seq).map(|(result, _)| result), Some(first));
    assert_eq!(sizes(&world), before);
}

#[test]
fn a_retry_while_it_is_executed_is_answered_once_on_the_new_connection() {
    let mut world = World::new();
    let a = world.client();
    world.syncs = false;
    let op = mkdir(Ino::ROOT, "d");
    let seq = world.send(a, op.clone());
    world.reconnect(a);
    world.send_again(a, seq, op);
    assert_eq!(world.reply(a, seq), None);
    world.syncs = true;
    world.pump();
    assert!(world.reply(a, seq).is_some_and(|(result, _)| result.is_ok()));
    assert_eq!(world.reply(a, seq), None);
}

#[test]
fn an_answer_that_found_no_connection_comes_with_the_retry() {
    let mut world = World::new();
    let a = world.client();
    world.syncs = false;
    let op = create(Ino::ROOT, "f", WRITE, 1);
    let seq = world.send(a, op.clone());
    world.disconnect(a);
    world.syncs = true;
    world.pump();
    world.resume(a);
    world.send_again(a, seq, op);
    let Some((Ok(Answer::Opened { attr, created, .. }), _)) = world.reply(a, seq) else { panic!("not opened") };
    assert!(created);
    assert_eq!(size(world.call(a, write_inline(attr.ino, 1, 0, b"x"))), 1);
}

#[test]
fn what_has_failed_is_not_done_when_the_retry_comes_after_the_answer() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    world.syncs = false;
    world.send(b, mkdir(Ino::ROOT, "not durable"));
    let seq = world.send(a, unlink(Ino::ROOT, "f"));
    // The client sends it again over the new connection; the answer is there before that comes.
    world.reconnect(a);
    world.syncs = true;
    world.pump();
    assert_eq!(world.reply(a, seq).map(|(result, _)| result), Some(Err(FsError::NotFound)));
    world.create(b, Ino::ROOT, "f", WRITE, 1);
    world.send_again(a, seq, unlink(Ino::ROOT, "f"));
    assert_eq!(world.reply(a, seq), None, "the client has its answer");
    assert!(world.call(b, Op::Lookup { dir: Ino::ROOT, name: name("f") }).is_ok());
    // Over another connection it may have been lost.
    world.reconnect(a);
    world.send_again(a, seq, unlink(Ino::ROOT, "f"));
    assert_eq!(world.reply(a, seq).map(|(result, _)| result), Some(Ok(Answer::Done)));
}

#[test]
fn rights_that_came_with_an_open_are_asked_back_though_the_open_was_sent_again() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let ino = world.create(a, Ino::ROOT, "f", WRITE, 1).ino;
    world.call(a, close(1)).expect("it is open");
    let op = Op::Open { ino, flags: WRITE, handle: 2 };
    let seq = world.send(a, op.clone());
    let Some((Ok(Answer::Opened { rights, .. }), _)) = world.reply(a, seq) else { panic!("not opened") };
    assert!(rights.has(Lease::BUFFER));
    // The client had the answer; what it sends again was on its way before, and is answered when the journal is durable.
    world.syncs = false;
    world.send(b, mkdir(Ino::ROOT, "d"));
    world.send_again(a, seq, op);
    world.clients[a].obeys = false;
    let other = world.send(b, Op::Open { ino, flags: WRITE, handle: 1 });
    assert!(world.clients[a].recalls.iter().any(|(of, _, bits)| *of == ino && bits.has(Lease::BUFFER)));
    assert_eq!(world.reply(b, other), None, "it waits for what the first one has written");
    world.syncs = true;
    world.clients[a].obeys = true;
    world.call(a, write_inline(ino, 2, 0, b"held back")).expect("it is open");
    assert!(world.reply(b, other).is_some_and(|(result, _)| result.is_ok()));
}

#[test]
fn an_exclusive_create_repeated_across_a_restart_succeeds_once() {
    let mut world = World::new();
    let a = world.client();
    let op = Op::Create {
        dir: Ino::ROOT,
        name: name("lock"),
        mode: 0o600,
        umask: 0,
        flags: WRITE,
        exclusive: true,
        handle: 4,
    };
    let seq = world.send(a, op.clone());
    let Some((Ok(Answer::Opened { attr, .. }), _)) = world.reply(a, seq) else { panic!("not made") };
    world.crash();
    world.resume(a);
    assert!(world.clients[a].welcome.as_ref().is_some_and(|w| w.resumed && !w.kept));
    world.send_again(a, seq, op.clone());
    let Some((Ok(Answer::Opened { attr: again, created, .. }), _)) = world.reply(a, seq) else { panic!("not again") };
    assert_eq!((again.ino, created), (attr.ino, true));
    assert_eq!(world.call(a, op), Err(FsError::Exists));
}

#[test]
fn an_open_by_name_repeated_opens_the_same_handle() {
    let mut world = World::new();
    let a = world.client();
    world.create(a, Ino::ROOT, "f", WRITE, 1);
    let op = create(Ino::ROOT, "f", WRITE, 2);
    let seq = world.send(a, op.clone());
    assert!(world.reply(a, seq).is_some());
    world.reconnect(a);
    world.send_again(a, seq, op);
    assert!(world.reply(a, seq).is_some_and(|(result, _)| result.is_ok()));
    assert_eq!(world.mds.status().sessions[0].opens, 2);
}

#[test]
fn what_is_open_may_be_opened_again_under_its_number_whatever_its_mode_says() {
    let mut world = World::new();
    let (root, a) = (world.client(), world.client());
    world.call(root, chmod(Ino::ROOT, 0o777)).expect("it is root's");
    world.clients[a].uid = 1000;
    // As git makes its objects: open for writing, with a mode that lets nobody write.
    let make = Op::Create {
        dir: Ino::ROOT,
        name: name("object"),
        mode: 0o444,
        umask: 0,
        flags: WRITE,
        handle: 1,
        exclusive: true,
    };
    let Ok(Answer::Opened { attr, .. }) = world.call(a, make) else { panic!("it is made") };
    let open = |handle, flags| Op::Open { ino: attr.ino, flags, handle };
    assert!(world.call(a, open(1, WRITE)).is_ok(), "a client that is not sure asks once more");
    assert_eq!(world.call(a, open(2, WRITE)), Err(FsError::Access));
    let cut = loligo_types::OpenFlags { truncate: true, ..WRITE };
    assert_eq!(world.call(a, open(1, cut)), Err(FsError::Access), "that it may be cut was not said");
    let Ok(Answer::Opened { .. }) = world.call(a, open(3, READ)) else { panic!("all may read it") };
    assert_eq!(world.call(a, open(3, WRITE)), Err(FsError::Access), "it was opened to be read");
}

#[test]
fn what_was_executed_survives_a_checkpoint_that_trims_its_record() {
    let mut world = World::with(crate::Config { dirty_ms_max: 100, ..config() });
    let a = world.client();
    let op = mkdir(Ino::ROOT, "d");
    let seq = world.send(a, op.clone());
    world.wait_alive(300);
    assert!(world.journal.is_empty(), "all is in the table");
    world.crash();
    world.resume(a);
    world.send_again(a, seq, op);
    assert!(world.reply(a, seq).is_some_and(|(result, _)| result.is_ok()));
}

#[test]
fn what_was_not_durable_is_executed_again_after_a_restart() {
    let mut world = World::new();
    let a = world.client();
    world.syncs = false;
    let op = mkdir(Ino::ROOT, "d");
    let seq = world.send(a, op.clone());
    world.crash();
    world.syncs = true;
    world.resume(a);
    world.send_again(a, seq, op);
    assert!(world.reply(a, seq).is_some_and(|(result, _)| result.is_ok()));
    assert!(world.lookup(a, Ino::ROOT, "d").is_ok());
}

#[test]
fn an_append_repeated_reserves_once() {
    let mut world = World::new();
    let a = world.client();
    let attr = world.create(a, Ino::ROOT, "f", WRITE, 1);
    world.call(a, set_data(attr.ino, 1, attr.cuts, 100, true)).expect("it may");
    let op = Op::Extend { ino: attr.ino, handle: 1, len: 50 };
    let seq = world.send(a, op.clone());
    assert_eq!(world.reply(a, seq).map(|(result, _)| result), Some(Ok(Answer::Offset(100))));
    world.reconnect(a);
    world.send_again(a, seq, op);
    assert_eq!(world.reply(a, seq).map(|(result, _)| result), Some(Ok(Answer::Offset(100))));
    assert_eq!(size(world.call(a, set_data(attr.ino, 1, attr.cuts, 150, false))), 150);
    let next = Op::Extend { ino: attr.ino, handle: 1, len: 50 };
    assert_eq!(world.call(a, next), Ok(Answer::Offset(150)));
}

#[test]
fn numbers_that_make_no_sense_do_no_harm() {
    let mut world = World::new();
    let a = world.client();
    world.send_again(a, Seq(0), mkdir(Ino::ROOT, "zero"));
    world.send_again(a, Seq(u64::MAX), mkdir(Ino::ROOT, "far"));
    assert_eq!(world.reply(a, Seq(0)), None);
    assert_eq!(world.reply(a, Seq(u64::MAX)).map(|(result, _)| result), Some(Err(FsError::Busy)));
    assert_eq!(world.lookup(a, Ino::ROOT, "zero"), Err(FsError::NotFound));
}

#[test]
fn what_was_executed_is_known_also_when_its_change_got_into_an_earlier_checkpoint() {
    let mut world = World::with(crate::Config { dirty_ms_max: 100, checkpoint_records: 1, ..config() });
    let a = world.client();
    let attr = world.create(a, Ino::ROOT, "f", WRITE, 1);
    world.call(a, write_inline(attr.ino, 1, 0, b"some bytes")).expect("it fits");
    world.checkpoints = false;
    world.wait_alive(150);
    assert_eq!(world.pending_checkpoints.len(), 1, "a round goes on");
    // The file is still to be written in this round, and changes again.
    let (data, mtime) = (Arc::from(&b" and more"[..]), loligo_types::SetTime::Now);
    let op = Op::WriteInline { ino: attr.ino, handle: 1, offset: None, data, mtime, kill_priv: false };
    let seq = world.send(a, op.clone());
    world.pump();
    let first = world.reply(a, seq).expect("it is durable").0;
    world.checkpoints = true;
    world.pump();
    world.crash();
    world.resume(a);
    world.send_again(a, seq, op);
    assert_eq!(world.reply(a, seq).map(|(result, _)| result), Some(first));
    assert_eq!(size(world.call(a, Op::GetAttr { ino: attr.ino })), 19);
}
