//! Servers of a file system on the cluster, and what is done to them. No test is here.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use loligo_driver::Address;
use loligo_driver::client::{Client, Fs, Options};
use loligo_types::Cred;

pub const LOLIGO: &str = env!("CARGO_BIN_EXE_loligo");

/// Time limit for anything on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The cluster's configuration; `None` without one.
pub fn conf() -> Option<String> {
    // What clients do, for who looks for a fault: LOLIGO_TEST_LOG=debug.
    if let Ok(filter) = std::env::var("LOLIGO_TEST_LOG") {
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
    }
    let conf = std::env::var("LOLIGO_CEPH_CONF").ok();
    if conf.is_none() {
        eprintln!("not tested: LOLIGO_CEPH_CONF names no cluster");
    }
    conf
}

/// A file system of a test's own, and a directory for each server.
pub struct Place {
    pub conf: String,
    pub store: String,
    pub dir: tempfile::TempDir,
}

impl Place {
    /// One that is not formatted; `None` without a cluster.
    pub fn new() -> Option<Place> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let conf = conf()?;
        let store = format!("rados:rados_test/cli.{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Some(Place { conf, store, dir: tempfile::tempdir().expect("a directory for the test") })
    }

    pub fn formatted() -> Option<Place> {
        let place = Place::new()?;
        place.run(&["format"], 0);
        Some(place)
    }

    pub fn data(&self, server: usize) -> PathBuf {
        self.dir.path().join(format!("s{server}"))
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a command that takes a store, with server 0's directory; what it said.
    pub fn run(&self, args: &[&str], code: i32) -> String {
        let mut command = self.command(args, 0);
        let output = command.output().expect("it runs");
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        said
    }

    /// Runs any command; what it said.
    pub fn say(&self, args: &[&str], code: i32) -> String {
        let output = Command::new(LOLIGO).args(args).stdin(Stdio::null()).output().expect("it runs");
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        said
    }

    fn command(&self, args: &[&str], server: usize) -> Command {
        self.command_by(Command::new(LOLIGO), args, server)
    }

    fn command_by(&self, mut command: Command, args: &[&str], server: usize) -> Command {
        command.args(args).args(["--store", &self.store, "--conf", &self.conf]).arg("--data").arg(self.data(server));
        command.stdin(Stdio::null());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOLIGO_")) {
            command.env_remove(name);
        }
        command
    }

    /// Starts a server, which may have to stand by.
    pub fn serve(&self, server: usize, args: &[&str]) -> Server {
        self.serve_by(Command::new(LOLIGO), server, &[&["--standby"], args].concat())
    }

    /// Starts one that takes its share of the ranks.
    pub fn share(&self, server: usize, args: &[&str]) -> Server {
        self.serve_by(Command::new(LOLIGO), server, args)
    }

    /// Starts one by a program that becomes it: on another host, say.
    pub fn serve_by(&self, program: Command, server: usize, args: &[&str]) -> Server {
        let log = self.data(server).with_extension("log");
        let file = std::fs::File::options().create(true).append(true).open(&log).expect("a log");
        let mut command = self.command_by(program, &["serve"], server);
        let child = command
            .args(args)
            .args(["--set", &format!("server_name=s{server}")])
            .stdout(file.try_clone().expect("a log"))
            .stderr(file)
            .spawn()
            .expect("it starts");
        Server { child, number: server, socket: self.data(server).join("loligo.sock"), log }
    }

    /// All sockets of so many servers.
    pub fn address(&self, servers: usize) -> Address {
        let all: Vec<String> =
            (0..servers).map(|server| format!("unix:{}", self.data(server).join("loligo.sock").display())).collect();
        all.join(",").parse().expect("addresses")
    }
}

/// A server's process.
pub struct Server {
    child: Child,
    pub number: usize,
    socket: PathBuf,
    log: PathBuf,
}

impl Server {
    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().expect("kill").success());
    }

    /// The ranks that it runs, and whether it leads; nothing if it says nothing.
    pub fn runs(&self) -> (Vec<u64>, bool) {
        let data = self.socket.parent().expect("it is in a directory");
        let output = Command::new(LOLIGO).args(["status", "--json", "--data"]).arg(data).output().expect("it runs");
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let servers = status["servers"].as_array().cloned().unwrap_or_default();
        let Some(own) = servers.iter().find(|server| server["this"] == true) else { return Default::default() };
        let ranks = own["ranks"].as_array().map(|ranks| ranks.iter().filter_map(|rank| rank.as_u64()).collect());
        (ranks.unwrap_or_default(), own["leads"] == true)
    }

    pub fn stop(&self) {
        self.signal("-STOP");
    }

    pub fn wake(&self) {
        self.signal("-CONT");
    }

    /// True if it serves: somebody takes connections.
    pub fn serves(&self) -> bool {
        std::os::unix::net::UnixStream::connect(&self.socket).is_ok()
    }

    /// Waits for that.
    pub fn until_serves(&mut self) {
        let until = Instant::now() + PATIENCE;
        while !self.serves() {
            assert!(self.child.try_wait().expect("its state").is_none(), "it has ended:\n{}", self.said());
            assert!(Instant::now() < until, "it does not serve:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until it has said that.
    pub fn until_says(&mut self, words: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.said().contains(words) {
            assert!(self.child.try_wait().expect("its state").is_none(), "it has ended:\n{}", self.said());
            assert!(Instant::now() < until, "it does not say {words:?}:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// As a loss of power does it to a process.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("its end");
    }

    /// Tells it to stop cleanly, and does not wait.
    pub fn term(&self) {
        self.signal("-TERM");
    }

    /// True if it has ended.
    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_some()
    }

    /// Stops it cleanly.
    pub fn end(mut self) {
        self.signal("-TERM");
        let status = self.child.wait().expect("its end");
        assert!(status.success(), "{}", self.said());
    }

    /// Waits until it has ended by itself; its last words.
    pub fn until_ended(&mut self) -> String {
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait().expect("its state").is_none() {
            assert!(Instant::now() < until, "it does not end:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
        self.said()
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A test that failed leaves none behind, but what they said.
        if std::thread::panicking() {
            eprintln!("-- s{}:\n{}", self.number, self.said());
        }
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A client of these servers.
pub fn connect(address: &Address) -> Fs {
    let until = Instant::now() + PATIENCE;
    loop {
        match Client::connect(address, Options { name: "test".into(), cache: true, ..Options::default() }) {
            Ok(client) => return client.fs(Cred::root().into()),
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
