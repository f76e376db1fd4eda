//! The file `strays`: since when there may be stray objects, which are objects of a file that does not tell of them (its writer and the server
//! were killed before the server heard). The file is empty; its modification time is the begin of the first opening whose objects were
//! not searched. It is there while the directory is open. A clean end removes it if there is nothing to search; a search that was cut off goes on
//! with the next opening. Not the search itself: only the ranks know what files tell.

use std::fs::{self, DirEntry, File};
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use loligo_store::Result;

use super::paths::Paths;
use crate::files::named;

/// Times of files are those of the kernel's last tick, and file systems round them.
const SLACK: Duration = Duration::from_secs(2);

/// Knowledge of the file during an opening.
pub(super) struct Strays {
    path: PathBuf,
    /// Begin of this opening.
    begun: SystemTime,
    /// Since when objects may be stray; none: nothing is to be searched.
    since: Mutex<Option<SystemTime>>,
    /// The next opening is to search all objects, whatever this one finds.
    expected: AtomicBool,
}

impl Strays {
    /// Begins an opening, before anything is written in it. `clean`: the one before ended cleanly. The caller makes the directory durable.
    pub(super) fn begin(path: PathBuf, clean: bool) -> Result<Strays> {
        let begun = SystemTime::now();
        let found = match fs::metadata(&path).and_then(|meta| meta.modified()) {
            Ok(since) => Some(since),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(named(&path, &e)),
        };
        if found.is_none() {
            File::create(&path).map_err(|e| named(&path, &e))?;
        }
        // Without the file an earlier release was killed: any object may be stray.
        let since = found.or_else(|| (!clean).then_some(SystemTime::UNIX_EPOCH));
        Ok(Strays { path, begun, since: Mutex::new(since), expected: AtomicBool::new(false) })
    }

    /// Of a directory in which nothing is written.
    pub(super) fn none(path: PathBuf) -> Strays {
        Strays { path, begun: SystemTime::UNIX_EPOCH, since: Mutex::new(None), expected: AtomicBool::new(false) }
    }

    fn since(&self) -> MutexGuard<'_, Option<SystemTime>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `visit` with the inode of each object that was made since the first opening that was not searched, until it breaks. An inode comes
    /// once for each of its objects.
    pub(super) fn visit(&self, paths: &Paths, visit: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<()> {
        let Some(since) = *self.since() else { return Ok(()) };
        let is_old = |entry: &DirEntry| {
            // Where the time of birth is not known every object counts.
            let made = entry.metadata().and_then(|meta| meta.created());
            made.is_ok_and(|made| made + SLACK < since)
        };
        paths.visit_all(&mut |id, entry| Ok(if is_old(entry) { ControlFlow::Continue(()) } else { visit(id.ino) }))
    }

    /// Any object may be stray: the next opening searches all.
    pub(super) fn expect(&self) -> Result<()> {
        let mut since = self.since();
        *since = Some(SystemTime::UNIX_EPOCH);
        self.expected.store(true, Ordering::Release);
        let set = || File::options().write(true).open(&self.path)?.set_modified(SystemTime::UNIX_EPOCH);
        set().map_err(|e| named(&self.path, &e))
    }

    /// All that was stray before this opening is dropped. Only the objects of this opening are to be searched after a kill.
    pub(super) fn searched(&self) -> Result<()> {
        let mut since = self.since();
        // Something became stray meanwhile.
        if self.expected.load(Ordering::Acquire) {
            return Ok(());
        }
        let set = || File::options().write(true).open(&self.path)?.set_modified(self.begun);
        set().map_err(|e| named(&self.path, &e))?;
        *since = None;
        Ok(())
    }

    /// Ends this opening cleanly, after the file `epochs` says so: a file that is left makes the next opening search once more.
    pub(super) fn end(&self) -> Result<()> {
        if self.since().is_some() {
            return Ok(());
        }
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(named(&self.path, &e)),
            _ => Ok(()),
        }
    }
}
