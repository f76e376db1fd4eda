//! The cache of records: inodes, entries, xattrs, inline data and the few small tables. Decides nothing.
//!
//! Records are loaded on demand ([`Tree::load`]) and changed by [`crate::apply`] only. A changed record is dirty until
//! a checkpoint took it and [`Tree::checkpoint_done`] said that it is in the table; a removed record stays as a dirty
//! tombstone until then. Clean records may be evicted at any time.

mod deferred_free;
mod dir;
mod dirty;
mod hash;
mod hashes;
mod lend;
mod load;
mod merge;
mod parts;
mod ranges;
mod slab;
mod small;
mod xattrs;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use loligo_types::hash::IntMap;
use loligo_types::{
    DecoupledRecord, Event, Frag, Ino, Inode, Kind, Lsn, Name, PeerRecord, RStat, Rank, Route, SessionId,
    SessionRecord, Target, Time,
};

use crate::frag::{FragConfig, Recut};

pub(crate) use dir::ABSENT;
pub(crate) use dir::Group;
pub use dir::{DirSlot, Entry};
pub use dirty::{DirtyQueue, Key};
#[cfg(test)]
pub(crate) use hash::WEAK_KEY;
pub use hash::{HASH_MAX, hash63};
pub(crate) use hashes::Pages;
pub(crate) use load::inline_bytes;
pub use loligo_types::Loaded;
pub use parts::{Estimate, ended_lines};
pub use slab::{Keyed, Slab};
pub(crate) use xattrs::xattr_bytes;
pub use xattrs::{XattrPair, XattrSet, XattrSlot};

/// Bits that each cached record has.
pub mod flag {
    /// Changed since the last checkpoint took it.
    pub const DIRTY: u8 = 1;
    /// A checkpoint took it and has not been written yet.
    pub const IN_FLIGHT: u8 = 2;
    /// The inode is gone.
    pub const GONE: u8 = 4;
    /// Used since the eviction's hand last passed.
    pub const USED: u8 = 8;
    /// The inode is queued for the propagation of recursive sums.
    pub const QUEUED: u8 = 16;
    /// Xattr records of this inode may be in the table and must go with it.
    pub const SWEEP: u8 = 32;
    /// The entry's inode does not live with it.
    pub const REMOTE: u8 = 64;
    /// The table does not have it: it came into being, and no checkpoint took it since. If it goes as it came, nothing is to be written.
    /// Only dirty records are new.
    pub const NEW: u8 = 128;
    /// Must stay in memory.
    pub const HELD: u8 = DIRTY | IN_FLIGHT | QUEUED;
}

/// Settings of the file system for the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Largest file held in its inode, bytes; at most [`loligo_types::limits::INLINE_MAX`].
    pub inline_max: u32,
    /// The rank whose tree it is.
    pub rank: Rank,
    /// When directories are cut into fragments.
    pub frag: FragConfig,
}

/// Result of the lookup of a name in a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lookup {
    /// It must be loaded.
    Unknown,
    /// There is none.
    Absent,
    /// It is this.
    Present(Target),
}

/// Result of the search for an inode.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// It must be loaded.
    Unknown,
    /// There is none (any more).
    Gone,
    /// This.
    Here(&'a Inode),
}

/// A cached inode.
pub struct Slot {
    /// The record; the last known one if it is gone.
    pub inode: Inode,
    /// See [`flag`].
    pub flags: Cell<u8>,
}

const _: () = assert!(size_of::<Option<Slot>>() <= 128);

/// Cost of one inode in the cache, bytes, with its place in the index.
pub(crate) const SLOT_BYTES: usize = size_of::<Option<Slot>>() + 8;

impl Keyed for Slot {
    fn key(&self) -> u64 {
        self.inode.ino.0
    }
}

/// Inline data of one inode; `None` is known to be absent.
pub struct InlineSlot {
    /// The bytes.
    pub data: Option<Arc<[u8]>>,
    /// See [`flag`].
    pub flags: Cell<u8>,
}

/// A record of a small table that is always in memory as a whole; `None`: gone.
#[derive(Clone)]
pub struct Small<V> {
    /// The value.
    pub value: Option<V>,
    /// See [`flag`].
    pub flags: Cell<u8>,
}

/// A map by inode number.
pub type InoMap<V> = IntMap<Ino, V>;

