//! Which ranks a file system has, as the table keeps it: numbers, states, the epoch of the cluster map. Every change is one
//! write of the table, so it is there wholly or not at all. When and why it changes is `membership.rs`'s.

use std::collections::BTreeMap;

use loligo_journal::table::{Meta, decode_meta, key_meta};
use loligo_rows::put_meta;
use loligo_store::{Batch, Durability, Table};
use loligo_types::{ClusterMap, PolicyId, Rank, RankInfo, RankState};

use super::cluster::RANKS_MAX;
use super::error::{Result, ServerError, bad_row};
use crate::Address;

/// [`Meta::RankState`] of a rank that was removed.
const REMOVED: u64 = 4;

/// The ranks there are, and what was there.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Members {
    /// Of the cluster map; 0: there never was more than one rank.
    pub(crate) epoch: u64,
    /// Number of rank numbers ever used.
    pub(crate) numbers: u32,
    /// Those that are there.
    pub(crate) states: BTreeMap<Rank, RankState>,
    /// The policy by which they balance.
    pub(crate) policy: PolicyId,
}

impl Members {
    /// As the table has them.
    pub(crate) fn read(table: &dyn Table, numbers: u32) -> Result<Members> {
        let get = |meta: Meta, rank: Rank| -> Result<Option<u64>> {
            let key = key_meta(meta, rank);
            table.get(&key)?.map(|value| decode_meta(&value)).transpose().map_err(|e| bad_row(&key, &e))
        };
        let mut states = BTreeMap::new();
        for rank in (0..u16::try_from(numbers).unwrap_or(u16::MAX)).map(Rank) {
            let state = match get(Meta::RankState, rank)? {
                None | Some(1) => RankState::Up,
                Some(2) => RankState::Draining,
                Some(3) => RankState::Leaving,
                Some(REMOVED) => continue,
                Some(other) => {
                    let text = format!("rank {rank} has state {other} in the table, which this program does not know");
                    return Err(ServerError::Refused(format!("{text}: use a newer version of loligo")));
                }
            };
            states.insert(rank, state);
        }
        let policy = get(Meta::Policy, Rank::ZERO)?.unwrap_or(0);
        let policy = PolicyId(u32::try_from(policy).unwrap_or(0));
        Ok(Members { epoch: get(Meta::MapEpoch, Rank::ZERO)?.unwrap_or(0), numbers, states, policy })
    }

    /// The lowest number that is free. Not 0: another rank has its address.
    pub(crate) fn free_number(&self) -> Rank {
        let mut numbers = (1..u16::MAX).map(Rank);
        numbers.find(|rank| !self.states.contains_key(rank)).unwrap_or(Rank(u16::MAX))
    }

    /// Adds ranks up to so many (0: none), of those numbers that are free. New ones begin at zero; one that was removed
    /// goes on with its numbers and its journal.
    pub(crate) fn fill(&mut self, asked: u16) -> Result<()> {
        let there = u16::try_from(self.states.len()).unwrap_or(u16::MAX);
        match asked {
            0 if there > RANKS_MAX => return Err(ServerError::TooManyRanks { asked: there }),
            0 => return Ok(()),
            asked if asked > RANKS_MAX => return Err(ServerError::TooManyRanks { asked }),
            asked if asked < there => return Err(ServerError::FewerRanks { asked, there }),
            _ => {}
        }
        while self.states.len() < usize::from(asked) {
            let rank = self.free_number();
            self.states.insert(rank, RankState::Up);
            self.numbers = self.numbers.max(u32::from(rank.0) + 1);
        }
        Ok(())
    }

    /// True if there never was another rank than the first.
    pub(crate) fn is_single(&self) -> bool {
        self.numbers <= 1
    }

    /// Puts all of it down. `removed`: a rank that is to be known as removed.
    pub(crate) fn put(&self, batch: &mut Batch, removed: Option<Rank>) {
        put_meta(batch, Meta::Ranks, Rank::ZERO, u64::from(self.numbers));
        if !self.is_single() {
            put_meta(batch, Meta::MapEpoch, Rank::ZERO, self.epoch);
        }
        put_meta(batch, Meta::Policy, Rank::ZERO, u64::from(self.policy.0));
        for (rank, state) in &self.states {
            if !self.is_single() {
                put_meta(batch, Meta::RankState, *rank, *state as u64);
            }
        }
        if let Some(rank) = removed {
            put_meta(batch, Meta::RankState, rank, REMOVED);
        }
    }

    /// The same, at once and durably.
    pub(crate) fn write(&self, table: &dyn Table, removed: Option<Rank>) -> Result<()> {
        let mut batch = Batch::new();
        self.put(&mut batch, removed);
        Ok(table.write(&batch, Durability::Sync)?)
    }

    /// The cluster map. A rank that never had company has nobody to tell of.
    pub(crate) fn map(&self, address: impl Fn(Rank) -> Option<Address>) -> ClusterMap {
        if self.is_single() {
            return ClusterMap::default();
        }
        let info = |(rank, state): (&Rank, &RankState)| RankInfo {
            rank: *rank,
            address: address(*rank).map(|address| address.to_string()).unwrap_or_default(),
            state: *state,
        };
        ClusterMap { epoch: self.epoch, ranks: self.states.iter().map(info).collect(), policy: self.policy }
    }
}

#[cfg(test)]
mod tests {
    use loligo_store::mem::MemDisk;
    use loligo_store::{Backend, Identity};

    use super::*;

    fn of(numbers: u32) -> Members {
        let states = (0..numbers as u16).map(|rank| (Rank(rank), RankState::Up)).collect();
        Members { epoch: 0, numbers, states, policy: PolicyId::NONE }
    }

    #[test]
    fn ranks_are_added_and_never_left_out() {
        let filled = |there: u32, asked: u16| {
            let mut members = of(there);
            members.fill(asked).map(|()| members.states.len())
        };
        assert_eq!(filled(1, 3).ok(), Some(3));
        assert_eq!(filled(3, 0).ok(), Some(3));
        assert!(filled(3, 2).expect_err("refused").to_string().contains("--ranks 3"));
        assert!(filled(3, 65).is_err() && filled(65, 0).is_err());
    }

    #[test]
    fn what_is_put_down_is_read_again_and_removed_ranks_are_not_there() {
        let table = MemDisk::new(Identity::new([1; 16], [2; 16])).open().expect("it is not open").table();
        assert_eq!(Members::read(&*table, 1).expect("nothing is put down"), of(1));
        let mut members = of(1);
        members.fill(3).expect("there is room");
        members.epoch = 5;
        members.states.insert(Rank(2), RankState::Draining);
        members.write(&*table, None).expect("memory has room");
        assert_eq!(Members::read(&*table, 3).expect("good rows"), members);
        members.states.remove(&Rank(1));
        members.write(&*table, Some(Rank(1))).expect("memory has room");
        assert_eq!(Members::read(&*table, 3).expect("good rows"), members);
        assert_eq!(members.free_number(), Rank(1), "a number is used again");
        members.fill(3).expect("there is room");
        assert_eq!((members.states.len(), members.numbers), (3, 3));
        let map = members.map(|_| None);
        assert_eq!((map.epoch, map.ranks[2].state), (5, RankState::Draining));
        assert_eq!(of(1).map(|_| None), ClusterMap::default());
    }
}
