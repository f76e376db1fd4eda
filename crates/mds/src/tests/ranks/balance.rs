//! Snapshots that a rank shows to the policy of its balancer, and its obedience to the decisions.

use loligo_namespace::BALANCER;
use loligo_types::{Control, Frag, Ino, Op, Rank};
use loligo_types::{Decision, Move, Piece, PolicyId, RankState, Snapshot, Weighed, XattrMode};

use super::*;
use crate::Config;
use crate::Input;

const TICK_MS: u64 = 5000;
const POLICY: PolicyId = PolicyId(7);

/// Ranks that balance; nothing decays in the time of a test, and each request counts.
fn balanced(ranks: usize) -> Cluster {
    let settings = |config| Config { balance_ms: TICK_MS, heat_sample: 1, heat_half_life_ms: 1 << 50, ..config };
    let mut cluster = Cluster::with_settings(&vec![RankState::Up; ranks], settings);
    in_force(&mut cluster, POLICY);
    cluster
}

fn in_force(cluster: &mut Cluster, policy: PolicyId) {
    let map = loligo_types::ClusterMap { epoch: cluster.map().epoch + 1, policy, ..cluster.map() };
    (0..cluster.len()).for_each(|at| cluster.at(at, |world| world.input(Input::Map(map.clone()))));
}

/// The snapshot of a rank at its next tick.
fn asked(cluster: &mut Cluster, at: usize) -> Option<Snapshot> {
    cluster.at(at, |world| world.snapshot = None);
    cluster.wait(TICK_MS + 1000);
    cluster.at(at, |world| world.snapshot.take()).map(|snapshot| *snapshot)
}

fn answer(cluster: &mut Cluster, at: usize, snapshot: &Snapshot, moves: &[(Piece, u16)]) {
    let moves = moves.iter().map(|(piece, to)| Move { piece: *piece, to: Rank(*to), load: 1.0 }).collect();
    let weighed = Some(Weighed { policy: snapshot.policy, auth: 3.0, all: 4.0 });
    let decision = Decision { tick: snapshot.tick, weighed, moves };
    cluster.at(at, |world| world.input(Input::Decided(decision)));
}

fn whole(dir: Ino) -> Piece {
    Piece { dir, frag: None }
}

fn piece(snapshot: &Snapshot, wanted: Piece) -> Option<usize> {
    snapshot.pieces.iter().position(|heat| heat.piece == wanted)
}

fn moves(cluster: &mut Cluster, at: usize) -> u64 {
    cluster.world(at).mds.status().balance.moves
}

fn set(cluster: &mut Cluster, client: usize, dir: Ino, value: &str) {
    let (name, value) = (BALANCER.into(), value.as_bytes().into());
    cluster.call(client, Op::SetXattr { ino: dir, name, value, mode: XattrMode::Set }).expect("root may");
}

#[test]
fn a_rank_shows_what_is_hot_each_below_what_it_is_in() {
    let mut cluster = balanced(2);
    let a = cluster.client();
    let top = cluster.mkdir(a, Ino::ROOT, "top");
    let (left, right) = (cluster.mkdir(a, top, "left"), cluster.mkdir(a, top, "right"));
    cluster.touch_all(a, left, 5);
    cluster.touch(a, right, "f");
    let snapshot = asked(&mut cluster, 0).expect("it is time");
    assert_eq!((snapshot.policy, snapshot.whoami, snapshot.tick_ms), (POLICY, rank(0), TICK_MS));
    let at = |dir| piece(&snapshot, whole(dir)).expect("it is hot");
    let above = |dir| snapshot.pieces[at(dir)].above.map(|place| snapshot.pieces[place as usize].piece.dir);
    assert_eq!((above(left), above(right), above(top)), (Some(top), Some(top), Some(Ino::ROOT)));
    let changes = |dir| snapshot.pieces[at(dir)].load.iwr.round();
    assert!(changes(left) >= 5.0 && changes(left) > changes(right), "{} and {}", changes(left), changes(right));
    assert!(snapshot.pieces[at(Ino::ROOT)].fixed && !snapshot.pieces[at(top)].fixed);
    assert_eq!(snapshot.pieces[at(left)].inodes, 6);
    for (place, heat) in snapshot.pieces.iter().enumerate() {
        assert!(heat.above.is_none_or(|above| (above as usize) < place), "those above come first");
    }
    assert_eq!(snapshot.ranks.iter().map(|view| view.rank).collect::<Vec<_>>(), [rank(0), rank(1)]);
    assert!(snapshot.ranks[1].age_ms < 3000 && snapshot.ranks[1].weighed.is_none(), "it has not weighed yet");
    cluster.finish();
}

