//! Placements and programs that ask by path, each on a tree small enough for a test.

use loligo_types::Placement;
use loligo_workload::Spec;

use crate::{Part, Plan, Report, Spread, run};

const MIX: &str = "linkedin:clients=3,lanes=2,dirs=120,files=600,calls=2400";
const STATS: &str = "tree-synthetic:clients=2,lanes=4,dirs=200,files=2000,stats=4000";

fn plan(placement: Placement, by_path: bool, spec: &str) -> Plan {
    let workload: Spec = spec.parse().expect("a workload");
    Plan { placement, by_path, rest_ms: 1500, ..Plan::new(4, workload).expect("costs") }
}

fn done(plan: &Plan) -> Report {
    let report = run(plan, None, &mut |_| {}).expect("it runs");
    assert!(report.is_complete, "it ends before its time is up");
    assert_eq!((report.failed, &report.first_failure), (0, &None));
    report
}

fn part<'a>(report: &'a Report, name: &str) -> &'a Part {
    report.parts.iter().find(|part| part.name == name).expect("there is such a phase")
}

#[test]
fn the_same_seed_gives_the_same_report_under_any_placement() {
    for (placement, by_path) in [(Placement::Giga, false), (Placement::Giga, true), (Placement::Replicated, true)] {
        let plan = plan(placement, by_path, MIX);
        let first = done(&plan);
        assert_eq!(first, done(&plan));
        assert_ne!(first.parts, done(&Plan { seed: 2, ..plan }).parts);
    }
}

#[test]
fn giga_puts_directories_on_all_ranks_and_subtree_on_one() {
    for by_path in [false, true] {
        let made = done(&plan(Placement::Giga, by_path, MIX));
        let files = part(&made, "populate");
        assert!(files.by_rank.iter().all(|requests| *requests > 50), "{:?}", files.by_rank);
        let made = done(&plan(Placement::Subtree, by_path, MIX));
        assert!(part(&made, "populate").by_rank[1..].iter().all(|requests| *requests == 0));
    }
}

#[test]
fn a_stat_by_path_is_one_request_under_replicated_wherever_it_is() {
    for (placement, most) in [(Placement::Subtree, 1.0), (Placement::Replicated, 1.02), (Placement::Giga, 1.2)] {
        let report = done(&plan(placement, true, STATS));
        let stats = part(&report, "stat");
        assert!((1.0..=most).contains(&stats.per_call()), "{placement:?}: {}", stats.per_call());
        assert_eq!(stats.calls, 4000);
        // Nothing is held that could be asked back.
        assert_eq!(report.recalls, 0);
    }
}

#[test]
fn parts_have_all_calls_and_requests_of_a_run() {
    let report = done(&plan(Placement::Replicated, true, MIX));
    assert_eq!(report.parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>(), ["", "populate", "replay"]);
    assert_eq!(report.parts.iter().map(|part| part.calls).sum::<u64>(), report.calls);
    let requests: u64 = report.parts.iter().flat_map(|part| &part.by_rank).sum();
    assert_eq!(requests, report.requests + report.redirects);
    let replay = part(&report, "replay");
    assert_eq!(replay.kinds.iter().map(|kind| kind.calls).sum::<u64>(), 2400);
    assert!(replay.kind("chmod").is_some_and(|times| times.p50_us <= times.p70_us && times.p70_us <= times.p99_us));
    assert_eq!(report.parts_csv().lines().count(), report.parts.iter().map(|part| part.kinds.len()).sum::<usize>());
    let columns = |line: &str| line.matches(',').count();
    assert_eq!(report.parts_csv().lines().next().map(columns), Some(columns(Report::parts_csv_head())));
}

#[test]
fn directories_cannot_be_dealt_out_in_two_ways_at_once() {
    let both = Plan { spread: Spread::Hashed, ..plan(Placement::Giga, false, MIX) };
    assert!(run(&both, None, &mut |_| {}).is_err_and(|text| text.contains("only one of them")));
}
