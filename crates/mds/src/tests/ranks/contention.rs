//! Many transactions that want the same directory, and requests of its own rank beside them: who waits for whom, in which
//! order, and with how many messages.

use loligo_types::{Answer, FsError, Ino, Op};

use super::transactions::on_the_way;
use super::*;
use crate::peer::PeerMsg;

const DONE: Option<Outcome> = Some(Outcome::Answered(Ok(Answer::Done)));

/// As many ranks; the last one has the directory that all others rename into, each of them has one with files `f` and `g`.
fn around(ranks: usize) -> (Cluster, usize, Vec<Ino>, Ino) {
    let mut cluster = Cluster::new(ranks);
    let a = cluster.client();
    let dirs: Vec<Ino> = (0..ranks).map(|at| cluster.mkdir(a, Ino::ROOT, &format!("d{at}"))).collect();
    for (at, dir) in dirs.iter().enumerate().skip(1) {
        cluster.migrate(*dir, 0, at);
    }
    for dir in &dirs[..ranks - 1] {
        cluster.touch(a, *dir, "f");
        cluster.touch(a, *dir, "g");
    }
    let target = dirs[ranks - 1];
    (cluster, a, dirs, target)
}

/// A rename into the last rank's directory is decided, and the decision is not there yet.
fn decided(cluster: &mut Cluster, a: usize, op: Op, from: usize, to: usize) {
    cluster.held.insert((from, to));
    let seq = cluster.send(a, from, op);
    cluster.deliver(from, to);
    assert_eq!(cluster.outcome(a, from, seq), DONE);
    assert_eq!(on_the_way(cluster, from, to), ["commit"]);
}

#[test]
fn other_names_of_a_directory_change_while_some_of_it_are_lent_and_all_is_counted() {
    for crashes in [false, true] {
        let (mut cluster, a, dirs, target) = around(2);
        let b = cluster.client();
        let sub = cluster.mkdir(a, target, "gone");
        decided(&mut cluster, a, rename(dirs[0], "f", target, "x"), 0, 1);
        // Rank 1 does not wait with other names, nor with what is counted of them.
        let ops = [
            mkdir(target, "new"),
            Op::Rmdir { dir: target, name: name("gone") },
            create(target, "y", WRITE, 1),
            Op::Lookup { dir: target, name: name("new") },
        ];
        for op in ops {
            let seq = cluster.send(b, 1, op.clone());
            let outcome = cluster.outcome(b, 1, seq);
            assert!(matches!(outcome, Some(Outcome::Answered(Ok(_)))), "{op:?}: {outcome:?}");
        }
        // What shows the name, or the directory as it was, waits.
        let found = cluster.send(b, 1, Op::Lookup { dir: target, name: name("x") });
        let made = cluster.send(b, 1, mkdir(target, "x"));
        let shown = cluster.send(b, 1, Op::GetAttr { ino: target });
        assert!([found, made, shown].iter().all(|seq| cluster.outcome(b, 1, *seq).is_none()));
        if crashes {
            cluster.kill(1);
            cluster.held.clear();
            cluster.start(1);
            cluster.come_back(a, 1, Default::default());
            cluster.come_back(b, 1, Default::default());
        } else {
            cluster.release();
            assert!(matches!(cluster.outcome(b, 1, found), Some(Outcome::Answered(Ok(Answer::Remote { .. })))));
            assert_eq!(cluster.outcome(b, 1, made), Some(Outcome::Answered(Err(FsError::Exists))));
            let Some(Outcome::Answered(Ok(Answer::Entry(attr)))) = cluster.outcome(b, 1, shown) else {
                panic!("shown")
            };
            assert_eq!((attr.size, attr.nlink), (3, 3));
        }
        assert_eq!(cluster.attr(b, target).map(|attr| (attr.size, attr.nlink)), Ok((3, 3)), "crashes: {crashes}");
        assert_eq!(cluster.attr(b, sub), Err(FsError::Stale));
        cluster.ask(b, 1, close(1));
        cluster.finish();
    }
}