#[test]
fn what_a_policy_wants_is_moved_and_others_are_told_what_it_weighs() {
    let mut cluster = balanced(2);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "dir");
    cluster.touch_all(a, dir, 5);
    let snapshot = asked(&mut cluster, 0).expect("it is time");
    answer(&mut cluster, 0, &snapshot, &[(whole(dir), 1)]);
    cluster.wait(3000);
    assert_eq!(moves(&mut cluster, 0), 1);
    assert!(
        cluster.world(0).mds.cluster.atlas.routes.all().iter().any(|route| route.dir == dir && route.rank == rank(1)),
        "it has moved"
    );
    let theirs = asked(&mut cluster, 1).expect("it is time");
    let weighed = theirs.ranks[0].weighed.expect("rank 0 has told");
    assert_eq!((weighed.policy, weighed.auth, weighed.all), (POLICY, 3.0, 4.0));
    let at = piece(&theirs, whole(dir)).expect("its heat went along");
    assert_eq!((theirs.pieces[at].home, theirs.pieces[at].above), (Some(rank(0)), None), "it is at the top there");
    cluster.finish();
}

#[test]
fn what_directories_say_is_read_before_a_policy_is_asked() {
    let mut cluster = balanced(2);
    let a = cluster.client();
    let (off, free) = (cluster.mkdir(a, Ino::ROOT, "off"), cluster.mkdir(a, Ino::ROOT, "free"));
    set(&mut cluster, a, off, "none");
    let (name, value) = ((*b"user.colour").into(), (*b"red").into());
    cluster.call(a, Op::SetXattr { ino: free, name, value, mode: XattrMode::Set }).expect("root may");
    cluster.wait(TICK_MS);
    // All is in the table, and of the new life nobody has asked for xattrs.
    cluster.crash(0);
    in_force(&mut cluster, PolicyId(8));
    for dir in [off, free] {
        cluster.touch_all(a, dir, 5);
    }
    let unknown = |cluster: &Cluster, dir| {
        let tree = &cluster.world(0).mds.core.tree;
        tree.inode(dir).is_some_and(|inode| tree.xattr(inode, BALANCER).is_none())
    };
    assert!(unknown(&cluster, off) && unknown(&cluster, free));
    let snapshot = asked(&mut cluster, 0).expect("it is time");
    let fixed = |dir| snapshot.pieces[piece(&snapshot, whole(dir)).expect("it is hot")].fixed;
    assert_eq!((fixed(off), fixed(free)), (true, false));
    cluster.finish();
}

#[test]
fn nothing_that_a_policy_says_moves_what_must_stay() {
    let mut cluster = balanced(3);
    let a = cluster.client();
    let (off, free) = (cluster.mkdir(a, Ino::ROOT, "off"), cluster.mkdir(a, Ino::ROOT, "free"));
    let below = cluster.mkdir(a, off, "below");
    set(&mut cluster, a, off, "none");
    for dir in [off, free, below] {
        cluster.touch_all(a, dir, 5);
    }
    let snapshot = asked(&mut cluster, 0).expect("it is time");
    let fixed = |dir| snapshot.pieces[piece(&snapshot, whole(dir)).expect("it is hot")].fixed;
    assert_eq!((fixed(off), fixed(below), fixed(free)), (true, true, false));
    let bad = [
        (whole(Ino::ROOT), 1),
        (whole(off), 1),
        (whole(Ino(1 << 40)), 1),
        (whole(free), 0),
        (whole(free), 9),
        (Piece { dir: free, frag: Some(Frag { bits: 1, value: 0 }) }, 1),
    ];
    answer(&mut cluster, 0, &snapshot, &bad);
    cluster.wait(3000);
    let status = cluster.world(0).mds.status().balance;
    assert_eq!((status.moves, status.refused), (0, bad.len() as u64));
    // An answer to an old question counts as none.
    let old = Snapshot { tick: snapshot.tick, ..snapshot };
    answer(&mut cluster, 0, &old, &[(whole(free), 1)]);
    assert_eq!(moves(&mut cluster, 0), 0);
    set(&mut cluster, a, off, "none");
    let (name, value) = (BALANCER.into(), (*b"what ever").into());
    let unknown = cluster.call(a, Op::SetXattr { ino: off, name, value, mode: XattrMode::Set });
    assert_eq!(unknown, Err(loligo_types::FsError::Invalid));
    cluster.finish();
}

