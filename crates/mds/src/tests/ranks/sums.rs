//! Recursive sums over ranks: what is below a directory grows while the directory is lent.

use loligo_types::{Answer, Op};

use super::*;
use crate::peer::PeerMsg;

/// Number of inodes below a directory, as its rank has counted.
fn below(cluster: &mut Cluster, at: usize, client: usize, dir: loligo_types::Ino) -> String {
    let op = Op::GetXattr { ino: dir, name: (*b"loligo.rentries").into() };
    match cluster.ask(client, at, op) {
        Outcome::Answered(Ok(Answer::Bytes(bytes))) => String::from_utf8_lossy(&bytes).into_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_grows_below_a_directory_while_it_is_lent_is_counted_even_if_its_rank_crashes_before_the_decision_comes() {
    for crashes in [false, true] {
        let mut cluster = Cluster::new(3);
        let a = cluster.client();
        let (here, there) =
            (cluster.mkdir(a, loligo_types::Ino::ROOT, "here"), cluster.mkdir(a, loligo_types::Ino::ROOT, "there"));
        let sub = cluster.mkdir(a, there, "sub");
        cluster.migrate(there, 0, 1);
        cluster.migrate(sub, 1, 2);
        let file = cluster.touch(a, here, "f");
        cluster.wait(3000);
        assert_eq!(below(&mut cluster, 1, a, there), "1");
        // Rank 1's directory is lent to rank 0, and a file more is below it before it hears what was decided.
        cluster.hold(0, 1);
        let seq = cluster.send(a, 0, rename(here, "f", there, "g"));
        cluster.touch(a, sub, "x");
        while cluster.outcome(a, 0, seq).is_none() {
            let borrows = cluster.waiting(0, 1).iter().any(|msg| matches!(msg, PeerMsg::Borrow { .. }));
            assert!(borrows || !cluster.waiting(1, 0).is_empty(), "nothing is on its way");
            if borrows {
                cluster.deliver(0, 1);
            } else {
                // All is lent: long enough for what has grown to come up.
                cluster.wait(3000);
                cluster.deliver(1, 0);
            }
        }
        if crashes {
            cluster.kill(1);
            cluster.held.clear();
            cluster.start(1);
            cluster.come_back(a, 1, Default::default());
        }
        cluster.release();
        cluster.wait(500);
        assert_eq!(cluster.lookup(a, there, "g"), Ok(file));
        assert_eq!(below(&mut cluster, 1, a, there), "3", "crashes: {crashes}");
        cluster.finish();
    }
}

#[test]
fn a_sum_that_comes_when_its_directory_has_moved_and_is_still_in_memory_follows_it() {
    let mut cluster = Cluster::new(3);
    let a = cluster.client();
    let there = cluster.mkdir(a, loligo_types::Ino::ROOT, "there");
    let mid = cluster.mkdir(a, there, "mid");
    let sub = cluster.mkdir(a, mid, "sub");
    cluster.migrate(there, 0, 1);
    cluster.migrate(sub, 1, 2);
    cluster.touch(a, sub, "f");
    cluster.wait(3000);
    assert_eq!(below(&mut cluster, 1, a, mid), "2");
    // Nothing of what moves was changed lately.
    cluster.wait(5000);
    cluster.hold(0, 1);
    cluster.hold(0, 2);
    let id = cluster.begin_move(there, 1, 0);
    while cluster.state(1, id) != "moving" {
        for (from, to) in [(0, 1), (1, 0)] {
            if !cluster.waiting(from, to).is_empty() {
                cluster.deliver(from, to);
            }
        }
        cluster.wait(20);
    }
    // Rank 2 has not heard of it, and rank 1 not that rank 0 has it.
    cluster.touch(a, sub, "g");
    cluster.wait(3000);
    cluster.release();
    cluster.wait(3000);
    assert_eq!(below(&mut cluster, 0, a, mid), "3");
    cluster.finish();
}
