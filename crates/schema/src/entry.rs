//! An entry as every generator gives it. Not here: its inode, which takes what is not said here from the directory that has the document.

use std::sync::Arc;

use loligo_types::{Kind, Time};

/// Bytes of another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The source, by its number in the manifest, from 1; 0: zeros.
    pub source: u64,
    /// First byte in the source; 0 for zeros.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// Content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A directory, with the numbers of its entries and of the directories among them.
    Dir {
        /// Entries.
        entries: u64,
        /// Directories among them.
        dirs: u64,
    },
    /// A file of zeros.
    Zeros(u64),
    /// A file with these bytes.
    Bytes(Arc<[u8]>),
    /// A file that consists of parts of other files, in order.
    Slices(Arc<[Slice]>),
    /// A symbolic link with this target.
    Link(Arc<[u8]>),
}

impl Body {
    /// File type.
    pub fn kind(&self) -> Kind {
        match self {
            Body::Dir { .. } => Kind::Dir,
            Body::Zeros(_) | Body::Bytes(_) | Body::Slices(_) => Kind::File,
            Body::Link(_) => Kind::Symlink,
        }
    }

    /// Size in the sense of `stat`: bytes, or entries of a directory.
    pub fn size(&self) -> u64 {
        match self {
            Body::Dir { entries, .. } => *entries,
            Body::Zeros(size) => *size,
            Body::Bytes(bytes) | Body::Link(bytes) => bytes.len() as u64,
            // Sums of more than 2^64 are refused where slices are read.
            Body::Slices(slices) => slices.iter().fold(0, |sum: u64, slice| sum.saturating_add(slice.len)),
        }
    }
}

/// Attributes that a document or a manifest can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Attributes {
    /// Permission bits, 0..=0o7777.
    pub mode: u16,
    /// Owner; none: that of the directory with the document.
    pub uid: Option<u32>,
    /// Group; none: that of the directory with the document.
    pub gid: Option<u32>,
    /// Time of the last change; none: when the document was set.
    pub mtime: Option<Time>,
}

/// An entry of a generated tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number, from 1; 0 is the directory with the document. Its inode number is the first one of the tree's range and this.
    pub index: u64,
    /// The number of its directory.
    pub parent: u64,
    /// Its name.
    pub name: Box<[u8]>,
    /// Attributes.
    pub attributes: Attributes,
    /// Content.
    pub body: Body,
}
