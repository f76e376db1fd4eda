//! The store on a real cluster, whose configuration file `LOLIGO_CEPH_CONF` names (`scripts/ceph.sh up DIR`). Without that variable nothing
//! is tested, and each test says so.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loligo_rados::{Cluster, WriteOp};

use loligo_store::conformance::{self, Fixture};
use loligo_store::{Backend, Batch, Durability, ObjectId, StoreError};
use loligo_store_rados::{FormatOptions, OpenOptions, Place, RadosCheck, RadosStore};

/// A place of the test's own; `None` without a cluster.
fn place() -> Option<Place> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let Ok(conf) = std::env::var("LOLIGO_CEPH_CONF") else {
        eprintln!("not tested: LOLIGO_CEPH_CONF names no cluster");
        return None;
    };
    let namespace = format!("store.{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    Some(Place { conf, user: "client.admin".into(), pool: "rados_test".into(), namespace })
}

fn formatted() -> Option<Place> {
    let place = place()?;
    RadosStore::format(&place, &FormatOptions::default()).expect("there is nothing");
    Some(place)
}

struct InPool(Place, u64);

impl Fixture for InPool {
    fn open(&mut self) -> Arc<dyn Backend> {
        let options = OpenOptions { range_keys: self.1, ..OpenOptions::default() };
        Arc::new(RadosStore::open(&self.0, &options).expect("open"))
    }

    fn tells_zeros_from_holes(&self) -> bool {
        false
    }

    fn knows_space(&self) -> bool {
        // Without a manager nobody does.
        let cluster = Cluster::connect(&self.0.conf, &self.0.user, &[]).expect("there is a cluster");
        cluster.space().expect("it answers").total > 0
    }
}

#[test]
fn the_backend_on_a_cluster_passes_the_suite() {
    if place().is_none() {
        return;
    }
    conformance::run(&|| Box::new(InPool(formatted().expect("there is a cluster"), 100_000)) as Box<dyn Fixture>);
}

#[test]
fn and_with_ranges_that_are_cut_all_the_time() {
    if place().is_none() {
        return;
    }
    conformance::run(&|| Box::new(InPool(formatted().expect("there is a cluster"), 20)) as Box<dyn Fixture>);
}

#[test]
fn a_pool_without_a_file_system_and_one_that_has_one_are_told_apart() {
    let Some(place) = place() else { return };
    assert!(matches!(RadosStore::identify(&place), Err(StoreError::Foreign { .. })));
    let made = RadosStore::format(&place, &FormatOptions::default()).expect("there is nothing");
    assert_eq!(RadosStore::identify(&place), Ok(made));
    assert!(matches!(
        RadosStore::format(&place, &FormatOptions::default()),
        Err(StoreError::AlreadyFormatted { fs_id, .. }) if fs_id == made.fs_id_hex()
    ));
    let missing = Place { pool: "no such pool".into(), ..place };
    assert!(matches!(RadosStore::identify(&missing), Err(StoreError::NotFound { .. })));
}

#[test]
fn a_second_owner_is_refused_until_the_first_one_is_gone() {
    let Some(place) = formatted() else { return };
    let first = RadosStore::open(&place, &OpenOptions::default()).expect("it is free");
    let error = RadosStore::open(&place, &OpenOptions::default()).err().expect("it is in use");
    assert!(matches!(&error, StoreError::InUse { owner, .. } if owner.contains("process")), "{error}");
    drop(first);
    RadosStore::open(&place, &OpenOptions::default()).expect("it is free again");
}

#[test]
fn ranges_are_cut_while_several_ranks_write_to_them() {
    let Some(place) = formatted() else { return };
    let options = OpenOptions { range_keys: 60, ..OpenOptions::default() };
    let store = RadosStore::open(&place, &options).expect("it is free");
    std::thread::scope(|scope| {
        for rank in 0..4u32 {
            let table = store.table_of(rank).expect("nobody has it");
            scope.spawn(move || {
                for number in 0..40u32 {
                    let mut batch = Batch::new();
                    for part in 0..5u32 {
                        let key = format!("{:02}.{rank}.{part}", (number * 7) % 40);
                        batch.put(key, number.to_le_bytes());
                    }
                    if number % 2 == 0 {
                        table.write_rows(&batch).expect("there is space");
                    } else {
                        table.write(&batch, Durability::Sync).expect("there is space");
                    }
                }
            });
        }
    });
    let rows = store.table().scan(b"", b"", usize::MAX).expect("scan");
    assert_eq!(rows.len(), 4 * 40 * 5);
    assert!(rows.is_sorted());
    let size = store.table().approximate_size().expect("size");
    assert!((600..=1200).contains(&size.keys), "{size:?}");
}

