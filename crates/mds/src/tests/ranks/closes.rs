//! Handles that are closed while, and after, what they are of moves: nobody has them open in the end.

use loligo_types::{Ino, Op};

use crate::peer::PeerMsg;
use crate::tests::cluster_harness::{Cluster, Outcome, here_and_there, two_ranks};
use crate::tests::harness::{WRITE, create};

fn close(handles: &[u64]) -> Op {
    Op::Close { handles: handles.into(), lost: false }
}

/// A file that a client has open.
fn open(cluster: &mut Cluster, client: usize, dir: Ino, handle: u64) -> Ino {
    let made = cluster.call(client, create(dir, &format!("f{handle}"), WRITE, handle)).expect("it is made");
    made.attr().expect("it has attributes").ino
}

#[test]
fn what_is_closed_while_it_is_on_its_way_is_closed_at_the_rank_that_gets_it() {
    let (mut cluster, _, here, _) = two_ranks();
    let a = cluster.client();
    let file = open(&mut cluster, a, here, 7);
    cluster.hold(0, 1);
    cluster.begin_move(here, 0, 1);
    cluster.deliver_until(0, 1, |msg| matches!(msg, PeerMsg::Letter { .. }));
    let seq = cluster.send(a, 0, close(&[7]));
    assert_eq!(cluster.outcome(a, 0, seq), None, "who gets it cannot be asked yet");
    cluster.release();
    cluster.wait_for("the move", |cluster| cluster.has(1, file));
    match cluster.outcome(a, 0, seq) {
        Some(Outcome::Redirected { rank: 1, .. }) => cluster.ask(a, 1, close(&[7])),
        other => panic!("{other:?}"),
    };
    assert!(cluster.world(1).mds.opens.is_closed(file));
    cluster.finish();
}

#[test]
fn what_has_gone_to_two_ranks_is_closed_at_both() {
    let (mut cluster, a, here, there) = here_and_there(Cluster::new(3));
    let beside = cluster.mkdir(a, Ino::ROOT, "beside");
    let [first, second, third] = [(here, 1), (beside, 2), (Ino::ROOT, 3)].map(|(dir, n)| open(&mut cluster, a, dir, n));
    assert!(cluster.has(1, there));
    cluster.migrate(here, 0, 1);
    cluster.migrate(beside, 0, 2);
    let mut asked = Vec::new();
    while let Outcome::Redirected { rank, .. } = cluster.ask(a, 0, close(&[1, 2, 3])) {
        asked.push(rank);
        cluster.ask(a, rank, close(&[1, 2, 3]));
    }
    assert_eq!(asked, [1, 2], "each once");
    for (at, file) in [(1, first), (2, second), (0, third)] {
        assert!(cluster.has(at, file) && cluster.world(at).mds.opens.is_closed(file), "rank {at}");
    }
    cluster.finish();
}

#[test]
fn what_has_come_back_is_closed_where_it_is_and_nobody_else_is_asked() {
    let (mut cluster, a, here, _) = two_ranks();
    let file = open(&mut cluster, a, here, 7);
    cluster.migrate(here, 0, 1);
    cluster.migrate(here, 1, 0);
    assert!(matches!(cluster.ask(a, 0, close(&[7])), Outcome::Answered(Ok(_))));
    assert!(cluster.world(0).mds.opens.is_closed(file));
    cluster.finish();
}
