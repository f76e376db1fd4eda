//! The table of the scenarios: rows as bytes, and what is read from and written into them.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_journal::table;
use loligo_namespace::{Loaded, Need, Record, Tree};
use loligo_types::{Event, Ino};

use crate::TableMeta;

/// What a restart reads from the table at first.
pub fn meta(rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> TableMeta {
    let mut meta = TableMeta::default();
    for (key, value) in rows {
        match table::decode_row(key, value).expect("the table holds what was written") {
            table::Row::Session(record) => meta.sessions.push(record),
            table::Row::Orphan(ino) => meta.orphans.push(ino),
            table::Row::Discard { ino, from, object_size } => meta.discards.push((ino, from, object_size)),
            table::Row::Meta { meta: table::Meta::NextIno, value } => meta.next_ino = Ino(value),
            _ => {}
        }
    }
    meta
}

pub fn write(rows: &mut BTreeMap<Vec<u8>, Vec<u8>>, record: Record) {
    let hash = record.hash;
    let (key, value) = match record.event {
        Event::Inode(inode) => (table::key_inode(inode.ino), Some(table::encode_inode(&inode))),
        Event::InodeGone(ino) => {
            if record.sweep {
                let range = table::xattr_range(ino);
                rows.retain(|key, _| !range.contains(key));
            }
            (table::key_inode(ino), None)
        }
        Event::Entry { dir, name, ino, kind } => {
            (table::key_entry(dir, hash, &name), Some(table::encode_entry(ino, kind)))
        }
        Event::EntryGone { dir, name } => (table::key_entry(dir, hash, &name), None),
        Event::Xattr { ino, name, value } => (table::key_xattr(ino, &name), Some(table::encode_xattr(&value))),
        Event::XattrGone { ino, name } => (table::key_xattr(ino, &name), None),
        Event::Inline { ino, data } => (table::key_inline(ino), Some(table::encode_inline(&data))),
        Event::InlineGone(ino) => (table::key_inline(ino), None),
        Event::Orphan(ino) => (table::key_orphan(ino), Some(table::encode_orphan())),
        Event::OrphanGone(ino) => (table::key_orphan(ino), None),
        Event::Discard { ino, from, object_size } => {
            (table::key_discard(ino), Some(table::encode_discard(from, object_size)))
        }
        Event::DiscardGone(ino) => (table::key_discard(ino), None),
        Event::Session(record) => (table::key_session(record.id), Some(table::encode_session(&record))),
        Event::SessionGone(id) => (table::key_session(id), None),
        Event::NextIno(ino) => (table::key_meta(table::Meta::NextIno), Some(table::encode_meta(ino.0))),
    };
    match value {
        Some(value) => rows.insert(key, value),
        None => rows.remove(&key),
    };
}

/// Two hashes at a time, so that ranges meet their edges.
const HASHES_PER_RANGE: usize = 2;

pub fn read(rows: &BTreeMap<Vec<u8>, Vec<u8>>, key: (u64, u64), need: &Need) -> Loaded {
    let broken = "the table holds what was written";
    match need {
        Need::Inode(ino) => {
            let value = rows.get(&table::key_inode(*ino));
            Loaded::Inode(*ino, value.map(|v| Box::new(table::decode_inode(*ino, v).expect(broken))))
        }
        Need::Entry { dir, name } => {
            let hash = Tree::new(key, loligo_namespace::Config { inline_max: 0 }).hash(name);
            let found = rows.get(&table::key_entry(*dir, hash, name));
            let found = found.map(|value| table::decode_entry(value).expect(broken));
            Loaded::Entry { dir: *dir, name: name.clone(), found }
        }
        Need::Range { dir, from_hash } => {
            let range = table::dir_range_from(*dir, *from_hash);
            let (mut entries, mut upto_hash, mut hashes) = (Vec::new(), u64::MAX, Vec::new());
            for (key, value) in rows.range(range.start..range.end) {
                let (_, hash, name) = table::split_entry_key(key).expect(broken);
                if hashes.last() != Some(&hash) {
                    if hashes.len() == HASHES_PER_RANGE {
                        upto_hash = hashes[HASHES_PER_RANGE - 1];
                        break;
                    }
                    hashes.push(hash);
                }
                let (ino, kind) = table::decode_entry(value).expect(broken);
                entries.push((name, ino, kind));
            }
            Loaded::Range { dir: *dir, from_hash: *from_hash, upto_hash, entries }
        }
        Need::Xattrs(ino) => {
            let range = table::xattr_range(*ino);
            let decode = |(key, value): (&Vec<u8>, &Vec<u8>)| {
                let (_, name) = table::split_xattr_key(key).expect(broken);
                (Arc::from(name), table::decode_xattr(value).expect(broken))
            };
            Loaded::Xattrs(*ino, rows.range(range.start..range.end).map(decode).collect())
        }
        Need::Inline(ino) => {
            let value = rows.get(&table::key_inline(*ino));
            Loaded::Inline(*ino, value.map(|v| table::decode_inline(v).expect(broken)))
        }
    }
}
