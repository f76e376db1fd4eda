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

use loligo_types::hash::name_hash;
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
        let name = format!("{NAME}{}-{}-{}", line.device, std::process::id(), hash_of(&line.path));
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
    };
    match shown() {
        Ok(listener) => _ = SHOWN.set(listener),
        Err(error) => tracing::info!(%error, "loligo umount will not wait for the end of this process"),
    }
}

/// Hash of a mount point: two mounts with the same device number, one after the other, are told apart by it.
fn hash_of(at: &Path) -> String {
    format!("{:016x}", name_hash((0, 0), at.as_os_str().as_encoded_bytes()))
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
        let shown = |(device, name): (String, String)| {
            let at = name.rsplit_once('-')?.1.to_string();
            let process = Presence::at(&name, None)?;
            let started = process.started();
            Some((process, Shown { device, at, started }))
        };
        let (processes, all): (Vec<Presence>, Vec<Shown>) = names().into_iter().filter_map(shown).unzip();
        let is_ending = |(at, process): (usize, &Presence)| {
            let lines = mounts::of(&format!("/proc/{}/mountinfo", process.pid)).unwrap_or_default();
            let is_its = |line: &&MountLine| line.device == all[at].device && line.server().is_some();
            let places: Vec<String> = lines.iter().filter(is_its).map(|line| hash_of(&line.path)).collect();
            // Without any line it is gone itself, or may not be looked at.
            !lines.is_empty() && all[at].is_ending(&places, &all)
        };
        let ending: Vec<bool> = processes.iter().enumerate().map(is_ending).collect();
        processes.into_iter().zip(ending).filter_map(|(process, ending)| ending.then_some(process)).collect()
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

/// A process that shows itself.
struct Shown {
    /// Number of the device of its mount.
    device: String,
    /// [`hash_of`] its mount point.
    at: String,
    /// Ticks of the system's clock at its start.
    started: Option<u64>,
}

impl Shown {
    /// True if its mount is gone. `places`: the mount points, by [`hash_of`], at which it sees mounts with that device number; `all`: all that show
    /// themselves. The number is given again at once: such a mount may be that of another process, which may also have been started earlier.
    fn is_ending(&self, places: &[String], all: &[Shown]) -> bool {
        let is_there = |one: &Shown| places.contains(&one.at);
        let same = all.iter().filter(|other| other.device == self.device);
        match (places.is_empty(), is_there(self)) {
            (true, _) => true,
            // Mounted at one place twice, one after the other.
            (false, true) => self.is_before(same.filter(|other| is_there(other))),
            // Without one that is there, the mount was moved.
            (false, false) => same.clone().any(is_there) || self.is_before(same),
        }
    }

    fn is_before<'a>(&self, others: impl Iterator<Item = &'a Shown>) -> bool {
        self.started.is_some() && self.started < others.filter_map(|other| other.started).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(device: &str, at: &str, started: u64) -> Shown {
        Shown { device: device.into(), at: at.into(), started: Some(started) }
    }

    /// The processes that end, by their numbers; the mounts of this device are seen at these places.
    fn ending(all: &[Shown], places: &[&str]) -> Vec<usize> {
        let places: Vec<String> = places.iter().map(|place| (*place).to_string()).collect();
        (0..all.len()).filter(|at| all[*at].is_ending(&places, all)).collect()
    }

    #[test]
    fn a_process_ends_whose_mount_is_gone() {
        assert_eq!(ending(&[shown("0:50", "a", 1)], &[]), [0]);
        assert_eq!(ending(&[shown("0:50", "a", 1)], &["a"]), [0; 0]);
    }

    #[test]
    fn a_device_number_that_was_given_again_hides_no_process_that_ends_whichever_was_started_first() {
        for (ended, serves) in [(1, 2), (2, 1), (3, 3)] {
            let all = [shown("0:50", "a", ended), shown("0:50", "b", serves)];
            assert_eq!(ending(&all, &["b"]), [0], "{ended} {serves}");
        }
    }

    #[test]
    fn of_two_mounts_at_one_place_the_older_process_ends() {
        let all = [shown("0:50", "a", 1), shown("0:50", "a", 2), shown("0:51", "a", 3)];
        assert_eq!(ending(&all[..2], &["a"]), [0]);
        assert_eq!(ending(&all, &["a"]), [0], "another device says nothing");
    }

    #[test]
    fn a_mount_that_was_moved_or_is_bound_to_a_second_place_is_served_on() {
        let all = [shown("0:50", "a", 1)];
        assert_eq!(ending(&all, &["moved"]), [0; 0]);
        assert_eq!(ending(&all, &["bound", "a"]), [0; 0]);
    }

    #[test]
    fn a_process_of_an_earlier_version_whose_name_has_no_place_is_judged_by_its_age() {
        // The last part of its name is the number of the process.
        assert_eq!(ending(&[shown("0:50", "4711", 1)], &["a"]), [0; 0]);
        assert_eq!(ending(&[shown("0:50", "4711", 1), shown("0:50", "4712", 2)], &["a"]), [0]);
    }
}
