//! The buffer of written data: when a run of writing back begins, which waiters it ends, and what is known after it. Not here: a run by
//! itself (`run`), and a write by itself (`writing`).

use std::sync::Arc;

use loligo_types::limits::FILE_SIZE_MAX;
use loligo_types::{Answer, FsError, FsResult, Ino, Journaling, Op, Time};

use crate::calls::Calls;
use crate::core::Core;
use crate::extents::Extents;
use crate::file::{File, Files};
use crate::own::OWN;
use crate::ranks::Ranks;
use crate::run::{FULL_MS, FlushWaiter, Next, Stage};
use crate::task::Event;
use crate::writing::{Write, Writing};
use crate::{CallResult, Done, Invalidation};

/// Modes that are kept of files which are about to be opened.
const MODES_MAX: usize = 4096;

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

    /// The rank of a file has said the way of its data to the disk.
    pub(crate) fn journals_as(&mut self, told: Option<(Ino, Journaling)>) {
        let Some((ino, journaling)) = told else { return };
        match self.map.get_mut(&ino) {
            Some(file) => file.journaling = journaling,
            None => {
                // An open that fails leaves its mode there.
                if self.modes.len() >= MODES_MAX {
                    self.modes.clear();
                }
                self.modes.insert(ino, journaling);
            }
        }
    }

    /// Begins a run, unless one is under way. Whether it has begun.
    pub(crate) fn begin_run(&mut self, ino: Ino) -> bool {
        let Some(file) = self.map.get(&ino).filter(|file| file.run.is_none()) else { return false };
        let Some(handle) = self.writer(file).or(file.handles.first().copied()) else { return false };
        let Some(cred) = self.handles.get(&handle).map(|h| Arc::clone(&h.cred)) else { return false };
        let Some(file) = self.map.get_mut(&ino) else { return false };
        file.begin_run(handle, cred);
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
                let inline_max = ranks.inline_max(file.rank);
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
    fn is_doubted(&self, ino: Ino) -> bool {
        self.map.get(&ino).is_some_and(|file| file.doubted && !file.flying.is_empty())
    }

    /// The rank does not know the handle of a run: it may have lost that in a restart. Whether there is another one that
    /// may write, so that nothing is lost with the first.
    fn takes_other_handle(&mut self, ino: Ino) -> bool {
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

    fn wake_flushed(&mut self, calls: &mut Calls, ino: Ino, covers: u64, synced: bool) {
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

    pub(crate) fn check_write(&mut self, write: &Write) -> FsResult<(Ino, u64)> {
        let found = match self.file_of(write.fh, true) {
            Err(FsError::Stale) => return Err(self.dead_error(write.fh)),
            other => other?,
        };
        if write.data.is_empty() {
            return Ok(found);
        }
        match write.offset.checked_add(write.data.len() as u64) {
            Some(end) if end <= FILE_SIZE_MAX => Ok(found),
            _ => Err(FsError::FileTooBig),
        }
    }

    /// Puts a write into the buffer.
    pub(crate) fn buffer(&mut self, core: &Core, ino: Ino, write: &Write) -> FsResult<()> {
        let now = core.now;
        let Some(file) = self.map.get_mut(&ino) else { return Err(FsError::Stale) };
        let offset = if write.append { file.size } else { write.offset };
        let end = offset + write.data.len() as u64;
        if end > FILE_SIZE_MAX {
            return Err(FsError::FileTooBig);
        }
        if file.dirty.is_empty() {
            file.dirty_since = now.ms;
        }
        file.dirty.insert(offset, &write.data);
        file.size = file.size.max(end);
        file.mtime = Some(now.wall);
        file.kill_priv |= write.kill_priv;
        file.written += 1;
        self.dirty.insert(ino);
        Ok(())
    }

    /// Bytes of all files that wait to be written.
    pub(crate) fn held_back(&self) -> u64 {
        self.dirty.iter().filter_map(|ino| self.map.get(ino)).map(|file| file.held_back()).sum()
    }

    /// The buffer was written at once: the error of the run that had this write is this write's. The handle is not told of
    /// it again, unless more is lost than this write: who hears that it failed does not know of what was written before.
    pub(crate) fn written_through(&mut self, ino: Ino, writing: &Writing) -> CallResult {
        let number = writing.number;
        if let Some(file) = self.map.get(&ino)
            && let (first, last) = file.failed
            && let (Some(error), true) = (file.error, (first..=last).contains(&number))
        {
            let (errors, alone) = (file.errors, first == last);
            if let Some(opened) = self.opened.get_mut(&writing.write.fh)
                && alone
                && opened.errors_seen + 1 == errors
            {
                opened.errors_seen = errors;
            }
            return Err(error.into());
        }
        Ok(Done::plain(Answer::Offset(writing.write.data.len() as u64)))
    }

    /// Answers writes that waited for room, as far as there is some. Whether some is to be made.
    pub(crate) fn lacks_room(&mut self, core: &mut Core, calls: &mut Calls) -> bool {
        if self.blocked.is_empty() {
            return false;
        }
        let largest = self.dirty.iter().filter_map(|ino| self.map.get(ino)).map(|f| f.held_back()).max();
        let config = &core.config;
        let room = self.held_back() <= config.write_buffer_total && largest.unwrap_or(0) <= config.write_buffer_file;
        if room {
            for (waiter, len) in std::mem::take(&mut self.blocked) {
                calls.answer(core, waiter, Answer::Offset(len));
            }
        }
        !room
    }

    /// True if a write may be put into the buffer and answered at once.
    pub(crate) fn takes_write(&self, core: &Core, ino: Ino, write: &Write) -> bool {
        self.map.get(&ino).is_some_and(|file| {
            let free = file.exclusive.is_none() && file.waiting.is_empty() && !file.is_gated();
            let kills = write.kill_priv && file.attr.mode & 0o6000 != 0;
            free && file.may_buffer() && core.now.ms >= self.full_until && !kills
        })
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
