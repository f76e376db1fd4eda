//! Gossip of many ranks, played in rounds.

use std::collections::BTreeSet;

use loligo_types::{Random, Rank, Weighed};

use super::gossip::{BEATS_MAX, FAN_OUT, Gossip, rounds};
use super::{Beat, Load};

const ROUND_MS: u64 = 1000;

/// Ranks whose clocks agree.
struct World {
    ranks: Vec<Rank>,
    gossip: Vec<Gossip>,
    round: u64,
    /// Those that neither speak nor hear.
    down: BTreeSet<usize>,
}

impl World {
    fn new(count: u16, round: u64) -> World {
        let ranks: Vec<Rank> = (0..count).map(Rank).collect();
        let gossip = ranks.iter().map(|rank| Gossip::new(*rank)).collect();
        World { ranks, gossip, round, down: BTreeSet::new() }
    }

    fn now(&self) -> u64 {
        self.round * ROUND_MS
    }

    /// A round; messages for which `lost` says so do not arrive.
    fn round(&mut self, mut lost: impl FnMut(Rank, Rank) -> bool) {
        self.round += 1;
        let (now, ranks) = (self.now(), self.ranks.clone());
        let mut sent: Vec<(Rank, Rank, Vec<Beat>)> = Vec::new();
        for at in 0..ranks.len() {
            if self.down.contains(&at) {
                continue;
            }
            let load = Load { auth: now as f64, ..Load::default() };
            self.gossip[at].beat(self.round, load, Weighed::default(), now, now);
            let message = self.gossip[at].message(ranks.len(), now);
            assert!(message.len() <= BEATS_MAX.min(ranks.len()));
            let down = &self.down;
            for to in self.gossip[at].targets(&ranks, |rank| !down.contains(&usize::from(rank.0))) {
                sent.push((ranks[at], to, message.clone()));
            }
        }
        for (from, to, beats) in sent {
            if !lost(from, to) {
                self.gossip[usize::from(to.0)].take(&beats, &ranks, now);
            }
        }
    }

    /// Age of the oldest that a live rank knows of another live one; none if one knows nothing of another.
    fn oldest(&self) -> Option<u64> {
        let live = || (0..self.ranks.len()).filter(|at| !self.down.contains(at));
        let mut oldest = 0;
        for at in live() {
            for of in live() {
                oldest = oldest.max(self.gossip[at].load_of(self.ranks[of], self.now())?.2);
            }
        }
        Some(oldest)
    }
}

#[test]
fn every_rank_knows_all_others_after_as_many_rounds_as_the_logarithm() {
    for count in 2..=128u16 {
        let bits = u32::from(count - 1).ilog2() + 1;
        assert!(rounds(count.into()) <= bits.max(1), "{count}");
        for begin in 0..u64::from(rounds(count.into())) {
            let mut world = World::new(count, begin);
            (0..rounds(count.into())).for_each(|_| world.round(|_, _| false));
            let oldest = world.oldest().unwrap_or_else(|| panic!("{count} ranks: somebody knows nothing of somebody"));
            assert!(oldest < u64::from(rounds(count.into())) * ROUND_MS, "{count}: {oldest}");
            // And so it stays: nothing is older than the time it takes to come, twice.
            for _ in 0..if begin == 0 { 8 } else { 0 } {
                world.round(|_, _| false);
                let oldest = world.oldest().expect("nothing is forgotten");
                assert!(oldest <= 2 * u64::from(rounds(count.into())) * ROUND_MS, "{count}: {oldest}");
            }
        }
    }
}

#[test]
fn few_ranks_tell_each_other_everything_at_once() {
    for count in 2..=4 {
        let mut world = World::new(count, 7);
        let mut pairs = BTreeSet::new();
        world.round(|from, to| !pairs.insert((from, to)));
        assert_eq!(pairs.len(), usize::from(count) * usize::from(count - 1));
        assert_eq!(world.oldest(), Some(0));
        assert_eq!(world.gossip[0].message(count.into(), world.now()).len(), 1, "nobody hands on what all have heard");
    }
}

#[test]
fn a_third_of_the_messages_lost_delays_news_and_no_more() {
    for count in [5, 16, 33, 64, 128u16] {
        let mut world = World::new(count, 0);
        let mut random = Random::new(u64::from(count));
        let mut lost = |_: Rank, _: Rank| random.below(3) == 0;
        let bits = u64::from(count).ilog2() + 1;
        for round in 0..60 {
            world.round(&mut lost);
            if round >= 6 * bits {
                let oldest = world.oldest().expect("all have heard of all by now");
                assert!(oldest <= 6 * u64::from(bits) * ROUND_MS, "{count}: {oldest}");
            }
        }
    }
}

#[test]
fn a_link_that_never_works_is_gone_around() {
    let mut world = World::new(16, 0);
    let broken = |from: Rank, to: Rank| (from, to) == (Rank(3), Rank(4)) || (from, to) == (Rank(3), Rank(7));
    (0..20).for_each(|_| world.round(broken));
    assert!(world.oldest().is_some_and(|oldest| oldest <= 8 * ROUND_MS), "{:?}", world.oldest());
}

