//! One open object: its checksums in memory, verified reads, and when what is made durable. Changes of
//! its data are in `write.rs`, what is believed after an unclean end in `doubt.rs`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use loligo_store::{BLOCK_SIZE, Extent, MAX_OBJECT_LEN, ObjectId, Result, StoreError};

use super::Shared;
use super::block::{self, BLOCK, Block, DOUBT, HOLE, INSTEAD_OF_DOUBT};
use super::doubt::Belief;
use super::header::{DATA_AT, HEADER_LEN, Header};
use super::witness;
use crate::files::named;
use crate::room::For;
use crate::snapshot::Keep;

/// Objects that are remembered until they get their witnesses; the loss of others would not be noticed.
const UNWITNESSED_MAX: usize = 1 << 20;

pub(super) struct Object {
    pub(super) id: ObjectId,
    path: PathBuf,
    pub(super) file: File,
    pub(super) shared: Arc<Shared>,
    pub(super) state: RwLock<State>,
}

pub(super) struct State {
    /// Length of the object; the file is [`DATA_AT`] longer.
    pub(super) len: u64,
    /// A checksum for each block of `len`; the truth while the object is open.
    pub(super) sums: Vec<u32>,
    /// Checksums that the file does not have yet.
    stale_sums: Range<usize>,
    /// Blocks for which the file has [`DOUBT`]: bit by bit.
    doubted: Vec<u64>,
    /// The file's header; `None`: it has none.
    pub(super) head: Option<Head>,
    /// True if the file's header is out of date.
    pub(super) stale_header: bool,
    /// True if the mark of this opening is on the disk (or the object has none that is older).
    marked: bool,
    /// True if anything changed since the last sync.
    unsynced: bool,
    /// Since when nothing has.
    settled: Option<Instant>,
    /// True if the object's name may not be on the disk yet.
    created: bool,
    /// True if the file was removed while it was open.
    pub(super) deleted: bool,
    /// Counts changes.
    version: u64,
}

/// Content of an object's header, beside the name.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) epoch: u64,
    pub(super) len: u64,
}

