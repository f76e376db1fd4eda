//! Directories that get ranks of their own: over the commands, restarts, and a dump that is loaded elsewhere.

use std::collections::BTreeSet;
use std::sync::Arc;

use loligo_driver::Address;
use loligo_driver::client::{Client, Fs, Options, Subtree, SubtreeOptions};
use loligo_types::{Cred, FsError, Rank};

use super::run::{Place, Service, loligo};

fn connect(place: &Place) -> (Client, Fs) {
    let address = Address::Unix(place.data().join("loligo.sock"));
    let client = Client::connect(&address, Options { name: "test".into(), ..Options::default() }).expect("it serves");
    let fs = client.fs(Arc::new(Cred::root()));
    (client, fs)
}

/// What a client finds in the tree that [`make`] makes.
fn look(fs: &Fs) {
    for n in 0..40 {
        assert_eq!(fs.read(format!("/top/d{n}/f")).expect("it is there"), format!("file {n}").into_bytes());
        assert_eq!(fs.stat(format!("/top/d{n}/e")).expect("it is there").nlink, 2);
    }
    assert_eq!(fs.stat("/top").map(|attr| (attr.size, attr.nlink)), Ok((40, 42)));
}

/// Forty directories with a file and a directory each; the ranks that they are at.
fn make(fs: &Fs) -> BTreeSet<Option<Rank>> {
    let one = |n| {
        let dir = fs.mkdir(format!("/top/d{n}"), 0o755).expect("made");
        fs.write(format!("/top/d{n}/f"), format!("file {n}").into_bytes()).expect("written");
        fs.mkdir(format!("/top/d{n}/e"), 0o755).expect("made");
        dir.ino.zeroth_rank()
    };
    (0..40).map(one).collect()
}

#[test]
fn directories_below_one_that_is_placed_so_are_at_all_ranks_and_survive_restarts_dumps_and_ranks_that_go() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 3 --set balancer=none", &[&data]);
    let (client, fs) = connect(&place);
    fs.mkdir("/top", 0o755).expect("made");
    let told = |words: &str| loligo(&format!("subtree {words}"), &[&data]).ok().out;
    assert!(told("place --data {} /top giga").contains("rank of their own"));
    assert_eq!(make(&fs), (0..3).map(|rank| Some(Rank(rank))).collect());
    look(&fs);
    // Nothing of that is in the subtree map: the root has the only line.
    let lines = loligo("subtree list --data {} --json", &[&data]).ok().json();
    assert_eq!(lines.as_array().map(Vec::len), Some(1), "{lines}");
    let decoupled = Subtree::decouple(&fs, "/top", &SubtreeOptions::default()).err();
    assert_eq!(decoupled, Some(FsError::NotSupported), "nobody could be kept out of what is all ranks'");
    client.stop(std::time::Duration::from_secs(10)).expect("it ends");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();

    let dump = place.dir.path().join("dump");
    std::fs::write(&dump, loligo("dump --data {}", &[&data]).ok().out).expect("written");
    let server = Service::start("serve --data {} --ranks 3 --set balancer=none", &[&data]);
    let (client, fs) = connect(&place);
    look(&fs);
    loligo("rank drain --data {} 1 --wait", &[&data]).ok();
    look(&fs);
    assert!(told("unplace --data {} /top").contains("with their names"));
    loligo("subtree unplace --data {} /top", &[&data]).fails(1, &["does not say"]);
    client.stop(std::time::Duration::from_secs(10)).expect("it ends");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();

    // Elsewhere there is one rank at first.
    let other = Place::new();
    loligo("load --data {} {}", &[&other.data(), &dump]).ok();
    loligo("fsck --data {}", &[&other.data()]).ok();
    let server = Service::start("serve --data {} --ranks 1 --set balancer=none", &[&other.data()]);
    let (client, fs) = connect(&other);
    look(&fs);
    loligo("rank add --data {} 2", &[&other.data()]).ok();
    look(&fs);
    fs.mkdir("/top/d0/more", 0o755).expect("made");
    for n in 0..40 {
        fs.unlink(format!("/top/d{n}/f")).expect("it goes");
        fs.rmdir(format!("/top/d{n}/e")).expect("it goes");
    }
    client.stop(std::time::Duration::from_secs(10)).expect("it ends");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&other.data()]).ok();
}

#[test]
fn a_subtree_with_such_directories_further_below_is_decoupled_and_its_owner_finds_them() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 3 --set balancer=none", &[&data]);
    let (client, fs) = connect(&place);
    fs.mkdir("/plain", 0o755).expect("made");
    fs.mkdir("/plain/top", 0o755).expect("made");
    loligo("subtree place --data {} /plain/top giga", &[&data]).ok();
    for n in 0..10 {
        fs.mkdir(format!("/plain/top/d{n}"), 0o755).expect("made");
        fs.write(format!("/plain/top/d{n}/f"), b"old".to_vec()).expect("written");
    }
    let mut job = Subtree::decouple(&fs, "/plain", &SubtreeOptions::default()).expect("nobody uses it");
    for n in 0..10 {
        assert_eq!(&*job.read(format!("top/d{n}/f")).expect("it is there"), b"old");
        job.write(format!("top/d{n}/new"), b"new".to_vec()).expect("written");
        assert_eq!(fs.read(format!("/plain/top/d{n}/f")), Err(FsError::Busy), "d{n} is its owner's now");
    }
    job.merge().expect("his");
    job.recouple().expect("nothing is outstanding");
    for n in 0..10 {
        assert_eq!(fs.read(format!("/plain/top/d{n}/new")).expect("merged"), b"new");
    }
    client.stop(std::time::Duration::from_secs(10)).expect("it ends");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}
