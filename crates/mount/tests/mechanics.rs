//! The adapter and the kernel together, over a fake file system in a process of its own (the example `fakefs`): what
//! is cached, what an invalidation drops, what a signal ends. Needs root and /dev/fuse; says so and passes otherwise.

mod fake;

use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fake::{Fake, eventually, kernel, within};

#[test]
fn attributes_are_cached_until_they_are_dropped() {
    let Some(mut fake) = Fake::start("attrs") else { return };
    fs::write(fake.path("f"), "x").expect("written");
    let meta = fs::metadata(fake.path("f")).expect("there");
    fake.tell(&format!("mode {} 600", meta.ino()));
    assert_eq!(fs::metadata(fake.path("f")).expect("there").mode() & 0o777, 0o644);
    fake.tell(&format!("attr {}", meta.ino()));
    assert_eq!(fs::metadata(fake.path("f")).expect("there").mode() & 0o777, 0o600);
    let before = fake.count("getattr");
    std::thread::sleep(Duration::from_millis(150));
    fs::metadata(fake.path("f")).expect("there");
    let after = fake.count("getattr");
    fs::metadata(fake.path("f")).expect("there");
    let last = fake.count("getattr");
    assert!(after > before && last == after, "cached again once the recall is past: {before} {after} {last}");
    fake.quit();
}

#[test]
fn data_is_cached_over_opens_until_it_is_dropped() {
    let Some(mut fake) = Fake::start("data") else { return };
    fs::write(fake.path("f"), "old").expect("written");
    let ino = fs::metadata(fake.path("f")).expect("there").ino();
    assert_eq!(fs::read_to_string(fake.path("f")).expect("read"), "old");
    let reads = fake.count("read");
    assert_eq!(fs::read_to_string(fake.path("f")).expect("read"), "old");
    assert_eq!(fake.count("read"), reads);
    let held = File::open(fake.path("f")).expect("open");
    fake.tell(&format!("write {ino} new"));
    let read = |file: &File| {
        let mut text = [0; 3];
        file.read_exact_at(&mut text, 0).expect("read");
        text
    };
    assert_eq!(&read(&held), b"old");
    fake.tell(&format!("data {ino}"));
    assert_eq!(&read(&held), b"new");
    // The handle is still in cached mode, but the right is gone: every read must see what is there.
    for text in ["one", "two", "six"] {
        fake.tell(&format!("write {ino} {text}"));
        let deadline = Instant::now() + Duration::from_secs(5);
        while read(&held) != text.as_bytes() {
            assert!(Instant::now() < deadline, "a stale page stays");
        }
    }
    drop(held);
    fake.quit();
}

#[test]
fn without_the_right_to_cache_every_read_is_fresh_and_mappings_work() {
    let Some(mut fake) = Fake::start("direct") else { return };
    fs::write(fake.path("f"), "old").expect("written");
    let ino = fs::metadata(fake.path("f")).expect("there").ino();
    fake.tell(&format!("direct {ino}"));
    let file = OpenOptions::new().read(true).write(true).open(fake.path("f")).expect("open");
    for text in ["one", "two", "six"] {
        fake.tell(&format!("write {ino} {text}"));
        let mut got = [0; 3];
        file.read_exact_at(&mut got, 0).expect("read");
        assert_eq!(&got, text.as_bytes());
    }
    // SAFETY: a fresh mapping of an open file, read within its first page and unmapped before the file is closed.
    unsafe {
        use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
        let at = mmap(std::ptr::null_mut(), 3, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0);
        if kernel() < (6, 6) {
            assert_eq!(at, Err(rustix::io::Errno::NODEV), "these refuse it, as docs/semantics.md says");
            drop(file);
            return fake.quit();
        }
        let at = at.expect("mapped");
        assert_eq!(std::slice::from_raw_parts(at.cast::<u8>(), 3), b"six");
        at.cast::<u8>().write(b'S');
        munmap(at, 3).expect("unmapped");
    }
    file.sync_all().expect("synced");
    drop(file);
    assert_eq!(fs::read_to_string(fake.path("f")).expect("read"), "Six");
    fake.quit();
}

