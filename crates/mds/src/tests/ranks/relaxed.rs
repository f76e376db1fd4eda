//! Relaxed directories where there are several ranks (`crate::relaxed`): which are relaxed, what waits because another rank is concerned, and what a
//! crash of one of the ranks takes. One rank: `crate::tests::relaxed`.

use loligo_namespace::SUBTREE;
use loligo_types::{Frag, Ino, Op, XattrMode};

use super::*;
use crate::peer::PeerMsg;

/// So long that the table has all, and policies were looked for, milliseconds.
const SETTLES_MS: u64 = 8_000;

fn set_policy(ino: Ino, text: &str) -> Op {
    Op::SetXattr { ino, name: SUBTREE.into(), value: text.as_bytes().into(), mode: XattrMode::Set }
}

fn mkdir(dir: Ino, text: &str) -> Op {
    Op::Mkdir { dir, name: name(text), mode: 0o755, umask: 0 }
}

/// Nothing gets durable by itself any more at these ranks.
fn stall(cluster: &mut Cluster, ranks: &[usize]) {
    for at in ranks {
        cluster.at(*at, |world| {
            world.sync();
            world.pump();
            world.syncs = false;
        });
    }
}

/// All does again.
fn go_on(cluster: &mut Cluster) {
    for at in 0..cluster.len() {
        cluster.at(at, |world| {
            world.syncs = true;
            world.sync();
            world.pump();
        });
    }
}

/// True if a rank answers a request before it is durable.
fn is_early(cluster: &mut Cluster, client: usize, at: usize, op: Op) -> bool {
    let seq = cluster.send(client, at, op);
    cluster.outcome(client, at, seq).is_some()
}

/// Two ranks, each with a relaxed directory, which are known, and for which numbers are reserved.
fn relaxed_here_and_there() -> (Cluster, usize, Ino, Ino) {
    let (mut cluster, a, here, there) = two_ranks();
    for (at, dir) in [(0, here), (1, there)] {
        cluster.call_by(a, at, &set_policy(dir, "preset = 'relaxed'")).0.expect("it is set");
    }
    cluster.wait(SETTLES_MS);
    reserve(&mut cluster, a, &[(0, here), (1, there)]);
    (cluster, a, here, there)
}

/// The first directory that is made reserves numbers.
fn reserve(cluster: &mut Cluster, client: usize, dirs: &[(usize, Ino)]) {
    for (at, dir) in dirs {
        cluster.call_by(client, *at, &mkdir(*dir, "first")).0.expect("it is made");
        cluster.call_by(client, *at, &mkdir(*dir, "second")).0.expect("it is made");
    }
}

#[test]
fn each_rank_has_relaxed_directories_of_its_own_and_what_moved_away_from_one_is_strict() {
    let (mut cluster, a, here, there) = relaxed_here_and_there();
    let child = cluster.mkdir(a, here, "child");
    stall(&mut cluster, &[0, 1]);
    assert!(is_early(&mut cluster, a, 0, mkdir(here, "a")));
    assert!(is_early(&mut cluster, a, 0, mkdir(child, "b")));
    assert!(is_early(&mut cluster, a, 1, mkdir(there, "c")));
    assert!(!is_early(&mut cluster, a, 0, mkdir(Ino::ROOT, "d")), "strict");
    go_on(&mut cluster);
    cluster.migrate(child, 0, 1);
    cluster.wait(SETTLES_MS);
    stall(&mut cluster, &[0, 1]);
    assert!(!is_early(&mut cluster, a, 1, mkdir(child, "e")), "its policy is that of a directory of another rank");
    assert!(is_early(&mut cluster, a, 0, mkdir(here, "f")));
    go_on(&mut cluster);
    // Back again it is relaxed as soon as all policies are known that may have come with it.
    cluster.migrate(child, 1, 0);
    cluster.wait(SETTLES_MS);
    stall(&mut cluster, &[0]);
    assert!(is_early(&mut cluster, a, 0, mkdir(child, "g")));
    go_on(&mut cluster);
    cluster.finish();
}

