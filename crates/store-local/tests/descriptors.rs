//! A process that has used up its descriptors: what the store needs it still gets. Alone in its program, as it lowers the limit of it.

use std::os::fd::OwnedFd;

use loligo_store::{Backend, Batch, Durability, ObjectId};
use loligo_store_local::{FormatOptions, LocalStore, OpenOptions};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Takes all descriptors that are left.
fn take_all() -> Vec<OwnedFd> {
    std::iter::from_fn(|| eventfd(0, EventfdFlags::CLOEXEC).ok()).collect()
}

#[test]
fn with_no_descriptor_left_the_journal_the_table_and_objects_go_on_and_a_refusal_leaves_nothing() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(512);
    setrlimit(Resource::Nofile, limit).expect("it may be lowered");
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    LocalStore::format(&data, &FormatOptions::default()).expect("formatted");
    let options =
        OpenOptions { open_objects: 64, open_tables: 32, write_buffer_bytes: 64 << 10, ..OpenOptions::default() };
    let store = LocalStore::open(&data, &options).expect("opened");
    let (table, blobs, log) = (store.table(), store.blobs(), store.log_dir(0).expect("a journal"));
    let content = |n: u64| vec![n as u8; 10_000];
    for n in 0..32 {
        blobs.write_at(ObjectId::new(n, 0), 0, &content(n)).expect("written");
    }
    let taken = take_all();
    assert!(taken.len() > 100, "{}", taken.len());

    // More than there are spare ones of.
    for n in 0..200 {
        blobs.write_at(ObjectId::new(n, 1), 0, &content(n)).expect("objects are closed for it");
        blobs.sync(ObjectId::new(n, 1)).expect("its directory is opened");
    }
    for n in 0..200 {
        let mut bytes = vec![0; 10_000];
        assert_eq!(blobs.read_at(ObjectId::new(n, 1), 0, &mut bytes).expect("read"), 10_000);
        assert!(bytes == content(n));
    }
    let mut segment = log.create(1).expect("a spare one is taken");
    segment.append(b"record").and_then(|()| segment.sync()).expect("written");
    for n in 0..40u32 {
        let mut batch = Batch::new();
        (0..40u32).for_each(|m| _ = batch.put(vec![n as u8, m as u8, 1], vec![n as u8; 200]));
        table.write(&batch, Durability::Sync).expect("written");
    }
    assert_eq!(table.get(&[7, 9, 1]).expect("read"), Some(vec![7; 200]));

    // Once the spare ones are gone, too, journals are told, may try again, and nothing is left of the attempt.
    let mut kept = Vec::new();
    let error = loop {
        match log.create(100 + kept.len() as u64) {
            Ok(segment) => kept.push(segment),
            Err(error) => break error,
        }
        assert!(kept.len() < 100, "there is no end of descriptors");
    };
    assert!(error.may_pass() && !error.is_full() && error.to_string().contains("ulimit -n"), "{error}");
    let id = 100 + kept.len() as u64;
    drop(taken);
    log.create(id).expect("the same call succeeds later");
    drop((segment, kept));
    store.close().expect("closed");
}
