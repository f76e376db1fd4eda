//! Our own policy: it leaves alone what fits, spreads what does not, brings it back, and comes to rest.

use crate::support::{shipped, snapshot};
use loligo_balancer::balance::{Outcome, Policy};
use loligo_balancer::toy::Toy;
use loligo_balancer::{Limits, Value};
use loligo_types::{Random, Snapshot};

/// Overloaded for two ticks, and as busy as can be at the last one.
const HOT: Option<Value> = Some(Value::Number(2.0 + 100.0 * 1e8));

/// Decisions of all ranks with this much to do each, all hot for long enough, 20 equal pieces each.
fn all_decide(busy: &[f64], change: impl Fn(&mut Snapshot)) -> Vec<Outcome> {
    let each = |me: usize| {
        let loads: Vec<f64> = busy.iter().map(|busy| busy * 10.0).collect();
        let mut snapshot = snapshot(me as u16, &loads, &[busy[me] / 2.0; 20]);
        snapshot.ranks.iter_mut().zip(busy).for_each(|(view, busy)| view.load.busy_percent = *busy as f32);
        change(&mut snapshot);
        let mut policy = Policy::load("loligo", shipped("loligo.lua"), &Limits::deterministic()).expect("loads");
        let outcome = policy.decide(&snapshot, &mut HOT.clone());
        assert_eq!(outcome.fault, None);
        outcome
    };
    (0..busy.len()).map(each).collect()
}

/// For each rank that gives: to whom, and how much.
fn plan(busy: &[f64]) -> Vec<(usize, u16, i64)> {
    let outcomes = all_decide(busy, |_| ());
    let of = |(from, outcome): (usize, &Outcome)| {
        outcome.explain.targets.iter().map(|(to, amount)| (from, to.0, amount.round() as i64)).collect::<Vec<_>>()
    };
    outcomes.iter().enumerate().flat_map(of).collect()
}

#[test]
fn the_plan_is_the_same_for_all_and_no_rank_is_chosen_by_two() {
    for (busy, expected) in [
        // Nothing to do, or nobody to do it.
        (vec![50.0, 0.0], vec![]),
        (vec![90.0, 61.0, 61.0], vec![]),
        (vec![100.0, 85.0, 75.0], vec![]),
        // It shares with as many as leave nobody with more than a fifth, the emptiest, until all are equally busy.
        (vec![51.0, 0.0, 0.0, 0.0], vec![(0, 1, 17), (0, 2, 17)]),
        (vec![74.0, 0.0], vec![(0, 1, 37)]),
        (vec![90.0, 60.0, 61.0], vec![(0, 1, 15)]),
        (vec![100.0, 30.0, 10.0], vec![(0, 1, 17), (0, 2, 37)]),
        (vec![100.0, 75.0, 66.0], vec![(0, 2, 17)]),
        (vec![100.0, 0.0, 0.0, 0.0, 0.0], vec![(0, 1, 20), (0, 2, 20), (0, 3, 20), (0, 4, 20)]),
        // Overloaded ones leave each other some; the busiest chooses first, equally busy ones in the order of their ranks.
        (vec![95.0, 0.0, 20.0, 59.0], vec![(0, 1, 48), (3, 2, 20)]),
        (vec![95.0, 59.0, 55.0], vec![(0, 2, 20)]),
        (vec![100.0, 0.0, 100.0, 0.0, 0.0, 0.0], vec![(0, 1, 33), (0, 3, 33), (2, 4, 33), (2, 5, 33)]),
        (vec![100.0, 100.0, 100.0, 0.0], vec![(0, 3, 50)]),
        (vec![90.0, 95.0, 30.0, 10.0], vec![(0, 2, 30), (1, 3, 43)]),
        (vec![95.0, 95.0, 95.0, 10.0, 20.0], vec![(0, 3, 43), (1, 4, 38)]),
    ] {
        let mut found = plan(&busy);
        found.sort_unstable();
        assert_eq!(found, expected, "{busy:?}");
    }
}

#[test]
fn ranks_that_take_nothing_are_passed_over_and_capacity_counts() {
    let outcomes = all_decide(&[95.0, 10.0, 30.0], |snapshot| snapshot.ranks[2].takes_more = false);
    assert_eq!(outcomes[0].explain.targets[0].0.0, 1);
    let outcomes = all_decide(&[100.0, 10.0], |snapshot| snapshot.ranks[1].load.capacity_per_s = 500.0);
    // Both end at 70: 30 of a rank that can do twice as much are 60 of the other.
    assert_eq!(outcomes[0].explain.targets[0].1.round(), 30.0);
    let outcomes = all_decide(&[100.0, 10.0], |snapshot| snapshot.ranks[1].load.capacity_per_s = 0.0);
    assert_eq!(outcomes[0].explain.targets[0].1.round(), 45.0, "not known: taken for equal");
}

