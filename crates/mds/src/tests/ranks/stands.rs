//! By which policy directories are balanced, also where what says so is another rank's.

use loligo_namespace::{BALANCER, PIN};
use loligo_types::{Decision, Frag, Ino, Move, Op, Piece, PolicyId, Rank, RankState, Snapshot, XattrMode};

use super::*;
use crate::{Config, Input};

const TICK_MS: u64 = 5000;

fn balanced(ranks: usize, policy: PolicyId) -> Cluster {
    // Nothing is written into the table because it is old: only what must be there.
    let settings = |config| Config {
        balance_ms: TICK_MS,
        heat_sample: 1,
        heat_half_life_ms: 1 << 50,
        dirty_ms_max: 1 << 40,
        ..config
    };
    let mut cluster = Cluster::with_settings(&vec![RankState::Up; ranks], settings);
    let map = loligo_types::ClusterMap { epoch: cluster.map().epoch + 1, policy, ..cluster.map() };
    (0..cluster.len()).for_each(|at| cluster.at(at, |world| world.input(Input::Map(map.clone()))));
    cluster
}

/// The snapshot of a rank at its next tick.
fn asked(cluster: &mut Cluster, at: usize) -> Option<Snapshot> {
    cluster.at(at, |world| world.snapshot = None);
    cluster.wait(TICK_MS + 1500);
    cluster.at(at, |world| world.snapshot.take()).map(|snapshot| *snapshot)
}

fn set(cluster: &mut Cluster, client: usize, dir: Ino, name: &[u8], value: &str) {
    let (name, value) = (name.into(), value.as_bytes().into());
    cluster.call(client, Op::SetXattr { ino: dir, name, value, mode: XattrMode::Set }).expect("root may");
}

fn whole(dir: Ino) -> Piece {
    Piece { dir, frag: None }
}

/// By what a directory is balanced, and whether it may be moved as a whole.
fn stand(snapshot: &Snapshot, dir: Ino) -> (Option<&str>, bool) {
    let heat = snapshot.pieces.iter().find(|heat| heat.piece == whole(dir)).expect("it is hot");
    (heat.under.map(|at| &*snapshot.names[at as usize]), !heat.fixed)
}

/// Answers without a weight: nothing that the policy of the file system wants counts.
fn answer(cluster: &mut Cluster, at: usize, tick: u64, moves: &[(Piece, u16)]) -> (u64, u64) {
    let moves = moves.iter().map(|(piece, to)| Move { piece: *piece, to: Rank(*to), load: 1.0 }).collect();
    cluster.at(at, |world| world.input(Input::Decided(Decision { tick, weighed: None, moves })));
    cluster.wait(3000);
    let balance = cluster.world(at).mds.status().balance;
    (balance.moves, balance.refused)
}

#[test]
fn a_directory_is_balanced_by_the_nearest_policy_that_is_named_and_nothing_takes_it_along() {
    let mut cluster = balanced(2, PolicyId(7));
    let a = cluster.client();
    let top = cluster.mkdir(a, Ino::ROOT, "top");
    let spills = cluster.mkdir(a, top, "spills");
    let (below, off, pinned) =
        (cluster.mkdir(a, spills, "below"), cluster.mkdir(a, spills, "off"), cluster.mkdir(a, spills, "pinned"));
    let again = cluster.mkdir(a, off, "again");
    let free = cluster.mkdir(a, Ino::ROOT, "free");
    for (dir, name, value) in [
        (spills, BALANCER, "fill_and_spill"),
        (off, BALANCER, "none"),
        (again, BALANCER, "fill_and_spill"),
        (pinned, PIN, "0"),
    ] {
        set(&mut cluster, a, dir, name, value);
    }
    for dir in [top, spills, below, off, pinned, again, free] {
        cluster.touch_all(a, dir, 5);
    }
    let snapshot = asked(&mut cluster, 0).expect("it is time");
    let of = |dir| stand(&snapshot, dir);
    assert_eq!(snapshot.names.len(), 1, "{:?}", snapshot.names);
    assert_eq!((of(free), of(below)), ((None, true), (Some("fill_and_spill"), true)));
    assert_eq!((of(off), of(pinned)), ((None, false), (None, false)), "nobody's");
    assert_eq!(of(again), (Some("fill_and_spill"), true), "the nearest one counts");
    assert_eq!(of(top), (None, false), "what stands under another policy would go along");
    assert_eq!(of(spills), (Some("fill_and_spill"), false), "what stands under none would go along");
    cluster.finish();
}

