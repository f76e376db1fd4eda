//! Where the file of an object lies, and walks over all of them. Not their content.

use std::collections::HashSet;
use std::fs::{self, DirEntry, File, ReadDir};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use loligo_store::{ObjectId, Result, StoreError};

use super::{buckets, witness};
use crate::files::{self, named};
use crate::spare::opened;

/// Called with each object found; breaks the walk.
pub(super) type Visit<'a> = &'a mut dyn FnMut(ObjectId, &DirEntry) -> Result<ControlFlow<()>>;

pub(crate) struct Paths {
    root: PathBuf,
    /// The file that says which buckets have a directory.
    buckets: PathBuf,
    /// Buckets whose directories were made and not yet synced.
    fresh: Mutex<HashSet<u16>>,
}

/// The bucket of an inode: the top 12 bits of a multiplicative hash, so that neighbours spread and all
/// objects of an inode are together. Few enough that making the directories costs little, many enough
/// that looking through one for an inode's objects does.
pub(super) fn bucket(ino: u64) -> u16 {
    (ino.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as u16
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
        Self { buckets: root.with_file_name("buckets"), root, fresh: Mutex::new(HashSet::new()) }
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

    /// Makes the directories for an inode's objects. Refuses to cover up that they are lost.
    pub(super) fn make_bucket(&self, ino: u64) -> Result<()> {
        if let Some(detail) = self.lost_bucket(ino) {
            return Err(StoreError::Corrupt { place: format!("the objects of inode {ino:x}"), detail });
        }
        let bucket = bucket(ino);
        let (outer, inner) = (self.outer(bucket), self.inner(bucket));
        if files::make_dir(&outer)? {
            witness::speak(&outer)?;
        }
        if files::make_dir(&inner)? {
            witness::speak(&inner)?;
            self.fresh.lock().unwrap_or_else(PoisonError::into_inner).insert(bucket);
        }
        Ok(())
    }

    /// Makes creations and removals in the bucket of `ino` durable, and the bucket itself.
    pub(super) fn sync_bucket(&self, ino: u64) -> Result<()> {
        let bucket = bucket(ino);
        let inner = self.inner(bucket);
        match opened(|| File::open(&inner)) {
            Ok(dir) => dir.sync_all().map_err(|e| named(&inner, &e))?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(named(&inner, &e)),
        }
        let fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner).contains(&bucket);
        if fresh {
            files::sync_dir(&self.outer(bucket))?;
            files::sync_dir(&self.root)?;
            self.synced(&[bucket]);
        }
        Ok(())
    }

    /// Buckets whose directories were made and not yet synced: for one who syncs everything.
    pub(super) fn fresh(&self) -> Vec<u16> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    /// The directories of these are on the disk.
    pub(super) fn synced(&self, durable: &[u16]) {
        let mut fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        let durable: Vec<u16> = durable.iter().copied().filter(|bucket| fresh.remove(bucket)).collect();
        if !durable.is_empty()
            && let Err(error) = buckets::add(&self.buckets, &durable)
        {
            tracing::warn!(%error, "a loss of all objects as a whole would not be noticed");
        }
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
