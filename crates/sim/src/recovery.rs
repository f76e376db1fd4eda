//! What a start of the simulated server reads: the small tables, the journal; and the whole tree, to be checked.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_journal::table::{Meta, Row};
use loligo_journal::{ReadConfig, Reader, Record, Source, Synced, Tail, decode_record};
use loligo_mds::TableMeta;
use loligo_namespace::{Loaded, Tree, apply, invariants};
use loligo_store::{Backend, LogDir, LogReader, StoreError, Table};
use loligo_types::{Event, Ino, Lsn, Rank};

use crate::rows::{self, Result};

/// The segments of the journal, for [`Reader`].
struct LogSource {
    dir: Arc<dyn LogDir>,
    open: BTreeMap<u64, Box<dyn LogReader>>,
}

impl Source for LogSource {
    type Error = StoreError;

    fn list(&mut self) -> std::result::Result<Vec<(u64, u64)>, StoreError> {
        Ok(self.dir.list()?.into_iter().map(|s| (s.id, s.len)).collect())
    }

    fn read_at(&mut self, segment: u64, offset: u64, buf: &mut [u8]) -> std::result::Result<usize, StoreError> {
        use std::collections::btree_map::Entry;
        let reader = match self.open.entry(segment) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(self.dir.open(segment)?),
        };
        reader.read_at(offset, buf)
    }
}

/// What was found.
pub struct Found {
    /// For [`loligo_mds::Mds::recover`].
    pub meta: TableMeta,
    /// To be replayed in order.
    pub records: Vec<(Lsn, Record)>,
    /// How the journal ends.
    pub tail: Tail,
    /// All rows of the table.
    pub rows: Vec<Row>,
}

/// Reads all that a start of a rank needs: what of the table is its own, and its journal, which lies elsewhere.
pub fn read(table: &dyn Table, journal: &dyn Backend, rank: Rank) -> Result<Found> {
    let rows = rows::all_rows(table)?;
    let mut meta = TableMeta { next_ino: Ino::first_of(rank), ..TableMeta::default() };
    for row in &rows {
        match row {
            Row::Session(session) if session.id.rank() == rank => meta.sessions.push(session.clone()),
            Row::Orphan { ino, rank: of } if *of == rank => meta.orphans.push(*ino),
            Row::Discard { ino, rank: of, from, object_size } if *of == rank => {
                meta.discards.push((*ino, *from, *object_size));
            }
            Row::Decoupled { rank: of, record } if *of == rank => meta.decoupled.push((**record).clone()),
            Row::Route { of, route } if *of == rank => meta.routes.push(*route),
            Row::Route { route, .. } => meta.other_routes.push(*route),
            Row::Meta { meta: Meta::TableUpto, rank: of, value } if *of == rank => meta.table_upto = Lsn(*value),
            Row::Peer { of, peer } if *of == rank => meta.peers.push(*peer),
            Row::Inode(part) if part.part_of() == Some(rank) => meta.parts.push((**part).clone()),
            Row::Meta { meta: Meta::NextIno, rank: of, value } if *of == rank => meta.next_ino = Ino(*value),
            _ => {}
        }
    }
    let number = u32::from(rank.0);
    let log = journal.log_dir(number).map_err(|e| e.to_string())?;
    let synced = log.synced().map_err(|e| e.to_string())?;
    let synced = synced.map(|mark| Synced { segment: mark.id, bytes: mark.len });
    let source = LogSource { dir: log, open: BTreeMap::new() };
    let from = rows::replay_from(table, rank)?;
    let config = ReadConfig { fs: Some(journal.identity().fs_id), rank: Some(number), from, synced };
    let mut reader = Reader::open(source, config).map_err(|e| e.to_string())?;
    let mut records = Vec::new();
    while let Some(raw) = reader.next_record().map_err(|e| e.to_string())? {
        records.push((raw.lsn, decode_record(raw.body).map_err(|e| e.to_string())?));
    }
    let tail = reader.tail().ok_or("the reader does not know the end of the journal")?;
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
