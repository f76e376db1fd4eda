//! Policies that come with Loligo on small workloads: that they work at all with the real machines, and do what each is for.

use loligo_balancer::shipped_names;
use loligo_workload::Spec;

use crate::{Costs, Plan, PolicyDecider, Report, run};

fn plan(ranks: usize, spec: &str) -> Plan {
    let workload: Spec = spec.parse().expect("a workload");
    Plan { balance_ms: 1000, ..Plan::new(ranks, workload).expect("costs") }
}

fn by(policy: &str, plan: &Plan) -> Report {
    let mut decider = PolicyDecider::shipped(policy).expect("it comes with Loligo").expect("it can be read");
    let report = run(plan, Some(&mut decider), &mut |_| {}).expect("it runs");
    assert_eq!((report.failed, &report.first_failure), (0, &None), "{policy}");
    report
}

/// A machine on which all that threads do takes so many times as long: as much virtual time for fewer calls.
fn slow(plan: Plan, times: u64) -> Plan {
    let Costs { create, stat, rename, unlink, peer, step, .. } = plan.costs;
    let [create, stat, rename, unlink, peer, step] =
        [create, stat, rename, unlink, peer, step].map(|cost| cost * times);
    Plan { costs: Costs { create, stat, rename, unlink, peer, step, ..plan.costs }, ..plan }
}

/// More than a rank can do, for some seconds.
fn full(ranks: usize, seconds: u64) -> Plan {
    let plan = plan(ranks, "create-shared:clients=4,files=1000000,lanes=12");
    slow(Plan { seconds, ..plan }, 100)
}

#[test]
fn the_same_seed_and_policy_give_the_same_report() {
    let plan = full(3, 12);
    let first = by("loligo", &plan);
    assert!(!first.moves.is_empty() && first.policy == "loligo");
    assert_eq!(first, by("loligo", &plan));
}

#[test]
fn every_policy_that_comes_with_loligo_runs_without_a_fault() {
    for name in shipped_names() {
        for spec in
            ["create-shared:clients=4,files=400,lanes=4,think=20000", "compile:clients=2,dirs=4,units=3,think=2000"]
        {
            let report = by(name, &plan(3, spec));
            assert_eq!((report.faults, &report.first_fault), (0, &None), "{name} {spec}");
            assert!(report.is_complete && report.decisions > 0, "{name} {spec}");
        }
    }
}

#[test]
fn greedy_spill_gives_half_from_rank_to_rank() {
    let report = by("greedy_spill", &full(4, 30));
    let last = report.seconds.iter().rev().take(8);
    let mut share = vec![0; 4];
    last.for_each(|second| share.iter_mut().zip(&second.replies).for_each(|(sum, replies)| *sum += replies));
    assert!(share.iter().all(|replies| *replies > 0), "{share:?} {:?}", report.moves);
    assert!((2..=12).contains(&report.moves.len()), "{:?}", report.moves);
}

#[test]
fn fill_and_spill_leaves_ranks_alone_that_are_not_needed() {
    let report = by("fill_and_spill", &full(4, 20));
    assert!(report.by_rank[1] > 0 && report.by_rank[3] == 0, "{:?} {:?}", report.by_rank, report.moves);
    assert!(report.by_rank[0] > report.by_rank[1], "{:?}", report.by_rank);
}

#[test]
fn a_policy_that_fails_is_counted_and_nothing_moves() {
    let mut decider = PolicyDecider::new("bad", "when = 'error(1)'\nwhere = ''").expect("it can be read");
    let report = run(&full(2, 4), Some(&mut decider), &mut |_| {}).expect("it runs");
    assert!(report.faults > 2 && report.moves.is_empty() && report.first_fault.is_some());
    assert!(PolicyDecider::new("bad", "when = 'this is no Lua'\nwhere = ''").is_err());
    assert!(PolicyDecider::shipped("nothing").is_none());
}
