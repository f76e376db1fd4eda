//! System calls on files with errors that name the file. Not an abstraction over file systems.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

use loligo_store::{Result, StoreError};

use crate::spare::opened;

/// Turns a system error on `path` into its kind.
pub(crate) fn named(path: &Path, error: &io::Error) -> StoreError {
    StoreError::from_io(path.display().to_string(), error)
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_dir(path: &Path) -> Result<()> {
    opened(|| File::open(path)).and_then(|dir| dir.sync_all()).map_err(|e| named(path, &e))
}

/// Makes a directory if there is none; says whether it did. Not durable.
pub(crate) fn make_dir(path: &Path) -> Result<bool> {
    match fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(e) => Err(named(path, &e)),
    }
}

/// Puts `bytes` in place of the file's content, durably; after a crash it holds the old or the new.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let beside = path.with_extension("tmp");
    let write = || -> io::Result<()> {
        let mut file = opened(|| File::create(&beside))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|e| named(path, &e))?;
    sync_dir(path.parent().expect("a file has a directory"))
}

/// Space of the device under `path`.
pub(crate) fn statfs(path: &Path) -> Result<loligo_store::StatFs> {
    let stat = rustix::fs::statvfs(path).map_err(|e| named(path, &e.into()))?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    let (total_bytes, free_bytes) = usable(bytes(stat.f_blocks), bytes(stat.f_bfree), bytes(stat.f_bavail));
    let (total_inodes, free_inodes) = usable(stat.f_files, stat.f_ffree, stat.f_favail);
    Ok(loligo_store::StatFs { total_bytes, free_bytes, total_inodes, free_inodes })
}

/// What there is and what is free, without what a device keeps back for root: that is not there for files, and nothing uses it. So what is
/// neither free nor kept back is what is used.
fn usable(total: u64, free: u64, available: u64) -> (u64, u64) {
    let kept_back = free.saturating_sub(available);
    (total.saturating_sub(kept_back).max(available), available)
}

/// Starts writing a file's changed pages to the disk and does not wait. Only a hint that makes a sync
/// of many files quicker; a sync must still follow.
pub(crate) fn start_writing(file: &File) {
    // SAFETY: the call reads no memory of ours, and the descriptor is open as long as `file` lives.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_keeps_back_for_root_counts_neither_as_used_nor_as_free() {
        let (total, free) = usable(1000, 400, 350);
        assert_eq!((total - free, free), (600, 350));
        assert_eq!(usable(1000, 400, 400), (1000, 400));
        // All but what is kept back is used; and what nobody says.
        assert_eq!(usable(1000, 50, 0), (950, 0));
        assert_eq!(usable(0, 0, 0), (0, 0));
    }
}
