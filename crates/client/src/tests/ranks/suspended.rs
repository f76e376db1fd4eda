//! Migrations to a rank that may have ended the session meanwhile.

use super::*;

/// Time passes in which the first rank, or nobody, answers pings.
fn passes(world: &mut Ranks, ms: u64, answers: bool) {
    for _ in 0..ms / 100 {
        world.ms += 100;
        world.feed(Input::Tick);
        if answers {
            world.says(R0, ToClient::Pong { at_ms: 0 });
        }
    }
}

/// A directory and an open file below it, with leases and rights of the first rank.
fn holds(world: &mut Ranks) {
    world.look_up_lent(Ino(0x1fe));
    world.create(R0, DIR, FILE, true, Lease::CACHE | Lease::BUFFER);
    world.dropped.clear();
}

fn has_dropped(world: &Ranks) -> Vec<Invalidation> {
    world.dropped.iter().map(|(_, what)| *what).collect()
}

fn moves_below(world: &mut Ranks) {
    let moved = vec![DIR, FILE, Ino(0x1fe)];
    world.says(R0, ToClient::Routes { routes: vec![route(DIR, R1, 1)], moved, to: Some(R1), frozen_ms: 0 });
}

#[test]
fn what_moves_to_a_rank_that_was_silent_for_long_is_not_relied_on() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    world.meet_second();
    holds(&mut world);
    world.feed(Input::Disconnected { rank: R1 });
    passes(&mut world, 8000, true);
    assert_eq!(has_dropped(&world), []);
    moves_below(&mut world);
    let dropped = has_dropped(&world);
    for what in [Invalidation::Names(DIR), Invalidation::Attr(Ino(0x1fe)), Invalidation::Data(FILE)] {
        assert!(dropped.contains(&what), "{what:?} of {dropped:?}");
    }
}

#[test]
fn what_moves_to_a_rank_that_was_never_met_is_relied_on_as_long_as_the_one_that_had_it() {
    let mut world = Ranks::of(2);
    world.look_up_dir();
    holds(&mut world);
    passes(&mut world, 7000, false);
    // It may have moved just after the last ping was answered, and this was long on its way.
    moves_below(&mut world);
    assert_eq!(has_dropped(&world), []);
    passes(&mut world, 1000, false);
    let dropped = has_dropped(&world);
    for what in [Invalidation::Names(DIR), Invalidation::Attr(Ino(0x1fe)), Invalidation::Data(FILE)] {
        assert!(dropped.contains(&what), "{what:?} of {dropped:?}");
    }
}
