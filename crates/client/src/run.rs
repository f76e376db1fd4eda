//! Runs of writing back: one takes everything of a file that is dirty when it begins. What is to be asked next is decided here,
//! from the state of the file alone; it is asked in `flush`.
//!
//! An inline file that stays small is one `WriteInline`; one that outgrew the inode is spilled; objects are written, synced if
//! somebody waits for the disk, and then the server is told the size. What a run writes stays readable in `flying` until it ended.

use std::collections::VecDeque;
use std::sync::Arc;

use loligo_types::{
    Answer, Cred, DataAnswer, DataError, DataOp, FileLock, FsError, FsResult, Ino, LockKind, LockOwner, Op, SetTime,
    Time,
};

use crate::Invalidation;
use crate::calls::Calls;
use crate::core::Core;
use crate::extents::Extents;
use crate::file::{File, Files};
use crate::own::OWN;
use crate::ranks::Ranks;
use crate::task::{Event, data_error};

/// Pieces of a file that are on their way at a time.
const WINDOW: usize = 16;
/// A run looks again at most this often after the server said that the file is not what the client thinks.
const TRIES_MAX: u32 = 8;
/// Bytes that make the server spill a file whose content is not known here.
const PROBE: usize = 4096;
/// After the store was full, writes go through at once for this long, milliseconds, so that they can say so.
const FULL_MS: u64 = 5_000;

/// A task that waits until what was written before is at the server.
#[derive(Debug)]
pub(crate) struct FlushWaiter {
    target: u64,
    sync: bool,
    /// The sync of the run under way was sent before it came.
    late: bool,
    task: u64,
}

/// A lock that is asked about only to hear whether a handle is known.
pub(crate) const ANY_LOCK: FileLock =
    FileLock { kind: LockKind::Posix, owner: LockOwner(0), pid: 0, exclusive: false, start: 0, end: 0 };

