//! Ranks that come and go at random. The world keeps the cluster map, as a server's keeper does: its changes are durable at
//! once, and ranks hear of them at different times.

use loligo_mds::{Input, Member};
use loligo_types::{Rank, RankInfo, RankState};

use crate::world::{Event, World};

/// Interval between changes of the set of ranks, microseconds.
const EVERY_US: (u64, u64) = (150_000, 1_500_000);
/// Delay until a rank hears of a change, microseconds.
const LATE_US: (u64, u64) = (1, 200_000);

impl World {
    /// True if a rank is in the cluster map.
    pub fn is_member(&self, rank: usize) -> bool {
        self.map.ranks.is_empty() || self.state_of(rank).is_some()
    }

    fn state_of(&self, rank: usize) -> Option<RankState> {
        self.map.ranks.iter().find(|info| usize::from(info.rank.0) == rank).map(|info| info.state)
    }

    /// The ranks that are in it.
    pub fn members(&self) -> Vec<usize> {
        (0..self.seats.len()).filter(|rank| self.is_member(*rank)).collect()
    }

    /// The rank that listens where a client begins whose first connection goes to this rank: if ranks come and go, the lowest
    /// one that is there.
    pub fn door(&self, home: usize) -> usize {
        if self.options.members { self.members().first().copied().unwrap_or(home) } else { home }
    }

    /// The map has changed; each rank that runs hears it some time, those that start at once.
    pub fn map_has_changed(&mut self) {
        self.map.epoch += 1;
        let map = self.map.clone();
        self.note(|| format!("the map changes: {map:?}"));
        for rank in self.members() {
            let us = self.member_rng.delay(LATE_US.0, LATE_US.1);
            self.after(us, Event::TellMap { rank });
        }
    }

    /// A rank hears what the map is by now.
    pub fn tell_map(&mut self, rank: usize) {
        let map = self.map.clone();
        self.with_server(rank, |server, now| server.feed(now, Input::Map(map)));
    }

    fn set_state(&mut self, rank: usize, state: RankState) {
        if let Some(info) = self.map.ranks.iter_mut().find(|info| usize::from(info.rank.0) == rank) {
            info.state = state;
            self.map_has_changed();
        }
    }

    /// Somebody adds a rank, drains one, or stops that; and the next time is planned.
    pub fn change_members(&mut self) {
        if self.quiet {
            return;
        }
        let (short, long) = EVERY_US;
        let next = self.member_rng.range(short, long);
        self.after(next, Event::Members);
        if self.stopping {
            return;
        }
        let rank = self.member_rng.below(self.seats.len() as u64) as usize;
        let up = self.map.ranks.iter().filter(|info| info.state == RankState::Up).count();
        match self.state_of(rank) {
            None => {
                self.note(|| format!("rank {rank} is added"));
                let info = RankInfo { rank: Rank(rank as u16), address: rank.to_string(), state: RankState::Up };
                self.map.ranks.push(info);
                self.map.ranks.sort_by_key(|info| info.rank);
                self.map_has_changed();
                self.start_server(rank);
            }
            Some(RankState::Up) if up > 1 => {
                self.outcome.drains += 1;
                self.set_state(rank, RankState::Draining);
            }
            Some(RankState::Draining) if self.member_rng.one_in(4) => self.set_state(rank, RankState::Up),
            _ => {}
        }
    }

    /// No rank is drained any more; those that have nothing left may still go.
    pub fn settle_members(&mut self) {
        for rank in self.members() {
            if self.state_of(rank) == Some(RankState::Draining) {
                self.set_state(rank, RankState::Up);
            }
        }
    }

    /// True if no rank is being drained.
    pub fn members_are_settled(&self) -> bool {
        self.map.ranks.iter().all(|info| info.state == RankState::Up)
    }

    /// A rank says something to the keeper of the map.
    pub fn member_says(&mut self, rank: usize, member: Member) {
        self.note(|| format!("rank {rank} says to the keeper of the map: {member:?}"));
        match (member, self.state_of(rank)) {
            (Member::Refused(_), Some(RankState::Draining)) => self.set_state(rank, RankState::Up),
            (Member::Drained, Some(RankState::Draining)) => self.set_state(rank, RankState::Leaving),
            (Member::Left, Some(RankState::Leaving)) if !self.stopping => {
                self.seats[rank].leaves = true;
                self.with_server(rank, |server, now| server.stop(now));
            }
            _ => {}
        }
    }

    /// A rank that had nothing any more has stopped: its journal is not needed, and the map does not name it any more.
    pub fn rank_has_left(&mut self, rank: usize) {
        self.seats[rank].leaves = false;
        self.seats[rank].stopped = false;
        let synced = self.seats[rank].server.as_ref().is_some_and(|server| server.sync_all());
        if !synced {
            let plan = self.crash_plan();
            return self.crash_server(rank, &plan);
        }
        self.outcome.removed += 1;
        self.note(|| format!("rank {rank} is gone"));
        self.take_server(rank);
        self.map.ranks.retain(|info| usize::from(info.rank.0) != rank);
        self.lose_server(rank);
        self.map_has_changed();
    }
}
