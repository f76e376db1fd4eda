//! A served store: it keeps every promise of the store behind it, fails as that fails, and is lost as a whole.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;

use loligo_store::conformance::{self, Fixture};
use loligo_store::mem::MemDisk;
use loligo_store::{Backend, Batch, Blobs, Durability, Identity, LogDir, ObjectId, Result, StatFs, StoreError, Table};
use loligo_store_local::{FormatOptions, LocalStore, OpenOptions};
use loligo_store_remote::{RemoteStore, Service};
use tempfile::TempDir;

/// A store as seen through its service. Fields are dropped in this order: the service waits for its connections.
struct Served {
    remote: RemoteStore,
    _service: Service,
    owner: Arc<dyn Backend>,
}

impl Served {
    fn new(owner: Arc<dyn Backend>, dir: &TempDir) -> Served {
        let service = Service::start(owner.clone(), &dir.path().join("store.sock")).expect("a socket");
        let ticket = service.admit((0..20).collect());
        let remote = RemoteStore::connect(service.path(), ticket).expect("a ticket");
        Served { remote, _service: service, owner }
    }
}

impl Backend for Served {
    fn identity(&self) -> Identity {
        self.remote.identity()
    }
    fn table(&self) -> Arc<dyn Table> {
        self.remote.table()
    }
    fn blobs(&self) -> Arc<dyn Blobs> {
        self.remote.blobs()
    }
    fn log_dir(&self, rank: u32) -> Result<Arc<dyn LogDir>> {
        self.remote.log_dir(rank)
    }
    fn ranks(&self) -> Result<Vec<u32>> {
        self.remote.ranks()
    }
    fn statfs(&self) -> Result<StatFs> {
        self.remote.statfs()
    }
    fn close(&self) -> Result<()> {
        self.remote.close()?;
        self.owner.close()
    }
}

struct Files(TempDir);

impl Fixture for Files {
    fn open(&mut self) -> Arc<dyn Backend> {
        let store = LocalStore::open(self.0.path().join("data"), &OpenOptions::default()).expect("it is free");
        Arc::new(Served::new(Arc::new(store), &self.0))
    }
}

struct Memory(MemDisk, TempDir);

impl Fixture for Memory {
    fn open(&mut self) -> Arc<dyn Backend> {
        Arc::new(Served::new(self.0.open().expect("it is free"), &self.1))
    }
}

fn scratch() -> TempDir {
    tempfile::tempdir().expect("a scratch directory")
}

fn memory() -> MemDisk {
    MemDisk::new(Identity::new([1; 16], [2; 16]))
}

#[test]
fn a_served_store_in_memory_passes_the_suite() {
    conformance::run(&|| Box::new(Memory(memory(), scratch())) as Box<dyn Fixture>);
}

#[test]
fn a_served_store_on_files_passes_the_suite() {
    conformance::run(&|| {
        let dir = scratch();
        LocalStore::format(dir.path().join("data"), &FormatOptions::default()).expect("format");
        Box::new(Files(dir)) as Box<dyn Fixture>
    });
}

fn put(store: &dyn Backend, key: &str) -> Result<()> {
    let mut batch = Batch::new();
    batch.put(key, "value");
    store.table().write(&batch, Durability::Sync)
}

fn socket(dir: &TempDir) -> PathBuf {
    dir.path().join("store.sock")
}

#[test]
fn a_revoked_ticket_loses_the_store_and_the_owner_has_all_that_was_answered() {
    let (disk, dir) = (memory(), scratch());
    let owner: Arc<dyn Backend> = disk.open().expect("it is free");
    let service = Service::start(owner.clone(), &socket(&dir)).expect("a socket");
    let (first, second) = (service.admit(vec![1]), service.admit(vec![2]));
    let one = RemoteStore::connect(service.path(), first).expect("a ticket");
    let other = RemoteStore::connect(service.path(), second).expect("a ticket");
    let (to, from) = channel();
    one.on_lost(move |cause| to.send(cause.to_owned()).expect("somebody listens"));
    put(&one, "a").expect("written");
    let mut file = one.log_dir(1).expect("its own").create(1).expect("a segment");
    file.append(b"acknowledged").expect("appended");
    file.sync().expect("synced");
    service.revoke(first);
    let error = put(&one, "b").expect_err("it is lost");
    assert!(matches!(error, StoreError::Lost { .. }), "{error}");
    assert!(error.to_string().contains("start this process again"), "{error}");
    assert!(!from.recv().expect("told").is_empty());
    assert!(matches!(file.sync(), Err(StoreError::Lost { .. })));
    assert!(matches!(one.blobs().len(ObjectId::new(1, 0)), Err(StoreError::Lost { .. })));
    assert!(from.try_recv().is_err(), "told once");
    put(&other, "c").expect("others are not touched");
    assert_eq!(owner.table().get(b"a").expect("get"), Some(b"value".to_vec()));
    assert_eq!(owner.table().get(b"b").expect("get"), None);
    assert_eq!(owner.log_dir(1).expect("there").list().expect("list")[0].len, 12);
    let again = RemoteStore::connect(service.path(), first).err().expect("void");
    assert!(again.to_string().contains("ticket"), "{again}");
}

