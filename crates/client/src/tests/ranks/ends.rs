//! Operations at the end of a path walk in one request: open, create and open, change, list. Which state the client keeps of it, and when
//! it takes two requests.

use loligo_types::{Replicas, SetAttr, SetTime};

use super::*;
use crate::WalkAt;

const READ: OpenFlags = OpenFlags { read: true, write: false, truncate: false, append: false, exec: false };

fn world(close_delay_ms: u64) -> Ranks {
    let config = Config { client: 77, close_delay_ms, cache_names: false, ..Config::default() };
    let mut world = Ranks::unconnected(config);
    world.connect(R0, welcome(R0, 2));
    world.meet_second();
    world
}

fn via(text: &str, at: WalkAt, what: Op) -> Call {
    let names = text.split('/').map(name).collect();
    Call::Via { dir: Ino::ROOT, names, at, what: Box::new(what), ways: None }
}

fn open(flags: OpenFlags) -> Op {
    Op::Open { ino: Ino(0), flags, handle: 0 }
}

fn made(flags: OpenFlags) -> Op {
    Op::Create { dir: Ino(0), name: name("f"), mode: 0o644, umask: 0, flags, exclusive: false, handle: 0 }
}

fn set(set: SetAttr) -> Op {
    Op::SetAttr { ino: Ino(0), set, handle: None }
}

fn chmod() -> Op {
    set(SetAttr { mode: Some(0o600), ..SetAttr::default() })
}

/// The operation at the end of a path walk, and the names that replicas resolve.
fn end(op: Op) -> (Op, Replicas) {
    match op {
        Op::Via { by, what, .. } => (*what, by),
        other => panic!("{other:?}"),
    }
}

fn walked(done: u32, last: Answer) -> Answer {
    Answer::Walked { done, dir: DIR, last: Box::new(last), by_path: 0 }
}

/// Opens a file by its path at the second rank.
fn opened_there(world: &mut Ranks, flags: OpenFlags, rights: Lease) -> (Fh, u64) {
    let id = world.call(via("d/f", WalkAt::Rank(R1, DIR), open(flags)));
    let (asked, by) = end(world.answers(R1, opened(FILE, true, rights)));
    let Op::Open { handle, .. } = asked else { panic!("{asked:?}") };
    assert_eq!(by, Replicas::OnTheWay);
    (world.result(id).unwrap().fh.expect("it is open"), handle)
}

#[test]
fn what_is_opened_at_the_end_of_a_way_is_written_and_closed_where_it_was_opened() {
    let mut world = world(0);
    let (fh, handle) = opened_there(&mut world, rw(), Lease::CACHE | Lease::BUFFER);
    world.write(fh, b"held back");
    let id = world.call(Call::Flush { fh, owner: None });
    let write = world.answers(R1, entry(FILE, Kind::File));
    assert!(matches!(write, Op::WriteInline { ino: FILE, handle: of, .. } if of == handle), "{write:?}");
    world.result(id).unwrap();
    let id = world.call(Call::Release { fh, flock_owner: None });
    world.result(id).unwrap();
    world.feed(Input::Tick);
    assert_eq!(world.closes(), [(R1, vec![handle])]);
}

#[test]
fn where_the_way_alone_was_gone_nothing_is_open() {
    let mut world = world(0);
    let id = world.call(via("d/f", WalkAt::First, open(rw())));
    let remote = Answer::Remote { ino: FILE, kind: Kind::File, rank: R1 };
    world.answers(R0, walked(2, remote.clone()));
    let done = world.result(id).unwrap();
    assert_eq!((done.answer, done.fh), (walked(2, remote), None));
    world.feed(Input::Tick);
    assert_eq!(world.take(), []);
}

#[test]
fn a_create_at_the_end_of_a_way_that_finds_a_file_of_another_rank_opens_it_there() {
    let mut world = world(0);
    let id = world.call(via("d", WalkAt::First, made(rw())));
    let (asked, by) = end(world.answers(R0, Answer::Remote { ino: FILE, kind: Kind::File, rank: R1 }));
    let Op::Create { dir: Ino(0), handle, .. } = asked else { panic!("{asked:?}") };
    assert_eq!(by, Replicas::ToTheEnd);
    let asked = world.answers(R1, opened(FILE, true, Lease::NONE));
    assert_eq!(asked, Op::Open { ino: FILE, flags: rw(), handle });
    let done = world.result(id).unwrap();
    assert!(done.fh.is_some() && matches!(done.answer, Answer::Opened { created: false, .. }));
    // What was made and has moved since is opened where it is, as what was made.
    let id = world.call(via("d", WalkAt::First, made(rw())));
    world.redirects(R0, R1, &[], Some((Ino(0x102), 1)));
    let asked = world.answers(R1, opened(Ino(0x102), true, Lease::NONE));
    assert!(matches!(asked, Op::Open { ino: Ino(0x102), .. }), "{asked:?}");
    assert!(matches!(world.result(id).unwrap().answer, Answer::Opened { created: true, .. }));
}

#[test]
fn what_is_to_be_empty_is_cut_when_it_is_open_and_known() {
    let mut world = world(0);
    let flags = OpenFlags { truncate: true, ..rw() };
    for what in [open(flags), made(flags)] {
        let id = world.call(via("d/f", WalkAt::First, what));
        let (asked, _) = end(world.answers(R0, opened(FILE, true, Lease::NONE)));
        let (handle, asked) = asked.opens().expect("it opens");
        assert!(!asked.truncate);
        let cut = world.answers(R0, entry(FILE, Kind::File));
        let size = SetAttr { size: Some(0), ..SetAttr::default() };
        assert_eq!(cut, Op::SetAttr { ino: FILE, set: size, handle: Some(handle) });
        assert!(world.result(id).unwrap().fh.is_some());
    }
}

