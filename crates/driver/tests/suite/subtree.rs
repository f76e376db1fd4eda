//! Decoupled subtrees for a program: what is kept where, and who sees it when, over a real server and its socket.

use std::sync::Arc;
use std::time::Duration;

use crate::common::Site;
use loligo_driver::Address;
use loligo_driver::client::subtree::{Kept, KeptError};
use loligo_driver::client::{Client, Fs, Options, Subtree, SubtreeOptions};
use loligo_journal::segment::SEGMENT_HEADER_LEN;
use loligo_types::{ConflictKind, Cred, FsError, Interfere, SetAttr};

fn connect(site: &Site) -> (Client, Fs) {
    let address = Address::Unix(site.socket());
    let client = Client::connect(&address, Options { name: "job".into(), ..Options::default() }).expect("it serves");
    let fs = client.fs(Arc::new(Cred::root()));
    (client, fs)
}

fn stop(client: &Client) {
    client.stop(Duration::from_secs(10)).expect("it ends");
}

#[test]
fn a_program_makes_a_tree_by_itself_and_merges_it() {
    let site = Site::new();
    let _server = site.start();
    let (client, fs) = connect(&site);
    let (other, seen) = connect(&site);
    fs.mkdir("/job", 0o755).expect("made");
    fs.mkdir("/job/in", 0o755).expect("made");
    for n in 0..300 {
        fs.write(format!("/job/in/f{n}"), format!("input {n}").into_bytes()).expect("written");
    }
    let mut job = Subtree::decouple(&fs, "/job", &SubtreeOptions::default()).expect("nobody uses it");
    assert_eq!(&*job.read("in/f7").expect("it is there"), b"input 7");
    assert_eq!(job.readdir("in").expect("a directory").len(), 300);
    job.mkdir("out", 0o750).expect("made");
    // More than the numbers that were granted.
    for n in 0..1000 {
        job.write(format!("out/f{n}"), format!("output {n}").into_bytes()).expect("made");
    }
    assert_eq!(job.create("out/f1", 0o644), Err(FsError::Exists));
    job.rename("out/f1", "in/moved").expect("both are in it");
    job.unlink("in/f3").expect("it is there");
    job.symlink("in", "link").expect("made");
    job.set_attr("in", SetAttr { mode: Some(0o711), ..SetAttr::default() }).expect("it is root's");
    assert_eq!(job.write("out/long", vec![0; 100_000]), Err(FsError::FileTooBig));
    job.unlink("out/long").expect("the file is there, empty");
    assert_eq!(seen.stat("/job/out"), Err(FsError::Busy));
    assert!(job.outstanding().changes > 1000);
    let merged = job.merge().expect("it is his");
    assert!(merged.steps == 1 && merged.records > 1, "{merged:?}");
    assert_eq!(job.outstanding().changes, 0);
    assert_eq!(seen.stat("/job/out"), Err(FsError::Busy), "merged, and still decoupled");
    job.write("out/f2", b"again".to_vec()).expect("there");
    assert_eq!(job.recouple(), Err(FsError::NotEmpty), "something is outstanding");
    job.merge().expect("his");
    job.recouple().expect("nothing is outstanding");
    assert_eq!(seen.stat("/job/out").expect("seen").size, 999);
    assert_eq!(seen.read("/job/out/f2").expect("seen"), b"again");
    assert_eq!(seen.read("/job/in/moved").expect("seen"), b"output 1");
    assert_eq!(seen.stat("/job/in/f3"), Err(FsError::NotFound));
    assert_eq!(seen.read("/job/link/f7").expect("seen"), b"input 7");
    assert_eq!(seen.stat("/job/in").expect("seen").mode, 0o711);
    // It is a directory like any.
    fs.write("/job/out/late", b"x".to_vec()).expect("written");
    stop(&client);
    stop(&other);
}

