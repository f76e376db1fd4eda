//! Clients that come in over TLS as identities: who is let in, who is not, and what a read-only one may not do whatever it
//! sends.

use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use crate::common::Site;
use loligo_driver::client::{ConnectError, Options};
use loligo_driver::sock::Sock;
use loligo_driver::{Address, Client, FormatOptions, Identity, Rights, Server, ServerConfig, Squash, format};
use loligo_store::Backend;
use loligo_store::mem::MemDisk;
use loligo_types::msg::{DataRequest, Hello, PROTOCOL_VERSION, Refusal, Request, ToClient, ToServer, Welcome};
use loligo_types::{
    Answer, Cred, DataAnswer, DataError, DataOp, FsError, FsResult, Ino, Lease, Op, OpenFlags, Seq, SessionId,
};
use loligo_wire::{Decoder, FromServer, encode_to_server};
use rustix::event::{PollFd, PollFlags, Timespec};

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn tcp(port: u16) -> Address {
    Address::Tcp(format!("127.0.0.1:{port}"))
}

fn start(site: &Site, change: impl FnOnce(&mut ServerConfig)) -> Server {
    let mut config = site.config();
    config.listen.push(tcp(0));
    change(&mut config);
    Server::start(config, &mut |_| {}).expect("the server starts")
}

/// Where it listens on TCP.
fn address(server: &Server) -> Address {
    let is_tcp = |at: &&Address| matches!(at, Address::Tcp(_));
    server.addresses().iter().find(is_tcp).cloned().expect("it listens on TCP")
}

fn identity(server: &Server, name: &str, read_only: bool) -> Identity {
    let (_, file) = server.add_identity(name, Rights::everywhere(!read_only)).expect("a good name");
    Identity::parse(&file).expect("a good file")
}

fn connect(at: &Address, identity: Option<&Identity>) -> Result<Client, ConnectError> {
    Client::connect(at, Options { name: "test".into(), identity: identity.cloned(), ..Options::default() })
}

fn root() -> Arc<Cred> {
    Arc::new(Cred::root())
}

#[test]
fn an_identity_comes_in_over_tls_and_reads_and_writes_for_all_users() {
    let site = Site::new();
    let server = start(&site, |_| {});
    let one = identity(&server, "one", false);
    let client = connect(&address(&server), Some(&one)).expect("it is let in");
    let fs = client.fs(root()).with_umask(0);
    fs.mkdir("/d", 0o777).expect("root may");
    let user = client.fs(Arc::new(Cred::user(1000, 1000)));
    // Longer than what goes into a socket, or into TLS, at once.
    let bytes: Vec<u8> = (0..12 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    user.write("/d/large", bytes.clone()).expect("the user may");
    assert_eq!(fs.stat("/d/large").expect("it is there").uid, 1000);
    client.stop(PATIENCE).expect("all is written");
    let client = connect(&address(&server), Some(&one)).expect("it is let in");
    assert!(client.fs(root()).read("/d/large").expect("it is there") == bytes);
    client.stop(PATIENCE).expect("nothing is left");
    server.stop().expect("a clean stop");
}

#[test]
fn many_threads_speak_over_one_tls_connection() {
    let site = Site::new();
    let server = start(&site, |_| {});
    let client = connect(&address(&server), Some(&identity(&server, "one", false))).expect("it is let in");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let fs = client.fs(root());
            scope.spawn(move || {
                for file in 0..50 {
                    let (path, bytes) = (format!("/{thread}-{file}"), vec![thread as u8; 20_000 + file]);
                    fs.write(&path, bytes.clone()).expect("there is room");
                    assert!(fs.read(&path).expect("it is there") == bytes);
                }
            });
        }
    });
    client.stop(PATIENCE).expect("all is written");
}

