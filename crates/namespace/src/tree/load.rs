//! Puts what was read from the table into the cache. Memory wins: what is known there is never older.

use std::cell::Cell;
use std::sync::Arc;

use loligo_types::{Ino, Inode, Kind, Loaded, Name, Target, Time};

use super::dir::{ABSENT, DirSlot};
use super::xattrs::xattr_bytes;
use super::{HASH_MAX, InlineSlot, Slot, Small, Tree, XattrPair, XattrSet, XattrSlot, extra_bytes, flag, hash63};

impl Tree {
    /// Puts a record that was read from the table into the cache.
    ///
    /// What is in memory wins, as long as memory remembers. So a read that was begun before a checkpoint was written
    /// must be loaded (or dropped) before [`Tree::checkpoint_done`], which lets memory forget; and one record must not
    /// be read twice at once.
    pub fn load(&mut self, item: Loaded) {
        match item {
            Loaded::Inode(_, Some(part)) if part.part_of().is_some() => self.load_part(*part),
            Loaded::Inode(ino, inode) => self.load_inode(ino, inode),
            Loaded::Entry { dir, name, found } => self.load_entry(dir, &name, found),
            Loaded::Range { dir, from_hash, upto_hash, entries } => self.load_range(dir, from_hash, upto_hash, entries),
            Loaded::Hashes { dir, from_hash, upto_hash, hashes } => {
                let (from, upto) = ends(from_hash, upto_hash);
                self.dir_slot(dir);
                self.edit_known(dir, |slot| slot.hashes.add(from, upto, hashes));
            }
            Loaded::Xattrs(ino, items) => self.load_xattrs(ino, items),
            Loaded::Inline(ino, data) => self.load_inline(ino, data),
            Loaded::Orphan(ino) => {
                self.orphans.entry(ino).or_insert(Small { value: Some(()), flags: Cell::new(0) });
            }
            Loaded::Discard { ino, from, object_size } => {
                let value = Some((from, object_size));
                self.discards.entry(ino).or_insert(Small { value, flags: Cell::new(0) });
            }
            Loaded::Session(record) => {
                let id = record.id;
                let value = Some(Box::new(record));
                self.sessions.entry(id).or_insert(Small { value, flags: Cell::new(0) });
            }
            Loaded::NextIno(ino) => self.next_ino = self.next_ino.max(ino),
            Loaded::Route(route) => {
                let value = Small { value: Some(route), flags: Cell::new(0) };
                self.routes.entry((route.dir, route.frag)).or_insert(value);
            }
            Loaded::Peer(peer) => {
                self.peers.entry(peer.rank).or_insert(Small { value: Some(peer), flags: Cell::new(0) });
            }
            Loaded::Decoupled(record) => {
                let dir = record.dir;
                self.decoupled.entry(dir).or_insert(Small { value: Some(record), flags: Cell::new(0) });
            }
            // Only there while one operation is decided (see `invite`).
            Loaded::Part { .. } => {}
        }
    }

    fn load_inode(&mut self, ino: Ino, inode: Option<Box<Inode>>) {
        if self.inodes.get(ino.0).is_some() {
            return;
        }
        let slot = match inode {
            Some(inode) => Slot { inode: *inode, flags: Cell::new(flag::USED) },
            None => {
                let nothing = Inode::new(ino, Kind::File, 0, 0, 0, Ino(0), Time(0));
                Slot { inode: nothing, flags: Cell::new(flag::GONE) }
            }
        };
        self.heap_bytes += extra_bytes(&slot.inode);
        let unsettled = slot.flags.get() & flag::GONE == 0 && crate::rstat::is_unsettled(&slot.inode);
        self.inodes.insert(slot);
        if unsettled {
            self.queue_unsettled(ino);
        }
    }

    fn load_entry(&mut self, dir: Ino, name: &Name, found: Option<Target>) {
        let hash = hash63(self.key, name.as_bytes());
        self.load_into(dir, hash, name.as_bytes(), found);
    }

