//! Records out of the shared table, directories in pieces of bounded size: reading a piece of a large directory must not cost
//! as much as reading all of it. What is written goes through `loligo_sim::rows`.

use loligo_journal::table::{decode_entry, dir_range_from, entry_hash, split_entry_key};
use loligo_namespace::{Loaded, Need};
use loligo_sim::rows;
use loligo_store::Table;
use loligo_types::Ino;

/// Entries read of a directory at a time.
const ENTRIES: usize = 1000;
/// Names with one hash there can be at the end of a piece.
const SAME_HASH: usize = 16;

/// Reads what a rank needs. `key`: under which names are hashed.
pub fn load(table: &dyn Table, key: (u64, u64), needs: &[Need]) -> Result<Vec<Loaded>, String> {
    let mut items = Vec::with_capacity(needs.len());
    for need in needs {
        match need {
            Need::Range { dir, from_hash } => items.push(range(table, *dir, *from_hash)?),
            Need::Hashes { dir, from_hash } => items.push(rows::hashes_of(key, range(table, *dir, *from_hash)?)),
            other => items.extend(rows::load_pieces(table, key, std::slice::from_ref(other), ENTRIES)?),
        }
    }
    Ok(items)
}

fn range(table: &dyn Table, dir: Ino, from_hash: u64) -> Result<Loaded, String> {
    let keys = dir_range_from(dir, from_hash);
    let mut rows = table.scan(&keys.start, &keys.end, ENTRIES + SAME_HASH).map_err(|e| e.to_string())?;
    let mut upto_hash = u64::MAX;
    if rows.len() > ENTRIES {
        let last = entry_hash(&rows[ENTRIES - 1].0).ok_or("an entry's key makes no sense")?;
        rows.retain(|(key, _)| entry_hash(key).is_some_and(|hash| hash <= last));
        upto_hash = last;
    }
    let mut entries = Vec::with_capacity(rows.len());
    for (key, value) in &rows {
        let target = decode_entry(value).map_err(|e| e.to_string())?;
        let (_, _, name) = split_entry_key(key).ok_or("an entry's key makes no sense")?;
        entries.push((name, target));
    }
    Ok(Loaded::Range { dir, from_hash, upto_hash, entries })
}
