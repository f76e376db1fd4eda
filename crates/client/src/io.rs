//! Everything that can happen to a client, and everything it can do. Reading [`Input`] and [`Output`] tells both.
//!
//! The machine does no IO: a driver (or a simulator) feeds inputs with the time and carries out the outputs in the order
//! they come.

use std::sync::Arc;

use loligo_subtree::Group;
use loligo_types::msg::{DataRequest, Refusal, ToClient, ToServer, Welcome};
use loligo_types::{Cred, DataAnswer, DataError, DecoupledRecord, FsError, FsResult, Ino, Rank, Time};

use crate::pace::Runs;
use crate::{Call, CallResult, Invalidation};

/// A call, numbered by the driver; not used again while it is unanswered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId(pub u64);

/// An invalidation. [`Token::NONE`]: nobody waits for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

impl Token {
    /// Of an invalidation that needs no [`Input::Invalidated`].
    pub const NONE: Token = Token(0);
}

/// The time, twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Now {
    /// Milliseconds of a clock that never jumps, from any start.
    pub ms: u64,
    /// Wall clock: becomes the mtime of data that is written back later.
    pub wall: Time,
}

/// The configuration of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The client's name, for `loligo status`; at most 255 bytes.
    pub name: String,
    /// Its own number at all ranks (`Hello.client`), chosen at random: what it holds can then move from rank to rank
    /// with the files. 0: the ranks know nothing of its other sessions.
    pub client: u64,
    /// The number that the driver's first connection has in inputs and outputs: most likely that of the rank there.
    pub rank: Rank,
    /// Ask for leases on attributes and names. Without it nothing is cached but data of open files.
    pub cache: bool,
    /// Ask for leases on names of directories, too.
    pub cache_names: bool,
    /// Bytes of one file that may wait to be written; more makes writers wait.
    pub write_buffer_file: u64,
    /// The same for all files.
    pub write_buffer_total: u64,
    /// A file with this many bytes to be written starts to write them.
    pub write_behind: u64,
    /// Written data waits at most this long, milliseconds.
    pub write_delay_ms: u64,
    /// Bytes read ahead of a sequential reader at most.
    pub read_ahead: u64,
    /// Bytes of objects kept after they were read.
    pub read_cache: u64,
    /// A handle stays open at the server for this long after its last close here, milliseconds.
    pub close_delay_ms: u64,
    /// Handles kept so at most.
    pub idle_handles: usize,
    /// Divisor of batch and cache limits (default 1). Simulations have few files; with it they reach limits that otherwise take millions.
    pub shrink: usize,
    /// Without a connection for this long, calls end with `Unavailable`, milliseconds.
    pub give_up_ms: u64,
    /// A rank that something is waited for and that says nothing for half of this is asked whether it lives, and left if it does not answer
    /// within this: another server may have what it had. Milliseconds; 0: only the end of a session, or of a connection, says so.
    pub doubt_ms: u64,
    /// True if the driver can carry out [`Output::Keep`].
    pub keeps: bool,
    /// It is in the process of its rank, and ends when that does.
    pub lives_with_rank: bool,
    /// Inode numbers to have granted in advance by each rank; 0: none, ranks number new inodes themselves. More are requested when half
    /// of them are left.
    pub ino_grant: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            name: String::from("client"),
            client: 0,
            rank: Rank::ZERO,
            cache: true,
            cache_names: true,
            write_buffer_file: 16 << 20,
            write_buffer_total: 64 << 20,
            write_behind: 4 << 20,
            write_delay_ms: 3_000,
            read_ahead: 8 << 20,
            read_cache: 64 << 20,
            close_delay_ms: 1_000,
            idle_handles: 1024,
            shrink: 1,
            give_up_ms: 60_000,
            doubt_ms: 2_000,
            keeps: false,
            lives_with_rank: false,
            ino_grant: 0,
        }
    }
}

impl Config {
    /// So many, or fewer in a simulation.
    pub(crate) fn some(&self, many: usize) -> usize {
        (many / self.shrink.max(1)).max(1)
    }
}

/// Why a data operation was not done in the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectError {
    /// The store takes nothing of this connection: it is to be done through the rank. It may have been done nevertheless.
    Refused,
    /// As a rank would say it.
    Failed(DataError),
}

