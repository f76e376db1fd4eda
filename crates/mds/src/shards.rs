//! A map by inode number that grows in small steps: many small tables in place of one, so that no request waits while a
//! table of a million entries is made anew. Not ordered.

use loligo_types::Ino;

use loligo_types::hash::IntMap;

const BITS: u32 = 8;

/// The map.
pub(crate) struct Shards<V> {
    tables: Vec<IntMap<Ino, V>>,
    len: usize,
}

/// Which of the tables has a number. Numbers are given out in order, and each table gets its share of any run of them.
#[inline]
fn shard_of(ino: Ino) -> usize {
    // Not the factor of the tables' own hasher: within a table its upper bits must differ.
    (ino.0.wrapping_mul(0xd6e8_feb8_6659_fd93) >> (64 - BITS)) as usize
}

impl<V> Default for Shards<V> {
    fn default() -> Shards<V> {
        Shards { tables: (0..1 << BITS).map(|_| IntMap::default()).collect(), len: 0 }
    }
}

impl<V: Copy> Shards<V> {
    /// True if it is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of an inode number.
    #[inline]
    pub(crate) fn get(&self, ino: Ino) -> Option<V> {
        self.tables[shard_of(ino)].get(&ino).copied()
    }

    /// Puts something down, in place of what was there.
    pub(crate) fn insert(&mut self, ino: Ino, value: V) {
        self.len += usize::from(self.tables[shard_of(ino)].insert(ino, value).is_none());
    }

    /// Takes it away.
    pub(crate) fn remove(&mut self, ino: Ino) {
        self.len -= usize::from(self.tables[shard_of(ino)].remove(&ino).is_some());
    }

    /// Bytes on the heap, within some percent.
    pub(crate) fn heap_bytes(&self) -> usize {
        let slots: usize = self.tables.iter().map(|table| table.capacity() * 8 / 7).sum();
        slots * (size_of::<(Ino, V)>() + 1) + self.tables.capacity() * size_of::<IntMap<Ino, V>>()
    }
}

#[cfg(test)]
mod tests {
    use loligo_types::Rank;

    use super::*;

    #[test]
    fn runs_of_numbers_of_any_rank_fill_all_tables_alike() {
        for (first, step) in [(1, 1), (Ino::first_of(Rank(3)).0, 1), (1, 256), (7, 4096)] {
            let mut shards = Shards::default();
            let count = 100_000u64;
            (0..count).for_each(|at| shards.insert(Ino(first + at * step), at));
            let most = shards.tables.iter().map(|table| table.len()).max().unwrap_or(0);
            assert!(
                most < 2 * count as usize / shards.tables.len(),
                "{most} of {count} in one, from {first} by {step}"
            );
            assert!((0..count).all(|at| shards.get(Ino(first + at * step)) == Some(at)));
        }
    }

    #[test]
    fn what_is_put_down_twice_counts_once() {
        let mut shards = Shards::default();
        shards.insert(Ino(5), 1);
        shards.insert(Ino(5), 2);
        assert_eq!((shards.get(Ino(5)), shards.get(Ino(6))), (Some(2), None));
        shards.remove(Ino(6));
        shards.remove(Ino(5));
        assert!(shards.is_empty() && shards.get(Ino(5)).is_none());
    }
}