#[test]
fn what_is_not_merged_is_seen_by_nobody_and_gone_when_it_is_given_up() {
    let site = Site::new();
    let _server = site.start();
    let (client, fs) = connect(&site);
    fs.mkdir("/job", 0o755).expect("made");
    let mut job = Subtree::decouple(&fs, "/job", &SubtreeOptions::default()).expect("free");
    job.write("f", b"x".to_vec()).expect("made");
    job.abandon().expect("his");
    assert_eq!(fs.stat("/job/f"), Err(FsError::NotFound));
    stop(&client);
}

#[test]
fn after_the_death_of_its_process_another_one_merges_what_was_persisted_and_no_more() {
    let site = Site::new();
    let server = site.start();
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("job.journal");
    let (client, fs) = connect(&site);
    fs.mkdir("/job", 0o755).expect("made");
    fs.write("/job/old", b"old".to_vec()).expect("written");
    let options = SubtreeOptions { lease: Duration::from_secs(600), ..SubtreeOptions::default() };
    let mut job = Subtree::decouple(&fs, "/job", &options).expect("free");
    job.write("merged", b"1".to_vec()).expect("made");
    job.merge().expect("his");
    for n in 0..700 {
        job.write(format!("f{n}"), b"2".to_vec()).expect("made");
    }
    job.persist(&path).expect("written");
    job.write("f0", b"3".to_vec()).expect("there");
    job.unlink("old").expect("there");
    job.persist(&path).expect("added");
    job.write("lost", b"4".to_vec()).expect("made");
    let kept = Kept::read(&path).expect("a good file");
    let (second, copy) = connect(&site);
    assert_eq!(Subtree::resume(&copy, &kept, &options).err(), Some(FsError::Busy), "its owner is connected");
    stop(&second);
    drop(job);
    stop(&client);
    // The rank has another life, too.
    server.stop().expect("it stops");
    drop(server);
    let _server = site.start();

    let kept = Kept::read(&path).expect("a good file");
    assert_eq!((kept.fs_id(), kept.torn()), ([7; 16], None));
    let (other, fs) = connect(&site);
    assert_eq!(fs.stat("/job/f0"), Err(FsError::Busy), "its lease is not over");
    let mut job = Subtree::resume(&fs, &kept, &options).expect("it knows the number");
    assert_eq!(job.stat("f0"), Err(FsError::NotFound), "nothing is merged yet");
    job.merge_kept(&kept).expect("his");
    assert_eq!(&*job.read("f0").expect("there"), b"3");
    job.write("more", b"5".to_vec()).expect("it goes on");
    job.merge().expect("his");
    job.recouple().expect("nothing is outstanding");
    kept.remove().expect("there");
    assert_eq!(fs.stat("/job").expect("there").size, 702);
    assert_eq!(fs.read("/job/merged").expect("there"), b"1");
    assert_eq!(fs.stat("/job/old"), Err(FsError::NotFound));
    assert_eq!(fs.stat("/job/lost"), Err(FsError::NotFound));
    stop(&other);
}

