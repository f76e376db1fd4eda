//! Directories that change their rank, and how what is below them is found.

use loligo_namespace::Loaded;
use loligo_types::{Answer, Frag, FsError, Ino, Op, RankState, Route};

use super::*;
use crate::Input;
use crate::admin::{Ask, Told};
use crate::peer::PeerMsg;

#[test]
fn a_full_journal_is_trimmed_when_another_rank_has_what_moved_though_nothing_is_left_to_be_written() {
    let (mut cluster, a, here, there) = two_ranks();
    cluster.touch(a, there, "f");
    cluster.touch(a, here, "f");
    // So that no sums come later.
    cluster.wait(10_000);
    // The word that what moves is in the table there does not come.
    cluster.held.insert((1, 0));
    cluster.begin_move(here, 0, 1);
    cluster.wait_for("what comes before that word", |cluster| {
        let last = |msg: &&PeerMsg| matches!(msg, PeerMsg::Acked { .. });
        while cluster.waiting(1, 0).first().is_some_and(|msg| !last(msg)) {
            cluster.deliver(1, 0);
        }
        cluster.waiting(1, 0).first().is_some_and(last)
    });
    cluster.wait(8000);
    let (trimmed, last) = (cluster.world(0).trimmed, cluster.world(0).last_lsn);
    assert!(trimmed < last, "what moved holds the journal: {trimmed:?} of {last:?}");
    cluster.at(0, |world| world.input(Input::JournalSpace { used: 100, limit: 100 }));
    let seq = cluster.send(a, 0, mkdir(Ino::ROOT, "waits"));
    cluster.wait(5000);
    assert_eq!(cluster.outcome(a, 0, seq), None, "there is no room");
    assert_eq!(cluster.world(0).trimmed, trimmed);
    cluster.release();
    cluster.wait(5000);
    assert!(cluster.world(0).trimmed > trimmed, "nothing needs it any more");
    cluster.at(0, |world| world.input(Input::JournalSpace { used: 10, limit: 100_000 }));
    assert!(matches!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(_)))));
    cluster.finish();
}

#[test]
fn what_is_made_in_a_directory_that_moved_is_found_at_its_new_rank_and_the_old_one_tells_the_route() {
    let (mut cluster, a, _, there) = two_ranks();
    let outcome = cluster.ask(a, 0, create(there, "f", WRITE, 1));
    let Outcome::Redirected { rank: to, routes, done: None } = outcome else { panic!("{outcome:?}") };
    assert_eq!(to, 1);
    assert_eq!(routes, [Route { dir: there, frag: Frag::WHOLE, rank: rank(1), version: 1 }]);
    let Outcome::Answered(Ok(Answer::Opened { attr, .. })) = cluster.ask(a, 1, create(there, "f", WRITE, 1)) else {
        panic!("rank 1 makes it")
    };
    assert_eq!(attr.ino.birth_rank(), rank(1));
    // With the route the next request goes straight.
    let op = Op::Lookup { dir: there, name: name("f") };
    let Outcome::Answered(Ok(Answer::Entry(found))) = cluster.ask(a, 1, op) else { panic!("it is there") };
    assert_eq!(found.ino, attr.ino);
    // The name of the directory is rank 0's, the directory is not.
    let op = Op::Lookup { dir: Ino::ROOT, name: name("there") };
    let Outcome::Answered(Ok(Answer::Remote { ino, rank: of, .. })) = cluster.ask(a, 0, op) else { panic!("remote") };
    assert_eq!((ino, of), (there, rank(1)));
    cluster.ask(a, 1, close(1));
    cluster.finish();
}

#[test]
fn a_subtree_that_went_away_and_came_back_brings_nothing_old_when_its_rank_crashes() {
    let (mut cluster, a, here, _) = two_ranks();
    let deep = cluster.mkdir(a, here, "deep");
    for text in ["kept", "removed", "renamed"] {
        cluster.touch(a, deep, text);
    }
    cluster.migrate(here, 0, 1);
    cluster.call(a, unlink(deep, "removed")).expect("it is there");
    cluster.call(a, rename(deep, "renamed", here, "new")).expect("it is there");
    cluster.touch(a, deep, "made there");
    let kept = cluster.lookup(a, deep, "kept").expect("it is there");
    cluster.call(a, chmod(kept, 0o600)).expect("it may");
    cluster.migrate(here, 1, 0);
    cluster.touch(a, here, "made here");
    let before = cluster.walk(a);
    cluster.crash(0);
    assert_eq!(cluster.walk(a), before);
    cluster.wait(5000);
    cluster.crash(1);
    cluster.crash(0);
    assert_eq!(cluster.walk(a), before);
    cluster.finish();
}

