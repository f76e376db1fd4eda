//! The messages between clients and servers, as plain data. Their bytes are the wire's.

use crate::{
    Answer, ClusterMap, Cred, DataAnswer, DataError, DataOp, FileLock, FsResult, Ino, Journaling, Lease, Lsn, Op,
    OpenFlags, Rank, Route, Seq, SessionId,
};

pub use crate::op::PROTOCOL_VERSION;

/// The first message of a connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hello {
    /// Lowest and highest protocol version that the client speaks.
    pub versions: (u32, u32),
    /// The session to go on with, and its secret; none: a new one.
    pub resume: Option<(SessionId, u64)>,
    /// The client's name; at most 255 bytes.
    pub name: String,
    /// The client's own number, chosen at random when it starts and the same at every rank: what it holds moves with
    /// the files from rank to rank under it. 0: it keeps to one rank.
    pub client: u64,
    /// File system that the client was connected to before; another one is refused.
    pub fs_id: Option<[u8; 16]>,
}

/// A metadata request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its number in the session, 1, 2, 3...
    pub seq: Seq,
    /// All requests below this were answered.
    pub answered: Seq,
    /// Leases that would be welcome with the answer.
    pub want: Lease,
    /// In whose name; checked against what the connection may claim.
    pub cred: Cred,
    /// The operation.
    pub op: Op,
    /// The number for the inode that the operation makes, of those granted to this session at this rank
    /// ([`Control::GrantInos`]); none: the rank takes one. If it makes none (a `Create` that finds the name), the number stays
    /// free. `NotGranted` if it is not the session's, `NumberUsed` if it has made an inode before.
    pub ino: Option<Ino>,
    /// Of a walk, or of what brings its way: lookup leases would be welcome of the directories on it, the first of which is so deep below the root.
    pub ways: Option<u16>,
}

/// A data request. Not numbered for exactly-once: every data operation may be repeated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataRequest {
    /// Echoed in the answer; unique among the unanswered data requests of the connection.
    pub id: u64,
    /// The file, which the session has open.
    pub ino: Ino,
    /// Bytes in one of its objects.
    pub object_size: u32,
    /// The operation.
    pub op: DataOp,
}

/// State that a client held before the server restarted, or its connection broke.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reclaim {
    /// Open handles with the rights that came with them.
    pub opens: Vec<(u64, Ino, OpenFlags, Lease)>,
    /// Leases on inodes and directories.
    pub leases: Vec<(Ino, Lease)>,
    /// Locks held, with the handle they were taken through.
    pub locks: Vec<(Ino, u64, FileLock)>,
}

/// From a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToServer {
    /// First.
    Hello(Hello),
    /// After a `Welcome` that says `resumed`, before any request: what was held.
    Reclaim(Reclaim),
    /// Metadata.
    Request(Request),
    /// Data.
    Data(DataRequest),
    /// A recall was obeyed.
    RecallDone { ino: Ino, id: u64 },
    /// Leases given back unasked.
    Release(Vec<(Ino, Lease)>),
    /// I live.
    Ping,
    /// The session ends; everything it held is given back. `gone`: the client itself ends, so other ranks need not keep for it what
    /// has moved to them and it has not heard of.
    Goodbye { gone: bool },
}

/// The server's side of the handshake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// Protocol version chosen.
    pub version: u32,
    /// The session.
    pub session: SessionId,
    /// To be shown when resuming it.
    pub secret: u64,
    /// True if it is the session the client asked to resume. If not, all state the client held is lost and its unanswered requests must
    /// not be sent again.
    pub resumed: bool,
    /// The server kept the session's state (opens, leases, locks): no `Reclaim` is needed.
    pub kept: bool,
    /// The file system.
    pub fs_id: [u8; 16],
    /// Largest file held in its inode, bytes.
    pub inline_max: u32,
    /// A session that is silent for this long is evicted, milliseconds. Clients ping at a third of it.
    pub session_ms: u32,
    /// As long as this stays the same, data that was answered is still there, synced or not: it changes when the server
    /// starts and is not sure of that. 0: nothing is said.
    pub data_epoch: u64,
    /// The rank that speaks.
    pub rank: Rank,
    /// Under which key names are hashed ([`crate::hash`]): who knows it knows which fragment has a name.
    pub hash_key: (u64, u64),
    /// The cluster map: all ranks.
    pub map: ClusterMap,
    /// The subtree map as this rank knows it, or a part of it, if it is long.
    pub routes: Vec<Route>,
    /// Where in the store the objects with file data are, for clients that can reach it by themselves; empty: they cannot.
    pub direct: String,
    /// The last record of its journal that the rank found when it began this life after a crash: later records of the life before are lost. 0: the
    /// life before ended in order, and where the journal ended at an earlier crash is not known.
    pub recovered: Lsn,
    /// Most bytes of data that the rank takes into its journal with one [`Op::SetData`]; 0: none.
    pub journal_max: u32,
}

