//! File locks between sessions.

use loligo_types::msg::ToServer;
use loligo_types::{Answer, Control, FileLock, FsError, Ino, LockKind, LockOwner, Op};

use super::*;

fn lock(owner: u64, start: u64, end: u64) -> FileLock {
    FileLock { kind: LockKind::Posix, owner: LockOwner(owner), pid: owner as u32, exclusive: true, start, end }
}

fn set(ino: Ino, lock: FileLock, wait: bool) -> Op {
    Op::Control(Control::SetLock { ino, handle: 1, lock, wait })
}

fn open_by_two() -> (World, usize, usize, Ino) {
    let mut world = World::new();
    let (a, b) = (world.client(), world.client());
    let ino = world.create(a, Ino::ROOT, "f", WRITE, 1).ino;
    world.open(b, ino, WRITE, 1);
    (world, a, b, ino)
}

#[test]
fn one_waits_until_the_other_unlocks() {
    let (mut world, a, b, ino) = open_by_two();
    assert_eq!(world.call(a, set(ino, lock(7, 0, 9), false)), Ok(Answer::Done));
    assert_eq!(world.call(b, set(ino, lock(7, 5, 5), false)), Err(FsError::WouldBlock));
    let get = Op::Control(Control::GetLock { ino, handle: 1, lock: lock(7, 5, 5) });
    assert_eq!(world.call(b, get), Ok(Answer::Lock(Some(lock(7, 0, 9)))));
    let seq = world.send(b, set(ino, lock(7, 5, 5), true));
    assert_eq!(world.reply(b, seq), None);
    assert_eq!(world.mds.status().waiting[0].why, "lock");
    world.call(a, Op::Control(Control::Unlock { ino, handle: 1, lock: lock(7, 0, 9) })).expect("it is held");
    assert_eq!(world.reply(b, seq).map(|(result, _)| result), Some(Ok(Answer::Done)));
}

#[test]
fn a_wait_that_would_never_end_is_refused() {
    let (mut world, a, b, ino) = open_by_two();
    world.call(a, set(ino, lock(1, 0, 0), false)).expect("free");
    world.call(b, set(ino, lock(2, 1, 1), false)).expect("free");
    let seq = world.send(a, set(ino, lock(1, 1, 1), true));
    assert_eq!(world.call(b, set(ino, lock(2, 0, 0), true)), Err(FsError::Deadlock));
    world.call(b, Op::Control(Control::Unlock { ino, handle: 1, lock: lock(2, 1, 1) })).expect("it is held");
    assert!(world.reply(a, seq).is_some());
}

#[test]
fn a_wait_can_be_given_up() {
    let (mut world, a, b, ino) = open_by_two();
    world.call(a, set(ino, lock(1, 0, 0), false)).expect("free");
    let seq = world.send(b, set(ino, lock(2, 0, 0), true));
    world.call(b, Op::Control(Control::CancelLock { ino, owner: LockOwner(2) })).expect("always");
    assert_eq!(world.reply(b, seq).map(|(result, _)| result), Some(Err(FsError::Interrupted)));
    world.call(a, close(1)).expect("it is open");
    assert_eq!(world.mds.status().locks, 0);
}

#[test]
fn locks_end_with_the_handle_and_with_the_session() {
    let (mut world, a, b, ino) = open_by_two();
    world.call(a, set(ino, lock(1, 0, 0), false)).expect("free");
    let seq = world.send(b, set(ino, lock(2, 0, 0), true));
    world.call(a, close(1)).expect("it is open");
    assert!(world.reply(b, seq).is_some());
    world.open(a, ino, WRITE, 1);
    let seq = world.send(a, set(ino, lock(1, 0, 0), true));
    assert_eq!(world.reply(a, seq), None);
    world.message(b, ToServer::Goodbye { gone: false });
    assert_eq!(world.reply(a, seq).map(|(result, _)| result), Some(Ok(Answer::Done)));
}

#[test]
fn a_retry_of_a_wait_waits_once() {
    let (mut world, a, b, ino) = open_by_two();
    world.call(a, set(ino, lock(1, 0, 0), false)).expect("free");
    let op = set(ino, lock(2, 0, 0), true);
    let seq = world.send(b, op.clone());
    world.reconnect(b);
    world.send_again(b, seq, op);
    assert_eq!(world.mds.status().waiting_count, 1);
    world.call(a, close(1)).expect("it is open");
    assert_eq!(world.reply(b, seq).map(|(result, _)| result), Some(Ok(Answer::Done)));
    assert_eq!(world.reply(b, seq), None);
}

#[test]
fn a_lock_needs_its_handle() {
    let (mut world, a, _, ino) = open_by_two();
    assert_eq!(
        world.call(a, Op::Control(Control::SetLock { ino, handle: 9, lock: lock(1, 0, 0), wait: false })),
        Err(FsError::BadHandle)
    );
    assert_eq!(world.call(a, set(ino, lock(1, 5, 4), false)), Err(FsError::Invalid));
}
