//! A mounted file system of a few files in memory, for testing how the kernel and the adapter work together. There is no
//! server and no lease: everything is always granted to the kernel, and changes behind its back are made by commands on
//! standard input (one a line; each is answered by a line):
//!
//! `write INO TEXT` changes a file, `rename FROM TO` a name of the root, `mode INO OCTAL` permissions; none of them tells
//! the kernel. `names INO`, `attr INO`, `data INO` invalidate. `counts` shows what the kernel asked and was told. `quit` unmounts.
//! `direct INO` opens that file without the right to cache from now on. `hold NAME` lets lookups of a name, and that it is removed, wait until `go`,
//! `away` lets `statfs` and closing, `holdwrites` writes; `held` says how many do. `private INO`: names of that directory are not lent from now on.
//! `caching` tells how far names are cached; a second argument (`Timed`, `Expiry`) limits that, as an older kernel does.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex};

use loligo_client::{Call, CallId, CallResult, Done, Failed, Fh};
use loligo_mount::{Kernel, Mount, MountOptions, NameCaching, Submit};
use loligo_types::*;

type Reply = Box<dyn FnOnce(CallResult) + Send>;

struct Node {
    inode: Inode,
    data: Vec<u8>,
    entries: BTreeMap<Vec<u8>, Ino>,
}

#[derive(Default)]
struct State {
    nodes: HashMap<u64, Node>,
    handles: HashMap<u64, Ino>,
    next: u64,
    direct: HashSet<u64>,
    /// Owner of the one lock there is per file, and who waits for it.
    locks: HashMap<u64, LockOwner>,
    waiting: Vec<(u64, LockOwner, Reply)>,
    /// The name of which lookups wait, and those that do.
    hold: Option<Vec<u8>>,
    held: Vec<Held>,
    /// True if writes wait.
    hold_writes: bool,
    /// `statfs` and closing wait, too.
    away: bool,
    private: HashSet<u64>,
    numbered: u64,
    /// Syncs asked for.
    syncs: u64,
}

/// A call that waits.
struct Held {
    number: CallId,
    cred: Arc<Cred>,
    call: Call,
    done: Reply,
}

#[derive(Clone)]
struct Fake(Arc<Mutex<State>>);

fn cached(answer: Answer) -> Done {
    Done { answer, fh: None, attr_cached: true, names_cached: true, keep_data: true, ways: Vec::new() }
}

impl State {
    fn node(&mut self, ino: Ino) -> Result<&mut Node, FsError> {
        self.nodes.get_mut(&ino.0).ok_or(FsError::Stale)
    }

    fn file(&mut self, fh: Fh) -> Result<&mut Node, FsError> {
        let ino = *self.handles.get(&fh.0).ok_or(FsError::BadHandle)?;
        self.node(ino)
    }

    fn make(&mut self, dir: Ino, name: &Name, kind: Kind, mode: u16, cred: &Cred) -> Result<Attr, FsError> {
        if self.node(dir)?.entries.contains_key(name.as_bytes()) {
            return Err(FsError::Exists);
        }
        self.next += 1;
        let ino = Ino(Ino::FIRST.0 + self.next);
        let inode = Inode::new(ino, kind, mode, cred.uid, cred.gid, dir, Time(1_700_000_000_000_000_000));
        let attr = inode.attr();
        self.nodes.insert(ino.0, Node { inode, data: Vec::new(), entries: BTreeMap::new() });
        self.node(dir)?.entries.insert(name.as_bytes().to_vec(), ino);
        Ok(attr)
    }

    fn open(&mut self, ino: Ino) -> Result<Done, FsError> {
        let attr = self.node(ino)?.inode.attr();
        self.next += 1;
        self.handles.insert(self.next, ino);
        let rights = if self.direct.contains(&ino.0) { Lease::NONE } else { Lease::CACHE };
        let answer = Answer::Opened { attr, created: false, rights, data: None };
        Ok(Done { fh: Some(Fh(self.next)), ..cached(answer) })
    }

    fn entry(&mut self, dir: Ino, name: &Name) -> Result<Ino, FsError> {
        self.node(dir)?.entries.get(name.as_bytes()).copied().ok_or(FsError::NotFound)
    }

