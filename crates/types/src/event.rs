//! Changes as data: what the journal holds and `apply` takes.
//!
//! Every event carries the absolute state after the change, never a difference, so that applying it needs nothing
//! loaded, cannot fail, and may be repeated: replay over a table that already holds later states converges. Journals have one event that
//! is not so, [`Event::InlinePatch`]; who reads them makes an absolute one of it before it is applied.

use std::sync::Arc;

use crate::{
    DecoupledRecord, Frag, InlinePatch, Ino, InoGrants, Inode, Kind, Lsn, Name, Patches, Rank, Route, Seq, SessionId,
    msg::Reclaim,
};

/// Which request made a record, so that a repeated request is answered and not executed again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Origin {
    /// Its session.
    pub session: SessionId,
    /// Its number.
    pub seq: Seq,
    /// The session had the answers of all requests below this one.
    pub answered: Seq,
    /// Inode that the answer speaks of (0: none), so that the answer can be made again.
    pub ino: Ino,
    /// `Opened.created`, or an offset for `Extend`.
    pub value: u64,
}

/// Record of a session, kept across restarts.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct SessionRecord {
    /// Its id.
    pub id: SessionId,
    /// The client's name for itself, for `loligo status`; at most 255 bytes.
    pub name: Box<[u8]>,
    /// The client it belongs to, which has the same number at every rank; 0: it never said.
    pub client: u64,
    /// It lives in the server's own process, and so dies with it.
    pub local: bool,
    /// User whom the connection belongs to, as the server saw it.
    pub uid: u32,
    /// All requests below this were answered.
    pub answered: Seq,
    /// Executed changes at or above `answered`: request, inode and value of the answer, by ascending number.
    pub done: Vec<(Seq, Ino, u64)>,
    /// Inode numbers that it was given.
    pub grants: InoGrants,
    /// By which the store knows the connections over which its client reaches file data by itself, the latest last. They are shut
    /// out before what the session held is another one's, unless the client itself has ended it.
    pub addresses: Vec<Box<[u8]>>,
}

/// An event that is looked at where it is: those that there are most of need no memory of their own.
#[derive(Clone, Copy, Debug)]
pub enum EventView<'a> {
    /// [`Event::Inode`].
    Inode(&'a Inode),
    /// [`Event::Entry`]; the name is a good one.
    Entry { dir: Ino, name: &'a [u8], ino: Ino, kind: Kind, remote: bool },
    /// Any other.
    Other(&'a Event),
}

impl Event {
    /// The same, to be looked at.
    pub fn view(&self) -> EventView<'_> {
        match self {
            Event::Inode(inode) => EventView::Inode(inode),
            Event::Entry { dir, name, ino, kind, remote } => {
                EventView::Entry { dir: *dir, name: name.as_bytes(), ino: *ino, kind: *kind, remote: *remote }
            }
            event => EventView::Other(event),
        }
    }
}

/// One record of the table changes. The order of the variants is not persisted; codes stand in the journal's codec.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An inode (or a rank's part of a directory, see [`crate::Spread`]) is now this.
    Inode(Box<Inode>),
    /// An inode and its xattrs and inline data are gone for good.
    InodeGone(Ino),
    /// A directory entry is now this. `remote`: the inode does not live with this name (see [`crate::Place`]); it is a
    /// directory with a route of its own, or a file whose primary name is another one or none.
    Entry { dir: Ino, name: Name, ino: Ino, kind: Kind, remote: bool },
    /// A directory entry is gone.
    EntryGone { dir: Ino, name: Name },
    /// An xattr is now this.
    Xattr { ino: Ino, name: Arc<[u8]>, value: Arc<[u8]> },
    /// An xattr is gone.
    XattrGone { ino: Ino, name: Arc<[u8]> },
    /// The data held in an inode is now this.
    Inline { ino: Ino, data: Arc<[u8]> },
    /// No data is held in the inode.
    InlineGone(Ino),
    /// An inode without a name lives on while it is open.
    Orphan(Ino),
    /// It is an orphan no more (named again, or reaped).
    OrphanGone(Ino),
    /// Bytes of objects from this offset on are to be dropped; stays until they are.
    Discard { ino: Ino, from: u64, object_size: u32 },
    /// They are.
    DiscardGone(Ino),
    /// A session is now this.
    Session(SessionRecord),
    /// A session has ended.
    SessionGone(SessionId),
    /// Inode numbers of this rank's range below this may be in use.
    NextIno(Ino),
    /// The rank knows this of the subtree map.
    Route(Route),
    /// It has forgotten what it knew of the directory's fragments, which is gone.
    RouteGone(Ino),
    /// The rank promises another one this, from now on.
    Letter { to: Rank, seq: u64, letter: Arc<Letter> },
    /// State of the letters to and from another rank.
    Peer(PeerRecord),
    /// All records of these inodes (and their entries, where they are directories) are another rank's from now on: what
    /// earlier events of this journal said of them is void.
    Departed(Arc<[Ino]>),
    /// The names of a fragment are another rank's from now on: what earlier events of this journal said of them is void.
    DepartedFrag { dir: Ino, frag: Frag },
    /// A rank has no fragment of a directory any more, or the directory is gone: so is its part.
    PartGone { dir: Ino, rank: Rank },
    /// A decoupled subtree is now this.
    Decoupled(Box<DecoupledRecord>),
    /// It is not decoupled any more; what came to be merged into it and was not is void.
    DecoupledGone(Ino),
    /// A part of what is to be merged into a decoupled subtree came: the body of a record. Nothing in it is true yet. The first
    /// one (0) makes void what came before it.
    MergePart { dir: Ino, part: u32, body: Arc<[u8]> },
    /// All parts that came are true from now on, but for what they say of inodes that were there before: other events of
    /// the same record have those.
    Merge { dir: Ino },
    /// Bytes of a file that are to be in its objects. Not absolute as other events: they count until a later event says that they are
    /// there ([`Event::DataInPlace`]), that they are dropped ([`Event::Discard`]), or that the file is gone or another rank's.
    Data { ino: Ino, object_size: u32, patches: Arc<Patches> },
    /// Data of records up to this one is in the file's objects, durably. Inode 0: of all files.
    DataInPlace { ino: Ino, upto: Lsn },
    /// Bytes without meaning: in journal mode `data` the data of a record fills whole blocks of 4 KiB with them.
    Pad { len: u32 },
    /// The data held in an inode has changed so. In journals only, in the place of an [`Event::Inline`]; no part of what other ranks or
    /// clients are told, and never applied.
    InlinePatch(Box<InlinePatch>),
}

