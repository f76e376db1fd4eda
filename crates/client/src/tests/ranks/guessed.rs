//! Where a file may still be, of which is only believed that it has moved: until somebody says so who knows it.

use super::*;

/// A file that is open at the first of three ranks, and sessions with all of them.
fn opened_beside_others() -> (Ranks, Fh) {
    let mut world = Ranks::of(3);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::NONE);
    for rank in [R1, R2] {
        let id = world.call(lookup(Ino(0x180 + u64::from(rank.0)), "x"));
        world.redirects(R0, rank, &[], None);
        world.take();
        world.connect(rank, welcome(rank, 3));
        world.answers(rank, entry(Ino(0x1ff), Kind::File));
        world.result(id).unwrap();
    }
    (world, fh)
}

/// A connection breaks, and the rank is there again and says whose the directory is.
fn comes_back(world: &mut Ranks, rank: Rank, kept: bool, dir: Route) -> Vec<Wire> {
    world.feed(Input::Disconnected { rank });
    world.take();
    world.connect(rank, Welcome { resumed: true, kept, routes: vec![dir], ..welcome(rank, 3) });
    world.take()
}

/// The question where the file is.
fn asks(wire: &[Wire], rank: Rank) -> u64 {
    let ask = |wire: &Wire| match wire {
        Wire::Ask(at, seq, Op::GetAttr { ino: FILE }) if *at == rank => Some(*seq),
        _ => None,
    };
    wire.iter().find_map(ask).unwrap_or_else(|| panic!("{rank} is not asked: {wire:?}"))
}

fn sends_on(world: &mut Ranks, from: Rank, seq: u64, to: Rank, routes: &[Route]) {
    world.says(from, ToClient::Redirect { seq: Seq(seq), rank: to, routes: routes.to_vec(), done: None });
}

/// True if the handle is reclaimed from a rank that restarts.
fn claims(world: &mut Ranks, rank: Rank, dir: Route) -> bool {
    let wire = comes_back(world, rank, false, dir);
    let claim = wire.iter().find_map(|wire| match wire {
        Wire::Other(at, ToServer::Reclaim(claim)) if *at == rank => Some(claim),
        _ => None,
    });
    claim.expect("it is told").opens == [(1, FILE, rw(), Lease::NONE)]
}

#[test]
fn a_file_is_claimed_where_it_was_though_the_rank_where_it_was_sought_has_sent_the_question_on() {
    let (mut world, fh) = opened_beside_others();
    let wire = comes_back(&mut world, R0, true, route(DIR, R1, 1));
    // The directory has moved on; the file has lost its name, and stayed.
    sends_on(&mut world, R1, asks(&wire, R1), R2, &[route(DIR, R2, 2)]);
    let seq = asks(&world.take(), R2);
    assert!(claims(&mut world, R0, route(DIR, R2, 2)), "else it would be removed there");
    sends_on(&mut world, R2, seq, R0, &[]);
    world.answers(R0, entry(FILE, Kind::File));
    assert_eq!(closes(&mut world, fh), [R0]);
}

#[test]
fn a_file_is_claimed_wherever_it_was_believed_to_be_if_nobody_has_said_that_it_is_not_there() {
    for rank in [R0, R1, R2] {
        let (mut world, _) = opened_beside_others();
        comes_back(&mut world, R0, true, route(DIR, R1, 1));
        comes_back(&mut world, R1, true, route(DIR, R2, 2));
        assert!(claims(&mut world, rank, route(DIR, R2, 2)), "{rank}");
    }
    let (mut world, fh) = opened_beside_others();
    comes_back(&mut world, R0, true, route(DIR, R1, 1));
    comes_back(&mut world, R1, true, route(DIR, R2, 2));
    assert_eq!(closes(&mut world, fh), [R0, R1, R2]);
}

#[test]
fn a_rank_that_answers_for_a_file_has_it_and_no_other_is_told_of_it() {
    let (mut world, fh) = opened_beside_others();
    let wire = comes_back(&mut world, R0, true, route(DIR, R1, 1));
    world.answer(R1, asks(&wire, R1), entry(FILE, Kind::File), &[]);
    assert_eq!(closes(&mut world, fh), [R1]);
}

