//! Locks that are asked for while others of the same owner are being given back.

use loligo_types::{FileLock, LockKind, LockOwner};

use super::*;

const LOCK: FileLock =
    FileLock { kind: LockKind::Flock, owner: LockOwner(5), pid: 1, exclusive: true, start: 0, end: u64::MAX };

fn take_lock(fh: Fh) -> Call {
    Call::SetLock { fh, lock: LOCK, wait: true }
}

/// A file was open at rank 0 with a lock, and was closed, and opened and locked anew before the first lock is given back;
/// the number of the request that gives it back, and of the call that asks for the second.
fn locked_anew() -> (Ranks, u64, u64) {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::NONE);
    let first = world.call(take_lock(fh));
    assert!(matches!(world.answers(R0, Answer::Done), Op::Control(Control::SetLock { handle: 1, .. })));
    world.result(first).unwrap();
    let release = world.call(Call::Release { fh, flock_owner: Some(LOCK.owner) });
    world.result(release).unwrap();
    let (_, gives, op) = world.asked();
    assert!(matches!(op, Op::Control(Control::Unlock { handle: 1, .. })), "{op:?}");
    let open = world.call(Call::Open { ino: FILE, flags: rw() });
    world.answers(R0, opened(FILE, true, Lease::NONE));
    let fh = world.result(open).unwrap().fh.unwrap();
    let second = world.call(take_lock(fh));
    assert_eq!(world.take(), [], "what was held is given back first");
    (world, gives, second)
}

#[test]
fn a_lock_that_is_asked_for_anew_comes_after_the_old_one_was_given_back_where_the_file_has_moved() {
    let (mut world, gives, second) = locked_anew();
    world.moves(true);
    world.says(R0, ToClient::Redirect { seq: Seq(gives), rank: R1, routes: Vec::new(), done: None });
    assert!(matches!(world.answers(R1, Answer::Done), Op::Control(Control::Unlock { handle: 1, .. })));
    assert!(matches!(world.answers(R1, Answer::Done), Op::Control(Control::SetLock { handle: 2, .. })));
    world.result(second).unwrap();
}

#[test]
fn the_lock_of_another_owner_does_not_wait_for_what_is_given_back() {
    let (mut world, ..) = locked_anew();
    let other = FileLock { owner: LockOwner(6), ..LOCK };
    world.call(Call::SetLock { fh: Fh(2), lock: other, wait: true });
    assert!(matches!(world.asked(), (R0, _, Op::Control(Control::SetLock { .. }))));
}

#[test]
fn a_wait_for_a_lock_that_was_not_asked_for_yet_can_be_interrupted() {
    let (mut world, gives, second) = locked_anew();
    world.call(Call::CancelLock { ino: FILE, owner: LOCK.owner });
    assert_eq!(world.result(second).unwrap_err().error, FsError::Interrupted);
    world.answers(R0, Answer::Done);
    world.answer(R0, gives, Answer::Done, &[]);
    assert_eq!(world.take(), [], "nobody wants it any more");
}

#[test]
fn a_lock_that_is_got_for_a_call_that_was_interrupted_is_given_back() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::NONE);
    let lock = world.call(take_lock(fh));
    let (_, asks, _) = world.asked();
    world.feed(Input::Interrupt { id: CallId(lock), unserved: false });
    assert_eq!(world.result(lock).unwrap_err().error, FsError::Interrupted);
    world.answer(R0, asks, Answer::Done, &[]);
    assert!(matches!(world.answers(R0, Answer::Done), Op::Control(Control::Unlock { handle: 1, .. })));
    assert!(!world.client.has_requests());
}

#[test]
fn a_lock_does_not_wait_for_what_was_lost_with_a_session() {
    let (mut world, _, second) = locked_anew();
    world.says(R0, ToClient::Evicted);
    world.connect(R0, welcome(R0, 2));
    let (_, seq, op) = world.asked();
    assert!(matches!(op, Op::Control(Control::SetLock { handle: 2, .. })), "{op:?}");
    world.says(R0, ToClient::reply(seq, Err(FsError::BadHandle)));
    world.result(second).unwrap_err();
    assert!(!world.client.has_requests());
}

#[test]
fn who_waits_for_a_lock_to_be_given_back_is_told_when_its_rank_does_not_come_back() {
    let (mut world, _, second) = locked_anew();
    world.feed(Input::Disconnected { rank: R0 });
    world.ms += 1_000_000;
    world.feed(Input::Tick);
    assert_eq!(world.result(second).unwrap_err().error, FsError::Unavailable);
}

#[test]
fn a_wait_for_a_lock_that_is_sent_on_from_rank_to_rank_can_be_interrupted() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::NONE);
    world.meet_second();
    let lock = world.call(take_lock(fh));
    // Neither has it, until it is waited a little before the next is asked.
    let mut hops = 0;
    while let [Wire::Ask(rank, seq, Op::Control(Control::SetLock { .. }))] = world.take()[..] {
        let to = if rank == R0 { R1 } else { R0 };
        world.says(rank, ToClient::Redirect { seq: Seq(seq), rank: to, routes: Vec::new(), done: None });
        hops += 1;
    }
    assert!(hops > 1, "{hops}");
    world.call(Call::CancelLock { ino: FILE, owner: LOCK.owner });
    assert_eq!(world.result(lock).unwrap_err().error, FsError::Interrupted);
    world.take();
    world.ms += 60_000;
    world.feed(Input::Tick);
    let asks = |wire: &Wire| matches!(wire, Wire::Ask(_, _, Op::Control(Control::SetLock { .. })));
    assert!(!world.take().iter().any(asks), "nobody wants it any more");
}

