//! Clients die, hang and are cut short: what they had synced is there, what they had not is there or is not, and what they held goes to
//! others when their sessions are over. Each is a mount in a process of its own; without the right to mount nothing is tested, and each
//! test says so.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

use crate::servers::{LOLIGO, PATIENCE, Place, Server};

/// Sessions that end soon: nobody waits for a minute in a test. Servers that may be silent for longer than others may be busy.
const BRIEF: [&str; 6] = ["--set", "session_ms=2000", "--set", "grace_ms=2000", "--set", "lease_ms=3000"];
/// Bytes of a file that was synced.
const SYNCED: usize = 3_000_000;
/// And of one that was not.
const UNSYNCED: usize = 9_000_000;

/// File data goes straight to the cluster, or through the servers.
const DIRECT: [&str; 2] = ["--set", "direct_data=true"];
const THROUGH: [&str; 2] = ["--set", "direct_data=false"];

/// Content of the programs' files: no byte is as the one before.
pub fn content(len: usize, salt: u32) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_add(salt).wrapping_mul(2_654_435_761) >> 23) as u8 | 1).collect()
}

pub fn can_mount() -> bool {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    let can = device && rustix::process::geteuid().is_root();
    if !can {
        eprintln!("not tested: clients that are mounts need root and /dev/fuse");
    }
    can
}

/// A mount, in a process that dies, hangs and wakes.
pub struct Mount {
    child: Child,
    pub at: PathBuf,
}

impl Mount {
    pub fn start(place: &Place, servers: usize, name: &str, way: &[&str]) -> Mount {
        Mount::by(Command::new(LOLIGO), &place.address(servers).to_string(), place, name, way)
    }

    /// By a program that becomes it, of servers at these addresses.
    pub fn by(mut command: Command, servers: &str, place: &Place, name: &str, way: &[&str]) -> Mount {
        let at = place.path().join(name);
        let log = File::create(place.path().join(format!("{name}.log"))).expect("a log");
        command.args(["mount", "--server", servers]).args(way).arg(&at);
        command.args(["--set", &format!("ceph_conf={}", place.conf)]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().expect("it starts");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        assert!(out.lines().map_while(Result::ok).any(|line| line.contains("stop it")), "it mounts");
        Mount { child, at }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    pub fn make(&self, name: &str) -> File {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(self.path(name)).expect("a file")
    }

    /// By no process of its own: that would close what it inherits of this mount, and wait for it.
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("its end");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Also one that hangs or is dead already: nobody who waits in it is left waiting.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = Command::new("umount").arg("-l").arg(&self.at).stderr(Stdio::null()).status();
    }
}

/// Something on a mount, on a thread of its own: it has to end.
#[track_caller]
pub fn within<T: Send + 'static>(what: &str, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (to, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || to.send(body()));
    ended.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: it does not end, or has failed"))
}

pub fn read(path: &Path) -> Vec<u8> {
    let path = path.to_owned();
    within("reading", move || std::fs::read(path).expect("it can be read"))
}

/// Waits for a lock that another one has.
pub fn lock(path: &Path) -> File {
    let path = path.to_owned();
    within("the lock", move || {
        let file = OpenOptions::new().read(true).write(true).open(path).expect("it is there");
        flock(&file, FlockOperation::LockExclusive).expect("it is free some time");
        file
    })
}

fn begin(place: &Place, way: &[&str]) -> (Server, Server) {
    let args = [&BRIEF[..], &["--ranks", "2"], way].concat();
    let mut first = place.serve(0, &args);
    first.until_serves();
    (first, place.serve(1, &args))
}

/// A client with a synced file, one that is not, one that was synced and then overwritten in its middle, and a lock.
struct Busy {
    mount: Mount,
    files: Vec<File>,
}

/// Range in the middle that the client overwrites.
const MIDDLE: std::ops::Range<usize> = 1_000_000..2_000_000;

fn busy(place: &Place, way: &[&str]) -> Busy {
    let mount = Mount::start(place, 2, "a", way);
    let write = |name: &str, len: usize| {
        let file = mount.make(name);
        file.write_all_at(&content(len, 0), 0).expect("there is room");
        file
    };
    let synced = write("synced", SYNCED);
    synced.sync_all().expect("there is room");
    let small = mount.make("small");
    small.write_all_at(b"small and synced", 0).expect("there is room");
    small.sync_all().expect("there is room");
    let middle = write("middle", SYNCED);
    middle.sync_all().expect("there is room");
    middle.write_all_at(&content(MIDDLE.len(), 7), MIDDLE.start as u64).expect("there is room");
    let unsynced = write("unsynced", UNSYNCED);
    let locked = mount.make("locked");
    flock(&locked, FlockOperation::LockExclusive).expect("nobody has it");
    Busy { mount, files: vec![synced, small, middle, unsynced, locked] }
}

