//! State that a client no longer relies on: names that were lost meanwhile, and files of a session that is gone.

use loligo_types::{FileLock, LockKind, LockOwner};

use super::*;

#[test]
fn a_name_that_was_said_before_the_names_were_lent_is_not_cached_when_its_inode_is_found_after_it() {
    for lent_before in [false, true] {
        let mut world = Ranks::with_second();
        let slow = world.call(lookup(Ino::ROOT, "r"));
        let (_, seq, _) = world.asked();
        let granted: &[_] = if lent_before { &[(Ino::ROOT, Lease::NAMES)] } else { &[] };
        world.answer(R0, seq, Answer::Remote { ino: FILE, kind: Kind::File, rank: R1 }, granted);
        let (rank, second, _) = world.asked();
        assert_eq!(rank, R1);
        if lent_before {
            world.says(R0, ToClient::Recall { ino: Ino::ROOT, id: 1, bits: Lease::NAMES });
            world.take();
        }
        // Meanwhile the name becomes another file's, and is looked up once more.
        let quick = world.call(lookup(Ino::ROOT, "r"));
        let (_, seq, _) = world.asked();
        world.answer(R0, seq, entry(Ino(0x160), Kind::File), &[(Ino::ROOT, Lease::NAMES)]);
        assert!(world.result(quick).unwrap().names_cached);
        world.answer(R1, second, entry(FILE, Kind::File), &[(FILE, Lease::ATTR)]);
        let done = world.result(slow).unwrap();
        assert!(!done.names_cached && done.attr_cached, "lent before: {lent_before}");
    }
}

#[test]
fn rights_that_the_new_rank_wanted_back_before_the_old_ones_answer_gave_them_do_not_count() {
    let mut world = Ranks::with_second();
    let open = world.call(Call::Open { ino: FILE, flags: rw() });
    let (rank, seq, _) = world.asked();
    let new = if rank == R0 { R1 } else { R0 };
    // It has moved with its handle, and somebody else opens it there.
    world.says(new, ToClient::Recall { ino: FILE, id: 9, bits: Lease::CACHE | Lease::BUFFER });
    assert_eq!(world.take(), [Wire::Other(new, ToServer::RecallDone { ino: FILE, id: 9 })]);
    world.answer(rank, seq, opened(FILE, true, Lease::CACHE | Lease::BUFFER), &[(FILE, Lease::ATTR)]);
    let done = world.result(open).unwrap();
    assert!(!done.attr_cached);
    let id = world.call(write(done.fh.unwrap(), b"through"));
    let wire = world.take();
    assert!(matches!(wire[..], [Wire::Ask(_, _, Op::WriteInline { ino: FILE, .. })]), "{wire:?}");
    let _ = id;
}

#[test]
fn leases_that_moved_to_a_rank_that_is_never_reached_are_not_used_for_longer_than_a_session_lives() {
    for (frozen_ms, seconds) in [(0, 8), (5000, 3)] {
        let mut world = Ranks::of(2);
        for _ in 0..2 {
            world.ms += 4000;
            world.feed(Input::Tick);
            world.says(R0, ToClient::Pong { at_ms: 0 });
        }
        world.take();
        world.look_up_dir();
        world.look_up_lent(FILE);
        let (routes, moved) = (vec![route(DIR, R1, 1)], vec![DIR, FILE]);
        world.says(R0, ToClient::Routes { routes, moved, to: Some(R1), frozen_ms });
        world.feed(Input::Disconnected { rank: R0 });
        world.dropped.clear();
        for second in 0..=seconds {
            let dropped: Vec<Invalidation> = world.dropped.iter().map(|(_, what)| *what).collect();
            let [names, attr] =
                [Invalidation::Names(DIR), Invalidation::Attr(FILE)].map(|what| dropped.contains(&what));
            assert_eq!((names, attr), (second == seconds, second == seconds), "{second} s after {frozen_ms} ms");
            world.ms += 1000;
            world.feed(Input::Tick);
        }
    }
}

/// Names of a directory that the first rank lent, which then was not reached for a while.
fn names_over_a_pause(dir: Ino, kept: bool, routes: Vec<Route>) -> Ranks {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let look = world.call(lookup(dir, "x"));
    let (_, seq, _) = world.asked();
    world.answer(R0, seq, entry(FILE, Kind::File), &[(dir, Lease::NAMES)]);
    assert!(world.result(look).unwrap().names_cached);
    world.feed(Input::Disconnected { rank: R0 });
    world.take();
    world.connect(R0, Welcome { resumed: true, kept, routes, ..welcome(R0, 2) });
    world.take();
    world
}

