//! Data of files in the journal: small writes that a client syncs come with the file's size and are durable with the same record. Here from
//! that record until their objects have them durably. Not here: the order of a file's operations, which is the object server's.
//!
//! 1. The record is durable: the object server is told to write the bytes, before the answer leaves. So whoever knows of the write reads it.
//! 2. From time to time the object server makes durable what it has written so; a record says so.
//! 3. That record is durable: the object server forgets which bytes those were. Until then it changes none of them past the journal, or the
//!    repetition of a record after a crash would undo that change.
//!
//! After a crash the records that count are given to the object server again, before anybody can ask for the files.

use std::collections::VecDeque;

use loligo_journal::{DataLog, DataRecord};
use loligo_types::{Event, FsError, Ino, Lsn, Patches, StatFs};

use crate::core::Core;
use crate::io::Output;

/// With so many bytes in the journal only, objects are made durable.
const SETTLE_BYTES: u64 = 16 << 20;
/// With so many more data is not taken into the journal.
const MOST_BYTES: u64 = 2 * SETTLE_BYTES;
/// Time after which objects are made durable again if they had nothing of the journal's data yet, milliseconds.
pub(crate) const AGAIN_MS: u64 = 5;
/// So much of the store must be free, beside what the journal has already, for data to be taken: it must get into objects later.
const FREE_MIN: u64 = 64 << 20;

/// Data in the journal.
#[derive(Default)]
pub(crate) struct Data {
    log: DataLog,
    /// Records that are not durable yet, oldest first.
    waiting: VecDeque<DataRecord>,
    /// Records that say which bytes are in place, and are not durable yet.
    in_place: VecDeque<(Lsn, Ino, Lsn)>,
    /// The object server was asked to put all in place.
    pub(crate) settling: bool,
    /// Since when something waits for that, milliseconds.
    pub(crate) since_ms: u64,
    /// The last answer to that brought nothing: not before this time again, milliseconds.
    pub(crate) not_before_ms: u64,
    /// Some of it waits for room on the disk.
    pub(crate) no_room: bool,
    /// Bytes that went into the journal in this life.
    taken: u64,
}

impl Data {
    /// The oldest record of which objects do not have all durably.
    pub(crate) fn oldest(&self) -> Option<Lsn> {
        self.log.oldest()
    }

    /// Bytes and files of which only the journal is known to have all.
    pub(crate) fn held(&self) -> (u64, usize) {
        (self.log.bytes(), self.log.files())
    }

    /// Bytes that went into the journal in this life.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// A record of the journal says so, in replay.
    #[inline]
    pub(crate) fn replay(&mut self, lsn: Lsn, event: &Event) {
        if !self.log.is_empty() || matches!(event, Event::Data { .. }) {
            self.log.note(lsn, event);
        }
    }

    /// A record that is made says so.
    pub(crate) fn note(&mut self, lsn: Lsn, event: &Event, now_ms: u64) {
        if self.log.is_empty() {
            self.since_ms = now_ms;
        }
        self.replay(lsn, event);
        match event {
            Event::Data { ino, object_size, patches } => {
                self.taken += patches.len() as u64;
                let (ino, object_size, patches) = (*ino, *object_size, patches.clone());
                self.waiting.push_back(DataRecord { lsn, ino, object_size, patches });
            }
            Event::DataInPlace { ino, upto } => self.in_place.push_back((lsn, *ino, *upto)),
            _ => {}
        }
    }

    /// The journal was replayed: all that counts is written again.
    pub(crate) fn recovered(&mut self, now_ms: u64) {
        self.since_ms = now_ms;
        self.waiting = self.log.iter().cloned().collect();
    }

    /// Why data does not go into the journal now.
    pub(crate) fn refusal(&self, core: &Core, statfs: &StatFs, patches: &Patches) -> Option<FsError> {
        let held = self.log.bytes();
        let fits = patches.len() as u64 <= u64::from(core.config.journal_max) && held <= MOST_BYTES;
        let room = !core.log.no_room && !core.log.full && !core.log.stuck;
        let free = statfs.bytes == 0 || statfs.bytes_free >= FREE_MIN + 2 * held;
        // Nothing orders what clients write in the store by themselves with what is written for the journal.
        let ordered = core.config.direct.is_none();
        (!fits || !room || !free || !ordered || core.stopping).then_some(FsError::NotSupported)
    }

    /// True if it is time to have all put in place.
    fn is_due(&self, core: &Core) -> bool {
        let now = core.now.mono_ms;
        let long = core.log.limit > 0 && core.log.used > core.log.limit / 2;
        let old = now >= self.since_ms + core.config.dirty_ms_max;
        core.stopping || core.log.no_room || long || old || self.log.bytes() >= SETTLE_BYTES
    }
}

impl Core {
    /// Gives out the data whose record is durable, and what is known to be in place.
    pub(crate) fn emit_data(&mut self) {
        let durable = self.log.durable;
        while self.data.waiting.front().is_some_and(|record| record.lsn <= durable) {
            let Some(DataRecord { lsn, ino, object_size, patches }) = self.data.waiting.pop_front() else { break };
            self.out.push_back(Output::WriteData { lsn, ino, object_size, patches });
        }
        while self.data.in_place.front().is_some_and(|(lsn, ..)| *lsn <= durable) {
            let Some((_, ino, upto)) = self.data.in_place.pop_front() else { break };
            self.out.push_back(Output::DataInPlace { ino, upto });
        }
    }

    /// Has all data in the journal put in place if it is time; `now`: in any case.
    pub(crate) fn settle_data(&mut self, now: bool) {
        // A record is given to the object server when it is durable.
        let is_out = self.data.oldest().is_some_and(|oldest| oldest <= self.log.durable);
        let waits = self.data.settling || self.now.mono_ms < self.data.not_before_ms;
        if waits || !is_out || !(now || self.data.is_due(self)) {
            return;
        }
        self.data.settling = true;
        self.out.push_back(Output::SettleData);
    }
}