impl Object {
    /// Opens the file of `id`; makes it if `make`, else gives `None` if there is none. An empty file is that of an object that was just
    /// being made when the server was killed: there is none.
    pub(super) fn open(shared: &Arc<Shared>, id: ObjectId, make: bool) -> Result<Option<Arc<Self>>> {
        let path = shared.paths.of(id);
        let open = |create: bool| {
            // A cut waits until it is there, or the snapshot is told before.
            let kept = create.then(|| shared.gate.kept());
            if let Some(keep) = kept.as_ref().and_then(|kept| kept.as_ref()) {
                keep.before_creation(id);
            }
            File::options().read(true).write(!shared.only_reads).create_new(create).open(&path)
        };
        let (file, made) = match open(false) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && make && shared.paths.loss(id).is_none() => {
                let made = open(true).or_else(|e| match e.kind() {
                    io::ErrorKind::NotFound => {
                        shared.paths.make_bucket(id.ino)?;
                        open(true).map_err(|e| named(&path, &e))
                    }
                    _ => Err(named(&path, &e)),
                });
                shared.paths.changed(id.ino);
                (made?, true)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let place = format!("{id} in {}", path.display());
                return shared.paths.loss(id).map_or(Ok(None), |detail| Err(StoreError::Corrupt { place, detail }));
            }
            other => (other.map_err(|e| named(&path, &e))?, false),
        };
        let size = file.metadata().map_err(|e| named(&path, &e))?.len();
        let object = Self { id, path, file, shared: shared.clone(), state: RwLock::new(State::fresh()) };
        if size == 0 && !made {
            if shared.epochs.unclean.is_empty() || shared.paths.loss(id).is_some() {
                return Err(object.corrupt("its file is empty, though bytes were written".to_string()));
            }
            if !make {
                return Ok(None);
            }
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
        let head = header.map(|header| Head { epoch: header.epoch, len: header.len });
        let mut state = State { len, sums, head, ..State::fresh() };
        let belief = self.belief(header)?;
        let (Some(header), Belief::Sound | Belief::Checksums) = (header, &belief) else {
            self.rebuild(&mut state, 0)?;
            return Ok(state);
        };
        if !header.doubts {
            // It was a checksum then. Files of this version must not have it.
            for index in state.doubtful() {
                state.sums[index] = INSTEAD_OF_DOUBT;
                state.is_stale(index..index + 1);
            }
        }
        let ours = header.epoch == self.shared.epochs.current;
        if matches!(belief, Belief::Sound) {
            if header.len != len {
                let detail = format!("it is {len} bytes long, and was {} when it was last closed", header.len);
                return Err(self.corrupt(detail));
            }
            return Ok(State { stale_header: false, marked: ours, unsynced: ours, created: ours, ..state });
        }
        if header.len > len {
            let detail = format!("it is {len} bytes long, and {} were written and not cut off", header.len);
            return Err(self.corrupt(detail));
        }
        // Of an opening that was killed: it is changed only with a mark of its own.
        state.marked = false;
        self.rebuild(&mut state, block::count(header.len))?;
        Ok(state)
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
            // The file has checksums of as much as its header told before.
            let len = state.head.map_or(0, |head| head.len.min(state.len));
            self.write_header(state, self.shared.epochs.current, len)?;
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

    /// To be called when what it holds is on the disk, and before the directory is synced that has its name: from then on it has to
    /// be there.
    pub(super) fn bear_witness(&self) {
        let state = self.write_lock();
        if state.created && !state.deleted {
            match witness::speak(&self.path) {
                Ok(true) => self.shared.paths.changed(self.id.ino),
                Ok(false) => {}
                Err(error) => tracing::warn!(object = %self.id, %error, "a loss of this object would not be noticed"),
            }
        }
    }

    /// Notes that the object's name is on the disk.
    pub(super) fn name_synced(&self) {
        self.write_lock().created = false;
    }

    /// Hands checksums and header to the kernel; gives the version that this was.
    pub(super) fn flush(&self) -> Result<u64> {
        let mut state = self.write_lock();
        if !state.deleted && !self.shared.only_reads {
            self.write_head(&mut state)?;
        }
        Ok(state.version)
    }

    /// Notes that every change up to `version` is on the disk.
    pub(super) fn synced(&self, version: u64) {
        let mut state = self.write_lock();
        if state.version == version {
            state.unsynced = false;
            state.settled = Some(Instant::now());
        }
    }

    /// The last call before an object is closed, to make room or at the end: writes what is stale, and takes the mark
    /// away if everything is on the disk. That the mark is gone need not be durable: an object with a
    /// mark too many is only checked less after a crash.
    pub(super) fn retire(&self) -> Result<()> {
        if self.shared.only_reads {
            return Ok(());
        }
        let mut state = self.write_lock();
        self.write_head(&mut state)?;
        if state.created && !state.deleted {
            let mut waiting = self.shared.unwitnessed.lock().unwrap_or_else(PoisonError::into_inner);
            if waiting.len() < UNWITNESSED_MAX {
                waiting.push(self.id);
            }
        }
        // The header of one that only a killed server has changed still tells of that.
        if (state.marked || state.stale_header) && !state.unsynced && !state.created {
            (state.marked, state.stale_header) = (false, false);
            let len = state.len;
            self.write_header(&mut state, 0, len)?;
        }
        Ok(())
    }

    /// Takes the mark away from an object that stays open, if all of it has been on the disk for so long: then it is verified after a failure of
    /// the machine, too. Its next change marks it again, which takes a sync.
    pub(super) fn retire_if_idle(&self, idle: Duration) -> Result<()> {
        let is_idle = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let is_settled = state.marked && !state.unsynced && !state.created && !state.deleted;
            is_settled && state.settled.is_some_and(|since| since.elapsed() >= idle)
        };
        if is_idle { self.retire() } else { Ok(()) }
    }

