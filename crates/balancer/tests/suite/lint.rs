//! Findings of the lint: none in our own policy, and in others their known faults.

use crate::support::{hooks, shipped};
use loligo_balancer::lint::Scene;
use loligo_balancer::{FaultKind, LintReport, lint};

fn has(report: &LintReport, text: &str) -> bool {
    report.warnings.iter().any(|warning| warning.contains(text))
}

#[test]
fn there_is_nothing_to_say_about_our_own_policy() {
    let report = lint("loligo.lua", shipped("loligo.lua"));
    assert!(report.is_usable() && report.warnings.is_empty(), "{}", report.lines().join("\n"));
    let crowd = report.cases.iter().find(|case| case.scene == Scene::FlashCrowd && case.ranks == 5).expect("a case");
    assert!(crowd.moves > 0);
}

#[test]
fn what_faults_where_there_is_no_next_rank_is_found() {
    let report = lint(
        "greedy",
        &hooks("MDSs[whoami].load > .01 and MDSs[whoami+1].load < .01", "targets[whoami+1] = allmetaload/2"),
    );
    assert!(!report.is_usable() && has(&report, "ends with a fault"), "{}", report.lines().join("\n"));
    let alone = report.cases.iter().filter(|case| case.ranks == 1);
    assert!(alone.clone().count() > 2 && alone.clone().all(|case| case.faults == 0), "alone nothing is asked");
}

#[test]
fn what_never_rests_and_what_never_moves_is_found() {
    let report = lint(
        "always",
        &hooks("true", "targets[whoami % #MDSs + 1] = MDSs[whoami].load/2").replace("big_first", "half"),
    );
    assert!(
        has(&report, "does not come to rest") && has(&report, "moves something for noise"),
        "{}",
        report.lines().join("\n")
    );
    let report = lint("never", &hooks("false", ""));
    assert!(report.is_usable() && has(&report, "moves nothing although"), "{}", report.lines().join("\n"));
}

#[test]
fn slips_in_names_are_found() {
    let file = "function when() return false end function howmuc() end function helper() end
        function metalod(IRD, IWR) return IWR end";
    let report = lint("slips", file);
    assert!(
        has(&report, "did you mean `howmuch`?") && has(&report, "did you mean `metaload`?"),
        "{:?}",
        report.warnings
    );
    assert!(has(&report, "`local helper`"), "{:?}", report.warnings);
}

#[test]
fn what_does_not_load_is_told() {
    let report = lint("broken", "function when() return 1 +");
    assert_eq!(report.refused.as_ref().expect("refused").kind, FaultKind::Load);
    assert!(report.lines()[0].contains("refused") && report.cases.is_empty());
}
