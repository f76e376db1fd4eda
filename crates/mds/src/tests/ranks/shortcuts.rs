//! Paths whose directories are known as one step: that it is taken, and that it goes with whatever it led through.

use std::sync::Arc;

use loligo_types::{Answer, FsError, Ino, Name, Op, Replicas};

use super::walks::{chmod, here_walk, walk, walked};
use super::*;

const PATH: &[&str] = &["a", "b", "c", "f"];

/// `/a/b/c/f` at rank 0.
fn deep(cluster: &mut Cluster, client: usize) -> [Ino; 4] {
    let a = cluster.mkdir(client, Ino::ROOT, "a");
    let b = cluster.mkdir(client, a, "b");
    let c = cluster.mkdir(client, b, "c");
    [a, b, c, cluster.touch(client, c, "f")]
}

fn taken(cluster: &Cluster, at: usize) -> u64 {
    cluster.world(at).mds.status().paths.shortcuts_taken
}

/// Result of a walk: see [`walked`].
type Found = Result<(u32, Ino, Ino, Option<usize>), FsError>;

/// Number of shortcuts taken by a walk that is done twice and must lead to the same both times.
fn taken_by(cluster: &mut Cluster, client: usize, at: usize, op: &Op) -> (Found, u64) {
    let before = taken(cluster, at);
    let first = walked(cluster, client, at, op.clone());
    assert_eq!(walked(cluster, client, at, op.clone()), first);
    (first, taken(cluster, at) - before)
}

#[test]
fn the_second_time_the_directories_of_a_path_are_one_step() {
    let mut cluster = Cluster::new(1);
    let one = cluster.client();
    let [a, b, c, f] = deep(&mut cluster, one);
    let found = Ok((4, c, f, None));
    assert_eq!(taken_by(&mut cluster, one, 0, &walk(Ino::ROOT, PATH)), (found, 1));
    assert_eq!(taken_by(&mut cluster, one, 0, &walk(Ino::ROOT, PATH)), (found, 2));
    // Other names in the same directory, also one that is not there, and the directory itself from where it is one step less.
    let g = cluster.touch(one, c, "g");
    assert_eq!(taken_by(&mut cluster, one, 0, &walk(Ino::ROOT, &["a", "b", "c", "g"])), (Ok((4, c, g, None)), 2));
    assert_eq!(taken_by(&mut cluster, one, 0, &walk(Ino::ROOT, &["a", "b", "c", "no"])), (Err(FsError::NotFound), 2));
    assert_eq!(taken_by(&mut cluster, one, 0, &walk(Ino::ROOT, &["a", "b", "c"])), (Ok((3, b, c, None)), 1));
    assert_eq!(taken_by(&mut cluster, one, 0, &walk(a, &["b", "c", "f"])), (Ok((3, c, f, None)), 1));
    assert_eq!(cluster.world(0).mds.status().paths.shortcuts, 3);
    cluster.finish();
}

#[test]
fn what_changes_on_the_way_is_so_for_the_next_who_goes_it() {
    let mut cluster = Cluster::new(1);
    let (one, user) = (cluster.client(), cluster.client());
    cluster.at(0, |world| world.clients[user].uid = 7);
    let [a, b, c, f] = deep(&mut cluster, one);
    let op = walk(Ino::ROOT, PATH);
    let found = Ok((4, c, f, None));
    assert_eq!(taken_by(&mut cluster, user, 0, &op), (found, 1));
    // Nobody but the owner, then everybody again: it is looked who asks where not all may.
    assert!(cluster.call(one, chmod(b, 0o700)).is_ok());
    assert_eq!(taken_by(&mut cluster, user, 0, &op), (Err(FsError::Access), 0));
    assert_eq!(taken_by(&mut cluster, one, 0, &op), (found, 1));
    assert_eq!(taken_by(&mut cluster, user, 0, &op), (Err(FsError::Access), 0));
    assert!(cluster.call(one, chmod(b, 0o755)).is_ok());
    assert_eq!(taken_by(&mut cluster, user, 0, &op), (found, 1));
    // Files that come and go change no directory that others go through.
    cluster.touch(one, a, "x");
    cluster.mkdir(one, b, "y");
    assert_eq!(taken_by(&mut cluster, user, 0, &op), (found, 2));
    // Renamed in the middle and at the end, exchanged, removed and made anew.
    assert_eq!(cluster.call(one, rename(a, "b", a, "d")), Ok(Answer::Done));
    assert_eq!(taken_by(&mut cluster, user, 0, &op), (Err(FsError::NotFound), 0));
    assert_eq!(taken_by(&mut cluster, user, 0, &walk(Ino::ROOT, &["a", "d", "c", "f"])), (found, 1));
    assert_eq!(cluster.call(one, rename(a, "d", a, "b")), Ok(Answer::Done));
    assert_eq!(taken_by(&mut cluster, user, 0, &op), (found, 1));
    cluster.mkdir(one, b, "second");
    let exchange = Op::Rename {
        dir: b,
        name: name("c"),
        new_dir: b,
        new_name: name("second"),
        mode: loligo_types::RenameMode::Exchange,
    };
    assert!(cluster.call(one, exchange.clone()).is_ok());
    assert_eq!(taken_by(&mut cluster, user, 0, &op), (Err(FsError::NotFound), 1), "it is in the other one");
    assert!(cluster.call(one, exchange).is_ok());
    assert_eq!(taken_by(&mut cluster, user, 0, &op), (found, 1));
    assert_eq!(cluster.call(one, rename(b, "c", Ino::ROOT, "away")), Ok(Answer::Done));
    assert_eq!(cluster.call(one, rmdir(b, "second")), Ok(Answer::Done));
    let anew = cluster.mkdir(one, b, "c");
    let other = cluster.touch(one, anew, "f");
    assert_eq!(taken_by(&mut cluster, user, 0, &op), (Ok((4, anew, other, None)), 1));
    cluster.finish();
}