#[test]
fn a_directory_with_many_names_that_is_most_of_the_load_is_shown_in_eighths_and_one_of_them_can_move() {
    let mut cluster = balanced(2);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "dir");
    cluster.touch_all(a, dir, 100);
    let snapshot = asked(&mut cluster, 0).expect("it is time");
    let itself = piece(&snapshot, whole(dir)).expect("it is hot") as u32;
    let of_bits =
        |bits| snapshot.pieces.iter().filter(move |heat| heat.piece.frag.is_some_and(|frag| frag.bits == bits));
    assert_eq!((of_bits(1).count(), of_bits(2).count()), (2, 4), "halves and quarters are shown, too");
    assert!(of_bits(1).all(|half| half.above == Some(itself) && half.load.metaload() == 0.0));
    let parts: Vec<_> = of_bits(3).collect();
    assert_eq!(parts.len(), 8);
    let above = |at: usize| parts[at].above.and_then(|above| snapshot.pieces[above as usize].piece.frag);
    assert_eq!((above(5), above(7)), (Some(Frag { bits: 2, value: 2 }), Some(Frag { bits: 2, value: 3 })));
    assert!(parts[0].fixed && parts[1..].iter().all(|part| !part.fixed), "the first one holds the directory itself");
    let sum: f64 = parts.iter().map(|part| part.load.metaload()).sum();
    assert!(sum > 100.0 && snapshot.pieces[itself as usize].load.metaload() == 0.0, "nothing is counted twice");
    answer(&mut cluster, 0, &snapshot, &[(parts[5].piece, 1)]);
    cluster.wait(3000);
    let lines = cluster.world(0).mds.cluster.atlas.routes.all();
    let line = lines.iter().find(|route| route.dir == dir && Some(route.frag) == parts[5].piece.frag);
    assert_eq!(line.map(|line| line.rank), Some(rank(1)));
    // Rank 1 can give it back, and knows where.
    let theirs = asked(&mut cluster, 1).expect("it is time");
    let at = piece(&theirs, whole(dir)).expect("it has a part of it");
    assert_eq!(theirs.pieces[at].home, Some(rank(0)));
    answer(&mut cluster, 1, &theirs, &[(whole(dir), 0)]);
    cluster.wait(3000);
    assert!(
        cluster.world(0).mds.cluster.atlas.routes.all().iter().all(|route| route.rank == rank(0)),
        "it is all at rank 0 again"
    );
    cluster.finish();
}

#[test]
fn the_root_is_never_cut_for_its_heat_however_much_is_below_it() {
    let mut cluster = balanced(2);
    let a = cluster.client();
    cluster.touch_all(a, Ino::ROOT, 100);
    let dir = cluster.mkdir(a, Ino::ROOT, "dir");
    cluster.touch_all(a, dir, 10);
    let snapshot = asked(&mut cluster, 0).expect("it is time");
    assert!(snapshot.pieces.iter().all(|heat| heat.piece.dir != Ino::ROOT || heat.piece.frag.is_none()));
    let (root, below) = (piece(&snapshot, whole(Ino::ROOT)), piece(&snapshot, whole(dir)));
    assert_eq!(below.and_then(|at| snapshot.pieces[at].above), root.map(|at| at as u32));
    cluster.finish();
}

#[test]
fn without_a_policy_nobody_is_asked_and_another_one_is_another_load() {
    let mut cluster = balanced(2);
    let a = cluster.client();
    cluster.mkdir(a, Ino::ROOT, "dir");
    let snapshot = asked(&mut cluster, 0).expect("it is time");
    answer(&mut cluster, 0, &snapshot, &[]);
    in_force(&mut cluster, PolicyId::NONE);
    assert!(asked(&mut cluster, 0).is_none() && asked(&mut cluster, 1).is_none());
    in_force(&mut cluster, PolicyId(8));
    let snapshot = asked(&mut cluster, 1).expect("it is time");
    assert_eq!((snapshot.policy, snapshot.ranks[0].weighed), (PolicyId(8), None), "what policy 7 weighed is gone");
    cluster.finish();
}