#[test]
fn a_migration_that_cannot_be_is_refused_with_what_to_do() {
    let mut cluster = Cluster::with_states(&[RankState::Up, RankState::Draining, RankState::Up]);
    let a = cluster.client();
    let (dir, file) = (cluster.mkdir(a, Ino::ROOT, "d"), cluster.touch(a, Ino::ROOT, "f"));
    let mut refused = |dir, to| match cluster.admin(0, Ask::Migrate { dir, to: rank(to) }) {
        Told::Refused(text) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(dir, 1), "rank 1 is being drained and takes nothing more: choose another one");
    assert_eq!(refused(dir, 7), "there is no rank 7; there are 0, 1, 2");
    assert_eq!(refused(file, 2), format!("inode {file} is not a directory"));
    assert_eq!(refused(dir, 0), format!("directory {dir} is rank 0's already"));
    // What must be read first is begun, and ends at once.
    let id = cluster.begin_move(Ino(0x999), 0, 2);
    cluster.wait_for("the end", |cluster| cluster.state(0, id) == "failed: there is no such directory (any more)");
    cluster.migrate(dir, 0, 2);
    assert_eq!(cluster.admin(0, Ask::Migrate { dir, to: rank(2) }), Told::Elsewhere(rank(2)));
    cluster.finish();
}

fn pin(ino: Ino, ranks: &str) -> Op {
    let mode = loligo_types::XattrMode::Set;
    Op::SetXattr { ino, name: (*b"loligo.policy.pin").into(), value: ranks.as_bytes().into(), mode }
}

#[test]
fn a_pin_is_followed_and_one_to_a_rank_that_is_not_there_is_refused() {
    let (mut cluster, a, here, _) = two_ranks();
    let file = cluster.touch(a, here, "f");
    for bad in ["7", "1,7", "", "x"] {
        assert_eq!(cluster.call(a, pin(here, bad)), Err(FsError::Invalid), "{bad}");
    }
    cluster.wait(5000);
    assert!(cluster.has(0, here));
    cluster.call(a, pin(here, "1")).expect("root may");
    cluster.wait_for("the pin to be followed", |cluster| cluster.has(1, here));
    cluster.wait_for("the end", |cluster| !cluster.has(0, file));
    let (answer, asked) = cluster.call_by(a, 1, &Op::GetAttr { ino: file });
    assert_eq!((answer.map(|answer| answer.attr().map(|attr| attr.ino)), asked), (Ok(Some(file)), vec![1]));
    // It stays where it is pinned to, also when its xattrs have to be read first.
    cluster.wait(8000);
    cluster.crash(1);
    let id = cluster.begin_move(here, 1, 0);
    let refused = "failed: the directory is pinned to other ranks: unpin it, or pin it there";
    cluster.wait_for("the refusal", |cluster| cluster.state(1, id) == refused);
    assert!(cluster.has(1, here));
    cluster.call(a, pin(here, "1,0")).expect("root may");
    cluster.migrate(here, 1, 0);
    cluster.finish();
}

#[test]
fn each_rank_numbers_inodes_from_its_own_range_also_after_a_restart() {
    let (mut cluster, a, here, there) = two_ranks();
    let mut all = std::collections::BTreeSet::from([here, there]);
    for round in 0..3 {
        for (dir, of) in [(here, 0), (there, 1)] {
            let file = cluster.touch(a, dir, &format!("f{round}"));
            let gone = cluster.mkdir(a, dir, &format!("d{round}"));
            cluster.call(a, rmdir(dir, &format!("d{round}"))).expect("it is empty");
            assert_eq!((file.birth_rank(), gone.birth_rank()), (rank(of), rank(of)));
            assert!(all.insert(file) && all.insert(gone), "no number is used twice");
        }
        if round == 1 {
            cluster.wait(8000);
        }
        cluster.crash(round % 2);
        cluster.crash(1 - round % 2);
    }
    cluster.finish();
}

