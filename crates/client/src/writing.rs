//! A write under way, and the buffer: how to write, and what is to be asked next, is decided here from the state of files; it is
//! asked in `write`.
//!
//! Through to the server the bytes go first, and the size is told when they are there: until then nobody sees anything of what
//! is written behind the end. An append reserves room there before. The room is good in the life of the rank that gave it: if
//! that restarts, or the file moves to another one, bytes that are under way are not sent there, and the append begins anew.

use std::collections::VecDeque;
use std::sync::Arc;

use loligo_types::{Answer, Cred, DataError, DataOp, FsError, FsResult, Ino, JournalMode, Op, SetTime};

use crate::calls::Calls;
use crate::core::Core;
use crate::extents::split;
use crate::file::Files;
use crate::ranks::Ranks;
use crate::session::DataThen;
use crate::task::{Event, Step, data_error};
use crate::{CallResult, Done, Fh};

/// A write to shared data is begun again at most this often, because the file moved or was cut under it.
const TRIES_MAX: u32 = 16;
/// Pieces of one write that are on their way at a time.
const WINDOW: usize = 16;

/// A write as it was called.
#[derive(Debug)]
pub(crate) struct Write {
    pub fh: Fh,
    pub offset: u64,
    pub data: Arc<[u8]>,
    pub append: bool,
    pub kill_priv: bool,
}

/// A write under way.
#[derive(Debug)]
pub(crate) struct Writing {
    pub write: Write,
    pub handle: u64,
    asked: Asked,
    /// Where it goes, when known.
    at: u64,
    /// An append that has its place already.
    placed: bool,
    /// The size was told once: it is only written again because the server restarted.
    told: bool,
    /// The first byte that lies behind the end as it was known when the first byte was sent.
    behind: Option<u64>,
    /// Bytes behind the end may be at the server that are not told of.
    leaves: bool,
    /// It is to be durable before a size that covers it is told: the sync of that was not asked for yet.
    syncs: bool,
    /// Cuts of the file that were known when the first byte was sent: a later one may have dropped it.
    cuts: u32,
    /// And restarts of the server: what was written before one and not told of may be gone.
    restarts: u64,
    queue: VecDeque<(u64, Arc<[u8]>)>,
    in_flight: usize,
    error: Option<FsError>,
    tries: u32,
    /// Its number among the buffered writes of the file, if it is in the buffer.
    pub number: u64,
}

/// The meaning of the next answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Nothing,
    Inline,
    Refresh,
    Extend,
    /// That nothing shows in a gap.
    Discard,
    Data,
    Tell,
    /// It is in the buffer, and is not answered before that was written.
    Flush,
}

/// The next need of a write.
pub(crate) enum Next {
    /// Answers that are on their way.
    Wait,
    Ask(Op),
    /// A look at the attributes, after so many.
    Look(u32),
    Data(DataOp),
    /// That all is at the server that was written before.
    Flush,
    /// To begin (again).
    Begin,
    /// To be written to the server.
    Through,
    /// Its next pieces.
    Pieces,
    /// Nothing: it is in the buffer. `full`: which is to be written.
    Buffered {
        full: bool,
    },
    /// Nothing: it is over.
    Done(CallResult),
}

impl Writing {
    pub(crate) fn new(write: Write, handle: u64) -> Writing {
        Writing {
            write,
            handle,
            asked: Asked::Nothing,
            at: 0,
            placed: false,
            told: false,
            behind: None,
            leaves: false,
            syncs: false,
            cuts: 0,
            restarts: 0,
            queue: VecDeque::new(),
            in_flight: 0,
            error: None,
            tries: 0,
            number: 0,
        }
    }

    /// All of it is written.
    pub(crate) fn written(&self) -> CallResult {
        Ok(Done::plain(Answer::Offset(self.write.data.len() as u64)))
    }

    /// True if an event ends the dropping of what lies behind the end.
    pub(crate) fn ends_discard(&self, event: &Event) -> bool {
        matches!(event, Event::Data(_)) && self.asked == Asked::Discard
    }