#[test]
fn where_no_policy_is_in_force_what_names_one_is_balanced_all_the_same_and_nothing_else() {
    let mut cluster = balanced(2, PolicyId::NONE);
    let a = cluster.client();
    let (named, other) = (cluster.mkdir(a, Ino::ROOT, "named"), cluster.mkdir(a, Ino::ROOT, "other"));
    cluster.touch_all(a, named, 5);
    cluster.touch_all(a, other, 5);
    assert!(asked(&mut cluster, 0).is_none(), "nobody is asked");
    set(&mut cluster, a, named, BALANCER, "mine");
    let snapshot = asked(&mut cluster, 0).expect("it is time");
    assert_eq!((stand(&snapshot, named), stand(&snapshot, other)), ((Some("mine"), true), (None, true)));
    let done = answer(&mut cluster, 0, snapshot.tick, &[(whole(other), 1), (whole(named), 1)]);
    assert_eq!(done, (1, 0));
    let lines = cluster.world(0).mds.cluster.atlas.routes.all();
    assert!(lines.iter().all(|line| line.dir != other) && lines.iter().any(|line| line.dir == named));
    cluster.finish();
}

#[test]
fn what_has_moved_out_of_a_directory_of_another_rank_is_balanced_as_that_says_as_long_as_it_says_so() {
    let mut cluster = balanced(2, PolicyId(7));
    let a = cluster.client();
    let top = cluster.mkdir(a, Ino::ROOT, "top");
    let middle = cluster.mkdir(a, top, "middle");
    let moved = cluster.mkdir(a, middle, "moved");
    cluster.migrate(moved, 0, 1);
    cluster.touch_all(a, moved, 5);
    let snapshot = asked(&mut cluster, 1).expect("it is time");
    assert_eq!(stand(&snapshot, moved), (None, true), "nothing says otherwise");
    // Rank 1 has neither of the directories above.
    set(&mut cluster, a, top, BALANCER, "none");
    asked(&mut cluster, 1);
    let snapshot = asked(&mut cluster, 1).expect("it is time");
    assert_eq!(stand(&snapshot, moved), (None, false));
    assert_eq!(answer(&mut cluster, 1, snapshot.tick, &[(whole(moved), 0)]).0, 0);
    set(&mut cluster, a, middle, BALANCER, "mine");
    asked(&mut cluster, 1);
    assert_eq!(stand(&asked(&mut cluster, 1).expect("it is time"), moved), (Some("mine"), true));
    set(&mut cluster, a, top, PIN, "0,1");
    asked(&mut cluster, 1);
    assert_eq!(stand(&asked(&mut cluster, 1).expect("it is time"), moved), (None, false), "pinned");
    for (dir, name) in [(top, BALANCER), (top, PIN), (middle, BALANCER)] {
        cluster.call(a, Op::RemoveXattr { ino: dir, name: name.into() }).expect("it is there");
    }
    asked(&mut cluster, 1);
    let snapshot = asked(&mut cluster, 1).expect("it is time");
    assert_eq!(stand(&snapshot, moved), (None, true));
    cluster.finish();
}

#[test]
fn parts_of_a_spread_directory_are_balanced_as_the_directory_at_its_home_says() {
    let mut cluster = balanced(2, PolicyId(7));
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "dir");
    cluster.touch_all(a, dir, 40);
    let half = Frag { bits: 1, value: 1 };
    cluster.migrate_frag(dir, half, 0, 1);
    (0..20).for_each(|n| _ = cluster.touch(a, dir, &format!("g{n}")));
    let snapshot = asked(&mut cluster, 1).expect("it is time");
    assert_eq!(stand(&snapshot, dir), (None, true));
    set(&mut cluster, a, dir, BALANCER, "none");
    asked(&mut cluster, 1);
    let snapshot = asked(&mut cluster, 1).expect("it is time");
    assert_eq!(stand(&snapshot, dir), (None, false));
    assert!(snapshot.pieces.iter().filter(|heat| heat.piece.dir == dir).all(|heat| heat.fixed));
    let answered = answer(&mut cluster, 1, snapshot.tick, &[(whole(dir), 0)]);
    assert_eq!(answered.0, 0);
    set(&mut cluster, a, dir, BALANCER, "mine");
    asked(&mut cluster, 1);
    let snapshot = asked(&mut cluster, 1).expect("it is time");
    assert_eq!(stand(&snapshot, dir), (Some("mine"), true));
    assert_eq!(answer(&mut cluster, 1, snapshot.tick, &[(whole(dir), 0)]).0, 1);
    cluster.finish();
}

#[test]
fn what_is_read_for_the_rules_above_is_no_load() {
    let mut cluster = balanced(2, PolicyId(7));
    let a = cluster.client();
    let top = cluster.mkdir(a, Ino::ROOT, "top");
    let moved = cluster.mkdir(a, top, "moved");
    cluster.migrate(moved, 0, 1);
    cluster.touch(a, moved, "f");
    asked(&mut cluster, 1).expect("it is time");
    let before = cluster.world(1).mds.load_now();
    for _ in 0..5 {
        asked(&mut cluster, 1).expect("it is time");
    }
    let after = cluster.world(1).mds.load_now();
    assert!((after.all - before.all).abs() < 0.01, "{before:?}, then {after:?}");
    cluster.finish();
}