#[test]
fn a_lock_that_was_being_given_back_when_the_session_was_lost_is_given_back_where_the_file_has_moved() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::NONE);
    world.meet_second();
    let lock = world.call(take_lock(fh));
    world.answers(R0, Answer::Done);
    world.result(lock).unwrap();
    let unlock = world.call(Call::Unlock { fh, lock: LOCK });
    assert!(matches!(world.asked(), (R0, _, Op::Control(Control::Unlock { .. }))));
    world.says(R0, ToClient::Routes { routes: vec![route(DIR, R1, 1)], moved: vec![FILE], to: Some(R1), frozen_ms: 0 });
    world.says(R0, ToClient::Evicted);
    let sent = world.take();
    let unlocks = |wire: &Wire| match wire {
        Wire::Ask(R1, seq, Op::Control(Control::Unlock { handle: 1, .. })) => Some(*seq),
        _ => None,
    };
    let seq = sent.iter().find_map(unlocks).unwrap_or_else(|| panic!("{sent:?}"));
    world.answer(R1, seq, Answer::Done, &[]);
    world.result(unlock).unwrap();
}

/// A file was closed while a lock on it was asked for: the numbers of that request, of what ends the wait, and of what gives it back.
fn closed_while_asked(world: &mut Ranks, fh: Fh) -> [u64; 3] {
    let lock = world.call(take_lock(fh));
    let (_, asks, op) = world.asked();
    assert!(matches!(op, Op::Control(Control::SetLock { handle: 1, .. })), "{op:?}");
    let release = world.call(Call::Release { fh, flock_owner: Some(LOCK.owner) });
    world.result(release).unwrap();
    let sent = world.take();
    let [
        Wire::Ask(R0, ends, Op::Control(Control::CancelLock { .. })),
        Wire::Ask(R0, gives, Op::Control(Control::Unlock { handle: 1, .. })),
    ] = sent[..]
    else {
        panic!("{sent:?}")
    };
    assert!(world.client.has_requests(), "{lock}");
    [asks, ends, gives]
}

#[test]
fn a_lock_that_was_asked_for_when_the_file_was_closed_is_given_back() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::NONE);
    let [asks, ends, gives] = closed_while_asked(&mut world, fh);
    world.answer(R0, asks, Answer::Done, &[]);
    world.answer(R0, ends, Answer::Done, &[]);
    let open = world.call(Call::Open { ino: FILE, flags: rw() });
    world.answers(R0, opened(FILE, true, Lease::NONE));
    let fh = world.result(open).unwrap().fh.unwrap();
    let second = world.call(take_lock(fh));
    assert_eq!(world.take(), [], "what was got is given back first");
    world.answer(R0, gives, Answer::Done, &[]);
    assert!(matches!(world.answers(R0, Answer::Done), Op::Control(Control::SetLock { handle: 2, .. })));
    world.result(second).unwrap();
    let release = world.call(Call::Release { fh, flock_owner: Some(LOCK.owner) });
    world.result(release).unwrap();
    assert!(matches!(world.answers(R0, Answer::Done), Op::Control(Control::Unlock { handle: 2, .. })), "once");
}

#[test]
fn a_lock_is_not_asked_for_where_the_file_has_moved_after_it_was_closed() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::NONE);
    let numbers = closed_while_asked(&mut world, fh);
    world.moves(true);
    for seq in numbers {
        world.says(R0, ToClient::Redirect { seq: Seq(seq), rank: R1, routes: Vec::new(), done: None });
    }
    let asks = |wire: &Wire| matches!(wire, Wire::Ask(_, _, Op::Control(Control::SetLock { .. })));
    assert!(!world.take().iter().any(asks), "nobody would give it back");
}

/// A file is closed, with a lock on it, that is held, or asked for and not answered, when its rank has not been there for so long that calls
/// fail: what is asked of the rank when it is there again.
fn closed_while_nobody_is_there(ranks: u16, held: bool) -> Vec<Op> {
    let mut world = Ranks::of(ranks);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::NONE);
    let lock = world.call(take_lock(fh));
    if held {
        world.answers(R0, Answer::Done);
        world.result(lock).unwrap();
    }
    world.feed(Input::Disconnected { rank: R0 });
    world.ms += 1_000_000;
    world.feed(Input::Tick);
    if !held {
        assert_eq!(world.result(lock).unwrap_err().error, FsError::Unavailable);
    }
    let release = world.call(Call::Release { fh, flock_owner: Some(LOCK.owner) });
    world.result(release).unwrap();
    world.take();
    world.connect(R0, Welcome { resumed: true, ..welcome(R0, ranks) });
    let asked = |wire| if let Wire::Ask(R0, _, op) = wire { Some(op) } else { None };
    let asked = world.take().into_iter().filter_map(asked);
    asked
        .filter(|op| {
            matches!(op, Op::Control(Control::SetLock { .. } | Control::CancelLock { .. } | Control::Unlock { .. }))
        })
        .collect()
}

#[test]
fn a_file_that_is_closed_while_nobody_is_there_is_closed_and_its_lock_given_back_when_somebody_is() {
    for ranks in [1, 2] {
        let asked = closed_while_nobody_is_there(ranks, true);
        assert!(matches!(asked[..], [Op::Control(Control::Unlock { handle: 1, .. })]), "{ranks} ranks: {asked:?}");
        let asked = closed_while_nobody_is_there(ranks, false);
        let ends = matches!(
            asked[..],
            [
                Op::Control(Control::SetLock { .. }),
                Op::Control(Control::CancelLock { .. }),
                Op::Control(Control::Unlock { handle: 1, .. })
            ]
        );
        assert!(ends, "{ranks} ranks: {asked:?}");
    }
}