    fn op(&mut self, cred: &Cred, op: Op) -> Result<Done, FsError> {
        let answer = match op {
            Op::Lookup { dir, name } => {
                let ino = self.entry(dir, &name)?;
                Answer::Entry(self.node(ino)?.inode.attr())
            }
            Op::Mkdir { dir, name, mode, umask } => {
                Answer::Entry(self.make(dir, &name, Kind::Dir, mode & !umask, cred)?)
            }
            Op::Symlink { dir, name, target } => {
                let attr = self.make(dir, &name, Kind::Symlink, 0o777, cred)?;
                self.node(attr.ino)?.data = target.to_vec();
                Answer::Entry(attr)
            }
            Op::Readlink { ino } => Answer::Bytes(self.node(ino)?.data.as_slice().into()),
            Op::Unlink { dir, name } | Op::Rmdir { dir, name } => {
                self.entry(dir, &name)?;
                self.node(dir)?.entries.remove(name.as_bytes());
                Answer::Done
            }
            Op::Rename { dir, name, new_dir, new_name, .. } => {
                let ino = self.entry(dir, &name)?;
                self.node(dir)?.entries.remove(name.as_bytes());
                self.node(new_dir)?.entries.insert(new_name.as_bytes().to_vec(), ino);
                Answer::Done
            }
            Op::GetXattr { .. } => return Err(FsError::NoData),
            Op::ListXattr { .. } => Answer::Bytes(Arc::new([])),
            Op::StatFs => Answer::StatFs(StatFs { bytes: 1 << 30, bytes_free: 1 << 29, inodes: 7, inodes_free: 9 }),
            Op::Control(Control::Sync) => Answer::Done,
            _ => return Err(FsError::NotSupported),
        };
        Ok(cached(answer))
    }

    /// True if the kernel may cache the names in the answer to a call.
    fn lends(&self, call: &Call) -> bool {
        let dir = match call {
            Call::Create { dir, .. } | Call::Op(Op::Lookup { dir, .. } | Op::Mkdir { dir, .. }) => dir,
            Call::Op(Op::Rename { new_dir, .. }) => new_dir,
            _ => return true,
        };
        !self.private.contains(&dir.0)
    }

    fn call(&mut self, cred: &Cred, call: Call) -> Result<Done, FsError> {
        let answer = match call {
            Call::Op(op) => return self.op(cred, op),
            Call::GetAttr { ino } => Answer::Entry(self.node(ino)?.inode.attr()),
            Call::SetAttr { ino, set, .. } => {
                let node = self.node(ino)?;
                if let Some(size) = set.size {
                    node.data.resize(size as usize, 0);
                    node.inode.size = size;
                }
                node.inode.mode = set.mode.unwrap_or(node.inode.mode);
                if set.kill_priv {
                    node.inode.mode &= 0o1777;
                }
                if let Some(SetTime::At(time)) = set.mtime {
                    node.inode.mtime = time;
                }
                Answer::Entry(node.inode.attr())
            }
            Call::Open { ino, .. } => return self.open(ino),
            Call::Create { dir, name, mode, umask, .. } => {
                let attr = self.make(dir, &name, Kind::File, mode & !umask, cred)?;
                return self.open(attr.ino);
            }
            Call::Read { fh, offset, len } => {
                let data = &self.file(fh)?.data;
                let from = data.len().min(offset as usize);
                Answer::Bytes(data[from..data.len().min(from + len as usize)].into())
            }
            Call::Write { fh, offset, data, append, kill_priv } => {
                let node = self.file(fh)?;
                let at = if append { node.data.len() } else { offset as usize };
                let end = node.data.len().max(at + data.len());
                node.data.resize(end, 0);
                node.data[at..at + data.len()].copy_from_slice(&data);
                node.inode.size = end as u64;
                if kill_priv {
                    node.inode.mode &= 0o1777;
                }
                Answer::Offset(data.len() as u64)
            }
            Call::Readdir { fh, cookie, limit, .. } => {
                let names = self.file(fh)?.entries.clone();
                let all: Vec<_> = names.into_iter().collect();
                let end = all.len() as u64 <= cookie + u64::from(limit);
                let mut entries = Vec::new();
                for (i, (name, ino)) in all.into_iter().enumerate().skip(cookie as usize).take(limit as usize) {
                    let kind = self.node(ino)?.inode.kind;
                    let name = Name::new(&name)?;
                    entries.push(DirEntry { name, ino, kind, cookie: i as u64 + 1, attr: None, lease: Lease::NONE });
                }
                Answer::Entries {
                    next: entries.last().map_or(0, |entry: &loligo_types::DirEntry| entry.cookie),
                    entries,
                    end,
                }
            }
            Call::Release { fh, .. } => {
                self.handles.remove(&fh.0);
                Answer::Done
            }
            Call::Seek { fh, offset, data } => {
                // Blocks of zeros are holes, and one is behind the end.
                let bytes = &self.file(fh)?.data;
                let mut at = offset as usize;
                let is_data =
                    |at: usize| bytes[at..bytes.len().min(at + 4096 - at % 4096)].iter().any(|byte| *byte != 0);
                while at < bytes.len() && is_data(at) != data {
                    at += 4096 - at % 4096;
                }
                if data && at >= bytes.len() || offset as usize >= bytes.len() {
                    return Err(FsError::NoSuchOffset);
                }
                Answer::Offset(at.min(bytes.len()) as u64)
            }
            Call::GetLock { .. } => Answer::Lock(None),
            Call::Fsync { .. } => {
                self.syncs += 1;
                Answer::Done
            }
            Call::Flush { .. } | Call::Forget { .. } | Call::SyncAll => Answer::Done,
            _ => return Err(FsError::NotSupported),
        };
        Ok(cached(answer))
    }

