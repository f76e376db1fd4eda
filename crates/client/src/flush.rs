//! Writing back: what is held back of a file goes to the server, in runs of which a file has one at a time.
//!
//! A run takes everything that is dirty when it begins. An inline file that stays small is one `WriteInline`; one that
//! outgrew the inode is spilled; objects are written, synced if somebody waits for the disk, and then the server is told
//! the size. What a run writes stays readable in `flying` until it ended.

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
use crate::file::File;
use crate::file::Files;
use crate::machine::Client;
use crate::own::OWN;
use crate::ranks::Ranks;
use crate::session::{DataThen, Then};
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

impl File {
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

impl Client {
    /// Tells the task when everything written before is at the server, or lost.
    pub(crate) fn flush_then(&mut self, ino: Ino, task: u64) {
        self.wait_flush(ino, task, false);
    }

    /// The same, and durable.
    pub(crate) fn sync_then(&mut self, ino: Ino, task: u64) {
        self.wait_flush(ino, task, true);
    }

    fn wait_flush(&mut self, ino: Ino, task: u64, sync: bool) {
        let Some(file) = self.files.map.get_mut(&ino) else {
            return self.calls.events.push_back((task, Event::Flushed));
        };
        let late = file.run.as_ref().is_some_and(|run| matches!(run.stage, Stage::Sync | Stage::Tell));
        file.flush_waiters.push(FlushWaiter { target: file.written, sync, late, task });
        self.kick(ino);
    }

    /// Begins a run if there is a reason and none is under way.
    pub(crate) fn kick(&mut self, ino: Ino) {
        let Some(file) = self.files.map.get_mut(&ino) else { return };
        if file.run.is_some() {
            return;
        }
        let needs_sync = file.unsynced && !(file.attr.inline && file.is_clean());
        let (flushed, clean) = (file.flushed, file.is_clean());
        let mut left = Vec::new();
        for waiter in std::mem::take(&mut file.flush_waiters) {
            if (clean || waiter.target <= flushed) && !(waiter.sync && needs_sync) {
                self.calls.events.push_back((waiter.task, Event::Flushed));
            } else {
                left.push(waiter);
            }
        }
        file.flush_waiters = left;
        let in_use = file.handles.iter().any(|h| self.files.handles.get(h).is_some_and(|h| h.fh.is_some()));
        let due = !file.flush_waiters.is_empty()
            || !file.recalls.is_empty()
            || file.dirty.bytes() >= self.core.config.write_behind
            || !in_use
            || self.core.stopping;
        if due && (!clean || !file.flush_waiters.is_empty()) {
            self.start_run(ino);
        }
    }

    /// Begins a run, unless one is under way.
    pub(crate) fn start_run(&mut self, ino: Ino) {
        let Some(file) = self.files.map.get(&ino) else { return };
        if file.run.is_some() {
            return;
        }
        let Some(handle) = self.files.writer(file).or(file.handles.first().copied()) else { return };
        let Some(cred) = self.files.handles.get(&handle).map(|h| Arc::clone(&h.cred)) else { return };
        let Some(file) = self.files.map.get_mut(&ino) else { return };
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
        self.plan(ino);
    }

