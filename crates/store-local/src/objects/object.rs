//! One open object: its checksums in memory, verified reads, and when what is made durable. Changes of
//! its data are in `write.rs`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use loligo_store::{BLOCK_SIZE, Extent, MAX_OBJECT_LEN, ObjectId, Result, StoreError};

use super::Shared;
use super::block::{self, BLOCK, Block, HOLE};
use super::header::{DATA_AT, HEADER_LEN, Header};
use crate::files::named;

/// Blocks read at a time when checksums are computed anew.
const REBUILD_BLOCKS: usize = 64;

pub(super) struct Object {
    pub(super) id: ObjectId,
    path: PathBuf,
    pub(super) file: File,
    shared: Arc<Shared>,
    pub(super) state: RwLock<State>,
}

pub(super) struct State {
    /// Length of the object; the file is [`DATA_AT`] longer.
    pub(super) len: u64,
    /// A checksum for each block of `len`; the truth while the object is open.
    pub(super) sums: Vec<u32>,
    /// Checksums that the file does not have yet.
    stale_sums: Range<usize>,
    /// Whether the file's header is not what it should be.
    stale_header: bool,
    /// Whether the mark of this opening is on the disk (or the object has none that is older).
    marked: bool,
    /// Whether anything changed since the last sync.
    unsynced: bool,
    /// Whether the object's name may not be on the disk yet.
    created: bool,
    /// Whether the file was removed while it was open.
    pub(super) deleted: bool,
    /// Counts changes.
    version: u64,
}

impl Object {
    /// Opens the file of `id`; makes it if `make`, else gives `None` if there is none.
    pub(super) fn open(shared: &Arc<Shared>, id: ObjectId, make: bool) -> Result<Option<Arc<Self>>> {
        let path = shared.paths.of(id);
        let open = |create| File::options().read(true).write(true).create_new(create).open(&path);
        let (file, made) = match open(false) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && make => {
                let made = open(true).or_else(|e| match e.kind() {
                    io::ErrorKind::NotFound => {
                        shared.paths.make_bucket(id.ino)?;
                        open(true).map_err(|e| named(&path, &e))
                    }
                    _ => Err(named(&path, &e)),
                });
                (made?, true)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => (other.map_err(|e| named(&path, &e))?, false),
        };
        let size = file.metadata().map_err(|e| named(&path, &e))?.len();
        let object = Self { id, path, file, shared: shared.clone(), state: RwLock::new(State::fresh()) };
        if size == 0 && !made && shared.epochs.unclean.is_empty() {
            return Err(object.corrupt("its file is empty, which no clean end leaves".to_string()));
        }
        if size > 0 {
            let state = object.load(size)?;
            *object.state.write().unwrap_or_else(PoisonError::into_inner) = state;
        }
        Ok(Some(Arc::new(object)))
    }

