//! The sign that the process of a mount still runs: an abstract Unix socket that is named after the device number of the mount,
//! the process and the mount point, and closed by the kernel when the process ends. `umount` waits for that. Not here: unmounting.
//!
//! Connections there wait, and the kernel ends them when it closes the socket. At its end the process may accept those that wait to say what it has
//! left behind, as a text of at most 64 KiB.

use std::io::{Read, Write};
use std::mem::forget;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::geteuid;

use crate::mounts::{self, MountLine};

const NAME: &str = "loligo-mount-";
/// The longest text that a process says at its end, bytes.
const SAID_MAX: usize = 64 << 10;
/// Time limit for a process that waits to take a text.
const SAY: Duration = Duration::from_secs(1);

/// The socket of this process. The kernel closes it, after all that this process does at its end.
static SHOWN: OnceLock<UnixListener> = OnceLock::new();

/// A process that serves a mount, or served it.
pub struct Presence {
    stream: UnixStream,
    pub pid: u32,
    said: Vec<u8>,
}

/// Shows from now on until the end of this process that it serves the mount at this place. Without it `umount` does not wait.
pub fn show(at: &Path) {
    let shown = || {
        let lines = mounts::all().map_err(|failure| std::io::Error::other(failure.to_string()))?;
        let line = mounts::at(&lines, at).ok_or(std::io::ErrorKind::NotFound)?;
        // The number of a device is given again when it was unmounted, also while the process that served it still ends.
        let name = format!("{NAME}{}-{}-{:016x}", line.device, std::process::id(), hash_of(&line.path));
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
    };
    match shown() {
        Ok(listener) => _ = SHOWN.set(listener),
        Err(error) => tracing::info!(%error, "loligo umount will not wait for the end of this process"),
    }
}

/// FNV-1a of a mount point: two mounts with the same device number, one after the other, are told apart by it.
fn hash_of(at: &Path) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    at.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Says it to the processes that wait for the end of this one.
pub fn say(text: &str) {
    let Some(listener) = SHOWN.get().filter(|_| !text.is_empty() && text.len() <= SAID_MAX) else { return };
    if listener.set_nonblocking(true).is_err() {
        return;
    }
    while let Ok((mut stream, _)) = listener.accept() {
        // One that does not read, or is gone, hears nothing.
        let _ = stream.set_nonblocking(false).and_then(|()| stream.set_write_timeout(Some(SAY)));
        let _ = stream.write_all(text.as_bytes());
        // Its end is that of this process.
        forget(stream);
    }
}

/// The devices of mounts whose processes show themselves on this machine, each with the name of the socket.
fn names() -> Vec<(String, String)> {
    let sockets = std::fs::read("/proc/net/unix").unwrap_or_default();
    let named = |line: &str| {
        let (_, name) = line.split_once(" @")?;
        let (device, _) = name.strip_prefix(NAME)?.split_once('-')?;
        Some((device.to_string(), name.to_string()))
    };
    String::from_utf8_lossy(&sockets).lines().filter_map(named).collect()
}

impl Presence {
    /// The processes that show that they serve this mount, or served one of the same number and have not ended yet.
    pub fn of(line: &MountLine) -> Vec<Presence> {
        let ours = names().into_iter().filter(|(device, _)| *device == line.device);
        ours.filter_map(|(_, name)| Presence::at(&name, line.user_id())).collect()
    }

    /// Those whose mount is gone already, in their own view of what is mounted.
    pub fn ending() -> Vec<Presence> {
        let shown: Vec<Shown> = names().into_iter().filter_map(|(device, name)| Shown::new(device, &name)).collect();
        let is_ending: Vec<bool> = shown.iter().map(|one| one.is_ending(&shown)).collect();
        shown.into_iter().zip(is_ending).filter(|(_, ending)| *ending).map(|(one, _)| one.process).collect()
    }

    /// When it was started, in ticks since the system was: field 22 of its `stat`, whose second one may hold anything.
    fn started(&self) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
    }

    /// Only a socket of root, of this user or of the one who mounted counts: others would have this command wait.
    fn at(name: &str, mounter: Option<u32>) -> Option<Presence> {
        let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).ok()?).ok()?;
        let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
        let is_trusted = peer.uid.is_root() || peer.uid == geteuid() || Some(peer.uid.as_raw()) == mounter;
        let pid = peer.pid.as_raw_nonzero().get().unsigned_abs();
        is_trusted.then(|| Presence { stream, pid, said: Vec::new() })
    }

    /// The text that it has said so far.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.said).into_owned()
    }

    /// Waits for its end; whether that came in time.
    pub fn wait(&mut self, until: Instant) -> bool {
        let mut buffer = [0; 4096];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            match poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&limit)) {
                Ok(0) if left == Duration::ZERO => return false,
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                _ => match self.stream.read(&mut buffer) {
                    Ok(len) if len > 0 && self.said.len() + len <= SAID_MAX => self.said.extend(&buffer[..len]),
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    // More than it may say counts as its end.
                    _ => return true,
                },
            }
        }
    }
}

/// A process that shows itself, and its mount.
struct Shown {
    device: String,
    /// [`hash_of`] the mount point, in hexadecimal digits.
    at: String,
    process: Presence,
}

impl Shown {
    fn new(device: String, name: &str) -> Option<Shown> {
        let at = name.rsplit_once('-')?.1.to_string();
        Some(Shown { device, at, process: Presence::at(name, None)? })
    }

    /// True if its mount is gone, in its own view of the mounts. The number of a device is given again at once: a mount with this
    /// number may be that of another process, which may also have been started earlier.
    fn is_ending(&self, all: &[Shown]) -> bool {
        let Ok(lines) = mounts::of(&format!("/proc/{}/mountinfo", self.process.pid)) else { return false };
        let mut lines = lines.iter().filter(|line| line.device == self.device && line.server().is_some()).peekable();
        if lines.peek().is_none() {
            return true;
        }
        let places: Vec<String> = lines.map(|line| format!("{:016x}", hash_of(&line.path))).collect();
        let same_device = all.iter().filter(|other| other.device == self.device);
        let at_place = |one: &Shown| places.contains(&one.at);
        let owners: Vec<&Shown> = same_device.clone().filter(|other| at_place(other)).collect();
        match at_place(self) {
            // Mounted twice at one place, one after the other.
            true => self.started_before(owners.into_iter()),
            // The mount was moved, unless another process has mounted it there.
            false => !owners.is_empty() || self.started_before(same_device),
        }
    }

    fn started_before<'a>(&self, others: impl Iterator<Item = &'a Shown>) -> bool {
        let newest = others.filter_map(|other| other.process.started()).max();
        self.process.started().is_some_and(|started| Some(started) < newest)
    }
}
