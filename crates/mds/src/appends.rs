//! Room at the end of a file of objects that several write: who appends reserves some, writes it, and tells the size then.
//!
//! The size is what makes an append visible, and it never covers room that is not written:
//!
//! - **In order.** Room is reserved behind the end of the file and behind all other room. Whoever has written his tells the size when
//!   all before him have told theirs; until then he waits.
//! - **Given up.** An append that fails, or whose session ends, gives its room up. What is reserved behind it does not follow the end of the file any
//!   more: who has that is refused when he tells the size, and reserves anew. Until all of those are, nothing is reserved: each has written
//!   by then what he was about to write, so that it does not come after what is written there next. What they have left is dropped before
//!   (`tidy`).
//! - **Cuts wait** until what is reserved is written or given up, and nothing more is reserved while one waits.
//! - **Writers at an offset** that goes beyond the end reserve nothing. One who would let the file grow over reserved room waits. If an append
//!   lies by now where he has written behind the end as he knew it, its bytes may be over his: he is refused, and writes again.
//! - **In time.** A session that keeps its room for as long as it may take to obey a recall, while somebody waits for that, is ended as if it did
//!   not obey one.
//!
//! It is all in memory, with what is open. A client whose append is under way when its rank restarts, or the file moves to another
//! one, begins it anew.

use loligo_types::{Answer, FsError, Ino, Inode, Op, limits};

use crate::core::Core;
use crate::eof_cleanup::EofCleanup;
use crate::job::{Job, WaitReason};
use crate::open::{Handle, Opens};
use crate::room::{Appended, Room};
use crate::session::Slot;
use crate::step::Step;

impl Opens {
    /// Checks a request on the end of a file against the room that is reserved there: its step, or `None` if it goes
    /// on.
    pub(crate) fn room_first(
        &mut self,
        core: &Core,
        tidy: &mut EofCleanup,
        job: &mut Job,
        held: Option<Handle>,
    ) -> Option<Step> {
        match job.op {
            Op::Extend { ino, len, .. } if held.is_some_and(|handle| handle.write) => {
                self.room_wanted(tidy, job, ino, len)
            }
            Op::SetData { ino, grow_to: Some(to), behind, cuts, .. } if held.is_some_and(|handle| handle.write) => {
                match self.room(ino, job.slot).filter(|room| room.end == to) {
                    Some(room) => self.room_written(core, job, ino, room),
                    None => self.grows_elsewhere(core, tidy, ino, cuts, to, behind),
                }
            }
            Op::SetAttr { ino, ref set, .. } if set.size.is_some() => self.wait_for_rooms(tidy, ino).map(Step::Wait),
            Op::Open { ino, flags, .. } if flags.truncate => self.wait_for_rooms(tidy, ino).map(Step::Wait),
            _ => None,
        }
    }

    fn room_wanted(&mut self, tidy: &mut EofCleanup, job: &Job, ino: Ino, len: u64) -> Option<Step> {
        if let Some(room) = self.room(ino, job.slot) {
            if room.seq == job.seq {
                return Some(Step::Answer(Ok(Answer::Offset(room.start))));
            }
            // A client writes one thing at a time to a file: that one is over.
            self.end_room(ino, job.slot, false);
        }
        if len == 0 {
            // The first growth that comes drops what may be left.
            tidy.forget(ino);
            return None;
        }
        let blocked = self.rooms(ino).any(|room| room.broken);
        let waits = blocked || self.has_rooms(ino) && !tidy.takes_appends(ino);
        if waits { self.wait_for_rooms(tidy, ino).map(Step::Wait) } else { None }
    }

