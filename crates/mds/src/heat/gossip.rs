//! Gossip: every rank learns the load of all others without each telling each.
//!
//! Time goes in rounds of `beat_ms` of the wall clock. In a round a rank puts down its own load and tells a few others what
//! is new to it: in round `r`, of `m` such rounds until it begins anew, those that are 1, 2 and 3 times 4^(r mod m) places
//! after it in the list of ranks. Every distance below N is a sum of at most one such step a digit, so with clocks that
//! agree to a round, and no message lost, each beat is with all ranks in m = ceil(log4 N) rounds, over 3 messages a rank
//! and round. Up to four ranks that is: each tells each.
//!
//! A message holds what its sender has learned since it last used that step, m rounds ago; so a rank that is passed over or
//! a message that is lost delays news and does not stop them. Pure: time, round and the list of ranks are arguments.

use std::collections::BTreeMap;

use loligo_types::{Rank, Weighed};

use super::{Beat, Load};

/// Others that are told in a round, at most.
pub const FAN_OUT: usize = 3;
/// Beats in one message, at most; beyond, the own one and those learned last.
pub const BEATS_MAX: usize = 256;

/// Rounds in which each of so many ranks has learned of all others.
pub fn rounds(ranks: usize) -> u32 {
    let mut rounds = 0;
    let mut reached = 1;
    while reached < ranks {
        reached = reached.saturating_mul(FAN_OUT + 1);
        rounds += 1;
    }
    rounds.max(1)
}

/// Distances in places from a rank to those that it tells in a round, with so many ranks.
pub fn steps(ranks: usize, round: u64) -> impl Iterator<Item = usize> {
    let digit = (round % u64::from(rounds(ranks))) as u32;
    let unit = (FAN_OUT + 1).pow(digit);
    (1..=FAN_OUT).map(move |n| n * unit).filter(move |step| *step < ranks)
}

/// Load of a rank as last heard.
#[derive(Clone, Copy, Debug)]
struct Known {
    seq: u64,
    load: Load,
    weighed: Weighed,
    /// When that was so, by this rank's clock.
    at_ms: u64,
    /// The round of this rank (counted by itself) in which it learned that.
    learned: u64,
}

/// A rank's knowledge of the load of others.
#[derive(Clone, Debug)]
pub struct Gossip {
    own: Rank,
    /// The wall clock's round of the last beat.
    round: Option<u64>,
    /// Rounds of this rank so far.
    count: u64,
    known: BTreeMap<Rank, Known>,
}

impl Gossip {
    /// Of a rank that knows nothing.
    pub fn new(own: Rank) -> Gossip {
        Gossip { own, round: None, count: 0, known: BTreeMap::new() }
    }

    /// True if a round of the wall clock has begun since the last beat. It only has to be another one: a clock that is set
    /// back costs a beat and nothing else.
    pub fn is_due(&self, round: u64) -> bool {
        self.round != Some(round)
    }

    /// Puts down the own load. `wall_ms`: so that numbers grow from life to life.
    pub fn beat(&mut self, round: u64, load: Load, weighed: Weighed, now_ms: u64, wall_ms: u64) {
        self.round = Some(round);
        self.count += 1;
        let last = self.known.get(&self.own).map_or(0, |known| known.seq);
        let seq = wall_ms.max(last + 1).min(u64::MAX - 2);
        self.known.insert(self.own, Known { seq, load, weighed, at_ms: now_ms, learned: self.count });
    }

    /// Ranks to tell in the round of the last beat, of all ranks in ascending order. A rank that cannot be reached is
    /// replaced by the next one that can.
    pub fn targets(&self, ranks: &[Rank], can_reach: impl Fn(Rank) -> bool) -> Vec<Rank> {
        let Ok(place) = ranks.binary_search(&self.own) else { return Vec::new() };
        let mut targets: Vec<Rank> = Vec::new();
        for step in steps(ranks.len(), self.round.unwrap_or(0)) {
            let mut after = (step..ranks.len()).map(|step| ranks[(place + step) % ranks.len()]);
            targets.extend(after.find(|rank| !targets.contains(rank) && can_reach(*rank)));
        }
        targets
    }

    /// The beats to tell them: of so many ranks what was learned in the last rounds; where nobody has to hand news on,
    /// only the own load.
    pub fn message(&self, ranks: usize, now_ms: u64) -> Vec<Beat> {
        let cycle = u64::from(rounds(ranks));
        let news =
            |(rank, known): &(&Rank, &Known)| **rank == self.own || (cycle > 1 && known.learned + cycle >= self.count);
        let mut news: Vec<(&Rank, &Known)> = self.known.iter().filter(news).collect();
        if news.len() > BEATS_MAX {
            news.sort_by_key(|(rank, known)| (**rank != self.own, std::cmp::Reverse(known.learned), **rank));
            news.truncate(BEATS_MAX);
        }
        let beat = |(rank, known): (&Rank, &Known)| Beat {
            rank: *rank,
            seq: known.seq,
            age_ms: u32::try_from(now_ms.saturating_sub(known.at_ms)).unwrap_or(u32::MAX),
            load: known.load,
            weighed: known.weighed,
        };
        news.into_iter().map(beat).collect()
    }

    /// Learns what another one tells. Numbers that cannot be, and ranks that there are not, are passed over.
    pub fn take(&mut self, beats: &[Beat], ranks: &[Rank], now_ms: u64) {
        for beat in beats {
            if beat.seq == 0
                || beat.seq >= u64::MAX - 1
                || !beat.load.is_sound()
                || !beat.weighed.is_sound()
                || ranks.binary_search(&beat.rank).is_err()
            {
                continue;
            }
            let at_ms = now_ms.saturating_sub(u64::from(beat.age_ms));
            match self.known.get_mut(&beat.rank) {
                Some(known) if known.seq >= beat.seq => {}
                // An earlier life of this rank counted further: the next beat is above that.
                Some(known) if beat.rank == self.own => known.seq = beat.seq,
                None if beat.rank == self.own => {
                    let (load, weighed) = Default::default();
                    self.known
                        .insert(self.own, Known { seq: beat.seq, load, weighed, at_ms: now_ms, learned: self.count });
                }
                _ => {
                    let known =
                        Known { seq: beat.seq, load: beat.load, weighed: beat.weighed, at_ms, learned: self.count };
                    self.known.insert(beat.rank, known);
                }
            }
        }
    }

    /// Forgets ranks that there are no more.
    pub fn keep(&mut self, ranks: &[Rank]) {
        self.known.retain(|rank, _| ranks.binary_search(rank).is_ok());
    }

    /// The newest that is known of a rank: its load, as its policy weighs it, and the age in milliseconds.
    pub fn beat_of(&self, rank: Rank, now_ms: u64) -> Option<(Load, Weighed, u64)> {
        self.known.get(&rank).map(|known| (known.load, known.weighed, now_ms.saturating_sub(known.at_ms)))
    }

    /// The newest load that is known of a rank, its number, and its age in milliseconds.
    pub fn load_of(&self, rank: Rank, now_ms: u64) -> Option<(Load, u64, u64)> {
        self.known.get(&rank).map(|known| (known.load, known.seq, now_ms.saturating_sub(known.at_ms)))
    }
}
