//! A client that speaks the bytes of the protocol by itself, for tests that break its rules: frames that are cut short, too long, doubled,
//! out of order or garbage, requests with any number in any field. It shares no code with `loligo-wire` and `loligo-client`, so an error that
//! client and server have in common is seen, too. It keeps no promise that a client owes (leases, sessions, retries), and is nothing for
//! programs: they use `loligo_driver::Client`. The bytes are drawn in docs/formats/frame.md and docs/formats/wire.md.

pub mod bytes;
mod tls;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use self::bytes::{Fields, HEADER, Message, TO_CLIENT};
pub use self::tls::Credentials;
use crate::PATIENCE;

/// The protocol version that this client speaks.
pub const VERSION: u64 = 15;

/// Numbers of errors in a reply that tests name.
pub mod error {
    pub const NOT_FOUND: u64 = 1;
    pub const ACCESS: u64 = 6;
    pub const PERM: u64 = 7;
    pub const INVALID: u64 = 8;
    pub const STALE: u64 = 21;
    pub const READ_ONLY: u64 = 22;
    pub const NOT_SUPPORTED: u64 = 24;
    pub const BUSY: u64 = 25;
    pub const BAD_HANDLE: u64 = 29;
    pub const NOT_AUTHORIZED: u64 = 32;
    pub const NOT_GRANTED: u64 = 33;
}

/// Why a server refuses a connection.
pub mod refusal {
    pub const VERSION: u64 = 1;
    pub const NOT_AUTHORIZED: u64 = 3;
    pub const TOO_MANY: u64 = 4;
    pub const MALFORMED: u64 = 5;
}

/// A connection of any kind.
trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// Message of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Said {
    Welcome(Session),
    Refused {
        why: u64,
        text: String,
    },
    /// The fields of the reply, and the bytes behind it.
    Reply {
        seq: u64,
        fields: Fields,
        payload: Vec<u8>,
    },
    Data {
        id: u64,
        fields: Fields,
        payload: Vec<u8>,
    },
    Recall {
        ino: u64,
        id: u64,
    },
    Pong,
    /// Another message, by its number.
    Other(u32),
    /// The end of the connection.
    Closed,
}

/// A session as the welcome tells of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Session {
    pub number: u64,
    pub secret: u64,
    pub resumed: bool,
    pub kept: bool,
}

/// Content of a `Hello`.
#[derive(Clone, Debug)]
pub struct Hello {
    pub versions: (u64, u64),
    /// Number and secret of the session to go on with.
    pub resume: Option<(u64, u64)>,
    /// The number of the client at every rank.
    pub client: u64,
    pub name: Vec<u8>,
    pub fs_id: Option<Vec<u8>>,
}

impl Hello {
    /// A first one of this client.
    pub fn of(client: u64) -> Hello {
        Hello { versions: (VERSION, VERSION), resume: None, client, name: b"raw".to_vec(), fs_id: None }
    }

    /// The message.
    pub fn message(&self) -> Message {
        let mut hello = Message::new().int(1, self.versions.0).int(2, self.versions.1);
        if let Some((number, secret)) = self.resume {
            hello = hello.int(3, number).fixed(4, secret);
        }
        hello = hello.bytes(5, &self.name);
        if let Some(id) = &self.fs_id {
            hello = hello.bytes(6, id);
        }
        Message::new().message(1, &hello.fixed(7, self.client))
    }
}

/// A connection to a server.
pub struct Wire {
    stream: Box<dyn Stream>,
    received: Vec<u8>,
    /// Number of the last request.
    pub seq: u64,
    /// All requests below this were answered, as requests say it.
    pub answered: u64,
    /// The user as which requests are made.
    pub user: (u64, u64),
}

impl Wire {
    fn new(stream: impl Stream + 'static) -> Wire {
        Wire { stream: Box::new(stream), received: Vec::new(), seq: 0, answered: 1, user: (0, 0) }
    }