/// Writes to an object of a store over a raw connection.
fn raw(place: &Place, object: &str, fill: impl FnOnce(&mut WriteOp)) {
    let cluster = Cluster::connect(&place.conf, &place.user, &[]).expect("there is a cluster");
    let pool = cluster.pool(&place.pool, &place.namespace).expect("the pool is there");
    let mut op = WriteOp::new().expect("librados is there");
    fill(&mut op);
    op.run(&pool, object).expect("it is done");
}

#[test]
fn a_write_of_an_earlier_epoch_is_refused_by_each_object_that_knows_of_a_later_one() {
    let Some(place) = formatted() else { return };
    let store = RadosStore::open(&place, &OpenOptions::default()).expect("it is free");
    let (dir, table) = (store.log_dir(1).expect("log_dir"), store.table_of(1).expect("nobody has it"));
    let mut file = dir.create(7).expect("create");
    file.append(b"before").expect("append");
    file.sync().expect("sync");
    let mut batch = Batch::new();
    batch.put(b"key".as_slice(), b"before".as_slice());
    table.write_rows(&batch).expect("it is its own");
    // As one that takes over does it.
    let later = |op: &mut WriteOp| _ = op.set_xattr("epoch.rank.1", &2u64.to_le_bytes()).expect("a name");
    for object in ["journal.1", "journal.1.0000000000000007.0", "table.0", "batch.rank.1"] {
        raw(&place, object, later);
    }
    file.append(b"late").expect("it is only begun");
    assert!(matches!(file.sync(), Err(StoreError::Fenced { .. })));
    assert!(matches!(file.append(b"later"), Err(StoreError::Fenced { .. })), "nothing comes behind it");
    assert!(matches!(dir.create(8).err(), Some(StoreError::Fenced { .. })));
    assert!(matches!(dir.delete(7), Err(StoreError::Fenced { .. })));
    assert!(matches!(dir.truncate(7, 0), Err(StoreError::Fenced { .. })));
    batch.put(b"key".as_slice(), b"late".as_slice());
    assert!(matches!(table.write_rows(&batch), Err(StoreError::Fenced { .. })));
    assert!(matches!(table.write(&batch, Durability::Sync), Err(StoreError::Fenced { .. })));
    assert_eq!(dir.open(7).expect("open").len(), Ok(6));
    assert_eq!(store.table().get(b"key"), Ok(Some(b"before".to_vec())));
    // What others own is theirs still.
    store.table().write(&batch, Durability::Sync).expect("another slot");
}

/// The process that is stopped: owns a rank, writes, waits for a word, and writes again.
#[test]
fn zombie() {
    let Ok(namespace) = std::env::var("LOLIGO_ZOMBIE") else { return };
    let place = Place { namespace, ..place().expect("there is a cluster") };
    let lease = std::env::var("LOLIGO_ZOMBIE_LEASE").map_or(2, |seconds| seconds.parse().expect("seconds"));
    let options = OpenOptions { lease: Duration::from_secs(lease), ..OpenOptions::default() };
    let store = RadosStore::open(&place, &options).expect("it is free");
    let lease = store.lease().expect("another one may take over");
    let (dir, table) = (store.log_dir(0).expect("log_dir"), store.table_of(0).expect("nobody has it"));
    let mut file = dir.create(1).expect("create");
    file.append(b"acknowledged").expect("append");
    file.sync().expect("sync");
    let mut batch = Batch::new();
    batch.put(b"key".as_slice(), b"zombie".as_slice());
    println!("zombie: ready, lease {}", lease.holds());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the test is there");
    let holds = lease.holds();
    let wrote = file.append(b"late").and_then(|()| file.sync());
    println!(
        "zombie: woken, lease {holds}, journal {:?}, table {:?}",
        is_fenced(wrote),
        is_fenced(table.write_rows(&batch))
    );
}

/// That process, with a lease of so many seconds.
fn start_zombie(place: &Place, lease: u32) -> Child {
    Command::new(std::env::current_exe().expect("this one"))
        .args(["zombie", "--exact", "--nocapture"])
        .envs([("LOLIGO_ZOMBIE", place.namespace.clone()), ("LOLIGO_ZOMBIE_LEASE", lease.to_string())])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts")
}

