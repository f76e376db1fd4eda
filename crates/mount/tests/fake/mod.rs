//! A mount over a fake file system in a process of its own (the example `fakefs`), for tests of the adapter with a kernel. Needs root and
//! /dev/fuse; says so and gives none otherwise.

#![allow(dead_code)] // Each file of tests uses a part of it.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

pub struct Fake {
    pub child: Child,
    pub input: ChildStdin,
    pub output: BufReader<ChildStdout>,
    pub dir: PathBuf,
}

impl Fake {
    pub fn start(name: &str) -> Option<Fake> {
        let dir = std::env::temp_dir().join(format!("loligo-mount-{name}-{}", std::process::id()));
        Fake::start_at(dir)
    }

    /// With names cached as far as `caching` says. None also if this kernel cannot do that.
    pub fn start_caching(name: &str, caching: &str) -> Option<Fake> {
        let dir = std::env::temp_dir().join(format!("loligo-mount-{name}-{caching}-{}", std::process::id()));
        let mut fake = Fake::start_with(dir, &[caching])?;
        if fake.tell("caching") == caching {
            return Some(fake);
        }
        fake.quit();
        eprintln!("NOT TESTED: this kernel is too old for names cached as {caching}");
        None
    }

    pub fn start_at(dir: PathBuf) -> Option<Fake> {
        Fake::start_with(dir, &[])
    }

    fn start_with(dir: PathBuf, args: &[&str]) -> Option<Fake> {
        if let Some(why) = unable() {
            assert!(std::env::var_os("LOLIGO_REQUIRE_MOUNT").is_none(), "LOLIGO_REQUIRE_MOUNT is set, and {why}");
            eprintln!("NOT TESTED: {why}");
            if let Some(list) = std::env::var_os("LOLIGO_SKIPPED") {
                let list = OpenOptions::new().create(true).append(true).open(list);
                let line = format!("mechanics of crates/mount with a kernel: {why}\n");
                list.and_then(|mut list| list.write_all(line.as_bytes())).expect("the list of what was not tested");
            }
            return None;
        }
        let program = std::env::current_exe().expect("a path").with_file_name("../examples/fakefs");
        let mut child = Command::new(&program)
            .arg(&dir)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", program.display()));
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut fake = Fake { child, input, output, dir };
        let line = fake.line();
        assert!(line.starts_with("ready"), "{line}");
        Some(fake)
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the fake lives");
        line.trim().to_owned()
    }

    pub fn tell(&mut self, command: &str) -> String {
        if command.starts_with("names") {
            // Whoever asks for something has taken in what he was told before, however busy the machine is.
            rustix::fs::statfs(&self.dir).expect("it answers");
        }
        writeln!(self.input, "{command}").expect("the fake lives");
        self.line()
    }

    pub fn count(&mut self, op: &str) -> u64 {
        let line = self.tell("counts");
        line.split(' ').find_map(|w| w.strip_prefix(&format!("{op}="))?.parse().ok()).unwrap_or(0)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn quit(mut self) {
        assert_eq!(self.tell("quit"), "Ok(Clean)");
        assert!(self.child.wait().expect("ended").success());
        fs::remove_dir(&self.dir).expect("the mount point is empty again");
    }
}

/// Why nothing can be mounted here.
fn unable() -> Option<&'static str> {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    let rights = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN));
    let root = rustix::process::geteuid().is_root();
    [(device, "/dev/fuse cannot be opened"), (root, "mounting needs root"), (rights, "mounting needs CAP_SYS_ADMIN")]
        .iter()
        .find_map(|(able, why)| (!able).then_some(*why))
}

/// Version of this machine's kernel, as (6, 12).
pub fn kernel() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a version");
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().expect("a number"));
    (numbers.next().expect("a version"), numbers.next().expect("a version"))
}

/// A failed test must not leave a mount behind.
impl Drop for Fake {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            let _ = rustix::mount::unmount(&self.dir, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

/// Waits until it is so.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within 20 s");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs `body` elsewhere, so that a hang fails the test.
pub fn within<T: Send + 'static>(limit: Duration, what: &str, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(body()));
    receiver.recv_timeout(limit).unwrap_or_else(|_| panic!("{what} took longer than {limit:?}"))
}
