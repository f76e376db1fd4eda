//! Start of the simulated server: reads the small tables and the journal through [`loligo_rows`], and checks the whole tree.

use std::collections::BTreeMap;

use loligo_journal::table::{Meta, Row};
use loligo_journal::{Record, Tail};
use loligo_namespace::{Loaded, Tree, apply, invariants};
use loligo_store::{Backend, Table};
use loligo_types::{Event, Ino, Lsn, Rank, TableMeta};

use crate::rows::{self, Result};

/// Result of a start's reads.
pub struct Found {
    /// For [`loligo_mds::Mds::recover`].
    pub meta: TableMeta,
    /// To be replayed in order.
    pub records: Vec<(Lsn, Record)>,
    /// End of the journal.
    pub tail: Tail,
    /// All rows of the table.
    pub rows: Vec<Row>,
}

/// Reads all that a start of a rank needs: what of the table is its own, and its journal, which lies elsewhere.
pub fn read(table: &dyn Table, journal: &dyn Backend, rank: Rank) -> Result<Found> {
    let text = |error: loligo_rows::Error| error.to_string();
    let rows = rows::all_rows(table)?;
    let head = loligo_rows::read_head(table, rank).map_err(text)?;
    let meta = loligo_rows::read_meta(table, rank, &head).map_err(text)?;
    let mut records = Vec::new();
    let mut each = |read: loligo_rows::Read| records.push((read.lsn, read.record));
    let tail = loligo_rows::replay(journal, u32::from(rank.0), head.replay_from, &mut each).map_err(text)?;
    Ok(Found { meta, records, tail, rows })
}

/// Leaves out the last part of what became true with each merge, if there are several.
pub fn forget_parts(records: &mut [(Lsn, Record)]) {
    let mut last: BTreeMap<Ino, usize> = BTreeMap::new();
    for at in 0..records.len() {
        for event in records[at].1.events.clone() {
            match event {
                Event::MergePart { dir, part, .. } if part > 0 => drop(last.insert(dir, at)),
                Event::MergePart { dir, .. } => drop(last.remove(&dir)),
                Event::Merge { dir } => {
                    if let Some(at) = last.remove(&dir) {
                        records[at].1.events.clear();
                    }
                }
                _ => {}
            }
        }
    }
}

/// Leaves out the data of files.
pub fn forget_data(records: &mut [(Lsn, Record)]) {
    for (_, record) in records {
        record.events.retain(|event| !matches!(event, Event::Data { .. }));
    }
}

/// Leaves out what became true with each merge, and that it did; not what became of inodes that were there before.
pub fn forget_merges(records: &mut [(Lsn, Record)]) {
    let mut parts: BTreeMap<Ino, Vec<usize>> = BTreeMap::new();
    for at in 0..records.len() {
        for event in records[at].1.events.clone() {
            match event {
                Event::MergePart { dir, .. } => parts.entry(dir).or_default().push(at),
                Event::Merge { dir } => {
                    parts.remove(&dir).into_iter().flatten().for_each(|at| records[at].1.events.clear());
                    records[at].1.events.retain(|event| !matches!(event, Event::Merge { .. }));
                }
                _ => {}
            }
        }
    }
}

/// The whole tree of these rows and records, all in memory; checks what must hold after every change. With several ranks
/// that is so only when nothing is on its way between them and all is in the table.
pub fn check_tree(rows: &[Row], records: &[(Lsn, Record)], key: (u64, u64), inline_max: u32) -> Vec<String> {
    let mut tree = Tree::new(
        key,
        loligo_namespace::Config { inline_max, rank: Rank::ZERO, frag: loligo_namespace::FragConfig::default() },
    );
    let mut entries: BTreeMap<Ino, Vec<_>> = BTreeMap::new();
    let mut xattrs: BTreeMap<Ino, Vec<_>> = BTreeMap::new();
    for row in rows {
        match row.clone() {
            Row::Inode(inode) => {
                if inode.kind == loligo_types::Kind::Dir {
                    entries.entry(inode.ino).or_default();
                }
                tree.load(Loaded::Inode(inode.ino, Some(inode)));
            }
            Row::Entry { dir, name, target, .. } => entries.entry(dir).or_default().push((name, target)),
            Row::Xattr { ino, name, value } => xattrs.entry(ino).or_default().push((name, value)),
            Row::Inline { ino, data } => tree.load(Loaded::Inline(ino, Some(data))),
            Row::Orphan { ino, .. } => tree.load(Loaded::Orphan(ino)),
            Row::Discard { ino, from, object_size, .. } => tree.load(Loaded::Discard { ino, from, object_size }),
            Row::Decoupled { record, .. } => tree.load(Loaded::Decoupled(record)),
            Row::Session(session) => tree.load(Loaded::Session(session)),
            Row::Meta { meta: Meta::NextIno, rank: Rank::ZERO, value } => tree.load(Loaded::NextIno(Ino(value))),
            Row::Meta { .. } | Row::Route { .. } | Row::Peer { .. } | Row::Note { .. } => {}
        }
    }
    for (dir, entries) in entries {
        tree.load(Loaded::Range { dir, from_hash: 0, upto_hash: u64::MAX, entries });
    }
    for (ino, items) in xattrs {
        tree.load(Loaded::Xattrs(ino, items));
    }
    for (lsn, record) in records {
        record.events.iter().for_each(|event| apply(&mut tree, event, *lsn));
    }
    invariants::check(&tree)
}
