//! Transactions that meet migrations, migrations that meet each other, and names that change while messages are on their way.

use loligo_types::{Answer, FsError, Ino, Op};

use super::*;
use crate::peer::PeerMsg;

/// A file of rank 0's directory is open, so that a migration of it can be halted before its record.
fn halted() -> (Cluster, usize, Ino, Ino, Ino) {
    let (mut cluster, a, here, there) = two_ranks();
    let Ok(Answer::Opened { attr, .. }) = cluster.call(a, create(here, "f", WRITE, 1)) else { panic!("it is made") };
    cluster.at(0, |world| world.quiesces = false);
    (cluster, a, here, there, attr.ino)
}

fn begin(cluster: &mut Cluster, dir: Ino) {
    cluster.begin_move(dir, 0, 1);
    cluster.wait_for("data operations to be ended", |cluster| !cluster.world(0).pending_quiesces.is_empty());
}

fn go_on(cluster: &mut Cluster) {
    cluster.at(0, |world| world.quiesces = true);
    cluster.wait(1000);
}

#[test]
fn a_transaction_that_wants_what_is_about_to_move_is_done_where_it_has_moved() {
    let (mut cluster, a, here, there, file) = halted();
    begin(&mut cluster, here);
    let linked = cluster.send(a, 1, Op::Link { ino: file, dir: there, name: name("g") });
    assert_eq!(cluster.outcome(a, 1, linked), None);
    go_on(&mut cluster);
    let outcome = cluster.outcome(a, 1, linked);
    assert!(matches!(outcome, Some(Outcome::Answered(Ok(Answer::Entry(attr)))) if attr.nlink == 2), "{outcome:?}");
    cluster.ask(a, 1, close(1));
    cluster.finish();
}

#[test]
fn a_migration_waits_for_what_is_lent_below_it() {
    let (mut cluster, a, here, there) = two_ranks();
    let file = cluster.touch(a, here, "f");
    cluster.held.insert((0, 1));
    let linked = cluster.send(a, 1, Op::Link { ino: file, dir: there, name: name("g") });
    assert!(cluster.world(0).mds.under_way().iter().any(|line| line.contains("is lent")));
    let id = cluster.begin_move(here, 0, 1);
    cluster.wait(100);
    assert_ne!(cluster.state(0, id), "done");
    cluster.release();
    cluster.wait_for("the end", |cluster| cluster.state(0, id) == "done");
    assert!(matches!(cluster.outcome(a, 1, linked), Some(Outcome::Answered(Ok(_)))));
    assert_eq!(cluster.attr(a, file).map(|attr| attr.nlink), Ok(2));
    cluster.finish();
}

#[test]
fn a_coordinators_directory_that_moves_while_it_borrows_takes_the_request_along() {
    let (mut cluster, a, here, there, _) = halted();
    let b = cluster.client();
    cluster.touch(a, there, "g");
    // b keeps a lender waiting.
    let inner = cluster.lookup(a, there, "g").expect("it is there");
    cluster.ask(b, 1, Op::Open { ino: inner, flags: WRITE, handle: 1 });
    cluster.at(1, |world| world.clients[b].obeys = false);
    let linked = cluster.send(a, 0, Op::Link { ino: inner, dir: here, name: name("h") });
    assert_eq!(cluster.outcome(a, 0, linked), None);
    begin(&mut cluster, here);
    go_on(&mut cluster);
    cluster.at(1, |world| world.clients[b].obeys = true);
    cluster.wait(6000);
    let outcome = cluster.outcome(a, 0, linked);
    assert!(matches!(outcome, Some(Outcome::Redirected { rank: 1, done: None, .. })), "{outcome:?}");
    let op = Op::Link { ino: inner, dir: here, name: name("h") };
    assert!(matches!(cluster.ask(a, 1, op), Outcome::Answered(Ok(_))));
    cluster.ask(a, 1, close(1));
    cluster.ask(b, 1, close(1));
    cluster.finish();
}