    /// Decides how `flying` goes to the server.
    fn plan(&mut self, ino: Ino) {
        let rank =
            self.files.map.get(&ino).map_or_else(|| self.ranks.router.some_rank(self.ranks.home), |file| file.rank);
        let is_own = rank == OWN;
        let inline_max = if is_own {
            self.own.inline_max(ino)
        } else {
            self.ranks.session(rank).map_or(0, |session| session.inline_max)
        };
        let reader = self.files.map.get(&ino).and_then(|file| {
            // Of what is decoupled for this client it may read whatever it has open.
            self.files.reader(file).or_else(|| file.handles.first().copied().filter(|_| is_own))
        });
        let based = self.files.map.get(&ino).is_some_and(|file| file.attr.inline && file.base.is_some());
        let cut = based && self.ranks.may_be_cut(ino);
        let unborn = !is_own && self.ranks.is_unborn(rank, ino);
        let Some(file) = self.files.map.get_mut(&ino) else { return };
        let Some(run) = &mut file.run else { return };
        run.spill = false;
        run.cuts = file.attr.cuts;
        if let Some(own) = run.own.take() {
            // The content may have been cut since.
            file.flying = own;
        }
        if file.doubted && !file.flying.is_empty() {
            run.stage = Stage::Verify;
            let (handle, cred) = (run.handle, Arc::clone(&run.cred));
            return self.request(&cred, Op::GetLock { ino, handle, lock: ANY_LOCK }, Then::Flush(ino));
        }
        let goes_to_objects = !file.flying.is_empty() && (!file.attr.inline || file.flying.end() > inline_max);
        if goes_to_objects && unborn {
            run.stage = Stage::Persist;
            let cred = Cred::clone(&run.cred);
            return self.request_at(rank, cred, Op::Persist, Then::Flush(ino), 0);
        }
        if file.flying.is_empty() {
            run.stage = Stage::Write;
        } else if !file.attr.inline {
            run.queue = file.flying.pieces().into();
            run.stage = Stage::Write;
            if let Some(from) = gap(&mut file.clean_to, &run.queue) {
                run.stage = Stage::Discard;
                return self.flush_op(ino, DataOp::Discard { from });
            }
        } else if file.flying.end() <= inline_max {
            // What is known of the rest would come back if it was cut off meanwhile.
            let base = file.base.as_deref().filter(|_| !cut);
            run.queue = inline_pieces(&file.flying, base).into();
            run.stage = Stage::Inline;
            return self.write_inline(ino);
        } else if file.base.is_some() || file.attr.size == 0 {
            if let Some(base) = &file.base {
                run.own = Some(file.flying.clone());
                file.flying.fill_under(0, base);
            }
            run.queue = file.flying.pieces().into();
            (run.stage, run.spill) = (Stage::Discard, true);
            file.clean_to = u64::MAX;
            return self.flush_op(ino, DataOp::Discard { from: 0 });
        } else if let Some(handle) = reader {
            run.stage = Stage::Load;
            let cred = Arc::clone(&run.cred);
            return self.request(&cred, Op::ReadInline { ino, handle }, Then::Flush(ino));
        } else {
            run.stage = Stage::Probe;
            if let Some((offset, data)) = file.flying.pieces().pop() {
                let skip = data.len().saturating_sub(PROBE);
                run.queue = VecDeque::from([(offset + skip as u64, Arc::from(&data[skip..]))]);
            }
            return self.write_inline(ino);
        }
        self.pump(ino);
    }

    fn flush_op(&mut self, ino: Ino, op: DataOp) {
        if let Some(run) = self.files.map.get_mut(&ino).and_then(|file| file.run.as_mut()) {
            run.in_flight += 1;
        }
        self.data_request(ino, op, DataThen::Flush(ino));
    }

    /// Sends the next piece of an inline file.
    fn write_inline(&mut self, ino: Ino) {
        let Some(run) = self.files.map.get_mut(&ino).and_then(|file| file.run.as_mut()) else { return };
        let Some((offset, data)) = run.queue.pop_front() else { return };
        let mtime = run.mtime.map_or(SetTime::Now, SetTime::At);
        let (handle, kill_priv, cred) = (run.handle, run.kill_priv, Arc::clone(&run.cred));
        let op = Op::WriteInline { ino, handle, offset: Some(offset), data, mtime, kill_priv };
        self.request(&cred, op, Then::Flush(ino));
    }

