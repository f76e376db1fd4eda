//! Runs of writing back: one takes everything of a file that is dirty when it begins. What is to be asked next is decided here,
//! from the state of the file alone; it is asked in `flush`.
//!
//! An inline file that stays small is one `WriteInline`; one that outgrew the inode is spilled; objects are written, synced if
//! somebody waits for the disk, and then the server is told the size. What a run writes stays readable in `flying` until it ended.

use std::collections::VecDeque;
use std::sync::Arc;

use loligo_types::{
    Answer, Control, Cred, DataAnswer, DataError, DataOp, FileLock, FsError, FsResult, Ino, JournalMode, Journaling,
    LockKind, LockOwner, Op, Patches, SetTime, Time, limits::PATCHES_MAX,
};

use crate::extents::Extents;
use crate::file::File;
use crate::task::data_error;

/// Pieces of a file that are on their way at a time.
const WINDOW: usize = 16;
/// A run looks again at most this often after the server said that the file is not what the client thinks.
const TRIES_MAX: u32 = 8;
/// Bytes that make the server spill a file whose content is not known here.
const PROBE: usize = 4096;
/// After the store was full, writes go through at once for this long, milliseconds, so that they can say so.
pub(crate) const FULL_MS: u64 = 5_000;

/// A task that waits until what was written before is at the server.
#[derive(Debug)]
pub(crate) struct FlushWaiter {
    pub target: u64,
    pub sync: bool,
    /// The sync of the run under way was sent before it came.
    pub late: bool,
    pub task: u64,
}

/// A lock that is asked about only to hear whether a handle is known.
pub(crate) const ANY_LOCK: FileLock =
    FileLock { kind: LockKind::Posix, owner: LockOwner(0), pid: 0, exclusive: false, start: 0, end: 0 };

/// The stage of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Pieces of an inline file, one request each.
    Inline,
    /// Asks for the content, which is to be spilled.
    Load,
    /// A write that makes the server spill, because no handle here may read the content.
    Probe,
    /// Looks at the attributes, and plans again.
    Refresh,
    /// Asks whether the rank knows the handle, where the file is only believed to be: what was held back under rights that
    /// were lost meanwhile may not be written over what others have written since.
    Verify,
    /// Waits until it is durable that the file is there: an object without a file would stay.
    Persist,
    Discard,
    Write,
    Sync,
    Tell,
}

/// One run.
#[derive(Debug)]
pub(crate) struct Run {
    /// Buffered writes up to this number are in it.
    pub covers: u64,
    pub sync: bool,
    pub stage: Stage,
    pub handle: u64,
    /// Handles that the rank does not know.
    pub refused: Vec<u64>,
    pub cred: Arc<Cred>,
    size: u64,
    pub mtime: Option<Time>,
    kill_priv: bool,
    /// Cuts of the file that were known before the first byte was sent.
    cuts: u32,
    spill: bool,
    /// The extents written here, set if `flying` also holds the inode's content, which is to be moved into objects.
    pub(crate) own: Option<Extents>,
    pub queue: VecDeque<(u64, Arc<[u8]>)>,
    in_flight: usize,
    error: Option<FsError>,
    tries: u32,
    /// The disk has all that it wrote.
    pub synced: bool,
    /// Its data, if that goes into the journal of the rank with the size.
    patches: Option<Arc<Patches>>,
    /// Most bytes of data that one request brings.
    batch: u64,
    /// The rank has not taken it so.
    unlogged: bool,
    /// A size must not be told before the data that it covers is durable.
    ordered: bool,
    /// Its sync also covers what is not kept here.
    risky: bool,
    /// The server restarted after some of it was written, or the file has moved: all is to be written again.
    pub lost: bool,
}

impl Run {
    /// A data request of it.
    fn data(&mut self, op: DataOp) -> Next {
        self.in_flight += 1;
        Next::Data(op)
    }

