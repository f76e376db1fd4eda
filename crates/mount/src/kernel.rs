//! Telling the kernel to drop what it caches. Every call returns when the kernel was told, which is what a client waits
//! for before it gives a lease back.
//!
//! Names are dropped one by one ([`crate::dentries`] knows them): each is looked up again before it is believed, and what it leads to
//! stays in use meanwhile. For that the kernel takes the directory's lock. Where somebody holds it who may wait for the very change that
//! made the server recall the lease ([`crate::expire`]), and where it is not known what the kernel may believe, the *epoch* is raised
//! instead, which takes no lock and makes the kernel drop every name that it has.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use loligo_fuse::{Device, Notify};
use loligo_types::Ino;

use crate::dentries::{DentryCache, Doubted};
use crate::expire::Expirer;
use crate::places::{Places, inode_of};
use crate::table::Table;
use crate::threads::{Doing, doing};
use crate::twins::Twins;

/// Number of tries, and pause between them, of notifying an inode that the kernel was told of but does not have yet.
const ARRIVAL_TRIES: u32 = 2000;
const ARRIVAL_PAUSE: Duration = Duration::from_micros(50);
/// Number of tries, and pause between them, of checking that nothing is under way in a directory.
const QUIET_TRIES: u32 = 25;
const QUIET_PAUSE: Duration = Duration::from_micros(200);

/// The way to the kernel of one mount. Made before the mount, because the client needs it first.
pub struct Kernel {
    device: OnceLock<Device>,
    epochs: AtomicBool,
    /// The directory that is mounted; none: that of the file system.
    root: OnceLock<Ino>,
    pub(crate) table: Arc<Table>,
    pub(crate) believed: DentryCache,
    pub(crate) twins: Twins,
    pub(crate) places: Places,
    expirer: Expirer,
    names: AtomicU64,
    all_names: AtomicU64,
    attrs: AtomicU64,
    datas: AtomicU64,
}

impl Kernel {
    pub(crate) fn new() -> Arc<Kernel> {
        Arc::new(Kernel {
            device: OnceLock::new(),
            epochs: AtomicBool::new(false),
            root: OnceLock::new(),
            table: Arc::default(),
            believed: DentryCache::default(),
            twins: Twins::default(),
            places: Places::default(),
            expirer: Expirer::default(),
            names: AtomicU64::new(0),
            all_names: AtomicU64::new(0),
            attrs: AtomicU64::new(0),
            datas: AtomicU64::new(0),
        })
    }

    /// This directory is mounted, and not the whole file system. Said before the mount, once.
    pub fn set_root(&self, dir: Ino) {
        self.root.set(dir).expect("a mount has one root");
    }

    /// The inode behind a number of the kernel: all have their inode number but the mounted directory, which has [`Ino::ROOT`]'s.
    pub(crate) fn ino(&self, node: u64) -> Ino {
        match self.root.get() {
            Some(root) if node == Ino::ROOT.0 => *root,
            _ => Ino(inode_of(node)),
        }
    }

    fn node(&self, ino: Ino) -> u64 {
        if self.root.get() == Some(&ino) { Ino::ROOT.0 } else { ino.0 }
    }

    /// From now on the kernel can be reached here.
    pub(crate) fn attach(&self, device: Device) {
        self.device.set(device).expect("a mount is attached once");
    }

    /// The kernel knows epochs, so it may be let to cache names.
    pub(crate) fn set_epochs(&self, known: bool) {
        self.epochs.store(known, Ordering::Release);
    }

    /// True if the kernel may cache names.
    pub fn caches_names(&self) -> bool {
        self.epochs.load(Ordering::Acquire)
    }

    /// Drops the names of a directory. Waits for calls on the directory for a few milliseconds at most, so it must not be called on a
    /// thread that serves some.
    pub fn names(&self, dir: Ino) {
        if !self.caches_names() {
            return;
        }
        self.names.fetch_add(1, Ordering::Relaxed);
        let dropped = match self.believed.doubt(dir) {
            Doubted::Names(names) => names.is_empty() || self.is_quiet(dir) && self.expire(dir, names),
            Doubted::Many => false,
        };
        if !dropped {
            self.all_names();
        }
    }

    /// Drops all names that the kernel caches. Takes no lock.
    pub(crate) fn all_names(&self) {
        self.all_names.fetch_add(1, Ordering::Relaxed);
        self.tell(Notify::Epoch);
    }

