//! The client that lives on the rank's thread, and its guest: calls, caches, turns, and every end there is.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::Site;
use loligo_driver::Server;
use loligo_driver::client::{Call, CallResult, Client, Done, Invalidate, Options};
use loligo_driver::server::{Guest, Resident, Took};
use loligo_mds::admin::{Ask, Told};
use loligo_types::{Answer, Attr, Cred, FsError, Ino, Name, Op, OpenFlags, Rank, SetAttr};

const PATIENCE: Duration = Duration::from_secs(20);

fn resident(server: &Server) -> Resident {
    let options = Options { name: "resident".into(), cache: true, cache_names: true, ..Options::default() };
    server.resident(&options).expect("the server has no resident yet")
}

fn root() -> Arc<Cred> {
    Arc::new(Cred::user(0, 0))
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a name")
}

fn call(client: &Resident, call: Call) -> CallResult {
    let (to, from) = channel();
    client.submit(&root(), call, move |result| to.send(result).expect("somebody waits"));
    from.recv_timeout(PATIENCE).expect("an answer")
}

fn attr(result: CallResult) -> Attr {
    *result.expect("it succeeds").attr().expect("attributes")
}

fn mkdir(client: &Resident, text: &str) -> Attr {
    attr(call(client, Call::Op(Op::Mkdir { dir: Ino::ROOT, name: name(text), mode: 0o755, umask: 0 })))
}

fn write(client: &Resident, text: &str, data: &[u8]) -> Ino {
    let flags = OpenFlags { write: true, ..OpenFlags::default() };
    let create = Call::Create { dir: Ino::ROOT, name: name(text), mode: 0o644, umask: 0, flags, exclusive: true };
    let done = call(client, create).expect("created");
    let (fh, ino) = (done.fh.expect("a handle"), done.attr().expect("attributes").ino);
    call(client, Call::Write { fh, offset: 0, data: data.into(), append: false, kill_priv: false }).expect("written");
    call(client, Call::Fsync { fh, data_only: false }).expect("synced");
    call(client, Call::Release { fh, flock_owner: None }).expect("closed");
    ino
}

fn read(client: &Resident, ino: Ino, len: u32) -> Vec<u8> {
    let flags = OpenFlags { read: true, ..OpenFlags::default() };
    let fh = call(client, Call::Open { ino, flags }).expect("opened").fh.expect("a handle");
    let Done { answer: Answer::Bytes(bytes), .. } = call(client, Call::Read { fh, offset: 0, len }).expect("read")
    else {
        panic!("bytes are due")
    };
    bytes.to_vec()
}

#[test]
fn a_resident_and_a_connected_client_see_each_others_changes() {
    let site = Site::new();
    let server = site.start();
    let ours = resident(&server);
    let theirs = Client::connect(
        &server.connect_pair().expect("a pair"),
        Options { name: "other".into(), cache: true, cache_names: true, ..Options::default() },
    )
    .expect("welcome");
    let made = mkdir(&ours, "d");
    let lookup = Call::Op(Op::Lookup { dir: Ino::ROOT, name: name("d") });
    assert_eq!(attr(theirs.call(&root(), lookup)).ino, made.ino);
    for mode in [0o700, 0o711, 0o755] {
        let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
        theirs.call(&root(), Call::SetAttr { ino: made.ino, set, fh: None }).expect("changed");
        assert_eq!(attr(call(&ours, Call::GetAttr { ino: made.ino })).mode, mode, "its lease was recalled");
        let set = SetAttr { mode: Some(mode | 0o2), ..SetAttr::default() };
        call(&ours, Call::SetAttr { ino: made.ino, set, fh: None }).expect("changed");
        assert_eq!(attr(theirs.call(&root(), Call::GetAttr { ino: made.ino })).mode, mode | 0o2);
    }
    theirs.stop(PATIENCE).expect("stopped");
    ours.stop(PATIENCE).expect("stopped");
    server.stop().expect("stopped");
}

/// Caches above that only note what they are told.
#[derive(Default)]
struct Noted(Mutex<Vec<Ino>>);

impl Invalidate for Noted {
    fn names(&self, _: &[Ino]) {}

    fn attr(&self, ino: Ino) {
        self.0.lock().expect("no panic").push(ino);
    }

    fn data(&self, _: Ino) {}
}

#[test]
fn caches_above_are_told_before_another_client_changes_what_they_hold() {
    let site = Site::new();
    let server = site.start();
    let noted = Arc::new(Noted::default());
    let options = Options { cache: true, invalidate: Some(noted.clone()), ..Options::default() };
    let ours = server.resident(&options).expect("resident");
    let made = mkdir(&ours, "d");
    call(&ours, Call::GetAttr { ino: made.ino }).expect("attributes, under a lease");
    let theirs = Client::connect(&server.connect_pair().expect("a pair"), Options::default()).expect("welcome");
    let set = SetAttr { mode: Some(0o700), ..SetAttr::default() };
    theirs.call(&root(), Call::SetAttr { ino: made.ino, set, fh: None }).expect("changed");
    assert!(noted.0.lock().expect("no panic").contains(&made.ino));
    theirs.stop(PATIENCE).expect("stopped");
    ours.stop(PATIENCE).expect("stopped");
    server.stop().expect("stopped");
}

