//! Crash, grace, orphans, clean stop.

use loligo_types::msg::{PROTOCOL_VERSION, Reclaim, ToServer};
use loligo_types::{Answer, Control, FileLock, FsError, Ino, Lease, LockKind, LockOwner, Op};

use super::*;
use crate::{Config, Input, Peer};

fn lock() -> FileLock {
    FileLock { kind: LockKind::Posix, owner: LockOwner(1), pid: 1, exclusive: true, start: 0, end: 9 }
}

#[test]
fn what_was_acknowledged_is_there_after_a_crash() {
    let mut world = World::new();
    let a = world.client();
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    world.create(a, dir, "f", WRITE, 1);
    world.call(a, write_inline(Ino(dir.0 + 1), 1, 0, b"hello")).expect("it is open");
    let before = world.walk(a);
    world.crash();
    world.resume(a);
    let after = world.walk(a);
    assert_eq!(before, after);
}

#[test]
fn others_wait_until_all_that_were_there_have_reclaimed() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let ino = world.create(a, Ino::ROOT, "f", WRITE, 1).ino;
    world.crash();
    world.resume(b);
    let seq = world.send(b, Op::Open { ino, flags: WRITE, handle: 1 });
    assert_eq!(world.reply(b, seq), None);
    assert_eq!(world.mds.status().grace.map(|grace| grace.missing), Some(1));
    world.clients[a].obeys = false;
    world.resume(a);
    assert_eq!(world.reply(b, seq), None, "its reclaim is to come");
    let opens = vec![(1, ino, WRITE, Lease::CACHE | Lease::BUFFER)];
    world.reclaim(a, Reclaim { opens, leases: vec![(Ino::ROOT, Lease::ATTR)], locks: vec![(ino, 1, lock())] });
    assert!(world.mds.status().grace.is_none());
    // The right that was reclaimed is asked back now.
    assert_eq!(world.reply(b, seq), None);
    assert_eq!(world.clients[a].recalls.len(), 1);
    assert_eq!(size(world.call(a, write_inline(ino, 1, 0, b"held back"))), 9);
    world.clients[a].obeys = true;
    world.pump();
    let Some((Ok(Answer::Opened { attr, .. }), _)) = world.reply(b, seq) else { panic!("not opened") };
    assert_eq!(attr.size, 9);
    let set = Op::Control(Control::SetLock { ino, handle: 1, lock: lock(), wait: false });
    assert_eq!(world.call(b, set), Err(FsError::WouldBlock));
    assert_eq!(world.mds.status().leases, 1);
}

#[test]
fn the_grace_time_ends_though_somebody_never_comes_back() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    world.crash();
    world.resume(b);
    let seq = world.send(b, mkdir(Ino::ROOT, "d"));
    for _ in 0..30 {
        world.wait(100);
        world.message(b, ToServer::Ping);
    }
    assert!(world.reply(b, seq).is_some_and(|(result, _)| result.is_ok()));
    // Who comes too late has lost its session.
    world.resume(a);
    assert!(world.clients[a].welcome.as_ref().is_some_and(|w| !w.resumed));
}

#[test]
fn who_did_not_notice_the_restart_is_waited_for_as_long_as_he_relies_on_what_was_lent() {
    let mut world = World::with(Config { grace_ms: 0, ..config() });
    let network = Peer { uid: None, groups: Vec::new(), trusted: true, local: false, identity: None };
    let (a, b) = (world.client_as(0, network), world.client());
    world.call(a, Op::GetAttr { ino: Ino::ROOT }).expect("it lends the root's attributes");
    world.crash();
    world.resume(b);
    world.reclaim(b, Reclaim::default());
    let seq = world.send(b, mkdir(Ino::ROOT, "d"));
    let lives = u64::from(config().session_ms);
    for waited in (0..=lives + 100).step_by(50) {
        let answered = world.reply(b, seq).is_some();
        assert_eq!(answered, waited >= lives, "after {waited} ms");
        if answered {
            return;
        }
        assert_eq!(world.mds.status().grace.map(|grace| (grace.left_ms, grace.missing)), Some((lives - waited, 1)));
        world.wait(50);
        world.message(b, ToServer::Ping);
    }
    panic!("it is not answered");
}

