//! The directory of a snapshot: its lock, which tells whether somebody reads it, and the file `whole`, which is there as long as it can be
//! read. Not what is in it.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use loligo_store::{Lease, Result, StoreError};
use rustix::fs::FlockOperation;

use crate::files::{self, named};
use crate::layout::Layout;

/// Removed to end a snapshot: that needs no room on the disk.
const WHOLE: &str = "whole";

/// Where the snapshot of a data directory is.
#[derive(Clone)]
pub(crate) struct Place {
    layout: Layout,
}

/// One who reads a snapshot, which is not removed meanwhile. Dropping it ends that.
pub(crate) struct Reader {
    /// Open, so that it is seen when it is removed.
    whole: File,
    lock: File,
}

/// The lock of a snapshot that nobody reads.
pub(super) struct Alone(#[expect(dead_code, reason = "the lock goes with the file")] File);

impl Place {
    pub(super) fn of(data: &Layout) -> Place {
        Place { layout: Layout::new(&data.snapshot()) }
    }

    /// Makes the directory, in which there is nothing but its parts and the lock.
    pub(super) fn make(data: &Layout) -> Result<Place> {
        let place = Place::of(data);
        let dir = &place.layout.dir;
        // Of an attempt that could not be removed.
        place.remove()?;
        fs::create_dir(dir).map_err(|e| named(dir, &e))?;
        fs::set_permissions(dir, Permissions::from_mode(0o700)).map_err(|e| named(dir, &e))?;
        for part in [place.layout.journal(), place.layout.objects()] {
            files::make_dir(&part)?;
        }
        let lock = place.layout.lock();
        File::create(&lock).map_err(|e| named(&lock, &e))?;
        Ok(place)
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// From now on it can be read.
    pub(super) fn is_whole_now(&self) -> Result<()> {
        let path = self.layout.dir.join(WHOLE);
        File::create(&path).map(drop).map_err(|e| named(&path, &e))
    }

    /// From now on it cannot, and those who read it find that out at their end.
    pub(super) fn is_broken_now(&self) {
        let path = self.layout.dir.join(WHOLE);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::error!("{}: {error}; a copy that is made of this snapshot may be wrong", path.display());
            }
            _ => {}
        }
    }

    /// True if a command reads it.
    pub(super) fn is_used(&self) -> bool {
        matches!(self.lock_alone(), Err(StoreError::InUse { .. }))
    }

    /// Keeps readers out, if there is none.
    pub(super) fn lock_alone(&self) -> Result<Alone> {
        let path = self.layout.lock();
        let file = File::open(&path).map_err(|e| named(&path, &e))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Alone(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(self.in_use()),
            Err(error) => Err(named(&path, &error.into())),
        }
    }

    pub(super) fn in_use(&self) -> StoreError {
        StoreError::InUse { dir: self.layout.dir.display().to_string(), owner: "a command that reads it".to_string() }
    }

    /// Removes the directory with all that is in it.
    pub(super) fn remove(&self) -> Result<()> {
        self.is_broken_now();
        match fs::remove_dir_all(&self.layout.dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(named(&self.layout.dir, &error)),
            _ => Ok(()),
        }
    }
}

impl Reader {
    /// Reads the snapshot there. An error if it is not whole, or is just being removed.
    pub(crate) fn of(layout: &Layout) -> Result<Reader> {
        let path = layout.lock();
        let lock = File::open(&path).map_err(|e| named(&path, &e))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let owner = "its server, which removes it".to_string();
                return Err(StoreError::InUse { dir: layout.dir.display().to_string(), owner });
            }
            Err(error) => return Err(named(&path, &error.into())),
        }
        match File::open(layout.dir.join(WHOLE)) {
            Ok(whole) => Ok(Reader { whole, lock }),
            Err(_) => Err(StoreError::NotFound { what: format!("a whole snapshot in {}", layout.dir.display()) }),
        }
    }
}

impl Lease for Reader {
    fn holds(&self) -> bool {
        self.whole.metadata().is_ok_and(|meta| meta.nlink() > 0)
    }

    fn lost(&self) -> Option<String> {
        let cause = "the snapshot was removed, because the data directory was opened to be changed (a start of the server, or a repair) or because its \
                     disk became full, or it is broken: the log of the server says which";
        (!self.holds()).then(|| cause.to_string())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // As with the lock of a data directory: a process that was just forked may hold the file, too.
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
    }
}
