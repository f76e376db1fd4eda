//! The reference model against the library's path functions: clients that take turns and cache nothing, over one rank and over several, under each
//! placement, while directories move. Other levels: `model.rs`.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use loligo_driver::client::path::{Fs, OpenHow};
use loligo_driver::client::{Call, Client, Options};
use loligo_driver::{Address, FormatOptions, Server, ServerConfig, format};
use loligo_mds::admin::Ask;
use loligo_model::{PathFs, Stat, Step, User, run, steps};
use loligo_store::Identity;
use loligo_store::mem::MemDisk;
use loligo_types::{
    Access, Answer, Attr, Cred, FsError, FsResult, Ino, Kind, Name, Op, OpenFlags, Rank, RenameMode, SetAttr, XattrMode,
};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config as Runs, RngAlgorithm, TestRng, TestRunner};

const CLIENTS: usize = 3;

fn random_steps(seed: u8, length: usize) -> Vec<Step> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Runs::default(), rng);
    steps(length).new_tree(&mut runner).expect("the strategy rejects nothing").current()
}

/// Without a step in so long the run hangs: it ends then, and tells what is known of why.
const HANGS: Duration = Duration::from_secs(120);

/// Ends the process if the steps do not go on until it is dropped.
struct Watch {
    step: Arc<AtomicU64>,
    _ends: mpsc::Sender<()>,
}

impl Watch {
    /// `what` is run; in its place its server is asked how it is.
    fn over(what: String, server: &Arc<Server>) -> Watch {
        let (ends, ended) = mpsc::channel();
        let step = Arc::new(AtomicU64::new(0));
        let (seen, server) = (Arc::clone(&step), Arc::downgrade(server));
        let watch = move || {
            let mut last = 0;
            while ended.recv_timeout(HANGS) == Err(mpsc::RecvTimeoutError::Timeout) {
                let now = seen.load(Ordering::Relaxed);
                if now != last {
                    last = now;
                    continue;
                }
                // Past what the test framework keeps for the end of the test, which does not come.
                let mut err = std::io::stderr().lock();
                _ = writeln!(err, "{what}: step {now} does not end");
                let statuses = server.upgrade().map(|server| server.rank_statuses());
                for status in statuses.into_iter().flatten().flatten() {
                    _ = writeln!(err, "{}: {:?}", status.rank, status.mds);
                }
                std::process::abort();
            }
        };
        std::thread::spawn(watch);
        Watch { step, _ends: ends }
    }
}

/// Clients that take turns.
struct Library<'a> {
    server: &'a Server,
    ranks: u16,
    clients: Vec<Client>,
    turn: usize,
    /// One of each client for each user: it remembers what it has learned of where directories are.
    fs: BTreeMap<(usize, u32), Fs>,
    watch: Watch,
}

impl Library<'_> {
    /// The next client, in the name of a user; now and then a directory begins to move.
    fn next(&mut self, who: &Cred) -> Fs {
        self.turn += 1;
        self.watch.step.fetch_add(1, Ordering::Relaxed);
        let at = self.turn % CLIENTS;
        let client = &self.clients[at];
        let fs = self.fs.entry((at, who.uid)).or_insert_with(|| client.fs(Arc::new(who.clone())).with_umask(0)).clone();
        if self.ranks > 1 && self.turn.is_multiple_of(7) {
            let path = ["/a", "/b", "/a/b", "/c/a", "/d", "/b/c"][self.turn / 7 % 6];
            let root = client.fs(Arc::new(Cred::root()));
            if let Ok(Attr { ino: dir, kind: Kind::Dir, .. }) = root.lstat(path) {
                let to = Rank((self.turn / 7 % usize::from(self.ranks)) as u16);
                // Only one of them has it.
                for from in 0..self.ranks {
                    let _ = self.server.admin(Rank(from), Ask::Migrate { dir, to });
                }
            }
        }
        fs
    }

    fn of(&mut self, who: &Cred, path: &str, op: impl FnOnce(Ino) -> Op) -> FsResult<Answer> {
        let fs = self.next(who);
        let ino = fs.lstat(full(path))?.ino;
        call(&fs, Call::Op(op(ino)))
    }
}

fn full(path: &str) -> String {
    format!("/{path}")
}

fn call(fs: &Fs, call: Call) -> FsResult<Answer> {
    fs.client().call(fs.cred(), call).map(|done| done.answer).map_err(|failed| failed.error)
}

