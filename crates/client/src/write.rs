//! Writing: into the buffer where the server has lent the right to hold back, else through to the server.
//!
//! Through to the server the bytes go first, and the size is told when they are there: until then nobody sees anything of what
//! is written behind the end. An append reserves room there before. The room is good in the life of the rank that gave it: if
//! that restarts, or the file moves to another one, bytes that are under way are not sent there, and the append begins anew.

use std::collections::VecDeque;
use std::sync::Arc;

use loligo_types::limits::FILE_SIZE_MAX;
use loligo_types::{Answer, Cred, DataError, DataOp, FsError, FsResult, Ino, Op, Rank, SetTime};

use crate::calls::Calls;
use crate::core::Core;
use crate::extents::split;
use crate::file::Files;
use crate::machine::{Client, Waiter};
use crate::session::{DataThen, Then};
use crate::task::{Event, Step, Task, data_error};
use crate::{CallResult, Done, Fh};

/// A write to shared data is begun again at most this often, because the file moved or was cut under it.
const TRIES_MAX: u32 = 16;
/// Pieces of one write that are on their way at a time.
const WINDOW: usize = 16;

/// A write as it was called.
#[derive(Debug)]
pub(crate) struct Write {
    pub fh: Fh,
    pub offset: u64,
    pub data: Arc<[u8]>,
    pub append: bool,
    pub kill_priv: bool,
}

/// A write under way.
#[derive(Debug)]
pub(crate) struct Writing {
    write: Write,
    handle: u64,
    asked: Asked,
    /// Where it goes, when known.
    at: u64,
    /// An append that has its place already.
    placed: bool,
    /// The size was told once: it is only written again because the server restarted.
    told: bool,
    /// The first byte that lies behind the end as it was known when the first byte was sent.
    behind: Option<u64>,
    /// Bytes behind the end may be at the server that are not told of.
    leaves: bool,
    /// Cuts of the file that were known when the first byte was sent: a later one may have dropped it.
    cuts: u32,
    /// And restarts of the server: what was written before one and not told of may be gone.
    restarts: u64,
    queue: VecDeque<(u64, Arc<[u8]>)>,
    in_flight: usize,
    error: Option<FsError>,
    tries: u32,
    /// Its number among the buffered writes of the file, if it is in the buffer.
    number: u64,
}

/// The meaning of the next answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Nothing,
    Inline,
    Refresh,
    Extend,
    /// That nothing shows in a gap.
    Discard,
    Data,
    Tell,
    /// It is in the buffer, and is not answered before that was written.
    Flush,
}

impl Files {
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
}

impl Calls {
    /// True if a task appends into room that it was given, and has not told of it: its data belongs nowhere else.
    pub(crate) fn rests_on_room(&self, then: &DataThen) -> bool {
        let DataThen::Task(task) = then else { return false };
        let step = self.tasks.get(task).map(|task| &task.step);
        matches!(step, Some(Step::Write(writing)) if writing.asked == Asked::Data && writing.placed && !writing.told)
    }
}

impl Client {
    pub(crate) fn write(&mut self, waiter: Waiter, cred: &Arc<Cred>, write: Write) {
        let (ino, handle) = match self.files.check_write(&write) {
            Ok(found) => found,
            Err(error) => return self.calls.fail(&mut self.core, waiter, error),
        };
        if write.data.is_empty() {
            return self.calls.answer(&mut self.core, waiter, Answer::Offset(0));
        }
        let len = write.data.len() as u64;
        let full = self.core.now.ms < self.files.full_until;
        let Some(file) = self.files.map.get(&ino) else {
            return self.calls.fail(&mut self.core, waiter, FsError::Stale);
        };
        let free = file.exclusive.is_none() && file.waiting.is_empty() && !file.is_gated();
        let kills = write.kill_priv && file.attr.mode & 0o6000 != 0;
        if free && file.may_buffer() && !full && !kills && !self.files.is_suspended(&self.ranks, &self.own, ino) {
            if let Err(error) = self.files.buffer(&self.core, ino, &write) {
                return self.calls.fail(&mut self.core, waiter, error);
            }
            return self.accept(waiter, ino, len);
        }
        let writing = Writing {
            write,
            handle,
            asked: Asked::Nothing,
            at: 0,
            placed: false,
            told: false,
            behind: None,
            leaves: false,
            cuts: 0,
            restarts: 0,
            queue: VecDeque::new(),
            in_flight: 0,
            error: None,
            tries: 0,
            number: 0,
        };
        let step = Step::Write(writing);
        self.files.spawn_exclusive(
            &mut self.calls,
            &self.ranks,
            &self.own,
            Task { waiter, cred: Arc::clone(cred), ino, exclusive: true, step },
        );
    }

