//! Open handles, and the rights on file data that follow from who has what open. Decides nothing about permissions.
//!
//! CACHE: only readers have the file open, or only one session has. BUFFER: only one session has it open, and for
//! writing. Otherwise nobody has a right, and every read and write goes to the servers.

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::{FsError, FsResult, Ino, Lease, Op, OpenFlags};

use crate::core::Core;
use crate::io::DataAccess;
use crate::job::Job;
use crate::room::Room;
use crate::session::Slot;
use crate::step::handle_of;
use loligo_types::hash::IntMap;

/// Most handles of one session.
pub(crate) const HANDLES_MAX: usize = 1 << 20;

/// An open file or directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Handle {
    pub(crate) ino: Ino,
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Handle {
    /// The flags with which it would be opened again.
    pub(crate) fn flags(self) -> OpenFlags {
        OpenFlags { read: self.read, write: self.write, ..OpenFlags::default() }
    }

    pub(crate) fn new(ino: Ino, flags: OpenFlags) -> Handle {
        Handle { ino, read: flags.read || flags.exec, write: flags.write }
    }
}

/// Opens of one inode by one session.
#[derive(Clone, Copy, Debug)]
struct Share {
    slot: Slot,
    rights: Lease,
    handles: u32,
    writers: u32,
    /// Room at the end of the file that it has reserved.
    room: Option<Room>,
}

/// A change of what a session may do with the objects.
pub(crate) type AccessChange = Option<(Ino, DataAccess)>;

/// All open handles.
#[derive(Default)]
pub(crate) struct Opens {
    by_slot: Vec<IntMap<u64, Handle>>,
    by_ino: IntMap<Ino, Vec<Share>>,
    spare: Vec<Vec<Share>>,
    /// While somebody goes through all of them: inodes that were opened since.
    opened: Option<Vec<Ino>>,
    /// Sessions that have reserved room in files, and since when, milliseconds.
    rooms: BTreeMap<(Slot, Ino), u64>,
    /// Files of which room is not reserved any more, and whether it was given up without being written.
    ended_rooms: Vec<(Ino, bool)>,
    /// Orphans that may have had their last close.
    pub(crate) reaps: BTreeSet<Ino>,
}

impl Opens {
    /// A handle of a session.
    pub(crate) fn handle(&self, slot: Slot, handle: u64) -> Option<Handle> {
        self.by_slot.get(usize::from(slot.0))?.get(&handle).copied()
    }

    /// All inodes that are open, ascending.
    pub(crate) fn inos(&self) -> Vec<Ino> {
        let mut inos: Vec<Ino> = self.by_ino.keys().copied().collect();
        inos.sort_unstable();
        inos
    }

    /// Tells if a session has an inode open, and if so, whether to write.
    pub(crate) fn open_by(&self, slot: Slot, ino: Ino) -> Option<bool> {
        self.share(ino, slot).map(|share| share.writers > 0)
    }

    /// Number of handles of a session.
    pub(crate) fn handles(&self, slot: Slot) -> usize {
        self.by_slot.get(usize::from(slot.0)).map_or(0, |handles| handles.len())
    }

    /// Number of handles on an inode.
    pub(crate) fn count(&self, ino: Ino) -> u32 {
        self.shares(ino).iter().map(|share| share.handles).sum()
    }

    /// True if no session has an inode open.
    pub(crate) fn is_closed(&self, ino: Ino) -> bool {
        self.shares(ino).is_empty()
    }

    /// Registers a handle; one with the same number is replaced (the caller has checked that it is of the same inode).
    pub(crate) fn open(&mut self, slot: Slot, number: u64, handle: Handle) -> AccessChange {
        let index = usize::from(slot.0);
        if index >= self.by_slot.len() {
            self.by_slot.resize_with(index + 1, IntMap::default);
        }
        let before = self.access(handle.ino, slot);
        if let Some(opened) = &mut self.opened {
            opened.push(handle.ino);
        }
        let old = self.by_slot[index].insert(number, handle);
        let spare = &mut self.spare;
        let shares = self.by_ino.entry(handle.ino).or_insert_with(|| spare.pop().unwrap_or_default());
        let at = shares.iter().position(|share| share.slot == slot).unwrap_or_else(|| {
            shares.push(Share { slot, rights: Lease::NONE, handles: 0, writers: 0, room: None });
            shares.len() - 1
        });
        shares[at].handles += 1;
        shares[at].writers += u32::from(handle.write);
        if let Some(old) = old {
            // Not before: with its last handle a session loses its rights, and it may have written under them.
            self.leave(slot, old);
        }
        self.access_change(handle.ino, slot, before)
    }

