//! Calls through the client library, each turned into requests as a kernel with a mount turns it: paths are walked through what the
//! client has cached (`names.rs`). A client of the workload is one client of the server, shared by its lanes.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use loligo_client::{Call as Ask, CallResult, Done, Failed};
use loligo_driver::client::{Client, Options};
use loligo_types::{
    Answer, Cred, DirEntry, FsError, Ino, Kind, Name, Op, OpenFlags, RenameMode, SetAttr, SetTime, Time, XattrMode,
};
use loligo_workload::Call;

use super::names::Names;
use super::{Place, Shell, Wrong};

/// Entries asked for at a time.
const ENTRIES: u32 = 1000;
/// Bytes read at a time.
const READ_BYTES: u32 = 128 << 10;
/// Removals under way at a time when all is taken away.
const REMOVALS: usize = 64;
/// Time limit for a client to give everything back.
pub(super) const STOP: Duration = Duration::from_secs(30);

/// The clients, and the new directory.
pub struct Servers {
    /// The last one makes the set-up.
    clients: Vec<Machine>,
    cred: Arc<Cred>,
    root: Ino,
    name: Name,
}

/// A client of the server, with what it caches.
#[derive(Clone)]
struct Machine {
    client: Client,
    names: Arc<Names>,
}

/// Makes calls of one lane.
struct Walker {
    machine: Machine,
    cred: Arc<Cred>,
    root: Ino,
}

impl Servers {
    /// Connects so many clients and one more, which makes the directory.
    pub fn start(
        connect: &dyn Fn(Options) -> Result<Client, String>,
        name: &str,
        clients: usize,
    ) -> Result<Servers, String> {
        let machine = |number: usize| {
            let names: Arc<Names> = Arc::default();
            let client = connect(Options {
                name: format!("workload{number}"),
                cache: true,
                cache_names: true,
                invalidate: Some(Arc::clone(&names) as _),
                ..Options::default()
            })?;
            Ok::<_, String>(Machine { client, names })
        };
        let clients = (0..=clients).map(machine).collect::<Result<Vec<_>, _>>()?;
        let cred = Arc::new(Cred::root());
        let own = Name::new(name.as_bytes()).map_err(|e| format!("directory {name}: {e}"))?;
        let mkdir = Op::Mkdir { dir: Ino::ROOT, name: own.clone(), mode: 0o755, umask: 0 };
        let last = clients.last().expect("there is one for the set-up");
        let made = last.client.call(&cred, Ask::Op(mkdir)).map_err(|e| format!("directory {name}: {}", e.error))?;
        let root = made.attr().ok_or_else(|| format!("directory {name}: an answer without attributes"))?.ino;
        Ok(Servers { clients, cred, root, name: own })
    }
}

impl Place for Servers {
    fn shell(&self, client: usize) -> Box<dyn Shell> {
        Box::new(Walker { machine: self.clients[client].clone(), cred: Arc::clone(&self.cred), root: self.root })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let machine = self.clients.last().expect("there is one for the set-up");
        let (name, value) = (name.as_bytes(), value.as_bytes());
        let set = Op::SetXattr { ino: self.root, name: name.into(), value: value.into(), mode: XattrMode::Set };
        machine
            .client
            .call(&self.cred, Ask::Op(set))
            .map(drop)
            .map_err(|e| format!("directory {}: {}", self.name, e.error))
    }

    fn remove(&mut self) -> Result<(), String> {
        let machine = self.clients.last().expect("there is one for the set-up").clone();
        let walker = Walker { machine, cred: Arc::clone(&self.cred), root: self.root };
        let gone = walker.empty(self.root).and_then(|()| {
            let rmdir = Op::Rmdir { dir: Ino::ROOT, name: self.name.clone() };
            walker.ask(Ask::Op(rmdir)).map(drop)
        });
        gone.map_err(|failed| format!("removing {}: {}", self.name, failed.error))
    }

    fn stop(&mut self) -> Result<(), String> {
        for machine in &self.clients {
            machine.client.stop(STOP).map_err(|e| format!("stopping a client: {e}"))?;
        }
        Ok(())
    }
}

impl Shell for Walker {
    fn call(&mut self, call: &Call) -> Result<(), Wrong> {
        let wrong =
            |failed: Failed| Wrong { missing: failed.error == FsError::NotFound, text: failed.error.to_string() };
        self.carry_out(call).map_err(wrong)
    }
}

