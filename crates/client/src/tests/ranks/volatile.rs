//! Answers that came before they were durable: what an fsync waits for, and what is told when a crash of the server took them back.

use loligo_types::msg::Volatile;
use loligo_types::{Lsn, SetAttr, SetTime};

use super::*;

/// The answer to the only request, which is not durable before the record `lsn` is.
fn answers_early(world: &mut Ranks, lsn: u64, answer: Answer, granted: &[(Ino, Lease)]) -> Op {
    let (_, seq, op) = world.asked();
    let (granted, volatile) = (granted.to_vec(), Some(Volatile { lsn: Lsn(lsn), durable: Lsn(1) }));
    world.says(
        R0,
        ToClient::Reply { seq: Seq(seq), result: Ok(answer), granted, ways: Vec::new(), volatile, journal: None },
    );
    op
}

/// A new file whose answer came early, and whose directory is lent.
fn made_early() -> (Ranks, Fh) {
    made_early_in(Ranks::of(1))
}

fn made_early_in(mut world: Ranks) -> (Ranks, Fh) {
    let id = world.call(create(Ino::ROOT, "x"));
    let rights = Lease::CACHE | Lease::BUFFER;
    answers_early(&mut world, 10, opened(FILE, true, rights), &[(Ino::ROOT, Lease::NAMES)]);
    let fh = world.result(id).unwrap().fh.unwrap();
    (world, fh)
}

/// The server is there again, in another life.
fn restarts(world: &mut Ranks, recovered: u64, data_epoch: u64) {
    world.feed(Input::Disconnected { rank: R0 });
    world.take();
    world.connect(R0, Welcome { resumed: true, kept: false, data_epoch, recovered: Lsn(recovered), ..welcome(R0, 1) });
}

fn fsync(world: &mut Ranks, fh: Fh) -> u64 {
    world.call(Call::Fsync { fh, data_only: false })
}

#[test]
fn an_fsync_waits_for_all_that_was_answered_before() {
    let (mut world, fh) = made_early();
    let id = fsync(&mut world, fh);
    assert_eq!(world.answers(R0, Answer::Done), Op::Control(Control::Persist));
    world.result(id).unwrap();
    // Others may have been told more of it since.
    let id = fsync(&mut world, fh);
    assert_eq!(world.answers(R0, Answer::Done), Op::Control(Control::Persist));
    world.result(id).unwrap();
}

#[test]
fn where_nothing_is_relaxed_an_fsync_asks_for_nothing() {
    let mut world = Ranks::of(1);
    let fh = world.create(R0, Ino::ROOT, FILE, true, Lease::CACHE | Lease::BUFFER);
    for call in [Call::Fsync { fh, data_only: false }, Call::FsyncDir { dir: Ino::ROOT }] {
        let id = world.call(call);
        assert_eq!(world.take(), []);
        world.result(id).unwrap();
    }
}

#[test]
fn no_object_is_written_before_it_is_durable_that_the_file_is_there() {
    let (mut world, fh) = made_early();
    let id = world.call(write(fh, &[7; 100]));
    world.result(id).unwrap();
    let id = world.call(Call::Flush { fh, owner: None });
    assert_eq!(world.answers(R0, Answer::Done), Op::Control(Control::Persist), "before its bytes go into objects");
    assert!(matches!(&world.take()[..], [Wire::Data(R0, _, DataOp::Discard { from: 0 })]));
    assert!(world.done.iter().all(|(done, _)| *done != id));
}

/// The same of a client in the process of its rank.
fn made_early_at_home() -> (Ranks, Fh) {
    let config = Config { client: 77, close_delay_ms: 0, lives_with_rank: true, ..Config::default() };
    let mut world = Ranks::unconnected(config);
    world.connect(R0, welcome(R0, 1));
    made_early_in(world)
}

/// The bytes of a run whose file is there durably go into objects. What the rank is told then, and the number of that request.
fn goes_into_objects(world: &mut Ranks) -> (u64, Op) {
    while let [Wire::Data(R0, id, _)] = world.wire[..] {
        world.take();
        world.says(R0, ToClient::Data { id, result: Ok(DataAnswer::Done) });
    }
    let (_, seq, op) = world.asked();
    (seq, op)
}

fn set_mtime(at: i64) -> Call {
    let set = SetAttr { mtime: Some(SetTime::At(Time(at))), ..SetAttr::default() };
    Call::SetAttr { ino: FILE, set, fh: None }
}

