//! An arbitrary policy decides about an arbitrary cluster: loading and deciding neither panic nor run away, and what is to move
//! may be moved. What stands before the first NUL is the policy's text, so the policies that come with Loligo are seeds as they
//! are; the bytes behind it make the cluster, and are made up if there are none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loligo_balancer::balance::Policy;
use loligo_balancer::{FaultKind, Limits, Value};
use loligo_types::{LoadVec, Rank, Snapshot};

// The tests' check of an answer, and the ranks and pieces that they make by hand.
#[allow(dead_code)]
#[path = "../../crates/balancer/tests/suite/support.rs"]
mod support;

/// Four ranks, of which the first has all and the last is about to get something: a root, directories in it, one that is pinned
/// and one that came from the third rank.
const MADE_UP: &[u8] = &[
    4, 0, 0, // ranks, which one decides, what it does besides
    250, 0, 100, 0, 0, 0, 0, 0, 0, 0, 2, 0, // of each rank its load, what is the matter with it, how busy it is
    7, 0, 0, 1, 0, 1, 200, 0, 0, 1, 90, 0, 0, 2, 40, 0, 0, 0, 80, 0, 2, 1, 50, 0, 0, 1, 60, 1,
    0, // what it is in, load, kind, home
];

/// Bytes as numbers, zeros behind the last one.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Mostly small, sometimes what nobody would measure.
    fn load(&mut self) -> f64 {
        match self.next() {
            255 => 1e300,
            254 => f64::MIN_POSITIVE,
            n => f64::from(n),
        }
    }
}

fn snapshot(bytes: &[u8]) -> Snapshot {
    let mut bytes = Bytes(if bytes.is_empty() { MADE_UP } else { bytes });
    let ranks = u16::from(bytes.next() % 9).max(1);
    let me = u16::from(bytes.next()) % ranks;
    let mut snapshot = support::snapshot(me, &[], &[]);
    snapshot.besides = LoadVec { ird: bytes.load(), ..LoadVec::default() };
    for number in 0..ranks {
        let mut view = support::rank(number, bytes.load());
        let (kind, busy) = (bytes.next(), bytes.next());
        (view.load.busy_percent, view.load.cpu_percent) = (f32::from(busy.min(100)), f32::from(busy));
        view.takes_more = kind & 1 == 0;
        view.is_busy_importing = kind & 2 != 0;
        view.age_ms = if kind & 4 == 0 { 5 } else { 50_000 };
        if kind & 8 != 0 {
            view.weighed = None;
        }
        snapshot.ranks.push(view);
    }
    for at in 0..u32::from(bytes.next() % 64) {
        let (above, load, kind, home) = (u32::from(bytes.next()), bytes.load(), bytes.next(), bytes.next());
        let mut piece = support::piece(u64::from(at) + 1, above.checked_sub(1).filter(|above| *above < at), load);
        (piece.load.ird, piece.fixed) = (f64::from(kind >> 4), kind & 1 != 0);
        piece.home = Some(Rank(u16::from(home))).filter(|home| piece.above.is_none() && home.0 != me && home.0 < ranks);
        snapshot.pieces.push(piece);
    }
    snapshot
}

fuzz_target!(|bytes: &[u8]| {
    let nul = bytes.iter().position(|byte| *byte == 0);
    let (text, rest) = nul.map_or((bytes, &[][..]), |at| (&bytes[..at], &bytes[at + 1..]));
    let limits = Limits { steps: 20_000, memory_bytes: 1 << 20, ..Limits::deterministic() };
    let Ok(mut policy) = Policy::load("fuzz", &String::from_utf8_lossy(text), &limits) else { return };
    let snapshot = snapshot(rest);
    let mut state = Some(Value::Number(1.0));
    for _ in 0..3 {
        let before = state;
        let outcome = policy.decide(&snapshot, &mut state);
        assert_eq!(support::check(&snapshot, &outcome), Ok(()));
        assert!(outcome.fault.is_none() || state == before, "a fault leaves the state alone");
        assert!(outcome.fault.as_ref().is_none_or(|fault| fault.kind != FaultKind::Host), "{:?}", outcome.fault);
        assert!(outcome.explain.steps <= limits.steps && outcome.decision.moves.len() <= limits.moves);
        outcome.explain.lines();
    }
});
