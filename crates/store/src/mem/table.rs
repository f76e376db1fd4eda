//! The table of the memory backend: a durable map, the present map, and the batches between them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::disk::Ctx;
use loligo_types::Random;

use super::fault::{CrashPlan, FaultPoint, Keep};
use crate::{Batch, Durability, KeyValue, Result, Table, TableSize};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
pub(crate) struct TableDisk {
    durable: Map,
    current: Map,
    pending: Vec<Batch>,
    bytes: u64,
}

impl TableDisk {
    pub(crate) fn sync(&mut self) {
        for batch in std::mem::take(&mut self.pending) {
            apply(&mut self.durable, &batch);
        }
    }

    pub(crate) fn crash(&mut self, plan: &CrashPlan, rng: &mut Random) {
        let pending = std::mem::take(&mut self.pending);
        let kept = match plan.keep {
            Keep::Nothing => 0,
            Keep::All => pending.len(),
            Keep::Some => rng.below(pending.len() as u64 + 1) as usize,
        };
        pending[..kept].iter().for_each(|batch| apply(&mut self.durable, batch));
        self.current = self.durable.clone();
        self.bytes = self.current.iter().map(|(k, v)| (k.len() + v.len()) as u64).sum();
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn write(&mut self, batch: &Batch) {
        for key in &batch.deletes {
            self.remove(key);
        }
        for (key, value) in &batch.puts {
            self.remove(key);
            self.bytes += (key.len() + value.len()) as u64;
            self.current.insert(key.clone(), value.clone());
        }
        self.pending.push(batch.clone());
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(value) = self.current.remove(key) {
            self.bytes -= (key.len() + value.len()) as u64;
        }
    }
}

fn apply(map: &mut Map, batch: &Batch) {
    for key in &batch.deletes {
        map.remove(key);
    }
    for (key, value) in &batch.puts {
        map.insert(key.clone(), value.clone());
    }
}

pub(crate) struct MemTable {
    pub(crate) ctx: Arc<Ctx>,
}

impl Table for MemTable {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.ctx.with(|state| {
            state.arrive(FaultPoint::TableRead, "the table")?;
            Ok(state.table.current.get(key).cloned())
        })
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.ctx.with(|state| {
            state.arrive(FaultPoint::TableRead, "the table")?;
            Ok(keys.iter().map(|key| state.table.current.get(*key).cloned()).collect())
        })
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<KeyValue>> {
        self.ctx.with(|state| {
            state.arrive(FaultPoint::TableRead, "the table")?;
            if !end.is_empty() && start >= end {
                return Ok(Vec::new());
            }
            let upper = if end.is_empty() { Bound::Unbounded } else { Bound::Excluded(end) };
            let range = state.table.current.range::<[u8], _>((Bound::Included(start), upper));
            Ok(range.take(limit).map(|(k, v)| (k.clone(), v.clone())).collect())
        })
    }

    fn write(&self, batch: &Batch, durability: Durability) -> Result<()> {
        self.ctx.with(|state| {
            state.arrive(FaultPoint::TableWrite, "the table")?;
            let grows: usize = batch.puts.iter().map(|(k, v)| k.len() + v.len()).sum();
            if grows > 0 {
                state.room_in_reserve(grows as u64, "the table")?;
            }
            let before = state.table.bytes;
            state.table.write(batch);
            state.used = state.used - before + state.table.bytes;
            if durability == Durability::Sync {
                state.table.sync();
            }
            Ok(())
        })
    }

    fn flush(&self) -> Result<()> {
        self.ctx.with(|state| {
            state.table.sync();
            Ok(())
        })
    }

    fn approximate_size(&self) -> Result<TableSize> {
        self.ctx.with(|state| Ok(TableSize { keys: state.table.current.len() as u64, bytes: state.table.bytes }))
    }
}
