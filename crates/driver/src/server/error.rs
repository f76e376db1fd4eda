//! Why a server cannot start or go on. Errors of single operations are answers, and not here.

use loligo_store::StoreError;
use loligo_types::Rank;

use super::cluster::RANKS_MAX;

/// Error of a server: its cause, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The rows of the table or the records of the journal.
    #[error(transparent)]
    Rows(loligo_rows::Error),
    /// There is one already.
    #[error("there is a file system in this store already; nothing was changed")]
    AlreadyFormatted,
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
    /// An order that cannot be carried out; why, and the remedy.
    #[error("{0}")]
    Refused(String),
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
        /// The call.
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
    loligo_rows::bad_row(key, cause).into()
}

impl From<loligo_rows::Error> for ServerError {
    /// A failure of the store is one, wherever it was met.
    fn from(error: loligo_rows::Error) -> ServerError {
        match error {
            loligo_rows::Error::Store(error) => ServerError::Store(error),
            error => ServerError::Rows(error),
        }
    }
}