#[test]
fn what_a_resident_wrote_is_there_after_a_restart() {
    let site = Site::new();
    let server = site.start();
    let client = resident(&server);
    let small = write(&client, "small", b"inline");
    let large = write(&client, "large", &[7; 1 << 20]);
    client.stop(PATIENCE).expect("stopped");
    server.stop().expect("stopped");
    drop(server);
    let server = site.start();
    let client = resident(&server);
    assert_eq!(read(&client, small, 100), b"inline");
    assert!(read(&client, large, 1 << 20) == [7; 1 << 20]);
    client.stop(PATIENCE).expect("stopped");
    server.stop().expect("stopped");
}

#[test]
fn what_a_resident_synced_is_there_after_a_power_loss() {
    let site = Site::new();
    let server = site.start();
    let client = resident(&server);
    let large = write(&client, "large", &[7; 1 << 20]);
    site.power_loss(server);
    let refused = call(&client, Call::GetAttr { ino: large });
    assert_eq!(refused.expect_err("nobody answers").error, FsError::Unavailable);
    let server = site.start();
    let client = resident(&server);
    assert!(read(&client, large, 1 << 20) == [7; 1 << 20]);
    client.stop(PATIENCE).expect("stopped");
    server.stop().expect("stopped");
}

#[test]
fn there_can_be_one_resident() {
    let site = Site::new();
    let server = site.start();
    let _first = resident(&server);
    let second = server.resident(&Options::default()).map(drop).expect_err("one is enough");
    assert!(second.to_string().contains("resident"), "{second}");
}

#[test]
fn a_resident_that_is_refused_is_told_why() {
    let site = Site::new();
    let mut config = site.config();
    config.mds.sessions_max = 1;
    let server = Server::start(config, &mut |_| {}).expect("the server starts");
    let pair = server.connect_pair().expect("a pair");
    let first = Client::connect(&pair, Options::default()).expect("welcome");
    let refused = server.resident(&Options::default()).map(drop).expect_err("there is room for one session");
    assert!(refused.to_string().contains("session"), "{refused}");
    first.call(&root(), Call::GetAttr { ino: Ino::ROOT }).expect("the server goes on");
    first.stop(PATIENCE).expect("stopped");
    resident(&server).stop(PATIENCE).expect("there is room now");
    server.stop().expect("stopped");
}

#[test]
fn a_name_that_is_too_long_is_cut() {
    let site = Site::new();
    let server = site.start();
    let options = Options { name: "ü".repeat(300), ..Options::default() };
    let client = server.resident(&options).expect("welcome");
    client.stop(PATIENCE).expect("stopped");
    server.stop().expect("stopped");
}

#[test]
fn after_its_stop_a_resident_answers_nothing_but_errors() {
    let site = Site::new();
    let server = site.start();
    let client = resident(&server);
    client.stop(PATIENCE).expect("stopped");
    let failed = call(&client, Call::GetAttr { ino: Ino::ROOT }).expect_err("it is over");
    assert_eq!(failed.error, FsError::Unavailable);
    server.stop().expect("stopped");
    assert_eq!(client.stop(PATIENCE), Err(FsError::Unavailable), "nobody is there to stop it");
}

/// The byte that a [`Piped`] guest does not bear.
const PANICS: u8 = 255;

/// Makes a directory for each byte of a pipe; ends with a zero.
struct Piped {
    pipe: OwnedFd,
    client: Resident,
    made: Sender<u8>,
    orphaned: Sender<()>,
}