    /// The next piece of an inline file.
    fn next_inline(&mut self, ino: Ino) -> Option<Next> {
        let (offset, data) = self.queue.pop_front()?;
        let mtime = self.mtime.map_or(SetTime::Now, SetTime::At);
        let (handle, kill_priv) = (self.handle, self.kill_priv);
        let op = Op::WriteInline { ino, handle, offset: Some(offset), data, mtime, kill_priv };
        Some(Next::Ask(Arc::clone(&self.cred), op))
    }

    /// Has the pieces go into the journal of the rank, instead of into objects, if the mode of the file says so. Where all data does, more than
    /// one request takes is several records, each of the bytes that follow; `whole`: the first must reach so far.
    fn log(&mut self, facts: &Facts, whole: u64) {
        let bytes: u64 = self.queue.iter().map(|(_, data)| data.len() as u64).sum();
        self.patches = None;
        if self.unlogged || facts.journal_max == 0 || !facts.journaling.takes(self.sync, bytes) {
            return;
        }
        let is_one = bytes <= facts.journal_max && self.queue.len() <= PATCHES_MAX;
        if is_one || facts.journaling.mode != JournalMode::Selective {
            self.batch = facts.journal_max;
            self.next_patches(whole);
        }
    }

    /// Takes from the queue as much as one request may bring; `whole`: if that is not all, it must reach so far. True if it has some.
    fn next_patches(&mut self, whole: u64) -> bool {
        let (mut batch, mut room) = (Vec::new(), self.batch as usize);
        while batch.len() < PATCHES_MAX
            && room > 0
            && let Some((offset, data)) = self.queue.pop_front()
        {
            let len = data.len().min(room);
            if len < data.len() {
                self.queue.push_front((offset + len as u64, Arc::from(&data[len..])));
            }
            room -= len;
            batch.push((offset, if len < data.len() { Arc::from(&data[..len]) } else { data }));
        }
        let patches = Patches::of(&batch).filter(|patches| self.queue.is_empty() || patches.end() >= whole);
        if patches.is_none() {
            batch.into_iter().rev().for_each(|piece| self.queue.push_front(piece));
        }
        self.patches = patches.map(Arc::new);
        self.patches.is_some()
    }

    /// The size that is told: it must not reach beyond data that is still to be told of.
    fn reaches(&self) -> u64 {
        let told = self.patches.as_deref().filter(|_| !self.queue.is_empty());
        told.map_or(self.size, Patches::end)
    }

    /// The server is told the size.
    fn tell(&self, ino: Ino) -> Next {
        let op = Op::SetData {
            ino,
            handle: self.handle,
            cuts: self.cuts,
            grow_to: Some(self.reaches()),
            behind: None,
            mtime: self.mtime.map_or(SetTime::Now, SetTime::At),
            spilled: self.spill,
            kill_priv: self.kill_priv,
            patches: self.patches.clone(),
        };
        Next::Ask(Arc::clone(&self.cred), op)
    }
}

/// The next need of a run.
pub(crate) enum Next {
    /// A request.
    Ask(Arc<Cred>, Op),
    /// All that the rank of the file has answered is to be durable.
    Persist(Arc<Cred>),
    /// A look at the attributes, after so many.
    Refresh(Arc<Cred>, u32),
    /// A data request.
    Data(DataOp),
    /// A plan.
    Plan,
    /// Its next pieces.
    Pump,
    /// Nothing: it is over.
    End(Option<FsError>),
}

/// Facts about a file beside its state, with which a run is planned.
pub(crate) struct Facts {
    /// Largest file that is held in an inode, bytes.
    pub inline_max: u64,
    /// A handle that may read it.
    pub reader: Option<u64>,
    /// An open that cuts it may be under way.
    pub cut: bool,
    /// Its create is not durable.
    pub unborn: bool,
    /// Most bytes that its rank takes into the journal with the size.
    pub journal_max: u64,
    /// The way of its data to the disk.
    pub journaling: Journaling,
}

