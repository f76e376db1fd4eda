//! One mount from start to end: the place, the kernel's side, the threads, and the way out.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loligo_client::Call;
use loligo_driver::server::metrics::Distribution;
use loligo_fuse::{Capabilities, Device, FusermountError, InitError, Offer};
use loligo_types::Ino;

use crate::core::{Core, Pages};
use crate::cred::Who;
use crate::dispatch;
use crate::kernel::Kernel;
use crate::mountpoint::{self, FS_TYPE, MountLine};
use crate::name_caching::NameCaching;
use crate::session::{self, Readers};
use crate::submit::Submit;
use crate::table::guard;

/// A tick of [`crate::table::Table`].
const TICK: Duration = Duration::from_millis(50);
/// So often what is known of the names that the kernel has is tidied up: once a minute.
const TIDY_TICKS: u32 = 1200;
/// Time limit for the kernel to write back dirty pages before a mount in use ends.
const WRITES_BACK_WITHIN: Duration = Duration::from_secs(10);
/// Time for which an unmount waits for the last users, and then for the connection to end.
const BUSY_FOR: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(100);
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// Time for which pages of a mapping are kept that others may write.
const MAPPED: Duration = Duration::from_millis(100);
/// Read-ahead of the kernel.
const READ_AHEAD: u32 = 1 << 20;

/// Options of a mount.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Where. Made if it is not there.
    pub path: PathBuf,
    /// Device name in `df` and `/proc/mounts`.
    pub fs_name: String,
    /// Refuse all changes.
    pub read_only: bool,
    /// Let other users than the mounting one in.
    pub allow_other: bool,
    /// Mount over a directory that has entries.
    pub nonempty: bool,
    /// Let programs run as their owners: heed set-user-ID and set-group-ID bits and file capabilities. Not where only the mounting user is let
    /// in, and not for others than root.
    pub suid: bool,
    /// Let device nodes be used. With the limits of `suid`.
    pub dev: bool,
    /// Let nobody run programs.
    pub noexec: bool,
    /// Threads that take requests from the kernel, unless the client takes them itself.
    pub threads: usize,
    /// Largest write, bytes.
    pub max_write: u32,
    /// Names are cached no further than this, also where the kernel can do more.
    pub name_caching: NameCaching,
}

impl MountOptions {
    /// The defaults for a path: for all users if root mounts.
    pub fn new(path: impl Into<PathBuf>) -> MountOptions {
        MountOptions {
            path: path.into(),
            fs_name: "loligo".into(),
            read_only: false,
            allow_other: rustix::process::geteuid().is_root(),
            nonempty: false,
            suid: false,
            dev: false,
            noexec: false,
            threads: std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8)),
            max_write: 1 << 20,
            name_caching: NameCaching::Epochs,
        }
    }
}

/// Why a mount did not come to be.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// Something is mounted there.
    #[error("{path} is in use: {source_name} ({fs_type}) is mounted there; unmount it, or choose another place")]
    InUse {
        /// The mount point.
        path: PathBuf,
        /// Type of what is there.
        fs_type: String,
        /// Name of what is there.
        source_name: String,
    },
    /// It has entries.
    #[error("{path} is not empty, and its entries would be hidden; choose an empty directory, or say --nonempty")]
    NotEmpty {
        /// The mount point.
        path: PathBuf,
    },
    /// The path cannot be used.
    #[error("cannot mount at {path}: {source}")]
    Path {
        /// The mount point.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No FUSE here.
    #[error("cannot open /dev/fuse: {0}; load the module (modprobe fuse), or give the container the device")]
    NoFuse(io::Error),
    /// The mount failed.
    #[error("the kernel refused to mount at {path}: {source}")]
    Refused {
        /// The mount point.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The mount failed for a user who is not root.
    #[error("cannot mount at {path}: {source}")]
    Fusermount {
        /// The mount point.
        path: PathBuf,
        /// Why.
        source: FusermountError,
    },
    /// The kernel and this program do not understand each other.
    #[error("cannot mount at {path}: {source}")]
    Init {
        /// The mount point.
        path: PathBuf,
        /// Why.
        source: InitError,
    },
    /// The client could not be made.
    #[error("{0}")]
    Client(Box<dyn std::error::Error + Send + Sync>),
}

/// Result of an unmount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmounted {
    /// Nobody used it any more.
    Clean,
    /// It was gone before.
    Already,
    /// It was in use: it was taken out of sight, and those who still had files open there got errors.
    Forced,
}

