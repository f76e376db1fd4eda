//! A range that has grown is cut in two. Whoever meets one that is being cut does what is left of it: each step is conditional on the one
//! before, so it does not matter how many do it, nor where one of them ends.
//!
//! ```text
//!  index                   the range's object      the new object
//!  (1) cutting, next + 1
//!                          (2) generation + 1      from here on nobody writes, all read
//!                                                  (3) made, generation 0: being filled
//!                                                  (4) keys from `at` on
//!                                                  (5) generation 1
//!                          (6) without those keys,
//!                              generation + 2
//!  (7) whole, and the new one
//! ```

use std::sync::PoisonError;

use loligo_rados::{Error, Pool, ReadOp, WriteOp};
use loligo_store::{KeyValue, Result};

use super::index::{GENERATION, Index, Range, State, replace};
use super::{PAGE, Shared};
use crate::error::{corrupt, store};
use crate::names;

/// Generation of an object that is being filled.
const FILLING: u64 = 0;

/// Counts ranges that were written to so much that they may have too many keys, and cuts those that have.
pub(super) fn where_due(shared: &Shared, keys_max: u64) -> Result<()> {
    let index = shared.index();
    let due: Vec<Vec<u8>> = {
        let written = shared.written.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = |range: &Range| range.keys + written.get(&range.id).map_or(0, |(keys, _)| *keys);
        let due = index.ranges.iter().filter(|(_, range)| range.state == State::Whole && keys(range) > keys_max);
        due.map(|(begin, _)| begin.clone()).collect()
    };
    due.iter().try_for_each(|begin| begin_cut(shared, begin, keys_max))
}

/// Counts a range. If it has more than half of what is allowed it is cut: else it would be counted again all too soon.
fn begin_cut(shared: &Shared, begin: &[u8], keys_max: u64) -> Result<()> {
    let index = shared.reload()?;
    let Some(range) = index.ranges.get(begin).filter(|range| range.state == State::Whole) else { return Ok(()) };
    let Some((keys, bytes)) = keys_of(&shared.pool, range)? else { return Ok(()) };
    shared.written.lock().unwrap_or_else(PoisonError::into_inner).remove(&range.id);
    let counted = Range { keys: keys.len() as u64, bytes, ..range.clone() };
    let middle = keys.get(keys.len() / 2).filter(|middle| counted.keys > keys_max / 2 && middle.as_slice() > begin);
    let Some(middle) = middle else {
        replace(&shared.pool, &[(begin, Some(range), Some(&counted))], None)?;
        shared.reload()?;
        return Ok(());
    };
    let state = State::Cutting { to: index.next, at: middle.clone() };
    let cutting = Range { generation: range.generation + 1, state, ..counted };
    if replace(&shared.pool, &[(begin, Some(range), Some(&cutting))], Some((index.next, index.next + 1)))? {
        tracing::debug!(range = range.id, keys = cutting.keys, "a range of the table is cut in two");
        finish(shared, begin)?;
    }
    shared.reload()?;
    Ok(())
}

/// All keys of a range, and its bytes. `None`: it is not what was believed.
fn keys_of(pool: &Pool, range: &Range) -> Result<Option<(Vec<Vec<u8>>, u64)>> {
    let (mut keys, mut bytes) = (Vec::new(), 0);
    let mut after = Vec::new();
    loop {
        let Some((pairs, more)) = page(pool, range.id, range.generation, &after)? else { return Ok(None) };
        bytes += pairs.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() as u64;
        keys.extend(pairs.into_iter().map(|(key, _)| key));
        match keys.last() {
            Some(last) if more => after.clone_from(last),
            _ => return Ok(Some((keys, bytes))),
        }
    }
}

