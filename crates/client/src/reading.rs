//! A read under way, and the bytes of files that are kept: what is read from them, and what is to be asked next, is decided here from
//! the state of files; it is asked in `read`.
//!
//! Where the server has let the client cache, sizes and bytes known here are the truth. Where it has not (several
//! clients, one writing), every read asks for the size first and takes the bytes from the server.

use std::sync::Arc;

use loligo_types::{Answer, DataAnswer, DataError, FsError, Ino, Op};

use crate::blocks::BLOCK;
use crate::calls::Calls;
use crate::core::Core;
use crate::file::{File, Files};
use crate::own::Own;
use crate::ranks::Ranks;
use crate::task::{Event, Step, Task, data_error};
use crate::{CallResult, Done, Fh, Invalidation};

/// Reads begun again at most this often because what they read was overtaken by writes.
const TRIES_MAX: u32 = 64;
/// Reads begun again at most this often because the server refused bytes.
pub(crate) const STALE_MAX: u32 = 16;
/// A read this near to where the last one ended is sequential: several threads of a kernel read ahead out of order.
const NEAR: u64 = 1 << 20;

/// A read under way.
#[derive(Debug)]
pub(crate) struct Read {
    pub fh: Fh,
    pub offset: u64,
    len: u64,
    /// Where it ends, once the size is known.
    pub end: u64,
    parts: Vec<(u64, Arc<[u8]>)>,
    /// Parts that are on their way.
    pub missing: usize,
    /// The bytes read may be older than a write in the meantime: read again.
    pub redo: bool,
    tries: u32,
    /// Some of the bytes were refused; and how often that was.
    is_stale: bool,
    stale: u32,
    asked: Asked,
    /// Of the file, when its size was asked for.
    change: u64,
}

/// The request whose reply comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Size,
    Inline,
    /// Verifies that the file did not change while its content was requested.
    Verify,
    Bytes,
}

/// The next need of a read.
pub(crate) enum Next {
    /// Answers that are on their way.
    Wait,
    Ask(Op),
    /// To begin (again).
    Begin,
    /// The bytes. `size`: of the file at the server.
    Fetch {
        inline: bool,
        size: u64,
    },
    /// Nothing: it is over.
    Done(CallResult),
}

impl Read {
    pub(crate) fn new(fh: Fh, offset: u64, len: u64, end: u64) -> Read {
        Read {
            fh,
            offset,
            len,
            end,
            parts: Vec::new(),
            missing: 0,
            redo: false,
            tries: 0,
            is_stale: false,
            stale: 0,
            asked: Asked::Bytes,
            change: 0,
        }
    }

