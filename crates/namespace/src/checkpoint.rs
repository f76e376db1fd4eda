//! Takes dirty records, oldest first, to be written into the table. Writes nothing itself.
//!
//! A record is taken in its newest state, not in the one of its oldest change: events are absolute, so replay over a
//! table that holds later states converges. Hence two rules for the caller: write a checkpoint only when the journal
//! is durable up to [`Checkpoint::upto`], and trim the journal only below [`Tree::oldest_dirty`] after
//! [`Tree::checkpoint_done`].

use std::sync::Arc;

use loligo_types::{Event, Ino, Lsn, PeerRecord, Rank, Route, Target};

use crate::tree::{Entry, Key, Small, Tree, flag, xattr_bytes};

/// One record to write or remove in the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The event that the table must show; the `..Gone` events remove a record.
    pub event: Event,
    /// The hash of the name of an `Entry` or `EntryGone`; else 0. The table's key is directory, hash, name.
    pub hash: u64,
    /// Of `InodeGone`: xattr records of the inode may be in the table, remove them all.
    pub sweep: bool,
}

impl Record {
    /// A record without a name.
    pub fn plain(event: Event) -> Record {
        Record { event, hash: 0, sweep: false }
    }
}

/// A batch of records for the table; write it as one atomic batch or in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checkpoint {
    /// The records. Empty: nothing is dirty, or a checkpoint is being written.
    pub records: Vec<Record>,
    /// The journal must be durable up to here before any of the records is written.
    pub upto: Lsn,
}

impl Tree {
    /// Takes at most about `max_records` dirty records, oldest first, and fewer if some have nothing to be written any more. There is one checkpoint at a time: until
    /// [`Tree::checkpoint_done`] or [`Tree::checkpoint_failed`] an empty one is returned.
    pub fn take_checkpoint(&mut self, max_records: usize) -> Checkpoint {
        let mut records = Vec::new();
        if !self.dirty.is_flying() {
            let keys = self.dirty.take(max_records.max(1));
            records.reserve(keys.len());
            for key in keys {
                let before = records.len();
                self.take_record(key, &mut records);
                if records.len() == before {
                    self.dirty.took_idle();
                }
            }
        }
        Checkpoint { records, upto: self.last_lsn }
    }

    /// The records of the last checkpoint are in the table, durably.
    pub fn checkpoint_done(&mut self) {
        for (_, key) in self.dirty.land() {
            self.land_record(key);
        }
    }

    /// The records of the last checkpoint could not be written: they are dirty again.
    pub fn checkpoint_failed(&mut self) {
        let keys = self.dirty.land();
        for (_, key) in &keys {
            self.retake_record(*key);
        }
        self.dirty.put_back(keys);
    }

    /// The oldest journal record of which something in memory is not in the table; the journal is needed from here on, or from further
    /// back ([`Tree::needed_for_merges`]). `None`: everything in memory is in the table.
    pub fn oldest_dirty(&self) -> Option<Lsn> {
        self.dirty.oldest()
    }

    /// Number of dirty records that are not being written.
    pub fn dirty_records(&self) -> usize {
        self.dirty.waiting()
    }

    /// Number of keys of changed records that wait for a checkpoint, also of records that went as they came, so that nothing is to be
    /// written.
    pub fn dirty_queue(&self) -> usize {
        self.dirty.len()
    }

    /// Data held in an inode, if it is in memory; and true if it is dirty: no checkpoint has taken it in this state, and the journal is not
    /// trimmed of the records that it was changed by since the last one took it.
    pub fn inline_state(&self, ino: Ino) -> Option<(Arc<[u8]>, bool)> {
        let slot = self.inline.get(&ino)?;
        Some((slot.data.clone()?, slot.flags.get() & flag::DIRTY != 0))
    }

    /// The present state of a changed record, as the events that make it so; it stays as it is.
    pub fn dirty_events(&self, key: Key) -> Vec<Event> {
        let is_dirty = |flags: &std::cell::Cell<u8>| flags.get() & flag::DIRTY != 0;
        let mut events = Vec::new();
        match key {
            Key::Inode(ino) => {
                if let Some(slot) = self.inodes.get(ino.0).filter(|slot| is_dirty(&slot.flags)) {
                    let gone = slot.flags.get() & flag::GONE != 0;
                    events.push(if gone { Event::InodeGone(ino) } else { Event::Inode(Box::new(slot.inode.clone())) });
                }
            }
            Key::Entry(dir, hash) => {
                let group = self.dirs.get(dir.0).and_then(|slot| slot.entries.get(&hash));
                let entries = group.iter().flat_map(|group| group.entries()).filter(|entry| is_dirty(&entry.flags));
                events.extend(entries.map(|entry| entry_event(dir, entry)));
            }
            Key::Xattrs(ino) => {
                let items = self.xattrs.get(&ino).into_iter().flat_map(|set| set.items.iter());
                events.extend(items.filter(|(_, slot)| is_dirty(&slot.flags)).map(|(name, slot)| {
                    let name = name.clone();
                    match slot.value.clone() {
                        Some(value) => Event::Xattr { ino, name, value },
                        None => Event::XattrGone { ino, name },
                    }
                }));
            }
            Key::Inline(ino) => {
                if let Some(slot) = self.inline.get(&ino).filter(|slot| is_dirty(&slot.flags)) {
                    let gone = Event::InlineGone(ino);
                    events.push(slot.data.clone().map_or(gone, |data| Event::Inline { ino, data }));
                }
            }
            _ => {}
        }
        events
    }