/// Of an answer about what is below a directory whose policy is strong and not globally durable: it came before all that it shows was durable, and a
/// crash of the server may take that back; or others may be told such things there (docs/subtree-policies.md,
/// "Relaxed").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Volatile {
    /// The state of its inodes that the answer shows is durable when the journal is durable up to this record.
    pub lsn: Lsn,
    /// So far it was: at or beyond `lsn`, if all that it shows was durable.
    pub durable: Lsn,
}

/// Why a connection was refused. The number is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// No common protocol version.
    Version = 1,
    /// Another file system.
    OtherFileSystem = 2,
    /// The peer may not connect.
    NotAuthorized = 3,
    /// Too many sessions or connections.
    TooMany = 4,
    /// The bytes made no sense.
    Malformed = 5,
    /// The server is stopping.
    Stopping = 6,
}

impl ToClient {
    /// An answer with which nothing is lent.
    pub fn reply(seq: u64, result: FsResult<Answer>) -> ToClient {
        ToClient::reply_with(seq, result, Vec::new())
    }

    /// An answer with which these leases come.
    pub fn reply_with(seq: u64, result: FsResult<Answer>, granted: Vec<(Ino, Lease)>) -> ToClient {
        ToClient::Reply { seq: Seq(seq), result, granted, ways: Vec::new(), volatile: None, journal: None }
    }
}

/// From a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToClient {
    /// Handshake done.
    Welcome(Welcome),
    /// No; the connection is closed after it.
    Refused { why: Refusal, text: String },
    /// The answer to a request. `granted`: leases that come with it. `ways`: the directory in which a walk began, and those that its names led to from
    /// there on, one after the other; for so many milliseconds from when the request was sent each of them is where it was found, and may be searched by
    /// who asked, as it was found. 0: that is not promised. At most one more than names. `volatile`: a crash of the server may take back what it shows.
    /// `journal`: the journal mode of the file that it is about; `None`: nothing is said, or it is that of before.
    Reply {
        seq: Seq,
        result: FsResult<Answer>,
        granted: Vec<(Ino, Lease)>,
        ways: Vec<(Ino, u16)>,
        volatile: Option<Volatile>,
        journal: Option<Journaling>,
    },
    /// The request is another rank's to answer: ask that one, with a number of its session. `routes`: enough of the map
    /// to be right the next time. `done`: it was executed here before what it concerns moved, and only its answer is to be
    /// made again (inode, and value as in `Origin`); it must not be executed once more.
    Redirect { seq: Seq, rank: Rank, routes: Vec<Route>, done: Option<(Ino, u64)> },
    /// The subtree map has changed; sent to those who hold something on what has moved. `moved`: the inodes of which the client
    /// had something open, locked, or a lease, and has it at the rank `to` from now on; over several messages, if they are
    /// many. Files that live by themselves move without a route. `frozen_ms`: so long before it is said, milliseconds, the sender
    /// had stopped to answer for them; since then at the latest the other rank may be waiting for the client.
    Routes { routes: Vec<Route>, moved: Vec<Ino>, to: Option<Rank>, frozen_ms: u32 },
    /// The cluster map has changed.
    Map(ClusterMap),
    /// The answer to a data request.
    Data { id: u64, result: Result<DataAnswer, DataError> },
    /// Give these bits up (or, with `FLUSH`, write back) and answer `RecallDone`.
    Recall { ino: Ino, id: u64, bits: Lease },
    /// Answer to `Ping`. `at_ms`: by the rank's clock, which counts from any time and never goes back, when it was said, milliseconds. 0: it says nothing of
    /// that.
    Pong { at_ms: u64 },
    /// The session is ended by the server; all it held is void.
    Evicted,
}
