//! A server over a disk in memory, and a client that speaks nothing but the wire.

pub mod commands;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loligo_driver::{Address, FormatOptions, Server, ServerConfig, format};
use loligo_store::mem::{CrashPlan, MemDisk};
use loligo_store::{Backend, Identity};
use loligo_types::msg::{Hello, PROTOCOL_VERSION, Request, ToClient, ToServer, Welcome};
use loligo_types::{Answer, Attr, Cred, FsResult, Ino, Lease, Name, Op, OpenFlags, Seq, SessionId};
use loligo_wire::{Decoder, FromServer, encode_to_server};

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A disk in memory, formatted, with a directory for sockets.
pub struct Site {
    pub disk: MemDisk,
    dir: tempfile::TempDir,
}

impl Site {
    pub fn new() -> Site {
        let disk = MemDisk::new(Identity::new([7; 16], [9; 16]));
        format(&*disk.open().expect("a new disk opens"), &FormatOptions::default()).expect("formatting");
        Site { disk, dir: tempfile::tempdir().expect("a directory") }
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("loligo.sock")
    }

    pub fn config(&self) -> ServerConfig {
        let backend: Arc<dyn Backend> = self.disk.open().expect("the disk is free");
        let mut config = ServerConfig::new(backend);
        config.listen.push(Address::Unix(self.socket()));
        config.mds.grace_ms = 200;
        config
    }

    pub fn start(&self) -> Server {
        Server::start(self.config(), &mut |_| {}).expect("the server starts")
    }

    /// The machine loses its power: what was not synced is gone.
    pub fn power_loss(&self, server: Server) {
        self.disk.crash(&CrashPlan::lose_all());
        let stopped = server.stop();
        assert!(stopped.is_err() || self.disk.open().is_ok(), "a dead disk is noticed");
        drop(server);
    }
}

/// A connection.
pub struct Raw {
    pub stream: UnixStream,
    decoder: Decoder<FromServer>,
    pub seq: u64,
    pub answered: u64,
}

impl Raw {
    pub fn connect(path: &std::path::Path) -> Raw {
        Raw::over(UnixStream::connect(path).expect("the server listens"))
    }

    pub fn pair(server: &Server) -> Raw {
        let Address::Pair(fd) = server.connect_pair().expect("a pair") else { panic!("connect_pair gives a pair") };
        Raw::over(Arc::try_unwrap(fd).expect("nobody else has it").into())
    }

    pub fn over(stream: UnixStream) -> Raw {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
        let mut decoder = Decoder::new();
        decoder.handshake_done();
        Raw { stream, decoder, seq: 0, answered: 1 }
    }

    /// A connection with a new session.
    pub fn session(path: &std::path::Path) -> Raw {
        let mut raw = Raw::connect(path);
        raw.hello(None);
        raw
    }

    pub fn hello(&mut self, resume: Option<(SessionId, u64)>) -> Welcome {
        let versions = (PROTOCOL_VERSION, PROTOCOL_VERSION);
        self.send(&ToServer::Hello(Hello { versions, resume, name: "raw".into(), client: 0, fs_id: None }));
        match self.recv() {
            ToClient::Welcome(welcome) => welcome,
            other => panic!("instead of a welcome: {other:?}"),
        }
    }

    pub fn send(&mut self, msg: &ToServer) {
        let mut bytes = Vec::new();
        encode_to_server(msg, &mut bytes);
        self.stream.write_all(&bytes).expect("the server takes it");
    }

    /// The next message; `None`: the server closed the connection.
    pub fn try_recv(&mut self) -> Option<ToClient> {
        loop {
            if let Some(msg) = self.decoder.next_message().expect("servers send good frames") {
                return Some(msg);
            }
            match self.stream.read(self.decoder.space()) {
                Ok(0) => return None,
                Ok(n) => self.decoder.filled(n),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing came: {error}"),
            }
        }
    }

    pub fn recv(&mut self) -> ToClient {
        self.try_recv().expect("the server closed the connection")
    }

    /// The frame of a request with the next number.
    pub fn request(&mut self, op: Op) -> ToServer {
        self.seq += 1;
        ToServer::Request(Request {
            seq: Seq(self.seq),
            answered: Seq(self.answered),
            want: Lease::NONE,
            cred: Cred::root(),
            op,
            ino: None,
            ways: None,
        })
    }

    pub fn call(&mut self, op: Op) -> FsResult<Answer> {
        let request = self.request(op);
        self.send(&request);
        self.reply(self.seq)
    }

    /// The reply with this number; recalls are obeyed.
    pub fn reply(&mut self, wanted: u64) -> FsResult<Answer> {
        loop {
            match self.recv() {
                ToClient::Reply { seq, result, .. } => {
                    assert_eq!(seq, Seq(wanted));
                    self.answered = wanted + 1;
                    return result;
                }
                ToClient::Recall { ino, id, .. } => self.send(&ToServer::RecallDone { ino, id }),
                other => panic!("instead of a reply: {other:?}"),
            }
        }
    }

    pub fn entry(&mut self, op: Op) -> Attr {
        let answer = self.call(op).expect("the operation goes well");
        *answer.attr().expect("it answers attributes")
    }
}

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a good name")
}

/// Waits for what other threads do.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

pub fn mkdir(dir: Ino, text: &str) -> Op {
    Op::Mkdir { dir, name: name(text), mode: 0o755, umask: 0 }
}

pub fn lookup(dir: Ino, text: &str) -> Op {
    Op::Lookup { dir, name: name(text) }
}

pub fn create(dir: Ino, text: &str, handle: u64) -> Op {
    let flags = OpenFlags { read: true, write: true, ..OpenFlags::default() };
    Op::Create { dir, name: name(text), mode: 0o644, umask: 0, flags, exclusive: true, handle }
}
