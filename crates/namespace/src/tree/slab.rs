//! A map from a number to a value that wastes little: values lie in blocks of fixed size, and an open-addressing table
//! of 32-bit places finds them. Not ordered; but places are stable, so a clock hand can go round them.
//!
//! The table is cut into shards so that growing it never takes long.

use loligo_types::hash::spread;

const BLOCK: usize = 1024;
const SHARDS: usize = 256;
const SHARD_BITS: u32 = 8;

/// A value that knows its key.
pub trait Keyed {
    /// The key; never changes.
    fn key(&self) -> u64;
}

/// The map.
pub struct Slab<T> {
    blocks: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
    shards: Vec<Shard>,
    len: usize,
}

/// Places plus one; 0 is empty. Length zero or a power of two.
#[derive(Default)]
struct Shard {
    table: Vec<u32>,
    used: usize,
}

#[inline]
fn shard_of(key: u64) -> usize {
    (spread(key) >> (64 - SHARD_BITS)) as usize
}

#[inline]
fn home(key: u64, len: usize) -> usize {
    ((spread(key) << SHARD_BITS) >> (64 - len.trailing_zeros())) as usize
}

impl<T: Keyed> Slab<T> {
    /// Empty.
    pub fn new() -> Slab<T> {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        Slab { blocks: Vec::new(), free: Vec::new(), shards, len: 0 }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Number of places, used or free; places are `0..places()`.
    pub fn places(&self) -> usize {
        self.blocks.len().saturating_sub(1) * BLOCK + self.blocks.last().map_or(0, Vec::len)
    }

    /// The value at a place.
    #[inline]
    pub fn at(&self, place: usize) -> Option<&T> {
        self.blocks.get(place / BLOCK)?.get(place % BLOCK)?.as_ref()
    }

    /// The value at a place.
    #[inline]
    pub fn at_mut(&mut self, place: usize) -> Option<&mut T> {
        self.blocks.get_mut(place / BLOCK)?.get_mut(place % BLOCK)?.as_mut()
    }

    /// The place of a key.
    #[inline]
    pub fn place(&self, key: u64) -> Option<usize> {
        let table = &self.shards[shard_of(key)].table;
        if table.is_empty() {
            return None;
        }
        let mask = table.len() - 1;
        let mut i = home(key, table.len());
        loop {
            let place = (table[i] as usize).checked_sub(1)?;
            if self.at(place).is_some_and(|value| value.key() == key) {
                return Some(place);
            }
            i = (i + 1) & mask;
        }
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, key: u64) -> Option<&T> {
        self.at(self.place(key)?)
    }

    /// The value of a key.
    #[inline]
    pub fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let place = self.place(key)?;
        self.at_mut(place)
    }

    /// Adds a value whose key is not in the map yet, and says where.
    pub fn insert(&mut self, value: T) -> usize {
        let key = value.key();
        debug_assert!(self.place(key).is_none(), "a key is added once");
        let place = self.store(value);
        let shard = shard_of(key);
        if (self.shards[shard].used + 1) * 4 > self.shards[shard].table.len() * 3 {
            self.grow(shard);
        }
        self.link(shard, key, place);
        self.shards[shard].used += 1;
        self.len += 1;
        place
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: u64) -> Option<T> {
        let place = self.place(key)?;
        self.unlink(key, place);
        self.len -= 1;
        self.free.push(place as u32);
        self.blocks[place / BLOCK][place % BLOCK].take()
    }

    /// All values, by place.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flatten().flatten()
    }

    fn store(&mut self, value: T) -> usize {
        if let Some(place) = self.free.pop() {
            let place = place as usize;
            self.blocks[place / BLOCK][place % BLOCK] = Some(value);
            return place;
        }
        if self.blocks.last().is_none_or(|block| block.len() == BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        let block = self.blocks.len() - 1;
        self.blocks[block].push(Some(value));
        block * BLOCK + self.blocks[block].len() - 1
    }

    fn link(&mut self, shard: usize, key: u64, place: usize) {
        let table = &mut self.shards[shard].table;
        let mask = table.len() - 1;
        let mut i = home(key, table.len());
        while table[i] != 0 {
            i = (i + 1) & mask;
        }
        table[i] = place as u32 + 1;
    }

    fn grow(&mut self, shard: usize) {
        let len = (self.shards[shard].table.len() * 2).max(8);
        let old = std::mem::replace(&mut self.shards[shard].table, vec![0; len]);
        for place in old.into_iter().filter(|place| *place != 0) {
            let place = place as usize - 1;
            let key = self.at(place).expect("a linked place is in use").key();
            self.link(shard, key, place);
        }
    }

    /// Removes a link and closes the gap, so that searches never need tombstones.
    fn unlink(&mut self, key: u64, place: usize) {
        let shard = shard_of(key);
        let mut table = std::mem::take(&mut self.shards[shard].table);
        let mask = table.len() - 1;
        let mut gap = home(key, table.len());
        while table[gap] != place as u32 + 1 {
            gap = (gap + 1) & mask;
        }
        let mut i = gap;
        loop {
            table[gap] = 0;
            loop {
                i = (i + 1) & mask;
                if table[i] == 0 {
                    self.shards[shard].table = table;
                    self.shards[shard].used -= 1;
                    return;
                }
                let other = self.at(table[i] as usize - 1).expect("a linked place is in use").key();
                let want = home(other, table.len());
                // It may move into the gap only if its home is not between the gap and where it stands.
                if (i.wrapping_sub(want) & mask) >= (i.wrapping_sub(gap) & mask) {
                    break;
                }
            }
            table[gap] = table[i];
            gap = i;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    impl Keyed for (u64, u64) {
        fn key(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn behaves_like_a_map() {
        let (mut slab, mut model) = (Slab::<(u64, u64)>::new(), BTreeMap::new());
        let mut random = loligo_types::Random::new(99);
        for step in 0..60_000u64 {
            let state = random.bits();
            let key = (state >> 33) % 5000;
            if state >> 62 == 0 {
                assert_eq!(slab.remove(key).map(|v| v.1), model.remove(&key));
            } else if let Some(value) = slab.get_mut(key) {
                value.1 = step;
                model.insert(key, step);
            } else {
                slab.insert((key, step));
                model.insert(key, step);
            }
            assert_eq!(slab.len(), model.len());
        }
        for key in 0..5000 {
            assert_eq!(slab.get(key).map(|v| v.1), model.get(&key).copied());
        }
        assert_eq!(slab.iter().count(), model.len());
        assert!(slab.places() <= 5000);
    }
}
