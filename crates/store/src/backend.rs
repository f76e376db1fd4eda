//! A whole engine: table, blobs and journals of one file system, owned by one server process. Not a
//! factory: each backend has its own way to be formatted and opened.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::{Blobs, Clients, Identity, LogDir, Result, Servers, Snapshots, Table};

/// Space of the device under a backend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Size of the device in bytes.
    pub total_bytes: u64,
    /// Bytes that the server can still write.
    pub free_bytes: u64,
    /// Files that the device can hold; 0 if it knows no such limit.
    pub total_inodes: u64,
    /// Files that can still be made; 0 if the device knows no such limit.
    pub free_inodes: u64,
}

/// Until when what a server owns of a shared store is its own for certain. Its writes the store refuses by itself once another one owns it;
/// what it answers from memory it must not answer then.
pub trait Lease: Send + Sync {
    /// True if nobody can have taken over by now. If not, that may still turn out.
    fn holds(&self) -> bool;

    /// Why it is known that another one has.
    fn lost(&self) -> Option<String>;
}

/// An open engine. Whoever holds one is its only owner: a second process (or a second opening in the
/// same one) is refused with [`crate::StoreError::InUse`] until this one is dropped.
///
/// Dropping it without [`Backend::close`] is like being killed: nothing that was durable is lost.
pub trait Backend: Send + Sync {
    /// Identity of the file system.
    fn identity(&self) -> Identity;

    /// The table.
    fn table(&self) -> Arc<dyn Table>;

    /// The table as a rank that is owned writes it: what it writes is refused once another one owns the rank.
    fn table_of(&self, _rank: u32) -> Result<Arc<dyn Table>> {
        Ok(self.table())
    }

    /// Owns a rank from now on, to change its journal and what it has in the table: when this returns, nothing that an owner before has
    /// begun takes effect any more. Done before anything of it is read.
    fn own(&self, _rank: u32) -> Result<()> {
        Ok(())
    }

    /// Until when what is owned is owned; `None`: as long as this is open.
    fn lease(&self) -> Option<Arc<dyn Lease>> {
        None
    }

    /// Flag that the store has no room, if calls do not tell it: requests that need more should be refused while it is set, but writes are
    /// still taken. `None`: a call that finds no room ends with [`crate::StoreError::Full`].
    fn full(&self) -> Option<Arc<AtomicBool>> {
        None
    }

    /// The other servers, if this was opened to be shared with some.
    fn servers(&self) -> Option<Arc<dyn Servers>> {
        None
    }

    /// Clients that reach file data by themselves; `None`: they cannot.
    fn clients(&self) -> Option<Arc<dyn Clients>> {
        None
    }

    /// Snapshots of it, while it is open; `None`: it makes none.
    fn snapshots(&self) -> Option<Arc<dyn Snapshots>> {
        None
    }

    /// The objects with file data.
    fn blobs(&self) -> Arc<dyn Blobs>;

    /// The journal directory of a rank, made if there is none.
    fn log_dir(&self, rank: u32) -> Result<Arc<dyn LogDir>>;

    /// The ranks that have a journal directory, ascending.
    fn ranks(&self) -> Result<Vec<u32>>;

    /// Space of the device.
    fn statfs(&self) -> Result<StatFs>;

    /// A clean stop: makes everything durable and says so on disk, so that the next opening has
    /// nothing to check. No writes may follow. The lock goes when the last handle is dropped.
    fn close(&self) -> Result<()>;
}
