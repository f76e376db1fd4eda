//! Running the command, servers and mounts, and cleaning up behind them. No test is here.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub const LOLIGO: &str = env!("CARGO_BIN_EXE_loligo");

/// Time limit for anything on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Exit code and output of a command.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// It went well.
    #[track_caller]
    pub fn ok(self) -> Ran {
        assert_eq!(self.code, 0, "{}\n{}", self.out, self.err);
        self
    }

    /// It failed with this code, and its words hold these.
    #[track_caller]
    pub fn fails(self, code: i32, words: &[&str]) -> Ran {
        assert_eq!(self.code, code, "{}\n{}", self.out, self.err);
        for word in words {
            assert!(self.err.contains(word), "no `{word}` in: {}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// Its output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}", self.out))
    }
}

fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "120"]).arg(program).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOLIGO_")) {
        command.env_remove(name);
    }
    command
}

fn ran(mut command: Command) -> Ran {
    let output = command.output().expect("`timeout` is there");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs `loligo`. Words are separated by spaces; `{}` stands for the next path.
#[track_caller]
pub fn loligo(words: &str, paths: &[&Path]) -> Ran {
    loligo_in(words, paths, |_| ())
}

/// Runs `loligo` with something else about its process.
#[track_caller]
pub fn loligo_in(words: &str, paths: &[&Path], change: impl FnOnce(&mut Command)) -> Ran {
    loligo_at(Path::new(LOLIGO), words, paths, change)
}

/// Runs a copy of `loligo`, at a path that another user can reach.
#[track_caller]
pub fn loligo_at(program: &Path, words: &str, paths: &[&Path], change: impl FnOnce(&mut Command)) -> Ran {
    let mut all = command(program);
    all.args(arguments(words, paths));
    change(&mut all);
    ran(all)
}

#[track_caller]
fn arguments(words: &str, paths: &[&Path]) -> Vec<String> {
    let mut paths = paths.iter();
    let mut path = || paths.next().expect("a path for each {}").to_str().expect("paths of tests are UTF-8").to_string();
    let words = words
        .split_whitespace()
        .map(|word| if word.contains("{}") { word.replace("{}", &path()) } else { word.into() });
    words.collect()
}

/// Runs a script on a mount, in a process that may be killed.
#[track_caller]
pub fn sh(script: &str, dir: &Path) -> Ran {
    let mut shell = command("sh");
    shell.args(["-euc", script]).current_dir("/").env("D", dir);
    ran(shell)
}

/// Runs a script in a mount namespace of its own, as root: what it mounts, nobody else sees. `$L` is the command, `$D`
/// the directory. `None` if that cannot be here.
#[track_caller]
pub fn apart(script: &str, dir: &Path) -> Option<Ran> {
    if !rustix::process::geteuid().is_root() || !sh("unshare -m true", Path::new("/")).code.eq(&0) {
        not_tested("tests of the command on machines against it: they need root and mount namespaces");
        return None;
    }
    let mut shell = command("unshare");
    shell.args(["-m", "sh", "-euc", script]).current_dir("/").env("D", dir).env("L", LOLIGO);
    Some(ran(shell))
}

/// True if this machine lets us mount. Without it the tests with a mount pass without having tested it, and that is
/// said at the end of `make test`; with LOLIGO_REQUIRE_MOUNT they fail.
#[track_caller]
pub fn can_mount() -> bool {
    // As scripts/env.sh decides it: by what the kernel allows, not by trying, so that no failure passes for an excuse.
    let device = std::fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
    let rights = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN));
    let can = device && rights && rustix::process::geteuid().is_root();
    if !can {
        assert!(std::env::var_os("LOLIGO_REQUIRE_MOUNT").is_none(), "nothing can be mounted, and that is required");
        not_tested("tests of the command with a mount: they need root, CAP_SYS_ADMIN and /dev/fuse");
    }
    can
}

/// Says that something was not tested; `make test` lists it at its end.
pub fn not_tested(what: &str) {
    eprintln!("NOT TESTED: {what}");
    let list =
        std::env::var_os("LOLIGO_SKIPPED").map(|list| std::fs::File::options().create(true).append(true).open(list));
    if let Some(Ok(mut list)) = list {
        let _ = std::io::Write::write_all(&mut list, format!("{what}\n").as_bytes());
    }
}

