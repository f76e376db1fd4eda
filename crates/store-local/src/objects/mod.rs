//! Objects as files `DIR/objects/XX/Y/INO.INDEX`, with a checksum for each 4 KiB block. Not fenced and
//! not ordered: that is the object server's.
//!
//! Checksums and crashes. A block and its checksum lie in different places of one file, so after a
//! crash they may be of different ages. Every object that may be in that state carries the number of
//! the opening (*epoch*) that changed it, and that mark is durable before the first change. Epochs that
//! ended without [`LocalBlobs::close`] are remembered in the file `epochs`: the first use of an object
//! marked by one of those computes its checksums anew, all other objects stay verified.
//!
//! Where only the process ended, nothing is lost that was handed to the kernel, whatever its order. So before a block is changed its
//! checksum in the file is replaced by a mark, until a sync writes the new one: after a kill only blocks with that mark are believed as
//! they are.

mod block;
mod buckets;
mod cache;
mod check;
mod doubt;
mod epochs;
mod header;
mod object;
mod paths;
mod strays;
mod witness;
mod write;

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use loligo_store::{Blobs, Extent, ObjectId, Result, StoreError, check_range};

use crate::files::{self, named};
use crate::layout::Layout;
use crate::room::{For, Room};
use crate::snapshot::Gate;
use crate::spare;
use crate::store::{Owner, read_only};
use cache::Cache;
pub(crate) use check::check;
pub(crate) use epochs::Epochs;
use epochs::Place;
use header::DATA_AT;
use object::Object;
pub(crate) use paths::Paths;
use strays::Strays;
use witness::{LOST_OBJECT, Lost, emptied_bucket, lost_bucket};

/// Objects that one sync holds open at a time.
const SYNC_AT_ONCE: usize = 64;

/// State that all objects of an opening share.
pub(crate) struct Shared {
    paths: Paths,
    epochs: Epochs,
    /// Objects that were closed before their names were on the disk: they get their witnesses with the next sync of everything.
    unwitnessed: Mutex<Vec<ObjectId>>,
    room: Arc<Room>,
    /// Tells whether a snapshot needs objects as they are.
    gate: Arc<Gate>,
    /// Nothing is ever written.
    only_reads: bool,
}

pub(crate) struct LocalBlobs {
    shared: Arc<Shared>,
    cache: Arc<Cache>,
    epochs_path: PathBuf,
    strays: Strays,
    /// The sync of what an earlier opening left in the page cache, if it was killed.
    leftover: Mutex<Leftover>,
    /// True if no bucket can be empty: the opening before this one ended cleanly, and this one has removed nothing.
    has_no_empty: AtomicBool,
    owner: Arc<Owner>,
}

enum Leftover {
    Synced,
    Running(JoinHandle<io::Result<()>>),
    Failed(StoreError),
}

impl LocalBlobs {
    pub(crate) fn open(
        layout: &Layout,
        open_objects: usize,
        room: Arc<Room>,
        gate: Arc<Gate>,
        owner: Arc<Owner>,
    ) -> Result<Self> {
        let epochs_path = layout.epochs();
        let place = Place::of(&layout.objects())?;
        let only_reads = owner.only_reads();
        let paths = Paths::new(layout.objects());
        let (epochs, clean, was_clean, strays) = if only_reads {
            let found = Epochs::look(&epochs_path)?;
            let was_clean = !found.open;
            (found.seen_from_outside(place), true, was_clean, Strays::none(layout.strays()))
        } else {
            // The first opening makes the file before it counts.
            let was_opened = layout.was_opened();
            room.find(For::Journal, || buckets::begin(&paths, was_opened))?;
            // The change of `epochs` syncs their directory.
            let was_clean = Epochs::look(&epochs_path).is_ok_and(|found| !found.open);
            let strays = room.find(For::Journal, || Strays::begin(layout.strays(), was_clean))?;
            let (epochs, clean) = room.find(For::Journal, || Epochs::begin(&epochs_path, place))?;
            (epochs, clean, clean, strays)
        };
        // A killed server's writes may not be on the disk yet, and a client that was told "written"
        // sends only a sync: the first sync of this opening waits for all of them.
        let leftover = if clean { Leftover::Synced } else { sync_in_background(paths.root_dir()?) };
        let shared = Arc::new(Shared { paths, epochs, unwitnessed: Mutex::default(), room, gate, only_reads });
        let cache = Arc::new(Cache::new(open_objects));
        spare::ask(&cache);
        Ok(Self {
            shared,
            cache,
            epochs_path,
            strays,
            leftover: Mutex::new(leftover),
            has_no_empty: AtomicBool::new(was_clean),
            owner,
        })
    }

