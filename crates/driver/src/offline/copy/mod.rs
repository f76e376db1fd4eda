//! A whole file system from one store into another, as it is: rows, journals, objects; then all of it is read back and compared. Knows
//! stores only as [`Backend`]s, and of rows only the two that say whether there is a file system.
//!
//! From before the first row until all was compared the target has a row that says that a copy is being made there, and none that says that
//! there is a file system. One batch changes both, at the end: whoever looks before that finds a part of a copy, and knows it.

mod journals;
mod objects;
mod rows;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use loligo_journal::table::{Meta, key_meta};
use loligo_rows::{Error as RowsError, check_layout, put_meta};
use loligo_store::{Backend, Batch, Durability, Identity, ObjectId, StoreError};
use loligo_types::Rank;

use crate::server::ServerError;

/// Time limit for the check that the source is still owned.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a file system was not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The source cannot be read, or holds no file system.
    #[error("the source: {0}")]
    Source(ServerError),
    /// The target cannot be written or read, or holds a file system already.
    #[error("the target: {0}")]
    Target(ServerError),
    /// There is no room in the target.
    #[error(
        "{what} in the target: no space left; make room there and copy again, which goes on with what is there: the source is as it \
         was, and nobody takes the unfinished copy for a file system"
    )]
    Full {
        /// The part of the target that could not grow.
        what: String,
    },
    /// An object of the source is larger than the target takes.
    #[error(
        "{id} has {len} bytes, and an object of the target at most {max}; nothing was copied: choose another target, or copy that \
         file into one of smaller objects first"
    )]
    TooLong {
        /// The largest object of the source.
        id: ObjectId,
        /// Its length.
        len: u64,
        /// The most that the target takes.
        max: u64,
    },
    /// The target was made for another file system.
    #[error("the target is the file system {there}, or was to be, and not a copy of {here}; name an empty one")]
    Another {
        /// Identity of the target.
        there: String,
        /// Identity of the source.
        here: String,
    },
    /// There are rows that no copy has put there.
    #[error("the target holds a load that did not come to its end; remove it, or name an empty target")]
    Occupied,
    /// Another server has the source now, and may have changed it meanwhile.
    #[error(
        "the source was taken over by another server while it was copied ({cause}); stop that one and all that stand by for it, then \
         copy again"
    )]
    Taken {
        /// The sign of it.
        cause: String,
    },
    /// Bytes that were read back differ from those written.
    #[error(
        "{what} of the target is not that of the source ({detail}); copy again: if that ends like this, too, the target does not keep \
         what it is given"
    )]
    Differs {
        /// The row, segment or object.
        what: String,
        /// The difference.
        detail: String,
    },
}

/// Result of the calls of this module.
pub type CopyResult<T> = Result<T, CopyError>;

fn of_source(error: impl Into<ServerError>) -> CopyError {
    CopyError::Source(error.into())
}

fn of_target(error: impl Into<ServerError>) -> CopyError {
    CopyError::in_target(error)
}

impl CopyError {
    /// An error of the target.
    pub fn in_target(error: impl Into<ServerError>) -> CopyError {
        match error.into() {
            ServerError::Store(StoreError::Full { what }) => CopyError::Full { what },
            error => CopyError::Target(error),
        }
    }
}

/// Stages of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStage {
    /// Counting what there is to copy; counts objects.
    Looking,
    /// Removing what a copy that was cut off left; counts rows and objects.
    Clearing,
    /// Copying rows.
    Rows,
    /// Copying journals; counts bytes.
    Journals,
    /// Copying file data; counts bytes.
    Objects,
    /// Reading rows back.
    RowsBack,
    /// Reading journals back; counts bytes.
    JournalsBack,
    /// Reading file data back; counts bytes.
    ObjectsBack,
}

/// Progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    /// With what.
    pub stage: CopyStage,
    /// So much is done.
    pub done: u64,
    /// Of so much; 0: not known.
    pub total: u64,
}

/// Is told how far it has come.
pub type Told<'a> = &'a mut dyn FnMut(CopyProgress);

/// Amount of data to copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Rows, about.
    pub rows: u64,
    /// Segments of the journals of all ranks.
    pub segments: u64,
    /// Their bytes.
    pub segment_bytes: u64,
    /// Objects with file data.
    pub objects: u64,
    /// Their bytes, holes counted.
    pub object_bytes: u64,
    /// The longest one, and its length.
    pub longest: Option<(ObjectId, u64)>,
}

/// Amount of data that was copied, and compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// Rows of the table.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub row_bytes: u64,
    /// CRC-32C of all rows: of each the key and the value, each behind its length (4 bytes, little endian).
    pub rows_crc: u32,
    /// Segments of the journals of all ranks.
    pub segments: u64,
    /// Their bytes.
    pub segment_bytes: u64,
    /// Objects with file data.
    pub objects: u64,
    /// Their bytes, holes counted.
    pub object_bytes: u64,
    /// Of them those that a copy that was cut off had put there already.
    pub kept: u64,
}

/// Length and CRC-32C of some bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    len: u64,
    crc: u32,
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        self.crc = crc32c::crc32c_append(self.crc, bytes);
    }

    /// An error unless the target's is the source's.
    fn same(self, source: Sum, what: impl FnOnce() -> String) -> CopyResult<()> {
        if self == source {
            return Ok(());
        }
        let detail = format!(
            "{} bytes with the CRC-32C {:08x} instead of {} with {:08x}",
            self.len, self.crc, source.len, source.crc
        );
        Err(CopyError::Differs { what: what(), detail })
    }
}

