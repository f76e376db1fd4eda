//! Renames, links and removals that concern two ranks.

use loligo_types::{Answer, FsError, Ino, Op, RenameMode};

use super::*;

fn rename_mode(dir: Ino, text: &str, new_dir: Ino, new_text: &str, mode: RenameMode) -> Op {
    Op::Rename { dir, name: name(text), new_dir, new_name: name(new_text), mode }
}

#[test]
fn a_file_renamed_to_another_ranks_directory_stays_with_its_rank_and_is_embedded_when_it_comes_back() {
    let (mut cluster, a, here, there) = two_ranks();
    let file = cluster.touch(a, here, "f");
    assert_eq!(cluster.call(a, rename(here, "f", there, "g")), Ok(Answer::Done));
    assert_eq!(cluster.lookup(a, here, "f"), Err(FsError::NotFound));
    let op = Op::Lookup { dir: there, name: name("g") };
    let Outcome::Answered(Ok(Answer::Remote { ino, rank: of, .. })) = cluster.ask(a, 1, op) else { panic!("remote") };
    assert_eq!((ino, of), (file, rank(0)));
    let (answer, asked) = cluster.call_by(a, 1, &Op::GetAttr { ino: file });
    assert_eq!((answer.is_ok(), asked), (true, vec![1, 0]));
    assert!(cluster.has(0, file) && !cluster.has(1, file));
    // The other rank coordinates this one.
    assert_eq!(cluster.call(a, rename(there, "g", here, "h")), Ok(Answer::Done));
    let op = Op::Lookup { dir: here, name: name("h") };
    let Outcome::Answered(Ok(Answer::Entry(attr))) = cluster.ask(a, 0, op) else { panic!("embedded again") };
    assert_eq!((attr.ino, attr.nlink), (file, 1));
    // What is embedded moves along with its directory.
    cluster.migrate(here, 0, 1);
    assert!(cluster.call(a, Op::GetAttr { ino: file }).is_ok());
    assert!(cluster.has(1, file) && !cluster.has(0, file));
    cluster.finish();
}

#[test]
fn a_rename_over_ranks_replaces_only_what_it_may() {
    let (mut cluster, a, here, there) = two_ranks();
    let (old, new) = (cluster.touch(a, here, "f"), cluster.touch(a, there, "g"));
    let op = rename_mode(here, "f", there, "g", RenameMode::NoReplace);
    assert_eq!(cluster.call(a, op), Err(FsError::Exists));
    assert_eq!((cluster.lookup(a, here, "f"), cluster.lookup(a, there, "g")), (Ok(old), Ok(new)));
    let op = rename_mode(here, "f", there, "g", RenameMode::Exchange);
    assert_eq!(cluster.call(a, op), Ok(Answer::Done));
    assert_eq!((cluster.lookup(a, here, "f"), cluster.lookup(a, there, "g")), (Ok(new), Ok(old)));
    let op = rename_mode(there, "g", here, "f", RenameMode::Exchange);
    assert_eq!(cluster.call(a, op), Ok(Answer::Done));
    assert_eq!((cluster.lookup(a, here, "f"), cluster.lookup(a, there, "g")), (Ok(old), Ok(new)));
    assert_eq!(cluster.call(a, rename(here, "f", there, "g")), Ok(Answer::Done));
    assert_eq!((cluster.lookup(a, here, "f"), cluster.lookup(a, there, "g")), (Err(FsError::NotFound), Ok(old)));
    assert_eq!(cluster.attr(a, new).map(|attr| attr.nlink), Err(FsError::Stale));
    assert_eq!(cluster.attr(a, old).map(|attr| attr.nlink), Ok(1));
    cluster.finish();
}

#[test]
fn directories_of_two_ranks_are_exchanged() {
    let (mut cluster, a, here, there) = two_ranks();
    let (x, y) = (cluster.mkdir(a, here, "x"), cluster.mkdir(a, there, "y"));
    let (in_x, in_y) = (cluster.touch(a, x, "in x"), cluster.touch(a, y, "in y"));
    let op = rename_mode(here, "x", there, "y", RenameMode::Exchange);
    assert_eq!(cluster.call(a, op), Ok(Answer::Done));
    let walk = cluster.walk(a);
    let ino = |path: &str| walk.get(path).map(|found| found.0);
    assert_eq!((ino("/here/x"), ino("/there/y")), (Some(y), Some(x)));
    assert_eq!((ino("/here/x/in y"), ino("/there/y/in x")), (Some(in_y), Some(in_x)));
    cluster.finish();
}

