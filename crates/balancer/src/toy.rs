//! A toy cluster in which a policy's decisions come true at once: loads move with the pieces. No metadata server, no clock and
//! no network; it shows what a policy does, not how well a file system does with it. Used by [`crate::lint`] and by tests.

use crate::balance::{Outcome, Policy};
use crate::{Fault, Limits, Value};
use loligo_types::{Ino, Load, LoadVec, Piece, PieceHeat, PolicyId, Random, Rank, RankView, Snapshot, Weighed};

/// Time between two ticks of the toy.
const TICK_MS: u64 = 10_000;

/// A directory of the toy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ToyPiece {
    /// The one it is in.
    pub above: Option<usize>,
    /// The rank that has it.
    pub owner: usize,
    /// Requests per second for it alone.
    pub demand: f64,
    /// It may not move.
    pub fixed: bool,
}

/// A rank of the toy.
pub struct ToyRank {
    policy: Policy,
    /// State of its policy.
    pub state: Option<Value>,
    /// It may be given something.
    pub takes_more: bool,
    /// It says nothing, so that the others know only what it said last.
    pub silent: bool,
    weighed: Option<Weighed>,
    load: Load,
    /// The same a tick earlier.
    before: (Load, Option<Weighed>),
    age_ticks: u64,
    imported: bool,
}

/// A cluster.
pub struct Toy {
    /// Its ranks.
    pub ranks: Vec<ToyRank>,
    /// Its directories, those above first.
    pub pieces: Vec<ToyPiece>,
    /// Requests per second that a rank can answer.
    pub capacity: f64,
    /// By how much of itself a demand changes from tick to tick, up or down.
    pub noise: f64,
    /// True if a rank's knowledge of the others is a tick old.
    pub late_news: bool,
    /// Number of ticks.
    pub ticks: u64,
    random: Random,
}

/// Result of one tick of all ranks.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Ticked {
    /// Of each rank.
    pub outcomes: Vec<Outcome>,
}

impl Ticked {
    /// All moves: from, to and load.
    pub fn moves(&self) -> Vec<(usize, usize, f64)> {
        let of = |(from, outcome): (usize, &Outcome)| {
            outcome.decision.moves.iter().map(|step| (from, usize::from(step.to.0), step.load)).collect::<Vec<_>>()
        };
        self.outcomes.iter().enumerate().flat_map(of).collect()
    }

    /// All faults.
    pub fn faults(&self) -> Vec<&Fault> {
        self.outcomes.iter().filter_map(|outcome| outcome.fault.as_ref()).collect()
    }
}

impl Toy {
    /// A cluster of so many ranks with nothing in it, each with the policy.
    pub fn new(name: &str, text: &str, ranks: usize) -> Result<Toy, Fault> {
        Toy::with_limits(name, text, ranks, &Limits::deterministic())
    }

    /// The same with other limits.
    pub fn with_limits(name: &str, text: &str, ranks: usize, limits: &Limits) -> Result<Toy, Fault> {
        let rank = || {
            Ok(ToyRank {
                policy: Policy::load(name, text, limits)?,
                state: None,
                takes_more: true,
                silent: false,
                weighed: None,
                load: Load::default(),
                before: (Load::default(), None),
                age_ticks: 0,
                imported: false,
            })
        };
        let ranks = (0..ranks).map(|_| rank()).collect::<Result<_, Fault>>()?;
        Ok(Toy {
            ranks,
            pieces: Vec::new(),
            capacity: 1000.0,
            noise: 0.0,
            late_news: false,
            ticks: 0,
            random: Random::new(0),
        })
    }

    /// Adds a directory; its number. One at the top stays where it is.
    pub fn add(&mut self, above: Option<usize>, owner: usize, demand: f64) -> usize {
        self.pieces.push(ToyPiece { above, owner, demand, fixed: above.is_none() });
        self.pieces.len() - 1
    }

    /// A root on rank 0 with so many equal directories, which are asked for so much together; the root's number.
    pub fn add_flat(&mut self, count: usize, demand: f64) -> usize {
        let root = self.add(None, 0, 0.0);
        (0..count).for_each(|_| {
            self.add(Some(root), 0, demand / count as f64);
        });
        root
    }

    /// Requests per second for what each rank has.
    pub fn demands(&self) -> Vec<f64> {
        let mut demands = vec![0.0; self.ranks.len()];
        self.pieces.iter().for_each(|piece| demands[piece.owner] += piece.demand);
        demands
    }

    /// The most that is asked of one rank by the mean.
    pub fn imbalance(&self) -> f64 {
        let demands = self.demands();
        let sum: f64 = demands.iter().sum();
        let most = demands.iter().copied().fold(0.0, f64::max);
        if sum > 0.0 { most * demands.len() as f64 / sum } else { 1.0 }
    }

