//! A server as `loligo serve` runs it, but for its journal: what is written there is dropped, and counts as durable at once. It exists to measure what
//! the journal costs (`bench/cudele.sh`); nobody could keep files in it, for what its table does not have yet is gone with it.
//!
//! The journal's thread, the encoding of records and the checkpoints into the table are those of any server. It ends when it is killed.
//!
//! usage: unjournaled DATA    DATA: a formatted data directory that nobody serves

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use loligo_driver::{Server, ServerConfig, socket_in};
use loligo_store::{Backend, Blobs, Identity, LogDir, LogFile, LogReader, Result, Segment, StatFs, StoreError, Table};
use loligo_store_local::{LocalStore, OpenOptions};

/// A store whose journals drop what they are given.
struct Unjournaled(LocalStore);

impl Backend for Unjournaled {
    fn identity(&self) -> Identity {
        self.0.identity()
    }

    fn table(&self) -> Arc<dyn Table> {
        self.0.table()
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        self.0.blobs()
    }

    fn log_dir(&self, rank: u32) -> Result<Arc<dyn LogDir>> {
        Ok(Arc::new(Dropping { before: self.0.log_dir(rank)?, new: Arc::default() }))
    }

    fn ranks(&self) -> Result<Vec<u32>> {
        self.0.ranks()
    }

    fn statfs(&self) -> Result<StatFs> {
        self.0.statfs()
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

/// Lengths of segments by number.
type Lengths = Arc<Mutex<BTreeMap<u64, u64>>>;

/// Journal that reads old segments as they are; new ones have a length and no bytes.
struct Dropping {
    before: Arc<dyn LogDir>,
    new: Lengths,
}

fn lengths(of: &Lengths) -> std::sync::MutexGuard<'_, BTreeMap<u64, u64>> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Dropping {
    fn file(&self, id: u64, len: u64) -> Box<dyn LogFile> {
        lengths(&self.new).insert(id, len);
        Box::new(Dropped { id, len, new: self.new.clone() })
    }
}

impl LogDir for Dropping {
    fn list(&self) -> Result<Vec<Segment>> {
        let mut all: BTreeMap<u64, u64> = self.before.list()?.into_iter().map(|one| (one.id, one.len)).collect();
        all.extend(lengths(&self.new).iter());
        Ok(all.into_iter().map(|(id, len)| Segment { id, len }).collect())
    }

    fn create(&self, id: u64) -> Result<Box<dyn LogFile>> {
        Ok(self.file(id, 0))
    }

    fn open(&self, id: u64) -> Result<Box<dyn LogReader>> {
        self.before.open(id)
    }

    fn open_append(&self, id: u64) -> Result<Box<dyn LogFile>> {
        let len = self.list()?.into_iter().find(|one| one.id == id).map_or(0, |one| one.len);
        Ok(self.file(id, len))
    }

    fn truncate(&self, id: u64, len: u64) -> Result<()> {
        match lengths(&self.new).get_mut(&id) {
            Some(is) => *is = len,
            None => return self.before.truncate(id, len),
        }
        Ok(())
    }

    fn delete(&self, id: u64) -> Result<()> {
        lengths(&self.new).remove(&id);
        self.before.delete(id)
    }

    fn sync_dir(&self) -> Result<()> {
        Ok(())
    }
}

/// A segment of which only the length is known.
struct Dropped {
    id: u64,
    len: u64,
    new: Lengths,
}

impl LogFile for Dropped {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.append_vectored(&[bytes])
    }

    fn append_vectored(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.len += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        lengths(&self.new).insert(self.id, self.len);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }
}

fn main() -> std::result::Result<(), String> {
    let args: Vec<String> = std::env::args().collect();
    let [_, data] = &args[..] else { return Err("usage: unjournaled DATA".into()) };
    let data = Path::new(data);
    let store = LocalStore::open(data, &OpenOptions::default()).map_err(|error: StoreError| error.to_string())?;
    let backend = Arc::new(Unjournaled(store));
    let base = ServerConfig::new(backend);
    // What the settings of `loligo serve` are, if nobody changes them.
    let mds = loligo_mds::Config {
        cache_bytes_max: 1 << 30,
        inline_max: 16 << 10,
        session_ms: 60_000,
        grace_ms: 5_000,
        ..base.mds.clone()
    };
    let config = ServerConfig { listen: vec![socket_in(data)], mds, ..base };
    let server = Server::start(config, &mut |_| {}).map_err(|error| error.to_string())?;
    match server.wait_fatal(None) {
        Some(text) => Err(text),
        None => Ok(()),
    }
}