    fn expire(&self, dir: Ino, names: Vec<Box<[u8]>>) -> bool {
        self.device.get().is_none_or(|device| self.expirer.expire(device, self.node(dir), names))
    }

    /// Waits a little until no call is under way for which the kernel has a directory locked, and all threads have taken in what they were told of
    /// its names. Whether it is so. A call may begin right after that; then whoever tells the kernel of names is blocked until that has its answer.
    fn is_quiet(&self, dir: Ino) -> bool {
        // From when it is woken until it believes the name a thread waits for nothing that a signal could end.
        let is_past = |tid| matches!(doing(tid), Doing::Sleeping | Doing::Gone);
        for _ in 0..QUIET_TRIES {
            if self.believed.is_free(dir) && !self.believed.in_hand(dir, is_past) {
                return true;
            }
            std::thread::sleep(QUIET_PAUSE);
        }
        false
    }

    /// Drops attributes, ACLs and the like of an inode. Waits for no page.
    pub fn attr(&self, ino: Ino) {
        self.attrs.fetch_add(1, Ordering::Relaxed);
        self.table.bar(ino);
        self.inval_inode(ino, -1, 0);
    }

    /// Drops attributes and pages of a file; dirty pages of shared mappings are written back meanwhile, and pages that
    /// are being read are waited for. So it must not be called on a thread that serves reads or writes.
    pub fn data(&self, ino: Ino) {
        self.datas.fetch_add(1, Ordering::Relaxed);
        self.table.lose_cache(ino);
        self.inval_inode(ino, 0, 0);
    }

    /// Drops pages of a range (`len` 0: to the end) once; nothing is remembered.
    pub(crate) fn pages(&self, ino: Ino, offset: u64, len: u64) {
        self.inval_once(ino, i64::try_from(offset).unwrap_or(0), i64::try_from(len).unwrap_or(0));
    }

    /// Drops the attributes of an inode that a caller is using at this moment.
    pub(crate) fn attr_in_use(&self, ino: Ino) {
        self.inval_once(ino, -1, 0);
    }

    /// A file has at least so many bytes, which the kernel may not have taken from an answer: drops all pages, because they may end in
    /// zeros where the file goes on now, and moves the size. The kernel takes no answer to an earlier request any more.
    pub(crate) fn grown(&self, ino: Ino, size: u64) {
        self.pages(ino, 0, 0);
        self.tell(Notify::Grown { node: self.node(ino), size });
        self.table.grown(ino, size);
    }

    /// Counts of notifications, by kind.
    pub fn counts(&self) -> [(&'static str, u64); 4] {
        [("names", &self.names), ("all_names", &self.all_names), ("attributes", &self.attrs), ("data", &self.datas)]
            .map(|(kind, count)| (kind, count.load(Ordering::Relaxed)))
    }

    /// An answer that tells the kernel of an inode may be written, but not yet be taken in by the thread that asked:
    /// then the kernel says that it does not know the inode, and is asked again until it does, or forgot it.
    fn inval_inode(&self, ino: Ino, offset: i64, len: i64) {
        for _ in 0..ARRIVAL_TRIES {
            if self.inval_once(ino, offset, len) || !self.table.referenced(ino) {
                return;
            }
            std::thread::sleep(ARRIVAL_PAUSE);
        }
        tracing::debug!(%ino, "the kernel was told of an inode that it never took in");
    }

    fn inval_once(&self, ino: Ino, offset: i64, len: i64) -> bool {
        self.tell(Notify::Inode { node: self.node(ino), offset, len })
    }

    /// False: the kernel does not know what it is about.
    fn tell(&self, what: Notify<'_>) -> bool {
        self.device.get().is_none_or(|device| device.notify(what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_that_is_mounted_is_the_root_to_the_kernel() {
        let kernel = Kernel::new();
        assert_eq!((kernel.ino(1), kernel.node(Ino::ROOT)), (Ino::ROOT, 1));
        kernel.set_root(Ino(300));
        assert_eq!((kernel.ino(1), kernel.ino(300), kernel.ino(301)), (Ino(300), Ino(300), Ino(301)));
        assert_eq!((kernel.node(Ino(300)), kernel.node(Ino(301))), (1, 301));
    }

    #[test]
    fn before_the_mount_there_is_nothing_to_drop() {
        let kernel = Kernel::new();
        kernel.set_epochs(true);
        kernel.names(Ino::ROOT);
        kernel.attr(Ino(300));
        kernel.data(Ino(300));
        assert_eq!(kernel.counts().map(|(_, count)| count), [1, 0, 1, 1]);
    }
}
