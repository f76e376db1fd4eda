//! Holdings of clients when a directory moves: they are theirs at the new rank, and what they had asked for is
//! answered.

use loligo_namespace::Need;
use loligo_types::msg::{Reclaim, ToClient, ToServer};
use loligo_types::{Answer, Control, FileLock, FsError, Ino, Lease, LockKind, LockOwner, Op, RankState};

use super::*;
use crate::tests::size;
use crate::{Config, DataAccess};

fn lock(owner: u64) -> FileLock {
    FileLock { kind: LockKind::Posix, owner: LockOwner(owner), pid: 7, exclusive: true, start: 0, end: 9 }
}

fn mknod(dir: Ino, text: &str) -> Op {
    let kind = loligo_types::Kind::File;
    Op::Mknod { dir, name: name(text), kind, mode: 0o644, umask: 0, rdev: 0 }
}

fn set_lock(ino: Ino, wait: bool) -> Op {
    Op::Control(Control::SetLock { ino, handle: 1, lock: lock(1), wait })
}

fn recalled(cluster: &Cluster, at: usize, client: usize, ino: Ino) -> Lease {
    let recalls = &cluster.world(at).clients[client].recalls;
    recalls.iter().filter(|(of, ..)| *of == ino).fold(Lease::NONE, |all, (_, _, bits)| all | *bits)
}

/// Opens a file that rank 0 has, as handle 1.
fn open(cluster: &mut Cluster, client: usize, at: usize, ino: Ino) -> Lease {
    match cluster.ask(client, at, Op::Open { ino, flags: WRITE, handle: 1 }) {
        Outcome::Answered(Ok(Answer::Opened { rights, .. })) => rights,
        other => panic!("open {ino}: {other:?}"),
    }
}

#[test]
fn what_a_dead_session_left_of_a_file_is_dropped_also_if_nothing_of_it_is_in_memory() {
    let (mut cluster, a, _, there) = two_ranks();
    let sub = cluster.mkdir(a, there, "sub");
    let outcome = cluster.ask(a, 1, create(sub, "f", WRITE, 1));
    let Outcome::Answered(Ok(Answer::Opened { attr, .. })) = outcome else { panic!("{outcome:?}") };
    cluster.wait(8000);
    cluster.at(1, |world| world.mds.core.tree.evict_some(0, 10_000, &|_| false));
    assert!(!cluster.has(1, attr.ino) && !cluster.has(1, sub));
    cluster.at(1, |world| {
        let slot = world.mds.sessions.find(world.session(a)).expect("it has a session");
        world.mds.evict_session(slot);
        assert_eq!(world.mds.status().discards, 1, "the file is to be looked at");
    });
    cluster.wait(500);
    assert_eq!(cluster.world(1).mds.status().discards, 0);
    cluster.connect(a, 1);
    cluster.finish();
}

#[test]
fn what_moves_is_held_by_the_session_through_which_its_client_speaks() {
    let (mut cluster, a, here, _) = two_ranks();
    let file = cluster.touch(a, here, "f");
    open(&mut cluster, a, 0, file);
    let first = cluster.world(1).session(a);
    // Its client has forgotten the first one, and begins another.
    cluster.at(1, |world| world.message(a, ToServer::Ping));
    cluster.connect(a, 1);
    assert_ne!(cluster.world(1).session(a), first);
    cluster.migrate(here, 0, 1);
    assert_eq!(cluster.world(1).access.get(&(cluster.world(1).session(a), file)), Some(&DataAccess::Write));
    assert_eq!(cluster.world(1).access.get(&(first, file)), None);
    cluster.ask(a, 1, close(1));
    cluster.finish();
}

#[test]
fn what_moves_is_not_held_by_a_session_that_began_when_its_client_took_the_rank_for_another_one() {
    let (mut cluster, a, here, there) = two_ranks();
    let file = cluster.touch(a, here, "f");
    open(&mut cluster, a, 0, file);
    cluster.ask(a, 1, Op::GetAttr { ino: there });
    let [other, own] = [0, 1].map(|at| cluster.world(at).clients[a].welcome.clone());
    cluster.at(1, |world| {
        world.disconnect(a);
        world.clients[a].welcome = other;
        world.resume(a);
        assert_ne!(world.clients[a].welcome.as_ref().map(|w| w.session), own.as_ref().map(|w| w.session));
        world.disconnect(a);
    });
    cluster.migrate(here, 0, 1);
    cluster.at(1, |world| {
        world.clients[a].welcome = own;
        world.resume(a);
    });
    assert_eq!(written_size(&cluster.ask(a, 1, write_inline(file, 1, 0, b"x"))), 1);
    cluster.ask(a, 1, close(1));
    cluster.finish();
}

