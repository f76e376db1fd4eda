//! Disks that become full under a data directory, in each way: nothing waits for ever, removals go on, a server that was killed starts
//! again, and all is well when there is room.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use loligo_driver::client::{Call, Client, Done, Options};
use loligo_types::{Cred, FsError, FsResult, Ino, Name, Op, OpenFlags, Random, RenameMode, XattrMode};

use super::run::{PATIENCE, Place, Service, can_mount, loligo, not_tested, sh, until};

/// A small file system in a file.
struct Disk {
    at: PathBuf,
}

impl Disk {
    /// `None`: this machine cannot have one.
    fn new(place: &Place, size: &str, make: &str) -> Option<Disk> {
        let at = place.path("disk");
        let script =
            "truncate -s $1 $D/image; mkfs.ext4 -q -F $2 $D/image; mkdir $D/disk; mount -o loop $D/image $D/disk";
        let made = Command::new("sh").args(["-euc", script, "-", size, make]).env("D", place.path("")).output();
        let is_made = made.as_ref().is_ok_and(|made| made.status.success());
        if !is_made {
            assert!(std::env::var_os("LOLIGO_REQUIRE_MOUNT").is_none(), "no small disk: {made:?}");
            not_tested("full disks: they need root, mkfs.ext4 and loop devices");
            return None;
        }
        Some(Disk { at })
    }

    fn data(&self) -> PathBuf {
        self.at.join("data")
    }

    /// Another program takes all bytes that are left.
    fn take_bytes(&self) {
        let file = std::fs::File::options().create(true).append(true).open(self.at.join("ballast"));
        let mut file = file.expect("an inode is left");
        for len in [1 << 20, 4096, 1] {
            while file.write_all(&vec![7; len]).is_ok() {}
        }
    }

    /// Another program takes all inodes that are left.
    fn take_inodes(&self) {
        let dir = self.at.join("inodes");
        let _ = std::fs::create_dir(&dir);
        let mut number = std::fs::read_dir(&dir).map_or(0, Iterator::count);
        while std::fs::File::create(dir.join(number.to_string())).is_ok() {
            number += 1;
        }
    }