    /// A request of a run was answered.
    pub(crate) fn flush_reply(&mut self, ino: Ino, result: FsResult<Answer>) {
        let verifies = self.files.map.get(&ino).and_then(|file| file.run.as_ref()).map(|run| run.stage);
        if verifies == Some(Stage::Verify) {
            return self.verified(ino, result);
        }
        if result == Err(FsError::BadHandle) && (self.files.is_doubted(ino) || self.files.takes_other_handle(ino)) {
            return self.plan(ino);
        }
        let Some(file) = self.files.map.get_mut(&ino) else { return };
        let Some(run) = &mut file.run else { return };
        match (run.stage, result) {
            (Stage::Inline, Ok(_)) if !run.queue.is_empty() => self.write_inline(ino),
            (Stage::Inline | Stage::Tell, Ok(_)) => self.end_run(ino, None),
            (Stage::Load, Ok(Answer::Bytes(bytes))) => {
                file.base = Some(bytes);
                self.plan(ino);
            }
            (Stage::Persist, Ok(_)) => self.plan(ino),
            // It fitted, against what the attributes said: the rest may fit, too.
            (Stage::Probe, Ok(_)) | (Stage::Refresh, Ok(_)) if run.tries < TRIES_MAX => {
                run.tries += 1;
                self.plan(ino);
            }
            // The server has moved it to objects. Asking for the attributes is no way here: that could wait for the very
            // recall that this run obeys.
            (Stage::Inline | Stage::Probe, Err(FsError::Busy)) | (Stage::Load, Err(FsError::Stale))
                if file.attr.inline =>
            {
                file.attr.inline = false;
                file.base = None;
                file.clean_to = file.attr.size;
                self.plan(ino);
            }
            (Stage::Inline | Stage::Probe | Stage::Tell, Err(FsError::Busy | FsError::Stale))
                if run.tries < TRIES_MAX =>
            {
                run.tries += 1;
                run.stage = Stage::Refresh;
                let (cred, tries) = (Arc::clone(&run.cred), run.tries);
                self.refresh(&cred, ino, Then::Flush(ino), tries);
            }
            (_, Err(error)) => self.end_run(ino, Some(error)),
            (_, Ok(_)) => self.end_run(ino, Some(FsError::Io)),
        }
    }

    /// The rank has said whether it knows the handle of a run. If not, what was held back is lost, also if there is another
    /// handle by now.
    fn verified(&mut self, ino: Ino, result: FsResult<Answer>) {
        if let Some(file) = self.files.map.get_mut(&ino) {
            // A rank that fails to look may be asked again.
            file.doubted &= !matches!(result, Ok(_) | Err(FsError::BadHandle));
        }
        match result {
            Ok(_) => self.plan(ino),
            Err(error) => {
                if let Some(run) = self.files.map.get_mut(&ino).and_then(|file| file.run.as_mut()) {
                    run.lost = false;
                }
                self.end_run(ino, Some(error));
            }
        }
    }

    /// A data request of a run was answered.
    pub(crate) fn flush_data(&mut self, ino: Ino, result: Result<DataAnswer, DataError>) {
        let Some(file) = self.files.map.get_mut(&ino) else { return };
        let Some(run) = &mut file.run else { return };
        run.in_flight = run.in_flight.saturating_sub(1);
        if let Err(error) = result {
            if run.stage == Stage::Sync {
                file.unsynced = true;
                file.at_risk |= run.risky;
            }
            run.error.get_or_insert(data_error(error));
            run.queue.clear();
        } else if run.stage == Stage::Sync && !run.lost {
            run.synced = true;
            file.unstable = Extents::default();
        }
        if run.stage == Stage::Discard {
            run.stage = Stage::Write;
        }
        self.pump(ino);
    }

    /// A data request of a run was not done where the file was before it moved, as is believed. That loses nothing if the new
    /// rank knows the handle, which it was not asked yet: so the run is done again, and begins with that.
    pub(crate) fn flush_elsewhere(&mut self, ino: Ino) {
        let Some(file) = self.files.map.get_mut(&ino) else { return };
        let Some(run) = &mut file.run else { return };
        run.in_flight = run.in_flight.saturating_sub(1);
        file.at_risk |= run.stage == Stage::Sync && run.risky;
        run.lost = true;
        run.queue.clear();
        self.pump(ino);
    }

    /// Sends pieces; after the last one's answer goes on to the sync and the size.
    fn pump(&mut self, ino: Ino) {
        loop {
            let Some(file) = self.files.map.get_mut(&ino) else { return };
            let Some(run) = &mut file.run else { return };
            if file.doubted && !run.queue.is_empty() {
                // The doubt came meanwhile.
                run.lost = true;
                run.queue.clear();
            }
            if run.stage == Stage::Write
                && run.in_flight < WINDOW
                && let Some((offset, data)) = run.queue.pop_front()
            {
                file.unsynced = true;
                self.flush_op(ino, DataOp::Write { offset, data });
                continue;
            }
            if run.in_flight > 0 {
                return;
            }
            if let Some(error) = run.error {
                return self.end_run(ino, Some(error));
            }
            if run.lost {
                // Not told before it is written again: what is durable in the inode must not be let go for it.
                return self.end_run(ino, None);
            }
            // Bytes that were durable in the inode must be so in the object before the inode lets go of them.
            let moves = run.spill && file.attr.size > 0;
            if run.stage == Stage::Write && file.unsynced && (run.sync || moves) {
                run.stage = Stage::Sync;
                // What comes while it is under way is not in it.
                file.unsynced = false;
                run.risky = std::mem::take(&mut file.at_risk);
                return self.flush_op(ino, DataOp::Sync);
            }
            if run.mtime.is_none() && file.flying.is_empty() {
                return self.end_run(ino, None);
            }
            run.stage = Stage::Tell;
            return self.tell(ino);
        }
    }

