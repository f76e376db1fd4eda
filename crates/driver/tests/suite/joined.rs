//! Ranks of one file system in two processes (here two servers in one): they serve one tree, and either may go and come back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::Site;
use loligo_driver::client::path::Fs;
use loligo_driver::client::{Client, Options};
use loligo_driver::{Address, Joint, Server, ServerConfig};
use loligo_mds::admin::{Ask, Told};
use loligo_types::{Cred, Ino, Rank};

const PATIENCE: Duration = Duration::from_secs(60);

fn own(site: &Site, ranks: u16, elsewhere: &[u16]) -> Server {
    let elsewhere = elsewhere.iter().copied().map(Rank).collect::<BTreeSet<_>>();
    Server::start(ServerConfig { ranks, elsewhere, ..site.config() }, &mut |_| {}).expect("the owner starts")
}

fn try_join(site: &Site, ranks: &[u16]) -> Result<Server, String> {
    let ranks: Vec<Rank> = ranks.iter().copied().map(Rank).collect();
    let joint = Joint::join(&Address::Unix(site.socket()), &ranks).map_err(|error| error.to_string())?;
    let mut config = ServerConfig::new(joint.backend());
    config.listen.push(Address::Unix(site.socket()));
    config.mds.grace_ms = 200;
    Server::start_joined(config, joint, &mut |_| {}).map_err(|error| error.to_string())
}

fn join(site: &Site, ranks: &[u16]) -> Server {
    let until = Instant::now() + PATIENCE;
    loop {
        match try_join(site, ranks) {
            Ok(server) => return server,
            // The owner has not noticed yet that the one before is gone.
            Err(text) if text.contains("stop that one first") && Instant::now() < until => std::thread::yield_now(),
            Err(text) => panic!("{text}"),
        }
    }
}

fn connect(site: &Site) -> (Client, Fs) {
    let client = Client::connect(&Address::Unix(site.socket()), Options::default()).expect("a connection");
    let fs = client.fs(Arc::new(Cred::root()));
    (client, fs)
}

/// Moves a directory from a rank of a server to any rank.
fn migrate(server: &Server, dir: Ino, from: u16, to: u16) {
    let until = Instant::now() + PATIENCE;
    while let Err(why) = try_migrate(server, dir, Rank(from), Rank(to)) {
        // That there is another rank and the way to it are told one after the other, and it has to hear of the others.
        let is_early = why.contains("no rank") || why.contains("try again later");
        assert!(is_early && Instant::now() < until, "{why}");
    }
}

fn try_migrate(server: &Server, dir: Ino, from: Rank, to: Rank) -> Result<(), String> {
    let id = match server.admin(from, Ask::Migrate { dir, to }).expect("an answer") {
        Told::Begun(id) => id,
        Told::Refused(why) => return Err(why),
        other => panic!("{other:?}"),
    };
    let until = Instant::now() + PATIENCE;
    loop {
        let told = server.admin(from, Ask::Migrations).expect("an answer");
        let Told::Migrations(all) = told else { panic!("{told:?}") };
        let ours = all.into_iter().find(|one| one.id == id).expect("it is known");
        match ours.state.as_str() {
            "done" => return Ok(()),
            why if why.starts_with("failed") => return Err(why.to_owned()),
            _ => assert!(Instant::now() < until, "{ours:?}"),
        }
    }
}

/// Ends a server at once; it may have been clean by chance.
fn kill(server: Server) {
    let _ = server.stop_within(Duration::ZERO);
}