    /// Reads header and checksums, and decides whether the checksums can be trusted.
    fn load(&self, size: u64) -> Result<State> {
        let len = size.saturating_sub(DATA_AT);
        if len > MAX_OBJECT_LEN {
            return Err(self.corrupt(format!("its file of {size} bytes is longer than any object")));
        }
        let mut head = vec![0; HEADER_LEN + 4 * block::count(len)];
        self.read_file(0, &mut head)?;
        let (header, sums) = head.split_at(HEADER_LEN);
        let header = Header::decode(self.id, header.try_into().expect("split there"))?;
        let sums = sums.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().expect("chunks of 4"))).collect();
        let mut state = State { len, sums, ..State::fresh() };
        if self.is_suspect(header)? {
            self.rebuild(&mut state)?;
            return Ok(state);
        }
        let header = header.expect("an object without a header is suspect or an error");
        if header.len != len {
            let detail = format!("it is {len} bytes long, and was {} when it was last closed", header.len);
            return Err(self.corrupt(detail));
        }
        let ours = header.epoch == self.shared.epochs.current;
        Ok(State { stale_header: false, marked: ours, unsynced: ours, created: ours, ..state })
    }

    /// Whether the checksums may be older or newer than the data, because a crash came between.
    fn is_suspect(&self, header: Option<Header>) -> Result<bool> {
        let epochs = &self.shared.epochs;
        match header {
            None if epochs.unclean.is_empty() => Err(self.corrupt("its header is missing".to_string())),
            None => Ok(true),
            Some(header) if header.epoch > epochs.current => {
                let detail = format!("opening {} changed it, but this is {}", header.epoch, epochs.current);
                Err(self.corrupt(detail))
            }
            Some(header) => Ok(epochs.unclean.contains(&header.epoch)),
        }
    }

    /// Computes all checksums from the data. An all-zero block that had no checksum stays a hole.
    fn rebuild(&self, state: &mut State) -> Result<()> {
        tracing::debug!(object = %self.id, "computing checksums anew after an unclean stop");
        let mut buf = vec![0; REBUILD_BLOCKS * BLOCK];
        for first in (0..state.sums.len()).step_by(REBUILD_BLOCKS) {
            let blocks = REBUILD_BLOCKS.min(state.sums.len() - first);
            let buf = &mut buf[..blocks * BLOCK];
            buf.fill(0);
            let here = first as u64 * BLOCK_SIZE;
            let there = buf.len().min((state.len - here) as usize);
            self.read_file(DATA_AT + here, &mut buf[..there])?;
            for (i, content) in buf.chunks_exact(BLOCK).enumerate() {
                let stored = &mut state.sums[first + i];
                let hole = *stored == HOLE && block::matches(content, HOLE);
                *stored = if hole { HOLE } else { block::sum(content) };
            }
        }
        state.touch(0..state.sums.len());
        Ok(())
    }

    /// Reads verified bytes. `None` if the object was deleted.
    pub(super) fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if state.deleted {
            return Ok(None);
        }
        let n = buf.len().min(state.len.saturating_sub(offset) as usize);
        let mut at = 0;
        while at < n {
            let here = offset + at as u64;
            let (index, within) = ((here / BLOCK_SIZE) as usize, (here % BLOCK_SIZE) as usize);
            if within == 0 && n - at >= BLOCK {
                let run = &mut buf[at..at + (n - at) / BLOCK * BLOCK];
                self.read_blocks(&state, index, run)?;
                at += run.len();
            } else {
                let content = self.read_block(&state, index)?;
                let part = (BLOCK - within).min(n - at);
                buf[at..at + part].copy_from_slice(&content[within..within + part]);
                at += part;
            }
        }
        Ok(Some(n))
    }

    /// Reads whole blocks into `buf` and verifies them.
    fn read_blocks(&self, state: &State, first: usize, buf: &mut [u8]) -> Result<()> {
        let got = self.read_file(DATA_AT + first as u64 * BLOCK_SIZE, buf)?;
        if got < buf.len() {
            return Err(self.corrupt(format!("its file ends {} bytes early", buf.len() - got)));
        }
        for (i, content) in buf.chunks_exact(BLOCK).enumerate() {
            self.verify(state, first + i, content)?;
        }
        Ok(())
    }

    /// Reads one block, filled up with zeros if it is the last, and verifies it.
    pub(super) fn read_block(&self, state: &State, index: usize) -> Result<Block> {
        let mut content = [0; BLOCK];
        let start = index as u64 * BLOCK_SIZE;
        let there = state.len.saturating_sub(start).min(BLOCK_SIZE) as usize;
        self.read_file(DATA_AT + start, &mut content[..there])?;
        self.verify(state, index, &content)?;
        Ok(content)
    }

    fn verify(&self, state: &State, index: usize, content: &[u8]) -> Result<()> {
        let stored = state.sums.get(index).copied().unwrap_or(HOLE);
        if block::matches(content, stored) {
            return Ok(());
        }
        let at = index as u64 * BLOCK_SIZE;
        let detail = match stored {
            HOLE => format!("the block at byte {at} is a hole, but not zero"),
            _ => format!("the block at byte {at} has checksum {:08x} instead of {stored:08x}", block::sum(content)),
        };
        Err(self.corrupt(detail))
    }

    pub(super) fn len(&self) -> Option<u64> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        (!state.deleted).then_some(state.len)
    }

    /// The parts of a range that are not holes. `None` if the object was deleted.
    pub(super) fn extents(&self, offset: u64, len: u64) -> Option<Vec<Extent>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if state.deleted {
            return None;
        }
        let end = (offset + len).min(state.len);
        let mut out: Vec<Extent> = Vec::new();
        if offset >= end {
            // Also where the range begins in the rest of the last block: nothing is there.
            return Some(out);
        }
        for index in (offset / BLOCK_SIZE) as usize..block::count(end) {
            if state.sums[index] == HOLE {
                continue;
            }
            let start = index as u64 * BLOCK_SIZE;
            let (from, to) = (start.max(offset), (start + BLOCK_SIZE).min(end));
            match out.last_mut() {
                Some(last) if last.end() == from => last.len += to - from,
                _ => out.push(Extent { offset: from, len: to - from }),
            }
        }
        Some(out)
    }

    /// Puts the mark of this opening on the disk before the first change; cheap ever after.
    pub(super) fn mark(&self, state: &mut State) -> Result<()> {
        if !state.marked {
            self.write_file(0, &self.header(state, self.shared.epochs.current).encode())?;
            self.file.sync_data().map_err(|e| self.named(&e))?;
            state.marked = true;
        }
        Ok(())
    }

    /// Makes every change durable, except the object's name: says whether that is left to do. `None` if
    /// the object was deleted.
    pub(super) fn sync(&self) -> Result<Option<bool>> {
        let mut state = self.write_lock();
        if state.deleted {
            return Ok(None);
        }
        if !state.unsynced {
            return Ok(Some(state.created));
        }
        self.write_head(&mut state)?;
        let (version, created) = (state.version, state.created);
        drop(state);
        // Without the lock: readers and writers go on while the disk works.
        self.file.sync_data().map_err(|e| self.named(&e))?;
        self.synced(version);
        Ok(Some(created))
    }

    /// Notes that the object's name is on the disk.
    pub(super) fn name_synced(&self) {
        self.write_lock().created = false;
    }

    /// Hands checksums and header to the kernel; gives the version that this was.
    pub(super) fn flush(&self) -> Result<u64> {
        let mut state = self.write_lock();
        if !state.deleted {
            self.write_head(&mut state)?;
        }
        Ok(state.version)
    }

    /// Notes that every change up to `version` is on the disk.
    pub(super) fn synced(&self, version: u64) {
        let mut state = self.write_lock();
        if state.version == version {
            state.unsynced = false;
        }
    }

    /// The last call before an object is closed to make room: writes what is stale, and takes the mark
    /// away if everything is on the disk. That the mark is gone need not be durable: an object with a
    /// mark too many is only checked less after a crash.
    pub(super) fn retire(&self) -> Result<()> {
        let mut state = self.write_lock();
        self.write_head(&mut state)?;
        if state.marked && !state.unsynced && !state.created {
            state.marked = false;
            self.write_file(0, &self.header(&state, 0).encode())?;
        }
        Ok(())
    }

    /// Notes that the file was removed.
    pub(super) fn forget(&self) {
        self.write_lock().deleted = true;
    }

    /// After a write that failed: removes the object if there is nothing in it, so that nothing is left of a file that
    /// got no byte. Whether it is removed; then it is still to be taken out of the cache.
    pub(super) fn abandon_if_empty(&self) -> bool {
        let mut state = self.write_lock();
        if state.deleted || state.len > 0 {
            return false;
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(object = %self.id, %error, "an empty object stays");
            return false;
        }
        state.deleted = true;
        true
    }

    fn write_head(&self, state: &mut State) -> Result<()> {
        let stale = state.stale_sums.start..state.stale_sums.end.min(state.sums.len());
        let mut bytes = Vec::with_capacity(HEADER_LEN + 4 * stale.len());
        if state.stale_header {
            bytes.extend(self.header(state, self.shared.epochs.current).encode());
        }
        let split = if stale.start == 0 { 0 } else { bytes.len() };
        for sum in &state.sums[stale.start.min(stale.end)..stale.end] {
            bytes.extend(sum.to_le_bytes());
        }
        // Header and checksums are one piece if these begin at the first block.
        self.write_file(0, &bytes[..split])?;
        let at = if split == 0 && state.stale_header { 0 } else { HEADER_LEN + 4 * stale.start };
        self.write_file(at as u64, &bytes[split..])?;
        state.stale_header = false;
        state.stale_sums = 0..0;
        Ok(())
    }

    fn header(&self, state: &State, epoch: u64) -> Header {
        Header { id: self.id, epoch, len: state.len }
    }

    pub(super) fn write_lock(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads as much as there is.
    pub(super) fn read_file(&self, at: u64, buf: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], at + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.named(&e)),
            }
        }
        Ok(done)
    }

    pub(super) fn write_file(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, at).map_err(|e| self.named(&e))
    }

    pub(super) fn named(&self, error: &io::Error) -> StoreError {
        StoreError::from_io(format!("{} in {}", self.id, self.path.display()), error)
    }

    fn corrupt(&self, detail: String) -> StoreError {
        StoreError::Corrupt { place: format!("{} in {}", self.id, self.path.display()), detail }
    }
}

impl State {
    /// An object that was just made. It needs no mark on the disk: a header that was never written
    /// says the same.
    fn fresh() -> Self {
        Self {
            len: 0,
            sums: Vec::new(),
            stale_sums: 0..0,
            stale_header: true,
            marked: true,
            unsynced: true,
            created: true,
            deleted: false,
            version: 0,
        }
    }

    /// Notes that data, length or checksums changed, the latter in `blocks`.
    pub(super) fn touch(&mut self, blocks: Range<usize>) {
        self.stale_header = true;
        self.unsynced = true;
        self.version += 1;
        if self.stale_sums.is_empty() {
            self.stale_sums = blocks;
        } else if !blocks.is_empty() {
            self.stale_sums = self.stale_sums.start.min(blocks.start)..self.stale_sums.end.max(blocks.end);
        }
    }
}
