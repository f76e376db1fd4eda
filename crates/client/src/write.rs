//! Writing: into the buffer where the server has lent the right to hold back, else through to the server. Here is asked for what a
//! write needs; what that is decides the write itself (`writing`).

use std::sync::Arc;

use loligo_types::{Answer, Cred, DataError, DataOp, FsError, Ino, Op, Rank};

use crate::CallResult;
use crate::machine::{Client, Waiter};
use crate::session::{DataThen, Then};
use crate::task::{Event, Step, Task};
use crate::writing::{Next, Write, Writing};

impl Client {
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
                Next::Wait => return None,
                Next::Ask(op) => {
                    self.request(&cred, op, Then::Task(id));
                    return None;
                }
                Next::Look(times) => {
                    self.refresh(&cred, ino, Then::Task(id), times);
                    return None;
                }
                Next::Data(op) => {
                    let goes_on = matches!(op, DataOp::Write { .. });
                    self.data_request(ino, op, DataThen::Task(id));
                    if !goes_on {
                        return None;
                    }
                    next = Next::Pieces;
                }
                Next::Flush => {
                    self.flush_then(ino, id);
                    return None;
                }
                Next::Begin => next = writing.begin(&mut self.files, &self.core, ino, &cred),
                Next::Through => next = writing.through(&mut self.files, &self.ranks, ino),
                Next::Pieces => next = writing.next_piece(&mut self.files, ino),
                Next::Buffered { full } => {
                    if full {
                        self.kick(ino);
                    }
                    return Some(writing.written());
                }
                Next::Done(result) => return Some(result),
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
}
