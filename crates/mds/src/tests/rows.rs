//! The table of the scenarios: rows as bytes in memory, written and read by the production code for rows.

use std::collections::BTreeMap;

use loligo_journal::table;
use loligo_namespace::{Loaded, Need, Record};
use loligo_rows::{Loader, Pieces, batch_of, put_meta, read_meta, read_values};
use loligo_store::{Batch, Durability, KeyValue, Result, Table, TableSize};
use loligo_types::{Ino, Lsn, Rank};

use crate::TableMeta;

/// Two hashes at a time, so that ranges meet their edges.
const PIECES: Pieces = Pieces { entries: 3, hashes: 3 };

/// Rows to be read.
struct Shown<'a>(&'a BTreeMap<Vec<u8>, Vec<u8>>);

impl Table for Shown<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get(key).cloned())
    }

    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    fn scan(&self, start: &[u8], end: &[u8], limit: usize) -> Result<Vec<KeyValue>> {
        let rows = self.0.range(start.to_vec()..).take_while(|(key, _)| end.is_empty() || key.as_slice() < end);
        Ok(rows.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn write(&self, _: &Batch, _: Durability) -> Result<()> {
        unreachable!("rows are written by `write` and `settle`")
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn approximate_size(&self) -> Result<TableSize> {
        Ok(TableSize::default())
    }
}

fn put(rows: &mut BTreeMap<Vec<u8>, Vec<u8>>, batch: Batch) {
    batch.deletes.iter().for_each(|key| _ = rows.remove(key));
    rows.extend(batch.puts);
}

/// A table in which nothing was written yet.
pub fn begun() -> BTreeMap<Vec<u8>, Vec<u8>> {
    BTreeMap::from([(table::key_policies_noted(), table::encode_note(&[]))])
}

/// The rows that a restart of a rank reads at first.
pub fn meta(rows: &BTreeMap<Vec<u8>, Vec<u8>>, rank: Rank) -> TableMeta {
    let shown = Shown(rows);
    let head = read_values(&shown, rank).expect("the table holds what was written");
    let mut meta = read_meta(&shown, rank, &head).expect("the table holds what was written");
    if rank == Rank::ZERO && !rows.contains_key(&table::key_meta(table::Meta::NextIno, rank)) {
        // Nobody has formatted it: its first life makes the root.
        meta.next_ino = Ino(0);
    }
    meta
}

/// Says in the table what a rank has settled.
pub fn settle(rows: &mut BTreeMap<Vec<u8>, Vec<u8>>, rank: Rank, table_upto: Lsn) {
    let mut batch = Batch::new();
    put_meta(&mut batch, table::Meta::TableUpto, rank, table_upto.0);
    put(rows, batch);
}

/// Writes one record of a rank.
pub fn write(rows: &mut BTreeMap<Vec<u8>, Vec<u8>>, rank: Rank, record: Record) {
    let batch = batch_of(&Shown(rows), rank, &[record]).expect("memory can be read");
    put(rows, batch);
}

/// Reads the rows that one need asks for.
pub fn read(rows: &BTreeMap<Vec<u8>, Vec<u8>>, key: (u64, u64), need: &Need) -> Vec<Loaded> {
    assert!(!matches!(need, Need::Parts(_)), "parts are in no table: {need:?}");
    let needs = std::slice::from_ref(need);
    Loader::new(key, PIECES).load(&Shown(rows), needs).expect("the table holds what was written").items
}
