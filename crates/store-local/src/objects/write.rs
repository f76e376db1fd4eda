//! Changes of an object's data: write, truncate, punch. Each checks what it keeps of a block before it
//! computes that block's new checksum, so damage is never sealed under a fresh one.

use std::ops::Range;

use loligo_store::{BLOCK_SIZE, Result};
use rustix::fs::FallocateFlags;

use super::block::{self, BLOCK, HOLE};
use super::header::DATA_AT;
use super::object::{Object, State};

impl Object {
    /// Writes `data` at `offset`. `None` if the object was deleted.
    pub(super) fn write_at(&self, offset: u64, data: &[u8]) -> Result<Option<()>> {
        let mut state = self.write_lock();
        if state.deleted {
            return Ok(None);
        }
        let _kept = self.kept();
        self.mark(&mut state)?;
        self.write_locked(&mut state, offset, data)?;
        Ok(Some(()))
    }

    fn write_locked(&self, state: &mut State, offset: u64, data: &[u8]) -> Result<()> {
        let sums = self.sums_after(state, offset, data)?;
        let end = offset + data.len() as u64;
        let blocks = (offset / BLOCK_SIZE) as usize..block::count(end);
        self.doubt(state, blocks.clone())?;
        if let Err(error) = self.write_file(DATA_AT + offset, data) {
            self.undo(state, blocks);
            return Err(error);
        }
        let before = state.sums.len();
        state.len = state.len.max(end);
        state.sums.resize(block::count(state.len), HOLE);
        state.sums[blocks.clone()].copy_from_slice(&sums);
        // Holes gained count as changed: the file may still have checksums from before a truncation.
        state.touch(blocks.start.min(before)..blocks.end);
        Ok(())
    }

    /// Gives the blocks of a range that are data checksums of nothing that they may hold. `None` if the object was deleted.
    pub(super) fn spoil(&self, offset: u64, len: u64) -> Result<Option<()>> {
        let mut state = self.write_lock();
        if state.deleted {
            return Ok(None);
        }
        let _kept = self.kept();
        let end = (offset + len).min(state.len);
        if offset >= end {
            return Ok(Some(()));
        }
        self.mark(&mut state)?;
        let blocks = (offset / BLOCK_SIZE) as usize..block::count(end);
        for sum in state.sums[blocks.clone()].iter_mut().filter(|sum| **sum != HOLE) {
            *sum = block::other(*sum);
        }
        state.touch(blocks);
        Ok(Some(()))
    }

    /// The checksums of the blocks of a range once `data` is in it.
    fn sums_after(&self, state: &State, offset: u64, data: &[u8]) -> Result<Vec<u32>> {
        let mut sums = Vec::with_capacity(data.len() / BLOCK + 2);
        for piece in block::pieces(offset, data.len()) {
            let new = &data[piece.at..piece.at + piece.len];
            if piece.len == BLOCK {
                sums.push(block::sum(new));
                continue;
            }
            let old_bytes = state.len.saturating_sub(piece.block as u64 * BLOCK_SIZE).min(BLOCK_SIZE) as usize;
            let covered = piece.within == 0 && piece.len >= old_bytes;
            let is_hole = state.sums.get(piece.block).is_none_or(|sum| *sum == HOLE);
            let mut content = [0; BLOCK];
            if !covered && !is_hole {
                content = self.read_block(state, piece.block)?;
            }
            content[piece.within..piece.within + piece.len].copy_from_slice(new);
            sums.push(block::sum(&content));
        }
        Ok(sums)
    }

    /// After a write that failed half way: cuts off what was added and takes the checksums of the
    /// blocks that may have changed from the file.
    fn undo(&self, state: &mut State, blocks: Range<usize>) {
        if let Err(error) = self.file.set_len(DATA_AT + state.len) {
            tracing::warn!(object = %self.id, %error, "cannot cut off a failed write");
        }
        let blocks = blocks.start.min(state.sums.len())..blocks.end.min(state.sums.len());
        for index in blocks.clone() {
            let start = index as u64 * BLOCK_SIZE;
            let mut content = [0; BLOCK];
            let there = (state.len - start).min(BLOCK_SIZE) as usize;
            if self.read_file(DATA_AT + start, &mut content[..there]).is_ok() {
                let hole = state.sums[index] == HOLE && block::matches(&content, HOLE);
                state.sums[index] = if hole { HOLE } else { block::sum(&content) };
            }
        }
        state.touch(blocks);
    }

