//! The head of an object's file: 64 bytes that name it, then the checksums of its blocks, then, from a
//! fixed offset, the data. Drawn in `docs/formats/objects.md`.

use loligo_store::{BLOCK_SIZE, MAX_OBJECT_LEN, ObjectId, Result, StoreError};

/// Bytes of the header.
pub(super) const HEADER_LEN: usize = 64;

/// Where the first byte of the data lies: behind the header and room for all checksums of the largest
/// object, on a block boundary.
pub(super) const DATA_AT: u64 = (HEADER_LEN as u64 + MAX_OBJECT_LEN / BLOCK_SIZE * 4).next_multiple_of(BLOCK_SIZE);

const MAGIC: [u8; 4] = *b"LOBJ";
/// Of version 1 are objects of which it is not known which blocks were being changed.
const VERSION: u32 = 2;

/// Content of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) id: ObjectId,
    /// [`block::DOUBT`](super::block::DOUBT) stands for each block that is being changed.
    pub(super) doubts: bool,
    /// The opening that changed the object since its checksums were last known to be on the disk; 0
    /// for none.
    pub(super) epoch: u64,
    /// Length of the object when the header was written; while it is open, at most what is left of that.
    pub(super) len: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..4].copy_from_slice(&MAGIC);
        out[4..8].copy_from_slice(&(if self.doubts { VERSION } else { 1 }).to_le_bytes());
        out[8..16].copy_from_slice(&self.id.ino.to_le_bytes());
        out[16..24].copy_from_slice(&self.id.index.to_le_bytes());
        out[24..32].copy_from_slice(&self.epoch.to_le_bytes());
        out[32..40].copy_from_slice(&self.len.to_le_bytes());
        let crc = crc32c::crc32c(&out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the header of the object `id`. `None` if it was never written.
    pub(super) fn decode(id: ObjectId, bytes: &[u8; HEADER_LEN]) -> Result<Option<Self>> {
        if bytes.iter().all(|b| *b == 0) {
            return Ok(None);
        }
        let place = format!("the header of {id}");
        let damaged = |detail: String| StoreError::Corrupt { place: place.clone(), detail };
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        if bytes[..4] != MAGIC {
            return Err(damaged("it does not begin with LOBJ".to_string()));
        }
        if half(4) > VERSION {
            return Err(StoreError::NewerVersion { what: place, found: half(4), known: VERSION });
        }
        if half(60) != crc32c::crc32c(&bytes[..60]) {
            return Err(damaged("its checksum does not match".to_string()));
        }
        let named = ObjectId::new(word(8), word(16));
        if named != id {
            return Err(damaged(format!("it names {named}, so the file is in the wrong place")));
        }
        Ok(Some(Self { id, doubts: half(4) > 1, epoch: word(24), len: word(32) }))
    }
}
