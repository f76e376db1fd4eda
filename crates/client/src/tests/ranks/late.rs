//! Answers that were under way from one rank while another one, which was restarted, was told what is held.

use loligo_types::{FileLock, LockKind, LockOwner};

use super::*;

const LOCK: FileLock =
    FileLock { kind: LockKind::Flock, owner: LockOwner(5), pid: 1, exclusive: true, start: 0, end: u64::MAX };

/// The second rank is restarted, and told what is held.
fn second_is_told(world: &mut Ranks) {
    world.feed(Input::Disconnected { rank: R1 });
    world.take();
    world.connect(R1, Welcome { resumed: true, kept: false, ..welcome(R1, 2) });
    let wire = world.take();
    assert!(wire.iter().any(|wire| matches!(wire, Wire::Other(R1, ToServer::Reclaim(_)))), "{wire:?}");
}

/// The first one is restarted, too, and says where it is that it is asked for once more.
fn first_sends_on(world: &mut Ranks) {
    world.feed(Input::Disconnected { rank: R0 });
    world.take();
    world.connect(R0, Welcome { resumed: true, kept: false, ..welcome(R0, 2) });
    let wire = world.take();
    let again = wire.iter().find_map(|wire| match wire {
        Wire::Ask(R0, seq, Op::Open { .. } | Op::Control(Control::SetLock { .. } | Control::Unlock { .. })) => {
            Some(*seq)
        }
        _ => None,
    });
    let again = again.unwrap_or_else(|| panic!("{wire:?}"));
    world.says(R0, ToClient::Redirect { seq: Seq(again), rank: R1, routes: Vec::new(), done: None });
}

/// A file of the first rank is open, and so known to the second one, when that is told what is held.
fn with_open_file() -> (Ranks, Fh) {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    world.meet_second();
    let fh = world.create(R0, DIR, FILE, true, Lease::NONE);
    (world, fh)
}

#[test]
fn what_a_former_life_of_a_rank_says_to_be_open_is_opened_where_it_has_moved_to() {
    let cut = OpenFlags { truncate: true, ..rw() };
    for (call, created) in
        [(Call::Open { ino: FILE, flags: cut }, false), (create(DIR, "new"), true), (create(DIR, "there"), false)]
    {
        let mut world = Ranks::of(2);
        world.look_up_dir();
        world.meet_second();
        let open = world.call(call);
        let (_, seq, _) = world.asked();
        second_is_told(&mut world);
        let attr = Attr { inline: true, size: 0, ..attr(FILE, Kind::File) };
        world.answer(R0, seq, Answer::Opened { attr, created, rights: Lease::CACHE, data: None }, &[]);
        assert!(world.done.is_empty(), "nobody at the second rank knows of it");
        let (rank, _, op) = world.asked();
        assert!(matches!((rank, op), (R0, Op::Open { ino: FILE, handle: 1, flags }) if !flags.truncate && flags.write));
        first_sends_on(&mut world);
        let wire = world.take();
        let [Wire::Ask(R1, seq, Op::Open { ino: FILE, handle: 1, .. })] = wire[..] else { panic!("{wire:?}") };
        world.answer(R1, seq, opened(FILE, true, Lease::NONE), &[]);
        let done = world.result(open).unwrap();
        assert!(matches!(done.answer, Answer::Opened { created: new, .. } if new == created));
        assert_eq!(closes(&mut world, done.fh.unwrap()), [R1]);
    }
}

#[test]
fn what_a_former_life_of_a_rank_says_to_be_locked_is_locked_where_it_has_moved_to() {
    let (mut world, fh) = with_open_file();
    let lock = world.call(Call::SetLock { fh, lock: LOCK, wait: true });
    let (_, seq, _) = world.asked();
    second_is_told(&mut world);
    world.answer(R0, seq, Answer::Done, &[]);
    assert!(world.done.is_empty(), "another one may get it at the second rank");
    assert!(matches!(world.asked(), (R0, _, Op::Control(Control::SetLock { .. }))));
    first_sends_on(&mut world);
    assert!(matches!(world.answers(R1, Answer::Done), Op::Control(Control::SetLock { handle: 1, .. })));
    world.result(lock).unwrap();
}

