//! The servers of one file system: what each says of itself in its slots, and what the one that leads has decided, in an omap. That one is
//! written in the epoch of the leader's slot, so one that was deposed decides nothing more.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use loligo_rados::{Error, Pool, ReadOp, WriteOp};
use loligo_store::{RankSeen, Result, ServerFlags, ServerSeen, Servers, Sight, StoreError};

use crate::error::{corrupt, fenced, store};
use crate::names;
use crate::slots::{FILE_SYSTEM, Life, SHARES, STOPS, Slot, Slots, of_rank, of_server, rank_of, server_of};
use crate::store::Ranks;
use crate::table::{RadosTable, claim};

/// The key of the cluster map.
const MAP: &[u8] = b"map";
/// Of what only servers know.
const KEY: &[u8] = b"key";
/// In front of a rank: which server is to have it.
const WANT: &[u8] = b"want.";

/// This server among the others.
pub(crate) struct Member {
    pub(crate) pool: Arc<Pool>,
    pub(crate) slots: Arc<Slots>,
    pub(crate) ranks: Arc<Ranks>,
    /// As the leader writes it.
    pub(crate) table: Arc<RadosTable>,
    pub(crate) server: u64,
    /// The leader's, once this one has been it.
    pub(crate) slot: OnceLock<Arc<Slot>>,
}

/// A number that no other server has.
pub(crate) fn new_number() -> Result<u64> {
    let mut bytes = [0; 8];
    random(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes).max(1))
}

fn random(bytes: &mut [u8]) -> Result<()> {
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| std::io::Read::read_exact(&mut file, bytes));
    read.map_err(|error| StoreError::from_io("/dev/urandom", &error))
}

fn flags(bits: u8) -> ServerFlags {
    ServerFlags { shares: bits & SHARES != 0, stops: bits & STOPS != 0 }
}

/// Decisions of the leader.
#[derive(Default)]
pub(crate) struct Decided {
    wants: BTreeMap<u32, u64>,
    map: Vec<u8>,
    key: Option<[u8; 32]>,
}

pub(crate) fn decided(pool: &Pool) -> Result<Decided> {
    let mut op = ReadOp::new().map_err(store)?;
    let step = op.omap_after(b"", 1 << 16).map_err(store)?;
    let pairs = match op.run(pool, names::SERVERS) {
        Ok(found) => found.omap(step).map_err(store)?.pairs,
        Err(Error::NotFound { .. }) => Vec::new(),
        Err(error) => return Err(store(error)),
    };
    let bad = || {
        corrupt(
            "object servers",
            "what the server that leads has decided has a line that was not written by this program",
        )
    };
    let mut decided = Decided::default();
    for (name, value) in pairs {
        if name == MAP {
            decided.map = value;
        } else if name == KEY {
            decided.key = Some(value.as_slice().try_into().map_err(|_| bad())?);
        } else {
            let rank = name.strip_prefix(WANT).and_then(|rank| std::str::from_utf8(rank).ok()?.parse().ok());
            let server = value.as_slice().try_into().map(u64::from_le_bytes);
            decided.wants.insert(rank.ok_or_else(bad)?, server.map_err(|_| bad())?);
        }
    }
    Ok(decided)
}

/// Refuses a store that a process has which wants to be alone; [`StoreError::InUse`] as long as it may be there.
pub(crate) fn refuse_alone(slots: &Slots) -> Result<()> {
    match slots.life_of(FILE_SYSTEM)? {
        (Some(record), Life::Lives | Life::Silent) if record.server == 0 => {
            Err(StoreError::InUse { dir: String::new(), owner: record.owner })
        }
        _ => Ok(()),
    }
}

/// Refuses a store that servers have; waits until it is known whether those are there that are put down.
pub(crate) fn refuse_others(slots: &Slots) -> Result<()> {
    loop {
        let all = slots.look()?;
        let others = || all.iter().filter(|(name, _)| server_of(name).is_some()).map(|(_, found)| found);
        if let Some((record, _)) = others().find(|(_, life)| *life == Life::Lives) {
            return Err(StoreError::InUse { dir: String::new(), owner: record.owner.clone() });
        }
        if others().all(|(_, life)| *life == Life::Gone) {
            return Ok(());
        }
        std::thread::sleep(slots.lease_time() / 8);
    }
}

impl Servers for Member {
    fn me(&self) -> u64 {
        self.server
    }