    /// Somebody has written his room.
    fn room_written(&mut self, core: &Core, job: &mut Job, ino: Ino, room: Room) -> Option<Step> {
        let is_first = self.rooms(ino).all(|other| other.start >= room.start);
        if !room.broken && !is_first {
            return Some(Step::Wait(WaitReason::Data(ino)));
        }
        let fits = |inode: &Inode| !inode.inline && inode.cuts == room.cuts && inode.size == room.start;
        if room.broken || !core.tree.inode(ino).is_some_and(fits) {
            self.end_room(ino, job.slot, false);
            return Some(Step::Answer(Err(FsError::Stale)));
        }
        if let Op::SetData { cuts, .. } = &mut job.op {
            // Cuts wait for him: he has missed none since he reserved it.
            *cuts = room.cuts;
        }
        None
    }

    /// A writer at an offset lets the file grow, or did so as he knew it.
    fn grows_elsewhere(
        &self,
        core: &Core,
        tidy: &mut EofCleanup,
        ino: Ino,
        known: u32,
        to: u64,
        behind: Option<u64>,
    ) -> Option<Step> {
        let inode = core.tree.inode(ino).filter(|inode| inode.cuts == known)?;
        let (size, cuts) = (inode.size, inode.cuts);
        if to > size && self.rooms(ino).any(|room| room.start < to) {
            return self.wait_for_rooms(tidy, ino).map(Step::Wait);
        }
        let behind = behind.filter(|behind| *behind < to.min(size))?;
        let overtaken = match tidy.appended(ino) {
            Some(appended) => appended.cuts == cuts && appended.start < to && behind < appended.end,
            None => !tidy.is_known(ino),
        };
        overtaken.then_some(Step::Answer(Err(FsError::Stale)))
    }

    /// Reserves room behind the end of the file.
    pub(crate) fn reserve_behind(&mut self, core: &Core, job: &Job, ino: Ino, len: u64) -> Step {
        let Some(inode) = core.tree.inode(ino) else { return Step::Answer(Err(FsError::Stale)) };
        let (size, cuts) = (inode.size, inode.cuts);
        let start = self.rooms(ino).map(|room| room.end).fold(size, u64::max);
        let Some(end) = start.checked_add(len).filter(|end| *end <= limits::FILE_SIZE_MAX) else {
            return Step::Answer(Err(FsError::FileTooBig));
        };
        let room = Room { seq: job.seq, start, end, cuts, broken: false, since_ms: core.now.mono_ms };
        if !self.reserve(ino, job.slot, room) {
            return Step::Answer(Err(FsError::BadHandle));
        }
        Step::Answer(Ok(Answer::Offset(start)))
    }

    /// The size was told, and covers the room that the session had.
    pub(crate) fn room_used(&mut self, tidy: &mut EofCleanup, job: &Job) {
        let Op::SetData { ino, grow_to: Some(to), .. } = job.op else { return };
        let Some(room) = self.room(ino, job.slot).filter(|room| room.end == to) else { return };
        self.end_room(ino, job.slot, true);
        tidy.append(ino, Appended { cuts: room.cuts, start: room.start, end: room.end });
    }

    /// Sessions that have had room since before then for which others wait.
    pub(crate) fn slow_writers<'a>(&'a self, tidy: &'a EofCleanup, before_ms: u64) -> impl Iterator<Item = Slot> + 'a {
        let is_waited_for = |ino: Ino| tidy.is_end_closed(ino) || self.rooms(ino).nth(1).is_some();
        let is_next = |slot: Slot, ino: Ino| {
            let room = self.room(ino, slot);
            room.is_some_and(|room| room.broken || self.rooms(ino).all(|other| other.start >= room.start))
        };
        let holds_up = move |(slot, ino): &(Slot, Ino)| is_waited_for(*ino) && is_next(*slot, *ino);
        self.old_rooms(before_ms).filter(holds_up).map(|(slot, _)| slot)
    }

    /// Waits until nothing is reserved; until then nothing more is.
    pub(crate) fn wait_for_rooms(&self, tidy: &mut EofCleanup, ino: Ino) -> Option<WaitReason> {
        let waits = self.has_rooms(ino);
        if waits {
            tidy.close_end(ino);
        }
        waits.then_some(WaitReason::Data(ino))
    }
}
