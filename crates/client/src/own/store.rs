//! The journal of a subtree that is decoupled for this client, on its way into the store ("global persist", Cudele §6.2): written into an object of
//! its own, synced, and then registered at the rank. What is not registered is nothing. The same as the client library does
//! (`subtree/store.rs` in the driver), without waiting. Not here: the form of the journal ([`loligo_subtree::Growing`]).

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use loligo_subtree::{Growing, Sink};
use loligo_types::limits::DATA_OP_MAX;
use loligo_types::msg::DataRequest;
use loligo_types::{
    Answer, Cred, DataAnswer, DataError, DataOp, FsError, FsResult, Ino, Layout, Op, StoredJournal, SubtreeOp,
};

use super::task::OwnTask;
use crate::machine::Client;
use crate::session::{DataThen, PendingData, Then};
use crate::task::data_error;

/// Pieces that are on their way at once.
const IN_FLIGHT: usize = 4;
/// It is begun anew so often because the rank began a new life.
const TRIES: u32 = 8;

/// A write of the journal to the store.
#[derive(Debug)]
pub(crate) struct Store {
    ino: Ino,
    /// As it is when all of this is durable.
    form: Growing,
    queue: VecDeque<(u64, Arc<[u8]>)>,
    /// The life of the subtree in which it was begun.
    life: u64,
    /// Changes that are in it then.
    changes: u64,
    /// The object that counted before.
    old: Option<Ino>,
    failed: Option<DataError>,
    /// Data requests that were not answered.
    left: usize,
    at: At,
}

/// The stage of the write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Writes,
    Syncs,
    /// The rank is told how much of it counts.
    Registers,
}

impl Store {
    /// True if the next answer of the rank is to the registration.
    pub fn registers(&self) -> bool {
        self.at == At::Registers
    }
}

/// Pieces of what is to be written.
struct Pieces {
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

impl Client {
    /// Puts what is outstanding into the store. What came of it, as soon as that is known.
    pub(super) fn own_store(&mut self, id: u64, own: &mut OwnTask) -> Option<FsResult<()>> {
        own.store_tries = 0;
        self.own_store_anew(id, own)
    }

    fn own_store_anew(&mut self, id: u64, own: &mut OwnTask) -> Option<FsResult<()>> {
        let fs = self.ranks.fs_id.unwrap_or_default();
        let Some(owned) = self.own.trees.get_mut(&own.root) else { return Some(Err(FsError::Stale)) };
        let changes = owned.machine.outstanding().changes;
        if changes == 0 {
            return Some(Ok(()));
        }
        let (record, groups) = (owned.machine.record().clone(), owned.machine.groups());
        let counts = record.journal.map(|journal| journal.ino);
        let mut pieces = Pieces { offset: 0, queue: VecDeque::new() };
        let (ino, mut form, begin) = match &owned.stored {
            Some((ino, form)) => {
                pieces.offset = form.bytes();
                (*ino, form.clone(), Vec::new())
            }
            None => {
                // Something for the one that was written last may still be under way.
                let taken = counts.or(owned.last_journal);
                let free = record.journal_inos().into_iter().find(|ino| Some(*ino) != taken);
                match (free, Growing::begin(fs, &record)) {
                    (Some(ino), Ok((form, begin))) => (ino, form, begin),
                    _ => return Some(Err(FsError::Io)),
                }
            }
        };
        // A sink in memory takes everything.
        if pieces.take(begin).and_then(|()| form.add_new(&record, &groups, &mut pieces)).is_err() {
            return Some(Err(FsError::FileTooBig));
        }
        if pieces.queue.is_empty() {
            owned.stored_changes = changes;
            return Some(Ok(()));
        }
        owned.last_journal = Some(ino);
        let old = counts.filter(|counts| *counts != ino);
        let life = owned.life;
        let (queue, at) = (pieces.queue, At::Writes);
        own.store = Some(Store { ino, form, queue, life, changes, old, failed: None, left: 0, at });
        self.own_store_on(id, own)
    }

    fn own_store_on(&mut self, id: u64, own: &mut OwnTask) -> Option<FsResult<()>> {
        let Some(store) = &mut own.store else { return Some(Err(FsError::Io)) };
        let ino = store.ino;
        let mut ops = Vec::new();
        while store.left < IN_FLIGHT
            && store.failed.is_none()
            && let Some((offset, data)) = store.queue.pop_front()
        {
            ops.push(DataOp::Write { offset, data });
            store.left += 1;
        }
        if ops.is_empty() && store.left == 0 && store.failed.is_none() {
            store.at = At::Syncs;
            store.left = 1;
            ops.push(DataOp::Sync);
        }
        ops.into_iter().for_each(|op| self.own_store_say(id, ino, op));
        None
    }

    fn own_store_say(&mut self, id: u64, ino: Ino, op: DataOp) {
        self.core.next_data += 1;
        let request = DataRequest { id: self.core.next_data, ino, object_size: Layout::default().object_size, op };
        let then = DataThen::OwnTask(id);
        self.own_data(self.core.next_data, PendingData { request, then, again: false, hops: 0 });
    }

    pub(super) fn own_store_data(
        &mut self,
        id: u64,
        own: &mut OwnTask,
        cred: &Arc<Cred>,
        result: Result<DataAnswer, DataError>,
    ) -> Option<FsResult<()>> {
        let life = self.own.trees.get(&own.root).map(|owned| owned.life);
        let Some(store) = &mut own.store else { return Some(Err(FsError::Io)) };
        store.left = store.left.saturating_sub(1);
        if let Err(error) = result {
            store.failed.get_or_insert(error);
        } else if life != Some(store.life) {
            // What was written before, and not synced, may be lost.
            store.failed.get_or_insert(DataError::Stale);
        }
        match store.failed {
            Some(_) if store.left > 0 => None,
            Some(DataError::Stale) if own.store_tries < TRIES => {
                own.store_tries += 1;
                if let Some(owned) = self.own.trees.get_mut(&own.root)
                    && owned.life == store.life
                {
                    owned.forget_rights();
                }
                self.own_store_anew(id, own)
            }
            Some(error) => {
                own.store = None;
                if let Some(owned) = self.own.trees.get_mut(&own.root) {
                    owned.stored = None;
                }
                Some(Err(data_error(error)))
            }
            None if store.at == At::Syncs => {
                store.form.synced();
                store.at = At::Registers;
                let journal = StoredJournal { ino: store.ino, bytes: store.form.bytes() };
                let epoch = self.own.trees.get(&own.root)?.machine.record().epoch;
                let op = Op::Subtree { dir: own.root, what: Box::new(SubtreeOp::Keep { epoch, journal }) };
                self.request_at(self.ranks.own_rank(own.root), Cred::clone(cred), op, Then::OwnTask(id), 0);
                None
            }
            None => self.own_store_on(id, own),
        }
    }

    pub(super) fn own_store_kept(&mut self, own: &mut OwnTask, result: FsResult<Answer>) -> FsResult<()> {
        let store = own.store.take().ok_or(FsError::Io)?;
        let owned = self.own.trees.get_mut(&own.root).ok_or(FsError::Stale)?;
        // If it is refused it may be registered all the same.
        let answer = result.inspect_err(|_| owned.stored = None)?;
        if let Some(record) = super::ask::record_of(answer) {
            owned.machine.take_record(record);
        }
        owned.stored = Some((store.ino, store.form));
        owned.stored_changes = store.changes;
        if let Some(old) = store.old {
            let drop = loligo_subtree::Drop { ino: old, from: 0, object_size: Layout::default().object_size };
            self.own_drop(vec![drop], None);
        }
        Ok(())
    }
}
