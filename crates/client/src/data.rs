//! Calls that read and write data: what a read or a write needs is asked for here; what that is decide these themselves (`reading`,
//! `writing`). Not here: writing back what is held back (`flush`).

use std::sync::Arc;

use loligo_types::limits::DATA_OP_MAX;
use loligo_types::{Answer, Cred, DataAnswer, DataError, DataOp, FsError, Ino, Op, Rank};

use crate::blocks::{BLOCK, Fetch};
use crate::cache::blocks;
use crate::calls::Waiter;
use crate::machine::Client;
use crate::reading::{self, Block, Read, STALE_MAX};
use crate::session::{DataThen, Then};
use crate::space::{CHUNK, Copy};
use crate::task::{Event, Step, Task, data_error, expect_entry};
use crate::writing::{self, Write, Writing};
use crate::{CallResult, Done, Fh};

impl Client {
    pub(crate) fn read(&mut self, waiter: Waiter, cred: &Arc<Cred>, fh: Fh, offset: u64, len: u32) {
        let ino = match self.files.file_of(fh, false) {
            Ok((ino, _)) => ino,
            Err(error) => {
                let error = if error == FsError::Stale { self.files.dead_error(fh) } else { error };
                return self.calls.fail(&mut self.core, waiter, error);
            }
        };
        let len = u64::from(len).min(DATA_OP_MAX as u64);
        let Some(end) = offset.checked_add(len) else {
            return self.calls.fail(&mut self.core, waiter, FsError::Invalid);
        };
        if let Some(bytes) = self.files.read_now(&self.ranks, &self.own, ino, offset, end) {
            self.files.after_read(&mut self.core, ino, fh);
            self.read_ahead(ino, fh, offset, offset + bytes.len() as u64);
            return self.calls.answer(&mut self.core, waiter, Answer::Bytes(bytes));
        }
        let id = self.calls.spawn(waiter, cred, ino, Step::Read(Read::new(fh, offset, len, end)));
        if let Some(file) = self.files.map.get_mut(&ino) {
            file.reads.push(id);
        }
    }

    pub(crate) fn step_read(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let ino = task.ino;
        let cred = Arc::clone(&task.cred);
        let Step::Read(read) = &mut task.step else { return None };
        let mut next = read.heard(&mut self.files, &mut self.core, ino, event);
        loop {
            next = match next {
                reading::Next::Wait => return None,
                reading::Next::Ask(op) => {
                    self.request(&cred, op, Then::Task(id));
                    return None;
                }
                reading::Next::Begin => read.begin(&mut self.files, &mut self.core, &self.ranks, &self.own, ino),
                reading::Next::Fetch { inline, size } => self.fetch(id, ino, read, inline, size),
                reading::Next::Done(result) => return Some(result),
            };
        }
    }

    /// Asks for the bytes. `size`: of the file at the server.
    pub(crate) fn fetch(&mut self, id: u64, ino: Ino, read: &mut Read, inline: bool, size: u64) -> reading::Next {
        if read.offset >= read.end {
            return read.finish(&self.files, &mut self.core, ino);
        }
        if inline {
            return read.fetch_inline(&self.files, ino);
        }
        let Some(wanted) = read.fetch_objects(&self.files, ino, size) else {
            return reading::Next::Done(Err(FsError::Stale.into()));
        };
        for (start, stop) in wanted.parts {
            if wanted.blocks {
                self.fetch_blocks(id, ino, read, start, stop);
            } else {
                self.fetch_exactly(id, ino, read, start, stop);
            }
        }
        if read.missing == 0 {
            return read.finish(&self.files, &mut self.core, ino);
        }
        if wanted.cache {
            self.read_ahead(ino, read.fh, read.offset, read.end);
        }
        reading::Next::Wait
    }

    fn fetch_exactly(&mut self, id: u64, ino: Ino, read: &mut Read, start: u64, stop: u64) {
        let op = DataOp::Read { offset: start, len: (stop - start) as u32 };
        read.missing += 1;
        self.data_request(ino, op, DataThen::Read { task: id, at: start });
    }

    fn fetch_blocks(&mut self, id: u64, ino: Ino, read: &mut Read, start: u64, stop: u64) {
        self.files.tick += 1;
        let tick = self.files.tick;
        for block in blocks(start, stop) {
            let (from, to) = (start.max(block), stop.min(block + BLOCK));
            match read.take_block(&mut self.files, id, ino, block, to, tick) {
                Block::Taken => {}
                Block::Exactly => self.fetch_exactly(id, ino, read, from, to),
                Block::Whole => self.start_fetch(ino, block, vec![id]),
                Block::Gone => return,
            }
        }
    }