#[test]
fn a_client_that_did_not_hear_its_welcome_comes_back_to_the_session_with_what_has_moved() {
    for (begun_by_move, restarts) in [(false, false), (true, false), (true, true)] {
        let case = format!("begun by the move: {begun_by_move}, restarts: {restarts}");
        let mut cluster = Cluster::new(2);
        let (walker, a) = (cluster.client(), cluster.client_at(0));
        let here = cluster.mkdir(walker, Ino::ROOT, "d");
        let Outcome::Answered(Ok(Answer::Opened { attr, .. })) = cluster.ask(a, 0, create(here, "f", WRITE, 1)) else {
            panic!("it is made");
        };
        let welcomes = |cluster: &mut Cluster| {
            let hello = |cluster: &mut Cluster| {
                cluster.connect(a, 1);
                cluster.world(1).clients[a].welcome.clone().expect("a welcome")
            };
            let both = [hello(cluster), hello(cluster)];
            assert_eq!(both[0].session, both[1].session, "{case}");
            both.map(|welcome| (welcome.resumed, welcome.kept))
        };
        if !begun_by_move {
            assert_eq!(welcomes(&mut cluster), [(false, false); 2], "nothing has moved");
        }
        cluster.migrate(here, 0, 1);
        if restarts {
            cluster.kill(1);
            cluster.start(1);
        }
        if begun_by_move {
            assert_eq!(welcomes(&mut cluster), [(true, !restarts); 2], "{case}");
        } else {
            // What came before is not told apart from what has come since: the client asks.
            assert_eq!(welcomes(&mut cluster), [(false, false); 2]);
        }
        if restarts {
            let held = Reclaim { opens: vec![(1, attr.ino, WRITE, Lease::NONE)], ..Reclaim::default() };
            cluster.at(1, |world| world.reclaim(a, held));
            cluster.come_back(walker, 1, Reclaim::default());
        }
        let lock = FileLock { kind: LockKind::Posix, owner: LockOwner(0), pid: 0, exclusive: false, start: 0, end: 0 };
        let known = cluster.ask(a, 1, Op::Control(Control::GetLock { ino: attr.ino, handle: 1, lock }));
        assert_eq!(known, Outcome::Answered(Ok(Answer::Lock(None))), "{case}");
        cluster.ask(a, 1, close(1));
        cluster.finish();
    }
}

#[test]
fn an_open_file_and_its_rights_are_the_clients_at_the_new_rank() {
    let (mut cluster, a, here, _) = two_ranks();
    let b = cluster.client();
    let file = cluster.touch(a, here, "f");
    assert_eq!(open(&mut cluster, a, 0, file), Lease::CACHE | Lease::BUFFER);
    cluster.migrate(here, 0, 1);
    let sessions: Vec<_> = (0..2).map(|at| cluster.world(at).session(a)).collect();
    assert_eq!(cluster.world(0).access.get(&(sessions[0], file)), Some(&DataAccess::Moved));
    assert_eq!(cluster.world(1).access.get(&(sessions[1], file)), Some(&DataAccess::Write));
    let told =
        |msg: &ToClient| matches!(msg, ToClient::Routes { routes, .. } if routes.iter().any(|route| route.dir == here));
    assert!(cluster.world(0).clients[a].inbox.iter().any(told), "who holds something is told");
    assert!(!cluster.world(0).clients[b].inbox.iter().any(told), "nobody else");
    // Another client's open asks the rights back.
    cluster.at(1, |world| world.clients[a].obeys = false);
    let op = Op::Open { ino: file, flags: WRITE, handle: 1 };
    let seq = cluster.send(b, 1, op);
    assert_eq!(cluster.outcome(b, 1, seq), None);
    assert!(recalled(&cluster, 1, a, file).has(Lease::CACHE | Lease::BUFFER));
    let written = cluster.ask(a, 1, write_inline(file, 1, 0, b"held back"));
    assert_eq!(written_size(&written), 9);
    cluster.at(1, |world| world.clients[a].obeys = true);
    let Some(Outcome::Answered(Ok(Answer::Opened { attr, .. }))) = cluster.outcome(b, 1, seq) else { panic!("opened") };
    assert_eq!(attr.size, 9);
    cluster.ask(a, 1, close(1));
    cluster.ask(b, 1, close(1));
    for at in 0..2 {
        let sessions = cluster.world(at).mds.status().sessions;
        assert!(sessions.iter().all(|session| session.opens == 0), "rank {at}");
    }
    cluster.finish();
}

