//! A server in this process: store, server and admin plane, started in order and stopped in order. Not here: the mount.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use loligo_driver::client::{Client, Options};
use loligo_driver::server::{Connections, Progress, Resident, Sharing};
use loligo_driver::{Address, Joint, RowsError, Server, ServerConfig, ServerError, socket_in};
use loligo_mount::{Kernel, Mount, MountOptions, NameCaching};
use loligo_store::{Backend, Lease, StoreError};
use loligo_store_rados::RadosWays;
use loligo_types::{Cred, Ino, JournalMode, Kind, Rank};

use super::admin::{Admin, Source};
use super::daemon;
use super::descriptors::Descriptors;
use super::signals::Stopping;
use super::state::ServerState;
use super::told;
use super::{preflight, presence, unmerged};
use crate::args::{MountOptions as MountArgs, Ranks, Run};
use crate::at::{Opening, Store};
use crate::output::{Context, Failure, note, quoted};
use crate::progress::{Bar, Unit};
use crate::settings::Settings;

/// Time limit for a process that was killed to let go of its data directory.
const LET_GO: Duration = Duration::from_secs(15);
/// Time limit to see that a connection has ended.
const HANGS_UP: Duration = Duration::from_millis(300);
/// The longest path of a Unix socket (`sun_path`), less the longest name of ours.
const SOCKET_DIR_MAX: usize = 107 - "/loligo-63.sock".len();
/// Time limit for clients to write back the changes that they hold.
const WRITE_BACK: Duration = Duration::from_secs(60);

/// A running server.
pub struct Node {
    pub server: Arc<Server>,
    pub source: Arc<Source>,
    data: PathBuf,
    admin: Admin,
    /// Until when what it owns of a shared store is its own.
    lease: Option<Arc<dyn Lease>>,
    /// It runs ranks for another server, of which the next commands know.
    has_joined: bool,
    stands_by: bool,
    /// Keeps others out of the directory; the last to go.
    _lock: Option<File>,
}

/// Role of a server beside others.
pub struct Part<'a> {
    /// Ranks that other processes of this machine run.
    pub elsewhere: &'a [u16],
    /// On a store that servers share.
    pub sharing: Sharing,
}

/// A mount in this process and the client below it.
pub struct Mounted {
    pub mount: Arc<Mount>,
    /// The server, as the name of the device says it.
    server: String,
    client: Below,
}

/// The client below a mount.
enum Below {
    /// With a connection.
    Connected(Client),
    /// On the server's own thread.
    Resident(Resident),
}

/// The settings of a service: those of everybody, with its own options on top.
pub fn settings(given: &crate::settings::Given, data: &Path, run: &Run) -> Result<Settings, Failure> {
    let mut flags = Vec::new();
    if !run.listen.is_empty() {
        flags.push(("listen".to_string(), run.listen.join(",")));
    }
    flags.extend(run.admin.clone().map(|admin| ("admin".to_string(), admin)));
    flags.extend(run.log.clone().map(|log| ("log".to_string(), log)));
    let settings = Settings::load(given, Some(data), &flags)?;
    settings.check()?;
    preflight::addresses(&settings)?;
    Ok(settings)
}

/// The absolute path of a data directory, which a socket can be made in.
pub fn data_dir(data: &Path) -> Result<PathBuf, Failure> {
    let full = std::path::absolute(data).context(|| format!("data directory {}", data.display()))?;
    if full.to_str().is_none() {
        return Err(Failure::usage(format!("data directory {}: the path is not UTF-8", full.display()))
            .remedy("choose another one; a symbolic link to it will do"));
    }
    if full.as_os_str().len() > SOCKET_DIR_MAX {
        return Err(Failure::usage(format!(
            "data directory {}: the path has {} bytes; a socket in it can be reached up to {SOCKET_DIR_MAX}",
            full.display(),
            full.as_os_str().len()
        ))
        .remedy("use a shorter path; a symbolic link to it will do"));
    }
    if full.exists() && !full.is_dir() {
        return Err(
            Failure::new(format!("data directory {}: this is no directory", full.display())).remedy("name a directory")
        );
    }
    Ok(full)
}

