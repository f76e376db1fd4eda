//! Blocks in doubt: what is written into an object's file before it is changed, and what is believed of the file after an end that was not
//! clean. Drawn in `docs/formats/objects.md`, "What is believed when".

use std::ops::Range;

use loligo_store::{BLOCK_SIZE, Result};

use super::block::{self, BLOCK, DOUBT, HOLE};
use super::epochs::Ended;
use super::header::{DATA_AT, HEADER_LEN, Header};
use super::object::{Head, Object, State};

/// Blocks read at a time when checksums are computed anew.
const REBUILD_BLOCKS: usize = 64;

/// Trust in an object's file.
pub(super) enum Belief {
    /// All.
    Sound,
    /// Checksums, where there are some, of as much as the header tells.
    Checksums,
    /// The data.
    Data,
}

impl Object {
    /// Trust in a file with this header.
    pub(super) fn belief(&self, header: Option<Header>) -> Result<Belief> {
        let epochs = &self.shared.epochs;
        let Some(header) = header else {
            // A server that was killed has left a header with the first byte of data.
            return if epochs.any_crashed() {
                Ok(Belief::Data)
            } else {
                Err(self.corrupt("its header is missing".into()))
            };
        };
        if header.epoch > epochs.current {
            let detail = format!("opening {} changed it, but this is {}", header.epoch, epochs.current);
            return Err(self.corrupt(detail));
        }
        Ok(match epochs.unclean.get(&header.epoch) {
            None => Belief::Sound,
            Some(Ended::Killed | Ended::Settled) if header.doubts => Belief::Checksums,
            Some(_) => Belief::Data,
        })
    }

    /// Computes checksums from the data: of the blocks from `all` on, and before it of those that were being changed. A block of
    /// zeros without a checksum is a hole.
    pub(super) fn rebuild(&self, state: &mut State, all: usize) -> Result<()> {
        tracing::debug!(object = %self.id, "computing checksums anew after an unclean stop");
        let mut buf = vec![0; REBUILD_BLOCKS * BLOCK];
        let doubted = state.doubtful();
        doubted.iter().for_each(|index| state.doubt(*index));
        let mut first = doubted.first().copied().unwrap_or(all).min(all);
        while first < state.sums.len() {
            let blocks = REBUILD_BLOCKS.min(state.sums.len() - first);
            let here = first as u64 * BLOCK_SIZE;
            let wanted = |index: usize, sum: u32| index >= all || sum == DOUBT;
            if !(first..first + blocks).any(|index| wanted(index, state.sums[index])) {
                first += blocks;
                continue;
            }
            let buf = &mut buf[..blocks * BLOCK];
            buf.fill(0);
            let there = buf.len().min((state.len - here) as usize);
            self.read_file(DATA_AT + here, &mut buf[..there])?;
            for (index, content) in (first..).zip(buf.chunks_exact(BLOCK)) {
                let stored = &mut state.sums[index];
                if wanted(index, *stored) {
                    let hole = matches!(*stored, HOLE | DOUBT) && block::matches(content, HOLE);
                    *stored = if hole { HOLE } else { block::sum(content) };
                }
            }
            first += blocks;
        }
        let first = doubted.first().copied().unwrap_or(all).min(all).min(state.sums.len());
        state.touch(first..state.sums.len());
        Ok(())
    }

    /// To be called before blocks are changed: the file says that nothing is known of them, until it has their new checksums. So a
    /// server that is killed leaves no block whose checksum is another one's.
    pub(super) fn doubt(&self, state: &mut State, blocks: Range<usize>) -> Result<()> {
        if state.head.is_none() {
            self.write_header(state, self.shared.epochs.current, 0)?;
        }
        if blocks.clone().all(|index| state.is_doubted(index)) {
            return Ok(());
        }
        state.is_stale(blocks.clone());
        self.write_file((HEADER_LEN + 4 * blocks.start) as u64, &DOUBT.to_le_bytes().repeat(blocks.len()))?;
        blocks.for_each(|index| state.doubt(index));
        Ok(())
    }

    /// To be called before the object becomes shorter than its header says.
    pub(super) fn expect_len(&self, state: &mut State, len: u64) -> Result<()> {
        match state.head {
            Some(head) if head.len > len => {
                state.stale_header = true;
                self.write_header(state, head.epoch, len)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn write_header(&self, state: &mut State, epoch: u64, len: u64) -> Result<()> {
        self.write_file(0, &Header { id: self.id, doubts: true, epoch, len }.encode())?;
        state.head = Some(Head { epoch, len });
        Ok(())
    }
}