#[test]
fn through_others_directories_it_lasts_as_long_as_the_replicas_that_it_goes_by() {
    let mut cluster = Cluster::new(2);
    let one = cluster.client();
    cluster.connect(one, 1);
    let [a, b, c, f] = deep(&mut cluster, one);
    cluster.migrate(c, 0, 1);
    let op = here_walk(Ino::ROOT, PATH);
    let found = Ok((4, c, f, None));
    assert_eq!(taken_by(&mut cluster, one, 1, &op), (found, 1));
    assert!(cluster.call(one, chmod(a, 0o711)).is_ok());
    assert_eq!(cluster.world(1).mds.status().paths.shortcuts, 0);
    assert_eq!(taken_by(&mut cluster, one, 1, &op), (found, 1));
    // By the rank that has it, and by the one that has what is below.
    assert_eq!(cluster.call(one, rename(Ino::ROOT, "a", Ino::ROOT, "z")), Ok(Answer::Done));
    assert!(matches!(cluster.ask(one, 1, op.clone()), Outcome::Redirected { rank: 0, .. }));
    assert_eq!(cluster.call(one, rename(Ino::ROOT, "z", Ino::ROOT, "a")), Ok(Answer::Done));
    assert_eq!(taken_by(&mut cluster, one, 1, &op), (found, 1));
    assert_eq!(cluster.call(one, rename(b, "c", b, "d")), Ok(Answer::Done));
    let (gone, _) = taken_by(&mut cluster, one, 1, &op);
    assert!(!matches!(gone, Ok((4, ..))), "{gone:?}");
    assert_eq!(cluster.call(one, rename(b, "d", b, "c")), Ok(Answer::Done));
    // That it had no such name counts for a moment.
    cluster.wait(20);
    assert_eq!(taken_by(&mut cluster, one, 1, &op), (found, 1));
    // The directory itself, where its rank is all that is asked for.
    let Op::Walk { dir, names, .. } = walk(Ino::ROOT, &PATH[..3]) else { unreachable!("it is one") };
    let to_the_end = Op::Walk { dir, names, by: Replicas::ToTheEnd };
    assert_eq!(taken_by(&mut cluster, one, 1, &to_the_end), (Ok((3, b, c, Some(1))), 2));
    // It moves, and comes back; its rank starts anew.
    cluster.migrate(c, 1, 0);
    let moved = walked(&mut cluster, one, 1, op.clone());
    assert!(matches!(moved, Ok((3, _, at, Some(0))) if at == c), "{moved:?}");
    cluster.migrate(c, 0, 1);
    assert_eq!(taken_by(&mut cluster, one, 1, &op), (found, 1));
    cluster.crash(0);
    assert_eq!(cluster.world(1).mds.status().paths.shortcuts, 0);
    assert_eq!(taken_by(&mut cluster, one, 1, &op), (found, 1));
    cluster.crash(1);
    assert_eq!(taken_by(&mut cluster, one, 1, &op), (found, 1));
    cluster.finish();
}

#[test]
fn without_word_from_the_rank_that_lent_a_directory_on_the_way_it_is_not_taken() {
    let mut cluster = Cluster::new(2);
    let one = cluster.client();
    cluster.connect(one, 1);
    let [a, _, c, f] = deep(&mut cluster, one);
    cluster.migrate(c, 0, 1);
    let op = here_walk(Ino::ROOT, PATH);
    assert_eq!(taken_by(&mut cluster, one, 1, &op), (Ok((4, c, f, None)), 1));
    cluster.hold(0, 1);
    let seq = cluster.send(one, 0, rename(Ino::ROOT, "a", Ino::ROOT, "z"));
    cluster.wait_for("the change", |cluster| cluster.outcome(one, 0, seq).is_some());
    let before = taken(&cluster, 1);
    let seq = cluster.send(one, 1, op);
    cluster.wait(1000);
    assert!(!matches!(cluster.outcome(one, 1, seq), Some(Outcome::Answered(Ok(_)))));
    assert_eq!(taken(&cluster, 1), before);
    cluster.release();
    cluster.wait(1000);
    let renamed: Arc<[Name]> = ["z", "b", "c", "f"].map(name).into();
    let op = Op::Walk { dir: Ino::ROOT, names: renamed, by: Replicas::OnTheWay };
    assert_eq!(walked(&mut cluster, one, 1, op), Ok((4, c, f, None)));
    assert!(cluster.has(0, a));
    cluster.finish();
}
