//! The memory backend passes the suite, and loses in a crash exactly what was not synced.

use super::*;
use crate::conformance::{self, Fixture};
use crate::{Batch, Durability, ObjectId, StoreError};

fn disk() -> MemDisk {
    MemDisk::new(Identity::new([7; 16], [8; 16]))
}

fn put(table: &dyn Table, key: u8, durability: Durability) -> Result<()> {
    let mut batch = Batch::new();
    batch.put([key], [key; 10]).put([key, 1], [key; 10]);
    table.write(&batch, durability)
}

#[test]
fn the_memory_backend_passes_the_suite() {
    conformance::run(&|| Box::new(disk()) as Box<dyn Fixture>);
}

#[test]
fn a_crash_loses_buffered_batches_from_the_last_backwards() {
    for seed in 0..50 {
        let disk = disk();
        let store = disk.open().expect("open");
        put(&*store.table(), 0, Durability::Sync).expect("write");
        for key in 1..10 {
            put(&*store.table(), key, Durability::Buffered).expect("write");
        }
        disk.crash(&CrashPlan::lose_some(Torn::Byte, seed));
        assert!(store.table().get(&[0]).is_err(), "a handle from before the crash is dead");
        let store = disk.open().expect("open");
        let there: Vec<bool> = (0..10).map(|k| store.table().get(&[k]).expect("get").is_some()).collect();
        let halves: Vec<bool> = (0..10).map(|k| store.table().get(&[k, 1]).expect("get").is_some()).collect();
        assert_eq!(there, halves, "batches are whole");
        assert!(there[0], "what was synced is there");
        assert!(there.windows(2).all(|w| w[0] >= w[1]), "a later batch without an earlier one: {there:?}");
    }
}

#[test]
fn a_sync_write_makes_the_buffered_ones_before_it_durable() {
    let disk = disk();
    let store = disk.open().expect("open");
    put(&*store.table(), 1, Durability::Buffered).expect("write");
    put(&*store.table(), 2, Durability::Sync).expect("write");
    put(&*store.table(), 3, Durability::Buffered).expect("write");
    disk.crash(&CrashPlan::lose_all());
    let table = disk.open().expect("open").table();
    assert!(table.get(&[1]).expect("get").is_some() && table.get(&[3]).expect("get").is_none());
}

#[test]
fn a_crash_keeps_the_synced_part_of_a_segment_and_tears_the_rest() {
    let mut lengths = std::collections::BTreeSet::new();
    let (mut zeroed, mut ahead) = (0, 0);
    for seed in 0..200 {
        let disk = disk();
        let store = disk.open().expect("open");
        let mut file = store.log_dir(0).expect("log_dir").create(1).expect("create");
        file.append(&[1; 1000]).expect("append");
        file.sync().expect("sync");
        file.append(&[2; 3000]).expect("append");
        disk.crash(&CrashPlan::lose_some(Torn::Sector, seed));
        let store = disk.open().expect("open");
        let reader = store.log_dir(0).expect("log_dir").open(1).expect("open");
        let mut bytes = vec![0; 6000];
        let n = reader.read_at(0, &mut bytes).expect("read");
        bytes.truncate(n);
        assert_eq!(bytes[..1000], [1; 1000], "synced bytes are there");
        let tail = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        zeroed += bytes[1000..tail].contains(&0) as u32;
        ahead += (bytes.len() > 4000) as u32;
        lengths.insert(bytes.len());
    }
    assert!(lengths.len() > 50 && zeroed > 50, "{} lengths, {zeroed} with zeros", lengths.len());
    assert!(ahead > 10, "zeros behind the tail in {ahead}");
}

#[test]
fn a_crash_leaves_each_sector_of_an_object_old_or_new() {
    let (id, fresh) = (ObjectId::new(1, 0), ObjectId::new(2, 0));
    for seed in 0..50 {
        let disk = disk();
        let store = disk.open().expect("open");
        let blobs = store.blobs();
        blobs.write_at(id, 0, &[1; 10_000]).expect("write_at");
        blobs.sync(id).expect("sync");
        blobs.write_at(id, 0, &[2; 10_000]).expect("write_at");
        blobs.write_at(fresh, 0, &[3; 100]).expect("write_at");
        disk.crash(&CrashPlan::lose_some(Torn::Byte, seed));
        let blobs = disk.open().expect("open").blobs();
        let mut bytes = vec![0; 10_000];
        assert_eq!(blobs.read_at(id, 0, &mut bytes).expect("read"), 10_000);
        for sector in bytes.chunks(512) {
            assert!(sector.iter().all(|b| *b == sector[0]) && (1..=2).contains(&sector[0]));
        }
        disk.crash(&CrashPlan::lose_all());
        let blobs = disk.open().expect("open").blobs();
        let mut again = vec![0; 10_000];
        blobs.read_at(id, 0, &mut again).expect("read");
        assert_eq!(bytes, again, "what a crash left stays");
    }
}