/// A mount over its own data directory would make the server wait for itself.
pub fn refuse_cover(data: &Path, at: &Path) -> Result<(), Failure> {
    let real = data.canonicalize().unwrap_or_else(|_| data.to_path_buf());
    if at.starts_with(&real) {
        return Err(Failure::usage(format!(
            "the mount point {} is inside its own data directory {}",
            at.display(),
            real.display()
        ))
        .remedy("choose a mount point elsewhere"));
    }
    if !real.starts_with(at) {
        return Ok(());
    }
    Err(Failure::usage(format!("a mount at {} would cover its own data directory {}", at.display(), real.display()))
        .remedy("choose a mount point that is not above the data directory"))
}

/// Opens the store, to have it alone. A process that was killed a moment ago is waited for.
pub fn open_store(at: &Store, how: Opening) -> Result<Arc<dyn Backend>, Failure> {
    open(at, || at.open(how))
}

fn open(
    at: &Store,
    mut open: impl FnMut() -> Result<Arc<dyn Backend>, StoreError>,
) -> Result<Arc<dyn Backend>, Failure> {
    let until = Instant::now() + LET_GO;
    let data = at.data();
    loop {
        match (open(), at) {
            (Ok(store), _) => return Ok(store),
            (Err(StoreError::InUse { .. }), Store::Local(_)) if !is_alive(data) && Instant::now() < until => {
                wait_for_lock(data, until);
            }
            (Err(error @ StoreError::InUse { .. }), _) => {
                let text = error.to_string();
                let stop = match at {
                    Store::Local(_) => format!("stop it: loligo down --data {}", quoted(data)),
                    Store::Rados { .. } => "stop it; or serve together with it: loligo serve".to_string(),
                };
                return Err(Failure::new(text.split(';').next().unwrap_or(&text).to_string()).remedy(stop));
            }
            (Err(StoreError::Full { what }), Store::Local(_)) => {
                return Err(Failure::new(format!("{what}: no space left on the disk, so nothing was started"))
                    .remedy("free space on that disk, or enlarge it, and start again"));
            }
            (Err(StoreError::ReadOnly { what, cause }), Store::Local(_)) if is_read_only(data) => {
                return Err(on_read_only(data, &what, &cause));
            }
            (Err(error), _) => return Err(Failure::new(error.to_string())),
        }
    }
}

