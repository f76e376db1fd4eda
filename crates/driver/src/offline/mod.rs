//! A file system without a server: all its records for fsck, dump and load, those of all ranks' journals included, and
//! repairs.
//!
//! The table is streamed; what the journals add is held in memory. Decides nothing about what is right.

pub mod copy;
mod journals;
mod pending;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use loligo_journal::table::{
    KeyRange, Meta, Row, decode_row, key_policied, split_policied_key, split_xattr_key, xattr_range,
};
use loligo_journal::{DataRecord, DecodeError, Source, Tail};
use loligo_namespace::hash63;
use loligo_osd::Effect;
use loligo_rows::{Head, put_event, put_finished, put_meta, read_head, read_values};
use loligo_store::{Backend, Batch, Durability, StoreError, Table};
use loligo_types::{Event, Ino, Inode, Name, Place, Rank};

use crate::server::error::{Result, bad_row};
use crate::server::format::{FormatOptions, first_rows, hash_key};
use crate::server::members::Members;
use crate::server::recover::Progress;
use journals::Overlay;
pub use pending::Pending;

/// Rows read, or written, at a time.
const ROWS: usize = 1024;

/// A visited row: its key, and the row if it can be understood.
pub type Seen<'a> = (&'a [u8], std::result::Result<Row, DecodeError>);

/// A rank's journal that lies elsewhere than in the store.
pub type Elsewhere<'a> = (Rank, &'a mut dyn Source<Error = StoreError>);

/// An opened file system. Its store's lock is held as long as this lives.
pub struct Offline {
    backend: Arc<dyn Backend>,
    table: Arc<dyn Table>,
    hash_key: (u64, u64),
    head: Head,
    /// The lowest rank there is: repairs are its.
    lowest: Rank,
    /// Rows by the journals.
    overlay: Overlay,
    /// Inodes whose xattr rows in the table do not count.
    swept: BTreeSet<Ino>,
    tails: Vec<(Rank, Tail)>,
    next_inos: BTreeMap<Rank, Ino>,
    damage: Vec<String>,
    /// Bytes of files that only the journals have.
    data: Vec<DataRecord>,
}

impl Offline {
    /// Reads the journals of all ranks. Changes nothing.
    pub fn open(backend: Arc<dyn Backend>, progress: &mut dyn FnMut(Progress)) -> Result<Offline> {
        let head = read_head(&*backend.table(), Rank::ZERO)?;
        Offline::with(backend, head, None, progress)
    }

    /// The same, as if this were a rank's journal in place of the one that it has, which is not looked at. Only to see what that would be:
    /// what is written then must find it in its place.
    pub fn open_with(
        backend: Arc<dyn Backend>,
        journal: Elsewhere<'_>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Offline> {
        let head = read_head(&*backend.table(), Rank::ZERO)?;
        Offline::with(backend, head, Some(journal), progress)
    }

    /// Begins a file system in an empty store, with a root directory. Whenever it is cut off before [`Offline::finish`],
    /// nobody takes what there is for a file system.
    pub fn begin(backend: Arc<dyn Backend>, options: &FormatOptions) -> Result<Offline> {
        let rows = first_rows(&*backend, options)?;
        backend.table().write(&rows, Durability::Sync)?;
        let head = read_values(&*backend.table(), Rank::ZERO)?;
        Offline::with(backend, head, None, &mut |_| ())
    }

    fn with(
        backend: Arc<dyn Backend>,
        head: Head,
        elsewhere: Option<Elsewhere<'_>>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Offline> {
        let table = backend.table();
        let members = Members::read(&*table, head.ranks)?;
        let lowest = members.states.keys().next().copied().unwrap_or(Rank::ZERO);
        let hash_key = hash_key(&*backend);
        let journals = journals::read(&*backend, &head, hash_key, elsewhere, progress)?;
        Ok(Offline {
            hash_key,
            table,
            head,
            lowest,
            overlay: journals.overlay,
            swept: journals.swept,
            tails: journals.tails,
            next_inos: journals.next_inos,
            damage: journals.damage,
            data: journals.data,
            backend,
        })
    }