#[test]
fn the_same_identity_is_let_in_after_a_restart_and_its_client_goes_on() {
    let site = Site::new();
    let server = start(&site, |_| {});
    let one = identity(&server, "one", false);
    let at = address(&server);
    let client = connect(&at, Some(&one)).expect("it is let in");
    client.fs(root()).mkdir("/before", 0o755).expect("there is room");
    server.stop().expect("a clean stop");
    drop(server);
    let mut config = site.config();
    config.listen.push(at.clone());
    let server = Server::start(config, &mut |_| {}).expect("the server starts");
    client.fs(root()).mkdir("/after", 0o755).expect("the client finds it again");
    assert!(client.fs(root()).stat("/before").is_ok());
    client.stop(PATIENCE).expect("nothing is left");
    server.stop().expect("a clean stop");
}

fn refused(result: Result<Client, ConnectError>) -> String {
    match result {
        Err(ConnectError::Refused { why: Refusal::NotAuthorized, text, .. }) => text,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it was let in"),
    }
}

#[test]
fn without_an_identity_nobody_comes_in_and_is_told_how_to() {
    let site = Site::new();
    let server = start(&site, |_| {});
    let text = refused(connect(&address(&server), None));
    assert!(text.contains("--identity") && text.contains("loligo auth add"), "{text}");
}

#[test]
fn where_others_can_come_from_tls_is_needed_whatever_is_trusted() {
    let site = Site::new();
    let server = start(&site, |config| {
        config.trust_tcp = true;
        config.listen.push(Address::Tcp("0.0.0.0:0".into()));
    });
    let open = server.addresses().last().cloned().expect("it listens");
    let Address::Tcp(at) = &open else { panic!("{open}") };
    let port = at.rsplit_once(':').expect("a port").1.parse().expect("a number");
    let text = refused(connect(&tcp(port), None));
    assert!(text.contains("--identity"), "{text}");
    let one = identity(&server, "one", false);
    connect(&tcp(port), Some(&one)).expect("it is let in").stop(PATIENCE).expect("nothing is left");
    // Only this host reaches the other one, where all may be trusted.
    connect(&address(&server), None).expect("it is let in").stop(PATIENCE).expect("nothing is left");
}

#[test]
fn who_was_revoked_is_out_at_once_and_is_told_so_when_it_comes_again() {
    let site = Site::new();
    let server = start(&site, |config| config.ranks = 2);
    let (one, two) = (identity(&server, "one", false), identity(&server, "two", false));
    let client = connect(&address(&server), Some(&one)).expect("it is let in");
    let other = connect(&address(&server), Some(&two)).expect("it is let in");
    client.fs(root()).mkdir("/d", 0o755).expect("there is room");
    server.revoke_identity("one").expect("it is there");
    let evicted = || server.status().expect("it runs").ranks.iter().map(|rank| rank.mds.evicted).sum::<u64>();
    assert_eq!(evicted(), 1);
    assert!(client.fs(root()).mkdir("/e", 0o755).is_err(), "its session has ended");
    let text = refused(connect(&address(&server), Some(&one)));
    assert!(text.contains("revoked"), "{text}");
    other.fs(root()).mkdir("/f", 0o755).expect("the other one is not concerned");
    let again = identity(&server, "one", false);
    connect(&address(&server), Some(&again)).expect("a new one of this name is let in");
    refused(connect(&address(&server), Some(&one)));
    other.stop(PATIENCE).expect("nothing is left");
}

#[test]
fn an_identity_of_another_file_system_does_not_come_in() {
    let (site, other) = (Site::new(), MemDisk::new(loligo_store::Identity::new([1; 16], [9; 16])));
    format(&*other.open().expect("a new disk opens"), &FormatOptions::default()).expect("formatting");
    let backend: Arc<dyn Backend> = other.open().expect("the disk is free");
    let server = start(&site, |_| {});
    let other = Server::start(ServerConfig::new(backend), &mut |_| {}).expect("the server starts");
    let stranger = identity(&other, "one", false);
    identity(&server, "one", false);
    match connect(&address(&server), Some(&stranger)) {
        Err(error @ ConnectError::Tls { .. }) => assert!(error.to_string().contains("file system"), "{error}"),
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it was let in"),
    }
}