/// The file system that holds the data directory is mounted read-only.
fn is_read_only(data: &Path) -> bool {
    rustix::fs::statvfs(data).is_ok_and(|about| about.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

fn on_read_only(data: &Path, what: &str, cause: &str) -> Failure {
    let data = quoted(data);
    Failure::new(format!(
        "{what} cannot be written ({cause}): the disk is mounted read-only, and a server writes its journal also to serve those who only read"
    ))
    .remedy(format!(
        "mount the disk read-write; if the kernel made it read-only after an error, do not: check what is there (loligo fsck --data {data} \
         --data-checksums), copy it to another disk (loligo copy --from {data} --to DIR), and serve the copy"
    ))
}

/// True if the process that has the directory lives. One that was killed accepts connections for as long as the system takes to free its
/// memory: its sockets are closed after that, like its lock.
fn is_alive(data: &Path) -> bool {
    let Address::Unix(path) = socket_in(data) else { return false };
    let Ok(connection) = UnixStream::connect(&path) else { return false };
    if is_dying(data) {
        return false;
    }
    // Nobody has said anything, so whoever lives neither answers nor hangs up so soon.
    let ends = connection.set_read_timeout(Some(HANGS_UP)).and_then(|()| (&connection).read(&mut [0]));
    !matches!(ends, Ok(0)) && !ends.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
}

/// Refuses to start a server beside one that serves the same directory, and names what that one does.
pub fn refuse_second(data: &Path) -> Result<(), Failure> {
    let Ok(Some(state)) = ServerState::read(data) else { return Ok(()) };
    if !is_alive(data) {
        return Ok(());
    }
    let mounted = state.mount.as_ref().map_or(String::new(), |at| format!(", and mounted at {}", at.display()));
    let shown = quoted(data);
    Err(Failure::new(format!("{} is served already by process {}{mounted}", data.display(), state.pid)).remedy(
        format!("a further mount: loligo mount --data {shown} MOUNT; to begin anew: loligo down --data {shown}"),
    ))
}

/// True if the process named in the directory's lock was told to end at once, or has ended.
fn is_dying(data: &Path) -> bool {
    let Ok(owner) = std::fs::read_to_string(data.join("lock")) else { return false };
    let Ok(owner) = owner.trim().parse::<u32>() else { return false };
    let Ok(status) = std::fs::read_to_string(format!("/proc/{owner}/status")) else { return true };
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let is_killed = |name: &str| {
        let signals = field(name).and_then(|set| u64::from_str_radix(set, 16).ok());
        signals.is_some_and(|set| set & 1 << (libc::SIGKILL - 1) != 0)
    };
    field("State:").is_some_and(|state| state.starts_with(['Z', 'X'])) || is_killed("SigPnd:") || is_killed("ShdPnd:")
}

/// Waits until the lock is free or the time is over.
fn wait_for_lock(data: &Path, until: Instant) {
    note(format_args!("loligo: waiting for the last server of {} to end", data.display()));
    let Ok(lock) = File::open(data.join("lock")) else { return };
    let (free, freed) = std::sync::mpsc::channel();
    // A thread of its own, because the kernel's queue for a lock knows no limit of time. It gives the lock back at once,
    // as the file is closed.
    std::thread::spawn(move || {
        let _ = rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive);
        drop(lock);
        let _ = free.send(());
    });
    let _ = freed.recv_timeout(until.saturating_duration_since(Instant::now()));
}

impl Node {
    /// Starts a server on a formatted data directory.
    pub fn start(at: &Store, ranks: Ranks, settings: &Settings) -> Result<Node, Failure> {
        let part =
            Part { elsewhere: &[], sharing: Sharing { must_lead: true, takes_share: true, ..Sharing::default() } };
        Node::take_part(at, ranks, part, settings, &mut |_| false)
    }

    /// The same, with other servers or processes; as long as a command has the store alone, it waits, if `wait` says so.
    pub fn take_part(
        at: &Store,
        ranks: Ranks,
        part: Part<'_>,
        settings: &Settings,
        wait: &mut dyn FnMut(&StoreError) -> bool,
    ) -> Result<Node, Failure> {
        let begun = Instant::now();
        let data = at.data();
        told::begins(data, settings);
        let lock = at.lock()?;
        let table_cache = settings.number("table_cache_bytes") as usize;
        let lease_time = Duration::from_millis(settings.number("lease_ms"));
        let reserve = settings.bytes_or_auto("reserve_bytes");
        let how = Opening { table_cache, reserve, lease: lease_time, ..Opening::default() };
        let name = match settings.text("server_name") {
            "" => loligo_store_rados::this_process(),
            name => name.to_string(),
        };
        let store = open(at, || at.join(how, &name, wait))?;
        let elsewhere = part.elsewhere.iter().copied().map(Rank).collect();
        let (ranks, sharing) = (ranks.ranks.unwrap_or(0), part.sharing);
        let stands_by = !sharing.takes_share;
        let peers = Some(settings.text("peer_listen")).filter(|at| !at.is_empty()).map(str::to_string);
        let sharing = Sharing { at: peers, ..sharing };
        let lease = store.lease();
        let config = ServerConfig { ranks, elsewhere, sharing, ..server_config(data, settings, store)? };
        let server = recover(begun, data, |progress| Server::start(config, progress))?;
        let node = Node::run(server, data, settings.text("admin"), &admin_socket(data), settings)?;
        Ok(Node { lease, stands_by, _lock: lock, ..node })
    }

    /// Runs ranks for the server of a data directory.
    pub fn join(data: &Path, ranks: &[u16], admin: Option<&str>, settings: &Settings) -> Result<Node, Failure> {
        let begun = Instant::now();
        told::begins(data, settings);
        let ranks: Vec<Rank> = ranks.iter().copied().map(Rank).collect();
        let joint = Joint::join(&socket_in(data), &ranks).map_err(|error| Failure::new(error.to_string()))?;
        let config = server_config(data, settings, joint.backend())?;
        let server = recover(begun, data, |progress| Server::start_joined(config, joint, progress))?;
        // The address in the settings is the other server's.
        let free = if settings.text("admin") == "off" { "off" } else { "127.0.0.1:0" };
        let first = ranks.iter().min().copied().unwrap_or_default();
        let socket = data.join(format!("admin-{first}.sock"));
        let node = Node::run(server, data, admin.unwrap_or(free), &socket, settings)?;
        Ok(Node { has_joined: true, ..node })
    }

    fn run(server: Server, data: &Path, admin: &str, socket: &Path, settings: &Settings) -> Result<Node, Failure> {
        let server = Arc::new(server);
        let source = Arc::new(Source::new(server.clone(), settings.clone(), data.to_path_buf()));
        let admin = Admin::start(admin, socket, source.clone(), Descriptors::of_process().admin)?;
        let data = data.to_path_buf();
        let node = Node { server, source, data, admin, lease: None, has_joined: false, stands_by: false, _lock: None };
        told::serves(&node.server, &node.addresses());
        Ok(node)
    }

    /// Writes the state by which the next commands find the server.
    pub fn tell(&self, mount: Option<PathBuf>) -> Result<ServerState, Failure> {
        let state = ServerState {
            pid: std::process::id(),
            socket: self.data.join("loligo.sock"),
            admin_socket: admin_socket(&self.data),
            admin: self.admin.address().map(|at| at.to_string()),
            mount,
            standby: self.stands_by,
        };
        state.write(&self.data)?;
        Ok(state)
    }

    /// Where it can be reached, for people.
    pub fn addresses(&self) -> String {
        let mut all: Vec<String> = self.server.addresses().iter().map(Address::to_string).collect();
        all.extend(self.admin.address().map(|at| format!("http://{at} (admin)")));
        all.join(", ")
    }

    /// The same for programs.
    pub fn address_document(&self) -> serde_json::Value {
        let listening: Vec<String> = self.server.addresses().iter().map(Address::to_string).collect();
        serde_json::json!({ "listening": listening, "admin": self.admin.address().map(|at| format!("http://{at}")) })
    }

    pub fn lease(&self) -> Option<Arc<dyn Lease>> {
        self.lease.clone()
    }

    /// Stops cleanly.
    pub fn stop(self) -> Result<(), Failure> {
        let stopped = self.server.stop().map_err(|e| Failure::new(format!("{e}")));
        self.admin.stop();
        if !self.has_joined {
            ServerState::remove(&self.data);
        }
        stopped
    }
}

fn admin_socket(data: &Path) -> PathBuf {
    data.join("admin.sock")
}

fn server_config(data: &Path, settings: &Settings, store: Arc<dyn Backend>) -> Result<ServerConfig, Failure> {
    let mut listen = vec![socket_in(data)];
    listen.extend(preflight::listen(settings)?);
    let base = ServerConfig::new(store);
    // `Settings::check` has seen that these fit.
    let small = |name: &str| u32::try_from(settings.number(name)).unwrap_or(u32::MAX);
    let mds = loligo_mds::Config {
        cache_bytes_max: settings.number("cache_bytes") as usize,
        inline_max: small("inline_max"),
        journal_max: small("journal_data"),
        journal_mode: JournalMode::named(settings.text("journal_mode")).unwrap_or(base.mds.journal_mode),
        session_ms: small("session_ms"),
        grace_ms: small("grace_ms"),
        balance_ms: settings.number("balance_ms"),
        frag: settings.frag(),
        ..base.mds.clone()
    };
    let trust_tcp = settings.flag("trust_tcp");
    let look = Duration::from_micros(settings.number("look_us"));
    let name = settings.text("balancer");
    let default_policy = loligo_balancer::shipped(name).map(|(name, text)| (name.to_string(), text.to_string()));
    Ok(ServerConfig {
        listen,
        default_policy,
        mds,
        trust_tcp,
        look,
        journal_bytes: settings.number("journal_bytes"),
        data_threads: small("data_threads") as usize,
        sync_threads: small("sync_threads") as usize,
        direct_data: settings.flag("direct_data"),
        connections: Connections::of_process(Descriptors::of_process().connections),
        ..base
    })
}

/// Starts the server, showing how far it has come with the journal.
fn recover(
    begun: Instant,
    data: &Path,
    start: impl FnOnce(&mut dyn FnMut(Progress)) -> Result<Server, ServerError>,
) -> Result<Server, Failure> {
    let mut bar = None;
    let mut last = Progress::default();
    let server = start(&mut |progress| {
        let bar = bar.get_or_insert_with(|| Bar::start("reading the journal", progress.total_bytes, Unit::Bytes));
        bar.set(progress.bytes);
        last = progress;
    });
    drop(bar);
    let server = server.map_err(|error| match error {
        ServerError::Rows(RowsError::NotFormatted) => {
            Failure::new(format!("{} holds no finished file system", data.display())).remedy(format!(
                "loligo format --data {} finishes one whose making was cut off; after a load that was, remove the \
                 directory and load again",
                quoted(data)
            ))
        }
        ServerError::Store(StoreError::InUse { owner, .. }) => {
            Failure::new(format!("{} is in use by another server: {owner}", data.display()))
                .remedy("serve together with it: loligo serve; and mount it: loligo mount --server ADDRESS DIR")
        }
        error @ ServerError::Rows(RowsError::UnfinishedCopy) => Failure::new(format!("{}: {error}", data.display())),
        error @ ServerError::FewerRanks { .. } => Failure::usage(error.to_string()),
        error => Failure::new(error.to_string()),
    })?;
    if last.records > 0 {
        tracing::info!(records = last.records, ms = begun.elapsed().as_millis() as u64, "recovered from the journal");
    }
    Ok(server)
}

/// Where the client of a mount gets to the server.
pub enum Way<'a> {
    /// By a connection, with threads that read the kernel's requests.
    Address(Address),
    /// On the thread of the server in this process, which then reads the kernel's requests itself, unless the settings
    /// ask for threads or there are several ranks.
    Server(&'a Server),
}

/// Mounts what is served.
pub fn mount(
    at: &Path,
    way: Way<'_>,
    fs_name: String,
    name: &str,
    args: &MountArgs,
    settings: &Settings,
    data: Option<&Path>,
) -> Result<Mounted, Failure> {
    let defaults = MountOptions::new(at);
    let threads = settings.number("fuse_threads") as usize;
    let server = fs_name.strip_prefix("loligo:").unwrap_or(&fs_name).to_string();
    let options = MountOptions {
        fs_name,
        read_only: args.read_only,
        allow_other: defaults.allow_other && !args.private,
        nonempty: args.nonempty,
        suid: args.suid,
        dev: args.dev,
        noexec: args.noexec,
        threads: if threads == 0 { defaults.threads } else { threads },
        name_caching: match settings.text("name_caching") {
            "off" => NameCaching::Off,
            "timed" => NameCaching::Timed,
            "expiry" => NameCaching::Expiry,
            _ => NameCaching::Epochs,
        },
        ..defaults
    };
    let mut below = None;
    let identity = crate::auth::read(settings.text("identity"))?;
    let direct = ways(settings, data)?;
    let client_options = |kernel| Options {
        identity: identity.clone(),
        direct: direct.clone(),
        ..client_options(name, kernel, settings)
    };
    let mount = match way {
        Way::Server(server) if threads == 0 && server.rank_count() == 1 && args.path.is_none() => {
            Mount::start(&options, |kernel: Arc<Kernel>| {
                let client = server.resident(&client_options(kernel))?;
                below = Some(Below::Resident(client.clone()));
                Ok::<_, ServerError>(client)
            })
        }
        way => {
            let address = match way {
                Way::Address(address) => address,
                // As any other mount: it has to find the others, too.
                Way::Server(server) if server.rank_count() > 1 => server
                    .addresses()
                    .first()
                    .cloned()
                    .ok_or_else(|| Failure::new("the server listens nowhere; this is a bug"))?,
                Way::Server(server) => {
                    server.connect_pair().context(|| "a connection to the server in this process".into())?
                }
            };
            Mount::start(&options, |kernel: Arc<Kernel>| {
                let client = Client::connect(&address, client_options(kernel.clone()))?;
                if let Some(path) = &args.path {
                    kernel.set_root(root_at(&client, path)?);
                }
                below = Some(Below::Connected(client.clone()));
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(client)
            })
        }
    };
    let mount = mount.map_err(|e| Failure::new(e.to_string()))?;
    for note in mount.notes() {
        tracing::info!("{note}");
    }
    presence::show(at);
    let client = below.expect("a mount that was made has made its client");
    Ok(Mounted { mount: Arc::new(mount), server, client })
}

/// The directory that is to be mounted.
fn root_at(client: &Client, path: &str) -> Result<Ino, String> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    match client.fs(Arc::new(Cred::user(uid.as_raw(), gid.as_raw()))).stat(path) {
        Ok(attr) if attr.kind == Kind::Dir => Ok(attr.ino),
        Ok(_) => Err(format!("{path} of the file system is no directory: name one with --path")),
        Err(error) => Err(format!("{path} of the file system cannot be mounted: {error}")),
    }
}