#[test]
fn names_that_may_have_moved_unheard_are_given_up_if_the_map_does_not_say_where_they_are() {
    // Nobody has told of its parent.
    let dir = Ino(0x180);
    for kept in [false, true] {
        let mut world = names_over_a_pause(dir, kept, vec![route(Ino::ROOT, R1, 2)]);
        let given_up = std::mem::take(&mut world.dropped);
        let [(own, Invalidation::Names(of))] = given_up[..] else { panic!("{given_up:?}") };
        assert_eq!(of, dir);
        // It had not moved, and somebody changes it: caches above must have dropped it before.
        world.says(R0, ToClient::Recall { ino: dir, id: 7, bits: Lease::NAMES });
        let again = std::mem::take(&mut world.dropped);
        let [(token, Invalidation::Names(_))] = again[..] else { panic!("{again:?}") };
        world.feed(Input::Invalidated { token: own });
        assert_eq!(world.take(), [], "kept: {kept}");
        world.feed(Input::Invalidated { token });
        assert_eq!(world.take(), [Wire::Other(R0, ToServer::RecallDone { ino: dir, id: 7 })]);
    }
}

#[test]
fn a_rank_that_has_got_what_is_not_held_any_more_is_connected_to_so_that_it_can_want_it_back() {
    let dir = Ino(0x180);
    let mut world = names_over_a_pause(dir, true, Vec::new());
    let given_up = std::mem::take(&mut world.dropped);
    let [(token, Invalidation::Names(_))] = given_up[..] else { panic!("{given_up:?}") };
    world.feed(Input::Invalidated { token });
    // The rank that lent them does not know of that.
    world.says(R0, ToClient::Routes { routes: vec![route(dir, R1, 2)], moved: vec![dir], to: Some(R1), frozen_ms: 0 });
    assert_eq!(world.take(), [Wire::Connect(R1, Some("at 1".into()))]);
    world.connect(R1, Welcome { resumed: true, kept: true, ..welcome(R1, 2) });
    world.says(R1, ToClient::Recall { ino: dir, id: 7, bits: Lease::NAMES });
    assert_eq!(world.take(), [Wire::Other(R1, ToServer::RecallDone { ino: dir, id: 7 })], "at once");
}

#[test]
fn what_caches_above_still_drop_is_claimed_of_a_rank_that_has_restarted_and_given_back_when_they_have() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    world.look_up_lent(FILE);
    for (id, ino, bits) in [(7, DIR, Lease::NAMES), (8, FILE, Lease::ATTR)] {
        world.says(R0, ToClient::Recall { ino, id, bits });
    }
    let first = std::mem::take(&mut world.dropped);
    // The change for which they are wanted back is sent again, too, and would be made at once if nobody had them.
    world.feed(Input::Disconnected { rank: R0 });
    world.take();
    world.connect(R0, Welcome { resumed: true, kept: false, ..welcome(R0, 2) });
    let wire = world.take();
    let Some(Wire::Other(R0, ToServer::Reclaim(claim))) = wire.first() else { panic!("{wire:?}") };
    assert_eq!(claim.leases, [(DIR, Lease::NAMES), (FILE, Lease::ATTR)]);
    world.says(R0, ToClient::Recall { ino: DIR, id: 1, bits: Lease::NAMES });
    for (token, _) in first {
        assert_eq!(world.take(), [], "caches above have it yet");
        world.feed(Input::Invalidated { token });
    }
    let [(token, Invalidation::Names(DIR))] = world.dropped[..] else { panic!("{:?}", world.dropped) };
    world.feed(Input::Invalidated { token });
    assert_eq!(world.take(), [Wire::Other(R0, ToServer::RecallDone { ino: DIR, id: 1 })]);
    // The other is dropped by now, and nothing waits for that any more.
    world.says(R0, ToClient::Recall { ino: FILE, id: 2, bits: Lease::ATTR });
    assert_eq!(world.take(), [Wire::Other(R0, ToServer::RecallDone { ino: FILE, id: 2 })]);
}

