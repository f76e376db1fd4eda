//! Cached records and counters of a subtree go along when it moves.

use loligo_types::{Frag, Ino, Lease, LoadVec, Op};

use super::*;
use crate::peer::PeerMsg;

/// The counters of fragments of a directory at a rank.
fn heat(cluster: &Cluster, at: usize, dir: Ino) -> Vec<(Frag, LoadVec)> {
    let hot = cluster.world(at).mds.status().hottest;
    hot.into_iter().filter(|hot| hot.dir == dir).map(|hot| (hot.frag, hot.load)).collect()
}

fn read_often(cluster: &mut Cluster, client: usize, at: usize, ino: Ino) {
    for _ in 0..400 {
        cluster.ask(client, at, Op::GetAttr { ino });
    }
}

#[test]
fn what_is_hot_is_hot_at_the_rank_that_it_moves_to() {
    let (mut cluster, a, here, there) = two_ranks();
    let (deep, cold) = (cluster.mkdir(a, here, "deep"), cluster.mkdir(a, here, "cold"));
    let (file, other) = (cluster.touch(a, deep, "f"), cluster.touch(a, Ino::ROOT, "other"));
    read_often(&mut cluster, a, 0, file);
    read_often(&mut cluster, a, 0, other);
    let before = heat(&cluster, 0, deep);
    assert!(before.len() == 1 && before[0].1.ird > 200.0, "{before:?}");
    cluster.migrate(here, 0, 1);
    cluster.run();
    let (gone, came) = (heat(&cluster, 0, deep), heat(&cluster, 1, deep));
    assert_eq!(gone, []);
    assert!(came.len() == 1 && came[0].1.ird > before[0].1.ird / 2.0, "{came:?}, it was {before:?}");
    assert!(came[0].1.ird <= before[0].1.ird, "{came:?}, it was {before:?}");
    assert!(
        !heat(&cluster, 0, Ino::ROOT).is_empty() && heat(&cluster, 1, Ino::ROOT).is_empty(),
        "the root did not move"
    );
    assert_eq!((heat(&cluster, 1, cold), heat(&cluster, 1, there).len()), (heat(&cluster, 0, cold), 1));
    cluster.finish();
}

#[test]
fn of_a_directory_that_is_parted_each_half_keeps_its_share() {
    let mut cluster = Cluster::new(2);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    cluster.touch_all(a, dir, 40);
    for _ in 0..20 {
        for n in 0..40 {
            cluster.ask(a, 0, Op::Lookup { dir, name: name(&format!("f{n}")) });
        }
    }
    let before: f64 = heat(&cluster, 0, dir).iter().map(|(_, load)| load.ird).sum();
    assert!(before > 400.0, "{before}");
    let [lower, upper] = [0, 1].map(|value| Frag { bits: 1, value });
    cluster.migrate_frag(dir, upper, 0, 1);
    cluster.run();
    for (at, frag) in [(0, lower), (1, upper)] {
        let all = heat(&cluster, at, dir);
        let reads: Vec<(Frag, f64)> =
            all.iter().map(|(of, load)| (*of, load.ird)).filter(|(_, ird)| *ird > 0.0).collect();
        assert!(
            matches!(reads[..], [(of, ird)] if of == frag && ird > before / 8.0 && ird <= before / 1.9),
            "at rank {at}: {all:?} of {before}"
        );
    }
    cluster.finish();
}

#[test]
fn nonsense_that_is_told_of_heat_is_passed_over() {
    let (mut cluster, a, here, there) = two_ranks();
    cluster.wait(500);
    let known = |cluster: &Cluster| heat(cluster, 0, here).len() + heat(cluster, 0, there).len();
    let before = known(&cluster);
    let good = LoadVec { ird: 5.0, ..LoadVec::default() };
    let bad = [f64::NAN, f64::INFINITY, -1.0].map(|iwr| (here, LoadVec { iwr, ..good }));
    // What is another rank's by now does not count either.
    for (dir, load) in bad.into_iter().chain([(there, good)]) {
        let msg = PeerMsg::Heat(vec![loligo_types::FragHeat { dir, frag: Frag::WHOLE, load }]);
        cluster.at(0, |world| world.input(crate::Input::Peer { from: rank(1), msg }));
    }
    assert_eq!(known(&cluster), before);
    let sums = cluster.world(0).mds.subtree_loads();
    assert!(sums.values().all(LoadVec::is_sound), "{sums:?}");
    cluster.touch(a, here, "f");
    cluster.finish();
}

