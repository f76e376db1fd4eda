//! A client's host is cut off from the server's, wholly or in one direction, for less than its session lives and for more: it comes in from
//! the network, with an identity. Only where there are hosts (`scripts/rados-suite.sh --faults`), as the others of `faults.rs`.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::clients::{Mount, can_mount, content, lock, read, within};
use crate::faults::Hosts;
use crate::servers::{LOLIGO, Place, Server};
use crate::several::until;

/// The server's host, and the client's. The store is on host 1, the test on host 3.
const SERVER: &str = "2";
const CLIENT: &str = "4";
const ADDRESS: &str = "10.77.0.12:7400";
/// Bytes of a file that was synced.
const SYNCED: usize = 3_000_000;

struct Pair {
    hosts: Hosts,
    healer: RefCell<Child>,
    server: Server,
    /// On the client's host.
    mount: Mount,
    /// On another one: through a socket that no host has for itself.
    other: Mount,
    place: Place,
}

impl Pair {
    fn new(session_ms: u64) -> Option<Pair> {
        let (hosts, place) = (Hosts::new().filter(|_| can_mount())?, Place::formatted()?);
        hosts.run("heal", &[]);
        let session = format!("session_ms={session_ms}");
        let args = [
            "--ranks",
            "2",
            "--listen",
            ADDRESS,
            "--set",
            &session,
            "--set",
            "grace_ms=2000",
            "--set",
            "lease_ms=3000",
        ];
        let mut server = place.serve_by(hosts.command("run", &[SERVER, LOLIGO]), 0, &args);
        server.until_serves();
        // It serves a moment before it can be asked.
        until(std::slice::from_ref(&server), |runs| runs[0].len() == 2);
        let identity = place.path().join("client.pem").display().to_string();
        place.say(&["auth", "add", "client", "--data", &place.data(0).display().to_string(), "--out", &identity], 0);
        let other = Mount::start(&place, 1, "b", &[]);
        let mount = hosts.command("run", &[CLIENT, LOLIGO]);
        let mount = Mount::by(mount, ADDRESS, &place, "a", &["--identity", &identity]);
        Some(Pair { healer: RefCell::new(hosts.healer()), hosts, server, mount, other, place })
    }

    /// Nothing of the client reaches the server, nothing of the server the client, or neither.
    fn cut(&self, ways: &[&[&str]]) {
        ways.iter().for_each(|way| self.hosts.run("cut", way));
    }

    fn heal(&self) {
        let mut healer = self.healer.borrow_mut();
        healer.stdin.take().expect("once").write_all(b"\n").expect("it listens");
        assert!(healer.wait().expect("its end").success());
    }

    fn end(self) {
        drop((self.mount, self.other));
        self.server.end();
        self.place.run(&["store", "check"], 0);
        let data = self.place.data(0).display().to_string();
        self.place.say(&["fsck", "--data-checksums", "--data", &data], 0);
    }
}

const WHOLLY: &[&[&str]] = &[&[SERVER, CLIENT]];
const UNHEARD: &[&[&str]] = &[&[CLIENT, SERVER, "--one-way"]];
const DEAF: &[&[&str]] = &[&[SERVER, CLIENT, "--one-way"]];

fn held(mount: &Mount) -> File {
    let file = mount.make("locked");
    flock(&file, FlockOperation::LockExclusive).expect("nobody has it");
    file
}

fn is_taken(mount: &Mount) -> bool {
    let path = mount.path("locked");
    within("a look at the lock", move || {
        let file = File::open(path).expect("it is there");
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
    })
}