#[test]
fn what_caches_above_still_drop_for_a_rank_is_claimed_where_it_has_moved_and_not_given_up_with_its_session() {
    for lost in [false, true] {
        let mut world = Ranks::of(2);
        world.look_up_dir();
        world.meet_second();
        let look = world.call(lookup(DIR, "x"));
        let (_, seq, _) = world.asked();
        world.answer(R0, seq, entry(FILE, Kind::File), &[(DIR, Lease::NAMES)]);
        world.result(look).unwrap();
        world.says(R0, ToClient::Recall { ino: DIR, id: 7, bits: Lease::NAMES });
        let (token, _) = world.dropped.pop().expect("it is dropped");
        world.says(
            R0,
            ToClient::Routes { routes: vec![route(DIR, R1, 1)], moved: vec![DIR], to: Some(R1), frozen_ms: 0 },
        );
        if lost {
            world.feed(Input::Disconnected { rank: R0 });
            world.take();
            world.connect(R0, welcome(R0, 2));
            world.take();
        } else {
            world.feed(Input::Disconnected { rank: R1 });
            world.take();
            world.connect(R1, Welcome { resumed: true, kept: false, ..welcome(R1, 2) });
            let wire = world.take();
            let Some(Wire::Other(R1, ToServer::Reclaim(claim))) = wire.first() else { panic!("{wire:?}") };
            assert_eq!(claim.leases, [(DIR, Lease::NAMES)]);
        }
        world.dropped.clear();
        world.says(R1, ToClient::Recall { ino: DIR, id: 3, bits: Lease::NAMES });
        assert_eq!(world.take(), [], "lost: {lost}");
        world.feed(Input::Invalidated { token });
        for (token, _) in std::mem::take(&mut world.dropped) {
            world.feed(Input::Invalidated { token });
        }
        let done = Wire::Other(R1, ToServer::RecallDone { ino: DIR, id: 3 });
        assert!(world.take().contains(&done), "lost: {lost}");
    }
}

#[test]
fn names_that_the_map_says_to_be_where_they_were_are_kept_over_a_lost_connection_and_a_restart() {
    for kept in [false, true] {
        let world = names_over_a_pause(DIR, kept, vec![route(Ino::ROOT, R0, 1)]);
        assert_eq!(world.dropped, [], "kept: {kept}");
    }
}

#[test]
fn an_open_that_is_answered_after_its_call_was_given_up_is_closed() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    world.create(R0, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    world.says(R0, ToClient::Routes { routes: vec![route(DIR, R1, 1)], moved: vec![FILE], to: Some(R1), frozen_ms: 0 });
    let open = world.call(Call::Open { ino: FILE, flags: OpenFlags { truncate: true, ..rw() } });
    assert_eq!(world.take(), [Wire::Connect(R1, Some("at 1".into()))]);
    // What had moved there is lost, and so is whoever waits for it.
    world.connect(R1, welcome(R1, 2));
    let wire = world.knows_no_handle(R1);
    assert_eq!(world.result(open).unwrap_err().error, FsError::Stale);
    let asked = |wire: &Wire| match wire {
        Wire::Ask(R1, seq, Op::Open { handle: 2, .. }) => Some(*seq),
        _ => None,
    };
    let seq = wire.iter().find_map(asked).unwrap_or_else(|| panic!("{wire:?}"));
    world.answer(R1, seq, opened(FILE, true, Lease::NONE), &[]);
    world.feed(Input::Tick);
    let wire = world.take();
    let closed =
        |wire: &Wire| matches!(wire, Wire::Ask(R1, _, Op::Control(Control::Close { handles, .. })) if *handles == [2]);
    assert!(wire.iter().any(closed), "{wire:?}");
}

#[test]
fn handles_that_are_lost_with_a_session_are_closed_at_a_rank_that_is_met_later() {
    for closes in [false, true] {
        lost_and_closed_later(closes);
    }
}

impl Ranks {
    /// Handles that were closed since the last look, and where.
    pub(super) fn closes(&mut self) -> Vec<(Rank, Vec<u64>)> {
        let closed = |wire| match wire {
            Wire::Ask(rank, _, Op::Control(Control::Close { handles, .. })) => Some((rank, handles)),
            _ => None,
        };
        self.take().into_iter().filter_map(closed).collect()
    }
}