    fn take_record(&mut self, key: Key, out: &mut Vec<Record>) {
        match key {
            Key::Inode(ino) => self.take_inode(ino, out),
            Key::Entry(dir, hash) => self.take_entries(dir, hash, out),
            Key::Xattrs(ino) => self.take_xattrs(ino, out),
            Key::Inline(ino) => {
                let Some(slot) = self.inline.get(&ino) else { return };
                if start(&slot.flags) {
                    let gone = Event::InlineGone(ino);
                    out.push(Record::plain(slot.data.clone().map_or(gone, |data| Event::Inline { ino, data })));
                }
            }
            Key::Orphan(ino) => take_small(self.orphans.get(&ino), out, |value| match value {
                Some(()) => Event::Orphan(ino),
                None => Event::OrphanGone(ino),
            }),
            Key::Discard(ino) => take_small(self.discards.get(&ino), out, |value| match value {
                Some((from, object_size)) => Event::Discard { ino, from: *from, object_size: *object_size },
                None => Event::DiscardGone(ino),
            }),
            Key::Session(id) => take_small(self.sessions.get(&id), out, |value| match value {
                Some(record) => Event::Session((**record).clone()),
                None => Event::SessionGone(id),
            }),
            Key::Route(dir, frag) => {
                // A line that is gone has no rank to say; its key is all that counts.
                let gone = Route { dir, frag, rank: Rank::ZERO, version: 0 };
                take_small(self.routes.get(&(dir, frag)), out, |value| Event::Route(*value.unwrap_or(&gone)));
            }
            Key::Peer(rank) => {
                let none = PeerRecord { rank, sent: 0, acked: 0, received: 0 };
                take_small(self.peers.get(&rank), out, |value| Event::Peer(*value.unwrap_or(&none)));
            }
            Key::Part(dir) => {
                let gone = Event::PartGone { dir, rank: self.config.rank };
                take_small(self.parts.get(&dir), out, |value| value.map_or(gone.clone(), |v| Event::Inode(v.clone())));
            }
            Key::Decoupled(dir) => take_small(self.decoupled.get(&dir), out, |value| match value {
                Some(record) => Event::Decoupled(record.clone()),
                None => Event::DecoupledGone(dir),
            }),
            Key::NextIno => {
                if start(&self.next_ino_flags) {
                    out.push(Record::plain(Event::NextIno(self.next_ino)));
                }
            }
        }
    }

    fn take_inode(&mut self, ino: Ino, out: &mut Vec<Record>) {
        let Some(slot) = self.inodes.get(ino.0) else { return };
        if !start(&slot.flags) {
            return;
        }
        let flags = slot.flags.get();
        if flags & flag::GONE == 0 {
            out.push(Record::plain(Event::Inode(Box::new(slot.inode.clone()))));
        } else {
            out.push(Record { event: Event::InodeGone(ino), hash: 0, sweep: flags & flag::SWEEP != 0 });
        }
    }

    fn take_entries(&mut self, dir: Ino, hash: u64, out: &mut Vec<Record>) {
        let Some(group) = self.dirs.get(dir.0).and_then(|slot| slot.entries.get(&hash)) else { return };
        for entry in group.entries().iter().filter(|entry| start(&entry.flags)) {
            let event = entry_event(dir, entry);
            out.push(Record { event, hash, sweep: false });
        }
    }

    fn take_xattrs(&mut self, ino: Ino, out: &mut Vec<Record>) {
        let Some(set) = self.xattrs.get(&ino) else { return };
        for (name, slot) in set.items.iter().filter(|(_, slot)| start(&slot.flags)) {
            let name = name.clone();
            out.push(Record::plain(match slot.value.clone() {
                Some(value) => Event::Xattr { ino, name, value },
                None => Event::XattrGone { ino, name },
            }));
        }
    }

    fn land_record(&mut self, key: Key) {
        match key {
            Key::Inode(ino) => {
                let Some(slot) = self.inodes.get(ino.0) else { return };
                end(&slot.flags);
                let flags = slot.flags.get();
                if flags & flag::GONE != 0 && flags & flag::HELD == 0 {
                    self.drop_inode_slot(ino);
                }
            }
            Key::Entry(dir, hash) => self.land_entries(dir, hash),
            Key::Xattrs(ino) => self.land_xattrs(ino),
            Key::Inline(ino) => {
                let Some(slot) = self.inline.get(&ino) else { return };
                end(&slot.flags);
                let clean = slot.flags.get() & flag::HELD == 0;
                if clean && (slot.data.is_none() || self.inode(ino).is_none()) {
                    self.drop_inline(ino);
                }
            }
            Key::Orphan(ino) => land_small(&mut self.orphans, &ino),
            Key::Discard(ino) => land_small(&mut self.discards, &ino),
            Key::Session(id) => land_small(&mut self.sessions, &id),
            Key::NextIno => end(&self.next_ino_flags),
            Key::Route(dir, frag) => land_small(&mut self.routes, &(dir, frag)),
            Key::Peer(rank) => land_small(&mut self.peers, &rank),
            Key::Part(dir) => land_small(&mut self.parts, &dir),
            Key::Decoupled(dir) => land_small(&mut self.decoupled, &dir),
        }
    }

