//! Files that live by themselves: those whose primary name is gone, or with another rank.

use loligo_types::msg::ToClient;
use loligo_types::{Answer, FsError, Ino, Op, RankState};

use super::*;
use crate::Config;

/// A file of rank 1 that was made at rank 0 and of which only a name in rank 0's directory is left; the table still says
/// that it is embedded in a directory that is gone. Rank 1's checkpoints are held.
fn left_behind() -> (Cluster, usize, Ino, Ino) {
    let (mut cluster, a, here, _) = two_ranks();
    let dir = cluster.mkdir(a, Ino::ROOT, "d");
    let file = cluster.touch(a, dir, "f");
    cluster.migrate(dir, 0, 1);
    cluster.wait(4000);
    assert!(cluster.call(a, Op::Link { ino: file, dir: here, name: name("kept") }).is_ok());
    cluster.wait(4000);
    cluster.at(1, |world| world.checkpoints = false);
    assert_eq!(cluster.call_by(a, 1, &unlink(dir, "f")).0, Ok(Answer::Done));
    assert_eq!(cluster.call(a, rmdir(Ino::ROOT, "d")), Ok(Answer::Done));
    assert!(cluster.has(1, file) && !cluster.has(0, file));
    (cluster, a, here, file)
}

#[test]
fn the_remaining_name_of_a_file_is_not_said_to_dangle_before_the_table_tells_where_the_file_is() {
    let kept = name("kept");
    let ops: [fn(Ino, loligo_types::Name) -> Op; 3] = [
        |dir, name| Op::Lookup { dir, name },
        |dir, name| Op::Unlink { dir, name },
        |dir, kept| Op::Rename {
            dir,
            name: kept,
            new_dir: dir,
            new_name: name("new"),
            mode: loligo_types::RenameMode::Replace,
        },
    ];
    for op in ops {
        let (mut cluster, a, here, file) = left_behind();
        let op = op(here, kept.clone());
        let seq = cluster.send(a, 0, op.clone());
        cluster.wait(2000);
        assert_eq!(cluster.outcome(a, 0, seq), None, "{op:?}");
        cluster.at(1, |world| world.checkpoints = true);
        cluster.wait(500);
        match cluster.outcome(a, 0, seq) {
            Some(Outcome::Answered(Ok(Answer::Remote { ino, rank: of, .. }))) => assert_eq!((ino, of), (file, rank(1))),
            Some(Outcome::Answered(Ok(Answer::Done))) => {}
            other => panic!("{op:?}: {other:?}"),
        }
        cluster.finish();
    }
}

#[test]
fn a_file_that_was_left_with_one_name_is_told_by_its_number_too() {
    let (mut cluster, a, _, file) = left_behind();
    let seq = cluster.send(a, 0, Op::GetAttr { ino: file });
    cluster.wait(500);
    assert_eq!(cluster.outcome(a, 0, seq), None, "it must not be said to be gone");
    cluster.at(1, |world| world.checkpoints = true);
    cluster.wait(500);
    let outcome = cluster.outcome(a, 0, seq);
    assert!(matches!(outcome, Some(Outcome::Redirected { rank: 1, .. })), "{outcome:?}");
    cluster.finish();
}

#[test]
fn where_a_file_is_that_lost_its_primary_name_is_in_the_table_at_once() {
    let (mut cluster, a, here, file) = left_behind();
    cluster.at(1, |world| world.checkpoints = true);
    cluster.wait(100);
    let op = Op::Lookup { dir: here, name: name("kept") };
    let seq = cluster.send(a, 0, op);
    cluster.wait(200);
    let outcome = cluster.outcome(a, 0, seq);
    assert!(matches!(outcome, Some(Outcome::Answered(Ok(Answer::Remote { ino, .. }))) if ino == file), "{outcome:?}");
    cluster.finish();
}

#[test]
fn a_file_of_which_the_table_tells_for_ever_what_is_not_so_is_said_to_be_gone_in_the_end() {
    let (mut cluster, a, here, _) = left_behind();
    let op = Op::Lookup { dir: here, name: name("kept") };
    let seq = cluster.send(a, 0, op);
    cluster.wait(25_000);
    assert_eq!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Err(FsError::Io))));
    // That is not remembered.
    cluster.at(1, |world| world.checkpoints = true);
    cluster.wait(5000);
    assert!(cluster.lookup(a, here, "kept").is_ok());
    cluster.finish();
}

#[test]
fn a_removed_directory_that_is_lent_ends_when_it_is_given_back() {
    let (mut cluster, a, here, there) = two_ranks();
    let dir = cluster.mkdir(a, there, "d");
    let file = cluster.touch(a, dir, "f");
    assert!(cluster.call(a, Op::Link { ino: file, dir: here, name: name("kept") }).is_ok());
    cluster.wait(4000);
    // It still counts the file of which it had the first name.
    let open = Op::Open { ino: dir, flags: READ, handle: 7 };
    assert!(matches!(cluster.ask(a, 1, open), Outcome::Answered(Ok(_))));
    assert_eq!(cluster.call_by(a, 1, &unlink(dir, "f")).0, Ok(Answer::Done));
    assert_eq!(cluster.call_by(a, 1, &rmdir(there, "d")).0, Ok(Answer::Done));
    cluster.hold(0, 1);
    let seq = cluster.send(a, 0, unlink(here, "kept"));
    while !cluster.world(1).mds.under_way().iter().any(|line| line.starts_with(&format!("inode {dir} is lent"))) {
        let to = usize::from(!cluster.waiting(0, 1).is_empty());
        cluster.deliver(1 - to, to);
    }
    // Its last handle ends meanwhile.
    let closing = cluster.send(a, 1, close(7));
    cluster.wait(100);
    assert!(cluster.outcome(a, 1, closing).is_some());
    cluster.release();
    assert_eq!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(Answer::Done))));
    cluster.wait(500);
    assert!(!cluster.has(1, dir), "it is gone, and does not come back");
    cluster.finish();
}