#[test]
fn who_is_down_shows_by_its_age_and_who_comes_back_is_heard() {
    let mut world = World::new(21, 0);
    (0..6).for_each(|_| world.round(|_, _| false));
    world.down.extend([4, 5, 20]);
    (0..30).for_each(|_| world.round(|_, _| false));
    assert!(world.oldest().is_some_and(|oldest| oldest <= 9 * ROUND_MS), "the others go on: {:?}", world.oldest());
    for at in [0, 3, 19] {
        let (_, _, age) = world.gossip[at].load_of(Rank(4), world.now()).expect("it was heard once");
        assert!((29 * ROUND_MS..=33 * ROUND_MS).contains(&age), "{age}");
    }
    // It comes back with nothing but its name.
    world.gossip[4] = Gossip::new(Rank(4));
    world.down.clear();
    (0..6).for_each(|_| world.round(|_, _| false));
    assert!(world.oldest().is_some_and(|oldest| oldest <= 6 * ROUND_MS));
}

#[test]
fn a_rank_whose_clock_was_set_back_before_it_restarted_is_believed_again() {
    let ranks = [Rank(0), Rank(1)];
    let (mut old, mut other) = (Gossip::new(Rank(0)), Gossip::new(Rank(1)));
    old.beat(1, Load { auth: 1.0, ..Load::default() }, Weighed::default(), 1000, 900_000);
    other.take(&old.message(2, 1000), &ranks, 1000);
    // A day earlier, as its clock has it.
    let mut new = Gossip::new(Rank(0));
    new.beat(1, Load { auth: 2.0, ..Load::default() }, Weighed::default(), 1000, 100);
    other.take(&new.message(2, 1000), &ranks, 2000);
    assert_eq!(other.load_of(Rank(0), 2000).map(|(load, ..)| load.auth), Some(1.0));
    // It learns what is believed of it.
    let back = Beat { rank: Rank(0), seq: 900_000, age_ms: 0, load: Load::default(), weighed: Weighed::default() };
    new.take(&[back], &ranks, 2000);
    new.beat(2, Load { auth: 3.0, ..Load::default() }, Weighed::default(), 2000, 1100);
    other.take(&new.message(2, 2000), &ranks, 2000);
    assert_eq!(other.load_of(Rank(0), 2000), Some((Load { auth: 3.0, ..Load::default() }, 900_001, 0)));
}

#[test]
fn nonsense_is_passed_over() {
    let ranks: Vec<Rank> = (0..4).map(Rank).collect();
    let mut gossip = Gossip::new(Rank(0));
    let good = Beat { rank: Rank(1), seq: 5, age_ms: 0, load: Load::default(), weighed: Weighed::default() };
    let loads = [
        Load { auth: f64::NAN, ..Load::default() },
        Load { all: f64::INFINITY, ..Load::default() },
        Load { requests_per_s: -1.0, ..Load::default() },
        Load { memory_percent: f32::NAN, ..Load::default() },
        Load { cpu_percent: -0.1, ..Load::default() },
    ];
    for load in loads {
        gossip.take(&[Beat { load, ..good }], &ranks, 1);
    }
    gossip.take(&[Beat { seq: 0, ..good }, Beat { seq: u64::MAX, ..good }, Beat { rank: Rank(4), ..good }], &ranks, 1);
    for rank in 0..6 {
        assert_eq!(gossip.load_of(Rank(rank), 1), None);
    }
    // An age from before the beginning of time, an old number, the same again.
    gossip.take(&[Beat { age_ms: u32::MAX, ..good }], &ranks, 7);
    let seen = gossip.load_of(Rank(1), 7);
    assert_eq!(seen, Some((Load::default(), 5, 7)));
    let later = Load { auth: 9.0, ..Load::default() };
    gossip.take(&[Beat { seq: 4, load: later, ..good }, Beat { load: later, ..good }], &ranks, 7);
    assert_eq!(gossip.load_of(Rank(1), 7), seen);
    gossip.keep(&[Rank(0)]);
    assert_eq!(gossip.load_of(Rank(1), 7), None);
}

#[test]
fn a_message_is_bounded_however_many_ranks_there_are() {
    let ranks: Vec<Rank> = (0..1000).map(Rank).collect();
    let mut gossip = Gossip::new(Rank(0));
    let beats: Vec<Beat> = ranks[1..].iter().map(|rank| Beat { rank: *rank, seq: 1, ..Beat::default() }).collect();
    gossip.take(&beats, &ranks, 0);
    gossip.beat(1, Load::default(), Weighed::default(), 0, 1);
    let message = gossip.message(ranks.len(), 0);
    assert_eq!((message.len(), message[0].rank), (BEATS_MAX, Rank(0)), "the own one is among them");
    assert!(gossip.targets(&ranks, |_| true).len() <= FAN_OUT);
}
