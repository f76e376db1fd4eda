//! Ranks that come, leave, refuse, or are not to be found: whom a client goes to then.

use super::*;

#[test]
fn a_rank_that_leaves_is_asked_where_its_files_are_then_left_and_not_asked_again() {
    let mut world = Ranks::with_second();
    world.create(R1, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    let mut leaving = ClusterMap { epoch: 9, ..map(2) };
    leaving.ranks[1].state = RankState::Leaving;
    world.says(R1, ToClient::Map(leaving));
    let op = world.redirects(R1, R0, &[route(DIR, R0, 9)], None);
    assert_eq!(op, Op::GetAttr { ino: FILE });
    world.answers(R0, entry(FILE, Kind::File));
    world.feed(Input::Tick);
    assert_eq!(world.take(), [Wire::Other(R1, ToServer::Goodbye { gone: false })]);
    world.feed(Input::Disconnected { rank: R1 });
    assert_eq!(world.take(), [Wire::Disconnect(R1)]);
    world.call(Call::GetAttr { ino: Ino::first_of(R1) });
    assert_eq!(world.asked().0, R0);
}

#[test]
fn the_first_connection_may_lead_to_any_rank() {
    let mut world = Ranks::unconnected(Config { client: 77, ..Config::default() });
    world.connect(R0, welcome(R1, 2));
    assert_eq!(world.take(), []);
    // Rank 0 gets the number that the connection to rank 1 does not need.
    world.call(Call::Op(Op::StatFs));
    assert_eq!(world.take(), [Wire::Connect(R1, Some("at 0".into()))]);
    world.connect(R1, welcome(R0, 2));
    assert_eq!(world.asked(), (R1, 1, Op::StatFs));
    world.feed(Input::Disconnected { rank: R0 });
    assert_eq!(world.take(), [Wire::Connect(R0, None)]);
}

#[test]
fn a_rank_that_listens_elsewhere_is_sought_there_at_once() {
    let mut world = Ranks::with_second();
    world.call(lookup(DIR, "b"));
    assert_eq!(world.asked().0, R1);
    let mut moved = ClusterMap { epoch: 9, ..map(2) };
    moved.ranks[1].address = "elsewhere".into();
    moved.ranks[0].address = "elsewhere, too".into();
    world.says(R0, ToClient::Map(moved.clone()));
    assert_eq!(world.take(), [Wire::Connect(R1, Some("elsewhere".into()))], "the first one is where it always was");
    // It is nowhere for a while.
    moved.epoch += 1;
    moved.ranks[1].address = String::new();
    world.says(R0, ToClient::Map(moved.clone()));
    world.feed(Input::Disconnected { rank: R1 });
    assert_eq!(world.take(), []);
    (moved.epoch, moved.ranks[1].address) = (11, "there".into());
    world.says(R0, ToClient::Map(moved));
    assert_eq!(world.take(), [Wire::Connect(R1, Some("there".into()))]);
    world.connect(R1, Welcome { resumed: true, ..welcome(R1, 2) });
    let again = Wire::Ask(R1, 2, Op::Lookup { dir: DIR, name: name("b") });
    assert!(world.take().contains(&again), "it is asked once more, under its number");
}

/// Rank 0 has gone from where clients begin, and is nowhere; another one is there, and says so.
fn nowhere() -> (Ranks, ClusterMap) {
    let mut world = Ranks::unconnected(Config { client: 77, doubt_ms: 2_000, ..Config::default() });
    world.connect(R0, welcome(R0, 2));
    world.call(lookup(Ino::ROOT, "x"));
    world.take();
    world.feed(Input::Disconnected { rank: R0 });
    assert_eq!(world.take(), [Wire::Connect(R0, None)]);
    world.feed(Input::Connected { rank: R0 });
    world.take();
    let mut gone = ClusterMap { epoch: 9, ..map(2) };
    gone.ranks[0].address = String::new();
    world.says(R0, ToClient::Map(gone.clone()));
    (world, gone)
}

/// Ticks until the machine says something, at most so long.
fn until_it_speaks(world: &mut Ranks, most_ms: u64) -> Vec<Wire> {
    let end = world.ms + most_ms;
    while world.ms < end {
        world.ms += 50;
        world.feed(Input::Tick);
        let wire = world.take();
        if !wire.is_empty() {
            return wire;
        }
    }
    Vec::new()
}

#[test]
fn a_rank_that_is_nowhere_is_sought_where_clients_begin_until_somebody_knows_it() {
    let (mut world, mut map) = nowhere();
    world.feed(Input::Disconnected { rank: R0 });
    assert_eq!(until_it_speaks(&mut world, 1_000), [Wire::Connect(R0, None)]);
    // A server takes the connection which hangs: the next one may know more.
    world.feed(Input::Connected { rank: R0 });
    world.take();
    assert_eq!(until_it_speaks(&mut world, 3_000), [Wire::Connect(R0, None)]);
    world.feed(Input::Connected { rank: R0 });
    world.take();
    (map.epoch, map.ranks[0].address) = (10, "there".into());
    world.says(R0, ToClient::Map(map));
    assert_eq!(world.take(), [Wire::Connect(R0, Some("there".into()))]);
    world.connect(R0, Welcome { resumed: true, ..welcome(R0, 2) });
    let again = Wire::Ask(R0, 1, Op::Lookup { dir: Ino::ROOT, name: name("x") });
    assert!(world.take().contains(&again), "it is asked once more, under its number");
}

#[test]
fn who_greets_a_server_that_hangs_goes_where_the_rank_is_as_soon_as_another_one_says_so() {
    let mut world = Ranks::with_second();
    world.call(lookup(Ino::ROOT, "x"));
    world.take();
    world.feed(Input::Disconnected { rank: R0 });
    world.take();
    world.feed(Input::Connected { rank: R0 });
    world.take();
    let mut gone = ClusterMap { epoch: 9, ..map(2) };
    gone.ranks[0].address = String::new();
    world.says(R0, ToClient::Map(gone.clone()));
    while !world.take().contains(&Wire::Connect(R0, None)) {
        world.ms += 50;
        world.feed(Input::Tick);
    }
    world.feed(Input::Connected { rank: R0 });
    world.take();
    (gone.epoch, gone.ranks[0].address) = (10, "there".into());
    world.says(R1, ToClient::Map(gone));
    assert_eq!(world.take(), [Wire::Connect(R0, Some("there".into()))]);
}

#[test]
fn a_rank_that_left_the_map_is_not_sought_any_more() {
    let mut world = Ranks::with_second();
    let fh = world.create(R0, Ino::ROOT, Ino(0x200), true, Lease::CACHE | Lease::BUFFER);
    world.says(R0, ToClient::Map(ClusterMap { epoch: 9, ..map(1) }));
    world.says(R0, ToClient::Routes { routes: vec![route(DIR, R0, 9)], moved: Vec::new(), to: None, frozen_ms: 0 });
    world.feed(Input::Disconnected { rank: R1 });
    assert_eq!(world.take(), [Wire::Disconnect(R1)]);
    world.write(fh, b"goes on");
    world.call(lookup(DIR, "b"));
    assert_eq!(world.asked().0, R0);
}

#[test]
fn what_was_to_be_asked_after_a_pause_of_a_rank_that_is_no_more_is_asked_of_another_one() {
    let mut world = Ranks::with_second();
    let id = world.call(lookup(DIR, "b"));
    // They send it to and fro, as a directory moves between them.
    let mut at = R1;
    for _ in 0..4 {
        let to = if at == R1 { R0 } else { R1 };
        world.redirects(at, to, &[], None);
        at = to;
    }
    assert_eq!((at, world.take()), (R1, vec![]), "it waits a little");
    world.says(R0, ToClient::Map(ClusterMap { epoch: 9, ..map(1) }));
    world.feed(Input::Disconnected { rank: R1 });
    world.take();
    world.ms += 50;
    world.feed(Input::Tick);
    world.answers(R0, entry(Ino(0x1fe), Kind::File));
    world.result(id).unwrap();
}

#[test]
fn a_client_outlives_the_rank_that_it_came_to_first() {
    let mut world = Ranks::with_second();
    let fh = world.create(R1, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    let look = world.call(lookup(Ino::ROOT, "x"));
    let ranks = map(2).ranks[1..].to_vec();
    world.says(R1, ToClient::Map(ClusterMap { epoch: 9, ranks, ..Default::default() }));
    world.says(
        R1,
        ToClient::Routes { routes: vec![route(Ino::ROOT, R1, 9)], moved: Vec::new(), to: None, frozen_ms: 0 },
    );
    world.take();
    world.feed(Input::Disconnected { rank: R0 });
    let wire = world.take();
    let op = Op::Lookup { dir: Ino::ROOT, name: name("x") };
    assert!(matches!(&wire[..], [Wire::Disconnect(R0), Wire::Ask(R1, _, asked)] if *asked == op), "{wire:?}");
    assert!(!world.done.iter().any(|(id, _)| *id == look));
    world.write(fh, b"goes on");
    world.call(Call::Op(Op::StatFs));
    assert_eq!(world.asked().0, R1);
}

#[test]
fn what_was_on_its_way_to_a_rank_that_forgot_the_client_follows_the_file() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    let inline = world.create(R0, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    let objects = world.create(R0, DIR, Ino(0x102), false, Lease::CACHE | Lease::BUFFER);
    world.write(inline, b"small");
    world.write(objects, b"large");
    let flushes = [inline, objects].map(|fh| world.call(Call::Flush { fh, owner: None }));
    assert_eq!(world.take().len(), 2);
    world.moves(true);
    assert_eq!(world.take(), []);
    world.feed(Input::Disconnected { rank: R0 });
    world.take();
    world.connect(R0, welcome(R0, 2));
    let wire = world.take();
    let [Wire::Ask(R1, seq, Op::WriteInline { .. }), Wire::Data(R1, id, DataOp::Write { .. })] = wire[..] else {
        panic!("{wire:?}")
    };
    world.answer(R1, seq, entry(FILE, Kind::File), &[]);
    world.says(R1, ToClient::Data { id, result: Ok(DataAnswer::Done) });
    assert!(matches!(world.answers(R1, entry(Ino(0x102), Kind::File)), Op::SetData { .. }));
    for flush in flushes {
        world.result(flush).unwrap();
    }
}

#[test]
fn a_rank_whose_address_is_not_known_is_connected_to_when_it_is() {
    let mut world = Ranks::of(2);
    world.call(lookup(Ino::ROOT, "a"));
    world.redirects(R0, Rank(2), &[], None);
    assert_eq!(world.take(), []);
    world.says(R0, ToClient::Map(map(3)));
    assert_eq!(world.take(), [Wire::Connect(Rank(2), Some("at 2".into()))]);
    world.connect(Rank(2), welcome(Rank(2), 3));
    assert_eq!(world.asked().0, Rank(2));
}

#[test]
fn another_rank_that_refuses_is_tried_again_and_does_not_end_the_client() {
    let mut world = Ranks::of(2);
    world.call(lookup(Ino::ROOT, "a"));
    world.redirects(R0, R1, &[], None);
    world.take();
    world.feed(Input::Connected { rank: R1 });
    world.take();
    world.says(R1, ToClient::Refused { why: Refusal::Stopping, text: "later".into() });
    assert_eq!(world.take(), [Wire::Connect(R1, Some("at 1".into()))]);
    assert!(!world.refused);
}

#[test]
fn who_finds_another_rank_where_its_first_one_was_seeks_that_at_its_own_address() {
    let mut world = Ranks::of(2);
    let fh = world.create(R0, Ino::ROOT, Ino(0x200), true, Lease::CACHE | Lease::BUFFER);
    world.take();
    world.feed(Input::Disconnected { rank: R0 });
    assert_eq!(world.take(), [Wire::Connect(R0, None)]);
    // Others begin at rank 1 now, and rank 0 is still there.
    world.connect(R0, welcome(R1, 2));
    assert_eq!(
        world.take(),
        [Wire::Other(R0, ToServer::Goodbye { gone: false }), Wire::Connect(R0, Some("at 0".into()))]
    );
    world.connect(R0, Welcome { resumed: true, kept: true, ..welcome(R0, 2) });
    world.write(fh, b"goes on");
}

#[test]
fn a_rank_that_says_only_who_is_there_is_not_the_one_that_is_sought() {
    let mut world = Ranks::of(2);
    let fh = world.create(R0, Ino::ROOT, Ino(0x200), true, Lease::CACHE | Lease::BUFFER);
    world.take();
    world.feed(Input::Disconnected { rank: R0 });
    world.take();
    world.feed(Input::Connected { rank: R0 });
    world.take();
    world.says(R0, ToClient::Map(map(2)));
    assert_eq!(world.take(), [Wire::Connect(R0, Some("at 0".into()))]);
    world.connect(R0, Welcome { resumed: true, kept: true, ..welcome(R0, 2) });
    world.write(fh, b"goes on");
}

#[test]
fn a_session_that_a_rank_has_found_again_is_not_ended_by_who_sought_another_rank_there() {
    let mut world = Ranks::with_second();
    world.feed(Input::Disconnected { rank: R0 });
    world.feed(Input::Disconnected { rank: R1 });
    world.take();
    // All were started again, and nobody knows yet where rank 1 is: it is sought where clients begin.
    world.connect(R1, welcome(R0, 2));
    assert!(
        !world.take().contains(&Wire::Other(R1, ToServer::Goodbye { gone: false })),
        "it is the one that is asked for next"
    );
    world.connect(R1, Welcome { session: SessionId(99), ..welcome(R0, 2) });
    assert!(world.take().contains(&Wire::Other(R1, ToServer::Goodbye { gone: false })), "it was begun for nothing");
}

#[test]
fn who_was_cut_off_while_its_first_rank_was_drained_goes_to_the_others() {
    let mut world = Ranks::of(2);
    let look = world.call(lookup(Ino::ROOT, "x"));
    world.take();
    world.feed(Input::Disconnected { rank: R0 });
    world.take();
    let ranks = map(2).ranks[1..].to_vec();
    let routes = vec![route(Ino::ROOT, R1, 9)];
    world.connect(R0, Welcome { map: ClusterMap { epoch: 9, ranks, ..Default::default() }, routes, ..welcome(R1, 2) });
    let wire = world.take();
    assert_eq!(wire[0], Wire::Other(R0, ToServer::Goodbye { gone: false }), "of a session that is not needed");
    assert_eq!(wire[1..], [Wire::Disconnect(R0), Wire::Connect(R1, Some("at 1".into()))]);
    world.connect(R1, welcome(R1, 2));
    let (rank, seq, op) = world.asked();
    assert_eq!((rank, op), (R1, Op::Lookup { dir: Ino::ROOT, name: name("x") }));
    world.answer(R1, seq, entry(FILE, Kind::File), &[]);
    world.result(look).unwrap();
}

#[test]
fn who_begins_at_a_rank_that_leaves_stays_with_another_one() {
    let mut world = Ranks::unconnected(Config { client: 77, ..Config::default() });
    let mut leaving = map(2);
    leaving.ranks[0].state = RankState::Leaving;
    world.connect(R0, Welcome { map: leaving, ..welcome(R0, 2) });
    assert_eq!(
        world.take(),
        [Wire::Other(R0, ToServer::Goodbye { gone: false }), Wire::Connect(R1, Some("at 1".into()))]
    );
}

#[test]
fn who_missed_that_all_ranks_it_knows_have_gone_asks_where_it_began() {
    let mut world = Ranks::with_second();
    let ranks = map(2).ranks[1..].to_vec();
    world.says(R1, ToClient::Map(ClusterMap { epoch: 9, ranks, ..Default::default() }));
    world.feed(Input::Disconnected { rank: R0 });
    world.feed(Input::Disconnected { rank: R1 });
    world.take();
    world.ms += 10_000;
    world.feed(Input::Disconnected { rank: R1 });
    assert_eq!(world.take(), [Wire::Connect(R1, None)]);
    let info = |rank| RankInfo { rank: Rank(rank), address: format!("at {rank}"), state: RankState::Up };
    let now = ClusterMap { epoch: 12, ranks: vec![info(2)], ..Default::default() };
    world.connect(R1, Welcome { map: now, ..welcome(Rank(2), 2) });
    let wire = world.take();
    assert_eq!(wire[0], Wire::Other(R1, ToServer::Goodbye { gone: false }), "of a session that is not needed");
    assert_eq!(wire[1..], [Wire::Disconnect(R1), Wire::Connect(Rank(2), Some("at 2".into()))]);
}
