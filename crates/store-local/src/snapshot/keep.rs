//! Preservation of the store's state at the cut, while the store goes on. An object is copied into the snapshot before it is first
//! changed; all others are hard links, so that they take no room. Segments of journals are links at first, too, and copies up to the
//! length that they had, because they go on growing.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loligo_store::{ObjectId, Result, StoreError};

use super::{Gate, Place};
use crate::files::{self, named};
use crate::journal;
use crate::layout::Layout;
use crate::objects::Paths;
use crate::room::Room;
use crate::spare::opened;

/// Behind the name of a file that is being copied.
const COPY: &str = ".copy";

/// Objects kept for one snapshot.
pub(crate) struct Keep {
    data: Layout,
    place: Place,
    /// Where objects are, and where they are kept.
    live: Paths,
    kept: Paths,
    /// Objects that need nothing more: the snapshot has a copy of its own, or they were made after the cut.
    done: Mutex<HashSet<ObjectId>>,
    /// Segments that the snapshot still shares: the place in the snapshot, by that in the data directory, and the length at the cut.
    segments: Mutex<BTreeMap<PathBuf, (PathBuf, u64)>>,
    objects: AtomicU64,
    is_broken: AtomicBool,
    cause: Mutex<Option<String>>,
    room: Arc<Room>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keep {
    pub(super) fn begin(data: &Layout, place: Place, room: Arc<Room>) -> Keep {
        Keep {
            data: data.clone(),
            live: Paths::new(data.objects()),
            kept: Paths::new(place.layout().objects()),
            place,
            done: Mutex::default(),
            segments: Mutex::default(),
            objects: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
            cause: Mutex::default(),
            room,
        }
    }

    /// Why the snapshot cannot be read, if that is so.
    pub(super) fn broken(&self) -> Option<String> {
        lock(&self.cause).clone()
    }

    /// Objects that are in the snapshot.
    pub(super) fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    /// The snapshot is not wanted any more: nothing more is kept for it.
    pub(super) fn ends(&self) {
        self.is_broken.store(true, Ordering::Release);
        lock(&self.segments).clear();
    }

    /// Something could not be kept: the snapshot ends, and who changes the store goes on.
    fn breaks(&self, what: &str, error: &StoreError) {
        let mut cause = lock(&self.cause);
        if cause.is_none() {
            let why = format!("{what} could not be kept as it was: {error}");
            tracing::warn!("the snapshot in {} is broken: {why}", self.place.layout().dir.display());
            *cause = Some(why);
            self.is_broken.store(true, Ordering::Release);
            self.place.is_broken_now();
        }
    }

    /// Refuses to take room, or to keep it, that the store itself needs.
    fn has_room(&self, what: &Path) -> Result<()> {
        if self.room.is_full() { Err(StoreError::Full { what: what.display().to_string() }) } else { Ok(()) }
    }

    fn is_done(&self, id: ObjectId) -> bool {
        self.is_broken.load(Ordering::Acquire) || lock(&self.done).contains(&id)
    }

    /// Before an object is made: it is not in the snapshot. One of that name that was removed after the cut is there already.
    pub(crate) fn before_creation(&self, id: ObjectId) {
        lock(&self.done).insert(id);
    }

    /// Before an object is changed, by the one that has it locked.
    pub(crate) fn before_change(&self, id: ObjectId, file: &File) {
        if self.is_done(id) {
            return;
        }
        let to = self.kept.of(id);
        let copied = self
            .has_room(&to)
            .and_then(|()| in_place(&to, || files::copy_sparse(file, &with_copy(&to), None)))
            .and_then(|()| fs::rename(with_copy(&to), &to).map_err(|e| named(&to, &e)));
        match copied {
            Ok(()) => {
                lock(&self.done).insert(id);
            }
            Err(error) => {
                let _ = fs::remove_file(with_copy(&to));
                self.breaks(&id.to_string(), &error);
            }
        }
    }

    /// Before the file of an object is removed. Others cannot open or make it meanwhile.
    pub(crate) fn before_removal(&self, id: ObjectId) {
        // Not done by that: who has it open may be about to change it.
        if !self.is_done(id)
            && let Err(error) = self.has_room(&self.kept.of(id)).and_then(|()| self.link_object(id))
        {
            self.breaks(&id.to_string(), &error);
        }
    }

    /// Before a segment becomes shorter.
    pub(crate) fn before_truncation(&self, segment: &Path) {
        let mut segments = lock(&self.segments);
        if let Some((to, len)) = segments.remove(segment)
            && let Err(error) = copy_segment(&to, len)
        {
            self.breaks(&to.display().to_string(), &error);
        }
    }

    /// The journals of all ranks as they are. Nobody changes them meanwhile.
    pub(super) fn take_segments(&self, gate: &Gate) -> Result<()> {
        let from = self.data.journal();
        for rank in entries(&from)? {
            let Some(name) =
                rank.file_name().filter(|name| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok()))
            else {
                continue;
            };
            let to = self.place.layout().journal().join(name);
            files::make_dir(&to)?;
            for segment in entries(&rank)? {
                let Some(name) = segment.file_name().filter(|name| name.to_str().and_then(journal::id_of).is_some())
                else {
                    continue;
                };
                let of_file = || Ok(fs::metadata(&segment).map_err(|e| named(&segment, &e))?.len());
                let len = gate.length(&segment).map_or_else(of_file, Ok)?;
                let to = to.join(name);
                fs::hard_link(&segment, &to).map_err(|e| named(&to, &e))?;
                lock(&self.segments).insert(segment, (to, len));
            }
        }
        Ok(())
    }

