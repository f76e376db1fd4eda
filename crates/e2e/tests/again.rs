//! Requests that the kernel repeats at a mount, or waits for in vain: directories and files that another mount has moved or replaced, locks
//! of open files, and programs that are killed while their server is away.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loligo_e2e::{PATIENCE, Scratch, Two, eventually, within};
use rustix::fs::{Mode, OFlags};

#[test]
fn a_directory_that_the_other_mount_moved_is_renamed_and_used_at_once() {
    let Some(two) = Two::start("moved") else { return };
    let (a, b) = (two.a.path().to_owned(), two.b.path().to_owned());
    within(PATIENCE, "renaming what was moved", move || {
        for i in 0..40 {
            let dir = format!("d{i}");
            fs::create_dir_all(a.join(&dir).join("pp/1")).expect("made");
            fs::write(a.join(&dir).join("pp/1/f"), "x").expect("written");
            assert!(b.join(&dir).join("pp/1/f").exists());
            let inside = File::open(a.join(&dir).join("pp/1")).expect("open");
            fs::rename(b.join(&dir).join("pp/1"), b.join(&dir).join("q")).expect("moved");
            let (from, to) = (a.join(&dir).join("q"), a.join(&dir).join("pp/2"));
            match i % 4 {
                0 => fs::rename(&from, &to).expect("renamed"),
                1 => {
                    // Nothing on the way is looked up again.
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                    let old = rustix::fs::open(a.join(&dir), flags, Mode::empty()).expect("open");
                    let new = rustix::fs::open(a.join(&dir).join("pp"), flags, Mode::empty()).expect("open");
                    rustix::fs::renameat(&old, "q", &new, "2").expect("renamed");
                }
                2 => {
                    let other = a.join(&dir).join("pp/3");
                    fs::create_dir(&other).expect("made");
                    let both = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(rustix::fs::CWD, &from, rustix::fs::CWD, &other, both).expect("swapped");
                    fs::rename(&other, &to).expect("renamed");
                    fs::remove_dir(&from).expect("removed");
                }
                _ => {
                    fs::create_dir(&to).expect("made");
                    fs::rename(&from, &to).expect("renamed over an empty one");
                }
            }
            for mount in [&a, &b] {
                assert_eq!(fs::read(mount.join(&dir).join("pp/2/f")).expect("read"), b"x");
                assert!(!mount.join(&dir).join("q").exists() && !mount.join(&dir).join("pp/1").exists());
            }
            fs::write(to.join("g"), "y").expect("written");
            assert_eq!(fs::read(b.join(&dir).join("pp/2/g")).expect("read"), b"y");
            fs::remove_file(b.join(&dir).join("pp/2/g")).expect("removed");
            assert!(!to.join("g").exists(), "what is below is told of, too");
            // Another time by the name that it has now, and the other way round.
            fs::rename(&to, &from).expect("renamed");
            fs::rename(b.join(&dir).join("q"), b.join(&dir).join("pp/4")).expect("moved");
            fs::rename(a.join(&dir).join("pp/4"), a.join(&dir).join("r")).expect("renamed");
            assert_eq!(fs::read(b.join(&dir).join("r/f")).expect("read"), b"x");
            assert!(inside.metadata().expect("there").is_dir());
        }
    });
    two.stop();
}

#[test]
fn a_file_that_the_other_mount_replaces_again_and_again_is_always_there() {
    let Some(two) = Two::start("replaced") else { return };
    let (a, b) = (two.a.path().to_owned(), two.b.path().to_owned());
    within(2 * PATIENCE, "replacing", move || {
        fs::write(a.join("f"), "0").expect("written");
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let writer = std::thread::spawn(move || {
            for i in 1..400 {
                fs::write(a.join("new"), i.to_string()).expect("written");
                fs::rename(a.join("new"), a.join("f")).expect("replaced");
            }
            ended.store(true, Ordering::Release);
        });
        let (mut rounds, path) = (0, b.join("f"));
        while !over.load(Ordering::Acquire) {
            let file = File::open(&path).unwrap_or_else(|e| panic!("open in round {rounds}: {e}"));
            let mut bytes = [0; 8];
            assert!(file.read_at(&mut bytes, 0).unwrap_or_else(|e| panic!("read in round {rounds}: {e}")) > 0);
            file.metadata().unwrap_or_else(|e| panic!("fstat in round {rounds}: {e}"));
            fs::metadata(&path).unwrap_or_else(|e| panic!("stat in round {rounds}: {e}"));
            rustix::fs::access(&path, rustix::fs::Access::READ_OK)
                .unwrap_or_else(|e| panic!("access in round {rounds}: {e}"));
            rounds += 1;
        }
        writer.join().expect("no panic");
    });
    two.stop();
}

