//! The record of a migration is never longer than the journal takes, whatever is changed or held meanwhile.

use loligo_journal::frame::BODY_MAX;
use loligo_types::{Answer, Control, FileLock, Ino, LockKind, LockOwner, Op, RankState, limits};

use super::*;
use crate::{DataAccess, Member};

/// Files that together are longer than a record may be.
const FILES: usize = 300;

/// Two ranks with files in a directory of rank 0, which a client has open, each with as much data as fits into an inode. The
/// first has the handle 1.
fn full_inodes(files: usize) -> (Cluster, usize, Ino, Vec<Ino>) {
    let inline_max = limits::INLINE_MAX as u32;
    let mut cluster = Cluster::with_settings(&[RankState::Up; 2], |config| crate::Config { inline_max, ..config });
    let a = cluster.client();
    let here = cluster.mkdir(a, Ino::ROOT, "here");
    let mut inos = Vec::new();
    for n in 0..files {
        let outcome = cluster.ask(a, 0, create(here, &format!("f{n}"), WRITE, n as u64 + 1));
        let Outcome::Answered(Ok(Answer::Opened { attr, .. })) = outcome else { panic!("{outcome:?}") };
        inos.push(attr.ino);
    }
    (cluster, a, here, inos)
}

/// Writes the first files full.
fn fill(cluster: &mut Cluster, client: usize, inos: &[Ino], byte: u8) {
    let data = vec![byte; limits::INLINE_MAX];
    for (at, ino) in inos.iter().enumerate() {
        let seq = cluster.send(client, 0, write_inline(*ino, at as u64 + 1, 0, &data));
        let outcome = cluster.outcome(client, 0, seq);
        assert!(matches!(outcome, Some(Outcome::Answered(Ok(_)))), "{ino}: {outcome:?}");
    }
}

/// The content of one of the files.
fn content(cluster: &mut Cluster, client: usize, inos: &[Ino], at: usize) -> Vec<u8> {
    let ino = inos[at];
    match cluster.call(client, Op::ReadInline { ino, handle: at as u64 + 1 }) {
        Ok(Answer::Bytes(data)) => data.to_vec(),
        other => panic!("data of {ino}: {other:?}"),
    }
}

/// A migration that finds, each time that it looks, that much has been written meanwhile; it has not begun to freeze.
fn begin_while_written(cluster: &mut Cluster, client: usize, dir: Ino, inos: &[Ino]) -> u64 {
    cluster.at(0, |world| world.syncs_data = false);
    let id = cluster.begin_move(dir, 0, 1);
    for round in 0..22 {
        for _ in 0..70usize.div_ceil(inos.len()) {
            fill(cluster, client, inos, round);
        }
        cluster.wait(50);
        assert_eq!(cluster.state(0, id), "preparing");
    }
    id
}

fn finish(mut cluster: Cluster, client: usize, at: usize, files: usize) {
    let handles = (1..=files as u64).collect();
    cluster.ask(client, at, Op::Control(Control::Close { handles, lost: false }));
    cluster.finish();
}

#[test]
fn what_is_written_while_a_directory_prepares_to_move_gets_into_the_table_before_it_moves() {
    let (mut cluster, a, here, inos) = full_inodes(FILES);
    cluster.at(0, |world| world.syncs_data = false);
    let id = cluster.begin_move(here, 0, 1);
    cluster.wait_for("the sync to be waited for", |cluster| cluster.state(0, id) == "preparing");
    fill(&mut cluster, a, &inos, 7);
    cluster.at(0, |world| world.syncs_data = true);
    cluster.wait_for("the end", |cluster| cluster.state(0, id) == "done");
    assert!(cluster.world(0).longest < BODY_MAX / 4, "{} bytes", cluster.world(0).longest);
    assert!(content(&mut cluster, a, &inos, FILES - 1) == vec![7; limits::INLINE_MAX]);
    finish(cluster, a, 1, FILES);
}

#[test]
fn a_directory_to_which_more_is_written_than_can_move_at_once_stays_and_moves_when_that_has_ended() {
    let (mut cluster, a, here, inos) = full_inodes(FILES);
    let id = begin_while_written(&mut cluster, a, here, &inos[..70]);
    fill(&mut cluster, a, &inos, 99);
    cluster.at(0, |world| {
        world.quiesces = false;
        world.syncs_data = true;
    });
    cluster.wait_for("freezing", |cluster| cluster.state(0, id) == "freezing");
    let seq = cluster.send(a, 0, chmod(inos[0], 0o600));
    assert_eq!(cluster.outcome(a, 0, seq), None, "it waits while it freezes");
    cluster.at(0, |world| world.quiesces = true);
    let state = cluster.state(0, id);
    assert_eq!(state, "failed: too much is changed below it: try again when less is, or move parts of it");
    assert!(matches!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(_)))), "it goes on");
    let session = cluster.world(0).session(a);
    assert!(inos.iter().all(|ino| cluster.world(0).access.get(&(session, *ino)) == Some(&DataAccess::Write)));
    fill(&mut cluster, a, &inos[..2], 100);
    cluster.wait(100);
    assert!(!cluster.has(1, here) && cluster.has(0, here));
    cluster.migrate(here, 0, 1);
    for (at, byte) in [(0, 100), (2, 99), (FILES - 1, 99)] {
        assert!(content(&mut cluster, a, &inos, at) == vec![byte; limits::INLINE_MAX]);
    }
    finish(cluster, a, 1, FILES);
}

