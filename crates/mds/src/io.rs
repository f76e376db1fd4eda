//! Everything that can happen to a metadata server, and everything it can do. Reading these two enums tells both.
//!
//! The machine does no IO: a driver (or the simulator) feeds [`Input`]s with the time, and carries out [`Output`]s in the
//! order they come.

use std::collections::BTreeSet;
use std::sync::Arc;

use loligo_namespace::{Loaded, MergeRows, MergedRows, Need, Record};
pub use loligo_types::link::Member;
use loligo_types::msg::{ToClient, ToServer};
use loligo_types::{ClusterMap, DataError, Decision, Ino, Lsn, Patches, Rank, SessionId, Snapshot, StatFs, ThreadLoad};

use crate::admin::{Ask, Told};
use crate::peer::PeerMsg;
use crate::rights::{Rights, Squash};

/// A connection, numbered by the driver; never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnId(pub u64);

/// The other end of a connection, as the operating system tells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// User of the process, on a Unix socket; `None` over TCP.
    pub uid: Option<u32>,
    /// Groups of the process, primary and supplementary; empty where the system does not tell.
    pub groups: Vec<u32>,
    /// May claim to be any user (root, or the server's own user, on the Unix socket).
    pub trusted: bool,
    /// Lives in the server's own process.
    pub local: bool,
    /// Identity that it has proved over TLS. A peer without one is known by its user, or by the trust in all of its kind.
    pub identity: Option<Arc<Identity>>,
}

/// Proved identity of a network client, with its rights. It never changes: a certificate with other rights is another identity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// SHA-256 of its certificate.
    pub key: IdentityKey,
    /// Its name for people.
    pub name: String,
    /// Its rights, and where they hold.
    pub rights: Rights,
}

/// The key of an identity.
pub type IdentityKey = [u8; 32];

impl Peer {
    /// Its identity, if the rights of that depend on where an inode is.
    pub(crate) fn limited(&self) -> Option<&Arc<Identity>> {
        self.identity.as_ref().filter(|identity| identity.rights.is_limited())
    }

    /// The users that it does not act for.
    pub fn squash(&self) -> Squash {
        self.identity.as_ref().map_or(Squash::None, |identity| identity.rights.squash())
    }

    /// True if it may act as root. Privileges that another peer claims for its callers are not believed.
    pub(crate) fn may_be_root(&self) -> bool {
        self.trusted && self.squash() == Squash::None
    }

    /// True if it may change nothing, whoever it claims to be.
    pub fn is_read_only(&self) -> bool {
        self.identity.as_ref().is_some_and(|identity| identity.rights.is_read_only())
    }
}