/// The directory of a path's last name, and that name. Of several errors the kernel tells first that it may not be searched, a server what it meets first.
fn place(fs: &Fs, path: &str) -> FsResult<(Ino, Name)> {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    let attr = fs.stat(full(dir))?;
    if attr.kind != Kind::Dir {
        return Err(FsError::NotDir);
    }
    call(fs, Call::Access { ino: attr.ino, want: Access { exec: true, ..Access::default() } })?;
    Ok((attr.ino, Name::new(name.as_bytes())?))
}

impl PathFs for Library<'_> {
    fn stat(&mut self, who: &Cred, path: &str) -> FsResult<Stat> {
        let attr = self.next(who).lstat(full(path))?;
        let size = if attr.kind == Kind::Dir { 0 } else { attr.size };
        Ok(Stat { kind: attr.kind, mode: attr.mode, uid: attr.uid, gid: attr.gid, nlink: attr.nlink, size })
    }

    fn create(&mut self, who: &Cred, path: &str, mode: u16, exclusive: bool) -> FsResult<()> {
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        self.next(who).open(full(path), OpenHow { flags, create: Some(mode), exclusive })?.close()
    }

    fn write(&mut self, who: &Cred, path: &str, offset: u64, data: &[u8], cut: bool) -> FsResult<()> {
        let flags = OpenFlags { write: true, truncate: cut, ..OpenFlags::default() };
        let file = self.next(who).open(full(path), OpenHow { flags, ..OpenHow::default() })?;
        if !data.is_empty() {
            file.write_at(offset, data)?;
        }
        file.close()
    }

    fn append(&mut self, who: &Cred, path: &str, data: &[u8]) -> FsResult<()> {
        let file = self.next(who).open(full(path), OpenHow { create: None, ..OpenHow::append() })?;
        if !data.is_empty() {
            file.write_at(0, data)?;
        }
        file.close()
    }

    fn read(&mut self, who: &Cred, path: &str) -> FsResult<Vec<u8>> {
        let fs = self.next(who);
        let attr = fs.stat(full(path))?;
        if attr.kind == Kind::Dir {
            // It can be opened by who may read it, and not be read as a file.
            call(&fs, Call::Access { ino: attr.ino, want: Access { read: true, ..Access::default() } })?;
            return Err(FsError::IsDir);
        }
        fs.read(full(path))
    }

    fn truncate(&mut self, who: &Cred, path: &str, size: u64) -> FsResult<()> {
        self.next(who).set_attr(full(path), SetAttr { size: Some(size), ..SetAttr::default() }).map(drop)
    }

    fn mkdir(&mut self, who: &Cred, path: &str, mode: u16) -> FsResult<()> {
        // The kernel lets only these bits through.
        self.next(who).mkdir(full(path), mode & 0o1777).map(drop)
    }

    fn rmdir(&mut self, who: &Cred, path: &str) -> FsResult<()> {
        self.next(who).rmdir(full(path))
    }

    fn unlink(&mut self, who: &Cred, path: &str) -> FsResult<()> {
        self.next(who).unlink(full(path))
    }

    fn link(&mut self, who: &Cred, old: &str, new: &str) -> FsResult<()> {
        self.next(who).link(full(old), full(new)).map(drop)
    }

    fn symlink(&mut self, who: &Cred, target: &str, path: &str) -> FsResult<()> {
        self.next(who).symlink(target, full(path)).map(drop)
    }

    fn readlink(&mut self, who: &Cred, path: &str) -> FsResult<Vec<u8>> {
        self.next(who).readlink(full(path)).map(|target| target.to_vec())
    }

    fn rename(&mut self, who: &Cred, old: &str, new: &str, mode: RenameMode) -> FsResult<()> {
        let fs = self.next(who);
        let (dir, name) = place(&fs, old)?;
        let (new_dir, new_name) = place(&fs, new)?;
        if mode == RenameMode::Replace {
            return fs.rename(full(old), full(new));
        }
        call(&fs, Call::Op(Op::Rename { dir, name, new_dir, new_name, mode })).map(drop)
    }

    fn chmod(&mut self, who: &Cred, path: &str, mode: u16) -> FsResult<()> {
        self.next(who).set_attr(full(path), SetAttr { mode: Some(mode), ..SetAttr::default() }).map(drop)
    }

    fn chown(&mut self, who: &Cred, path: &str, uid: Option<u32>, gid: Option<u32>) -> FsResult<()> {
        let fs = self.next(who);
        let (ino, set) = (fs.lstat(full(path))?.ino, SetAttr { uid, gid, ..SetAttr::default() });
        call(&fs, Call::SetAttr { ino, set, fh: None }).map(drop)
    }

    fn list(&mut self, who: &Cred, path: &str) -> FsResult<Vec<(Vec<u8>, Kind)>> {
        let entries = self.next(who).readdir(full(path))?;
        let mut all: Vec<_> = entries.into_iter().map(|entry| (entry.name.as_bytes().to_vec(), entry.kind)).collect();
        all.sort();
        Ok(all)
    }

    fn set_xattr(&mut self, who: &Cred, path: &str, name: &str, value: &[u8], mode: XattrMode) -> FsResult<()> {
        let (name, value) = (name.as_bytes().into(), value.into());
        self.of(who, path, |ino| Op::SetXattr { ino, name, value, mode }).map(drop)
    }

    fn get_xattr(&mut self, who: &Cred, path: &str, name: &str) -> FsResult<Vec<u8>> {
        match self.of(who, path, |ino| Op::GetXattr { ino, name: name.as_bytes().into() })? {
            Answer::Bytes(bytes) => Ok(bytes.to_vec()),
            other => panic!("a value was due, not {other:?}"),
        }
    }

    fn remove_xattr(&mut self, who: &Cred, path: &str, name: &str) -> FsResult<()> {
        self.of(who, path, |ino| Op::RemoveXattr { ino, name: name.as_bytes().into() }).map(drop)
    }
}