    /// A clean stop: everything is on the disk, and the next opening trusts every checksum.
    pub(crate) fn close(&self) -> Result<()> {
        if self.shared.only_reads {
            return Ok(());
        }
        self.sync_all()?;
        for object in self.cache.all() {
            object.retire()?;
        }
        // A server that runs keeps them: a directory that is made again is two syncs more for the first object in it.
        if let Err(error) = self.shared.paths.remove_empty() {
            tracing::warn!(%error, "empty directories of objects stay");
        }
        self.shared.room.find(For::Journal, || self.shared.epochs.end(&self.epochs_path))?;
        if let Err(error) = self.strays.end() {
            tracing::warn!(%error, "the next start searches all new objects once more");
        }
        Ok(())
    }

    /// From time to time: lets go of the marks of objects that have been on the disk for so long, though they stay open.
    pub(crate) fn tend(&self, idle: Duration) {
        for object in self.cache.all() {
            if let Err(error) = object.retire_if_idle(idle) {
                tracing::debug!(object = %object.id, %error, "it keeps the mark of this opening");
            }
        }
    }

    /// Refuses a change of what is only read.
    fn may_change(&self) -> Result<()> {
        if self.shared.only_reads { Err(read_only(self.shared.paths.root())) } else { Ok(()) }
    }