/// An event for the machine.
#[derive(Debug)]
pub enum Input {
    /// A connection was made.
    Connected { conn: ConnId, peer: Peer },
    /// A message came. Data requests are not for this machine: the driver gives them to the object server.
    Message { conn: ConnId, msg: ToServer },
    /// A connection is gone.
    Disconnected { conn: ConnId },
    /// Records that were asked for (also those found absent).
    Loaded { ticket: u64, items: Vec<Loaded> },
    /// Records that were asked for are still being read, and it is known already that entries of this directory go on behind them, at
    /// this hash: those can be read meanwhile. Need not be said.
    LoadGoesOn { ticket: u64, dir: Ino, from_hash: u64 },
    /// They could not be read.
    LoadFailed { ticket: u64 },
    /// The journal is durable up to and with this record.
    Durable { lsn: Lsn },
    /// A write or sync of the journal failed: nothing may be acknowledged any more.
    JournalFailed,
    /// A checkpoint is in the table, durably.
    CheckpointDone { id: u64 },
    /// It is not; `full`: for want of space. It is to be tried again later.
    CheckpointFailed { id: u64, full: bool },
    /// Rows of a merge are in the table, or not all of them.
    MergeRowsDone { id: u64, merged: Option<Box<MergedRows>> },
    /// Objects of the inode are dropped from the offset on, durably.
    Discarded { ino: Ino },
    /// The inode's inline bytes are in its first object, durably.
    Spilled { ino: Ino, ok: bool },
    /// These inodes got objects since a stop that was not clean: objects that no inode tells of are to be dropped. The next list may come after
    /// [`Output::StraysDropped`].
    Strays { inos: Arc<[Ino]> },
    /// The copies of [`Output::Restore`] are put back.
    Restored { ino: Ino },
    /// The others' version of a file is that of this one, durably, or an error.
    Kept { to: Ino, result: Result<(), DataError> },
    /// The length of a shared file when it was frozen, the largest number if that is not known; none: others may have changed its bytes since.
    Fork { ino: Ino, size: Option<u64> },
    /// A file has in its objects, durably, all that records up to this one say of its data. Inode 0: each file, the answer to
    /// [`Output::SettleData`]. `no_room`: some of later records waits for room on the disk.
    DataInPlace { ino: Ino, upto: Lsn, no_room: bool },
    /// It could not be written, or not durably: nothing may be acknowledged any more.
    DataFailed,
    /// All file data that was answered before [`Output::SyncData`] is durable, or not.
    DataSynced { ticket: u64, ok: bool },
    /// The process of a session that was there before the restart is known to be dead.
    PeerDead { session: SessionId },
    /// There is a (new) connection to another rank.
    PeerUp { rank: Rank },
    /// It is gone.
    PeerDown { rank: Rank },
    /// A message of another rank came.
    Peer { from: Rank, msg: PeerMsg },
    /// The cluster map has changed. A map older than the known one is passed over.
    Map(ClusterMap),
    /// The page of [`Output::Scan`]; `None`: it could not be read.
    Scanned { ticket: u64, page: Option<Page> },
    /// The state of [`Output::Settle`] is durable.
    Settled { table_upto: Lsn },
    /// Of the inodes of [`Output::Quiesce`] no data operation is under way, and what was answered is durable, or not.
    Quiesced { ticket: u64, ok: bool },
    /// The object server executes nothing of the session of [`Output::Fence`] any more. Waited for only with
    /// [`Config::direct`](crate::Config::direct), or if the session has told an address.
    Fenced { session: SessionId },
    /// The store refuses the client of [`Output::ShutOut`].
    ShutOut { session: SessionId },
    /// These identities are left: what others have here ends, as an eviction ends it.
    Identities(Arc<BTreeSet<IdentityKey>>),
    /// An administrator asks.
    Admin { id: u64, ask: Ask },
    /// Totals of the store, from time to time.
    StatFs(StatFs),
    /// Load of the machine's thread since the last such input; about once a second.
    Thread(ThreadLoad),
    /// The policy's decision on [`Output::Balance`].
    Decided(Decision),
    /// Journal bytes not yet trimmed, and the limit above which changes must wait (back-pressure).
    JournalSpace { used: u64, limit: u64 },
    /// The store has no room for more, or has it again, if that is not told by calls that fail: what is still written it takes.
    Full(bool),
    /// The journal has no room for what it was given, or has it again. Meanwhile changes are refused: they would wait without end.
    JournalFull(bool),
    /// Time goes on; at least every 50 ms.
    Tick,
    /// The machine is to go on with the long work of [`Output::Again`].
    Again,
    /// Stop: checkpoint everything, then say [`Output::Stopped`].
    Stop,
    /// The same, soon: first serves on until little is left that only the journal has, so that clients wait for that little only.
    StopSoon,
}

/// A session's access to the objects of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum DataAccess {
    /// Nothing.
    None,
    /// Read.
    Read,
    /// Read and write.
    Write,
    /// Nothing before it is said anew, not even for who may do everything: a merge has made it another file.
    Hidden,
    /// Nothing for now: its data requests are answered `Busy`, to be sent again.
    Moving,
    /// Nothing: its data requests are answered `Moved`.
    Moved,
}

/// The subject of a scan of the whole table, which all ranks share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scan {
    /// Directories with a pin: the ranks that it names.
    Pins,
    /// Directories whose number names this rank.
    Scattered,
    /// Inodes that float at this rank.
    Floating,
    /// Directories with a policy of their own for all below them.
    Policies,
}

/// Some rows of a scan.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// Inodes that were found, with the ranks of pins.
    pub found: Vec<(Ino, Vec<Rank>)>,
    /// Where to go on; `None`: that was all.
    pub next: Option<Ino>,
}

