//! From the errors of librados to those of the store.

use loligo_rados::Error;
use loligo_store::StoreError;

/// The store's word for what a call ended with.
pub(crate) fn store(error: Error) -> StoreError {
    match error {
        Error::Full { what } => StoreError::Full { what },
        Error::NotFound { what } => StoreError::NotFound { what },
        Error::Fenced { what } => {
            StoreError::Fenced { what, cause: "the cluster does not listen to this process any more".into() }
        }
        Error::Unreachable { .. } | Error::NoLibrary { .. } => {
            StoreError::Lost { what: "the store".into(), cause: error.to_string() }
        }
        Error::Exists { .. } | Error::Changed { .. } | Error::Busy { .. } => {
            StoreError::Io { what: "the store".into(), cause: error.to_string() }
        }
        Error::Denied { what, cause } => StoreError::Denied { what, cause },
        Error::Io { what, cause, .. } => StoreError::Io { what, cause },
    }
}

/// Another one has what this one believed to own.
pub(crate) fn fenced(what: impl Into<String>) -> StoreError {
    StoreError::Fenced { what: what.into(), cause: "another server has taken it over".into() }
}

/// Stored bytes that cannot be.
pub(crate) fn corrupt(place: impl Into<String>, detail: impl Into<String>) -> StoreError {
    StoreError::Corrupt { place: place.into(), detail: detail.into() }
}
