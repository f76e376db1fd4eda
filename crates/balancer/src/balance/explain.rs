//! Explanation of a decision, as plain data and as lines for people. Nothing is decided here.

use crate::engine::Value;
use loligo_types::{Move, Piece, PolicyId, Rank};

/// A rank, as the policy saw it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RankSeen {
    /// Which; its place in the list, from 1, is its number in the policy.
    pub rank: Rank,
    /// Load of what it has authority over.
    pub auth: f64,
    /// The same with what it does besides.
    pub all: f64,
    /// Result of `mdsload`.
    pub load: Option<f64>,
    /// Share of its time at work, percent.
    pub busy: f64,
    /// Something may be given to it now.
    pub open: bool,
}

/// Choice of one selector.
#[derive(Clone, PartialEq, Debug)]
pub struct Tried {
    /// Its name.
    pub selector: String,
    /// Load of the pieces.
    pub sum: f64,
    /// Number of pieces.
    pub pieces: usize,
}

/// All selectors at one level of the name space.
#[derive(Clone, PartialEq, Debug)]
pub struct Round {
    /// For whom.
    pub to: Rank,
    /// Among the pieces in this one; none: at the top.
    pub inside: Option<Piece>,
    /// They are what came from that rank.
    pub home: bool,
    /// Load that was still needed.
    pub wanted: f64,
    /// Number of pieces to choose from.
    pub candidates: usize,
    /// Choice of each selector.
    pub tried: Vec<Tried>,
    /// Place of the one that was nearest in `tried`; none: taking nothing was nearer than any.
    pub winner: Option<usize>,
}

/// Input and answer of each hook.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Explain {
    /// Name of the policy.
    pub policy: String,
    /// Its version.
    pub version: PolicyId,
    /// Tick of the decision.
    pub tick: u64,
    /// The rank that decided.
    pub whoami: Rank,
    /// All ranks that took part.
    pub ranks: Vec<RankSeen>,
    /// Sum of their loads.
    pub total: Option<f64>,
    /// Answer of `when`.
    pub when: Option<bool>,
    /// Targets of `where`, in units of `load`.
    pub targets: Vec<(Rank, f64)>,
    /// Targets that were left alone, and why.
    pub skipped: Vec<(Rank, f64, &'static str)>,
    /// Rounds of choosing pieces.
    pub rounds: Vec<Round>,
    /// The moves.
    pub moves: Vec<Move>,
    /// State before.
    pub state_before: Option<Value>,
    /// State after.
    pub state_after: Option<Value>,
    /// Output of the policy.
    pub log: Vec<String>,
    /// Lines that it printed and that were not kept.
    pub log_dropped: usize,
    /// Steps that were used.
    pub steps: u64,
    /// Why nothing was decided although there is no fault.
    pub held: Option<String>,
}

impl Explain {
    /// For people.
    pub fn lines(&self) -> Vec<String> {
        let mut lines =
            vec![format!("{} (policy {}), tick {} on rank {}", self.policy, self.version.0, self.tick, self.whoami)];
        for (at, seen) in self.ranks.iter().enumerate() {
            let load = seen.load.map_or("-".to_string(), short);
            let closed = if seen.open { "" } else { ", takes nothing now" };
            let me = if seen.rank == self.whoami { " (me)" } else { "" };
            let (auth, all, busy) = (short(seen.auth), short(seen.all), short(seen.busy));
            lines.push(format!(
                "MDSs[{}] rank {}{me}: load {load}, auth {auth}, all {all}, busy {busy} %{closed}",
                at + 1,
                seen.rank
            ));
        }
        lines.extend(self.total.map(|total| format!("total {}", short(total))));
        lines.extend(self.held.iter().map(|held| format!("held still: {held}")));
        lines.extend(self.when.map(|when| format!("when: {when}")));
        lines.extend(self.targets.iter().map(|(rank, amount)| format!("where: {} to rank {rank}", short(*amount))));
        let skip =
            |(rank, amount, why): &(Rank, f64, &str)| format!("left alone: {} to rank {rank}, {why}", short(*amount));
        lines.extend(self.skipped.iter().map(skip));
        lines.extend(self.rounds.iter().map(Round::line));
        lines.extend(
            self.moves
                .iter()
                .map(|step| format!("move {} load {} to rank {}", name(&step.piece), short(step.load), step.to)),
        );
        if self.state_before != self.state_after {
            let text = |state: &Option<Value>| state.map_or("nothing".to_string(), |state| state.to_string());
            lines.push(format!("state: {} -> {}", text(&self.state_before), text(&self.state_after)));
        }
        lines.extend(self.log.iter().map(|line| format!("log: {line}")));
        if self.log_dropped > 0 {
            lines.push(format!("log: {} more lines", self.log_dropped));
        }
        lines.push(format!("{} steps", self.steps));
        lines
    }
}

impl Round {
    fn line(&self) -> String {
        let place = match (&self.inside, self.home) {
            (Some(piece), _) => format!("in {}", name(piece)),
            (None, true) => "what came from there".to_string(),
            (None, false) => "at the top".to_string(),
        };
        let tried: Vec<String> = self
            .tried
            .iter()
            .enumerate()
            .map(|(at, tried)| {
                let mark = if self.winner == Some(at) { "*" } else { "" };
                format!("{}{mark} {} ({})", tried.selector, short(tried.sum), tried.pieces)
            })
            .collect();
        let none = if self.winner.is_none() { "; nothing is nearest" } else { "" };
        let (to, wanted, count) = (self.to, short(self.wanted), self.candidates);
        format!("howmuch: for rank {to}, {place}: {wanted} of {count} pieces: {}{none}", tried.join(", "))
    }
}

fn name(piece: &Piece) -> String {
    match piece.frag {
        Some(frag) => format!("{:?} fragment {frag}", piece.dir),
        None => format!("{:?}", piece.dir),
    }
}

fn short(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
