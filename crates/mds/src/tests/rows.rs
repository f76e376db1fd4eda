//! The table of the scenarios: rows as bytes, and what is read from and written into them.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_journal::table;
use loligo_namespace::{Loaded, Need, Record, SUBTREE, Tree};
use loligo_types::{Event, Ino, Lsn, Rank, Target};

use crate::TableMeta;

/// A table in which nothing was written yet.
pub fn begun() -> BTreeMap<Vec<u8>, Vec<u8>> {
    BTreeMap::from([(table::key_policies_noted(), table::encode_note(&[]))])
}

/// What a restart of a rank reads from the table at first.
pub fn meta(rows: &BTreeMap<Vec<u8>, Vec<u8>>, rank: Rank) -> TableMeta {
    let mut meta = TableMeta::default();
    if rank != Rank::ZERO {
        meta.next_ino = Ino::first_of(rank);
    }
    for (key, value) in rows {
        match table::decode_row(key, value).expect("the table holds what was written") {
            table::Row::Session(record) if record.id.rank() == rank => meta.sessions.push(record),
            table::Row::Orphan { ino, rank: of } if of == rank => meta.orphans.push(ino),
            table::Row::Discard { ino, rank: of, from, object_size } if of == rank => {
                meta.discards.push((ino, from, object_size));
            }
            table::Row::Decoupled { rank: of, record } if of == rank => meta.decoupled.push(*record),
            table::Row::Route { of, route } if of == rank => meta.routes.push(route),
            table::Row::Route { route, .. } => meta.other_routes.push(route),
            table::Row::Peer { of, peer } if of == rank => meta.peers.push(peer),
            table::Row::Inode(part) if part.part_of() == Some(rank) => meta.parts.push(*part),
            table::Row::Meta { meta: table::Meta::NextIno, rank: of, value } if of == rank => {
                meta.next_ino = Ino(value)
            }
            table::Row::Meta { meta: table::Meta::TableUpto, rank: of, value } if of == rank => {
                meta.table_upto = Lsn(value);
            }
            _ => {}
        }
    }
    meta
}

/// Says in the table what a rank has settled.
pub fn settle(rows: &mut BTreeMap<Vec<u8>, Vec<u8>>, rank: Rank, table_upto: Lsn) {
    rows.insert(table::key_meta(table::Meta::TableUpto, rank), table::encode_meta(table_upto.0));
}

/// Writes one record of a rank.
pub fn write(rows: &mut BTreeMap<Vec<u8>, Vec<u8>>, rank: Rank, record: Record) {
    let hash = record.hash;
    match &record.event {
        Event::Xattr { ino, name, .. } if **name == *SUBTREE => {
            rows.insert(table::key_policied(*ino), table::encode_note(&[]));
        }
        Event::XattrGone { ino, name } if **name == *SUBTREE => _ = rows.remove(&table::key_policied(*ino)),
        _ => {}
    }
    let (key, value) = match record.event {
        Event::Inode(inode) => (table::key_inode_of(&inode), Some(table::encode_inode(&inode))),
        Event::InodeGone(ino) => {
            if record.sweep {
                rows.remove(&table::key_policied(ino));
                let range = table::xattr_range(ino);
                rows.retain(|key, _| !range.contains(key));
            }
            (table::key_inode(ino), None)
        }
        Event::Entry { dir, name, ino, kind, remote } => {
            (table::key_entry(dir, hash, &name), Some(table::encode_entry(Target { ino, kind, remote })))
        }
        Event::EntryGone { dir, name } => (table::key_entry(dir, hash, &name), None),
        Event::Xattr { ino, name, value } => (table::key_xattr(ino, &name), Some(table::encode_xattr(&value))),
        Event::XattrGone { ino, name } => (table::key_xattr(ino, &name), None),
        Event::Inline { ino, data } => (table::key_inline(ino), Some(table::encode_inline(&data))),
        Event::InlineGone(ino) => (table::key_inline(ino), None),
        Event::Orphan(ino) => (table::key_orphan(ino), Some(table::encode_orphan(rank))),
        Event::OrphanGone(ino) => (table::key_orphan(ino), None),
        Event::Discard { ino, from, object_size } => {
            (table::key_discard(ino), Some(table::encode_discard(rank, from, object_size)))
        }
        Event::DiscardGone(ino) => (table::key_discard(ino), None),
        Event::Session(record) => (table::key_session(record.id), Some(table::encode_session(&record))),
        Event::SessionGone(id) => (table::key_session(id), None),
        Event::NextIno(ino) => (table::key_meta(table::Meta::NextIno, rank), Some(table::encode_meta(ino.0))),
        Event::Route(route) => {
            let there = (route.version > 0).then(|| table::encode_route(&route));
            (table::key_route(rank, route.dir, route.frag), there)
        }
        Event::Peer(peer) => (table::key_peer(rank, peer.rank), Some(table::encode_peer(&peer))),
        Event::PartGone { dir, rank } => (table::key_part(rank, dir), None),
        Event::Decoupled(record) => (table::key_decoupled(record.dir), Some(table::encode_decoupled(rank, &record))),
        Event::DecoupledGone(dir) => (table::key_decoupled(dir), None),
        Event::RouteGone(_)
        | Event::Letter { .. }
        | Event::Departed(_)
        | Event::DepartedFrag { .. }
        | Event::MergePart { .. }
        | Event::Merge { .. } => return,
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
            let hash = Tree::new(
                key,
                loligo_namespace::Config {
                    inline_max: 0,
                    rank: Rank::ZERO,
                    frag: loligo_namespace::FragConfig::default(),
                },
            )
            .hash(name);
            let found = rows.get(&table::key_entry(*dir, hash, name));
            let found = found.map(|value| table::decode_entry(value).expect(broken));
            Loaded::Entry { dir: *dir, name: name.clone(), found }
        }
        Need::Hashes { dir, from_hash } => {
            let range = read(rows, key, &Need::Range { dir: *dir, from_hash: *from_hash });
            let Loaded::Range { upto_hash, entries, .. } = range else { unreachable!("a range was asked for") };
            let mut hashes: Vec<u64> =
                entries.iter().map(|(name, _)| loligo_namespace::hash63(key, name.as_bytes())).collect();
            hashes.dedup();
            Loaded::Hashes { dir: *dir, from_hash: *from_hash, upto_hash, hashes }
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
                entries.push((name, table::decode_entry(value).expect(broken)));
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
        Need::Parts(dir) => panic!("the parts of {dir} are in no table"),
    }
}