#[test]
fn what_clients_have_leases_on_is_in_memory_at_the_rank_that_it_moves_to() {
    for fails in [false, true] {
        let (mut cluster, a, here, _) = two_ranks();
        let sub = cluster.mkdir(a, here, "sub");
        cluster.at(0, |world| world.clients[a].want = Lease::NONE);
        let (leased, not) = (cluster.touch(a, sub, "leased"), cluster.touch(a, sub, "not"));
        cluster.at(0, |world| world.clients[a].want = BOTH);
        cluster.lookup(a, sub, "leased").expect("it is there");
        if fails {
            cluster.hold(0, 1);
            let id = cluster.begin_move(here, 0, 1);
            cluster.deliver_until(0, 1, |msg| matches!(msg, PeerMsg::Cached(_)));
            assert!(matches!(cluster.deliver(0, 1), PeerMsg::Cached(_)));
            // What was told before the connection broke is not taken for what comes with another letter.
            cluster.held.clear();
            cluster.reconnect(0, 1);
            cluster.wait_for("the end of a migration", |cluster| cluster.state(0, id) == "done");
        } else {
            cluster.migrate(here, 0, 1);
        }
        assert_eq!((cluster.has(1, leased), cluster.has(1, not)), (!fails, false), "fails: {fails}");
        assert_eq!(cluster.lookup(a, sub, "leased"), Ok(leased));
        assert_eq!(cluster.lookup(a, sub, "not"), Ok(not));
        cluster.finish();
    }
}

/// A directory with 40 files, of which something is to move from rank 0 to rank 1 while they do not hear each other: rank 2
/// hears of it first, and tells rank 1.
fn told_by_a_third(begin: impl FnOnce(&mut Cluster, usize, Ino) -> u64) {
    let mut cluster = Cluster::new(3);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    cluster.touch_all(a, dir, 40);
    let id = begin(&mut cluster, a, dir);
    cluster.hold(0, 1);
    while cluster.state(0, id) != "moving" {
        for (from, to) in [(0, 1), (1, 0)] {
            if !cluster.waiting(from, to).is_empty() {
                cluster.deliver(from, to);
            }
        }
        cluster.wait(50);
    }
    cluster.reconnect(0, 2);
    cluster.reconnect(1, 2);
    cluster.wait(500);
    let said = cluster.waiting(1, 0);
    assert!(!said.iter().any(|msg| matches!(msg, PeerMsg::Gone(_))), "{said:?}");
    cluster.release();
    cluster.wait_for("the end of it", |cluster| cluster.state(0, id) == "done");
    for n in 0..40 {
        assert!(cluster.lookup(a, dir, &format!("f{n}")).is_ok(), "f{n}");
    }
    assert_eq!(cluster.attr(a, dir).map(|attr| attr.size), Ok(40));
    cluster.finish();
}

#[test]
fn a_directory_of_which_a_rank_has_a_part_is_not_gone_because_another_part_is_still_under_way() {
    told_by_a_third(|cluster, _, dir| {
        // Its sibling is in one line with the other half, which that of the last quarter replaces.
        let [second, last] = [1, 3].map(|value| Frag { bits: 2, value });
        cluster.migrate_frag(dir, second, 0, 1);
        cluster.begin_frag(dir, last, 0, 1)
    });
}

#[test]
fn a_directory_is_not_gone_because_the_table_did_not_have_it_a_moment_ago() {
    told_by_a_third(|cluster, client, dir| {
        cluster.ask(client, 1, Op::GetAttr { ino: dir });
        cluster.begin_move(dir, 0, 1)
    });
}

/// Reads of ranks to move a directory are no load: a balancer that took them for it would move what was moved.
#[test]
fn what_is_read_from_the_table_to_move_a_directory_is_not_counted_as_load() {
    let (mut cluster, a, here, _) = two_ranks();
    let deep = cluster.mkdir(a, here, "deep");
    cluster.touch_all(a, deep, 300);
    cluster.wait(5000);
    let fetched = |cluster: &Cluster| -> f64 {
        let of = |at| cluster.world(at).mds.status();
        [of(0), of(1)].iter().map(|status| status.heat_totals.fetch).sum()
    };
    // Cold: all that the move needs is read from the table.
    cluster.crash(0);
    cluster.crash(1);
    cluster.wait(5000);
    let before = fetched(&cluster);
    for (from, to) in [(0, 1), (1, 0), (0, 1)] {
        cluster.migrate(here, from, to);
        cluster.wait(1000);
    }
    assert_eq!(fetched(&cluster) - before, 0.0);
    // What a client asks for is load, whatever moved before.
    let b = cluster.client();
    cluster.lookup(b, deep, "f7").expect("it is there");
    assert!(fetched(&cluster) > before, "a request's reads count");
    cluster.finish();
}