#[test]
fn an_open_whose_connection_breaks_is_asked_again_and_one_whose_session_ends_is_closed_everywhere() {
    let mut world = world(0);
    let id = world.call(via("d/f", WalkAt::First, open(READ)));
    let (_, seq, op) = world.asked();
    world.feed(Input::Disconnected { rank: R0 });
    world.take();
    world.connect(R0, Welcome { resumed: true, kept: true, ..welcome(R0, 2) });
    let again = |wire: &Wire| matches!(wire, Wire::Ask(R0, of, asked) if *of == seq && *asked == op);
    assert_eq!(world.take().iter().filter(|wire| again(wire)).count(), 1);
    world.says(R0, ToClient::Evicted);
    assert_eq!(world.result(id).unwrap_err().error, FsError::Stale);
    let (handle, _) = op.opens().expect("it opens");
    let closed = |wire: &Wire| matches!(wire, Wire::Ask(R1, _, Op::Control(Control::Close { handles, lost: true })) if *handles == [handle]);
    assert!(world.take().iter().any(closed), "it may have been opened, and have moved");
}

#[test]
fn what_is_held_back_goes_before_a_change_of_attributes() {
    let mut world = world(0);
    // Whatever it is of.
    let (fh, _) = opened_there(&mut world, rw(), Lease::CACHE | Lease::BUFFER);
    let id = world.call(via("d/g", WalkAt::First, chmod()));
    assert_eq!(end(world.answers(R0, entry(Ino(0x102), Kind::File))).0, chmod());
    assert_eq!(world.result(id).unwrap().attr().map(|attr| attr.ino), Some(Ino(0x102)));
    world.write(fh, b"held back");
    let times = set(SetAttr { mtime: Some(SetTime::At(Time(1))), ..SetAttr::default() });
    let size = set(SetAttr { size: Some(3), ..SetAttr::default() });
    for what in [times, size.clone(), chmod()] {
        let id = world.call(via("d/f", WalkAt::First, what));
        let op = world.answers(R0, walked(2, entry(FILE, Kind::File)));
        assert!(matches!(op, Op::Walk { by: Replicas::OnTheWay, .. }), "{op:?}");
        assert!(matches!(world.result(id).unwrap().answer, Answer::Walked { done: 2, .. }));
    }
    let id = world.call(Call::Flush { fh, owner: None });
    world.answers(R1, entry(FILE, Kind::File));
    world.result(id).unwrap();
    // A length must come between the writes of whoever has it open here, also when nothing is held back.
    let id = world.call(via("d/f", WalkAt::First, size));
    let op = world.answers(R0, walked(2, entry(FILE, Kind::File)));
    assert!(matches!(op, Op::Walk { .. }), "{op:?}");
    world.result(id).unwrap();
}

#[test]
fn what_was_opened_before_the_permissions_changed_by_path_serves_nobody_after_it() {
    let mut world = world(60_000);
    let open_again = Call::Open { ino: FILE, flags: READ };
    let open_first = |world: &mut Ranks| {
        let id = world.call(via("d/f", WalkAt::First, open(READ)));
        let (_, seq, _) = world.asked();
        world.answer(R0, seq, opened(FILE, true, Lease::CACHE), &[(FILE, Lease::ATTR)]);
        let fh = world.result(id).unwrap().fh.unwrap();
        let id = world.call(Call::Release { fh, flock_owner: None });
        world.result(id).unwrap();
    };
    open_first(&mut world);
    let id = world.call(open_again.clone());
    assert!(world.result(id).unwrap().fh.is_some(), "what was opened by path serves by number, too");
    let id = world.call(via("d/f", WalkAt::First, chmod()));
    world.answers(R0, entry(FILE, Kind::File));
    world.result(id).unwrap();
    world.call(open_again);
    assert!(matches!(world.asked().2, Op::Open { ino: FILE, .. }));
}

#[test]
fn of_one_file_that_is_opened_by_path_again_and_again_one_handle_stays() {
    let mut world = world(60_000);
    for _ in 0..200 {
        let (fh, _) = opened_there(&mut world, READ, Lease::CACHE);
        let id = world.call(Call::Release { fh, flock_owner: None });
        world.result(id).unwrap();
        world.wire.retain(|wire| !matches!(wire, Wire::Ask(_, _, Op::Control(Control::Close { .. }))));
    }
    assert_eq!(world.client.files.handles.len(), 1);
    assert!(world.client.files.idle.len() == 1 && world.client.files.closing.len() < 64);
}

#[test]
fn a_listing_at_the_end_of_a_way_says_of_which_directory_it_is() {
    let mut world = world(0);
    let list = Op::Readdir { dir: Ino(0), cookie: 0, limit: 100, plus: true, handle: None };
    let id = world.call(via("d", WalkAt::Rank(R1, DIR), list.clone()));
    let entries = Answer::Entries { entries: Vec::new(), next: 7, end: false };
    let op = world.answers(R1, walked(1, entries.clone()));
    assert_eq!(end(op), (list.clone(), Replicas::ToTheEnd));
    assert_eq!(world.result(id).unwrap().answer, walked(1, entries));
    // It changes nothing: whoever has lost a session asks again.
    let id = world.call(via("d", WalkAt::First, list));
    let (_, _, op) = world.asked();
    world.says(R0, ToClient::Evicted);
    world.take();
    world.connect(R0, Welcome { session: SessionId(9), ..welcome(R0, 2) });
    assert!(world.take().iter().any(|wire| matches!(wire, Wire::Ask(R0, _, asked) if *asked == op)));
    let _ = id;
}