impl Guest for Piped {
    fn source(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    fn take(&mut self) -> Took {
        let mut byte = [0];
        if rustix::io::read(&self.pipe, &mut byte) != Ok(1) {
            return Took::Nothing;
        }
        let [byte] = byte;
        assert!(byte != PANICS, "a guest that is wrong");
        let (made, text) = (self.made.clone(), name(&format!("d{byte}")));
        let op = Op::Mkdir { dir: Ino::ROOT, name: text, mode: 0o755, umask: 0 };
        self.client.submit(&root(), Call::Op(op), move |result| {
            if result.is_ok() {
                // Nobody waits for those that are made while the test ends.
                let _ = made.send(byte);
            }
        });
        if byte == 0 { Took::End } else { Took::Request }
    }

    fn orphaned(self: Box<Self>) {
        self.orphaned.send(()).expect("the test waits");
    }
}

fn piped(client: &Resident) -> (OwnedFd, Receiver<u8>, Receiver<()>) {
    let (pipe, bytes) = rustix::pipe::pipe().expect("a pipe");
    rustix::io::ioctl_fionbio(&pipe, true).expect("a pipe that does not wait");
    let (made, done) = channel();
    let (orphaned, told) = channel();
    client.host(Box::new(Piped { pipe, client: client.clone(), made, orphaned }));
    (bytes, done, told)
}

#[test]
fn a_guest_makes_its_calls_until_it_says_that_it_is_over() {
    let site = Site::new();
    let server = site.start();
    let client = resident(&server);
    let (bytes, done, told) = piped(&client);
    for byte in 1..100 {
        rustix::io::write(&bytes, &[byte]).expect("written");
    }
    // Calls under way at once are answered in any order.
    let mut made: Vec<u8> = (1..100).map(|_| done.recv_timeout(PATIENCE).expect("made")).collect();
    made.sort_unstable();
    assert!(made.into_iter().eq(1..100));
    rustix::io::write(&bytes, &[0]).expect("written");
    assert_eq!(done.recv_timeout(PATIENCE), Ok(0));
    client.stop(PATIENCE).expect("stopped");
    server.stop().expect("stopped");
    assert!(told.recv_timeout(PATIENCE).is_err(), "it was gone before the server was");
}

#[test]
fn a_guest_that_panics_ends_neither_itself_nor_the_server() {
    let site = Site::new();
    let server = site.start();
    let client = resident(&server);
    let (bytes, done, _told) = piped(&client);
    rustix::io::write(&bytes, &[1, PANICS, 2, PANICS, 3]).expect("written");
    let mut made: Vec<u8> = (0..3).map(|_| done.recv_timeout(PATIENCE).expect("made")).collect();
    made.sort_unstable();
    assert_eq!(made, [1, 2, 3]);
    rustix::io::write(&bytes, &[0]).expect("written");
    assert_eq!(done.recv_timeout(PATIENCE), Ok(0));
    client.stop(PATIENCE).expect("stopped");
    server.stop().expect("stopped");
}

#[test]
fn a_guest_that_outlives_the_server_is_told() {
    let site = Site::new();
    let server = site.start();
    let client = resident(&server);
    let (_bytes, _done, told) = piped(&client);
    mkdir(&client, "so that the guest is in");
    server.stop().expect("stopped");
    told.recv_timeout(PATIENCE).expect("told");
    let (_bytes, _done, told) = piped(&client);
    told.recv_timeout(PATIENCE).expect("told at once");
}

#[test]
fn a_resident_goes_on_with_ranks_that_come_and_go() {
    let site = Site::new();
    let server = site.start();
    let client = resident(&server);
    let dir = mkdir(&client, "d").ino;
    let file = write(&client, "kept", &[7; 1 << 20]);
    assert_eq!(server.add_ranks(2).expect("there is room"), [Rank(1), Rank(2)]);
    for (round, to) in [1, 2, 0, 1].into_iter().enumerate() {
        move_to(&server, dir, to);
        // Small and large, names and data, at the rank that has the directory.
        let create = |text: &str| Call::Create {
            dir,
            name: name(text),
            mode: 0o644,
            umask: 0,
            flags: OpenFlags { read: true, write: true, ..OpenFlags::default() },
            exclusive: true,
        };
        for n in 0..20 {
            let done = call(&client, create(&format!("{round}-{n}"))).expect("created");
            let fh = done.fh.expect("a handle");
            let data: Arc<[u8]> = vec![n; if n % 5 == 0 { 300_000 } else { 10 }].into();
            let put = Call::Write { fh, offset: 0, data: data.clone(), append: false, kill_priv: false };
            call(&client, put).expect("written");
            call(&client, Call::Fsync { fh, data_only: false }).expect("synced");
            call(&client, Call::Release { fh, flock_owner: None }).expect("closed");
            assert!(read(&client, done.attr().expect("attributes").ino, data.len() as u32) == *data);
        }
    }
    let refused = server.drain_rank(Rank(0)).expect_err("refused").to_string();
    assert!(refused.contains("the mount in the server's process"), "{refused}");
    let first = mkdir(&client, "e").ino;
    move_to(&server, first, 2);
    server.drain_rank(Rank(1)).expect("it begins");
    let until = std::time::Instant::now() + PATIENCE;
    while server.ranks().contains(&Rank(1)) {
        assert!(std::time::Instant::now() < until, "{:?}", server.admin(Rank(1), Ask::Drain));
        assert_eq!(attr(call(&client, Call::GetAttr { ino: dir })).ino, dir);
    }
    assert_eq!(attr(call(&client, Call::GetAttr { ino: first })).ino, first);
    assert!(read(&client, file, 1 << 20) == [7; 1 << 20]);
    client.stop(PATIENCE).expect("stopped");
    server.stop().expect("stopped");
}

/// Moves a directory to a rank, whoever has it, and waits until it is there.
fn move_to(server: &Server, dir: Ino, to: u16) {
    let mut from = Rank(0);
    let id = loop {
        match server.admin(from, Ask::Migrate { dir, to: Rank(to) }).expect("it runs") {
            Told::Begun(id) => break id,
            Told::Elsewhere(rank) => from = rank,
            other => panic!("{other:?}"),
        }
    };
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        let Told::Migrations(all) = server.admin(from, Ask::Migrations).expect("it runs") else { panic!("migrations") };
        if all.iter().any(|one| one.id == id && one.state == "done") {
            return;
        }
        assert!(std::time::Instant::now() < until, "{all:?}");
    }
}
