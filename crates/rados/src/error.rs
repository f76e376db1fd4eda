//! Errors of librados, in kinds that a caller acts on; the rest keeps its number.

/// Result of every call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of librados, or on the way to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The library is not there, or too old.
    #[error(
        "librados cannot be used ({cause}); install Ceph's client library (package librados2), version 16 or newer"
    )]
    NoLibrary {
        /// Message of the loader.
        cause: String,
    },
    /// The object, its omap, xattr or lock does not exist (ENOENT).
    #[error("{what} does not exist")]
    NotFound {
        /// The pool or object.
        what: String,
    },
    /// Created exclusively, or locked by the same owner, and there already (EEXIST).
    #[error("{what} exists already")]
    Exists {
        /// The object.
        what: String,
    },
    /// A comparison failed: the operation had no effect (ECANCELED; ERANGE and EOVERFLOW of an asserted version).
    #[error("{what} is not what it was thought to be; nothing was changed")]
    Changed {
        /// The object.
        what: String,
    },
    /// Another one has the lock (EBUSY).
    #[error("{what} is locked by another one")]
    Busy {
        /// The object.
        what: String,
    },
    /// This client was blocklisted: none of its later operations takes effect (ESHUTDOWN, 108).
    #[error("{what} is refused: this client was shut out of the cluster; start the process again")]
    Fenced {
        /// The object.
        what: String,
    },
    /// This user may not do that (EPERM, EACCES).
    #[error("{what}: the cluster refuses this user ({cause}); give it the rights that docs/deploy.md names")]
    Denied {
        /// The object, or what was asked of the monitors.
        what: String,
        /// The system's words.
        cause: String,
    },
    /// The pool or the cluster is full (ENOSPC, EDQUOT).
    #[error("{what}: the pool is full; add or free space, or raise its quota")]
    Full {
        /// The object.
        what: String,
    },
    /// Ceph's settings name no cluster that answers, or it refuses who we are (ETIMEDOUT at the start, EACCES, EPERM, EINVAL).
    #[error(
        "the cluster of {conf} cannot be reached ({cause}); see that its monitors run and that the key is allowed to"
    )]
    Unreachable {
        /// The configuration file.
        conf: String,
        /// The system's words.
        cause: String,
    },
    /// Anything else.
    #[error("{what}: {cause}")]
    Io {
        /// The object.
        what: String,
        /// The system's words.
        cause: String,
        /// errno, positive.
        errno: i32,
    },
}

impl Error {
    /// Of a negative return value. `what`: the thing that the call was about.
    pub(crate) fn of(what: &str, code: i32) -> Error {
        let what = what.to_owned();
        match -code {
            libc::ENOENT => Error::NotFound { what },
            libc::EEXIST => Error::Exists { what },
            // Of an asserted version the object's is lower (ERANGE) or higher (EOVERFLOW).
            libc::ECANCELED | libc::ERANGE | libc::EOVERFLOW => Error::Changed { what },
            libc::EBUSY => Error::Busy { what },
            libc::ESHUTDOWN => Error::Fenced { what },
            libc::ENOSPC | libc::EDQUOT => Error::Full { what },
            libc::EPERM | libc::EACCES => Error::Denied { what, cause: words(-code) },
            errno => Error::Io { what, cause: words(errno), errno },
        }
    }
}

/// The system's words for an errno.
pub(crate) fn words(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}

/// `Ok` of what is not negative.
pub(crate) fn check(what: &str, code: i32) -> Result<u64> {
    if code < 0 { Err(Error::of(what, code)) } else { Ok(code as u64) }
}