#[test]
fn a_client_that_ends_with_its_rank_closes_a_file_that_is_not_durable_without_waiting_for_that() {
    let (mut world, fh) = made_early_at_home();
    let id = world.call(write(fh, &[7; 100]));
    world.result(id).unwrap();
    let closed = world.call(Call::Flush { fh, owner: None });
    world.result(closed).unwrap();
    let id = world.call(Call::Release { fh, flock_owner: None });
    world.result(id).unwrap();
    assert_eq!(
        world.answers(R0, Answer::Done),
        Op::Control(Control::Persist),
        "its bytes are written all the same, and not before"
    );
    let (_, told) = goes_into_objects(&mut world);
    assert!(matches!(told, Op::SetData { ino: FILE, grow_to: Some(100), .. }), "{told:?}");
}

#[test]
fn an_fsync_waits_for_what_a_close_did_not_wait_for() {
    let (mut world, fh) = made_early_at_home();
    let id = world.call(write(fh, &[7; 100]));
    world.result(id).unwrap();
    let closed = world.call(Call::Flush { fh, owner: None });
    world.result(closed).unwrap();
    let id = fsync(&mut world, fh);
    assert_eq!(world.answers(R0, Answer::Done), Op::Control(Control::Persist));
    assert!(world.done.iter().all(|(done, _)| *done != id), "nothing is in its objects");
}

#[test]
fn attributes_are_set_before_what_waits_until_its_file_is_durable_and_keep_their_time() {
    let (mut world, fh) = made_early();
    let id = world.call(write(fh, &[7; 100]));
    world.result(id).unwrap();
    let set = world.call(set_mtime(9));
    let attr = Attr { mtime: Time(9), change: 5, ..attr(FILE, Kind::File) };
    assert!(matches!(world.answers(R0, Answer::Entry(attr)), Op::SetAttr { ino: FILE, .. }));
    let shown = world.result(set).unwrap();
    assert_eq!(shown.attr().map(|attr| (attr.size, attr.mtime)), Some((100, Time(9))));
    world.call(Call::Flush { fh, owner: None });
    assert_eq!(world.answers(R0, Answer::Done), Op::Control(Control::Persist));
    let (_, told) = goes_into_objects(&mut world);
    assert!(matches!(told, Op::SetData { mtime: SetTime::At(Time(9)), .. }), "{told:?}");
}

#[test]
fn a_time_that_is_set_while_the_file_becomes_durable_is_set_once_more_behind_its_bytes() {
    let (mut world, fh) = made_early();
    let id = world.call(write(fh, &[7; 100]));
    world.result(id).unwrap();
    world.call(Call::Flush { fh, owner: None });
    let (_, persist, op) = world.asked();
    assert_eq!(op, Op::Control(Control::Persist));
    let set = world.call(set_mtime(9));
    let (_, early, _) = world.asked();
    // The file is durable, its bytes are on their way, and only then the answer comes.
    world.answer(R0, persist, Answer::Done, &[]);
    let (told, _) = goes_into_objects(&mut world);
    let attr = Attr { mtime: Time(9), change: 5, ..attr(FILE, Kind::File) };
    world.answer(R0, early, Answer::Entry(attr), &[]);
    assert!(world.done.iter().all(|(done, _)| *done != set), "the bytes bring a time of their own");
    world.answer(R0, told, Answer::Done, &[]);
    assert!(matches!(world.answers(R0, Answer::Entry(attr)), Op::SetAttr { ino: FILE, .. }));
    world.result(set).unwrap();
}

#[test]
fn what_a_crash_took_back_is_told_once_and_nothing_cached_is_believed() {
    let (mut world, fh) = made_early();
    restarts(&mut world, 9, 2);
    assert!(world.dropped.iter().any(|(_, what)| *what == Invalidation::Names(Ino::ROOT)), "{:?}", world.dropped);
    let id = fsync(&mut world, fh);
    assert_eq!(world.result(id).map_err(|failed| failed.error).unwrap_err(), FsError::Io);
    let id = fsync(&mut world, fh);
    assert_eq!(world.result(id).map_err(|failed| failed.error).unwrap_err(), FsError::Stale);
}

