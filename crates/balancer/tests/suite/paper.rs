//! The policies of the paper, corrected, on toy clusters: the distributions that the paper and its errata name. The listings as
//! printed are here only, to show why they are not shipped.

use crate::support::{decide, hooks, plain, shipped, snapshot};
use loligo_balancer::toy::Toy;
use loligo_balancer::{FaultKind, Limits};

/// Final share of each of `ranks` ranks, in percent, of 1024 equal directories that all began on rank 0.
fn spread(policy: &str, ranks: usize, ticks: usize) -> Vec<f64> {
    let limits = Limits { moves: 4096, ..Limits::deterministic() };
    let mut toy = Toy::with_limits(policy, shipped(policy), ranks, &limits).expect("loads");
    toy.add_flat(1024, 1024.0);
    for _ in 0..ticks {
        let ticked = toy.tick();
        assert!(ticked.faults().is_empty(), "{policy} at {ranks} ranks: {:?}", ticked.faults());
    }
    toy.demands().iter().map(|demand| demand / 1024.0 * 100.0).collect()
}

fn is_near(found: &[f64], expected: &[f64]) -> bool {
    found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.5)
}

#[test]
fn greedy_spill_halves_from_rank_to_rank() {
    for ranks in 2..=16 {
        let mut expected: Vec<f64> = (1..ranks).map(|at| 100.0 / f64::from(1 << at)).collect();
        expected.push(expected[ranks - 2]);
        let found = spread("greedy_spill.toml", ranks, ranks + 5);
        assert!(is_near(&found, &expected), "{ranks}: {found:?}");
    }
    assert!(is_near(&spread("greedy_spill.toml", 4, 3), &[50.0, 25.0, 12.5, 12.5]), "in N - 1 rounds");
}

#[test]
fn greedy_spill_evenly_is_even_for_two_and_four_and_not_for_eight() {
    assert!(is_near(&spread("greedy_spill_even.toml", 2, 10), &[50.0; 2]));
    assert!(is_near(&spread("greedy_spill_even.toml", 4, 2), &[25.0; 4]), "in two rounds");
    let eight = spread("greedy_spill_even.toml", 8, 20);
    assert!(is_near(&eight, &[6.25, 6.25, 12.5, 12.5, 12.5, 25.0, 12.5, 12.5]), "{eight:?}");
    for ranks in 2..=16 {
        let found = spread("greedy_spill_even.toml", ranks, 20);
        assert!((found.iter().sum::<f64>() - 100.0).abs() < 1e-6, "{ranks}: {found:?}");
    }
}

#[test]
fn the_scalable_one_is_even_for_all_powers_of_two() {
    for (ranks, rounds) in [(2, 1), (4, 2), (8, 3), (16, 4), (32, 5)] {
        let found = spread("greedy_spill_scalable.lua", ranks, rounds);
        assert!(is_near(&found, &vec![100.0 / ranks as f64; ranks]), "{ranks}: {found:?}");
    }
    assert_eq!(spread("greedy_spill_scalable.lua", 7, 10).iter().filter(|share| **share > 0.0).count(), 7);
}

#[test]
fn fill_and_spill_fires_on_the_third_overloaded_tick_and_starts_again_after_an_idle_one() {
    let mut toy = Toy::new("fill", shipped("fill_and_spill.toml"), 4).expect("loads");
    toy.add_flat(64, 900.0);
    let moved: Vec<usize> = (0..2).map(|_| toy.tick().moves().len()).collect();
    assert_eq!(moved, [0, 0]);
    toy.pieces.iter_mut().for_each(|piece| piece.demand /= 10.0);
    assert!(toy.tick().moves().is_empty());
    toy.pieces.iter_mut().for_each(|piece| piece.demand *= 10.0);
    let moved: Vec<bool> = (0..3).map(|_| toy.tick().moves().is_empty()).collect();
    assert_eq!(moved, [true, true, false]);
}

#[test]
fn fill_and_spill_uses_two_of_four_ranks_and_never_moves_more_than_there_is() {
    let mut toy = Toy::new("fill", shipped("fill_and_spill.toml"), 4).expect("loads");
    toy.add_flat(64, 600.0);
    for _ in 0..50 {
        let before = toy.demands();
        let moves = toy.tick().moves();
        for (from, to, _) in &moves {
            assert_eq!((*from, *to), (0, 1));
        }
        assert!(moves.iter().map(|step| step.2).sum::<f64>() <= before[0]);
    }
    let demands = toy.demands();
    assert!(demands[0] > 400.0 && demands[1] > 100.0 && demands[2] == 0.0 && demands[3] == 0.0, "{demands:?}");
}

#[test]
fn adaptable_has_one_exporter_at_a_time() {
    for policy in ["adaptable_aggressive.toml", "adaptable_conservative.toml"] {
        let mut toy = Toy::new(policy, shipped(policy), 5).expect("loads");
        toy.add_flat(500, 5000.0);
        let mut moved = false;
        for _ in 0..20 {
            let ticked = toy.tick();
            assert!(ticked.faults().is_empty(), "{:?}", ticked.faults());
            let mut exporters: Vec<usize> = ticked.moves().iter().map(|step| step.0).collect();
            exporters.dedup();
            assert!(exporters.len() <= 1);
            moved |= !exporters.is_empty();
        }
        assert!(moved, "{policy}");
        assert!(
            toy.demands().iter().all(|demand| *demand <= 5000.0 * 0.55),
            "nobody has most of it: {:?}",
            toy.demands()
        );
    }
}