#[test]
fn an_owner_that_goes_away_is_a_lost_store() {
    let (disk, dir) = (memory(), scratch());
    let service = Service::start(disk.open().expect("it is free"), &socket(&dir)).expect("a socket");
    let ticket = service.admit(vec![1]);
    let remote = RemoteStore::connect(service.path(), ticket).expect("a ticket");
    put(&remote, "a").expect("written");
    drop(service);
    assert!(matches!(put(&remote, "b"), Err(StoreError::Lost { .. })));
    assert!(matches!(RemoteStore::connect(&socket(&dir), ticket).err(), Some(StoreError::Lost { .. })));
    let owner = disk.open().expect("the service gave it back");
    assert_eq!(owner.table().get(b"a").expect("get"), Some(b"value".to_vec()));
}

#[test]
fn the_journal_of_a_rank_that_another_process_runs_is_not_to_be_had() {
    let (disk, dir) = (memory(), scratch());
    let service = Service::start(disk.open().expect("it is free"), &socket(&dir)).expect("a socket");
    let remote = RemoteStore::connect(service.path(), service.admit(vec![2])).expect("a ticket");
    assert!(remote.log_dir(2).is_ok());
    let error = remote.log_dir(0).err().expect("it is the owner's");
    assert!(matches!(error, StoreError::InUse { .. }) && error.to_string().contains("rank 0"), "{error}");
    put(&remote, "a").expect("nothing is lost by asking");
}

#[test]
fn errors_are_of_the_same_kind_and_a_full_disk_can_be_tried_again() {
    let (disk, dir) = (memory(), scratch());
    let served = Served::new(disk.open().expect("it is free"), &dir);
    disk.set_capacity(Some(1));
    let error = put(&served, "a").expect_err("it is full");
    assert!(error.is_full(), "{error}");
    let dir = served.log_dir(1).expect("a journal");
    assert!(matches!(dir.open(7).err(), Some(StoreError::NotFound { .. })));
    disk.set_capacity(None);
    put(&served, "a").expect("there is room");
    assert_eq!(served.table().get(b"a").expect("get"), Some(b"value".to_vec()));
}

#[test]
fn long_answers_come_in_parts_and_may_be_left_unread() {
    let (disk, dir) = (memory(), scratch());
    let served = Served::new(disk.open().expect("it is free"), &dir);
    let table = served.table();
    for i in 0..40u8 {
        let mut batch = Batch::new();
        batch.put([i], vec![i; 300_000]);
        table.write(&batch, Durability::Buffered).expect("write");
    }
    let rows = table.scan(b"", b"", usize::MAX).expect("scan");
    assert!(rows.iter().enumerate().all(|(i, (key, value))| key == &[i as u8] && value.len() == 300_000));
    assert_eq!(rows.len(), 40);
    let blobs = served.blobs();
    let data: Vec<u8> = (0..20 << 20).map(|i: u32| (i >> 12) as u8).collect();
    blobs.write_at(ObjectId::new(1, 0), 5, &data).expect("write");
    let mut read = vec![0; data.len() + 5];
    assert_eq!(blobs.read_at(ObjectId::new(1, 0), 5, &mut read).expect("read"), data.len());
    assert!(read.starts_with(&data));
    for index in 1..200_000 / 1000 {
        blobs.write_at(ObjectId::new(2, index), 0, b"x").expect("write");
    }
    let mut seen = 0;
    let stop = &mut |_, _| {
        seen += 1;
        if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    blobs.list(stop).expect("list");
    assert_eq!(seen, 3);
    assert_eq!(table.get(&[3]).expect("get").map(|value| value.len()), Some(300_000));
}
