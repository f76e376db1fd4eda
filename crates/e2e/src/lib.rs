//! Real programs, real faults: what the suites that need a running file system have in common.
//!
//! Servers and mounts are processes of their own (the program is named by `LOLIGO_BIN`), so that they can be killed and
//! so that a test never waits for a mount inside its own process. Whatever a test does, nothing is left: no process, no
//! mount.

pub mod raw;
mod two;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

pub use two::Two;

/// Time limit of anything that ought to be quick, on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program under test, if it was named and this machine can mount. Says why not otherwise, also at the end of
/// `make test`; with LOLIGO_REQUIRE_MOUNT it is a failure.
pub fn program() -> Option<PathBuf> {
    let device = std::fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
    let rights = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN));
    let why = match std::env::var_os("LOLIGO_BIN") {
        None => "LOLIGO_BIN does not name the loligo program",
        Some(_) if !device => "/dev/fuse cannot be opened",
        Some(_) if !rustix::process::geteuid().is_root() => "mounting needs root",
        Some(_) if !rights => "mounting needs CAP_SYS_ADMIN",
        Some(path) => return Some(path.into()),
    };
    assert!(std::env::var_os("LOLIGO_REQUIRE_MOUNT").is_none(), "LOLIGO_REQUIRE_MOUNT is set, and {why}");
    not_tested("suites of crates/e2e with a mount", why);
    None
}

/// Says that something was not tested; `make test` lists it at its end.
fn not_tested(what: &str, why: &str) {
    eprintln!("NOT TESTED: {what}: {why}");
    let list =
        std::env::var_os("LOLIGO_SKIPPED").map(|list| std::fs::OpenOptions::new().create(true).append(true).open(list));
    if let Some(Ok(mut list)) = list {
        let _ = list.write_all(format!("{what}: {why}\n").as_bytes());
    }
}

/// A directory of its own for one test, with a formatted file system; removed at the end.
pub struct Scratch {
    program: PathBuf,
    top: PathBuf,
    ranks: u32,
    placed: AtomicBool,
}

impl Scratch {
    /// Makes one; `None` if the suite is to be skipped.
    pub fn new(name: &str) -> Option<Scratch> {
        Some(Scratch::of(program()?, name))
    }

    /// The same for a test that mounts nothing, and so needs no rights: `None` if `LOLIGO_BIN` does not name the program.
    pub fn without_mount(name: &str) -> Option<Scratch> {
        let Some(program) = std::env::var_os("LOLIGO_BIN") else {
            not_tested("suites of crates/e2e without a mount", "LOLIGO_BIN does not name the loligo program");
            return None;
        };
        Some(Scratch::of(program.into(), name))
    }

    fn of(program: PathBuf, name: &str) -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let top = std::env::temp_dir().join(format!("loligo-e2e-{name}-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&top).expect("a directory for the test");
        let ranks =
            std::env::var("LOLIGO_RANKS").ok().map_or(1, |text| text.parse().expect("LOLIGO_RANKS is a number"));
        let scratch = Scratch { program, top, ranks, placed: AtomicBool::new(false) };
        let status = scratch.command("format").arg("--data").arg(scratch.data()).status().expect("loligo runs");
        assert!(status.success(), "loligo format failed");
        scratch
    }

    /// Runs a command of the program on the data directory; what it prints.
    pub fn run(&self, words: &[&str]) -> String {
        let mut command = self.command(words[0]);
        let output = command.args(&words[1..]).arg("--data").arg(self.data()).stdout(Stdio::piped()).output();
        let output = output.expect("loligo runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{words:?}: {}\n{said}\n{}", output.status, self.log());
        said
    }

    /// Number of ranks of servers: LOLIGO_RANKS in the environment, or 1.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Servers have so many ranks from now on.
    #[must_use]
    pub fn with_ranks(mut self, ranks: u32) -> Scratch {
        self.ranks = ranks;
        self
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.top.join("data")
    }

    /// A place for a mount.
    pub fn place(&self, name: &str) -> PathBuf {
        self.top.join(name)
    }

    fn command(&self, sub: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(sub).stdin(Stdio::null()).env_remove("LOLIGO_SERVER");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.top.join("log"));
        command.stdout(Stdio::null()).stderr(log.expect("a log for the test"));
        command
    }