fn written_size(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Answered(answer) => size(answer.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn leases_are_the_clients_at_the_new_rank_and_asked_back_there() {
    let (mut cluster, a, here, _) = two_ranks();
    let b = cluster.client();
    let file = cluster.touch(a, here, "f");
    cluster.ask(a, 0, Op::GetAttr { ino: file });
    cluster.ask(a, 0, Op::Lookup { dir: here, name: name("f") });
    let op = Op::Readdir { dir: here, cookie: 0, limit: 10, plus: true, handle: None };
    cluster.ask(a, 0, op);
    cluster.migrate(here, 0, 1);
    cluster.at(1, |world| world.clients[a].obeys = false);
    let changed = cluster.send(b, 1, chmod(file, 0o600));
    assert!(recalled(&cluster, 1, a, file).has(Lease::ATTR));
    let made = cluster.send(b, 1, mkdir(here, "d"));
    assert!(recalled(&cluster, 1, a, here).has(Lease::NAMES));
    assert_eq!((cluster.outcome(b, 1, changed), cluster.outcome(b, 1, made)), (None, None));
    cluster.at(1, |world| world.clients[a].obeys = true);
    assert!(matches!(cluster.outcome(b, 1, changed), Some(Outcome::Answered(Ok(_)))));
    assert!(matches!(cluster.outcome(b, 1, made), Some(Outcome::Answered(Ok(_)))));
    assert!(cluster.world(0).clients[a].recalls.is_empty());
    cluster.finish();
}

#[test]
fn a_file_lock_is_the_clients_at_the_new_rank_and_who_waits_for_it_waits_on_there() {
    let (mut cluster, a, here, _) = two_ranks();
    let b = cluster.client();
    let file = cluster.touch(a, here, "f");
    open(&mut cluster, a, 0, file);
    open(&mut cluster, b, 0, file);
    assert_eq!(cluster.ask(a, 0, set_lock(file, false)), Outcome::Answered(Ok(Answer::Done)));
    let waits = cluster.send(b, 0, set_lock(file, true));
    assert_eq!(cluster.outcome(b, 0, waits), None);
    cluster.migrate(here, 0, 1);
    let Some(Outcome::Redirected { rank: to, done: None, .. }) = cluster.outcome(b, 0, waits) else {
        panic!("it is sent on")
    };
    assert_eq!(to, 1);
    let waits = cluster.send(b, 1, set_lock(file, true));
    assert_eq!(cluster.outcome(b, 1, waits), None);
    let op = Op::Control(Control::GetLock { ino: file, handle: 1, lock: lock(1) });
    let Outcome::Answered(Ok(Answer::Lock(Some(found)))) = cluster.ask(b, 1, op) else { panic!("it is locked") };
    assert_eq!(found.pid, 7);
    assert_eq!(cluster.ask(b, 1, set_lock(file, false)), Outcome::Answered(Err(FsError::WouldBlock)));
    let op = Op::Control(Control::Unlock { ino: file, handle: 1, lock: lock(1) });
    assert_eq!(cluster.ask(a, 1, op), Outcome::Answered(Ok(Answer::Done)));
    assert_eq!(cluster.outcome(b, 1, waits), Some(Outcome::Answered(Ok(Answer::Done))));
    cluster.ask(a, 1, close(1));
    cluster.ask(b, 1, close(1));
    cluster.finish();
}

#[test]
fn a_file_that_has_no_name_any_more_and_is_open_stays_where_it_is_when_its_directory_moves() {
    let (mut cluster, a, here, _) = two_ranks();
    let file = cluster.touch(a, here, "f");
    open(&mut cluster, a, 0, file);
    cluster.call(a, unlink(here, "f")).expect("it is there");
    cluster.migrate(here, 0, 1);
    assert_eq!(written_size(&cluster.ask(a, 0, write_inline(file, 1, 0, b"still"))), 5);
    cluster.ask(a, 0, close(1));
    cluster.wait(100);
    assert_eq!(cluster.world(0).mds.status().orphans, 0);
    cluster.finish();
}

#[test]
fn a_request_that_is_sent_again_after_what_it_concerns_has_moved_is_not_executed_twice() {
    let (mut cluster, a, here, _) = two_ranks();
    let gone = cluster.touch(a, here, "gone");
    let file = cluster.touch(a, here, "f");
    let ops = [
        mkdir(here, "d"),
        create(here, "new", WRITE, 5),
        Op::Link { ino: file, dir: here, name: name("link") },
        rename(here, "f", here, "g"),
        unlink(here, "gone"),
    ];
    // Nothing of the answers comes.
    let seqs: Vec<_> = ops.iter().map(|op| cluster.send(a, 0, op.clone())).collect();
    let dir = cluster.lookup(a, here, "d").expect("it was made");
    let new = cluster.lookup(a, here, "new").expect("it was made");
    cluster.at(0, |world| world.disconnect(a));
    cluster.migrate(here, 0, 1);
    cluster.at(0, |world| {
        world.clients[a].inbox.clear();
        world.resume(a);
    });
    let before = cluster.walk(a);
    let mut told = Vec::new();
    for (op, seq) in ops.iter().zip(&seqs) {
        cluster.at(0, |world| world.send_again(a, *seq, op.clone()));
        cluster.wait(100);
        let outcome = cluster.outcome(a, 0, *seq).expect("it is answered");
        told.push(match outcome {
            Outcome::Redirected { rank: 1, done: Some((ino, _)), .. } => Some(ino),
            Outcome::Answered(Ok(Answer::Done)) => None,
            other => panic!("{op:?}: {other:?}"),
        });
    }
    assert_eq!(told[..3], [Some(dir), Some(new), Some(file)]);
    assert_eq!(told[3..], [None, None], "there is nothing to tell of these");
    assert_eq!(cluster.walk(a), before);
    assert!(cluster.attr(a, gone).is_err());
    // The handle that was opened is there.
    assert_eq!(written_size(&cluster.ask(a, 1, write_inline(new, 5, 0, b"x"))), 1);
    cluster.ask(a, 1, close(5));
    cluster.finish();
}

#[test]
fn requests_that_come_while_a_directory_moves_wait_and_are_sent_on() {
    let (mut cluster, a, here, _) = two_ranks();
    let file = cluster.touch(a, here, "f");
    let other = cluster.mkdir(a, Ino::ROOT, "other");
    open(&mut cluster, a, 0, file);
    cluster.at(0, |world| world.quiesces = false);
    cluster.begin_move(here, 0, 1);
    cluster.wait_for("data operations to be ended", |cluster| !cluster.world(0).pending_quiesces.is_empty());
    let session = cluster.world(0).session(a);
    assert_eq!(cluster.world(0).access.get(&(session, file)), Some(&DataAccess::Moving));
    let waits = [chmod(file, 0o600), mkdir(here, "d"), Op::GetAttr { ino: file }].map(|op| cluster.send(a, 0, op));
    let goes_on = cluster.send(a, 0, mkdir(other, "d"));
    assert!(matches!(cluster.outcome(a, 0, goes_on), Some(Outcome::Answered(Ok(_)))), "others do not wait");
    waits.iter().for_each(|seq| assert_eq!(cluster.outcome(a, 0, *seq), None));
    cluster.at(0, |world| world.quiesces = true);
    cluster.wait(100);
    for seq in waits {
        let outcome = cluster.outcome(a, 0, seq);
        assert!(matches!(outcome, Some(Outcome::Redirected { rank: 1, done: None, .. })), "{outcome:?}");
    }
    cluster.ask(a, 1, close(1));
    cluster.finish();
}

#[test]
fn a_client_that_was_never_at_the_new_rank_finds_what_it_held_there() {
    let (mut cluster, a, here, _) = two_ranks();
    let file = cluster.touch(a, here, "f");
    // A client that has a session at rank 0 only, as yet.
    let b = cluster.client_at(0);
    open(&mut cluster, b, 0, file);
    assert_eq!(cluster.ask(b, 0, set_lock(file, false)), Outcome::Answered(Ok(Answer::Done)));
    cluster.migrate(here, 0, 1);
    cluster.connect(b, 1);
    let welcome = cluster.world(1).clients[b].welcome.clone().expect("it is welcome");
    assert!(welcome.resumed && welcome.kept, "the session came along");
    assert_eq!(written_size(&cluster.ask(b, 1, write_inline(file, 1, 0, b"x"))), 1);
    open(&mut cluster, a, 1, file);
    assert_eq!(cluster.ask(a, 1, set_lock(file, false)), Outcome::Answered(Err(FsError::WouldBlock)));
    cluster.ask(b, 1, close(1));
    assert_eq!(cluster.ask(a, 1, set_lock(file, false)), Outcome::Answered(Ok(Answer::Done)));
    cluster.ask(a, 1, close(1));
    cluster.finish();
}

#[test]
fn a_client_that_was_never_at_the_new_rank_claims_there_what_it_held_if_that_was_restarted() {
    let (mut cluster, a, here, _) = two_ranks();
    let file = cluster.touch(a, here, "f");
    let b = cluster.client_at(0);
    open(&mut cluster, b, 0, file);
    cluster.migrate(here, 0, 1);
    cluster.kill(1);
    cluster.start(1);
    cluster.come_back(a, 1, Reclaim::default());
    cluster.connect(b, 1);
    let welcome = cluster.world(1).clients[b].welcome.clone().expect("it is welcome");
    assert!(welcome.resumed && !welcome.kept, "the session came along, and nobody knows what it held");
    let opens = vec![(1, file, WRITE, Lease::NONE)];
    cluster.at(1, |world| world.reclaim(b, Reclaim { opens, ..Reclaim::default() }));
    assert_eq!(written_size(&cluster.ask(b, 1, write_inline(file, 1, 0, b"x"))), 1);
    cluster.ask(b, 1, close(1));
    cluster.finish();
}

#[test]
fn a_client_whose_session_was_ended_is_not_told_that_it_goes_on_because_something_moved_there_meanwhile() {
    let (mut cluster, a, here, _) = two_ranks();
    let file = cluster.touch(a, here, "f");
    let session = cluster.at(1, |world| {
        let session = world.session(a);
        world.disconnect(a);
        world.input(crate::Input::PeerDead { session });
        session
    });
    // It holds something that moves to where it has no session any more.
    cluster.ask(a, 0, Op::Open { ino: file, flags: WRITE, handle: 5 });
    cluster.migrate(here, 0, 1);
    cluster.at(1, |world| world.resume(a));
    let welcome = cluster.world(1).clients[a].welcome.clone().expect("it is welcome");
    assert!(!welcome.resumed, "what it had asked before may have been executed, and nobody knows");
    assert_ne!(welcome.session, session);
    // It has what moved all the same.
    assert_eq!(written_size(&cluster.ask(a, 1, write_inline(file, 5, 0, b"x"))), 1);
    cluster.ask(a, 1, close(5));
    cluster.finish();
}

/// Number of leases on an inode at a rank.
fn holders(cluster: &Cluster, at: usize, ino: Ino) -> usize {
    cluster.world(at).mds.leases.holders(ino).count()
}

/// Leases that move at once in [`with_few_leases_that_move`].
const LEASES_MAX: usize = 4096;

/// As [`two_ranks`], but that fewer leases move at once than otherwise.
fn with_few_leases_that_move() -> (Cluster, usize, Ino, Ino) {
    here_and_there(Cluster::with_settings(&[RankState::Up; 2], |config| Config {
        moved_leases_max: LEASES_MAX,
        ..config
    }))
}

#[test]
fn of_very_many_leases_most_are_asked_back_before_the_directory_moves_and_the_rest_move_with_it() {
    let (mut cluster, a, here, _) = with_few_leases_that_move();
    let many = LEASES_MAX + 700;
    let mut files = Vec::new();
    for i in 0..many {
        let Outcome::Answered(Ok(Answer::Entry(attr))) = cluster.ask(a, 0, mknod(here, &format!("f{i}"))) else {
            panic!("made")
        };
        files.push(attr.ino);
    }
    let before: usize = files.iter().map(|ino| holders(&cluster, 0, *ino)).sum();
    assert_eq!(before, many);
    cluster.migrate(here, 0, 1);
    assert_eq!(files.iter().map(|ino| holders(&cluster, 0, *ino)).sum::<usize>(), 0);
    let moved: Vec<Ino> = files.iter().copied().filter(|ino| holders(&cluster, 1, *ino) > 0).collect();
    assert!((many / 2..=LEASES_MAX).contains(&moved.len()), "{} of {many} moved", moved.len());
    // One that moved is asked back by its new rank, and nothing was forgotten of who holds it.
    let b = cluster.client();
    cluster.at(1, |world| world.clients[a].obeys = false);
    let seq = cluster.send(b, 1, chmod(moved[0], 0o600));
    assert_eq!(cluster.outcome(b, 1, seq), None);
    assert!(recalled(&cluster, 1, a, moved[0]).has(Lease::ATTR));
    cluster.at(1, |world| world.clients[a].obeys = true);
    assert!(matches!(cluster.outcome(b, 1, seq), Some(Outcome::Answered(Ok(_)))));
    cluster.finish();
}

#[test]
fn a_directory_does_not_move_while_more_is_held_on_it_than_can_move_and_not_given_back() {
    let (mut cluster, a, here, _) = with_few_leases_that_move();
    for i in 0..LEASES_MAX + 10 {
        cluster.ask(a, 0, mknod(here, &format!("f{i}")));
    }
    cluster.at(0, |world| world.clients[a].obeys = false);
    let id = cluster.begin_move(here, 0, 1);
    cluster.wait(10_000);
    assert_eq!(cluster.state(0, id), "preparing", "what was asked back may still be in use");
    cluster.wait(125_000);
    assert_eq!(cluster.state(0, id), "failed: it took too long, or the server stops: try again");
    cluster.at(0, |world| world.clients[a].obeys = true);
    cluster.migrate(here, 0, 1);
    cluster.finish();
}

#[test]
fn leases_given_while_it_is_looked_through_what_is_held_move_too() {
    let (mut cluster, a, here, _) = two_ranks();
    let b = cluster.client();
    // So many that it takes several steps; the newest are looked at first.
    let mut files = Vec::new();
    for i in 0..2000 {
        let Outcome::Answered(Ok(Answer::Entry(attr))) = cluster.ask(a, 0, mknod(here, &format!("f{i}"))) else {
            panic!("made")
        };
        files.insert(0, attr.ino);
    }
    let id = cluster.begin_move(here, 0, 1);
    let mut given = Vec::new();
    for file in &files {
        if !matches!(cluster.state(0, id).as_str(), "waiting" | "preparing") {
            break;
        }
        if let Outcome::Answered(Ok(_)) = cluster.ask(b, 0, Op::GetAttr { ino: *file }) {
            given.push(*file);
        }
        cluster.at(0, |world| world.input(crate::Input::Again));
    }
    assert!(!given.is_empty(), "it is over before anything was given");
    cluster.wait_for("the end", |cluster| cluster.state(0, id) == "done");
    for file in &files {
        assert_eq!(holders(&cluster, 0, *file), 0, "{file}");
    }
    for file in &given {
        assert!(cluster.world(1).mds.leases.holders(*file).count() > 0, "{file}");
    }
    cluster.finish();
}

#[test]
fn while_a_directory_freezes_renames_wait_only_if_they_cross_its_bounds() {
    let (mut cluster, a, here, _) = two_ranks();
    let b = cluster.client();
    let (one, other) = (cluster.mkdir(a, Ino::ROOT, "one"), cluster.mkdir(a, Ino::ROOT, "other"));
    for text in ["x", "y"] {
        cluster.touch(a, one, text);
    }
    let file = cluster.touch(a, here, "f");
    open(&mut cluster, a, 0, file);
    cluster.at(0, |world| world.quiesces = false);
    let id = cluster.begin_move(here, 0, 1);
    cluster.wait_for("freezing", |cluster| cluster.state(0, id) == "freezing");
    let free = cluster.send(b, 0, rename(one, "x", other, "x"));
    let bound = cluster.send(b, 0, rename(one, "y", here, "y"));
    assert!(matches!(cluster.outcome(b, 0, free), Some(Outcome::Answered(Ok(_)))), "nothing of it moves");
    assert_eq!(cluster.outcome(b, 0, bound), None);
    cluster.at(0, |world| world.quiesces = true);
    cluster.wait_for("the end", |cluster| cluster.state(0, id) == "done");
    cluster.wait_for("the other rename", |cluster| cluster.outcome(b, 0, bound).is_some());
    assert!(cluster.lookup(a, here, "y").is_ok() && cluster.lookup(a, other, "x").is_ok());
    cluster.ask(a, 1, close(1));
    cluster.finish();
}

#[test]
fn locks_of_an_open_file_are_taken_and_given_back_in_order_whatever_has_left_memory() {
    let (mut cluster, a, here, _) = two_ranks();
    let file = cluster.touch(a, here, "f");
    cluster.ask(a, 0, Op::Open { ino: file, flags: WRITE, handle: 5 });
    cluster.wait(4000);
    cluster.at(0, |world| {
        world.mds.core.tree.evict_some(0, 10_000, &|_| false);
        world.loads = false;
    });
    assert!(!cluster.has(0, file));
    let lock = lock(1);
    for op in [
        Op::Control(Control::SetLock { ino: file, handle: 5, lock, wait: true }),
        Op::Control(Control::Unlock { ino: file, handle: 5, lock }),
    ] {
        let seq = cluster.send(a, 0, op.clone());
        assert_eq!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(Answer::Done))), "{op:?}");
    }
    cluster.at(0, |world| world.loads = true);
    cluster.ask(a, 0, close(5));
    cluster.finish();
}

