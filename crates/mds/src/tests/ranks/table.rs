//! Placement `table`: paths lead through directories whoever may search them, and who may is no reason to ask replicas back.

use loligo_types::{Access, Answer, FsError, Ino, Op, XattrMode};

use super::walks::{chmod, here_walk, walked};
use super::*;

/// A cluster with a directory whose policy this is, a client that is root and one that is not.
pub(super) fn placed(how: &str) -> (Cluster, usize, usize, Ino) {
    let mut cluster = Cluster::new(3);
    let (root, user) = (cluster.client(), cluster.client());
    for client in [root, user] {
        (1..3).for_each(|at| cluster.connect(client, at));
    }
    (0..3).for_each(|at| cluster.at(at, |world| world.clients[user].uid = 7));
    let top = cluster.mkdir(root, Ino::ROOT, "top");
    let value = how.as_bytes().into();
    let set = Op::SetXattr { ino: top, name: loligo_namespace::PLACEMENT.into(), value, mode: XattrMode::Set };
    assert!(cluster.call(root, set).is_ok());
    (cluster, root, user, top)
}

pub(super) fn home(dir: Ino) -> usize {
    usize::from(dir.zeroth_rank().expect("it is at a rank of its own").0)
}

fn mode(cluster: &mut Cluster, client: usize, ino: Ino) -> u16 {
    cluster.attr(client, ino).expect("it is there").mode
}

#[test]
fn a_path_leads_through_directories_whoever_may_search_them_and_a_name_does_not() {
    let (mut cluster, root, user, top) = placed("table");
    let a = cluster.mkdir(root, top, "a");
    let b = cluster.mkdir(root, a, "b");
    let f = cluster.touch(root, b, "f");
    assert_eq!((a.is_table(), b.is_table(), a.inherits()), (true, true, false));
    let path = here_walk(Ino::ROOT, &["top", "a", "b", "f"]);
    let found = Ok((4, b, f, None));
    assert_eq!(walked(&mut cluster, user, home(b), path.clone()), found);
    let drops = |cluster: &Cluster| (0..3).map(|at| cluster.world(at).mds.status().paths.asked_back).sum::<u64>();
    let before = drops(&cluster);
    for dir in [a, b] {
        assert!(cluster.call(root, chmod(dir, 0o700)).is_ok());
    }
    assert_eq!(drops(&cluster), before, "who may search them is nothing to paths");
    assert_eq!(walked(&mut cluster, user, home(b), path.clone()), found);
    assert_eq!(walked(&mut cluster, user, home(b), path.clone()), found);
    // By a rank that has never been asked, too, and through the directory itself.
    for at in 0..3 {
        match walked(&mut cluster, user, at, path.clone()) {
            Ok((4, dir, file, None)) => assert_eq!((dir, file), (b, f)),
            Ok((done, _, to, Some(rank))) => {
                assert!((1..4).contains(&done) && to.zeroth_rank().is_none_or(|_| rank < 3));
            }
            other => panic!("{other:?}"),
        }
    }
    // Names, what is listed, and what is made or removed are their directory's affair, as anywhere.
    assert_eq!(cluster.lookup(user, b, "f"), Err(FsError::Access));
    assert_eq!(cluster.call(user, Op::Unlink { dir: b, name: name("f") }), Err(FsError::Access));
    let want = Access { exec: true, ..Access::default() };
    assert!(matches!(cluster.call(user, Op::Access { ino: b, want }), Err(FsError::Access)));
    // So is what is made at the end of a path: who makes it is who asks.
    let make = |dirs: &[&str]| Op::Via {
        dir: Ino::ROOT,
        names: dirs.iter().map(|text| name(text)).collect(),
        by: loligo_types::Replicas::ToTheEnd,
        what: Box::new(Op::Mkdir { dir: Ino(0), name: name("new"), mode: 0o755, umask: 0 }),
    };
    let refused = cluster.ask(user, home(b), make(&["top", "a", "b"]));
    assert!(matches!(refused, Outcome::Answered(Err(FsError::Access))), "{refused:?}");
    assert!(cluster.call(root, chmod(b, 0o777)).is_ok());
    let made = cluster.ask(user, home(b), make(&["top", "a", "b"]));
    assert!(matches!(&made, Outcome::Answered(Ok(Answer::Entry(attr))) if attr.uid == 7), "{made:?}");
    // The directory that has the policy is none of them: it is searched, or not.
    assert!(cluster.call(root, chmod(top, 0o700)).is_ok());
    assert_eq!(walked(&mut cluster, user, home(b), path.clone()), Err(FsError::Access));
    assert!(cluster.call(root, chmod(top, 0o755)).is_ok());
    assert_eq!(walked(&mut cluster, user, home(b), path), found);
    cluster.finish();
}

#[test]
fn renamed_or_removed_directories_are_so_for_paths_at_once() {
    let (mut cluster, root, user, top) = placed("table");
    let a = cluster.mkdir(root, top, "a");
    let b = cluster.mkdir(root, a, "b");
    let f = cluster.touch(root, b, "f");
    let path = here_walk(Ino::ROOT, &["top", "a", "b", "f"]);
    let found = Ok((4, b, f, None));
    for (dir, old) in [(top, "a"), (a, "b")] {
        assert_eq!(walked(&mut cluster, user, home(b), path.clone()), found);
        assert_eq!(walked(&mut cluster, user, home(b), path.clone()), found);
        assert_eq!(cluster.call(root, rename(dir, old, Ino::ROOT, "away")), Ok(Answer::Done));
        let gone = walked(&mut cluster, user, home(b), path.clone());
        assert!(!matches!(gone, Ok((4, ..))), "{old}: {gone:?}");
        assert_eq!(cluster.call(root, rename(Ino::ROOT, "away", dir, old)), Ok(Answer::Done));
    }
    assert_eq!(walked(&mut cluster, user, home(b), path.clone()), found);
    assert_eq!(cluster.call(root, Op::Unlink { dir: b, name: name("f") }), Ok(Answer::Done));
    assert_eq!(cluster.call(root, rmdir(a, "b")), Ok(Answer::Done));
    let gone = walked(&mut cluster, user, home(b), path);
    assert!(!matches!(gone, Ok((4, ..))), "{gone:?}");
    cluster.finish();
}

#[test]
fn with_inherited_bits_nothing_is_made_that_the_directory_does_not_let_others_come_to() {
    let (mut cluster, root, user, top) = placed("table-inherit");
    let open = cluster.mkdir(root, top, "open");
    assert!(open.inherits());
    let shut = cluster.mkdir(root, open, "shut");
    assert!(cluster.call(root, chmod(shut, 0o700)).is_ok());
    let (free, kept) = (cluster.touch(root, open, "f"), cluster.touch(root, shut, "f"));
    assert_ne!(mode(&mut cluster, root, free) & 0o077, 0);
    assert_eq!(mode(&mut cluster, root, kept) & 0o077, 0);
    // All that is below is made so, wherever it lives.
    let below = cluster.mkdir(root, shut, "below");
    let deep = cluster.touch(root, below, "f");
    assert!(below.inherits());
    assert_eq!((mode(&mut cluster, root, below) & 0o077, mode(&mut cluster, root, deep) & 0o077), (0, 0));
    let path = here_walk(Ino::ROOT, &["top", "open", "shut", "below", "f"]);
    assert_eq!(walked(&mut cluster, user, home(below), path), Ok((5, below, deep, None)));
    let want = Access { read: true, ..Access::default() };
    assert!(matches!(cluster.call(user, Op::Access { ino: deep, want }), Err(FsError::Access)));
    cluster.finish();
}
