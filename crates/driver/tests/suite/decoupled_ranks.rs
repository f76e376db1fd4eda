//! Decoupled subtrees in a file system of several ranks, over a real server and its sockets: in a program, and for programs that know nothing
//! of it. What the ranks say to each other meanwhile is tested at the machine (`crates/mds/src/tests/decouple/ranks.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::Site;
use crate::common::commands::order;
use loligo_driver::client::{Client, Fs, Options, Subtree, SubtreeOptions};
use loligo_driver::{Address, Server, ServerConfig};
use loligo_mds::admin::{Ask, Told};
use loligo_types::{Cred, FsError, Ino, Rank};

fn start(site: &Site, ranks: u16) -> Server {
    let config = ServerConfig { ranks, ..site.config() };
    Server::start(config, &mut |_| {}).expect("the server starts")
}

fn connect(site: &Site) -> (Client, Fs) {
    let options = Options { name: "job".into(), cache: true, cache_names: true, ..Options::default() };
    let client = Client::connect(&Address::Unix(site.socket()), options).expect("it serves");
    let fs = client.fs(Arc::new(Cred::root()));
    (client, fs)
}

fn stop(client: &Client) {
    client.stop(Duration::from_secs(10)).expect("it ends");
}

/// Moves a directory, and waits until that is done.
fn migrate(server: &Server, dir: Ino, from: Rank, to: Rank) {
    let told = server.admin(from, Ask::Migrate { dir, to }).expect("an answer");
    let Told::Begun(id) = told else { panic!("{told:?}") };
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let told = server.admin(from, Ask::Migrations).expect("an answer");
        let Told::Migrations(all) = told else { panic!("{told:?}") };
        let ours = all.into_iter().find(|one| one.id == id).expect("it is known");
        match ours.state.as_str() {
            "done" => return,
            why if why.starts_with("failed") => panic!("{why}"),
            _ => assert!(Instant::now() < until, "{ours:?}"),
        }
    }
}

/// `/job` is rank 1's, `/job/in` rank 0's, and `/beside` rank 0's.
fn scene(site: &Site) -> (Server, Client, Fs, Ino) {
    let server = start(site, 2);
    let (client, fs) = connect(site);
    let job = fs.mkdir("/job", 0o755).expect("made").ino;
    let inside = fs.mkdir("/job/in", 0o755).expect("made").ino;
    fs.mkdir("/beside", 0o755).expect("made");
    for n in 0..50 {
        fs.write(format!("/job/in/f{n}"), format!("input {n}").into_bytes()).expect("written");
    }
    fs.write("/job/old", b"old".to_vec()).expect("written");
    fs.write("/beside/f", b"beside".to_vec()).expect("written");
    migrate(&server, job, Rank(0), Rank(1));
    migrate(&server, inside, Rank(1), Rank(0));
    (server, client, fs, job)
}

fn decoupled(server: &Server) -> Vec<(Rank, Option<String>)> {
    let ranks = server.status().expect("it runs").ranks;
    ranks.iter().flat_map(|rank| rank.mds.decoupled.iter().map(|one| (rank.rank, one.path.clone()))).collect()
}

#[test]
fn a_program_has_a_directory_at_another_rank_for_itself_and_merges_over_a_restart_of_all() {
    let site = Site::new();
    let (server, client, fs, job) = scene(&site);
    let (other, seen) = connect(&site);
    let mut subtree = Subtree::decouple(&fs, "/job", &SubtreeOptions::default()).expect("nobody uses it");
    assert_eq!(&*subtree.read("in/f7").expect("it came along"), b"input 7");
    subtree.mkdir("out", 0o750).expect("made");
    for n in 0..300 {
        subtree.write(format!("out/f{n}"), format!("output {n}").into_bytes()).expect("made");
    }
    subtree.rename("in/f1", "out/moved").expect("both are in it");
    let told = server.admin(Rank(1), Ask::Migrate { dir: job, to: Rank(0) }).expect("an answer");
    assert!(matches!(&told, Told::Refused(text) if text.contains("decoupled")), "{told:?}");
    assert_eq!(decoupled(&server).into_iter().map(|(rank, _)| rank).collect::<Vec<_>>(), [Rank(1)]);
    // By another rank nobody comes in.
    assert_eq!(seen.stat("/job/in/f7"), Err(FsError::Busy));
    assert_eq!(seen.rename("/beside/f", "/job/f"), Err(FsError::Busy));
    assert_eq!(seen.link("/beside/f", "/job/f"), Err(FsError::Busy));
    assert_eq!(seen.rmdir("/job"), Err(FsError::Busy));
    server.stop().expect("it stops");
    drop(server);
    let server = start(&site, 0);
    subtree.merge().expect("it is his");
    assert_eq!(seen.stat("/job/out"), Err(FsError::Busy), "merged, and still decoupled");
    subtree.recouple().expect("nothing is outstanding");
    assert_eq!(seen.readdir("/job/out").expect("seen").len(), 301);
    assert_eq!(seen.read("/job/out/moved").expect("seen"), b"input 1");
    assert_eq!(seen.stat("/job/in/f1"), Err(FsError::NotFound));
    migrate(&server, job, Rank(1), Rank(0));
    assert_eq!(seen.read("/job/out/f299").expect("seen"), b"output 299");
    stop(&client);
    stop(&other);
    server.stop().expect("it stops");
}

#[test]
fn programs_that_know_nothing_of_it_work_in_a_directory_of_another_rank() {
    let site = Site::new();
    let (server, client, fs, job) = scene(&site);
    let (other, seen) = connect(&site);
    order(&fs, job, "decouple\npreset = 'ramdisk'\nconsistency = 'weak'\n").expect("nobody uses it");
    let big: Vec<u8> = (0..200_000u32).map(|n| n as u8).collect();
    fs.write("/job/big", big.clone()).expect("written");
    fs.mkdir("/job/d", 0o755).expect("made");
    for n in 0..150 {
        fs.write(format!("/job/d/f{n}"), format!("file {n}").into_bytes()).expect("written");
    }
    fs.rename("/job/in/f3", "/job/d/f3").expect("both are in it");
    assert_eq!(fs.rename("/beside/f", "/job/f"), Err(FsError::CrossDevice));
    assert_eq!(fs.link("/job/old", "/beside/old"), Err(FsError::CrossDevice));
    assert_eq!(seen.stat("/job/d"), Err(FsError::Busy));
    assert_eq!(seen.rename("/beside/f", "/job/f"), Err(FsError::Busy));
    order(&fs, job, "sync").expect("its own");
    assert_eq!(seen.stat("/job/d"), Err(FsError::Busy), "merged, and still its own");
    site.power_loss(server);
    let server = start(&site, 0);
    fs.write("/job/late", b"late".to_vec()).expect("written");
    assert_eq!(fs.read("/job/big").expect("there"), big);
    order(&fs, job, "recouple").expect("its own");
    for fs in [&fs, &seen] {
        assert_eq!(fs.read("/job/big").expect("there"), big);
        assert_eq!(fs.read("/job/late").expect("there"), b"late");
        assert_eq!(fs.read("/job/d/f3").expect("there"), b"input 3");
        assert_eq!(fs.readdir("/job/in").expect("there").len(), 49);
    }
    // It is a directory like others, for all.
    seen.rename("/beside/f", "/job/f").expect("it may");
    assert_eq!(fs.read("/job/f").expect("there"), b"beside");
    migrate(&server, job, Rank(1), Rank(0));
    assert_eq!(fs.readdir("/job/d").expect("there").len(), 150);
    stop(&client);
    stop(&other);
    server.stop().expect("it stops");
}
