//! Directories whose fragments are several ranks': moved, refused, brought together, and what holds in all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_driver::client::{Call, Client, Options};
use loligo_types::{Answer, Cred, Ino, Op, XattrMode};

use super::run::{Place, Service, loligo, until};

#[test]
fn fragments_of_a_directory_move_are_refused_and_come_together_again() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 3 --set balancer=none", &[&data]);
    let client = Client::connect(&loligo_driver::socket_in(&data), Options::default()).expect("a connection");
    let fs = client.fs(Arc::new(Cred::root()));
    fs.mkdir("/d", 0o755).expect("made");
    for n in 0..50 {
        fs.write(format!("/d/{n}"), n.to_string().into_bytes()).expect("written");
    }
    let told = |words: &str| loligo(&format!("subtree {words} --data {{}}"), &[&data]);
    let text = told("migrate /d 1 --frag 1/1").ok().out;
    assert!(text.starts_with("fragment 1/1 of /d moved from rank 0 to rank 1 in "), "{text}");
    let done = told("migrate /d 2 --frag 3/2 --json").ok().json();
    assert_eq!((&done["frag"], &done["from"], &done["to"]), (&"3/2".into(), &1.into(), &2.into()));
    let begun = told("migrate /d 1 --frag 3/2 --no-wait").ok().out;
    assert_eq!(begun, "fragment 3/2 of /d moves from rank 2 to rank 1\n");
    until("the fragment is rank 1's", || ranks_of(&data, "/d").values().all(|rank| *rank < 2));
    // What cannot be.
    told("migrate /d 0 --frag 2/1").fails(2, &["2/1"]);
    told("migrate /d 0 --frag half").fails(2, &["half"]);
    told("migrate /d 0 --frag 0/25").fails(2, &["0/25"]);
    told("migrate /d 7 --frag 1/1").fails(1, &["no rank 7", "0, 1, 2"]);
    told("migrate /d 2 --frag 0/2").fails(1, &["own inode lives with fragment 0/2"]);
    told("migrate /d/1 2 --frag 1/1").fails(1, &["/d/1 is no directory"]);
    told("migrate /none 2 --frag 1/1").fails(1, &["/none", "no such file"]);
    told("gather /").fails(1, &["one rank's already"]);
    assert_eq!(fs.stat("/d").expect("it is there").size, 50);
    let dry = told("gather /d --dry-run").ok().out;
    assert!(dry.contains(" of /d: rank 1 -> 0\n") && dry.contains("nothing was changed"), "{dry}");
    assert!(ranks_of(&data, "/d").values().any(|rank| *rank != 0));
    let text = told("gather /d").ok().out;
    assert!(text.starts_with("the ranks give the fragments of /d to rank 0"), "{text}");
    until("the fragments are together", || ranks_of(&data, "/d").values().all(|rank| *rank == 0));
    for n in 0..50 {
        assert_eq!(fs.read(format!("/d/{n}")).expect("it is there"), n.to_string().as_bytes());
    }
    client.stop(std::time::Duration::from_secs(20)).expect("it stops");
    assert_eq!(server.stop().0, 0);
    loligo("fsck --data {}", &[&data]).ok();
}

/// The fragments of a directory that have lines of their own, and whose they are.
fn ranks_of(data: &std::path::Path, path: &str) -> BTreeMap<String, u64> {
    let lines = loligo("subtree list --data {} --json", &[data]).ok().json();
    let of_it = lines.as_array().expect("a list").iter().filter(|line| line["path"] == path);
    of_it.map(|line| (line["frag"].to_string(), line["rank"].as_u64().expect("a number"))).collect()
}

#[test]
fn a_default_acl_holds_at_both_ranks_of_a_directory_and_parts_are_there_offline() {
    let place = Place::new();
    let data = place.data();
    loligo("format --data {}", &[&data]).ok();
    let server = Service::start("serve --data {} --ranks 2 --set balancer=none", &[&data]);
    let client = Client::connect(&loligo_driver::socket_in(&data), Options::default()).expect("a connection");
    let fs = client.fs(Arc::new(Cred::root()));
    fs.mkdir("/d", 0o755).expect("made");
    // user::rwx, user:7:rwx, group::r-x, mask::rwx, other::---: set at one rank, then, changed, at both.
    set_acl(&client, fs.stat("/d").expect("it is there").ino, acl(7));
    loligo("subtree migrate --data {} /d 1 --frag 1/1", &[&data]).ok();
    let inherited = |from: u32, user: u32| {
        for n in from..from + 40 {
            let made = fs.mkdir(format!("/d/{n}"), 0o777).expect("made").ino;
            assert_eq!(acl_of(&client, made), acl(user), "/d/{n}");
        }
    };
    inherited(0, 7);
    set_acl(&client, fs.stat("/d").expect("it is there").ino, acl(8));
    inherited(40, 8);
    client.stop(std::time::Duration::from_secs(20)).expect("it stops");
    // Once from the journals, once from the table alone.
    server.kill();
    for _ in 0..2 {
        let text = loligo("fsck --data {}", &[&data]).ok().out;
        assert!(!text.contains("mended"), "{text}");
        let server = Service::start("serve --data {}", &[&data]);
        let client = Client::connect(&loligo_driver::socket_in(&data), Options::default()).expect("a connection");
        let stat = client.fs(Arc::new(Cred::root())).stat("/d").expect("it is there");
        assert_eq!((stat.size, stat.nlink), (80, 82));
        client.stop(std::time::Duration::from_secs(20)).expect("it stops");
        assert_eq!(server.stop().0, 0);
    }
    let copy = place.path("copy");
    let dump = place.path("dump");
    loligo("dump --data {} -o {}", &[&data, &dump]).ok();
    loligo("load --data {} {}", &[&copy, &dump]).ok();
    loligo("fsck --data {}", &[&copy]).ok();
}

/// A default ACL that lets one user more do all, as xattrs have it.
fn acl(user: u32) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in
        [(1u16, 7u16, u32::MAX), (2, 7, user), (4, 5, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)]
    {
        bytes.extend(tag.to_le_bytes().into_iter().chain(perm.to_le_bytes()).chain(id.to_le_bytes()));
    }
    bytes
}

const DEFAULT_ACL: &[u8] = b"system.posix_acl_default";

fn set_acl(client: &Client, ino: Ino, value: Vec<u8>) {
    let op = Op::SetXattr { ino, name: Arc::from(DEFAULT_ACL), value: value.into(), mode: XattrMode::Set };
    client.call(&Arc::new(Cred::root()), Call::Op(op)).expect("set");
}

fn acl_of(client: &Client, ino: Ino) -> Vec<u8> {
    let op = Op::GetXattr { ino, name: Arc::from(DEFAULT_ACL) };
    match client.call(&Arc::new(Cred::root()), Call::Op(op)).expect("inherited").answer {
        Answer::Bytes(bytes) => bytes.to_vec(),
        other => panic!("{other:?}"),
    }
}
