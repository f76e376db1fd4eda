//! The reference model against a server over the wire and, where a mount is given, against the mount.
//!
//! `LOLIGO_BIN=target/ci/loligo cargo test -p loligo-e2e --test model`. The mount's part needs root and /dev/fuse, and
//! says so where it cannot run. The tree's part stands with the namespace.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use loligo_client::{Call, Done};
use loligo_driver::client::{Client, Options};
use loligo_driver::{FormatOptions, Server, ServerConfig, format};
use loligo_model::posix::Posix;
use loligo_model::{Level, Mismatch, PathFs, Reference, Step, Walk, run, run_with, steps};
use loligo_store::Identity;
use loligo_store::mem::MemDisk;
use loligo_types::{Answer, Attr, Cred, FsResult, Ino, Name, Op, OpenFlags};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config as Runs, RngAlgorithm, TestRng, TestRunner};

fn random_steps(seed: u8, length: usize) -> Vec<Step> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Runs::default(), rng);
    steps(length).new_tree(&mut runner).expect("the strategy rejects nothing").current()
}

/// Clients of one server that take turns, so that each sees what the others did.
struct Wire {
    clients: Vec<Client>,
    turn: usize,
}

impl Wire {
    fn call(&mut self, cred: &Cred, call: Call) -> FsResult<Done> {
        self.turn += 1;
        let client = &self.clients[self.turn % self.clients.len()];
        client.call(&Arc::new(cred.clone()), call).map_err(|failed| failed.error)
    }

    /// Opens with one client, does something with it there, and closes.
    fn with_open(
        &mut self,
        cred: &Cred,
        open: Call,
        act: impl FnOnce(&Client, &Arc<Cred>, loligo_client::Fh) -> FsResult<Answer>,
    ) -> FsResult<(Attr, Answer)> {
        self.turn += 1;
        let client = self.clients[self.turn % self.clients.len()].clone();
        let cred = Arc::new(cred.clone());
        let call = |call| client.call(&cred, call).map_err(|failed| failed.error);
        let opened = call(open)?;
        let fh = opened.fh.expect("an open gives a handle");
        let attr = *opened.attr().expect("an open gives attributes");
        let acted = act(&client, &cred, fh);
        let flushed = call(Call::Flush { fh, owner: None });
        call(Call::Release { fh, flock_owner: None })?;
        let answer = acted?;
        flushed?;
        Ok((attr, answer))
    }

    fn put(&mut self, cred: &Cred, ino: Ino, flags: OpenFlags, offset: u64, data: &[u8]) -> FsResult<()> {
        let (data, append, kill_priv): (Arc<[u8]>, _, _) = (data.into(), flags.append, !cred.is_root());
        self.with_open(cred, Call::Open { ino, flags }, |client, cred, fh| {
            if data.is_empty() {
                return Ok(Answer::Done);
            }
            let write = Call::Write { fh, offset, data, append, kill_priv };
            client.call(cred, write).map(|done| done.answer).map_err(|failed| failed.error)
        })
        .map(drop)
    }
}

impl Level for Wire {
    fn op(&mut self, cred: &Cred, op: Op) -> FsResult<Answer> {
        let call = match op {
            Op::GetAttr { ino } => Call::GetAttr { ino },
            Op::SetAttr { ino, set, handle: None } => Call::SetAttr { ino, set, fh: None },
            Op::Access { ino, want } => Call::Access { ino, want },
            Op::Readdir { dir, cookie, limit, plus, .. } => {
                let flags = OpenFlags { read: true, ..OpenFlags::default() };
                let listed = self.with_open(cred, Call::Open { ino: dir, flags }, |client, cred, fh| {
                    let call = Call::Readdir { fh, cookie, limit, plus };
                    client.call(cred, call).map(|done| done.answer).map_err(|failed| failed.error)
                });
                return listed.map(|(_, answer)| answer);
            }
            op => Call::Op(op),
        };
        self.call(cred, call).map(|done| done.answer)
    }