/// `closes`: the rank was to close it, and was not there.
fn lost_and_closed_later(closes: bool) {
    let mut world = Ranks::of(2);
    let fh = world.create(R0, DIR, FILE, true, Lease::NONE);
    world.take();
    world.feed(Input::Disconnected { rank: R0 });
    if closes {
        let id = world.call(Call::Release { fh, flock_owner: None });
        world.result(id).unwrap();
        world.ms += 1_000_000;
    }
    world.connect(R0, Welcome { resumed: true, kept: true, ..welcome(R0, 2) });
    world.feed(Input::Tick);
    let asked = |wire: &Wire| matches!(wire, Wire::Ask(R0, _, Op::Control(Control::Close { handles, lost: false })) if *handles == [1]);
    assert_eq!(world.take().iter().any(asked), closes);
    world.says(R0, ToClient::Evicted);
    world.take();
    let id = world.call(lookup(DIR, "other"));
    world.connect(R0, welcome(R0, 2));
    let (_, seq, _) = world.asked();
    let redirect = ToClient::Redirect { seq: Seq(seq), rank: R1, routes: vec![route(DIR, R1, 1)], done: None };
    world.says(R0, redirect);
    // The directory had moved, with what was open in it.
    world.connect(R1, Welcome { resumed: true, kept: true, ..welcome(R1, 3) });
    let wire = world.take();
    let close = |wire: &Wire| matches!(wire, Wire::Ask(R1, _, Op::Control(Control::Close { handles, lost: true })) if *handles == [1]);
    assert!(wire.iter().any(close), "{wire:?}");
    let _ = id;
}

#[test]
fn what_has_moved_to_a_rank_where_the_session_had_ended_is_closed_there() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    world.meet_second();
    world.create(R0, DIR, FILE, true, Lease::NONE);
    world.feed(Input::Disconnected { rank: R1 });
    world.says(R0, ToClient::Routes { routes: Vec::new(), moved: vec![FILE], to: Some(R1), frozen_ms: 0 });
    world.take();
    // It came when the old session was no more, and so in a new one.
    world.connect(R1, Welcome { session: SessionId(9), kept: true, ..welcome(R1, 2) });
    let wire = world.take();
    let close = |wire: &Wire| matches!(wire, Wire::Ask(R1, _, Op::Control(Control::Close { handles, lost: true })) if *handles == [1]);
    assert!(wire.iter().any(close), "{wire:?}");
}

#[test]
fn handles_that_are_lost_with_a_session_are_closed_where_they_may_have_moved() {
    let mut world = Ranks::with_second();
    let fh = world.create(R1, DIR, FILE, true, Lease::NONE);
    world.take();
    world.says(R1, ToClient::Evicted);
    let closes = world.take();
    let close = |wire: &Wire| matches!(wire, Wire::Ask(R0, _, Op::Control(Control::Close { handles, lost: true })) if *handles == [1]);
    assert!(closes.iter().any(close), "{closes:?}");
    let id = world.call(write(fh, b"x"));
    assert_eq!(world.result(id).unwrap_err().error, FsError::Stale);
}

#[test]
fn what_is_sent_from_rank_to_rank_is_not_written_after_its_handle_was_lost() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    world.write(fh, b"held back");
    let flush = world.call(Call::Flush { fh, owner: None });
    // On its way to another rank, which has not got the file when it is met first.
    world.redirects(R0, R1, &[], None);
    world.take();
    world.connect(R1, welcome(R1, 2));
    let wire = world.knows_no_handle(R1);
    assert!(world.result(flush).is_err(), "it is told that it was lost");
    for wire in wire {
        if let Wire::Ask(R1, seq, Op::WriteInline { .. }) = wire {
            world.says(R1, ToClient::Redirect { seq: Seq(seq), rank: R0, routes: Vec::new(), done: None });
        }
    }
    for _ in 0..10 {
        world.ms += 500;
        world.feed(Input::Tick);
    }
    let again = |wire: &Wire| matches!(wire, Wire::Ask(R0, _, Op::WriteInline { .. }));
    assert!(!world.take().iter().any(again));
}

#[test]
fn a_lock_is_not_sent_from_rank_to_rank_after_its_handle_was_lost() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::NONE);
    let lock =
        FileLock { kind: LockKind::Flock, owner: LockOwner(1), pid: 1, exclusive: true, start: 0, end: u64::MAX };
    let locks = world.call(Call::SetLock { fh, lock, wait: true });
    world.redirects(R0, R1, &[], None);
    world.take();
    world.connect(R1, welcome(R1, 2));
    let wire = world.knows_no_handle(R1);
    let asked = wire.iter().find_map(|wire| match wire {
        Wire::Ask(R1, seq, Op::Control(Control::SetLock { .. })) => Some(*seq),
        _ => None,
    });
    // What is sent on now might be granted there to nobody.
    world.says(R1, ToClient::Redirect { seq: Seq(asked.unwrap()), rank: R0, routes: Vec::new(), done: None });
    assert_eq!(world.result(locks).unwrap_err().error, FsError::Stale);
    assert!(!world.take().iter().any(|wire| matches!(wire, Wire::Ask(_, _, Op::Control(Control::SetLock { .. })))));
}

