//! Which pieces go: for each target what came from there first, then from the top of what the rank has, going into what is
//! too big to move whole. The order in which the name space is gone through is fixed; `howmuch` only chooses at each level.

use super::explain::Round;
use super::howmuch::HowMuch;
use crate::engine::Run;
use crate::{Fault, FaultKind};
use loligo_types::{Move, PieceHeat, Rank};

/// Default share of a target that is enough: with that much the moves are near enough. `mds_bal_need_min` of CephFS.
const NEED_MIN: f64 = 0.8;
/// Pieces whose load is at least so much of the biggest one's are as big.
const AS_BIG: f64 = 0.8;
/// A piece with more than this much of what is still needed is too big to move whole.
const NEED_MAX: f64 = 1.2;
/// A piece with less than this much of what is still needed is not worth a move.
const CHUNK_MIN: f64 = 0.001;
/// Rounds that are explained; the rest is done without.
const ROUNDS_MAX: usize = 256;

pub(super) struct Carver<'s> {
    pieces: &'s [PieceHeat],
    /// Load of each with all in it, as far as that is not chosen yet.
    nested: Vec<f64>,
    /// Those in each one, in order; the last list has those at the top.
    inside: Vec<Vec<u32>>,
    /// Chosen.
    is_taken: Vec<bool>,
    /// Something in it is chosen: it stays, or its own authority would move along.
    is_opened: Vec<bool>,
    need_min: f64,
    moves_max: usize,
    pub moves: Vec<Move>,
    pub rounds: Vec<Round>,
}

/// Load of each piece with all in it.
pub(super) fn nested(pieces: &[PieceHeat], loads: &[f64]) -> Vec<f64> {
    let mut nested = loads[..pieces.len()].to_vec();
    for (at, piece) in pieces.iter().enumerate().rev() {
        if let Some(above) = piece.above {
            nested[above as usize] += nested[at];
        }
    }
    nested
}

impl<'s> Carver<'s> {
    /// `need_min`: the share of a target that is enough, if the policy says so.
    pub(super) fn new(
        pieces: &'s [PieceHeat],
        nested: Vec<f64>,
        need_min: Option<f64>,
        moves_max: usize,
    ) -> Carver<'s> {
        let need_min = need_min.unwrap_or(NEED_MIN);
        let mut inside = vec![Vec::new(); pieces.len() + 1];
        for (at, piece) in pieces.iter().enumerate() {
            inside[piece.above.map_or(pieces.len(), |above| above as usize)].push(at as u32);
        }
        let is_taken = vec![false; pieces.len()];
        let is_opened = is_taken.clone();
        Carver {
            pieces,
            nested,
            inside,
            is_taken,
            is_opened,
            need_min,
            moves_max,
            moves: Vec::new(),
            rounds: Vec::new(),
        }
    }

    /// Chooses pieces of about this load for a rank.
    pub(super) fn carve(&mut self, run: &mut Run<'_>, howmuch: &HowMuch, to: Rank, amount: f64) -> Result<(), Fault> {
        let top = self.pieces.len();
        let came: Vec<u32> =
            self.inside[top].iter().copied().filter(|at| self.pieces[*at as usize].home == Some(to)).collect();
        let mut have = self.level(run, howmuch, to, &came, amount, (None, true))?;
        // The biggest of all that are too big to move first, so that what is small enough to move is found as far above as it is.
        let mut open = vec![top];
        while let Some(place) = self.biggest(&open) {
            if have >= self.need_min * amount || self.moves.len() >= self.moves_max {
                break;
            }
            let at = open.swap_remove(place);
            let level = self.inside[at].clone();
            have += self.level(run, howmuch, to, &level, amount - have, ((at < top).then_some(at), false))?;
            let rest = amount - have;
            open.extend(level.into_iter().map(|at| at as usize).filter(|at| self.is_to_open(*at, rest)));
        }
        Ok(())
    }

    /// The place in a list of the piece with the biggest load; of those that are about as big ([`AS_BIG`]) that of the first, which
    /// is the one farthest above. All together are bigger than any.
    fn biggest(&self, open: &[usize]) -> Option<usize> {
        let load = |at: usize| self.nested.get(at).copied().unwrap_or(f64::INFINITY);
        let most = open.iter().map(|at| load(*at)).fold(0.0, f64::max);
        let big = (0..open.len()).filter(|place| load(open[*place]) >= most * AS_BIG);
        big.min_by_key(|place| open[*place])
    }

    fn is_to_open(&self, at: usize, rest: f64) -> bool {
        let stays = self.pieces[at].fixed || self.is_opened[at] || self.nested[at] > rest * NEED_MAX;
        stays && !self.is_taken[at] && self.nested[at] > 0.0 && !self.inside[at].is_empty()
    }

    /// Lets the selectors choose among the pieces of one level that can move whole. What was chosen, together.
    fn level(
        &mut self,
        run: &mut Run<'_>,
        howmuch: &HowMuch,
        to: Rank,
        level: &[u32],
        rest: f64,
        place: (Option<usize>, bool),
    ) -> Result<f64, Fault> {
        let can_move = |at: &usize| {
            let load = self.nested[*at];
            let stays = self.pieces[*at].fixed || self.is_taken[*at] || self.is_opened[*at];
            !stays && load > 0.0 && load >= rest * CHUNK_MIN && load <= rest * NEED_MAX
        };
        let candidates: Vec<usize> = level.iter().map(|at| *at as usize).filter(can_move).collect();
        if candidates.is_empty() {
            return Ok(0.0);
        }
        let loads: Vec<f64> = candidates.iter().map(|at| self.nested[*at]).collect();
        let choice = howmuch.choose(run, &loads, rest)?;
        if self.rounds.len() < ROUNDS_MAX {
            self.rounds.push(Round {
                to,
                inside: place.0.map(|at| self.pieces[at].piece),
                home: place.1,
                wanted: rest,
                candidates: candidates.len(),
                tried: choice.tried,
                winner: choice.winner,
            });
        }
        let mut sum = 0.0;
        for chosen in choice.taken.into_iter().take(self.moves_max.saturating_sub(self.moves.len())) {
            sum += self.take(candidates[chosen], to)?;
        }
        Ok(sum)
    }

    fn take(&mut self, at: usize, to: Rank) -> Result<f64, Fault> {
        let load = self.nested[at];
        if !load.is_finite() {
            return Err(Fault::new("metaload", FaultKind::Answer, "the loads are too big to be added"));
        }
        self.is_taken[at] = true;
        self.moves.push(Move { piece: self.pieces[at].piece, to, load });
        let mut above = self.pieces[at].above;
        while let Some(up) = above {
            let up = up as usize;
            self.is_opened[up] = true;
            self.nested[up] = (self.nested[up] - load).max(0.0);
            above = self.pieces[up].above;
        }
        Ok(load)
    }
}