/// The way to the cluster that file data may be in, if a mount is to take it. `data`: the data directory, which may know one.
fn ways(settings: &Settings, data: Option<&Path>) -> Result<Option<Arc<dyn loligo_store::PathCache>>, Failure> {
    if !settings.flag("direct_data") {
        return Ok(None);
    }
    let (mut conf, mut user) = ("/etc/ceph/ceph.conf".to_string(), "client.admin".to_string());
    if let Some(Store::Rados { place, .. }) = data.map(Store::of).transpose()? {
        (conf, user) = (place.conf, place.user);
    }
    let said = |name: &str, else_is: String| {
        Some(settings.text(name).to_string()).filter(|text| !text.is_empty()).unwrap_or(else_is)
    };
    Ok(Some(Arc::new(RadosWays::new(&said("ceph_conf", conf), &said("ceph_user", user)))))
}

fn client_options(name: &str, kernel: Arc<Kernel>, settings: &Settings) -> Options {
    let base = loligo_driver::client::Options::default().config;
    let total = settings.number("write_buffer_bytes").max(1 << 20);
    let config = loligo_client::Config {
        write_buffer_total: total,
        write_buffer_file: base.write_buffer_file.min(total),
        read_ahead: settings.number("read_ahead_bytes"),
        give_up_ms: Some(settings.number("give_up_ms")).filter(|ms| *ms != 0).unwrap_or(u64::MAX),
        ..base
    };
    let name = name.to_string();
    let keep = keep_dir(settings);
    Options { name, cache: true, cache_names: true, invalidate: Some(kernel), keep, config, ..Options::default() }
}

