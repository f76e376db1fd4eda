//! Directories whose fragments are several ranks', as they are opened, shown and changed as a whole, by many at once.

use loligo_types::msg::ToServer;
use loligo_types::{Answer, Frag, FsError, Ino, Op, Seq};

use super::spread::{halves, name_in};
use super::transactions::on_the_way;
use super::*;

const LOWER: Frag = Frag { bits: 1, value: 0 };

/// The messages on their way but for lines of the subtree map.
pub(super) fn said(cluster: &Cluster, from: usize, to: usize) -> Vec<&'static str> {
    on_the_way(cluster, from, to).into_iter().filter(|word| *word != "other").collect()
}

fn deliver_all(cluster: &mut Cluster, from: usize, to: usize) {
    for _ in 0..cluster.waiting(from, to).len() {
        cluster.deliver(from, to);
    }
}

fn size(cluster: &mut Cluster, client: usize, seq: Seq) -> Option<u64> {
    match cluster.outcome(client, 0, seq)? {
        Outcome::Answered(Ok(Answer::Entry(attr))) => Some(attr.size),
        other => panic!("{other:?}"),
    }
}

fn is_done(cluster: &mut Cluster, client: usize, at: usize, seq: Seq) -> bool {
    match cluster.outcome(client, at, seq) {
        None => false,
        Some(Outcome::Answered(Ok(_))) => true,
        Some(other) => panic!("{other:?}"),
    }
}

#[test]
fn to_open_a_directory_in_fragments_no_other_rank_is_asked() {
    let (mut cluster, a, dir, _) = halves();
    cluster.hold(0, 1);
    let seq = cluster.send(a, 0, Op::Open { ino: dir, flags: READ, handle: 1 });
    assert!(is_done(&mut cluster, a, 0, seq));
    assert_eq!(said(&cluster, 0, 1), Vec::<&str>::new());
    cluster.release();
    let seq = cluster.send(a, 0, Op::GetAttr { ino: dir });
    assert_eq!(size(&mut cluster, a, seq), Some(40), "who asks what it has is told of all");
    cluster.call(a, close(1)).expect("it is open");
    cluster.finish();
}

#[test]
fn many_are_shown_a_directory_at_once_and_who_changes_it_waits_and_has_its_turn_before_more_are() {
    let (mut cluster, a, dir, upper) = halves();
    let b = cluster.client();
    cluster.hold(0, 1);
    let shown = [a, b].map(|client| (client, cluster.send(client, 0, Op::GetAttr { ino: dir })));
    cluster.deliver(0, 1);
    cluster.deliver(0, 1);
    assert_eq!(said(&cluster, 1, 0), ["lent", "lent"]);
    let text = name_in(&cluster, upper, "new");
    let made = cluster.send(b, 1, mkdir(dir, &text));
    let found = cluster.send(b, 1, Op::Lookup { dir, name: name(&name_in(&cluster, upper, "f")) });
    assert!(!is_done(&mut cluster, b, 1, made), "it would change what is shown");
    assert!(is_done(&mut cluster, b, 1, found), "names are found meanwhile");
    let later = cluster.send(a, 0, Op::GetAttr { ino: dir });
    cluster.deliver(0, 1);
    assert_eq!(said(&cluster, 1, 0), ["lent", "lent", "denied"], "it is the turn of who waits to change it");
    // The second half of those that are there is told of only now.
    let free = cluster.send(b, 0, mkdir(dir, &name_in(&cluster, LOWER, "other")));
    assert!(is_done(&mut cluster, b, 0, free), "the home's own half is free until it is decided what is shown");
    cluster.release();
    assert!(is_done(&mut cluster, b, 1, made));
    for (client, seq) in shown {
        assert_eq!(size(&mut cluster, client, seq), Some(41));
    }
    assert_eq!(size(&mut cluster, a, later), Some(42));
    cluster.finish();
}

#[test]
fn those_that_change_a_directory_as_a_whole_take_turns_and_none_is_denied() {
    let (mut cluster, a, dir, _) = halves();
    cluster.hold(0, 1);
    let changed: Vec<Seq> = [0o700, 0o750, 0o755].map(|mode| cluster.send(a, 0, chmod(dir, mode))).into();
    let shown = cluster.send(a, 0, Op::GetAttr { ino: dir });
    for (n, seq) in changed.iter().enumerate() {
        let asks: &[&str] = if n == 0 { &["borrow"] } else { &["commit", "borrow"] };
        assert_eq!(said(&cluster, 0, 1), asks, "of {n} and those behind it one asks");
        deliver_all(&mut cluster, 0, 1);
        assert_eq!(said(&cluster, 1, 0).into_iter().filter(|word| *word != "received").collect::<Vec<_>>(), ["lent"]);
        deliver_all(&mut cluster, 1, 0);
        assert!(is_done(&mut cluster, a, 0, *seq));
    }
    assert_eq!(size(&mut cluster, a, shown), None);
    cluster.release();
    assert_eq!(size(&mut cluster, a, shown), Some(40));
    assert_eq!(cluster.attr(a, dir).map(|attr| attr.mode), Ok(0o755), "in the order in which they came");
    cluster.finish();
}

