//! Which records are dirty, oldest first. Holds keys, not values.

use std::collections::VecDeque;

use loligo_types::{Frag, Ino, Lsn, Rank, SessionId};

/// Which record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    /// An inode.
    Inode(Ino),
    /// The entries of a directory with one hash.
    Entry(Ino, u64),
    /// The xattrs of an inode.
    Xattrs(Ino),
    /// The inline data of an inode.
    Inline(Ino),
    /// An orphan.
    Orphan(Ino),
    /// A discard.
    Discard(Ino),
    /// A session.
    Session(SessionId),
    /// The inode counter.
    NextIno,
    /// A line of the subtree map.
    Route(Ino, Frag),
    /// The letters to and from another rank.
    Peer(Rank),
    /// This rank's part of a directory.
    Part(Ino),
    /// A decoupled subtree.
    Decoupled(Ino),
}

/// Keys of dirty records by the LSN that first made them dirty, and those that a checkpoint is writing.
#[derive(Default)]
pub struct DirtyQueue {
    waiting: VecDeque<(Lsn, Key)>,
    flying: Vec<(Lsn, Key)>,
    /// About how many that wait have nothing to be written.
    idle: usize,
}

impl DirtyQueue {
    /// Adds a key that became dirty; LSNs never descend.
    #[inline]
    pub fn push(&mut self, lsn: Lsn, key: Key) {
        self.waiting.push_back((lsn, key));
    }

    /// Keys of dirty records that are not being written, oldest first.
    pub fn keys(&self) -> impl Iterator<Item = &Key> + '_ {
        self.waiting.iter().map(|(_, key)| key)
    }

    /// The oldest change that is not in the table.
    pub fn oldest(&self) -> Option<Lsn> {
        self.flying.first().or(self.waiting.front()).map(|(lsn, _)| *lsn)
    }

    /// Number of dirty records that are not being written.
    pub fn waiting(&self) -> usize {
        self.waiting.len().saturating_sub(self.idle)
    }

    /// Number of waiting keys, with those of records that have nothing to be written any more.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A record whose key waits has nothing to be written any more. The key stays: when its turn comes, what is left of the record goes.
    #[inline]
    pub fn idle(&mut self) {
        self.idle += 1;
    }

    /// A key was taken that had nothing to be written.
    pub fn took_idle(&mut self) {
        self.idle = self.idle.saturating_sub(1);
    }

    /// True if a checkpoint is being written.
    pub fn is_flying(&self) -> bool {
        !self.flying.is_empty()
    }

    /// Moves the oldest keys to those being written.
    pub fn take(&mut self, max: usize) -> Vec<Key> {
        debug_assert!(self.flying.is_empty(), "one checkpoint at a time");
        let count = max.min(self.waiting.len());
        self.flying.extend(self.waiting.drain(..count));
        self.flying.iter().map(|(_, key)| *key).collect()
    }

    /// Ends the writing.
    pub fn land(&mut self) -> Vec<(Lsn, Key)> {
        if self.waiting.capacity() > 4096 && self.waiting.len() * 4 < self.waiting.capacity() {
            self.waiting.shrink_to(self.waiting.len() * 2);
        }
        std::mem::take(&mut self.flying)
    }

    /// Puts keys back at the front, as they were.
    pub fn put_back(&mut self, keys: Vec<(Lsn, Key)>) {
        for key in keys.into_iter().rev() {
            self.waiting.push_front(key);
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        (self.waiting.capacity() + self.flying.capacity()) * size_of::<(Lsn, Key)>()
    }
}