#[test]
fn ranks_of_two_processes_serve_one_tree_and_stop_together() {
    let site = Site::new();
    let owner = own(&site, 4, &[2, 3]);
    let joined = join(&site, &[2, 3]);
    assert_eq!((owner.ranks(), joined.ranks()), (vec![Rank(0), Rank(1)], vec![Rank(2), Rank(3)]));
    let (client, fs) = connect(&site);
    for rank in 0..4 {
        let dir = fs.mkdir(format!("/d{rank}"), 0o755).expect("made").ino;
        if rank > 0 {
            migrate(&owner, dir, 0, rank);
        }
        let made = fs.mkdir(format!("/d{rank}/sub"), 0o755).expect("made").ino;
        assert_eq!(made.birth_rank(), Rank(rank));
        fs.write(format!("/d{rank}/file"), vec![rank as u8; 100_000]).expect("written");
    }
    // Names and directories over all pairs of processes, and between two ranks of the one that joined.
    for (from, to) in [(0, 2), (2, 1), (1, 3), (3, 2)] {
        fs.rename(format!("/d{from}/file"), format!("/d{to}/from{from}")).expect("renamed");
        fs.mkdir(format!("/d{from}/dir{to}"), 0o755).expect("made");
        fs.rename(format!("/d{from}/dir{to}"), format!("/d{to}/dir{from}")).expect("renamed");
    }
    assert_eq!(fs.read("/d3/from1").expect("read"), vec![1; 100_000]);
    let dir = fs.stat("/d3").expect("there").ino;
    migrate(&joined, dir, 3, 0);
    fs.write("/d3/home", *b"at the owner").expect("written");
    client.stop(PATIENCE).expect("it stops");
    owner.stop().expect("it stops cleanly, with the others");
    assert_eq!(joined.wait_fatal(Some(PATIENCE)), None, "it was stopped");
    joined.stop().expect("it has stopped cleanly");
    drop((owner, joined));
    // One process may run all again, and nothing is to be recovered.
    let server = own(&site, 0, &[]);
    let (client, fs) = connect(&site);
    for (from, to) in [(0, 2), (2, 1), (1, 3), (3, 2)] {
        assert_eq!(fs.read(format!("/d{to}/from{from}")).expect("read"), vec![from as u8; 100_000]);
        fs.stat(format!("/d{to}/dir{from}")).expect("there");
    }
    assert_eq!(fs.read("/d3/home").expect("read"), b"at the owner");
    client.stop(PATIENCE).expect("it stops");
    server.stop().expect("it stops cleanly");
}

#[test]
fn a_process_that_goes_away_comes_back_with_all_that_it_acknowledged() {
    let site = Site::new();
    let owner = own(&site, 3, &[2]);
    let mut joined = join(&site, &[2]);
    let (client, fs) = connect(&site);
    let dir = fs.mkdir("/d", 0o755).expect("made").ino;
    migrate(&owner, dir, 0, 2);
    for round in 0..4 {
        fs.write(format!("/d/{round}"), vec![round; 70_000]).expect("written");
        fs.mkdir(format!("/at-owner{round}"), 0o755).expect("made");
        if round % 2 == 0 {
            kill(joined);
            fs.mkdir(format!("/meanwhile{round}"), 0o755).expect("the owner's ranks go on");
        } else {
            joined.stop().expect("it stops alone");
            drop(joined);
        }
        joined = join(&site, &[2]);
        // Was under way, or is sent again.
        fs.rename(format!("/at-owner{round}"), format!("/d/moved{round}")).expect("renamed");
        for before in 0..=round {
            assert_eq!(fs.read(format!("/d/{before}")).expect("read"), vec![before; 70_000]);
        }
    }
    client.stop(PATIENCE).expect("it stops");
    owner.stop().expect("it stops cleanly");
    joined.stop().expect("so has this");
}

#[test]
fn when_the_owner_goes_all_end_and_start_again() {
    let site = Site::new();
    let owner = own(&site, 3, &[1, 2]);
    let joined = join(&site, &[1, 2]);
    let (client, fs) = connect(&site);
    let dir = fs.mkdir("/d", 0o755).expect("made").ino;
    migrate(&owner, dir, 0, 2);
    fs.write("/d/file", *b"acknowledged").expect("written");
    kill(owner);
    if let Some(why) = joined.wait_fatal(Some(PATIENCE)) {
        // Whatever is seen first: the link, or the store.
        assert!(why.contains("the data directory") && why.contains("start"), "{why}");
    }
    assert!(joined.has_ended());
    let _ = joined.stop();
    drop(joined);
    let owner = own(&site, 0, &[1, 2]);
    let joined = join(&site, &[1, 2]);
    assert_eq!(fs.read("/d/file").expect("the client has come back"), b"acknowledged");
    client.stop(PATIENCE).expect("it stops");
    owner.stop().expect("it stops cleanly");
    joined.stop().expect("so has this");
}

