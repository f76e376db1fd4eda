//! A directory that is decoupled for a client while others read the state of the last merge there ("interfere: read"), over a real server and its
//! socket: names, attributes and bytes, whatever the owner does meanwhile. What others meet where they may not even read is in
//! `decoupled.rs`.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::Site;
use crate::common::commands::{decouple, order};
use loligo_driver::Address;
use loligo_driver::client::path::OpenHow;
use loligo_driver::client::{Client, Fs, Options};
use loligo_store::Backend;
use loligo_types::{Cred, FsError, SetAttr};

const READ: &str = "pipeline = 'append_client_journal + volatile_apply'\nallocated_inodes = 500\ninterfere = 'read'\n";
const BIG: usize = 300_000;

fn connect(site: &Site) -> (Client, Fs) {
    let options = Options { name: "job".into(), cache: true, cache_names: true, ..Options::default() };
    let client = Client::connect(&Address::Unix(site.socket()), options).expect("it serves");
    let fs = client.fs(Arc::new(Cred::root()));
    (client, fs)
}

fn stop(client: &Client) {
    client.stop(Duration::from_secs(10)).expect("it ends");
}

fn big(seed: u8) -> Vec<u8> {
    (0..BIG).map(|n| (n as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[test]
fn others_read_the_state_of_the_last_merge_whatever_its_owner_does_and_change_nothing() {
    let site = Site::new();
    let server = site.start();
    let (client, fs) = connect(&site);
    let (other, seen) = connect(&site);
    let root = fs.mkdir("/job", 0o755).expect("made").ino;
    fs.mkdir("/job/d", 0o755).expect("made");
    for name in ["over", "cut", "grown", "gone", "moved"] {
        fs.write(format!("/job/d/{name}"), big(1)).expect("written");
    }
    fs.write("/job/small", b"small".to_vec()).expect("written");
    let held = seen.open("/job/d/over", OpenHow::read()).expect("there");
    assert_eq!(held.read_at(0, 8).expect("open")[..], big(1)[..8]);
    decouple(&fs, root, READ);
    let as_it_was = || {
        let names = |dir: &str| -> Vec<String> {
            let mut names: Vec<String> =
                seen.readdir(dir).expect("there").iter().map(|entry| format!("{:?}", entry.name)).collect();
            names.sort();
            names
        };
        assert_eq!((names("/job").len(), names("/job/d").len()), (2, 5));
        for name in ["over", "cut", "grown", "gone", "moved"] {
            let path = format!("/job/d/{name}");
            assert_eq!(seen.stat(&path).expect("there").size, BIG as u64, "{name}");
            assert!(seen.read(&path).expect("there") == big(1), "{name}");
        }
        assert_eq!(seen.read("/job/small").expect("there"), b"small");
        assert!(held.read_at(100, 1000).expect("open")[..] == big(1)[100..1100]);
    };
    as_it_was();
    let over = fs.open("/job/d/over", OpenHow::read_write()).expect("there");
    over.write_at(50, vec![0xee; 200_000]).expect("open");
    over.sync().expect("written");
    fs.set_attr("/job/d/cut", SetAttr { size: Some(10), ..SetAttr::default() }).expect("there");
    let grown = fs.open("/job/d/grown", OpenHow::read_write()).expect("there");
    grown.write_at(BIG as u64, vec![0xdd; 50_000]).expect("open");
    grown.sync().expect("written");
    fs.unlink("/job/d/gone").expect("there");
    fs.rename("/job/d/moved", "/job/elsewhere").expect("there");
    fs.write("/job/small", b"large".to_vec()).expect("written");
    fs.write("/job/new", big(7)).expect("written");
    as_it_was();
    assert_eq!(seen.stat("/job/new"), Err(FsError::NotFound));
    assert_eq!(fs.read("/job/d/over").expect("there")[50], 0xee, "its owner sees what it does");
    // Nobody else changes anything.
    let cred = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    seen.write("/outside", b"x".to_vec()).expect("written");
    for (what, result) in [
        ("create", seen.write("/job/others", b"x".to_vec())),
        ("write", seen.open("/job/small", OpenHow::read_write()).map(drop)),
        ("mkdir", seen.mkdir("/job/dir", 0o755).map(drop)),
        ("chmod", seen.set_attr("/job/small", cred).map(drop)),
        ("unlink", seen.unlink("/job/small")),
        ("rename out", seen.rename("/job/small", "/small")),
        ("rename in", seen.rename("/outside", "/job/inside")),
        ("link in", seen.link("/outside", "/job/linked").map(drop)),
        ("link out", seen.link("/job/small", "/linked").map(drop)),
    ] {
        assert_eq!(result, Err(FsError::Busy), "{what}");
    }
    as_it_was();
    order(&fs, root, "sync").expect("its own");
    let merged = || {
        let over = seen.read("/job/d/over").expect("there");
        assert!(over[..50] == big(1)[..50] && over[50..200_050].iter().all(|byte| *byte == 0xee));
        assert!(over[200_050..] == big(1)[200_050..]);
        assert!(seen.read("/job/d/cut").expect("there") == big(1)[..10]);
        let grown = seen.read("/job/d/grown").expect("there");
        assert!(grown[..BIG] == big(1) && grown[BIG..] == [0xdd; 50_000]);
        assert_eq!(seen.stat("/job/d/gone"), Err(FsError::NotFound));
        assert!(seen.read("/job/elsewhere").expect("there") == big(1));
        assert_eq!(seen.read("/job/small").expect("there"), b"large");
        assert!(seen.read("/job/new").expect("there") == big(7));
        assert_eq!(held.read_at(50, 2).expect("open")[..], [0xee; 2]);
    };
    merged();
    // And so after each merge; also of what the merge before has brought.
    over.write_at(0, big(9)).expect("open");
    over.sync().expect("written");
    fs.write("/job/new", big(8)).expect("written");
    fs.set_attr("/job/elsewhere", SetAttr { size: Some(0), ..SetAttr::default() }).expect("there");
    merged();
    order(&fs, root, "sync").expect("its own");
    assert!(seen.read("/job/d/over").expect("there") == big(9) && seen.read("/job/new").expect("there") == big(8));
    assert!(held.read_at(0, 8).expect("open")[..] == big(9)[..8]);
    // Unmerged changes are taken back, bytes included.
    over.write_at(0, big(3)).expect("open");
    over.sync().expect("written");
    over.close().expect("open");
    grown.close().expect("open");
    fs.write("/job/new", b"short".to_vec()).expect("written");
    order(&fs, root, "abandon").expect("its own");
    for fs in [&fs, &seen] {
        assert!(fs.read("/job/d/over").expect("there") == big(9));
        assert!(fs.read("/job/new").expect("there") == big(8));
    }
    // It is a directory like others again.
    assert!(held.read_at(0, 8).expect("open")[..] == big(9)[..8]);
    seen.write("/job/new", big(4)).expect("written");
    assert!(fs.read("/job/new").expect("there") == big(4));
    drop(held);
    seen.unlink("/job/new").expect("there");
    for path in ["/job/d/over", "/job/d/cut", "/job/d/grown", "/job/elsewhere"] {
        seen.unlink(path).expect("there");
    }
    stop(&client);
    stop(&other);
    server.stop().expect("it stops");
    drop(server);
    // No copy is left.
    let backend = site.disk.open().expect("the disk is free");
    let mut left = Vec::new();
    let list = backend.blobs().list(&mut |object, _| {
        left.push(object);
        ControlFlow::Continue(())
    });
    list.expect("it can be listed");
    assert_eq!(left, []);
}

/// The length of a file in a generation: each cuts the file, or lets it grow over what is in objects.
fn len_of(generation: u8) -> usize {
    BIG / 2 + usize::from(generation % 7) * 40_000
}

#[test]
fn each_read_is_of_one_merge_and_what_was_written_before_is_there_while_merges_go_on() {
    const FILES: usize = 6;
    let site = Site::new();
    let server = site.start();
    let (client, fs) = connect(&site);
    let (other, seen) = connect(&site);
    let root = fs.mkdir("/job", 0o755).expect("made").ino;
    let path = |n: usize| format!("/job/f{n}");
    for n in 0..FILES {
        fs.write(path(n), vec![1; len_of(1)]).expect("written");
    }
    decouple(&fs, root, &format!("{READ}sync_interval = '20ms'\n"));
    let over = AtomicBool::new(false);
    let (passes, whole) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // In each generation all files one after the other, over and over, some by a new file of the name.
            for generation in 2..=60u8 {
                for n in 0..FILES {
                    let bytes = vec![generation; len_of(generation)];
                    if n % 3 == 2 {
                        fs.write("/job/next", bytes).expect("written");
                        fs.rename("/job/next", path(n)).expect("there");
                    } else {
                        let file = fs.open(path(n), OpenHow::read_write()).expect("there");
                        file.write_at(0, bytes).expect("open");
                        file.set_len(len_of(generation) as u64).expect("open");
                        file.close().expect("open");
                    }
                }
            }
            over.store(true, Ordering::Release);
        });
        let mut held: Vec<_> = (0..FILES).map(|n| seen.open(path(n), OpenHow::read()).expect("there")).collect();
        let merges = || server.status().expect("it serves").ranks[0].mds.decoupled[0].merges;
        while !over.load(Ordering::Acquire) {
            let before = merges();
            let mut generations = Vec::new();
            for (n, file) in held.iter_mut().enumerate() {
                let bytes = match file.read_at(0, 1 << 20) {
                    Ok(bytes) => bytes,
                    // Another file has its name by now.
                    Err(FsError::Stale) => {
                        *file = seen.open(path(n), OpenHow::read()).expect("there");
                        continue;
                    }
                    Err(error) => panic!("{error}"),
                };
                let generation = bytes[0];
                // It is written and then cut: between the two the end of the one before follows, if that was longer.
                let mut states = vec![vec![(generation, len_of(generation))]];
                let left = len_of(generation - 1).saturating_sub(len_of(generation));
                if left > 0 && n % 3 != 2 {
                    states.push(vec![(generation, len_of(generation)), (generation - 1, left)]);
                }
                assert!(states.contains(&runs(&bytes)), "file {n}: {:?}", runs(&bytes));
                generations.push(generation);
            }
            let same = merges() == before && generations.len() == FILES;
            passes.fetch_add(1, Ordering::Relaxed);
            if same {
                // They are written one after the other: an earlier one is as new as a later one, or one newer.
                assert!(are_of_one_moment(&generations), "{generations:?}");
                whole.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    assert!(passes.load(Ordering::Relaxed) > 10 && whole.load(Ordering::Relaxed) > 0);
    order(&fs, root, "recouple").expect("its own");
    for n in 0..FILES {
        assert!(seen.read(path(n)).expect("there") == vec![60; len_of(60)], "{n}");
    }
    stop(&client);
    stop(&other);
}

fn runs(bytes: &[u8]) -> Vec<(u8, usize)> {
    let mut runs: Vec<(u8, usize)> = Vec::new();
    for byte in bytes {
        match runs.last_mut() {
            Some((of, count)) if of == byte => *count += 1,
            _ => runs.push((*byte, 1)),
        }
    }
    runs
}

/// True if files that are written in turn were seen at one moment.
fn are_of_one_moment(generations: &[u8]) -> bool {
    let (first, last) = (generations[0], generations[generations.len() - 1]);
    generations.windows(2).all(|pair| pair[0] >= pair[1]) && first - last <= 1
}

#[test]
fn after_lost_power_others_read_the_last_merge_and_its_owner_goes_on() {
    let site = Site::new();
    let server = site.start();
    let (client, fs) = connect(&site);
    let root = fs.mkdir("/job", 0o755).expect("made").ino;
    fs.write("/job/f", big(1)).expect("written");
    fs.sync_all().expect("durable");
    decouple(&fs, root, READ);
    let open = fs.open("/job/f", OpenHow::read_write()).expect("there");
    open.write_at(10, vec![0xee; 1000]).expect("open");
    open.sync().expect("written");
    site.power_loss(server);
    let server = site.start();
    let (other, seen) = connect(&site);
    assert!(seen.read("/job/f").expect("there") == big(1));
    open.write_at(20, vec![0xdd; 1000]).expect("open");
    open.sync().expect("written");
    assert!(seen.read("/job/f").expect("there") == big(1));
    assert_eq!(open.read_at(0, 30).expect("open")[10..], [[0xee; 10], [0xdd; 10]].concat());
    order(&fs, root, "sync").expect("its own");
    assert_eq!(seen.read("/job/f").expect("there")[10..30], [[0xee; 10], [0xdd; 10]].concat());
    open.write_at(0, big(5)).expect("open");
    open.sync().expect("written");
    stop(&other);
    site.power_loss(server);
    let _server = site.start();
    let (other, seen) = connect(&site);
    assert_eq!(seen.read("/job/f").expect("there")[10..30], [[0xee; 10], [0xdd; 10]].concat(), "what was merged");
    open.close().expect("open");
    order(&fs, root, "abandon").expect("its own");
    assert_eq!(fs.read("/job/f").expect("there")[10..30], [[0xee; 10], [0xdd; 10]].concat(), "it is put back");
    stop(&client);
    stop(&other);
}