/// Tries until it holds.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A directory for one test, with a place for data and one for a mount.
pub struct Place {
    pub dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place { dir: tempfile::Builder::new().prefix("loligo-cli").tempdir().expect("a directory for the test") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    pub fn mount(&self) -> PathBuf {
        self.path("mnt")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A mount that a failed test left would make the removal hang or remove what is in it.
        for (path, minor) in fuse_mounts(self.dir.path()) {
            let _ = std::fs::write(format!("/sys/fs/fuse/connections/{minor}/abort"), "1");
            let _ = Command::new("umount").arg("-l").arg(path).status();
        }
    }
}

/// Our mounts below a directory, with the numbers of their connections.
pub fn fuse_mounts(below: &Path) -> Vec<(PathBuf, u32)> {
    let bytes = std::fs::read("/proc/self/mountinfo").expect("mountinfo");
    let text = String::from_utf8_lossy(&bytes);
    let mounts = text.lines().filter(|line| line.contains(" - fuse")).filter_map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        let minor = fields.get(2)?.split_once(':')?.1.parse().ok()?;
        Some((PathBuf::from(fields.get(4)?), minor))
    });
    mounts.filter(|(path, _)| path.starts_with(below)).collect()
}

/// A service in the foreground.
pub struct Service {
    child: Child,
    pub welcome: String,
    log: Arc<Mutex<String>>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Service {
    /// Starts it and waits until it says that it is ready.
    #[track_caller]
    pub fn start(words: &str, paths: &[&Path]) -> Service {
        Service::begin(Command::new(LOLIGO), words, paths)
    }

    /// The same with so many files that it may have open.
    #[track_caller]
    pub fn start_with_files(files: u32, words: &str, paths: &[&Path]) -> Service {
        let mut shell = Command::new("sh");
        shell.args(["-euc", &format!("ulimit -n {files}; exec \"$@\""), "sh", LOLIGO]);
        Service::begin(shell, words, paths)
    }

    #[track_caller]
    fn begin(mut command: Command, words: &str, paths: &[&Path]) -> Service {
        command.args(arguments(words, paths)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOLIGO_")) {
            command.env_remove(name);
        }
        let mut child = command.spawn().expect("loligo can be started");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let err = BufReader::new(child.stderr.take().expect("a pipe"));
        let log = Arc::new(Mutex::new(String::new()));
        let writer = log.clone();
        let reader = std::thread::spawn(move || {
            for line in err.lines().map_while(Result::ok) {
                writer.lock().expect("no panic with it").push_str(&(line + "\n"));
            }
        });
        let mut welcome = String::new();
        while !welcome.contains("stop it") {
            let mut line = String::new();
            if out.read_line(&mut line).expect("output") == 0 {
                let status = child.wait().expect("its end");
                reader.join().expect("no panic");
                panic!("{words}: ended with {status}: {welcome}{}", log.lock().expect("no panic with it"));
            }
            welcome.push_str(&line);
        }
        Service { child, welcome, log, reader: Some(reader) }
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("no panic with it").clone()
    }

    /// True if it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Sends a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).expect("a live process");
    }

    /// Asks it to stop and waits; its exit code and log.
    #[track_caller]
    pub fn stop(self) -> (i32, String) {
        self.signal(rustix::process::Signal::TERM);
        self.ended()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn ended(mut self) -> (i32, String) {
        let mut status = None;
        until("the service ends", || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        let code = status.and_then(|status| status.code()).unwrap_or(-1);
        if let Some(reader) = self.reader.take() {
            reader.join().expect("no panic");
        }
        (code, self.log())
    }

    /// kill -9, waiting for the end.
    pub fn kill(mut self) {
        self.child.kill().expect("a live process");
        self.child.wait().expect("a child");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // After a stop there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bytes of a segment of a journal up to its last record: a killed server leaves zeros behind it.
pub fn records_of(segment: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(segment).expect("a segment");
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(end);
    bytes
}
