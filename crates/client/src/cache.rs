//! The read cache: bytes of files that are kept, and what of them is read without asking. Not here: a read by itself (`reading`), and the
//! blocks of one file (`blocks`).

use std::sync::Arc;

use loligo_types::{DataError, Ino};

use crate::blocks::BLOCK;
use crate::calls::Calls;
use crate::core::Core;
use crate::file::{File, Files};
use crate::own::Own;
use crate::ranks::Ranks;
use crate::reading::{NEAR, bytes_at};
use crate::task::Event;
use crate::{Fh, Invalidation};

impl Files {
    /// Returns bytes that can be read from the cache without the server; `None` otherwise.
    pub(crate) fn read_now(&mut self, ranks: &Ranks, own: &Own, ino: Ino, offset: u64, end: u64) -> Option<Arc<[u8]>> {
        if self.is_suspended(ranks, own, ino) {
            return None;
        }
        self.tick += 1;
        let tick = self.tick;
        let file = self.map.get_mut(&ino)?;
        if !file.may_cache() {
            return None;
        }
        let end = end.min(file.size);
        if offset >= end {
            return Some(Arc::from(&[][..]));
        }
        let mut parts = Vec::new();
        for (start, stop) in missing(file, offset, end) {
            if file.attr.inline {
                file.base.as_ref()?;
                continue;
            }
            for block in blocks(start, stop) {
                if !file.blocks.reaches(block, stop.min(block + BLOCK)) {
                    return None;
                }
                parts.push((block, Arc::clone(file.blocks.get(block, tick)?)));
            }
        }
        Some(compose(file, offset, end, &parts))
    }

    pub(crate) fn is_sequential(&self, fh: Fh, offset: u64) -> bool {
        self.opened.get(&fh).is_some_and(|opened| opened.next_read.abs_diff(offset) <= NEAR)
    }

    /// A block came.
    pub(crate) fn fetched(
        &mut self,
        core: &Core,
        calls: &mut Calls,
        request: u64,
        ino: Ino,
        start: u64,
        result: Result<loligo_types::DataAnswer, DataError>,
    ) {
        self.tick += 1;
        let tick = self.tick;
        let Some(file) = self.map.get_mut(&ino) else { return };
        if file.blocks.fetches.get(&start).is_none_or(|fetch| fetch.request != request) {
            return;
        }
        let Some(fetch) = file.blocks.fetches.remove(&start) else { return };
        let result = bytes_at(start, result);
        if let Ok((_, bytes)) = &result
            && !fetch.tainted
            && file.may_cache()
            && !file.is_gated()
        {
            let before = file.blocks.bytes();
            file.blocks.insert(start, Arc::clone(bytes), tick);
            self.block_bytes = self.block_bytes + file.blocks.bytes() - before;
            self.blocks_of.insert(ino);
        }
        for reader in fetch.readers {
            calls.events.push_back((reader, Event::Block(result.clone())));
        }
        self.evict_blocks(core);
    }

    /// Keeps the read cache within its limit.
    fn evict_blocks(&mut self, core: &Core) {
        while self.block_bytes > core.config.read_cache {
            let oldest = self.blocks_of.iter().filter_map(|ino| {
                let (used, start) = self.map.get(ino)?.blocks.oldest()?;
                Some((used, *ino, start))
            });
            let Some((_, ino, start)) = oldest.min() else {
                self.block_bytes = 0;
                return;
            };
            self.change_blocks(ino, |file| file.blocks.remove(start));
        }
    }

    /// Changes the blocks of a file, and counts.
    pub(crate) fn change_blocks(&mut self, ino: Ino, change: impl FnOnce(&mut File)) {
        let Some(file) = self.map.get_mut(&ino) else { return };
        let before = file.blocks.bytes();
        change(file);
        let after = file.blocks.bytes();
        self.block_bytes = (self.block_bytes + after).saturating_sub(before);
        if after == 0 {
            self.blocks_of.remove(&ino);
        }
    }