    /// Answers a buffered write, at once if there is room.
    fn accept(&mut self, waiter: Waiter, ino: Ino, len: u64) {
        let Some(file) = self.files.map.get(&ino) else { return };
        let (held, behind) = (file.held_back(), file.dirty.bytes() >= self.core.config.write_behind);
        let total = self.files.held_back();
        if behind {
            self.kick(ino);
        }
        if held <= self.core.config.write_buffer_file && total <= self.core.config.write_buffer_total {
            return self.calls.answer(&mut self.core, waiter, Answer::Offset(len));
        }
        self.files.blocked.push_back((waiter, len));
        self.relieve();
    }

    /// Answers writes that waited for room, as far as there is some; else makes some.
    pub(crate) fn relieve(&mut self) {
        if self.files.blocked.is_empty() {
            return;
        }
        let largest = self.files.dirty.iter().filter_map(|ino| self.files.map.get(ino)).map(|f| f.held_back()).max();
        let room = self.files.held_back() <= self.core.config.write_buffer_total
            && largest.unwrap_or(0) <= self.core.config.write_buffer_file;
        if room {
            for (waiter, len) in std::mem::take(&mut self.files.blocked) {
                self.calls.answer(&mut self.core, waiter, Answer::Offset(len));
            }
            return;
        }
        for ino in self.files.dirty.clone() {
            self.start_run(ino);
        }
    }

    pub(crate) fn step_write(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let result = self.step_writing(id, task, event);
        if let (Some(Err(_)), Step::Write(writing)) = (&result, &task.step)
            && (writing.leaves || writing.placed && !writing.told)
            && self.files.at.contains_key(&writing.handle)
        {
            // Others may wait for the room, and what is left there must not show when they let the file grow over it.
            let op = Op::Extend { ino: task.ino, handle: writing.handle, len: 0 };
            self.request(&task.cred, op, Then::Nothing);
        }
        result
    }

    /// A rank restarted: it knows nothing of the room that it had given.
    pub(crate) fn lose_rooms(&mut self, rank: Rank) {
        let data = self.ranks.session(rank).map(|session| &session.data);
        let lost: Vec<u64> = data
            .into_iter()
            .flatten()
            .filter(|(_, pending)| self.calls.rests_on_room(&pending.then))
            .map(|(id, _)| *id)
            .collect();
        for id in lost {
            if let Some(pending) = self.ranks.sessions.get_mut(&rank).and_then(|session| session.data.remove(&id)) {
                self.data_replied(id, pending.then, Err(DataError::Stale));
            }
        }
    }

    fn step_writing(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let (ino, cred) = (task.ino, Arc::clone(&task.cred));
        let Step::Write(writing) = &mut task.step else { return None };
        match event {
            Event::Start => self.begin_write(id, ino, &cred, writing),
            Event::Flushed if writing.asked == Asked::Nothing => self.write_through(id, ino, &cred, writing),
            Event::Flushed => Some(self.files.written_through(ino, writing)),
            Event::Data(result) if writing.asked == Asked::Discard => {
                if let Some(file) = self.files.map.get_mut(&ino) {
                    file.discarding = false;
                }
                self.step_recalls(ino);
                match result {
                    Ok(_) => self.write_through(id, ino, &cred, writing),
                    // It may have moved unheard. By rights that are in doubt nothing is discarded elsewhere: it is looked anew how
                    // to write. If the handle was lost, the write is refused.
                    Err(DataError::Stale) if writing.tries < TRIES_MAX => self.look_again(id, ino, &cred, writing),
                    Err(error) => Some(Err(data_error(error).into())),
                }
            }
            Event::Data(result) => {
                writing.in_flight = writing.in_flight.saturating_sub(1);
                if let Err(error) = result {
                    writing.error.get_or_insert(data_error(error));
                    writing.queue.clear();
                }
                self.write_on(id, ino, &cred, writing)
            }
            Event::Reply(result) => self.write_replied(id, ino, &cred, writing, result),
            _ => None,
        }
    }

