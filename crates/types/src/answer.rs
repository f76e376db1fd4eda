//! Answers of operations that went well.

use std::sync::Arc;

use crate::{Attr, FileLock, Ino, Kind, Lease, Name, Rank, SubtreeAnswer};

/// One line of a readdir answer. `.` and `..` are not sent: the mount makes them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// Name.
    pub name: Name,
    /// Inode.
    pub ino: Ino,
    /// Type.
    pub kind: Kind,
    /// Continue after this entry by giving this cookie. Entries with the same cookie are never split over answers.
    pub cookie: u64,
    /// With `plus`.
    pub attr: Option<Attr>,
    /// With `plus`: the lease on this inode that came with it.
    pub lease: Lease,
}

/// Totals of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatFs {
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes free.
    pub bytes_free: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// Inodes that can still be made.
    pub inodes_free: u64,
}

/// The answers. Which operation gives which stands with [`crate::Op`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Done, nothing to tell.
    Done,
    /// The attributes after the operation.
    Entry(Attr),
    /// Opened. `rights`: CACHE and BUFFER bits that came with it. `data`: the whole file if it is held in the inode
    /// and was opened for reading (or is empty). Of a directory whose fragments are several ranks' `attr` counts only what its home has.
    Opened { attr: Attr, created: bool, rights: Lease, data: Option<Arc<[u8]>> },
    /// Bytes: symlink target, xattr value or names, inline data.
    Bytes(Arc<[u8]>),
    /// Directory entries; `end`: there are no more. Else it goes on after the cookie `next`, which may be beyond the last
    /// entry's, and there may be none: what follows is another rank's.
    Entries { entries: Vec<DirEntry>, next: u64, end: bool },
    /// Totals.
    StatFs(StatFs),
    /// A conflicting lock, if there is one.
    Lock(Option<FileLock>),
    /// A byte offset.
    Offset(u64),
    /// Inode numbers in a row: the first, and how many.
    Inos { first: Ino, count: u32 },
    /// The name is there, but another rank has the inode: ask that one (for attributes, or to open it by number). To
    /// `Lookup`, `LookupParent`, and a `Create` that found the file. `rank` is the best guess; that rank knows better.
    Remote { ino: Ino, kind: Kind, rank: Rank },
    /// To `Walk`. `done`: so many names were found, at least one. `dir`: the directory that has the last of them. `last`: what that one leads to,
    /// `Entry`, or `Remote` where another rank is to be asked for its attributes, or for the next name in it. A symbolic link, or anything else
    /// that is no directory, ends the walk. To a `Via` that lists also `Entries`, and `dir` is the directory that has them. `by_path`: so many of the directories that were found, the last ones in a row, have numbers that their
    /// paths gave ([`Ino::is_by_path`]).
    Walked { done: u32, dir: Ino, last: Box<Answer>, by_path: u32 },
    /// About a decoupled subtree.
    Subtree(Box<SubtreeAnswer>),
}

impl Answer {
    /// The attributes of the file or directory that it opens, at the end of a walk, too.
    pub fn opened(&self) -> Option<&Attr> {
        match self {
            Answer::Opened { attr, .. } => Some(attr),
            Answer::Walked { last, .. } => last.opened(),
            _ => None,
        }
    }

    /// The attributes in it, if there are any.
    pub fn attr(&self) -> Option<&Attr> {
        match self {
            Answer::Entry(attr) | Answer::Opened { attr, .. } => Some(attr),
            Answer::Walked { last, .. } => last.attr(),
            _ => None,
        }
    }
}