#[test]
fn a_directory_renamed_to_another_rank_becomes_a_subtree_of_its_own_and_nothing_below_it_changes() {
    let (mut cluster, a, here, there) = two_ranks();
    let dir = cluster.mkdir(a, here, "d");
    let below = cluster.mkdir(a, dir, "below");
    let file = cluster.touch(a, below, "f");
    let rows = |cluster: &mut Cluster| cluster.attr(a, file).map(|attr| (attr.ctime, attr.nlink));
    let before = rows(&mut cluster);
    assert_eq!(cluster.call(a, rename(here, "d", there, "e")), Ok(Answer::Done));
    for at in 0..2 {
        let crate::admin::Told::Routes(routes) = cluster.admin(at, crate::admin::Ask::Routes) else { panic!("routes") };
        assert!(routes.iter().any(|route| route.dir == dir && route.rank == rank(0)), "rank {at}: {routes:?}");
    }
    assert_eq!(rows(&mut cluster), before);
    assert!(cluster.has(0, dir) && cluster.has(0, file));
    let walk = cluster.walk(a);
    assert_eq!(walk.get("/there/e/below/f").map(|found| found.0), Some(file));
    assert_eq!((walk["/here"].2, walk["/there"].2), (2, 3));
    // The directory above it is another rank's.
    let op = Op::LookupParent { dir };
    let Outcome::Answered(Ok(Answer::Remote { ino, .. })) = cluster.ask(a, 0, op) else { panic!("remote") };
    assert_eq!(ino, there);
    for at in [0, 1] {
        cluster.crash(at);
        assert_eq!(cluster.walk(a), walk);
    }
    // And back.
    assert_eq!(cluster.call(a, rename(there, "e", here, "d")), Ok(Answer::Done));
    assert_eq!(cluster.walk(a)["/here/d/below/f"].0, file);
    cluster.finish();
}

#[test]
fn no_directory_comes_below_itself_over_ranks() {
    let (mut cluster, a, here, there) = two_ranks();
    let dir = cluster.mkdir(a, here, "d");
    let below = cluster.mkdir(a, dir, "below");
    cluster.migrate(below, 0, 1);
    let deep = cluster.mkdir(a, below, "deep");
    assert_eq!(cluster.call(a, rename(here, "d", deep, "x")), Err(FsError::Invalid));
    assert_eq!(cluster.call(a, rename(Ino::ROOT, "here", below, "x")), Err(FsError::Invalid));
    // Two renames that would do it together: only one of them can.
    let (x, y) = (cluster.mkdir(a, here, "x"), cluster.mkdir(a, there, "y"));
    cluster.hold(0, 1);
    let first = cluster.send(a, 0, rename(here, "x", y, "in y"));
    let second = cluster.send(a, 1, rename(there, "y", x, "in x"));
    cluster.release();
    cluster.wait(3000);
    let first = cluster.outcome(a, 0, first).expect("it is answered");
    let second = cluster.outcome(a, 1, second).expect("it is answered");
    let (done, invalid) = (Outcome::Answered(Ok(Answer::Done)), Outcome::Answered(Err(FsError::Invalid)));
    assert!((&first, &second) == (&done, &invalid) || (&first, &second) == (&invalid, &done), "{first:?} {second:?}");
    cluster.finish();
}

#[test]
fn a_directory_of_another_rank_is_replaced_only_if_it_is_empty() {
    let (mut cluster, a, here, there) = two_ranks();
    let (x, y) = (cluster.mkdir(a, here, "x"), cluster.mkdir(a, there, "y"));
    cluster.touch(a, y, "f");
    assert_eq!(cluster.call(a, rename(here, "x", there, "y")), Err(FsError::NotEmpty));
    assert_eq!((cluster.lookup(a, here, "x"), cluster.lookup(a, there, "y")), (Ok(x), Ok(y)));
    cluster.call(a, unlink(y, "f")).expect("it is there");
    assert_eq!(cluster.call(a, rename(here, "x", there, "y")), Ok(Answer::Done));
    assert_eq!((cluster.lookup(a, here, "x"), cluster.lookup(a, there, "y")), (Err(FsError::NotFound), Ok(x)));
    assert!(cluster.attr(a, y).is_err());
    cluster.finish();
}