    fn create(&mut self, cred: &Cred, dir: Ino, name: Name, mode: u16, exclusive: bool) -> FsResult<Attr> {
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let open = Call::Create { dir, name, mode, umask: 0, flags, exclusive };
        self.with_open(cred, open, |_, _, _| Ok(Answer::Done)).map(|(attr, _)| attr)
    }

    fn write(&mut self, cred: &Cred, ino: Ino, offset: u64, data: &[u8], cut: bool) -> FsResult<()> {
        self.put(cred, ino, OpenFlags { write: true, truncate: cut, ..OpenFlags::default() }, offset, data)
    }

    fn append(&mut self, cred: &Cred, ino: Ino, data: &[u8]) -> FsResult<()> {
        self.put(cred, ino, OpenFlags { write: true, append: true, ..OpenFlags::default() }, 0, data)
    }

    fn read(&mut self, cred: &Cred, ino: Ino) -> FsResult<Vec<u8>> {
        let open = Call::Open { ino, flags: OpenFlags { read: true, ..OpenFlags::default() } };
        let (_, answer) = self.with_open(cred, open, |client, cred, fh| {
            let read = Call::Read { fh, offset: 0, len: 1 << 20 };
            client.call(cred, read).map(|done| done.answer).map_err(|failed| failed.error)
        })?;
        match answer {
            Answer::Bytes(bytes) => Ok(bytes.to_vec()),
            other => panic!("bytes were due, not {other:?}"),
        }
    }
}

fn serve() -> Server {
    let disk = MemDisk::new(Identity::new([7; 16], [9; 16]));
    let backend = disk.open().expect("a new disk opens");
    let options = FormatOptions { mode: 0o777, ..FormatOptions::default() };
    format(&*backend, &options).expect("formatting a new disk");
    Server::start(ServerConfig::new(backend), &mut |_| {}).expect("the server starts")
}

#[test]
fn clients_of_a_server_that_take_turns_answer_as_the_model_does() {
    for seed in 0..30 {
        let server = serve();
        let clients = (0..3).map(|_| {
            let address = server.connect_pair().expect("a socket pair");
            Client::connect(&address, Options { cache: true, cache_names: true, ..Options::default() })
                .expect("the server welcomes")
        });
        let level = Wire { clients: clients.collect(), turn: 0 };
        let steps = random_steps(seed, 200);
        let outcome = run(&mut Walk(level), &steps);
        server.stop().expect("a clean end");
        if let Err(mismatch) = outcome {
            panic!("seed {seed}: {mismatch}");
        }
    }
}

/// The `loligo` to test, if there is one and this process may mount.
fn binary() -> Option<PathBuf> {
    let found = std::env::var_os("LOLIGO_BIN").map(PathBuf::from);
    let able = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if found.is_none() || !able {
        eprintln!("no LOLIGO_BIN, not root, or no /dev/fuse: nothing was mounted, nothing compared");
    }
    found.filter(|_| able)
}