    fn start_fetch(&mut self, ino: Ino, block: u64, readers: Vec<u64>) {
        let Some(file) = self.files.map.get(&ino) else { return };
        let end = (block + BLOCK).min(file.attr.size);
        let op = DataOp::Read { offset: block, len: (end - block) as u32 };
        let request = self.data_request(ino, op, DataThen::Block { ino, start: block });
        if let Some(file) = self.files.map.get_mut(&ino) {
            file.blocks.fetches.insert(block, Fetch { request, end, tainted: false, readers });
        }
    }

    /// Fetches what a sequential reader will want next.
    pub(crate) fn read_ahead(&mut self, ino: Ino, fh: Fh, offset: u64, end: u64) {
        for block in self.files.wanted_ahead(&self.core, ino, fh, offset, end) {
            self.start_fetch(ino, block, Vec::new());
        }
    }

    pub(crate) fn write(&mut self, waiter: Waiter, cred: &Arc<Cred>, write: Write) {
        let (ino, handle) = match self.files.check_write(&write) {
            Ok(found) => found,
            Err(error) => return self.calls.fail(&mut self.core, waiter, error),
        };
        if write.data.is_empty() {
            return self.calls.answer(&mut self.core, waiter, Answer::Offset(0));
        }
        if !self.files.map.contains_key(&ino) {
            return self.calls.fail(&mut self.core, waiter, FsError::Stale);
        }
        let len = write.data.len() as u64;
        if self.files.takes_write(&self.core, ino, &write) && !self.files.is_suspended(&self.ranks, &self.own, ino) {
            if let Err(error) = self.files.buffer(&self.core, ino, &write) {
                return self.calls.fail(&mut self.core, waiter, error);
            }
            return self.accept(waiter, ino, len);
        }
        let step = Step::Write(Writing::new(write, handle));
        let task = Task { waiter, cred: Arc::clone(cred), ino, exclusive: true, step };
        self.files.spawn_exclusive(&mut self.calls, &self.ranks, &self.own, task);
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
        if self.files.lacks_room(&mut self.core, &mut self.calls) {
            for ino in self.files.dirty.clone() {
                self.start_run(ino);
            }
        }
    }

    pub(crate) fn step_write(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let result = self.step_writing(id, task, event);
        if let (Some(Err(_)), Some(file)) = (&result, self.files.map.get_mut(&task.ino)) {
            file.leaves_bytes = true;
        }
        if let (Some(Err(_)), Step::Write(writing)) = (&result, &task.step)
            && writing.leaves_something(&self.files)
        {
            // Others may wait for the room, and what is left there must not show when they let the file grow over it.
            let op = Op::Extend { ino: task.ino, handle: writing.handle, len: 0 };
            self.request(&task.cred, op, Then::Nothing);
        }
        result
    }

    fn step_writing(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let (ino, cred) = (task.ino, Arc::clone(&task.cred));
        let Step::Write(writing) = &mut task.step else { return None };
        if writing.ends_discard(&event) {
            if let Some(file) = self.files.map.get_mut(&ino) {
                file.discarding = false;
            }
            self.step_recalls(ino);
        }
        let mut next = writing.heard(&mut self.files, &mut self.core, &mut self.calls, &mut self.ranks, ino, event);
        loop {
            match next {
                writing::Next::Wait => return None,
                writing::Next::Ask(op) => {
                    self.request(&cred, op, Then::Task(id));
                    return None;
                }
                writing::Next::Look(times) => {
                    self.refresh(&cred, ino, Then::Task(id), times);
                    return None;
                }
                writing::Next::Data(op) => {
                    let goes_on = matches!(op, DataOp::Write { .. });
                    self.data_request(ino, op, DataThen::Task(id));
                    if !goes_on {
                        return None;
                    }
                    next = writing::Next::Pieces;
                }
                writing::Next::Flush => {
                    self.flush_then(ino, id);
                    return None;
                }
                writing::Next::Begin => next = writing.begin(&mut self.files, &self.core, ino, &cred),
                writing::Next::Through => next = writing.through(&mut self.files, &self.ranks, ino),
                writing::Next::Pieces => next = writing.next_piece(&mut self.files, ino),
                writing::Next::Buffered { full } => {
                    if full {
                        self.kick(ino);
                    }
                    return Some(writing.written());
                }
                writing::Next::Done(result) => return Some(result),
            }
        }
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
}
