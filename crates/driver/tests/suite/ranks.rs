//! Several ranks in one process: they start, are told apart, and end together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Raw, Site, mkdir};
use loligo_driver::client::path::OpenHow;
use loligo_driver::client::{Client, Options};
use loligo_driver::{Address, Server, ServerConfig, ServerError};
use loligo_mds::admin::{Ask, Migration, Told};
use loligo_store::mem::{Fault, FaultPoint};
use loligo_types::{Cred, Ino, Rank};

fn config(site: &Site, ranks: u16) -> ServerConfig {
    ServerConfig { ranks, ..site.config() }
}

fn start(site: &Site, ranks: u16) -> Server {
    Server::start(config(site, ranks), &mut |_| {}).expect("the server starts")
}

/// The number of each rank and the Unix socket it listens on.
fn ranks(server: &Server) -> Vec<(Rank, String)> {
    let status = server.status().expect("it runs");
    let name = |address: &Address| match address {
        Address::Unix(path) => path.file_name().expect("a file").to_string_lossy().into_owned(),
        other => panic!("{other} is no Unix socket"),
    };
    status.ranks.iter().map(|rank| (rank.rank, name(&rank.addresses[0]))).collect()
}

#[test]
fn ranks_start_are_listed_and_stop_together_however_often() {
    let site = Site::new();
    for _ in 0..3 {
        let server = start(&site, 3);
        let names = ["loligo.sock", "loligo-1.sock", "loligo-2.sock"].map(String::from);
        assert_eq!(ranks(&server), [Rank(0), Rank(1), Rank(2)].into_iter().zip(names).collect::<Vec<_>>());
        server.stop().expect("it stops cleanly");
        assert!(!site.socket().with_file_name("loligo-2.sock").exists(), "its socket is gone");
    }
}

#[test]
fn each_rank_welcomes_its_clients_and_tells_of_the_others() {
    let site = Site::new();
    let server = start(&site, 3);
    for rank in 0..3 {
        let name = if rank == 0 { "loligo.sock".into() } else { format!("loligo-{rank}.sock") };
        let welcome = Raw::connect(&site.socket().with_file_name(name)).hello(None);
        assert_eq!((welcome.rank, welcome.session.rank()), (Rank(rank), Rank(rank)));
        assert_eq!((welcome.map.epoch, welcome.map.ranks.len()), (1, 3));
        let second: Address = welcome.map.ranks[1].address.parse().expect("an address");
        assert!(second.to_string().ends_with("/loligo-1.sock"), "{second}");
    }
    server.stop().expect("it stops cleanly");
}

#[test]
fn ranks_are_added_and_fewer_than_there_were_are_refused() {
    let site = Site::new();
    start(&site, 1).stop().expect("it stops cleanly");
    let server = start(&site, 3);
    let ino = Raw::session(&site.socket()).entry(mkdir(Ino::ROOT, "a")).ino;
    server.stop().expect("it stops cleanly");
    drop(server);
    for fewer in [1, 2] {
        let error = Server::start(config(&site, fewer), &mut |_| {}).err().expect("refused");
        assert!(matches!(error, ServerError::FewerRanks { there: 3, .. }), "{error}");
        assert!(error.to_string().contains("--ranks 3"), "{error}");
    }
    let server = start(&site, 0);
    assert_eq!(ranks(&server).len(), 3, "as many as there were");
    assert_eq!(Raw::session(&site.socket()).entry(crate::common::lookup(Ino::ROOT, "a")).ino, ino);
    server.stop().expect("it stops cleanly");
}

#[test]
fn a_rank_that_fails_ends_all_and_says_which() {
    let site = Site::new();
    let server = start(&site, 3);
    let mut raw = Raw::session(&site.socket());
    site.disk.fail(FaultPoint::LogSync, 1, Fault::Io);
    let request = raw.request(mkdir(Ino::ROOT, "a"));
    raw.send(&request);
    let why = server.wait_fatal(Some(Duration::from_secs(20))).expect("it ends");
    assert!(why.starts_with("rank 0: ") && why.contains("journal"), "{why}");
    assert!(server.status().is_err() && server.stop().is_err());
}

