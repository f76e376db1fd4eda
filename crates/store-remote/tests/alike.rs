//! The backends show the same after the same random operations on objects: the one in memory, which the simulator uses, files, and both
//! of them served to another process. So no test passes in the simulator because its store is kinder.

use std::cell::Cell;
use std::sync::Arc;

use loligo_store::conformance::{SPAN, Step, alike};
use loligo_store::mem::MemDisk;
use loligo_store::{BLOCK_SIZE, Backend, Blobs, Identity, ObjectId};
use loligo_store_local::{FormatOptions, LocalStore, OpenOptions};
use loligo_store_remote::{RemoteStore, Service};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// Places at which data, holes and objects begin and end: on borders of blocks, beside them, anywhere.
fn place() -> impl Strategy<Value = u64> {
    let blocks = SPAN / BLOCK_SIZE;
    let near = (1..blocks, -2i64..3).prop_map(|(block, by)| (block * BLOCK_SIZE).saturating_add_signed(by));
    prop_oneof![near, (0..blocks).prop_map(|block| block * BLOCK_SIZE), 0..SPAN]
}

fn step() -> impl Strategy<Value = Step> {
    let id = || (0..2u64).prop_map(|index| ObjectId::new(0, index));
    let range = || (place(), place()).prop_map(|(one, other)| (one.min(other), one.abs_diff(other)));
    let seed = prop_oneof![1 => Just(0), 7 => any::<u64>()];
    prop_oneof![
        6 => (id(), range(), seed).prop_map(|(id, (offset, len), seed)| Step::Write { id, offset, len, seed }),
        2 => (id(), place()).prop_map(|(id, len)| Step::Truncate { id, len }),
        2 => (id(), range()).prop_map(|(id, (offset, len))| Step::Punch { id, offset, len }),
        1 => id().prop_map(|id| Step::Sync { id }),
        1 => id().prop_map(|id| Step::Delete { id }),
        1 => Just(Step::DeleteAll { ino: 0 }),
        6 => (id(), range()).prop_map(|(id, (offset, len))| Step::Look { id, offset, len }),
    ]
}

/// Steps of a case of its own: each has an inode that no other has.
fn of(ino: u64, steps: &[Step]) -> Vec<Step> {
    let own = |id: ObjectId| ObjectId::new(ino, id.index);
    let mut steps = steps.to_vec();
    for step in &mut steps {
        match step {
            Step::Write { id, .. }
            | Step::Truncate { id, .. }
            | Step::Punch { id, .. }
            | Step::Sync { id }
            | Step::Delete { id }
            | Step::Look { id, .. } => *id = own(*id),
            Step::DeleteAll { ino: of } => *of = ino,
        }
    }
    steps
}

#[test]
fn memory_files_and_served_stores_show_the_same_after_random_operations() {
    let memory = || MemDisk::new(Identity::new([1; 16], [2; 16])).open().expect("it is free");
    let dir = tempfile::tempdir().expect("a scratch directory");
    let data = dir.path().join("data");
    LocalStore::format(&data, &FormatOptions::default()).expect("format");
    // So few stay open that objects are closed and opened all the time.
    let options = OpenOptions { open_objects: 1, ..OpenOptions::default() };
    let files: Arc<dyn Backend> = Arc::new(LocalStore::open(&data, &options).expect("it is free"));
    let serve = |owner: Arc<dyn Backend>, name: &str| {
        let service = Service::start(owner, &dir.path().join(name)).expect("a socket");
        let ticket = service.admit(vec![0]);
        let remote = RemoteStore::connect(service.path(), ticket).expect("a ticket");
        (remote, service)
    };
    let (served, _service) = serve(memory(), "memory.sock");
    // Served files are the same files: the cases have inodes of their own there.
    let (served_files, _files_service) = serve(files.clone(), "files.sock");
    let stores: [Arc<dyn Blobs>; 3] = [memory().blobs(), files.blobs(), served.blobs()];
    let named: Vec<(&str, &dyn Blobs)> =
        ["memory", "files", "served memory"].into_iter().zip(stores.iter().map(|blobs| &**blobs)).collect();
    let again = memory().blobs();
    let served_files = served_files.blobs();
    let next = Cell::new(1);
    let mut runner = TestRunner::new(ProptestConfig { cases: 300, ..ProptestConfig::default() });
    let ran = runner.run(&vec(step(), 1..40), |steps| {
        let ino = next.replace(next.get() + 2);
        alike(&named, &of(ino, &steps));
        alike(&[("memory", &*again), ("served files", &*served_files)], &of(ino + 1, &steps));
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
}