    /// Sets the length. `None` if the object was deleted.
    pub(super) fn truncate(&self, len: u64) -> Result<Option<()>> {
        let mut state = self.write_lock();
        if state.deleted {
            return Ok(None);
        }
        let _kept = self.kept();
        self.mark(&mut state)?;
        let cut = (len / BLOCK_SIZE) as usize;
        let within = (len % BLOCK_SIZE) as usize;
        let cuts_data = len < state.len && within != 0 && state.sums[cut] != HOLE;
        let tail = if cuts_data {
            let mut content = self.read_block(&state, cut)?;
            content[within..].fill(0);
            Some(block::sum(&content))
        } else {
            None
        };
        if tail.is_some() {
            self.doubt(&mut state, cut..cut + 1)?;
        }
        self.expect_len(&mut state, len)?;
        self.file.set_len(DATA_AT + len).map_err(|e| self.named(&e))?;
        state.len = len;
        let before = state.sums.len();
        state.sums.resize(block::count(len), HOLE);
        let after = state.sums.len();
        if let Some(tail) = tail {
            state.sums[cut] = tail;
        }
        // Checksums behind the end stay in the file; growing writes those of every block it gains.
        state.touch(cut.min(after).min(before)..after);
        Ok(Some(()))
    }

    /// Makes a range zero and releases its whole blocks. `None` if the object was deleted.
    pub(super) fn punch(&self, offset: u64, len: u64) -> Result<Option<()>> {
        let mut state = self.write_lock();
        if state.deleted {
            return Ok(None);
        }
        let _kept = self.kept();
        let end = (offset + len).min(state.len);
        if offset >= end {
            return Ok(Some(()));
        }
        self.mark(&mut state)?;
        let first = offset.div_ceil(BLOCK_SIZE);
        let last = if end == state.len { end.div_ceil(BLOCK_SIZE) } else { end / BLOCK_SIZE };
        if first >= last {
            self.zero(&mut state, offset, end)?;
            return Ok(Some(()));
        }
        self.zero(&mut state, offset, first * BLOCK_SIZE)?;
        self.release(&mut state, first as usize..last as usize)?;
        self.zero(&mut state, last * BLOCK_SIZE, end)?;
        Ok(Some(()))
    }

    /// Writes zeros where there is data.
    fn zero(&self, state: &mut State, from: u64, to: u64) -> Result<()> {
        for piece in block::pieces(from, to.saturating_sub(from) as usize) {
            if state.sums[piece.block] != HOLE {
                self.write_locked(state, from + piece.at as u64, &[0; BLOCK][..piece.len])?;
            }
        }
        Ok(())
    }

    /// Makes whole blocks (the last of the object may be short) into holes.
    fn release(&self, state: &mut State, blocks: Range<usize>) -> Result<()> {
        self.doubt(state, blocks.clone())?;
        let at = DATA_AT + blocks.start as u64 * BLOCK_SIZE;
        let len = blocks.len() as u64 * BLOCK_SIZE;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, at, len) {
            Ok(()) => {}
            Err(rustix::io::Errno::OPNOTSUPP) => self.write_zeros(state, &blocks)?,
            Err(e) => return Err(self.named(&e.into())),
        }
        state.sums[blocks.clone()].fill(HOLE);
        state.touch(blocks);
        Ok(())
    }

    fn write_zeros(&self, state: &State, blocks: &Range<usize>) -> Result<()> {
        for index in blocks.clone() {
            let start = index as u64 * BLOCK_SIZE;
            let len = (state.len - start).min(BLOCK_SIZE) as usize;
            self.write_file(DATA_AT + start, &[0; BLOCK][..len])?;
        }
        Ok(())
    }
}