#[test]
fn two_subtrees_change_places_at_the_same_time() {
    let (mut cluster, a, here, there) = two_ranks();
    let (f, g) = (cluster.touch(a, here, "f"), cluster.touch(a, there, "g"));
    let (out, back) = (cluster.begin_move(here, 0, 1), cluster.begin_move(there, 1, 0));
    cluster.wait_for("both", |cluster| cluster.state(0, out) == "done" && cluster.state(1, back) == "done");
    assert_eq!(cluster.call_by(a, 1, &Op::GetAttr { ino: f }).1, [1]);
    assert_eq!(cluster.call_by(a, 0, &Op::GetAttr { ino: g }).1, [0]);
    let walk = cluster.walk(a);
    cluster.crash(0);
    cluster.crash(1);
    assert_eq!(cluster.walk(a), walk);
    cluster.finish();
}

#[test]
fn migrations_of_one_rank_wait_for_each_other_and_both_are_done() {
    let (mut cluster, a, here, _) = two_ranks();
    let (x, y) = (cluster.mkdir(a, here, "x"), cluster.mkdir(a, here, "y"));
    let ids = [x, y, here].map(|dir| cluster.begin_move(dir, 0, 1));
    cluster.wait_for("all", |cluster| ids.iter().all(|id| cluster.state(0, *id) == "done"));
    // Now from below upwards, and what is not there any more.
    cluster.call(a, rmdir(here, "x")).expect("it is empty");
    let id = cluster.begin_move(y, 1, 0);
    cluster.call(a, rmdir(here, "y")).expect("it is empty");
    cluster.wait_for("the end", |cluster| cluster.state(1, id).starts_with("failed") || cluster.state(1, id) == "done");
    assert_eq!(cluster.lookup(a, here, "y"), Err(FsError::NotFound));
    assert!(cluster.attr(a, y).is_err());
    cluster.finish();
}

#[test]
fn a_directory_is_renamed_while_it_is_another_ranks_and_moves_on() {
    let (mut cluster, a, here, there) = two_ranks();
    let file = cluster.touch(a, there, "f");
    assert_eq!(cluster.call(a, rename(Ino::ROOT, "there", here, "in here")), Ok(Answer::Done));
    assert_eq!(cluster.lookup(a, here, "in here"), Ok(there));
    cluster.migrate(here, 0, 1);
    let op = Op::LookupParent { dir: there };
    assert!(matches!(cluster.ask(a, 1, op), Outcome::Answered(Ok(Answer::Entry(attr))) if attr.ino == here));
    cluster.crash(1);
    cluster.crash(0);
    cluster.migrate(there, 1, 0);
    assert_eq!(cluster.call_by(a, 0, &Op::GetAttr { ino: file }).1, [0]);
    assert_eq!(cluster.walk(a)["/here/in here/f"].0, file);
    cluster.finish();
}

#[test]
fn a_called_rank_that_called_before_another_one_answered_is_asked_again() {
    let mut cluster = Cluster::new(3);
    let (a, b) = (cluster.client(), cluster.client());
    let dirs = ["d0", "d1", "d2"].map(|text| cluster.mkdir(a, Ino::ROOT, text));
    cluster.migrate(dirs[1], 0, 1);
    cluster.migrate(dirs[2], 0, 2);
    let file = cluster.touch(a, dirs[2], "f");
    cluster.call(a, rename(dirs[2], "f", dirs[0], "f")).expect("it is there");
    cluster.ask(b, 2, Op::Open { ino: file, flags: WRITE, handle: 1 });
    cluster.at(2, |world| world.clients[b].obeys = false);
    // The other lender's answers come late.
    cluster.held.insert((1, 0));
    let seq = cluster.send(a, 0, rename(dirs[0], "f", dirs[1], "g"));
    cluster.at(2, |world| world.clients[b].obeys = true);
    assert_eq!(cluster.outcome(a, 0, seq), None);
    assert!(matches!(cluster.waiting(1, 0)[..], [PeerMsg::Lent { .. }]), "{:?}", cluster.waiting(1, 0));
    cluster.release();
    assert_eq!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(Answer::Done))));
    cluster.ask(b, 2, close(1));
    cluster.finish();
}
