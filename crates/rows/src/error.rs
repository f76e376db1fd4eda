//! Errors of reading and writing a file system's rows and journal. Each names the row or record, the cause, and the remedy.

use loligo_journal::{DecodeError, PatchError, ReadError};
use loligo_store::StoreError;

/// Why rows or records cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal cannot be read to its end.
    #[error("{0}")]
    Journal(#[from] ReadError<StoreError>),
    /// A record of the journal has a good checksum and makes no sense.
    #[error(
        "journal record {lsn} cannot be understood: {cause}; was it written by a newer version? \
         Look at it with `loligo journal inspect`"
    )]
    Record {
        /// The record.
        lsn: u64,
        /// Its fault.
        cause: String,
    },
    /// A record of the journal changes what no record before it has.
    #[error(
        "journal record {lsn} cannot be replayed: {cause}. Records are missing before it: import a journal that has them \
         (`loligo journal import`), or erase the changes of that inode, too (`loligo journal erase --ino`)"
    )]
    Patch {
        /// The record.
        lsn: u64,
        /// The missing record or data.
        cause: PatchError,
    },
    /// A row of the table makes no sense.
    #[error("the table's row {key} cannot be understood: {cause}; `loligo fsck` says what it takes along")]
    Row {
        /// The key, in hexadecimal digits.
        key: String,
        /// Its fault.
        cause: String,
    },
    /// The store was made, but holds no file system.
    #[error("there is no file system in this store: `loligo format` makes one")]
    NotFormatted,
    /// The store holds an unfinished copy of a file system.
    #[error(
        "this store holds a copy of a file system that did not come to its end: the same `loligo copy --from STORE --to \
         STORE` once more goes on with it"
    )]
    UnfinishedCopy,
    /// The table is of a newer layout.
    #[error("the table has layout {found}, this program knows {known}: use a newer version of loligo")]
    NewerTable {
        /// Found.
        found: u64,
        /// Known.
        known: u64,
    },
    /// The table is of an older layout.
    #[error(
        "the table has layout {found}, this program knows {known} only: dump the file system with the version of loligo \
         that made it, and load the dump into a new directory with this version"
    )]
    OlderTable {
        /// Found.
        found: u64,
        /// Known.
        known: u64,
    },
}

/// Result of this crate's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// The error of a row that cannot be decoded.
pub fn bad_row(key: &[u8], cause: &DecodeError) -> Error {
    let key = key.iter().map(|b| format!("{b:02x}")).collect();
    Error::Row { key, cause: cause.to_string() }
}