#[test]
fn the_turn_of_a_client_that_leaves_goes_to_the_next() {
    let (mut cluster, a, dir, _) = halves();
    let b = cluster.client();
    cluster.hold(0, 1);
    cluster.send(b, 0, chmod(dir, 0o700));
    let next = cluster.send(a, 0, chmod(dir, 0o711));
    assert_eq!(said(&cluster, 0, 1), ["borrow"]);
    cluster.at(0, |world| world.message(b, ToServer::Goodbye { gone: false }));
    cluster.release();
    assert!(is_done(&mut cluster, a, 0, next));
    assert_eq!(cluster.attr(a, dir).map(|attr| attr.mode), Ok(0o711));
    cluster.finish();
}

#[test]
fn a_turn_does_not_outlive_a_rank_that_is_away() {
    let (mut cluster, a, dir, _) = halves();
    cluster.hold(0, 1);
    let changed = [0o700, 0o711].map(|mode| cluster.send(a, 0, chmod(dir, mode)));
    cluster.deliver(0, 1);
    cluster.kill(1);
    cluster.held.clear();
    cluster.wait(500);
    assert!(changed.iter().all(|seq| cluster.outcome(a, 0, *seq).is_none()));
    cluster.start(1);
    cluster.come_back(a, 1, Default::default());
    cluster.wait(500);
    assert!(changed.iter().all(|seq| is_done(&mut cluster, a, 0, *seq)));
    assert_eq!(cluster.attr(a, dir).map(|attr| (attr.mode, attr.size)), Ok((0o711, 40)));
    cluster.finish();
}

/// Where reads take their time a look at one of them was a read and a tick, until the migration was given up after five seconds.
#[test]
fn what_was_made_and_removed_while_a_fragment_was_about_to_move_keeps_nobody_waiting() {
    let mut cluster = Cluster::new(2);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    cluster.touch_all(a, dir, 10);
    cluster.at(0, |world| world.syncs_data = false);
    let id = cluster.begin_frag(dir, Frag { bits: 1, value: 1 }, 0, 1);
    cluster.wait(1000);
    for n in 0..40 {
        cluster.touch(a, dir, &format!("gone{n}"));
        cluster.call(a, unlink(dir, &format!("gone{n}"))).expect("it is there");
    }
    // That gets into the table, and what is removed out of memory.
    cluster.wait(7000);
    assert_eq!(cluster.state(0, id), "preparing");
    cluster.at(0, |world| world.syncs_data = true);
    cluster.wait_for("the end of a migration", |cluster| {
        let state = cluster.state(0, id);
        assert!(!state.starts_with("failed"), "{state}");
        state == "done"
    });
    let all = cluster.at(0, |world| world.mds.cluster.exports.migrations(&world.mds.core));
    let frozen_us = all.into_iter().find(|one| one.id == id).map(|one| one.frozen_us);
    assert_eq!(frozen_us, Some(0), "what had to be read for it was read before");
    cluster.finish();
}

/// An empty directory, and a client that does not give back the names in it that it holds.
fn empty_but_held() -> (Cluster, usize, usize, Ino) {
    let (mut cluster, a, dir, _) = halves();
    let b = cluster.client();
    for n in 0..40 {
        cluster.call(a, unlink(dir, &format!("f{n}"))).expect("it is there");
    }
    cluster.wait(2000);
    assert!(cluster.lookup(a, dir, &name_in(&cluster, LOWER, "none")).is_err());
    cluster.at(0, |world| world.clients[a].obeys = false);
    (cluster, a, b, dir)
}

#[test]
fn who_looks_does_not_wait_for_the_clients_that_who_has_the_turn_waits_for() {
    let (mut cluster, a, b, dir) = empty_but_held();
    let removed = [0, 1].map(|_| cluster.send(b, 0, rmdir(Ino::ROOT, "d")));
    cluster.wait(100);
    assert_eq!(cluster.outcome(b, 0, removed[0]), None, "the names that the other one holds are asked back");
    let shown = cluster.send(b, 0, Op::GetAttr { ino: dir });
    assert_eq!(size(&mut cluster, b, shown), Some(0));
    cluster.at(0, |world| world.clients[a].obeys = true);
    cluster.wait(100);
    assert!(is_done(&mut cluster, b, 0, removed[0]));
    assert_eq!(cluster.outcome(b, 0, removed[1]), Some(Outcome::Answered(Err(FsError::NotFound))));
    cluster.finish();
}

#[test]
fn who_waits_to_look_goes_on_when_who_has_the_turn_begins_to_wait_for_clients() {
    let (mut cluster, a, b, dir) = empty_but_held();
    cluster.hold(0, 1);
    let removed = cluster.send(b, 0, rmdir(Ino::ROOT, "d"));
    assert_eq!(said(&cluster, 0, 1), ["borrow"]);
    let shown = cluster.send(b, 0, Op::GetAttr { ino: dir });
    assert_eq!(said(&cluster, 0, 1), ["borrow"], "all parts are being borrowed");
    cluster.release();
    assert_eq!(size(&mut cluster, b, shown), Some(0));
    assert_eq!(cluster.outcome(b, 0, removed), None, "it has to wait for the other client");
    cluster.at(0, |world| world.clients[a].obeys = true);
    cluster.wait(100);
    assert!(is_done(&mut cluster, b, 0, removed));
    cluster.finish();
}