#[test]
fn what_the_new_rank_wanted_back_before_the_move_was_heard_is_not_held_of_it_though_the_directory_was_in_parts() {
    let mut world = Ranks::with_second();
    let halves = Frag::WHOLE.split(1);
    let line = |frag, rank| Route { dir: DIR, frag, rank, version: 7 };
    world.says(
        R1,
        ToClient::Routes {
            routes: vec![line(halves[0], R0), line(halves[1], R1)],
            moved: vec![],
            to: None,
            frozen_ms: 0,
        },
    );
    let look = world.call(lookup(DIR, "x"));
    let (rank, seq, _) = world.asked();
    world.answer(rank, seq, entry(FILE, Kind::File), &[(DIR, Lease::NAMES)]);
    assert!(world.result(look).unwrap().names_cached);
    let other = if rank == R0 { R1 } else { R0 };
    world.says(other, ToClient::Recall { ino: DIR, id: 5, bits: Lease::NAMES });
    for (token, _) in std::mem::take(&mut world.dropped) {
        world.feed(Input::Invalidated { token });
    }
    world.take();
    world.says(
        rank,
        ToClient::Routes { routes: vec![route(DIR, other, 9)], moved: vec![DIR], to: Some(other), frozen_ms: 0 },
    );
    let look = world.call(lookup(DIR, "y"));
    world.answers(other, entry(FILE, Kind::File));
    assert!(!world.result(look).unwrap().names_cached, "that rank has it back");
}

#[test]
fn what_two_ranks_want_back_is_not_given_to_the_second_before_caches_above_have_dropped_it() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    world.meet_second();
    let look = world.call(lookup(DIR, "x"));
    let (_, seq, _) = world.asked();
    world.answer(R0, seq, entry(FILE, Kind::File), &[(DIR, Lease::NAMES)]);
    assert!(world.result(look).unwrap().names_cached);
    for rank in [R1, R0] {
        world.says(rank, ToClient::Recall { ino: DIR, id: 7, bits: Lease::NAMES });
        assert_eq!(world.take(), [], "rank {rank}");
    }
    let dropped = std::mem::take(&mut world.dropped);
    let tokens: Vec<_> = dropped.iter().filter(|(_, what)| *what == Invalidation::Names(DIR)).collect();
    for ((token, _), rank) in tokens.into_iter().zip([R1, R0]) {
        world.feed(Input::Invalidated { token: *token });
        assert_eq!(world.take(), [Wire::Other(rank, ToServer::RecallDone { ino: DIR, id: 7 })]);
    }
}

#[test]
fn what_a_rank_wants_back_of_a_file_is_given_back_when_that_is_lost_with_the_session_where_it_has_moved() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    world.meet_second();
    let fh = world.create(R0, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    world.write(fh, b"held back");
    world.says(R0, ToClient::Recall { ino: FILE, id: 7, bits: Lease::CACHE | Lease::BUFFER });
    assert!(matches!(world.asked(), (R0, _, Op::WriteInline { .. })), "first that is written");
    world.says(R0, ToClient::Routes { routes: vec![route(DIR, R1, 1)], moved: vec![FILE], to: Some(R1), frozen_ms: 0 });
    world.feed(Input::Disconnected { rank: R1 });
    world.take();
    world.connect(R1, welcome(R1, 2));
    let done = Wire::Other(R0, ToServer::RecallDone { ino: FILE, id: 7 });
    let wire = world.take();
    assert!(wire.contains(&done), "else that rank ends the session: {wire:?}");
}