    /// Waits until the writes of a killed server are on the disk. If that failed, no sync succeeds.
    fn wait_for_leftover(&self) -> Result<()> {
        let mut leftover = self.leftover.lock().unwrap_or_else(PoisonError::into_inner);
        *leftover = match std::mem::replace(&mut *leftover, Leftover::Synced) {
            Leftover::Running(thread) => match thread.join() {
                Ok(Ok(())) => {
                    if let Err(error) = self.shared.epochs.settle(&self.epochs_path) {
                        // Only less is checked after a crash of the machine.
                        tracing::warn!(%error, "that the writes of a killed server are on the disk is not noted");
                    }
                    Leftover::Synced
                }
                Ok(Err(e)) => Leftover::Failed(self.leftover_error(&e.to_string())),
                Err(_) => Leftover::Failed(self.leftover_error("its thread panicked")),
            },
            other => other,
        };
        match &*leftover {
            Leftover::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn leftover_error(&self, cause: &str) -> StoreError {
        let what = format!("the sync of {} after an unclean stop", self.shared.paths.root().display());
        StoreError::Io { what, cause: cause.to_string() }
    }

    /// The object. If there is no descriptor for it, those objects are closed that nobody is using.
    fn object(&self, id: ObjectId, make: bool) -> Result<Option<Arc<Object>>> {
        self.owner.may_read(self.shared.paths.root())?;
        let is_short = |error: &StoreError| matches!(error, StoreError::NoDescriptor { .. });
        let open = || self.cache.get(id, || Object::open(&self.shared, id, make));
        match open() {
            Err(error) if is_short(&error) => {
                self.cache.close_idle();
                spare::opened_within(spare::PATIENCE, open, is_short)
            }
            // Of a snapshot: it may just have got a file of its own. That happens once.
            Err(StoreError::Corrupt { .. }) if self.shared.only_reads => open(),
            done => done,
        }
    }

    /// Of a snapshot: whether it has got a file of its own since this one was opened, which its server changes now. What was read of it before
    /// this is asked counts if not: the server changes the file only afterwards.
    fn is_replaced(&self, object: &Arc<Object>) -> bool {
        let is_replaced = self.shared.only_reads && object.is_replaced();
        if is_replaced {
            self.cache.close(object);
        }
        is_replaced
    }

    /// Runs `f` on the object, or gives `None` if there is none (and `make` is false). An object that
    /// is deleted meanwhile is looked up again.
    fn with<R>(&self, id: ObjectId, make: bool, f: impl Fn(&Arc<Object>) -> Result<Option<R>>) -> Result<Option<R>> {
        loop {
            let Some(object) = self.object(id, make)? else { return Ok(None) };
            let done = f(&object);
            if self.is_replaced(&object) {
                continue;
            }
            if let Some(done) = done? {
                return Ok(Some(done));
            }
        }
    }
}

impl LocalBlobs {
    /// Takes an object that cannot be opened out of the way: it counts as lost, and its file stays beside it for who wants to save something.
    fn set_aside(&self, id: ObjectId) -> Result<()> {
        let path = self.shared.paths.of(id);
        let mut aside = path.clone().into_os_string();
        aside.push(".unreadable");
        self.cache.while_nobody_removes(id, || {
            witness::speak(&path)?;
            fs::rename(&path, &aside).map_err(|e| named(&path, &e))
        })?;
        self.shared.paths.changed(id.ino);
        tracing::error!(object = %id, aside = %Path::new(&aside).display(), "an object cannot be read and counts as lost; its file is kept aside");
        self.shared.paths.sync_bucket(id.ino)
    }

    /// Writes; of an object that it made nothing is left if it fails.
    fn write(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<()> {
        let write = |object: &Arc<Object>| {
            object.write_at(offset, data).inspect_err(|_| {
                let is_abandoned = object.abandon_if_empty();
                self.shared.paths.changed(id.ino);
                if is_abandoned {
                    // Nobody else takes it out: it was there and not deleted until now.
                    let _ = self.cache.remove(id, |_| (), || Ok(()));
                }
            })
        };
        self.with(id, true, write).map(drop)
    }

    /// True if the write needs new blocks or files.
    fn grows(&self, id: ObjectId, offset: u64, len: u64) -> Result<bool> {
        let there = self.with(id, false, |object| Ok(object.extents(offset, len)))?;
        Ok(there.is_none_or(|extents| extents.iter().map(|extent| extent.len).sum::<u64>() < len))
    }

    /// Syncs objects of one inode: the disk gets all their pages to write first, and their directory,
    /// which is one, is synced once.
    fn sync_some(&self, ino: u64, indexes: &[u64]) -> Result<()> {
        if indexes.len() > 1 {
            for object in indexes.iter().filter_map(|index| self.cache.peek(ObjectId::new(ino, *index))) {
                files::start_writing(&object.file);
            }
        }
        let mut unnamed = Vec::new();
        for index in indexes {
            let id = ObjectId::new(ino, *index);
            let sync = |object: &Arc<Object>| Ok(object.sync()?.map(|created| created.then(|| object.clone())));
            unnamed.extend(self.with(id, false, sync)?.flatten());
        }
        if !unnamed.is_empty() {
            unnamed.iter().for_each(|object: &Arc<Object>| object.bear_witness());
            self.shared.paths.sync_bucket(ino)?;
            unnamed.iter().for_each(|object| object.name_synced());
        }
        Ok(())
    }
}

impl LocalBlobs {
    /// The same for an object that is not open: if it has not been removed since.
    fn bear_witness_of_closed(&self, id: ObjectId) {
        let path = self.shared.paths.of(id);
        self.cache.while_nobody_removes(id, || {
            if fs::metadata(&path).is_ok_and(|meta| meta.len() > 0)
                && let Err(error) = witness::speak(&path)
            {
                tracing::warn!(object = %id, %error, "a loss of this object would not be noticed");
            }
        });
    }
}

/// The file `epochs` of a snapshot: as if the server had been killed now, with the snapshot's objects.
pub(crate) fn snapshot_of_epochs(data: &Layout, snapshot: &Layout) -> Result<()> {
    let epochs = Epochs::look(&data.epochs())?;
    let killed = Epochs { open: true, place: Place::of(&snapshot.objects())?, ..epochs };
    fs::write(snapshot.epochs(), killed.encode()).map_err(|e| named(&snapshot.epochs(), &e))
}

fn sync_in_background(dir: File) -> Leftover {
    Leftover::Running(std::thread::spawn(move || Ok(rustix::fs::syncfs(&dir)?)))
}

impl Blobs for LocalBlobs {
    fn read_at(&self, id: ObjectId, offset: u64, buf: &mut [u8]) -> Result<usize> {
        check_range(id, offset, buf.len() as u64)?;
        loop {
            let Some(object) = self.object(id, false)? else { return Ok(0) };
            let read = object.read_at(offset, buf);
            if self.is_replaced(&object) {
                continue;
            }
            if let Some(n) = read? {
                return Ok(n);
            }
        }
    }

    fn write_at(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<()> {
        check_range(id, offset, data.len() as u64)?;
        self.may_change()?;
        if data.is_empty() {
            return Ok(());
        }
        let room = &self.shared.room;
        if room.is_full() && self.grows(id, offset, data.len() as u64)? && room.is_full_now() {
            return Err(StoreError::Full { what: id.to_string() });
        }
        let written = self.write(id, offset, data);
        if written.as_ref().is_err_and(StoreError::is_full) {
            room.met_full();
        }
        written
    }

    fn write_logged(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<()> {
        check_range(id, offset, data.len() as u64)?;
        self.may_change()?;
        if data.is_empty() {
            return Ok(());
        }
        self.shared.room.find(For::Journal, || self.write(id, offset, data))?;
        self.with(id, false, |object| object.flush().map(Some)).map(drop)
    }

    fn spoil(&self, id: ObjectId, offset: u64, len: u64) -> Result<()> {
        check_range(id, offset, len)?;
        self.may_change()?;
        match self.with(id, false, |object| object.spoil(offset, len)) {
            // Its header or its checksums cannot be read.
            Err(StoreError::Io { .. }) => self.set_aside(id),
            spoilt => spoilt.map(drop),
        }
    }

    fn truncate(&self, id: ObjectId, len: u64) -> Result<()> {
        check_range(id, 0, len)?;
        self.may_change()?;
        let truncate = || self.with(id, len > 0, |object| object.truncate(len)).map(drop);
        self.shared.room.find(For::Journal, truncate)
    }

    fn punch(&self, id: ObjectId, offset: u64, len: u64) -> Result<()> {
        check_range(id, offset, len)?;
        self.may_change()?;
        let punch = || self.with(id, false, |object| object.punch(offset, len)).map(drop);
        self.shared.room.find(For::Journal, punch)
    }

    fn sync(&self, id: ObjectId) -> Result<()> {
        self.sync_many(id.ino, &[id.index])
    }

    fn sync_many(&self, ino: u64, indexes: &[u64]) -> Result<()> {
        if self.shared.only_reads {
            return Ok(());
        }
        self.wait_for_leftover()?;
        for some in indexes.chunks(SYNC_AT_ONCE) {
            self.sync_some(ino, some)?;
        }
        Ok(())
    }

    fn sync_removals(&self, ino: u64) -> Result<()> {
        // Those of a killed server are known to nobody.
        self.wait_for_leftover()?;
        self.shared.paths.sync_bucket(ino)
    }

    fn sync_all(&self) -> Result<()> {
        if self.shared.only_reads {
            return Ok(());
        }
        self.wait_for_leftover()?;
        let closed = std::mem::take(&mut *self.shared.unwitnessed.lock().unwrap_or_else(PoisonError::into_inner));
        let objects = self.cache.all();
        let mut versions = Vec::with_capacity(objects.len());
        for object in &objects {
            versions.push(object.flush()?);
        }
        let root = self.shared.paths.root_dir()?;
        let buckets = self.shared.paths.fresh();
        rustix::fs::syncfs(&root).map_err(|e| named(self.shared.paths.root(), &e.into()))?;
        self.shared.paths.synced(&buckets);
        for (object, version) in objects.iter().zip(versions) {
            object.synced(version);
            object.bear_witness();
            object.name_synced();
        }
        closed.into_iter().for_each(|id| self.bear_witness_of_closed(id));
        Ok(())
    }

    fn delete(&self, id: ObjectId) -> Result<()> {
        self.may_change()?;
        self.has_no_empty.store(false, Ordering::Relaxed);
        let path = self.shared.paths.of(id);
        let removed = self.cache.remove(id, Object::forget, || {
            let kept = self.shared.gate.kept();
            if let Some(keep) = &*kept {
                keep.before_removal(id);
            }
            witness::fall_silent(&path)?;
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => Err(named(&path, &e)),
                _ => Ok(()),
            }
        });
        self.shared.paths.changed(id.ino);
        removed
    }

    fn len(&self, id: ObjectId) -> Result<Option<u64>> {
        if self.shared.only_reads {
            return self.with(id, false, |object| Ok(object.len()));
        }
        if let Some(len) = self.cache.peek(id).and_then(|object| object.len()) {
            return Ok(Some(len));
        }
        let path = self.shared.paths.of(id);
        match fs::metadata(&path) {
            // An empty file is no object yet.
            Ok(meta) => Ok((meta.len() > 0).then(|| meta.len().saturating_sub(DATA_AT))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(named(&path, &e)),
        }
    }

    fn extents(&self, id: ObjectId, offset: u64, len: u64) -> Result<Vec<Extent>> {
        check_range(id, offset, len)?;
        Ok(self.with(id, false, |object| Ok(object.extents(offset, len)))?.unwrap_or_default())
    }

    fn objects_of(&self, ino: u64) -> Result<Vec<u64>> {
        self.shared.paths.indexes_of(ino)
    }

    fn visit_strays(&self, visit: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<()> {
        self.strays.visit(&self.shared.paths, visit)
    }

    fn expect_strays(&self) -> Result<()> {
        self.may_change()?;
        self.strays.expect()
    }

    fn strays_dropped(&self) -> Result<()> {
        self.may_change()?;
        self.strays.searched()
    }

    fn lost(&self, visit: &mut dyn FnMut(Option<ObjectId>, &str)) -> Result<()> {
        self.shared.paths.visit_lost(self.has_no_empty.load(Ordering::Relaxed), &mut |lost| {
            match &lost {
                Lost::Object(id) => visit(Some(*id), LOST_OBJECT),
                Lost::Bucket(dir) => visit(None, &lost_bucket(dir)),
                Lost::Emptied(dir) => visit(None, &emptied_bucket(dir)),
            }
            Ok(())
        })
    }

    fn list(&self, visit: &mut dyn FnMut(ObjectId, u64) -> ControlFlow<()>) -> Result<()> {
        self.shared.paths.visit_all(&mut |id, entry| match entry.metadata() {
            Ok(meta) => Ok(visit(id, meta.len().saturating_sub(DATA_AT))),
            // It was deleted while the listing went on.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(ControlFlow::Continue(())),
            Err(e) => Err(named(&entry.path(), &e)),
        })
    }
}

impl Drop for LocalBlobs {
    /// Waits for the background sync, so that no thread outlives the lock.
    fn drop(&mut self) {
        if let Err(error) = self.wait_for_leftover() {
            tracing::warn!(%error, "while closing the objects");
        }
        for object in self.cache.all() {
            if let Err(error) = object.flush() {
                tracing::warn!(%error, "while closing the objects");
            }
        }
    }
}
