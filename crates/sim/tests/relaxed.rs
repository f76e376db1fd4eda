//! Seeds in which some directories are relaxed: they must be clean, and deliberate faults must be found. Seeds without such directories:
//! `seeds.rs`. More of them: `soak --relaxed`.

use loligo_sim::relaxed::Counts;
use loligo_sim::{Canary, Options, run};

fn relaxed() -> Options {
    Options { relaxed: true, duration_ms: 3_000, ..Options::default() }
}

/// Runs seeds; what was done in relaxed directories.
fn assert_clean(options: &Options, seeds: std::ops::Range<u64>) -> Counts {
    let mut sum = Counts::default();
    for seed in seeds {
        let outcome = run(seed, options.clone());
        let (from, to) = options.ranks;
        assert!(
            outcome.findings.is_empty(),
            "seed {seed} (`soak --relaxed --ms {} --ranks {from}..{to} --seed {seed} --trace`): {:#?}",
            options.duration_ms,
            outcome.findings
        );
        sum.add(&outcome.relaxed);
    }
    sum
}

/// A fault shows within so many seeds.
fn assert_found(options: &Options, canary: Canary, most: u64) {
    let options = Options { canary: Some(canary), ..options.clone() };
    let found = (0..most).any(|seed| !run(seed, options.clone()).findings.is_empty());
    assert!(found, "{canary:?} was not found with {most} seeds");
}

#[test]
fn a_crash_takes_back_the_end_of_what_was_done_in_relaxed_directories_and_whoever_lost_something_hears_of_it() {
    let sum = assert_clean(&relaxed(), 0..200);
    assert!(sum.early > 1000 && sum.lost > 60 && sum.told > 40, "hardly anything is answered early, or lost: {sum:?}");
    assert!(sum.synced > 600 && sum.policies > 100 && sum.cached > 30, "hardly anything is synced or cached: {sum:?}");
    assert_clean(&Options { full: true, clocks: true, ..relaxed() }, 0..40);
}

#[test]
fn the_same_seed_gives_the_same_trace_with_relaxed_directories() {
    let options = Options { trace: true, ..relaxed() };
    for seed in [1, 16] {
        let (first, second) = (run(seed, options.clone()), run(seed, options.clone()));
        assert!(first == second, "seed {seed} ran differently the second time");
    }
}

#[test]
fn an_fsync_that_does_not_wait_for_what_was_answered_early_is_found() {
    assert_found(&relaxed(), Canary::PersistAnsweredEarly, 200);
}

#[test]
fn a_crash_that_is_kept_from_those_who_lost_something_is_found() {
    assert_found(&relaxed(), Canary::LossNotTold, 60);
}

#[test]
fn a_rename_over_the_edge_of_a_relaxed_directory_that_is_answered_before_it_is_durable_is_found() {
    assert_found(&relaxed(), Canary::EdgeAnsweredEarly, 400);
}

#[test]
fn a_lag_that_is_longer_than_the_policy_says_is_found() {
    assert_found(&relaxed(), Canary::LagIgnored, 200);
}