    /// Over a Unix socket.
    pub fn unix(path: &Path) -> Wire {
        let stream = UnixStream::connect(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        stream.set_write_timeout(Some(PATIENCE)).expect("a time-out");
        Wire::new(stream)
    }

    /// Over TCP, without TLS.
    pub fn tcp(at: SocketAddr) -> Wire {
        Wire::new(tcp(at))
    }

    /// Over TCP with TLS. Nothing was sent yet.
    pub fn tls(at: SocketAddr, credentials: &Credentials) -> Wire {
        Wire::new(credentials.over(tcp(at)))
    }

    /// Sends bytes as they are. An error says that the server has closed the connection.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Sends a message in a good frame.
    pub fn say(&mut self, message: &Message, payload: &[u8]) -> io::Result<()> {
        self.send(&bytes::frame(message, payload))
    }

    /// The next message. A connection that breaks is closed: a server closes without having read all.
    pub fn hear(&mut self) -> Said {
        loop {
            if let Some(said) = self.take() {
                return said;
            }
            let mut more = [0; 64 << 10];
            match self.stream.read(&mut more) {
                Ok(0) => return Said::Closed,
                Ok(n) => self.received.extend_from_slice(&more[..n]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    panic!("nothing came for {PATIENCE:?}")
                }
                Err(_) => return Said::Closed,
            }
        }
    }

    fn take(&mut self) -> Option<Said> {
        let head: [u8; HEADER] = *self.received.first_chunk()?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize;
        assert_eq!(head[..4], [b'L', b'o', 1, TO_CLIENT], "the head of a frame to a client");
        let (message, end) = (HEADER + number(4), HEADER + number(4) + number(8));
        if self.received.len() < end {
            return None;
        }
        let frame: Vec<u8> = self.received.drain(..end).collect();
        assert_eq!(bytes::crc32c(&[&frame[..12], &frame[HEADER..message]]) as usize, number(12), "the checksum");
        let fields = Fields::parse(&frame[HEADER..message]).expect("servers send good messages");
        Some(said(&fields, frame[message..].to_vec()))
    }

    /// Says hello; the session that comes of it, or the refusal.
    pub fn hello(&mut self, hello: &Hello) -> Result<Session, Said> {
        // Where the server has closed already, the answer says it.
        let _ = self.say(&hello.message(), &[]);
        match self.hear() {
            Said::Welcome(session) => Ok(session),
            other => Err(other),
        }
    }

    /// The message of a request with this number and any bytes as its operation.
    pub fn request(&self, seq: u64, op: &Message) -> Message {
        let request = Message::new().int(1, seq).int(2, self.answered).int(4, self.user.0).int(5, self.user.1);
        Message::new().message(3, &Message([request.0, op.0.clone()].concat()))
    }

    /// Sends a request with the next number.
    pub fn ask(&mut self, op: &Message, payload: &[u8]) -> u64 {
        self.seq += 1;
        let message = self.request(self.seq, op);
        let _ = self.say(&message, payload);
        self.seq
    }

    /// The reply to a request. Recalls are obeyed meanwhile.
    pub fn reply(&mut self, wanted: u64) -> Result<(Fields, Vec<u8>), Fault> {
        loop {
            match self.hear() {
                Said::Reply { seq, fields, payload } if seq == wanted => {
                    return if fields.has(3) { Err(Fault::Error(fields.int(3))) } else { Ok((fields, payload)) };
                }
                Said::Recall { ino, id } => self.recall_done(ino, id),
                Said::Refused { why, text } => return Err(Fault::Refused { why, text }),
                Said::Closed => return Err(Fault::Closed),
                _ => {}
            }
        }
    }

    fn recall_done(&mut self, ino: u64, id: u64) {
        let done = Message::new().int(1, ino).int(2, id);
        let _ = self.say(&Message::new().message(5, &done), &[]);
    }

    /// Waits for a recall, and obeys it.
    pub fn obey(&mut self) {
        loop {
            match self.hear() {
                Said::Recall { ino, id } => return self.recall_done(ino, id),
                Said::Closed => panic!("the connection has ended, and nothing was asked back"),
                _ => {}
            }
        }
    }

    /// Asks, and waits for the reply.
    pub fn call(&mut self, op: &Message, payload: &[u8]) -> Result<(Fields, Vec<u8>), Fault> {
        let seq = self.ask(op, payload);
        self.reply(seq)
    }

    /// Asks for something about the bytes of a file (`DataRequest`): the error number, 0 if there is none.
    pub fn data(&mut self, ino: u64, op: &Message, payload: &[u8]) -> Result<(u64, Vec<u8>), Fault> {
        // Data requests are not counted: any number will do.
        let id = self.seq + 1;
        let head = Message::new().int(1, id).int(2, ino).int(3, 4 << 20);
        let _ = self.say(&Message::new().message(4, &Message([head.0, op.0.clone()].concat())), payload);
        loop {
            match self.hear() {
                Said::Data { id: other, fields, payload } if other == id => return Ok((fields.int(2), payload)),
                Said::Refused { why, text } => return Err(Fault::Refused { why, text }),
                Said::Closed => return Err(Fault::Closed),
                _ => {}
            }
        }
    }

    /// Waits until the server has handled all that was sent, by a ping: what came before it is passed over.
    pub fn ping(&mut self) -> Result<(), Fault> {
        let _ = self.say(&Message::new().message(7, &Message::new()), &[]);
        loop {
            match self.hear() {
                Said::Pong => return Ok(()),
                Said::Refused { why, text } => return Err(Fault::Refused { why, text }),
                Said::Closed => return Err(Fault::Closed),
                _ => {}
            }
        }
    }
}

/// Why something asked for was not done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// An error in the reply.
    Error(u64),
    /// The connection was refused.
    Refused { why: u64, text: String },
    /// The connection was closed.
    Closed,
}

/// A connection over TCP.
pub fn tcp(at: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(at).unwrap_or_else(|e| panic!("{at}: {e}"));
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.set_write_timeout(Some(PATIENCE)).expect("a time-out");
    stream
}

fn said(fields: &Fields, payload: Vec<u8>) -> Said {
    let inner = fields.message(fields.first());
    match fields.first() {
        1 => Said::Welcome(Session {
            number: inner.int(2),
            secret: inner.int(3),
            resumed: inner.int(4) != 0,
            kept: inner.int(5) != 0,
        }),
        2 => Said::Refused { why: inner.int(1), text: String::from_utf8_lossy(inner.bytes(2)).into_owned() },
        3 => Said::Reply { seq: inner.int(1), fields: inner, payload },
        4 => Said::Data { id: inner.int(1), fields: inner, payload },
        5 => Said::Recall { ino: inner.int(1), id: inner.int(2) },
        6 => Said::Pong,
        other => Said::Other(other),
    }
}