    /// Locks cover the whole file and are of one family; enough to wait for one.
    fn lock(&mut self, call: Call, done: Reply) {
        match call {
            Call::SetLock { fh, lock, wait } => {
                let ino = self.handles[&fh.0].0;
                match self.locks.get(&ino) {
                    Some(owner) if *owner != lock.owner && wait => self.waiting.push((ino, lock.owner, done)),
                    Some(owner) if *owner != lock.owner => done(Err(FsError::WouldBlock.into())),
                    _ => {
                        self.locks.insert(ino, lock.owner);
                        done(Ok(cached(Answer::Done)));
                    }
                }
            }
            Call::CancelLock { ino, owner } => {
                if let Some(at) = self.waiting.iter().position(|w| (w.0, w.1) == (ino.0, owner)) {
                    (self.waiting.remove(at).2)(Err(FsError::Interrupted.into()));
                }
                done(Ok(cached(Answer::Done)));
            }
            Call::Unlock { fh, .. } => {
                let ino = self.handles[&fh.0].0;
                self.locks.remove(&ino);
                if let Some(at) = self.waiting.iter().position(|w| w.0 == ino) {
                    let (_, owner, done) = self.waiting.remove(at);
                    self.locks.insert(ino, owner);
                    done(Ok(cached(Answer::Done)));
                }
                done(Ok(cached(Answer::Done)));
            }
            _ => done(Err(FsError::NotSupported.into())),
        }
    }
}

impl Submit for Fake {
    fn number(&self) -> CallId {
        let mut state = self.0.lock().expect("no panic");
        state.numbered += 1;
        CallId(state.numbered)
    }

    fn interrupt(&self, number: CallId, unserved: bool) {
        let mut state = self.0.lock().expect("no panic");
        let at = state.held.iter().position(|held| held.number == number);
        // What is held is so as if its server were away for some time, or for good.
        if let Some(at) = at.filter(|_| !unserved || state.away) {
            let held = state.held.remove(at);
            drop(state);
            (held.done)(Err(FsError::Interrupted.into()));
        }
    }

    fn submit_as<F>(&self, number: CallId, cred: &Arc<Cred>, call: Call, done: F)
    where
        F: FnOnce(CallResult) + Send + 'static,
    {
        let mut state = self.0.lock().expect("no panic");
        if matches!(call, Call::SetLock { .. } | Call::Unlock { .. } | Call::CancelLock { .. }) {
            return state.lock(call, Box::new(done));
        }
        let waits = match &call {
            Call::Op(Op::Lookup { name, .. } | Op::Rmdir { name, .. }) => {
                state.hold.as_deref() == Some(name.as_bytes())
            }
            Call::Op(Op::StatFs) | Call::Flush { .. } => state.away,
            Call::Write { .. } => state.hold_writes,
            _ => false,
        };
        if waits {
            return state.held.push(Held { number, cred: cred.clone(), call, done: Box::new(done) });
        }
        let lent = state.lends(&call);
        let result = state.call(cred, call);
        drop(state);
        done(named(result, lent));
    }
}