/// The cache.
pub struct Tree {
    pub(crate) key: (u64, u64),
    pub(crate) config: Config,
    pub(crate) inodes: Slab<Slot>,
    pub(crate) dirs: Slab<DirSlot>,
    pub(crate) xattrs: InoMap<XattrSet>,
    pub(crate) inline: InoMap<InlineSlot>,
    pub(crate) orphans: BTreeMap<Ino, Small<()>>,
    pub(crate) discards: BTreeMap<Ino, Small<(u64, u32)>>,
    pub(crate) sessions: BTreeMap<SessionId, Small<Box<SessionRecord>>>,
    pub(crate) routes: BTreeMap<(Ino, Frag), Small<Route>>,
    pub(crate) peers: BTreeMap<Rank, Small<PeerRecord>>,
    pub(crate) next_ino: Ino,
    pub(crate) next_ino_flags: Cell<u8>,
    pub(crate) dirty: DirtyQueue,
    pub(crate) unsettled: VecDeque<Ino>,
    pub(crate) last_lsn: Lsn,
    pub(crate) heap_bytes: usize,
    pub(crate) hand: crate::evict::Hand,
    /// Inodes (and directories with what is known of their entries) of other ranks that are here while one operation is
    /// decided.
    pub(crate) guests: BTreeMap<Ino, Rank>,
    /// Since this was asked for last.
    pub(crate) recuts: Vec<Recut>,
    /// Names that other ranks lent, by directory and hash.
    pub(crate) guest_names: BTreeMap<(Ino, u64), Rank>,
    /// This rank's parts of directories whose inode is another's. Always in memory as a whole.
    pub(crate) parts: BTreeMap<Ino, Small<Box<Inode>>>,
    /// Parts that other ranks lent.
    pub(crate) lent_parts: BTreeMap<Ino, Vec<Inode>>,
    /// Directories of which all parts are here while one operation is decided.
    pub(crate) whole: BTreeSet<Ino>,
    /// Decoupled subtrees.
    pub(crate) decoupled: BTreeMap<Ino, Small<Box<DecoupledRecord>>>,
    /// Parts to be merged into them.
    pub(crate) merges: BTreeMap<Ino, merge::Merge>,
    /// Of merges that are done.
    pub(crate) pins: Vec<merge::Pin>,
    /// Entries that are forgotten, to be freed in steps.
    pub(crate) buried: Vec<deferred_free::DeferredFree>,
    /// Bytes of all that is known of hashes beyond entries, in `heap_bytes`, too.
    pub(crate) hash_bytes: usize,
}

impl Tree {
    /// An empty cache over an existing table. `hash_key` is the file system's; it never changes.
    pub fn new(hash_key: (u64, u64), config: Config) -> Tree {
        Tree {
            key: hash_key,
            config,
            inodes: Slab::new(),
            dirs: Slab::new(),
            xattrs: InoMap::default(),
            inline: InoMap::default(),
            orphans: BTreeMap::new(),
            discards: BTreeMap::new(),
            sessions: BTreeMap::new(),
            routes: BTreeMap::new(),
            peers: BTreeMap::new(),
            next_ino: Ino(0),
            next_ino_flags: Cell::new(0),
            dirty: DirtyQueue::default(),
            unsettled: VecDeque::new(),
            last_lsn: Lsn(0),
            heap_bytes: 0,
            hand: crate::evict::Hand::default(),
            guests: BTreeMap::new(),
            recuts: Vec::new(),
            guest_names: BTreeMap::new(),
            parts: BTreeMap::new(),
            lent_parts: BTreeMap::new(),
            whole: BTreeSet::new(),
            decoupled: BTreeMap::new(),
            merges: BTreeMap::new(),
            pins: Vec::new(),
            buried: Vec::new(),
            hash_bytes: 0,
        }
    }

    /// Directories that were cut otherwise by what was applied since this was asked last.
    #[inline]
    pub fn take_recuts(&mut self) -> Vec<Recut> {
        std::mem::take(&mut self.recuts)
    }

    /// The events that make a new file system: its root, and the first free inode number.
    pub fn format(now: Time, mode: u16, uid: u32, gid: u32) -> Vec<Event> {
        let mut root = Inode::new(Ino::ROOT, Kind::Dir, mode, uid, gid, Ino::ROOT, now);
        // Nobody counts the root.
        root.accounted = RStat::default();
        vec![Event::Inode(Box::new(root)), Event::NextIno(Ino::FIRST)]
    }

    /// The settings.
    pub fn config(&self) -> Config {
        self.config
    }