fn is_fenced<T>(done: Result<T, StoreError>) -> bool {
    matches!(done, Err(StoreError::Fenced { .. }))
}

#[test]
fn a_stopped_owner_is_replaced_and_what_it_writes_when_it_wakes_is_refused() {
    let Some(place) = formatted() else { return };
    let mut child = start_zombie(&place, 2);
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let mut said = || lines.find(|line| line.starts_with("zombie")).expect("it says so");
    assert_eq!(said(), "zombie: ready, lease true");
    let pid = child.id().to_string();
    let signal = |name: &str| assert!(Command::new("kill").args([name, &pid]).status().expect("kill").success());
    signal("-STOP");
    let store = RadosStore::open(&place, &OpenOptions::default()).expect("its owner is silent");
    store.own(0).expect("so is the rank's");
    let dir = store.log_dir(0).expect("log_dir");
    assert_eq!(dir.open(1).expect("open").len(), Ok(12));
    signal("-CONT");
    child.stdin.take().expect("piped").write_all(b"go\n").expect("it waits");
    assert_eq!(said(), "zombie: woken, lease false, journal true, table true");
    child.wait().expect("it ends");
    assert_eq!(dir.open(1).expect("open").len(), Ok(12), "nothing was added");
    assert_eq!(store.table().get(b"key"), Ok(None));
}

#[test]
fn an_owner_that_was_killed_is_replaced_at_once_on_the_same_machine() {
    let Some(place) = formatted() else { return };
    // A lease that nobody waits for in a test.
    let mut child = start_zombie(&place, 600);
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("zombie: ready")));
    child.kill().expect("kill");
    child.wait().expect("it ends");
    let store = RadosStore::open(&place, &OpenOptions::default()).expect("its owner is dead");
    store.own(0).expect("so is the rank's");
    assert_eq!(store.log_dir(0).expect("log_dir").open(1).expect("open").len(), Ok(12));
}

#[test]
fn a_segment_of_many_pieces_is_written_read_cut_and_removed() {
    let Some(place) = formatted() else { return };
    let store = RadosStore::open(&place, &OpenOptions::default()).expect("it is free");
    let dir = store.log_dir(0).expect("log_dir");
    let mut file = dir.create(1).expect("create");
    // Beside and over the ends of pieces, one of many pieces, and one that ends where a piece does.
    let mut want: Vec<u8> = Vec::new();
    let (to, landed) = std::sync::mpsc::channel();
    for (at, len) in [100_000usize, 31_071, 1, 1_000_000, 131_072 * 3, 5].into_iter().enumerate() {
        let to = to.clone();
        let bytes = vec![at as u8 + 1; len];
        file.append_then(&bytes, Box::new(move |done| to.send((at, done)).expect("the test waits"))).expect("append");
        want.extend(bytes);
    }
    let pad = (131_072 - want.len() % 131_072) % 131_072;
    file.append(&vec![9; pad]).expect("append");
    want.extend(vec![9; pad]);
    file.sync().expect("sync");
    drop(to);
    assert_eq!(
        landed.iter().map(|(at, done)| (at, done.is_ok())).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 5].map(|at| (at, true))
    );
    drop(file);
    let read = |dir: &dyn loligo_store::LogDir| {
        let reader = dir.open(1).expect("open");
        let mut bytes = vec![0; reader.len().expect("len") as usize + 10];
        let n = reader.read_at(0, &mut bytes).expect("read_at");
        bytes.truncate(n);
        bytes
    };
    assert!(read(&*dir) == want, "it is what was written");
    drop((dir, store));
    // The next owner goes on exactly behind a piece, and then within one.
    let store = RadosStore::open(&place, &OpenOptions::default()).expect("it is free");
    let dir = store.log_dir(0).expect("log_dir");
    for bytes in [vec![7; 10], vec![8; 200_000]] {
        let mut file = dir.open_append(1).expect("open_append");
        assert_eq!(file.len(), want.len() as u64);
        file.append(&bytes).expect("append");
        file.sync().expect("sync");
        want.extend(bytes);
    }
    assert!(read(&*dir) == want, "it is what was written");
    for len in [want.len() - 1, 131_072 * 2 + 5, 131_072, 3, 0] {
        dir.truncate(1, len as u64).expect("truncate");
        want.truncate(len);
        assert!(read(&*dir) == want, "cut to {len}");
        let mut file = dir.open_append(1).expect("open_append");
        file.append(b"more").expect("append");
        file.sync().expect("sync");
        want.extend(b"more");
        assert!(read(&*dir) == want, "gone on from {len}");
    }
    dir.delete(1).expect("delete");
    assert_eq!(dir.list(), Ok(vec![]));
    let cluster = Cluster::connect(&place.conf, &place.user, &[]).expect("there is a cluster");
    let pool = cluster.pool(&place.pool, &place.namespace).expect("the pool is there");
    let mut left = Vec::new();
    let mut each = |name: &str| {
        left.extend(name.starts_with("journal.0.").then(|| name.to_owned()));
        std::ops::ControlFlow::Continue(())
    };
    pool.list(&mut each).expect("list");
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_batch_that_was_cut_off_is_finished_by_the_next_owner() {
    let Some(place) = formatted() else { return };
    let store = RadosStore::open(&place, &OpenOptions::default()).expect("it is free");
    store.own(3).expect("nobody has it");
    drop(store);
    // As `table/batch.rs` puts it down: version, two changes, checksum.
    let mut bytes = vec![1, 2, 0, 0, 0];
    bytes.extend([1, 0, 0, 0, b'a', 1, 1, 0, 0, 0, b'1']);
    bytes.extend([1, 0, 0, 0, b'b', 1, 1, 0, 0, 0, b'2']);
    let sum = crc32c::crc32c(&bytes);
    bytes.extend(sum.to_le_bytes());
    raw(&place, "batch.rank.3", |op| _ = op.write_full(&bytes));
    let store = RadosStore::open(&place, &OpenOptions::default()).expect("it is free");
    assert_eq!(store.table().get(b"a"), Ok(None));
    store.own(3).expect("nobody has it");
    let rows = store.table().scan(b"", b"", 9).expect("scan");
    assert_eq!(rows, [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())]);
}

