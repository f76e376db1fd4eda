//! Reads records that the metadata server needs from the table. Sees whole checkpoints only; knows nothing of the cache.

use std::sync::Arc;

use loligo_journal::table::{
    decode_entry, decode_inline, decode_inode, decode_xattr, dir_range_from, entry_hash, key_entry, key_inline,
    key_inode, split_entry_key, split_xattr_key, xattr_range,
};
use loligo_namespace::{Loaded, Need, hash63};
use loligo_store::{KeyValue, Table};
use loligo_types::{Ino, Name, Target};

use crate::error::{Error, Result, bad_row};

/// Xattrs read at a time.
const XATTR_ROWS: usize = 256;

/// Sizes of the pieces in which a directory is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pieces {
    /// Entries, with their inodes.
    pub entries: usize,
    /// Hashes of names.
    pub hashes: usize,
}

impl Default for Pieces {
    /// As many entries as a client asks for. Their inodes lie all over the table, so fewer at a time would take hardly fewer reads
    /// where the table is cut into ranges.
    fn default() -> Pieces {
        Pieces { entries: 1024, hashes: 256 }
    }
}

/// Reads records of one file system.
#[derive(Clone, Copy, Debug)]
pub struct Loader {
    hash_key: (u64, u64),
    pieces: Pieces,
}

/// The result of a load.
pub struct Rows {
    /// The records that the needs asked for, and the inodes of the entries of a range.
    pub items: Vec<Loaded>,
    /// Rows that were looked up.
    pub rows: u64,
}

impl Loader {
    /// `hash_key`: under which names are hashed.
    pub fn new(hash_key: (u64, u64), pieces: Pieces) -> Loader {
        Loader { hash_key, pieces }
    }

