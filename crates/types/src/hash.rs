//! The hashes of the workspace: of names, of numbers, and of keys of maps in memory. Not here: numbers that look random (`random.rs`), and checksums.
//!
//! The hash that orders the entries of a directory is SipHash-1-3. It is keyed with a key of the file system, which servers and their clients know, so that nobody else can choose names that collide. 63 bits, because the
//! hash is the readdir cookie and `off_t` is signed; never 0, because cookie 0 means "from the start".

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use crate::Rank;

/// Largest hash there can be.
pub const HASH_MAX: u64 = u64::MAX >> 1;

/// The hash of a name, 1..=[`HASH_MAX`].
#[inline]
pub fn name_hash(key: (u64, u64), name: &[u8]) -> u64 {
    (siphash13(key, name) >> 1).max(1)
}

fn siphash13(key: (u64, u64), bytes: &[u8]) -> u64 {
    let mut v = [
        key.0 ^ 0x736f_6d65_7073_6575,
        key.1 ^ 0x646f_7261_6e64_6f6d,
        key.0 ^ 0x6c79_6765_6e65_7261,
        key.1 ^ 0x7465_6462_7974_6573,
    ];
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let m = u64::from_le_bytes(word.try_into().expect("a chunk of exactly eight bytes"));
        v[3] ^= m;
        round(&mut v);
        v[0] ^= m;
    }
    let mut last = (bytes.len() as u64) << 56;
    for (i, byte) in words.remainder().iter().enumerate() {
        last |= u64::from(*byte) << (8 * i);
    }
    v[3] ^= last;
    round(&mut v);
    v[0] ^= last;
    v[2] ^= 0xff;
    round(&mut v);
    round(&mut v);
    round(&mut v);
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

/// The zeroth rank of a new directory by its path (ShardFS: "hash of the path"): from that of the directory above, if its path has given that one, too,
/// and the hash of the name. `ranks`: those that take directories, ascending. So whoever knows a path, and where on it such directories begin, knows
/// which rank to ask, and renaming a directory moves nothing: below its new name it is where it was. A name is so many ranks further on, wherever
/// it is: trees that are alike inside (`*/build/obj`) stay spread as evenly as they begin. None: there are no ranks.
#[must_use]
pub fn rank_by_path(above: Option<Rank>, name_hash: u64, ranks: &[Rank]) -> Option<Rank> {
    let above = above.and_then(|rank| ranks.binary_search(&rank).ok()).unwrap_or(0) as u64;
    let count = ranks.len().max(1) as u64;
    ranks.get(((above + mix(name_hash) % count) % count) as usize).copied()
}

/// 2^64 by the golden ratio: multiples of it lie evenly among all numbers.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Neighbouring numbers give numbers that have nothing to do with each other: a step of SplitMix64.
#[must_use]
pub fn mix(number: u64) -> u64 {
    finish(number.wrapping_add(GOLDEN))
}

/// SplitMix64's finaliser: different numbers give different ones, 0 gives 0.
#[must_use]
pub fn finish(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Fibonacci hashing, of numbers that are given out in order: the upper bits choose a place. Some of these places are persisted (docs/formats/objects.md).
#[must_use]
#[inline]
pub const fn spread(number: u64) -> u64 {
    number.wrapping_mul(GOLDEN)
}

/// Hasher of maps whose keys are made of small numbers, which are given out in order and not chosen by anybody: a multiplication for each. Without a key,
/// so that the order of iteration is the same in every run; it must never reach an output.
#[derive(Default, Clone, Copy, Debug)]
pub struct IntHasher(u64);

impl Hasher for IntHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }

    fn write_u16(&mut self, n: u16) {
        self.write_u64(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = spread(self.0 ^ n).rotate_left(32);
    }
}

/// A map whose keys are made of small numbers.
pub type IntMap<K, V> = HashMap<K, V, BuildHasherDefault<IntHasher>>;

/// A set of things that are made of small numbers.
pub type IntSet<K> = HashSet<K, BuildHasherDefault<IntHasher>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(deprecated)]
    fn equals_the_standard_librarys_siphash_13() {
        // The standard library's default hasher is SipHash-1-3 with a zero key.
        use std::hash::Hasher;
        for len in 0..40usize {
            let bytes: Vec<u8> = (0..len as u8).collect();
            let mut std = std::collections::hash_map::DefaultHasher::new();
            std.write(&bytes);
            assert_eq!(siphash13((0, 0), &bytes), std.finish(), "length {len}");
        }
    }

    #[test]
    fn trees_that_are_alike_inside_are_spread_at_every_depth() {
        let ranks: Vec<Rank> = [0, 1, 4, 9].map(Rank).into();
        let hash = |name: &str| name_hash((1, 2), name.as_bytes());
        let mut dirs: Vec<Option<Rank>> =
            (0..1000).map(|n| rank_by_path(None, hash(&format!("project{n}")), &ranks)).collect();
        for name in ["build", "out", "obj", "src", "main", "lib", "include", "test"] {
            dirs.iter_mut().for_each(|at| *at = rank_by_path(*at, hash(name), &ranks));
            let count = |rank: &Rank| dirs.iter().filter(|at| **at == Some(*rank)).count();
            let counts: Vec<usize> = ranks.iter().map(count).collect();
            assert!(counts.iter().all(|count| (200..300).contains(count)), "{name}: {counts:?}");
        }
        assert_eq!(rank_by_path(Some(Rank(7)), 5, &[]), None);
    }

    #[test]
    fn depends_on_the_key_and_is_never_zero() {
        assert_ne!(name_hash((1, 2), b"name"), name_hash((1, 3), b"name"));
        assert!((0..10_000u32).all(|i| (1..=HASH_MAX).contains(&name_hash((7, 8), &i.to_le_bytes()))));
    }
}
