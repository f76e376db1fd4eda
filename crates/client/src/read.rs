//! Reading: from what waits to be written, from the content or blocks kept, and from the server. Here is asked for what a read
//! needs; what that is decides the read itself (`reading`).

use std::sync::Arc;

use loligo_types::limits::DATA_OP_MAX;
use loligo_types::{Answer, Cred, DataOp, FsError, Ino};

use crate::blocks::{BLOCK, Fetch};
use crate::machine::{Client, Waiter};
use crate::reading::{Block, Next, Read, blocks};
use crate::session::{DataThen, Then};
use crate::task::{Event, Step, Task};
use crate::{CallResult, Fh};

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
                Next::Wait => return None,
                Next::Ask(op) => {
                    self.request(&cred, op, Then::Task(id));
                    return None;
                }
                Next::Begin => read.begin(&mut self.files, &mut self.core, &self.ranks, &self.own, ino),
                Next::Fetch { inline, size } => self.fetch(id, ino, read, inline, size),
                Next::Done(result) => return Some(result),
            };
        }
    }

    /// Asks for the bytes. `size`: of the file at the server.
    fn fetch(&mut self, id: u64, ino: Ino, read: &mut Read, inline: bool, size: u64) -> Next {
        if read.offset >= read.end {
            return self.files.finish_read(&mut self.core, ino, read);
        }
        if inline {
            return read.fetch_inline(&self.files, ino);
        }
        let Some(wanted) = read.fetch_objects(&self.files, ino, size) else {
            return Next::Done(Err(FsError::Stale.into()));
        };
        for (start, stop) in wanted.parts {
            if wanted.blocks {
                self.fetch_blocks(id, ino, read, start, stop);
            } else {
                self.fetch_exactly(id, ino, read, start, stop);
            }
        }
        if read.missing == 0 {
            return self.files.finish_read(&mut self.core, ino, read);
        }
        if wanted.cache {
            self.read_ahead(ino, read.fh, read.offset, read.end);
        }
        Next::Wait
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
    fn read_ahead(&mut self, ino: Ino, fh: Fh, offset: u64, end: u64) {
        for block in self.files.wanted_ahead(&self.core, ino, fh, offset, end) {
            self.start_fetch(ino, block, Vec::new());
        }
    }
}