#[test]
fn a_kept_journal_that_is_cut_off_counts_as_far_as_it_goes_and_what_is_none_is_refused() {
    let site = Site::new();
    let _server = site.start();
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("job.journal");
    let (client, fs) = connect(&site);
    fs.mkdir("/job", 0o755).expect("made");
    let mut job = Subtree::decouple(&fs, "/job", &SubtreeOptions::default()).expect("free");
    job.mkdir("a", 0o755).expect("made");
    job.persist(&path).expect("written");
    let whole = std::fs::read(&path).expect("there");
    job.mkdir("b", 0o755).expect("made");
    job.persist(&path).expect("added");
    let more = std::fs::read(&path).expect("there");
    let read = |bytes: &[u8]| {
        let cut = dir.path().join("cut");
        std::fs::write(&cut, bytes).expect("written");
        Kept::read(&cut)
    };
    // Each part is followed by an empty segment which proves that it was durable.
    let complete = more.len() - SEGMENT_HEADER_LEN;
    for len in whole.len() + 1..=more.len() {
        let kept = read(&more[..len]).expect("a torn end is no damage");
        assert_eq!(kept.groups().len(), 1);
        let parts = if len < complete { 1 } else { 2 };
        let torn = len != complete && len != more.len();
        assert_eq!((kept.groups()[0].parts.len(), kept.torn().is_some()), (parts, torn), "{len}");
    }
    for at in [whole.len() - SEGMENT_HEADER_LEN - 5, whole.len() - 5, complete - 5] {
        let mut damaged = more.clone();
        damaged[at] ^= 1;
        assert!(matches!(read(&damaged), Err(KeptError::File { .. })), "what was synced is damaged: {at}");
    }
    assert!(matches!(read(b"no journal"), Err(KeptError::File { .. })));
    assert!(Kept::read(dir.path().join("nothing")).is_err());
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).expect("there").permissions());
    assert_eq!(mode & 0o777, 0o600, "who knows what is in it may go on in its owner's name");
    let taken = Subtree::decouple(&fs, "/job", &SubtreeOptions::default()).err();
    assert_eq!(taken, Some(FsError::Busy));
    assert!(job.persist(&path).is_ok(), "nothing new");
    job.abandon().expect("his");
    let kept = Kept::read(&path).expect("it stays");
    let late = Subtree::resume(&fs, &kept, &SubtreeOptions::default());
    assert_eq!(late.err(), Some(FsError::Stale), "it was given up");
    stop(&client);
}

#[test]
fn a_merge_goes_on_over_a_restart_of_the_server() {
    let site = Site::new();
    let server = site.start();
    let (client, fs) = connect(&site);
    fs.mkdir("/job", 0o755).expect("made");
    let mut job = Subtree::decouple(&fs, "/job", &SubtreeOptions::default()).expect("free");
    for n in 0..2000 {
        job.write(format!("f{n}"), b"data".to_vec()).expect("made");
    }
    site.power_loss(server);
    let server = std::thread::scope(|scope| {
        let merging = scope.spawn(|| job.merge());
        let server = site.start();
        merging.join().expect("no panic").expect("merged");
        server
    });
    job.recouple().expect("nothing is outstanding");
    server.stop().expect("it stops");
    drop(server);
    let _server = site.start();
    assert_eq!(fs.stat("/job").expect("there").size, 2000);
    assert_eq!(fs.read("/job/f1999").expect("there"), b"data");
    stop(&client);
}

#[test]
fn others_work_in_it_if_its_owner_allows_it_and_the_merge_tells_what_did_not_go_together() {
    let site = Site::new();
    let _server = site.start();
    let (client, fs) = connect(&site);
    let (other, seen) = connect(&site);
    fs.mkdir("/job", 0o755).expect("made");
    fs.write("/job/both", b"before".to_vec()).expect("written");
    let options = SubtreeOptions { interfere: Interfere::Allow, ..SubtreeOptions::default() };
    let mut job = Subtree::decouple(&fs, "/job", &options).expect("nobody has it");
    job.write("both", b"own".to_vec()).expect("there");
    job.write("new", b"own".to_vec()).expect("made");
    seen.write("/job/new", b"theirs".to_vec()).expect("they may");
    seen.write("/job/theirs", b"theirs".to_vec()).expect("they may");
    seen.unlink("/job/both").expect("they may");
    let merged = job.merge().expect("his");
    let kinds: Vec<ConflictKind> = merged.told.iter().map(|conflict| conflict.kind).collect();
    assert_eq!((merged.conflicts, kinds.len()), (2, 2), "{merged:?}");
    assert!(kinds.contains(&ConflictKind::Name) && kinds.contains(&ConflictKind::Returned), "{merged:?}");
    assert_eq!(seen.read("/job/both").expect("it is back"), b"own");
    assert_eq!(seen.read("/job/new").expect("the owner's"), b"own");
    assert_eq!(seen.read("/job/.conflicts/new~1-1").expect("kept"), b"theirs");
    assert_eq!(&*job.read("theirs").expect("the owner learns anew"), b"theirs");
    job.recouple().expect("nothing is outstanding");
    stop(&client);
    stop(&other);
}