#[test]
fn a_rank_that_says_later_that_a_file_has_moved_away_is_not_told_of_it() {
    let (mut world, fh) = opened_beside_others();
    comes_back(&mut world, R0, true, route(DIR, R1, 1));
    world.says(R0, ToClient::Routes { routes: vec![route(DIR, R1, 1)], moved: vec![FILE], to: Some(R1), frozen_ms: 0 });
    assert_eq!(closes(&mut world, fh), [R1]);
}

#[test]
fn a_rank_that_has_ended_the_session_is_not_told_of_what_may_have_been_open_there() {
    let (mut world, fh) = opened_beside_others();
    comes_back(&mut world, R0, true, route(DIR, R1, 1));
    world.says(R0, ToClient::Evicted);
    world.take();
    world.connect(R0, welcome(R0, 3));
    assert_eq!(closes(&mut world, fh), [R1]);
}

/// The questions whether a rank knows the handle, and where the file is.
fn questions(wire: &[Wire], rank: Rank) -> Vec<(u64, Op)> {
    let question = |wire: &Wire| match wire {
        Wire::Ask(
            at,
            seq,
            op @ (Op::GetAttr { ino: FILE } | Op::Control(Control::GetLock { ino: FILE, handle: 1, .. })),
        ) => {
            assert_eq!(*at, rank);
            Some((*seq, op.clone()))
        }
        _ => None,
    };
    wire.iter().filter_map(question).collect()
}

#[test]
fn a_file_is_sought_where_it_was_if_a_rank_that_is_met_for_the_first_time_has_not_got_it() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    world.write(fh, b"held back");
    comes_back(&mut world, R0, true, route(DIR, R1, 1));
    world.connect(R1, welcome(R1, 2));
    let asked = questions(&world.take(), R1);
    assert!(asked.iter().any(|(_, op)| matches!(op, Op::Control(Control::GetLock { .. }))), "{asked:?}");
    for (seq, _) in asked {
        sends_on(&mut world, R1, seq, R0, &[]);
    }
    let asked = questions(&world.take(), R0);
    for (seq, op) in asked {
        let answer = if matches!(op, Op::Control(Control::GetLock { .. })) {
            Answer::Lock(None)
        } else {
            entry(FILE, Kind::File)
        };
        world.answer(R0, seq, answer, &[]);
    }
    let flush = world.call(Call::Flush { fh, owner: None });
    assert!(matches!(world.answers(R0, entry(FILE, Kind::File)), Op::WriteInline { handle: 1, .. }));
    world.result(flush).unwrap();
    assert_eq!(closes(&mut world, fh), [R0]);
}

#[test]
fn what_moves_to_a_rank_while_the_first_session_begins_there_is_not_lost() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    world.look_up_lent(Ino(0x102));
    let fh = world.create(R0, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    world.write(fh, b"held back");
    // The session is there already, and the welcome has not come.
    world.moves(false);
    let dropped: Vec<Invalidation> = world.dropped.iter().map(|(_, what)| *what).collect();
    assert!(dropped.contains(&Invalidation::Attr(Ino(0x102))), "it may not have been lent there: {dropped:?}");
    for _ in 0..2 {
        let asked = questions(&world.take(), R1);
        assert!(
            asked.iter().all(|(_, op)| matches!(op, Op::Control(Control::GetLock { .. }))),
            "nothing is written before: {asked:?}"
        );
        for (seq, _) in asked {
            world.answer(R1, seq, Answer::Lock(None), &[]);
        }
        if let Some(Wire::Ask(R1, seq, Op::WriteInline { handle: 1, .. })) = world.wire.first() {
            let seq = *seq;
            world.take();
            world.answer(R1, seq, entry(FILE, Kind::File), &[]);
        }
    }
    let flush = world.call(Call::Flush { fh, owner: None });
    world.result(flush).unwrap();
    assert_eq!(closes(&mut world, fh), [R1]);
}

