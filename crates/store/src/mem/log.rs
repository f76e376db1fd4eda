//! Journal segments of the memory backend.

use std::sync::Arc;

use super::disk::{Ctx, State};
use loligo_types::Random;

use super::fault::{CrashPlan, FaultPoint, Keep, Torn};
use crate::{LogDir, LogFile, LogReader, Result, Segment, StoreError};

const SECTOR: usize = 512;

#[derive(Default)]
pub(crate) struct LogDisk {
    bytes: Vec<u8>,
    synced: usize,
}

impl LogDisk {
    pub(crate) fn sync(&mut self) {
        self.synced = self.bytes.len();
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn crash(&mut self, plan: &CrashPlan, rng: &mut Random) {
        let volatile = self.bytes.len() - self.synced;
        let kept = match plan.keep {
            Keep::Nothing => 0,
            Keep::All => volatile,
            Keep::Some => rng.below(volatile as u64 + 1) as usize,
        };
        self.bytes.truncate(self.synced + kept);
        if plan.keep == Keep::Some && plan.torn == Torn::Sector {
            self.lose_sectors(rng);
        }
        if plan.keep == Keep::Some {
            // As of stores that write zeros ahead of the tail.
            let ahead = rng.below(4) as usize * SECTOR;
            self.bytes.resize(self.bytes.len() + ahead, 0);
        }
        self.synced = self.bytes.len();
    }

    /// Turns one in four of the unsynced sectors into zeros; synced bytes in the first one stay.
    fn lose_sectors(&mut self, rng: &mut Random) {
        let mut at = self.synced;
        while at < self.bytes.len() {
            let end = ((at / SECTOR + 1) * SECTOR).min(self.bytes.len());
            if rng.below(4) == 0 {
                self.bytes[at..end].fill(0);
            }
            at = end;
        }
    }
}

pub(crate) struct MemLogDir {
    pub(crate) ctx: Arc<Ctx>,
    pub(crate) rank: u32,
}

impl MemLogDir {
    fn what(&self, id: u64) -> String {
        format!("segment {id} of rank {}", self.rank)
    }

    fn on<R>(&self, id: u64, f: impl FnOnce(&mut LogDisk) -> R) -> Result<R> {
        self.ctx.with(|state| match state.logs.get_mut(&(self.rank, id)) {
            Some(log) => Ok(f(log)),
            None => Err(StoreError::NotFound { what: self.what(id) }),
        })
    }

    fn file(&self, id: u64, len: u64) -> MemLogFile {
        MemLogFile { ctx: self.ctx.clone(), key: (self.rank, id), what: self.what(id), len, failed: false }
    }
}

impl LogDir for MemLogDir {
    fn list(&self) -> Result<Vec<Segment>> {
        self.ctx.with(|state| {
            let mine = state.logs.range((self.rank, 0)..=(self.rank, u64::MAX));
            Ok(mine.map(|((_, id), log)| Segment { id: *id, len: log.bytes() }).collect())
        })
    }

    fn create(&self, id: u64) -> Result<Box<dyn LogFile>> {
        self.ctx.with(|state| {
            if state.logs.contains_key(&(self.rank, id)) {
                return Err(StoreError::Io { what: self.what(id), cause: "it exists already".to_string() });
            }
            state.logs.insert((self.rank, id), LogDisk::default());
            state.mark(self.rank, id, 0);
            Ok(())
        })?;
        Ok(Box::new(self.file(id, 0)))
    }

    fn open(&self, id: u64) -> Result<Box<dyn LogReader>> {
        self.on(id, |_| ())?;
        Ok(Box::new(MemLogReader { ctx: self.ctx.clone(), key: (self.rank, id), what: self.what(id) }))
    }

    fn open_append(&self, id: u64) -> Result<Box<dyn LogFile>> {
        let len = self.on(id, |log| log.bytes())?;
        Ok(Box::new(self.file(id, len)))
    }