impl Walker {
    fn ask(&self, ask: Ask) -> CallResult {
        self.machine.client.call(&self.cred, ask)
    }

    fn carry_out(&self, call: &Call) -> Result<(), Failed> {
        match call {
            Call::Mkdir(path) => self.make(path, |dir, name| Op::Mkdir { dir, name, mode: 0o755, umask: 0 }),
            Call::Create(path) => {
                self.make(path, |dir, name| Op::Mknod { dir, name, kind: Kind::File, mode: 0o644, umask: 0, rdev: 0 })
            }
            Call::Stat(path) => {
                let ino = self.find(path)?.0;
                if self.machine.names.has_attr(ino) { Ok(()) } else { self.attr(Ask::GetAttr { ino }).map(drop) }
            }
            Call::Open(path) => self.read(path),
            Call::Readdir(path) => {
                let ino = self.find(path)?.0;
                self.list(ino).map(drop)
            }
            Call::Unlink(path) => self.change(path, |dir, name| Op::Unlink { dir, name }),
            Call::Rmdir(path) => self.change(path, |dir, name| Op::Rmdir { dir, name }),
            Call::Rename(from, to) => {
                let (new_dir, new_name) = self.place(to)?;
                let names = &self.machine.names;
                names.change(new_dir, &new_name);
                let (to_dir, to_name) = (new_dir, new_name.clone());
                let rename = |dir, name| Op::Rename { dir, name, new_dir, new_name, mode: RenameMode::Replace };
                let result = self.change(from, rename);
                names.change(to_dir, &to_name);
                result
            }
            Call::Write(path, bytes) => self.write(path, *bytes),
            Call::Chmod(path, mode) => self.set(path, SetAttr { mode: Some(*mode), ..SetAttr::default() }),
            Call::Utimens(path) => {
                let mtime = Some(SetTime::At(Time(1_000_000_000)));
                self.set(path, SetAttr { mtime, ..SetAttr::default() })
            }
        }
    }

    /// The directory and the last name of a path.
    fn place(&self, path: &str) -> Result<(Ino, Name), Failed> {
        let mut names = path.split('/').filter(|name| !name.is_empty()).peekable();
        let mut dir = self.root;
        while let Some(text) = names.next() {
            let name = Name::new(text.as_bytes())?;
            if names.peek().is_none() {
                return Ok((dir, name));
            }
            dir = match self.look(dir, &name)? {
                (ino, Kind::Dir) => ino,
                _ => return Err(FsError::NotDir.into()),
            };
        }
        // The top itself is not to be made, replaced or removed.
        Err(FsError::Invalid.into())
    }

    fn find(&self, path: &str) -> Result<(Ino, Kind), Failed> {
        if path == "/" {
            return Ok((self.root, Kind::Dir));
        }
        let (dir, name) = self.place(path)?;
        self.look(dir, &name)
    }

    fn look(&self, dir: Ino, name: &Name) -> Result<(Ino, Kind), Failed> {
        let names = &self.machine.names;
        if let Some(known) = names.begin_look(dir, name) {
            return Ok(known?);
        }
        let asked = names.asking();
        let result = self.ask(Ask::Op(Op::Lookup { dir, name: name.clone() }));
        let forgotten = names.learn(asked, dir, name, &result);
        names.end_look(dir, name);
        self.forget(forgotten);
        let attr = result?.attr().copied().ok_or(FsError::Io)?;
        Ok((attr.ino, attr.kind))
    }

    fn forget(&self, inos: Vec<Ino>) {
        if !inos.is_empty() {
            self.machine.client.submit(&self.cred, Ask::Forget { inos }, |_| ());
        }
    }

    fn make(&self, path: &str, op: impl FnOnce(Ino, Name) -> Op) -> Result<(), Failed> {
        let (dir, name) = self.place(path)?;
        let asked = self.machine.names.asking();
        let result = self.ask(Ask::Op(op(dir, name.clone())));
        self.made(asked, dir, &name, &result);
        result.map(drop)
    }

    /// A name was made, or was to be.
    fn made(&self, asked: super::names::Asked, dir: Ino, name: &Name, result: &CallResult) {
        let names = &self.machine.names;
        if !result.as_ref().is_ok_and(|done| done.names_cached) {
            // It may be known as absent.
            names.change(dir, name);
        }
        let forgotten = names.learn(asked, dir, name, result);
        self.forget(forgotten);
    }

