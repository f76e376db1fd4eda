//! Identity of a file system: the 64 bytes at the head of a data directory. Not its configuration.

use std::fmt;

use crate::{Result, StoreError};

/// Newest layout of a data directory that this program reads and the one that it writes.
pub const FORMAT_VERSION: u32 = 1;

/// Bytes of an encoded identity.
pub const IDENTITY_LEN: usize = 64;

const MAGIC: [u8; 8] = *b"LOLIGOFS";
const CRC_AT: usize = IDENTITY_LEN - 4;

/// Identity of a file system, fixed when it is formatted.
///
/// Bytes, integers little endian: magic `LOLIGOFS` (8), format version (4), zeros (4), `fs_id` (16),
/// `hash_key` (16), zeros (12), CRC-32C of all before (4). Drawn in `docs/formats/objects.md`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Random name of the file system.
    pub fs_id: [u8; 16],
    /// Layout of the data directory.
    pub format_version: u32,
    /// Secret key under which names are hashed for directory order.
    pub hash_key: [u8; 16],
}

impl Identity {
    /// An identity of the present format version.
    pub fn new(fs_id: [u8; 16], hash_key: [u8; 16]) -> Self {
        Self { fs_id, format_version: FORMAT_VERSION, hash_key }
    }

    /// The name of the file system in hexadecimal digits.
    pub fn fs_id_hex(&self) -> String {
        self.fs_id.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// The bytes of the identity file.
    pub fn encode(&self) -> [u8; IDENTITY_LEN] {
        let mut out = [0; IDENTITY_LEN];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&self.format_version.to_le_bytes());
        out[16..32].copy_from_slice(&self.fs_id);
        out[32..48].copy_from_slice(&self.hash_key);
        let crc = crc32c::crc32c(&out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads an identity file. `dir` is only for the words of the errors.
    pub fn decode(dir: &str, bytes: &[u8]) -> Result<Self> {
        if bytes.len() < 12 || bytes[..8] != MAGIC {
            let found = "its identity file does not begin with LOLIGOFS".to_string();
            return Err(StoreError::Foreign { dir: dir.to_string(), found });
        }
        let format_version = u32::from_le_bytes(array(&bytes[8..12]));
        if format_version > FORMAT_VERSION {
            let what = format!("the data directory {dir}");
            return Err(StoreError::NewerVersion { what, found: format_version, known: FORMAT_VERSION });
        }
        let damaged =
            |detail: String| StoreError::Corrupt { place: format!("the identity file loligo.id of {dir}"), detail };
        if bytes.len() != IDENTITY_LEN {
            return Err(damaged(format!("{} bytes instead of {IDENTITY_LEN}", bytes.len())));
        }
        let (want, have) = (u32::from_le_bytes(array(&bytes[CRC_AT..])), crc32c::crc32c(&bytes[..CRC_AT]));
        if want != have {
            return Err(damaged(format!("its checksum is {have:08x} instead of {want:08x}")));
        }
        if format_version == 0 {
            return Err(damaged("format version 0 does not exist".to_string()));
        }
        Ok(Self { fs_id: array(&bytes[16..32]), format_version, hash_key: array(&bytes[32..48]) })
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("every caller slices exactly N bytes")
}

impl fmt::Debug for Identity {
    /// Leaves the hash key out: identities are logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({}, format {})", self.fs_id_hex(), self.format_version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = "4c4f4c49474f46530100000000000000\
        000102030405060708090a0b0c0d0e0f\
        f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff\
        000000000000000000000000";

    fn sample() -> Identity {
        Identity::new(std::array::from_fn(|i| i as u8), std::array::from_fn(|i| 0xf0 + i as u8))
    }

    #[test]
    fn the_bytes_of_the_identity_file_are_fixed() {
        let hex: String = sample().encode().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, format!("{GOLDEN}4ccac1d6"));
        assert_eq!(Identity::decode("/data", &sample().encode()), Ok(sample()));
    }

    #[test]
    fn foreign_newer_and_damaged_identities_are_told_apart() {
        assert!(matches!(Identity::decode("/d", b"#!/bin/sh -e"), Err(StoreError::Foreign { .. })));
        let newer = Identity { format_version: 7, ..sample() }.encode();
        let error = Identity::decode("/d", &newer).expect_err("version 7 is not known");
        assert!(matches!(error, StoreError::NewerVersion { found: 7, known: 1, .. }), "{error}");
        for at in 12..IDENTITY_LEN {
            let mut bad = sample().encode();
            bad[at] ^= 0x10;
            assert!(matches!(Identity::decode("/d", &bad), Err(StoreError::Corrupt { .. })), "byte {at}");
        }
        assert!(matches!(Identity::decode("/d", &sample().encode()[..40]), Err(StoreError::Corrupt { .. })));
    }

    #[test]
    fn the_hash_key_is_not_shown() {
        assert!(!format!("{:?}", sample()).contains("f0f1"));
    }
}
