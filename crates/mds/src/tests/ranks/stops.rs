//! Ranks that are stopped in order while something is under way between them.

use loligo_types::{Answer, Op};

use super::*;
use crate::Input;

fn stop(cluster: &mut Cluster, at: usize) {
    cluster.at(at, |world| world.input(Input::Stop));
    for _ in 0..20 {
        if cluster.world(at).stopped {
            break;
        }
        cluster.wait(50);
    }
    assert!(cluster.world(at).stopped, "rank {at}: {:?}", cluster.world(at).mds.under_way());
    cluster.kill(at);
}

fn start(cluster: &mut Cluster, client: usize, at: usize) {
    cluster.held.clear();
    cluster.start(at);
    cluster.come_back(client, at, Default::default());
    cluster.wait(200);
}

#[test]
fn a_request_that_needs_a_rank_that_is_stopping_waits_for_its_next_life() {
    let (mut cluster, a, here, there) = two_ranks();
    let file = cluster.touch(a, here, "f");
    cluster.at(1, |world| {
        world.syncs = false;
        world.send(a, mkdir(there, "not durable"));
        world.input(Input::Stop);
    });
    let seq = cluster.send(a, 0, rename(here, "f", there, "g"));
    assert_eq!(cluster.outcome(a, 0, seq), None, "no error: it may be done in a moment");
    cluster.at(1, |world| world.syncs = true);
    stop(&mut cluster, 1);
    assert_eq!(cluster.outcome(a, 0, seq), None);
    start(&mut cluster, a, 1);
    assert_eq!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(Answer::Done))));
    assert_eq!(cluster.lookup(a, there, "g"), Ok(file));
    cluster.finish();
}

#[test]
fn a_rank_that_has_stopped_takes_nothing_more_while_it_lives() {
    let (mut cluster, a, here, _) = two_ranks();
    cluster.touch(a, here, "f");
    cluster.at(0, |world| world.input(Input::Stop));
    cluster.wait_for("the stop of a rank", |cluster| cluster.world(0).stopped);
    // The other one has not stopped, and both are there. Data goes over the same connection.
    assert!(cluster.world(0).clients[a].closed);
    let seq = cluster.send(a, 0, mkdir(here, "late"));
    cluster.wait(500);
    assert_eq!(cluster.outcome(a, 0, seq), None, "its next life would not know of it");
    cluster.kill(0);
    start(&mut cluster, a, 0);
    assert_eq!(cluster.lookup(a, here, "late"), Err(loligo_types::FsError::NotFound));
    cluster.finish();
}

#[test]
fn a_rank_that_stops_gives_back_what_it_borrowed() {
    let (mut cluster, a, here, there) = two_ranks();
    let file = cluster.touch(a, there, "f");
    cluster.held.insert((1, 0));
    let seq = cluster.send(a, 0, Op::Link { ino: file, dir: here, name: name("g") });
    assert!(cluster.world(1).mds.under_way().iter().any(|line| line.contains("is lent")));
    stop(&mut cluster, 0);
    assert_eq!(cluster.world(1).mds.under_way(), Vec::<String>::new());
    let read = cluster.send(a, 1, Op::GetAttr { ino: file });
    assert!(matches!(cluster.outcome(a, 1, read), Some(Outcome::Answered(Ok(_)))), "nobody waits for its next life");
    start(&mut cluster, a, 0);
    // The client sends it again.
    let op = Op::Link { ino: file, dir: here, name: name("g") };
    cluster.at(0, |world| world.send_again(a, seq, op));
    cluster.wait(100);
    assert!(matches!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(Answer::Entry(attr)))) if attr.nlink == 2));
    cluster.finish();
}

#[test]
fn letters_of_a_rank_that_was_stopped_are_sent_by_its_next_life() {
    let (mut cluster, a, here, there) = two_ranks();
    let file = cluster.touch(a, here, "f");
    let sub = cluster.mkdir(a, here, "sub");
    let inner = cluster.touch(a, sub, "inner");
    cluster.held.insert((1, 0));
    let seq = cluster.send(a, 0, rename(here, "f", there, "g"));
    while cluster.outcome(a, 0, seq).is_none() {
        cluster.deliver(1, 0);
    }
    cluster.release();
    cluster.ask(a, 0, Op::Open { ino: inner, flags: WRITE, handle: 1 });
    cluster.at(0, |world| world.quiesces = false);
    let id = cluster.begin_move(sub, 0, 1);
    cluster.wait_for("data operations to be ended", |cluster| !cluster.world(0).pending_quiesces.is_empty());
    cluster.hold(0, 1);
    cluster.at(0, |world| world.quiesces = true);
    assert_eq!(cluster.state(0, id), "moving");
    stop(&mut cluster, 0);
    start(&mut cluster, a, 0);
    assert_eq!(cluster.lookup(a, there, "g"), Ok(file));
    cluster.wait(500);
    assert!(!cluster.has(0, inner));
    let (answer, asked) = cluster.call_by(a, 1, &Op::GetAttr { ino: inner });
    assert_eq!((answer.is_ok(), asked), (true, vec![1]));
    cluster.finish();
}

#[test]
fn a_migration_that_was_not_decided_when_its_rank_stops_has_never_been() {
    let (mut cluster, a, here, _) = two_ranks();
    let file = cluster.touch(a, here, "f");
    cluster.ask(a, 0, Op::Open { ino: file, flags: WRITE, handle: 1 });
    cluster.at(0, |world| world.quiesces = false);
    cluster.begin_move(here, 0, 1);
    cluster.wait_for("data operations to be ended", |cluster| !cluster.world(0).pending_quiesces.is_empty());
    stop(&mut cluster, 0);
    start(&mut cluster, a, 0);
    assert_eq!(cluster.call_by(a, 0, &Op::GetAttr { ino: file }).1, [0]);
    cluster.finish();
}

#[test]
fn a_pin_that_was_not_followed_before_a_stop_is_followed_when_the_directory_is_used_again() {
    let (mut cluster, a, here, _) = two_ranks();
    stop(&mut cluster, 1);
    let mode = loligo_types::XattrMode::Set;
    let pin = Op::SetXattr { ino: here, name: (*b"loligo.policy.pin").into(), value: b"1"[..].into(), mode };
    let seq = cluster.send(a, 0, pin);
    assert!(matches!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(_)))));
    stop(&mut cluster, 0);
    start(&mut cluster, a, 0);
    start(&mut cluster, a, 1);
    // Nothing of the directory is in memory, and its journal is trimmed.
    cluster.wait(3000);
    assert!(!cluster.has(1, here));
    cluster.touch(a, here, "f");
    cluster.wait_for("the pin to be followed", |cluster| cluster.has(1, here));
    cluster.finish();
}