#[test]
fn adaptable_does_not_give_away_more_than_it_has_too_much() {
    // Two big ones and eight empty ones: the gaps together are more than the biggest has.
    let loads = [51.0, 49.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let printed = hooks(
        "MDSs[whoami].load > total/2",
        "for i=1,#MDSs do if MDSs[i].load < total/#MDSs then targets[i] = total/#MDSs - MDSs[i].load end end",
    );
    let fault = decide(&printed, &snapshot(0, &loads, &[0.51; 100])).fault.expect("more than there is");
    assert_eq!(fault.kind, FaultKind::Target);
    let outcome = decide(shipped("adaptable_aggressive.toml"), &snapshot(0, &loads, &[0.51; 100]));
    assert_eq!(outcome.fault, None);
    let sum: f64 = outcome.explain.targets.iter().map(|target| target.1).sum();
    assert!(sum <= 41.0 + 1e-9, "{sum}");
}

#[test]
fn the_cephfs_balancer_evens_out_and_the_patient_one_waits_for_the_third_tick() {
    let mut toy = Toy::new("ceph", shipped("cephfs.toml"), 3).expect("loads");
    toy.add_flat(300, 900.0);
    (0..20).for_each(|_| assert!(toy.tick().faults().is_empty()));
    assert!(toy.imbalance() < 1.35, "{:?}", toy.demands());
    let mut toy = Toy::new("ceph", shipped("cephfs_overload.lua"), 3).expect("loads");
    toy.add_flat(300, 900.0);
    let moved: Vec<bool> = (0..3).map(|_| !toy.tick().moves().is_empty()).collect();
    assert_eq!(moved, [false, false, true]);
}

#[test]
fn every_shipped_policy_holds_still_alone_and_never_faults_at_any_size() {
    for (name, text) in loligo_balancer::embedded() {
        for ranks in [1, 2, 3, 5, 7, 16] {
            let mut toy = Toy::new(name, text, ranks).expect("loads");
            toy.add_flat(100, 3000.0);
            for _ in 0..12 {
                let ticked = toy.tick();
                assert!(ticked.faults().is_empty(), "{name} at {ranks}: {:?}", ticked.faults());
                assert!(ranks > 1 || ticked.moves().is_empty());
            }
        }
    }
}

#[test]
fn the_worked_example_moves_what_the_paper_says() {
    let loads = [12.7, 13.3, 13.3, 14.6, 15.7, 13.5, 13.7, 14.6];
    let text =
        hooks("true", "targets[2] = 55.6").replace("['big_first']", "['big_first','small_first','big_small','half']");
    let outcome = decide(&text, &snapshot(0, &[111.4, 0.0], &loads));
    let round = &outcome.explain.rounds[0];
    assert_eq!(round.tried[round.winner.expect("one wins")].selector, "big_small");
    let moved: Vec<f64> = outcome.decision.moves.iter().map(|step| step.load).collect();
    assert_eq!(moved, [15.7, 12.7, 14.6, 13.3]);
}

#[test]
fn the_nearest_selector_wins_however_many_pieces_it_takes_and_only_best_weighs_that() {
    let mut loads = [1.0; 17];
    loads[16] = 15.5;
    let chosen = |selectors: &str| {
        let text = hooks("true", "targets[2] = 16").replace("['big_first']", selectors);
        let outcome = decide(&text, &snapshot(0, &[32.5, 0.0], &loads));
        let round = &outcome.explain.rounds[0];
        let winner = round.winner.map(|at| round.tried[at].selector.clone()).expect("one wins");
        (winner, outcome.decision.moves.len())
    };
    assert_eq!(chosen("['big_first', 'small_first']"), ("small_first".to_string(), 16));
    assert_eq!(chosen("['best']"), ("best".to_string(), 1));
    assert_eq!(chosen("['best', 'small_first']"), ("small_first".to_string(), 16));
}

#[test]
fn the_second_listing_as_printed_never_moves_anything() {
    let printed = hooks(
        "t=((#MDSs-whoami+1)/2)+whoami if t>#MDSs then t=whoami end while t~=whoami and MDSs[t]<.01 do t=t-1 end \
         if MDSs[whoami]['load']>.01 and MDSs[t]['load']<.01 then",
        "targets[t]=MDSs[whoami]['load']/2",
    );
    let inverted = printed
        .replace("MDSs[t]<.01", "MDSs[t]['load']<.01")
        .replace("((#MDSs-whoami+1)/2)", "math.floor((#MDSs-whoami+1)/2)");
    for ranks in 2..=16u16 {
        let mut loads = vec![0.0; usize::from(ranks)];
        loads[0] = 100.0;
        let snapshot = snapshot(0, &loads, &[10.0; 10]);
        assert!(decide(&printed, &snapshot).fault.is_some(), "compares a table with a number");
        let outcome = decide(&inverted, &snapshot);
        assert!(outcome.fault.is_none() && outcome.decision.moves.is_empty(), "walks past the idle ones");
    }
}

#[test]
fn the_example_with_a_slip_in_a_name_is_told_what_was_meant() {
    let fault = decide(&hooks("true", "targets[2] = MDSS[whoami+1]['load']/2"), &plain()).fault.expect("no such name");
    assert!(fault.hook == "where" && fault.text.contains("did you mean `MDSs`?"), "{fault}");
}

#[test]
fn fill_and_spill_without_its_first_state_goes_off_at_once() {
    let text = shipped("fill_and_spill.toml").replace("state = 2\n", "");
    let mut toy = Toy::new("fill", &text, 2).expect("loads");
    toy.add_flat(64, 900.0);
    assert!(!toy.tick().moves().is_empty(), "the state begins with 0 where a policy sets none");
}