    /// Ends a handle: what it was, and what the session may do now.
    pub(crate) fn close(&mut self, slot: Slot, number: u64) -> Option<(Handle, AccessChange)> {
        let handle = self.by_slot.get_mut(usize::from(slot.0))?.remove(&number)?;
        let before = self.access(handle.ino, slot);
        self.leave(slot, handle);
        Some((handle, self.access_change(handle.ino, slot, before)))
    }

    /// Ends all handles of a session; the inodes that it had open, ascending, and whether for writing.
    pub(crate) fn end(&mut self, slot: Slot) -> Vec<(Ino, bool)> {
        let Some(handles) = self.by_slot.get_mut(usize::from(slot.0)).map(std::mem::take) else { return Vec::new() };
        let mut inos: BTreeMap<Ino, bool> = BTreeMap::new();
        for handle in handles.into_values() {
            *inos.entry(handle.ino).or_default() |= handle.write;
            self.leave(slot, handle);
        }
        inos.into_iter().collect()
    }

    /// The rights that a session holds.
    pub(crate) fn rights(&self, ino: Ino, slot: Slot) -> Lease {
        self.share(ino, slot).map_or(Lease::NONE, |share| share.rights)
    }

    /// The rights that others hold.
    pub(crate) fn others_rights(&self, ino: Ino, slot: Slot) -> impl Iterator<Item = (Slot, Lease)> + '_ {
        let others = self.shares(ino).iter().filter(move |share| share.slot != slot && !share.rights.is_none());
        others.map(|share| (share.slot, share.rights))
    }

    /// The rights that anybody holds.
    pub(crate) fn all_rights(&self, ino: Ino) -> impl Iterator<Item = (Slot, Lease)> + '_ {
        self.shares(ino).iter().filter(|share| !share.rights.is_none()).map(|share| (share.slot, share.rights))
    }

    /// True if another session has the file open for writing.
    pub(crate) fn others_write(&self, ino: Ino, slot: Slot) -> bool {
        self.shares(ino).iter().any(|share| share.slot != slot && share.writers > 0)
    }

    /// True if another session has the file open.
    pub(crate) fn others_open(&self, ino: Ino, slot: Slot) -> bool {
        self.shares(ino).iter().any(|share| share.slot != slot)
    }

    /// True if any session has the file open for writing.
    pub(crate) fn any_writer(&self, ino: Ino) -> bool {
        self.shares(ino).iter().any(|share| share.writers > 0)
    }

    /// The rights that the opens of the moment allow a session.
    pub(crate) fn allowed(&self, ino: Ino, slot: Slot) -> Lease {
        let Some(share) = self.share(ino, slot) else { return Lease::NONE };
        match (self.others_open(ino, slot), self.any_writer(ino)) {
            (false, _) if share.writers > 0 => Lease::CACHE | Lease::BUFFER,
            (false, _) | (true, false) => Lease::CACHE,
            (true, true) => Lease::NONE,
        }
    }

    /// Gives rights.
    pub(crate) fn give(&mut self, ino: Ino, slot: Slot, rights: Lease) {
        if let Some(share) = self.share_mut(ino, slot) {
            share.rights = share.rights | rights;
        }
    }

    /// Takes rights.
    pub(crate) fn take(&mut self, ino: Ino, slot: Slot, rights: Lease) {
        if let Some(share) = self.share_mut(ino, slot) {
            share.rights = share.rights.without(rights);
        }
    }

    /// Begins to go through all that is open: the inodes, ascending. Until [`Opens::watch_ends`] is called, it is
    /// remembered what is opened.
    pub(crate) fn watch(&mut self) -> Vec<Ino> {
        self.opened.get_or_insert_default();
        let mut inos: Vec<Ino> = self.by_ino.keys().copied().collect();
        inos.sort_unstable();
        inos
    }

    /// Nobody wants to know any more.
    pub(crate) fn watch_ends(&mut self) {
        self.opened = None;
    }

    /// The inodes that were opened since this was asked last.
    pub(crate) fn opened(&mut self) -> Vec<Ino> {
        self.opened.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Sessions that have an inode open, and their access to the data; by session.
    pub(crate) fn users(&self, ino: Ino) -> Vec<(Slot, DataAccess)> {
        let mut users: Vec<(Slot, DataAccess)> =
            self.shares(ino).iter().map(|share| (share.slot, self.access(ino, share.slot))).collect();
        users.sort_unstable();
        users
    }

    /// All handles of a session with their numbers.
    pub(crate) fn handles_of(&self, slot: Slot) -> Vec<(u64, Handle)> {
        let handles = self.by_slot.get(usize::from(slot.0)).into_iter().flatten();
        let mut all: Vec<(u64, Handle)> = handles.map(|(number, handle)| (*number, *handle)).collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all
    }

    /// The room that a session has reserved.
    pub(crate) fn room(&self, ino: Ino, slot: Slot) -> Option<Room> {
        if self.rooms.is_empty() {
            return None;
        }
        self.share(ino, slot).and_then(|share| share.room)
    }

    /// All room that is reserved at the end of a file.
    pub(crate) fn rooms(&self, ino: Ino) -> impl Iterator<Item = Room> + '_ {
        let shares = if self.rooms.is_empty() { &[] } else { self.shares(ino) };
        shares.iter().filter_map(|share| share.room)
    }

    /// True if room is reserved at the end of a file.
    #[inline]
    pub(crate) fn has_rooms(&self, ino: Ino) -> bool {
        self.rooms(ino).next().is_some()
    }

    /// Reserves room for a session that has none. Whether it has the file open to write.
    pub(crate) fn reserve(&mut self, ino: Ino, slot: Slot, room: Room) -> bool {
        let Some(share) = self.share_mut(ino, slot).filter(|share| share.writers > 0) else { return false };
        share.room = Some(room);
        self.rooms.insert((slot, ino), room.since_ms);
        true
    }

    /// The room of a session is not reserved any more. If it was not written, what lies behind it does not follow the end of the file.
    pub(crate) fn end_room(&mut self, ino: Ino, slot: Slot, written: bool) {
        if let Some(room) = self.share_mut(ino, slot).and_then(|share| share.room.take()) {
            self.room_ended(ino, slot, room, written);
        }
    }

    /// Extends the time of all reserved rooms by so much, milliseconds.
    pub(crate) fn wait_longer(&mut self, ms: u64) {
        self.rooms.values_mut().for_each(|since_ms| *since_ms += ms);
    }

    /// Room that has been reserved since before then.
    pub(crate) fn old_rooms(&self, before_ms: u64) -> impl Iterator<Item = (Slot, Ino)> + '_ {
        self.rooms.iter().filter(move |(_, since_ms)| **since_ms < before_ms).map(|(of, _)| *of)
    }

    fn room_ended(&mut self, ino: Ino, slot: Slot, room: Room, written: bool) {
        self.rooms.remove(&(slot, ino));
        self.ended_rooms.push((ino, !written));
        if !written {
            let shares = self.by_ino.get_mut(&ino).into_iter().flatten();
            let behind = shares.filter_map(|share| share.room.as_mut()).filter(|other| other.start >= room.start);
            behind.for_each(|other| other.broken = true);
        }
    }

    /// Files of which room is not reserved any more since this was asked last, and whether it was given up without being written.
    pub(crate) fn take_ended_rooms(&mut self) -> Vec<(Ino, bool)> {
        std::mem::take(&mut self.ended_rooms)
    }

    /// True if there are files of which room is not reserved any more.
    #[inline]
    pub(crate) fn has_ended_rooms(&self) -> bool {
        !self.ended_rooms.is_empty()
    }

    fn shares(&self, ino: Ino) -> &[Share] {
        if self.by_ino.is_empty() {
            return &[];
        }
        self.by_ino.get(&ino).map_or(&[], |shares| shares)
    }

    fn share(&self, ino: Ino, slot: Slot) -> Option<&Share> {
        self.shares(ino).iter().find(|share| share.slot == slot)
    }

    fn share_mut(&mut self, ino: Ino, slot: Slot) -> Option<&mut Share> {
        self.by_ino.get_mut(&ino)?.iter_mut().find(|share| share.slot == slot)
    }

    fn leave(&mut self, slot: Slot, handle: Handle) {
        let Some(shares) = self.by_ino.get_mut(&handle.ino) else { return };
        let Some(at) = shares.iter().position(|share| share.slot == slot) else { return };
        shares[at].handles -= 1;
        shares[at].writers -= u32::from(handle.write);
        let room = if shares[at].writers == 0 { shares[at].room.take() } else { None };
        let leaves = shares[at].handles == 0;
        if leaves {
            shares.remove(at);
        }
        let empty = shares.is_empty();
        if let Some(room) = room {
            self.room_ended(handle.ino, slot, room, false);
        }
        if empty
            && let Some(empty) = self.by_ino.remove(&handle.ino)
            && self.spare.len() < 64
        {
            self.spare.push(empty);
        }
    }

    /// The access of a session to the data of a file.
    pub(crate) fn access(&self, ino: Ino, slot: Slot) -> DataAccess {
        match self.share(ino, slot) {
            None => DataAccess::None,
            Some(share) if share.writers > 0 => DataAccess::Write,
            Some(_) => DataAccess::Read,
        }
    }

    fn access_change(&self, ino: Ino, slot: Slot, before: DataAccess) -> AccessChange {
        let now = self.access(ino, slot);
        (now != before).then_some((ino, now))
    }

    /// The handle that the operation goes through.
    pub(crate) fn check_handle(&self, core: &Core, job: &Job) -> FsResult<Option<Handle>> {
        if job.op.opens().is_some() && self.handles(job.slot) >= HANDLES_MAX {
            return Err(FsError::NoSpace);
        }
        let Some((number, ino)) = handle_of(&job.op) else { return Ok(None) };
        match self.handle(job.slot, number) {
            Some(handle) if handle.ino == ino => Ok(Some(handle)),
            // It is open at the home of the directory.
            None if matches!(job.op, Op::Readdir { .. }) && core.tree.part(ino).is_some() => Ok(None),
            _ => Err(FsError::BadHandle),
        }
    }

    /// The handle that a request to open got before, if its answer was lost. The open was allowed then, and may not be any more (or, of a
    /// new file whose mode lets nobody write, by that alone).
    pub(crate) fn opened_before(&self, job: &Job) -> Option<Handle> {
        let Op::Open { ino, handle, .. } = &job.op else { return None };
        self.handle(job.slot, *handle).filter(|opened| opened.ino == *ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(write: bool) -> Handle {
        Handle { ino: Ino(9), read: true, write }
    }

    #[test]
    fn rights_follow_from_who_has_it_open() {
        let (a, b) = (Slot(0), Slot(1));
        let mut opens = Opens::default();
        opens.open(a, 1, handle(false));
        assert_eq!(opens.allowed(Ino(9), a), Lease::CACHE);
        opens.open(a, 2, handle(true));
        assert_eq!(opens.allowed(Ino(9), a), Lease::CACHE | Lease::BUFFER);
        opens.open(b, 1, handle(false));
        assert_eq!(opens.allowed(Ino(9), a), Lease::NONE);
        assert_eq!(opens.allowed(Ino(9), b), Lease::NONE);
        opens.close(a, 2);
        assert_eq!(opens.allowed(Ino(9), b), Lease::CACHE);
        assert_eq!(opens.count(Ino(9)), 2);
        assert_eq!(opens.end(a), [(Ino(9), false)]);
        opens.close(b, 1);
        assert!(opens.is_closed(Ino(9)));
    }

    #[test]
    fn a_handle_that_is_registered_again_has_its_rights_still() {
        let a = Slot(0);
        let mut opens = Opens::default();
        opens.open(a, 1, handle(true));
        opens.give(Ino(9), a, Lease::CACHE | Lease::BUFFER);
        assert_eq!(opens.open(a, 1, handle(true)), None);
        assert_eq!((opens.rights(Ino(9), a), opens.count(Ino(9))), (Lease::CACHE | Lease::BUFFER, 1));
        opens.close(a, 1);
        assert!(opens.is_closed(Ino(9)));
    }

    #[test]
    fn access_to_objects_changes_only_when_it_does() {
        let a = Slot(0);
        let mut opens = Opens::default();
        assert_eq!(opens.open(a, 1, handle(false)), Some((Ino(9), DataAccess::Read)));
        assert_eq!(opens.open(a, 2, handle(true)), Some((Ino(9), DataAccess::Write)));
        assert_eq!(opens.open(a, 3, handle(true)), None);
        assert_eq!(opens.close(a, 2).map(|(_, change)| change), Some(None));
        assert_eq!(opens.close(a, 3).map(|(_, change)| change), Some(Some((Ino(9), DataAccess::Read))));
        assert_eq!(opens.close(a, 1).map(|(_, change)| change), Some(Some((Ino(9), DataAccess::None))));
        assert_eq!(opens.close(a, 1), None);
    }
}
