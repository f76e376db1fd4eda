//! Inodes that have moved away leave memory in steps, between which requests have their turn: none of them comes back
//! meanwhile.

use loligo_types::{Frag, Ino, Op, RankState};

use super::*;
use crate::Config;

/// Files: so many that they do not leave memory at once.
const FILES: usize = 700;

/// A directory of rank 0's with many files in a directory below it, which has moved to rank 1, a fragment of it if one is named.
/// It is in the table there by now, and nothing has left memory here. The client, the files, and the number of the migration.
fn moved(frag: Option<Frag>) -> (Cluster, usize, Vec<Ino>, u64) {
    // Many requests between two steps make the steps long.
    let mut cluster = Cluster::with_settings(&[RankState::Up; 2], |config| Config { shrink: 10, ..config });
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    let files: Vec<Ino> = (0..FILES).map(|n| cluster.touch(a, dir, &format!("f{n}"))).collect();
    if frag.is_none() {
        // It leaves memory after the files.
        let deep = cluster.mkdir(a, dir, "deep");
        for n in 0..FILES {
            cluster.call(a, rename(dir, &format!("f{n}"), deep, &format!("f{n}"))).expect("it is there");
        }
    }
    // All is in the table, and the record of the move names none of them.
    cluster.wait(10_000);
    let id = match frag {
        Some(frag) => cluster.begin_frag(dir, frag, 0, 1),
        None => cluster.begin_move(dir, 0, 1),
    };
    cluster.wait_for("the end of what keeps others waiting", |cluster| cluster.state(0, id) == "cleaning");
    (cluster, a, files, id)
}

#[test]
fn what_has_left_memory_is_not_read_again_while_its_directory_is_still_there() {
    for frag in [None, Some(Frag { bits: 1, value: 1 })] {
        let (mut cluster, a, files, id) = moved(frag);
        let at_once = |cluster: &Cluster| files.iter().filter(|ino| cluster.has(0, **ino)).count();
        let before = at_once(&cluster);
        let mut steps = 0;
        while cluster.state(0, id) == "cleaning" {
            steps += 1;
            let had = at_once(&cluster);
            for ino in &files {
                let stays = cluster.has(0, *ino) && frag.is_some();
                let outcome = cluster.ask(a, 0, Op::GetAttr { ino: *ino });
                let goes = matches!(outcome, Outcome::Redirected { rank: 1, .. });
                assert!(goes || stays, "{frag:?}, {ino} after {steps} steps: {outcome:?}");
            }
            assert!(at_once(&cluster) <= had, "{frag:?}: it comes back");
            cluster.wait(50);
        }
        assert!(steps > 2, "{steps}");
        let after = at_once(&cluster);
        assert!(if frag.is_some() { after < before } else { after == 0 }, "{after} of {before}");
        cluster.finish();
    }
}