    /// Reads everything that one load needs.
    pub fn load(&self, table: &dyn Table, needs: &[Need]) -> Result<Rows> {
        let keys = self.keys(needs);
        let values = values(table, &keys.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        self.rows(table, needs, &keys, values, &|_, _| {})
    }

    /// Reads everything that each of these loads needs and tells it; the single rows of all of them with one call of the
    /// table. If that fails, each load is tried alone, so that it fails none that it does not concern. `goes_on` is told first where a range
    /// of entries ends, while their inodes are read.
    pub fn load_each(
        &self,
        table: &dyn Table,
        loads: &[&[Need]],
        goes_on: &dyn Fn(usize, Ino, u64),
        tell: &mut dyn FnMut(usize, Result<Rows>),
    ) {
        let keys: Vec<Vec<Vec<u8>>> = loads.iter().map(|needs| self.keys(needs)).collect();
        let together: Vec<&[u8]> = keys.iter().flatten().map(Vec::as_slice).collect();
        let mut together = match values(table, &together) {
            Err(error) if loads.len() == 1 => return tell(0, Err(error)),
            values => values.ok().map(Vec::into_iter),
        };
        for (at, (needs, keys)) in loads.iter().zip(&keys).enumerate() {
            let values = match &mut together {
                Some(values) => Ok(values.take(keys.len()).collect()),
                None => values(table, &keys.iter().map(Vec::as_slice).collect::<Vec<_>>()),
            };
            let goes_on = |dir, from_hash| goes_on(at, dir, from_hash);
            tell(at, values.and_then(|values| self.rows(table, needs, keys, values, &goes_on)));
        }
    }

    /// The keys of those needs that one row answers, in order.
    fn keys(&self, needs: &[Need]) -> Vec<Vec<u8>> {
        needs.iter().filter_map(|need| self.key(need)).collect()
    }

    /// Decodes the values of the needs' keys, and reads the ranges of rows that the needs ask for.
    fn rows(
        &self,
        table: &dyn Table,
        needs: &[Need],
        keys: &[Vec<u8>],
        values: Vec<Option<Vec<u8>>>,
        goes_on: &dyn Fn(Ino, u64),
    ) -> Result<Rows> {
        let mut out = Rows { items: Vec::with_capacity(needs.len()), rows: values.len() as u64 };
        let singles = needs.iter().filter(|need| is_single(need));
        for ((need, key), value) in singles.zip(keys).zip(values) {
            out.items.push(single(need, key, value.as_deref())?);
        }
        for need in needs {
            match need {
                Need::Range { dir, from_hash } => self.range(table, *dir, *from_hash, goes_on, &mut out)?,
                Need::Hashes { dir, from_hash } => self.hashes(table, *dir, *from_hash, &mut out)?,
                Need::Xattrs(ino) => xattrs(table, *ino, &mut out)?,
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
            Need::Range { .. } | Need::Hashes { .. } | Need::Xattrs(_) | Need::Parts(_) => None,
        }
    }

    /// A run of entries that ends between two hashes, and the inodes that they name.
    fn range(
        &self,
        table: &dyn Table,
        dir: Ino,
        from_hash: u64,
        goes_on: &dyn Fn(Ino, u64),
        out: &mut Rows,
    ) -> Result<()> {
        let (rows, upto_hash) = entries(table, dir, from_hash, self.pieces.entries)?;
        if let Some(behind) = upto_hash.checked_add(1) {
            goes_on(dir, behind);
        }
        let mut entries: Vec<(Name, Target)> = Vec::with_capacity(rows.len());
        for (key, value) in &rows {
            let target = decode_entry(value).map_err(|e| bad_row(key, &e))?;
            let Some((_, _, name)) = split_entry_key(key) else { return Err(no_entry(key)) };
            entries.push((name, target));
        }
        out.rows += rows.len() as u64;
        // The row of an inode that lives elsewhere is another rank's: it may be about to change.
        let inos: Vec<Ino> =
            entries.iter().filter(|(_, target)| !target.remote).map(|(_, target)| target.ino).collect();
        let inodes: Vec<Vec<u8>> = inos.iter().map(|ino| key_inode(*ino)).collect();
        out.items.push(Loaded::Range { dir, from_hash, upto_hash, entries });
        prefetch(table, &inos, &inodes, out)
    }

    /// The hashes of a run of entries that ends between two of them.
    fn hashes(&self, table: &dyn Table, dir: Ino, from_hash: u64, out: &mut Rows) -> Result<()> {
        let (rows, upto_hash) = entries(table, dir, from_hash, self.pieces.hashes)?;
        let hash = |(key, _): &KeyValue| entry_hash(key).ok_or_else(|| no_entry(key));
        let mut hashes: Vec<u64> = rows.iter().map(hash).collect::<Result<_>>()?;
        hashes.dedup();
        out.rows += rows.len() as u64;
        out.items.push(Loaded::Hashes { dir, from_hash, upto_hash, hashes });
        Ok(())
    }
}

/// Rows of about so many entries of a directory from a hash on, and the last hash of which all are there.
fn entries(table: &dyn Table, dir: Ino, from_hash: u64, about: usize) -> Result<(Vec<KeyValue>, u64)> {
    let range = dir_range_from(dir, from_hash);
    let mut limit = about;
    loop {
        let mut rows = table.scan(&range.start, &range.end, limit)?;
        if rows.len() < limit {
            return Ok((rows, u64::MAX));
        }
        // The names of the last hash may go on behind the limit: leave them to the next run.
        let last = rows.last().and_then(|(key, _)| entry_hash(key));
        let keep = rows.iter().take_while(|(key, _)| entry_hash(key) != last).count();
        if let Some(upto) = keep.checked_sub(1).and_then(|at| entry_hash(&rows[at].0)) {
            rows.truncate(keep);
            return Ok((rows, upto));
        }
        limit *= 2;
    }
}

/// Inodes that will be asked for next; those that are not there are left out.
fn prefetch(table: &dyn Table, inos: &[Ino], keys: &[Vec<u8>], out: &mut Rows) -> Result<()> {
    let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let values = table.multi_get(&refs)?;
    out.rows += values.len() as u64;
    for ((ino, key), value) in inos.iter().zip(keys).zip(values) {
        if let Some(value) = value {
            let inode = decode_inode(*ino, &value).map_err(|e| bad_row(key, &e))?;
            out.items.push(Loaded::Inode(*ino, Some(Box::new(inode))));
        }
    }
    Ok(())
}

fn xattrs(table: &dyn Table, ino: Ino, out: &mut Rows) -> Result<()> {
    let range = xattr_range(ino);
    let mut start = range.start;
    let mut items = Vec::new();
    loop {
        let rows = table.scan(&start, &range.end, XATTR_ROWS)?;
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

fn no_entry(key: &[u8]) -> Error {
    bad_row(key, &loligo_journal::DecodeError::Invalid { what: "entry key", at: 0 })
}

fn values(table: &dyn Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
    Ok(match keys {
        [] => Vec::new(),
        [key] => vec![table.get(key)?],
        keys => table.multi_get(keys)?,
    })
}

/// True if one row answers it.
fn is_single(need: &Need) -> bool {
    matches!(need, Need::Inode(_) | Need::Entry { .. } | Need::Inline(_))
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
        Need::Range { .. } | Need::Hashes { .. } | Need::Xattrs(_) | Need::Parts(_) => {
            unreachable!("only needs with a key of their own come here")
        }
    })
}

#[cfg(test)]
mod tests {
    use loligo_journal::table::{encode_entry, encode_inode};
    use loligo_store::mem::{Fault, FaultPoint, MemDisk};
    use loligo_store::{Backend, Batch, Durability, Identity};
    use loligo_types::{Inode, Kind, Time};

    use super::*;

    const KEY: (u64, u64) = (3, 5);

    fn file(ino: u64) -> Inode {
        Inode::new(Ino(ino), Kind::File, 0o644, 0, 0, Ino(1), Time(0))
    }

    /// Inodes 300 to 302, a directory 400 with an entry for 301 and a remote one for 302, and a row of inode 500 that
    /// means nothing.
    fn disk() -> (MemDisk, Arc<dyn Table>) {
        let disk = MemDisk::new(Identity::new([1; 16], [2; 16]));
        let table = disk.open().expect("it is not open").table();
        let mut batch = Batch::new();
        for ino in [300, 301, 302] {
            batch.put(key_inode(Ino(ino)), encode_inode(&file(ino)));
        }
        for (name, ino, remote) in [("name", 301, false), ("far", 302, true)] {
            let (hash, name) = (hash63(KEY, name.as_bytes()), Name::new(name.as_bytes()).expect("a name"));
            let target = Target { ino: Ino(ino), kind: Kind::File, remote };
            batch.put(key_entry(Ino(400), hash, &name), encode_entry(target));
        }
        batch.put(key_inode(Ino(500)), vec![0xff]);
        table.write(&batch, Durability::Sync).expect("memory has room");
        (disk, table)
    }

    /// For each load the inodes that it brought, absent ones as 0; `None` if it failed.
    fn load(table: &dyn Table, loads: &[&[Need]]) -> Vec<Option<Vec<u64>>> {
        let mut told = Vec::new();
        Loader::new(KEY, Pieces::default()).load_each(table, loads, &|_, _, _| {}, &mut |at, rows| {
            assert_eq!(at, told.len(), "each is told once, in order");
            let ino = |item: &Loaded| match item {
                Loaded::Inode(_, inode) => Some(inode.as_ref().map_or(0, |inode| inode.ino.0)),
                _ => None,
            };
            told.push(rows.ok().map(|rows| rows.items.iter().filter_map(ino).collect()));
        });
        told
    }

    #[test]
    fn loads_that_are_read_together_get_what_each_needs() {
        let (_disk, table) = disk();
        let (one, two) = ([Need::Inode(Ino(300))], [Need::Inode(Ino(301)), Need::Inode(Ino(303))]);
        let range = [Need::Range { dir: Ino(400), from_hash: 0 }, Need::Inode(Ino(300))];
        let told = load(&*table, &[&one, &range, &[], &two]);
        let want = [vec![300], vec![300, 301], vec![], vec![301, 0]];
        assert_eq!(told, want.map(Some), "and no inode that lives elsewhere than with the entry");
    }

    #[test]
    fn a_row_without_sense_fails_the_load_that_needs_it_only() {
        let (_disk, table) = disk();
        let told = load(&*table, &[&[Need::Inode(Ino(300))], &[Need::Inode(Ino(500))], &[Need::Inode(Ino(301))]]);
        assert_eq!(told, vec![Some(vec![300]), None, Some(vec![301])]);
    }

    #[test]
    fn a_failed_read_of_many_is_tried_one_by_one() {
        let (disk, table) = disk();
        disk.fail(FaultPoint::TableRead, 1, Fault::Io);
        disk.fail(FaultPoint::TableRead, 2, Fault::Io);
        let told = load(&*table, &[&[Need::Inode(Ino(300))], &[Need::Inode(Ino(301))]]);
        assert_eq!(told, vec![None, Some(vec![301])]);
        disk.fail(FaultPoint::TableRead, 1, Fault::Io);
        assert_eq!(load(&*table, &[&[Need::Inode(Ino(300))]]), vec![None], "one alone is not tried again");
    }

    #[test]
    fn hashes_end_between_two_and_go_on_where_they_ended() {
        let (_disk, table) = disk();
        let dir = Ino(600);
        let mut all: Vec<u64> = (0..2 * Pieces::default().hashes as u64).map(|n| 10 + 3 * n).collect();
        let mut batch = Batch::new();
        for (at, hash) in all.iter().enumerate() {
            // Several names have the hash at the end of what is read in one go.
            for namesake in 0..if at == Pieces::default().hashes - 2 { 4 } else { 1 } {
                let name = Name::new(format!("{at}.{namesake}").as_bytes()).expect("a name");
                let target = Target { ino: Ino(301), kind: Kind::File, remote: false };
                batch.put(key_entry(dir, *hash, &name), encode_entry(target));
            }
        }
        table.write(&batch, Durability::Sync).expect("memory has room");
        let (mut from, mut found, mut ends) = (11, Vec::new(), Vec::new());
        while from != 0 {
            Loader::new(KEY, Pieces::default()).load_each(
                &*table,
                &[&[Need::Hashes { dir, from_hash: from }]],
                &|_, _, _| {},
                &mut |_, rows| {
                    let rows = rows.unwrap_or_else(|error| panic!("{error}"));
                    let [Loaded::Hashes { from_hash, upto_hash, hashes, .. }] = &rows.items[..] else {
                        panic!("{:?}", rows.items)
                    };
                    assert_eq!(*from_hash, from);
                    found.extend_from_slice(hashes);
                    ends.push(*upto_hash);
                    from = upto_hash.wrapping_add(1);
                },
            );
        }
        assert_eq!(found, all.split_off(1), "each once, ascending, from the one on that was asked for");
        assert!(ends.len() >= 3 && ends[..ends.len() - 1].iter().all(|end| found.contains(end)), "{ends:?}");
    }
}