#[test]
fn a_relaxed_directory_that_moves_is_relaxed_where_it_comes_to_and_what_it_brings_with_a_policy_of_its_own_is_as_that_says()
 {
    let (mut cluster, a, here, there) = two_ranks();
    let (dir, safe) = (cluster.mkdir(a, here, "dir"), cluster.mkdir(a, here, "safe"));
    cluster.call(a, rename(here, "safe", dir, "safe")).expect("it is moved");
    cluster.call(a, set_policy(dir, "preset = 'relaxed'")).expect("it is set");
    cluster.call(a, set_policy(safe, "preset = 'posix'")).expect("it is set");
    cluster.wait(SETTLES_MS);
    cluster.migrate(dir, 0, 1);
    cluster.wait(SETTLES_MS);
    reserve(&mut cluster, a, &[(1, dir)]);
    stall(&mut cluster, &[0, 1]);
    assert!(is_early(&mut cluster, a, 1, mkdir(dir, "a")));
    assert!(!is_early(&mut cluster, a, 1, mkdir(safe, "b")));
    assert!(!is_early(&mut cluster, a, 1, mkdir(there, "c")));
    go_on(&mut cluster);
    cluster.finish();
}

#[test]
fn what_is_lent_is_durable_before_and_nothing_is_relaxed_until_it_is_decided() {
    let (mut cluster, a, here, there) = relaxed_here_and_there();
    stall(&mut cluster, &[1]);
    assert!(is_early(&mut cluster, a, 1, mkdir(there, "early")));
    cluster.hold(0, 1);
    let seq = cluster.send(a, 0, rename(here, "first", there, "moved"));
    while !cluster.waiting(0, 1).is_empty() {
        cluster.deliver(0, 1);
    }
    let is_lent = |cluster: &Cluster| cluster.waiting(1, 0).into_iter().any(|msg| matches!(msg, PeerMsg::Lent { .. }));
    assert!(!is_lent(&cluster), "what was made before in that directory may be lost");
    assert!(!is_early(&mut cluster, a, 1, mkdir(there, "late")), "the other rank may decide on it");
    cluster.at(1, |world| {
        world.sync();
        world.pump();
    });
    assert!(is_lent(&cluster));
    assert!(!is_early(&mut cluster, a, 1, mkdir(there, "later")));
    go_on(&mut cluster);
    cluster.release();
    cluster.wait(1000);
    assert!(cluster.outcome(a, 0, seq).is_some(), "it is done");
    stall(&mut cluster, &[1]);
    assert!(is_early(&mut cluster, a, 1, mkdir(there, "again")));
    go_on(&mut cluster);
    cluster.finish();
}

#[test]
fn a_rename_to_another_rank_and_what_follows_it_there_is_durable_before_it_is_answered() {
    let (mut cluster, a, here, there) = relaxed_here_and_there();
    stall(&mut cluster, &[0, 1]);
    assert!(!is_early(&mut cluster, a, 0, rename(here, "first", there, "moved")));
    assert!(!is_early(&mut cluster, a, 0, mkdir(here, "behind")), "what leads elsewhere is not durable");
    go_on(&mut cluster);
    cluster.finish();
}

#[test]
fn a_directory_in_fragments_of_several_ranks_is_strict() {
    let (mut cluster, a, here, _) = relaxed_here_and_there();
    let dir = cluster.mkdir(a, here, "dir");
    cluster.touch_all(a, dir, 20);
    let halves = Frag::WHOLE.split(1);
    cluster.migrate_frag(dir, halves[1], 0, 1);
    cluster.wait(SETTLES_MS);
    stall(&mut cluster, &[0, 1]);
    let mut asked = 0;
    for number in 0..20 {
        for at in [0, 1] {
            let seq = cluster.send(a, at, mkdir(dir, &format!("d{number}")));
            match cluster.outcome(a, at, seq) {
                Some(Outcome::Answered(result)) => panic!("rank {at} answers before it is durable: {result:?}"),
                Some(_) => {}
                None => asked += 1,
            }
        }
    }
    assert!(asked > 0);
    assert!(is_early(&mut cluster, a, 0, mkdir(here, "beside")));
    go_on(&mut cluster);
    cluster.finish();
}

#[test]
fn a_crash_of_one_rank_takes_nothing_of_the_relaxed_directories_of_another_one() {
    let (mut cluster, a, here, there) = relaxed_here_and_there();
    stall(&mut cluster, &[0, 1]);
    assert!(is_early(&mut cluster, a, 0, mkdir(here, "kept")));
    assert!(is_early(&mut cluster, a, 1, mkdir(there, "lost")));
    cluster.crash(1);
    go_on(&mut cluster);
    cluster.come_back(a, 1, Default::default());
    cluster.wait(SETTLES_MS);
    let names: Vec<String> = cluster.walk(a).into_keys().collect();
    assert!(names.iter().any(|name| name.contains("here/kept")), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("there/lost")), "{names:?}");
    assert!(names.iter().any(|name| name.contains("there/second")), "{names:?}");
    cluster.finish();
}