/// A file with what is held back, and names, have moved to the second rank, which was never met.
fn moved_to_second() -> (Ranks, Fh) {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let look = world.call(lookup(DIR, "x"));
    let (_, seq, _) = world.asked();
    world.answer(R0, seq, entry(Ino(0x1ff), Kind::File), &[(DIR, Lease::NAMES)]);
    world.result(look).unwrap();
    let fh = world.create(R0, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    world.write(fh, b"held back");
    let moved = vec![DIR, FILE];
    world.says(R0, ToClient::Routes { routes: vec![route(DIR, R1, 1)], moved, to: Some(R1), frozen_ms: 0 });
    assert_eq!(world.take(), [Wire::Connect(R1, Some("at 1".into()))]);
    (world, fh)
}

#[test]
fn what_has_moved_to_a_rank_that_restarts_before_it_is_met_is_reclaimed_there() {
    let (mut world, fh) = moved_to_second();
    let routes = vec![route(DIR, R1, 1)];
    let hello = world.connect(R1, Welcome { resumed: true, kept: false, routes, ..welcome(R1, 2) });
    assert_eq!(hello.resume, None);
    let wire = world.take();
    let Some(Wire::Other(R1, ToServer::Reclaim(claim))) = wire.first() else { panic!("{wire:?}") };
    assert_eq!(claim.opens, [(1, FILE, rw(), Lease::CACHE | Lease::BUFFER)]);
    assert_eq!(claim.leases, [(DIR, Lease::NAMES)]);
    assert_eq!(world.dropped, []);
    let flush = world.call(Call::Flush { fh, owner: None });
    let op = world.answers(R1, entry(FILE, Kind::File));
    assert!(matches!(op, Op::WriteInline { handle: 1, .. }), "{op:?}");
    world.result(flush).unwrap();
}

/// A first hello to the second rank is not answered, and so long after what has moved to it the second is.
fn is_answered_after(world: &mut Ranks, ms: u64) -> bool {
    world.feed(Input::Connected { rank: R1 });
    world.feed(Input::Disconnected { rank: R1 });
    world.take();
    world.ms += ms;
    world.connect(R1, Welcome { resumed: true, kept: false, ..welcome(R1, 2) });
    let reclaims = |wire: &Wire| matches!(wire, Wire::Other(R1, ToServer::Reclaim(_)));
    world.wire.iter().any(reclaims)
}

#[test]
fn what_has_moved_is_lost_if_the_session_that_a_restart_has_found_may_have_begun_without_it() {
    let (mut world, fh) = moved_to_second();
    // With the first hello a session may have begun, because the one that came with what has moved had ended.
    assert!(!is_answered_after(&mut world, 8000), "others may have had it since");
    world.knows_no_handle(R1);
    let flush = world.call(Call::Flush { fh, owner: None });
    assert_eq!(world.result(flush).unwrap_err().error, FsError::Io);
}

#[test]
fn what_has_moved_is_reclaimed_though_a_hello_was_not_answered_as_long_as_its_session_lives() {
    let (mut world, fh) = moved_to_second();
    assert!(is_answered_after(&mut world, 7000));
    world.take();
    let flush = world.call(Call::Flush { fh, owner: None });
    assert!(matches!(world.answers(R1, entry(FILE, Kind::File)), Op::WriteInline { handle: 1, .. }));
    world.result(flush).unwrap();
}

#[test]
fn who_was_refused_has_begun_no_session_and_reclaims_what_has_moved_however_late() {
    let (mut world, fh) = moved_to_second();
    world.feed(Input::Connected { rank: R1 });
    world.says(R1, ToClient::Refused { why: Refusal::Stopping, text: String::new() });
    world.take();
    world.ms += 8000;
    world.connect(R1, Welcome { resumed: true, kept: false, ..welcome(R1, 2) });
    let wire = world.take();
    assert!(matches!(wire.first(), Some(Wire::Other(R1, ToServer::Reclaim(_)))), "{wire:?}");
    let flush = world.call(Call::Flush { fh, owner: None });
    assert!(matches!(world.answers(R1, entry(FILE, Kind::File)), Op::WriteInline { handle: 1, .. }));
    world.result(flush).unwrap();
}

#[test]
fn what_did_not_arrive_where_it_moved_is_lost_and_nothing_else() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    let other = world.create(R0, Ino::ROOT, Ino(0x200), true, Lease::CACHE | Lease::BUFFER);
    world.write(fh, b"moved");
    world.moves(false);
    world.knows_no_handle(R1);
    let id = world.call(Call::Flush { fh, owner: None });
    assert_eq!(world.result(id).unwrap_err().error, FsError::Io);
    let closed = Op::Control(Control::Close { handles: vec![1], lost: true });
    let wire = world.take();
    let closes = |at| wire.iter().any(|wire| matches!(wire, Wire::Ask(rank, _, op) if *rank == at && *op == closed));
    assert!(closes(R0) && closes(R1), "{wire:?}");
    world.write(other, b"stays");
}

