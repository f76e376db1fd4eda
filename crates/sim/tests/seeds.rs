//! Seeds that must be clean, seeds that once were not, and deliberate faults that must be found.

use loligo_sim::{Canary, Options, run};

fn assert_clean(seeds: impl IntoIterator<Item = u64>) {
    for seed in seeds {
        let outcome = run(seed, Options::default());
        assert!(
            outcome.findings.is_empty(),
            "seed {seed} (look at it with `cargo run -p loligo-sim --example soak -- --seed {seed} --trace`): {:#?}",
            outcome.findings
        );
    }
}

/// How many seeds until the fault shows.
fn found_after(canary: Canary, most: u64) -> u64 {
    let options = Options { canary: Some(canary), ..Options::default() };
    let found = (0..most).find(|seed| !run(*seed, options.clone()).findings.is_empty());
    found.unwrap_or_else(|| panic!("{canary:?} was not found with {most} seeds")) + 1
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [1, 2, 60] {
        let options = Options { trace: true, ..Options::default() };
        let (first, second) = (run(seed, options.clone()), run(seed, options));
        assert!(first == second, "seed {seed} ran differently the second time");
        assert!(first.events > 1000 && first.calls > 100, "seed {seed} did next to nothing: {first:?}");
    }
    assert_ne!(run(1, Options::default()).trace_hash, run(2, Options::default()).trace_hash);
}

#[test]
fn seeds_are_clean() {
    assert_clean(0..120);
}

#[test]
fn answers_before_the_journal_is_written_are_found() {
    found_after(Canary::EarlyDurable, 40);
}

#[test]
fn a_journal_sync_that_does_not_sync_is_found() {
    found_after(Canary::JournalSyncDoesNothing, 40);
}

#[test]
fn a_data_sync_that_does_not_sync_is_found() {
    found_after(Canary::DataSyncDoesNothing, 40);
}

#[test]
fn a_record_left_out_of_replay_is_found() {
    found_after(Canary::ReplaySkips, 40);
}

#[test]
fn recalls_that_nobody_obeys_are_found() {
    found_after(Canary::RecallsDropped, 40);
}

#[test]
fn a_session_that_is_forgotten_is_found() {
    found_after(Canary::SessionForgotten, 40);
}
