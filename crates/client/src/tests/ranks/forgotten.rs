//! Leases of inodes that caches above have forgotten are given back, but for inodes that came into use again meanwhile.

use super::*;

#[test]
fn names_in_use_that_move_to_a_rank_whose_own_were_forgotten_are_not_given_back() {
    let mut world = Ranks::with_second();
    let halves = Frag::WHOLE.split(1);
    let line = |half: usize, rank, version| Route { dir: DIR, frag: halves[half], rank, version };
    let routes = vec![line(0, R0, 7), line(1, R1, 7)];
    world.says(R0, ToClient::Routes { routes, moved: Vec::new(), to: None, frozen_ms: 0 });
    // Both ranks lend the names that they have.
    let looks_up = |world: &mut Ranks, wanted: Rank| {
        for text in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            let id = world.call(lookup(DIR, text));
            let (rank, seq, _) = world.asked();
            let granted = if rank == wanted { vec![(DIR, Lease::NAMES)] } else { Vec::new() };
            world.answer(rank, seq, entry(FILE, Kind::File), &granted);
            world.result(id).unwrap();
            if rank == wanted {
                return;
            }
        }
        panic!("no name falls to {wanted:?}");
    };
    looks_up(&mut world, R1);
    looks_up(&mut world, R0);
    world.call(Call::Forget { inos: vec![DIR] });
    // Caches above know a name of it again.
    looks_up(&mut world, R0);
    let moved = ToClient::Routes { routes: vec![line(0, R1, 8)], moved: vec![DIR], to: Some(R1), frozen_ms: 0 };
    world.says(R0, moved);
    world.feed(Input::Tick);
    let wire = world.take();
    assert!(!wire.iter().any(|w| matches!(w, Wire::Other(_, ToServer::Release(_)))), "{wire:?}");
    world.says(R1, ToClient::Recall { ino: DIR, id: 8, bits: Lease::NAMES });
    let (token, what) = world.dropped.pop().unwrap();
    assert_eq!(what, Invalidation::Names(DIR));
    world.feed(Input::Invalidated { token });
    assert_eq!(world.take(), [Wire::Other(R1, ToServer::RecallDone { ino: DIR, id: 8 })]);
}
