//! Scenarios of three ranks: directory, entry and inode each at another one; and files with names at several.

use loligo_types::{Answer, FsError, Ino, Op, RenameMode};

use super::*;

/// Three directories below the root, each of another rank.
fn three_ranks() -> (Cluster, usize, [Ino; 3]) {
    let mut cluster = Cluster::new(3);
    let a = cluster.client();
    let dirs = ["d0", "d1", "d2"].map(|text| cluster.mkdir(a, Ino::ROOT, text));
    cluster.migrate(dirs[1], 0, 1);
    cluster.migrate(dirs[2], 0, 2);
    (cluster, a, dirs)
}

fn crash_all(cluster: &mut Cluster) {
    (0..cluster.len()).for_each(|at| cluster.crash(at));
}

#[test]
fn a_file_of_a_third_rank_is_renamed_between_two_and_replaces_one_of_theirs() {
    let (mut cluster, a, [d0, d1, d2]) = three_ranks();
    let file = cluster.touch(a, d2, "f");
    let replaced = cluster.touch(a, d1, "old");
    cluster.call(a, rename(d2, "f", d0, "f")).expect("it is there");
    assert_eq!(cluster.call(a, rename(d0, "f", d1, "old")), Ok(Answer::Done));
    assert_eq!(cluster.lookup(a, d1, "old"), Ok(file));
    assert!(cluster.has(2, file));
    assert_eq!(cluster.attr(a, replaced).map(|attr| attr.nlink), Err(FsError::Stale));
    crash_all(&mut cluster);
    assert_eq!(cluster.lookup(a, d1, "old"), Ok(file));
    // Home again.
    assert_eq!(cluster.call(a, rename(d1, "old", d2, "g")), Ok(Answer::Done));
    let op = Op::Lookup { dir: d2, name: name("g") };
    assert!(matches!(cluster.ask(a, 2, op), Outcome::Answered(Ok(Answer::Entry(attr))) if attr.ino == file));
    assert_eq!(cluster.walk(a).len(), 4);
    cluster.finish();
}

#[test]
fn a_directory_of_a_third_rank_is_renamed_exchanged_and_removed() {
    let (mut cluster, a, [d0, d1, _]) = three_ranks();
    let sub = cluster.mkdir(a, d0, "sub");
    cluster.migrate(sub, 0, 2);
    let file = cluster.touch(a, sub, "f");
    assert_eq!(cluster.call(a, rename(d0, "sub", d1, "moved")), Ok(Answer::Done));
    assert!(cluster.has(2, sub));
    let other = cluster.mkdir(a, d0, "other");
    let mode = RenameMode::Exchange;
    let op = Op::Rename { dir: d0, name: name("other"), new_dir: d1, new_name: name("moved"), mode };
    assert_eq!(cluster.call(a, op), Ok(Answer::Done));
    let walk = cluster.walk(a);
    assert_eq!((walk["/d0/other"].0, walk["/d0/other/f"].0, walk["/d1/moved"].0), (sub, file, other));
    crash_all(&mut cluster);
    assert_eq!(cluster.walk(a), walk);
    assert_eq!(cluster.call(a, rmdir(d0, "other")), Err(FsError::NotEmpty));
    cluster.call(a, unlink(sub, "f")).expect("it is there");
    assert_eq!(cluster.call(a, rmdir(d0, "other")), Ok(Answer::Done));
    assert_eq!(cluster.call(a, rmdir(d1, "moved")), Ok(Answer::Done));
    for at in 0..3 {
        let crate::admin::Told::Routes(routes) = cluster.admin(at, crate::admin::Ask::Routes) else { panic!("routes") };
        assert!(!routes.iter().any(|route| route.dir == sub || route.dir == other), "rank {at}: {routes:?}");
    }
    cluster.finish();
}

#[test]
fn a_subtree_below_a_subtree_stays_when_the_one_above_moves() {
    let (mut cluster, a, [_, d1, _]) = three_ranks();
    let middle = cluster.mkdir(a, d1, "middle");
    let deep = cluster.mkdir(a, middle, "deep");
    let file = cluster.touch(a, deep, "f");
    cluster.migrate(deep, 1, 0);
    cluster.migrate(d1, 1, 2);
    for (ino, of) in [(file, 0), (deep, 0), (middle, 2)] {
        assert_eq!(cluster.call_by(a, of, &Op::GetAttr { ino }).1, [of]);
    }
    let walk = cluster.walk(a);
    assert_eq!(walk["/d1/middle/deep/f"].0, file);
    crash_all(&mut cluster);
    assert_eq!(cluster.walk(a), walk);
    assert_eq!(cluster.call(a, rmdir(middle, "deep")), Err(FsError::NotEmpty));
    // It comes to the rank of the one above.
    cluster.migrate(deep, 0, 2);
    cluster.touch(a, deep, "g");
    crash_all(&mut cluster);
    assert_eq!(cluster.walk(a).len(), walk.len() + 1);
    cluster.finish();
}

