//! Calls on the space of a file, as far as they are: fallocate, seeking for data and holes, copying a range. What a fallocate needs next is
//! decided here. Not here: what is asked for them (`change`, `data`).

use std::sync::Arc;

use loligo_types::limits::FILE_SIZE_MAX;
use loligo_types::{Answer, DataOp, FsError, FsResult, Ino, Op, SetTime};

use crate::call::Failed;
use crate::calls::Calls;
use crate::core::Core;
use crate::file::Files;
use crate::ranks::Ranks;
use crate::task::{Event, data_error};
use crate::writing::Write;
use crate::{CallResult, Done, Fallocate, Fh};

/// A fallocate on shared data is begun again at most this often, because the file was cut under it.
const FALLOC_TRIES_MAX: u32 = 16;
/// Bytes copied or zeroed in one step.
pub(crate) const CHUNK: u64 = 1 << 20;

/// A fallocate under way.
#[derive(Debug)]
pub(crate) struct Falloc {
    fh: Fh,
    how: Fallocate,
    offset: u64,
    pub end: u64,
    pub kill_priv: bool,
    asked: Asked,
    /// The server knows that the file was changed: times and privileges are as they must be.
    told: bool,
    tries: u32,
}

/// The request whose answer comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    Flush,
    Size,
    Punch,
    Tell,
    Grow,
    /// Only times and privileges change.
    Touch,
    /// An inline range is overwritten with zeros by calls.
    Zero(u64),
}

/// A seek under way.
#[derive(Debug)]
pub(crate) struct Seek {
    pub offset: u64,
    pub data: bool,
    /// Number of refusals by the server because the file had changed by then.
    pub stale: u32,
}

impl Seek {
    pub(crate) fn new(offset: u64, data: bool) -> Seek {
        Seek { offset, data, stale: 0 }
    }
}

/// A copy under way.
#[derive(Debug)]
pub(crate) struct Copy {
    pub from: Fh,
    pub from_offset: u64,
    pub to: Fh,
    pub to_offset: u64,
    pub left: u64,
    pub copied: u64,
    pub kill_priv: bool,
}

/// The next need of a fallocate.
pub(crate) enum Next {
    /// Answers that are on their way.
    Wait,
    /// That all is at the server that was written before.
    Flush,
    Ask(Op),
    /// A look at the attributes, after so many.
    Look(u32),
    Data(DataOp),
    /// A call that writes zeros.
    Write(Write),
    /// A call that makes the file reach to the end of the range.
    Grow {
        handle: u64,
    },
    /// Nothing: it is over.
    Done(CallResult),
}

impl Falloc {
    /// The file that it is about, and how it begins.
    pub(crate) fn new(
        files: &Files,
        fh: Fh,
        (how, kill_priv): (Fallocate, bool),
        offset: u64,
        len: u64,
    ) -> FsResult<(Ino, Falloc)> {
        let (ino, _) = files.file_of(fh, true)?;
        let end = match offset.checked_add(len) {
            _ if len == 0 => return Err(FsError::Invalid),
            Some(end) if end <= FILE_SIZE_MAX => end,
            _ => return Err(FsError::FileTooBig),
        };
        Ok((ino, Falloc { fh, how, offset, end, kill_priv, asked: Asked::Flush, told: false, tries: 0 }))
    }

    /// Something came that it has waited for.
    pub(crate) fn heard(
        &mut self,
        files: &mut Files,
        core: &mut Core,
        calls: &mut Calls,
        ranks: &mut Ranks,
        ino: Ino,
        event: Event,
    ) -> Next {
        match (event, self.asked) {
            (Event::Start, _) => Next::Flush,
            (Event::Flushed, _) => {
                self.asked = Asked::Size;
                Next::Ask(Op::GetAttr { ino })
            }
            // Cut since its attributes were seen: looks, and begins again.
            (Event::Reply(Err(FsError::Stale | FsError::Busy)), Asked::Tell | Asked::Grow | Asked::Touch)
                if self.tries < FALLOC_TRIES_MAX =>
            {
                self.tries += 1;
                self.asked = Asked::Size;
                Next::Look(self.tries)
            }
            (Event::Reply(Err(error)), _) | (Event::Done(Err(Failed { error, .. })), _) => {
                Next::Done(Err(error.into()))
            }
            (Event::Data(Err(error)), _) => Next::Done(Err(data_error(error).into())),
            (Event::Reply(Ok(answer)), Asked::Size) => {
                let Answer::Entry(attr) = answer else { return Next::Done(Err(FsError::Io.into())) };
                let mut attr = attr;
                files.overlay(&mut attr);
                if self.tries > 0 {
                    ranks.say_given_up(core, files, ino);
                }
                let stop = self.end.min(attr.size);
                if matches!(self.how, Fallocate::Allocate { .. }) || self.offset >= stop {
                    return self.grow(files, ino, attr.size);
                }
                if attr.inline {
                    self.asked = Asked::Zero(self.offset);
                    return self.zero(files, ino, attr.size);
                }
                // What came meanwhile (also from a restart of the server) must not be written over the hole.
                if files.map.get(&ino).is_some_and(|file| file.has_waiting(self.offset, stop)) {
                    self.asked = Asked::Flush;
                    return Next::Flush;
                }
                self.asked = Asked::Punch;
                if let Some(file) = files.map.get_mut(&ino) {
                    (file.unsynced, file.at_risk) = (true, true);
                    file.drop_unstable(self.offset, stop);
                }
                let op = DataOp::Punch { offset: self.offset, len: stop - self.offset };
                Next::Data(op)
            }
            (Event::Data(Ok(_)), Asked::Punch) => {
                let (start, end) = (self.offset, self.end);
                calls.redo_reads(files, ino, start, end);
                files.change_blocks(ino, |file| file.blocks.drop_range(start, end));
                let Some(handle) = files.opened.get(&self.fh).map(|opened| opened.handle) else {
                    return Next::Done(Err(FsError::Interrupted.into()));
                };
                let Some(file) = files.map.get_mut(&ino) else { return Next::Done(Err(FsError::Stale.into())) };
                (file.unsynced, file.at_risk) = (true, true);
                let (cuts, kill_priv) = (file.attr.cuts, self.kill_priv);
                let (mtime, spilled) = (SetTime::Now, false);
                self.asked = Asked::Tell;
                let (grow_to, behind) = (None, None);
                let op = Op::SetData { ino, handle, cuts, grow_to, behind, mtime, spilled, kill_priv, patches: None };
                Next::Ask(op)
            }
            (Event::Done(Ok(_)), Asked::Zero(_)) => {
                self.told = true;
                let size = files.map.get(&ino).map_or(0, |file| file.size);
                self.zero(files, ino, size)
            }
            (Event::Reply(Ok(_)), Asked::Tell) => {
                self.told = true;
                let size = files.map.get(&ino).map_or(0, |file| file.size);
                self.grow(files, ino, size)
            }
            (Event::Done(Ok(_)) | Event::Reply(Ok(_)), _) => Next::Done(Ok(Done::plain(Answer::Done))),
            _ => Next::Wait,
        }
    }

