//! Subjects of operations: names and inodes that one is about. Which those of each operation are is in `mod.rs`.

use crate::{Ino, Name};

/// Subject of an operation as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum About {
    /// Names in a directory.
    Names(Ino),
    /// An inode.
    Inode(Ino),
    /// Neither: it is for handles, or for the file system as a whole.
    Nothing,
}

/// Subject of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject<'a> {
    /// A name in a directory: all that it looks at or changes of that, beside what is counted of it.
    Name(Ino, &'a Name),
    /// The names in a directory.
    Names(Ino),
    /// An inode.
    Inode(Ino),
    /// None: it is for handles, or for the file system as a whole.
    Nothing,
}

impl<'a> Subject<'a> {
    /// The inode, or the directory of the names.
    #[inline]
    pub fn ino(self) -> Option<Ino> {
        match self {
            Subject::Name(ino, _) | Subject::Names(ino) | Subject::Inode(ino) => Some(ino),
            Subject::Nothing => None,
        }
    }

    /// The name, with its directory.
    #[inline]
    pub fn name(self) -> Option<(Ino, &'a Name)> {
        match self {
            Subject::Name(dir, name) => Some((dir, name)),
            Subject::Names(_) | Subject::Inode(_) | Subject::Nothing => None,
        }
    }

    /// True for names in a directory.
    #[inline]
    pub fn is_names(self) -> bool {
        matches!(self, Subject::Name(..) | Subject::Names(_))
    }
}
