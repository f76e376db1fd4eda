//! The adapter and the kernel together, over a fake file system in a process of its own (the example `fakefs`): what
//! is cached, what an invalidation drops, what a signal ends. Needs root and /dev/fuse; says so and passes otherwise.

mod fake;

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use fake::{Fake, eventually, within};

#[test]
fn names_are_cached_until_they_are_dropped() {
    let Some(mut fake) = Fake::start("names") else { return };
    fs::write(fake.path("a"), "x").expect("written");
    assert!(!fake.path("b").exists());
    fake.tell("rename a b");
    assert!(fake.path("a").exists() && !fake.path("b").exists(), "present and absent names are cached");
    let before = fake.count("lookup");
    for _ in 0..10 {
        assert!(fake.path("a").exists());
    }
    assert_eq!(fake.count("lookup"), before);
    fake.tell("names 1");
    assert!(!fake.path("a").exists() && fake.path("b").exists(), "both are looked up again");
    assert!(fake.count("lookup") > before);
    let after = fake.count("lookup");
    assert!(!fake.path("a").exists() && fake.path("b").exists());
    assert_eq!(fake.count("lookup"), after, "and cached again");
    assert_eq!((fake.count("names"), fake.count("all_names")), (1, 0));
    fake.quit();
}

#[test]
fn a_directory_in_use_stays_what_it_is_while_its_name_is_looked_up_again() {
    let Some(mut fake) = Fake::start("cwd") else { return };
    let dir = fake.path("d");
    fs::create_dir(&dir).expect("made");
    // It says where it is each time it is asked.
    let mut worker = Command::new("sh")
        .args(["-c", "while read -r line; do readlink /proc/$$/cwd; done"])
        .current_dir(&dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh");
    let mut input = worker.stdin.take().expect("piped");
    let mut output = BufReader::new(worker.stdout.take().expect("piped"));
    let mut place = move || {
        writeln!(input, "where").expect("it lives");
        let mut line = String::new();
        output.read_line(&mut line).expect("it lives");
        line.trim().to_owned()
    };
    assert_eq!(place(), dir.to_str().expect("text"));
    for _ in 0..3 {
        let before = fake.count("lookup");
        fake.tell("hold d");
        fake.tell("names 1");
        let walked = dir.join("x");
        let walker = std::thread::spawn(move || walked.exists());
        eventually("the name is looked up again", || fake.tell("held") == "1");
        assert_eq!(place(), dir.to_str().expect("text"), "while that is under way");
        fake.tell("go");
        assert!(!walker.join().expect("no panic"));
        assert_eq!(place(), dir.to_str().expect("text"));
        assert!(fake.count("lookup") > before);
    }
    drop(place);
    worker.wait().expect("ended");
    fake.quit();
}

#[test]
fn what_is_mounted_below_stays_mounted_when_names_are_dropped() {
    use rustix::mount::{UnmountFlags, mount_bind, unmount};
    let Some(mut fake) = Fake::start("below") else { return };
    let (dir, top) = (fake.path("d/m"), fake.path("d"));
    fs::create_dir_all(&dir).expect("made");
    mount_bind("/proc", &dir).expect("mounted");
    let is_there = |dir: &Path| dir.join("self").exists();
    assert!(is_there(&dir));
    let numbers = [1, fs::metadata(&top).expect("there").ino()];
    for number in numbers {
        fake.tell(&format!("names {number}"));
        assert!(is_there(&dir), "after names of {number} were dropped");
    }
    unmount(&dir, UnmountFlags::empty()).expect("unmounted");
    fake.quit();
}

#[test]
fn an_answer_under_way_when_names_are_dropped_is_not_believed() {
    let Some(mut fake) = Fake::start("underway") else { return };
    let look = |fake: &mut Fake, name: &str| {
        fake.tell(&format!("hold {name}"));
        let path = fake.path(name);
        let walker = std::thread::spawn(move || path.exists());
        eventually("it is looked up", || fake.tell("held") == "1");
        fake.tell("names 1");
        fake.tell("go");
        walker.join().expect("no panic")
    };
    // One that the kernel does not know, and that is not there.
    assert!(!look(&mut fake, "a"));
    fs::write(fake.path("b"), "x").expect("written");
    fake.tell("rename b a");
    assert!(fake.path("a").exists());
    // One that it knows, and that is there.
    fake.tell("names 1");
    assert!(look(&mut fake, "a"));
    fake.tell("rename a b");
    assert!(!fake.path("a").exists());
    assert_eq!(fake.count("all_names"), 0);
    fake.quit();
}

#[test]
fn whoever_has_a_directory_locked_does_not_hold_up_that_its_names_are_dropped() {
    let Some(mut fake) = Fake::start("locked") else { return };
    fs::write(fake.path("a"), "x").expect("written");
    for round in 0..20 {
        let (from, to) = if round % 2 == 0 { ("a", "b") } else { ("b", "a") };
        assert!(fake.path(from).exists() && !fake.path(to).exists());
        fake.tell("hold c");
        let path = fake.path("c");
        let walker = std::thread::spawn(move || path.exists());
        eventually("it is looked up", || fake.tell("held") == "1");
        // As if the lookup waited for the very change that the names are asked back for.
        fake.tell("names 1");
        fake.tell(&format!("rename {from} {to}"));
        fake.tell("go");
        assert!(!walker.join().expect("no panic"));
        assert!(!fake.path(from).exists() && fake.path(to).exists());
        assert_eq!(fake.count("all_names"), round + 1);
    }
    fake.quit();
}

#[test]
fn whoever_is_blocked_while_it_drops_names_is_left_behind() {
    let Some(mut fake) = Fake::start("blocked") else { return };
    // More often than so many may be left behind at a time.
    for round in 0..12 {
        let dir = fake.path(&format!("d{round}"));
        fs::create_dir(&dir).expect("made");
        fs::write(dir.join("f"), "x").expect("written");
        let ino = fs::metadata(&dir).expect("there").ino();
        // The kernel has a directory locked while it is removed, and what is asked does not show that.
        fake.tell(&format!("hold d{round}"));
        let remover = std::thread::spawn(move || fs::remove_dir(dir));
        eventually("it is being removed", || fake.tell("held") == "1");
        fake.tell(&format!("names {ino}"));
        assert_eq!(fake.count("all_names"), round + 1);
        fake.tell("go");
        remover.join().expect("no panic").expect("removed");
    }
    // Those that were left behind have ended, so there is one again.
    let dir = fake.path("e");
    fs::create_dir(&dir).expect("made");
    fs::write(dir.join("f"), "x").expect("written");
    let (ino, before) = (fs::metadata(&dir).expect("there").ino(), fake.count("lookup"));
    fake.tell(&format!("names {ino}"));
    assert!(dir.join("f").exists() && fake.count("lookup") > before);
    assert_eq!(fake.count("all_names"), 12);
    fake.quit();
}

#[test]
fn a_thread_is_waited_for_that_may_not_have_taken_in_what_it_was_told() {
    let Some(mut fake) = Fake::start("inhand") else { return };
    fs::write(fake.path("a"), "x").expect("written");
    // One computes after it was told, and nobody can see how far it is; one sleeps.
    for (computes, all) in [(false, 0), (true, 1)] {
        fake.tell("names 1");
        let (path, end) = (fake.path("a"), Arc::new(AtomicBool::new(false)));
        let (told, is_told) = mpsc::channel();
        let ended = end.clone();
        let looker = std::thread::spawn(move || {
            let found = path.exists();
            told.send((found, rustix::thread::gettid().as_raw_nonzero())).expect("it is heard");
            while !ended.load(Ordering::Relaxed) {
                if !computes {
                    std::thread::park();
                }
            }
        });
        let (found, tid) = is_told.recv().expect("told");
        assert!(found);
        let sleeps = || fs::read_to_string(format!("/proc/{tid}/stat")).expect("it lives").contains(") S ");
        eventually("it does what it is to do", || sleeps() != computes);
        let before = fake.count("all_names");
        fake.tell("names 1");
        assert_eq!(fake.count("all_names") - before, all);
        end.store(true, Ordering::Relaxed);
        looker.thread().unpark();
        looker.join().expect("no panic");
    }
    fake.tell("rename a b");
    assert!(!fake.path("a").exists() && fake.path("b").exists());
    fake.quit();
}

#[test]
fn a_name_that_moves_to_where_none_is_lent_is_not_believed_there() {
    let Some(mut fake) = Fake::start("moved") else { return };
    for dir in ["d", "e"] {
        fs::create_dir(fake.path(dir)).expect("made");
    }
    let ino = fs::metadata(fake.path("e")).expect("there").ino();
    fake.tell("private 1");
    fake.tell("names 1");
    fake.tell(&format!("private {ino}"));
    // Of the one directory names were lent, of the other never. The second time it is known that names move out of it.
    for (dir, told) in [("d", 1), ("d", 0), ("e", 0)] {
        fs::write(fake.path(dir).join("f"), "x").expect("written");
        let before = fake.count("all_names");
        fs::rename(fake.path(dir).join("f"), fake.path("g")).expect("renamed");
        assert_eq!(fake.count("all_names") - before, told, "{dir}");
        fake.tell("rename g h");
        assert!(!fake.path("g").exists() && fake.path("h").exists(), "{dir}");
        fs::remove_file(fake.path("h")).expect("removed");
    }
    fake.quit();
}

#[test]
fn an_open_file_survives_that_its_name_is_dropped() {
    let Some(mut fake) = Fake::start("held") else { return };
    fs::create_dir(fake.path("d")).expect("made");
    fs::write(fake.path("d/f"), "held").expect("written");
    let mut file = File::open(fake.path("d/f")).expect("open");
    fake.tell("rename d e");
    fake.tell("names 1");
    assert!(!fake.path("d/f").exists());
    let mut text = String::new();
    file.read_to_string(&mut text).expect("read");
    assert_eq!(text, "held");
    assert_eq!(fs::read_to_string(fake.path("e/f")).expect("read"), "held");
    drop(file);
    fake.quit();
}

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
        let at = mmap(std::ptr::null_mut(), 3, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)
            .expect("mapped");
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
