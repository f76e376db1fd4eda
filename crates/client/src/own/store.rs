//! The journal of a subtree that is decoupled for this client, on its way into the store ("global persist", Cudele §6.2): written into an object of
//! its own, synced, and then registered at the rank. What is not registered is nothing. The same as the client library does
//! (`subtree/store.rs` in the driver), without waiting. Not here: the form of the journal ([`loligo_subtree::Growing`]), and its
//! sending (`serve.rs`).

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use loligo_subtree::{Growing, Sink};
use loligo_types::limits::DATA_OP_MAX;
use loligo_types::{Answer, DataError, DataOp, FsError, FsResult, Ino};

use crate::own::Owned;
use crate::own::needs::record_of;

/// Pieces that are on their way at once.
const IN_FLIGHT: usize = 4;

/// A write of the journal to the store.
#[derive(Debug)]
pub(crate) struct Store {
    pub ino: Ino,
    /// As it is when all of this is durable.
    pub form: Growing,
    queue: VecDeque<(u64, Arc<[u8]>)>,
    /// The life of the subtree in which it was begun.
    pub life: u64,
    /// Changes that are in it then.
    changes: u64,
    /// The object that counted before.
    old: Option<Ino>,
    pub failed: Option<DataError>,
    /// Data requests that were not answered.
    pub left: usize,
    pub at: At,
}

/// The stage of the write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum At {
    Writes,
    Syncs,
    /// The rank is told how much of it counts.
    Registers,
}

impl Store {
    /// Data requests that can be sent now.
    pub fn next_ops(&mut self) -> Vec<DataOp> {
        let mut ops = Vec::new();
        while self.left < IN_FLIGHT
            && self.failed.is_none()
            && let Some((offset, data)) = self.queue.pop_front()
        {
            ops.push(DataOp::Write { offset, data });
            self.left += 1;
        }
        if ops.is_empty() && self.left == 0 && self.failed.is_none() {
            self.at = At::Syncs;
            self.left = 1;
            ops.push(DataOp::Sync);
        }
        ops
    }

    /// True if the next answer of the rank is to the registration.
    pub fn registers(&self) -> bool {
        self.at == At::Registers
    }
}

/// Pieces of what is to be written.
pub(crate) struct Pieces {
    offset: u64,
    queue: VecDeque<(u64, Arc<[u8]>)>,
}

impl Sink for Pieces {
    type Error = io::Error;

    fn take(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        for piece in bytes.chunks(DATA_OP_MAX) {
            self.queue.push_back((self.offset, piece.into()));
            self.offset += piece.len() as u64;
        }
        Ok(())
    }
}

impl Owned {
    /// Begins to put what is outstanding into the store; `None`: there is nothing.
    pub(super) fn begin_store(&mut self, fs: [u8; 16]) -> FsResult<Option<Store>> {
        let changes = self.machine.outstanding().changes;
        if changes == 0 {
            return Ok(None);
        }
        let (record, groups) = (self.machine.record().clone(), self.machine.groups());
        let counts = record.journal.map(|journal| journal.ino);
        let mut pieces = Pieces { offset: 0, queue: VecDeque::new() };
        let (ino, mut form, begin) = match &self.stored {
            Some((ino, form)) => {
                pieces.offset = form.bytes();
                (*ino, form.clone(), Vec::new())
            }
            None => {
                // Something for the one that was written last may still be under way.
                let taken = counts.or(self.last_journal);
                let free = record.journal_inos().into_iter().find(|ino| Some(*ino) != taken);
                match (free, Growing::begin(fs, &record)) {
                    (Some(ino), Ok((form, begin))) => (ino, form, begin),
                    _ => return Err(FsError::Io),
                }
            }
        };
        // A sink in memory takes everything.
        if pieces.take(begin).and_then(|()| form.add_new(&record, &groups, &mut pieces)).is_err() {
            return Err(FsError::FileTooBig);
        }
        if pieces.queue.is_empty() {
            self.stored_changes = changes;
            return Ok(None);
        }
        self.last_journal = Some(ino);
        let old = counts.filter(|counts| *counts != ino);
        let life = self.life;
        let (queue, at) = (pieces.queue, At::Writes);
        Ok(Some(Store { ino, form, queue, life, changes, old, failed: None, left: 0, at }))
    }

    /// The rank has registered the journal, or not: the object that counted before.
    pub(super) fn stored(&mut self, store: Store, result: FsResult<Answer>) -> FsResult<Option<Ino>> {
        // If it is refused it may be registered all the same.
        let answer = result.inspect_err(|_| self.stored = None)?;
        if let Some(record) = record_of(answer) {
            self.machine.take_record(record);
        }
        self.stored = Some((store.ino, store.form));
        self.stored_changes = store.changes;
        Ok(store.old)
    }
}