    fn server(&self, sub: &str) -> Command {
        let mut command = self.command(sub);
        command.arg("--data").arg(self.data()).args(["--ranks", &self.ranks.to_string()]);
        // What moves is a test's to say.
        command.args(["--set", "balancer=none"]);
        command
    }

    /// Starts to move these directories (paths from the root), or fragments of them, between the ranks at random, until it is
    /// dropped.
    pub fn thrash(&self, dirs: &[&str]) -> Thrasher {
        let script = "while true; do for dir in \"$@\"; do \
                      bits=$((RANDOM % 3)); frag=; [ $bits = 0 ] || frag=\"--frag $((RANDOM % (1 << bits)))/$bits\"; \
                      timeout 20 \"$PROGRAM\" --quiet subtree migrate \"$dir\" $((RANDOM % RANKS)) $frag --data \"$DATA\"; sleep 0.05; \
                      done; done";
        let mut command = Command::new("bash");
        command.args(["-c", script, "thrash"]).args(dirs).env("PROGRAM", &self.program).env("DATA", self.data());
        command.env("RANKS", self.ranks.to_string()).env_remove("LOLIGO_SERVER");
        // Refusals are expected: a rank that is down, a directory that is gone.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Thrasher { child: command.spawn().expect("bash runs") }
    }

    /// All that servers and commands have logged.
    pub fn whole_log(&self) -> String {
        std::fs::read_to_string(self.top.join("log")).unwrap_or_default()
    }

    fn log(&self) -> String {
        let log = self.whole_log();
        let tail: Vec<&str> = log.lines().rev().take(40).collect();
        tail.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Checks the whole file system, bytes of files included. No server may run.
    pub fn check(&self) {
        let mut command = self.command("fsck");
        let output = command.arg("--data").arg(self.data()).arg("--data-checksums").stdout(Stdio::piped()).output();
        let output = output.expect("loligo runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "fsck: {}\n{said}\n{}", output.status, self.log());
    }

    /// Starts a server, and waits until it serves.
    pub fn serve(&self) -> Process {
        self.serve_with(&[])
    }

    /// The same with more words on its command line.
    pub fn serve_with(&self, words: &[&str]) -> Process {
        self.start(self.server("serve").args(words), None)
    }

    /// Makes ready to start a server later. A program that has files of a mount open waits for their server when it
    /// starts another program (their descriptors are closed in the new one), so it cannot start that very server.
    pub fn prepare_server(&self) -> Prepared<'_> {
        let command = self.server("serve");
        let mut waiting = Command::new("sh");
        waiting.args(["-c", "read go && exec \"$0\" \"$@\""]).arg(command.get_program()).args(command.get_args());
        let log = std::fs::OpenOptions::new().append(true).open(self.top.join("log")).expect("a log for the test");
        waiting.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).env_remove("LOLIGO_SERVER");
        Prepared { scratch: self, child: waiting.spawn().expect("sh runs") }
    }

    /// Starts a mount of the running server.
    pub fn mount(&self, name: &str) -> Process {
        self.mount_with(name, &[])
    }

    /// The same, with settings (`KEY=VALUE`).
    pub fn mount_with(&self, name: &str, settings: &[&str]) -> Process {
        let place = self.place(name);
        let mut command = self.command("mount");
        settings.iter().for_each(|setting| _ = command.args(["--set", setting]));
        self.start(command.arg("--data").arg(self.data()).arg(&place), Some(&place))
    }

    /// Starts a server with a mount in one process. A dead mount of an earlier one may be there.
    pub fn up(&self, name: &str) -> Process {
        let place = self.place(name);
        self.start(self.server("up").arg("--mount").arg(&place), Some(&place))
    }

    /// Starts a process, and waits until it says on its standard output that everything works.
    fn start(&self, command: &mut Command, mount: Option<&Path>) -> Process {
        self.ready(command.stdout(Stdio::piped()).spawn().expect("loligo runs"), mount)
    }

    fn ready(&self, mut child: Child, mount: Option<&Path>) -> Process {
        let output = child.stdout.take().expect("piped");
        let process = Process { child, mount: mount.map(Path::to_owned) };
        let (sender, receiver) = mpsc::channel();
        // Reads on to the end, so that the process never writes into a pipe that is full or closed.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let until = Instant::now() + PATIENCE;
        loop {
            let line = receiver.recv_timeout(until.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|e| panic!("it does not come up ({e})\n{}", self.log()));
            if line.starts_with("serving ") || line.starts_with("mounted ") {
                self.place_directories();
                return process;
            }
        }
    }