/// Where journals of decoupled directories are kept.
pub fn keep_dir(settings: &Settings) -> Option<PathBuf> {
    match settings.text("keep_dir") {
        "none" => None,
        "" if rustix::process::geteuid().is_root() => Some("/var/lib/loligo/subtrees".into()),
        "" => {
            let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
            let state = state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
            Some(state.join("loligo/subtrees"))
        }
        dir => Some(dir.into()),
    }
}

impl Mounted {
    /// Unmounts and writes back what the client holds. Changes of decoupled directories that could not be merged are said, here and to `umount`.
    pub fn stop(&self, stopping: &Stopping) -> Result<(), Failure> {
        stopping.now(format!("unmounting {}, which programs use", self.mount.path().display()));
        match self.mount.unmount() {
            Ok(loligo_mount::Unmounted::Forced) => {
                tracing::warn!(
                    "{} was in use: whoever still had files open there got errors",
                    self.mount.path().display()
                );
            }
            Ok(_) => {}
            Err(error) => tracing::error!(path = %self.mount.path().display(), %error, "could not unmount"),
        }
        stopping.now("bringing what was written lately to the server");
        let (stopped, left) = match &self.client {
            Below::Connected(client) => (client.stop(WRITE_BACK), client.unmerged()),
            Below::Resident(client) => (client.stop(WRITE_BACK), client.unmerged()),
        };
        unmerged::tell(&left, &self.server);
        presence::say(&unmerged::to_text(&left));
        stopped.map_err(|_| {
            Failure::new(format!(
                "what was written lately could not be brought to the server within {} s",
                WRITE_BACK.as_secs()
            ))
            .remedy("look at the server's log; data that was not synced may be lost")
        })
    }
}

