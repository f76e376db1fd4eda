//! Messages between ranks. Between two ranks messages come in the order sent, or the connection between them ends; then
//! what was on its way is lost, and both say [`PeerMsg::Hello`] again.

use std::sync::Arc;

use crate::{Beat, ClusterMap, FragHeat, FsError, Ino, Inode, Lease, Letter, Loaded, Name, Need, Rank, Route};

/// A transaction over ranks. The smaller one is older, and the older one has the right of way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct TxId {
    /// Nanoseconds of the wall clock, or so: grows with each transaction of a rank, in all its lives.
    pub number: u64,
    /// The rank that coordinates it.
    pub rank: Rank,
}

/// A record to lend, locked, and what clients must not hold of it meanwhile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Want {
    /// Which.
    pub need: Need,
    /// Bits of its inode (or directory) to ask back from all clients but the one for which this is done.
    pub recall: Lease,
    /// Of [`Need::Parts`]: they are only to be shown, as they are at one moment, and other transactions may be lent them for the same
    /// meanwhile. Of all else it says nothing.
    pub shown: bool,
}

/// Where an inode that was lent is, if that is a decoupled subtree of its rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Apart {
    /// The inode.
    pub ino: Ino,
    /// The root of the subtree; the inode itself, if it is that.
    pub root: Ino,
    /// Others than its owner may work there.
    pub allows: bool,
}

/// Records of a loan.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Lent {
    /// The records, and those that are known to be absent.
    pub items: Vec<Loaded>,
    /// Number of opens here of the inodes among them.
    pub opens: Vec<(Ino, u32)>,
    /// Inodes that are not this rank's, and the rank that may have them.
    pub elsewhere: Vec<(Ino, Rank)>,
    /// Those of the inodes that are in decoupled subtrees.
    pub apart: Vec<Apart>,
}

/// The messages.
#[derive(Clone, PartialEq, Debug)]
pub enum PeerMsg {
    /// First on a connection, when all that it says is durable. What either of them borrowed from the other over the one
    /// before is void, but for what the letters up to `sent` bring, which are promised already. `life`: changes when the
    /// rank restarts. `received`: number of the last letter that it has from the receiver. `routes`: all it knows.
    Hello { life: u64, received: u64, sent: u64, map: ClusterMap, routes: Vec<Route> },
    /// The next letter. Sent when the record that holds it is durable.
    Letter { seq: u64, letter: Arc<Letter> },
    /// Letters up to here were applied (and will be after a crash, too).
    Received { upto: u64 },
    /// Letters up to here are not needed any more: what they brought is in the table.
    Acked { upto: u64 },
    /// The subtree map has changed.
    Routes(Vec<Route>),
    /// A directory with lines of its own is gone.
    Gone(Ino),
    /// A client has ended: what moved to the receiver before the client came there is nobody's.
    ClientGone { client: u64 },
    /// Lock these records and send them. `client`: on whose behalf (0: nobody's). Answered by `Lent` or `Denied`.
    /// `round`: grows each time that it asks, so that what was on its way when it gave all back is not taken for the answer.
    Borrow { tx: TxId, round: u32, client: u64, wants: Vec<Want> },
    /// Here they are.
    Lent { tx: TxId, round: u32, lent: Lent },
    /// Not now (`Busy`): an older transaction has them, or clients are being asked for what they hold; `Lent` follows when
    /// it is its turn. Or never: they cannot be read.
    Denied { tx: TxId, round: u32, error: FsError },
    /// Records denied long ago may be asked for again.
    Ready { tx: TxId },
    /// Unlock what it borrowed: the transaction is over without a change there, or (`again`) will come again soon.
    Return { tx: TxId, again: bool },
    /// May this be moved to you?
    Offer { moving: u64, dir: Ino },
    /// Give your fragments of this directory to that rank.
    GiveBack { dir: Ino, to: Rank },
    /// Give all that you have of this directory to me: it is below one that is to be decoupled here. Asked again until it comes.
    Summon { dir: Ino },
    /// In answer to `Summon`: it does not go there.
    Stays { dir: Ino },
    /// Yes, or no and why.
    Accept { moving: u64, refused: Option<FsError> },
    /// The sender is drained and has nothing any more: what the receiver has to say to it, it says now.
    Empty,
    /// In answer to `Empty`: nothing is on its way from the sender to the receiver, and nothing will be.
    Farewell,
    /// Records of what moves to the receiver with the next letter, so that it need not read them from the table: what
    /// clients have leases on. They are what they will be when the letter is applied. Void if the connection ends before.
    Cached(Vec<Loaded>),
    /// Counters of fragments of directories that have moved to the receiver. If they are lost, they are counted anew.
    Heat(Vec<FragHeat>),
    /// Load and state of the sender, and what it knows of others.
    Beat(Vec<Beat>),
    /// By which names does the root come to this inode? Asked again, with another number, if it is not answered.
    AskWay { number: u64, ino: Ino },
    /// The hashes of the names, from that of `ino` upwards, as far as the sender has the inodes: `at` is the first one that it does not
    /// have, or the root; 0: it is in no directory. `bounds`: of those that the sender has, `ino` included, the policies that may have a floor or a
    /// ceiling.
    Way { number: u64, ino: Ino, up: Vec<u64>, at: Ino, bounds: Vec<(Ino, Arc<[u8]>)> },
    /// The number of this directory names the sender's rank, and the receiver has given it away: what has the receiver promised of it?
    AskBorn { ino: Ino },
    /// Which directory has this name?
    AskName { dir: Ino, name: Name },
    /// In answer to `AskName`. None: no directory, or the sender does not have the name, or cannot say now.
    NameIs { dir: Ino, name: Name, ino: Option<Ino> },
    /// Asks for a replica of this directory, for paths that lead through it. `sent_ms`: the sender's monotonic clock, milliseconds.
    AskReplica { ino: Ino, sent_ms: u64 },
    /// In answer to `AskReplica`, or unasked behind a `NameIs`: the directory's record. Where it is, who owns it and who may search it stays so until the
    /// receiver has answered `DropReplica`, or for [`crate::limits::REPLICA_MS`] from `sent_ms` on.
    Replica { sent_ms: u64, inode: Box<Inode> },
    /// In answer to `AskReplica`: not now, or not here.
    NoReplica { ino: Ino },
    /// It is about to change: it counts no more.
    DropReplica { ino: Ino },
    /// In answer to `DropReplica`. Clients may go by it for so long yet, milliseconds: the sender has given lookup leases.
    ReplicaDropped { ino: Ino, promised_ms: u32 },
    /// The sender holds replicas of the receiver's directories, and goes on to.
    KeepReplicas { sent_ms: u64 },
    /// In answer to `KeepReplicas`: they count for [`crate::limits::REPLICA_MS`] from `sent_ms` on.
    ReplicasKept { sent_ms: u64 },
    /// In answer to `AskBorn`: all letters that the sender has to send that could make it were sent before this.
    Born { ino: Ino },
}