#[test]
fn a_mapping_sees_new_data_after_an_invalidation() {
    let Some(mut fake) = Fake::start("mapped") else { return };
    fs::write(fake.path("f"), "old").expect("written");
    let ino = fs::metadata(fake.path("f")).expect("there").ino();
    let file = File::open(fake.path("f")).expect("open");
    // SAFETY: as above.
    unsafe {
        use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
        let at = mmap(std::ptr::null_mut(), 3, ProtFlags::READ, MapFlags::SHARED, &file, 0).expect("mapped");
        assert_eq!(std::slice::from_raw_parts(at.cast::<u8>(), 3), b"old");
        fake.tell(&format!("write {ino} new"));
        fake.tell(&format!("data {ino}"));
        assert_eq!(std::slice::from_raw_parts(at.cast::<u8>(), 3), b"new");
        munmap(at, 3).expect("unmapped");
    }
    drop(file);
    fake.quit();
}

#[test]
fn a_directory_streams_with_stable_offsets() {
    let Some(mut fake) = Fake::start("stream") else { return };
    let mut expected = std::collections::BTreeSet::new();
    for i in 0..3000 {
        let name = format!("file-{i:05}");
        File::create(fake.path(&name)).expect("made");
        expected.insert(name);
    }
    let names: Vec<String> = fs::read_dir(&fake.dir)
        .expect("readable")
        .map(|e| e.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    assert_eq!(names.len(), expected.len());
    assert_eq!(names.into_iter().collect::<std::collections::BTreeSet<_>>(), expected);
    let before = fake.count("readdir");
    assert!(before < 120, "{before} requests for 3000 entries");
    fake.quit();
}

#[test]
fn times_before_1970_and_in_the_far_future_are_kept() {
    let Some(fake) = Fake::start("times") else { return };
    let file = File::create(fake.path("f")).expect("made");
    for (sec, nsec) in [(-2, 500_000_000), (-1, 1), (0, 0), (4_102_444_800, 999_999_999), (-9_000_000_000, 5)] {
        let time = rustix::fs::Timespec { tv_sec: sec, tv_nsec: nsec };
        let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
        rustix::fs::futimens(&file, &times).expect("set");
        let meta = fs::metadata(fake.path("f")).expect("there");
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (sec, nsec));
    }
    // The largest and smallest numbers must not hurt anybody.
    for sec in [i64::MIN, i64::MIN + 1, i64::MAX] {
        let time = rustix::fs::Timespec { tv_sec: sec, tv_nsec: 999_999_999 };
        let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
        let _ = rustix::fs::futimens(&file, &times);
    }
    drop(file);
    fs::metadata(fake.path("f")).expect("the mount still answers");
    fake.quit();
}

/// The kernel asks for the sync itself where it writes through its cache. Where it writes around it, it asks only if the program waits for the write.
#[test]
fn a_synchronous_write_is_synced_once_whatever_the_mode_of_its_handle() {
    use std::os::unix::fs::OpenOptionsExt;
    let Some(mut fake) = Fake::start("syncs") else { return };
    let synced = |fake: &mut Fake, flags: i32, append: bool, by_call: bool| {
        let before: u64 = fake.tell("syncs").parse().expect("a number");
        let path = fake.path("f");
        let file = OpenOptions::new().write(true).append(append).custom_flags(flags).open(path).expect("open");
        let text = [std::io::IoSlice::new(b"text")];
        match by_call {
            true => rustix::io::pwritev2(&file, &text, 0, rustix::io::ReadWriteFlags::DSYNC).map_err(Into::into),
            false => (&file).write(b"text"),
        }
        .expect("written");
        let after: u64 = fake.tell("syncs").parse().expect("a number");
        after - before
    };
    fs::write(fake.path("f"), "old").expect("written");
    let ino = fs::metadata(fake.path("f")).expect("there").ino();
    for direct in [false, true] {
        if direct {
            fake.tell(&format!("direct {ino}"));
        }
        for append in [false, true] {
            for flags in [libc::O_SYNC, libc::O_DSYNC] {
                assert_eq!(synced(&mut fake, flags, append, false), 1, "{flags:o}, append: {append}, direct: {direct}");
            }
            // The mount's, and in cached mode that of the kernel after it, if the file does not grow.
            let both = if direct || append { 1 } else { 2 };
            let flags = libc::O_DIRECT | libc::O_SYNC;
            assert_eq!(synced(&mut fake, flags, append, false), both, "O_DIRECT, append: {append}, direct: {direct}");
            assert_eq!(synced(&mut fake, 0, append, true), 1, "RWF_DSYNC, append: {append}, direct: {direct}");
            assert_eq!(synced(&mut fake, 0, append, false), 0, "append: {append}, direct: {direct}");
        }
    }
    fake.quit();
}