impl File {
    /// Begins a run with all that is dirty.
    pub(crate) fn begin_run(&mut self, handle: u64, cred: Arc<Cred>) {
        let cred = self.kill_cred.take().unwrap_or(cred);
        self.flying = std::mem::take(&mut self.dirty);
        self.flying_mtime = self.mtime.take();
        self.run = Some(Run {
            covers: self.written,
            sync: self.flush_waiters.iter().any(|waiter| waiter.sync),
            stage: Stage::Refresh,
            handle,
            refused: Vec::new(),
            cred,
            size: self.size,
            mtime: self.flying_mtime,
            kill_priv: std::mem::take(&mut self.kill_priv),
            cuts: 0,
            spill: false,
            own: None,
            queue: VecDeque::new(),
            in_flight: 0,
            error: None,
            tries: 0,
            synced: false,
            patches: None,
            batch: 0,
            unlogged: false,
            ordered: false,
            risky: false,
            lost: false,
        });
    }

    /// A task waits until what was written before is at the server; `sync`: and durable.
    pub(crate) fn wait_flushed(&mut self, sync: bool, task: u64) {
        let late = self.run.as_ref().is_some_and(|run| matches!(run.stage, Stage::Sync | Stage::Tell));
        self.flush_waiters.push(FlushWaiter { target: self.written, sync, late, task });
    }

    /// Decides how `flying` goes to the server.
    pub(crate) fn plan(&mut self, ino: Ino, facts: &Facts) -> Option<Next> {
        let Some(run) = &mut self.run else { return None };
        run.spill = false;
        run.patches = None;
        run.ordered = facts.journaling.mode == JournalMode::Ordered;
        run.cuts = self.attr.cuts;
        if let Some(own) = run.own.take() {
            // The content may have been cut since.
            self.flying = own;
        }
        if self.doubted && !self.flying.is_empty() {
            run.stage = Stage::Verify;
            let op = Op::Control(Control::GetLock { ino, handle: run.handle, lock: ANY_LOCK });
            return Some(Next::Ask(Arc::clone(&run.cred), op));
        }
        let goes_to_objects = !self.flying.is_empty() && (!self.attr.inline || self.flying.end() > facts.inline_max);
        if goes_to_objects && facts.unborn {
            run.stage = Stage::Persist;
            return Some(Next::Persist(Arc::clone(&run.cred)));
        }
        if self.flying.is_empty() {
            run.stage = Stage::Write;
        } else if !self.attr.inline {
            run.queue = self.flying.pieces().into();
            run.stage = Stage::Write;
            let gap = gap(&mut self.clean_to, &run.queue);
            run.log(facts, 0);
            if let Some(from) = gap {
                run.stage = Stage::Discard;
                return Some(run.data(DataOp::Discard { from }));
            }
        } else if self.flying.end() <= facts.inline_max {
            // Known bytes of the rest would come back if the file was cut meanwhile.
            let base = self.base.as_deref().filter(|_| !facts.cut);
            run.queue = inline_pieces(&self.flying, base).into();
            run.stage = Stage::Inline;
            return run.next_inline(ino);
        } else if self.base.is_some() || self.attr.size == 0 {
            if let Some(base) = &self.base {
                run.own = Some(self.flying.clone());
                self.flying.fill_under(0, base);
            }
            run.queue = self.flying.pieces().into();
            (run.stage, run.spill) = (Stage::Discard, true);
            // The inode lets go of its content with the first record.
            run.log(facts, self.attr.size);
            self.clean_to = u64::MAX;
            return Some(run.data(DataOp::Discard { from: 0 }));
        } else if let Some(handle) = facts.reader {
            run.stage = Stage::Load;
            return Some(Next::Ask(Arc::clone(&run.cred), Op::ReadInline { ino, handle }));
        } else {
            run.stage = Stage::Probe;
            if let Some((offset, data)) = self.flying.pieces().pop() {
                let skip = data.len().saturating_sub(PROBE);
                run.queue = VecDeque::from([(offset + skip as u64, Arc::from(&data[skip..]))]);
            }
            return run.next_inline(ino);
        }
        Some(Next::Pump)
    }