#[test]
fn noise_moves_nothing() {
    for ranks in [2, 5, 16] {
        for demand in [300.0, 600.0, 800.0] {
            let mut toy = Toy::new("loligo", shipped("loligo.lua"), ranks).expect("loads");
            toy.noise = 0.2;
            let root = toy.add(None, 0, 0.0);
            for at in 0..ranks * 20 {
                toy.add(Some(root), at % ranks, demand / 20.0);
            }
            for tick in 0..200 {
                // Now and then a tick in which one rank is very busy.
                let spike = toy.pieces[1].demand;
                toy.pieces[1].demand = if tick % 5 == 0 { 900.0 } else { spike };
                let moves = toy.tick().moves();
                toy.pieces[1].demand = spike;
                let gives_back = demand < 301.0;
                assert!(moves.is_empty() || gives_back, "{ranks} {demand} {tick}: {moves:?}");
            }
        }
    }
}

#[test]
fn what_one_client_works_in_moves_whole() {
    // What there is of some clients is less than the quarter that each of three ranks is to get.
    let mut toy = Toy::new("loligo", shipped("loligo.lua"), 5).expect("loads");
    let root = toy.add(None, 0, 0.0);
    let trees = [190.0, 190.0, 190.0, 190.0, 240.0];
    for demand in trees {
        let tree = toy.add(Some(root), 0, 0.0);
        (0..20).for_each(|_| _ = toy.add(Some(tree), 0, demand / 20.0));
    }
    let moves: Vec<_> = (0..100).flat_map(|_| toy.tick().moves()).collect();
    let is_tree = |demand: f64| trees.iter().any(|tree| (demand - tree).abs() < 1.0);
    assert!((3..=4).contains(&moves.len()), "{moves:?}");
    assert!(toy.demands()[1..].iter().all(|demand| *demand == 0.0 || is_tree(*demand)), "{:?}", toy.demands());
}

#[test]
fn a_flash_crowd_is_spread_over_few_ranks_and_comes_back() {
    for (ranks, late_news) in [(2, false), (4, true), (8, false), (8, true), (16, true)] {
        let mut toy = Toy::new("loligo", shipped("loligo.lua"), ranks).expect("loads");
        toy.late_news = late_news;
        toy.add_flat(200, 200.0);
        (0..20).for_each(|_| assert!(toy.tick().moves().is_empty(), "one rank is enough"));
        let crowd = 0.6 * 1000.0 * ranks as f64 / 200.0;
        toy.pieces.iter_mut().skip(1).for_each(|piece| piece.demand = crowd);
        (0..100).for_each(|_| assert!(toy.tick().faults().is_empty()));
        assert!(toy.demands().iter().all(|demand| *demand <= 850.0), "{:?}", toy.demands());
        (0..100).for_each(|_| assert!(toy.tick().moves().is_empty(), "it has come to rest"));
        toy.pieces.iter_mut().skip(1).for_each(|piece| piece.demand = 1.0);
        (0..300).for_each(|_| assert!(toy.tick().faults().is_empty()));
        assert_eq!(toy.demands()[0], 200.0, "all is back: {:?}", toy.demands());
    }
}

#[test]
fn moves_stop_whatever_it_begins_with() {
    let all = &[0.1, 0.4, 0.7, 0.84, 1.5][..];
    for (ranks, ticks, shares) in
        [(2, 1000, all), (3, 1000, all), (5, 1000, &all[2..]), (8, 1000, &all[2..4]), (64, 250, &all[2..3])]
    {
        for share in shares.iter().copied() {
            let mut toy = Toy::new("loligo", shipped("loligo.lua"), ranks).expect("loads");
            toy.late_news = ranks % 2 == 1 || share == 0.7;
            let root = toy.add(None, 0, 0.0);
            let mut random = Random::new(7);
            for _ in 0..8 * ranks {
                let dir = toy.add(Some(root), random.below(ranks as u64) as usize, 0.0);
                for part in 1..=4 {
                    toy.add(Some(dir), toy.pieces[dir].owner, f64::from(part) * share * 1000.0 / 80.0);
                }
            }
            let mut last = 0;
            let mut count = 0;
            for tick in 0..ticks {
                let ticked = toy.tick();
                assert!(ticked.faults().is_empty(), "{:?}", ticked.faults());
                count += ticked.moves().len();
                last = if ticked.moves().is_empty() { last } else { tick };
            }
            assert!(last < ticks / 2 + 80, "{ranks} ranks, {share}: last move in tick {last}, {count} in all");
        }
    }
}