/// The log of one that runs ranks for another server.
pub fn log_file_of(data: &Path, ranks: &[u16]) -> PathBuf {
    data.join(format!("loligo-{}.log", ranks.iter().min().copied().unwrap_or_default()))
}

/// The log of a service in the background.
pub fn log_file(data: &Path) -> PathBuf {
    data.join("loligo.log")
}

/// Checks that the log of a server in the background, in its data directory, can be written before anything is started.
pub fn check_log(data: &Path, log: &Path) -> Result<(), Failure> {
    opens_log(log).map_err(|error| match error.kind() {
        // Without --daemon it could not be served either.
        ErrorKind::ReadOnlyFilesystem if is_read_only(data) => {
            on_read_only(data, &log.display().to_string(), &error.to_string())
        }
        _ => Failure::new(format!("log file {}: {error}", log.display()))
            .remedy("make it writable for this user; without --daemon no log file is needed"),
    })
}

/// The same of a mount.
pub fn check_mount_log(log: &Path) -> Result<(), Failure> {
    opens_log(log).map_err(|error| {
        Failure::new(format!("log file {}: {error}", log.display()))
            .remedy("name another one: --log-file FILE; without --daemon no log file is needed")
    })
}

fn opens_log(log: &Path) -> std::io::Result<()> {
    daemon::log_options(log).open(log).map(drop).or_else(daemon::without_room)
}
