//! Calls on the space of a file: fallocate, seeking for data and holes, copying a range; and syncing everything.

use std::sync::Arc;

use loligo_types::limits::FILE_SIZE_MAX;
use loligo_types::{Answer, Cred, DataAnswer, DataError, DataOp, FsError, FsResult, Ino, Op, SetTime};

use crate::file::Files;
use crate::machine::{Client, Waiter};
use crate::reading::STALE_MAX;
use crate::session::{DataThen, Then};
use crate::task::{Event, Step, Task, data_error, expect_entry};
use crate::{CallResult, Done, Fallocate, Fh};

/// A fallocate on shared data is begun again at most this often, because the file was cut under it.
const TRIES_MAX: u32 = 16;
/// Bytes copied or zeroed in one step.
const CHUNK: u64 = 1 << 20;

/// A fallocate under way.
#[derive(Debug)]
pub(crate) struct Falloc {
    fh: Fh,
    how: Fallocate,
    offset: u64,
    end: u64,
    kill_priv: bool,
    asked: Asked,
    /// The server knows that the file was changed: times and privileges are as they must be.
    told: bool,
    tries: u32,
}

/// The request whose answer comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Flush,
    Size,
    Punch,
    Tell,
    Grow,
    /// Only times and privileges change.
    Touch,
    /// An inline range is overwritten with zeros by calls.
    Zero(u64),
}

/// A seek under way.
#[derive(Debug)]
pub(crate) struct Seek {
    offset: u64,
    data: bool,
    /// Number of refusals by the server because the file had changed by then.
    stale: u32,
}

impl Seek {
    pub(crate) fn new(offset: u64, data: bool) -> Seek {
        Seek { offset, data, stale: 0 }
    }
}

/// A copy under way.
#[derive(Debug)]
pub(crate) struct Copy {
    from: Fh,
    from_offset: u64,
    to: Fh,
    to_offset: u64,
    left: u64,
    copied: u64,
    kill_priv: bool,
}

impl Falloc {
    /// The file that it is about, and how it begins.
    pub(crate) fn new(
        files: &Files,
        fh: Fh,
        (how, kill_priv): (Fallocate, bool),
        offset: u64,
        len: u64,
    ) -> FsResult<(Ino, Falloc)> {
        let (ino, _) = files.file_of(fh, true)?;
        let end = match offset.checked_add(len) {
            _ if len == 0 => return Err(FsError::Invalid),
            Some(end) if end <= FILE_SIZE_MAX => end,
            _ => return Err(FsError::FileTooBig),
        };
        Ok((ino, Falloc { fh, how, offset, end, kill_priv, asked: Asked::Flush, told: false, tries: 0 }))
    }
}

impl Copy {
    pub(crate) fn new((from, from_offset): (Fh, u64), (to, to_offset): (Fh, u64), len: u64, kill_priv: bool) -> Copy {
        Copy { from, from_offset, to, to_offset, left: len, copied: 0, kill_priv }
    }

    /// The file that is written, if it can be done.
    pub(crate) fn target(&self, files: &Files) -> FsResult<Ino> {
        let (from, to) = (files.file_of(self.from, false), files.file_of(self.to, true));
        let ((from, _), (to, _)) = (from?, to?);
        let far = |offset: u64| offset.checked_add(self.left).filter(|end| *end <= FILE_SIZE_MAX);
        let (Some(from_end), Some(to_end)) = (far(self.from_offset), far(self.to_offset)) else {
            return Err(FsError::FileTooBig);
        };
        if from == to && self.from_offset < to_end && self.to_offset < from_end {
            return Err(FsError::Invalid);
        }
        Ok(to)
    }
}