#[test]
fn who_may_not_join_is_told_why() {
    let site = Site::new();
    let refused = |ranks: &[u16], word: &str| {
        let text = try_join(&site, ranks).err().expect("refused");
        assert!(text.contains(word), "{text}");
    };
    refused(&[1], "--elsewhere");
    let owner = own(&site, 3, &[2]);
    refused(&[1], "the server itself runs rank 1");
    refused(&[7], "--elsewhere 7");
    refused(&[], "a rank at least");
    let joined = join(&site, &[2]);
    refused(&[2], "stop that one first");
    let error = owner.admin(Rank(2), Ask::Routes).expect_err("another process runs it");
    assert!(error.to_string().contains("another process"), "{error}");
    let error = joined.drain_rank(Rank(2)).expect_err("the owner keeps the map");
    assert!(error.to_string().contains("ask that one"), "{error}");
    owner.stop().expect("it stops cleanly");
    joined.stop().expect("so has this");
    drop((owner, joined));
    let bad = |elsewhere: u16| {
        let elsewhere = BTreeSet::from([Rank(elsewhere)]);
        Server::start(ServerConfig { ranks: 3, elsewhere, ..site.config() }, &mut |_| {}).err().expect("refused")
    };
    assert!(bad(0).to_string().contains("rank 0"));
    assert!(bad(9).to_string().contains("there are: 0, 1, 2"));
    std::fs::write(site.socket().with_file_name("join.sock"), "").expect("a file in the way");
    assert!(bad(2).to_string().contains("no socket is in the way"));
    std::fs::remove_file(site.socket().with_file_name("join.sock")).expect("our own");
    own(&site, 3, &[]).stop().expect("nothing was left running, and nothing was hurt");
}

#[test]
fn a_rank_of_another_process_is_drained_and_a_new_one_is_heard_there() {
    let site = Site::new();
    let owner = own(&site, 3, &[1, 2]);
    let joined = join(&site, &[1, 2]);
    let (client, fs) = connect(&site);
    let dir = fs.mkdir("/d", 0o755).expect("made").ino;
    migrate(&owner, dir, 0, 2);
    fs.write("/d/file", *b"content").expect("written");
    assert_eq!(owner.add_ranks(1).expect("added"), [Rank(3)]);
    migrate(&joined, dir, 2, 3);
    assert_eq!(fs.mkdir("/d/at3", 0o755).expect("made").ino.birth_rank(), Rank(3));
    owner.drain_rank(Rank(2)).expect("it begins");
    let until = Instant::now() + PATIENCE;
    while joined.ranks().contains(&Rank(2)) {
        assert!(Instant::now() < until, "{:?}", joined.admin(Rank(2), Ask::Drain));
        // The client hears of it by what it asks.
        fs.stat("/d/file").expect("there");
    }
    assert_eq!(fs.read("/d/file").expect("read"), b"content");
    assert_eq!(joined.ranks(), [Rank(1)], "the other one goes on");
    joined.status().expect("it answers");
    owner.drain_rank(Rank(1)).expect("it begins");
    let until = Instant::now() + PATIENCE;
    while !joined.has_ended() {
        assert!(Instant::now() < until, "the last one was drained, and its process ends");
        fs.stat("/d/file").expect("there");
    }
    assert_eq!(joined.wait_fatal(None), None, "it has ended cleanly");
    client.stop(PATIENCE).expect("it stops");
    owner.stop().expect("it stops cleanly");
    joined.stop().expect("so has this");
}
