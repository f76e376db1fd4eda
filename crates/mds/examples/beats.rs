//! Simulates the cost of keeping every rank informed of the load of all others: `cargo run --release -p loligo-mds
//! --example beats [RANKS..]`. All-to-all against gossip, in rounds of a second, with no message lost; once with clocks
//! that agree and once with each rank's round cut at another moment.
//!
//! Bytes are those of the beats (`Beat::BYTES`) and 16 a message, without what carries it.

use loligo_mds::heat::{Beat, Gossip, Load};
use loligo_types::Rank;

const ROUND_MS: u64 = 1000;
const HEADER: usize = 16;
const ROUNDS: u64 = 60;

/// Cost of one way to spread beats.
#[derive(Default)]
struct Cost {
    messages: u64,
    bytes: u64,
    /// Rounds until everybody knew of everybody.
    rounds: u64,
    /// Of what anybody knew of anybody after that, the oldest, and the sum and number of all, milliseconds.
    oldest_ms: u64,
    age_ms: u64,
    looked: u64,
}

/// Each rank tells each.
fn all_to_all(count: u64) -> Cost {
    let messages = count * (count - 1) * ROUNDS;
    // What is known is at most a round old, just before the next one.
    let bytes = messages * (HEADER + Beat::BYTES) as u64;
    Cost { messages, bytes, rounds: 1, oldest_ms: ROUND_MS, age_ms: ROUND_MS, looked: 1 }
}

/// Gossip. `skew`: parts of a round by which the ranks' clocks differ, spread evenly.
fn gossip(count: u16, skew: bool) -> Cost {
    let ranks: Vec<Rank> = (0..count).map(Rank).collect();
    let mut all: Vec<Gossip> = ranks.iter().map(|rank| Gossip::new(*rank)).collect();
    // In no order of the ranks.
    let offset = |at: usize| if skew { (at as u64 * 617) % ROUND_MS } else { 0 };
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|at| offset(*at));
    let mut cost = Cost::default();
    for round in 1..=ROUNDS {
        let mut sent: Vec<(Rank, Vec<Beat>, u64)> = Vec::new();
        for at in &order {
            let now = round * ROUND_MS + offset(*at);
            // Where clocks agree, a round's messages cross.
            if skew {
                deliver(&mut all, &ranks, &mut sent);
            }
            all[*at].beat(round, Load::default(), Default::default(), now, now);
            let message = all[*at].message(ranks.len(), now);
            for to in all[*at].targets(&ranks, |_| true) {
                cost.messages += 1;
                cost.bytes += (HEADER + message.len() * Beat::BYTES) as u64;
                sent.push((to, message.clone(), now));
            }
        }
        deliver(&mut all, &ranks, &mut sent);
        // Just before the next round begins.
        look(&mut cost, &all, &ranks, round, (round + 1) * ROUND_MS);
    }
    cost
}

fn deliver(all: &mut [Gossip], ranks: &[Rank], sent: &mut Vec<(Rank, Vec<Beat>, u64)>) {
    for (to, message, now) in sent.drain(..) {
        all[usize::from(to.0)].take(&message, ranks, now);
    }
}

fn look(cost: &mut Cost, all: &[Gossip], ranks: &[Rank], round: u64, now: u64) {
    let ages = all.iter().enumerate().flat_map(|(at, gossip)| {
        let others = ranks.iter().filter(move |rank| usize::from(rank.0) != at);
        others.map(move |rank| gossip.load_of(*rank, now).map(|(.., age)| age))
    });
    let Some(ages) = ages.collect::<Option<Vec<u64>>>() else { return };
    if cost.rounds == 0 {
        cost.rounds = round;
    }
    cost.oldest_ms = cost.oldest_ms.max(ages.iter().copied().max().unwrap_or(0));
    cost.age_ms += ages.iter().sum::<u64>();
    cost.looked += ages.len() as u64;
}

fn row(count: u16, name: &str, cost: &Cost) {
    let per_s = |n: u64| n as f64 / ROUNDS as f64;
    let per_rank = |n: u64| per_s(n) / f64::from(count);
    println!(
        "| {count} | {name} | {:.0} | {:.1} | {:.1} | {:.2} | {} | {:.1} | {:.1} |",
        per_s(cost.messages),
        per_rank(cost.messages),
        per_s(cost.bytes) / 1024.0,
        per_rank(cost.bytes) / 1024.0,
        cost.rounds,
        cost.age_ms as f64 / cost.looked.max(1) as f64 / 1000.0,
        cost.oldest_ms as f64 / 1000.0,
    );
}

fn main() {
    let asked: Vec<u16> = std::env::args().skip(1).filter_map(|n| n.parse().ok()).filter(|n| *n >= 2).collect();
    let counts = if asked.is_empty() { vec![2, 3, 4, 8, 16, 32, 64, 128] } else { asked };
    println!(
        "| ranks | way | messages/s | of a rank | KiB/s | of a rank | rounds until all know all | mean age, s | oldest, s |"
    );
    println!("|---:|---|---:|---:|---:|---:|---:|---:|---:|");
    for count in counts {
        row(count, "all-to-all", &all_to_all(u64::from(count)));
        row(count, "gossip", &gossip(count, false));
        row(count, "gossip, clocks differ", &gossip(count, true));
    }
}