    fn truncate(&self, id: u64, len: u64) -> Result<()> {
        let cut = self.on(id, |log| {
            let before = log.bytes.len();
            log.bytes.truncate(len as usize);
            log.sync();
            (before - log.bytes.len()) as u64
        })?;
        self.ctx.with(|state| {
            state.used -= cut;
            if let Some(mark) = state.marks.get_mut(&self.rank).filter(|mark| mark.id == id) {
                mark.len = mark.len.min(len);
            }
            Ok(())
        })
    }

    fn delete(&self, id: u64) -> Result<()> {
        self.ctx.with(|state| {
            if let Some(log) = state.logs.remove(&(self.rank, id)) {
                state.used -= log.bytes();
            }
            if state.marks.get(&self.rank).is_some_and(|mark| mark.id == id) {
                state.marks.remove(&self.rank);
            }
            Ok(())
        })
    }

    fn sync_dir(&self) -> Result<()> {
        self.ctx.with(|_| Ok(()))
    }

    fn set_synced(&self, mark: Option<Segment>) -> Result<()> {
        self.ctx.with(|state| {
            match mark {
                Some(mark) => state.marks.insert(self.rank, mark),
                None => state.marks.remove(&self.rank),
            };
            Ok(())
        })
    }

    fn synced(&self) -> Result<Option<Segment>> {
        self.ctx.with(|state| Ok(state.marks.get(&self.rank).copied()))
    }
}

struct MemLogFile {
    ctx: Arc<Ctx>,
    key: (u32, u64),
    what: String,
    len: u64,
    failed: bool,
}

impl MemLogFile {
    /// Runs `f` unless a sync failed; `f` gets the disk and has checked nothing yet.
    fn on<R>(&self, f: impl FnOnce(&mut State) -> Result<R>) -> Result<R> {
        if self.failed {
            let cause = "an earlier sync failed, so the disk's content is unknown".to_string();
            return Err(StoreError::Io { what: self.what.clone(), cause });
        }
        self.ctx.with(f)
    }

    fn gone(&self) -> StoreError {
        StoreError::NotFound { what: self.what.clone() }
    }
}

impl LogFile for MemLogFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.append_vectored(&[bytes])
    }

    fn append_vectored(&mut self, parts: &[&[u8]]) -> Result<()> {
        let total: usize = parts.iter().map(|p| p.len()).sum();
        self.on(|state| {
            state.arrive(FaultPoint::LogAppend, &self.what)?;
            state.room_in_reserve(total as u64, &self.what)?;
            let log = state.logs.get_mut(&self.key).ok_or_else(|| self.gone())?;
            parts.iter().for_each(|part| log.bytes.extend_from_slice(part));
            state.used += total as u64;
            Ok(())
        })?;
        self.len += total as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let done = self.on(|state| {
            state.arrive(FaultPoint::LogSync, &self.what)?;
            let log = state.logs.get_mut(&self.key).ok_or_else(|| self.gone())?;
            log.sync();
            let ((rank, id), len) = (self.key, log.bytes());
            state.mark(rank, id, len);
            Ok(())
        });
        self.failed |= done.is_err();
        done
    }

    fn len(&self) -> u64 {
        self.len
    }
}

struct MemLogReader {
    ctx: Arc<Ctx>,
    key: (u32, u64),
    what: String,
}

impl MemLogReader {
    fn on<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Result<R> {
        self.ctx.with(|state| match state.logs.get(&self.key) {
            Some(log) => Ok(f(&log.bytes)),
            None => Err(StoreError::NotFound { what: self.what.clone() }),
        })
    }
}

impl LogReader for MemLogReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.on(|bytes| {
            let from = (offset.min(bytes.len() as u64)) as usize;
            let n = buf.len().min(bytes.len() - from);
            buf[..n].copy_from_slice(&bytes[from..from + n]);
            n
        })
    }

    fn len(&self) -> Result<u64> {
        self.on(|bytes| bytes.len() as u64)
    }
}