#[test]
fn a_read_only_identity_reads_everything_and_changes_nothing() {
    let site = Site::new();
    let server = start(&site, |_| {});
    let writer = connect(&address(&server), Some(&identity(&server, "writer", false))).expect("it is let in");
    let fs = writer.fs(root());
    fs.mkdir("/d", 0o777).expect("there is room");
    fs.write("/d/small", *b"small").expect("there is room");
    fs.write("/d/large", vec![7; 3 << 20]).expect("there is room");
    writer.stop(PATIENCE).expect("all is written");

    let reader = connect(&address(&server), Some(&identity(&server, "reader", true))).expect("it is let in");
    let fs = reader.fs(root());
    assert_eq!(fs.read("/d/small").expect("it may read"), *b"small");
    assert_eq!(fs.read("/d/large").expect("it may read").len(), 3 << 20);
    assert_eq!(fs.stat("/d").expect("it may look").nlink, 2);
    let is_refused = |what: &str, error: Option<FsError>| assert_eq!(error, Some(FsError::ReadOnly), "{what}");
    is_refused("mkdir", fs.mkdir("/d/e", 0o755).err());
    is_refused("create", fs.write("/d/new", *b"x").err());
    is_refused("write", fs.write("/d/small", *b"x").err());
    is_refused("unlink", fs.unlink("/d/small").err());
    is_refused("rename", fs.rename("/d/small", "/d/other").err());
    reader.stop(PATIENCE).expect("nothing is left");
}

#[test]
fn an_identity_with_paths_comes_to_what_lies_below_them_and_to_nothing_else() {
    let site = Site::new();
    let server = start(&site, |_| {});
    let writer = connect(&address(&server), Some(&identity(&server, "writer", false))).expect("it is let in");
    let all = writer.fs(root());
    for dir in ["/home", "/home/ann", "/home/ben", "/pub"] {
        all.mkdir(dir, 0o777).expect("there is room");
    }
    for file in ["/home/ben/f", "/pub/f"] {
        all.write(file, vec![7; 3 << 20]).expect("there is room");
    }

    let allow = ["rw:/home/ann", "r:/pub"].map(|text| text.parse().expect("good rights"));
    let rights = Rights::of(allow.into()).expect("good rights").squashing(Squash::None);
    let (listed, file) = server.add_identity("ann", rights).expect("a good name");
    assert_eq!(server.identities().expect("a good list").iter().find(|one| one.name == "ann"), Some(&listed));
    let ann = connect(&address(&server), Some(&Identity::parse(&file).expect("a good file"))).expect("it is let in");
    let fs = ann.fs(root());
    fs.write("/home/ann/f", vec![1; 3 << 20]).expect("here it may");
    fs.mkdir("/home/ann/d", 0o755).expect("here it may");
    fs.rename("/home/ann/f", "/home/ann/d/f").expect("here it may");
    assert_eq!(fs.read("/home/ann/d/f").expect("here it may").len(), 3 << 20);
    assert_eq!(fs.read("/pub/f").expect("it may read").len(), 3 << 20);
    assert_eq!(fs.write("/pub/f", *b"x").err(), Some(FsError::ReadOnly));
    assert_eq!(fs.rename("/pub/f", "/home/ann/f").err(), Some(FsError::ReadOnly));
    for path in ["/home/ben", "/home/ben/f", "/nothing"] {
        assert_eq!(fs.stat(path).err(), Some(FsError::Access), "{path}");
    }
    assert_eq!(fs.mkdir("/home/carl", 0o755).err(), Some(FsError::Access));
    assert_eq!(fs.rename("/home/ann", "/home/anna").err(), Some(FsError::Access));
    assert_eq!(fs.stat("/home").expect("it is on the way").mode, 0o755);

    // What comes below is at once below, what is moved away is at once away.
    all.rename("/home/ben/f", "/home/ann/g").expect("nothing is in the way");
    assert_eq!(fs.read("/home/ann/g").expect("it came here").len(), 3 << 20);
    let moved = all.stat("/home/ann/d").expect("it is there").ino;
    all.rename("/home/ann/d", "/home/ben/d").expect("nothing is in the way");
    assert_eq!(fs.stat("/home/ben/d/f").err(), Some(FsError::Access));
    let mut raw = Raw::connect(&address(&server), &Identity::parse(&file).expect("a good file"));
    raw.welcome(77);
    assert_eq!(raw.call(Op::GetAttr { ino: moved }).err(), Some(FsError::Access), "by its number neither");
    ann.stop(PATIENCE).expect("nothing is left");
    writer.stop(PATIENCE).expect("nothing is left");
}