impl Client {
    pub(crate) fn step_fallocate(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let (ino, cred) = (task.ino, Arc::clone(&task.cred));
        let Step::Fallocate(falloc) = &mut task.step else { return None };
        match (event, falloc.asked) {
            (Event::Start, _) => self.flush_then(ino, id),
            (Event::Flushed, _) => {
                falloc.asked = Asked::Size;
                self.request(&cred, Op::GetAttr { ino }, Then::Task(id));
            }
            // Cut since its attributes were seen: looks, and begins again.
            (Event::Reply(Err(FsError::Stale | FsError::Busy)), Asked::Tell | Asked::Grow | Asked::Touch)
                if falloc.tries < TRIES_MAX =>
            {
                falloc.tries += 1;
                falloc.asked = Asked::Size;
                self.refresh(&cred, ino, Then::Task(id), falloc.tries);
            }
            (Event::Reply(Err(error)), _) | (Event::Done(Err(crate::Failed { error, .. })), _) => {
                return Some(Err(error.into()));
            }
            (Event::Data(Err(error)), _) => return Some(Err(data_error(error).into())),
            (Event::Reply(Ok(answer)), Asked::Size) => {
                let Answer::Entry(attr) = answer else { return Some(Err(FsError::Io.into())) };
                let mut attr = attr;
                self.files.overlay(&mut attr);
                if falloc.tries > 0 {
                    self.ranks.say_given_up(&mut self.core, &mut self.files, ino);
                }
                let stop = falloc.end.min(attr.size);
                if matches!(falloc.how, Fallocate::Allocate { .. }) || falloc.offset >= stop {
                    return self.grow(id, ino, &cred, falloc, attr.size);
                }
                if attr.inline {
                    falloc.asked = Asked::Zero(falloc.offset);
                    return self.zero(id, ino, &cred, falloc, attr.size);
                }
                // What came meanwhile (also from a restart of the server) must not be written over the hole.
                if self.files.map.get(&ino).is_some_and(|file| file.has_waiting(falloc.offset, stop)) {
                    falloc.asked = Asked::Flush;
                    self.flush_then(ino, id);
                    return None;
                }
                falloc.asked = Asked::Punch;
                if let Some(file) = self.files.map.get_mut(&ino) {
                    (file.unsynced, file.at_risk) = (true, true);
                    file.drop_unstable(falloc.offset, stop);
                }
                let op = DataOp::Punch { offset: falloc.offset, len: stop - falloc.offset };
                self.data_request(ino, op, DataThen::Task(id));
            }
            (Event::Data(Ok(_)), Asked::Punch) => {
                let (start, end) = (falloc.offset, falloc.end);
                self.calls.redo_reads(&mut self.files, ino, start, end);
                self.files.change_blocks(ino, |file| file.blocks.drop_range(start, end));
                let Some(handle) = self.files.opened.get(&falloc.fh).map(|opened| opened.handle) else {
                    return Some(Err(FsError::Interrupted.into()));
                };
                let Some(file) = self.files.map.get_mut(&ino) else { return Some(Err(FsError::Stale.into())) };
                (file.unsynced, file.at_risk) = (true, true);
                let (cuts, kill_priv) = (file.attr.cuts, falloc.kill_priv);
                let (mtime, spilled) = (SetTime::Now, false);
                falloc.asked = Asked::Tell;
                let (grow_to, behind) = (None, None);
                let op = Op::SetData { ino, handle, cuts, grow_to, behind, mtime, spilled, kill_priv };
                self.request(&cred, op, Then::Task(id));
            }
            (Event::Done(Ok(_)), Asked::Zero(_)) => {
                falloc.told = true;
                let size = self.files.map.get(&ino).map_or(0, |file| file.size);
                return self.zero(id, ino, &cred, falloc, size);
            }
            (Event::Reply(Ok(_)), Asked::Tell) => {
                falloc.told = true;
                let size = self.files.map.get(&ino).map_or(0, |file| file.size);
                return self.grow(id, ino, &cred, falloc, size);
            }
            (Event::Done(Ok(_)) | Event::Reply(Ok(_)), _) => return Some(Ok(Done::plain(Answer::Done))),
            _ => {}
        }
        None
    }

    /// Overwrites the next part of an inline range with zeros.
    fn zero(&mut self, id: u64, ino: Ino, cred: &Arc<Cred>, falloc: &mut Falloc, size: u64) -> Option<CallResult> {
        let Asked::Zero(at) = falloc.asked else { return None };
        let stop = falloc.end.min(size);
        if at >= stop {
            return self.grow(id, ino, cred, falloc, size);
        }
        let len = (stop - at).min(CHUNK);
        falloc.asked = Asked::Zero(at + len);
        let data = Arc::from(vec![0; len as usize]);
        let write =
            crate::writing::Write { fh: falloc.fh, offset: at, data, append: false, kill_priv: falloc.kill_priv };
        self.write(Waiter::Task(id), cred, write);
        None
    }

