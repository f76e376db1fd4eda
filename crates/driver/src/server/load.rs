//! Reads records that the metadata server needs from the table. Sees whole checkpoints only; knows nothing of the cache.

use std::sync::Arc;

use loligo_journal::table::{
    decode_entry, decode_inline, decode_inode, decode_xattr, dir_range_from, entry_hash, key_entry, key_inline,
    key_inode, split_entry_key, split_xattr_key, xattr_range,
};
use loligo_namespace::{Loaded, Need, hash63};
use loligo_store::Table;
use loligo_types::{Ino, Kind, Name};

use super::error::{Result, bad_row};

/// Entries read at a time from a directory.
const RANGE_ENTRIES: usize = 512;
/// Xattrs read at a time.
const XATTR_ROWS: usize = 256;

/// Reads from one table.
pub(crate) struct Loader {
    table: Arc<dyn Table>,
    hash_key: (u64, u64),
}

/// What a load read.
pub(crate) struct Rows {
    pub(crate) items: Vec<Loaded>,
    pub(crate) rows: u64,
}

impl Loader {
    pub(crate) fn new(table: Arc<dyn Table>, hash_key: (u64, u64)) -> Loader {
        Loader { table, hash_key }
    }

    /// Reads everything that is needed, single rows together.
    pub(crate) fn load(&self, needs: &[Need]) -> Result<Rows> {
        let mut out = Rows { items: Vec::with_capacity(needs.len()), rows: 0 };
        let singles: Vec<(&Need, Vec<u8>)> = needs.iter().filter_map(|n| Some((n, self.key(n)?))).collect();
        let keys: Vec<&[u8]> = singles.iter().map(|(_, key)| key.as_slice()).collect();
        let values = match keys.as_slice() {
            [] => Vec::new(),
            [key] => vec![self.table.get(key)?],
            keys => self.table.multi_get(keys)?,
        };
        out.rows += values.len() as u64;
        for ((need, key), value) in singles.into_iter().zip(values) {
            out.items.push(single(need, &key, value.as_deref())?);
        }
        for need in needs {
            match need {
                Need::Range { dir, from_hash } => self.range(*dir, *from_hash, &mut out)?,
                Need::Xattrs(ino) => self.xattrs(*ino, &mut out)?,
                _ => {}
            }
        }
        Ok(out)
    }

    /// The key of a need that one row answers.
    fn key(&self, need: &Need) -> Option<Vec<u8>> {
        match need {
            Need::Inode(ino) => Some(key_inode(*ino)),
            Need::Entry { dir, name } => Some(key_entry(*dir, hash63(self.hash_key, name.as_bytes()), name)),
            Need::Inline(ino) => Some(key_inline(*ino)),
            Need::Range { .. } | Need::Xattrs(_) => None,
        }
    }

    /// A run of entries that ends between two hashes, and the inodes that they name.
    fn range(&self, dir: Ino, from_hash: u64, out: &mut Rows) -> Result<()> {
        let range = dir_range_from(dir, from_hash);
        let mut limit = RANGE_ENTRIES;
        let (rows, upto_hash) = loop {
            let mut rows = self.table.scan(&range.start, &range.end, limit)?;
            if rows.len() < limit {
                break (rows, u64::MAX);
            }
            // The names of the last hash may go on behind the limit: leave them to the next run.
            let last = rows.last().and_then(|(key, _)| entry_hash(key));
            let keep = rows.iter().take_while(|(key, _)| entry_hash(key) != last).count();
            if let Some(upto) = keep.checked_sub(1).and_then(|at| entry_hash(&rows[at].0)) {
                rows.truncate(keep);
                break (rows, upto);
            }
            limit *= 2;
        };
        let mut entries: Vec<(Name, Ino, Kind)> = Vec::with_capacity(rows.len());
        for (key, value) in &rows {
            let (ino, kind) = decode_entry(value).map_err(|e| bad_row(key, &e))?;
            let Some((_, _, name)) = split_entry_key(key) else {
                return Err(bad_row(key, &loligo_journal::DecodeError::Invalid { what: "entry key", at: 0 }));
            };
            entries.push((name, ino, kind));
        }
        out.rows += rows.len() as u64;
        let inodes: Vec<Vec<u8>> = entries.iter().map(|(_, ino, _)| key_inode(*ino)).collect();
        let inos: Vec<Ino> = entries.iter().map(|(_, ino, _)| *ino).collect();
        out.items.push(Loaded::Range { dir, from_hash, upto_hash, entries });
        self.prefetch(&inos, &inodes, out)
    }

    /// Inodes that will be asked for next; those that are not there are left out.
    fn prefetch(&self, inos: &[Ino], keys: &[Vec<u8>], out: &mut Rows) -> Result<()> {
        let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let values = self.table.multi_get(&refs)?;
        out.rows += values.len() as u64;
        for ((ino, key), value) in inos.iter().zip(keys).zip(values) {
            if let Some(value) = value {
                let inode = decode_inode(*ino, &value).map_err(|e| bad_row(key, &e))?;
                out.items.push(Loaded::Inode(*ino, Some(Box::new(inode))));
            }
        }
        Ok(())
    }

    fn xattrs(&self, ino: Ino, out: &mut Rows) -> Result<()> {
        let range = xattr_range(ino);
        let mut start = range.start;
        let mut items = Vec::new();
        loop {
            let rows = self.table.scan(&start, &range.end, XATTR_ROWS)?;
            out.rows += rows.len() as u64;
            for (key, value) in &rows {
                let value = decode_xattr(value).map_err(|e| bad_row(key, &e))?;
                if let Some((_, name)) = split_xattr_key(key) {
                    items.push((Arc::from(name), value));
                }
                start.clone_from(key);
                start.push(0);
            }
            if rows.len() < XATTR_ROWS {
                break;
            }
        }
        out.items.push(Loaded::Xattrs(ino, items));
        Ok(())
    }
}

fn single(need: &Need, key: &[u8], value: Option<&[u8]>) -> Result<Loaded> {
    let bad = |e: loligo_journal::DecodeError| bad_row(key, &e);
    Ok(match need {
        Need::Inode(ino) => {
            Loaded::Inode(*ino, value.map(|v| decode_inode(*ino, v)).transpose().map_err(bad)?.map(Box::new))
        }
        Need::Entry { dir, name } => {
            Loaded::Entry { dir: *dir, name: name.clone(), found: value.map(decode_entry).transpose().map_err(bad)? }
        }
        Need::Inline(ino) => Loaded::Inline(*ino, value.map(decode_inline).transpose().map_err(bad)?),
        Need::Range { .. } | Need::Xattrs(_) => unreachable!("only needs with a key of their own come here"),
    })
}