    fn land_entries(&mut self, dir: Ino, hash: u64) {
        let gone = self.inode(dir).is_none();
        let Some(slot) = self.dirs.get_mut(dir.0) else { return };
        if let Some(group) = slot.entries.get(&hash) {
            group.entries().iter().for_each(|entry| end(&entry.flags));
        }
        // A clean tombstone says nothing where all is known. Elsewhere it saves a read, until it is evicted.
        if slot.complete.covers(hash) || slot.hashes.deny(hash) {
            let idle = |flags: u8| flags & flag::HELD == 0;
            self.heap_bytes -= slot.drop_where(hash, |entry| entry.ino.0 == 0 && idle(entry.flags.get()));
        }
        if gone && slot.entries.is_empty() {
            self.drop_dir(dir);
        }
    }

    fn land_xattrs(&mut self, ino: Ino) {
        let unowned = self.inode(ino).is_none();
        let Some(set) = self.xattrs.get_mut(&ino) else { return };
        set.items.values().for_each(|slot| end(&slot.flags));
        if set.complete {
            let mut freed = 0;
            set.items.retain(|name, slot| {
                let keep = slot.value.is_some() || slot.flags.get() & flag::HELD != 0;
                freed += if keep { 0 } else { xattr_bytes(name, None) };
                keep
            });
            self.heap_bytes -= freed;
        }
        if unowned && !set.any(flag::HELD) {
            self.drop_xattrs(ino);
        }
    }

    fn retake_record(&mut self, key: Key) {
        let again = |flags: &std::cell::Cell<u8>| {
            if flags.get() & flag::IN_FLIGHT != 0 {
                flags.set(flags.get() & !flag::IN_FLIGHT | flag::DIRTY);
            }
        };
        match key {
            Key::Inode(ino) => self.inodes.get(ino.0).iter().for_each(|slot| again(&slot.flags)),
            Key::Entry(dir, hash) => {
                let group = self.dirs.get(dir.0).and_then(|slot| slot.entries.get(&hash));
                group.iter().flat_map(|group| group.entries()).for_each(|entry| again(&entry.flags));
            }
            Key::Xattrs(ino) => {
                let set = self.xattrs.get(&ino);
                set.iter().flat_map(|set| set.items.values()).for_each(|slot| again(&slot.flags));
            }
            Key::Inline(ino) => self.inline.get(&ino).iter().for_each(|slot| again(&slot.flags)),
            Key::Orphan(ino) => self.orphans.get(&ino).iter().for_each(|record| again(&record.flags)),
            Key::Discard(ino) => self.discards.get(&ino).iter().for_each(|record| again(&record.flags)),
            Key::Session(id) => self.sessions.get(&id).iter().for_each(|record: &&Small<_>| again(&record.flags)),
            Key::Route(dir, frag) => self.routes.get(&(dir, frag)).iter().for_each(|record| again(&record.flags)),
            Key::Peer(rank) => self.peers.get(&rank).iter().for_each(|record| again(&record.flags)),
            Key::Part(dir) => self.parts.get(&dir).iter().for_each(|record| again(&record.flags)),
            Key::Decoupled(dir) => self.decoupled.get(&dir).iter().for_each(|record| again(&record.flags)),
            Key::NextIno => again(&self.next_ino_flags),
        }
    }
}

/// The event of an entry.
fn entry_event(dir: Ino, entry: &Entry) -> Event {
    let name = entry.name.to_name();
    match entry.target() {
        Target { ino: Ino(0), .. } => Event::EntryGone { dir, name },
        Target { ino, kind, remote } => Event::Entry { dir, name, ino, kind, remote },
    }
}

/// From dirty to in flight; says whether it was dirty.
fn start(flags: &std::cell::Cell<u8>) -> bool {
    let before = flags.get();
    if before & flag::DIRTY == 0 {
        return false;
    }
    flags.set(before & !(flag::DIRTY | flag::NEW) | flag::IN_FLIGHT);
    true
}

fn end(flags: &std::cell::Cell<u8>) {
    flags.set(flags.get() & !flag::IN_FLIGHT);
}

fn take_small<V>(record: Option<&Small<V>>, out: &mut Vec<Record>, event: impl Fn(Option<&V>) -> Event) {
    if let Some(record) = record.filter(|record| start(&record.flags)) {
        out.push(Record::plain(event(record.value.as_ref())));
    }
}

fn land_small<K: Ord, V>(table: &mut std::collections::BTreeMap<K, Small<V>>, key: &K) {
    let Some(record) = table.get(key) else { return };
    end(&record.flags);
    if record.value.is_none() && record.flags.get() & flag::HELD == 0 {
        table.remove(key);
    }
}