/// The kernel's part of an asynchronous write, by system calls: the C library has none for it.
mod aio {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    /// `struct iocb` of Linux.
    #[repr(C)]
    #[derive(Default)]
    struct Iocb {
        data: u64,
        key: u32,
        rw_flags: i32,
        opcode: u16,
        reqprio: i16,
        fildes: u32,
        buf: u64,
        nbytes: u64,
        offset: i64,
        reserved: u64,
        flags: u32,
        resfd: u32,
    }

    /// Writes a page at the begin of a file, with the flags of `pwritev2`, and waits for the answer: its result.
    pub fn write(file: &File, page: &[u8], rw_flags: i32) -> i64 {
        const PWRITE: u16 = 1;
        let mut context = 0_u64;
        let mut events = [[0_i64; 4]; 1];
        let iocb = Iocb {
            rw_flags,
            opcode: PWRITE,
            fildes: file.as_raw_fd().cast_unsigned(),
            buf: page.as_ptr() as u64,
            nbytes: page.len() as u64,
            ..Iocb::default()
        };
        let mut list = [&raw const iocb];
        // SAFETY: all that the kernel reads or writes lives until the answer came.
        unsafe {
            assert_eq!(libc::syscall(libc::SYS_io_setup, 4, &raw mut context), 0);
            assert_eq!(libc::syscall(libc::SYS_io_submit, context, 1, list.as_mut_ptr()), 1);
            assert_eq!(libc::syscall(libc::SYS_io_getevents, context, 1, 1, events.as_mut_ptr(), 0), 1);
            libc::syscall(libc::SYS_io_destroy, context);
        }
        events[0][2]
    }
}

#[test]
fn an_asynchronous_write_that_is_synchronous_for_the_disk_is_synced_before_its_answer() {
    use std::os::unix::fs::OpenOptionsExt;
    /// Memory as O_DIRECT wants it.
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    let Some(mut fake) = Fake::start("aio") else { return };
    let page = Box::new(Page([7; 4096]));
    fs::write(fake.path("f"), vec![1; 64 << 10]).expect("written");
    let ino = fs::metadata(fake.path("f")).expect("there").ino();
    for direct in [false, true] {
        if direct {
            fake.tell(&format!("direct {ino}"));
        }
        for (open, call, syncs) in
            [(libc::O_DSYNC, 0, 1), (libc::O_SYNC, 0, 1), (0, libc::RWF_DSYNC, 1), (0, libc::RWF_SYNC, 1), (0, 0, 0)]
        {
            let before: u64 = fake.tell("syncs").parse().expect("a number");
            let flags = libc::O_DIRECT | open;
            let file = OpenOptions::new().write(true).custom_flags(flags).open(fake.path("f")).expect("open");
            assert_eq!(aio::write(&file, &page.0, call), 4096);
            let after: u64 = fake.tell("syncs").parse().expect("a number");
            assert!(after - before >= syncs, "{open:o} {call:x}, direct: {direct}: {} syncs", after - before);
            assert!(syncs > 0 || after == before, "a write that need not be durable is not synced");
        }
    }
    fake.quit();
}

#[test]
fn a_write_by_another_user_clears_setuid_at_once() {
    let Some(fake) = Fake::start("setuid") else { return };
    fs::write(fake.path("f"), "x").expect("written");
    fs::set_permissions(fake.path("f"), fs::Permissions::from_mode(0o4777)).expect("set");
    assert_eq!(fs::metadata(fake.path("f")).expect("there").mode() & 0o7777, 0o4777);
    let script = format!("echo y >> {}", fake.path("f").display());
    let status = {
        use std::os::unix::process::CommandExt;
        Command::new("sh").arg("-c").arg(script).uid(65534).gid(65534).status().expect("sh")
    };
    assert!(status.success());
    assert_eq!(fs::metadata(fake.path("f")).expect("there").mode() & 0o7777, 0o777);
    fake.quit();
}

#[test]
fn a_signal_ends_the_wait_for_a_lock() {
    let Some(fake) = Fake::start("locks") else { return };
    let path = fake.path("f");
    let file = File::create(&path).expect("made");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    let mut other = Command::new("flock").arg(&path).arg("true").spawn().expect("flock(1)");
    // It waits; whether it does so already does not matter for the kill.
    std::thread::sleep(Duration::from_millis(300));
    assert!(other.try_wait().expect("a status").is_none(), "it waits");
    other.kill().expect("killed");
    within(Duration::from_secs(5), "killing a waiter", move || other.wait().expect("ended"));
    rustix::fs::flock(&file, rustix::fs::FlockOperation::Unlock).expect("unlocked");
    let status = Command::new("flock").arg(&path).arg("true").status().expect("flock(1)");
    assert!(status.success());
    drop(file);
    fake.quit();
}