    /// True if it has failed and others may wait for its room, or something is left behind the end.
    pub(crate) fn leaves_something(&self, files: &Files) -> bool {
        (self.leaves || self.placed && !self.told) && files.at.contains_key(&self.handle)
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
        match event {
            Event::Start => Next::Begin,
            Event::Flushed if self.asked == Asked::Nothing => Next::Through,
            Event::Flushed => Next::Done(files.written_through(ino, self)),
            Event::Data(result) if self.asked == Asked::Discard => match result {
                Ok(_) => Next::Through,
                // It may have moved unheard. By rights that are in doubt nothing is discarded elsewhere: it is looked anew how
                // to write. If the handle was lost, the write is refused.
                Err(DataError::Stale) if self.tries < TRIES_MAX => self.look_again(),
                Err(error) => Next::Done(Err(data_error(error).into())),
            },
            Event::Data(result) => {
                self.in_flight = self.in_flight.saturating_sub(1);
                if let Err(error) = result {
                    self.error.get_or_insert(data_error(error));
                    self.queue.clear();
                }
                Next::Pieces
            }
            Event::Reply(result) => self.replied(files, core, calls, ranks, ino, result),
            _ => Next::Wait,
        }
    }

    /// A request of it was answered.
    fn replied(
        &mut self,
        files: &mut Files,
        core: &mut Core,
        calls: &mut Calls,
        ranks: &mut Ranks,
        ino: Ino,
        result: FsResult<Answer>,
    ) -> Next {
        match (self.asked, result) {
            (Asked::Tell, Ok(_)) if self.restarts != files.restarts(ranks, ino) && self.tries < TRIES_MAX => {
                self.tries += 1;
                self.told = true;
                Next::Through
            }
            // What was written and told of was cut away since.
            (Asked::Tell, Err(FsError::Stale)) if self.told && self.write.append => Next::Done(self.written()),
            (Asked::Inline | Asked::Tell, Ok(_)) => {
                // Readers may be allowed to cache what no other client writes.
                let (start, end) = match files.map.get_mut(&ino) {
                    Some(file) if self.asked == Asked::Inline => {
                        file.base = None;
                        (0, u64::MAX)
                    }
                    _ => (self.at, self.at + self.write.data.len() as u64),
                };
                calls.redo_reads(files, ino, start, end);
                files.change_blocks(ino, |file| file.blocks.drop_range(start, end));
                files.after_read(core, ino, self.write.fh);
                Next::Done(self.written())
            }
            // Cut, or moved to or from objects since its attributes were seen: looks, and writes again.
            (Asked::Inline | Asked::Tell | Asked::Extend, Err(FsError::Busy | FsError::Stale))
                if self.tries < TRIES_MAX =>
            {
                self.look_again()
            }
            // It was known when it was given room.
            (Asked::Extend, Err(FsError::BadHandle)) if self.tries > 0 => Next::Done(Err(FsError::Stale.into())),
            (Asked::Refresh, Ok(_)) => {
                // The right to hold back may have come meanwhile, with another open: then the server leaves it to this client to
                // move the file to objects. It does so, too, if this client has given the right up without a word.
                ranks.say_given_up(core, files, ino);
                self.asked = Asked::Nothing;
                Next::Begin
            }
            (Asked::Extend, Ok(Answer::Offset(at))) => {
                (self.at, self.placed) = (at, true);
                Next::Through
            }
            (_, Err(error)) => Next::Done(Err(error.into())),
            (_, Ok(_)) => Next::Done(Err(FsError::Io.into())),
        }
    }

    /// The file is not what it was taken for: looks at its attributes, and writes again. An append has no place then.
    fn look_again(&mut self) -> Next {
        self.tries += 1;
        (self.asked, self.placed) = (Asked::Refresh, false);
        Next::Look(self.tries)
    }

    /// It has the file to itself: now, not earlier, is known how to write.
    pub(crate) fn begin(&mut self, files: &mut Files, core: &Core, ino: Ino, cred: &Arc<Cred>) -> Next {
        let Some(file) = files.map.get(&ino) else { return Next::Done(Err(FsError::Stale.into())) };
        if file.may_buffer() {
            let kills = self.write.kill_priv && file.attr.mode & 0o6000 != 0;
            let through = core.now.ms < files.full_until || kills;
            if let Err(error) = files.buffer(core, ino, &self.write) {
                return Next::Done(Err(error.into()));
            }
            if let (true, Some(file)) = (kills, files.map.get_mut(&ino)) {
                // Setgid goes by the groups of who writes, and not of who has it open otherwise.
                file.kill_cred = Some(Arc::clone(cred));
            }
            if !through {
                let full = files.map.get(&ino).is_some_and(|f| f.dirty.bytes() >= core.config.write_behind);
                return Next::Buffered { full };
            }
            self.asked = Asked::Flush;
            self.number = files.map.get(&ino).map_or(0, |file| file.written);
            return Next::Flush;
        }
        // What was held back is older.
        if file.is_clean() { Next::Through } else { Next::Flush }
    }

