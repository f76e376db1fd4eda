//! Helpers of several scenarios: snapshots made by hand, and a check of answers that shares nothing with the engine.

use loligo_balancer::balance::{Outcome, Policy};
use loligo_balancer::{Limits, Value, embedded};
use loligo_types::{Ino, Load, LoadVec, Piece, PieceHeat, PolicyId, Rank, RankView, Snapshot, Weighed};
use std::collections::BTreeSet;

/// The text of a shipped policy.
pub fn shipped(name: &str) -> &'static str {
    let (_, text) = embedded().iter().find(|(known, _)| *known == name).expect("a shipped policy");
    text
}

/// A rank with a load, all metrics in proportion.
pub fn rank(number: u16, load: f64) -> RankView {
    RankView {
        rank: Rank(number),
        load: Load { requests_per_s: load, capacity_per_s: 1000.0, ..Load::default() },
        weighed: Some(Weighed { policy: PolicyId(1), auth: load, all: load }),
        age_ms: 100,
        takes_more: true,
        is_busy_importing: false,
    }
}

/// A piece with changes of inodes.
pub fn piece(number: u64, above: Option<u32>, iwr: f64) -> PieceHeat {
    PieceHeat {
        under: None,
        piece: Piece { dir: Ino(number), frag: None },
        above,
        load: LoadVec { iwr, ..LoadVec::default() },
        inodes: 10,
        fixed: false,
        home: None,
    }
}

/// Rank `me` decides; the others have these loads, and it has these pieces side by side.
pub fn snapshot(me: u16, loads: &[f64], pieces: &[f64]) -> Snapshot {
    Snapshot {
        names: Vec::new(),
        tick: 1,
        policy: PolicyId(1),
        whoami: Rank(me),
        tick_ms: 10_000,
        ranks: loads.iter().enumerate().map(|(at, load)| rank(at as u16, *load)).collect(),
        besides: LoadVec::default(),
        pieces: pieces.iter().enumerate().map(|(at, load)| piece(at as u64 + 1, None, *load)).collect(),
    }
}

/// Rank 0 of two has ten pieces of 10 each.
pub fn plain() -> Snapshot {
    snapshot(0, &[100.0, 0.0], &[10.0; 10])
}

/// One decision of a new policy.
pub fn decide(text: &str, snapshot: &Snapshot) -> Outcome {
    let mut policy = Policy::load("test", text, &Limits::deterministic()).expect("the policy loads");
    let mut state: Option<Value> = None;
    let outcome = policy.decide(snapshot, &mut state);
    check(snapshot, &outcome).expect("a sound answer");
    outcome
}

/// A policy of hooks that only has `when` and `where`, weighing changes.
pub fn hooks(when: &str, places: &str) -> String {
    format!(
        "metaload = 'IWR'\nmdsload = 'MDSs[i].all'\nhowmuch = ['big_first']\nwhen = '''{when}'''\nwhere = '''{places}'''\n"
    )
}

/// Checks that an answer can be carried out whatever made it: sound loads, no move after a fault, only pieces that are there
/// and may move, each once and none inside another, to ranks that take more and are not the one itself.
pub fn check(snapshot: &Snapshot, outcome: &Outcome) -> Result<(), String> {
    let moves = &outcome.decision.moves;
    if outcome.decision.tick != snapshot.tick || outcome.decision.weighed.is_some_and(|weighed| !weighed.is_sound()) {
        return Err("not the tick, or no load".to_string());
    }
    if outcome.fault.is_some() && !moves.is_empty() {
        return Err("moves in spite of a fault".to_string());
    }
    if moves.len() > 64 {
        return Err(format!("{} moves", moves.len()));
    }
    let mut chosen = BTreeSet::new();
    for step in moves {
        let Some(at) = snapshot.pieces.iter().position(|piece| piece.piece == step.piece) else {
            return Err(format!("{:?} is not there", step.piece));
        };
        if snapshot.pieces[at].fixed || !chosen.insert(at) {
            return Err(format!("{:?} is fixed or chosen twice", step.piece));
        }
        let view = snapshot.ranks.iter().find(|view| view.rank == step.to);
        if step.to == snapshot.whoami || !view.is_some_and(|view| view.takes_more && !view.is_busy_importing) {
            return Err(format!("rank {} is given something", step.to));
        }
        if !(step.load.is_finite() && step.load >= 0.0) {
            return Err(format!("a move of {}", step.load));
        }
    }
    for at in &chosen {
        let mut above = snapshot.pieces[*at].above;
        while let Some(up) = above {
            if chosen.contains(&(up as usize)) {
                return Err(format!("{:?} goes and something in it, too", snapshot.pieces[up as usize].piece));
            }
            above = snapshot.pieces[up as usize].above;
        }
    }
    let auth = outcome.decision.weighed.map_or(0.0, |weighed| weighed.auth);
    let sum: f64 = moves.iter().map(|step| step.load).sum();
    if sum > auth * (1.0 + 1e-6) {
        return Err(format!("{sum} moves of {auth}"));
    }
    Ok(())
}