/// Locks a range of an open file by `F_OFD_SETLK` (37) or asks for it by `F_OFD_GETLK` (36), as Linux numbers them.
const LOCKS: &str = r#"
import fcntl, os, signal, struct, sys
here, there = sys.argv[1:3]
lock = lambda kind, end: struct.pack('hhqqi4x', kind, 0, 0, end, 0)
state = lambda path: struct.unpack('hhqqi4x', fcntl.fcntl(os.open(path, os.O_RDWR), 36, lock(fcntl.F_WRLCK, 0)))[0]
take = lambda fd, end=0: fcntl.fcntl(fd, 37, lock(fcntl.F_WRLCK, end))
def until_free(what):
    # The kernel tells the mount of the last close behind the program's back.
    signal.alarm(50)
    fd = os.open(there, os.O_RDWR)
    fcntl.fcntl(fd, 38, lock(fcntl.F_WRLCK, 0))
    os.close(fd)
    fd = os.open(here, os.O_RDWR)
    fcntl.fcntl(fd, 38, lock(fcntl.F_WRLCK, 0))
    assert state(here) == fcntl.F_WRLCK and state(there) == fcntl.F_WRLCK, what
    os.close(fd)
# A descriptor of the same open file keeps it.
fd = os.open(here, os.O_RDWR); take(fd, 10); copy = os.dup(fd); os.close(fd)
assert state(here) == fcntl.F_WRLCK and state(there) == fcntl.F_WRLCK, 'it is held by the other descriptor'
os.close(copy); until_free('closed')
pid = os.fork()
if pid == 0:
    fd = os.open(here, os.O_RDWR); take(fd); os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(pid, 0); until_free('killed')
# What one open file holds another one's close does not end.
one, other = os.open(here, os.O_RDWR), os.open(here, os.O_RDWR); take(one, 10); os.close(other)
assert state(here) == fcntl.F_WRLCK and state(there) == fcntl.F_WRLCK, 'another open file was closed'
os.close(one); until_free('the last')
"#;

#[test]
fn a_lock_of_an_open_file_ends_with_its_last_descriptor() {
    let Some(two) = Two::start("ofd") else { return };
    File::create(two.a.path().join("f")).expect("made");
    for (here, there) in [(&two.a, &two.b), (&two.b, &two.a)] {
        let status =
            Command::new("python3").args(["-c", LOCKS]).args([here.path().join("f"), there.path().join("f")]).status();
        assert!(status.expect("python3 runs").success());
    }
    two.stop();
}

/// A program that asks a mount whose server does not answer, until it waits for it.
fn waiting(program: &str, arguments: &[&Path]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("it runs");
    let stack = format!("/proc/{}/stack", child.id());
    // Where that is not shown it is killed on the way there.
    eventually("it waits for the mount", || fs::read_to_string(&stack).map_or(true, |text| text.contains("fuse")));
    child
}

/// A program that has written to a file, which it has open: what was held back of that goes to the server as it ends.
fn writer(file: &Path) -> Child {
    let script = "import sys; f = open(sys.argv[1], 'r+b', buffering=0); f.write(b'y'); print('written', flush=True); sys.stdin.read()";
    let mut command = Command::new("python3");
    command.args(["-c", script]).arg(file).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("python3 runs");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("it says so");
    assert_eq!(line, "written\n");
    child
}

#[test]
fn a_program_that_waits_for_a_server_that_is_gone_ends_when_it_is_killed() {
    let Some(scratch) = Scratch::new("killed") else { return };
    let server = scratch.serve();
    let mount = scratch.mount_with("a", &["give_up_ms=0"]);
    let at = mount.path().to_owned();
    fs::create_dir(at.join("d")).expect("made");
    fs::write(at.join("f"), "x").expect("written");
    let next = scratch.prepare_server();
    let writer = writer(&at.join("f"));
    server.kill();
    let new = at.join("new");
    let mut children = vec![
        writer,
        waiting("df", &[&at]),
        waiting("touch", &[&new]),
        waiting("mkdir", &[&at.join("d/e")]),
        waiting("rm", &[Path::new("-rf"), &at.join("d")]),
    ];
    within(PATIENCE, "ending", move || {
        for child in &mut children {
            let _ = child.kill();
            let status = child.wait().expect("ended");
            assert_eq!(status.signal(), Some(9), "{status}");
        }
    });
    let server = next.start();
    assert_eq!(fs::read(at.join("f")).expect("read"), b"y", "it was written");
    assert_eq!(fs::metadata(&new).expect_err("it was never asked for").kind(), ErrorKind::NotFound);
    assert!(at.join("d").exists() && !at.join("d/e").exists(), "what was not sent is not done");
    mount.stop();
    server.stop();
}
