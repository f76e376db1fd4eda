//! Handshake, identity, eviction.

use loligo_types::msg::{Hello, PROTOCOL_VERSION, Refusal, ToClient, ToServer};
use loligo_types::{FsError, Ino, Op};

use super::*;
use crate::{Config, ConnId, Input, Peer};

fn refusal(world: &mut World, hello: Hello, peer: Peer) -> Option<Refusal> {
    let at = world.client();
    let conn = world.clients[at].conn.0;
    world.input(Input::Disconnected { conn });
    let conn = ConnId(1000 + at as u64);
    world.clients[at].conn = ConnId2(conn);
    world.input(Input::Connected { conn, peer });
    world.input(Input::Message { conn, msg: ToServer::Hello(hello) });
    match world.clients[at].inbox.pop_front() {
        Some(ToClient::Refused { why, .. }) => {
            assert!(world.clients[at].closed);
            Some(why)
        }
        _ => None,
    }
}

fn root() -> Peer {
    Peer { uid: Some(0), groups: Vec::new(), trusted: true, local: false, identity: None }
}

#[test]
fn a_handshake_says_why_it_fails() {
    let mut world = World::new();
    let fine =
        Hello { versions: (1, PROTOCOL_VERSION), client: 0, resume: None, name: "x".into(), fs_id: Some([0; 16]) };
    assert_eq!(refusal(&mut world, fine.clone(), root()), None);
    let newer = Hello { versions: (PROTOCOL_VERSION + 1, PROTOCOL_VERSION + 2), ..fine.clone() };
    assert_eq!(refusal(&mut world, newer, root()), Some(Refusal::Version));
    let other = Hello { fs_id: Some([1; 16]), ..fine.clone() };
    assert_eq!(refusal(&mut world, other, root()), Some(Refusal::OtherFileSystem));
    let unknown = Peer { uid: None, groups: Vec::new(), trusted: false, local: false, identity: None };
    assert_eq!(refusal(&mut world, fine.clone(), unknown), Some(Refusal::NotAuthorized));
    let guess = Hello { resume: Some((world.session(0), 1)), ..fine };
    assert_eq!(refusal(&mut world, guess, root()), Some(Refusal::NotAuthorized));
}

#[test]
fn a_user_cannot_act_as_another() {
    let mut world = World::new();
    let peer = Peer { uid: Some(1000), groups: vec![1000], trusted: false, local: false, identity: None };
    let a = world.client_as(1000, peer);
    assert!(world.call(a, Op::GetAttr { ino: Ino::ROOT }).is_ok());
    world.clients[a].uid = 0;
    assert_eq!(world.call(a, Op::GetAttr { ino: Ino::ROOT }), Err(FsError::NotAuthorized));
}

#[test]
fn the_newer_connection_of_a_session_wins() {
    let mut world = World::new();
    let a = world.client();
    let welcome = world.clients[a].welcome.clone();
    let old = world.clients[a].conn.0;
    world.resume(a);
    assert!(world.clients[a].welcome.as_ref().is_some_and(|w| w.resumed && w.kept));
    assert_eq!(world.clients[a].welcome.as_ref().map(|w| w.session), welcome.map(|w| w.session));
    // What still comes on the old one is not heard.
    world.input(Input::Message { conn: old, msg: ToServer::Goodbye { gone: false } });
    assert!(world.call(a, Op::GetAttr { ino: Ino::ROOT }).is_ok());
}

/// Two clients, of which the second one knows the attributes of a directory and does not give them back.
fn disobeyed() -> (World, usize, usize, Ino) {
    disobeyed_with(config())
}

fn disobeyed_with(config: Config) -> (World, usize, usize, Ino) {
    let mut world = World::with(config);
    let (a, b) = (world.client(), world.client());
    let dir = world.mkdir(a, Ino::ROOT, "d").ino;
    world.call(b, Op::GetAttr { ino: dir }).expect("it is there");
    world.clients[b].obeys = false;
    (world, a, b, dir)
}

#[test]
fn a_silent_session_is_evicted_and_blocks_nobody() {
    let (mut world, a, b, dir) = disobeyed();
    world.create(b, dir, "f", WRITE, 1);
    let dead = world.session(b);
    world.clients[b].closed = true;
    let seq = world.send(a, chmod(dir, 0o700));
    assert_eq!(world.reply(a, seq), None);
    world.wait_alive(2000);
    assert!(world.reply(a, seq).is_some_and(|(result, _)| result.is_ok()));
    assert_eq!(world.fenced, [dead]);
    assert!(world.clients[b].inbox.iter().any(|msg| matches!(msg, ToClient::Evicted)));
    assert_eq!(world.mds.status().sessions.len(), 1);
    assert_eq!(world.mds.status().evicted, 1);
}

/// Pings, and how many answers to all pings so far there are by then.
fn ping(world: &mut World, at: usize) -> usize {
    world.message(at, ToServer::Ping);
    world.clients[at].inbox.iter().filter(|msg| matches!(msg, ToClient::Pong { .. })).count()
}

