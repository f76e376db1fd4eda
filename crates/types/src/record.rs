//! Records by name and as they were read: what a rank asks the table, or another rank, for, and what it gets. Not their
//! bytes, and not what is done with them.

use std::sync::Arc;

use crate::{DecoupledRecord, Frag, Ino, Inode, Name, PeerRecord, Route, SessionRecord, Target};

/// An xattr: name and value.
pub type XattrPair = (Arc<[u8]>, Arc<[u8]>);

/// A record, or a run of them, to read from the table and put into the cache of them.
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Need {
    /// An inode.
    Inode(Ino),
    /// An entry.
    Entry {
        /// Directory.
        dir: Ino,
        /// Name.
        name: Name,
    },
    /// Entries of a directory from this hash on; as many as are good to read at once, at least one hash or the end.
    Range {
        /// Directory.
        dir: Ino,
        /// First hash.
        from_hash: u64,
    },
    /// The hashes of the names of a directory from this one on, as many as are good to read at once.
    Hashes {
        /// Directory.
        dir: Ino,
        /// First hash.
        from_hash: u64,
    },
    /// All xattr records of an inode.
    Xattrs(Ino),
    /// The inline data of an inode.
    Inline(Ino),
    /// All parts of a directory whose fragments are several ranks'. No table has them: their ranks lend them.
    Parts(Ino),
}

/// Record that was read from the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Loaded {
    /// An inode, or that there is none.
    Inode(Ino, Option<Box<Inode>>),
    /// An entry, or that there is none.
    Entry {
        /// Directory.
        dir: Ino,
        /// Name.
        name: Name,
        /// The target of the entry.
        found: Option<Target>,
    },
    /// All entries of a directory with a hash in `from_hash..=upto_hash`. At the end of the directory `upto_hash` is
    /// `u64::MAX`; before it, the hash of the last entry, all of whose namesakes must be there.
    Range {
        /// Directory.
        dir: Ino,
        /// First hash.
        from_hash: u64,
        /// Last hash, inclusive.
        upto_hash: u64,
        /// The entries.
        entries: Vec<(Name, Target)>,
    },
    /// The hashes in `from_hash..=upto_hash` that names of a directory have, ascending. As with [`Loaded::Range`], `upto_hash` is
    /// `u64::MAX` at the end of the directory.
    Hashes {
        /// Directory.
        dir: Ino,
        /// First hash.
        from_hash: u64,
        /// Last hash, inclusive.
        upto_hash: u64,
        /// The hashes.
        hashes: Vec<u64>,
    },
    /// All xattr records of an inode.
    Xattrs(Ino, Vec<XattrPair>),
    /// The inline data, or that there is none.
    Inline(Ino, Option<Arc<[u8]>>),
    /// An orphan. All of the small tables are loaded at the start.
    Orphan(Ino),
    /// A discard that is not done yet.
    Discard {
        /// Inode.
        ino: Ino,
        /// First byte.
        from: u64,
        /// Its layout.
        object_size: u32,
    },
    /// A session.
    Session(SessionRecord),
    /// Inode numbers below this may be in use.
    NextIno(Ino),
    /// A line of the subtree map that the rank has put down.
    Route(Route),
    /// State of the letters to and from another rank.
    Peer(PeerRecord),
    /// A decoupled subtree.
    Decoupled(Box<DecoupledRecord>),
    /// A lending rank's share of a directory whose fragments are several ranks': the fragments that it has, and its part
    /// of the directory (none at the home, which lends the inode).
    Part {
        /// Directory.
        dir: Ino,
        /// The part.
        part: Option<Box<Inode>>,
        /// The fragments, ascending.
        frags: Vec<Frag>,
    },
}