/// A program that asks a mount, until that lets it wait.
fn waiting(fake: &mut Fake, program: &str, arguments: &[&str], path: &Path) -> Child {
    let held: u64 = fake.tell("held").parse().expect("a number");
    let null = || Stdio::null();
    let child = Command::new(program).args(arguments).arg(path).stdin(null()).stdout(null()).stderr(null()).spawn();
    eventually("it waits", || fake.tell("held") == (held + 1).to_string());
    child.expect("it runs")
}

#[test]
fn a_program_that_is_killed_does_not_wait_for_an_answer() {
    let Some(mut fake) = Fake::start("killed") else { return };
    fake.tell("away");
    fake.tell("hold x");
    let (dir, name) = (fake.dir.clone(), fake.path("x"));
    // The shell itself looks the name up, and handles the signal.
    let shell = ["-c", "trap : USR1; test -e \"$0\""];
    let mut children = [waiting(&mut fake, "df", &[], &dir), waiting(&mut fake, "sh", &shell, &name)];
    let pid = rustix::process::Pid::from_child(&children[1]);
    rustix::process::kill_process(pid, rustix::process::Signal::USR1).expect("it is there");
    eventually("the mount is told", || fake.count("interrupt") == 1);
    assert_eq!(fake.tell("held"), "2", "its call goes on");
    within(Duration::from_secs(20), "killing", move || {
        for child in &mut children {
            // Of this one the kernel does not tell.
            child.kill().expect("killed");
            child.wait().expect("ended");
        }
    });
    assert_eq!(fake.tell("held"), "0");
    fake.tell("go");
    assert!(rustix::fs::statfs(&fake.dir).is_ok());
    fake.quit();
}

#[test]
fn a_program_ends_though_what_it_has_written_waits_for_a_server_that_is_away() {
    let Some(mut fake) = Fake::start("exits") else { return };
    let path = fake.path("f");
    fs::write(&path, "").expect("made");
    let mut child = Command::new("sh")
        .args(["-c", "exec 3>>\"$0\"; echo x >&3; read over"])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("sh runs");
    eventually("it has written", || fs::metadata(&path).is_ok_and(|file| file.len() == 2));
    fake.tell("away");
    drop(child.stdin.take());
    within(Duration::from_secs(20), "ending", move || child.wait().expect("ended"));
    fake.tell("go");
    fake.quit();
}

#[test]
fn a_dead_mount_is_detached_and_a_live_one_refused() {
    let Some(mut fake) = Fake::start("stale") else { return };
    let dir = fake.dir.clone();
    fake.child.kill().expect("killed");
    fake.child.wait().expect("ended");
    assert!(fs::metadata(dir.join("x")).is_err());
    let mut child = Command::new(std::env::current_exe().expect("a path").with_file_name("../examples/fakefs"))
        .arg(&dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let input = child.stdin.take().expect("piped");
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let mut second = Fake { child, input, output, dir: dir.clone() };
    let line = second.line();
    assert!(line.starts_with("ready detached a dead mount"), "{line}");
    let program = std::env::current_exe().expect("a path").with_file_name("../examples/fakefs");
    let refused = Command::new(program).arg(&dir).stdin(Stdio::null()).output().expect("ran");
    let text = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(!refused.status.success() && text.contains("is in use"), "{text}");
    second.quit();
}

#[test]
fn a_mount_in_use_is_unmounted_by_force_and_its_users_get_errors() {
    let Some(mut fake) = Fake::start("busy") else { return };
    let mut file = File::create(fake.path("f")).expect("made");
    assert_eq!(fake.tell("quit"), "Ok(Forced)");
    assert!(fake.child.wait().expect("ended").success());
    assert!(file.write_all(b"x").is_err());
    assert!(!fake.path("f").exists());
    fs::remove_dir(&fake.dir).expect("the mount point is empty again");
}

#[test]
fn symlinks_and_statfs_pass_through() {
    let Some(mut fake) = Fake::start("links") else { return };
    std::os::unix::fs::symlink("some/where", fake.path("l")).expect("made");
    assert_eq!(fs::read_link(fake.path("l")).expect("read"), Path::new("some/where"));
    let before = fake.count("readlink");
    assert_eq!(fs::read_link(fake.path("l")).expect("read"), Path::new("some/where"));
    assert_eq!(fake.count("readlink"), before, "a target never changes");
    let stat = rustix::fs::statfs(&fake.dir).expect("statfs");
    assert_eq!((stat.f_blocks, stat.f_files), ((1 << 30) / 4096, 16));
    fake.quit();
}
