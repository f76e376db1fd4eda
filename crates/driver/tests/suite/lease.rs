//! Silence of a server whose store may be another one's by now, also as it ends. Over a store in memory with a lease that the tests hold.
//! Not when a lease ends, which is the store's to know.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::common::{Raw, Site, lookup, mkdir};
use loligo_driver::Server;
use loligo_store::{
    Backend, Batch, Blobs, Durability, Identity, KeyValue, Lease, LogDir, Result, StatFs, StoreError, Table, TableSize,
};
use loligo_types::{Ino, Op};

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(20);
const TAKEN: &str = "another server has taken over";

/// State of the store, as the tests set it.
#[derive(Default)]
struct Said {
    /// The lease does not hold just now.
    in_doubt: AtomicBool,
    lost: OnceLock<()>,
    /// Reads of the table find that it is another one's.
    fenced: AtomicBool,
}

impl Lease for Said {
    fn holds(&self) -> bool {
        !self.in_doubt.load(Ordering::Acquire) && self.lost.get().is_none()
    }

    fn lost(&self) -> Option<String> {
        self.lost.get().map(|()| TAKEN.to_string())
    }
}

struct Leased {
    store: Arc<dyn Backend>,
    said: Arc<Said>,
}

impl Backend for Leased {
    fn identity(&self) -> Identity {
        self.store.identity()
    }

    fn table(&self) -> Arc<dyn Table> {
        Arc::new(Fickle { table: self.store.table(), said: self.said.clone() })
    }

    fn lease(&self) -> Option<Arc<dyn Lease>> {
        Some(self.said.clone())
    }

    fn blobs(&self) -> Arc<dyn Blobs> {
        self.store.blobs()
    }

    fn log_dir(&self, rank: u32) -> Result<Arc<dyn LogDir>> {
        self.store.log_dir(rank)
    }

    fn ranks(&self) -> Result<Vec<u32>> {
        self.store.ranks()
    }

    fn statfs(&self) -> Result<StatFs> {
        self.store.statfs()
    }

    fn close(&self) -> Result<()> {
        self.store.close()
    }
}

struct Fickle {
    table: Arc<dyn Table>,
    said: Arc<Said>,
}

impl Fickle {
    fn table(&self) -> Result<&dyn Table> {
        match self.said.fenced.load(Ordering::Acquire) {
            true => Err(StoreError::Fenced { what: "the table".into(), cause: TAKEN.into() }),
            false => Ok(&*self.table),
        }
    }
}

impl Table for Fickle {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.table()?.get(key)
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.table()?.multi_get(keys)
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<KeyValue>> {
        self.table()?.scan(start, end, limit)
    }

    fn write(&self, batch: &Batch, durability: Durability) -> Result<()> {
        self.table.write(batch, durability)
    }

    fn flush(&self) -> Result<()> {
        self.table.flush()
    }

    fn approximate_size(&self) -> Result<TableSize> {
        self.table.approximate_size()
    }
}

/// A file system with a directory `/d`, of which nothing is in memory, and a client.
fn served() -> (Site, Server, Arc<Said>, Raw) {
    let site = Site::new();
    let before = site.start();
    Raw::session(&site.socket()).entry(mkdir(Ino::ROOT, "d"));
    before.stop().expect("all is written");
    drop(before);
    let said = Arc::<Said>::default();
    let mut config = site.config();
    config.backend = Arc::new(Leased { store: config.backend, said: said.clone() });
    let server = Server::start(config, &mut |_| {}).expect("the server starts");
    let client = Raw::session(&site.socket());
    (site, server, said, client)
}

fn executed(server: &Server) -> u64 {
    let status = server.status().expect("it runs");
    status.ranks[0].mds.sessions.iter().map(|session| session.requests).sum()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_was_decided_while_another_one_may_have_taken_over_is_said_when_none_has() {
    let (_site, server, said, mut client) = served();
    assert!(client.call(Op::GetAttr { ino: Ino::ROOT }).is_ok());
    said.in_doubt.store(true, Ordering::Release);
    let request = client.request(Op::GetAttr { ino: Ino::ROOT });
    client.send(&request);
    until("the request is executed", || executed(&server) == 2);
    said.in_doubt.store(false, Ordering::Release);
    assert!(client.reply(client.seq).is_ok());
    server.stop().expect("all is written");
}

#[test]
fn a_server_that_was_replaced_says_nothing_of_what_it_held_back_as_it_ends() {
    let (_site, server, said, mut client) = served();
    assert!(client.call(Op::GetAttr { ino: Ino::ROOT }).is_ok());
    said.in_doubt.store(true, Ordering::Release);
    let request = client.request(Op::GetAttr { ino: Ino::ROOT });
    client.send(&request);
    until("the request is executed", || executed(&server) == 2);
    said.lost.set(()).expect("said once");
    assert!(server.wait_fatal(Some(PATIENCE)).is_some_and(|text| text.contains(TAKEN)));
    assert_eq!(client.try_recv(), None);
}

#[test]
fn a_server_that_reads_that_it_was_replaced_ends_and_does_not_call_it_a_failure_of_the_store() {
    let (_site, server, said, mut client) = served();
    said.fenced.store(true, Ordering::Release);
    let request = client.request(lookup(Ino::ROOT, "d"));
    client.send(&request);
    assert!(server.wait_fatal(Some(PATIENCE)).is_some_and(|text| text.contains(TAKEN)));
    assert_eq!(client.try_recv(), None);
}