/// The same where a recall is overdue soon.
fn disobeyed_soon() -> (World, usize, usize, Ino) {
    disobeyed_with(Config { recall_ms: 100, ..config() })
}

/// The client may not hear what it is asked for, nor that it is evicted: only its own clock is sure to end what it relies on.
#[test]
fn who_does_not_obey_is_not_told_that_he_is_heard_and_evicted_when_he_cannot_rely_on_that() {
    for breaks in [false, true] {
        let (mut world, a, b, dir) = disobeyed_soon();
        let lives = u64::from(config().session_ms);
        world.wait_alive(lives);
        let assured = ping(&mut world, b);
        let seq = world.send(a, chmod(dir, 0o700));
        world.wait(50);
        assert_eq!(ping(&mut world, b), assured + 1, "there is time yet");
        world.wait(150);
        if breaks {
            world.disconnect(b);
        }
        let waits = (0..2 * lives).step_by(50).find(|_| {
            world.wait(50);
            ping(&mut world, a);
            if !breaks {
                ping(&mut world, b);
            }
            world.reply(a, seq).is_some()
        });
        let waits = 200 + waits.expect("it is answered in the end");
        assert!((lives..lives + 300).contains(&waits), "{waits} ms");
        assert_eq!(world.fenced.len(), 1);
        if !breaks {
            assert_eq!(
                world.clients[b].inbox.iter().filter(|msg| matches!(msg, ToClient::Pong { .. })).count(),
                assured + 1
            );
            assert!(world.clients[b].inbox.iter().any(|msg| matches!(msg, ToClient::Evicted)));
        }
    }
}

#[test]
fn who_obeys_late_is_told_that_he_was_heard_all_the_time() {
    let (mut world, a, b, dir) = disobeyed_soon();
    let seq = world.send(a, chmod(dir, 0o700));
    world.wait(200);
    for _ in 0..3 {
        assert_eq!(ping(&mut world, b), 0);
    }
    world.clients[b].obeys = true;
    world.pump();
    // As many as there were pings, or those that come later would be taken for the answers to earlier ones.
    assert_eq!(ping(&mut world, b), 4);
    assert!(world.reply(a, seq).is_some_and(|(result, _)| result.is_ok()));
    world.wait_alive(2000);
    assert_eq!((world.fenced.len(), ping(&mut world, b)), (0, 25));
}

#[test]
fn who_comes_back_hears_of_overdue_recalls_but_not_for_ever() {
    let lives = u64::from(config().session_ms);
    for obeys in [true, false] {
        let (mut world, a, b, dir) = disobeyed_soon();
        world.disconnect(b);
        let seq = world.send(a, chmod(dir, 0o700));
        world.wait(400);
        // What was asked while he was away is asked again, and he has time for it.
        world.resume(b);
        assert_eq!((world.clients[b].closed, world.clients[b].recalls.len()), (false, 1));
        world.clients[b].obeys = obeys;
        world.pump();
        assert_eq!(world.reply(a, seq).is_some(), obeys);
        if obeys {
            world.wait_alive(2 * lives);
            assert_eq!(world.fenced.len(), 0);
            continue;
        }
        let welcome = world.clients[b].welcome.clone();
        let mut refused = 0;
        let ends = (0..3 * lives).step_by(100).find(|_| {
            world.wait(100);
            ping(&mut world, a);
            world.clients[b].welcome = welcome.clone();
            if world.fenced.is_empty() {
                world.reconnect(b);
                refused += usize::from(world.clients[b].closed);
            }
            world.reply(a, seq).is_some()
        });
        // The last welcome is given up to `lives` after the recall was overdue.
        assert!(ends.is_some_and(|ends| ends > lives), "{ends:?}");
        assert!(refused > 5, "{refused}");
        world.clients[b].welcome = welcome;
        world.resume(b);
        assert!(world.clients[b].welcome.as_ref().is_some_and(|w| !w.resumed), "he begins anew");
    }
}

#[test]
fn an_eviction_is_told_when_it_is_durable() {
    let (mut world, a, b, dir) = disobeyed();
    world.clients[b].closed = true;
    world.syncs = false;
    world.send(a, chmod(dir, 0o700));
    world.wait_alive(2000);
    assert_eq!(world.mds.status().evicted, 1);
    // After a crash the session is still there: who had been told would have begun anew.
    let told = |world: &World| world.clients[b].inbox.iter().any(|msg| matches!(msg, ToClient::Evicted));
    assert!(!told(&world));
    world.syncs = true;
    world.pump();
    assert!(told(&world));
}

#[test]
fn a_session_that_lives_but_does_not_obey_is_evicted() {
    let (mut world, a, _, dir) = disobeyed();
    let seq = world.send(a, chmod(dir, 0o700));
    world.wait_alive(3000);
    assert!(world.reply(a, seq).is_some());
    assert_eq!(world.fenced.len(), 1);
}