    /// The order and readdir cookie of a name: 63 bits, never 0.
    pub fn hash(&self, name: &Name) -> u64 {
        hash63(self.key, name.as_bytes())
    }

    /// The rank whose record an inode is: this one's, but for guests.
    pub fn owner(&self, ino: Ino) -> Rank {
        if self.guests.is_empty() {
            return self.config.rank;
        }
        self.guests.get(&ino).copied().unwrap_or(self.config.rank)
    }

    /// Takes records in that another rank lent. They must be sent away again ([`Tree::dismiss`]) before anything else is
    /// done with the tree than asking [`crate::need`] and [`crate::prepare`]. What is still in memory of the same has moved to
    /// that rank and is behind: it is forgotten.
    pub fn invite(&mut self, rank: Rank, items: &[Loaded]) {
        for item in items {
            match item {
                Loaded::Inode(ino, _) | Loaded::Xattrs(ino, _) | Loaded::Inline(ino, _) => {
                    if self.guests.insert(*ino, rank).is_none() {
                        self.forget_inode(*ino);
                    }
                }
                Loaded::Entry { dir, name, .. } => {
                    let hash = self.hash(name);
                    if self.guest_names.insert((*dir, hash), rank).is_none() {
                        self.forget_names(*dir, hash, hash);
                    }
                }
                Loaded::Part { dir, part, .. } => self.invite_part(*dir, part.as_deref()),
                _ => continue,
            }
        }
        items.iter().for_each(|item| self.load(item.clone()));
    }

    /// Sends all guests away.
    pub fn dismiss(&mut self) {
        for (dir, hash) in std::mem::take(&mut self.guest_names).into_keys() {
            self.forget_names(dir, hash, hash);
            let unknown = self.part(dir).is_none() && matches!(self.find(dir), Found::Unknown);
            if unknown && self.dirs.get(dir.0).is_some_and(|slot| slot.entries.is_empty()) {
                self.drop_dir(dir);
            }
        }
        for ino in std::mem::take(&mut self.guests).into_keys() {
            self.forget_inode(ino);
            if self.part(ino).is_none() {
                self.forget_known_names(ino);
            }
        }
        self.lent_parts.clear();
        self.whole.clear();
    }

    /// The entry that an inode is embedded with, if it is in memory: its name.
    pub fn primary_name(&self, inode: &Inode) -> Option<Name> {
        let group = self.dirs.get(inode.parent.0)?.entries.get(&inode.place.hash()?)?;
        let of_it = |entry: &&Entry| entry.ino == inode.ino && !entry.target().remote;
        group.entries().iter().find(of_it).map(|entry| entry.name.to_name())
    }

    /// The name that an inode is placed by, if that is in memory: of a directory also where it has a route of its own.
    pub(crate) fn placed_name(&self, inode: &Inode) -> Option<Name> {
        let group = self.dirs.get(inode.parent.0)?.entries.get(&inode.place.hash()?)?;
        let is_dir = inode.kind == loligo_types::Kind::Dir;
        let of_it = |entry: &&Entry| entry.ino == inode.ino && (is_dir || !entry.target().remote);
        group.entries().iter().find(of_it).map(|entry| entry.name.to_name())
    }

    /// True if all names are known that have the hash under which an inode is embedded.
    pub fn primary_known(&self, inode: &Inode) -> bool {
        let Some(hash) = inode.place.hash() else { return true };
        self.primary_name(inode).is_some()
            || self.dirs.get(inode.parent.0).is_some_and(|slot| slot.complete.covers(hash))
    }

    /// An inode, if it is in memory and there is one.
    pub fn inode(&self, ino: Ino) -> Option<&Inode> {
        match self.find(ino) {
            Found::Here(inode) => Some(inode),
            _ => None,
        }
    }