    fn load_range(&mut self, dir: Ino, from: u64, upto: u64, entries: Vec<(Name, Target)>) {
        for (name, target) in entries {
            let hash = hash63(self.key, name.as_bytes());
            if hash >= from && hash <= upto {
                self.load_into(dir, hash, name.as_bytes(), Some(target));
            }
        }
        let (from, upto) = ends(from, upto);
        self.dir_slot(dir);
        self.edit_known(dir, |slot| slot.complete.add(from, upto));
    }

    /// Changes what is known in ranges of a directory whose slot is there.
    pub(crate) fn edit_known(&mut self, dir: Ino, edit: impl FnOnce(&mut DirSlot)) {
        let Some(slot) = self.dirs.get_mut(dir.0) else { return };
        self.heap_bytes -= slot.known_bytes();
        self.hash_bytes -= slot.hashes.heap_bytes();
        edit(slot);
        self.heap_bytes += slot.known_bytes();
        self.hash_bytes += slot.hashes.heap_bytes();
    }

    fn load_into(&mut self, dir: Ino, hash: u64, name: &[u8], found: Option<Target>) {
        let slot = self.dir_slot(dir);
        // In a complete range memory knows everything, also that an entry which the table may still show is gone.
        if slot.complete.covers(hash) || slot.get(hash, name).is_some() {
            return;
        }
        let (entry, added, _) = slot.put(hash, name, found.unwrap_or(ABSENT));
        entry.flags.set(entry.flags.get() | flag::USED);
        self.heap_bytes += added;
    }

    fn load_xattrs(&mut self, ino: Ino, items: Vec<XattrPair>) {
        let set = self.xattrs.entry(ino).or_insert_with(|| {
            self.heap_bytes += XattrSet::default().heap_bytes();
            XattrSet::default()
        });
        if set.complete {
            return;
        }
        for (name, value) in items {
            let bytes = xattr_bytes(&name, Some(&value));
            set.items.entry(name).or_insert_with(|| {
                self.heap_bytes += bytes;
                XattrSlot { value: Some(value), flags: Cell::new(0) }
            });
        }
        set.complete = true;
    }

    fn load_inline(&mut self, ino: Ino, data: Option<Arc<[u8]>>) {
        self.inline.entry(ino).or_insert_with(|| {
            self.heap_bytes += inline_bytes(data.as_ref());
            InlineSlot { data, flags: Cell::new(0) }
        });
    }

    /// The entries of a directory, made if nothing is known.
    pub(crate) fn dir_slot(&mut self, dir: Ino) -> &mut DirSlot {
        let place = match self.dirs.place(dir.0) {
            Some(place) => place,
            None => {
                let mut slot = DirSlot::new(dir);
                // An empty directory is known in full.
                let known = self.inodes.get(dir.0);
                if known.is_some_and(|s| s.flags.get() & flag::GONE != 0 || s.inode.size == 0) {
                    slot.complete.set_all();
                }
                self.dirs.insert(slot)
            }
        };
        self.dirs.at_mut(place).expect("the place was just found")
    }

    /// Remembers that an inode's recursive sums have not come up.
    pub(crate) fn queue_unsettled(&mut self, ino: Ino) {
        let Some(slot) = self.inodes.get(ino.0) else { return };
        if slot.flags.get() & flag::QUEUED == 0 {
            slot.flags.set(slot.flags.get() | flag::QUEUED);
            self.unsettled.push_back(ino);
        }
    }
}

/// A range of hashes with nothing before it or behind it if no hash can be there: hash 0 does not exist.
pub(crate) fn ends(from: u64, upto: u64) -> (u64, u64) {
    (if from <= 1 { 0 } else { from }, if upto >= HASH_MAX { u64::MAX } else { upto })
}

/// Cost of inline data in the cache, bytes.
pub(crate) fn inline_bytes(data: Option<&Arc<[u8]>>) -> usize {
    56 + data.map_or(0, |data| data.len() + 24)
}