/// The process is stopped for so long, and goes on; what clients say meanwhile is read after the first tick.
fn stop_for(world: &mut World, ms: u64) {
    world.wait(50);
    world.now.mono_ms += ms;
    world.wait(50);
}

#[test]
fn nobody_was_silent_while_the_server_was_stopped() {
    let (mut world, a, b, dir) = disobeyed();
    let seq = world.send(a, chmod(dir, 0o700));
    stop_for(&mut world, 1_000_000);
    assert_eq!((world.mds.status().evicted, world.reply(a, seq)), (0, None));
    world.clients[b].obeys = true;
    world.pump();
    assert!(world.reply(a, seq).is_some_and(|(result, _)| result.is_ok()));
    // Who says nothing after that is silent.
    world.wait(3000);
    assert_eq!(world.mds.status().evicted, 2);
}

#[test]
fn clients_can_come_back_after_a_restart_when_the_server_was_stopped_meanwhile() {
    for uid in [Some(0), None] {
        let mut world = World::new();
        let a = world.client_as(0, Peer { uid, groups: Vec::new(), trusted: true, local: false, identity: None });
        let session = world.session(a);
        world.crash();
        stop_for(&mut world, 1_000_000);
        assert_eq!(world.mds.status().grace.map(|grace| grace.missing), Some(1));
        world.resume(a);
        assert_eq!((world.session(a), world.mds.status().evicted), (session, 0));
    }
}

#[test]
fn a_broken_connection_keeps_everything_for_a_while() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let file = world.create(b, Ino::ROOT, "f", WRITE, 1).ino;
    world.disconnect(b);
    let seq = world.send(a, Op::Open { ino: file, flags: READ, handle: 1 });
    assert_eq!(world.reply(a, seq), None);
    world.clients[b].obeys = false;
    world.resume(b);
    // The recall that was lost with the connection comes again.
    assert_eq!(world.clients[b].recalls.len(), 1);
    assert_eq!(size(world.call(b, write_inline(file, 1, 0, b"kept"))), 4);
    world.clients[b].obeys = true;
    world.pump();
    let Some((Ok(loligo_types::Answer::Opened { attr, .. }), _)) = world.reply(a, seq) else { panic!("not opened") };
    assert_eq!(attr.size, 4);
}

#[test]
fn a_local_session_ends_with_its_connection() {
    let mut world = World::new();
    let a = world.client_as(0, Peer { uid: Some(0), groups: Vec::new(), trusted: true, local: true, identity: None });
    world.disconnect(a);
    assert!(world.mds.status().sessions.is_empty());
}

#[test]
fn goodbye_frees_everything() {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let file = world.create(a, Ino::ROOT, "f", WRITE, 1).ino;
    world.call(a, unlink(Ino::ROOT, "f")).expect("it is there");
    world.message(a, ToServer::Goodbye { gone: false });
    assert_eq!(world.call(b, Op::GetAttr { ino: file }), Err(FsError::Stale));
    world.wait_alive(100);
    let status = world.mds.status();
    assert_eq!((status.sessions.len(), status.orphans, status.leases), (1, 0, 0));
}

#[test]
fn a_session_number_is_never_used_twice() {
    let mut world = World::new();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let a = world.client();
        seen.push(world.session(a));
        world.message(a, ToServer::Goodbye { gone: false });
        world.crash();
    }
    seen.dedup();
    assert_eq!(seen.len(), 3);
}

#[test]
fn nothing_but_hello_is_heard_on_a_new_connection() {
    let mut world = World::new();
    let a = world.client();
    world.message(a, ToServer::Goodbye { gone: false });
    world.input(Input::Connected { conn: world.clients[a].conn.0, peer: root() });
    world.clients[a].closed = false;
    world.message(a, ToServer::Ping);
    assert!(world.clients[a].closed);
}

#[test]
fn a_session_is_gone_on_with_by_nobody_but_the_client_that_began_it() {
    let mut world = World::with(config());
    let (a, b) = (world.client_of_many(0xa11ce, None), world.client_of_many(0xb0b, None));
    let welcome = world.clients[a].welcome.clone().expect("it was welcome");
    // Another client knows the key of the file system and the session's number, but not who began it.
    let own = crate::hash::session_secret(welcome.hash_key, welcome.session.0, 0xb0b);
    let none = crate::hash::session_secret(welcome.hash_key, welcome.session.0, 0);
    for (client, secret) in [(0xb0b, own), (0, none), (0xb0b, welcome.secret), (0, welcome.secret)] {
        world.clients[b].number = client;
        world.clients[b].welcome = Some(loligo_types::msg::Welcome { secret, ..welcome.clone() });
        world.resume(b);
        assert!(world.clients[b].welcome.is_none(), "client {client:x} has the session of another one");
    }
    world.reconnect(a);
    let again = world.clients[a].welcome.clone().expect("it is welcome again");
    assert_eq!((again.session, again.secret, again.kept), (welcome.session, welcome.secret, true));
}
