//! After a server that was killed: looks for objects that no file needs, and tells the ranks. A client that dies with the server, or is gone when
//! it comes back, may have written objects of a file that is still held in its inode, or beyond the end of one, and told nobody; when such a file
//! is removed, nothing says that it has objects.
//!
//! Here: a walk over all objects, on a thread of its own, that asks the table. The journals know more than the table, so what is found here is only
//! suspected: the ranks decide, as for files of sessions that died (`loligo_mds`, `tidy.rs`). Not here: file systems of several ranks and
//! stores that servers share; offline, `loligo fsck --repair` does the same.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use loligo_journal::table::{Row, decode_row, key_inode};
use loligo_mds::Mds;
use loligo_store::{Backend, ObjectId, Table};
use loligo_types::{Ino, Kind, Rank};

use super::error::Result;
use super::queue::Inbox;
use super::rank::Done;

/// Inode numbers told at a time.
const AT_ONCE: usize = 1024;

/// Numbers that were in use when the server started: what is made since is not looked at, nor what only the owner of a decoupled directory knows.
#[derive(Default)]
pub(super) struct Before {
    /// Of each rank the first number that nothing had.
    next: BTreeMap<Rank, Ino>,
    granted: Vec<(Ino, u64)>,
}

impl Before {
    /// Adds what a rank knows that has just been recovered.
    pub(super) fn add(&mut self, mds: &Mds) {
        let next = mds.next_ino();
        self.next.insert(next.birth_rank(), next);
        self.granted.extend(mds.granted());
    }

    fn has(&self, ino: Ino) -> bool {
        let is_granted = || self.granted.iter().any(|(first, count)| ino.0.wrapping_sub(first.0) < *count);
        self.next.get(&ino.birth_rank()).is_some_and(|next| ino < *next) && !is_granted()
    }
}

/// The walk. Dropping it ends it.
pub(super) struct Strays {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Strays {
    /// Begins it.
    pub(super) fn look(backend: &Arc<dyn Backend>, before: Before, ranks: Vec<Arc<Inbox<Done>>>) -> Result<Strays> {
        let stop = Arc::<AtomicBool>::default();
        let (backend, is_over) = (backend.clone(), stop.clone());
        let walk = move || {
            let mut found = BTreeMap::new();
            let mut count = 0;
            let mut tell = |found: &mut BTreeMap<Ino, u64>, least: usize| {
                if found.len() > least {
                    count += found.len();
                    let strays: Vec<(Ino, u64)> = std::mem::take(found).into_iter().collect();
                    ranks.iter().for_each(|inbox| inbox.push(Done::Strays(strays.clone())));
                }
            };
            let table = backend.table();
            let walked = backend.blobs().list(&mut |id, _| {
                if is_over.load(Ordering::Acquire) {
                    return ControlFlow::Break(());
                }
                let ino = Ino(id.ino);
                if before.has(ino) && !is_needed(&*table, id) {
                    let count = found.entry(ino).or_default();
                    *count = id.index.saturating_add(1).max(*count);
                    tell(&mut found, AT_ONCE);
                }
                ControlFlow::Continue(())
            });
            tell(&mut found, 0);
            if let Err(error) = walked {
                tracing::warn!(
                    "objects that no file needs were not looked for to the end: {error}; the next start after a kill does it"
                );
            }
            if count > 0 {
                tracing::info!(
                    "of {count} inodes the table does not know all objects: those that no file needs are dropped"
                );
            }
        };
        let thread = Some(super::start::spawn("loligo-strays", walk)?);
        Ok(Strays { stop, thread })
    }
}

impl Drop for Strays {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether the table says that a file has this object. A row that cannot be read is left to who reads the file.
fn is_needed(table: &dyn Table, id: ObjectId) -> bool {
    let key = key_inode(Ino(id.ino));
    let Ok(value) = table.get(&key) else { return true };
    match value.map(|value| decode_row(&key, &value)) {
        Some(Ok(Row::Inode(inode))) => {
            let count = inode.size.div_ceil(u64::from(inode.layout().object_size));
            inode.kind == Kind::File && !inode.inline && id.index < count
        }
        Some(_) => true,
        None => false,
    }
}