#[test]
fn what_a_former_life_of_a_rank_says_to_be_unlocked_is_unlocked_where_it_has_moved_to() {
    let (mut world, fh) = with_open_file();
    let lock = world.call(Call::SetLock { fh, lock: LOCK, wait: true });
    world.answers(R0, Answer::Done);
    world.result(lock).unwrap();
    let unlock = world.call(Call::Unlock { fh, lock: LOCK });
    let (_, seq, _) = world.asked();
    // The lock is told with the handle.
    second_is_told(&mut world);
    world.answer(R0, seq, Answer::Done, &[]);
    assert!(world.done.is_empty(), "the second rank may have taken it for held");
    assert!(matches!(world.asked(), (R0, _, Op::Control(Control::Unlock { .. }))));
    first_sends_on(&mut world);
    assert!(matches!(world.answers(R1, Answer::Done), Op::Control(Control::Unlock { handle: 1, .. })));
    world.result(unlock).unwrap();
}

#[test]
fn nothing_is_lent_by_an_answer_from_before_another_rank_was_told_what_is_held() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    world.meet_second();
    let look = world.call(lookup(DIR, "x"));
    let (_, seq, _) = world.asked();
    let flags = OpenFlags { read: true, ..OpenFlags::default() };
    let open = world.call(Call::Open { ino: DIR, flags });
    let dir = attr(DIR, Kind::Dir);
    world.answers(R0, Answer::Opened { attr: dir, created: false, rights: Lease::NONE, data: None });
    let fh = world.result(open).unwrap().fh.unwrap();
    let list = world.call(Call::Readdir { fh, cookie: 0, limit: 10, plus: true });
    let (_, listed, _) = world.asked();
    second_is_told(&mut world);
    world.answer(R0, seq, entry(FILE, Kind::File), &[(DIR, Lease::NAMES), (FILE, Lease::ATTR)]);
    let done = world.result(look).unwrap();
    assert!(!done.names_cached && !done.attr_cached);
    let one = DirEntry {
        name: name("x"),
        ino: FILE,
        kind: Kind::File,
        cookie: 1,
        attr: Some(attr(FILE, Kind::File)),
        lease: Lease::ATTR,
    };
    world.answer(R0, listed, Answer::Entries { entries: vec![one], next: 1, end: true }, &[]);
    let done = world.result(list).unwrap();
    assert!(matches!(&done.answer, Answer::Entries { entries, .. } if entries[0].lease.is_none()), "{done:?}");
    // What is asked from then on is lent as ever.
    let look = world.call(lookup(DIR, "x"));
    let (_, seq, _) = world.asked();
    world.answer(R0, seq, entry(FILE, Kind::File), &[(DIR, Lease::NAMES), (FILE, Lease::ATTR)]);
    let done = world.result(look).unwrap();
    assert!(done.names_cached && done.attr_cached);
}

#[test]
fn what_is_asked_over_a_new_connection_is_not_asked_once_more() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    world.meet_second();
    let open = world.call(Call::Open { ino: FILE, flags: rw() });
    let (_, seq, _) = world.asked();
    second_is_told(&mut world);
    world.feed(Input::Disconnected { rank: R0 });
    world.take();
    world.connect(R0, Welcome { resumed: true, kept: true, ..welcome(R0, 2) });
    let wire = world.take();
    assert!(wire.contains(&Wire::Ask(R0, seq, Op::Open { ino: FILE, flags: rw(), handle: 1 })), "{wire:?}");
    world.answer(R0, seq, opened(FILE, true, Lease::NONE), &[]);
    world.result(open).unwrap();
}
