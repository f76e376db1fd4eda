//! Counts of requests by ranks: by the placement of the directory, reasons of waits, lengths of paths.

use std::collections::BTreeMap;

use loligo_namespace::PLACEMENT;
use loligo_types::{FsError, Ino, Op, Placement, XattrMode};

use super::walks::{walk, walked};
use super::*;
use crate::{TallyStatus, WaitCount};

fn tally(cluster: &Cluster, at: usize) -> TallyStatus {
    cluster.world(at).mds.status().tally
}

/// Number of times that an operation was asked for in directories of a placement, over all ranks.
fn placed(cluster: &Cluster, placement: Placement, op: &str) -> u64 {
    let all = (0..cluster.len()).flat_map(|at| tally(cluster, at).placed);
    all.filter(|(of, name, _)| (*of, *name) == (placement, op)).map(|(.., count)| count).sum()
}

fn waited(cluster: &Cluster, at: usize, why: &str) -> WaitCount {
    let waits: BTreeMap<&str, WaitCount> = tally(cluster, at).waits.into_iter().collect();
    waits.get(why).copied().unwrap_or_default()
}

#[test]
fn requests_are_counted_by_how_the_directory_was_placed_that_they_were_in() {
    let mut cluster = Cluster::new(2);
    let a = cluster.client();
    for (text, placement) in
        [("g", Placement::Giga), ("r", Placement::Replicated), ("t", Placement::Table), ("i", Placement::TableInherit)]
    {
        let top = cluster.mkdir(a, Ino::ROOT, text);
        let value = placement.name().as_bytes().into();
        let set = Op::SetXattr { ino: top, name: PLACEMENT.into(), value, mode: XattrMode::Set };
        cluster.call(a, set).expect("root may");
        // Made in one that lives with its name; what is in it then counts for how it was made itself.
        let before = placed(&cluster, Placement::Subtree, "mkdir");
        let dir = cluster.mkdir(a, top, "d");
        assert_eq!(placed(&cluster, Placement::Subtree, "mkdir"), before + 1);
        let file = cluster.touch(a, dir, "f");
        assert_eq!((placed(&cluster, placement, "create"), placed(&cluster, placement, "getattr")), (1, 0));
        // By its number, too: a file's directory, and the directory itself, at the rank that has it; the other one sends on.
        cluster.attr(a, file).expect("it is there");
        cluster.attr(a, dir).expect("it is there");
        assert_eq!(placed(&cluster, placement, "getattr"), 2, "{text}");
        assert_eq!(cluster.lookup(a, dir, "no"), Err(FsError::NotFound));
        assert!(placed(&cluster, placement, "lookup") >= 1, "{text}: those that fail, too");
        let owner = usize::from(dir.zeroth_rank().expect("it is scattered").0);
        let other = 1 - owner;
        let sent_on = |cluster: &Cluster| {
            tally(cluster, other).redirected.iter().filter(|(of, _)| *of == placement).map(|(_, n)| *n).sum::<u64>()
        };
        let before = sent_on(&cluster);
        assert!(matches!(cluster.ask(a, other, Op::GetAttr { ino: dir }), Outcome::Redirected { .. }), "{text}");
        assert_eq!(sent_on(&cluster), before + 1, "{text}");
    }
    let all: u64 = (0..2).flat_map(|at| tally(&cluster, at).placed).map(|(.., count)| count).sum();
    let ops = (0..2).flat_map(|at| cluster.world(at).mds.status().ops);
    let in_dirs = ops.filter(|(name, _)| *name != "close").map(|(_, op)| op.count);
    assert_eq!(all, in_dirs.sum::<u64>(), "a handle is in no directory, all else here is");
    cluster.finish();
}

#[test]
fn what_requests_wait_for_is_counted_with_how_long_when_the_wait_is_over() {
    let (mut cluster, a, here, there) = two_ranks();
    cluster.touch(a, here, "f");
    let before = waited(&cluster, 0, "borrow");
    cluster.hold(0, 1);
    let seq = cluster.send(a, 0, rename(here, "f", there, "g"));
    cluster.wait(300);
    assert_eq!(cluster.outcome(a, 0, seq), None);
    assert_eq!(waited(&cluster, 0, "borrow"), before, "it waits still");
    cluster.release();
    assert!(cluster.outcome(a, 0, seq).is_some());
    let after = waited(&cluster, 0, "borrow");
    assert!(after.count > before.count && after.ms >= before.ms + 300, "{before:?} {after:?}");
    // What was in memory is read anew.
    cluster.crash(1);
    assert!(cluster.lookup(a, there, "g").is_ok());
    assert!(waited(&cluster, 1, "load").count + waited(&cluster, 1, "peers").count > 0, "{:?}", tally(&cluster, 1));
    cluster.finish();
}

#[test]
fn paths_are_counted_by_length_with_those_that_took_a_shortcut_or_went_on_elsewhere() {
    let (mut cluster, a, here, there) = two_ranks();
    let d = cluster.mkdir(a, here, "d");
    let (f, e) = (cluster.touch(a, d, "f"), cluster.mkdir(a, there, "e"));
    cluster.touch(a, e, "g");
    for _ in 0..3 {
        assert_eq!(walked(&mut cluster, a, 0, walk(Ino::ROOT, &["here", "d", "f"])), Ok((3, d, f, None)));
    }
    assert_eq!(walked(&mut cluster, a, 0, walk(Ino::ROOT, &["here"])).map(|found| found.0), Ok(1));
    // The other rank has the rest, twice.
    for _ in 0..2 {
        let parted = walked(&mut cluster, a, 0, walk(Ino::ROOT, &["there", "e", "x", "y", "z"]));
        assert_eq!(parted, Ok((1, Ino::ROOT, there, Some(1))));
    }
    let walks: Vec<_> = tally(&cluster, 0).walks.iter().map(|w| (w.names, w.all, w.shortcut, w.parted)).collect();
    assert_eq!(walks, [((1, 1), 1, 0, 0), ((3, 3), 3, 2, 0), ((5, 6), 2, 0, 2)]);
    // Where the names lead is where the request is.
    assert_eq!(tally(&cluster, 1).walks, []);
    cluster.finish();
}