#[test]
fn an_administrator_asks_each_rank_and_none_that_is_not_there() {
    let site = Site::new();
    let server = start(&site, 2);
    for rank in 0..2 {
        let told = server.admin(Rank(rank), Ask::Routes).expect("an answer");
        assert!(matches!(told, Told::Routes(_)), "{told:?}");
    }
    let error = server.admin(Rank(2), Ask::Routes).expect_err("no such rank");
    assert!(error.to_string().contains("the ranks are 0, 1"), "{error}");
    server.stop().expect("it stops cleanly");
}

#[test]
fn a_client_on_the_thread_of_one_of_several_ranks_is_in_the_way_of_draining_that_one_alone() {
    let site = Site::new();
    let server = start(&site, 3);
    let client = server.resident(&Options::default()).expect("it is welcome");
    let refused = server.drain_rank(Rank(0)).expect_err("refused").to_string();
    assert!(refused.contains("loligo up"), "{refused}");
    server.drain_rank(Rank(2)).expect("it begins");
    client.stop(Duration::from_secs(20)).expect("it stops");
    server.stop().expect("it stops cleanly");
}

#[test]
fn ranks_killed_in_their_work_come_back() {
    let site = Site::new();
    let server = start(&site, 2);
    let mut raw = Raw::session(&site.socket());
    let made: Vec<Ino> = (0..20).map(|n| raw.entry(mkdir(Ino::ROOT, &format!("d{n}"))).ino).collect();
    site.power_loss(server);
    let server = start(&site, 0);
    let mut raw = Raw::session(&site.socket());
    for (n, ino) in made.into_iter().enumerate() {
        assert_eq!(raw.entry(crate::common::lookup(Ino::ROOT, &format!("d{n}"))).ino, ino);
    }
    server.stop().expect("it stops cleanly");
}

/// Moves a directory, and waits until that is done.
fn migrate(server: &Server, dir: Ino, from: Rank, to: Rank) -> Migration {
    let told = server.admin(from, Ask::Migrate { dir, to }).expect("an answer");
    let Told::Begun(id) = told else { panic!("{told:?}") };
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let told = server.admin(from, Ask::Migrations).expect("an answer");
        let Told::Migrations(all) = told else { panic!("{told:?}") };
        let ours = all.into_iter().find(|one| one.id == id).expect("it is known");
        match ours.state.as_str() {
            "done" => return ours,
            why if why.starts_with("failed") => panic!("{why}"),
            _ => assert!(Instant::now() < until, "{ours:?}"),
        }
    }
}

#[test]
fn a_directory_that_moves_takes_its_files_along_while_they_are_written() {
    let site = Site::new();
    let server = start(&site, 3);
    let connect = || Client::connect(&Address::Unix(site.socket()), Options::default()).expect("a connection");
    let client = connect();
    let fs = client.fs(Arc::new(Cred::root()));
    let dir = fs.mkdir("/d", 0o755).expect("made").ino;
    fs.mkdir("/d/e", 0o755).expect("made");
    let large = vec![7; 100_000];
    fs.write("/d/e/large", large.clone()).expect("written");
    let open = fs.open("/d/open", OpenHow::create()).expect("made");
    open.write_at(0, *b"before ").expect("written");
    let moved = migrate(&server, dir, Rank(0), Rank(2));
    assert_eq!((moved.from, moved.to), (Rank(0), Rank(2)));
    open.write_at(7, *b"after").expect("written");
    open.sync().expect("durable");
    fs.write("/d/e/new", *b"made at rank 2").expect("written");
    assert_eq!(fs.read("/d/open").expect("read"), b"before after");
    let made = fs.stat("/d/e/new").expect("there").ino;
    assert_eq!(made.birth_rank(), Rank(2), "{made}");
    drop(open);
    client.stop(Duration::from_secs(20)).expect("the client stops");
    server.stop().expect("it stops cleanly");
    drop(server);
    // All three start again, and a client finds everything.
    let server = start(&site, 0);
    let client = connect();
    let fs = client.fs(Arc::new(Cred::root()));
    assert_eq!(fs.read("/d/e/large").expect("read"), large);
    assert_eq!(fs.read("/d/open").expect("read"), b"before after");
    assert_eq!(fs.read("/d/e/new").expect("read"), b"made at rank 2");
    let told = server.admin(Rank(2), Ask::Routes).expect("an answer");
    let Told::Routes(routes) = told else { panic!("{told:?}") };
    assert!(routes.iter().any(|route| route.dir == dir && route.rank == Rank(2)), "{routes:?}");
    client.stop(Duration::from_secs(20)).expect("the client stops");
    server.stop().expect("it stops cleanly");
}