    /// A cache above that fills itself with what was read has no right to keep it: tells it so.
    pub(crate) fn after_read(&self, core: &mut Core, ino: Ino, fh: Fh) {
        let cached = self.opened.get(&fh).is_some_and(|opened| opened.cached);
        let Some(file) = self.map.get(&ino) else { return };
        if cached && (!file.may_cache() || file.recalls.iter().any(|recall| recall.has_invalidated())) {
            core.invalidate(Invalidation::Data(ino), false);
        }
    }

    /// The blocks that a sequential reader will want next.
    pub(crate) fn wanted_ahead(&mut self, core: &Core, ino: Ino, fh: Fh, offset: u64, end: u64) -> Vec<u64> {
        let sequential = self.is_sequential(fh, offset);
        let Some(opened) = self.opened.get_mut(&fh) else { return Vec::new() };
        if !sequential {
            (opened.next_read, opened.window) = (end, 0);
            return Vec::new();
        }
        let advanced = end > opened.next_read;
        let first = opened.next_read == 0;
        opened.next_read = opened.next_read.max(end);
        if !advanced || first {
            return Vec::new();
        }
        opened.window = (opened.window * 2).clamp(BLOCK, core.config.read_ahead.max(BLOCK));
        let (from, window) = (opened.next_read, opened.window);
        if core.config.read_ahead == 0 {
            return Vec::new();
        }
        let Some(file) = self.map.get(&ino) else { return Vec::new() };
        if !file.may_cache() || file.attr.inline || file.is_gated() {
            return Vec::new();
        }
        let until = from.saturating_add(window).min(file.attr.size);
        blocks(from, until)
            .filter(|block| {
                let end = (block + BLOCK).min(file.attr.size);
                !file.blocks.fetches.contains_key(block) && !file.blocks.reaches(*block, end)
            })
            .collect()
    }
}

/// Parts of a range that what waits to be written does not cover and that the server has.
pub(crate) fn missing(file: &File, start: u64, end: u64) -> Vec<(u64, u64)> {
    let end = end.min(file.attr.size);
    let mut gaps = Vec::new();
    if start >= end {
        return gaps;
    }
    for (from, to) in file.dirty.gaps(start, end) {
        gaps.extend(file.flying.gaps(from, to));
    }
    gaps
}

/// The blocks that a range touches.
pub(crate) fn blocks(start: u64, end: u64) -> impl Iterator<Item = u64> {
    let first = start / BLOCK;
    let last = end.div_ceil(BLOCK);
    (first..last).map(|n| n * BLOCK)
}

/// Puts a range together: zeros, what the server has, what is being written, what waits.
pub(crate) fn compose(file: &File, offset: u64, end: u64, parts: &[(u64, Arc<[u8]>)]) -> Arc<[u8]> {
    if let ([(at, bytes)], true, true) = (parts, file.dirty.is_empty(), file.flying.is_empty())
        && *at == offset
        && bytes.len() as u64 == end - offset
    {
        return Arc::clone(bytes);
    }
    let clean = file.dirty.is_empty() && file.flying.is_empty();
    if let (true, None, [(at, bytes)]) = (clean, &file.base, parts) {
        let part = offset.checked_sub(*at).and_then(|from| bytes.get(from as usize..(end - at) as usize));
        if let Some(part) = part {
            return Arc::from(part);
        }
    }
    // Made in its final place: these bytes are not copied again.
    let mut whole: Arc<[u8]> = std::iter::repeat_n(0, (end - offset) as usize).collect();
    let Some(buf) = Arc::get_mut(&mut whole) else { return whole };
    if let Some(base) = &file.base {
        copy_part(offset, buf, 0, base);
    }
    for (at, bytes) in parts {
        copy_part(offset, buf, *at, bytes);
    }
    file.flying.copy_to(offset, buf);
    file.dirty.copy_to(offset, buf);
    whole
}

/// Copies the common part of two ranges.
fn copy_part(offset: u64, buf: &mut [u8], at: u64, bytes: &[u8]) {
    let (start, end) = (offset.max(at), (offset + buf.len() as u64).min(at + bytes.len() as u64));
    if start < end {
        buf[(start - offset) as usize..(end - offset) as usize]
            .copy_from_slice(&bytes[(start - at) as usize..(end - at) as usize]);
    }
}