    /// A request of a run was answered.
    pub(crate) fn heard(&mut self, ino: Ino, result: FsResult<Answer>) -> Option<Next> {
        let Some(run) = &mut self.run else { return None };
        match (run.stage, result) {
            (Stage::Inline, Ok(_)) if !run.queue.is_empty() => return run.next_inline(ino),
            (Stage::Tell, Ok(_)) if run.patches.is_some() && !run.queue.is_empty() => {
                // The content of the inode was in the first record.
                run.spill = false;
                if run.next_patches(0) {
                    return Some(run.tell(ino));
                }
                run.unlogged = true;
            }
            (Stage::Inline | Stage::Tell, Ok(_)) => {
                run.synced |= run.patches.is_some();
                return Some(Next::End(None));
            }
            (Stage::Tell, Err(FsError::NotSupported)) if run.patches.is_some() => run.unlogged = true,
            (Stage::Load, Ok(Answer::Bytes(bytes))) => self.base = Some(bytes),
            (Stage::Persist, Ok(_)) => {}
            // It fitted, against what the attributes said: the rest may fit, too.
            (Stage::Probe, Ok(_)) | (Stage::Refresh, Ok(_)) if run.tries < TRIES_MAX => run.tries += 1,
            // The server has moved it to objects. Asking for the attributes is no way here: that could wait for the very
            // recall that this run obeys.
            (Stage::Inline | Stage::Probe, Err(FsError::Busy)) | (Stage::Load, Err(FsError::Stale))
                if self.attr.inline =>
            {
                self.attr.inline = false;
                self.base = None;
                self.clean_to = self.attr.size;
            }
            (Stage::Inline | Stage::Probe | Stage::Tell, Err(FsError::Busy | FsError::Stale))
                if run.tries < TRIES_MAX =>
            {
                run.tries += 1;
                run.stage = Stage::Refresh;
                return Some(Next::Refresh(Arc::clone(&run.cred), run.tries));
            }
            (_, Err(error)) => return Some(Next::End(Some(error))),
            (_, Ok(_)) => return Some(Next::End(Some(FsError::Io))),
        }
        Some(Next::Plan)
    }

    /// The rank has said whether it knows the handle of a run. If not, what was held back is lost, also if there is another
    /// handle by now.
    pub(crate) fn verified(&mut self, result: FsResult<Answer>) -> Next {
        // A rank that fails to look may be asked again.
        self.doubted &= !matches!(result, Ok(_) | Err(FsError::BadHandle));
        match result {
            Ok(_) => Next::Plan,
            Err(error) => {
                if let Some(run) = &mut self.run {
                    run.lost = false;
                }
                Next::End(Some(error))
            }
        }
    }

    /// A data request of a run was answered. Whether there is a run.
    pub(crate) fn data_heard(&mut self, result: Result<DataAnswer, DataError>) -> bool {
        let Some(run) = &mut self.run else { return false };
        run.in_flight = run.in_flight.saturating_sub(1);
        if let Err(error) = result {
            if run.stage == Stage::Sync {
                self.unsynced = true;
                self.at_risk |= run.risky;
            }
            run.error.get_or_insert(data_error(error));
            run.queue.clear();
        } else if run.stage == Stage::Sync && !run.lost {
            run.synced = true;
            self.unstable = Extents::default();
        }
        if run.stage == Stage::Discard {
            run.stage = Stage::Write;
        }
        true
    }

    /// A data request of a run was not done where the file was before it moved, as is believed. That loses nothing if the new
    /// rank knows the handle, which it was not asked yet: so the run is done again, and begins with that. Whether there is a run.
    pub(crate) fn data_elsewhere(&mut self) -> bool {
        let Some(run) = &mut self.run else { return false };
        run.in_flight = run.in_flight.saturating_sub(1);
        self.at_risk |= run.stage == Stage::Sync && run.risky;
        run.lost = true;
        run.queue.clear();
        true
    }