    /// Finds an inode. Where its inode is not here, a directory is this rank's part of it.
    #[inline]
    pub fn find(&self, ino: Ino) -> Found<'_> {
        let Some(slot) = self.inodes.get(ino.0) else { return self.part(ino).map_or(Found::Unknown, Found::Here) };
        let flags = slot.flags.get();
        slot.flags.set(flags | flag::USED);
        if flags & flag::GONE != 0 { Found::Gone } else { Found::Here(&slot.inode) }
    }

    /// The last known record of an inode in memory, also of one that is gone; not a use of it.
    pub fn peek(&self, ino: Ino) -> Option<&Inode> {
        self.inodes.get(ino.0).map(|slot| &slot.inode).or_else(|| self.part(ino))
    }

    /// Number of places for inodes, and for directories: for those who go through all in steps.
    pub fn places(&self) -> (usize, usize) {
        (self.inodes.places(), self.dirs.places())
    }

    /// The inode at a place, if there is one.
    pub fn inode_at(&self, place: usize) -> Option<Ino> {
        self.peek_at(place).map(|inode| inode.ino)
    }

    /// The last known record of the inode at a place, also of one that is gone; not a use of it.
    #[inline]
    pub fn peek_at(&self, place: usize) -> Option<&Inode> {
        self.inodes.at(place).map(|slot| &slot.inode)
    }

    /// The directory of which entries are known at a place, if there is one.
    pub fn dir_at(&self, place: usize) -> Option<Ino> {
        self.dirs.at(place).map(|slot| slot.ino)
    }

    /// Forgets that an inode is gone (or never was), if that is only remembered and not about to be written.
    pub fn forget_absent(&mut self, ino: Ino) {
        let absent = |slot: &Slot| slot.flags.get() & (flag::GONE | flag::HELD) == flag::GONE;
        if self.inodes.get(ino.0).is_some_and(absent) {
            self.drop_inode_slot(ino);
        }
    }

    /// The changed records of inodes and directories that are not being written, oldest first, with the inode that has
    /// them. Some may turn out to be as in the table.
    pub fn dirty_keys(&self) -> Vec<(Ino, Key)> {
        let of = |key: &Key| match key {
            Key::Inode(ino) | Key::Xattrs(ino) | Key::Inline(ino) | Key::Entry(ino, _) => Some((*ino, *key)),
            _ => None,
        };
        self.dirty.keys().filter_map(of).collect()
    }

    /// Looks up a name. The result does not tell if the inode it points to is loaded.
    #[inline]
    pub fn entry(&self, dir: Ino, name: &Name) -> Lookup {
        match self.dirs.get(dir.0) {
            Some(slot) => slot.lookup(self.hash(name), name.as_bytes()),
            None => self.entry_of_unseen(dir),
        }
    }

    /// No entry of the directory is in memory: it may be known to be empty or gone.
    fn entry_of_unseen(&self, dir: Ino) -> Lookup {
        match self.find(dir) {
            Found::Unknown => Lookup::Unknown,
            Found::Gone => Lookup::Absent,
            Found::Here(inode) if inode.size == 0 || inode.kind != Kind::Dir => Lookup::Absent,
            Found::Here(_) => Lookup::Unknown,
        }
    }

    /// The inline data: `None` if it must be loaded. Empty if there is none.
    pub fn inline(&self, inode: &Inode) -> Option<Arc<[u8]>> {
        if !inode.inline || inode.size == 0 {
            return Some(Arc::default());
        }
        Some(self.inline.get(&inode.ino)?.data.clone().unwrap_or_default())
    }

    /// Value of an xattr record: outer `None` if the xattrs must be loaded.
    pub fn xattr(&self, inode: &Inode, name: &[u8]) -> Option<Option<Arc<[u8]>>> {
        if !inode.has_xattrs {
            return Some(None);
        }
        let set = self.xattrs.get(&inode.ino)?;
        match set.items.get(name) {
            Some(slot) => Some(slot.value.clone()),
            None if set.complete => Some(None),
            None => None,
        }
    }

    /// All xattr records of an inode, by name; `None` if they must be loaded.
    pub fn xattrs(&self, inode: &Inode) -> Option<Vec<XattrPair>> {
        if !inode.has_xattrs {
            return Some(Vec::new());
        }
        let set = self.xattrs.get(&inode.ino).filter(|set| set.complete)?;
        let present = set.items.iter().filter_map(|(name, slot)| Some((name.clone(), slot.value.clone()?)));
        Some(present.collect())
    }

    /// True if the xattrs of the inode are in memory in full (or known not to be).
    pub fn xattrs_known(&self, inode: &Inode) -> bool {
        !inode.has_xattrs || self.xattrs.get(&inode.ino).is_some_and(|set| set.complete)
    }

    /// The smallest number that no inode ever had. Grows by itself as inodes are made; it is a record of its own.
    pub fn next_ino(&self) -> Ino {
        self.next_ino.max(Ino::first_of(self.config.rank))
    }

    /// Inodes without a name that wait for their last close, ascending.
    pub fn orphans(&self) -> impl Iterator<Item = Ino> + '_ {
        self.orphans.iter().filter(|(_, rec)| rec.value.is_some()).map(|(ino, _)| *ino)
    }

    /// True if an inode is an orphan.
    pub fn is_orphan(&self, ino: Ino) -> bool {
        self.orphans.get(&ino).is_some_and(|rec| rec.value.is_some())
    }

    /// Bytes of objects still to be dropped: inode, first byte, object size; ascending.
    pub fn discards(&self) -> impl Iterator<Item = (Ino, u64, u32)> + '_ {
        self.discards.iter().filter_map(|(ino, rec)| rec.value.map(|(from, size)| (*ino, from, size)))
    }

    /// Known sessions, ascending.
    pub fn sessions(&self) -> impl Iterator<Item = &SessionRecord> + '_ {
        self.sessions.values().filter_map(|rec| rec.value.as_deref())
    }

    /// A known session.
    pub fn session(&self, id: SessionId) -> Option<&SessionRecord> {
        self.sessions.get(&id)?.value.as_deref()
    }

    /// Lines of the subtree map that this rank itself has put down, ascending.
    pub fn routes(&self) -> impl Iterator<Item = &Route> + '_ {
        self.routes.values().filter_map(|rec| rec.value.as_ref())
    }

    /// State of the letters to and from other ranks, ascending.
    pub fn peers(&self) -> impl Iterator<Item = &PeerRecord> + '_ {
        self.peers.values().filter_map(|rec| rec.value.as_ref())
    }

    /// State of the letters to and from a rank.
    pub fn peer(&self, rank: Rank) -> PeerRecord {
        let known = self.peers.get(&rank).and_then(|rec| rec.value);
        known.unwrap_or(PeerRecord { rank, sent: 0, acked: 0, received: 0 })
    }

    /// The last journal record that was applied.
    pub fn last_lsn(&self) -> Lsn {
        self.last_lsn
    }

    /// Inodes in memory, gone ones included.
    pub fn inodes_cached(&self) -> usize {
        self.inodes.len()
    }

    /// Bytes of what is known of hashes beyond the entries in memory.
    pub fn hash_bytes(&self) -> usize {
        self.hash_bytes
    }

    /// Bytes of memory in use, as well as can be told without asking the allocator; within about a tenth.
    pub fn memory_bytes(&self) -> usize {
        self.inodes.len() * SLOT_BYTES
            + self.dirs.len() * (size_of::<Option<DirSlot>>() + 8)
            + self.heap_bytes
            + self.dirty.heap_bytes()
    }
}