#[test]
fn leases_that_moved_before_a_restart_of_which_it_was_heard_first_are_not_relied_on() {
    for (restarts, frozen_ms) in [(false, 5), (true, 5)] {
        let mut world = Ranks::of(2);
        world.look_up_dir();
        world.look_up_lent(Ino(0x102));
        world.meet_second();
        if restarts {
            world.feed(Input::Disconnected { rank: R1 });
            world.take();
            world.connect(R1, Welcome { resumed: true, ..welcome(R1, 2) });
        }
        world.dropped.clear();
        let moved = vec![DIR, Ino(0x102)];
        world.says(R0, ToClient::Routes { routes: vec![route(DIR, R1, 2)], moved, to: Some(R1), frozen_ms });
        let dropped: Vec<Invalidation> = world.dropped.iter().map(|(_, what)| *what).collect();
        let all = [Invalidation::Names(DIR), Invalidation::Attr(Ino(0x102))];
        assert_eq!(dropped, if restarts { all.to_vec() } else { Vec::new() });
    }
}

#[test]
fn data_of_a_file_that_is_said_to_have_moved_to_a_rank_that_takes_back_what_is_held_waits_for_that() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, false, Lease::NONE);
    world.meet_second();
    world.feed(Input::Disconnected { rank: R1 });
    world.take();
    world.connect(R1, Welcome { resumed: true, ..welcome(R1, 2) });
    let wire = world.take();
    let held = |wire: &Wire| match wire {
        Wire::Ask(R1, seq, Op::Control(Control::Close { handles, .. })) if handles.is_empty() => Some(*seq),
        _ => None,
    };
    let seq = wire.iter().find_map(held).unwrap_or_else(|| panic!("{wire:?}"));
    world.says(R0, ToClient::Routes { routes: vec![route(DIR, R1, 1)], moved: vec![FILE], to: Some(R1), frozen_ms: 1 });
    world.call(write(fh, b"after the move"));
    let sent = |wire: &Wire| matches!(wire, Wire::Data(R1, ..));
    assert!(!world.take().iter().any(sent), "it does not know the handle yet");
    world.answer(R1, seq, Answer::Done, &[]);
    assert!(world.take().iter().any(sent));
}

#[test]
fn an_answer_for_a_file_that_was_lost_is_not_taken_for_one_of_the_same_file_that_is_opened_anew() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    world.write(fh, b"lost");
    world.moves(false);
    // Whether the handle is known is asked by what writes back, and for itself.
    let asked: Vec<u64> = world.take().iter().filter_map(knows).collect();
    let [of_run, of_handle] = asked[..] else { panic!("{asked:?}") };
    world.says(R1, ToClient::reply(of_handle, Err(FsError::BadHandle)));
    world.take();
    let open = world.call(Call::Open { ino: FILE, flags: rw() });
    let wire = world.take();
    let opens = wire.iter().find_map(|wire| match wire {
        Wire::Ask(R1, seq, Op::Open { .. }) => Some(*seq),
        _ => None,
    });
    world.answer(R1, opens.expect("it is opened"), opened(FILE, true, Lease::CACHE | Lease::BUFFER), &[]);
    let fh = world.result(open).unwrap().fh.unwrap();
    world.write(fh, b"anew");
    let flush = world.call(Call::Flush { fh, owner: None });
    let (_, seq, op) = world.asked();
    assert!(matches!(op, Op::WriteInline { handle: 2, .. }), "{op:?}");
    world.answer(R1, of_run, Answer::Lock(None), &[]);
    assert!(world.done.is_empty(), "it is not written yet");
    world.answer(R1, seq, entry(FILE, Kind::File), &[]);
    world.result(flush).unwrap();
}

/// The number of a question whether the first handle is known.
fn knows(wire: &Wire) -> Option<u64> {
    match wire {
        Wire::Ask(R1, seq, Op::Control(Control::GetLock { ino: FILE, handle: 1, .. })) => Some(*seq),
        _ => None,
    }
}