    /// Makes the file reach over the range, if that is meant.
    fn grow(&mut self, id: u64, ino: Ino, cred: &Arc<Cred>, falloc: &mut Falloc, size: u64) -> Option<CallResult> {
        let keep = match falloc.how {
            Fallocate::PunchHole => true,
            Fallocate::Allocate { keep_size } | Fallocate::ZeroRange { keep_size } => keep_size,
        };
        let grows = !keep && falloc.end > size;
        if !grows && falloc.told {
            return Some(Ok(Done::plain(Answer::Done)));
        }
        let Some(file) = self.files.map.get(&ino) else { return Some(Err(FsError::Stale.into())) };
        let Some(handle) = self.files.opened.get(&falloc.fh).map(|opened| opened.handle) else {
            return Some(Err(FsError::Interrupted.into()));
        };
        let kill_priv = falloc.kill_priv;
        falloc.asked = if grows { Asked::Grow } else { Asked::Touch };
        if !grows {
            let (cuts, mtime) = (file.attr.cuts, SetTime::Now);
            let op = Op::SetData { ino, handle, cuts, grow_to: None, behind: None, mtime, spilled: false, kill_priv };
            self.request(cred, op, Then::Task(id));
        } else if file.may_buffer() {
            self.grow_file(Waiter::Task(id), cred, ino, (handle, kill_priv), falloc.end);
        } else if file.attr.inline {
            let (offset, data, mtime) = (Some(falloc.end), Arc::from(&[][..]), SetTime::Now);
            let op = Op::WriteInline { ino, handle, offset, data, mtime, kill_priv };
            self.request(cred, op, Then::Task(id));
        } else {
            // Others may let the file grow at the same time: this never shrinks it.
            let cuts = file.attr.cuts;
            let (grow_to, behind, mtime) = (Some(falloc.end), None, SetTime::Now);
            let op = Op::SetData { ino, handle, cuts, grow_to, behind, mtime, spilled: false, kill_priv };
            self.request(cred, op, Then::Task(id));
        }
        None
    }

    pub(crate) fn step_seek(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let (ino, cred) = (task.ino, Arc::clone(&task.cred));
        let Step::Seek(seek) = &mut task.step else { return None };
        match event {
            Event::Start => self.flush_then(ino, id),
            Event::Flushed => self.request(&cred, Op::GetAttr { ino }, Then::Task(id)),
            Event::Reply(result) => {
                let mut attr = match expect_entry(result) {
                    Ok(attr) => attr,
                    Err(error) => return Some(Err(error.into())),
                };
                self.files.overlay(&mut attr);
                if seek.offset >= attr.size {
                    return Some(Err(FsError::NoSuchOffset.into()));
                }
                if attr.inline {
                    // All of it is data, and the hole is at its end.
                    let at = if seek.data { seek.offset } else { attr.size };
                    return Some(Ok(Done::plain(Answer::Offset(at))));
                }
                let op = DataOp::Seek { offset: seek.offset, size: attr.size, data: seek.data };
                self.data_request(ino, op, DataThen::Task(id));
            }
            Event::Data(Ok(DataAnswer::Offset(Some(at)))) => return Some(Ok(Done::plain(Answer::Offset(at)))),
            Event::Data(Ok(_)) => return Some(Err(FsError::NoSuchOffset.into())),
            Event::Data(Err(DataError::Stale)) if seek.stale < STALE_MAX => {
                seek.stale += 1;
                self.request(&cred, Op::GetAttr { ino }, Then::Task(id));
            }
            Event::Data(Err(error)) => return Some(Err(data_error(error).into())),
            _ => {}
        }
        None
    }

