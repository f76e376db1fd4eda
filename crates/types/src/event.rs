//! Changes as data: what the journal holds and `apply` takes.
//!
//! Every event carries the absolute state after the change, never a difference, so that applying it needs nothing
//! loaded, cannot fail, and may be repeated: replay over a table that already holds later states converges.

use std::sync::Arc;

use crate::{Ino, Inode, Kind, Name, Seq, SessionId};

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

/// What is kept of a session across restarts.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct SessionRecord {
    /// Its id.
    pub id: SessionId,
    /// What the client calls itself, for `loligo status`; at most 255 bytes.
    pub name: Box<[u8]>,
    /// It lives in the server's own process, and so dies with it.
    pub local: bool,
    /// User whom the connection belongs to, as the server saw it.
    pub uid: u32,
    /// All requests below this were answered.
    pub answered: Seq,
    /// Executed changes at or above `answered`: request, inode and value of the answer, by ascending number.
    pub done: Vec<(Seq, Ino, u64)>,
}

/// One record of the table changes. The order of the variants is not persisted; codes stand in the journal's codec.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An inode is now this.
    Inode(Box<Inode>),
    /// An inode and its xattrs and inline data are gone for good.
    InodeGone(Ino),
    /// A directory entry is now this.
    Entry { dir: Ino, name: Name, ino: Ino, kind: Kind },
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
    /// Inode numbers below this may be in use.
    NextIno(Ino),
}
