//! Which range of the table begins where: an omap of one object, a key for each range. Every process has a copy, and learns that it is old
//! when a range is not what the copy says: its object names its generation, and every operation the one that it believes in.

use std::collections::BTreeMap;

use loligo_rados::{Error, Pool, ReadOp, WriteOp};
use loligo_store::Result;

use crate::bytes::{Get, Put};
use crate::error::{corrupt, store};
use crate::names;

/// Version of a range's record.
const VERSION: u8 = 1;
/// In front of the key at which a range begins; the first one's is empty.
pub(crate) const BEGIN: u8 = b'r';
/// The key of the number of the next range.
pub(crate) const NEXT: &[u8] = b"n";
/// Keys read at a time; the cluster gives 1,024 at most.
const PAGE: u64 = 1024;

/// Work under way on a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing.
    Whole,
    /// It is being cut: keys from `at` on go to the range `to`. Nobody writes to it.
    Cutting { to: u64, at: Vec<u8> },
}

/// A range: what its object is called by, and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) id: u64,
    /// Grows with each change of what the range covers, or of who may write to it.
    pub(crate) generation: u64,
    pub(crate) state: State,
    /// Keys in it when they were last counted.
    pub(crate) keys: u64,
    /// And bytes.
    pub(crate) bytes: u64,
}

impl Range {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let put = Put::new(VERSION).u64(self.id).u64(self.generation).u64(self.keys).u64(self.bytes);
        match &self.state {
            State::Whole => put.u8(0).0,
            State::Cutting { to, at } => put.u8(1).u64(*to).bytes(at).0,
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Range> {
        let place = "a record of the table's index";
        let mut get = Get::new(place, bytes, VERSION)?;
        let (id, generation, keys, bytes) = (get.u64()?, get.u64()?, get.u64()?, get.u64()?);
        let state = match get.u8()? {
            0 => State::Whole,
            1 => State::Cutting { to: get.u64()?, at: get.bytes()?.to_vec() },
            other => return Err(corrupt(place, format!("state {other} does not exist"))),
        };
        get.end()?;
        Ok(Range { id, generation, state, keys, bytes })
    }
}

/// A copy of the index.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    /// By the first key that each covers.
    pub(crate) ranges: BTreeMap<Vec<u8>, Range>,
    /// Number of the next one.
    pub(crate) next: u64,
}

fn key_of(begin: &[u8]) -> Vec<u8> {
    [&[BEGIN], begin].concat()
}

impl Index {
    /// Makes the index of an empty table, and its one range.
    pub(crate) fn format(pool: &Pool) -> Result<()> {
        let first = Range { id: 0, generation: 1, state: State::Whole, keys: 0, bytes: 0 };
        let mut op = WriteOp::new().map_err(store)?;
        op.create().set_xattr(GENERATION, &first.generation.to_le_bytes()).map_err(store)?;
        op.run(pool, &names::range(first.id)).map_err(store)?;
        let mut op = WriteOp::new().map_err(store)?;
        op.create().omap_set([(key_of(&[]).as_slice(), first.encode().as_slice()), (NEXT, &1u64.to_le_bytes())]);
        op.run(pool, names::INDEX).map(drop).map_err(store)
    }

    /// Reads it.
    pub(crate) fn load(pool: &Pool) -> Result<Index> {
        let mut index = Index::default();
        let mut after = Vec::new();
        loop {
            let mut op = ReadOp::new().map_err(store)?;
            let step = op.omap_after(&after, PAGE).map_err(store)?;
            let page = op.run(pool, names::INDEX).map_err(store)?.omap(step).map_err(store)?;
            for (key, value) in page.pairs {
                match key.split_first() {
                    Some((&BEGIN, begin)) => _ = index.ranges.insert(begin.to_vec(), Range::decode(&value)?),
                    _ if key == NEXT => index.next = number(&value)?,
                    _ => return Err(corrupt("the table's index", "a key was not written by this program")),
                }
                after = key;
            }
            if !page.more {
                break;
            }
        }
        if index.ranges.first_key_value().is_none_or(|(begin, _)| !begin.is_empty()) {
            return Err(corrupt("the table's index", "no range begins with the first key"));
        }
        Ok(index)
    }

    /// The range that a key is in, and where it begins.
    pub(crate) fn of(&self, key: &[u8]) -> (&Vec<u8>, &Range) {
        let upto = (std::ops::Bound::Unbounded, std::ops::Bound::Included(key));
        self.ranges.range::<[u8], _>(upto).next_back().expect("a range begins with the first key")
    }

    /// Where the range behind that one begins.
    pub(crate) fn end_of(&self, begin: &[u8]) -> Option<&Vec<u8>> {
        let behind = (std::ops::Bound::Excluded(begin), std::ops::Bound::Unbounded);
        self.ranges.range::<[u8], _>(behind).next().map(|(begin, _)| begin)
    }
}

/// The xattr of a range's object that says which generation it is.
pub(crate) const GENERATION: &str = "generation";

fn number(value: &[u8]) -> Result<u64> {
    let bytes = value.try_into().map_err(|_| corrupt("the table's index", "a number has not 8 bytes"))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Replaces records of ranges (`None`: there is none) all together, if they are as this process believes. `next`: the number of the next
/// range, before and after. `false`: they are not, and nothing was changed.
pub(crate) fn replace(
    pool: &Pool,
    changes: &[(&[u8], Option<&Range>, Option<&Range>)],
    next: Option<(u64, u64)>,
) -> Result<bool> {
    let mut op = WriteOp::new().map_err(store)?;
    for (begin, before, after) in changes {
        let key = key_of(begin);
        op.assert_omap(&key, &before.map(Range::encode).unwrap_or_default());
        match after {
            Some(after) => op.omap_set([(key.as_slice(), after.encode().as_slice())]),
            None => op.omap_remove([key.as_slice()]),
        };
    }
    if let Some((before, after)) = next {
        op.assert_omap(NEXT, &before.to_le_bytes()).omap_set([(NEXT, after.to_le_bytes().as_slice())]);
    }
    match op.run(pool, names::INDEX) {
        Ok(_) => Ok(true),
        Err(Error::Changed { .. }) => Ok(false),
        Err(error) => Err(store(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_range_are_fixed() {
        let whole = Range { id: 1, generation: 2, state: State::Whole, keys: 3, bytes: 4 };
        let hex = |range: &Range| range.encode().iter().map(|b| format!("{b:02x}")).collect::<String>();
        let head = "010100000000000000020000000000000003000000000000000400000000000000";
        assert_eq!(hex(&whole), format!("{head}00"));
        let cut = Range { state: State::Cutting { to: 5, at: b"k".to_vec() }, ..whole.clone() };
        assert_eq!(hex(&cut), format!("{head}010500000000000000010000006b"));
        for range in [whole, cut] {
            assert_eq!(Range::decode(&range.encode()), Ok(range));
        }
    }

    #[test]
    fn a_key_is_in_the_last_range_that_begins_before_it() {
        let range = |id| Range { id, generation: 1, state: State::Whole, keys: 0, bytes: 0 };
        let ranges = [(vec![], range(0)), (b"g".to_vec(), range(2)), (b"p".to_vec(), range(1))];
        let index = Index { ranges: ranges.into(), next: 3 };
        for (key, id) in [("", 0), ("f", 0), ("g", 2), ("h", 2), ("p", 1), ("z", 1)] {
            assert_eq!(index.of(key.as_bytes()).1.id, id, "{key}");
        }
        assert_eq!(index.end_of(b""), Some(&b"g".to_vec()));
        assert_eq!(index.end_of(b"p"), None);
    }
}