#[test]
fn what_the_journal_had_is_not_lost_with_the_next_life_and_nothing_is_known_of_the_one_after() {
    for (recovered, data_epoch, lost) in [(10, 2, false), (9, 2, true), (0, 2, true), (10, 3, true), (5, 1, false)] {
        let (mut world, fh) = made_early();
        restarts(&mut world, recovered, data_epoch);
        let id = fsync(&mut world, fh);
        let told = world.done.iter().find(|(done, _)| *done == id).map(|(_, result)| result.is_err());
        assert_eq!(told == Some(true), lost, "recovered {recovered}, epoch {data_epoch}: {told:?}");
    }
}

#[test]
fn a_directory_that_lost_something_says_so_to_a_sync_of_everything_once() {
    let mut world = Ranks::of(1);
    let id = world.call(lookup(Ino::ROOT, "d"));
    answers_early(&mut world, 10, entry(DIR, Kind::Dir), &[]);
    world.result(id).unwrap();
    restarts(&mut world, 9, 2);
    world.take();
    for lost in [true, false] {
        let id = world.call(Call::SyncAll);
        while let Some(Wire::Ask(_, seq, Op::Control(Control::Sync))) = world.take().pop() {
            world.answer(R0, seq, Answer::Done, &[]);
        }
        assert_eq!(world.result(id).is_err(), lost);
    }
}

#[test]
fn an_fsync_of_a_directory_waits_for_what_came_early_there_and_says_once_what_a_crash_took_back() {
    let mut world = Ranks::of(1);
    let id = world.call(lookup(DIR, "x"));
    answers_early(&mut world, 10, entry(FILE, Kind::File), &[]);
    world.result(id).unwrap();
    let id = world.call(Call::FsyncDir { dir: DIR });
    assert_eq!(world.answers(R0, Answer::Done), Op::Control(Control::Persist));
    world.result(id).unwrap();
    let id = world.call(lookup(DIR, "y"));
    answers_early(&mut world, 11, entry(FILE, Kind::File), &[]);
    world.result(id).unwrap();
    // One waits for the answer, and the crash comes first.
    let mut id = world.call(Call::FsyncDir { dir: DIR });
    restarts(&mut world, 10, 2);
    for lost in [true, false] {
        let asks = world.take();
        let asked = asks.iter().find_map(|wire| match wire {
            Wire::Ask(_, seq, Op::Control(Control::Persist)) => Some(*seq),
            _ => None,
        });
        world.answer(R0, asked.expect("it is asked"), Answer::Done, &[]);
        assert_eq!(world.result(id).is_err(), lost);
        id = world.call(Call::FsyncDir { dir: DIR });
    }
}

#[test]
fn a_session_that_the_server_ended_meanwhile_hears_of_the_loss_too() {
    let (mut world, _) = made_early();
    world.feed(Input::Disconnected { rank: R0 });
    world.take();
    world.connect(R0, Welcome { resumed: false, kept: false, data_epoch: 2, recovered: Lsn(9), ..welcome(R0, 1) });
    world.take();
    let id = world.call(Call::FsyncDir { dir: Ino::ROOT });
    assert!(world.result(id).is_err());
}

#[test]
fn a_connection_that_breaks_before_the_crash_takes_nothing_of_what_is_to_be_told() {
    let (mut world, fh) = made_early();
    world.feed(Input::Disconnected { rank: R0 });
    world.take();
    world.connect(R0, Welcome { resumed: true, kept: true, ..welcome(R0, 1) });
    restarts(&mut world, 9, 2);
    let id = fsync(&mut world, fh);
    assert_eq!(world.result(id).map_err(|failed| failed.error).unwrap_err(), FsError::Io);
}

#[test]
fn who_waits_for_a_sync_over_a_crash_is_told_because_of_what_others_did_that_was_never_told_here() {
    for relaxed in [true, false] {
        let mut world = Ranks::of(1);
        // Something early, so that the rank is asked at all.
        let id = world.call(lookup(DIR, "x"));
        answers_early(&mut world, 10, entry(FILE, Kind::File), &[]);
        world.result(id).unwrap();
        let dir = if relaxed { DIR } else { Ino::ROOT };
        let mut id = world.call(Call::FsyncDir { dir });
        // All that this client was told is there.
        restarts(&mut world, 10, 2);
        for told in [relaxed, false] {
            while let Some(Wire::Ask(_, seq, Op::Control(Control::Persist))) = world.take().pop() {
                world.answer(R0, seq, Answer::Done, &[]);
            }
            assert_eq!(world.result(id).is_err(), told, "relaxed: {relaxed}");
            id = world.call(Call::FsyncDir { dir });
        }
    }
}
