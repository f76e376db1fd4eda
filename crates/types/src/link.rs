//! The messages between the process that owns a data directory and those that run ranks on its store, and between servers on several
//! machines that share one, as plain data.
//! Their bytes are the wire's, their order is drawn in docs/formats/link.md.

use crate::peer::PeerMsg;
use crate::{ClusterMap, PolicyId, Rank};

/// Version of the protocol between processes that this code speaks.
pub const LINK_VERSION: u32 = 13;

/// The first message of a process that joins.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Join {
    /// Lowest and highest protocol version that it speaks.
    pub versions: (u32, u32),
    /// The file system that it is to belong to; another one is refused. None: it does not know.
    pub fs_id: Option<[u8; 16]>,
    /// The ranks that it is to run, ascending.
    pub ranks: Vec<Rank>,
    /// Its process number, for messages to people.
    pub pid: u32,
}

/// The owner's answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Joined {
    /// Protocol version chosen.
    pub version: u32,
    /// The file system.
    pub fs_id: [u8; 16],
    /// Which process this is, of all that have joined since the owner started; the first is 1, the owner itself 0.
    pub process: u64,
    /// To be shown to the store, which is open to this process as long as this connection is.
    pub ticket: u64,
    /// Where the store is served: the path of a Unix socket.
    pub store: String,
    /// See `Welcome.data_epoch`: it is the owner's, which has the data.
    pub data_epoch: u64,
    /// The cluster map.
    pub map: ClusterMap,
}

/// The first message of a server that connects to another one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Greet {
    /// Lowest and highest protocol version that it speaks.
    pub versions: (u32, u32),
    /// The file system.
    pub fs_id: [u8; 16],
    /// Its number.
    pub from: u64,
    /// The number of the server that it wants to speak to.
    pub to: u64,
    /// Has never been used before.
    pub nonce: [u8; 32],
}

/// Why a process may not join. The number is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum NotJoined {
    /// No common protocol version.
    Version = 1,
    /// Another file system.
    OtherFileSystem = 2,
    /// The process may not join: it is another user's.
    NotAuthorized = 3,
    /// There is no such rank, or the owner runs it.
    NoSuchRank = 4,
    /// Another process runs the rank.
    InUse = 5,
    /// The bytes made no sense, or came out of turn.
    Malformed = 6,
    /// The owner is stopping.
    Stopping = 7,
}

/// Message of a rank to the keeper of the cluster map (see docs/cluster.md, "Membership").
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Member {
    /// It begins to give away what it has.
    Drains,
    /// It cannot be drained; why, and what to do.
    Refused(String),
    /// It has nothing any more, and no other rank has anything to say to it.
    Drained,
    /// No client has a session there: it may be stopped and removed.
    Left,
    /// A policy has failed there so often in a row that it should be given up; why.
    BadPolicy { policy: PolicyId, why: String },
    /// A directory names a policy of which no version is known.
    NoPolicy { name: String },
}

/// Method of a request for a page of the admin plane. The number is on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Method {
    /// It is looked at.
    Get = 1,
    /// It is an order.
    Post = 2,
}

/// Question of a server to the admin plane of another one, as its own administrator asked it: a request of HTTP, without its
/// headers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// The method.
    pub method: Method,
    /// With which page; at most [`QUESTION_PATH_MAX`](crate::limits::QUESTION_PATH_MAX) bytes.
    pub path: String,
    /// The body; at most [`QUESTION_TEXT_MAX`](crate::limits::QUESTION_TEXT_MAX) bytes.
    pub text: String,
}

/// Answer to a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The status of HTTP.
    pub status: u16,
    /// At most [`REPLY_TEXT_MAX`](crate::limits::REPLY_TEXT_MAX) bytes.
    pub text: String,
}

/// The messages, of both directions.
#[derive(Clone, PartialEq, Debug)]
pub enum LinkMsg {
    /// First, to the owner.
    Join(Join),
    /// Yes. What comes before `Ready` is only this.
    Joined(Joined),
    /// No, or not any longer; the connection is closed after it.
    Refused { why: NotJoined, text: String },
    /// To the owner: the ranks of the process have recovered, and clients reach them there.
    Ready { addresses: Vec<(Rank, String)> },
    /// To a process that joined: there is a way to this rank of another process, which is that one (see
    /// [`Joined::process`]). The rank says `Hello`.
    Up { rank: Rank, process: u64 },
    /// There is none any more; what was on its way is lost.
    Down { rank: Rank },
    /// To a process that joined: the cluster map is this.
    Map(ClusterMap),
    /// A message of a rank to one of another process. `process`: that of the receiver as the sender knows it (between servers: the epoch
    /// in which its server owns it); if it is another by now, the message is lost.
    Peer { from: Rank, to: Rank, process: u64, msg: Box<PeerMsg> },
    /// To the owner, which keeps the cluster map: what a rank says of itself.
    Member { rank: Rank, member: Member },
    /// To a process that joined: stop this rank, which has nothing any more, and go on.
    Leave { rank: Rank },
    /// To the owner: that rank has ended, and where its replay would start is in the table.
    Left { rank: Rank },
    /// To a process that joined: stop, as all do.
    Stop,
    /// To the owner: all ranks of the process have come to a clean stop, and still hear the others.
    Stopped,
    /// To a process that joined: so have all others; end.
    AllStopped,
    /// First, from a server to another one on the same footing.
    Greet(Greet),
    /// Its answer: the version chosen, a number used once of its own, and a proof over both numbers that it is one of the servers.
    Prove { version: u32, nonce: [u8; 32], proof: [u8; 32] },
    /// So is the first.
    Proof { proof: [u8; 32] },
    /// Of each side when that is done, and again with each change: the ranks that it runs, with the epochs in which it owns them. What it says
    /// for a rank comes behind the message that names it.
    Here { ranks: Vec<(Rank, u64)> },
    /// Nothing was said for a while.
    Beat,
    /// From a server to another one, for its admin plane. The number is the sender's, on this connection, and comes back with the reply.
    Question { number: u64, question: Box<Question> },
    /// The reply to the question of that number. It may come after those to later questions.
    Reply { number: u64, reply: Box<Reply> },
}