#[test]
fn a_check_finds_nothing_wrong_while_ranges_are_cut_and_segments_come_and_go() {
    let Some(place) = formatted() else { return };
    let options = OpenOptions { range_keys: 20, ..OpenOptions::default() };
    let store = RadosStore::open(&place, &options).expect("it is free");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let looked = RadosCheck::of(&place).expect("there is a file system");
    let mut ranges = 0;
    std::thread::scope(|scope| {
        let (store, stop) = (&store, &stop);
        for rank in 0..2u32 {
            let (table, dir) = (store.table_of(rank).expect("nobody has it"), store.log_dir(rank).expect("log_dir"));
            scope.spawn(move || {
                for number in 1u64.. {
                    if stop.load(Ordering::Acquire) {
                        break;
                    }
                    // Over several ranges, at once and one by one.
                    let mut batch = Batch::new();
                    for part in 0..6u64 {
                        batch.put(format!("{:03}.{rank}.{number}", (number * 37 + part * 131) % 1000), vec![7; 50]);
                    }
                    let written =
                        if number % 2 == 0 { table.write_rows(&batch) } else { table.write(&batch, Durability::Sync) };
                    written.expect("there is space");
                    let mut file = dir.create(number).expect("create");
                    file.append(&vec![1; 300_000]).and_then(|()| file.sync()).expect("there is space");
                    if number > 2 {
                        dir.delete(number - 2).expect("delete");
                    }
                    store.blobs().write_at(ObjectId::new(number, number), 0, b"data").expect("there is space");
                    if number > 4 {
                        store.blobs().delete_all(number - 4).expect("delete");
                    }
                }
            });
        }
        let looks: Vec<_> = (0..6).map(|_| looked.run(&mut |_| ())).collect();
        // Before anything is asserted: else the writers would never end.
        stop.store(true, Ordering::Release);
        for checked in looks {
            let checked = checked.expect("it can be looked at");
            let wrong: Vec<_> = checked.findings.iter().filter(|finding| finding.is_wrong).collect();
            assert!(wrong.is_empty(), "{wrong:?}");
            assert!(checked.server.is_some(), "its beat is heard");
            ranges = checked.counts["ranges"];
        }
    });
    assert!(ranges > 5, "{ranges} ranges");
    drop(store);
    let checked = looked.run(&mut |_| ()).expect("it can be looked at");
    assert!(
        checked.findings.iter().all(|finding| finding.text.contains("ranges of the table are empty")),
        "{checked:?}"
    );
}
