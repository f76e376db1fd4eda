//! Handles that are closed while, and after, what they are of moves: nobody has them open in the end.

use loligo_types::msg::Reclaim;
use loligo_types::{Control, Frag, Ino, Lease, Op};

use crate::peer::PeerMsg;
use crate::tests::cluster_harness::{Cluster, Outcome, here_and_there, two_ranks};
use crate::tests::harness::{READ, WRITE, create};

fn close(handles: &[u64]) -> Op {
    Op::Control(Control::Close { handles: handles.into(), lost: false })
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

#[test]
fn what_had_gone_before_its_rank_was_restarted_is_closed_where_it_is_by_who_has_not_heard_of_that() {
    let (mut cluster, _, here, _) = two_ranks();
    let a = cluster.client();
    let file = open(&mut cluster, a, here, 7);
    cluster.migrate(here, 0, 1);
    cluster.kill(0);
    cluster.start(0);
    let claim = Reclaim { opens: vec![(7, file, WRITE, Lease::NONE)], ..Reclaim::default() };
    cluster.come_back(a, 0, claim);
    assert!(!cluster.world(1).mds.opens.is_closed(file));
    let Outcome::Redirected { rank, .. } = cluster.ask(a, 0, close(&[7])) else { panic!("it is another rank's") };
    cluster.ask(a, rank, close(&[7]));
    assert!(cluster.world(1).mds.opens.is_closed(file));
    cluster.finish();
}

#[test]
fn a_directory_is_not_open_where_only_a_part_of_it_is_though_that_is_claimed_after_a_restart() {
    let (mut cluster, _, here, _) = two_ranks();
    let a = cluster.client();
    cluster.touch_all(a, here, 8);
    let open = Op::Open { ino: here, flags: READ, handle: 7 };
    assert!(matches!(cluster.ask(a, 0, open), Outcome::Answered(Ok(_))));
    cluster.migrate_frag(here, Frag { bits: 1, value: 1 }, 0, 1);
    cluster.connect(a, 1);
    cluster.kill(1);
    cluster.start(1);
    cluster.come_back(a, 1, Reclaim { opens: vec![(7, here, READ, Lease::NONE)], ..Reclaim::default() });
    cluster.wait(2000);
    let opens = |cluster: &Cluster, at| !cluster.world(at).mds.opens.is_closed(here);
    assert_eq!([0, 1].map(|at| opens(&cluster, at)), [true, false]);
    cluster.ask(a, 0, close(&[7]));
    assert_eq!([0, 1].map(|at| opens(&cluster, at)), [false, false]);
    cluster.finish();
}