/// A file system that is to be copied: owned, and counted.
pub struct Copier {
    source: Arc<dyn Backend>,
    sizes: Sizes,
}

impl Copier {
    /// Owns all of the source, and counts what there is. Changes nothing.
    pub fn of(source: Arc<dyn Backend>, told: Told<'_>) -> CopyResult<Copier> {
        check_layout(&*source.table()).map_err(of_source)?;
        own(&*source).map_err(of_source)?;
        let rows = source.table().approximate_size().map_err(of_source)?.keys;
        let mut sizes = Sizes { rows, ..Sizes::default() };
        journals::count(&*source, &mut sizes)?;
        objects::count(&*source.blobs(), &mut sizes, told)?;
        Ok(Copier { source, sizes })
    }

    /// Amount of data in the source.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Refuses a target whose objects hold at most so many bytes, if there is a longer one.
    pub fn fits(&self, max: u64) -> CopyResult<()> {
        match self.sizes.longest {
            Some((id, len)) if len > max => Err(CopyError::TooLong { id, len, max }),
            _ => Ok(()),
        }
    }

    /// Copies it into a store that was made with the same identity and is empty, or holds a copy of it that was cut off; compares all of it;
    /// makes it a file system. Cut off before, it is none, and this can be done again.
    pub fn copy(&self, target: &dyn Backend, told: Told<'_>) -> CopyResult<Copied> {
        let source = &*self.source;
        self.fits(target.blobs().max_len())?;
        let again = is_begun(target, &source.identity())?;
        own(target).map_err(of_target)?;
        begin(target)?;
        if again {
            rows::clear(target, told)?;
            journals::clear(target)?;
            objects::clear(source, target, told)?;
        }
        let rows = rows::copy(source, target, self.sizes.rows, told)?;
        let segments = journals::copy(source, target, self.sizes.segment_bytes, told)?;
        let objects = objects::copy(source, target, &self.sizes, again, told)?;
        rows::compare(source, target, &rows, told)?;
        journals::compare(target, &segments, told)?;
        objects::compare(source, target, &objects, told)?;
        is_still_owned(source)?;
        finish(source, target)?;
        Ok(Copied {
            rows: rows.rows,
            row_bytes: rows.bytes,
            rows_crc: rows.crc,
            segments: segments.len() as u64,
            segment_bytes: segments.values().map(|sum| sum.len).sum(),
            objects: objects.objects,
            object_bytes: objects.bytes,
            kept: objects.kept,
        })
    }
}

/// True if a copy of this file system was begun there and cut off; false if the target is empty. Anything else in the target is an error.
pub fn is_begun(target: &dyn Backend, identity: &Identity) -> CopyResult<bool> {
    let table = target.table();
    let begun = match check_layout(&*table) {
        Ok(()) => return Err(of_target(ServerError::AlreadyFormatted)),
        Err(RowsError::UnfinishedCopy) => true,
        Err(RowsError::NotFormatted) => false,
        Err(error) => return Err(of_target(ServerError::from(error))),
    };
    if !begun && !table.scan(&[], &[], 1).map_err(of_target)?.is_empty() {
        return Err(CopyError::Occupied);
    }
    if target.identity() != *identity {
        return Err(CopyError::Another { there: target.identity().fs_id_hex(), here: identity.fs_id_hex() });
    }
    Ok(begun)
}

/// Nothing is read before what an owner before had begun is done, and nobody else writes.
fn own(store: &dyn Backend) -> Result<(), StoreError> {
    store.ranks()?.into_iter().try_for_each(|rank| store.own(rank))
}

/// Refuses what was read of a store that may have been another one's by then: reading is not refused by itself.
fn is_still_owned(source: &dyn Backend) -> CopyResult<()> {
    let Some(lease) = source.lease() else { return Ok(()) };
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(cause) = lease.lost() {
            return Err(CopyError::Taken { cause });
        }
        if lease.holds() {
            return Ok(());
        }
        if Instant::now() > until {
            return Err(CopyError::Taken { cause: "it cannot be seen that this process still owns it".to_string() });
        }
        // Until it has shown that it is there, or that it is not known any more.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Says that a copy is being made.
fn begin(target: &dyn Backend) -> CopyResult<()> {
    let mut batch = Batch::new();
    put_meta(&mut batch, Meta::Copying, Rank::ZERO, 1);
    target.table().write(&batch, Durability::Sync).map_err(of_target)
}

/// Makes the copy a file system: the row that says so is the source's.
fn finish(source: &dyn Backend, target: &dyn Backend) -> CopyResult<()> {
    let key = key_meta(Meta::Format, Rank::ZERO);
    let value = source
        .table()
        .get(&key)
        .map_err(of_source)?
        .ok_or_else(|| of_source(ServerError::Rows(RowsError::NotFormatted)))?;
    let mut batch = Batch::new();
    batch.put(key, value).delete(key_meta(Meta::Copying, Rank::ZERO));
    target.table().write(&batch, Durability::Sync).map_err(of_target)?;
    target.close().map_err(of_target)
}
