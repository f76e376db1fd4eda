//! The one table from [`FsError`] to errno, with how loudly each is logged. No other place names an errno for one.

use std::sync::atomic::{AtomicU64, Ordering};

use loligo_fuse::Errno;
use loligo_types::FsError;

/// Log level of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// A normal answer to a program (no such file, permission denied).
    Trace,
    /// Rare in healthy operation; worth seeing when looking closer.
    Debug,
    /// Somebody should look.
    Warn,
}

/// The errno of an error, and its name in the log and the metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The number for the program.
    pub errno: i32,
    /// Its log level.
    pub level: Level,
    /// Label of the metric.
    pub label: &'static str,
}

/// The row of an error.
pub fn row(error: FsError) -> Row {
    use Level::*;
    let (errno, level, label) = match error {
        FsError::NotFound => (libc::ENOENT, Trace, "not_found"),
        FsError::Exists => (libc::EEXIST, Trace, "exists"),
        FsError::NotDir => (libc::ENOTDIR, Trace, "not_dir"),
        FsError::IsDir => (libc::EISDIR, Trace, "is_dir"),
        FsError::NotEmpty => (libc::ENOTEMPTY, Trace, "not_empty"),
        FsError::Access => (libc::EACCES, Trace, "access"),
        FsError::Perm => (libc::EPERM, Trace, "perm"),
        FsError::Invalid => (libc::EINVAL, Trace, "invalid"),
        FsError::NameTooLong => (libc::ENAMETOOLONG, Trace, "name_too_long"),
        FsError::TooManyLinks => (libc::EMLINK, Trace, "too_many_links"),
        FsError::FileTooBig => (libc::EFBIG, Trace, "file_too_big"),
        FsError::Loop => (libc::ELOOP, Trace, "loop"),
        FsError::NoSpace => (libc::ENOSPC, Debug, "no_space"),
        FsError::Quota => (libc::EDQUOT, Debug, "quota"),
        FsError::NoData => (libc::ENODATA, Trace, "no_data"),
        FsError::NoSuchOffset => (libc::ENXIO, Trace, "no_such_offset"),
        FsError::TooBig => (libc::E2BIG, Trace, "too_big"),
        FsError::Range => (libc::ERANGE, Trace, "range"),
        FsError::WouldBlock => (libc::EAGAIN, Trace, "would_block"),
        FsError::Deadlock => (libc::EDEADLK, Debug, "deadlock"),
        FsError::Stale => (libc::ESTALE, Debug, "stale"),
        FsError::ReadOnly => (libc::EROFS, Trace, "read_only"),
        FsError::CrossDevice => (libc::EXDEV, Trace, "cross_device"),
        FsError::NotSupported => (libc::EOPNOTSUPP, Trace, "not_supported"),
        FsError::Busy => (libc::EBUSY, Debug, "busy"),
        FsError::Io => (libc::EIO, Warn, "io"),
        FsError::Interrupted => (libc::EINTR, Trace, "interrupted"),
        FsError::Unavailable => (libc::EIO, Warn, "unavailable"),
        FsError::BadHandle => (libc::EBADF, Debug, "bad_handle"),
        FsError::NoDevice => (libc::ENXIO, Trace, "no_device"),
        FsError::Overflow => (libc::EOVERFLOW, Trace, "overflow"),
        FsError::NotGranted => (libc::EINVAL, Warn, "not_granted"),
        FsError::NumberUsed => (libc::EINVAL, Warn, "number_used"),
        FsError::NotAuthorized => (libc::EPERM, Warn, "not_authorized"),
    };
    Row { errno, level, label }
}

/// Counts of errors by kind since the start.
pub struct ErrorCounts([AtomicU64; FsError::ALL.len()]);

impl Default for ErrorCounts {
    fn default() -> ErrorCounts {
        ErrorCounts(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl ErrorCounts {
    /// Counts and logs an error of an operation, and gives its number for the kernel.
    pub fn report(&self, op: &'static str, error: FsError) -> Errno {
        let row = row(error);
        self.0[usize::from(error.code()) - 1].fetch_add(1, Ordering::Relaxed);
        match row.level {
            Level::Trace => tracing::trace!(op, %error, "answered with an error"),
            Level::Debug => tracing::debug!(op, %error, "answered with an error"),
            Level::Warn => tracing::warn!(op, %error, "answered with an error"),
        }
        Errno(row.errno)
    }

    /// Label and count of each kind that occurred.
    pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
        let counts = self.0.iter().map(|n| n.load(Ordering::Relaxed));
        FsError::ALL.iter().zip(counts).filter(|(_, n)| *n > 0).map(|(e, n)| (row(*e).label, n)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_number_and_its_own_label() {
        let mut labels = std::collections::BTreeSet::new();
        for error in FsError::ALL {
            let row = row(error);
            assert!(row.errno > 0, "{error:?}");
            assert!(labels.insert(row.label), "{error:?} shares its label");
        }
    }

    #[test]
    fn errors_are_counted_by_kind() {
        let counts = ErrorCounts::default();
        assert_eq!(counts.report("lookup", FsError::NotFound), Errno(libc::ENOENT));
        counts.report("lookup", FsError::NotFound);
        counts.report("write", FsError::NotAuthorized);
        assert_eq!(counts.snapshot(), vec![("not_found", 2), ("not_authorized", 1)]);
    }
}
