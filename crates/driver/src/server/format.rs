//! Makes the first records of a file system in an empty store. Not the store's own format: that comes before.

use std::time::SystemTime;

use loligo_rows::{Error as RowsError, FirstRows, check_layout, put_finished};
use loligo_store::{Backend, Batch, Durability};
use loligo_types::Time;

use super::error::{Result, ServerError};

/// Attributes of the root directory.
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
        Err(RowsError::NotFormatted) => {}
        Err(other) => return Err(other.into()),
    }
    let FormatOptions { mode, uid, gid } = *options;
    Ok(loligo_rows::first_rows(hash_key(backend), FirstRows { now: now(), mode, uid, gid }))
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