/// They are short in the journal, and whole in what moves.
#[test]
fn small_changes_of_much_data_get_into_the_table_before_a_directory_moves() {
    let (mut cluster, a, here, inos) = full_inodes(FILES);
    fill(&mut cluster, a, &inos, 7);
    fill(&mut cluster, a, &inos, 8);
    cluster.at(0, |world| world.checkpoints = false);
    let id = cluster.begin_move(here, 0, 1);
    for (at, ino) in inos.iter().enumerate() {
        let seq = cluster.send(a, 0, write_inline(*ino, at as u64 + 1, 5, b"x"));
        assert!(matches!(cluster.outcome(a, 0, seq), Some(Outcome::Answered(Ok(_)))), "{ino}");
    }
    cluster.at(0, |world| world.checkpoints = true);
    cluster.wait_for("the end", |cluster| cluster.state(0, id) == "done");
    assert!(cluster.world(0).longest < BODY_MAX / 4, "{} bytes", cluster.world(0).longest);
    let mut data = vec![8; limits::INLINE_MAX];
    data[5] = b'x';
    assert!(content(&mut cluster, a, &inos, 0) == data && content(&mut cluster, a, &inos, FILES - 1) == data);
    finish(cluster, a, 1, FILES);
}

#[test]
fn of_what_is_written_again_and_again_only_the_last_moves() {
    let (mut cluster, a, here, inos) = full_inodes(2);
    let id = begin_while_written(&mut cluster, a, here, &inos);
    for byte in 0..FILES {
        fill(&mut cluster, a, &inos[..1], (byte % 100) as u8);
    }
    cluster.at(0, |world| world.syncs_data = true);
    cluster.wait_for("the end", |cluster| cluster.state(0, id) == "done");
    assert!(cluster.world(0).longest < BODY_MAX / 8, "{} bytes", cluster.world(0).longest);
    for (at, byte) in [(0, 99), (1, 21)] {
        assert!(content(&mut cluster, a, &inos, at) == vec![byte; limits::INLINE_MAX]);
    }
    finish(cluster, a, 1, 2);
}

/// More locks on these files than can move at once.
fn lock_all(cluster: &mut Cluster, client: usize, inos: &[Ino]) {
    let session = cluster.world(0).session(client);
    cluster.at(0, |world| {
        let slot = world.mds.sessions.find(session).expect("it has a session");
        for (at, ino) in inos.iter().enumerate() {
            for n in 0..230u64 {
                let (start, owner) = ((1 << 62) + n * 100, LockOwner(u64::MAX));
                let lock =
                    FileLock { kind: LockKind::Posix, owner, pid: u32::MAX, exclusive: true, start, end: start + 9 };
                world.mds.locks.set(*ino, slot, at as u64 + 1, lock);
            }
        }
    });
}

#[test]
fn a_directory_with_more_locks_than_can_move_at_once_stays_until_they_are_given_back() {
    let (mut cluster, a, here, inos) = full_inodes(2000);
    lock_all(&mut cluster, a, &inos);
    let id = cluster.begin_move(here, 0, 1);
    cluster.wait_for("the end", |cluster| cluster.state(0, id).starts_with("failed"));
    let state = cluster.state(0, id);
    assert_eq!(state, "failed: too many files are open or locked below it: close some, or move parts of it");
    assert_eq!(cluster.world(0).mds.locks.held(), 460_000, "nobody has lost one");
    let handles = (1..1000).collect();
    assert_eq!(
        cluster.ask(a, 0, Op::Control(Control::Close { handles, lost: false })),
        Outcome::Answered(Ok(Answer::Done))
    );
    cluster.migrate(here, 0, 1);
    assert_eq!((cluster.world(0).mds.locks.held(), cluster.world(1).mds.locks.held()), (0, 460_000 - 999 * 230));
    finish(cluster, a, 1, 2000);
}

#[test]
fn a_drain_that_meets_more_locks_than_can_move_at_once_says_so_and_goes_on_when_they_are_given_back() {
    let (mut cluster, a, _, inos) = full_inodes(2000);
    lock_all(&mut cluster, a, &inos);
    cluster.set_state(0, RankState::Draining);
    let why = "directory 1 cannot be moved to rank 1 yet: too many files are open or locked below it: close some, or move \
               parts of it";
    let stuck = |cluster: &Cluster| cluster.world(0).mds.drain_status().expect("it is being drained").stuck;
    cluster.wait_for("the reason", |cluster| stuck(cluster).is_some());
    // Also while it tries again.
    for _ in 0..40 {
        cluster.wait(50);
        assert_eq!(stuck(&cluster).as_deref(), Some(why));
    }
    assert_eq!(cluster.world(0).mds.status().drain_stuck.as_deref(), Some(why));
    let tried = cluster.world(0).mds.drain_status().expect("it is being drained").subtrees_given;
    assert!(tried < 10, "it tries again now and then, not all the time: {tried}");
    let handles = (1..1000).collect();
    assert_eq!(
        cluster.ask(a, 0, Op::Control(Control::Close { handles, lost: false })),
        Outcome::Answered(Ok(Answer::Done))
    );
    cluster.wait_member(0, &Member::Drained);
    assert_eq!(stuck(&cluster), None);
    finish(cluster, a, 1, 2000);
}