/// A client that speaks nothing but the wire, over TLS.
struct Raw {
    sock: Sock,
    decoder: Decoder<FromServer>,
    seq: u64,
}

impl Raw {
    fn connect(at: &Address, identity: &Identity) -> Raw {
        let sock = Sock::connect(at, Some(identity)).expect("it is let in");
        let mut decoder = Decoder::new();
        decoder.handshake_done();
        Raw { sock, decoder, seq: 0 }
    }

    fn hello(&mut self, client: u64, resume: Option<(SessionId, u64)>) -> ToClient {
        let versions = (PROTOCOL_VERSION, PROTOCOL_VERSION);
        self.send(&ToServer::Hello(Hello { versions, resume, name: "raw".into(), client, fs_id: None }));
        self.recv()
    }

    fn welcome(&mut self, client: u64) -> Welcome {
        match self.hello(client, None) {
            ToClient::Welcome(welcome) => welcome,
            other => panic!("instead of a welcome: {other:?}"),
        }
    }

    fn send(&mut self, msg: &ToServer) {
        let mut bytes = Vec::new();
        encode_to_server(msg, &mut bytes);
        let sent = self.sock.write(&[IoSlice::new(&bytes)]).expect("it is sent");
        assert_eq!(sent, bytes.len(), "there is room for so little");
    }

    fn recv(&mut self) -> ToClient {
        loop {
            if let Some(msg) = self.decoder.next_message().expect("servers send good frames") {
                return msg;
            }
            match self.sock.read(self.decoder.space()).expect("it is open") {
                Some(0) => panic!("the server closed the connection"),
                Some(n) => self.decoder.filled(n),
                None => {
                    let mut fds = [PollFd::new(&self.sock, PollFlags::IN)];
                    let limit = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
                    assert_ne!(rustix::event::poll(&mut fds, Some(&limit)).expect("it is open"), 0, "nothing came");
                }
            }
        }
    }

    fn call(&mut self, op: Op) -> FsResult<Answer> {
        self.seq += 1;
        let seq = Seq(self.seq);
        let (want, cred) = (Lease::NONE, Cred::root());
        self.send(&ToServer::Request(Request { seq, answered: seq, want, cred, op, ino: None, ways: None }));
        match self.recv() {
            ToClient::Reply { result, .. } => result,
            other => panic!("instead of a reply: {other:?}"),
        }
    }

    fn data(&mut self, ino: Ino, op: DataOp) -> Result<DataAnswer, DataError> {
        self.send(&ToServer::Data(DataRequest { id: 1, ino, object_size: 4 << 20, op }));
        match self.recv() {
            ToClient::Data { result, .. } => result,
            other => panic!("instead of data: {other:?}"),
        }
    }
}

