//! System calls on files with errors that name the file. Not an abstraction over file systems.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use loligo_store::{Result, StoreError};

use crate::spare::opened;

/// Bytes that are copied at a time.
const COPY_AT_ONCE: usize = 1 << 20;

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

/// Copies a file, or its first `len` bytes, to a path, holes as holes; where the file system can, both share their blocks. Not durable.
pub(crate) fn copy_sparse(from: &File, to: &Path, len: Option<u64>) -> Result<()> {
    let copy = || -> io::Result<()> {
        let file = opened(|| File::create(to))?;
        if len.is_none() && rustix::fs::ioctl_ficlone(&file, from).is_ok() {
            return Ok(());
        }
        let there = from.metadata()?.len();
        let len = len.map_or(there, |len| len.min(there));
        file.set_len(len)?;
        let mut buf = Vec::new();
        let mut at = 0;
        while at < len {
            // Where seeking to data is not known, all is data.
            let (start, end) = match rustix::fs::seek(from, rustix::fs::SeekFrom::Data(at)) {
                Ok(start) => (start, rustix::fs::seek(from, rustix::fs::SeekFrom::Hole(start))?),
                Err(rustix::io::Errno::NXIO) => break,
                Err(_) => (at, len),
            };
            at = start;
            let end = end.min(len);
            while at < end {
                buf.resize(COPY_AT_ONCE.min((end - at) as usize), 0);
                from.read_exact_at(&mut buf, at)?;
                file.write_all_at(&buf, at)?;
                at += buf.len() as u64;
            }
        }
        Ok(())
    };
    copy().map_err(|e| named(to, &e))
}

/// Space of the device under `path`.
pub(crate) fn statfs(path: &Path) -> Result<loligo_store::StatFs> {
    let stat = rustix::fs::statvfs(path).map_err(|e| named(path, &e.into()))?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    let (total_bytes, free_bytes) = usable(bytes(stat.f_blocks), bytes(stat.f_bfree), bytes(stat.f_bavail));
    let (total_inodes, free_inodes) = usable(stat.f_files, stat.f_ffree, stat.f_favail);
    Ok(loligo_store::StatFs { total_bytes, free_bytes, total_inodes, free_inodes })
}

/// Bytes that this process can write under `path`: for root also those that the device keeps back for it.
pub(crate) fn free_for_us(path: &Path) -> Result<u64> {
    let stat = rustix::fs::statvfs(path).map_err(|e| named(path, &e.into()))?;
    let blocks = if rustix::process::geteuid().is_root() { stat.f_bfree } else { stat.f_bavail };
    Ok(blocks.saturating_mul(stat.f_frsize))
}

/// Gives back what is reserved behind the ends of files in `dir` whose names end so. Who was killed has left it. Not of files that somebody
/// writes.
pub(crate) fn end_reservations(dir: &Path, end: &str) {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in files.filter(|path| path.to_string_lossy().ends_with(end)) {
        // A cut to the length that it has frees the blocks behind that.
        let cut = File::options().write(true).open(&path).and_then(|file| file.set_len(file.metadata()?.len()));
        if let Err(error) = cut {
            tracing::debug!("{}: what is reserved behind its end stays so: {error}", path.display());
        }
    }
}

/// Total and free bytes without those that a device reserves for root: they are not available to files, and nothing uses them. So used
/// bytes are those that are neither free nor reserved.
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