fn routes_of(cluster: &mut Cluster, at: usize) -> Vec<loligo_types::Route> {
    match cluster.admin(at, crate::admin::Ask::Routes) {
        crate::admin::Told::Routes(routes) => routes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_line_of_a_removed_directory_is_forgotten_by_a_rank_that_did_not_hear_of_it() {
    let mut cluster = Cluster::new(3);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    cluster.migrate(dir, 0, 1);
    assert!(routes_of(&mut cluster, 2).iter().any(|route| route.dir == dir));
    cluster.hold(1, 2);
    assert_eq!(cluster.call(a, rmdir(Ino::ROOT, "d")), Ok(Answer::Done));
    assert!(!routes_of(&mut cluster, 1).iter().any(|route| route.dir == dir));
    // What was on its way is lost, and rank 2 tells rank 1 what it believes.
    cluster.held.clear();
    cluster.reconnect(1, 2);
    cluster.wait(200);
    for at in 0..3 {
        assert!(!routes_of(&mut cluster, at).iter().any(|route| route.dir == dir), "rank {at}");
    }
    cluster.finish();
}

#[test]
fn a_line_that_names_a_removed_rank_is_forgotten_if_its_directory_is_gone_and_nobody_waits_for_that_rank() {
    for after in [false, true] {
        let mut cluster = Cluster::new(3);
        let a = cluster.client();
        (1..3).for_each(|at| cluster.connect(a, at));
        let dir = cluster.mkdir(a, Ino::ROOT, "d");
        let here = cluster.mkdir(a, Ino::ROOT, "here");
        cluster.migrate(dir, 0, 1);
        cluster.migrate(here, 0, 2);
        // The file has its only name at rank 2, and is counted by the directory that is gone.
        let file = cluster.touch(a, dir, "f");
        let link = Op::Link { ino: file, dir: here, name: name("g") };
        assert!(cluster.call(a, link).is_ok());
        assert_eq!(cluster.call(a, unlink(dir, "f")), Ok(Answer::Done));
        assert_eq!(cluster.call(a, rmdir(Ino::ROOT, "d")), Ok(Answer::Done));
        cluster.wait(4000);
        if after {
            cluster.drain_and_remove(1);
        }
        let line = loligo_types::Route { dir, frag: Frag::WHOLE, rank: rank(1), version: 99 };
        cluster.at(2, |world| {
            world.input(crate::Input::Peer { from: rank(0), msg: crate::peer::PeerMsg::Routes(vec![line]) });
        });
        if !after {
            cluster.drain_and_remove(1);
        }
        cluster.wait(4000);
        assert!(!routes_of(&mut cluster, 2).iter().any(|route| route.dir == dir), "{after}");
        assert_eq!(cluster.call(a, unlink(here, "g")), Ok(Answer::Done));
        cluster.finish();
    }
}

#[test]
fn a_client_that_is_sent_on_is_told_the_lines_that_matter_and_not_a_map_of_a_hundred_thousand() {
    let (mut cluster, a, _, there) = two_ranks();
    let below = cluster.mkdir(a, there, "below");
    let deep = cluster.mkdir(a, below, "deep");
    cluster.wait(4000);
    let line =
        |dir: u64| loligo_types::Route { dir: Ino(dir), frag: loligo_types::Frag::WHOLE, rank: rank(1), version: 1 };
    cluster.at(0, |world| {
        let routes = (1..=100_000).map(|dir| line(10_000 + dir)).collect();
        world.input(crate::Input::Peer { from: rank(1), msg: crate::peer::PeerMsg::Routes(routes) });
    });
    for ino in [there, deep] {
        let outcome = cluster.ask(a, 0, Op::GetAttr { ino });
        let Outcome::Redirected { rank: 1, routes, .. } = outcome else { panic!("{outcome:?}") };
        assert!(routes.len() <= 256, "{} lines", routes.len());
        assert!(routes.iter().any(|route| route.dir == there), "{ino}: {routes:?}");
    }
    let b = cluster.client();
    let welcome = cluster.world(0).clients[b].welcome.clone().expect("it is welcome");
    assert!(welcome.routes.len() <= 256);
}

#[test]
fn what_was_read_while_its_directory_moved_and_is_renamed_there_before_it_is_dropped_here_is_not_kept() {
    let mut cluster = Cluster::new(2);
    let a = cluster.client();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    let upper = Frag { bits: 1, value: 1 };
    let hash = |cluster: &Cluster, text: &str| cluster.world(0).mds.tree_hash(text);
    let text =
        (0..).map(|n| format!("sub{n}")).find(|text| upper.contains(hash(&cluster, text))).expect("there is one");
    let sub = cluster.mkdir(a, dir, &text);
    cluster.touch(a, sub, "f");
    let old = cluster.world(0).mds.core.tree.inode(sub).cloned().expect("it is in memory");
    cluster.wait(5000);
    cluster.crash(0);
    let id = cluster.begin_frag(dir, upper, 0, 1);
    cluster.wait_for("the cleaning up", |cluster| cluster.state(0, id) == "cleaning");
    // As if it had been read after memory was looked through, and before the record was made.
    cluster.at(0, |world| world.mds.core.tree.load(Loaded::Inode(sub, Some(Box::new(old)))));
    assert!(cluster.world(0).mds.inodes_held().contains(&sub));
    let renamed = cluster.send(a, 1, rename(dir, &text, Ino::ROOT, "sub"));
    assert_eq!(cluster.outcome(a, 1, renamed), Some(Outcome::Answered(Ok(Answer::Done))));
    cluster.wait_for("the end", |cluster| cluster.state(0, id) == "done");
    assert!(!cluster.world(0).mds.inodes_held().contains(&sub), "it is rank 1's");
    assert_eq!(cluster.call(a, rmdir(Ino::ROOT, "sub")), Err(FsError::NotEmpty));
    cluster.finish();
}

#[test]
fn the_journal_is_cut_when_the_other_rank_has_in_the_table_what_moved_though_nothing_changes_any_more() {
    let (mut cluster, a, here, _) = two_ranks();
    cluster.touch(a, here, "f");
    cluster.held.insert((1, 0));
    let id = cluster.begin_move(here, 0, 1);
    let acked = |msg: &&PeerMsg| matches!(msg, PeerMsg::Acked { upto } if *upto > 0);
    for _ in 0..400 {
        cluster.wait(50);
        while cluster.waiting(1, 0).first().is_some_and(|msg| !acked(msg)) {
            cluster.deliver(1, 0);
        }
    }
    assert_eq!(cluster.state(0, id), "done");
    // Rank 0 has all its own in the table before it hears that rank 1 has what moved.
    let (last, before) = (cluster.world(0).mds.status().last_lsn, cluster.world(0).trimmed);
    assert!(before <= last, "what moved is needed");
    cluster.deliver(1, 0);
    assert!(cluster.world(0).trimmed > before);
    cluster.release();
    cluster.finish();
}

#[test]
fn a_file_that_is_only_still_in_memory_where_it_moves_from_is_not_linked_there_with_what_is_borrowed() {
    let (mut cluster, a, here, _) = two_ranks();
    let dir = cluster.mkdir(a, here, "d");
    let file = cluster.touch(a, dir, "f");
    cluster.wait(5000);
    // What the other rank has is not durable, and so not confirmed: the file is not forgotten yet.
    cluster.at(1, |world| world.syncs = false);
    let id = cluster.begin_move(dir, 0, 1);
    cluster.wait_for("the last step", |cluster| cluster.state(0, id) == "moving");
    assert!(cluster.world(0).mds.inodes_held().contains(&file));
    let link = cluster.send(a, 0, Op::Link { ino: file, dir: here, name: name("g") });
    assert_eq!(cluster.outcome(a, 0, link), None);
    cluster.at(1, |world| {
        world.syncs = true;
        world.sync();
    });
    cluster.wait_for("the end of the migration", |cluster| cluster.state(0, id) == "done");
    let linked = cluster.outcome(a, 0, link);
    assert!(matches!(linked, Some(Outcome::Answered(Ok(_)))), "it is not sent to and fro: {linked:?}");
    assert_eq!(cluster.attr(a, file).map(|attr| attr.nlink), Ok(2));
    cluster.finish();
}

#[test]
fn a_file_system_of_one_rank_says_so_to_whoever_would_move_a_directory() {
    let mut world = World::new();
    world.input(Input::Admin { id: 1, ask: Ask::Migrate { dir: Ino::ROOT, to: rank(0) } });
    let text = "this file system has one rank; add one: loligo rank add";
    assert_eq!(world.told.take(), Some(Told::Refused(text.into())));
}