#[test]
fn a_removal_comes_back_unless_synced() {
    let id = ObjectId::new(1, 0);
    for synced in [false, true] {
        let disk = disk();
        let store = disk.open().expect("open");
        let blobs = store.blobs();
        blobs.write_at(id, 0, b"x").expect("write_at");
        blobs.sync(id).expect("sync");
        blobs.delete(id).expect("delete");
        if synced {
            blobs.sync_removals(1).expect("sync_removals");
        }
        disk.crash(&CrashPlan::lose_all());
        let len = disk.open().expect("open").blobs().len(id).expect("len");
        assert_eq!(len.is_none(), synced);
    }
}

#[test]
fn a_close_makes_everything_durable() {
    let disk = disk();
    let store = disk.open().expect("open");
    put(&*store.table(), 1, Durability::Buffered).expect("write");
    store.blobs().write_at(ObjectId::new(1, 0), 0, b"x").expect("write_at");
    store.log_dir(0).expect("log_dir").create(1).expect("create").append(b"y").expect("append");
    store.close().expect("close");
    disk.crash(&CrashPlan::lose_all());
    let store = disk.open().expect("open");
    assert!(store.table().get(&[1]).expect("get").is_some());
    assert_eq!(store.blobs().len(ObjectId::new(1, 0)).expect("len"), Some(1));
    assert_eq!(store.log_dir(0).expect("log_dir").list().expect("list")[0].len, 1);
}

#[test]
fn planned_faults_come_once_and_at_their_call() {
    let disk = disk();
    let store = disk.open().expect("open");
    let dir = store.log_dir(0).expect("log_dir");
    let mut file = dir.create(1).expect("create");
    disk.fail(FaultPoint::LogAppend, 2, Fault::Full);
    file.append(b"a").expect("append");
    assert!(file.append(b"b").expect_err("planned").is_full());
    file.append(b"b").expect("append");
    assert_eq!(file.len(), 2);
    disk.fail(FaultPoint::LogSync, 1, Fault::Io);
    assert!(file.sync().is_err());
    assert!(file.sync().is_err(), "a failed sync is not healed by another");
    assert!(file.append(b"c").is_err());
    disk.fail(FaultPoint::TableWrite, 1, Fault::Die);
    assert!(put(&*store.table(), 1, Durability::Sync).is_err());
    assert!(store.table().get(&[1]).is_err(), "the machine has stopped");
    disk.crash(&CrashPlan::lose_nothing());
    assert_eq!(disk.open().expect("open").table().get(&[1]), Ok(None), "the call that died had no effect");
}

#[test]
fn a_full_disk_refuses_and_goes_on_when_space_is_back() {
    let disk = disk();
    let store = disk.open().expect("open");
    disk.set_capacity(Some(10_000));
    let mut file = store.log_dir(0).expect("log_dir").create(1).expect("create");
    file.append(&[1; 4_000]).expect("append");
    assert!(file.append(&[1; 8_000]).expect_err("full").is_full());
    assert_eq!(file.len(), 4_000);
    let blobs = store.blobs();
    assert!(blobs.write_at(ObjectId::new(1, 0), 0, &[1; 8_192]).expect_err("full").is_full());
    assert_eq!(blobs.len(ObjectId::new(1, 0)).expect("len"), None);
    assert!(matches!(put(&*store.table(), 1, Durability::Sync), Ok(())));
    disk.set_capacity(Some(4_001));
    assert!(put(&*store.table(), 2, Durability::Sync).expect_err("full").is_full());
    assert_eq!(store.statfs().expect("statfs").free_bytes, 0);
    disk.set_capacity(None);
    put(&*store.table(), 2, Durability::Sync).expect("write");
    file.append(&[1; 8_000]).expect("append");
}

#[test]
fn a_second_opening_is_refused_until_the_first_is_dropped() {
    let disk = disk();
    let store = disk.open().expect("open");
    assert!(matches!(disk.open(), Err(StoreError::InUse { .. })));
    let table = store.table();
    drop(store);
    assert!(matches!(disk.open(), Err(StoreError::InUse { .. })), "a table is still in use");
    drop(table);
    disk.open().expect("open");
}
