//! The worst policy of a balancer: it moves anything anywhere at any time, asks for what cannot be, says that loads are no
//! numbers, answers late or never, and is replaced all the time. What it must not be able to do is to break a promise.

use loligo_types::{Decision, Frag, Ino, Move, Piece, PolicyId, Rank, Snapshot, Weighed};

use crate::rng::Rng;
use crate::server::Work;
use crate::world::{Event, World};

/// Most moves of a decision.
const MOVES_MAX: u64 = 6;

fn decision(rng: &mut Rng, ranks: u64, snapshot: &Snapshot) -> Decision {
    let load = |rng: &mut Rng| rng.pick(&[0.0, 1.0, 1e300, -1.0, f64::NAN, f64::INFINITY]);
    let weighed = |rng: &mut Rng| Weighed { policy: snapshot.policy, auth: load(rng), all: load(rng) };
    // Mostly a sound one, or nothing would be moved.
    let sound = Weighed { policy: snapshot.policy, auth: 1.0, all: 2.0 };
    let weighed = match rng.below(10) {
        0 => None,
        1 => Some(weighed(rng)),
        2 => Some(Weighed { policy: PolicyId(snapshot.policy.0 + 1), ..sound }),
        _ => Some(sound),
    };
    let one = |rng: &mut Rng| {
        let known = match snapshot.pieces.len() as u64 {
            0 => Piece { dir: Ino::ROOT, frag: None },
            pieces => snapshot.pieces[rng.below(pieces) as usize].piece,
        };
        let frag = |rng: &mut Rng| {
            let bits = rng.pick(&[0, 1, 2, 3, 8, Frag::BITS_MAX]);
            Frag { bits, value: rng.below(1 << bits) as u32 }
        };
        let piece = match rng.below(8) {
            0 => Piece { dir: Ino(rng.below(1 << 12)), frag: None },
            1 | 2 => Piece { frag: Some(frag(rng)), ..known },
            _ => known,
        };
        Move { piece, to: Rank(rng.below(ranks + 1) as u16), load: load(rng) }
    };
    let moves = (0..rng.below(MOVES_MAX)).map(|_| one(rng)).collect();
    let tick = if rng.one_in(10) { snapshot.tick.wrapping_sub(1) } else { snapshot.tick };
    Decision { tick, weighed, moves }
}

impl World {
    /// A rank asks what is to move.
    pub fn ask_worst(&mut self, rank: usize, snapshot: &Snapshot) {
        self.outcome.decisions += 1;
        if self.policy_rng.one_in(8) {
            return;
        }
        let ranks = self.seats.len() as u64;
        let mut decision = decision(&mut self.policy_rng, ranks, snapshot);
        if self.quiet {
            decision.moves.clear();
        }
        // Who lists a directory whose fragments are several ranks' sees each of them at its own time.
        let cut = decision.moves.iter().filter(|one| one.piece.frag.is_some());
        self.spread.extend(cut.map(|one| one.piece.dir));
        let us = self.policy_rng.range(1, 200_000);
        let life = self.seats[rank].life;
        self.note(|| format!("rank {rank} is to be told by the policy in {us} us: {decision:?}"));
        self.after(us, Event::Work { rank, life, work: Work::Decided(decision) });
    }

    /// Another policy, or none for a while; and the next time is planned.
    pub fn change_policy(&mut self) {
        if self.quiet {
            return;
        }
        let next = self.policy_rng.range(100_000, 2_000_000);
        self.after(next, Event::Policy);
        self.map.policy = PolicyId(self.policy_rng.pick(&[0, 1, 2, 3, 4, 5]));
        self.map_has_changed();
    }
}