/// Bytes that an inode has on the heap, beside its slot.
pub(crate) fn extra_bytes(inode: &Inode) -> usize {
    let Some(extra) = inode.extra.as_deref() else { return 0 };
    let acl = |acl: &Option<loligo_types::Acl>| acl.as_ref().map_or(0, |acl| acl.0.capacity() * 12 + 16);
    size_of_val(extra)
        + 16
        + extra.symlink.as_ref().map_or(0, |t| t.len() + 16)
        + acl(&extra.acl)
        + acl(&extra.default_acl)
}

#[cfg(test)]
mod tests {
    use loligo_types::Time;

    use super::*;

    #[test]
    fn what_another_rank_lends_counts_and_not_an_older_copy_of_it() {
        let mut tree = Tree::new((1, 2), Config { inline_max: 64, rank: Rank::ZERO, frag: FragConfig::default() });
        let (dir, ino) = (Ino(300), Ino(301));
        let name = Name::new(b"f").expect("a name");
        let inode = |mode| Some(Box::new(Inode::new(ino, Kind::File, mode, 0, 0, dir, Time(1))));
        let entry = |ino| Loaded::Entry {
            dir,
            name: name.clone(),
            found: Some(Target { ino, kind: Kind::File, remote: false }),
        };
        tree.load(Loaded::Inode(ino, inode(0o600)));
        tree.load(entry(Ino(999)));
        tree.invite(Rank(1), &[Loaded::Inode(ino, inode(0o644)), entry(ino)]);
        assert_eq!(tree.inode(ino).map(|inode| inode.mode), Some(0o644));
        assert!(matches!(tree.entry(dir, &name), Lookup::Present(target) if target.ino == ino));
        tree.dismiss();
        assert!(matches!(tree.find(ino), Found::Unknown) && matches!(tree.entry(dir, &name), Lookup::Unknown));
    }
}
