//! Telling the kernel to drop what it caches. Every call returns when the kernel was told, which is what a client waits
//! for before it gives a lease back.
//!
//! Names are dropped one by one ([`crate::dentries`] knows them): each is looked up again before it is believed, and what it leads to
//! stays in use meanwhile. For that the kernel takes the directory's lock. Somebody may hold it who waits for the very change that
//! made the server recall the lease ([`crate::expire`]), or it may not be known what the kernel believes. Then the *epoch* is raised
//! instead, which takes no lock and makes the kernel drop every name that it has. An older kernel has no epochs: there names have a
//! time limit ([`crate::name_caching`]), and its end is waited for.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use loligo_fuse::{Device, Notify};
use loligo_types::Ino;

use crate::dentries::{DentryCache, Doubted};
use crate::expire::Expirer;
use crate::name_caching::NameCaching;
use crate::places::{Places, inode_of};
use crate::table::{Table, guard};
use crate::threads::{Doing, cpu_time, doing};
use crate::twins::Twins;

/// Number of tries, and pause between them, of notifying an inode that the kernel was told of but does not have yet.
const ARRIVAL_TRIES: u32 = 2000;
const ARRIVAL_PAUSE: Duration = Duration::from_micros(50);
/// Number of tries, and pause between them, of checking that nothing is under way in a directory.
const QUIET_TRIES: u32 = 25;
const QUIET_PAUSE: Duration = Duration::from_micros(200);
/// Names are waited for longer than their time limit by this: the kernel rounds to its ticks, and threads take answers in a moment late.
const LIMIT_SLACK: Duration = Duration::from_millis(30);
/// A thread that has run for so long since it was woken has taken in what woke it.
const TAKEN_IN: Duration = Duration::from_millis(2);
/// Pause between two looks at threads that have not taken in an answer yet, and the time after which all count as having done so: far
/// longer than a thread that can run is left waiting.
const TAKING_PAUSE: Duration = Duration::from_millis(1);
const TAKING_MAX: Duration = Duration::from_secs(5);

/// The way to the kernel of one mount. Made before the mount, because the client needs it first.
pub struct Kernel {
    device: OnceLock<Device>,
    caching: OnceLock<NameCaching>,
    /// The directory that is mounted; none: that of the file system.
    root: OnceLock<Ino>,
    pub(crate) table: Arc<Table>,
    pub(crate) believed: DentryCache,
    pub(crate) twins: Twins,
    pub(crate) places: Places,
    expirer: Expirer,
    names: AtomicU64,
    all_names: AtomicU64,
    waited: AtomicU64,
    attrs: AtomicU64,
    datas: AtomicU64,
}