#[test]
fn a_session_known_to_be_dead_is_not_waited_for() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let dead = world.session(a);
    world.crash();
    world.resume(b);
    world.reclaim(b, Reclaim::default());
    let seq = world.send(b, mkdir(Ino::ROOT, "d"));
    assert_eq!(world.reply(b, seq), None);
    world.input(Input::PeerDead { session: dead });
    assert!(world.reply(b, seq).is_some());
}

#[test]
fn sessions_of_the_servers_own_process_die_with_it() {
    let mut world = World::new();
    let a = world.client_as(0, Peer { uid: Some(0), groups: Vec::new(), trusted: true, local: true, identity: None });
    world.mkdir(a, Ino::ROOT, "d");
    world.crash();
    assert!(world.mds.status().sessions.is_empty());
    assert!(world.mds.status().grace.is_none());
    let b = world.client();
    assert!(world.lookup(b, Ino::ROOT, "d").is_ok());
}

#[test]
fn an_orphan_lives_over_a_restart_while_it_is_reclaimed() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let kept = world.create(a, Ino::ROOT, "kept", WRITE, 1).ino;
    let lost = world.create(b, Ino::ROOT, "lost", WRITE, 1).ino;
    for text in ["kept", "lost"] {
        world.call(a, unlink(Ino::ROOT, text)).expect("it is there");
    }
    world.crash();
    world.resume(a);
    world.reclaim(a, Reclaim { opens: vec![(1, kept, WRITE, Lease::NONE)], ..Reclaim::default() });
    assert_eq!(world.mds.status().orphans, 2);
    world.clients[b].closed = true;
    world.wait_alive(5000);
    assert_eq!(world.mds.status().orphans, 1);
    assert!(world.call(a, Op::GetAttr { ino: kept }).is_ok());
    assert_eq!(world.call(a, Op::GetAttr { ino: lost }), Err(FsError::Stale));
    world.call(a, close(1)).expect("it is open");
    assert_eq!(world.mds.status().orphans, 0);
}

#[test]
fn a_discard_that_was_not_done_is_repeated_and_one_that_was_is_not() {
    let mut world = World::new();
    let a = world.client();
    let ino = world.create(a, Ino::ROOT, "f", WRITE, 1).ino;
    world.call(a, set_data(ino, 1, 0, 100_000, true)).expect("it may");
    world.discards = false;
    let op = truncate(ino, 10);
    let seq = world.send(a, op.clone());
    world.crash();
    assert_eq!(world.pending_discards.front(), Some(&(ino, 10)));
    world.resume(a);
    world.reclaim(a, Reclaim { opens: vec![(1, ino, WRITE, Lease::NONE)], ..Reclaim::default() });
    world.send_again(a, seq, op);
    assert_eq!(world.reply(a, seq), None, "the answer waits for the drop, also when it is made again");
    let grow = world.send(a, set_data(ino, 1, 1, 50, false));
    assert_eq!(world.reply(a, grow), None);
    world.discards = true;
    world.pump();
    // A server that was restarted drops once more, before it lets a file grow that others may have written to.
    assert_eq!(world.reply(a, grow).expect("it may go on").0, Err(FsError::Stale));
    assert_eq!(size(world.call(a, set_data(ino, 1, 2, 50, false))), 50);
    world.discards = false;
    world.crash();
    assert!(world.pending_discards.is_empty());
}

#[test]
fn a_clean_stop_leaves_nothing_in_the_journal() {
    let mut world = World::new();
    let a = world.client();
    for i in 0..50 {
        world.mkdir(a, Ino::ROOT, &format!("d{i}"));
    }
    let before = world.walk(a);
    world.input(Input::Stop);
    assert!(world.stopped);
    assert!(world.journal.is_empty());
    world.crash();
    world.resume(a);
    assert_eq!(world.walk(a), before);
}

