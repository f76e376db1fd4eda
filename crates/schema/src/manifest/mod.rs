//! Manifests: immutable files that list the entries of a tree, sorted, with their attributes and with the places of their bytes in other
//! files (Tintenfisch: the pointer generator). Bytes: docs/formats/manifest.md.
//!
//! The entries are numbered directory by directory: those of the root from 1 on, sorted by name, then those of its first directory, and so on.
//! So the entries of each directory are neighbours, a page of a listing is a run of one or two blocks, and an entry's number is its place in the
//! file. [`Writer`] takes entries in this order, [`Sorter`] in any; [`Reader`] finds an entry by name or number with two reads, [`Reader::check`] reads all.
//! Not here: files (they come as [`ReadAt`] and [`std::io::Write`]), rights to sources, their content.

mod bytes;
mod cache;
mod check;
mod dirs;
mod entries;
mod index;
mod reader;
mod sorter;
mod sources;
#[cfg(test)]
mod tests;
mod trailer;
mod writer;

pub use reader::{CACHE_BYTES, Reader};
pub use sorter::{MemoryRuns, Path, Runs, Sorter, Twice};
pub use sources::Source;
pub use trailer::Trailer;
pub use writer::Writer;

use thiserror::Error;

use crate::entry::{Attributes, Body};

/// Version of the format. Persisted.
pub const VERSION: u32 = 1;
/// Longest block with its checksum, bytes.
pub const BLOCK_MAX: usize = 64 << 10;
/// Bytes of a block's checksum.
const CHECKSUM: usize = 4;
/// Longest block without its checksum.
const PAYLOAD_MAX: usize = BLOCK_MAX - CHECKSUM;
/// Most slices of one file.
pub const SLICES_MAX: usize = 1024;
/// Most bytes of a file that are held in the manifest itself.
pub const INLINE_MAX: usize = 16 << 10;
/// Most sources of one manifest.
pub const SOURCES_MAX: u64 = 1 << 32;
/// Longest name of a source in messages, bytes.
pub const SOURCE_NAME_MAX: usize = 4095;

// The largest entry fits in a block: 1,024 slices of three numbers, a name, attributes.
const _: () = assert!(SLICES_MAX * 30 + 512 < PAYLOAD_MAX && INLINE_MAX + 512 < PAYLOAD_MAX);

/// First byte of a block. Persisted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Section {
    Entries = 1,
    Dirs = 2,
    Sources = 3,
    Index = 4,
    Root = 5,
}

/// Reads bytes of a file, anywhere.
pub trait ReadAt {
    /// Fills `into` from `offset` on.
    ///
    /// # Errors
    ///
    /// Those of the file; an end before `into` is full is one.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()>;
}

impl ReadAt for [u8] {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)?.get(..into.len()));
        into.copy_from_slice(rest.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        self.as_slice().read_at(offset, into)
    }
}

impl<T: ReadAt + ?Sized> ReadAt for &T {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        (**self).read_at(offset, into)
    }
}

/// An entry as a manifest has it: of a directory its counts are elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its number, from 1.
    pub index: u64,
    /// The number of its directory; 0: the root.
    pub parent: u64,
    /// Its name.
    pub name: Box<[u8]>,
    /// Attributes.
    pub attributes: Attributes,
    /// Content; none: a directory.
    pub body: Option<Body>,
}

impl Item {
    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        self.body.is_none()
    }
}

/// Cause of a refusal, of bytes or of an entry to write.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file could not be read or written.
    #[error("the manifest cannot be {verb} at byte {offset}: {cause}")]
    Io {
        /// read or written.
        verb: &'static str,
        /// Place.
        offset: u64,
        /// The file's error.
        cause: String,
    },
    /// Other bytes than those of a manifest.
    #[error("this is no manifest: it does not {0}; write one with `loligo schema index`")]
    NotManifest(&'static str),
    /// A version that this program does not know.
    #[error(
        "the manifest has version {0}, and this program knows version {VERSION}; update it, or write the manifest anew"
    )]
    Version(u32),
    /// The file is shorter or longer than its trailer says.
    #[error(
        "the manifest has {found} bytes and its trailer says {expected}: it was cut or written over; write it anew"
    )]
    Length {
        /// Bytes of the file.
        found: u64,
        /// Bytes in the trailer.
        expected: u64,
    },
    /// Bytes that changed after they were written.
    #[error("the checksum of the {what} at byte {offset} is wrong: the manifest is damaged; write it anew")]
    Checksum {
        /// The part.
        what: &'static str,
        /// Place.
        offset: u64,
    },
    /// A place that is not in the file.
    #[error("the manifest refers to {len} bytes at byte {offset}, which are not in it; write it anew")]
    OutOfBounds {
        /// Place.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// A block that does not make sense.
    #[error(
        "the block at byte {offset} of the manifest is not sound at its byte {at}: {what}; write the manifest anew"
    )]
    Block {
        /// Place of the block.
        offset: u64,
        /// Place in it.
        at: usize,
        /// Cause.
        what: &'static str,
    },
    /// Counts that differ.
    #[error("the manifest says {expected} {what} and has {found}; write it anew")]
    Count {
        /// The things.
        what: &'static str,
        /// The number said.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// An entry out of order.
    #[error("entry {index} (`{name}`) does not come behind the one before it; sort the entries by directory and name")]
    Unsorted {
        /// Its number.
        index: u64,
        /// Its name.
        name: String,
    },
    /// Two entries of one name.
    #[error("`{path}` stands twice; remove one")]
    Duplicate {
        /// The name, or the path.
        path: String,
    },
    /// One path as a file and as a directory.
    #[error("`{path}` is a file and a directory; rename one of them")]
    FileAndDir {
        /// The path.
        path: String,
    },
    /// An entry in what is no directory.
    #[error("`{name}` is in entry {parent}, which is no directory that comes before it")]
    NoDirectory {
        /// Its name.
        name: String,
        /// The directory's number.
        parent: u64,
    },
    /// A name that is none.
    #[error("`{name}` is no name: {cause}; rename it")]
    Name {
        /// The name.
        name: String,
        /// Cause.
        cause: &'static str,
    },
    /// Too much of something.
    #[error("{what}: {found}, at most {max} are allowed; {remedy}")]
    TooMany {
        /// The things.
        what: &'static str,
        /// Their number.
        found: u64,
        /// The most.
        max: u64,
        /// Remedy.
        remedy: &'static str,
    },
    /// A slice of a source that is not listed.
    #[error("a slice is of source {source_number}, and there are {sources}")]
    NoSource {
        /// The source's number.
        source_number: u64,
        /// Number of sources.
        sources: u64,
    },
    /// A slice that goes beyond its source.
    #[error("{len} bytes at byte {offset} of `{name}` go beyond its end at {size}; index it anew")]
    PastEnd {
        /// The source.
        name: String,
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Bytes of the source.
        size: u64,
    },
    /// An entry that cannot be written.
    #[error("`{name}`: {cause}")]
    Entry {
        /// Its name.
        name: String,
        /// Cause and remedy.
        cause: &'static str,
    },
}

/// A name as messages show it.
fn shown(name: &[u8]) -> String {
    crate::fault::shown(&String::from_utf8_lossy(name))
}
