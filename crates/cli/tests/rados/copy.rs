//! A file system moves from a data directory into the cluster and back.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loligo_driver::offline::copy::{Copier, CopyError};
use loligo_journal::table::{Meta, key_meta};
use loligo_rados::{Cluster, WriteOp};
use loligo_store::{Backend, Batch, Durability, ObjectId};
use loligo_store_local::{FormatOptions, LocalStore, OpenOptions};
use loligo_store_rados as rados;
use loligo_types::Rank;

use crate::servers::{LOLIGO, PATIENCE, Place, connect};

fn large() -> Vec<u8> {
    (0..9_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Runs a command without a store of its own; its output, and what else it said.
#[track_caller]
fn loligo(args: &[&str], code: i32) -> (String, String) {
    let output = Command::new(LOLIGO).args(args).arg("--quiet").output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{args:?}: {out}{err}");
    (out, err)
}

#[track_caller]
fn copy(place: &Place, from: &str, to: &str, code: i32) -> (String, String) {
    loligo(&["copy", "--from", from, "--to", to, "--conf", &place.conf], code)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are UTF-8")
}

/// A file system in a directory, with small files and a large one, whose server was killed.
fn local(place: &Place) -> String {
    let data = place.path().join("local");
    loligo(&["format", "--data", text(&data)], 0);
    let mut server = Command::new(LOLIGO)
        .args(["serve", "--admin", "off", "--ranks", "2", "--data", text(&data)])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let fs = connect(&format!("unix:{}", data.join("loligo.sock").display()).parse().expect("an address"));
    fs.write("/large", large()).expect("there is room");
    for number in 0..50 {
        fs.write(format!("/small.{number}"), vec![number; 100]).expect("there is room");
    }
    fs.sync_all().expect("there is room");
    server.kill().expect("it runs");
    server.wait().expect("its end");
    text(&data).to_string()
}

#[test]
fn a_file_system_moves_into_the_cluster_is_served_there_and_moves_back() {
    let Some(place) = Place::new() else { return };
    let from = local(&place);
    let (line, more) = copy(&place, &from, &place.store, 0);
    assert!(line.contains("all read back and compared"), "{line}");
    assert!(more.contains("serve only one") && more.contains(&format!("--store {}", place.store)), "{more}");
    let back = text(&place.path().join("back")).to_string();
    copy(&place, &place.store, &back, 0);
    loligo(&["fsck", "--data", &back, "--data-checksums"], 0);
    let dump = |data: &str| loligo(&["dump", "--without-data", "--data", data], 0).0;
    assert_eq!(dump(&back), dump(&from));
    // It is served there, and killed: what was done there comes along, too.
    let mut server = place.serve(0, &[]);
    server.until_serves();
    let (_, error) = copy(&place, &place.store, text(&place.path().join("never")), 1);
    assert!(
        error.contains("is in use by another server") && error.contains("a store on RADOS makes no snapshots"),
        "{error}"
    );
    let fs = connect(&place.address(1));
    assert!(fs.read("/large").expect("it reads")[..] == large()[..]);
    fs.write("/new", vec![9; 5_000_000]).expect("there is room");
    fs.unlink("/small.7").expect("it is there");
    fs.sync_all().expect("there is room");
    drop(fs);
    server.kill();
    let (home, data) = (text(&place.path().join("home")).to_string(), text(&place.data(0)).to_string());
    // By its directory, which says where it is.
    copy(&place, &data, &home, 0);
    loligo(&["fsck", "--data", &home, "--data-checksums"], 0);
    loligo(&["fsck", "--data", &data], 0);
    assert_eq!(dump(&home), dump(&data));
    assert!(dump(&home).contains("small.6 ") && !dump(&home).contains("small.7 "));
    let (again, _) = copy(&place, &home, &place.store, 1);
    assert_eq!(again, "", "there is a file system");
}

#[test]
fn a_copy_into_the_cluster_that_was_cut_off_is_refused_by_name_and_goes_on() {
    let Some(place) = Place::new() else { return };
    let from = local(&place);
    copy(&place, &from, &place.store, 0);
    let (pool, namespace) = place.store["rados:".len()..].split_once('/').expect("both");
    let at = rados::Place {
        conf: place.conf.clone(),
        user: "client.admin".into(),
        pool: pool.into(),
        namespace: namespace.into(),
    };
    // As if it had been about to end, and with an object that is not right.
    let store = rados::RadosStore::open(&at, &rados::OpenOptions::default()).expect("nobody has it");
    let mut batch = Batch::new();
    batch.put(key_meta(Meta::Copying, Rank::ZERO), [2, 1]).delete(key_meta(Meta::Format, Rank::ZERO));
    store.table().write(&batch, Durability::Sync).expect("there is room");
    let mut some = None;
    let listed = store.blobs().list(&mut |id, _| {
        some = Some(id);
        std::ops::ControlFlow::Break(())
    });
    listed.expect("it lists");
    store.blobs().write_at(some.expect("an object"), 100, b"not right").expect("there is room");
    store.blobs().write_at(ObjectId::new(0x999, 3), 0, b"of nobody").expect("there is room");
    drop(store);
    for command in ["serve", "format"] {
        let said = place.run(&[command], 1);
        assert!(said.contains("did not come to its end") && said.contains("loligo copy --from STORE"), "{said}");
    }
    let (line, more) = copy(&place, &from, &place.store, 0);
    assert!(line.contains("(2 were there already)"), "{line}");
    assert!(more.contains("it goes on with what is right of that"), "{more}");
    let back = text(&place.path().join("back")).to_string();
    copy(&place, &place.store, &back, 0);
    loligo(&["fsck", "--data", &back, "--data-checksums"], 0);
    let fs_objects = LocalStore::open(&back, &OpenOptions::default()).expect("nobody has it").blobs();
    assert_eq!(fs_objects.objects_of(0x999), Ok(vec![]));
}

#[test]
fn what_another_server_takes_over_while_it_is_copied_becomes_no_file_system() {
    let Some(place) = Place::formatted() else { return };
    let (pool, namespace) = place.store["rados:".len()..].split_once('/').expect("both");
    let at = rados::Place {
        conf: place.conf.clone(),
        user: "client.admin".into(),
        pool: pool.into(),
        namespace: namespace.into(),
    };
    let store = rados::RadosStore::open(&at, &rados::OpenOptions::default()).expect("nobody has it");
    let (identity, lease) = (store.identity(), store.lease().expect("it is shared"));
    let copier = Copier::of(Arc::new(store), &mut |_| ()).expect("a file system");
    // As one takes it over that has found its owner silent (docs/formats/rados.md).
    let mut record = vec![1, 1];
    record.extend(99u64.to_le_bytes());
    record.extend(1u64.to_le_bytes());
    record.extend(1500u32.to_le_bytes());
    record.extend([0; 12]);
    let cluster = Cluster::connect(&at.conf, &at.user, &[]).expect("there is a cluster");
    let slots = cluster.pool(&at.pool, &at.namespace).expect("the pool is there");
    let mut op = WriteOp::new().expect("librados is there");
    op.omap_set([(b"fs".as_slice(), record.as_slice())]);
    op.run(&slots, "slots").expect("it is there");
    // One that takes over waits for as long as the lease, so until its next beat the other one may believe that it holds.
    let until = Instant::now() + PATIENCE;
    while lease.holds() || lease.lost().is_none() {
        assert!(Instant::now() < until, "its beat is refused within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    let to = place.path().join("copy");
    LocalStore::format(&to, &FormatOptions { identity: Some(identity) }).expect("it is empty");
    let target = LocalStore::open(&to, &OpenOptions::default()).expect("nobody has it");
    let copied = copier.copy(&target, &mut |_| ());
    assert!(matches!(copied, Err(CopyError::Taken { .. })), "{copied:?}");
    drop(target);
    let (_, error) = loligo(&["serve", "--data", text(&to)], 1);
    assert!(error.contains("did not come to its end"), "{error}");
}

#[test]
fn objects_that_the_cluster_does_not_take_are_refused_before_anything_is_made() {
    let Some(place) = Place::new() else { return };
    let from = place.path().join("local");
    loligo(&["format", "--data", text(&from)], 0);
    let store = LocalStore::open(&from, &OpenOptions::default()).expect("nobody has it");
    store.blobs().truncate(ObjectId::new(0x123, 5), (64 << 20) + 1).expect("there is room");
    store.close().expect("it closes");
    drop(store);
    let (_, error) = copy(&place, text(&from), &place.store, 1);
    assert!(error.contains("object 123.5 has 67108865 bytes") && error.contains("at most 67108864"), "{error}");
    place.run(&["format"], 0);
    let (_, error) = copy(&place, text(&from), "rados:no such pool", 1);
    assert!(error.contains("ceph osd pool create"), "{error}");
}

#[test]
fn a_name_space_that_was_made_for_another_file_system_is_left_alone() {
    let Some(place) = Place::formatted() else { return };
    let from = place.path().join("local");
    LocalStore::format(&from, &FormatOptions::default()).expect("it is empty");
    loligo(&["format", "--data", text(&from)], 0);
    let (_, error) = copy(&place, text(&from), &place.store, 1);
    assert!(error.contains("there is a file system in this store already"), "{error}");
}
