//! Where the file of an object lies, and walks over all of them. Not their content.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirEntry, File, ReadDir};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use loligo_store::{ObjectId, Result, StoreError};

use super::buckets::{self, Known};
use super::witness;
use crate::files::{self, named};
use crate::spare::opened;

/// Called with each object found; breaks the walk.
pub(super) type Visit<'a> = &'a mut dyn FnMut(ObjectId, &DirEntry) -> Result<ControlFlow<()>>;

pub(crate) struct Paths {
    root: PathBuf,
    /// The file that says which buckets have a directory.
    buckets: PathBuf,
    unsynced: Mutex<Unsynced>,
}

/// Changes of directories that may not be on the disk. Of what an earlier opening changed nothing is here.
struct Unsynced {
    /// Buckets with objects, of which `buckets` does not tell yet as far as this opening knows.
    fresh: HashSet<u16>,
    /// Buckets that `buckets` has, of those in which this opening has made an object.
    noted: Known,
    /// Buckets in which a name was made or removed, and the number of the last such change.
    changed: HashMap<u16, u64>,
    /// Directories of sixteen buckets, likewise; true if the directory itself is new.
    outer: HashMap<u16, (u64, bool)>,
    /// Counts changes.
    changes: u64,
}

/// The bucket of an inode: the top 12 bits of a multiplicative hash, so that neighbours spread and all
/// objects of an inode are together. Few enough that making the directories costs little, many enough
/// that looking through one for an inode's objects does.
pub(super) fn bucket(ino: u64) -> u16 {
    (loligo_types::hash::spread(ino) >> 52) as u16
}

pub(super) fn id_of(name: &str) -> Option<ObjectId> {
    let (ino, index) = name.split_once('.')?;
    let id = ObjectId::new(u64::from_str_radix(ino, 16).ok()?, u64::from_str_radix(index, 16).ok()?);
    (name == name_of(id)).then_some(id)
}

fn name_of(id: ObjectId) -> String {
    format!("{:x}.{:x}", id.ino, id.index)
}

impl Paths {
    pub(crate) fn new(root: PathBuf) -> Self {
        let unsynced = Unsynced {
            fresh: HashSet::new(),
            noted: Known::none(),
            changed: HashMap::new(),
            outer: HashMap::new(),
            changes: 0,
        };
        Self { buckets: root.with_file_name("buckets"), root, unsynced: Mutex::new(unsynced) }
    }

    pub(crate) fn buckets(&self) -> &Path {
        &self.buckets
    }