    /// The next piece of a run; after the last one's answer the sync, and the size. `None`: answers are waited for.
    pub(crate) fn next_piece(&mut self, ino: Ino) -> Option<Next> {
        let Some(run) = &mut self.run else { return None };
        if self.doubted && !run.queue.is_empty() {
            // The doubt came meanwhile.
            run.lost = true;
            run.queue.clear();
        }
        if run.stage == Stage::Write
            && run.in_flight < WINDOW
            && run.patches.is_none()
            && let Some((offset, data)) = run.queue.pop_front()
        {
            self.unsynced = true;
            return Some(run.data(DataOp::Write { offset, data }));
        }
        if run.in_flight > 0 {
            return None;
        }
        if let Some(error) = run.error {
            return Some(Next::End(Some(error)));
        }
        if run.lost {
            // Not told before it is written again: what is durable in the inode must not be let go for it.
            return Some(Next::End(None));
        }
        // Bytes that were durable in the inode must be so in the object before the inode lets go of them.
        let moves = run.spill && self.attr.size > 0 && run.patches.is_none();
        let grows = run.ordered && run.size > self.attr.size;
        if run.stage == Stage::Write && self.unsynced && (run.sync || moves || grows) {
            run.stage = Stage::Sync;
            // Changes that come while it is under way are not in it.
            self.unsynced = false;
            run.risky = std::mem::take(&mut self.at_risk);
            return Some(run.data(DataOp::Sync));
        }
        if run.mtime.is_none() && self.flying.is_empty() {
            return Some(Next::End(None));
        }
        run.stage = Stage::Tell;
        Some(run.tell(ino))
    }

    /// Notes the content as it is known after a run: `flying` is at the server, or lost with an error.
    pub(crate) fn content_after(&mut self, flying: &Extents, lost: bool) {
        if lost {
            // What the server has of it is not known.
            self.base = None;
            self.clean_to = self.attr.size;
        } else if let Some(base) = self.base.take_if(|_| self.attr.inline) {
            self.base = Some(flying.over(&base));
        } else if self.attr.inline && self.may_cache() && flying.gaps(0, self.attr.size).is_empty() {
            self.base = Some(flying.over(&[]));
        } else {
            self.base = None;
        }
    }

    /// All that a run wrote waits to be written once more.
    pub(crate) fn repeat(&mut self, run: &Run, flying: &Extents) {
        flying.iter().for_each(|(offset, bytes)| self.dirty.fill_under(offset, bytes));
        self.mtime = self.mtime.or(run.mtime);
        self.kill_priv |= run.kill_priv;
        if run.kill_priv {
            self.kill_cred.get_or_insert_with(|| Arc::clone(&run.cred));
        }
        self.unsynced = true;
    }

    /// Tasks that wait until something is written.
    pub(crate) fn flush_waiting(&self) -> impl Iterator<Item = u64> {
        self.flush_waiters.iter().map(|waiter| waiter.task)
    }

    /// Extends the target of every flush waiter to all writes that are buffered now.
    pub(crate) fn wait_for_all(&mut self) {
        self.flush_waiters.iter_mut().for_each(|waiter| waiter.target = self.written);
    }

    /// The server restarted: what the run wrote before may be gone.
    pub(crate) fn restart_run(&mut self) {
        if let Some(run) = &mut self.run {
            run.lost |= matches!(run.stage, Stage::Discard | Stage::Write | Stage::Sync | Stage::Tell);
            self.at_risk |= run.stage == Stage::Sync && run.risky;
        }
    }
}

/// If the pieces leave a gap after the end of what is known to be clean: where to discard from. Notes the new end.
fn gap(clean_to: &mut u64, pieces: &VecDeque<(u64, Arc<[u8]>)>) -> Option<u64> {
    let start = *clean_to;
    for (offset, data) in pieces {
        if *offset > *clean_to {
            *clean_to = u64::MAX;
            return Some(start);
        }
        *clean_to = (*clean_to).max(offset + data.len() as u64);
    }
    None
}

/// The pieces of an inline file to send: one piece if only one changed, else the whole content if it is known.
fn inline_pieces(flying: &Extents, base: Option<&[u8]>) -> Vec<(u64, Arc<[u8]>)> {
    let mut pieces = flying.pieces();
    // Whatever the order, no piece must make the file longer than a later one would: ascending offsets see to that.
    if let (true, Some(base)) = (pieces.len() > 1, base) {
        pieces = vec![(0, flying.over(base))];
    }
    pieces
}

#[cfg(test)]
mod tests;
