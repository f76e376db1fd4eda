//! Reading: from what waits to be written, from the content or blocks kept, and from the server.
//!
//! Where the server has let the client cache, sizes and bytes known here are the truth. Where it has not (several
//! clients, one writing), every read asks for the size first and takes the bytes from the server.

use std::sync::Arc;

use loligo_types::limits::DATA_OP_MAX;
use loligo_types::{Answer, Cred, DataError, DataOp, FsError, Ino, Op};

use crate::blocks::{BLOCK, Fetch};
use crate::calls::Calls;
use crate::core::Core;
use crate::file::File;
use crate::file::Files;
use crate::machine::{Client, Waiter};
use crate::own::Own;
use crate::ranks::Ranks;
use crate::request::bytes_at;
use crate::session::{DataThen, Then};
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
    fh: Fh,
    offset: u64,
    len: u64,
    /// Where it ends, once the size is known.
    end: u64,
    parts: Vec<(u64, Arc<[u8]>)>,
    /// Parts that are on their way.
    missing: usize,
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

impl Read {
    /// True if the read overlaps a range.
    pub(crate) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.offset < end && self.offset + self.len > start
    }
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

    pub(crate) fn finish_read(&mut self, core: &mut Core, ino: Ino, read: &mut Read) -> Option<CallResult> {
        let Some(file) = self.map.get(&ino) else { return Some(Err(FsError::Stale.into())) };
        let bytes = if read.offset >= read.end {
            Arc::from(&[][..])
        } else {
            let parts = std::mem::take(&mut read.parts);
            compose(file, read.offset, read.end, &parts)
        };
        self.after_read(core, ino, read.fh);
        Some(Ok(Done::plain(Answer::Bytes(bytes))))
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

impl Client {
    pub(crate) fn read(&mut self, waiter: Waiter, cred: &Arc<Cred>, fh: Fh, offset: u64, len: u32) {
        let ino = match self.files.file_of(fh, false) {
            Ok((ino, _)) => ino,
            Err(error) => {
                let error = if error == FsError::Stale { self.files.dead_error(fh) } else { error };
                return self.calls.fail(&mut self.core, waiter, error);
            }
        };
        let len = u64::from(len).min(DATA_OP_MAX as u64);
        let Some(end) = offset.checked_add(len) else {
            return self.calls.fail(&mut self.core, waiter, FsError::Invalid);
        };
        if let Some(bytes) = self.files.read_now(&self.ranks, &self.own, ino, offset, end) {
            self.files.after_read(&mut self.core, ino, fh);
            self.read_ahead(ino, fh, offset, offset + bytes.len() as u64);
            return self.calls.answer(&mut self.core, waiter, Answer::Bytes(bytes));
        }
        let read = Read {
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
        };
        let id = self.calls.spawn(waiter, cred, ino, Step::Read(read));
        if let Some(file) = self.files.map.get_mut(&ino) {
            file.reads.push(id);
        }
    }

    pub(crate) fn step_read(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let ino = task.ino;
        let cred = Arc::clone(&task.cred);
        let Step::Read(read) = &mut task.step else { return None };
        match event {
            Event::Start => return self.begin_read(id, ino, &cred, read),
            Event::Reply(Err(FsError::Stale)) if read.asked == Asked::Inline && read.tries < TRIES_MAX => {
                // It is in objects by now.
                read.tries += 1;
                read.asked = Asked::Size;
                self.request(&cred, Op::GetAttr { ino }, Then::Task(id));
            }
            Event::Reply(Err(error)) => return Some(Err(error.into())),
            Event::Reply(Ok(Answer::Bytes(bytes))) if read.asked == Asked::Inline => {
                let Some(file) = self.files.map.get_mut(&ino) else { return Some(Err(FsError::Stale.into())) };
                if read.redo && read.tries < TRIES_MAX {
                    return self.restart(id, ino, &cred, read);
                }
                if file.may_cache() && file.attr.inline && file.base.is_none() {
                    file.base = Some(Arc::clone(&bytes));
                }
                // Or it is another file than that whose size was seen, and longer.
                let len = bytes.len() as u64;
                let cut = read.end < read.offset + read.len && len > read.end;
                let short = (len < read.end || cut) && !file.may_cache();
                read.parts = vec![(0, bytes)];
                if !short {
                    return self.files.finish_read(&mut self.core, ino, read);
                }
                // Zeros may follow it, or it may have been cut after the size was seen.
                read.asked = Asked::Verify;
                self.request(&cred, Op::GetAttr { ino }, Then::Task(id));
            }
            Event::Reply(Ok(Answer::Entry(attr)))
                if read.asked == Asked::Verify && (attr.change == read.change || read.tries >= TRIES_MAX) =>
            {
                return self.files.finish_read(&mut self.core, ino, read);
            }
            Event::Reply(Ok(Answer::Entry(attr))) if matches!(read.asked, Asked::Size | Asked::Verify) => {
                read.tries += 1;
                read.change = attr.change;
                read.parts.clear();
                // What waits to be written may reach further than what the server has.
                let mut known = attr;
                self.files.overlay(&mut known);
                read.end = (read.offset + read.len).min(known.size);
                return self.fetch(id, ino, &cred, read, attr.inline, attr.size);
            }
            Event::Reply(Ok(_)) => return Some(Err(FsError::Io.into())),
            // A merge has made it another file, or its rank does not know the handle: how long it is by now says which.
            Event::Block(Err(DataError::Stale)) if read.stale < STALE_MAX => {
                read.missing = read.missing.saturating_sub(1);
                read.is_stale = true;
                if read.missing == 0 {
                    return self.read_anew(id, ino, &cred, read);
                }
            }
            Event::Block(Err(error)) => return Some(Err(data_error(error).into())),
            Event::Block(Ok((at, bytes))) => {
                read.parts.push((at, bytes));
                read.missing = read.missing.saturating_sub(1);
                if read.missing == 0 {
                    if read.is_stale {
                        return self.read_anew(id, ino, &cred, read);
                    }
                    if read.redo && read.tries < TRIES_MAX {
                        return self.restart(id, ino, &cred, read);
                    }
                    return self.files.finish_read(&mut self.core, ino, read);
                }
            }
            _ => {}
        }
        None
    }

    /// Some of the bytes were refused: all are read again, of the file as it is by now.
    fn read_anew(&mut self, id: u64, ino: Ino, cred: &Arc<Cred>, read: &mut Read) -> Option<CallResult> {
        read.stale += 1;
        (read.is_stale, read.redo) = (false, false);
        read.parts.clear();
        read.asked = Asked::Size;
        self.request(cred, Op::GetAttr { ino }, Then::Task(id));
        None
    }

    fn restart(&mut self, id: u64, ino: Ino, cred: &Arc<Cred>, read: &mut Read) -> Option<CallResult> {
        read.tries += 1;
        read.redo = false;
        read.missing = 0;
        read.parts.clear();
        self.begin_read(id, ino, cred, read)
    }

    fn begin_read(&mut self, id: u64, ino: Ino, cred: &Arc<Cred>, read: &mut Read) -> Option<CallResult> {
        if let Some(bytes) = self.files.read_now(&self.ranks, &self.own, ino, read.offset, read.offset + read.len) {
            self.files.after_read(&mut self.core, ino, read.fh);
            return Some(Ok(Done::plain(Answer::Bytes(bytes))));
        }
        let suspended = self.files.is_suspended(&self.ranks, &self.own, ino);
        let current = self.ranks.has_attr(&self.own, ino) && !suspended;
        let Some(file) = self.files.map.get(&ino) else { return Some(Err(FsError::Stale.into())) };
        if file.may_cache() && !suspended || current && file.current && file.is_clean() {
            read.end = (read.offset + read.len).min(file.size);
            let (inline, size) = (file.attr.inline, file.attr.size);
            read.change = file.attr.change;
            return self.fetch(id, ino, cred, read, inline, size);
        }
        read.asked = Asked::Size;
        self.request(cred, Op::GetAttr { ino }, Then::Task(id));
        None
    }

    /// Asks for the bytes. `size`: of the file at the server.
    fn fetch(
        &mut self,
        id: u64,
        ino: Ino,
        cred: &Arc<Cred>,
        read: &mut Read,
        inline: bool,
        size: u64,
    ) -> Option<CallResult> {
        if read.offset >= read.end {
            return self.files.finish_read(&mut self.core, ino, read);
        }
        if inline {
            let Some(handle) = self.files.opened.get(&read.fh).map(|opened| opened.handle) else {
                return Some(Err(FsError::Interrupted.into()));
            };
            read.asked = Asked::Inline;
            self.request(cred, Op::ReadInline { ino, handle }, Then::Task(id));
            return None;
        }
        read.asked = Asked::Bytes;
        let Some(file) = self.files.map.get_mut(&ino) else { return Some(Err(FsError::Stale.into())) };
        let wanted: Vec<_> = missing(file, read.offset, read.end)
            .into_iter()
            .map(|(start, stop)| (start, stop.min(size)))
            .filter(|(start, stop)| start < stop)
            .collect();
        let cache = file.may_cache() && !file.is_gated();
        let sequential = self.files.is_sequential(read.fh, read.offset);
        for (start, stop) in wanted {
            if cache && sequential {
                self.fetch_blocks(id, ino, read, start, stop);
            } else {
                self.fetch_exactly(id, ino, read, start, stop);
            }
        }
        if read.missing == 0 {
            return self.files.finish_read(&mut self.core, ino, read);
        }
        if cache {
            self.read_ahead(ino, read.fh, read.offset, read.end);
        }
        None
    }

    fn fetch_exactly(&mut self, id: u64, ino: Ino, read: &mut Read, start: u64, stop: u64) {
        let op = DataOp::Read { offset: start, len: (stop - start) as u32 };
        read.missing += 1;
        self.data_request(ino, op, DataThen::Read { task: id, at: start });
    }

    fn fetch_blocks(&mut self, id: u64, ino: Ino, read: &mut Read, start: u64, stop: u64) {
        self.files.tick += 1;
        let tick = self.files.tick;
        for block in blocks(start, stop) {
            let (from, to) = (start.max(block), stop.min(block + BLOCK));
            let Some(file) = self.files.map.get_mut(&ino) else { return };
            if file.blocks.reaches(block, to)
                && let Some(bytes) = file.blocks.get(block, tick)
            {
                read.parts.push((block, Arc::clone(bytes)));
                continue;
            }
            match file.blocks.fetches.get_mut(&block) {
                Some(fetch) if !fetch.tainted && fetch.end >= to => {
                    fetch.readers.push(id);
                    read.missing += 1;
                }
                Some(_) => self.fetch_exactly(id, ino, read, from, to),
                None => {
                    read.missing += 1;
                    self.start_fetch(ino, block, vec![id]);
                }
            }
        }
    }

    fn start_fetch(&mut self, ino: Ino, block: u64, readers: Vec<u64>) {
        let Some(file) = self.files.map.get(&ino) else { return };
        let end = (block + BLOCK).min(file.attr.size);
        let op = DataOp::Read { offset: block, len: (end - block) as u32 };
        let request = self.data_request(ino, op, DataThen::Block { ino, start: block });
        if let Some(file) = self.files.map.get_mut(&ino) {
            file.blocks.fetches.insert(block, Fetch { request, end, tainted: false, readers });
        }
    }

    /// Fetches what a sequential reader will want next.
    fn read_ahead(&mut self, ino: Ino, fh: Fh, offset: u64, end: u64) {
        let sequential = self.files.is_sequential(fh, offset);
        let Some(opened) = self.files.opened.get_mut(&fh) else { return };
        if !sequential {
            (opened.next_read, opened.window) = (end, 0);
            return;
        }
        let advanced = end > opened.next_read;
        let first = opened.next_read == 0;
        opened.next_read = opened.next_read.max(end);
        if !advanced || first {
            return;
        }
        opened.window = (opened.window * 2).clamp(BLOCK, self.core.config.read_ahead.max(BLOCK));
        let (from, window) = (opened.next_read, opened.window);
        if self.core.config.read_ahead == 0 {
            return;
        }
        let Some(file) = self.files.map.get_mut(&ino) else { return };
        if !file.may_cache() || file.attr.inline || file.is_gated() {
            return;
        }
        let until = from.saturating_add(window).min(file.attr.size);
        let wanted: Vec<u64> = blocks(from, until)
            .filter(|block| {
                let end = (block + BLOCK).min(file.attr.size);
                !file.blocks.fetches.contains_key(block) && !file.blocks.reaches(*block, end)
            })
            .collect();
        for block in wanted {
            self.start_fetch(ino, block, Vec::new());
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
fn blocks(start: u64, end: u64) -> impl Iterator<Item = u64> {
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
