//! Makes the first records of a file system in an empty store. Not the store's own format: that comes before.

use std::time::SystemTime;

use loligo_journal::table::{Meta, TABLE_VERSION, encode_note, key_policies_noted};
use loligo_namespace::{Tree, hash63};
use loligo_store::{Backend, Batch, Durability};
use loligo_types::{Event, Ino, Rank, Time};

use super::error::{Result, ServerError};
use super::recover::check_layout;
use super::rows::{put_event, put_meta};

/// What the root directory is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FormatOptions {
    /// Permission bits of the root directory.
    pub mode: u16,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

impl Default for FormatOptions {
    fn default() -> FormatOptions {
        FormatOptions { mode: 0o755, uid: 0, gid: 0 }
    }
}

/// Makes the root directory and the table's head, in one durable batch. Refuses a store that has a file system.
pub fn format(backend: &dyn Backend, options: &FormatOptions) -> Result<()> {
    let mut batch = first_rows(backend, options)?;
    put_finished(&mut batch);
    backend.table().write(&batch, Durability::Sync)?;
    Ok(())
}

/// All that [`format`] writes but the row that says that there is a file system. Refuses a store that has one.
pub(crate) fn first_rows(backend: &dyn Backend, options: &FormatOptions) -> Result<Batch> {
    match check_layout(&*backend.table()) {
        Ok(()) => return Err(ServerError::AlreadyFormatted),
        Err(ServerError::NotFormatted) => {}
        Err(other) => return Err(other),
    }
    let key = hash_key(backend);
    let mut batch = Batch::new();
    // Above FIRST, which says to the metadata server that there is a root.
    let mut next_ino = Ino(Ino::FIRST.0 + 1);
    for event in Tree::format(now(), options.mode, options.uid, options.gid) {
        match &event {
            Event::Entry { name, .. } => put_event(&mut batch, &event, hash63(key, name.as_bytes()), Rank::ZERO),
            Event::NextIno(ino) => next_ino = next_ino.max(*ino),
            _ => put_event(&mut batch, &event, 0, Rank::ZERO),
        }
    }
    put_meta(&mut batch, Meta::NextIno, Rank::ZERO, next_ino.0);
    put_meta(&mut batch, Meta::ReplayFrom, Rank::ZERO, 1);
    put_meta(&mut batch, Meta::Ranks, Rank::ZERO, 1);
    put_meta(&mut batch, Meta::Clean, Rank::ZERO, 1);
    Ok(batch)
}

/// The row without which nobody takes what is in the table for a file system.
pub(crate) fn put_finished(batch: &mut Batch) {
    put_meta(batch, Meta::Format, Rank::ZERO, TABLE_VERSION);
    batch.put(key_policies_noted(), encode_note(&[]));
}

/// The key under which a file system's names are hashed.
pub(crate) fn hash_key(backend: &dyn Backend) -> (u64, u64) {
    let bytes = backend.identity().hash_key;
    let (low, high) = bytes.split_at(8);
    let half = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("half of 16 bytes"));
    (half(low), half(high))
}

/// The wall clock.
pub(crate) fn now() -> Time {
    let ns = match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |ns| -ns),
    };
    Time(ns)
}