impl Event {
    /// True if the event is about a record that another rank may come to have: an inode with all it has, an entry, that a directory is
    /// decoupled.
    pub fn is_of_inode(&self) -> bool {
        matches!(
            self,
            Event::Inode(_)
                | Event::InodeGone(_)
                | Event::Entry { .. }
                | Event::EntryGone { .. }
                | Event::Xattr { .. }
                | Event::XattrGone { .. }
                | Event::Inline { .. }
                | Event::InlinePatch(_)
                | Event::InlineGone(_)
                | Event::PartGone { .. }
                | Event::Merge { .. }
                | Event::Decoupled(_)
                | Event::DecoupledGone(_)
        )
    }
}

/// State of the letters between this rank and another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PeerRecord {
    /// The other one.
    pub rank: Rank,
    /// Number of the last letter written to it; the first is 1.
    pub sent: u64,
    /// It has said that it will not need those up to here again.
    pub acked: u64,
    /// Number of the last letter of it that was applied here.
    pub received: u64,
}

/// A durable promise of one rank to another, in the record that makes it true on its own side: delivered in order,
/// applied once, however often either of them crashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Letter {
    /// The receiver's part of a transaction over ranks: records that it lent under this number are now this.
    Commit { tx: u64, events: Vec<Event> },
    /// Authority over what these routes name, with what the table does not have of it and what clients hold on it.
    Import { routes: Vec<Route>, events: Vec<Event>, clients: Vec<MovedClient> },
    /// Authority over fragments of a directory without its own inode, which these routes name, with what the table does
    /// not have of them and what clients hold on it. `part`: the sender's part of the directory, if it has no fragment of
    /// it any more, else one in which nothing has changed.
    Fragment { part: Box<Inode>, routes: Vec<Route>, events: Vec<Event>, clients: Vec<MovedClient> },
    /// The subtree below a directory has grown by this (see [`crate::RStat`]).
    Sum { dir: Ino, entries: i64, bytes: i64 },
}

impl Letter {
    /// The lines of the subtree map that it brings, if it gives something away.
    pub fn gives(&self) -> Option<&[Route]> {
        match self {
            Letter::Import { routes, .. } | Letter::Fragment { routes, .. } => Some(routes),
            Letter::Commit { .. } | Letter::Sum { .. } => None,
        }
    }
}

/// Holdings of one client on moving inodes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MovedClient {
    /// Its number at every rank.
    pub client: u64,
    /// The client's name for itself.
    pub name: Box<[u8]>,
    /// User whom its connection belongs to.
    pub uid: u32,
    /// As [`SessionRecord::addresses`].
    pub addresses: Vec<Box<[u8]>>,
    /// Its holdings.
    pub held: Reclaim,
}