/// Compares, with what all directories are placed by. `root`: all is done by root, whom modes do not bind.
fn compare(ranks: u16, placement: Option<&str>, root: bool, seeds: std::ops::Range<u8>) {
    compare_with(ranks, &placement.map(|how| ("placement", how)).into_iter().collect::<Vec<_>>(), root, seeds);
}

/// The same with other policies, too, that all directories have.
fn compare_with(ranks: u16, policies: &[(&str, &str)], root: bool, seeds: std::ops::Range<u8>) {
    for seed in seeds {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let backend = MemDisk::new(Identity::new([7; 16], [9; 16])).open().expect("a new disk opens");
        format(&*backend, &FormatOptions { mode: 0o777, ..FormatOptions::default() }).expect("formatting a new disk");
        let address = Address::Unix(dir.path().join("loligo.sock"));
        let mut config = ServerConfig { ranks, ..ServerConfig::new(backend) };
        config.listen.push(address.clone());
        let server = Arc::new(Server::start(config, &mut |_| {}).expect("the server starts"));
        let watch = Watch::over(format!("{ranks} ranks, {policies:?}, seed {seed}"), &server);
        let connect = |_| Client::connect(&address, Options::default()).expect("the server welcomes");
        let clients: Vec<Client> = (0..CLIENTS).map(connect).collect();
        for (policy, how) in policies {
            let (name, value) = (format!("loligo.policy.{policy}").into_bytes().into(), how.as_bytes().into());
            let set = Op::SetXattr { ino: Ino::ROOT, name, value, mode: XattrMode::Set };
            clients[0].call(&Arc::new(Cred::root()), Call::Op(set)).expect("the root's owner says it");
        }
        let mut steps = random_steps(seed, 200);
        if root {
            steps.iter_mut().for_each(|step| step.who = User::Root);
        }
        let mut level =
            Library { server: &server, ranks, clients, turn: usize::from(seed), fs: BTreeMap::new(), watch };
        let outcome = run(&mut level, &steps);
        let Library { clients, fs, watch, .. } = level;
        drop((clients, fs));
        watch.step.fetch_add(1, Ordering::Relaxed);
        server.stop().expect("a clean end");
        drop(watch);
        if let Err(mismatch) = outcome {
            panic!("{ranks} ranks, {policies:?}, seed {seed}: {mismatch}");
        }
    }
}

#[test]
fn paths_lead_where_the_model_has_them() {
    compare(1, None, false, 0..20);
}

#[test]
fn paths_lead_where_the_model_has_them_while_directories_move_between_ranks() {
    compare(4, None, false, 20..30);
}

#[test]
fn paths_lead_where_the_model_has_them_under_giga() {
    compare(4, Some("giga"), false, 30..40);
}

#[test]
fn paths_lead_where_the_model_has_them_under_replicated() {
    compare(4, Some("replicated"), false, 40..55);
}

#[test]
fn paths_of_root_lead_where_the_model_has_them_under_table() {
    compare(4, Some("table"), true, 55..70);
}

#[test]
fn paths_lead_where_the_model_has_them_while_clients_go_by_what_they_were_promised() {
    compare_with(1, &[("lookup_lease", "40ms")], false, 70..74);
    compare_with(4, &[("lookup_lease", "rate"), ("placement", "giga")], false, 74..76);
    compare_with(4, &[("lookup_lease", "20ms"), ("placement", "replicated")], false, 76..79);
}
