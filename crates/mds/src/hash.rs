//! Maps with a fixed, fast hasher for small numbers. Their order of iteration must never reach an output.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A multiplication for each number: inode numbers and handles are given out in order.
#[derive(Default, Clone, Copy)]
pub(crate) struct IntHasher(u64);

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

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    fn write_u16(&mut self, n: u16) {
        self.write_u64(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0 ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

/// A map whose keys are made of small numbers.
pub(crate) type IntMap<K, V> = HashMap<K, V, BuildHasherDefault<IntHasher>>;

/// The number that a client shows to go on with its session: SipHash-2-4 of the session's number and the client's own random
/// number, with the key of the file system. Clients know the key; the number of another one they do not. The input starts
/// with a byte that no file name has, so no readdir cookie can reveal it.
#[allow(deprecated)]
pub(crate) fn session_secret(key: (u64, u64), session: u64, client: u64) -> u64 {
    let mut hasher = std::hash::SipHasher::new_with_keys(key.0, key.1);
    hasher.write(b"/session/");
    hasher.write(&session.to_le_bytes());
    hasher.write(&client.to_le_bytes());
    hasher.finish()
}
