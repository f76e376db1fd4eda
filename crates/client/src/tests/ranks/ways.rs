//! Ways over several names: which rank is asked, and what is not asked at all.

use loligo_types::{Replicas, limits};

use super::*;
use crate::WalkAt;

fn names(count: usize) -> Arc<[Name]> {
    (0..count).map(|n| name(&format!("d{n}"))).collect()
}

fn mkdir() -> Op {
    Op::Mkdir { dir: DIR, name: name("new"), mode: 0o755, umask: 0 }
}

fn via(count: usize, at: WalkAt, what: Op) -> Call {
    Call::Via { dir: Ino::ROOT, names: names(count), at, what: Box::new(what), ways: None }
}

/// Two ranks that know each other's client; it caches no names.
fn without_names() -> Ranks {
    let config = Config { client: 77, close_delay_ms: 0, cache_names: false, ..Config::default() };
    let mut world = Ranks::unconnected(config);
    world.connect(R0, welcome(R0, 2));
    world.meet_second();
    world
}

#[test]
fn what_a_rank_would_take_for_nonsense_is_not_asked() {
    let mut world = without_names();
    for count in [0, limits::WALK_MAX + 1] {
        let walk = Call::Walk { dir: Ino::ROOT, names: names(count), at: WalkAt::First, to_dir: false, ways: None };
        for call in [walk, via(count, WalkAt::First, mkdir())] {
            let id = world.call(call);
            assert_eq!(world.result(id).unwrap_err().error, FsError::Invalid);
        }
    }
    let id = world.call(via(1, WalkAt::First, Op::GetAttr { ino: DIR }));
    assert_eq!(world.result(id).unwrap_err().error, FsError::Invalid);
    assert_eq!(world.take(), []);
}

#[test]
fn what_is_made_at_the_end_of_a_way_is_asked_of_the_rank_that_is_believed_to_have_it() {
    let mut world = without_names();
    let id = world.call(via(limits::WALK_MAX, WalkAt::Rank(R1, DIR), mkdir()));
    let op = world.answers(R1, entry(Ino(0x300), Kind::Dir));
    let Op::Via { dir, names: asked, by, what } = op else { panic!("{op:?}") };
    assert_eq!((dir, asked.len(), by), (Ino::ROOT, limits::WALK_MAX, Replicas::ToTheEnd));
    // The directory in it is nobody's to read.
    assert_eq!(*what, mkdir().done_at(Ino(0)).expect("it is one"));
    assert_eq!(world.result(id).unwrap().attr().map(|attr| attr.ino), Some(Ino(0x300)));
    // A rank that is not there is not asked.
    let id = world.call(via(1, WalkAt::Rank(Rank(9), DIR), mkdir()));
    let last = Box::new(Answer::Remote { ino: DIR, kind: Kind::Dir, rank: R1 });
    world.answers(R0, Answer::Walked { done: 1, dir: Ino::ROOT, last: last.clone(), by_path: 0 });
    let walked = Answer::Walked { done: 1, dir: Ino::ROOT, last, by_path: 0 };
    assert_eq!(world.result(id).unwrap().answer, walked);
}

#[test]
fn what_was_made_and_moved_before_its_answer_came_is_asked_for_and_not_made_again() {
    let mut world = without_names();
    let id = world.call(via(1, WalkAt::First, mkdir()));
    world.redirects(R0, R1, &[], Some((Ino(0x300), 0)));
    assert_eq!(world.answers(R1, entry(Ino(0x300), Kind::Dir)), Op::GetAttr { ino: Ino(0x300) });
    assert_eq!(world.result(id).unwrap().attr().map(|attr| attr.ino), Some(Ino(0x300)));
    let id = world.call(via(1, WalkAt::First, Op::Unlink { dir: DIR, name: name("x") }));
    world.redirects(R0, R1, &[], Some((Ino(0), 0)));
    assert_eq!(world.result(id).unwrap().answer, Answer::Done);
    // Where the way begins is where it was.
    let id = world.call(via(1, WalkAt::First, mkdir()));
    world.answers(R0, entry(Ino(0x301), Kind::Dir));
    world.result(id).unwrap();
}

#[test]
fn where_names_are_cached_the_way_alone_is_gone() {
    let mut world = Ranks::of(2);
    world.meet_second();
    let id = world.call(via(2, WalkAt::Rank(R1, DIR), mkdir()));
    let walked = Answer::Walked { done: 2, dir: Ino::ROOT, last: Box::new(entry(DIR, Kind::Dir)), by_path: 0 };
    let op = world.answers(R1, walked);
    assert_eq!(op, Op::Walk { dir: Ino::ROOT, names: names(2), by: Replicas::ToTheEnd });
    assert!(matches!(world.result(id).unwrap().answer, Answer::Walked { done: 2, .. }));
}

/// A walk that brings a lookup lease; how many were taken for good. And whether the rank was asked for its clock.
fn leased(world: &mut Ranks) -> (usize, bool) {
    let walk = Call::Walk { dir: Ino::ROOT, names: names(1), at: WalkAt::First, to_dir: false, ways: Some(0) };
    let id = world.call(walk);
    let (rank, seq, _) = world.asked();
    let last = Box::new(entry(Ino(0x300), Kind::File));
    let answer = Answer::Walked { done: 1, dir: Ino::ROOT, last, by_path: 0 };
    let ways = vec![(Ino::ROOT, 250)];
    world.says(
        rank,
        ToClient::Reply { seq: Seq(seq), result: Ok(answer), granted: Vec::new(), ways, volatile: None, journal: None },
    );
    let pinged = world.take() == [Wire::Other(rank, ToServer::Ping)];
    (world.result(id).unwrap().ways.len(), pinged)
}

#[test]
fn lookup_leases_of_a_rank_whose_clock_runs_too_fast_count_for_nothing_and_that_is_told() {
    let mut world = without_names();
    let mut theirs = 5000;
    for _ in 0..5 {
        (world.ms, theirs) = (world.ms + 1500, theirs + 1600);
        assert_eq!(leased(&mut world), (1, true));
        world.says(R0, ToClient::Pong { at_ms: theirs });
        assert_eq!(leased(&mut world), (1, false), "it was asked a moment ago");
    }
    assert_eq!(world.clocks, []);
    (world.ms, theirs) = (world.ms + 1500, theirs + 3000);
    assert_eq!(leased(&mut world), (1, true));
    world.says(R0, ToClient::Pong { at_ms: theirs });
    assert_eq!(std::mem::take(&mut world.clocks), [(R0, crate::Runs::Faster)]);
    assert_eq!(leased(&mut world), (0, false));
    // What runs slower keeps its promises for longer than it has to.
    world.connect(R0, welcome(R0, 2));
    for ms in [1, 900] {
        world.ms += 1500;
        assert_eq!(leased(&mut world), (1, true));
        world.says(R0, ToClient::Pong { at_ms: ms });
    }
    assert_eq!(world.clocks, [(R0, crate::Runs::Slower)]);
    assert_eq!(leased(&mut world), (1, false));
}