#[test]
fn a_rank_that_another_server_is_to_run_serves_until_little_is_left_to_be_written() {
    let mut world = World::with(Config { checkpoint_records: 10, ..config() });
    let a = world.client();
    world.checkpoints = false;
    for i in 0..50 {
        world.mkdir(a, Ino::ROOT, &format!("d{i}"));
    }
    world.input(Input::StopSoon);
    world.input(Input::StopSoon);
    world.mkdir(a, Ino::ROOT, "late");
    assert!(!world.stopped, "it serves");
    let before = world.walk(a);
    world.checkpoints = true;
    world.pump();
    world.wait(100);
    assert!(world.stopped && world.journal.is_empty());
    world.crash();
    world.resume(a);
    assert_eq!(world.walk(a), before);
}

#[test]
fn a_rank_that_another_server_is_to_run_does_not_put_that_off_for_long() {
    let mut world = World::with(Config { checkpoint_records: 2, ..config() });
    let a = world.client();
    world.checkpoints = false;
    for i in 0..20 {
        world.mkdir(a, Ino::ROOT, &format!("d{i}"));
    }
    world.input(Input::StopSoon);
    for _ in 0..2 {
        world.wait_alive(5500);
    }
    let seq = world.send(a, mkdir(Ino::ROOT, "late"));
    assert_eq!(world.reply(a, seq), None, "the next server answers that");
    world.checkpoints = true;
    world.pump();
    world.wait(100);
    assert!(world.stopped && world.journal.is_empty());
}

#[test]
fn what_is_asked_of_a_server_that_stops_is_answered_by_the_next() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let ino = world.create(a, Ino::ROOT, "f", WRITE, 1).ino;
    world.syncs = false;
    world.send(b, mkdir(Ino::ROOT, "d"));
    world.input(Input::Stop);
    // An error would tell the client that what it held back is lost.
    let seq = world.send(a, write_inline(ino, 1, 0, b"held back"));
    assert_eq!(world.reply(a, seq), None);
    world.syncs = true;
    world.pump();
    world.wait(100);
    assert!(world.stopped);
    assert_eq!(world.reply(a, seq), None);
    world.crash();
    world.resume(a);
    world.resume(b);
    let flags = WRITE;
    world.reclaim(a, Reclaim { opens: vec![(1, ino, flags, Lease::BUFFER)], ..Reclaim::default() });
    world.reclaim(b, Reclaim::default());
    world.send_again(a, seq, write_inline(ino, 1, 0, b"held back"));
    assert_eq!(size(world.reply(a, seq).expect("it is answered").0), 9);
}

#[test]
fn numbers_of_removed_inodes_are_not_used_again() {
    let mut world = World::new();
    let a = world.client();
    let ino = world.mkdir(a, Ino::ROOT, "d").ino;
    world.call(a, Op::Rmdir { dir: Ino::ROOT, name: name("d") }).expect("it is empty");
    world.crash();
    world.resume(a);
    assert!(world.mkdir(a, Ino::ROOT, "d").ino > ino);
    world.input(Input::Stop);
    world.crash();
    world.resume(a);
    assert!(world.mkdir(a, Ino::ROOT, "e").ino.0 > ino.0 + 1);
}

#[test]
fn a_session_that_came_back_and_told_nothing_is_evicted_with_the_grace_time() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let ino = world.create(a, Ino::ROOT, "f", WRITE, 1).ino;
    world.crash();
    world.resume(a);
    world.resume(b);
    world.reclaim(b, Reclaim::default());
    world.wait_alive(2500);
    assert!(world.mds.status().grace.is_none());
    let evicted = |msg: &loligo_types::msg::ToClient| matches!(msg, loligo_types::msg::ToClient::Evicted);
    assert!(world.clients[a].inbox.iter().any(evicted));
    assert_eq!(world.open(b, ino, WRITE, 1).1, Lease::CACHE | Lease::BUFFER);
}

