//! The file `epochs`: which openings of the data directory did not end cleanly. Not which objects they
//! changed: each object says that itself.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use loligo_store::{Result, StoreError};

use crate::files::{self, named};

const MAGIC: [u8; 4] = *b"LEPO";
const VERSION: u32 = 1;
const FIXED: usize = 28;

/// The openings so far. The first is number 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Epochs {
    /// The number of this opening, or of the last one.
    pub(super) current: u64,
    /// Whether it is still going on (or was killed).
    pub(super) open: bool,
    /// Earlier ones that were killed.
    pub(super) unclean: BTreeSet<u64>,
}

impl Epochs {
    /// Writes the file of a fresh data directory.
    pub(crate) fn format(path: &Path) -> Result<()> {
        files::replace(path, &Self { current: 0, open: false, unclean: BTreeSet::new() }.encode())
    }

    /// Begins an opening, durably; says whether the one before ended cleanly.
    pub(super) fn begin(path: &Path) -> Result<(Self, bool)> {
        let bytes = fs::read(path).map_err(|e| named(path, &e))?;
        let mut epochs = Self::decode(&path.display().to_string(), &bytes)?;
        let clean = !epochs.open;
        if epochs.open {
            epochs.unclean.insert(epochs.current);
        }
        epochs.current += 1;
        epochs.open = true;
        files::replace(path, &epochs.encode())?;
        Ok((epochs, clean))
    }

    /// Ends this opening cleanly, durably.
    pub(super) fn end(&self, path: &Path) -> Result<()> {
        files::replace(path, &Self { open: false, ..self.clone() }.encode())
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIXED + 8 * self.unclean.len() + 4);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.current.to_le_bytes());
        out.extend(u32::from(self.open).to_le_bytes());
        out.extend((self.unclean.len() as u64).to_le_bytes());
        self.unclean.iter().for_each(|epoch| out.extend(epoch.to_le_bytes()));
        let crc = crc32c::crc32c(&out);
        out.extend(crc.to_le_bytes());
        out
    }

    pub(super) fn decode(place: &str, bytes: &[u8]) -> Result<Self> {
        let damaged = |detail: &str| StoreError::Corrupt { place: place.to_string(), detail: detail.to_string() };
        if bytes.len() < FIXED + 4 || bytes[..4] != MAGIC {
            return Err(damaged("it does not begin with LEPO or is too short"));
        }
        let version = u32::from_le_bytes(array(&bytes[4..8]));
        if version > VERSION {
            return Err(StoreError::NewerVersion { what: place.to_string(), found: version, known: VERSION });
        }
        let (body, crc) = bytes.split_at(bytes.len() - 4);
        if u32::from_le_bytes(array(crc)) != crc32c::crc32c(body) {
            return Err(damaged("its checksum does not match"));
        }
        let count = u64::from_le_bytes(array(&body[20..28]));
        let list = &body[FIXED..];
        if list.len() % 8 != 0 || count != list.len() as u64 / 8 {
            return Err(damaged("its length does not match its count"));
        }
        let unclean = list.chunks_exact(8).map(|epoch| u64::from_le_bytes(array(epoch))).collect();
        let open = u32::from_le_bytes(array(&body[16..20])) != 0;
        Ok(Self { current: u64::from_le_bytes(array(&body[8..16])), open, unclean })
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("every caller slices exactly N bytes")
}
