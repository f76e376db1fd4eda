//! Calls on the space of a file: fallocate, seeking for data and holes, copying a range; and syncing everything.

use loligo_types::limits::FILE_SIZE_MAX;
use loligo_types::{FsError, FsResult, Ino};

use crate::file::Files;
use crate::task::Event;
use crate::{CallResult, Done, Fallocate, Fh};

/// A fallocate on shared data is begun again at most this often, because the file was cut under it.
pub(crate) const FALLOC_TRIES_MAX: u32 = 16;
/// Bytes copied or zeroed in one step.
pub(crate) const CHUNK: u64 = 1 << 20;

/// A fallocate under way.
#[derive(Debug)]
pub(crate) struct Falloc {
    pub fh: Fh,
    pub how: Fallocate,
    pub offset: u64,
    pub end: u64,
    pub kill_priv: bool,
    pub asked: Asked,
    /// The server knows that the file was changed: times and privileges are as they must be.
    pub told: bool,
    pub tries: u32,
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
