//! Open files that did not move with the directory that they were in, and words of what has moved that were lost.

use loligo_types::msg::Reclaim;

use super::*;

/// A file open at rank 0 in a directory, and a session with rank 1.
fn opened_beside_second() -> (Ranks, Fh) {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::NONE);
    world.meet_second();
    (world, fh)
}

fn loses_first(world: &mut Ranks, kept: bool) {
    world.feed(Input::Disconnected { rank: R0 });
    assert_eq!(world.take(), [Wire::Connect(R0, None)]);
    world.connect(R0, Welcome { resumed: true, kept, routes: vec![route(DIR, R1, 1)], ..welcome(R0, 2) });
}

fn asks(wire: &[Wire]) -> Vec<(Rank, u64)> {
    let ask = |wire: &Wire| match wire {
        Wire::Ask(rank, seq, Op::GetAttr { ino: FILE }) => Some((*rank, *seq)),
        _ => None,
    };
    wire.iter().filter_map(ask).collect()
}

#[test]
fn a_file_that_has_lost_its_name_stays_when_its_directory_moves_and_is_closed_where_it_is() {
    let (mut world, fh) = opened_beside_second();
    world.says(R0, ToClient::Routes { routes: vec![route(DIR, R1, 1)], moved: vec![DIR], to: Some(R1), frozen_ms: 0 });
    world.call(write(fh, b"x"));
    assert!(matches!(world.answers(R0, entry(FILE, Kind::File)), Op::WriteInline { .. }));
    assert_eq!(closes(&mut world, fh), [R0]);
}

#[test]
fn where_a_file_is_whose_directory_moved_unheard_is_asked_and_a_wrong_guess_put_right() {
    let (mut world, fh) = opened_beside_second();
    loses_first(&mut world, true);
    let asked = asks(&world.take());
    let [(R1, seq)] = asked[..] else { panic!("one is asked: {asked:?}") };
    world.says(R1, ToClient::Redirect { seq: Seq(seq), rank: R0, routes: Vec::new(), done: None });
    world.answers(R0, entry(FILE, Kind::File));
    assert_eq!(closes(&mut world, fh), [R0]);
}

#[test]
fn a_file_of_which_is_only_guessed_where_it_is_is_closed_where_it_was_too() {
    let (mut world, fh) = opened_beside_second();
    loses_first(&mut world, true);
    assert_eq!(closes(&mut world, fh), [R0, R1]);
}

#[test]
fn what_was_guessed_is_known_when_the_rank_where_it_was_says_so() {
    let (mut world, fh) = opened_beside_second();
    world.call(Call::GetAttr { ino: FILE });
    let (_, seq, _) = world.asked();
    loses_first(&mut world, true);
    world.take();
    world.says(R0, ToClient::Redirect { seq: Seq(seq), rank: R1, routes: Vec::new(), done: None });
    assert_eq!(closes(&mut world, fh), [R1]);
}

#[test]
fn what_is_open_at_a_rank_that_was_restarted_is_asked_for_because_it_may_have_moved_before() {
    let (mut world, fh) = opened_beside_second();
    world.feed(Input::Disconnected { rank: R0 });
    world.take();
    world.connect(R0, Welcome { resumed: true, kept: false, ..welcome(R0, 2) });
    let asked = asks(&world.take());
    let [(R0, seq)] = asked[..] else { panic!("one is asked: {asked:?}") };
    world.says(R0, ToClient::Redirect { seq: Seq(seq), rank: R1, routes: Vec::new(), done: None });
    world.answers(R1, entry(FILE, Kind::File));
    assert_eq!(closes(&mut world, fh), [R1]);
}