#[test]
fn a_file_with_two_names_goes_with_the_primary_one_and_stays_when_that_is_gone() {
    for primary_gone in [false, true] {
        let (mut cluster, a, [d0, d1, _]) = three_ranks();
        let sub = cluster.mkdir(a, d0, "sub");
        let file = cluster.touch(a, sub, "f");
        let link = |dir, text| Op::Link { ino: file, dir, name: name(text) };
        cluster.call(a, link(d0, "outside")).expect("it is there");
        cluster.call(a, link(sub, "inside")).expect("it is there");
        cluster.call(a, link(d1, "far")).expect("it is there");
        if primary_gone {
            // The newest one that is with its rank.
            cluster.call(a, unlink(sub, "inside")).expect("it is there");
        }
        cluster.migrate(sub, 0, 2);
        let of = if primary_gone { 0 } else { 2 };
        assert_eq!(cluster.call_by(a, of, &Op::GetAttr { ino: file }).1, [of], "{primary_gone}");
        assert_eq!(cluster.attr(a, file).map(|attr| attr.nlink), Ok(4 - u32::from(primary_gone)));
        crash_all(&mut cluster);
        let names = [(d0, "outside"), (d1, "far"), (sub, "f"), (sub, "inside")];
        let names = &names[..4 - usize::from(primary_gone)];
        for (dir, text) in names {
            assert_eq!(cluster.lookup(a, *dir, text), Ok(file), "{text}");
        }
        // Also for a rename within one rank, of which the inode is another's.
        assert_eq!(cluster.call(a, rename(d1, "far", d1, "farther")), Ok(Answer::Done));
        cluster.call(a, unlink(d1, "farther")).expect("it is there");
        for (dir, text) in names.iter().filter(|(_, text)| *text != "far") {
            assert_eq!(cluster.call(a, unlink(*dir, text)), Ok(Answer::Done), "{text}");
        }
        assert_eq!(cluster.attr(a, file).map(|attr| attr.nlink), Err(FsError::Stale));
        cluster.finish();
    }
}

#[test]
fn both_names_of_one_file_are_renamed_onto_each_other_over_ranks_and_nothing_happens() {
    let (mut cluster, a, [_, d1, d2]) = three_ranks();
    let file = cluster.touch(a, d1, "f");
    cluster.call(a, Op::Link { ino: file, dir: d2, name: name("g") }).expect("it is there");
    assert_eq!(cluster.call(a, rename(d1, "f", d2, "g")), Ok(Answer::Done));
    assert_eq!(cluster.call(a, rename(d2, "g", d1, "f")), Ok(Answer::Done));
    assert_eq!((cluster.lookup(a, d1, "f"), cluster.lookup(a, d2, "g")), (Ok(file), Ok(file)));
    assert_eq!(cluster.attr(a, file).map(|attr| attr.nlink), Ok(2));
    cluster.finish();
}

#[test]
fn what_cannot_be_read_at_a_lender_fails_the_request_and_leaves_nothing_locked() {
    let (mut cluster, a, [d0, d1, _]) = three_ranks();
    let file = cluster.touch(a, d0, "f");
    // Nothing is in memory.
    cluster.wait(5000);
    cluster.crash(1);
    cluster.at(1, |world| world.loads = false);
    let seq = cluster.send(a, 0, rename(d0, "f", d1, "g"));
    cluster.at(1, |world| {
        let (ticket, _) = world.pending_loads.pop_front().expect("the directory is read");
        world.input(crate::Input::LoadFailed { ticket });
    });
    assert_eq!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Err(FsError::Io))));
    cluster.at(1, |world| world.loads = true);
    assert_eq!(cluster.lookup(a, d0, "f"), Ok(file));
    assert_eq!(cluster.call(a, rename(d0, "f", d1, "g")), Ok(Answer::Done));
    cluster.finish();
}

#[test]
fn a_rank_that_needs_two_lenders_gives_back_what_the_one_lent_while_the_other_asks_a_client() {
    let (mut cluster, a, [d0, d1, d2]) = three_ranks();
    let b = cluster.client();
    let file = cluster.touch(a, d2, "f");
    cluster.call(a, rename(d2, "f", d0, "f")).expect("it is there");
    cluster.ask(b, 2, Op::Open { ino: file, flags: WRITE, handle: 1 });
    cluster.at(2, |world| world.clients[b].obeys = false);
    let seq = cluster.send(a, 0, rename(d0, "f", d1, "g"));
    assert_eq!(cluster.outcome(a, 0, seq), None);
    let under_way = cluster.world(1).mds.under_way();
    assert!(!under_way.iter().any(|line| line.contains("is lent")), "{under_way:?}");
    let made = cluster.send(b, 1, mkdir(d1, "meanwhile"));
    assert!(matches!(cluster.outcome(b, 1, made), Some(Outcome::Answered(Ok(_)))));
    cluster.at(2, |world| world.clients[b].obeys = true);
    assert_eq!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(Answer::Done))));
    cluster.ask(b, 2, close(1));
    cluster.finish();
}