    /// The bucket of which this is the directory.
    pub(super) fn bucket_at(&self, inner: &Path) -> Option<u16> {
        let mut names = inner.strip_prefix(&self.root).ok()?.iter();
        let (outer, y) = (names.next()?.to_str()?, names.next()?.to_str()?);
        let bucket = u16::from_str_radix(&format!("{outer}{y}"), 16).ok()?;
        (bucket < 1 << 12 && self.inner(bucket) == inner).then_some(bucket)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn root_dir(&self) -> Result<File> {
        opened(|| File::open(&self.root)).map_err(|e| named(&self.root, &e))
    }

    pub(super) fn outer(&self, bucket: u16) -> PathBuf {
        self.root.join(format!("{:02x}", bucket >> 4))
    }

    pub(super) fn inner(&self, bucket: u16) -> PathBuf {
        self.outer(bucket).join(format!("{:x}", bucket & 0xf))
    }

    pub(crate) fn of(&self, id: ObjectId) -> PathBuf {
        self.inner(bucket(id.ino)).join(name_of(id))
    }

    /// Makes the directories for an inode's objects, and those of the fifteen other buckets beside it: so sixteen buckets cost the syncs of
    /// one. Refuses to cover up that they are lost.
    pub(super) fn make_bucket(&self, ino: u64) -> Result<()> {
        if let Some(detail) = self.lost_bucket(ino) {
            return Err(StoreError::Corrupt { place: format!("the objects of inode {ino:x}"), detail });
        }
        let wanted = bucket(ino);
        let outer = self.outer(wanted);
        // Before and after: another thread may put an object into a directory as soon as it is there.
        self.outer_changed(wanted, !outer.is_dir());
        let is_new = files::make_dir(&outer)?;
        if is_new {
            witness::speak(&outer)?;
        }
        for bucket in (wanted & !0xf)..=(wanted | 0xf) {
            let inner = self.inner(bucket);
            if (bucket == wanted || !self.is_lost(&inner)) && files::make_dir(&inner)? {
                witness::speak(&inner)?;
            }
        }
        self.outer_changed(wanted, is_new);
        Ok(())
    }

    fn outer_changed(&self, bucket: u16, is_new: bool) {
        let mut unsynced = self.unsynced();
        unsynced.changes += 1;
        let change = unsynced.changes;
        let (last, was_new) = unsynced.outer.entry(bucket >> 4).or_default();
        *last = change;
        *was_new |= is_new;
    }

    /// To be called after a name was made or removed in the bucket of `ino`, or that was tried, and before anybody may ask for a sync of it.
    pub(super) fn changed(&self, ino: u64) {
        let bucket = bucket(ino);
        let mut unsynced = self.unsynced();
        unsynced.changes += 1;
        let change = unsynced.changes;
        unsynced.changed.insert(bucket, change);
        if !unsynced.noted.has(bucket) {
            unsynced.fresh.insert(bucket);
        }
    }

    /// Makes creations and removals in the bucket of `ino` durable, and the bucket itself, as far as they are not.
    pub(super) fn sync_bucket(&self, ino: u64) -> Result<()> {
        let bucket = bucket(ino);
        let (change, outer) = {
            let unsynced = self.unsynced();
            (unsynced.changed.get(&bucket).copied(), unsynced.outer.get(&(bucket >> 4)).copied())
        };
        let Some(change) = change else { return Ok(()) };
        let inner = self.inner(bucket);
        match opened(|| File::open(&inner)) {
            Ok(dir) => dir.sync_all().map_err(|e| named(&inner, &e))?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(named(&inner, &e)),
        }
        if let Some((_, is_new)) = outer {
            files::sync_dir(&self.outer(bucket))?;
            if is_new {
                files::sync_dir(&self.root)?;
            }
        }
        let mut unsynced = self.unsynced();
        // What came meanwhile may have missed this sync.
        if unsynced.changed.get(&bucket) == Some(&change) {
            unsynced.changed.remove(&bucket);
        }
        if outer.is_some() && unsynced.outer.get(&(bucket >> 4)).copied() == outer {
            unsynced.outer.remove(&(bucket >> 4));
        }
        let is_fresh = unsynced.fresh.contains(&bucket);
        drop(unsynced);
        if is_fresh {
            self.synced(&[bucket]);
        }
        Ok(())
    }

    fn unsynced(&self) -> MutexGuard<'_, Unsynced> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Buckets with objects of which `buckets` may not tell: for one who syncs everything.
    pub(super) fn fresh(&self) -> Vec<u16> {
        self.unsynced().fresh.iter().copied().collect()
    }

    /// The directories of these are on the disk.
    pub(super) fn synced(&self, durable: &[u16]) {
        let mut unsynced = self.unsynced();
        let durable: Vec<u16> = durable.iter().copied().filter(|bucket| unsynced.fresh.remove(bucket)).collect();
        if durable.is_empty() {
            return;
        }
        if let Err(error) = buckets::add(&self.buckets, &durable) {
            tracing::warn!(%error, "a loss of all objects as a whole would not be noticed");
        }
        durable.iter().for_each(|bucket| unsynced.noted.add(*bucket));
    }

    /// Removes the directories of buckets without objects. Nobody makes objects meanwhile. That they are gone need not be durable.
    pub(super) fn remove_empty(&self) -> Result<()> {
        let outers = children(&self.root)?;
        let mut inners = Vec::new();
        for outer in &outers {
            for inner in children(outer)? {
                if is_empty(&inner)? {
                    inners.push(inner);
                }
            }
        }
        let gone: Vec<u16> = inners.iter().filter_map(|inner| self.bucket_at(inner)).collect();
        if !gone.is_empty() {
            gone.iter().for_each(|bucket| self.unsynced().noted.remove(*bucket));
            buckets::remove(&self.buckets, &gone)?;
        }
        inners.iter().chain(&outers).try_for_each(|dir| remove_if_empty(dir))
    }

    pub(super) fn visit_all(&self, visit: Visit<'_>) -> Result<()> {
        for outer in children(&self.root)? {
            for inner in children(&outer)? {
                if self.visit_dir(&inner, visit)?.is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn visit_dir(&self, dir: &Path, visit: Visit<'_>) -> Result<ControlFlow<()>> {
        let Some(entries) = read_dir(dir)? else { return Ok(ControlFlow::Continue(())) };
        for entry in entries {
            let entry = entry.map_err(|e| named(dir, &e))?;
            if let Some(id) = entry.file_name().to_str().and_then(id_of)
                && visit(id, &entry)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// True for an empty directory.
pub(super) fn is_empty(dir: &Path) -> Result<bool> {
    Ok(read_dir(dir)?.is_some_and(|mut entries| entries.next().is_none()))
}

fn remove_if_empty(dir: &Path) -> Result<()> {
    if !is_empty(dir)? {
        return Ok(());
    }
    witness::fall_silent(dir)?;
    fs::remove_dir(dir).map_err(|e| named(dir, &e))
}

pub(super) fn children(dir: &Path) -> Result<Vec<PathBuf>> {
    let Some(entries) = read_dir(dir)? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| named(dir, &e))?;
        if entry.file_type().map_err(|e| named(&entry.path(), &e))?.is_dir() {
            all.push(entry.path());
        }
    }
    Ok(all)
}

pub(super) fn read_dir(dir: &Path) -> Result<Option<ReadDir>> {
    match opened(|| fs::read_dir(dir)) {
        Ok(entries) => Ok(Some(entries)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(named(dir, &e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two inodes whose buckets lie beside one another, and one whose bucket does not.
    fn inos() -> [u64; 3] {
        let of = |wanted: &dyn Fn(u16) -> bool| (1..).find(|ino| wanted(bucket(*ino))).expect("there is one");
        [of(&|bucket| bucket == 0x120), of(&|bucket| bucket == 0x12f), of(&|bucket| bucket == 0x130)]
    }

    fn make(paths: &Paths, ino: u64) {
        let path = paths.of(ObjectId::new(ino, 0));
        if File::create(&path).is_err() {
            paths.make_bucket(ino).expect("made");
            File::create(&path).expect("made");
        }
        paths.changed(ino);
    }

    #[test]
    fn a_directory_is_synced_when_a_name_in_it_was_changed_since_the_last_sync_and_not_otherwise() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let paths = Paths::new(dir.path().to_path_buf());
        let [ino, ..] = inos();
        let is_synced = || paths.unsynced().changed.is_empty();
        make(&paths, ino);
        assert!(!is_synced());
        paths.sync_bucket(ino).expect("synced");
        assert!(is_synced());
        fs::remove_file(paths.of(ObjectId::new(ino, 0))).expect("it is there");
        paths.changed(ino);
        assert!(!is_synced());
        // Without the directory nothing can be synced: so this one would fail if it tried to.
        paths.sync_bucket(ino).expect("synced");
        fs::write(dir.path().join("a file"), b"").expect("written");
        let elsewhere = Paths::new(dir.path().join("a file"));
        elsewhere.sync_bucket(ino).expect("there is nothing to sync");
        elsewhere.changed(ino);
        assert!(elsewhere.sync_bucket(ino).is_err());
        assert!(!elsewhere.unsynced().changed.is_empty(), "what failed is to be done again");
    }

    #[test]
    fn sixteen_directories_beside_one_another_are_made_and_synced_together() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let paths = Paths::new(dir.path().to_path_buf());
        let [ino, beside, far] = inos();
        make(&paths, ino);
        paths.sync_bucket(ino).expect("synced");
        assert!(paths.unsynced().outer.is_empty());
        make(&paths, beside);
        assert!(paths.unsynced().outer.is_empty(), "its directory was there and durable");
        assert_eq!(paths.fresh(), [bucket(beside)], "it is noted when an object in it is durable");
        make(&paths, far);
        assert_eq!(paths.unsynced().outer.keys().copied().collect::<Vec<u16>>(), [0x13]);
    }
}