#[test]
fn a_policy_that_does_not_answer_is_asked_again() {
    let mut cluster = balanced(2);
    let first = asked(&mut cluster, 0).expect("it is time");
    let second = asked(&mut cluster, 0).expect("it is time again");
    assert_eq!(second.tick, first.tick + 1);
    let status = |cluster: &mut Cluster| {
        let balance = cluster.world(0).mds.status().balance;
        (balance.unanswered, balance.silent)
    };
    assert_eq!(status(&mut cluster), (1, 1));
    let third = asked(&mut cluster, 0).expect("it is time once more");
    assert_eq!(status(&mut cluster), (2, 2));
    answer(&mut cluster, 0, &third, &[]);
    assert_eq!(status(&mut cluster), (2, 0), "it answers again");
    cluster.finish();
}

#[test]
fn a_move_that_would_keep_requests_waiting_is_given_up_and_they_go_on() {
    let mut cluster = balanced(2);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "dir");
    let opened = cluster.ask(a, 0, create(dir, "f", WRITE, 1));
    assert!(matches!(opened, Outcome::Answered(Ok(_))), "{opened:?}");
    // Data operations that never end.
    cluster.at(0, |world| world.quiesces = false);
    let snapshot = asked(&mut cluster, 0).expect("it is time");
    answer(&mut cluster, 0, &snapshot, &[(whole(dir), 1)]);
    cluster.wait_for("the freeze", |cluster| !cluster.world(0).pending_quiesces.is_empty());
    let seq = cluster.send(a, 0, create(dir, "g", WRITE, 2));
    assert_eq!(cluster.outcome(a, 0, seq), None, "it waits while the directory is about to move");
    cluster.wait_for("an answer", |cluster| matches!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(_)))));
    assert!(
        cluster.world(0).mds.cluster.atlas.routes.all().iter().all(|route| route.rank == rank(0)),
        "nothing has moved"
    );
    cluster.at(0, |world| world.quiesces = true);
    cluster.finish();
}

#[test]
fn what_is_decoupled_and_what_it_is_in_is_shown_to_policies_as_fixed() {
    let mut cluster = balanced(2);
    let a = cluster.client();
    let (top, free) = (cluster.mkdir(a, Ino::ROOT, "top"), cluster.mkdir(a, Ino::ROOT, "free"));
    let (job, beside) = (cluster.mkdir(a, top, "job"), cluster.mkdir(a, top, "beside"));
    let below = cluster.mkdir(a, job, "below");
    for dir in [top, job, below, beside, free] {
        cluster.touch_all(a, dir, 5);
    }
    let interfere = loligo_types::Interfere::Allow;
    let decouple = loligo_types::SubtreeOp::Decouple {
        owner: 7,
        resume: 0,
        inos: 10,
        lease_ms: 100_000,
        interfere,
        promise: loligo_types::Promise::NONE,
    };
    let answer =
        cluster.call(a, Op::Control(Control::Subtree { dir: job, what: Box::new(decouple) })).expect("nobody has it");
    let loligo_types::Answer::Subtree(answer) = answer else { panic!("{answer:?}") };
    let loligo_types::SubtreeAnswer::Decoupled { record, .. } = *answer else { panic!("{answer:?}") };
    let fixed = |cluster: &mut Cluster| {
        let snapshot = asked(cluster, 0).expect("it is time");
        let of = |dir| snapshot.pieces[piece(&snapshot, whole(dir)).expect("it is hot")].fixed;
        [top, job, below, beside, free].map(of)
    };
    assert_eq!(fixed(&mut cluster), [true, true, true, false, false]);
    let end = loligo_types::SubtreeOp::End { epoch: record.epoch };
    cluster.call(a, Op::Control(Control::Subtree { dir: job, what: Box::new(end) })).expect("it is his");
    cluster.wait(TICK_MS);
    assert_eq!(fixed(&mut cluster), [false; 5]);
    cluster.finish();
}