    /// True if the read overlaps a range.
    pub(crate) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.offset < end && self.offset + self.len > start
    }

    /// Something came that it has asked for.
    pub(crate) fn heard(&mut self, files: &mut Files, core: &mut Core, ino: Ino, event: Event) -> Next {
        match event {
            Event::Start => return Next::Begin,
            Event::Reply(Err(FsError::Stale)) if self.asked == Asked::Inline && self.tries < TRIES_MAX => {
                // It is in objects by now.
                self.tries += 1;
                self.asked = Asked::Size;
                return Next::Ask(Op::GetAttr { ino });
            }
            Event::Reply(Err(error)) => return Next::Done(Err(error.into())),
            Event::Reply(Ok(Answer::Bytes(bytes))) if self.asked == Asked::Inline => {
                let Some(file) = files.map.get_mut(&ino) else { return Next::Done(Err(FsError::Stale.into())) };
                if self.redo && self.tries < TRIES_MAX {
                    return self.restart();
                }
                if file.may_cache() && file.attr.inline && file.base.is_none() {
                    file.base = Some(Arc::clone(&bytes));
                }
                // Or it is another file than that whose size was seen, and longer.
                let len = bytes.len() as u64;
                let cut = self.end < self.offset + self.len && len > self.end;
                let short = (len < self.end || cut) && !file.may_cache();
                self.parts = vec![(0, bytes)];
                if !short {
                    return files.finish_read(core, ino, self);
                }
                // Zeros may follow it, or it may have been cut after the size was seen.
                self.asked = Asked::Verify;
                return Next::Ask(Op::GetAttr { ino });
            }
            Event::Reply(Ok(Answer::Entry(attr)))
                if self.asked == Asked::Verify && (attr.change == self.change || self.tries >= TRIES_MAX) =>
            {
                return files.finish_read(core, ino, self);
            }
            Event::Reply(Ok(Answer::Entry(attr))) if matches!(self.asked, Asked::Size | Asked::Verify) => {
                self.tries += 1;
                self.change = attr.change;
                self.parts.clear();
                // What waits to be written may reach further than what the server has.
                let mut known = attr;
                files.overlay(&mut known);
                self.end = (self.offset + self.len).min(known.size);
                return Next::Fetch { inline: attr.inline, size: attr.size };
            }
            Event::Reply(Ok(_)) => return Next::Done(Err(FsError::Io.into())),
            // A merge has made it another file, or its rank does not know the handle: how long it is by now says which.
            Event::Block(Err(DataError::Stale)) if self.stale < STALE_MAX => {
                self.missing = self.missing.saturating_sub(1);
                self.is_stale = true;
                if self.missing == 0 {
                    return self.anew(ino);
                }
            }
            Event::Block(Err(error)) => return Next::Done(Err(data_error(error).into())),
            Event::Block(Ok((at, bytes))) => {
                self.parts.push((at, bytes));
                self.missing = self.missing.saturating_sub(1);
                if self.missing == 0 {
                    if self.is_stale {
                        return self.anew(ino);
                    }
                    if self.redo && self.tries < TRIES_MAX {
                        return self.restart();
                    }
                    return files.finish_read(core, ino, self);
                }
            }
            _ => {}
        }
        Next::Wait
    }

    /// Some of the bytes were refused: all are read again, of the file as it is by now.
    fn anew(&mut self, ino: Ino) -> Next {
        self.stale += 1;
        (self.is_stale, self.redo) = (false, false);
        self.parts.clear();
        self.asked = Asked::Size;
        Next::Ask(Op::GetAttr { ino })
    }

    fn restart(&mut self) -> Next {
        self.tries += 1;
        self.redo = false;
        self.missing = 0;
        self.parts.clear();
        Next::Begin
    }

    /// Reads what is here, or says how to go on.
    pub(crate) fn begin(&mut self, files: &mut Files, core: &mut Core, ranks: &Ranks, own: &Own, ino: Ino) -> Next {
        if let Some(bytes) = files.read_now(ranks, own, ino, self.offset, self.offset + self.len) {
            files.after_read(core, ino, self.fh);
            return Next::Done(Ok(Done::plain(Answer::Bytes(bytes))));
        }
        let suspended = files.is_suspended(ranks, own, ino);
        let current = ranks.has_attr(own, ino) && !suspended;
        let Some(file) = files.map.get(&ino) else { return Next::Done(Err(FsError::Stale.into())) };
        if file.may_cache() && !suspended || current && file.current && file.is_clean() {
            self.end = (self.offset + self.len).min(file.size);
            self.change = file.attr.change;
            return Next::Fetch { inline: file.attr.inline, size: file.attr.size };
        }
        self.asked = Asked::Size;
        Next::Ask(Op::GetAttr { ino })
    }

    /// The bytes are in the inode.
    pub(crate) fn fetch_inline(&mut self, files: &Files, ino: Ino) -> Next {
        let Some(handle) = files.opened.get(&self.fh).map(|opened| opened.handle) else {
            return Next::Done(Err(FsError::Interrupted.into()));
        };
        self.asked = Asked::Inline;
        Next::Ask(Op::ReadInline { ino, handle })
    }

    /// The bytes are in objects: which of them are to be asked for, and how.
    pub(crate) fn fetch_objects(&mut self, files: &Files, ino: Ino, size: u64) -> Option<Wanted> {
        self.asked = Asked::Bytes;
        let file = files.map.get(&ino)?;
        let parts = missing(file, self.offset, self.end)
            .into_iter()
            .map(|(start, stop)| (start, stop.min(size)))
            .filter(|(start, stop)| start < stop)
            .collect();
        let cache = file.may_cache() && !file.is_gated();
        let is_sequential = files.is_sequential(self.fh, self.offset);
        Some(Wanted { parts, cache, blocks: cache && is_sequential })
    }

    /// Takes a part of a block from the cache, or from a fetch on its way; else says how it is to be fetched.
    pub(crate) fn take_block(&mut self, files: &mut Files, id: u64, ino: Ino, block: u64, to: u64, tick: u64) -> Block {
        let Some(file) = files.map.get_mut(&ino) else { return Block::Gone };
        if file.blocks.reaches(block, to)
            && let Some(bytes) = file.blocks.get(block, tick)
        {
            self.parts.push((block, Arc::clone(bytes)));
            return Block::Taken;
        }
        match file.blocks.fetches.get_mut(&block) {
            Some(fetch) if !fetch.tainted && fetch.end >= to => {
                fetch.readers.push(id);
                self.missing += 1;
                Block::Taken
            }
            Some(_) => Block::Exactly,
            None => {
                self.missing += 1;
                Block::Whole
            }
        }
    }
}