    /// One tick of every rank: all tell their loads, all decide, and what they decide happens.
    pub fn tick(&mut self) -> Ticked {
        self.ticks += 1;
        for at in 0..self.ranks.len() {
            if self.ranks[at].silent {
                self.ranks[at].age_ticks += 1;
                continue;
            }
            self.ranks[at].before = (self.ranks[at].load, self.ranks[at].weighed);
            self.ranks[at].load = self.load(at);
            self.ranks[at].age_ticks = 0;
            // Alone it cannot decide anything, but it weighs what it has.
            let mut snapshot = self.snapshot(at);
            snapshot.ranks.retain(|view| usize::from(view.rank.0) == at);
            let weighed = self.decide(at, &snapshot).decision.weighed;
            self.ranks[at].weighed = weighed;
        }
        let snapshots: Vec<Snapshot> = (0..self.ranks.len()).map(|at| self.snapshot(at)).collect();
        let outcomes: Vec<Outcome> =
            snapshots.iter().enumerate().map(|(at, snapshot)| self.decide(at, snapshot)).collect();
        self.ranks.iter_mut().for_each(|rank| rank.imported = false);
        for (from, outcome) in outcomes.iter().enumerate() {
            for step in &outcome.decision.moves {
                self.hand_over(step.piece.dir.0 as usize - 1, from, usize::from(step.to.0));
            }
        }
        Ticked { outcomes }
    }

    fn decide(&mut self, at: usize, snapshot: &Snapshot) -> Outcome {
        let rank = &mut self.ranks[at];
        rank.policy.decide(snapshot, &mut rank.state)
    }

    fn hand_over(&mut self, piece: usize, from: usize, to: usize) {
        let mut goes = vec![false; self.pieces.len()];
        for at in piece..self.pieces.len() {
            let is_in = at == piece || self.pieces[at].above.is_some_and(|above| goes[above]);
            goes[at] = is_in && self.pieces[at].owner == from;
            if goes[at] {
                self.pieces[at].owner = to;
            }
        }
        self.ranks[to].imported = true;
    }

    fn load(&self, at: usize) -> Load {
        let demand = self.demands()[at];
        let busy = (demand / self.capacity * 100.0).min(100.0) as f32;
        Load {
            auth: demand,
            all: demand,
            requests_per_s: demand.min(self.capacity),
            queue: ((demand - self.capacity).max(0.0) / 10.0) as u32,
            memory_percent: 50.0,
            cpu_percent: busy,
            busy_percent: busy,
            capacity_per_s: self.capacity,
            ..Load::default()
        }
    }

    /// Snapshot of a rank now.
    pub fn snapshot(&mut self, at: usize) -> Snapshot {
        let is_late = |number: usize, rank: &ToyRank| self.late_news && number != at && rank.before.1.is_some();
        let view = |(number, rank): (usize, &ToyRank)| RankView {
            rank: Rank(number as u16),
            load: if is_late(number, rank) { rank.before.0 } else { rank.load },
            weighed: if is_late(number, rank) { rank.before.1 } else { rank.weighed },
            age_ms: rank.age_ticks * TICK_MS + u64::from(number != at) * 100,
            takes_more: rank.takes_more,
            is_busy_importing: rank.imported,
        };
        let ranks = self.ranks.iter().enumerate().map(view).collect();
        let mut places = vec![None; self.pieces.len()];
        let mut pieces: Vec<PieceHeat> = Vec::new();
        for (number, piece) in self.pieces.clone().iter().enumerate().filter(|(_, piece)| piece.owner == at) {
            let above = piece.above.and_then(|above| places[above]);
            let owner_above = piece.above.map(|above| self.pieces[above].owner);
            places[number] = Some(pieces.len() as u32);
            let demand = piece.demand * (1.0 + self.noise * self.shake());
            pieces.push(PieceHeat {
                under: None,
                piece: Piece { dir: Ino(number as u64 + 1), frag: None },
                above,
                load: LoadVec { ird: demand / 2.0, iwr: demand / 2.0, ..LoadVec::default() },
                inodes: 100,
                fixed: piece.fixed,
                home: owner_above.filter(|owner| above.is_none() && *owner != at).map(|owner| Rank(owner as u16)),
            });
        }
        Snapshot {
            names: Vec::new(),
            tick: self.ticks,
            policy: PolicyId(1),
            whoami: Rank(at as u16),
            tick_ms: TICK_MS,
            ranks,
            besides: LoadVec::default(),
            pieces,
        }
    }

    /// From -1 to 1, the same in every run.
    fn shake(&mut self) -> f64 {
        2.0 * self.random.unit() - 1.0
    }
}
