//! The two ways into a file system: a mount, and the client library.

use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;

use loligo_driver::Address;
use loligo_driver::client::path::OpenHow;
use loligo_driver::client::{Client, Options};
use loligo_e2e::Scratch;
use loligo_types::{Cred, FsError};

/// Why a call failed.
#[derive(Debug)]
pub struct Failed {
    /// For people.
    pub text: String,
    /// A sync told that what had been written before, and not synced, is lost.
    pub is_loss: bool,
}

/// Operations of the workers. Paths are relative to the root.
pub trait Target: Clone + Send + 'static {
    fn mkdir(&self, path: &str) -> Result<(), Failed>;
    /// Makes a file that must not be there yet, and syncs it.
    fn create(&self, path: &str, content: &[u8]) -> Result<(), Failed>;
    /// Adds to the end, and syncs.
    fn append(&self, path: &str, content: &[u8]) -> Result<(), Failed>;
    fn rename(&self, from: &str, to: &str) -> Result<(), Failed>;
    fn unlink(&self, path: &str) -> Result<(), Failed>;
    /// `None`: no such file.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Failed>;
    fn list(&self, path: &str) -> Result<Vec<String>, Failed>;
}

/// Through a mount.
#[derive(Clone)]
pub struct Mounted {
    pub root: PathBuf,
}

fn text(what: &str) -> impl FnOnce(std::io::Error) -> Failed {
    move |e| Failed { text: format!("{what}: {e}"), is_loss: false }
}

fn not_synced(e: std::io::Error) -> Failed {
    Failed { text: format!("fsync: {e}"), is_loss: rustix::io::Errno::from_io_error(&e) == Some(rustix::io::Errno::IO) }
}

impl Target for Mounted {
    fn mkdir(&self, path: &str) -> Result<(), Failed> {
        std::fs::create_dir(self.root.join(path)).map_err(text(path))
    }

    fn create(&self, path: &str, content: &[u8]) -> Result<(), Failed> {
        let mut file = std::fs::File::create_new(self.root.join(path)).map_err(text(path))?;
        file.write_all(content).map_err(text("write"))?;
        file.sync_all().map_err(not_synced)
    }

    fn append(&self, path: &str, content: &[u8]) -> Result<(), Failed> {
        let mut file = std::fs::File::options().append(true).open(self.root.join(path)).map_err(text(path))?;
        file.write_all(content).map_err(text("write"))?;
        file.sync_all().map_err(not_synced)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Failed> {
        std::fs::rename(self.root.join(from), self.root.join(to)).map_err(text(from))
    }

    fn unlink(&self, path: &str) -> Result<(), Failed> {
        std::fs::remove_file(self.root.join(path)).map_err(text(path))
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Failed> {
        match std::fs::read(self.root.join(path)) {
            Ok(content) => Ok(Some(content)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(text(path)(e)),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Failed> {
        let entries = std::fs::read_dir(self.root.join(path)).map_err(text(path))?;
        entries.map(|e| Ok(e.map_err(text(path))?.file_name().to_string_lossy().into_owned())).collect()
    }
}

/// Through the library.
#[derive(Clone)]
pub struct Library {
    fs: loligo_driver::client::Fs,
}

impl Library {
    pub fn connect(scratch: &Scratch) -> Library {
        let address = Address::Unix(scratch.data().join("loligo.sock"));
        let options = Options { name: "crash test".into(), cache: true, cache_names: true, ..Options::default() };
        let client = Client::connect(&address, options).expect("the server answers");
        Library { fs: client.fs(Arc::new(Cred::root())) }
    }
}

fn told(what: &str) -> impl FnOnce(FsError) -> Failed {
    move |e| Failed { text: format!("{what}: {e}"), is_loss: false }
}

fn told_of_sync(e: FsError) -> Failed {
    Failed { text: format!("fsync: {e}"), is_loss: e == FsError::Io }
}

impl Target for Library {
    fn mkdir(&self, path: &str) -> Result<(), Failed> {
        self.fs.mkdir(path, 0o755).map(drop).map_err(told(path))
    }

    fn create(&self, path: &str, content: &[u8]) -> Result<(), Failed> {
        let file = self.fs.open(path, OpenHow { exclusive: true, ..OpenHow::create() }).map_err(told(path))?;
        file.write_at(0, content.to_vec()).map_err(told("write"))?;
        file.sync().map_err(told_of_sync)?;
        file.close().map_err(told("close"))
    }

    fn append(&self, path: &str, content: &[u8]) -> Result<(), Failed> {
        let how = OpenHow { create: None, ..OpenHow::append() };
        let file = self.fs.open(path, how).map_err(told(path))?;
        file.write_at(0, content.to_vec()).map_err(told("append"))?;
        file.sync().map_err(told_of_sync)?;
        file.close().map_err(told("close"))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Failed> {
        self.fs.rename(from, to).map_err(told(from))
    }

    fn unlink(&self, path: &str) -> Result<(), Failed> {
        self.fs.unlink(path).map_err(told(path))
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Failed> {
        match self.fs.read(path) {
            Ok(content) => Ok(Some(content)),
            Err(FsError::NotFound) => Ok(None),
            Err(e) => Err(told(path)(e)),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Failed> {
        Ok(self.fs.readdir(path).map_err(told(path))?.into_iter().map(|e| e.name.to_string()).collect())
    }
}