#[test]
fn what_was_written_to_files_that_are_closed_is_durable_before_they_move() {
    let (mut cluster, a, here, _) = two_ranks();
    let sub = cluster.mkdir(a, here, "sub");
    let stays = cluster.mkdir(a, Ino::ROOT, "stays");
    let write = |cluster: &mut Cluster, dir, text: &str, handle| {
        let created = cluster.call(a, create(dir, text, WRITE, handle));
        let Ok(Answer::Opened { attr, .. }) = created else { panic!("{created:?}") };
        cluster.call(a, set_data(attr.ino, handle, 0, 100_000, true)).expect("it grows");
        cluster.call(a, close(handle)).expect("it was open");
        attr.ino
    };
    let before = write(&mut cluster, sub, "before", 11);
    // What was written before is synced with everything else.
    let syncs = cluster.world(0).data_syncs.len();
    cluster.at(0, |world| world.syncs_data = false);
    let id = cluster.begin_move(here, 0, 1);
    cluster.wait(3000);
    assert_eq!(cluster.state(0, id), "preparing", "it waits for the sync");
    let meanwhile = write(&mut cluster, sub, "meanwhile", 12);
    write(&mut cluster, stays, "elsewhere", 13);
    assert_eq!(cluster.world(0).data_syncs.len(), syncs + 1);
    cluster.at(0, |world| world.syncs_data = true);
    cluster.wait_for("the end of a migration", |cluster| cluster.state(0, id) == "done");
    assert_eq!(cluster.world(0).quieted, [meanwhile], "{before} was synced before it");
    cluster.finish();
}

