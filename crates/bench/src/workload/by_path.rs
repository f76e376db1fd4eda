//! Calls through the client library's path functions: nothing is cached, and the server finds each path, with one request if the rank that is asked
//! can. What caches and asks name by name is `native.rs`.

use std::sync::Arc;

use loligo_driver::client::path::{Fs, OpenHow};
use loligo_driver::client::{Client, Options};
use loligo_types::{Cred, FsError, FsResult, Kind, SetAttr, SetTime, Time};
use loligo_workload::Call;

use super::native::Servers;
use super::{Place, Shell, Wrong};

/// The clients, and the new directory.
pub struct Libraries {
    files: Vec<Fs>,
    /// Makes the directory, sets its policy, and removes it.
    servers: Servers,
    top: String,
}

impl Libraries {
    /// Connects so many clients, and one that makes the directory.
    pub fn start(
        connect: &dyn Fn(Options) -> Result<Client, String>,
        name: &str,
        clients: usize,
    ) -> Result<Libraries, String> {
        let servers = Servers::start(connect, name, 0)?;
        let one = |number: usize| {
            let client = connect(Options { name: format!("workload{number}"), cache: false, ..Options::default() })?;
            Ok::<_, String>(client.fs(Arc::new(Cred::root())))
        };
        // The last one makes the set-up.
        let files = (0..=clients).map(one).collect::<Result<Vec<_>, _>>()?;
        Ok(Libraries { files, servers, top: format!("/{name}") })
    }
}

impl Place for Libraries {
    fn shell(&self, client: usize) -> Box<dyn Shell> {
        Box::new(Caller { fs: self.files[client].clone(), top: self.top.clone() })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        self.servers.set(name, value)
    }

    fn remove(&mut self) -> Result<(), String> {
        self.servers.remove()
    }

    fn stop(&mut self) -> Result<(), String> {
        for fs in &self.files {
            fs.client().stop(super::native::STOP).map_err(|e| format!("stopping a client: {e}"))?;
        }
        self.servers.stop()
    }
}

/// Makes calls of one lane.
struct Caller {
    fs: Fs,
    top: String,
}

impl Shell for Caller {
    fn call(&mut self, call: &Call) -> Result<(), Wrong> {
        let wrong = |error: FsError| Wrong { missing: error == FsError::NotFound, text: error.to_string() };
        self.carry_out(call).map_err(wrong)
    }
}

impl Caller {
    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.top)
    }

    fn carry_out(&self, call: &Call) -> FsResult<()> {
        let fs = &self.fs;
        match call {
            Call::Mkdir(path) => fs.mkdir(self.at(path), 0o755).map(drop),
            Call::Create(path) => fs.mknod(self.at(path), Kind::File, 0o644).map(drop),
            Call::Stat(path) => fs.stat(self.at(path)).map(drop),
            Call::Open(path) => fs.read(self.at(path)).map(drop),
            Call::Readdir(path) => fs.readdir_with(self.at(path), false, drop),
            Call::Unlink(path) => fs.unlink(self.at(path)),
            Call::Rmdir(path) => fs.rmdir(self.at(path)),
            Call::Rename(from, to) => fs.rename(self.at(from), self.at(to)),
            Call::Write(path, bytes) => {
                let file = fs.open(self.at(path), OpenHow::create())?;
                file.write_at(0, vec![b'x'; *bytes as usize])?;
                file.close()
            }
            Call::Chmod(path, mode) => self.set(path, SetAttr { mode: Some(*mode), ..SetAttr::default() }),
            Call::Utimens(path) => {
                let mtime = Some(SetTime::At(Time(1_000_000_000)));
                self.set(path, SetAttr { mtime, ..SetAttr::default() })
            }
        }
    }

    fn set(&self, path: &str, set: SetAttr) -> FsResult<()> {
        self.fs.set_attr(self.at(path), set).map(drop)
    }
}
