//! Objects as a cluster keeps them, where clients reach them by themselves: it cannot list the pieces of a file. So one beyond the first
//! is found only if its index is below a number that lies beside them, and whoever writes remembers how far that was raised. What
//! `store-rados` does with objects, on those of a disk in memory; what is remembered wrongly is a piece that nobody finds.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use loligo_store::{Blobs, Extent, ObjectId, Result};

/// By inode, the index below which all pieces are.
pub type Upto = Arc<Mutex<BTreeMap<u64, u64>>>;

/// The objects as one process sees them.
pub struct Pieces {
    objects: Arc<dyn Blobs>,
    /// State in the store.
    upto: Upto,
    /// State as this process remembers it.
    known: Upto,
}

fn of(upto: &Upto, ino: u64) -> Option<u64> {
    upto.lock().unwrap_or_else(PoisonError::into_inner).get(&ino).copied()
}

fn put(upto: &Upto, ino: u64, value: Option<u64>) {
    let mut upto = upto.lock().unwrap_or_else(PoisonError::into_inner);
    match value {
        Some(value) => drop(upto.insert(ino, value)),
        None => drop(upto.remove(&ino)),
    }
}

impl Pieces {
    /// Those of a store; `known`: what the process remembers.
    pub fn new(objects: Arc<dyn Blobs>, upto: Upto, known: Upto) -> Pieces {
        Pieces { objects, upto, known }
    }

    /// Sees to it that the piece is found.
    fn announce(&self, id: ObjectId) {
        if id.index == 0 || of(&self.known, id.ino).is_some_and(|upto| id.index < upto) {
            return;
        }
        let mut upto = of(&self.upto, id.ino).unwrap_or(1);
        if upto <= id.index {
            upto = (id.index + 1).next_power_of_two();
            put(&self.upto, id.ino, Some(upto));
        }
        put(&self.known, id.ino, Some(upto));
    }
}

impl Blobs for Pieces {
    fn read_at(&self, id: ObjectId, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.objects.read_at(id, offset, buf)
    }

    fn write_at(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<()> {
        self.announce(id);
        self.objects.write_at(id, offset, data)
    }

    fn write_logged(&self, id: ObjectId, offset: u64, data: &[u8]) -> Result<()> {
        self.announce(id);
        self.objects.write_logged(id, offset, data)
    }

    fn spoil(&self, id: ObjectId, offset: u64, len: u64) -> Result<()> {
        self.objects.spoil(id, offset, len)
    }

    fn truncate(&self, id: ObjectId, len: u64) -> Result<()> {
        self.announce(id);
        self.objects.truncate(id, len)
    }

    fn punch(&self, id: ObjectId, offset: u64, len: u64) -> Result<()> {
        self.objects.punch(id, offset, len)
    }

    fn sync(&self, id: ObjectId) -> Result<()> {
        self.objects.sync(id)
    }

    fn sync_removals(&self, ino: u64) -> Result<()> {
        self.objects.sync_removals(ino)
    }

    fn sync_all(&self) -> Result<()> {
        self.objects.sync_all()
    }

    fn delete(&self, id: ObjectId) -> Result<()> {
        self.objects.delete(id)
    }

    fn delete_all(&self, ino: u64) -> Result<bool> {
        let indexes = self.objects_of(ino)?;
        indexes.iter().try_for_each(|index| self.delete(ObjectId::new(ino, *index)))?;
        put(&self.known, ino, None);
        put(&self.upto, ino, None);
        Ok(!indexes.is_empty())
    }

    fn forget(&self, ino: u64) {
        put(&self.known, ino, None);
    }

    fn len(&self, id: ObjectId) -> Result<Option<u64>> {
        self.objects.len(id)
    }

    fn extents(&self, id: ObjectId, offset: u64, len: u64) -> Result<Vec<Extent>> {
        self.objects.extents(id, offset, len)
    }

    fn objects_of(&self, ino: u64) -> Result<Vec<u64>> {
        let upto = of(&self.upto, ino).unwrap_or(1);
        let mut indexes = self.objects.objects_of(ino)?;
        indexes.retain(|index| *index < upto);
        Ok(indexes)
    }

    fn list(&self, visit: &mut dyn FnMut(ObjectId, u64) -> ControlFlow<()>) -> Result<()> {
        self.objects.list(visit)
    }
}