#[test]
fn a_directory_stays_if_what_was_written_below_it_cannot_be_made_durable() {
    let (mut cluster, a, here, _) = two_ranks();
    cluster.touch(a, here, "f");
    cluster.at(0, |world| world.syncs_data = false);
    let id = cluster.begin_move(here, 0, 1);
    cluster.wait(1000);
    let ticket = *cluster.world(0).data_syncs.last().expect("it asks for a sync");
    cluster.at(0, |world| {
        world.pending_syncs.clear();
        world.input(crate::Input::DataSynced { ticket, ok: false });
    });
    let state = cluster.state(0, id);
    assert!(state.starts_with("failed: data could not be made durable"), "{state}");
    cluster.touch(a, here, "g");
    cluster.finish();
}

/// A rename of another rank makes it look anew, which takes more than a step.
#[test]
fn what_is_open_moves_also_if_it_had_to_be_looked_for_again() {
    let mut cluster = Cluster::with_settings(&[RankState::Up; 2], |config| Config { shrink: 512, ..config });
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    let files: Vec<Ino> = (1..=8)
        .map(|n| {
            let Ok(Answer::Opened { attr, .. }) = cluster.call(a, create(dir, &format!("f{n}"), WRITE, n)) else {
                panic!("f{n}")
            };
            attr.ino
        })
        .collect();
    cluster.at(0, |world| world.quiesces = false);
    let id = cluster.begin_move(dir, 0, 1);
    cluster.wait_for("freezing", |cluster| cluster.state(0, id) == "freezing");
    cluster.at(0, |world| {
        let mds = &mut world.mds;
        mds.cluster.exports.disturb_export(&mut mds.core, &mds.sessions, &mds.opens);
    });
    cluster.at(0, |world| world.quiesces = true);
    cluster.wait_for("the end", |cluster| cluster.state(0, id) == "done");
    for (n, ino) in (1..).zip(&files) {
        let op = Op::Control(Control::GetLock { ino: *ino, handle: n, lock: lock(1) });
        let outcome = cluster.ask(a, 1, op);
        assert!(matches!(outcome, Outcome::Answered(Ok(_))), "{ino}: {outcome:?}");
    }
    cluster.call(a, Op::Control(Control::Close { handles: (1..=8).collect(), lost: false })).expect("they are open");
    cluster.finish();
}