#[test]
fn a_file_is_not_sought_at_a_rank_that_is_no_more_though_one_that_missed_where_it_went_says_so() {
    let (mut world, _) = opened_beside_others();
    world.says(R0, ToClient::Map(ClusterMap { epoch: 9, ..map(2) }));
    world.feed(Input::Disconnected { rank: R2 });
    world.take();
    let wire = comes_back(&mut world, R0, true, route(DIR, R2, 1));
    asks(&wire, R0);
    let sought = |wire: &Wire| matches!(wire, Wire::Connect(R2, _) | Wire::Ask(R2, ..));
    assert!(!wire.iter().any(sought), "there is no rank 2: {wire:?}");
}

#[test]
fn data_is_written_where_the_file_is_though_it_was_believed_to_be_at_another_rank_that_was_never_met() {
    let mut world = Ranks::of(3);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, false, Lease::NONE);
    let id = world.call(write(fh, b"x"));
    let wire = world.take();
    let [Wire::Data(R0, data, DataOp::Write { .. })] = wire[..] else { panic!("{wire:?}") };
    // What is below the directory moved to the second rank, and what the file is in from there to the third.
    let wire = comes_back(&mut world, R0, true, route(DIR, R1, 1));
    world.says(R0, ToClient::Data { id: data, result: Err(DataError::Moved) });
    let connects = |wire: &[Wire], to| wire.iter().any(|wire| matches!(wire, Wire::Connect(rank, _) if *rank == to));
    assert!(connects(&wire, R1) || connects(&world.take(), R1), "{wire:?}");
    world.connect(R1, Welcome { resumed: true, kept: true, ..welcome(R1, 3) });
    let wire = world.take();
    assert!(wire.iter().any(|wire| matches!(wire, Wire::Data(R1, id, _) if *id == data)), "{wire:?}");
    world.says(R1, ToClient::Data { id: data, result: Err(DataError::Stale) });
    let asked = [wire, world.take()].concat();
    sends_on(&mut world, R1, asks(&asked, R1), R2, &[]);
    assert!(connects(&world.take(), R2));
    world.connect(R2, Welcome { resumed: true, kept: true, ..welcome(R2, 3) });
    let wire = world.take();
    world.answer(R2, asks(&wire, R2), Answer::Entry(Attr { inline: false, ..attr(FILE, Kind::File) }), &[]);
    let wire = [wire, world.take()].concat();
    assert!(wire.iter().any(|wire| matches!(wire, Wire::Data(R2, id, _) if *id == data)), "{wire:?}");
    world.says(R2, ToClient::Data { id: data, result: Ok(DataAnswer::Done) });
    assert!(matches!(
        world.answers(R2, Answer::Entry(Attr { inline: false, size: 1, ..attr(FILE, Kind::File) })),
        Op::SetData { handle: 1, grow_to: Some(1), .. }
    ));
    world.result(id).expect("it is written");
}

#[test]
fn ranks_that_send_each_other_the_same_request_are_given_time_and_then_up() {
    let mut world = Ranks::with_second();
    let id = world.call(Call::GetAttr { ino: Ino(0x1ff) });
    let (mut at, mut redirects) = (R1, 0);
    while world.done.is_empty() {
        let Some(Wire::Ask(rank, seq, _)) = world.take().pop() else {
            assert!(redirects > 3, "the first ones are followed at once");
            world.ms += 50;
            world.feed(Input::Tick);
            world.wire.retain(|wire| !matches!(wire, Wire::Other(..)));
            for rank in [R0, R1] {
                world.says(rank, ToClient::Pong { at_ms: 0 });
            }
            continue;
        };
        assert_eq!(rank, at);
        at = Rank(1 - at.0);
        redirects += 1;
        world.says(rank, ToClient::Redirect { seq: Seq(seq), rank: at, routes: vec![], done: None });
    }
    assert_eq!((redirects, world.result(id).unwrap_err().error), (33, FsError::Busy));
}