#[test]
fn what_a_read_only_identity_may_not_do_the_server_refuses_and_not_its_client() {
    let site = Site::new();
    let server = start(&site, |_| {});
    let at = address(&server);
    let writer = connect(&at, Some(&identity(&server, "writer", false))).expect("it is let in");
    writer.fs(root()).write("/large", vec![7; 1 << 20]).expect("there is room");
    let ino = writer.fs(root()).stat("/large").expect("it is there").ino;
    writer.stop(PATIENCE).expect("all is written");

    let mut raw = Raw::connect(&at, &identity(&server, "reader", true));
    raw.welcome(1);
    let open = |flags| Op::Open { ino, flags, handle: 1 };
    let flags = OpenFlags { read: true, ..OpenFlags::default() };
    for bad in
        [OpenFlags { write: true, ..flags }, OpenFlags { truncate: true, ..flags }, OpenFlags { append: true, ..flags }]
    {
        assert_eq!(raw.call(open(bad)).err(), Some(FsError::ReadOnly), "{bad:?}");
    }
    raw.call(open(flags)).expect("it may read");
    assert!(matches!(raw.data(ino, DataOp::Read { offset: 0, len: 4 }), Ok(DataAnswer::Bytes(b)) if *b == [7; 4]));
    let write = DataOp::Write { offset: 0, data: (*b"xxxx").into() };
    for op in [write, DataOp::Punch { offset: 0, len: 4 }, DataOp::Discard { from: 0 }] {
        assert_eq!(raw.data(ino, op).err(), Some(DataError::Stale));
    }
    assert!(matches!(raw.data(ino, DataOp::Read { offset: 0, len: 4 }), Ok(DataAnswer::Bytes(b)) if *b == [7; 4]));
}

#[test]
fn a_session_belongs_to_its_identity() {
    let site = Site::new();
    let server = start(&site, |_| {});
    let at = address(&server);
    let (one, two) = (identity(&server, "one", false), identity(&server, "two", true));
    let mut raw = Raw::connect(&at, &one);
    let welcome = raw.welcome(77);
    let resume = Some((welcome.session, welcome.secret));
    let mut other = Raw::connect(&at, &two);
    let told = other.hello(77, resume);
    assert!(matches!(told, ToClient::Refused { why: Refusal::NotAuthorized, .. }), "{told:?}");
    let mut again = Raw::connect(&at, &one);
    assert!(matches!(again.hello(77, resume), ToClient::Welcome(welcome) if welcome.resumed));
    // Without a number it would be anybody's: the key of its secret is told to every client.
    let told = Raw::connect(&at, &one).hello(0, None);
    assert!(matches!(told, ToClient::Refused { why: Refusal::NotAuthorized, .. }), "{told:?}");
}

/// Sends bytes, and reads until the server closes the connection.
fn answer(at: &Address, bytes: &[u8], closes: bool) -> Vec<u8> {
    let Address::Tcp(at) = at else { panic!("{at}") };
    let mut stream = TcpStream::connect(at).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
    stream.write_all(bytes).expect("it takes it");
    if closes {
        stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn garbage_and_half_handshakes_end_that_connection_alone() {
    let site = Site::new();
    let server = start(&site, |_| {});
    let at = address(&server);
    let client = connect(&at, Some(&identity(&server, "one", false))).expect("it is let in");
    // Begins as TLS does, and is none.
    answer(&at, &[&[0x16, 3, 1, 0, 100][..], &[0xff; 100]].concat(), false);
    answer(&at, &[0x16; 100_000], false);
    // Half of one, and none at all: those that go away are forgotten, those that stay have five seconds.
    answer(&at, &[0x16, 3, 1], true);
    answer(&at, &[], true);
    assert!(answer(&at, &[0x16, 3, 1, 1, 0], false).is_empty(), "nothing is said to who does not go on");
    // Neither TLS nor ours.
    let text = answer(&at, b"GET / HTTP/1.1\r\n\r\n", false);
    let mut decoder = Decoder::<FromServer>::new();
    decoder.space()[..text.len()].copy_from_slice(&text);
    decoder.filled(text.len());
    let told = decoder.next_message().expect("a good frame");
    assert!(matches!(told, Some(ToClient::Refused { why: Refusal::Malformed, .. })), "{told:?}");
    client.fs(root()).mkdir("/d", 0o755).expect("others are not concerned");
    client.stop(PATIENCE).expect("nothing is left");
    server.stop().expect("a clean stop");
}