    /// The store.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// True if the last server stopped cleanly.
    pub fn was_clean(&self) -> bool {
        self.head.clean
    }

    /// End of each rank's journal, in the order of the ranks.
    pub fn tails(&self) -> &[(Rank, Tail)] {
        &self.tails
    }

    /// Contradictions in the journals, in words: letters that are lost, rows that two ranks claim. Settling the journals ends them.
    pub fn damage(&self) -> &[String] {
        &self.damage
    }

    /// The hash under which a name is found in its directory.
    pub fn hash(&self, name: &Name) -> u64 {
        hash63(self.hash_key, name.as_bytes())
    }

    /// The key under which names are hashed.
    pub fn hash_key(&self) -> (u64, u64) {
        self.hash_key
    }

    /// Inode numbers of a rank's range below this may be in use. Of other ranks none are.
    pub fn next_inos(&self) -> &BTreeMap<Rank, Ino> {
        &self.next_inos
    }

    /// The row with this key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Row>> {
        let value = match self.overlay.get(key) {
            Some(covered) => covered.clone(),
            None if self.is_swept(key) => None,
            None => self.table.get(key)?,
        };
        value.map(|value| decode_row(key, &value)).transpose().map_err(|e| bad_row(key, &e))
    }

    fn is_swept(&self, key: &[u8]) -> bool {
        let of_xattr = || split_xattr_key(key).map(|(ino, _)| ino);
        split_policied_key(key).or_else(of_xattr).is_some_and(|ino| self.swept.contains(&ino))
    }

    /// Visits all rows in the order of their keys, in bounded memory, until the visit breaks.
    pub fn rows(&self, visit: &mut dyn FnMut(Seen<'_>) -> ControlFlow<()>) -> Result<()> {
        self.rows_in(&KeyRange { start: Vec::new(), end: Vec::new() }, visit)
    }

    /// Visits the rows of a range (an empty end: to the last row).
    pub fn rows_in(&self, range: &KeyRange, visit: &mut dyn FnMut(Seen<'_>) -> ControlFlow<()>) -> Result<()> {
        let end = if range.end.is_empty() { Bound::Unbounded } else { Bound::Excluded(range.end.clone()) };
        let mut over = self.overlay.range((Bound::Included(range.start.clone()), end)).peekable();
        let mut start = range.start.clone();
        loop {
            let rows = self.table.scan(&start, &range.end, ROWS)?;
            let more = rows.len() == ROWS;
            for (key, value) in &rows {
                while let Some((over_key, covered)) = over.next_if(|(over_key, _)| **over_key < *key) {
                    if show(over_key, covered.as_deref(), visit).is_break() {
                        return Ok(());
                    }
                }
                let covered = over.next_if(|(over_key, _)| **over_key == *key).map(|(_, covered)| covered.as_deref());
                let value = covered.unwrap_or_else(|| (!self.is_swept(key)).then_some(value.as_slice()));
                if show(key, value, visit).is_break() {
                    return Ok(());
                }
            }
            match rows.last() {
                Some((key, _)) if more => {
                    start.clone_from(key);
                    start.push(0);
                }
                _ => break,
            }
        }
        for (key, covered) in over {
            if show(key, covered.as_deref(), visit).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Bytes of file data that only the journals have.
    pub fn data_bytes(&self) -> u64 {
        self.data.iter().map(|record| record.patches.len() as u64).sum()
    }

    /// Writes the data that only the journals have into its objects, durably.
    fn settle_data(&mut self) -> Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        let blobs = self.backend.blobs();
        for DataRecord { ino, object_size, patches, .. } in &self.data {
            let (ino, object_size, patches) = (*ino, u64::from(*object_size), Arc::clone(patches));
            loligo_osd::execute(&*blobs, &Effect::Patch { ino, object_size, patches })?;
        }
        blobs.sync_all()?;
        self.data.clear();
        Ok(())
    }

    /// Puts everything that the journals say into the table and into objects, durably: from then on the journals are not needed.
    pub fn settle(&mut self) -> Result<()> {
        self.settle_data()?;
        let mut batch = Batch::new();
        put_meta(&mut batch, Meta::Clean, Rank::ZERO, 0);
        for ino in std::mem::take(&mut self.swept) {
            let (range, noted) = (xattr_range(ino), key_policied(ino));
            if !self.overlay.contains_key(&noted) {
                batch.delete(noted);
            }
            loligo_rows::scan(&*self.table, &range.start, &range.end, &mut |key, _| {
                if !self.overlay.contains_key(key) {
                    batch.delete(key);
                }
                Ok(())
            })?;
        }
        for (key, value) in &self.overlay {
            match value {
                Some(value) => batch.put(key.clone(), value.clone()),
                None => batch.delete(key.clone()),
            };
            if batch.puts.len() + batch.deletes.len() >= ROWS {
                self.table.write(&std::mem::take(&mut batch), Durability::Buffered)?;
            }
        }
        self.table.write(&batch, Durability::Sync)?;
        self.overlay.clear();
        let mut head = Batch::new();
        for (rank, tail) in &self.tails {
            put_meta(&mut head, Meta::ReplayFrom, *rank, tail.next_lsn.0);
        }
        self.table.write(&head, Durability::Sync)?;
        Ok(())
    }

    /// Writes repairs (`..Gone` events remove rows), as those of the lowest rank there is where a row says whose it is, and
    /// where an inode floats at rank 0 and that was removed; `NextIno` is that of the rank in whose range it lies. The journals are settled first. Nothing is sure before [`Offline::close`].
    pub fn write(&mut self, events: &[Event]) -> Result<()> {
        let mut batch = Batch::new();
        for event in events {
            let hash = match event {
                Event::Entry { name, .. } | Event::EntryGone { name, .. } => self.hash(name),
                _ => 0,
            };
            let rank = match event {
                Event::NextIno(ino) => ino.birth_rank(),
                _ => self.lowest,
            };
            match event {
                Event::Inode(inode) if inode.place == Place::floating(Rank::ZERO) => {
                    let there = Inode { place: Place::floating(self.lowest), ..(**inode).clone() };
                    put_event(&mut batch, &Event::Inode(Box::new(there)), hash, rank);
                }
                event => put_event(&mut batch, event, hash, rank),
            }
        }
        self.write_batch(batch)
    }

    /// Removes rows by their keys, also such as cannot be understood.
    pub fn remove(&mut self, keys: &[Vec<u8>]) -> Result<()> {
        let mut batch = Batch::new();
        for key in keys {
            batch.delete(key.clone());
        }
        self.write_batch(batch)
    }

    fn write_batch(&mut self, batch: Batch) -> Result<()> {
        if !self.overlay.is_empty() || !self.swept.is_empty() || !self.data.is_empty() {
            self.settle()?;
        }
        self.table.write(&batch, Durability::Buffered)?;
        Ok(())
    }

    /// Makes what was begun and written a file system, durably.
    pub fn finish(self) -> Result<()> {
        self.table.flush()?;
        let mut batch = Batch::new();
        put_finished(&mut batch);
        self.table.write(&batch, Durability::Sync)?;
        self.close()
    }

    /// Leaves everything as it is: the store is closed as after a look, and the next server recovers what there is to be recovered.
    pub fn leave(self) -> Result<()> {
        Ok(self.backend.close()?)
    }

    /// Makes repairs durable; the next server starts as after a clean stop.
    pub fn close(mut self) -> Result<()> {
        self.settle()?;
        let mut batch = Batch::new();
        put_meta(&mut batch, Meta::Clean, Rank::ZERO, 1);
        // Clients that lived on cannot be sure of what they wrote and did not tell: repairs may have removed it.
        put_meta(&mut batch, Meta::DataEpoch, Rank::ZERO, self.head.data_epoch.wrapping_add(1).max(1));
        self.table.write(&batch, Durability::Sync)?;
        self.backend.close()?;
        Ok(())
    }
}

fn show(key: &[u8], value: Option<&[u8]>, visit: &mut dyn FnMut(Seen<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
    match value {
        Some(value) => visit((key, decode_row(key, value))),
        None => ControlFlow::Continue(()),
    }
}
