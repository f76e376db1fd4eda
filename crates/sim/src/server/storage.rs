//! The threads of journal and table: what they do when their time has come.

use loligo_mds::{Input, Now};
use loligo_namespace::MergeRows;
use loligo_store::{Batch, StoreError};
use loligo_types::Lsn;

use super::{Act, Server, TableWork, Work};
use crate::options::Canary;
use crate::rows;

impl Server {
    pub(super) fn kick_journal(&mut self) {
        if self.canary == Some(Canary::EarlyDurable)
            && let Some((lsn, _)) = self.appends.last()
        {
            let lsn = *lsn;
            self.mds.handle(Now::default(), Input::Durable { lsn });
        }
        if !self.journal_busy {
            self.journal_busy = true;
            self.out.push_back(Act::Begin(Work::JournalWrite));
        }
    }

    pub(super) fn journal_failed(&mut self, now: Now) {
        self.writer.fail();
        self.feed(now, Input::JournalFailed);
    }

    pub(super) fn journal_write(&mut self, now: Now) {
        for (lsn, record) in std::mem::take(&mut self.appends) {
            match self.writer.append(&record) {
                Ok(got) if got == lsn => {}
                other => return self.out.push_back(Act::Fatal(format!("record {lsn} came as {other:?}"))),
            }
        }
        match self.journal_batches() {
            // The next tick tries again; what was written before can be synced.
            Ok(()) | Err(StoreError::Full { .. }) => self.out.push_back(Act::Begin(Work::JournalSync)),
            Err(_) => self.journal_failed(now),
        }
    }

    pub(super) fn journal_batches(&mut self) -> std::result::Result<(), StoreError> {
        while let Some(batch) = self.waiting.take().or_else(|| self.writer.take_batch()) {
            if self.file.as_ref().is_none_or(|(id, _)| *id != batch.segment) {
                self.file = Some((batch.segment, self.log.create(batch.segment)?));
            }
            if let Some((_, file)) = &mut self.file
                && let Err(error) = file.append(&batch.bytes)
            {
                self.waiting = error.is_full().then_some(batch);
                return Err(error);
            }
            self.unsynced = Some(batch.last);
            self.writer.recycle(batch.bytes);
        }
        Ok(())
    }

    pub(super) fn journal_sync(&mut self, now: Now) {
        if let Some(lsn) = self.unsynced.take() {
            let lies = self.canary == Some(Canary::JournalSyncDoesNothing);
            if let Some((_, file)) = self.file.as_mut().filter(|_| !lies)
                && file.sync().is_err()
            {
                return self.journal_failed(now);
            }
            let durable = self.writer.synced(lsn);
            self.out.push_back(Act::Durable(durable));
            self.feed(now, Input::Durable { lsn: durable });
        }
        if self.waiting.is_some() {
            self.journal_busy = false;
        } else if self.writer.has_pending() || !self.appends.is_empty() {
            self.out.push_back(Act::Begin(Work::JournalWrite));
        } else {
            self.journal_busy = false;
        }
    }

    pub(super) fn push_table(&mut self, work: TableWork) {
        self.table_queue.push_back(work);
        if !self.table_busy {
            self.table_busy = true;
            self.out.push_back(Act::Begin(Work::Table));
        }
    }

    pub(super) fn table_work(&mut self, now: Now) {
        match self.table_queue.pop_front() {
            Some(TableWork::Checkpoint { id, records }) => match rows::batch_of(&*self.table, self.rank, &records) {
                Ok(rows) => self.write_rows(now, id, 0, rows),
                Err(_) => self.feed(now, Input::CheckpointFailed { id, full: false }),
            },
            Some(TableWork::MergeRows { id, rows }) => self.merge_rows(now, id, &rows),
            Some(TableWork::Rest { id, turn, rows }) => self.write_rows(now, id, turn, rows),
            Some(TableWork::Scan { ticket, what, from }) => {
                let rows = |start: &[u8], end: &[u8], limit: usize| self.table.scan(start, end, limit).map_err(drop);
                let page = what.page(self.rank, from, rows, |_, _| ()).ok();
                self.feed(now, Input::Scanned { ticket, page });
            }
            Some(TableWork::Trim { below }) => self.trim(below),
            Some(TableWork::Settle { replay_from, table_upto }) => self.settle(now, replay_from, table_upto),
            None => {}
        }
        self.table_busy = !self.table_queue.is_empty();
        if self.table_busy {
            self.out.push_back(Act::Begin(Work::Table));
        }
    }

    /// Writes rows of a checkpoint: all, or some of them, and the rest when the table's thread has its next turn.
    fn write_rows(&mut self, now: Now, id: u64, turn: u64, mut some: Batch) {
        let mut rows = Batch::new();
        if self.rows_apart && turn < 2 {
            // By what has nothing to do with what a row is.
            let is_later = |key: &[u8]| (u64::from(crc32c::crc32c(key)) + id) >> turn & 1 == 1;
            (rows.puts, some.puts) = some.puts.into_iter().partition(|(key, _)| is_later(key));
            (rows.deletes, some.deletes) = some.deletes.into_iter().partition(|key| is_later(key));
        }
        if !some.is_empty()
            && let Err(error) = self.table.write(&some, self.durability)
        {
            return self.feed(now, Input::CheckpointFailed { id, full: error.is_full() });
        }
        if rows.is_empty() {
            self.feed(now, Input::CheckpointDone { id });
        } else {
            self.table_queue.push_front(TableWork::Rest { id, turn: turn + 1, rows });
        }
    }

    /// Rows of a merge: in two writes, of which the second may fail.
    fn merge_rows(&mut self, now: Now, id: u64, rows: &MergeRows) {
        let mut merged = rows.rows();
        self.write_wrongly(&mut merged);
        let records = std::mem::take(&mut merged.records);
        let (first, second) = records.split_at(records.len() / 2);
        let written = [first, second].into_iter().all(|records| {
            let batch = rows::batch_of(&*self.table, self.rank, records);
            batch.is_ok_and(|batch| batch.is_empty() || self.table.write(&batch, self.durability).is_ok())
        });
        if written {
            self.trim_wrongly(rows.record.dir);
        }
        self.feed(now, Input::MergeRowsDone { id, merged: written.then(|| Box::new(merged)) });
    }

    /// Makes all that was written durable: it is to end, or be started again.
    pub fn sync_all(&self) -> bool {
        let from = rows::replay_from(&*self.table, self.rank);
        let table = from.and_then(|from| rows::put_replay_from(&*self.table, self.rank, from));
        table.is_ok() && self.blobs.sync_all().is_ok()
    }

    pub(super) fn trim(&mut self, below: Lsn) {
        let helps = self.writer.segments().nth(1).is_some_and(|second| second.first <= below);
        if helps && rows::put_replay_from(&*self.table, self.rank, below).is_ok() {
            self.cut_journal(below);
        }
    }

    pub(super) fn settle(&mut self, now: Now, replay_from: Lsn, table_upto: Lsn) {
        let lies = self.canary == Some(Canary::SettleDoesNothing);
        if lies || rows::put_settled(&*self.table, self.rank, replay_from, table_upto).is_ok() {
            self.cut_journal(replay_from);
            self.feed(now, Input::Settled { table_upto });
        }
    }

    pub(super) fn cut_journal(&mut self, below: Lsn) {
        for id in self.writer.trim(below) {
            // One that cannot be deleted is only in the way.
            let _ = self.log.delete(id);
        }
    }
}