#[test]
fn a_broken_connection_before_the_reclaim_loses_nothing() {
    let mut world = World::new();
    let a = world.client();
    let ino = world.create(a, Ino::ROOT, "f", WRITE, 1).ino;
    world.crash();
    world.resume(a);
    world.reconnect(a);
    assert!(world.clients[a].welcome.as_ref().is_some_and(|w| w.resumed && !w.kept));
    world.reclaim(a, Reclaim { opens: vec![(1, ino, WRITE, Lease::CACHE)], ..Reclaim::default() });
    assert_eq!(size(world.call(a, write_inline(ino, 1, 0, b"x"))), 1);
}

#[test]
fn what_a_client_of_the_network_claims_is_its_own_though_the_connection_breaks_while_it_is_read() {
    let mut world = World::with(Config { dirty_ms_max: 100, ..config() });
    let a = world.client_as(0, Peer { uid: None, groups: Vec::new(), trusted: true, local: false, identity: None });
    let ino = world.create(a, Ino::ROOT, "f", WRITE, 1).ino;
    world.wait_alive(3000);
    world.crash();
    world.resume(a);
    world.loads = false;
    world.reclaim(a, Reclaim { opens: vec![(1, ino, WRITE, Lease::CACHE)], ..Reclaim::default() });
    assert!(!world.pending_loads.is_empty(), "the inode is not in memory");
    world.disconnect(a);
    world.loads = true;
    world.pump();
    world.resume(a);
    assert_eq!(size(world.call(a, write_inline(ino, 1, 0, b"x"))), 1);
}

#[test]
fn nobody_reclaims_what_is_not_there_or_what_it_may_not_open() {
    let mut world = World::with(crate::Config { dirty_ms_max: 100, ..config() });
    let user = Peer { uid: Some(1000), groups: vec![1000], trusted: false, local: false, identity: None };
    let (a, b) = (world.client(), world.client_as(1000, user.clone()));
    let secret = world.create(a, Ino::ROOT, "secret", WRITE, 1).ino;
    world.call(a, chmod(secret, 0o600)).expect("its owner may");
    let open = world.create(a, Ino::ROOT, "open", WRITE, 2).ino;
    world.wait_alive(300);
    world.crash();
    world.resume(a);
    world.reclaim(a, Reclaim::default());
    let conn = crate::ConnId(77);
    world.clients[b].conn = ConnId2(conn);
    let welcome = world.clients[b].welcome.clone().expect("it was welcome before");
    world.input(Input::Connected { conn, peer: user });
    let resume = Some((welcome.session, welcome.secret));
    let hello = loligo_types::msg::Hello {
        versions: (PROTOCOL_VERSION, PROTOCOL_VERSION),
        client: 0,
        resume,
        name: "b".into(),
        fs_id: None,
    };
    world.message(b, ToServer::Hello(hello));
    let handle = |number, ino| (number, ino, READ, Lease::NONE);
    let opens = vec![handle(1, secret), handle(2, open), handle(3, Ino(999_999))];
    world.reclaim(b, Reclaim { opens, ..Reclaim::default() });
    assert!(world.mds.status().grace.is_none());
    assert_eq!(world.mds.status().sessions[1].opens, 1);
    assert_eq!(world.access.get(&(welcome.session, secret)), None);
}

#[test]
fn what_was_open_is_given_back_though_a_read_of_the_table_fails() {
    // All of it is in the table, and nothing of it in the journal.
    let mut world = World::with(crate::Config { dirty_max: 1, ..config() });
    let (a, b) = (world.client(), world.client());
    let ino = world.create(a, Ino::ROOT, "f", WRITE, 1).ino;
    world.wait_alive(3000);
    world.create(b, Ino::ROOT, "g", WRITE, 1);
    world.wait_alive(3000);
    world.crash();
    world.loads = false;
    world.resume(a);
    world.reclaim(a, Reclaim { opens: vec![(1, ino, WRITE, Lease::CACHE | Lease::BUFFER)], ..Reclaim::default() });
    for _ in 0..3 {
        let (ticket, _) = world.pending_loads.pop_front().expect("the inode is to be read");
        world.input(Input::LoadFailed { ticket });
        world.tick();
    }
    world.loads = true;
    world.pump();
    world.clients[b].closed = true;
    world.wait_alive(5000);
    assert_eq!(size(world.call(a, write_inline(ino, 1, 0, b"x"))), 1);
}