    /// Writes to the server, which others write to as well.
    pub(crate) fn through(&mut self, files: &mut Files, ranks: &Ranks, ino: Ino) -> Next {
        let restarts = files.restarts(ranks, ino);
        let Some(file) = files.map.get_mut(&ino) else { return Next::Done(Err(FsError::Stale.into())) };
        let write = &self.write;
        let (handle, kill_priv) = (self.handle, write.kill_priv);
        if file.attr.inline {
            // If it does not fit, the server moves the file to objects and says so.
            let offset = if write.append { None } else { Some(write.offset) };
            let data = Arc::clone(&write.data);
            self.asked = Asked::Inline;
            return Next::Ask(Op::WriteInline { ino, handle, offset, data, mtime: SetTime::Now, kill_priv });
        }
        if write.append && !self.placed {
            self.asked = Asked::Extend;
            return Next::Ask(Op::Extend { ino, handle, len: write.data.len() as u64 });
        }
        if !self.placed {
            self.at = write.offset;
        }
        if file.may_cache() && self.at > file.attr.size && self.asked != Asked::Discard {
            // Nobody else has the file open, so what lies beyond the end was left by one who died.
            self.asked = Asked::Discard;
            file.discarding = true;
            return Next::Data(DataOp::Discard { from: file.attr.size });
        }
        let end = self.at + write.data.len() as u64;
        self.behind = (end > file.attr.size).then(|| self.at.max(file.attr.size));
        self.leaves |= self.behind.is_some();
        self.syncs = self.behind.is_some() && file.journaling.mode == JournalMode::Ordered;
        (self.cuts, self.restarts) = (file.attr.cuts, restarts);
        let mut pieces = Vec::new();
        split(self.at, &write.data, &mut pieces);
        self.queue = pieces.into();
        self.asked = Asked::Data;
        Next::Pieces
    }

    /// The next piece; after the last one's answer the size is told.
    pub(crate) fn next_piece(&mut self, files: &mut Files, ino: Ino) -> Next {
        if self.in_flight < WINDOW
            && let Some((offset, data)) = self.queue.pop_front()
        {
            self.in_flight += 1;
            if let Some(file) = files.map.get_mut(&ino) {
                // Others write, too: it cannot be written again later.
                (file.unsynced, file.at_risk) = (true, true);
            }
            return Next::Data(DataOp::Write { offset, data });
        }
        if self.in_flight > 0 {
            return Next::Wait;
        }
        match self.error {
            // The room is lost, with the rank or with its former life.
            Some(FsError::Stale) if self.placed && !self.told && self.tries < TRIES_MAX => {
                self.error = None;
                return self.look_again();
            }
            Some(error) => return Next::Done(Err(error.into())),
            None if std::mem::take(&mut self.syncs) => {
                self.in_flight += 1;
                return Next::Data(DataOp::Sync);
            }
            None => {}
        }
        let Some(file) = files.map.get_mut(&ino) else { return Next::Done(Err(FsError::Stale.into())) };
        file.unsynced = true;
        let end = self.at + self.write.data.len() as u64;
        self.asked = Asked::Tell;
        Next::Ask(Op::SetData {
            ino,
            handle: self.handle,
            cuts: self.cuts,
            grow_to: Some(end),
            behind: self.behind,
            mtime: SetTime::Now,
            spilled: false,
            kill_priv: self.write.kill_priv,
            patches: None,
        })
    }
}

impl Calls {
    /// True if a task appends into room that it was given, and has not told of it: its data belongs nowhere else.
    pub(crate) fn rests_on_room(&self, then: &DataThen) -> bool {
        let DataThen::Task(task) = then else { return false };
        let step = self.tasks.get(task).map(|task| &task.step);
        matches!(step, Some(Step::Write(writing)) if writing.asked == Asked::Data && writing.placed && !writing.told)
    }
}