    /// With LOLIGO_PLACEMENT in the environment directories are placed so, from the root and the first server on.
    fn place_directories(&self) {
        let Ok(how) = std::env::var("LOLIGO_PLACEMENT") else { return };
        if !self.placed.swap(true, Ordering::Relaxed) {
            let status = self.command("subtree").arg("place").arg("--data").arg(self.data()).args(["/", &how]).status();
            assert!(status.expect("loligo runs").success(), "directories cannot be placed as {how}\n{}", self.log());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("----- the end of the log of {}\n{}", self.top.display(), self.log());
        }
        if let Err(error) = std::fs::remove_dir_all(&self.top) {
            eprintln!("{}: {error}", self.top.display());
        }
    }
}

/// Moves directories until it is dropped.
pub struct Thrasher {
    child: Child,
}

impl Drop for Thrasher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that waits to be started.
pub struct Prepared<'a> {
    scratch: &'a Scratch,
    child: Child,
}

impl Prepared<'_> {
    /// Starts it, and waits until it serves. Without being started it ends with this process.
    pub fn start(mut self) -> Process {
        self.child.stdin.take().expect("piped").write_all(b"go\n").expect("it waits");
        self.scratch.ready(self.child, None)
    }
}

/// A server, a mount, or both.
pub struct Process {
    child: Child,
    mount: Option<PathBuf>,
}

impl Process {
    /// True while the process runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Its resident set, bytes.
    pub fn memory(&self) -> u64 {
        let told = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = told.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel tells it");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.mount.as_deref().expect("a process with a mount")
    }

    /// Kills it at whatever instruction it is. A mount of it is left dead, as after any crash.
    pub fn kill(mut self) {
        self.kill_now();
        // Not twice.
        self.mount = None;
    }

    fn kill_now(&mut self) {
        let _ = self.child.kill();
        let until = Instant::now() + Duration::from_secs(10);
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                // A thread of it waits inside the kernel for its own mount.
                abort(self.mount.as_deref());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops it cleanly.
    pub fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        let until = Instant::now() + PATIENCE;
        loop {
            match self.child.try_wait().expect("a status") {
                Some(status) => {
                    assert!(status.success(), "a clean stop ended with {status}");
                    break;
                }
                None => assert!(Instant::now() < until, "a clean stop took too long"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if let Some(mount) = self.mount.take() {
            assert!(connection(&mount).is_none(), "a clean stop left the mount");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            abort(self.mount.as_deref());
            self.kill_now();
        }
        while let Some(mount) = self.mount.as_deref().filter(|m| connection(m).is_some()) {
            abort(Some(mount));
            if rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH).is_err() {
                break;
            }
        }
    }
}

/// Detaches a dead mount.
pub fn detach(mount: &Path) {
    abort(Some(mount));
    let _ = rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH);
}

/// The number of the FUSE connection that is mounted at a path. Does not touch the path.
pub fn connection(mount: &Path) -> Option<u32> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let of_line = |line: &str| {
        let mut fields = line.split(' ');
        let device = fields.nth(2)?;
        (Path::new(fields.nth(1)?) == mount).then(|| device.split_once(':')?.1.parse().ok())?
    };
    table.lines().filter_map(of_line).next_back()
}

/// Ends the FUSE connection mounted at a path by force: whoever waits for it gets an error.
fn abort(mount: Option<&Path>) {
    let Some((mount, number)) = mount.and_then(|m| Some((m, connection(m)?))) else { return };
    // Not everywhere are the connections to be seen; a forced unmount ends one, too, also if it then fails.
    if std::fs::write(format!("/sys/fs/fuse/connections/{number}/abort"), "1").is_err() {
        let _ = rustix::mount::unmount(mount, rustix::mount::UnmountFlags::FORCE);
    }
}

/// Runs `body` on a thread of its own and fails if it takes too long, as it would if a mount hangs.
pub fn within<T: Send + 'static>(limit: Duration, what: &str, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::spawn(move || sender.send(body()));
    match receiver.recv_timeout(limit) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} took longer than {limit:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("it ended without a panic and without a value"),
        },
    }
}

/// Waits until something holds that may take a moment to come about.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