/// Cut off for less than its session lives: what it has stays its own, and all that it writes meanwhile is there.
fn briefly(ways: &[&[&str]]) {
    let Some(pair) = Pair::new(20_000) else { return };
    let (locked, file) = (held(&pair.mount), pair.mount.make("open"));
    file.write_all_at(&content(SYNCED, 0), 0).and_then(|()| file.sync_all()).expect("there is room");
    pair.cut(ways);
    let begun = Instant::now();
    let (late, path) = (file.try_clone().expect("a descriptor"), pair.mount.path("new"));
    let writes = std::thread::spawn(move || {
        late.write_all_at(&content(SYNCED, 1), 0).and_then(|()| late.sync_all()).expect("it is its own still");
        std::fs::write(path, b"new").expect("there is room");
        begun.elapsed()
    });
    // Nobody asks for what it has meanwhile: who does not give that back in time loses its session sooner.
    std::thread::sleep(Duration::from_secs(4));
    pair.heal();
    let took = within("what was written meanwhile", move || writes.join().expect("it was written"));
    eprintln!("cut for 4 s {ways:?}: what was written meanwhile took {took:?}");
    assert!(is_taken(&pair.other), "the lock is another one's");
    file.write_all_at(b"after", 0).and_then(|()| file.sync_all()).expect("it is its own still");
    let want = [b"after", &content(SYNCED, 1)[5..]].concat();
    assert!(read(&pair.other.path("open")) == want && read(&pair.other.path("new")) == b"new");
    drop((locked, file));
    drop(lock(&pair.other.path("locked")));
    pair.end();
}

/// For more: others get what it had, what it wrote late counts for nothing, it is told so, and goes on with what it opens then.
fn beyond_its_session(ways: &[&[&str]]) {
    let Some(pair) = Pair::new(2_000) else { return };
    let (locked, file) = (held(&pair.mount), pair.mount.make("open"));
    file.write_all_at(&content(SYNCED, 0), 0).and_then(|()| file.sync_all()).expect("there is room");
    pair.cut(ways);
    let begun = Instant::now();
    let late = file.try_clone().expect("a descriptor");
    // Held back, or on its way: it never gets there.
    let late = std::thread::spawn(move || late.write_all_at(b"LATE", 0).and_then(|()| late.sync_all()));
    let theirs = lock(&pair.other.path("locked"));
    eprintln!("cut {ways:?}: the lock was free after {:?}", begun.elapsed());
    let path = pair.other.path("open");
    within("writing", move || {
        let file = OpenOptions::new().write(true).truncate(true).open(path).expect("it is there");
        file.write_all_at(b"of another one", 0).and_then(|()| file.sync_all()).expect("there is room");
    });
    pair.heal();
    let is_told = |done: &std::io::Result<()>| {
        matches!(done.as_ref().err().and_then(std::io::Error::raw_os_error), Some(libc::EIO | libc::ESTALE))
    };
    let first = within("what was written late", move || late.join().expect("it ends"));
    let again = file.try_clone().expect("a descriptor");
    let second = within("a write after", move || again.write_all_at(b"late", 5).and_then(|()| again.sync_all()));
    eprintln!("it was told {first:?} and {second:?}");
    assert!(is_told(&first) && is_told(&second), "{first:?}, {second:?}");
    assert!(is_taken(&pair.mount), "the lock is another one's");
    for mount in [&pair.other, &pair.mount] {
        assert!(read(&mount.path("open")) == b"of another one", "at {}", mount.at.display());
    }
    let path = pair.mount.path("new");
    within("a new file", move || {
        std::fs::write(&path, b"new").and_then(|()| File::open(&path)?.sync_all()).expect("there is room");
    });
    assert_eq!(read(&pair.other.path("new")), b"new");
    drop((locked, file, theirs));
    pair.end();
}

#[test]
fn a_client_that_is_cut_off_for_less_than_its_session_goes_on_with_all_that_it_has() {
    briefly(WHOLLY);
}

#[test]
fn a_client_whom_the_server_does_not_hear_for_less_than_its_session_goes_on() {
    briefly(UNHEARD);
}

#[test]
fn a_client_that_does_not_hear_the_server_for_less_than_its_session_goes_on() {
    briefly(DEAF);
}

#[test]
fn a_client_that_is_cut_off_beyond_its_session_writes_nothing_late_and_goes_on_when_it_is_healed() {
    beyond_its_session(WHOLLY);
}

#[test]
fn a_client_whom_the_server_does_not_hear_beyond_its_session_writes_nothing_late() {
    beyond_its_session(UNHEARD);
}

#[test]
fn a_client_that_does_not_hear_the_server_beyond_its_session_writes_nothing_late() {
    beyond_its_session(DEAF);
}
