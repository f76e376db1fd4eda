//! Cost of one decision: medians over many for each shipped policy, by how many pieces a rank has, when it holds still and
//! when it moves something. Run it with `cargo run --release -p loligo-balancer --example tick_cost`. Not a test.

use loligo_balancer::balance::Policy;
use loligo_balancer::{Limits, Value, embedded};
use loligo_types::{Ino, Load, LoadVec, Piece, PieceHeat, PolicyId, Rank, RankView, Snapshot, Weighed};
use std::time::{Duration, Instant};

/// A tree in which each directory has ten. If the rank is `hot` it has everything, otherwise all are equally idle.
fn snapshot(ranks: u16, pieces: usize, hot: bool) -> Snapshot {
    let piece = |at: usize| PieceHeat {
        under: None,
        piece: Piece { dir: Ino(at as u64 + 1), frag: None },
        above: at.checked_sub(1).map(|before| (before / 10) as u32),
        load: LoadVec { ird: (at % 7) as f64, iwr: (at % 5 + 1) as f64, readdir: 1.0, fetch: 0.5, store: 0.25 },
        inodes: 100,
        fixed: at == 0,
        home: None,
    };
    let mut snapshot = Snapshot {
        names: Vec::new(),
        tick: 1,
        policy: PolicyId(1),
        whoami: Rank(0),
        tick_ms: 10_000,
        ranks: Vec::new(),
        besides: LoadVec::default(),
        pieces: (0..pieces).map(piece).collect(),
    };
    for rank in 0..ranks {
        let busy = if hot && rank == 0 { 100.0 } else { 1.0 };
        let load = Load { cpu_percent: busy, busy_percent: busy, capacity_per_s: 1000.0, ..Load::default() };
        let others = if hot { 0.0 } else { 1e9 };
        let weighed = Some(Weighed { policy: PolicyId(1), auth: others, all: others });
        snapshot.ranks.push(RankView {
            rank: Rank(rank),
            load,
            weighed,
            age_ms: 100,
            takes_more: true,
            is_busy_importing: false,
        });
    }
    snapshot
}

/// Median time of a decision, and moves of the last one.
fn measure(policy: &mut Policy, snapshot: &Snapshot, state: Option<Value>) -> (Duration, usize) {
    let mut times = Vec::new();
    let mut moves = 0;
    for _ in 0..51 {
        let mut state = state;
        let began = Instant::now();
        let outcome = policy.decide(snapshot, &mut state);
        times.push(began.elapsed());
        assert_eq!(outcome.fault, None, "{}", policy.name());
        moves = outcome.decision.moves.len();
    }
    times.sort();
    (times[times.len() / 2], moves)
}

fn main() {
    println!("{:28} {:>5} {:>8} {:>10} {:>10} {:>6}", "policy", "ranks", "pieces", "holds, us", "moves, us", "moves");
    // The same as ours, but weighing is more than arithmetic.
    let branches = embedded()[0].1.replace("return IRD + 2*IWR", "if IRD < 0 then return 0 end return IRD + 2*IWR");
    let all = embedded().iter().copied().chain([("(weighing in Luau)", branches.as_str())]);
    for (name, text) in all {
        let mut policy = Policy::load(name, text, &Limits::default()).expect("a shipped policy loads");
        // The patient ones are at the end of their patience.
        let eager = match name {
            "loligo.lua" | "(weighing in Luau)" | "cephfs_overload.lua" => Some(Value::Number(2.0)),
            "fill_and_spill.toml" | "adaptable_conservative.toml" => Some(Value::Number(0.0)),
            _ => None,
        };
        for (ranks, pieces) in [(8, 100), (8, 1000), (8, 10_000), (64, 10_000)] {
            let (holds, none) = measure(&mut policy, &snapshot(ranks, pieces, false), None);
            let (moves, some) = measure(&mut policy, &snapshot(ranks, pieces, true), eager);
            assert_eq!(none, 0);
            println!("{name:28} {ranks:>5} {pieces:>8} {:>10} {:>10} {some:>6}", holds.as_micros(), moves.as_micros());
        }
    }
}