#[test]
fn a_file_is_not_lost_because_a_rank_fails_to_say_where_it_is() {
    for (says, fails) in [(FsError::Io, FsError::Io), (FsError::Stale, FsError::Stale)] {
        let mut world = Ranks::of(2);
        world.look_up_dir();
        let fh = world.create(R0, DIR, FILE, false, Lease::CACHE | Lease::BUFFER);
        world.write(fh, b"to objects");
        let flush = world.call(Call::Flush { fh, owner: None });
        let wire = world.take();
        let [Wire::Data(R0, id, DataOp::Write { .. })] = wire[..] else { panic!("{wire:?}") };
        world.says(R0, ToClient::Data { id, result: Err(DataError::Moved) });
        let (rank, seq, op) = world.asked();
        assert_eq!((rank, op), (R0, Op::GetAttr { ino: FILE }));
        world.says(R0, ToClient::reply(seq, Err(says)));
        assert_eq!(world.result(flush).map(|_| ()), Err(fails.into()));
    }
}

/// A crash can take back that a session has ended, and its rank give it to this client again.
#[test]
fn requests_of_a_session_that_begins_have_other_numbers_than_those_of_the_one_before() {
    let mut world = Ranks::of(1);
    let ask = |world: &mut Ranks| {
        let id = world.call(lookup(Ino::ROOT, "d"));
        let (_, seq, _) = world.asked();
        world.answer(R0, seq, entry(DIR, Kind::Dir), &[]);
        world.result(id).unwrap();
        seq
    };
    let before = [ask(&mut world), ask(&mut world)];
    world.says(R0, ToClient::Evicted);
    world.take();
    world.connect(R0, Welcome { session: SessionId(9), ..welcome(R0, 1) });
    let after = ask(&mut world);
    assert!(after > before[1], "{before:?} {after}");
}

#[test]
fn a_directory_of_which_another_rank_has_a_name_is_closed_where_it_was_opened_too() {
    let mut world = Ranks::with_second();
    let id = world.call(Call::Open { ino: DIR, flags: OpenFlags { read: true, ..OpenFlags::default() } });
    let opened = Answer::Opened { attr: attr(DIR, Kind::Dir), created: false, rights: Lease::NONE, data: None };
    let (at, seq, _) = world.asked();
    world.answer(at, seq, opened, &[]);
    let fh = world.result(id).unwrap().fh.unwrap();
    world.call(lookup(DIR, "there"));
    let other = if at == R0 { R1 } else { R0 };
    world.redirects(at, other, &[], None);
    world.answers(other, entry(FILE, Kind::File));
    world.call(Call::Release { fh, flock_owner: None });
    world.feed(Input::Tick);
    assert_eq!(world.closes(), [(R0, vec![1]), (R1, vec![1])]);
}

#[test]
fn what_was_to_be_closed_at_a_rank_that_was_restarted_is_closed_where_it_may_have_moved_before() {
    let mut world = Ranks::with_second();
    let fh = world.create(R1, DIR, FILE, true, Lease::NONE);
    world.call(Call::Release { fh, flock_owner: None });
    world.ms += 1500;
    world.feed(Input::Tick);
    assert_eq!(world.closes(), [(R1, vec![1])]);
    world.feed(Input::Disconnected { rank: R1 });
    world.connect(R1, Welcome { resumed: true, kept: false, ..welcome(R1, 3) });
    world.feed(Input::Tick);
    let closes = world.closes();
    for rank in [R0, R1] {
        assert!(closes.contains(&(rank, vec![1])), "{rank}: {closes:?}");
    }
}

#[test]
fn what_a_lost_session_may_have_opened_before_it_moved_is_closed_at_the_others() {
    let mut world = Ranks::with_second();
    world.call(create(DIR, "new"));
    assert!(matches!(world.asked(), (R1, _, Op::Create { handle: 1, .. })));
    world.feed(Input::Disconnected { rank: R1 });
    world.connect(R1, Welcome { session: SessionId(77), resumed: false, kept: false, ..welcome(R1, 3) });
    assert!(world.closes().contains(&(R0, vec![1])));
}

#[test]
fn what_the_only_session_may_have_opened_before_it_was_lost_is_closed_at_a_rank_that_is_met_later() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    world.call(create(DIR, "new"));
    assert!(matches!(world.asked(), (R0, _, Op::Create { handle: 1, .. })));
    world.feed(Input::Disconnected { rank: R0 });
    world.connect(R0, Welcome { session: SessionId(77), resumed: false, kept: false, ..welcome(R0, 3) });
    world.take();
    world.call(lookup(DIR, "other"));
    world.redirects(R0, R1, &[route(DIR, R1, 1)], None);
    world.connect(R1, Welcome { resumed: true, kept: true, ..welcome(R1, 3) });
    assert!(world.closes().contains(&(R1, vec![1])));
}
