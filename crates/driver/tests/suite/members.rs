//! Ranks that are added to a running server, drained and removed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::Site;
use loligo_driver::client::path::{Fs, OpenHow};
use loligo_driver::client::{Client, Options};
use loligo_driver::{Server, ServerConfig};
use loligo_mds::admin::{Ask, Migration, Told};
use loligo_types::{Cred, Ino, Rank};

fn start(site: &Site, ranks: u16) -> Server {
    Server::start(ServerConfig { ranks, ..site.config() }, &mut |_| {}).expect("the server starts")
}

fn connect(server: &Server) -> (Client, Fs) {
    let options = Options { name: "c".into(), ..Options::default() };
    let client = Client::connect(&server.addresses()[0], options).expect("it is welcome");
    let fs = client.fs(Arc::new(Cred::root()));
    (client, fs)
}

fn wait_until(what: impl Fn() -> String, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "{} takes too long", what());
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Moves a directory to a rank, whoever has it.
fn migrate(server: &Server, dir: Ino, to: u16) {
    migrate_from(server, Rank::ZERO, dir, to);
}

/// The same, asking this rank first.
fn migrate_from(server: &Server, mut from: Rank, dir: Ino, to: u16) {
    let id = loop {
        match server.admin(from, Ask::Migrate { dir, to: Rank(to) }).expect("it runs") {
            Told::Begun(id) => break id,
            Told::Elsewhere(rank) => from = rank,
            Told::Refused(text) if text.contains("already") => return,
            other => panic!("{other:?}"),
        }
    };
    let done = |migration: &Migration| {
        assert!(migration.id != id || !migration.state.starts_with("failed"), "{migration:?}");
        migration.id == id && migration.state == "done"
    };
    wait_until(
        || "a migration".into(),
        || match server.admin(from, Ask::Migrations).expect("it runs") {
            Told::Migrations(all) => all.iter().any(done),
            other => panic!("{other:?}"),
        },
    );
}

fn drain(server: &Server, rank: u16) {
    server.drain_rank(Rank(rank)).expect("it begins");
    let how_far = || format!("draining rank {rank}: {:?}", server.admin(Rank(rank), Ask::Drain));
    wait_until(how_far, || !server.ranks().contains(&Rank(rank)));
}

#[test]
fn ranks_are_added_and_drained_while_files_are_used() {
    let site = Site::new();
    let server = start(&site, 1);
    let (client, fs) = connect(&server);
    let dir = fs.mkdir("/a", 0o755).expect("there is room").ino;
    fs.mkdir("/b", 0o755).expect("there is room");
    assert_eq!(server.add_ranks(2).expect("there is room"), [Rank(1), Rank(2)]);
    for round in 0..6u16 {
        let to = 1 + round % 2;
        migrate(&server, dir, to);
        let open = fs.open(format!("/a/open-{round}"), OpenHow::create()).expect("a file");
        open.write_at(0, b"before".as_slice()).expect("there is room");
        for n in 0..20 {
            fs.write(format!("/a/{round}-{n}"), format!("{round}-{n}").into_bytes()).expect("there is room");
            if n % 4 == 0 {
                // Stays with the rank of the directory that it came from, as long as that is there.
                fs.rename(format!("/a/{round}-{n}"), format!("/b/{round}-{n}")).expect("it is there");
            }
        }
        drain(&server, to);
        open.write_at(6, b" and after".as_slice()).expect("the file is still open");
        drop(open);
        assert_eq!(fs.read(format!("/a/open-{round}")).expect("it is there"), b"before and after");
        assert_eq!(server.add_ranks(1).expect("there is room"), [Rank(to)], "the number is used again");
    }
    for round in 0..6u16 {
        for n in 0..20 {
            let path = format!("/{}/{round}-{n}", if n % 4 == 0 { "b" } else { "a" });
            assert_eq!(fs.read(&path).expect("it is there"), format!("{round}-{n}").as_bytes(), "{path}");
        }
    }
    drop(client);
    server.stop().expect("it stops cleanly");
}

#[test]
fn what_was_added_or_drained_is_so_after_a_restart_too() {
    let site = Site::new();
    let server = start(&site, 2);
    let (client, fs) = connect(&server);
    let dir = fs.mkdir("/a", 0o755).expect("there is room").ino;
    server.add_ranks(1).expect("there is room");
    migrate(&server, dir, 1);
    drain(&server, 1);
    drop((client, fs));
    server.stop().expect("it stops cleanly");
    drop(server);
    let server = start(&site, 0);
    assert_eq!(server.ranks(), [Rank(0), Rank(2)]);
    let (client, fs) = connect(&server);
    assert_eq!(fs.stat("/a").expect("it is there").ino, dir);
    drop((client, fs));
    server.stop().expect("it stops cleanly");
    drop(server);
    let server = start(&site, 3);
    assert_eq!(server.ranks(), [Rank(0), Rank(1), Rank(2)], "the lowest number that is free");
    server.stop().expect("it stops cleanly");
}

#[test]
fn what_cannot_be_drained_is_refused_with_what_to_do() {
    let site = Site::new();
    let server = start(&site, 2);
    let refused = |rank| server.drain_rank(Rank(rank)).expect_err("refused").to_string();
    assert!(refused(7).contains("there is no rank 7: the ranks are 0, 1"), "{}", refused(7));
    let undrain = server.undrain_rank(Rank(1)).expect_err("refused").to_string();
    assert!(undrain.contains("not being drained"), "{undrain}");
    drain(&server, 1);
    assert!(refused(0).contains("loligo rank add"), "{}", refused(0));
    assert!(server.add_ranks(64).expect_err("refused").to_string().contains("too many"));
    server.stop().expect("it stops cleanly");
}

#[test]
fn the_first_rank_is_drained_and_clients_begin_at_another_one() {
    let site = Site::new();
    let server = start(&site, 2);
    let (client, fs) = connect(&server);
    fs.mkdir("/a", 0o755).expect("there is room");
    let open = fs.open("/a/open", OpenHow::create()).expect("a file");
    open.write_at(0, b"before".as_slice()).expect("there is room");
    drain(&server, 0);
    assert_eq!(server.ranks(), [Rank(1)]);
    open.write_at(6, b" and after".as_slice()).expect("the file is still open");
    drop(open);
    assert_eq!(fs.read("/a/open").expect("it is there"), b"before and after");
    let (late, late_fs) = connect(&server);
    assert_eq!(late_fs.read("/a/open").expect("it is there"), b"before and after");
    assert_eq!(server.add_ranks(2).expect("there is room"), [Rank(2), Rank(3)], "0 is not used again");
    fs.write("/b", *b"b").expect("there is room");
    drain(&server, 1);
    assert_eq!(late_fs.read("/b").expect("it is there"), b"b");
    assert_eq!(server.add_ranks(1).expect("there is room"), [Rank(1)], "elsewhere than clients begin");
    migrate_from(&server, Rank(2), fs.stat("/a").expect("it is there").ino, 1);
    for fs in [&fs, &late_fs, &connect(&server).1] {
        assert_eq!(fs.read("/a/open").expect("it is there"), b"before and after");
    }
    drop((client, late));
    server.stop().expect("it stops cleanly");
    drop(server);
    let server = start(&site, 0);
    assert_eq!(server.ranks(), [Rank(1), Rank(2), Rank(3)]);
    assert_eq!(connect(&server).1.read("/b").expect("it is there"), b"b");
    server.stop().expect("it stops cleanly");
}