impl Kernel {
    pub(crate) fn new() -> Arc<Kernel> {
        Arc::new(Kernel {
            device: OnceLock::new(),
            caching: OnceLock::new(),
            root: OnceLock::new(),
            table: Arc::default(),
            believed: DentryCache::default(),
            twins: Twins::default(),
            places: Places::default(),
            expirer: Expirer::default(),
            names: AtomicU64::new(0),
            all_names: AtomicU64::new(0),
            waited: AtomicU64::new(0),
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

    /// Level to which the kernel may cache names. Said at the mount, once.
    pub(crate) fn set_caching(&self, caching: NameCaching) {
        self.caching.set(caching).expect("a mount begins once");
    }

    /// Level to which the kernel may cache names; before the mount it does not.
    pub fn caching(&self) -> NameCaching {
        self.caching.get().copied().unwrap_or(NameCaching::Off)
    }

    /// True if the kernel may cache names.
    pub fn caches_names(&self) -> bool {
        self.caching() != NameCaching::Off
    }

    /// Time for which the kernel may use a name without asking again.
    pub(crate) fn name_ttl(&self, believed: bool) -> Duration {
        if believed { self.caching().ttl() } else { Duration::ZERO }
    }

    /// Drops the names of directories. Waits for calls on a directory for a few milliseconds at most, and on kernels without epochs for the
    /// time limit of names, so it must not be called on a thread that serves calls.
    pub fn names(&self, dirs: &[Ino]) {
        let caching = self.caching();
        if caching == NameCaching::Off {
            return;
        }
        self.names.fetch_add(dirs.len() as u64, Ordering::Relaxed);
        let mut left = Vec::new();
        for dir in dirs {
            let (doubted, told) = self.believed.doubt(*dir);
            let dropped = match doubted {
                Doubted::Names(names) if names.is_empty() => true,
                Doubted::Names(names) => caching.can_expire() && self.is_quiet(*dir) && self.expire(*dir, names),
                Doubted::Many => false,
            };
            if !dropped {
                left.push((*dir, told));
            }
        }
        match (left.is_empty(), caching.is_limited()) {
            (true, _) => {}
            (false, true) => self.wait_for_limit(left),
            (false, false) => self.all_names(),
        }
    }

    /// The kernel may believe names of directories that have just been renamed, which no lease covers. Does the rest when it does not any
    /// more: at once, or when their time limit has ended. The kernel has the directories locked until the call is answered.
    pub(crate) fn names_moved(self: &Arc<Self>, dirs: [Ino; 2], then: impl FnOnce() + Send + 'static) {
        if !self.caching().is_limited() {
            self.all_names();
            return then();
        }
        let told: Vec<_> = dirs.iter().map(|dir| (*dir, self.believed.told(*dir))).collect();
        let kernel = self.clone();
        let wait = move || {
            kernel.wait_for_limit(told);
            then();
        };
        run_beside("lol-names-end", wait, |name, job| {
            std::thread::Builder::new().name(name.into()).spawn(job).map(drop)
        });
    }

    /// Drops all names that the kernel caches. Takes no lock.
    fn all_names(&self) {
        self.all_names.fetch_add(1, Ordering::Relaxed);
        self.tell(Notify::Epoch);
    }

    /// Waits until the time limit of all names of directories has ended. No answer that is decided from now on is to be believed. With each: when the kernel was
    /// last told to believe a name of it.
    fn wait_for_limit(&self, dirs: Vec<(Ino, Option<Instant>)>) {
        self.waited.fetch_add(1, Ordering::Relaxed);
        let mut told = dirs.iter().filter_map(|(_, told)| *told).max();
        let (begin, mut ran) = (Instant::now(), HashMap::new());
        // The limit begins when the thread that asked takes the answer in.
        let mut is_past = |tid| match doing(tid) {
            Doing::Sleeping | Doing::Gone => true,
            _ => cpu_time(tid).is_some_and(|now| now >= *ran.entry(tid).or_insert(now) + TAKEN_IN),
        };
        while begin.elapsed() < TAKING_MAX {
            // All of them are looked at: who is past its answer is forgotten by that.
            let mut late = false;
            dirs.iter().for_each(|(dir, _)| late |= self.believed.in_hand(*dir, &mut is_past));
            if !late {
                break;
            }
            told = Some(Instant::now());
            std::thread::sleep(TAKING_PAUSE);
        }
        told = told.max(dirs.iter().filter_map(|(dir, _)| self.believed.told(*dir)).max());
        let over = told.map(|told| told + self.caching().ttl() + LIMIT_SLACK);
        while let Some(rest) =
            over.and_then(|over| over.checked_duration_since(Instant::now())).filter(|d| !d.is_zero())
        {
            std::thread::sleep(rest);
        }
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
    pub fn counts(&self) -> [(&'static str, u64); 5] {
        let (names, all, waited) = (&self.names, &self.all_names, &self.waited);
        [
            ("names", names),
            ("all_names", all),
            ("names_waited", waited),
            ("attributes", &self.attrs),
            ("data", &self.datas),
        ]
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

type Job = Box<dyn FnOnce() + Send>;

/// Runs a job on a thread of its own, as the one that asks may serve everybody. If there is none (`spawn` fails), that one runs it: a call
/// that is answered late is better than one that is never answered.
fn run_beside(name: &str, job: impl FnOnce() + Send + 'static, spawn: impl FnOnce(&str, Job) -> std::io::Result<()>) {
    let job: Arc<Mutex<Option<Job>>> = Arc::new(Mutex::new(Some(Box::new(job))));
    let run = |job: &Mutex<Option<Job>>| {
        let job = guard(job).take();
        job.into_iter().for_each(|job| job());
    };
    let beside = job.clone();
    if let Err(error) = spawn(name, Box::new(move || run(&beside))) {
        tracing::warn!(%error, "no thread to wait with: other calls wait meanwhile");
        run(&job);
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
        kernel.set_caching(NameCaching::Epochs);
        kernel.names(&[Ino::ROOT]);
        kernel.attr(Ino(300));
        kernel.data(Ino(300));
        assert_eq!(kernel.counts().map(|(_, count)| count), [1, 0, 0, 1, 1]);
    }

    #[test]
    fn without_epochs_the_limit_of_names_is_waited_for() {
        for caching in [NameCaching::Timed, NameCaching::Expiry] {
            let kernel = Kernel::new();
            kernel.set_caching(caching);
            let (dir, other) = (Ino(300), Ino(301));
            assert!(kernel.believed.may_believe(dir, b"a", kernel.believed.now(), 1));
            let told = kernel.believed.told(dir).expect("told");
            // A call is under way that has the directory locked, so that single names cannot expire.
            kernel.believed.begin(dir);
            kernel.names(&[other, dir]);
            assert!(told.elapsed() > caching.ttl());
            assert_eq!(kernel.counts()[2], ("names_waited", 1));
            kernel.names(&[other, dir]);
            assert_eq!(kernel.counts()[2], ("names_waited", 1), "there is nothing to wait for any more");
        }
    }

    #[test]
    fn a_rename_that_moves_a_believed_name_is_answered_after_its_limit() {
        let kernel = Kernel::new();
        kernel.set_caching(NameCaching::Timed);
        let dir = Ino(300);
        assert!(kernel.believed.may_believe(dir, b"a", kernel.believed.now(), 1));
        let told = kernel.believed.told(dir).expect("told");
        let (tell, answered) = std::sync::mpsc::channel();
        kernel.names_moved([dir, Ino(301)], move || tell.send(Instant::now()).expect("it waits"));
        assert!(answered.recv().expect("answered") >= told + NameCaching::Timed.ttl());
    }

    #[test]
    fn without_a_thread_a_call_is_answered_all_the_same_and_once() {
        let (tell, answered) = std::sync::mpsc::channel();
        let refused = |_: &str, job: Job| {
            drop(job);
            Err(std::io::ErrorKind::WouldBlock.into())
        };
        run_beside("no", move || tell.send(()).expect("it waits"), refused);
        assert_eq!(answered.try_iter().count(), 1);
    }
}