    /// Overwrites the next part of an inline range with zeros.
    fn zero(&mut self, files: &Files, ino: Ino, size: u64) -> Next {
        let Asked::Zero(at) = self.asked else { return Next::Wait };
        let stop = self.end.min(size);
        if at >= stop {
            return self.grow(files, ino, size);
        }
        let len = (stop - at).min(CHUNK);
        self.asked = Asked::Zero(at + len);
        let data = Arc::from(vec![0; len as usize]);
        Next::Write(Write { fh: self.fh, offset: at, data, append: false, kill_priv: self.kill_priv })
    }

    /// Makes the file reach over the range, if that is meant.
    fn grow(&mut self, files: &Files, ino: Ino, size: u64) -> Next {
        let keep = match self.how {
            Fallocate::PunchHole => true,
            Fallocate::Allocate { keep_size } | Fallocate::ZeroRange { keep_size } => keep_size,
        };
        let grows = !keep && self.end > size;
        if !grows && self.told {
            return Next::Done(Ok(Done::plain(Answer::Done)));
        }
        let Some(file) = files.map.get(&ino) else { return Next::Done(Err(FsError::Stale.into())) };
        let Some(handle) = files.opened.get(&self.fh).map(|opened| opened.handle) else {
            return Next::Done(Err(FsError::Interrupted.into()));
        };
        let kill_priv = self.kill_priv;
        self.asked = if grows { Asked::Grow } else { Asked::Touch };
        if !grows {
            let (cuts, mtime) = (file.attr.cuts, SetTime::Now);
            let (grow_to, behind, spilled, patches) = (None, None, false, None);
            let op = Op::SetData { ino, handle, cuts, grow_to, behind, mtime, spilled, kill_priv, patches };
            Next::Ask(op)
        } else if file.may_buffer() {
            Next::Grow { handle }
        } else if file.attr.inline {
            let (offset, data, mtime) = (Some(self.end), Arc::from(&[][..]), SetTime::Now);
            let op = Op::WriteInline { ino, handle, offset, data, mtime, kill_priv };
            Next::Ask(op)
        } else {
            // Others may let the file grow at the same time: this never shrinks it.
            let cuts = file.attr.cuts;
            let (grow_to, behind, mtime, spilled, patches) = (Some(self.end), None, SetTime::Now, false, None);
            let op = Op::SetData { ino, handle, cuts, grow_to, behind, mtime, spilled, kill_priv, patches };
            Next::Ask(op)
        }
    }
}

impl Copy {
    pub(crate) fn new((from, from_offset): (Fh, u64), (to, to_offset): (Fh, u64), len: u64, kill_priv: bool) -> Copy {
        Copy { from, from_offset, to, to_offset, left: len, copied: 0, kill_priv }
    }

    /// The file that is written, if it can be done.
    pub(crate) fn target(&self, files: &Files) -> FsResult<Ino> {
        let (from, to) = (files.file_of(self.from, false), files.file_of(self.to, true));
        let ((from, _), (to, _)) = (from?, to?);
        let far = |offset: u64| offset.checked_add(self.left).filter(|end| *end <= FILE_SIZE_MAX);
        let (Some(from_end), Some(to_end)) = (far(self.from_offset), far(self.to_offset)) else {
            return Err(FsError::FileTooBig);
        };
        if from == to && self.from_offset < to_end && self.to_offset < from_end {
            return Err(FsError::Invalid);
        }
        Ok(to)
    }
}

/// A rank has answered.
pub(crate) fn step_sync_ranks(left: &mut usize, event: Event) -> Option<CallResult> {
    let Event::Reply(result) = event else { return None };
    *left = left.saturating_sub(1);
    match result {
        Err(error) => Some(Err(error.into())),
        Ok(answer) => (*left == 0).then(|| Ok(Done::plain(answer))),
    }
}
