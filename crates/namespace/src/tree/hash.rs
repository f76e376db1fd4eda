//! The hash that orders the entries of a directory (see [`loligo_types::hash`]), and a weak one for tests.

pub use loligo_types::hash::HASH_MAX;

/// With this key, tests get a hash of few values, so that names collide.
#[cfg(test)]
pub const WEAK_KEY: (u64, u64) = (u64::MAX, 0);

/// The hash of a name, 1..=[`HASH_MAX`].
#[inline]
pub fn hash63(key: (u64, u64), name: &[u8]) -> u64 {
    #[cfg(test)]
    if key == WEAK_KEY {
        return 1 + u64::from(name[0] % 5);
    }
    loligo_types::hash::name_hash(key, name)
}