    /// It has the file to itself: now, not earlier, is known how to write.
    fn begin_write(&mut self, id: u64, ino: Ino, cred: &Arc<Cred>, writing: &mut Writing) -> Option<CallResult> {
        let Some(file) = self.files.map.get(&ino) else { return Some(Err(FsError::Stale.into())) };
        if file.may_buffer() {
            let kills = writing.write.kill_priv && file.attr.mode & 0o6000 != 0;
            let through = self.core.now.ms < self.files.full_until || kills;
            if let Err(error) = self.files.buffer(&self.core, ino, &writing.write) {
                return Some(Err(error.into()));
            }
            if let (true, Some(file)) = (kills, self.files.map.get_mut(&ino)) {
                // Setgid goes by the groups of who writes, and not of who has it open otherwise.
                file.kill_cred = Some(Arc::clone(cred));
            }
            if !through {
                let behind = self.files.map.get(&ino).is_some_and(|f| f.dirty.bytes() >= self.core.config.write_behind);
                if behind {
                    self.kick(ino);
                }
                return Some(Ok(Done::plain(Answer::Offset(writing.write.data.len() as u64))));
            }
            writing.asked = Asked::Flush;
            writing.number = self.files.map.get(&ino).map_or(0, |file| file.written);
            self.flush_then(ino, id);
            return None;
        }
        if !file.is_clean() {
            // What was held back is older.
            self.flush_then(ino, id);
            return None;
        }
        self.write_through(id, ino, cred, writing)
    }

    /// Writes to the server, which others write to as well.
    fn write_through(&mut self, id: u64, ino: Ino, cred: &Arc<Cred>, writing: &mut Writing) -> Option<CallResult> {
        let Some(file) = self.files.map.get(&ino) else { return Some(Err(FsError::Stale.into())) };
        let write = &writing.write;
        let (handle, kill_priv) = (writing.handle, write.kill_priv);
        if file.attr.inline {
            // If it does not fit, the server moves the file to objects and says so.
            let offset = if write.append { None } else { Some(write.offset) };
            let data = Arc::clone(&write.data);
            let op = Op::WriteInline { ino, handle, offset, data, mtime: SetTime::Now, kill_priv };
            writing.asked = Asked::Inline;
            self.request(cred, op, Then::Task(id));
        } else if write.append && !writing.placed {
            writing.asked = Asked::Extend;
            let op = Op::Extend { ino, handle, len: write.data.len() as u64 };
            self.request(cred, op, Then::Task(id));
        } else {
            if !writing.placed {
                writing.at = write.offset;
            }
            if file.may_cache() && writing.at > file.attr.size {
                // Nobody else has the file open, so what lies beyond the end was left by one who died.
                let from = file.attr.size;
                if writing.asked != Asked::Discard {
                    writing.asked = Asked::Discard;
                    if let Some(file) = self.files.map.get_mut(&ino) {
                        file.discarding = true;
                    }
                    self.data_request(ino, DataOp::Discard { from }, DataThen::Task(id));
                    return None;
                }
            }
            let end = writing.at + write.data.len() as u64;
            writing.behind = (end > file.attr.size).then(|| writing.at.max(file.attr.size));
            writing.leaves |= writing.behind.is_some();
            (writing.cuts, writing.restarts) = (file.attr.cuts, self.files.restarts(&self.ranks, ino));
            let mut pieces = Vec::new();
            split(writing.at, &write.data, &mut pieces);
            writing.queue = pieces.into();
            writing.asked = Asked::Data;
            return self.write_on(id, ino, cred, writing);
        }
        None
    }