    /// True if there is another file in its place.
    pub(super) fn is_replaced(&self) -> bool {
        match (self.file.metadata(), std::fs::metadata(&self.path)) {
            (Ok(open), Ok(there)) => (open.dev(), open.ino()) != (there.dev(), there.ino()),
            _ => false,
        }
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
        let kept = self.shared.gate.kept();
        if let Some(keep) = &*kept {
            keep.before_removal(self.id);
        }
        let removed = std::fs::remove_file(&self.path).map_err(|e| self.named(&e));
        if let Err(error) = removed.and_then(|()| witness::fall_silent(&self.path)) {
            tracing::warn!(object = %self.id, %error, "an empty object stays");
            return false;
        }
        state.deleted = true;
        true
    }

    /// Checksums first: the header tells of how much there are some.
    fn write_head(&self, state: &mut State) -> Result<()> {
        let stale = state.stale_sums.start..state.stale_sums.end.min(state.sums.len());
        if !stale.is_empty() {
            let bytes: Vec<u8> = state.sums[stale.clone()].iter().flat_map(|sum| sum.to_le_bytes()).collect();
            // Without them what was acknowledged could not be read: so they may take of the reserve.
            let at = (HEADER_LEN + 4 * stale.start) as u64;
            self.shared.room.find(For::Journal, || self.write_file(at, &bytes))?;
        }
        state.stale_sums = 0..0;
        state.doubted.clear();
        // Of an object that was changed by a killed server only, the header may tell of more when its checksums are on the disk.
        if state.stale_header && state.marked {
            let (len, epoch) = (state.len, self.shared.epochs.current);
            self.shared.room.find(For::Journal, || self.write_header(state, epoch, len))?;
            state.stale_header = false;
        }
        Ok(())
    }

    /// To be called before data or length change, and held until they have: a snapshot gets what there was.
    pub(super) fn kept(&self) -> RwLockReadGuard<'_, Option<Arc<Keep>>> {
        let kept = self.shared.gate.kept();
        if let Some(keep) = &*kept {
            keep.before_change(self.id, &self.file);
        }
        kept
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

    pub(super) fn corrupt(&self, detail: String) -> StoreError {
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
            doubted: Vec::new(),
            head: None,
            stale_header: true,
            marked: true,
            unsynced: true,
            settled: None,
            created: true,
            deleted: false,
            version: 0,
        }
    }

    /// Blocks without a checksum.
    pub(super) fn doubtful(&self) -> Vec<usize> {
        (0..self.sums.len()).filter(|index| self.sums[*index] == DOUBT).collect()
    }

    /// True if the file has no checksum for a block.
    pub(super) fn is_doubted(&self, index: usize) -> bool {
        self.doubted.get(index / 64).is_some_and(|word| word & 1 << (index % 64) != 0)
    }

    /// Notes that it has none.
    pub(super) fn doubt(&mut self, index: usize) {
        let word = index / 64;
        self.doubted.resize(self.doubted.len().max(word + 1), 0);
        self.doubted[word] |= 1 << (index % 64);
    }

    /// Notes that data, length or checksums changed, the latter in `blocks`.
    pub(super) fn touch(&mut self, blocks: Range<usize>) {
        self.stale_header = true;
        self.unsynced = true;
        self.settled = None;
        self.version += 1;
        self.is_stale(blocks);
    }

    /// Notes that the file has other checksums of `blocks`.
    pub(super) fn is_stale(&mut self, blocks: Range<usize>) {
        if self.stale_sums.is_empty() {
            self.stale_sums = blocks;
        } else if !blocks.is_empty() {
            self.stale_sums = self.stale_sums.start.min(blocks.start)..self.stale_sums.end.max(blocks.end);
        }
    }
}