    /// Gives the snapshot segments of its own.
    pub(super) fn copy_segments(&self) -> Result<()> {
        loop {
            // Taken out when it is copied: who makes it shorter waits for that.
            let mut segments = lock(&self.segments);
            let Some(next) = segments.first_entry() else { return Ok(()) };
            let (to, len) = next.get();
            copy_segment(to, *len)?;
            next.remove();
        }
    }

    /// Links all objects that are not in the snapshot yet, and the witnesses of all.
    pub(super) fn link_objects(&self) -> Result<()> {
        self.kept.witness_dirs_as(&self.live)?;
        self.live.visit_ids(&mut |id| if self.is_done(id) { Ok(()) } else { self.link_object(id) })
    }

    /// Links an object and its witness into the snapshot, unless it has them.
    fn link_object(&self, id: ObjectId) -> Result<()> {
        let (from, to) = (self.live.of(id), self.kept.of(id));
        let made = in_place(&to, || match fs::hard_link(&from, &to) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            // It was removed, and linked before that; or it is lost.
            Err(error) if error.kind() == io::ErrorKind::NotFound && to.parent().is_some_and(Path::is_dir) => Ok(false),
            Err(error) => Err(named(&to, &error)),
        })?;
        self.objects.fetch_add(u64::from(made), Ordering::Relaxed);
        self.kept.witness_as(&self.live, id)
    }
}

fn with_copy(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(COPY);
    PathBuf::from(name)
}

/// Runs `f`; again with the directories made if they are missing.
fn in_place<R>(path: &Path, f: impl Fn() -> Result<R>) -> Result<R> {
    match f() {
        Err(StoreError::NotFound { .. }) => {
            let dir = path.parent().expect("an object lies in a directory");
            fs::create_dir_all(dir).map_err(|e| named(dir, &e))?;
            f()
        }
        done => done,
    }
}

/// Puts a copy of the first `len` bytes in the place of a link.
fn copy_segment(to: &Path, len: u64) -> Result<()> {
    let copy = with_copy(to);
    let from = opened(|| File::open(to)).map_err(|e| named(to, &e))?;
    files::copy_sparse(&from, &copy, Some(len))?;
    fs::rename(&copy, to).map_err(|e| named(to, &e))
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let read = opened(|| fs::read_dir(dir)).map_err(|e| named(dir, &e))?;
    read.map(|entry| entry.map(|entry| entry.path()).map_err(|e| named(dir, &e))).collect()
}