#[test]
fn what_is_held_back_is_written_through_another_handle_if_those_before_were_lost_in_a_restart() {
    for (handles, knows) in [(2, Some(2)), (4, Some(3)), (12, Some(12)), (3, None)] {
        let mut world = Ranks::of(2);
        world.look_up_dir();
        let first = world.create(R0, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
        for _ in 1..handles {
            let open = world.call(Call::Open { ino: FILE, flags: rw() });
            world.answers(R0, opened(FILE, true, Lease::CACHE | Lease::BUFFER));
            world.result(open).unwrap();
        }
        world.write(first, b"kept");
        let flush = world.call(Call::Flush { fh: first, owner: None });
        for lost in 1..knows.unwrap_or(handles + 1) {
            let (_, seq, op) = world.asked();
            assert!(matches!(op, Op::WriteInline { handle, .. } if handle == lost), "{lost}: {op:?}");
            world.says(R0, ToClient::reply(seq, Err(FsError::BadHandle)));
        }
        if let Some(known) = knows {
            let op = world.answers(R0, entry(FILE, Kind::File));
            assert!(matches!(op, Op::WriteInline { handle, .. } if handle == known), "{op:?}");
        }
        assert_eq!(
            world.result(flush).map(|_| ()).map_err(|failed| failed.error),
            knows.map_or(Err(FsError::BadHandle), |_| Ok(()))
        );
    }
}

/// A file with what is held back, and rights that its rank has given.
fn held_back() -> (Ranks, Fh) {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    world.meet_second();
    let fh = world.create(R0, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    world.write(fh, b"kept");
    assert_eq!(world.take(), []);
    (world, fh)
}

fn written(wire: &[Wire]) -> Vec<Rank> {
    let is_write = |wire: &Wire| match wire {
        Wire::Ask(rank, _, Op::WriteInline { .. }) => Some(*rank),
        _ => None,
    };
    wire.iter().filter_map(is_write).collect()
}

#[test]
fn rights_to_a_file_of_which_is_only_guessed_where_it_is_are_not_relied_on() {
    let (mut world, _) = held_back();
    loses_first(&mut world, true);
    let wire = world.take();
    assert_eq!(written(&wire), [], "not before the handle is known there");
    let asks = |wire: &Wire| match wire {
        Wire::Ask(R1, seq, Op::Control(Control::GetLock { ino: FILE, .. })) => Some(*seq),
        _ => None,
    };
    let seq = wire.iter().find_map(asks).expect("it is asked");
    world.answer(R1, seq, Answer::Lock(None), &[]);
    assert_eq!(written(&world.take()), [R1], "what is held back goes to where it is believed to be");
}

#[test]
fn rights_to_a_file_that_moved_unheard_are_not_relied_on() {
    let (mut world, fh) = held_back();
    let flush = world.call(Call::Flush { fh, owner: None });
    world.redirects(R0, R1, &[], None);
    world.answers(R1, entry(FILE, Kind::File));
    world.result(flush).unwrap();
    let data = |(token, what): (crate::Token, Invalidation)| (what == Invalidation::Data(FILE)).then_some(token);
    let token = std::mem::take(&mut world.dropped).into_iter().find_map(data).expect("caches above drop it");
    world.feed(Input::Invalidated { token });
    assert_eq!(world.take(), [], "nobody asked for it");
    world.call(write(fh, b"through"));
    assert_eq!(written(&world.take()), [R1], "and it is not held back any more");
}

#[test]
fn a_handle_of_a_file_that_moved_unheard_is_not_used_again_by_those_who_open_it_later() {
    for moves in [false, true] {
        let mut world = Ranks::unconnected(Config { client: 77, close_delay_ms: 1000, ..Config::default() });
        world.connect(R0, welcome(R0, 2));
        world.look_up_dir();
        let fh = world.create(R0, DIR, FILE, true, Lease::NONE);
        world.meet_second();
        let attr = world.call(Call::GetAttr { ino: FILE });
        if moves {
            world.redirects(R0, R1, &[], None);
        }
        let (rank, seq, _) = world.asked();
        world.answer(rank, seq, entry(FILE, Kind::File), &[(FILE, Lease::ATTR)]);
        world.result(attr).unwrap();
        let release = world.call(Call::Release { fh, flock_owner: None });
        world.result(release).unwrap();
        world.call(Call::Open { ino: FILE, flags: OpenFlags { read: true, write: true, ..OpenFlags::default() } });
        let asks = world.take().iter().any(|wire| matches!(wire, Wire::Ask(_, _, Op::Open { ino: FILE, .. })));
        assert_eq!(asks, moves);
    }
}

#[test]
fn rights_that_an_answer_does_not_confirm_are_given_up() {
    let (mut world, _) = held_back();
    let open = world.call(Call::Open { ino: FILE, flags: rw() });
    world.answers(R0, opened(FILE, true, Lease::NONE));
    world.result(open).unwrap();
    world.knows_handle();
    assert_eq!(written(&world.take()), [R0], "another one may have it open");
}

#[test]
fn doubted_rights_answer_no_read_and_let_no_write_begin() {
    let (mut world, fh) = held_back();
    let open = world.call(Call::Open { ino: FILE, flags: rw() });
    world.answers(R0, opened(FILE, true, Lease::NONE));
    assert!(!world.result(open).unwrap().keep_data, "others may have changed it");
    let (_, asked, _) = world.asked();
    let read = world.call(Call::Read { fh, offset: 0, len: 9 });
    let size = world.asked();
    assert!(matches!(size, (R0, _, Op::GetAttr { ino: FILE })), "{size:?}");
    let more = world.call(write(fh, b"more"));
    assert_eq!(world.take(), [], "what was held back comes first");
    let is_open = |world: &Ranks, id: u64| !world.done.iter().any(|(done, _)| *done == id);
    assert!(is_open(&world, read) && is_open(&world, more));
    world.answer(R0, asked, Answer::Lock(None), &[]);
    for _ in ["held back", "more"] {
        assert!(matches!(world.answers(R0, entry(FILE, Kind::File)), Op::WriteInline { .. }));
    }
    world.result(more).unwrap();
}

#[test]
fn under_doubted_rights_only_what_was_written_here_is_sent() {
    let (mut world, fh) = held_back();
    let data = Arc::from(&b"far"[..]);
    let far = world.call(Call::Write { fh, offset: 8, data, append: false, kill_priv: false });
    world.result(far).unwrap();
    let open = world.call(Call::Open { ino: FILE, flags: rw() });
    world.answers(R0, opened(FILE, true, Lease::NONE));
    world.result(open).unwrap();
    world.knows_handle();
    // What is between the two may be others' by now.
    let mut sent = Vec::new();
    for _ in 0..2 {
        let Op::WriteInline { offset: Some(offset), data, .. } = world.answers(R0, entry(FILE, Kind::File)) else {
            panic!("{sent:?}")
        };
        sent.push((offset, data.to_vec()));
    }
    assert_eq!(sent, [(0, b"kept".to_vec()), (8, b"far".to_vec())]);
}

#[test]
fn what_was_held_back_is_not_written_where_the_file_is_believed_to_be_before_its_rank_knows_the_handle() {
    for known in [false, true] {
        let mut world = Ranks::of(2);
        world.look_up_dir();
        let fh = world.create(R0, DIR, FILE, false, Lease::CACHE | Lease::BUFFER);
        world.meet_second();
        world.write(fh, b"held back");
        loses_first(&mut world, false);
        let wire = world.take();
        assert!(!wire.iter().any(|wire| matches!(wire, Wire::Data(..))), "known: {known}: {wire:?}");
        let seq = wire.iter().find_map(|wire| match wire {
            Wire::Ask(R1, seq, Op::Control(Control::GetLock { ino: FILE, handle: 1, .. })) => Some(*seq),
            _ => None,
        });
        let result = if known { Ok(Answer::Lock(None)) } else { Err(FsError::BadHandle) };
        let seq = Seq(seq.unwrap_or_else(|| panic!("{wire:?}")));
        world.says(
            R1,
            ToClient::Reply { seq, result, granted: Vec::new(), ways: Vec::new(), volatile: None, journal: None },
        );
        let wire = world.take();
        let written = wire.iter().any(|wire| matches!(wire, Wire::Data(R1, _, DataOp::Write { .. })));
        assert_eq!(written, known, "{wire:?}");
        if !known {
            let flush = world.call(Call::Flush { fh, owner: None });
            assert!(world.result(flush).is_err(), "it is told that it was lost");
        }
    }
}

#[test]
fn what_is_held_back_by_rights_that_were_given_after_a_file_had_moved_unheard_is_not_in_doubt() {
    // No matter what was held of it before.
    for before in [Lease::NONE, Lease::CACHE | Lease::BUFFER] {
        let mut world = Ranks::of(2);
        world.look_up_dir();
        world.meet_second();
        world.create(R0, DIR, FILE, true, before);
        let attr = world.call(Call::GetAttr { ino: FILE });
        world.redirects(R0, R1, &[], None);
        world.answers(R1, entry(FILE, Kind::File));
        world.result(attr).unwrap();
        let open = world.call(Call::Open { ino: FILE, flags: rw() });
        world.answers(R1, opened(FILE, true, Lease::CACHE | Lease::BUFFER));
        let fh = world.result(open).unwrap().fh.unwrap();
        world.write(fh, b"since");
        let flush = world.call(Call::Flush { fh, owner: None });
        // The handle of before is unknown there, which loses nothing that was written by the rights of now.
        let (_, seq, op) = world.asked();
        assert!(matches!(op, Op::WriteInline { handle: 1, .. }), "{before:?}: {op:?}");
        world.says(R1, ToClient::reply(seq, Err(FsError::BadHandle)));
        let op = world.answers(R1, entry(FILE, Kind::File));
        assert!(matches!(op, Op::WriteInline { handle: 2, .. }), "{before:?}: {op:?}");
        world.result(flush).unwrap();
    }
}

/// A file is believed to be at the second rank, which was not heard to have it: it is asked where it is, and whether it knows the
/// handle by which something is held back. The handle, and both questions.
fn believed_at_second() -> (Ranks, Fh, u64, u64) {
    let (mut world, fh) = held_back();
    loses_first(&mut world, true);
    let wire = world.take();
    let asked = asks(&wire);
    let [(R1, place)] = asked[..] else { panic!("one is asked: {asked:?}") };
    (world, fh, place, verifies(&wire, R1))
}

/// The question whether a rank knows the handle.
fn verifies(wire: &[Wire], rank: Rank) -> u64 {
    let asks = |wire: &Wire| match wire {
        Wire::Ask(at, seq, Op::Control(Control::GetLock { ino: FILE, handle: 1, .. })) if *at == rank => Some(*seq),
        _ => None,
    };
    wire.iter().find_map(asks).unwrap_or_else(|| panic!("{wire:?}"))
}

/// Reads are not answered by doubted rights, and writes do not begin, until what was held back is where the file is.
fn are_doubted_at(world: &mut Ranks, fh: Fh, rank: Rank, seq: u64) {
    world.take();
    let read = world.call(Call::Read { fh, offset: 0, len: 4 });
    let more = world.call(write(fh, b"more"));
    assert!(!world.done.iter().any(|(id, _)| [read, more].contains(id)), "{:?}", world.done);
    assert!(matches!(world.asked(), (at, _, Op::GetAttr { ino: FILE }) if at == rank));
    world.answer(rank, seq, Answer::Lock(None), &[]);
    for data in [b"kept", b"more"] {
        let op = world.answers(rank, entry(FILE, Kind::File));
        assert!(matches!(&op, Op::WriteInline { data: written, .. } if written[..] == *data), "{op:?}");
    }
    world.result(more).unwrap();
}

#[test]
fn rights_stay_in_doubt_when_the_rank_restarts_where_the_file_is_believed_to_be() {
    let (mut world, fh, ..) = believed_at_second();
    world.feed(Input::Disconnected { rank: R1 });
    world.take();
    world.connect(R1, Welcome { resumed: true, kept: false, ..welcome(R1, 2) });
    let seq = verifies(&world.take(), R1);
    are_doubted_at(&mut world, fh, R1, seq);
}

#[test]
fn rights_stay_in_doubt_when_the_session_is_lost_with_a_rank_where_the_file_was_believed_to_be() {
    let (mut world, fh, place, asked) = believed_at_second();
    for seq in [place, asked] {
        world.says(R1, ToClient::Redirect { seq: Seq(seq), rank: R0, routes: Vec::new(), done: None });
    }
    let seq = verifies(&world.take(), R0);
    world.feed(Input::Disconnected { rank: R1 });
    world.take();
    world.connect(R1, welcome(R1, 2));
    are_doubted_at(&mut world, fh, R0, seq);
}

/// A flush is on its way when its rank restarts, which had given the file away without the client hearing of it. The rank says where the
/// file is, and refuses the data; `refused_first`: in the other order. Returns the world, the flush, and the request that asks the new
/// rank about the handle.
fn refused_where_it_was(refused_first: bool) -> (Ranks, u64, u64) {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    world.meet_second();
    let fh = world.create(R0, DIR, FILE, false, Lease::CACHE | Lease::BUFFER);
    world.write(fh, b"held back");
    let flush = world.call(Call::Flush { fh, owner: None });
    assert!(matches!(world.take()[..], [Wire::Data(R0, ..)]), "it is on its way");
    world.feed(Input::Disconnected { rank: R0 });
    world.take();
    world.connect(R0, Welcome { resumed: true, kept: false, ..welcome(R0, 2) });
    let wire = world.take();
    let asked = asks(&wire);
    let [(R0, seq)] = asked[..] else { panic!("one is asked: {asked:?}") };
    let reclaimed = reclaims(&wire);
    let redirect = ToClient::Redirect { seq: Seq(seq), rank: R1, routes: vec![route(DIR, R1, 1)], done: None };
    if !refused_first {
        world.says(R0, redirect.clone());
        world.take();
    }
    world.answer(R0, reclaimed, Answer::Done, &[]);
    let wire = world.take();
    let [Wire::Data(R0, id, _)] = wire[..] else { panic!("it is sent again: {wire:?}") };
    world.says(R0, ToClient::Data { id, result: Err(DataError::Stale) });
    if refused_first {
        world.says(R0, redirect);
    }
    let wire = world.take();
    let asks = |wire: &Wire| match wire {
        Wire::Ask(R1, seq, Op::Control(Control::GetLock { ino: FILE, handle: 1, .. })) => Some(*seq),
        _ => None,
    };
    let seq = wire.iter().find_map(asks).unwrap_or_else(|| panic!("{wire:?}"));
    (world, flush, seq)
}

#[test]
fn what_is_refused_where_a_file_was_before_it_moved_unheard_is_written_where_it_is() {
    for refused_first in [false, true] {
        let (mut world, flush, seq) = refused_where_it_was(refused_first);
        world.answer(R1, seq, Answer::Lock(None), &[]);
        let wire = world.take();
        let [Wire::Data(R1, id, DataOp::Write { offset: 0, data })] = &wire[..] else { panic!("{wire:?}") };
        assert_eq!(&data[..], b"held back");
        world.says(R1, ToClient::Data { id: *id, result: Ok(DataAnswer::Done) });
        let in_objects = Attr { inline: false, size: 9, ..attr(FILE, Kind::File) };
        assert!(matches!(world.answers(R1, Answer::Entry(in_objects)), Op::SetData { handle: 1, .. }));
        world.result(flush).unwrap();
        // There, too, the handle may be unknown by now, and others may have written.
        let (mut world, flush, seq) = refused_where_it_was(refused_first);
        world.says(R1, ToClient::reply(seq, Err(FsError::BadHandle)));
        assert_eq!(world.take(), []);
        assert!(world.result(flush).is_err(), "it is told that it was lost");
    }
}

#[test]
fn what_was_held_back_is_lost_with_its_handle_where_the_file_has_moved_unheard_whoever_has_opened_it_since() {
    let (mut world, fh) = held_back();
    let open = world.call(Call::Open { ino: FILE, flags: rw() });
    world.answers(R0, opened(FILE, true, Lease::CACHE | Lease::BUFFER));
    world.result(open).unwrap();
    let flush = world.call(Call::Flush { fh, owner: None });
    world.redirects(R0, R1, &[], None);
    let unknown = |seq| ToClient::reply(seq, Err(FsError::BadHandle));
    let (_, seq, op) = world.asked();
    assert!(matches!(op, Op::WriteInline { handle: 1, .. }), "{op:?}");
    world.says(R1, unknown(seq));
    let (_, seq, op) = world.asked();
    assert!(matches!(op, Op::Control(Control::GetLock { handle: 1, .. })), "{op:?}");
    world.says(R1, unknown(seq));
    assert_eq!(written(&world.take()), [], "others may have written meanwhile");
    assert!(world.result(flush).is_err());
}

#[test]
fn an_open_file_that_moved_by_itself_is_reclaimed_where_it_is() {
    let (mut world, _) = opened_beside_second();
    world.says(R0, ToClient::Routes { routes: Vec::new(), moved: vec![FILE], to: Some(R1), frozen_ms: 0 });
    world.feed(Input::Disconnected { rank: R1 });
    world.take();
    world.connect(R1, Welcome { resumed: true, kept: false, ..welcome(R1, 2) });
    let wire = world.take();
    let claims = |wire: &Wire| matches!(wire, Wire::Other(R1, ToServer::Reclaim(claim)) if claim.opens.len() == 1);
    assert!(wire.iter().any(claims), "its rank was restarted: {wire:?}");
}

/// The reclaim that a rank gets after its restart, when it says that the directory is the second one's.
fn claimed(world: &mut Ranks, rank: Rank) -> Reclaim {
    world.feed(Input::Disconnected { rank });
    world.take();
    let routes = vec![route(DIR, R1, 1)];
    world.connect(rank, Welcome { resumed: true, kept: false, routes, ..welcome(rank, 2) });
    let first = world.take().into_iter().find_map(|wire| match wire {
        Wire::Ask(at, ..) if at == rank => panic!("it is asked before it is told"),
        Wire::Other(at, ToServer::Reclaim(claim)) if at == rank => Some(claim),
        _ => None,
    });
    first.expect("it is told")
}

/// All that a client holds of a file that it alone writes.
fn all() -> Reclaim {
    let opens = vec![(1, FILE, rw(), Lease::CACHE | Lease::BUFFER)];
    Reclaim { opens, leases: vec![(FILE, Lease::ATTR)], locks: Vec::new() }
}

fn held_back_with_lease() -> Ranks {
    let (mut world, _) = held_back();
    let id = world.call(lookup(DIR, "x"));
    let (_, seq, _) = world.asked();
    world.answer(R0, seq, entry(FILE, Kind::File), &[(FILE, Lease::ATTR)]);
    world.result(id).unwrap();
    world
}

#[test]
fn what_moved_unheard_to_a_rank_that_has_restarted_since_is_reclaimed_there() {
    let mut world = held_back_with_lease();
    world.feed(Input::Disconnected { rank: R0 });
    assert_eq!(claimed(&mut world, R1), all());
}

#[test]
fn what_may_have_moved_to_a_rank_that_has_restarted_since_is_reclaimed_there_if_the_map_does_not_say_where_it_is() {
    let mut world = Ranks::of(2);
    world.meet_second();
    let open = world.call(Call::Open { ino: FILE, flags: rw() });
    let (_, seq, _) = world.asked();
    world.answer(R0, seq, opened(FILE, true, Lease::CACHE | Lease::BUFFER), &[(FILE, Lease::ATTR)]);
    world.result(open).unwrap();
    // Nobody has told which directory it is in.
    world.feed(Input::Disconnected { rank: R0 });
    assert_eq!(claimed(&mut world, R1), all());
}

#[test]
fn what_is_only_believed_to_have_moved_from_a_rank_that_has_restarted_is_reclaimed_there_too() {
    let mut world = held_back_with_lease();
    assert_eq!(claimed(&mut world, R0), all());
}

#[test]
fn what_has_moved_to_a_rank_that_has_restarted_since_is_reclaimed_there_while_the_word_of_it_is_under_way() {
    let mut world = held_back_with_lease();
    assert_eq!(claimed(&mut world, R1), all());
    world.says(R0, ToClient::Routes { routes: vec![route(DIR, R1, 1)], moved: vec![FILE], to: Some(R1), frozen_ms: 0 });
    world.call(Call::Flush { fh: Fh(1), owner: None });
    assert_eq!(written(&world.take()), [R1]);
}

#[test]
fn what_lies_beyond_the_end_of_a_file_that_moved_unheard_is_not_discarded_where_it_is_and_the_write_goes_there() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    world.meet_second();
    let fh = world.create(R0, DIR, FILE, false, Lease::CACHE);
    let beyond = Call::Write { fh, offset: 100, data: Arc::from(&b"x"[..]), append: false, kill_priv: false };
    let id = world.call(beyond);
    let wire = world.take();
    let [Wire::Data(R0, data, DataOp::Discard { from: 0 })] = wire[..] else { panic!("{wire:?}") };
    // Its rank restarts, and does not have it any more.
    world.feed(Input::Disconnected { rank: R0 });
    world.take();
    world.connect(R0, Welcome { resumed: true, kept: false, ..welcome(R0, 2) });
    let wire = world.take();
    let asks = asks(&wire);
    let [(R0, seq)] = asks[..] else { panic!("{wire:?}") };
    world.says(R0, ToClient::Redirect { seq: Seq(seq), rank: R1, routes: vec![route(DIR, R1, 1)], done: None });
    world.answer(R0, reclaims(&wire), Answer::Done, &[]);
    world.says(R0, ToClient::Data { id: data, result: Err(DataError::Stale) });
    // It is looked again there, and that the handle is known.
    let in_objects = Answer::Entry(Attr { inline: false, size: 0, ..attr(FILE, Kind::File) });
    let mut data = Vec::new();
    for _ in 0..4 {
        for wire in world.take() {
            match wire {
                Wire::Ask(R1, seq, Op::GetAttr { .. }) => world.answer(R1, seq, in_objects.clone(), &[]),
                Wire::Ask(R1, seq, Op::Control(Control::GetLock { .. })) => {
                    world.answer(R1, seq, Answer::Lock(None), &[])
                }
                Wire::Data(rank, id, op) if rank == R1 || op != (DataOp::Discard { from: 0 }) => {
                    data.push((rank, id, op))
                }
                _ => {}
            }
        }
    }
    let [(R1, piece, DataOp::Write { offset: 100, .. })] = data[..] else { panic!("{data:?}") };
    world.says(R1, ToClient::Data { id: piece, result: Ok(DataAnswer::Done) });
    assert!(matches!(world.answers(R1, in_objects), Op::SetData { handle: 1, grow_to: Some(101), .. }));
    world.result(id).expect("it is written");
}
