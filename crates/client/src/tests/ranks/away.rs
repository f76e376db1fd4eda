//! A rank that is away for so long that calls fail.

use loligo_types::SetAttr;

use super::*;

#[test]
fn a_rank_that_is_away_for_long_fails_only_what_needs_it() {
    let mut world = Ranks::with_second();
    let there = world.call(lookup(DIR, "x"));
    let here = world.call(lookup(Ino::ROOT, "y"));
    let (hello, pong) = (Wire::Connect(R1, Some("at 1".into())), ToClient::Pong { at_ms: 0 });
    world.take();
    world.feed(Input::Disconnected { rank: R1 });
    assert_eq!(world.take(), [hello]);
    for _ in 0..700 {
        world.ms += 100;
        world.says(R0, pong.clone());
        world.feed(Input::Tick);
    }
    assert_eq!(world.result(there).unwrap_err().error, FsError::Unavailable);
    assert!(world.done.is_empty());
    let again = world.call(lookup(DIR, "z"));
    assert_eq!(world.result(again).unwrap_err().error, FsError::Unavailable);
    world.take();
    world.connect(R1, Welcome { resumed: true, kept: true, ..welcome(R1, 2) });
    world.take();
    world.call(lookup(DIR, "z"));
    assert_eq!(world.asked().0, R1);
    assert!(!world.done.iter().any(|(id, _)| *id == here));
}

/// A rank is away until calls that it is to answer fail.
fn is_given_up(world: &mut Ranks) {
    world.feed(Input::Disconnected { rank: R0 });
    for _ in 0..700 {
        world.ms += 100;
        world.feed(Input::Tick);
    }
    world.take();
}

#[test]
fn what_a_change_may_still_change_that_was_given_up_is_not_cached_until_it_is_answered() {
    let mut world = Ranks::of(1);
    world.look_up_dir();
    let mkdir = world.call(Call::Op(Op::Mkdir { dir: DIR, name: name("b"), mode: 0o755, umask: 0 }));
    world.take();
    is_given_up(&mut world);
    assert_eq!(world.result(mkdir).unwrap_err().error, FsError::Unavailable);
    assert!(world.dropped.iter().any(|(_, what)| *what == Invalidation::Names(DIR)));
    world.connect(R0, Welcome { resumed: true, kept: true, ..welcome(R0, 1) });
    let repeated = world.take();
    let again = |wire: &Wire| match wire {
        Wire::Ask(R0, seq, Op::Mkdir { .. }) => Some(*seq),
        _ => None,
    };
    let seq = repeated.iter().find_map(again).unwrap_or_else(|| panic!("{repeated:?}"));
    for settled in [false, true] {
        if settled {
            world.answer(R0, seq, entry(Ino(0x300), Kind::Dir), &[]);
            world.feed(Input::Tick);
        }
        for (dir, cached) in [(DIR, settled), (Ino::ROOT, true)] {
            let id = world.call(lookup(dir, "b"));
            let (_, seq, _) = world.asked();
            let granted = vec![(dir, Lease::NAMES)];
            world.says(
                R0,
                ToClient::Reply {
                    seq: Seq(seq),
                    result: Err(FsError::NotFound),
                    granted,
                    ways: Vec::new(),
                    volatile: None,
                    journal: None,
                },
            );
            assert_eq!(world.result(id).unwrap_err().names_cached, cached, "{dir}");
        }
        let id = world.call(Call::GetAttr { ino: DIR });
        let (_, seq, _) = world.asked();
        world.answer(R0, seq, entry(DIR, Kind::Dir), &[(DIR, Lease::ATTR)]);
        assert_eq!(world.result(id).unwrap().attr_cached, settled);
    }
}

#[test]
fn what_a_call_that_was_given_up_may_still_ask_for_is_not_cached_until_it_has_ended() {
    let mut world = Ranks::of(1);
    world.look_up_dir();
    let fh = world.create(R0, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    world.write(fh, b"held back");
    // It waits for what was written before it.
    let cut = world.call(Call::SetAttr { ino: FILE, set: SetAttr { size: Some(1), ..SetAttr::default() }, fh: None });
    let (_, flush, op) = world.asked();
    assert!(matches!(op, Op::WriteInline { .. }), "{op:?}");
    is_given_up(&mut world);
    assert_eq!(world.result(cut).unwrap_err().error, FsError::Unavailable);
    world.connect(R0, Welcome { resumed: true, kept: true, ..welcome(R0, 1) });
    world.take();
    for ended in [false, true] {
        if ended {
            world.answer(R0, flush, entry(FILE, Kind::File), &[]);
            let (_, seq, op) = world.asked();
            assert!(matches!(op, Op::SetAttr { .. }), "{op:?}");
            world.answer(R0, seq, entry(FILE, Kind::File), &[]);
            world.feed(Input::Tick);
            world.take();
        }
        let id = world.call(lookup(DIR, "file"));
        let (_, seq, _) = world.asked();
        world.answer(R0, seq, entry(FILE, Kind::File), &[(FILE, Lease::ATTR)]);
        assert_eq!(world.result(id).unwrap().attr_cached, ended);
    }
}