    /// The other program gives back what it took.
    fn give_back(&self) {
        let _ = std::fs::remove_file(self.at.join("ballast"));
        let _ = std::fs::remove_dir_all(self.at.join("inodes"));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

/// A client of the server.
struct User {
    client: Client,
    cred: Arc<Cred>,
    random: Random,
}

impl User {
    fn new(data: &Path) -> User {
        let client = Client::connect(&loligo_driver::socket_in(data), Options::default()).expect("a connection");
        User { client, cred: Arc::new(Cred::root()), random: Random::new(1) }
    }

    fn call(&self, call: Call) -> FsResult<Done> {
        self.client.call(&self.cred, call).map_err(|failed| failed.error)
    }

    fn op(&self, op: Op) -> FsResult<()> {
        self.call(Call::Op(op)).map(drop)
    }

    /// Bytes that nothing makes smaller.
    fn noise(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(self.random.bits().to_le_bytes()[..6].iter().map(|byte| b'a' + byte % 26));
        }
        bytes.truncate(len);
        bytes
    }

    /// Writes a file and syncs it.
    fn file(&self, text: &str, data: &[u8]) -> FsResult<Ino> {
        let flags = OpenFlags { write: true, ..OpenFlags::default() };
        let call = Call::Create { dir: Ino::ROOT, name: name(text), mode: 0o640, umask: 0, flags, exclusive: false };
        let made = self.call(call)?;
        let (ino, fh) = (made.attr().expect("attributes").ino, made.fh.expect("a handle"));
        let write = Call::Write { fh, offset: 0, data: data.into(), append: false, kill_priv: false };
        let written = self.call(write).map(drop);
        let synced = self.call(Call::Fsync { fh, data_only: false }).map(drop);
        // What could not be written is told once more.
        let _ = self.call(Call::Release { fh, flock_owner: None });
        written.and(synced).map(|()| ino)
    }

    fn names(&self) -> Vec<Name> {
        let fs = self.client.fs(self.cred.clone());
        fs.readdir("/").expect("reading needs no room").into_iter().map(|entry| entry.name).collect()
    }

    fn remove_all(&self) {
        for name in self.names() {
            self.op(Op::Unlink { dir: Ino::ROOT, name: name.clone() }).unwrap_or_else(|e| panic!("{name:?}: {e:?}"));
        }
        assert!(self.names().is_empty());
    }
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

fn state(data: &Path) -> String {
    let said = loligo("status --data {} --json", &[data]).ok().json();
    said["health"].as_str().expect("a word").to_string()
}

const SERVE: &str = "serve --data {} --set grace_ms=0 --set log=info,loligo_store_local=debug";

/// Fills a disk, and sees that it is left again. `fill` makes the file system larger until it is refused.
fn is_left_again(make: &str, fill: impl FnOnce(&mut User, &Disk)) {
    let place = Place::new();
    let Some(disk) = Disk::new(&place, "64M", make) else { return };
    let data = disk.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start(SERVE, &[&data]);
    let mut user = User::new(&data);
    let kept = user.file("kept", &[5; 50_000]).expect("there is room");
    fill(&mut user, &disk);
    // What needed room was refused, and the rest is done.
    user.file("kept", &[6; 50_000]).expect("it is as large as before");
    let (dir, new_dir, mode) = (Ino::ROOT, Ino::ROOT, RenameMode::Replace);
    user.op(Op::Rename { dir, name: name("kept"), new_dir, new_name: name("held"), mode }).expect("as many names");
    let _ = user.client.stop(PATIENCE);
    server.kill();
    loligo("fsck --data {}", &[&data]).ok();
    let server = Service::start(SERVE, &[&data]);
    let user = User::new(&data);
    let fs = user.client.fs(user.cred.clone());
    assert_eq!(fs.read("/held").expect("it was synced"), [6; 50_000]);
    assert_eq!(fs.stat("/held").expect("it is there").ino, kept);
    user.remove_all();
    disk.give_back();
    until("there is room again", || state(&data) == "serving");
    user.file("again", &[7; 3 << 20]).expect("there is room");
    user.client.stop(PATIENCE).expect("a clean end");
    let (code, log) = server.stop();
    assert_eq!(code, 0, "{log}");
    loligo("fsck --data {} --data-checksums", &[&data]).ok();
    loligo("store check --data {}", &[&data]).ok();
}

fn mkdir(text: &str) -> Op {
    Op::Mkdir { dir: Ino::ROOT, name: name(text), mode: 0o700, umask: 0 }
}

/// Does it until there is no room; how often it was done.
fn until_refused(mut once: impl FnMut(u32) -> FsResult<()>) -> u32 {
    for number in 0..1_000_000 {
        match once(number) {
            Ok(()) => {}
            Err(FsError::NoSpace) => return number,
            Err(other) => panic!("{other:?}"),
        }
    }
    panic!("the disk never got full");
}

#[test]
fn a_disk_that_file_data_has_filled_is_left_again() {
    is_left_again("-q", |user, _| {
        let mut data = user.noise(1 << 20);
        until_refused(|number| {
            data[..4].copy_from_slice(&number.to_le_bytes());
            user.file(&format!("data.{number}"), &data).map(drop)
        });
    });
}

#[test]
fn a_disk_that_names_have_filled_is_left_again() {
    is_left_again("-q", |user, _| {
        until_refused(|_| {
            let (text, target) = (user.noise(250), user.noise(1000));
            let name = Name::new(&text).expect("a name");
            user.op(Op::Symlink { dir: Ino::ROOT, name, target: target.into() })
        });
    });
}

#[test]
fn a_disk_that_xattrs_have_filled_is_left_again() {
    is_left_again("-q", |user, _| {
        until_refused(|number| {
            let ino = user.file(&format!("x.{number}"), b"")?;
            let value = user.noise(60_000);
            user.op(Op::SetXattr { ino, name: b"user.x"[..].into(), value: value.into(), mode: XattrMode::Set })
        });
    });
}

#[test]
fn a_disk_that_another_program_has_filled_is_left_again_and_the_journal_goes_on_meanwhile() {
    is_left_again("-q", |user, disk| {
        let data = user.noise(16_000);
        user.file("small", &data).expect("there is room");
        disk.take_bytes();
        until("it is seen", || {
            user.op(mkdir("no room")) == Err(FsError::NoSpace) || {
                user.op(Op::Rmdir { dir: Ino::ROOT, name: name("no room") }).expect("it was made");
                false
            }
        });
        // The contents are in the journal, which has the reserve only.
        for _ in 0..100 {
            let data = user.noise(16_000);
            user.file("small", &data).expect("it is as long as before");
        }
    });
}

#[test]
fn a_disk_without_inodes_is_left_again() {
    is_left_again("-q", |user, disk| {
        disk.take_inodes();
        let data = user.noise(100_000);
        until_refused(|number| user.file(&format!("data.{number}"), &data).map(drop));
        disk.take_inodes();
    });
}

#[test]
fn programs_on_a_mount_are_told_that_there_is_no_room_and_can_remove_files() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let Some(disk) = Disk::new(&place, "64M", "-q") else { return };
    let (data, mount) = (disk.data(), place.mount());
    let up = Service::start("up --data {} --mount {}", &[&data, &mount]);
    let fill =
        "i=0; while dd if=/dev/urandom of=$D/f$i bs=1M count=2 conv=fsync 2>$D.err; do i=$((i+1)); done; cat $D.err";
    let said = sh(fill, &mount).ok().out;
    assert!(said.contains("No space left on device"), "{said}");
    until("the server says that it is full", || state(&data) == "full");
    disk.take_bytes();
    // A checkpoint may have made some room before the rest was taken.
    until("the server says so again", || state(&data) == "full");
    until("df shows it", || sh("df --output=avail $D | tail -n 1", &mount).ok().out.trim() == "0");
    sh("mkdir $D/dir", &mount).fails(1, &["No space left on device"]);
    up.kill();
    sh("umount -l $D", &mount).ok();
    let up = Service::start("up --data {} --mount {}", &[&data, &mount]);
    sh("truncate -s 100 $D/f0; rm $D/f*; test -z \"$(ls $D)\"", &mount).ok();
    disk.give_back();
    until("there is room again", || sh("dd if=/dev/zero of=$D/g bs=1M count=4 conv=fsync", &mount).code == 0);
    assert_eq!(up.stop().0, 0);
    loligo("fsck --data {} --data-checksums", &[&data]).ok();
}

#[test]
fn a_snapshot_that_fills_the_disk_ends_and_the_server_goes_on() {
    const FILES: usize = 16;
    let place = Place::new();
    let Some(disk) = Disk::new(&place, "96M", "-q") else { return };
    let data = disk.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start(SERVE, &[&data]);
    let mut user = User::new(&data);
    let large = user.noise(2 << 20);
    for number in 0..FILES {
        user.file(&format!("large.{number}"), &large).expect("there is room");
    }
    let order = |what: &str| {
        let mut socket = std::os::unix::net::UnixStream::connect(data.join("admin.sock")).expect("the admin plane");
        let head = "HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        write!(socket, "POST /api/v1/snapshot/{what} {head}").expect("asked");
        std::io::read_to_string(socket).expect("an answer")
    };
    assert!(order("make").contains("200 OK"));
    let snapshot = data.join("snapshot");
    until("the snapshot is whole", || snapshot.join("whole").exists());
    // As a command that reads it: it is not removed for that it is read.
    let reader = std::fs::File::open(snapshot.join("lock")).expect("it is there");
    rustix::fs::flock(&reader, rustix::fs::FlockOperation::LockShared).expect("nobody removes it");
    // Each first change of an object copies it, so all of them take more than there is.
    let ballast = std::fs::File::create(disk.at.join("ballast")).expect("a file");
    rustix::fs::fallocate(&ballast, rustix::fs::FallocateFlags::empty(), 0, 24 << 20).expect("there is room");
    for number in 0..FILES {
        user.file(&format!("large.{number}"), b"changed").expect("as long as before");
    }
    until("the snapshot has ended", || !snapshot.exists());
    until("there is room again", || state(&data) == "serving");
    user.file("new", &large).expect("there is room");
    for number in 0..FILES {
        let read = user.client.fs(user.cred.clone()).read(format!("/large.{number}")).expect("it reads");
        assert!(read.starts_with(b"changed") && read.len() == large.len(), "large.{number}");
    }
    drop(user);
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {} --data-checksums", &[&data]).ok();
}
