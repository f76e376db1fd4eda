//! Checksums of blocks. Not IO.

use loligo_store::BLOCK_SIZE;

/// Bytes of a block.
pub(super) const BLOCK: usize = BLOCK_SIZE as usize;

/// A block's content.
pub(super) type Block = [u8; BLOCK];

/// The stored checksum of a hole.
pub(super) const HOLE: u32 = 0;

/// Stored in place of a checksum from before a block is changed until its new checksum is stored: nothing is known of it.
pub(super) const DOUBT: u32 = 2;

/// Stored where a checksum is [`DOUBT`] by chance.
pub(super) const INSTEAD_OF_DOUBT: u32 = 3;

/// The stored checksum of a block of data: CRC-32C of its 4096 bytes (the last block of an object
/// filled up with zeros), or another number where that is one of those that mean something else.
pub(super) fn sum(block: &[u8]) -> u32 {
    debug_assert_eq!(block.len(), BLOCK);
    match crc32c::crc32c(block) {
        HOLE => 1,
        DOUBT => INSTEAD_OF_DOUBT,
        crc => crc,
    }
}

/// True if a block matches its checksum; a hole is zeros.
pub(super) fn matches(block: &[u8], stored: u32) -> bool {
    if stored == HOLE { block.iter().all(|b| *b == 0) } else { sum(block) == stored }
}

/// A stored checksum that the content of another one does not match, and that means a block of data.
pub(super) fn other(stored: u32) -> u32 {
    match !stored {
        HOLE | DOUBT => INSTEAD_OF_DOUBT,
        other => other,
    }
}

/// Number of blocks of `len` bytes.
pub(super) fn count(len: u64) -> usize {
    len.div_ceil(BLOCK_SIZE) as usize
}

/// A part of a range that lies in one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Number of the block.
    pub(super) block: usize,
    /// Offset in the block.
    pub(super) within: usize,
    /// Offset in the range.
    pub(super) at: usize,
    /// Number of bytes.
    pub(super) len: usize,
}

/// Splits a range at the block boundaries.
pub(super) fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == len {
            return None;
        }
        let here = offset + at as u64;
        let within = (here % BLOCK_SIZE) as usize;
        let piece = Piece { block: (here / BLOCK_SIZE) as usize, within, at, len: (BLOCK - within).min(len - at) };
        at += piece.len;
        Some(piece)
    })
}
