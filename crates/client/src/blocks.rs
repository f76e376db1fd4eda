//! Bytes of objects that were read, in blocks, and the fetches that bring them. Pure data: knows no server. How much all
//! files together keep is decided in `cache`.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a block. The last one of a file may be shorter.
pub(crate) const BLOCK: u64 = 1 << 20;

/// A fetch on its way.
#[derive(Debug)]
pub(crate) struct Fetch {
    /// Number of the data request that brings it: answers to those of an earlier open may still come.
    pub request: u64,
    /// End of what it asks for.
    pub end: u64,
    /// True if bytes were written meanwhile, so that the answer may be older than those.
    pub tainted: bool,
    /// Reads that wait for it.
    pub readers: Vec<u64>,
}

/// Blocks of one file by their first byte.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    map: BTreeMap<u64, (Arc<[u8]>, u64)>,
    /// Fetches by the first byte of their block.
    pub fetches: BTreeMap<u64, Fetch>,
    bytes: u64,
}

impl Blocks {
    /// Number of cached bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A block, and notes that it was used at `tick`.
    pub(crate) fn get(&mut self, start: u64, tick: u64) -> Option<&Arc<[u8]>> {
        let (bytes, used) = self.map.get_mut(&start)?;
        *used = tick;
        Some(bytes)
    }

    /// True if the block has the bytes up to `end`.
    pub(crate) fn reaches(&self, start: u64, end: u64) -> bool {
        self.map.get(&start).is_some_and(|(bytes, _)| start + bytes.len() as u64 >= end)
    }

    pub(crate) fn insert(&mut self, start: u64, bytes: Arc<[u8]>, tick: u64) {
        self.bytes += bytes.len() as u64;
        if let Some((old, _)) = self.map.insert(start, (bytes, tick)) {
            self.bytes -= old.len() as u64;
        }
    }

    pub(crate) fn remove(&mut self, start: u64) {
        if let Some((bytes, _)) = self.map.remove(&start) {
            self.bytes -= bytes.len() as u64;
        }
    }

    /// The least recently used block and when that was.
    pub(crate) fn oldest(&self) -> Option<(u64, u64)> {
        self.map.iter().map(|(start, (_, used))| (*used, *start)).min()
    }

    pub(crate) fn clear(&mut self) {
        self.drop_from(0);
    }

    /// Bytes from `from` on have changed at the server.
    pub(crate) fn drop_from(&mut self, from: u64) {
        self.drop_range(from, u64::MAX);
    }

    /// Bytes in a range have changed at the server.
    pub(crate) fn drop_range(&mut self, start: u64, end: u64) {
        let first = start / BLOCK * BLOCK;
        let hit: Vec<u64> = self.map.range(first..end).map(|(at, _)| *at).collect();
        for at in hit {
            // A short block says "zeros follow" about nothing, but a cut may have moved the end into it.
            self.remove(at);
        }
        for (_, fetch) in self.fetches.range_mut(first..end) {
            fetch.tainted = true;
        }
    }

    /// Puts written bytes into the blocks that have them; others are dropped.
    pub(crate) fn patch(&mut self, offset: u64, data: &[u8]) {
        let end = offset + data.len() as u64;
        let first = offset / BLOCK * BLOCK;
        for (_, fetch) in self.fetches.range_mut(first..end) {
            fetch.tainted = true;
        }
        let hit: Vec<u64> = self.map.range(first..end).map(|(at, _)| *at).collect();
        for at in hit {
            if !self.patch_block(at, offset, data) {
                self.remove(at);
            }
        }
    }

    fn patch_block(&mut self, at: u64, offset: u64, data: &[u8]) -> bool {
        let Some((bytes, _)) = self.map.get_mut(&at) else { return true };
        let (from, to) = (offset.max(at), (offset + data.len() as u64).min(at + BLOCK));
        if to > at + bytes.len() as u64 {
            return false;
        }
        // A block that somebody is just sending on is not to be changed under them.
        let Some(bytes) = Arc::get_mut(bytes) else { return false };
        bytes[(from - at) as usize..(to - at) as usize]
            .copy_from_slice(&data[(from - offset) as usize..(to - offset) as usize]);
        true
    }
}