/// The parts of objects that a read wants.
pub(crate) struct Wanted {
    pub parts: Vec<(u64, u64)>,
    /// They may be kept.
    pub cache: bool,
    /// Whole blocks are fetched.
    pub blocks: bool,
}

/// The way in which a part of a block comes.
pub(crate) enum Block {
    /// It is here, or on its way.
    Taken,
    /// By itself.
    Exactly,
    /// With the whole block.
    Whole,
    /// The file is gone.
    Gone,
}

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
    pub(crate) fn evict_blocks(&mut self, core: &Core) {
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

    pub(crate) fn finish_read(&mut self, core: &mut Core, ino: Ino, read: &mut Read) -> Next {
        let Some(file) = self.map.get(&ino) else { return Next::Done(Err(FsError::Stale.into())) };
        let bytes = if read.offset >= read.end {
            Arc::from(&[][..])
        } else {
            let parts = std::mem::take(&mut read.parts);
            compose(file, read.offset, read.end, &parts)
        };
        self.after_read(core, ino, read.fh);
        Next::Done(Ok(Done::plain(Answer::Bytes(bytes))))
    }

    /// A cache above that fills itself with what was read has no right to keep it: tells it so.
    pub(crate) fn after_read(&mut self, core: &mut Core, ino: Ino, fh: Fh) {
        let cached = self.opened.get(&fh).is_some_and(|opened| opened.cached);
        let Some(file) = self.map.get(&ino) else { return };
        if cached && (!file.may_cache() || file.recalls.iter().any(|recall| recall.has_invalidated())) {
            core.invalidate(Invalidation::Data(ino), false);
        }
    }
}

impl Files {
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

impl Calls {
    /// Reads under way that touch a range must look again.
    pub(crate) fn redo_reads(&mut self, files: &mut Files, ino: Ino, start: u64, end: u64) {
        let Some(file) = files.map.get(&ino) else { return };
        for id in &file.reads {
            if let Some(Task { step: Step::Read(read), .. }) = self.tasks.get_mut(id) {
                read.redo |= read.overlaps(start, end);
            }
        }
    }
}

/// Parts of a range that what waits to be written does not cover and that the server has.
fn missing(file: &File, start: u64, end: u64) -> Vec<(u64, u64)> {
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
fn compose(file: &File, offset: u64, end: u64, parts: &[(u64, Arc<[u8]>)]) -> Arc<[u8]> {
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

/// The bytes of an answer to a read.
pub(crate) fn bytes_at(at: u64, result: Result<DataAnswer, DataError>) -> Result<(u64, Arc<[u8]>), DataError> {
    match result? {
        DataAnswer::Bytes(bytes) => Ok((at, bytes)),
        // The server breaks the protocol; nothing it said can be used.
        _ => Err(DataError::Io),
    }
}
