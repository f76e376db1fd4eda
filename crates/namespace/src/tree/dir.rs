//! The entries of one directory as the cache holds them: by hash, with what is known to be absent. No inodes.

use std::cell::Cell;
use std::collections::BTreeMap;

use loligo_types::{Ino, Kind, Target};

use super::hashes::Hashes;
use super::ranges::Ranges;
use super::slab::Keyed;
use super::small::SmallName;
use super::{Lookup, flag};

/// One known entry. `ino` 0: known to be absent.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name.
    pub name: SmallName,
    /// Inode, or 0.
    pub ino: Ino,
    /// Type.
    pub kind: Kind,
    /// See [`flag`].
    pub flags: Cell<u8>,
}

impl Entry {
    /// The target of the entry.
    pub fn target(&self) -> Target {
        Target { ino: self.ino, kind: self.kind, remote: self.flags.get() & flag::REMOTE != 0 }
    }
}

/// Target in an entry that is known to be absent.
pub const ABSENT: Target = Target { ino: Ino(0), kind: Kind::File, remote: false };

/// All entries of one hash: nearly always one.
#[derive(Clone, Debug)]
pub enum Group {
    /// One.
    One(Entry),
    /// Several names with one hash, by name.
    Many(Vec<Entry>),
}

const _: () = assert!(size_of::<Group>() == 40);

/// Cost of one entry in the cache, bytes: key and group, over the mean filling of the nodes.
pub const ENTRY_BYTES: usize = 72;

impl Group {
    /// The entries.
    pub fn entries(&self) -> &[Entry] {
        match self {
            Group::One(entry) => std::slice::from_ref(entry),
            Group::Many(entries) => entries,
        }
    }

    /// True if some entry is more than known to be absent.
    pub fn is_there(&self) -> bool {
        self.entries().iter().any(|entry| entry.ino.0 != 0)
    }

    fn find(&self, name: &[u8]) -> Option<&Entry> {
        self.entries().iter().find(|e| e.name.as_bytes() == name)
    }

    fn find_mut(&mut self, name: &[u8]) -> Option<&mut Entry> {
        let entries = match self {
            Group::One(entry) => std::slice::from_mut(entry),
            Group::Many(entries) => entries,
        };
        entries.iter_mut().find(|e| e.name.as_bytes() == name)
    }

    fn push(&mut self, entry: Entry) {
        let mut entries = match std::mem::replace(self, Group::Many(Vec::new())) {
            Group::One(first) => vec![first],
            Group::Many(entries) => entries,
        };
        let at = entries.partition_point(|e| e.name.as_bytes() < entry.name.as_bytes());
        entries.insert(at, entry);
        *self = Group::Many(entries);
    }
}

/// The known entries of a directory.
pub struct DirSlot {
    /// The directory.
    pub ino: Ino,
    /// By hash.
    pub entries: BTreeMap<u64, Group>,
    /// Hashes of which every present entry is in `entries`.
    pub complete: Ranges,
    /// Beyond that, of which hashes it is known that no entry has them but those in `entries`.
    pub hashes: Hashes,
}

impl Keyed for DirSlot {
    fn key(&self) -> u64 {
        self.ino.0
    }
}

impl DirSlot {
    /// Nothing known.
    pub fn new(ino: Ino) -> DirSlot {
        DirSlot { ino, entries: BTreeMap::new(), complete: Ranges::default(), hashes: Hashes::default() }
    }

    /// Looks a name up among the known entries.
    #[inline]
    pub fn lookup(&self, hash: u64, name: &[u8]) -> Lookup {
        match self.entries.get(&hash).and_then(|group| group.find(name)) {
            Some(entry) => {
                entry.flags.set(entry.flags.get() | flag::USED);
                if entry.ino.0 == 0 { Lookup::Absent } else { Lookup::Present(entry.target()) }
            }
            None if self.complete.covers(hash) || self.hashes.deny(hash) => Lookup::Absent,
            None => Lookup::Unknown,
        }
    }

    /// True if the test holds for all known entries.
    pub fn all(&self, test: impl Fn(&Entry) -> bool) -> bool {
        self.entries.values().all(|group| group.entries().iter().all(&test))
    }

    /// The known entry of a name.
    pub fn get(&self, hash: u64, name: &[u8]) -> Option<&Entry> {
        self.entries.get(&hash)?.find(name)
    }

    /// Makes an entry what is given; returns it, the bytes that were added, and whether it is known that the table did not have it: no
    /// change of it was on its way there, and there was none.
    pub fn put(&mut self, hash: u64, name: &[u8], target: Target) -> (&Entry, usize, bool) {
        use std::collections::btree_map::Entry as Slot;
        let Target { ino, kind, remote } = target;
        let fresh = || Entry { name: SmallName::new(name), ino, kind, flags: Cell::new(0) };
        let (group, mut added) = match self.entries.entry(hash) {
            Slot::Vacant(slot) => {
                let entry = fresh();
                let bytes = ENTRY_BYTES + entry.name.heap_bytes();
                (slot.insert(Group::One(entry)), bytes)
            }
            Slot::Occupied(slot) => (slot.into_mut(), 0),
        };
        if added == 0 && group.find(name).is_none() {
            let entry = fresh();
            added = ENTRY_BYTES + entry.name.heap_bytes();
            group.push(entry);
        }
        let entry = group.find_mut(name).expect("it was just put there");
        let lacked = if added > 0 {
            self.complete.covers(hash) || self.hashes.deny(hash)
        } else {
            entry.ino.0 == 0 && entry.flags.get() & (flag::DIRTY | flag::IN_FLIGHT) == 0
        };
        entry.ino = ino;
        entry.kind = kind;
        let flags = entry.flags.get() & !flag::REMOTE;
        entry.flags.set(if remote { flags | flag::REMOTE } else { flags });
        (entry, added, lacked)
    }

    /// The first hash that is known for nothing before this one that is, but not before `first`. `None`: this one is known for something.
    pub fn unknown_from(&self, first: u64, hash: u64) -> Option<u64> {
        if self.complete.covers(hash) || self.hashes.known_until(hash).is_some() {
            return None;
        }
        let known = self.complete.end_before(hash).max(self.hashes.end_before(hash));
        Some(known.map_or(first, |until| first.max(until + 1)))
    }

    /// Bytes that what is known in ranges has on the heap.
    pub fn known_bytes(&self) -> usize {
        self.complete.heap_bytes() + self.hashes.heap_bytes()
    }

    /// Drops the entries of one hash that the test names; returns the bytes that were freed.
    pub fn drop_where(&mut self, hash: u64, test: impl Fn(&Entry) -> bool) -> usize {
        let Some(group) = self.entries.get_mut(&hash) else { return 0 };
        let cost = |e: &Entry| ENTRY_BYTES + e.name.heap_bytes();
        let freed = group.entries().iter().filter(|e| test(e)).map(cost).sum();
        let empty = match group {
            Group::One(entry) => test(entry),
            Group::Many(entries) => {
                entries.retain(|e| !test(e));
                entries.is_empty()
            }
        };
        if empty {
            self.entries.remove(&hash);
        }
        freed
    }
}