/// Counts for the metrics page.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Requests of the kernel by operation.
    pub ops: Vec<(&'static str, u64)>,
    /// Bytes of file data read and written.
    pub bytes: [(&'static str, u64); 2],
    /// Time until a sync of a file was answered, nanoseconds.
    pub fsync: Distribution,
    /// Errors answered, by kind.
    pub errors: Vec<(&'static str, u64)>,
    /// Notifications to the kernel: names of a directory, all names, waits for the time limit of names, attributes, data.
    pub notifications: [(&'static str, u64); 5],
    /// Inodes that the kernel knows.
    pub inodes: usize,
}

type CountsFn = Box<dyn Fn() -> Counts + Send + Sync>;

/// A mounted file system. Dropping it unmounts.
pub struct Mount {
    path: PathBuf,
    line: Option<MountLine>,
    notes: Vec<String>,
    readers: Arc<Readers>,
    helpers: Mutex<Option<Helpers>>,
    counts: CountsFn,
}

struct Helpers {
    stop: mpsc::Sender<()>,
    threads: Vec<JoinHandle<()>>,
    /// Closes the way to the thread that drops pages.
    close_pages: Box<dyn FnOnce() + Send>,
}

impl Mount {
    /// Mounts. `client` makes the client; it is given the way by which caches of the kernel are to be invalidated.
    pub fn start<S, F, E>(options: &MountOptions, client: F) -> Result<Mount, MountError>
    where
        S: Submit,
        F: FnOnce(Arc<Kernel>) -> Result<S, E>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (path, notes) = mountpoint::prepare(&options.path, options.nonempty)?;
        let kernel = Kernel::new();
        let client = client(kernel.clone()).map_err(|e| MountError::Client(e.into()))?;
        let (to_drop, pages) = mpsc::channel();
        let core = Arc::new(Core {
            client,
            kernel: kernel.clone(),
            creds: Default::default(),
            errors: Default::default(),
            ops: Default::default(),
            bytes: Default::default(),
            fsync: Default::default(),
            dirs: Default::default(),
            waits: Default::default(),
            held: Default::default(),
            drop_pages: Mutex::new(Some(to_drop)),
        });
        let device = mount(&path, options)?;
        let failed = |source| MountError::Refused { path: path.clone(), source };
        let readers = begin(&core, &device, options)
            .and_then(|()| session::start(&core, &device, options.threads, options.max_write).map_err(failed))
            .inspect_err(|_| _ = mountpoint::detach(&path))?;
        let helpers = helpers(core.clone(), pages);
        let line = mountpoint::mounted_at(&path).ok().flatten().filter(|l| l.fs_type.starts_with("fuse"));
        if let Some(line) = &line {
            mountpoint::read_ahead(line, READ_AHEAD);
        }
        Ok(Mount {
            path,
            line,
            notes,
            readers,
            helpers: Mutex::new(Some(helpers)),
            counts: Box::new(move || counts(&core)),
        })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes for the user on how it was mounted.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Counts since the start.
    pub fn counts(&self) -> Counts {
        (self.counts)()
    }

    /// Waits until it is unmounted, by whomever, for at most `limit`. Says whether it is.
    pub fn wait(&self, limit: Duration) -> bool {
        let ended = self.readers.wait(limit);
        if ended {
            self.stop_helpers();
        }
        ended
    }

    /// Unmounts, by force if it stays in use, and ends all threads.
    pub fn unmount(&self) -> io::Result<Unmounted> {
        if self.wait(Duration::ZERO) {
            return Ok(Unmounted::Already);
        }
        let deadline = Instant::now() + BUSY_FOR;
        let how = loop {
            match mountpoint::unmount(&self.path) {
                Ok(()) => break Unmounted::Clean,
                // No mount there: somebody was faster.
                Err(e) if e.kind() == io::ErrorKind::InvalidInput || e.kind() == io::ErrorKind::NotFound => {
                    break Unmounted::Already;
                }
                Err(e) if e.kind() == io::ErrorKind::ResourceBusy && Instant::now() > deadline => {
                    // The end of the connection drops the kernel's dirty pages, as those of shared mappings.
                    if !mountpoint::write_back(&self.path, self.line.as_ref(), WRITES_BACK_WITHIN) {
                        tracing::warn!(path = %self.path.display(), "pages that programs have mapped and changed may be lost");
                    }
                    mountpoint::force(self.line.as_ref(), &self.path)?;
                    break Unmounted::Forced;
                }
                Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {
                    if self.wait(LOOK) {
                        return Ok(Unmounted::Already);
                    }
                }
                Err(e) => return Err(e),
            }
        };
        if self.wait(ENDS_WITHIN) {
            return Ok(how);
        }
        // Out of sight, but somebody holds on to it from elsewhere, such as another mount namespace.
        if let Some(line) = &self.line {
            mountpoint::abort(line.minor)?;
        }
        if self.wait(ENDS_WITHIN) {
            return Ok(Unmounted::Forced);
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the FUSE session does not end"))
    }

    fn stop_helpers(&self) {
        if let Some(helpers) = guard(&self.helpers).take() {
            drop(helpers.stop);
            (helpers.close_pages)();
            for thread in helpers.threads {
                if thread.join().is_err() {
                    tracing::error!("a thread of the mount panicked");
                }
            }
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            tracing::error!(path = %self.path.display(), %error, "could not unmount; unmount it by hand (umount -l)");
        }
    }
}

fn counts<S: Submit>(core: &Core<S>) -> Counts {
    Counts {
        ops: core.ops.snapshot(),
        bytes: core.bytes.snapshot(),
        fsync: core.fsync.snapshot(),
        errors: core.errors.snapshot(),
        notifications: core.kernel.counts(),
        inodes: core.kernel.table.count(),
    }
}

/// The handshake, and what follows from it.
fn begin<S: Submit>(core: &Core<S>, device: &Device, options: &MountOptions) -> Result<(), MountError> {
    let wish = dispatch::wish(options.max_write);
    let init = |source| MountError::Init { path: options.path.clone(), source };
    let Offer { minor, capabilities } = device.handshake(&wish).map_err(init)?;
    core.kernel.attach(device.clone());
    if !capabilities.has(Capabilities::POSIX_ACL) {
        tracing::warn!("the kernel's FUSE does not know ACLs; only the server checks them");
    }
    let caching = NameCaching::of_kernel(minor).min(options.name_caching);
    tracing::debug!(minor, ?caching, "names in the kernel's cache");
    core.kernel.set_caching(caching);
    Ok(())
}

/// Mounts, as root or by fusermount3. Nothing serves the device yet.
pub(crate) fn mount(path: &Path, options: &MountOptions) -> Result<Device, MountError> {
    if rustix::process::geteuid().is_root() {
        return mount_as_root(path, options);
    }
    let access = if options.read_only { "ro" } else { "rw" };
    let others = if options.allow_other { ",allow_other" } else { "" };
    let programs = if options.noexec { ",noexec" } else { "" };
    // A comma or a backslash in a name would end the option.
    let name = options.fs_name.replace('\\', "\\\\").replace(',', "\\,");
    let text = format!("{access},nosuid,nodev{programs},default_permissions,fsname={name},subtype=loligo{others}");
    let failed = |source| MountError::Fusermount { path: path.to_owned(), source };
    loligo_fuse::fusermount(path, &text).map_err(failed)
}

fn mount_as_root(path: &Path, options: &MountOptions) -> Result<Device, MountError> {
    use rustix::mount::MountFlags;
    let refused = |source: io::Error| MountError::Refused { path: path.to_owned(), source };
    let device = Device::open().map_err(MountError::NoFuse)?;
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
        device.as_fd().as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let mut flags = MountFlags::empty();
    if options.allow_other {
        data.push_str(",allow_other");
    }
    flags.set(MountFlags::NOSUID, !(options.suid && options.allow_other));
    flags.set(MountFlags::NODEV, !(options.dev && options.allow_other));
    flags.set(MountFlags::NOEXEC, options.noexec);
    if options.read_only {
        flags |= MountFlags::RDONLY;
    }
    let data = std::ffi::CString::new(data).map_err(|e| refused(e.into()))?;
    let target = mountpoint::c_path(path).map_err(refused)?;
    rustix::mount::mount(options.fs_name.as_str(), &target, FS_TYPE, flags, Some(data.as_c_str()))
        .map_err(|e| refused(e.into()))?;
    Ok(device)
}

fn helpers<S: Submit>(core: Arc<Core<S>>, pages: mpsc::Receiver<Pages>) -> Helpers {
    let (stop, stopped) = mpsc::channel();
    let ticker = core.clone();
    let dropper = core.kernel.clone();
    let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.into()).spawn(body).expect("a thread can be started")
    };
    let threads = vec![
        spawn("loligo-mount-tick", Box::new(move || tick(&ticker, &stopped))),
        spawn("loligo-mount-pages", Box::new(move || drop_pages(&dropper, &pages))),
    ];
    Helpers { stop, threads, close_pages: Box::new(move || *guard(&core.drop_pages) = None) }
}

/// Drops pages: at once, or those of mappings some time after the first of them was filled.
fn drop_pages(kernel: &Kernel, pages: &mpsc::Receiver<Pages>) {
    let mut later: BTreeMap<Ino, Instant> = BTreeMap::new();
    loop {
        let next = match later.values().min() {
            Some(due) => pages.recv_timeout(due.saturating_duration_since(Instant::now())),
            None => pages.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match next {
            Ok(Pages { ino, later: true, .. }) => _ = later.entry(ino).or_insert_with(|| Instant::now() + MAPPED),
            Ok(Pages { ino, offset, len, grown, then, .. }) => {
                match grown {
                    Some(size) => kernel.grown(ino, size),
                    None => kernel.pages(ino, offset, len),
                }
                if let Some(then) = then {
                    then();
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        later.retain(|ino, due| {
            let waits = *due > now;
            if !waits {
                kernel.pages(*ino, 0, 0);
            }
            waits
        });
    }
}

/// Counts time and gives back the leases of what the kernel forgot.
fn tick<S: Submit>(core: &Arc<Core<S>>, stopped: &mpsc::Receiver<()>) {
    let root = core.creds.plain(Who { uid: 0, gid: 0, pid: 0 });
    let (table, believed) = (&core.kernel.table, &core.kernel.believed);
    while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(TICK) {
        let inos = table.advance();
        core.look_at_waits();
        core.kernel.places.forget(&inos);
        for fh in core.held.tick(table.now()) {
            core.client.submit(&root, Call::Release { fh, flock_owner: None }, |_| ());
        }
        inos.iter().for_each(|ino| believed.forget(*ino));
        if table.now().is_multiple_of(TIDY_TICKS) {
            believed.tidy(table.now());
        }
        if !inos.is_empty() {
            core.client.submit(&root, Call::Forget { inos }, |_| ());
        }
    }
}