#[test]
fn a_directory_that_is_open_moves_with_its_handle_though_it_has_left_memory_since_it_was_looked_at() {
    let (mut cluster, a, here, _) = two_ranks();
    let sub = cluster.mkdir(a, here, "sub");
    assert!(matches!(cluster.ask(a, 0, Op::Open { ino: sub, flags: READ, handle: 7 }), Outcome::Answered(Ok(_))));
    cluster.wait(4000);
    cluster.at(0, |world| world.syncs_data = false);
    let id = cluster.begin_move(here, 0, 1);
    cluster.wait(1000);
    assert_eq!(cluster.state(0, id), "preparing", "it waits for the sync");
    cluster.at(0, |world| world.mds.core.tree.evict_some(0, 10_000, &|_| false));
    assert!(!cluster.has(0, sub));
    cluster.at(0, |world| world.syncs_data = true);
    cluster.wait_for("the end of a migration", |cluster| cluster.state(0, id) == "done");
    let list = Op::Readdir { dir: sub, cookie: 0, limit: 10, plus: false, handle: Some(7) };
    let outcome = cluster.ask(a, 1, list);
    assert!(matches!(outcome, Outcome::Answered(Ok(Answer::Entries { .. }))), "{outcome:?}");
    cluster.ask(a, 1, close(7));
    cluster.finish();
}

