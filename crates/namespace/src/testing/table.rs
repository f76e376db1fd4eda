//! The table as tests have it: ordered maps, written by checkpoints, read by needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_types::{Event, Ino, Inode, SessionRecord, Target};

use crate::{Loaded, Need, Record, hash63};

/// Names collide under it.
pub const KEY: (u64, u64) = crate::tree::WEAK_KEY;

type Bytes = Arc<[u8]>;

#[derive(Clone, Default, PartialEq, Debug)]
pub struct Table {
    pub inodes: BTreeMap<Ino, Inode>,
    pub entries: BTreeMap<(Ino, u64, Vec<u8>), Target>,
    pub xattrs: BTreeMap<(Ino, Bytes), Bytes>,
    pub inline: BTreeMap<Ino, Arc<[u8]>>,
    pub orphans: BTreeMap<Ino, ()>,
    pub discards: BTreeMap<Ino, (u64, u32)>,
    pub sessions: BTreeMap<u64, SessionRecord>,
    pub next_ino: Ino,
}

impl Table {
    pub fn write(&mut self, record: &Record) {
        match record.event.clone() {
            Event::Inode(inode) => drop(self.inodes.insert(inode.ino, *inode)),
            Event::InodeGone(ino) => {
                self.inodes.remove(&ino);
                if record.sweep {
                    self.xattrs.retain(|(owner, _), _| *owner != ino);
                }
            }
            Event::Entry { dir, name, ino, kind, remote } => {
                assert_eq!(record.hash, hash63(KEY, name.as_bytes()));
                self.entries.insert((dir, record.hash, name.as_bytes().to_vec()), Target { ino, kind, remote });
            }
            Event::EntryGone { dir, name } => {
                self.entries.remove(&(dir, record.hash, name.as_bytes().to_vec()));
            }
            Event::Xattr { ino, name, value } => drop(self.xattrs.insert((ino, name), value)),
            Event::XattrGone { ino, name } => drop(self.xattrs.remove(&(ino, name))),
            Event::Inline { ino, data } => drop(self.inline.insert(ino, data)),
            Event::InlineGone(ino) => drop(self.inline.remove(&ino)),
            Event::Orphan(ino) => drop(self.orphans.insert(ino, ())),
            Event::OrphanGone(ino) => drop(self.orphans.remove(&ino)),
            Event::Discard { ino, from, object_size } => drop(self.discards.insert(ino, (from, object_size))),
            Event::DiscardGone(ino) => drop(self.discards.remove(&ino)),
            Event::Session(record) => drop(self.sessions.insert(record.id.0, record)),
            Event::SessionGone(id) => drop(self.sessions.remove(&id.0)),
            Event::NextIno(ino) => self.next_ino = ino,
            event => panic!("one rank alone does not write {event:?}"),
        }
    }

    /// Answers a need; a range gives a few entries only, so that it must be asked for again.
    pub fn read(&self, need: &Need) -> Loaded {
        match need.clone() {
            Need::Inode(ino) => Loaded::Inode(ino, self.inodes.get(&ino).cloned().map(Box::new)),
            Need::Entry { dir, name } => {
                let key = (dir, hash63(KEY, name.as_bytes()), name.as_bytes().to_vec());
                Loaded::Entry { dir, found: self.entries.get(&key).copied(), name }
            }
            Need::Hashes { dir, from_hash } => {
                let range = self.read(&Need::Range { dir, from_hash });
                let Loaded::Range { upto_hash, entries, .. } = range else { unreachable!("a range was asked for") };
                let mut hashes: Vec<u64> = entries.iter().map(|(name, _)| hash63(KEY, name.as_bytes())).collect();
                hashes.dedup();
                Loaded::Hashes { dir, from_hash, upto_hash, hashes }
            }
            Need::Range { dir, from_hash } => {
                let range = self.entries.range((dir, from_hash, Vec::new())..(Ino(dir.0 + 1), 0, Vec::new()));
                let third = range.clone().nth(2).map_or(u64::MAX, |(key, _)| key.1);
                let few: Vec<_> = range.clone().take_while(|(key, _)| key.1 <= third).collect();
                let end = range.count() <= few.len();
                let upto_hash = if end { u64::MAX } else { few.last().map_or(u64::MAX, |(key, _)| key.1) };
                let entry = |((_, _, name), target): (&(Ino, u64, Vec<u8>), &Target)| {
                    (loligo_types::Name::new(name).expect("it came from a name"), *target)
                };
                Loaded::Range { dir, from_hash, upto_hash, entries: few.into_iter().map(entry).collect() }
            }
            Need::Xattrs(ino) => {
                let mine = self.xattrs.iter().filter(|((owner, _), _)| *owner == ino);
                Loaded::Xattrs(ino, mine.map(|((_, name), value)| (name.clone(), value.clone())).collect())
            }
            Need::Inline(ino) => Loaded::Inline(ino, self.inline.get(&ino).cloned()),
            Need::Parts(dir) => panic!("the parts of {dir} are in no table"),
        }
    }

    /// The records that a server loads when it starts.
    pub fn small(&self) -> Vec<Loaded> {
        let mut all: Vec<Loaded> = self.orphans.keys().map(|ino| Loaded::Orphan(*ino)).collect();
        let discard =
            |(ino, (from, size)): (&Ino, &(u64, u32))| Loaded::Discard { ino: *ino, from: *from, object_size: *size };
        all.extend(self.discards.iter().map(discard));
        all.extend(self.sessions.values().cloned().map(Loaded::Session));
        all.push(Loaded::NextIno(self.next_ino));
        all
    }

    /// All records, as the events that would make them.
    pub fn events(&self) -> Vec<Event> {
        let name = |bytes: &[u8]| loligo_types::Name::new(bytes).expect("it came from a name");
        let mut all: Vec<Event> = self.inodes.values().map(|inode| Event::Inode(Box::new(inode.clone()))).collect();
        all.extend(self.entries.iter().map(|((dir, _, bytes), target)| Event::Entry {
            dir: *dir,
            name: name(bytes),
            ino: target.ino,
            kind: target.kind,
            remote: target.remote,
        }));
        let xattr = |((ino, name), value): (&(Ino, Bytes), &Bytes)| Event::Xattr {
            ino: *ino,
            name: name.clone(),
            value: value.clone(),
        };
        all.extend(self.xattrs.iter().map(xattr));
        all.extend(self.inline.iter().map(|(ino, data)| Event::Inline { ino: *ino, data: data.clone() }));
        all.extend(self.orphans.keys().map(|ino| Event::Orphan(*ino)));
        all.push(Event::NextIno(self.next_ino));
        all
    }
}