/// Checks the files: synced content is there; of the rest each byte is what it was, or what was written last.
fn look(at: &Mount) {
    assert!(read(&at.path("synced")) == content(SYNCED, 0), "what was synced is there");
    assert_eq!(read(&at.path("small")), b"small and synced");
    let unsynced = read(&at.path("unsynced"));
    assert!(unsynced.len() <= UNSYNCED && unsynced == content(unsynced.len(), 0), "of {} bytes", unsynced.len());
    let (middle, old, new) = (read(&at.path("middle")), content(SYNCED, 0), content(MIDDLE.len(), 7));
    assert_eq!(middle.len(), SYNCED);
    let is_written =
        |(at, byte): (usize, &u8)| *byte == old[at] || MIDDLE.contains(&at) && *byte == new[at - MIDDLE.start];
    assert!(middle.iter().enumerate().all(is_written), "bytes that nobody wrote");
    eprintln!("of {UNSYNCED} bytes that were not synced {} are there", unsynced.len());
}

fn sound(place: &Place) {
    place.run(&["store", "check"], 0);
    let fsck = Command::new(LOLIGO).args(["fsck", "--data-checksums", "--data"]).arg(place.data(1)).output();
    let fsck = fsck.expect("it runs");
    assert!(fsck.status.success(), "{}", String::from_utf8_lossy(&fsck.stdout));
}

fn is_killed(way: &[&str]) {
    if !can_mount() {
        return;
    }
    let Some(place) = Place::formatted() else { return };
    let (first, second) = begin(&place, way);
    let other = Mount::start(&place, 2, "b", way);
    let Busy { files, mount } = busy(&place, way);
    mount.kill();
    let killed = Instant::now();
    drop(lock(&other.path("locked")));
    eprintln!("the lock was free after {:?}", killed.elapsed());
    look(&other);
    // Its files are anybody's, leases and all.
    std::fs::write(other.path("unsynced"), b"of another one").expect("it can be written");
    assert_eq!(read(&other.path("unsynced")), b"of another one");
    drop((files, other));
    first.end();
    second.end();
    sound(&place);
}

#[test]
fn what_a_killed_client_had_synced_is_there_and_what_it_held_is_free() {
    is_killed(&THROUGH);
}

#[test]
fn what_a_killed_client_had_written_in_the_cluster_is_there_and_what_it_held_is_free() {
    is_killed(&DIRECT);
}

fn is_killed_with_server(way: &[&str]) {
    if !can_mount() {
        return;
    }
    let Some(place) = Place::formatted() else { return };
    let (first, mut second) = begin(&place, way);
    let other = Mount::start(&place, 2, "b", way);
    let Busy { files, mount } = busy(&place, way);
    mount.kill();
    first.kill();
    second.until_serves();
    drop(lock(&other.path("locked")));
    look(&other);
    drop((files, other));
    second.end();
    sound(&place);
}

#[test]
fn so_it_is_when_the_server_is_killed_with_the_client() {
    is_killed_with_server(&THROUGH);
}

#[test]
fn so_it_is_when_the_server_is_killed_with_a_client_that_writes_in_the_cluster() {
    is_killed_with_server(&DIRECT);
}

/// A client hangs beyond its session, another one writes what it had, and it wakes.
fn hangs(is_replaced: bool, way: &[&str]) {
    if !can_mount() {
        return;
    }
    let Some(place) = Place::formatted() else { return };
    let (first, mut second) = begin(&place, way);
    let other = Mount::start(&place, 2, "b", way);
    let Busy { files, mount } = busy(&place, way);
    let [_, small, middle, unsynced, locked] = &files[..] else { panic!("five files") };
    // Held back, or on its way, or there: who knows.
    small.write_all_at(b"LATE", 0).expect("there is room");
    mount.signal(Signal::STOP);
    let stopped = Instant::now();
    let first = if is_replaced {
        first.kill();
        second.until_serves();
        None
    } else {
        Some(first)
    };
    let held = lock(&other.path("locked"));
    eprintln!("the lock was free after {:?}", stopped.elapsed());
    for name in ["small", "middle", "unsynced"] {
        let path = other.path(name);
        within("writing", move || {
            let file = OpenOptions::new().write(true).truncate(true).open(path).expect("it is there");
            file.write_all_at(format!("{} of another one", "x".repeat(100_000)).as_bytes(), 0).expect("there is room");
            file.sync_all().expect("there is room");
        });
    }
    let want = [b"x".repeat(100_000).as_slice(), b" of another one"].concat();
    mount.signal(Signal::CONT);
    // Its handles are of the past, and what it may have held back is lost: each call says one or the other.
    for (name, file) in [("small", small), ("middle", middle), ("unsynced", unsynced)] {
        let late = file.try_clone().expect("a descriptor");
        let (synced, wrote) = within("a sync and a write of who has woken", move || {
            (late.sync_all(), late.write_all_at(b"late", 5).and_then(|()| late.sync_all()))
        });
        let errors = [&synced, &wrote].map(|done| done.as_ref().err().and_then(std::io::Error::raw_os_error));
        eprintln!("{name}: sync {synced:?}, write {wrote:?}");
        let is_told = |error: &Option<i32>| matches!(*error, Some(libc::EIO | libc::ESTALE));
        assert!(errors.iter().all(is_told), "{name}: {synced:?}, {wrote:?}");
    }
    // The lock is the other one's.
    let again = mount.path("locked");
    let taken = within("a lock of who has woken", move || {
        let file = File::open(again).expect("it is there");
        flock(&file, FlockOperation::NonBlockingLockExclusive)
    });
    assert_eq!(taken, Err(rustix::io::Errno::WOULDBLOCK));
    let _ = flock(locked, FlockOperation::Unlock);
    for at in [&other, &mount] {
        for name in ["small", "middle", "unsynced"] {
            assert!(read(&at.path(name)) == want, "{name} is what the other one wrote, at {}", at.at.display());
        }
        assert!(read(&at.path("synced")) == content(SYNCED, 0), "what was synced is there");
    }
    // It goes on with what it opens from now on.
    drop(held);
    let path = mount.path("new");
    within("new files of who has woken", move || {
        std::fs::write(&path, b"new").expect("there is room");
        File::open(&path).and_then(|file| file.sync_all()).expect("there is room");
    });
    assert_eq!(read(&other.path("new")), b"new");
    let missing = other.path("none");
    assert_eq!(within("a look", move || File::open(missing).map_err(|e| e.kind())).err(), Some(ErrorKind::NotFound));
    drop((lock(&mount.path("locked")), files, mount, other));
    if let Some(first) = first {
        first.end();
    }
    second.end();
    sound(&place);
}