    /// Sends pieces; after the last one's answer, tells the size.
    fn write_on(&mut self, id: u64, ino: Ino, cred: &Arc<Cred>, writing: &mut Writing) -> Option<CallResult> {
        while writing.in_flight < WINDOW {
            let Some((offset, data)) = writing.queue.pop_front() else { break };
            writing.in_flight += 1;
            if let Some(file) = self.files.map.get_mut(&ino) {
                // Others write, too: it cannot be written again later.
                (file.unsynced, file.at_risk) = (true, true);
            }
            self.data_request(ino, DataOp::Write { offset, data }, DataThen::Task(id));
        }
        if writing.in_flight > 0 {
            return None;
        }
        match writing.error {
            // The room is lost, with the rank or with its former life.
            Some(FsError::Stale) if writing.placed && !writing.told && writing.tries < TRIES_MAX => {
                writing.error = None;
                return self.look_again(id, ino, cred, writing);
            }
            Some(error) => return Some(Err(error.into())),
            None => {}
        }
        let Some(file) = self.files.map.get_mut(&ino) else { return Some(Err(FsError::Stale.into())) };
        file.unsynced = true;
        let end = writing.at + writing.write.data.len() as u64;
        let op = Op::SetData {
            ino,
            handle: writing.handle,
            cuts: writing.cuts,
            grow_to: Some(end),
            behind: writing.behind,
            mtime: SetTime::Now,
            spilled: false,
            kill_priv: writing.write.kill_priv,
        };
        writing.asked = Asked::Tell;
        self.request(cred, op, Then::Task(id));
        None
    }

    /// The file is not what it was taken for: looks at its attributes, and writes again. An append has no place then.
    fn look_again(&mut self, id: u64, ino: Ino, cred: &Arc<Cred>, writing: &mut Writing) -> Option<CallResult> {
        writing.tries += 1;
        (writing.asked, writing.placed) = (Asked::Refresh, false);
        self.refresh(cred, ino, Then::Task(id), writing.tries);
        None
    }

    fn write_replied(
        &mut self,
        id: u64,
        ino: Ino,
        cred: &Arc<Cred>,
        writing: &mut Writing,
        result: FsResult<Answer>,
    ) -> Option<CallResult> {
        match (writing.asked, result) {
            (Asked::Tell, Ok(_))
                if writing.restarts != self.files.restarts(&self.ranks, ino) && writing.tries < TRIES_MAX =>
            {
                writing.tries += 1;
                writing.told = true;
                self.write_through(id, ino, cred, writing)
            }
            // What was written and told of was cut away since.
            (Asked::Tell, Err(FsError::Stale)) if writing.told && writing.write.append => {
                Some(Ok(Done::plain(Answer::Offset(writing.write.data.len() as u64))))
            }
            (Asked::Inline | Asked::Tell, Ok(_)) => {
                // Readers may be allowed to cache what no other client writes.
                let (start, end) = match self.files.map.get_mut(&ino) {
                    Some(file) if writing.asked == Asked::Inline => {
                        file.base = None;
                        (0, u64::MAX)
                    }
                    _ => (writing.at, writing.at + writing.write.data.len() as u64),
                };
                self.calls.redo_reads(&mut self.files, ino, start, end);
                self.files.change_blocks(ino, |file| file.blocks.drop_range(start, end));
                self.files.after_read(&mut self.core, ino, writing.write.fh);
                Some(Ok(Done::plain(Answer::Offset(writing.write.data.len() as u64))))
            }
            // Cut, or moved to or from objects since its attributes were seen: looks, and writes again.
            (Asked::Inline | Asked::Tell | Asked::Extend, Err(FsError::Busy | FsError::Stale))
                if writing.tries < TRIES_MAX =>
            {
                self.look_again(id, ino, cred, writing)
            }
            // It was known when it was given room.
            (Asked::Extend, Err(FsError::BadHandle)) if writing.tries > 0 => Some(Err(FsError::Stale.into())),
            (Asked::Refresh, Ok(_)) => {
                // The right to hold back may have come meanwhile, with another open: then the server leaves it to this client to
                // move the file to objects. It does so, too, if this client has given the right up without a word.
                self.ranks.say_given_up(&mut self.core, &mut self.files, ino);
                writing.asked = Asked::Nothing;
                self.begin_write(id, ino, cred, writing)
            }
            (Asked::Extend, Ok(Answer::Offset(at))) => {
                (writing.at, writing.placed) = (at, true);
                self.write_through(id, ino, cred, writing)
            }
            (_, Err(error)) => Some(Err(error.into())),
            (_, Ok(_)) => Some(Err(FsError::Io.into())),
        }
    }
}
