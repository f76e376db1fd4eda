//! Writes of bytes that the journal has. They were, or are about to be, acknowledged, so an object that cannot take them must not keep what it had as if
//! nothing had happened: a block that the device does not read becomes damaged, and the file's other blocks are written. Not here: the order of
//! such writes (`logged.rs`).

use loligo_store::{BLOCK_SIZE, Blobs, ObjectId, Result, StoreError};
use loligo_types::{DataAnswer, Ino, Patches};

use crate::execute::{self, EffectResult, pieces, present};

/// Writes all of them. `Corrupt`: all but parts of blocks that are damaged, which stay so. Every other error: some may be written, and all are to be
/// written again.
pub(crate) fn write(blobs: &dyn Blobs, ino: Ino, object_size: u64, patches: &Patches) -> EffectResult {
    let mut damage = None;
    for (offset, data) in patches.iter() {
        for piece in pieces(ino, object_size, offset, data.len() as u64) {
            let data = &data[piece.at as usize..(piece.at + piece.len) as usize];
            match blobs.write_logged(piece.id, piece.within, data) {
                Err(StoreError::Corrupt { .. } | StoreError::Io { .. }) => {
                    damage = by_blocks(blobs, piece.id, piece.within, data)?.or(damage);
                }
                written => written?,
            }
        }
    }
    damage.map_or(Ok(DataAnswer::Done), Err)
}

/// Makes durable what was written so. A damaged object has nothing that could be.
pub(crate) fn sync(blobs: &dyn Blobs, files: &[(Ino, Vec<(u64, u64)>)]) -> EffectResult {
    for (ino, ranges) in files {
        match execute::sync(blobs, *ino, ranges, false) {
            Err(StoreError::Corrupt { .. }) => {}
            synced => {
                synced?;
                continue;
            }
        }
        for (first, last) in ranges {
            for index in present(blobs, *ino, *first, *last)? {
                match blobs.sync(ObjectId::new(ino.0, index)) {
                    Ok(()) | Err(StoreError::Corrupt { .. }) => {}
                    failed => failed?,
                }
            }
        }
    }
    Ok(DataAnswer::Done)
}

/// Writes block by block, after all at once failed; returns the damage that was found.
fn by_blocks(blobs: &dyn Blobs, id: ObjectId, offset: u64, data: &[u8]) -> Result<Option<StoreError>> {
    let mut damage = None;
    let mut at = 0;
    while at < data.len() {
        let here = offset + at as u64;
        let len = ((BLOCK_SIZE - here % BLOCK_SIZE) as usize).min(data.len() - at);
        match blobs.write_logged(id, here, &data[at..at + len]) {
            Ok(()) => {}
            Err(error @ StoreError::Corrupt { .. }) => damage = Some(error),
            Err(error @ StoreError::Io { .. }) => damage = Some(unreadable(blobs, id, here, len, error)?),
            Err(error) => return Err(error),
        }
        at += len;
    }
    Ok(damage)
}

/// Makes the block of a range damaged if the device does not read it. If it does, the write is what failed, which is not the block's fault.
fn unreadable(blobs: &dyn Blobs, id: ObjectId, offset: u64, len: usize, error: StoreError) -> Result<StoreError> {
    let block = offset / BLOCK_SIZE * BLOCK_SIZE;
    match blobs.read_at(id, block, &mut vec![0; BLOCK_SIZE as usize]) {
        Err(StoreError::Io { .. }) => {}
        _ => return Err(error),
    }
    if blobs.spoil(id, offset, len as u64).is_err() {
        return Err(error);
    }
    let detail = format!(
        "the block at byte {block} cannot be read, so {len} bytes of it that were synced could not be written ({error})"
    );
    Ok(StoreError::Corrupt { place: id.to_string(), detail })
}