/// An input of the client.
#[derive(Debug)]
pub enum Input {
    /// There is a connection to the store, which knows it by this address; `None`: there is none, or it is refused. A new one is told of only
    /// when everything is answered that was done over the one before.
    Direct { address: Option<Arc<[u8]>> },
    /// The result of [`Output::Direct`]. Always comes.
    DirectDone { id: u64, result: Result<DataAnswer, DirectError> },
    /// A program calls.
    Call { id: CallId, cred: Arc<Cred>, call: Call },
    /// The caller waits for a call no longer: it ends with `Interrupted`, if it has not ended. Its requests may have been executed, or
    /// may be later. `unserved`: only if it waits for a rank to which there is no connection.
    Interrupt { id: CallId, unserved: bool },
    /// A connection asked for by [`Output::Connect`] was made, or the first one. `rank` is the one that was asked for.
    Connected { rank: Rank },
    /// A message came over it.
    Message { rank: Rank, message: ToClient },
    /// It is gone, or could not be made.
    Disconnected { rank: Rank },
    /// The result of [`Output::Keep`]: where the data is kept, or an error.
    KeepDone { token: u64, result: FsResult<Box<str>> },
    /// The caches above have dropped what [`Output::Invalidate`] named.
    Invalidated { token: Token },
    /// Time goes on; every 50 ms or so.
    Tick,
    /// Write everything back, give everything back, and say [`Output::Stopped`].
    Stop,
}

/// An output of the client.
#[derive(Debug)]
pub enum Output {
    /// Send a message over the connection to a rank.
    Send { rank: Rank, message: ToServer },
    /// Do this in the store, over the connection that was told last, and come back with [`Input::DirectDone`] and the request's id. In
    /// any order: what must not overtake is not asked for before. `pieces`: as long as this is the same for a file, nobody else removes
    /// objects of it.
    Direct { request: DataRequest, pieces: u64 },
    /// Drop the connection to this rank, if there is one, and make a new one; after failures with growing pauses.
    /// `address`: where, as the cluster map says; `None`: where the first one was made to.
    ///
    /// To a driver `rank` is nothing but the number of a connection. It is the rank's, unless another rank than
    /// [`Config::rank`] was found at the first connection: these two have each other's number then.
    Connect { rank: Rank, address: Option<String> },
    /// The connection is not needed any more: drop it, and make no other.
    Disconnect { rank: Rank },
    /// The handshake over a connection is done.
    Ready { rank: Rank, welcome: Welcome },
    /// The server will not have this client. Nothing is tried again.
    Refused { why: Refusal, text: String },
    /// A call is answered.
    Complete { id: CallId, result: CallResult },
    /// Caches above must drop this. Unless the token is [`Token::NONE`], [`Input::Invalidated`] is to follow. May take
    /// long (the kernel may wait for calls of this very client): not to be done where messages are received. `Data`
    /// may wait for calls on the same file; `Names` and `Attr` must not be behind it.
    Invalidate { token: Token, what: Invalidation },
    /// Put what is outstanding of a decoupled subtree down on this machine's disk, durably, beside what was of the same epoch, and come back
    /// with [`Input::KeepDone`].
    Keep { token: u64, fs: [u8; 16], record: Box<DecoupledRecord>, groups: Vec<Group> },
    /// The oldest group of a subtree is merged; `all`: nothing is outstanding, and what was put down is not needed any more.
    KeptMerged { epoch: u64, all: bool },
    /// A subtree was taken from this client: what was put down on this machine's disk stays there, and is not this client's any more.
    KeptLost { epoch: u64 },
    /// A stage of the pipeline of a decoupled subtree has failed: for people. What was done before counts, and the stage is begun again with the next
    /// completion.
    StageFailed { dir: Ino, stage: &'static str, error: FsError },
    /// The rank wants names of a directory back that this client has not got. If it is the root of a subtree that a program has decoupled by itself, that
    /// may have been taken from it: the program is to ask before it does anything else there.
    Doubt { dir: Ino },
    /// The clock of a rank runs more than a tenth faster or slower than this client's: what is promised for a time allows for no more.
    ClockRuns { rank: Rank, runs: Runs },
    /// Everything is given back: the driver may end.
    Stopped,
}