    pub(crate) fn step_copy(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let cred = Arc::clone(&task.cred);
        let Step::Copy(copy) = &mut task.step else { return None };
        let finished = |copy: &Copy| Some(Ok(Done::plain(Answer::Offset(copy.copied))));
        match event {
            Event::Done(Err(_)) if copy.copied > 0 => return finished(copy),
            Event::Done(Err(error)) => return Some(Err(error)),
            Event::Done(Ok(Done { answer: Answer::Bytes(data), .. })) => {
                if data.is_empty() {
                    return finished(copy);
                }
                // The source ends here, even if it is the same file and grows by what is copied.
                if (data.len() as u64) < copy.left.min(CHUNK) {
                    copy.left = data.len() as u64;
                }
                let (fh, offset) = (copy.to, copy.to_offset + copy.copied);
                let write = crate::writing::Write { fh, offset, data, append: false, kill_priv: copy.kill_priv };
                self.write(Waiter::Task(id), &cred, write);
                return None;
            }
            Event::Done(Ok(Done { answer: Answer::Offset(n), .. })) => {
                copy.copied += n;
                copy.left = copy.left.saturating_sub(n);
            }
            _ => {}
        }
        if copy.left == 0 {
            return finished(copy);
        }
        let (fh, offset, len) = (copy.from, copy.from_offset + copy.copied, copy.left.min(CHUNK) as u32);
        self.read(Waiter::Task(id), &cred, fh, offset, len);
        None
    }

    pub(crate) fn sync_all(&mut self, waiter: Waiter, cred: &Arc<Cred>) {
        let step = Step::SyncAll { left: 0, closed: 0, losses: self.files.unsynced.losses() };
        let task = Task { waiter, cred: Arc::clone(cred), ino: Ino(0), exclusive: false, step };
        let id = self.calls.new_task(task);
        let inos: Vec<Ino> = self
            .files
            .map
            .iter()
            .filter(|(_, f)| f.unsynced || !f.is_clean() || f.run.is_some())
            .map(|(i, _)| *i)
            .collect();
        if let Some(Task { step: Step::SyncAll { left, .. }, .. }) = self.calls.tasks.get_mut(&id) {
            *left = inos.len() + 1;
        }
        for ino in inos {
            self.sync_then(ino, id);
        }
        self.calls.events.push_back((id, Event::Flushed));
    }

    /// Everything of which a rank has told this client is durable when it is answered, files that are open here apart.
    pub(crate) fn sync_ranks(&mut self, waiter: Waiter, cred: &Arc<Cred>) {
        let step = Step::SyncRanks { left: self.ranks.sessions.len() };
        let id = self.calls.new_task(Task { waiter, cred: Arc::clone(cred), ino: Ino(0), exclusive: false, step });
        self.ask_all_to_sync(id, cred);
    }

    /// Each rank makes durable what it has. How many were asked.
    fn ask_all_to_sync(&mut self, id: u64, cred: &Arc<Cred>) -> usize {
        let ranks: Vec<_> = self.ranks.sessions.keys().copied().collect();
        for rank in &ranks {
            self.request_at(*rank, Cred::clone(cred), Op::Sync, Then::Task(id), 0);
        }
        ranks.len()
    }

    pub(crate) fn step_sync_all(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        if !self.calls.is_waited_for(task.waiter) {
            return Some(Err(FsError::Unavailable.into()));
        }
        let cred = Arc::clone(&task.cred);
        let Step::SyncAll { left, closed, losses } = &mut task.step else { return None };
        match event {
            Event::Flushed => {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    // What was written through handles that are closed by now is the server's to make durable.
                    *closed = self.files.unsynced.closed;
                    *left = self.ask_all_to_sync(id, &cred);
                }
                None
            }
            Event::Reply(Err(error)) => Some(Err(error.into())),
            Event::Reply(Ok(_)) if *left > 1 => {
                *left -= 1;
                None
            }
            Event::Reply(Ok(answer)) => {
                self.files.unsynced.settled = self.files.unsynced.settled.max(*closed);
                Some(self.files.unsynced.tell(*losses).map_or(Ok(Done::plain(answer)), |error| Err(error.into())))
            }
            _ => None,
        }
    }
}

/// A rank has answered.
pub(crate) fn step_sync_ranks(left: &mut usize, event: Event) -> Option<CallResult> {
    let Event::Reply(result) = event else { return None };
    *left = left.saturating_sub(1);
    match result {
        Err(error) => Some(Err(error.into())),
        Ok(answer) => (*left == 0).then(|| Ok(Done::plain(answer))),
    }
}