fn loligo(bin: &Path, args: &[&std::ffi::OsStr]) {
    let output = Command::new(bin).args(args).output().expect("the command starts");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_mount_answers_as_the_model_does() {
    compare_mount(1, 100..120, 1);
}

#[test]
fn mounts_that_take_turns_answer_as_the_model_does() {
    compare_mount(1, 150..170, 2);
}

#[test]
fn a_mount_of_several_ranks_answers_as_the_model_does_while_directories_move() {
    compare_mount(4, 130..145, 1);
}

#[test]
fn mounts_of_several_ranks_that_take_turns_answer_as_the_model_does_while_directories_move() {
    compare_mount(4, 170..185, 2);
}

/// Compares so many mounts, which take turns, of so many ranks, between which the directories of the comparison move.
fn compare_mount(ranks: u32, seeds: std::ops::Range<u8>, mounts: usize) {
    let Some(bin) = binary() else { return };
    let protected = std::fs::read_to_string("/proc/sys/fs/protected_hardlinks").is_ok_and(|t| t.trim() == "1");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (data, mount) = (dir.path().join("data"), dir.path().join("mnt"));
    let (d, m, n) = (data.as_os_str(), mount.as_os_str(), ranks.to_string());
    let up = [
        "up".as_ref(),
        "--data".as_ref(),
        d,
        "--mount".as_ref(),
        m,
        "--ranks".as_ref(),
        n.as_ref(),
        // The thrasher alone says what moves.
        "--set".as_ref(),
        "balancer=none".as_ref(),
        "--daemon".as_ref(),
    ];
    loligo(&bin, &up);
    let _server = Stopped { bin: &bin, data: &data };
    if let Some(how) = std::env::var_os("LOLIGO_PLACEMENT") {
        loligo(&bin, &["subtree".as_ref(), "place".as_ref(), m, &how]);
    }
    let mut all = vec![mount.clone()];
    for at in 1..mounts {
        let other = dir.path().join(format!("mnt.{at}"));
        loligo(&bin, &["mount".as_ref(), "--data".as_ref(), d, other.as_os_str(), "--daemon".as_ref()]);
        all.push(other);
    }
    let thrasher = (ranks > 1).then(|| thrash(&bin, &data, &mount, ranks));
    let mut failed = None;
    for seed in seeds {
        let roots: Vec<_> = all.iter().map(|mount| mount.join(format!("seed.{seed}"))).collect();
        let outcome = std::thread::scope(|scope| scope.spawn(|| compare(&roots, seed, protected)).join());
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(mismatch)) => failed = Some(format!("seed {seed}: {mismatch}")),
            Err(_) => failed = Some(format!("seed {seed}: the comparison itself failed")),
        }
        if failed.is_some() {
            break;
        }
    }
    if let Some(mut thrasher) = thrasher {
        thrasher.kill().and_then(|()| thrasher.wait()).expect("the mover of directories ends");
    }
    for other in &all[1..] {
        loligo(&bin, &["umount".as_ref(), other.as_os_str()]);
    }
    loligo(&bin, &["down".as_ref(), "--data".as_ref(), d]);
    if let Some(text) = failed {
        panic!("{text}");
    }
    loligo(&bin, &["fsck".as_ref(), "--data".as_ref(), d]);
}

/// Stops the server, and with it its mounts, also if the test fails before it has.
struct Stopped<'a> {
    bin: &'a Path,
    data: &'a Path,
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = Command::new(self.bin).arg("down").arg("--data").arg(self.data).output();
        }
    }
}

/// Moves directories of the mount, or fragments of them, to random ranks. In a shell of its own, which has none of the mount's files open.
fn thrash(bin: &Path, data: &Path, mount: &Path, ranks: u32) -> std::process::Child {
    let script = "while true; do for dir in $(find \"$M\" -mindepth 1 -maxdepth 3 -type d 2>/dev/null | shuf -n 5); do \
                  bits=$((RANDOM % 3)); frag=; [ $bits = 0 ] || frag=\"--frag $((RANDOM % (1 << bits)))/$bits\"; \
                  timeout 20 \"$BIN\" --quiet subtree migrate \"${dir#$M}\" $((RANDOM % N)) $frag --data \"$D\"; done; done";
    let mut command = Command::new("bash");
    command.args(["-c", script]).env("BIN", bin).env("D", data).env("M", mount).env("N", ranks.to_string());
    let null = std::process::Stdio::null;
    command.stdin(null()).stdout(null()).stderr(null()).spawn().expect("bash runs")
}

/// `roots`: the same directory of several mounts.
fn compare(roots: &[PathBuf], seed: u8, protected_hardlinks: bool) -> Result<(), Mismatch> {
    use std::os::unix::fs::PermissionsExt;
    let root = &roots[0];
    std::fs::create_dir(root).expect("the mount takes a directory");
    std::fs::set_permissions(root, std::fs::Permissions::from_mode(0o777)).expect("its mode can be set");
    let roots: Vec<&Path> = roots.iter().map(PathBuf::as_path).collect();
    let mut level: Box<dyn PathFs> = Box::new(Posix::enter_in_turn(&roots).expect("root may change its root"));
    let model = Reference::new().with_protected_hardlinks(protected_hardlinks);
    run_with(model, &mut *level, &random_steps(seed, 200))
}