#[test]
fn a_directory_that_was_removed_and_is_open_does_not_move_and_ends_with_its_last_handle() {
    let (mut cluster, a, here, _) = two_ranks();
    let dir = cluster.mkdir(a, here, "d");
    assert!(matches!(cluster.ask(a, 0, Op::Open { ino: dir, flags: READ, handle: 7 }), Outcome::Answered(Ok(_))));
    let id = cluster.begin_move(dir, 0, 1);
    assert_eq!(cluster.call(a, rmdir(here, "d")), Ok(Answer::Done));
    cluster.wait_for("the end of a migration", |cluster| cluster.state(0, id).starts_with("failed"));
    let id = cluster.begin_move(dir, 0, 1);
    cluster.wait_for("the end of a migration", |cluster| cluster.state(0, id).starts_with("failed"));
    cluster.ask(a, 0, close(7));
    cluster.wait(100);
    assert!(!cluster.has(0, dir) && !cluster.has(1, dir));
    cluster.finish();
}

#[test]
fn a_file_that_is_removed_while_it_is_to_go_home_does_not_keep_the_others() {
    let (mut cluster, a, _, there) = two_ranks();
    // Made at rank 1, and brought to rank 0 by their directory.
    let dir = cluster.mkdir(a, there, "d");
    for text in ["first", "second", "third"] {
        cluster.touch(a, dir, text);
    }
    cluster.migrate(dir, 1, 0);
    for text in ["first", "second", "third"] {
        cluster.call(a, rename(dir, text, there, text)).expect("it may");
    }
    cluster.at(0, |world| world.checkpoints = false);
    cluster.wait_for("a migration", |cluster| !cluster.world(0).mds.under_way().is_empty());
    cluster.call(a, unlink(there, "second")).expect("it may");
    cluster.at(0, |world| world.checkpoints = true);
    cluster.wait(5000);
    for at in 0..2 {
        assert_eq!(cluster.at(at, |world| (world.mds.far_from_home(), world.mds.under_way())), (vec![], vec![]));
    }
    cluster.finish();
}

#[test]
fn files_go_home_to_the_directory_that_counts_them_when_nothing_else_moves() {
    let (mut cluster, a, here, there) = two_ranks();
    cluster.touch_all(a, here, 100);
    let open = cluster.touch(a, here, "open");
    for text in (0..100).map(|n| format!("f{n}")).chain(["open".into()]) {
        cluster.call(a, rename(here, &text, there, &text)).expect("it may");
    }
    assert!(cluster.has(0, open));
    let before = cluster.walk(a);
    assert!(matches!(cluster.ask(a, 0, Op::Open { ino: open, flags: READ, handle: 7 }), Outcome::Answered(Ok(_))));
    cluster.wait(10_000);
    assert!(!cluster.has(0, open));
    assert!(cluster.has(1, open));
    let told = |msg: &ToClient| matches!(msg, ToClient::Routes { moved, to, .. } if moved.contains(&open) && *to == Some(rank(1)));
    assert!(cluster.world(0).clients[a].inbox.iter().any(told), "who has it open is told where it is");
    cluster.ask(a, 1, close(7));
    for at in 0..2 {
        assert_eq!(cluster.at(at, |world| world.mds.far_from_home()), []);
    }
    assert_eq!(cluster.walk(a), before);
    for at in 0..2 {
        cluster.crash(at);
    }
    assert_eq!(cluster.walk(a), before);
    cluster.finish();
}

/// Records read to find the rank of a directory count for two seconds, and there is much else to look at before it comes
/// again.
#[test]
fn files_go_home_however_much_is_in_memory() {
    let cluster = Cluster::with_settings(&[RankState::Up; 2], |config| Config { shrink: 512, ..config });
    let (mut cluster, a, here, there) = here_and_there(cluster);
    let sub = cluster.mkdir(a, there, "sub");
    cluster.touch_all(a, here, 100);
    let file = cluster.touch(a, here, "f");
    cluster.call(a, rename(here, "f", sub, "f")).expect("it may");
    assert!(cluster.has(0, file));
    cluster.wait(60_000);
    assert!(!cluster.has(0, file) && cluster.has(1, file));
    cluster.finish();
}

#[test]
fn a_file_of_a_dead_session_that_has_become_another_ranks_is_not_read_again_and_again() {
    let (mut cluster, a, here, _) = two_ranks();
    let file = cluster.touch(a, here, "f");
    cluster.migrate(here, 0, 1);
    cluster.wait(4000);
    cluster.at(0, |world| world.mds.tidy.leave(file));
    cluster.wait(500);
    assert_eq!(cluster.at(0, |world| world.mds.tidy.left()), 0);
    assert!(cluster.has(1, file) || cluster.attr(a, file).is_ok(), "nothing was done to it");
    cluster.finish();
}