    /// A name is taken away.
    fn change(&self, path: &str, op: impl FnOnce(Ino, Name) -> Op) -> Result<(), Failed> {
        let (dir, name) = self.place(path)?;
        self.machine.names.change(dir, &name);
        let result = self.ask(Ask::Op(op(dir, name.clone())));
        self.machine.names.change(dir, &name);
        result.map(drop)
    }

    fn attr(&self, ask: Ask) -> Result<Done, Failed> {
        let asked = self.machine.names.asking();
        let result = self.ask(ask);
        self.machine.names.learn_attr(asked, &result);
        result
    }

    fn set(&self, path: &str, set: SetAttr) -> Result<(), Failed> {
        let ino = self.find(path)?.0;
        self.attr(Ask::SetAttr { ino, set, fh: None }).map(drop)
    }

    fn read(&self, path: &str) -> Result<(), Failed> {
        let ino = self.find(path)?.0;
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let done = self.attr(Ask::Open { ino, flags })?;
        let (Some(fh), size) = (done.fh, done.attr().map_or(0, |attr| attr.size)) else {
            return Err(FsError::Io.into());
        };
        let parts = (0..size.div_ceil(u64::from(READ_BYTES))).map(|part| part * u64::from(READ_BYTES));
        let read = parts.map(|offset| self.ask(Ask::Read { fh, offset, len: READ_BYTES })).find(Result::is_err);
        let released = self.ask(Ask::Release { fh, flock_owner: None });
        read.unwrap_or(released).map(drop)
    }

    fn write(&self, path: &str, bytes: u32) -> Result<(), Failed> {
        let (dir, name) = self.place(path)?;
        let flags = OpenFlags { write: true, truncate: true, ..OpenFlags::default() };
        let asked = self.machine.names.asking();
        let create = Ask::Create { dir, name: name.clone(), mode: 0o644, umask: 0, flags, exclusive: false };
        let result = self.ask(create);
        self.made(asked, dir, &name, &result);
        let fh = result?.fh.ok_or(FsError::Io)?;
        let data: Arc<[u8]> = vec![b'x'; bytes as usize].into();
        let written = self.ask(Ask::Write { fh, offset: 0, data, append: false, kill_priv: false });
        let flushed = self.ask(Ask::Flush { fh, owner: None });
        let released = self.ask(Ask::Release { fh, flock_owner: None });
        written.and(flushed).and(released).map(drop)
    }

    fn list(&self, ino: Ino) -> Result<Vec<DirEntry>, Failed> {
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let fh = self.attr(Ask::Open { ino, flags })?.fh.ok_or(FsError::Io)?;
        let (mut cookie, mut all) = (0, Vec::new());
        let listed = loop {
            match self.ask(Ask::Readdir { fh, cookie, limit: ENTRIES, plus: false }) {
                Ok(Done { answer: Answer::Entries { entries, next, end }, .. }) => {
                    all.extend(entries);
                    if end {
                        break Ok(());
                    }
                    cookie = next;
                }
                Ok(_) => break Err(FsError::Io.into()),
                Err(failed) => break Err(failed),
            }
        };
        let released = self.ask(Ask::Release { fh, flock_owner: None });
        listed.and(released.map(drop))?;
        Ok(all)
    }

    /// Removes all that is in a directory.
    fn empty(&self, dir: Ino) -> Result<(), Failed> {
        let mut files = Vec::new();
        for entry in self.list(dir)? {
            if entry.kind == Kind::Dir {
                self.empty(entry.ino)?;
                self.ask(Ask::Op(Op::Rmdir { dir, name: entry.name }))?;
            } else {
                files.push(entry.name);
            }
        }
        for some in files.chunks(REMOVALS) {
            let (to, from) = channel();
            let mut batch = self.machine.client.batch();
            for name in some {
                let to = to.clone();
                batch.add(&self.cred, Ask::Op(Op::Unlink { dir, name: name.clone() }), move |result| {
                    // Who waits is there until every call was answered.
                    let _ = to.send(result.map(drop));
                });
            }
            batch.send();
            drop(to);
            from.iter().collect::<Result<Vec<()>, Failed>>()?;
        }
        Ok(())
    }
}
