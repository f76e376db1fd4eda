//! Open objects, least recently used ones closed. Not a cache of data: the kernel's page cache is that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use loligo_store::{ObjectId, Result};

use super::object::Object;
use crate::spare::Keeps;

const SHARDS: usize = 8;

pub(super) struct Cache {
    shards: [Mutex<Shard>; SHARDS],
    /// Objects that a shard keeps open.
    room: usize,
}

#[derive(Default)]
struct Shard {
    open: HashMap<ObjectId, Entry>,
    clock: u64,
}

struct Entry {
    object: Arc<Object>,
    used: u64,
}

impl Cache {
    pub(super) fn new(open_objects: usize) -> Self {
        Self { shards: Default::default(), room: (open_objects / SHARDS).max(1) }
    }

    /// The object, opened with `open` if it is not open yet.
    pub(super) fn get(
        &self,
        id: ObjectId,
        open: impl FnOnce() -> Result<Option<Arc<Object>>>,
    ) -> Result<Option<Arc<Object>>> {
        let mut shard = self.shard(id);
        shard.clock += 1;
        let clock = shard.clock;
        if let Some(entry) = shard.open.get_mut(&id) {
            entry.used = clock;
            return Ok(Some(entry.object.clone()));
        }
        if shard.open.len() >= self.room {
            shard.close(1);
        }
        let Some(object) = open()? else { return Ok(None) };
        shard.open.insert(id, Entry { object: object.clone(), used: clock });
        Ok(Some(object))
    }

    /// The object if it is open.
    pub(super) fn peek(&self, id: ObjectId) -> Option<Arc<Object>> {
        self.shard(id).open.get(&id).map(|entry| entry.object.clone())
    }

    /// Closes all objects that nobody is using. Those of a shard that is locked stay: an object is opened with its shard locked, and the one
    /// that opens it may be who asks.
    pub(super) fn close_idle(&self) {
        for shard in &self.shards {
            match shard.try_lock() {
                Ok(mut shard) => shard.close(usize::MAX),
                Err(TryLockError::Poisoned(error)) => error.into_inner().close(usize::MAX),
                Err(TryLockError::WouldBlock) => {}
            }
        }
    }

    /// All open objects.
    pub(super) fn all(&self) -> Vec<Arc<Object>> {
        let of = |shard: &Mutex<Shard>| -> Vec<Arc<Object>> {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.open.values().map(|entry| entry.object.clone()).collect()
        };
        self.shards.iter().flat_map(of).collect()
    }

    /// Closes this object, unless another file was opened for it meanwhile.
    pub(super) fn close(&self, object: &Arc<Object>) {
        let mut shard = self.shard(object.id);
        if shard.open.get(&object.id).is_some_and(|entry| Arc::ptr_eq(&entry.object, object)) {
            shard.open.remove(&object.id);
        }
    }

    /// Takes the object out: `forget` is told if it is open, then `unlink` removes the file, while
    /// nobody can open it.
    pub(super) fn remove(
        &self,
        id: ObjectId,
        forget: impl FnOnce(&Object),
        unlink: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut shard = self.shard(id);
        unlink()?;
        if let Some(entry) = shard.open.remove(&id) {
            forget(&entry.object);
        }
        Ok(())
    }

    /// Runs `f` while nobody can open or remove the object.
    pub(super) fn while_nobody_removes<R>(&self, id: ObjectId, f: impl FnOnce() -> R) -> R {
        let _shard = self.shard(id);
        f()
    }

    fn shard(&self, id: ObjectId) -> MutexGuard<'_, Shard> {
        let mixed = loligo_types::hash::spread(id.ino ^ id.index.rotate_left(32));
        let shard = &self.shards[(mixed >> 61) as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeps for Cache {
    fn close_some(&self) {
        self.close_idle();
    }
}

impl Shard {
    /// Closes so many objects, those first that were not used for longest, of those that nobody is using and whose
    /// checksums could be written out. With none such the shard grows.
    fn close(&mut self, mut count: usize) {
        let mut idle: Vec<(u64, ObjectId)> = (self.open.iter())
            .filter(|(_, entry)| Arc::strong_count(&entry.object) == 1)
            .map(|(id, entry)| (entry.used, *id))
            .collect();
        idle.sort_unstable();
        for (_, id) in idle {
            match self.open[&id].object.retire() {
                Ok(()) => {
                    self.open.remove(&id);
                    count -= 1;
                    if count == 0 {
                        return;
                    }
                }
                Err(error) => tracing::warn!(%error, "{id} stays open"),
            }
        }
    }
}