    fn lease_time(&self) -> Duration {
        self.slots.lease_time()
    }

    fn look(&self) -> Result<Sight> {
        // First, so that nobody is seen to be wanted who is not there yet.
        let decided = decided(&self.pool)?;
        let mut sight = Sight { wants: decided.wants, map: decided.map, ..Sight::default() };
        for (name, (record, life)) in self.slots.look()? {
            let is_there = life != Life::Gone;
            if name == FILE_SYSTEM {
                sight.leader = (is_there && record.server != 0).then_some(record.server);
            } else if let Some(server) = server_of(&name) {
                let flags = flags(record.flags);
                let seen = ServerSeen { name: record.owner, at: record.at, flags, is_gone: !is_there };
                sight.servers.insert(server, seen);
            } else if let Some(rank) = rank_of(&name) {
                let seen = RankSeen { server: record.server, epoch: record.epoch, is_held: is_there, at: record.at };
                sight.ranks.insert(rank, seen);
            }
        }
        Ok(sight)
    }

    fn key(&self) -> Result<[u8; 32]> {
        loop {
            if let Some(key) = decided(&self.pool)?.key {
                return Ok(key);
            }
            let mut key = [0; 32];
            random(&mut key)?;
            let mut op = WriteOp::new().map_err(store)?;
            op.create().assert_omap(KEY, b"").omap_set([(KEY, key.as_slice())]);
            match op.run(&self.pool, names::SERVERS) {
                Ok(_) | Err(Error::Changed { .. }) => {}
                Err(error) => return Err(store(error)),
            }
        }
    }

    fn announce(&self, at: &str, flags: ServerFlags) -> Result<()> {
        let bits = if flags.shares { SHARES } else { 0 } | if flags.stops { STOPS } else { 0 };
        self.slots.tell(&of_server(self.server), |record| (record.at, record.flags) = (at.to_owned(), bits))
    }

    fn lead(&self, wait: bool) -> Result<bool> {
        if let Some(slot) = self.slot.get() {
            return slot.check().map(|()| true);
        }
        // One that has it already could not go on before.
        if !wait && self.slots.epoch(FILE_SYSTEM).is_none() && self.slots.life_of(FILE_SYSTEM)?.1 != Life::Gone {
            return Ok(false);
        }
        let slot = match self.slots.take(FILE_SYSTEM) {
            Ok(slot) => slot,
            Err(StoreError::InUse { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        claim(&self.pool, names::SERVERS, &slot, None)?;
        self.table.own(slot.clone())?;
        let _ = self.slot.set(slot);
        Ok(true)
    }

    fn announce_rank(&self, rank: u32, at: &str) -> Result<()> {
        self.slots.tell(&of_rank(rank), |record| record.at = at.to_owned())
    }

    fn disown(&self, rank: u32) -> Result<()> {
        self.ranks.forget(rank);
        self.slots.give(&of_rank(rank))
    }

    fn epoch(&self, rank: u32) -> Option<u64> {
        self.slots.epoch(&of_rank(rank))
    }

    fn place(&self, wants: &[(u32, Option<u64>)], map: Option<&[u8]>) -> Result<()> {
        let slot = self.slot.get().ok_or_else(|| fenced(FILE_SYSTEM))?;
        slot.check()?;
        let key = |rank: &u32| [WANT, rank.to_string().as_bytes()].concat();
        let mut op = WriteOp::new().map_err(store)?;
        op.assert_xattr(&slot.xattr(), &slot.epoch.to_le_bytes()).map_err(store)?;
        for (rank, server) in wants {
            match server {
                Some(server) => op.omap_set([(key(rank).as_slice(), server.to_le_bytes().as_slice())]),
                None => op.omap_remove([key(rank).as_slice()]),
            };
        }
        if let Some(map) = map {
            op.omap_set([(MAP, map)]);
        }
        match op.run(&self.pool, names::SERVERS) {
            Ok(_) => Ok(()),
            Err(Error::Changed { .. }) => Err(fenced(FILE_SYSTEM)),
            Err(error) => Err(store(error)),
        }
    }

    fn forget(&self, server: u64) -> Result<()> {
        let name = of_server(server);
        match self.slots.life_of(&name)? {
            (Some(record), Life::Gone) => self.slots.forget(&name, &record),
            _ => Ok(()),
        }
    }
}