#[test]
fn a_file_has_names_at_two_ranks_and_lives_until_the_last_is_gone() {
    for remote_first in [false, true] {
        let (mut cluster, a, here, there) = two_ranks();
        let file = cluster.touch(a, here, "f");
        let link = Op::Link { ino: file, dir: there, name: name("g") };
        let Ok(Answer::Entry(attr)) = cluster.call(a, link) else { panic!("it is linked") };
        assert_eq!((attr.ino, attr.nlink), (file, 2));
        assert_eq!((cluster.lookup(a, here, "f"), cluster.lookup(a, there, "g")), (Ok(file), Ok(file)));
        let mut names = [(here, "f"), (there, "g")];
        if remote_first {
            names.reverse();
        }
        assert_eq!(cluster.call(a, unlink(names[0].0, names[0].1)), Ok(Answer::Done));
        assert_eq!(cluster.attr(a, file).map(|attr| attr.nlink), Ok(1));
        assert_eq!(cluster.lookup(a, names[1].0, names[1].1), Ok(file));
        for at in [0, 1] {
            cluster.crash(at);
        }
        assert_eq!(cluster.attr(a, file).map(|attr| attr.nlink), Ok(1));
        assert_eq!(cluster.call(a, unlink(names[1].0, names[1].1)), Ok(Answer::Done));
        assert_eq!(cluster.attr(a, file).map(|attr| attr.nlink), Err(FsError::Stale));
        assert!(cluster.walk(a).len() == 2);
        cluster.finish();
    }
}

#[test]
fn a_file_whose_last_name_another_rank_takes_away_lives_while_it_is_open() {
    let (mut cluster, a, here, there) = two_ranks();
    let b = cluster.client();
    let file = cluster.touch(a, here, "f");
    cluster.call(a, rename(here, "f", there, "g")).expect("it is there");
    let opened = cluster.ask(b, 0, Op::Open { ino: file, flags: WRITE, handle: 7 });
    assert!(matches!(opened, Outcome::Answered(Ok(Answer::Opened { .. }))));
    assert_eq!(cluster.call(a, unlink(there, "g")), Ok(Answer::Done));
    assert_eq!(cluster.world(0).mds.status().orphans, 1);
    assert_eq!(cluster.attr(b, file).map(|attr| attr.nlink), Ok(0));
    let written = cluster.ask(b, 0, write_inline(file, 7, 0, b"still"));
    assert!(matches!(written, Outcome::Answered(Ok(_))), "{written:?}");
    assert_eq!(cluster.ask(b, 0, close(7)), Outcome::Answered(Ok(Answer::Done)));
    cluster.wait(100);
    assert_eq!(cluster.world(0).mds.status().orphans, 0);
    assert_eq!(cluster.attr(b, file).map(|attr| attr.nlink), Err(FsError::Stale));
    cluster.finish();
}

#[test]
fn a_directory_of_another_rank_is_removed_when_it_is_empty_and_its_route_is_forgotten() {
    let (mut cluster, a, _, there) = two_ranks();
    cluster.touch(a, there, "f");
    assert_eq!(cluster.call(a, rmdir(Ino::ROOT, "there")), Err(FsError::NotEmpty));
    cluster.call(a, unlink(there, "f")).expect("it is there");
    assert_eq!(cluster.call(a, rmdir(Ino::ROOT, "there")), Ok(Answer::Done));
    assert_eq!(cluster.lookup(a, Ino::ROOT, "there"), Err(FsError::NotFound));
    let mut routes = |at| match cluster.admin(at, crate::admin::Ask::Routes) {
        crate::admin::Told::Routes(routes) => routes,
        other => panic!("{other:?}"),
    };
    assert_eq!((routes(0), routes(1)), (vec![], vec![]));
    assert!(cluster.attr(a, there).is_err());
    cluster.crash(1);
    cluster.crash(0);
    assert!(cluster.attr(a, there).is_err());
    assert_eq!(cluster.walk(a).len(), 1);
    cluster.finish();
}