/// The client's answer, with a lease on names or without.
fn named(result: Result<Done, FsError>, lent: bool) -> CallResult {
    match result {
        Ok(done) => Ok(Done { names_cached: lent, ..done }),
        Err(error) => Err(Failed { error, names_cached: lent }),
    }
}

fn command(fake: &Fake, kernel: &Kernel, mount: &Mount, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let ino = |text: &str| Ino(text.parse().expect("an inode number"));
    let mut state = fake.0.lock().expect("no panic");
    match words.as_slice() {
        ["write", i, text] => {
            let node = state.node(ino(i)).expect("a file");
            node.data = text.as_bytes().to_vec();
            node.inode.size = text.len() as u64;
        }
        ["rename", from, to] => {
            let root = state.node(Ino::ROOT).expect("the root");
            let i = root.entries.remove(from.as_bytes()).expect("a name");
            root.entries.insert(to.as_bytes().to_vec(), i);
        }
        ["mode", i, mode] => {
            state.node(ino(i)).expect("a file").inode.mode = u16::from_str_radix(mode, 8).expect("a mode");
        }
        ["direct", i] => _ = state.direct.insert(ino(i).0),
        ["names", i] => {
            drop(state);
            kernel.names(&[ino(i)]);
        }
        ["hold", name] => state.hold = Some(name.as_bytes().to_vec()),
        ["holdwrites"] => state.hold_writes = true,
        ["away"] => state.away = true,
        ["held"] => return state.held.len().to_string(),
        ["go"] => {
            (state.hold, state.hold_writes, state.away) = (None, false, false);
            for Held { cred, call, done, .. } in std::mem::take(&mut state.held) {
                let lent = state.lends(&call);
                let result = state.call(&cred, call);
                done(named(result, lent));
            }
        }
        ["private", i] => _ = state.private.insert(ino(i).0),
        ["attr", i] => {
            drop(state);
            kernel.attr(ino(i));
        }
        ["data", i] => {
            drop(state);
            kernel.data(ino(i));
        }
        ["syncs"] => return state.syncs.to_string(),
        ["caching"] => return format!("{:?}", kernel.caching()),
        ["counts"] => {
            let counts = mount.counts();
            let all = counts.ops.iter().chain(&counts.notifications);
            return all.map(|(op, n)| format!("{op}={n}")).collect::<Vec<_>>().join(" ");
        }
        _ => return format!("what is {line}?"),
    }
    "ok".into()
}

fn main() {
    let path = std::env::args().nth(1).expect("usage: fakefs DIR [CACHING]");
    let name_caching = match std::env::args().nth(2).as_deref() {
        None | Some("Epochs") => NameCaching::Epochs,
        Some("Expiry") => NameCaching::Expiry,
        Some("Timed") => NameCaching::Timed,
        Some(other) => panic!("{other}: this must be Timed, Expiry or Epochs"),
    };
    let fake = Fake(Arc::default());
    let mut root = Inode::new(Ino::ROOT, Kind::Dir, 0o777, 0, 0, Ino::ROOT, Time(0));
    root.mode = 0o777;
    let node = Node { inode: root, data: Vec::new(), entries: BTreeMap::new() };
    fake.0.lock().expect("no panic").nodes.insert(1, node);
    let mut kept = None;
    let client = |kernel: Arc<Kernel>| {
        kept = Some(kernel);
        Ok::<_, std::io::Error>(fake.clone())
    };
    let mount = match Mount::start(&MountOptions { threads: 4, name_caching, ..MountOptions::new(path) }, client) {
        Ok(mount) => mount,
        Err(error) => {
            println!("error {error}");
            std::process::exit(1);
        }
    };
    let kernel = kept.expect("the client was made");
    println!("ready {}", mount.notes().join("; "));
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("standard input");
        if line == "quit" {
            break;
        }
        println!("{}", command(&fake, &kernel, &mount, &line));
        std::io::stdout().flush().expect("standard output");
    }
    println!("{:?}", mount.unmount());
}