#[test]
fn a_lease_of_a_session_that_ended_while_its_file_was_read_does_not_keep_a_migration() {
    let (mut cluster, a, here, _) =
        here_and_there(Cluster::with_settings(&[RankState::Up; 2], |config| Config { moved_leases_max: 0, ..config }));
    let b = cluster.client();
    let file = cluster.touch(a, here, "f");
    cluster.wait(4000);
    cluster.ask(b, 0, Op::GetAttr { ino: file });
    assert!(holders(&cluster, 0, file) > 0);
    cluster.at(0, |world| {
        world.mds.core.tree.evict_some(0, 10_000, &|_| false);
        world.loads = false;
    });
    let id = cluster.begin_move(here, 0, 1);
    let reads = |cluster: &Cluster| {
        let needs = cluster.world(0).pending_loads.iter().flat_map(|(_, needs)| needs);
        needs.into_iter().any(|need| *need == Need::Inode(file))
    };
    for _ in 0..1000 {
        if reads(&cluster) {
            break;
        }
        cluster.at(0, World::load_one);
        cluster.wait(20);
    }
    assert!(reads(&cluster), "whether it moves must be read");
    cluster.at(0, |world| {
        let session = world.session(b);
        world.disconnect(b);
        world.input(crate::Input::PeerDead { session });
        world.loads = true;
    });
    cluster.wait_for("the end of a migration", |cluster| cluster.state(0, id) == "done");
    cluster.connect(b, 0);
    cluster.finish();
}
