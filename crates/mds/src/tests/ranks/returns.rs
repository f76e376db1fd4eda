//! Inodes that have moved away come back while the rank still drops them from memory.

use loligo_types::{Frag, Ino};

use super::*;

/// Inodes besides: what moves is dropped from memory some hundred at a time.
const FILES: usize = 3000;
/// Files that are made: some of their names are in each half.
const NEW: usize = 12;

/// Rank 0 has much in memory, and a directory with a file, which has just moved to rank 1 with all its names (a fragment of it if
/// one is named): it is being dropped here.
fn just_moved(frag: Option<Frag>) -> (Cluster, usize, Ino) {
    let mut cluster = Cluster::new(2);
    let a = cluster.client();
    let much = cluster.mkdir(a, Ino::ROOT, "much");
    cluster.touch_all(a, much, FILES);
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    cluster.touch(a, dir, "f");
    let id = match frag {
        Some(frag) => cluster.begin_frag(dir, frag, 0, 1),
        None => cluster.begin_move(dir, 0, 1),
    };
    cluster.wait_for("cleaning", |cluster| cluster.state(0, id) == "cleaning");
    (cluster, a, dir)
}

/// It comes back as soon as it may, and files are made in it; rank 0 has done all its dropping then.
fn come_back_and_make_files(mut cluster: Cluster, client: usize, dir: Ino, back: u64) {
    cluster.wait_for("the way back", |cluster| {
        let state = cluster.state(1, back);
        assert!(!state.starts_with("failed"), "{state}");
        matches!(&state[..], "cleaning" | "done")
    });
    let texts: Vec<String> = (0..NEW).map(|n| format!("new {n}")).collect();
    let files: Vec<(&str, Ino)> = texts.iter().map(|text| (&text[..], cluster.touch(client, dir, text))).collect();
    cluster.wait_for("the end of the dropping", |cluster| cluster.world(0).mds.under_way().is_empty());
    for (text, file) in files {
        assert_eq!(cluster.lookup(client, dir, text), Ok(file), "{text}");
        assert_eq!(cluster.attr(client, file).map(|attr| attr.ino), Ok(file), "{text}");
    }
    assert_eq!(cluster.walk(client).len(), FILES + 3 + NEW);
    cluster.finish();
}

#[test]
fn a_directory_comes_back_only_when_it_is_dropped_and_what_is_made_in_it_then_stays() {
    let (mut cluster, a, dir) = just_moved(None);
    let back = cluster.begin_move(dir, 1, 0);
    come_back_and_make_files(cluster, a, dir, back);
}

#[test]
fn a_fragment_comes_back_only_when_it_is_dropped_and_what_is_made_in_it_then_stays() {
    let frag = Frag { bits: 1, value: 1 };
    let (mut cluster, a, dir) = just_moved(Some(frag));
    let back = cluster.begin_frag(dir, frag, 1, 0);
    come_back_and_make_files(cluster, a, dir, back);
}
