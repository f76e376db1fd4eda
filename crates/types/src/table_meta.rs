//! The small tables of a rank as its metadata server takes them when it starts. The journal comes after them.

use crate::{DecoupledRecord, Ino, Inode, Lsn, PeerRecord, Route, SessionRecord};

/// The small tables, read whole at the start. Empty for a new file system.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableMeta {
    /// Inode numbers below this may be in use; 0: the table was never written to.
    pub next_ino: Ino,
    /// Changes of inodes in records of the journal below this are in the table.
    pub table_upto: Lsn,
    /// Sessions.
    pub sessions: Vec<SessionRecord>,
    /// Inodes without a name.
    pub orphans: Vec<Ino>,
    /// Lines of the subtree map that this rank has put down.
    pub routes: Vec<Route>,
    /// Lines of others.
    pub other_routes: Vec<Route>,
    /// State of the letters to and from others.
    pub peers: Vec<PeerRecord>,
    /// Its parts of directories whose inode is another rank's.
    pub parts: Vec<Inode>,
    /// Decoupled subtrees.
    pub decoupled: Vec<DecoupledRecord>,
    /// Bytes of objects to be dropped: inode, from where on, object size.
    pub discards: Vec<(Ino, u64, u32)>,
}
