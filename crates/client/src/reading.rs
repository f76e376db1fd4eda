//! A read under way, and the bytes of files that are kept: what is read from them, and what is to be asked next, is decided here from
//! the state of files; it is asked in `read`.
//!
//! Where the server has let the client cache, sizes and bytes known here are the truth. Where it has not (several
//! clients, one writing), every read asks for the size first and takes the bytes from the server.

use std::sync::Arc;

use loligo_types::{Answer, DataAnswer, DataError, FsError, Ino, Op};

use crate::cache::{compose, missing};
use crate::core::Core;
use crate::file::Files;
use crate::own::Own;
use crate::ranks::Ranks;
use crate::task::{Event, data_error};
use crate::{CallResult, Done, Fh};

/// Reads begun again at most this often because what they read was overtaken by writes.
const TRIES_MAX: u32 = 64;
/// Reads begun again at most this often because the server refused bytes.
pub(crate) const STALE_MAX: u32 = 16;
/// A read this near to where the last one ended is sequential: several threads of a kernel read ahead out of order.
pub(crate) const NEAR: u64 = 1 << 20;

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
                    return self.finish(files, core, ino);
                }
                // Zeros may follow it, or it may have been cut after the size was seen.
                self.asked = Asked::Verify;
                return Next::Ask(Op::GetAttr { ino });
            }
            Event::Reply(Ok(Answer::Entry(attr)))
                if self.asked == Asked::Verify && (attr.change == self.change || self.tries >= TRIES_MAX) =>
            {
                return self.finish(files, core, ino);
            }
            Event::Reply(Ok(Answer::Entry(attr))) if matches!(self.asked, Asked::Size | Asked::Verify) => {
                self.tries += 1;
                self.change = attr.change;
                self.parts.clear();
                // Buffered data may reach beyond the size that the server has.
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
                    return self.finish(files, core, ino);
                }
            }
            _ => {}
        }
        Next::Wait
    }

    pub(crate) fn finish(&mut self, files: &Files, core: &mut Core, ino: Ino) -> Next {
        let Some(file) = files.map.get(&ino) else { return Next::Done(Err(FsError::Stale.into())) };
        let bytes = if self.offset >= self.end {
            Arc::from(&[][..])
        } else {
            let parts = std::mem::take(&mut self.parts);
            compose(file, self.offset, self.end, &parts)
        };
        files.after_read(core, ino, self.fh);
        Next::Done(Ok(Done::plain(Answer::Bytes(bytes))))
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

/// The bytes of an answer to a read.
pub(crate) fn bytes_at(at: u64, result: Result<DataAnswer, DataError>) -> Result<(u64, Arc<[u8]>), DataError> {
    match result? {
        DataAnswer::Bytes(bytes) => Ok((at, bytes)),
        // The server breaks the protocol; nothing it said can be used.
        _ => Err(DataError::Io),
    }
}