#[test]
fn transactions_over_different_names_of_a_directory_do_not_wait_for_each_other() {
    let (mut cluster, a, dirs, target) = around(4);
    for (from, dir) in dirs.iter().enumerate().take(3) {
        decided(&mut cluster, a, rename(*dir, "f", target, &format!("x{from}")), from, 3);
    }
    // Their decisions come in another order than that in which they were lent.
    for from in [2, 0, 1] {
        cluster.deliver(from, 3);
    }
    cluster.release();
    assert_eq!(cluster.attr(a, target).map(|attr| attr.size), Ok(3));
    cluster.finish();
}

#[test]
fn those_that_want_the_same_name_get_it_by_age_without_asking_again() {
    let (mut cluster, a, dirs, target) = around(5);
    cluster.held.extend((0..4).map(|from| (from, 4)));
    let mut sent = Vec::new();
    for (from, dir) in dirs.iter().enumerate().take(4) {
        cluster.wait(50);
        sent.push(cluster.send(a, from, rename(*dir, "f", target, "x")));
    }
    // The oldest has it; the others ask in another order than that of their age.
    for from in [0, 3, 1, 2] {
        assert!(matches!(cluster.deliver(from, 4), PeerMsg::Borrow { .. }));
    }
    let done = |cluster: &mut Cluster, from: usize| cluster.outcome(a, from, sent[from]) == DONE;
    assert!(done(&mut cluster, 0));
    for from in 0..4 {
        assert!((from + 1..4).all(|later| !done(&mut cluster, later)), "it is not the turn of those after {from}");
        assert_eq!(on_the_way(&cluster, from, 4), ["commit"]);
        cluster.deliver(from, 4);
        if from < 3 {
            assert!(done(&mut cluster, from + 1), "it is {}'s turn", from + 1);
        }
    }
    cluster.release();
    assert_eq!(cluster.attr(a, target).map(|attr| attr.size), Ok(1));
    cluster.finish();
}

#[test]
fn who_wants_all_of_a_directory_has_its_turn_though_names_of_it_are_lent_all_the_time() {
    let (mut cluster, a, dirs, target) = around(4);
    decided(&mut cluster, a, rename(dirs[0], "f", target, "x0"), 0, 3);
    let shown = cluster.send(a, 3, Op::GetAttr { ino: target });
    assert_eq!(cluster.outcome(a, 3, shown), None);
    // Other names are free, but who comes later waits.
    let later = cluster.send(a, 1, rename(dirs[1], "f", target, "x1"));
    assert_eq!(cluster.outcome(a, 1, later), None);
    cluster.held.insert((1, 3));
    cluster.deliver(0, 3);
    let Some(Outcome::Answered(Ok(Answer::Entry(attr)))) = cluster.outcome(a, 3, shown) else { panic!("it is shown") };
    assert_eq!(attr.size, 1);
    assert_eq!(cluster.outcome(a, 1, later), DONE, "then it is its turn");
    cluster.release();
    cluster.finish();
}

#[test]
fn what_is_lent_to_a_transaction_that_has_begun_anew_is_given_back() {
    let (mut cluster, a, dirs, target) = around(3);
    decided(&mut cluster, a, rename(dirs[0], "f", target, "x"), 0, 2);
    let second = cluster.send(a, 1, rename(dirs[1], "f", target, "x"));
    assert_eq!(cluster.outcome(a, 1, second), None);
    // The name is lent to rank 1, which is cut off before it hears of it, and asks anew.
    cluster.held.insert((2, 1));
    cluster.deliver(0, 2);
    assert!(on_the_way(&cluster, 2, 1).contains(&"lent"));
    cluster.reconnect(1, 2);
    cluster.release();
    cluster.wait(200);
    assert_eq!(cluster.outcome(a, 1, second), DONE);
    assert_eq!(cluster.attr(a, target).map(|attr| attr.size), Ok(1));
    cluster.finish();
}
