//! Requests that find several names, where ranks share what is on the way.

use std::sync::Arc;

use loligo_types::{Access, Answer, FsError, Ino, Kind, Name, Op, Replicas, SetAttr};

use super::*;

pub(super) fn walk(dir: Ino, names: &[&str]) -> Op {
    Op::Walk { dir, names: names.iter().map(|text| name(text)).collect::<Arc<[Name]>>(), by: Replicas::Unused }
}

/// Result of one request: the number of names found, the directory of the last, its inode, and its rank if that is not the asked one.
pub(super) fn walked(
    cluster: &mut Cluster,
    client: usize,
    at: usize,
    op: Op,
) -> Result<(u32, Ino, Ino, Option<usize>), FsError> {
    match cluster.ask(client, at, op) {
        Outcome::Answered(Ok(Answer::Walked { done, dir, last, .. })) => Ok(match *last {
            Answer::Entry(attr) => (done, dir, attr.ino, None),
            Answer::Remote { ino, rank, .. } => (done, dir, ino, Some(usize::from(rank.0))),
            other => panic!("{other:?}"),
        }),
        Outcome::Answered(Err(error)) => Err(error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_request_finds_as_many_names_as_its_rank_has() {
    let (mut cluster, a, here, there) = two_ranks();
    let (d, e) = (cluster.mkdir(a, here, "d"), cluster.mkdir(a, there, "e"));
    let (f, g) = (cluster.touch(a, d, "f"), cluster.touch(a, e, "g"));
    assert_eq!(walked(&mut cluster, a, 0, walk(Ino::ROOT, &["here", "d", "f"])), Ok((3, d, f, None)));
    assert_eq!(walked(&mut cluster, a, 0, walk(Ino::ROOT, &["here", "d"])), Ok((2, here, d, None)));
    // A file, or a symbolic link, ends it; what is not there is an error wherever it is.
    assert_eq!(walked(&mut cluster, a, 0, walk(Ino::ROOT, &["here", "d", "f", "x", "y"])), Ok((3, d, f, None)));
    let op = Op::Symlink { dir: here, name: name("s"), target: b"d".as_slice().into() };
    assert!(cluster.call(a, op).is_ok());
    let link = cluster.lookup(a, here, "s").expect("it is there");
    assert_eq!(walked(&mut cluster, a, 0, walk(Ino::ROOT, &["here", "s", "f"])), Ok((2, here, link, None)));
    assert_eq!(walked(&mut cluster, a, 0, walk(Ino::ROOT, &["here", "no", "f"])), Err(FsError::NotFound));
    assert_eq!(walked(&mut cluster, a, 0, walk(f, &["x"])), Err(FsError::NotDir));
    assert_eq!(walked(&mut cluster, a, 0, walk(here, &[])), Err(FsError::Invalid));
    // The other rank has the rest of the way, and says all of it at once; asked for what it does not have it says who does.
    assert_eq!(walked(&mut cluster, a, 0, walk(Ino::ROOT, &["there", "e", "g"])), Ok((1, Ino::ROOT, there, Some(1))));
    assert_eq!(walked(&mut cluster, a, 1, walk(there, &["e", "g"])), Ok((2, e, g, None)));
    assert!(matches!(cluster.ask(a, 1, walk(here, &["d", "f"])), Outcome::Redirected { rank: 0, .. }));
    cluster.finish();
}

#[test]
fn who_may_not_search_a_directory_on_the_way_finds_nothing_in_it() {
    let (mut cluster, a, here, _) = two_ranks();
    let d = cluster.mkdir(a, here, "d");
    let f = cluster.touch(a, d, "f");
    let set = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    assert!(cluster.call(a, Op::SetAttr { ino: d, set, handle: None }).is_ok());
    let op = walk(Ino::ROOT, &["here", "d", "f"]);
    assert_eq!(walked(&mut cluster, a, 0, op.clone()), Ok((3, d, f, None)));
    cluster.at(0, |world| world.clients[a].uid = 7);
    assert_eq!(walked(&mut cluster, a, 0, op), Err(FsError::Access));
    let want = Access { exec: true, ..Access::default() };
    assert!(matches!(cluster.ask(a, 0, Op::Access { ino: here, want }), Outcome::Answered(Ok(_))));
    cluster.finish();
}

#[test]
fn what_moves_meanwhile_is_found_where_it_is() {
    let (mut cluster, a, here, _) = two_ranks();
    let d = cluster.mkdir(a, here, "d");
    let f = cluster.touch(a, d, "f");
    cluster.migrate(d, 0, 1);
    assert_eq!(walked(&mut cluster, a, 0, walk(here, &["d", "f"])), Ok((1, here, d, Some(1))));
    assert_eq!(walked(&mut cluster, a, 1, walk(d, &["f"])), Ok((1, d, f, None)));
    // Names in fragments of several ranks: each rank has some.
    let wide = cluster.mkdir(a, here, "wide");
    let below: Vec<Ino> = (0..8).map(|n| cluster.mkdir(a, wide, &format!("b{n}"))).collect();
    for dir in &below {
        cluster.touch(a, *dir, "f");
    }
    cluster.migrate_frag(wide, loligo_types::Frag { bits: 1, value: 1 }, 0, 1);
    let mut at_once = 0;
    for (n, dir) in below.iter().enumerate() {
        let text = format!("b{n}");
        match walked(&mut cluster, a, 0, walk(here, &["wide", &text, "f"])) {
            Ok((3, found, _, None)) => {
                assert_eq!(found, *dir);
                at_once += 1;
            }
            Ok((1, found, ino, Some(1))) => {
                assert_eq!((found, ino), (here, wide));
                let rest = walked(&mut cluster, a, 1, walk(wide, &[&text, "f"]));
                assert!(matches!(rest, Ok((2, found, _, None)) if found == *dir), "{rest:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!((1..8).contains(&at_once), "{at_once} of 8");
    assert_eq!(walked(&mut cluster, a, 0, walk(here, &["wide"])).map(|found| found.2), Ok(wide));
    let kinds = cluster.walk(a);
    assert_eq!(kinds["/here/wide"].1, Kind::Dir);
    cluster.finish();
}

/// The same request, where the rank is to find the way through others' directories.
pub(super) fn here_walk(dir: Ino, names: &[&str]) -> Op {
    let Op::Walk { dir, names, .. } = walk(dir, names) else { unreachable!("it is one") };
    Op::Walk { dir, names, by: Replicas::OnTheWay }
}

pub(super) fn chmod(ino: Ino, mode: u16) -> Op {
    Op::SetAttr { ino, set: SetAttr { mode: Some(mode), ..SetAttr::default() }, handle: None }
}

/// A directory of rank 0 with one of rank 1 in it, and a file in that.
fn top_and_below() -> (Cluster, usize, Ino, Ino, Ino) {
    let mut cluster = Cluster::new(2);
    let a = cluster.client();
    cluster.connect(a, 1);
    let top = cluster.mkdir(a, Ino::ROOT, "top");
    let below = cluster.mkdir(a, top, "below");
    let file = cluster.touch(a, below, "f");
    cluster.migrate(below, 0, 1);
    (cluster, a, top, below, file)
}

const PATH: &[&str] = &["top", "below", "f"];

#[test]
fn a_rank_finds_the_way_through_others_directories_by_replicas_that_it_asks_for_once() {
    let (mut cluster, a, top, below, file) = top_and_below();
    assert_eq!(walked(&mut cluster, a, 1, here_walk(Ino::ROOT, PATH)), Ok((3, below, file, None)));
    let paths = |cluster: &Cluster, at: usize| cluster.world(at).mds.status().paths;
    // Of the root and of the top one, and which names they have.
    let before = paths(&cluster, 1);
    assert_eq!((before.held, before.asks, before.partings, paths(&cluster, 0).lent), (2, 4, 0, 2), "{before:?}");
    for _ in 0..5 {
        assert_eq!(walked(&mut cluster, a, 1, here_walk(Ino::ROOT, PATH)), Ok((3, below, file, None)));
    }
    assert_eq!(paths(&cluster, 1).asks, before.asks);
    // Names that are not there, and files, are said by their own rank.
    assert_eq!(walked(&mut cluster, a, 1, here_walk(Ino::ROOT, &["top", "no", "f"])), Ok((1, Ino::ROOT, top, Some(0))));
    assert!(matches!(cluster.ask(a, 1, here_walk(Ino::ROOT, &["no", "f"])), Outcome::Redirected { rank: 0, .. }));
    // Only the last name may be another rank's alone.
    assert_eq!(walked(&mut cluster, a, 1, here_walk(Ino::ROOT, &["top", "x"])), Ok((1, Ino::ROOT, top, Some(0))));
    assert_eq!(walked(&mut cluster, a, 0, here_walk(Ino::ROOT, &["top", "below", "f"])), Ok((2, top, below, Some(1))));
    // They go on to count as long as the ranks hear of each other.
    cluster.wait(10_000);
    assert_eq!(walked(&mut cluster, a, 1, here_walk(Ino::ROOT, PATH)), Ok((3, below, file, None)));
    assert_eq!(paths(&cluster, 1).held, 2);
    cluster.finish();
}

#[test]
fn whoever_was_told_of_a_change_of_a_directory_finds_nobody_who_goes_by_what_was_before() {
    let (mut cluster, a, top, below, file) = top_and_below();
    let user = cluster.client();
    cluster.connect(user, 1);
    cluster.at(1, |world| world.clients[user].uid = 7);
    let find = |cluster: &mut Cluster| walked(cluster, user, 1, here_walk(Ino::ROOT, PATH));
    assert_eq!(find(&mut cluster), Ok((3, below, file, None)));
    assert!(cluster.call(a, chmod(top, 0o700)).is_ok());
    assert_eq!(find(&mut cluster), Err(FsError::Access));
    assert!(cluster.call(a, chmod(top, 0o711)).is_ok());
    assert_eq!(find(&mut cluster), Ok((3, below, file, None)));
    // What only its contents change is nothing to paths.
    let drops = cluster.world(0).mds.status().paths.asked_back;
    cluster.touch(a, top, "new");
    assert!(cluster.call(a, chmod(file, 0o644)).is_ok());
    assert_eq!(cluster.world(0).mds.status().paths.asked_back, drops);
    // Renamed, by its own rank and by the one that has what is below; taken away, and another one made with its name.
    assert_eq!(cluster.call(a, rename(Ino::ROOT, "top", Ino::ROOT, "other")), Ok(Answer::Done));
    assert!(matches!(cluster.ask(user, 1, here_walk(Ino::ROOT, PATH)), Outcome::Redirected { rank: 0, .. }));
    assert_eq!(
        walked(&mut cluster, user, 1, here_walk(Ino::ROOT, &["other", "below", "f"])),
        Ok((3, below, file, None))
    );
    assert_eq!(cluster.call(a, rename(Ino::ROOT, "other", Ino::ROOT, "top")), Ok(Answer::Done));
    assert_eq!(cluster.call(a, rename(top, "below", top, "beneath")), Ok(Answer::Done));
    assert_eq!(find(&mut cluster), Ok((1, Ino::ROOT, top, Some(0))), "rank 0 says that it is not there");
    let second = cluster.mkdir(a, top, "below");
    assert_eq!(find(&mut cluster), Ok((2, top, second, Some(0))));
    cluster.finish();
}

#[test]
fn a_rank_that_is_not_heard_does_not_hold_up_a_change_for_ever_and_does_not_go_by_what_was_before() {
    let (mut cluster, a, top, below, file) = top_and_below();
    assert_eq!(walked(&mut cluster, a, 1, here_walk(Ino::ROOT, PATH)), Ok((3, below, file, None)));
    cluster.hold(0, 1);
    let seq = cluster.send(a, 0, chmod(top, 0o700));
    assert!(cluster.outcome(a, 0, seq).is_none(), "the other rank may go by it");
    cluster.at(1, |world| world.clients[a].uid = 7);
    assert_eq!(
        walked(&mut cluster, a, 1, here_walk(Ino::ROOT, PATH)),
        Ok((3, below, file, None)),
        "it is not changed yet"
    );
    let begun = cluster.world(0).now.mono_ms;
    cluster.wait_for("the change", |cluster| cluster.outcome(a, 0, seq).is_some());
    assert!(cluster.world(0).now.mono_ms - begun < 3000);
    // It asks, and nobody answers.
    let seq = cluster.send(a, 1, here_walk(Ino::ROOT, PATH));
    cluster.wait(1000);
    assert!(!matches!(cluster.outcome(a, 1, seq), Some(Outcome::Answered(Ok(_)))));
    cluster.release();
    cluster.wait(1000);
    assert_eq!(walked(&mut cluster, a, 1, here_walk(Ino::ROOT, PATH)), Err(FsError::Access));
    // Whoever asked to keep what had come to its end is not told that it counts.
    cluster.at(1, |world| world.clients[a].uid = 0);
    assert_eq!(walked(&mut cluster, a, 1, here_walk(Ino::ROOT, PATH)), Ok((3, below, file, None)));
    cluster.finish();
}

#[test]
fn replicas_end_with_the_rank_that_lent_them_with_the_one_that_holds_them_and_where_the_directory_moves() {
    let (mut cluster, a, top, below, file) = top_and_below();
    let find = |cluster: &mut Cluster| walked(cluster, a, 1, here_walk(Ino::ROOT, PATH));
    let found = Ok((3, below, file, None));
    assert_eq!(find(&mut cluster), found);
    cluster.crash(0);
    assert_eq!((cluster.world(1).mds.status().paths.held, cluster.world(0).mds.status().paths.lent), (0, 0));
    assert_eq!(find(&mut cluster), found);
    cluster.crash(1);
    assert_eq!(cluster.world(0).mds.status().paths.lent, 0);
    assert_eq!(find(&mut cluster), found);
    cluster.reconnect(0, 1);
    assert_eq!(find(&mut cluster), found);
    // It comes to the rank that has a replica of it, and goes back.
    cluster.migrate(top, 0, 1);
    assert_eq!(find(&mut cluster), found);
    cluster.migrate(top, 1, 0);
    assert_eq!(cluster.call(a, rename(Ino::ROOT, "top", Ino::ROOT, "moved")), Ok(Answer::Done));
    assert!(matches!(cluster.ask(a, 1, here_walk(Ino::ROOT, PATH)), Outcome::Redirected { rank: 0, .. }));
    cluster.finish();
}

#[test]
fn a_rank_that_was_removed_has_no_replica_that_others_wait_for() {
    let (mut cluster, a, top, below, file) = top_and_below();
    assert_eq!(walked(&mut cluster, a, 1, here_walk(Ino::ROOT, PATH)), Ok((3, below, file, None)));
    assert!(cluster.world(0).mds.status().paths.lent > 0);
    cluster.drain_and_remove(1);
    assert_eq!(cluster.world(0).mds.status().paths.lent, 0);
    let seq = cluster.send(
        a,
        0,
        Op::SetAttr { ino: top, handle: None, set: SetAttr { mode: Some(0o700), ..SetAttr::default() } },
    );
    assert!(matches!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(_)))), "it waits for nobody");
    cluster.finish();
}

#[test]
fn under_placement_replicated_the_path_gives_the_rank_which_finds_the_way_by_itself() {
    let mut cluster = Cluster::new(3);
    let a = cluster.client();
    (1..3).for_each(|at| cluster.connect(a, at));
    let top = cluster.mkdir(a, Ino::ROOT, "top");
    let set = |ino, value: &[u8]| Op::SetXattr {
        ino,
        name: loligo_namespace::PLACEMENT.into(),
        value: value.into(),
        mode: loligo_types::XattrMode::Set,
    };
    assert!(cluster.call(a, set(top, b"replicated")).is_ok());
    let ranks = cluster.map().placed();
    let hash = |cluster: &Cluster, text: &str| cluster.world(0).mds.core.tree.hash(&name(text));
    let (mut above, mut parent, mut path) = (None, top, vec!["top".to_owned()]);
    for depth in 0..6 {
        let text = format!("d{depth}");
        let dir = cluster.mkdir(a, parent, &text);
        let given = loligo_types::hash::rank_by_path(above, hash(&cluster, &text), &ranks);
        assert_eq!((dir.zeroth_rank(), dir.is_by_path()), (given, true));
        path.push(text);
        (above, parent) = (given, dir);
    }
    let file = cluster.touch(a, parent, "f");
    let home = usize::from(above.expect("there are ranks").0);
    path.push("f".into());
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    assert_eq!(walked(&mut cluster, a, home, here_walk(Ino::ROOT, &names)), Ok((8, parent, file, None)));
    let Outcome::Answered(Ok(Answer::Walked { by_path, .. })) = cluster.ask(a, home, here_walk(Ino::ROOT, &names))
    else {
        panic!("it is found")
    };
    assert_eq!(by_path, 6);
    // Of a directory its own rank says which one it is.
    let Op::Walk { dir, names: all, .. } = walk(Ino::ROOT, &names[..7]) else { unreachable!("it is one") };
    let op = Op::Walk { dir, names: all, by: Replicas::ToTheEnd };
    let found = walked(&mut cluster, a, home, op);
    assert!(
        matches!(found, Ok((7, _, ino, None)) if ino == parent)
            || matches!(found, Ok((7, _, ino, Some(at))) if ino == parent && at == home)
    );
    // A directory on the way is renamed: nothing moves, and it is found below its new name.
    assert_eq!(cluster.call(a, rename(top, "d0", Ino::ROOT, "away")), Ok(Answer::Done));
    let gone = walked(&mut cluster, a, home, here_walk(Ino::ROOT, &names));
    assert!(!matches!(gone, Ok((8, ..))), "{gone:?}");
    let mut moved = vec!["away"];
    moved.extend(&names[2..]);
    assert_eq!(walked(&mut cluster, a, home, here_walk(Ino::ROOT, &moved)), Ok((7, parent, file, None)));
    assert!(cluster.has(home, file));
    // What is made there goes by the same rule; where the policy ends, so does it.
    assert!(cluster.call(a, set(parent, b"subtree")).is_ok());
    let plain = cluster.mkdir(a, parent, "plain");
    assert_eq!(plain.zeroth_rank(), None);
    cluster.wait(4000);
    let before = cluster.walk(a);
    (0..3).for_each(|at| cluster.crash(at));
    assert_eq!(cluster.walk(a), before);
    cluster.finish();
}