#[test]
fn a_client_that_hangs_beyond_its_session_writes_nothing_late_and_goes_on_when_it_wakes() {
    hangs(false, &THROUGH);
}

#[test]
fn so_it_is_when_another_server_has_taken_over_meanwhile() {
    hangs(true, &THROUGH);
}

#[test]
fn a_client_that_hangs_with_writes_to_the_cluster_is_kept_out_of_it_and_goes_on_when_it_wakes() {
    hangs(false, &DIRECT);
}

#[test]
fn so_it_is_when_another_server_has_taken_over_from_the_one_that_knew_it() {
    hangs(true, &DIRECT);
}

/// A counter of a server, over all ranks.
fn counter(place: &Place, server: usize, name: &str) -> u64 {
    let until = Instant::now() + PATIENCE;
    let mut admin = loop {
        match UnixStream::connect(place.data(server).join("admin.sock")) {
            Ok(admin) => break admin,
            // It serves a moment before it can be asked.
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    admin.write_all(b"GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n").expect("it listens");
    let mut said = String::new();
    admin.read_to_string(&mut said).expect("it answers");
    let lines = said.lines().filter(|line| line.starts_with(name));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).map(|value| value as u64).sum()
}

/// Waits until a mount has a connection to the cluster: until then it goes through the servers.
fn until_direct(place: &Place, name: &str) {
    let until = Instant::now() + PATIENCE;
    let log = || std::fs::read_to_string(place.path().join(format!("{name}.log"))).unwrap_or_default();
    while !log().contains("straight in rados:") {
        assert!(Instant::now() < until, "{}", log());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn file_data_goes_straight_to_the_cluster_and_is_read_there_by_another_client_and_after_a_failover() {
    if !can_mount() {
        return;
    }
    let Some(place) = Place::formatted() else { return };
    let (first, mut second) = begin(&place, &DIRECT);
    let mount = Mount::start(&place, 2, "a", &DIRECT);
    until_direct(&place, "a");
    let before = counter(&place, 0, "loligo_received_bytes_total");
    let write = |name: &str, salt: u32| {
        let file = mount.make(name);
        file.write_all_at(&content(UNSYNCED, salt), 0).expect("there is room");
        file.sync_all().expect("there is room");
    };
    // The first pieces may go through the rank, until it knows by what the cluster knows the client.
    write("first", 1);
    write("file", 2);
    let received = counter(&place, 0, "loligo_received_bytes_total") - before;
    eprintln!("the server received {received} bytes while {} were written", 2 * UNSYNCED);
    assert!(received < UNSYNCED as u64, "{received} bytes");
    let other = Mount::start(&place, 2, "b", &DIRECT);
    until_direct(&place, "b");
    assert!(read(&other.path("file")) == content(UNSYNCED, 2));
    let sent = counter(&place, 0, "loligo_sent_bytes_total");
    assert!(read(&other.path("first")) == content(UNSYNCED, 1));
    let sent = counter(&place, 0, "loligo_sent_bytes_total") - sent;
    eprintln!("it sent {sent} bytes while {UNSYNCED} were read");
    assert!(sent < 1_000_000, "{sent} bytes");
    first.kill();
    second.until_serves();
    for at in [&mount, &other] {
        assert!(read(&at.path("file")) == content(UNSYNCED, 2));
    }
    drop((mount, other));
    second.end();
    sound(&place);
}
