//! Why a server cannot start or go on. Errors of single operations are answers, and not here.

use loligo_journal::ReadError;
use loligo_store::StoreError;
use loligo_types::Rank;

use super::cluster::RANKS_MAX;

/// What went wrong, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The store.
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
        /// What is wrong with it.
        cause: String,
    },
    /// A row of the table makes no sense.
    #[error("the table's row {key} cannot be understood: {cause}; `loligo fsck` says what it takes along")]
    Row {
        /// The key, in hexadecimal digits.
        key: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The store was made, but holds no file system.
    #[error("there is no file system in this store: `loligo format` makes one")]
    NotFormatted,
    /// A copy of a file system was begun there, and did not come to its end.
    #[error(
        "this store holds a copy of a file system that did not come to its end: the same `loligo copy --from STORE --to \
         STORE` once more goes on with it"
    )]
    UnfinishedCopy,
    /// There is one already.
    #[error("there is a file system in this store already; nothing was changed")]
    AlreadyFormatted,
    /// The table is of a newer layout.
    #[error("the table has layout {found}, this program knows {known}: use a newer version of loligo")]
    NewerTable {
        /// Found.
        found: u64,
        /// Known.
        known: u64,
    },
    /// Some ranks would be left out.
    #[error(
        "this file system was served by {there} ranks, and each may have changes in its journal that the table lacks, \
         so {asked} cannot serve it: start it with `--ranks {there}`, or more; with fewer when some were drained while it \
         was served (loligo rank drain)"
    )]
    FewerRanks {
        /// Asked for.
        asked: u16,
        /// There were.
        there: u16,
    },
    /// More than a process can have.
    #[error("{asked} ranks are too many for one process: it can have {RANKS_MAX}")]
    TooManyRanks {
        /// Asked for.
        asked: u16,
    },
    /// There is no such rank.
    #[error("there is no rank {rank}: the ranks are {there}")]
    NoSuchRank {
        /// Asked for.
        rank: Rank,
        /// Those that there are.
        there: String,
    },
    /// What was asked for cannot be done; why, and what to do.
    #[error("{0}")]
    Refused(String),
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
    /// The address cannot be used.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: String,
        /// The system's words and a remedy.
        cause: String,
    },
    /// A call to the operating system failed.
    #[error("{what}: {cause}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's words.
        cause: std::io::Error,
    },
    /// The rank stopped by itself.
    #[error("{0}")]
    Fatal(String),
}

/// Result of the server's own calls.
pub type Result<T> = std::result::Result<T, ServerError>;

pub(crate) fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> ServerError {
    move |cause| ServerError::System { what, cause }
}

pub(crate) fn bad_row(key: &[u8], cause: &loligo_journal::DecodeError) -> ServerError {
    let key = key.iter().map(|b| format!("{b:02x}")).collect();
    ServerError::Row { key, cause: cause.to_string() }
}
