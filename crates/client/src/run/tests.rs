//! Data of a run that goes into the journal, in as many requests as it takes.

use loligo_types::limits::PATCH_BYTES_MAX;
use loligo_types::{Inode, Kind, Rank};

use super::*;

fn run(pieces: &[(u64, usize)]) -> Run {
    let attr = Inode::new(Ino(7), Kind::File, 0o644, 0, 0, Ino::ROOT, Time(1)).attr();
    let mut file = File::new(attr, Rank::ZERO);
    file.begin_run(1, Arc::new(Cred::root()));
    let mut run = file.run.take().expect("it begins");
    run.sync = true;
    run.queue = pieces.iter().map(|(offset, len)| (*offset, Arc::from(vec![b'x'; *len]))).collect();
    run
}

fn facts(journal_max: u64, mode: JournalMode) -> Facts {
    let journaling = Journaling::of(mode);
    Facts { inline_max: 0, reader: None, cut: false, unborn: false, journal_max, journaling }
}

/// The bytes of a run, each time that a request was answered: those in the next request, and those after it.
fn requests(run: &mut Run) -> Vec<(usize, usize)> {
    let mut seen = Vec::new();
    loop {
        let queued = run.queue.iter().map(|(_, data)| data.len()).sum();
        seen.push((run.patches.as_ref().map_or(0, |patches| patches.len()), queued));
        if run.queue.is_empty() || !run.next_patches(0) {
            return seen;
        }
    }
}

#[test]
fn more_data_than_a_request_takes_goes_in_several_and_none_is_left_out() {
    let mut run = run(&[(0, 100_000), (200_000, 50_000)]);
    run.log(&facts(64 << 10, JournalMode::Wasteless), 0);
    assert_eq!(requests(&mut run), [(65_536, 84_464), (65_536, 18_928), (18_928, 0)]);
}

#[test]
fn a_rank_that_names_a_limit_that_no_request_can_keep_loses_no_data() {
    let most = PATCH_BYTES_MAX;
    let mut run = run(&[(0, most + 1), (most as u64 + 1, 10)]);
    run.log(&facts(u64::MAX, JournalMode::Wasteless), 0);
    // Nothing is in a request, so all goes to objects.
    assert_eq!(requests(&mut run), [(0, most + 11)]);
}

#[test]
fn the_first_request_has_the_content_of_the_inode_or_none_has_any() {
    let pieces = [(0, 6_000), (6_000, 3_000)];
    let mut whole = run(&pieces);
    whole.log(&facts(4_096, JournalMode::Wasteless), 6_000);
    assert_eq!(requests(&mut whole)[0], (0, 9_000), "all to objects");
    let mut part = run(&pieces);
    part.log(&facts(8_000, JournalMode::Wasteless), 6_000);
    assert_eq!(requests(&mut part), [(8_000, 1_000), (1_000, 0)]);
}

#[test]
fn a_run_of_selective_journaling_goes_in_one_request_or_to_objects() {
    let mut many = run(&(0..=PATCHES_MAX as u64).map(|at| (at * 8192, 1)).collect::<Vec<_>>());
    many.log(&facts(64 << 10, JournalMode::Selective), 0);
    assert!(many.patches.is_none());
    let mut long = run(&[(0, 1025)]);
    long.log(&facts(1024, JournalMode::Selective), 0);
    assert!(long.patches.is_none());
}
