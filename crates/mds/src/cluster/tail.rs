//! Changes since a round of checkpoints began, as a migration remembers them. How long a record they make: `size.rs`.

use std::collections::BTreeSet;

use loligo_journal::codec::parts::put_inode;
use loligo_types::{Event, Ino, Inode};

/// Changes that the table does not have: with more than this there is another round of checkpoints first.
pub(super) const RESIDUE_MAX: usize = 10_000;

/// Bytes of changes that the table does not have: with more there is another round of checkpoints first. All that moves waits
/// while they are written, sent and written again.
pub(super) const RESIDUE_BYTES: usize = 4 << 20;

/// All that was changed since a round of checkpoints began.
#[derive(Default)]
pub(crate) struct Tail {
    pub(super) events: Vec<Event>,
    /// The records in which that is have so many bytes.
    pub(super) bytes: usize,
}

impl Tail {
    /// A record was made.
    pub(crate) fn add(&mut self, events: &[Event], bytes: usize) {
        // Data records stay: the bytes are in the objects before the files move.
        let stays = |event: &Event| matches!(event, Event::Data { .. } | Event::DataInPlace { .. } | Event::Pad { .. });
        let moves = events.iter().filter(|event| !stays(event));
        self.events.extend(moves.cloned());
        self.bytes += bytes;
    }

    /// True if these are more events than so many, or as much in bytes as [`RESIDUE_BYTES`] for each 10,000.
    pub(super) fn is_long(&self, number: usize) -> bool {
        self.events.len() > number || self.bytes > RESIDUE_BYTES * number.div_ceil(RESIDUE_MAX)
    }
}

/// Length of an inode in a record, bytes.
pub(super) fn inode_len(inode: &Inode, scratch: &mut Vec<u8>) -> usize {
    scratch.clear();
    put_inode(scratch, inode);
    HEAD + scratch.len()
}

/// Bytes before an inode: the kind of the event, its number.
const HEAD: usize = 11;

/// Changes of the moving inodes since the table has them. Absolute, so in their order they lead to the present state.
pub(super) struct Changes {
    pub(super) events: Vec<Event>,
    /// The inodes of which something is said.
    pub(super) departed: BTreeSet<Ino>,
}

/// Bytes of records that go ahead of the letter, so that they need not be read: those beyond are.
pub(super) const CACHED_MAX: usize = 1 << 20;
