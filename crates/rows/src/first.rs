//! The first rows of a file system: its root directory and its single values. Not the store's own format.

use loligo_journal::table::{Meta, TABLE_VERSION, encode_note, key_policies_noted};
use loligo_namespace::{Tree, hash63};
use loligo_store::Batch;
use loligo_types::{Event, Ino, Rank, Time};

use crate::write::{put_event, put_meta};

/// The root directory of a new file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstRows {
    /// The time of its making.
    pub now: Time,
    /// Its permission bits.
    pub mode: u16,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// All rows of a new file system but those of [`put_finished`]. `key`: under which names are hashed.
pub fn first_rows(key: (u64, u64), root: FirstRows) -> Batch {
    let mut batch = Batch::new();
    // Above FIRST, which says to the metadata server that there is a root.
    let mut next_ino = Ino(Ino::FIRST.0 + 1);
    for event in Tree::format(root.now, root.mode, root.uid, root.gid) {
        match &event {
            Event::Entry { name, .. } => put_event(&mut batch, &event, hash63(key, name.as_bytes()), Rank::ZERO),
            Event::NextIno(ino) => next_ino = next_ino.max(*ino),
            _ => put_event(&mut batch, &event, 0, Rank::ZERO),
        }
    }
    put_meta(&mut batch, Meta::NextIno, Rank::ZERO, next_ino.0);
    put_meta(&mut batch, Meta::ReplayFrom, Rank::ZERO, 1);
    put_meta(&mut batch, Meta::Ranks, Rank::ZERO, 1);
    put_meta(&mut batch, Meta::Clean, Rank::ZERO, 1);
    batch
}

/// The row by which a table counts as a file system of this layout.
pub fn put_finished(batch: &mut Batch) {
    put_meta(batch, Meta::Format, Rank::ZERO, TABLE_VERSION);
    batch.put(key_policies_noted(), encode_note(&[]));
}