/// Keys behind one, and whether there are more. `None`: the range has another generation.
fn page(pool: &Pool, id: u64, generation: u64, after: &[u8]) -> Result<Option<(Vec<KeyValue>, bool)>> {
    let mut op = ReadOp::new().map_err(store)?;
    op.assert_xattr(GENERATION, &generation.to_le_bytes()).map_err(store)?;
    let step = op.omap_after(after, PAGE as u64).map_err(store)?;
    match op.run(pool, &names::range(id)).and_then(|brought| brought.omap(step)) {
        Ok(omap) => Ok(Some((omap.pairs, omap.more))),
        Err(Error::Changed { .. } | Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(store(error)),
    }
}

/// Does what is left to do of a cut.
pub(super) fn finish(shared: &Shared, begin: &[u8]) -> Result<()> {
    let index = Index::load(&shared.pool)?;
    let Some(range) = index.ranges.get(begin) else { return Ok(()) };
    let State::Cutting { to, at } = &range.state else { return Ok(()) };
    let pool = &shared.pool;
    let object = names::range(range.id);
    let (before, frozen, after) = (range.generation - 1, range.generation, range.generation + 1);
    set_generation(pool, &object, before, frozen)?;
    let (generation, epochs) = xattrs(pool, &object)?;
    if generation == frozen {
        make(pool, *to, &epochs)?;
        if let Some(moved) = copy(pool, range, *to, at)? {
            set_generation(pool, &names::range(*to), FILLING, 1)?;
            let mut op = WriteOp::new().map_err(store)?;
            op.assert_xattr(GENERATION, &frozen.to_le_bytes()).map_err(store)?;
            op.omap_remove(moved.iter().map(Vec::as_slice));
            op.set_xattr(GENERATION, &after.to_le_bytes()).map_err(store)?;
            unless_changed(op.run(pool, &object))?;
        }
    }
    let half = |range: &Range| (range.keys / 2, range.bytes / 2);
    let (keys, bytes) = half(range);
    let left = Range { generation: after, state: State::Whole, keys, bytes, ..range.clone() };
    let right = Range { id: *to, generation: 1, state: State::Whole, keys, bytes };
    if xattrs(pool, &object)?.0 == after {
        replace(pool, &[(begin, Some(range), Some(&left)), (at, None, Some(&right))], None)?;
    }
    Ok(())
}

/// `true`: it was so and is done.
fn unless_changed(done: loligo_rados::Result<u64>) -> Result<bool> {
    match done {
        Ok(_) => Ok(true),
        Err(Error::Changed { .. }) => Ok(false),
        Err(error) => Err(store(error)),
    }
}

fn set_generation(pool: &Pool, object: &str, before: u64, after: u64) -> Result<bool> {
    let mut op = WriteOp::new().map_err(store)?;
    op.assert_xattr(GENERATION, &before.to_le_bytes()).map_err(store)?;
    op.set_xattr(GENERATION, &after.to_le_bytes()).map_err(store)?;
    unless_changed(op.run(pool, object))
}

/// Names and values.
type Xattrs = Vec<(String, Vec<u8>)>;

/// The generation of a range's object, and the epochs that it knows.
fn xattrs(pool: &Pool, object: &str) -> Result<(u64, Xattrs)> {
    let mut op = ReadOp::new().map_err(store)?;
    let step = op.xattrs();
    let (generation, epochs): (Xattrs, Xattrs) = op
        .run(pool, object)
        .and_then(|brought| brought.xattrs(step))
        .map_err(store)?
        .into_iter()
        .partition(|(name, _)| name == GENERATION);
    let generation = generation.first().and_then(|(_, value)| value.as_slice().try_into().ok());
    let generation = generation.ok_or_else(|| corrupt(format!("object {object}"), "it has no generation"))?;
    Ok((u64::from_le_bytes(generation), epochs))
}

/// Makes the new object, if nobody has.
fn make(pool: &Pool, id: u64, epochs: &Xattrs) -> Result<()> {
    let mut op = WriteOp::new().map_err(store)?;
    op.create_exclusive().set_xattr(GENERATION, &FILLING.to_le_bytes()).map_err(store)?;
    for (name, value) in epochs {
        op.set_xattr(name, value).map_err(store)?;
    }
    match op.run(pool, &names::range(id)) {
        Ok(_) | Err(Error::Exists { .. }) => Ok(()),
        Err(error) => Err(store(error)),
    }
}

/// Copies the keys from `at` on; which these are. `None`: another one has done more than that by now.
fn copy(pool: &Pool, range: &Range, to: u64, at: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
    let mut moved = Vec::new();
    // The key `at` itself, then all behind it.
    let mut op = ReadOp::new().map_err(store)?;
    op.assert_xattr(GENERATION, &range.generation.to_le_bytes()).map_err(store)?;
    let step = op.omap_keys(&[at]);
    let mut pairs = match op.run(pool, &names::range(range.id)).and_then(|brought| brought.omap(step)) {
        Ok(omap) => omap.pairs,
        Err(Error::Changed { .. }) => return Ok(None),
        Err(error) => return Err(store(error)),
    };
    let mut after = at.to_vec();
    // Another one may have filled it, and have ended before it went on.
    let mut is_filling = true;
    loop {
        let Some((more, has_more)) = page(pool, range.id, range.generation, &after)? else { return Ok(None) };
        pairs.extend(more);
        if is_filling {
            let mut op = WriteOp::new().map_err(store)?;
            op.assert_xattr(GENERATION, &FILLING.to_le_bytes()).map_err(store)?;
            op.omap_set(pairs.iter().map(|(key, value)| (key.as_slice(), value.as_slice())));
            is_filling = unless_changed(op.run(pool, &names::range(to)))?;
        }
        if let Some((last, _)) = pairs.last() {
            after.clone_from(last);
        }
        moved.extend(pairs.drain(..).map(|(key, _)| key));
        if !has_more {
            return Ok(Some(moved));
        }
    }
}
