//! Errors of an engine, in kinds that a caller acts on. Not a wrapper of every errno: those that no caller tells apart are
//! [`StoreError::Io`].

use std::io;

/// Numbers of Linux's errors, for which the standard library has no kind.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// Result of every call of this crate.
pub type Result<T> = std::result::Result<T, StoreError>;

/// An error of the engine. Texts name the thing, the cause and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No space (ENOSPC, EDQUOT). The call had no effect that a reader can see, and it succeeds when
    /// it is made again after space was freed.
    #[error("{what}: no space left on the device; free space or enlarge it, the server goes on by itself then")]
    Full {
        /// The file, directory or table that could not grow.
        what: String,
    },
    /// The process or the system has no descriptor left (EMFILE, ENFILE). The call had no effect that a reader can see, and it succeeds when
    /// it is made again after some were closed.
    #[error(
        "{what}: no more files can be open; raise the limit of open files (ulimit -n, or LimitNOFILE= in the systemd unit), the \
         server goes on by itself when some were closed"
    )]
    NoDescriptor {
        /// The file, directory or table that could not be opened.
        what: String,
    },
    /// The data directory cannot be written (read-only mount, missing permission).
    #[error("{what} cannot be written ({cause}); mount the disk read-write, or run as the owner of the data directory")]
    ReadOnly {
        /// The file or directory.
        what: String,
        /// The system's words.
        cause: String,
    },
    /// The directory is not one of ours, or not empty when it was to be formatted.
    #[error("{dir} is not a data directory of Loligo ({found}); name another directory, or format an empty one")]
    Foreign {
        /// The directory.
        dir: String,
        /// The version found.
        found: String,
    },
    /// The directory holds a file system already, so it is not formatted again.
    #[error("{dir} already holds the file system {fs_id}; to make a new one, use another directory or empty this one")]
    AlreadyFormatted {
        /// The directory.
        dir: String,
        /// Identity of the file system there.
        fs_id: String,
    },
    /// Something on disk was written by a newer version of this software.
    #[error("{what} has format version {found}, this program knows versions up to {known}; use a newer program")]
    NewerVersion {
        /// The file or directory.
        what: String,
        /// Version found.
        found: u32,
        /// Newest version that this program reads.
        known: u32,
    },
    /// Another process owns the data directory.
    #[error("{dir} is in use by another server ({owner}); stop that one first, or name another directory")]
    InUse {
        /// The directory.
        dir: String,
        /// Known facts about the owner, such as its process id.
        owner: String,
    },
    /// Stored bytes are not what was written.
    #[error("{place} is damaged: {detail}; restore it from a copy, or run fsck to see what it takes along")]
    Corrupt {
        /// File, object and offset.
        place: String,
        /// Expected and found.
        detail: String,
    },
    /// The named thing (a segment to open, say) does not exist.
    #[error("{what} does not exist")]
    NotFound {
        /// The file or segment.
        what: String,
    },
    /// The process that has the store is gone, or cannot be reached any more: whether the call was done is not known, and no
    /// later one will be. The caller stops.
    #[error(
        "{what} is out of reach ({cause}); nothing that was acknowledged is lost: see that the server of the data \
         directory runs, then start this process again"
    )]
    Lost {
        /// The store.
        what: String,
        /// The sign of it.
        cause: String,
    },
    /// Another server owns what this one owned: nothing that was begun after that took effect. The caller stops.
    #[error(
        "{what} is not this server's any more ({cause}); it stops, and nothing that was acknowledged is lost: start it again \
         to stand by"
    )]
    Fenced {
        /// The thing that was owned.
        what: String,
        /// The sign of it.
        cause: String,
    },
    /// The cluster does not let this user do that.
    #[error("{what}: the cluster refuses this user ({cause}); give it the rights that docs/deploy.md names")]
    Denied {
        /// The object, or what was asked of the monitors.
        what: String,
        /// The system's words.
        cause: String,
    },
    /// The call is not for this moment; the store itself is as it should be.
    #[error("{what}: {cause}")]
    NotNow {
        /// The thing.
        what: String,
        /// Why not, and what to do.
        cause: String,
    },
    /// Any other failure of the disk or the system.
    #[error("{what}: {cause}; see the kernel's log for the state of the disk")]
    Io {
        /// The file or call.
        what: String,
        /// The system's words.
        cause: String,
    },
}

impl StoreError {
    /// Sorts a system error into its kind. `what` names the file or directory.
    pub fn from_io(what: impl Into<String>, error: &io::Error) -> Self {
        let (what, cause) = (what.into(), error.to_string());
        if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) {
            return Self::NoDescriptor { what };
        }
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { what },
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Self::ReadOnly { what, cause },
            io::ErrorKind::NotFound => Self::NotFound { what },
            _ => Self::Io { what, cause },
        }
    }

    /// True if there was no space for it.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// True if the same call can succeed later without anyone repairing anything.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::NoDescriptor { .. })
    }
}