/// The stage of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
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
    covers: u64,
    sync: bool,
    stage: Stage,
    handle: u64,
    /// Handles that the rank does not know.
    refused: Vec<u64>,
    cred: Arc<Cred>,
    size: u64,
    mtime: Option<Time>,
    kill_priv: bool,
    /// Cuts of the file that were known before the first byte was sent.
    cuts: u32,
    spill: bool,
    /// The extents written here, set if `flying` also holds the inode's content, which is to be moved into objects.
    pub(crate) own: Option<Extents>,
    queue: VecDeque<(u64, Arc<[u8]>)>,
    in_flight: usize,
    error: Option<FsError>,
    tries: u32,
    /// The disk has all that it wrote.
    synced: bool,
    /// Its sync also covers what is not kept here.
    risky: bool,
    /// The server restarted after some of it was written, or the file has moved: all is to be written again.
    lost: bool,
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

    /// The server is told the size.
    fn tell(&self, ino: Ino) -> Next {
        let op = Op::SetData {
            ino,
            handle: self.handle,
            cuts: self.cuts,
            grow_to: Some(self.size),
            behind: None,
            mtime: self.mtime.map_or(SetTime::Now, SetTime::At),
            spilled: self.spill,
            kill_priv: self.kill_priv,
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
}

impl File {
    /// A task waits until what was written before is at the server; `sync`: and durable.
    pub(crate) fn wait_flushed(&mut self, sync: bool, task: u64) {
        let late = self.run.as_ref().is_some_and(|run| matches!(run.stage, Stage::Sync | Stage::Tell));
        self.flush_waiters.push(FlushWaiter { target: self.written, sync, late, task });
    }

    /// Decides how `flying` goes to the server.
    pub(crate) fn plan(&mut self, ino: Ino, facts: &Facts) -> Option<Next> {
        let Some(run) = &mut self.run else { return None };
        run.spill = false;
        run.cuts = self.attr.cuts;
        if let Some(own) = run.own.take() {
            // The content may have been cut since.
            self.flying = own;
        }
        if self.doubted && !self.flying.is_empty() {
            run.stage = Stage::Verify;
            let op = Op::GetLock { ino, handle: run.handle, lock: ANY_LOCK };
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
            if let Some(from) = gap(&mut self.clean_to, &run.queue) {
                run.stage = Stage::Discard;
                return Some(run.data(DataOp::Discard { from }));
            }
        } else if self.flying.end() <= facts.inline_max {
            // What is known of the rest would come back if it was cut off meanwhile.
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
    fn heard(&mut self, ino: Ino, result: FsResult<Answer>) -> Option<Next> {
        let Some(run) = &mut self.run else { return None };
        match (run.stage, result) {
            (Stage::Inline, Ok(_)) if !run.queue.is_empty() => return run.next_inline(ino),
            (Stage::Inline | Stage::Tell, Ok(_)) => return Some(Next::End(None)),
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
    fn verified(&mut self, result: FsResult<Answer>) -> Next {
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
        let moves = run.spill && self.attr.size > 0;
        if run.stage == Stage::Write && self.unsynced && (run.sync || moves) {
            run.stage = Stage::Sync;
            // What comes while it is under way is not in it.
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
    fn content_after(&mut self, flying: &Extents, lost: bool) {
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
    fn repeat(&mut self, run: &Run, flying: &Extents) {
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

impl Files {
    /// Tells tasks for which nothing is left to wait for. Whether there is a reason to begin a run.
    pub(crate) fn is_due(&mut self, core: &Core, calls: &mut Calls, ino: Ino) -> bool {
        let Some(file) = self.map.get_mut(&ino) else { return false };
        if file.run.is_some() {
            return false;
        }
        let needs_sync = file.unsynced && !(file.attr.inline && file.is_clean());
        let (flushed, clean) = (file.flushed, file.is_clean());
        let mut left = Vec::new();
        for waiter in std::mem::take(&mut file.flush_waiters) {
            if (clean || waiter.target <= flushed) && !(waiter.sync && needs_sync) {
                calls.events.push_back((waiter.task, Event::Flushed));
            } else {
                left.push(waiter);
            }
        }
        file.flush_waiters = left;
        let in_use = file.handles.iter().any(|h| self.handles.get(h).is_some_and(|h| h.fh.is_some()));
        let due = !file.flush_waiters.is_empty()
            || !file.recalls.is_empty()
            || file.dirty.bytes() >= core.config.write_behind
            || !in_use
            || core.stopping;
        due && (!clean || !file.flush_waiters.is_empty())
    }

    /// Begins a run, unless one is under way. Whether it has begun.
    pub(crate) fn begin_run(&mut self, ino: Ino) -> bool {
        let Some(file) = self.map.get(&ino).filter(|file| file.run.is_none()) else { return false };
        let Some(handle) = self.writer(file).or(file.handles.first().copied()) else { return false };
        let Some(cred) = self.handles.get(&handle).map(|h| Arc::clone(&h.cred)) else { return false };
        let Some(file) = self.map.get_mut(&ino) else { return false };
        let cred = file.kill_cred.take().unwrap_or(cred);
        file.flying = std::mem::take(&mut file.dirty);
        file.flying_mtime = file.mtime.take();
        file.run = Some(Run {
            covers: file.written,
            sync: file.flush_waiters.iter().any(|waiter| waiter.sync),
            stage: Stage::Refresh,
            handle,
            refused: Vec::new(),
            cred,
            size: file.size,
            mtime: file.flying_mtime,
            kill_priv: std::mem::take(&mut file.kill_priv),
            cuts: 0,
            spill: false,
            own: None,
            queue: VecDeque::new(),
            in_flight: 0,
            error: None,
            tries: 0,
            synced: false,
            risky: false,
            lost: false,
        });
        true
    }

    /// A request of a run was answered.
    pub(crate) fn run_heard(&mut self, ino: Ino, result: FsResult<Answer>) -> Option<Next> {
        let stage = self.map.get(&ino).and_then(|file| file.run.as_ref()).map(|run| run.stage);
        if stage == Some(Stage::Verify) {
            return self.map.get_mut(&ino).map(|file| file.verified(result));
        }
        if result == Err(FsError::BadHandle) && (self.is_doubted(ino) || self.takes_other_handle(ino)) {
            return Some(Next::Plan);
        }
        self.map.get_mut(&ino)?.heard(ino, result)
    }

    /// A run is over: what it wrote is at the server, or lost. `Some(true)`: it is to be done once more.
    pub(crate) fn end_run(
        &mut self,
        core: &mut Core,
        calls: &mut Calls,
        ino: Ino,
        error: Option<FsError>,
    ) -> Option<bool> {
        let file = self.map.get_mut(&ino)?;
        let run = file.run.take()?;
        let flying = std::mem::take(&mut file.flying);
        file.flying_mtime = None;
        if run.lost && error.is_none() && !(file.attr.inline && run.queue.is_empty() && flying.is_empty()) {
            file.repeat(&run, run.own.as_ref().unwrap_or(&flying));
            if !file.is_clean() {
                self.dirty.insert(ino);
            }
            return Some(true);
        }
        let before = std::mem::replace(&mut file.flushed, run.covers);
        if let Some(error) = error {
            file.fail(error);
            file.failed = (if run.stage == Stage::Sync { 0 } else { before + 1 }, run.covers);
            self.unsynced.fail(error);
        }
        file.content_after(&flying, error.is_some());
        let inline = file.attr.inline;
        if file.is_clean() {
            file.size = file.attr.size;
            self.dirty.remove(&ino);
        }
        if error == Some(FsError::NoSpace) {
            self.full_until = core.now.ms + FULL_MS;
        }
        if error.is_some() && self.is_cached_above(ino) {
            // They show what was lost.
            core.invalidate(Invalidation::Data(ino), false);
        }
        self.overtaken(calls, ino, &flying, error.is_none());
        if error.is_none() && !run.synced && !inline && !flying.is_empty() {
            self.keep_unstable(core, ino, flying);
        }
        self.wake_flushed(calls, ino, run.covers, run.sync);
        Some(false)
    }

    /// True if the file's buffered writes must wait until its create is durable.
    pub(crate) fn waits_for_birth(&self, ranks: &Ranks, ino: Ino) -> bool {
        let Some(file) = self.map.get(&ino) else { return false };
        if file.rank == OWN || !ranks.is_unborn(file.rank, ino) {
            return false;
        }
        match &file.run {
            Some(run) => run.stage == Stage::Persist && !run.lost,
            None => {
                let inline_max = ranks.session(file.rank).map_or(0, |session| session.inline_max);
                !file.dirty.is_empty() && (!file.attr.inline || file.dirty.end() > inline_max)
            }
        }
    }

    /// True if no buffered write of the file was sent since its flush count was `flushed`.
    pub(crate) fn is_unwritten_since(&self, ino: Ino, flushed: u64) -> bool {
        self.map.get(&ino).is_some_and(|file| {
            let waits = file.run.as_ref().is_none_or(|run| run.stage == Stage::Persist && !run.lost);
            waits && file.flushed == flushed
        })
    }

    /// A descriptor of a file is closed. Whether that need not wait until what is held back is written: if it is lost, then together with the rank,
    /// of whose journal it waits for a sync; and close is no sync.
    pub(crate) fn may_close_ahead(&self, core: &Core, ranks: &Ranks, ino: Ino) -> bool {
        let is_quiet = |file: &File| file.recalls.is_empty() && file.waiting.is_empty() && !file.doubted;
        core.config.lives_with_rank
            && !core.stopping
            && core.now.ms >= self.full_until
            && self.map.get(&ino).is_some_and(is_quiet)
            && self.waits_for_birth(ranks, ino)
    }

    /// The time of the last change was set while the file waits for its birth: what is written later does not change it.
    pub(crate) fn keep_mtime(&mut self, ino: Ino, mtime: Time) {
        let Some(file) = self.map.get_mut(&ino) else { return };
        let run = file.run.as_mut().map(|run| &mut run.mtime);
        for held in [Some(&mut file.mtime), Some(&mut file.flying_mtime), run].into_iter().flatten() {
            *held = held.map(|_| mtime);
        }
    }

    /// It has said so of another one, where the file was; where it is it is asked first.
    pub(crate) fn is_doubted(&self, ino: Ino) -> bool {
        self.map.get(&ino).is_some_and(|file| file.doubted && !file.flying.is_empty())
    }

    /// The rank does not know the handle of a run: it may have lost that in a restart. Whether there is another one that
    /// may write, so that nothing is lost with the first.
    pub(crate) fn takes_other_handle(&mut self, ino: Ino) -> bool {
        let Some(file) = self.map.get_mut(&ino) else { return false };
        let Some(run) = file.run.as_mut() else { return false };
        // Several may have been lost: each is tried once.
        run.refused.push(run.handle);
        let writers = file.handles.iter().filter(|number| !run.refused.contains(number));
        let found = writers.filter_map(|number| Some((*number, self.handles.get(number)?)));
        let Some((number, other)) = found.into_iter().find(|(_, other)| other.flags.write) else { return false };
        (run.handle, run.cred) = (number, Arc::clone(&other.cred));
        true
    }

    /// Blocks and reads that may hold what was there before.
    pub(crate) fn overtaken(&mut self, calls: &mut Calls, ino: Ino, flying: &Extents, known: bool) {
        for (offset, data) in flying.iter() {
            let end = offset + data.len() as u64;
            calls.redo_reads(self, ino, offset, end);
            self.change_blocks(ino, |file| {
                if known {
                    file.blocks.patch(offset, data);
                } else {
                    file.blocks.drop_range(offset, end);
                }
            });
        }
    }

    pub(crate) fn wake_flushed(&mut self, calls: &mut Calls, ino: Ino, covers: u64, synced: bool) {
        let Some(file) = self.map.get_mut(&ino) else { return };
        let unsynced = file.unsynced && !file.attr.inline;
        for waiter in std::mem::take(&mut file.flush_waiters) {
            if waiter.target <= covers && (!waiter.sync || synced && !waiter.late || !unsynced) {
                calls.events.push_back((waiter.task, Event::Flushed));
            } else {
                file.flush_waiters.push(FlushWaiter { late: false, ..waiter });
            }
        }
    }

    /// A write error of a file that was not reported through this handle yet.
    pub(crate) fn take_error(&mut self, fh: crate::Fh) -> Option<FsError> {
        let opened = self.opened.get_mut(&fh)?;
        let file: &File = self.map.get(&opened.ino)?;
        if opened.errors_seen == file.errors {
            return None;
        }
        opened.errors_seen = file.errors;
        file.error
    }
}

impl Ranks {
    /// True if this client sent an open with truncation of the file that is not answered yet.
    pub(crate) fn may_be_cut(&self, ino: Ino) -> bool {
        self.unanswered().any(|pending| match &pending.request.op {
            Op::Open { ino: of, flags, .. } => flags.truncate && *of == ino,
            _ => false,
        })
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