    fn tell(&mut self, ino: Ino) {
        let Some(file) = self.files.map.get(&ino) else { return };
        let Some(run) = &file.run else { return };
        let op = Op::SetData {
            ino,
            handle: run.handle,
            cuts: run.cuts,
            grow_to: Some(run.size),
            behind: None,
            mtime: run.mtime.map_or(SetTime::Now, SetTime::At),
            spilled: run.spill,
            kill_priv: run.kill_priv,
        };
        let cred = Arc::clone(&run.cred);
        self.request(&cred, op, Then::Flush(ino));
    }

    /// A run is over: what it wrote is at the server, or lost.
    fn end_run(&mut self, ino: Ino, error: Option<FsError>) {
        let Some(file) = self.files.map.get_mut(&ino) else { return };
        let Some(run) = file.run.take() else { return };
        let flying = std::mem::take(&mut file.flying);
        file.flying_mtime = None;
        if run.lost && error.is_none() && !(file.attr.inline && run.queue.is_empty() && flying.is_empty()) {
            return self.repeat_run(ino, &run, run.own.as_ref().unwrap_or(&flying));
        }
        let before = std::mem::replace(&mut file.flushed, run.covers);
        if let Some(error) = error {
            file.fail(error);
            file.failed = (if run.stage == Stage::Sync { 0 } else { before + 1 }, run.covers);
            self.files.unsynced.fail(error);
            // What the server has of it is not known.
            file.base = None;
            file.clean_to = file.attr.size;
        } else if let Some(base) = file.base.take_if(|_| file.attr.inline) {
            file.base = Some(flying.over(&base));
        } else if file.attr.inline && file.may_cache() && flying.gaps(0, file.attr.size).is_empty() {
            file.base = Some(flying.over(&[]));
        } else {
            file.base = None;
        }
        let inline = file.attr.inline;
        if file.is_clean() {
            file.size = file.attr.size;
            self.files.dirty.remove(&ino);
        }
        if error == Some(FsError::NoSpace) {
            self.files.full_until = self.core.now.ms + FULL_MS;
        }
        if error.is_some() && self.files.is_cached_above(ino) {
            // They show what was lost.
            self.core.invalidate(Invalidation::Data(ino), false);
        }
        self.files.overtaken(&mut self.calls, ino, &flying, error.is_none());
        if error.is_none() && !run.synced && !inline && !flying.is_empty() {
            self.files.keep_unstable(&self.core, ino, flying);
        }
        self.files.wake_flushed(&mut self.calls, ino, run.covers, run.sync);
        self.step_recalls(ino);
        self.relieve();
        self.kick(ino);
    }

    /// All that a run wrote waits to be written once more.
    fn repeat_run(&mut self, ino: Ino, run: &Run, flying: &Extents) {
        let Some(file) = self.files.map.get_mut(&ino) else { return };
        flying.iter().for_each(|(offset, bytes)| file.dirty.fill_under(offset, bytes));
        file.mtime = file.mtime.or(run.mtime);
        file.kill_priv |= run.kill_priv;
        if run.kill_priv {
            file.kill_cred.get_or_insert_with(|| Arc::clone(&run.cred));
        }
        file.unsynced = true;
        if !file.is_clean() {
            self.files.dirty.insert(ino);
        }
        self.start_run(ino);
    }

    /// Begins runs of files whose data has waited long enough.
    pub(crate) fn flush_old(&mut self) {
        let before = self.core.now.ms.saturating_sub(self.core.config.write_delay_ms);
        for ino in self.files.dirty.clone() {
            if self.files.map.get(&ino).is_some_and(|file| file.dirty_since <= before) {
                self.start_run(ino);
            }
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
