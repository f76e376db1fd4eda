//! A backend in memory that behaves like a disk: what was not synced is gone after
//! [`MemDisk::crash`], wholly or in part, and it can be told to fail or to be full. Deterministic:
//! the same calls with the same seeds give the same bytes.
//!
//! [`MemDisk`] is the hardware and outlives crashes; [`MemStore`] is a server's opening of it. Not
//! for serving users: everything is behind one lock and gone with the process.

mod blobs;
mod disk;
mod fault;
mod log;
mod table;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::{Backend, Blobs, Identity, LogDir, Result, StatFs, Table};

pub use disk::MemDisk;
pub use fault::{CrashPlan, Fault, FaultPoint, Keep, Torn};

use disk::Ctx;

/// An open [`MemDisk`].
pub struct MemStore {
    ctx: Arc<Ctx>,
}

impl Backend for MemStore {
    fn identity(&self) -> Identity {
        self.ctx.disk().identity()
    }

    fn table(&self) -> Arc<dyn Table> {
        Arc::new(table::MemTable { ctx: self.ctx.clone() })
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        Arc::new(blobs::MemBlobs { ctx: self.ctx.clone() })
    }

    fn log_dir(&self, rank: u32) -> Result<Arc<dyn LogDir>> {
        self.ctx.with(|state| {
            state.ranks.insert(rank);
            Ok(())
        })?;
        Ok(Arc::new(log::MemLogDir { ctx: self.ctx.clone(), rank }))
    }

    fn ranks(&self) -> Result<Vec<u32>> {
        self.ctx.with(|state| Ok(state.ranks.iter().copied().collect()))
    }

    fn statfs(&self) -> Result<StatFs> {
        self.ctx.with(|state| {
            let total_bytes = state.capacity.unwrap_or(1 << 40).max(state.used);
            Ok(StatFs { total_bytes, free_bytes: total_bytes - state.used, total_inodes: 0, free_inodes: 0 })
        })
    }

    fn full(&self) -> Option<Arc<AtomicBool>> {
        self.ctx.with(|state| Ok(state.full.clone())).ok()
    }

    fn close(&self) -> Result<()> {
        self.ctx.with(|state| {
            state.table.sync();
            state.blobs.values_mut().for_each(blobs::ObjectDisk::sync);
            state.blobs.retain(|_, object| !object.is_gone());
            state.logs.values_mut().for_each(log::LogDisk::sync);
            Ok(())
        })
    }
}