/// An action that the machine wants of its driver.
#[derive(Debug)]
pub enum Output {
    /// Look through some rows of the table, from an inode on, and come back with [`Input::Scanned`]. Must see every
    /// checkpoint that was reported done.
    Scan { ticket: u64, what: Scan, from: Ino },
    /// To whoever keeps the cluster map.
    Member(Member),
    /// Send a message.
    Send { conn: ConnId, msg: ToClient },
    /// Close a connection after what was sent before.
    Close { conn: ConnId },
    /// Append a record to the journal and make it durable soon. Numbers are consecutive.
    Append { lsn: Lsn, record: Vec<u8> },
    /// Read records from the table. Must see every checkpoint that was reported done.
    Load { ticket: u64, needs: Vec<Need> },
    /// Write these records into the table, atomically and durably. One at a time.
    Checkpoint { id: u64, records: Vec<Record> },
    /// Make rows of these parts of a merge ([`MergeRows::rows`]) and write them into the table, in any order, after the checkpoints before it.
    /// They may take long.
    MergeRows { id: u64, rows: Box<MergeRows> },
    /// Records of the journal below this are not needed any more.
    Trim { below: Lsn },
    /// Drop the objects' bytes from an offset on.
    Discard { ino: Ino, from: u64, object_size: u32 },
    /// Write a file's inline bytes as its first object (dropping what may lie there) and sync it.
    Spill { ino: Ino, data: Arc<[u8]>, object_size: u32 },
    /// Write this into the file's objects, in the order of the file's operations and behind all that came before. The record is durable, so
    /// it is no part of what a sync must cover, and it must not fail: it is tried until there is room.
    WriteData { lsn: Lsn, ino: Ino, object_size: u32, patches: Arc<Patches> },
    /// Make durable in objects what [`Output::WriteData`] said so far, and come back with [`Input::DataInPlace`].
    SettleData,
    /// Data of records up to this one is done with, of a file (0: of all). Until this is said nothing changes the same bytes.
    DataInPlace { ino: Ino, upto: Lsn },
    /// Make all file data durable that was answered before. One at a time.
    SyncData { ticket: u64 },
    /// Make durable all checkpoints so far, that replay begins at `replay_from`, and that below `table_upto` it does not
    /// apply what records say of inodes: the table has it.
    Settle { replay_from: Lsn, table_upto: Lsn },
    /// End what is under way of data operations on these inodes (nobody has access to them any more), make what was
    /// answered durable, and keep nothing of them in memory: another rank will serve them.
    Quiesce { ticket: u64, inos: Vec<Ino> },
    /// Send a message to another rank, if there is a connection.
    Peer { to: Rank, msg: PeerMsg },
    /// Ask the policy in force what is to move. It answers with [`Input::Decided`]; if it does not, it is asked again with the next tick of
    /// the balancer.
    Balance(Box<Snapshot>),
    /// The answer to an administrator.
    Told { id: u64, told: Told },
    /// From now on the session may do this with the file's objects.
    Access { session: SessionId, ino: Ino, access: DataAccess },
    /// From now on the session may do this with the objects of all these inodes, so many from the first on, of which it has not been said
    /// one by one.
    AccessRange { session: SessionId, first: Ino, count: u64, access: DataAccess },
    /// From now on this session changes the file's objects, and all others read its first `size` bytes as they are now: an object is copied
    /// under the number `copy` before it is changed first, unless there is such a copy. `shared`: others change it, too, each side its own
    /// version: theirs is the copy.
    Freeze { ino: Ino, copy: Ino, size: u64, owner: SessionId, shared: bool },
    /// All read the file's objects as they are.
    Thaw { ino: Ino },
    /// Put back what was copied of a file, durably, and come back with [`Input::Restored`], however often that must be tried.
    Restore { ino: Ino, copy: Ino },
    /// Make so many bytes of the others' version of a shared file those of another one, durably, and come back with [`Input::Kept`].
    KeepTheirs { ino: Ino, copy: Ino, object_size: u32, to: Ino, len: u64 },
    /// Find out whether others have changed the bytes of a shared file, and come back with [`Input::Fork`], however often that must be tried.
    LookAtFork { ino: Ino, copy: Ino },
    /// The connection speaks for this session from now on (for routing data requests).
    Bound { conn: ConnId, session: SessionId },
    /// The session is gone: its queued data requests must not be executed any more. [`Input::Fenced`] follows when none runs.
    Fence { session: SessionId },
    /// The session ends: the store is to refuse its client, by these addresses, from now on and for good, also what is on its way. Come
    /// back with [`Input::ShutOut`] when it does, however often that must be tried: until then nobody gets what the session holds.
    ShutOut { session: SessionId, addresses: Vec<Box<[u8]>> },
    /// The rank has looked at all inodes of [`Input::Strays`], and what it drops is in the journal, durably. `all`: of none it was left open whether
    /// its objects are stray; else the same objects are to be searched once more, in a later life.
    StraysDropped { all: bool },
    /// The owner of a decoupled subtree is gone: it may have left objects of which no merge tells. They are to be searched in a later life.
    OwnerLost,
    /// There is more of a long work to do: come back with [`Input::Again`] when what has come meanwhile is done (a driver
    /// may leave it to the next tick).
    Again,
    /// The owner of a decoupled subtree was not heard for longer than its lease, and has it no more. `unmerged`: it has written data of files that it
    /// has not merged; else nobody but the owner knows whether there was anything.
    TakenBack { dir: Ino, path: Option<String>, name: String, unmerged: bool },
    /// Everything is checkpointed and all answers are out: the driver may end.
    Stopped,
    /// The rank cannot go on; the text says why and what to do.
    Fatal { text: String },
}
