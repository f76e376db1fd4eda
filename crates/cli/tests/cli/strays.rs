//! Objects that no file needs, left by clients that died with their server: the next start finds them. Those that `loligo fsck` finds:
//! `damage.rs`, `care.rs`.

use std::path::{Path, PathBuf};

use loligo_driver::client::{Client, Options};
use loligo_store::{Backend, ObjectId};
use loligo_store_local::{LocalStore, OpenOptions};
use loligo_types::Cred;

use super::run::{PATIENCE, Place, Service, loligo, until};

/// The files of all objects.
fn objects(dir: &Path) -> Vec<PathBuf> {
    let entries: Vec<PathBuf> =
        std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let files =
        entries.iter().filter(|path| path.extension().is_some_and(|index| !index.to_string_lossy().ends_with('+')));
    let mut all: Vec<PathBuf> = files.cloned().collect();
    all.extend(entries.iter().filter(|path| path.is_dir()).flat_map(|path| objects(path)));
    all
}

#[test]
fn what_writers_left_that_died_with_their_server_goes_after_the_next_start() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --admin off", &[&data]);
    let client = Client::connect(&loligo_driver::socket_in(&data), Options::default()).expect("a connection");
    let fs = client.fs(Cred::root().into());
    let made = |name: &str, len: usize| {
        fs.write(name, vec![7; len]).expect("it is written");
        fs.stat(name).expect("it is there").ino
    };
    let (small, removed, large) = (made("/small", 100), made("/removed", 100), made("/large", 40_000));
    fs.unlink("/removed").expect("it is there");
    fs.sync_all().expect("it is synced");
    client.stop(PATIENCE).expect("a clean end");
    server.kill();
    // As of clients that moved a file out of its inode, wrote beyond the end of one, and wrote one that was removed, and told nobody.
    let store = LocalStore::open(&data, &OpenOptions::default()).expect("nobody has it");
    for (ino, index) in [(small, 0), (removed, 0), (removed, 3), (large, 9)] {
        store.blobs().write_at(ObjectId::new(ino.0, index), 0, &[1; 20_000]).expect("it is written");
    }
    drop(store);
    let of_objects = || objects(&data.join("objects"));
    assert_eq!(of_objects().len(), 5);
    let server = Service::start("serve --data {} --admin off --set grace_ms=100", &[&data]);
    until("only what a file needs is left", || of_objects().len() == 1);
    let client = Client::connect(&loligo_driver::socket_in(&data), Options::default()).expect("a connection");
    let fs = client.fs(Cred::root().into());
    assert_eq!(fs.read("/small").expect("it reads"), vec![7; 100]);
    assert_eq!(fs.read("/large").expect("it reads"), vec![7; 40_000]);
    client.stop(PATIENCE).expect("a clean end");
    assert_eq!(server.stop().0, 0);
    let told = loligo("fsck --data {} --data-checksums --json", &[&data]).ok().json();
    assert_eq!((&told["found"], &told["leftover_objects"]), (&0.into(), &0.into()), "{told}");
}
