//! Advisory locks: who holds which ranges, who waits, and whether a wait would be for ever. A table without messages.
//!
//! The two families never conflict. `flock` replaces the owner's whole lock; `fcntl` locks split and merge by range.

use std::collections::BTreeMap;

use loligo_types::{FileLock, Ino, LockKind, LockOwner};

use crate::session::Slot;

/// Most ranges held on one file.
const RANGES_MAX: usize = 1 << 16;

/// Owner of a lock: a session's owner, in one family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Owner {
    slot: Slot,
    kind: LockKind,
    owner: LockOwner,
}

impl Owner {
    fn of(slot: Slot, lock: &FileLock) -> Owner {
        Owner { slot, kind: lock.kind, owner: lock.owner }
    }
}

#[derive(Clone, Copy, Debug)]
struct Held {
    slot: Slot,
    handle: u64,
    lock: FileLock,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    job: u64,
    slot: Slot,
    handle: u64,
    lock: FileLock,
}

#[derive(Default)]
struct FileLocks {
    held: Vec<Held>,
    waits: Vec<Wait>,
}

/// All locks.
#[derive(Default)]
pub(crate) struct Locks {
    files: BTreeMap<Ino, FileLocks>,
    /// Files in which an owner waits.
    waiting: BTreeMap<Owner, Vec<Ino>>,
}

fn overlap(a: &FileLock, b: &FileLock) -> bool {
    a.kind == b.kind && (a.kind == LockKind::Flock || (a.start <= b.end && b.start <= a.end))
}

fn excludes(held: &Held, slot: Slot, lock: &FileLock) -> bool {
    let same = held.slot == slot && held.lock.owner == lock.owner;
    !same && overlap(&held.lock, lock) && (held.lock.exclusive || lock.exclusive)
}

impl Locks {
    /// True if anybody holds or waits for a lock on the file.
    #[inline]
    pub(crate) fn is_locked(&self, ino: Ino) -> bool {
        !self.files.is_empty() && self.files.contains_key(&ino)
    }

    /// The ranges that are held of a file, with who holds them by which handle.
    pub(crate) fn of(&self, ino: Ino) -> Vec<(Slot, u64, FileLock)> {
        let held = self.files.get(&ino).into_iter().flat_map(|file| &file.held);
        held.map(|held| (held.slot, held.handle, held.lock)).collect()
    }

    /// Number of ranges held of a file.
    pub(crate) fn held_on(&self, ino: Ino) -> usize {
        self.files.get(&ino).map_or(0, |file| file.held.len())
    }

    /// Number of ranges held.
    pub(crate) fn held(&self) -> usize {
        self.files.values().map(|file| file.held.len()).sum()
    }

    /// Number of ranges that a session holds.
    pub(crate) fn held_by(&self, slot: Slot) -> usize {
        self.files.values().flat_map(|file| &file.held).filter(|held| held.slot == slot).count()
    }

    /// True if a file has as many ranges as it may.
    pub(crate) fn is_full(&self, ino: Ino) -> bool {
        self.files.get(&ino).is_some_and(|file| file.held.len() >= RANGES_MAX)
    }

    /// The first lock (by its start) that excludes this one.
    pub(crate) fn conflict(&self, ino: Ino, slot: Slot, lock: &FileLock) -> Option<FileLock> {
        let held = self.files.get(&ino)?.held.iter().filter(|held| excludes(held, slot, lock));
        held.map(|held| held.lock).min_by_key(|lock| lock.start)
    }

    /// Takes a lock that nothing excludes; it replaces what the owner held in its range.
    pub(crate) fn set(&mut self, ino: Ino, slot: Slot, handle: u64, lock: FileLock) {
        self.clear(ino, slot, &lock);
        let file = self.files.entry(ino).or_default();
        let mut new = Held { slot, handle, lock };
        if lock.kind == LockKind::Posix {
            merge(&mut file.held, &mut new);
        }
        file.held.push(new);
        file.held.sort_by_key(|held| (held.lock.start, held.slot, held.lock.owner));
    }

    /// Gives a range back.
    pub(crate) fn unlock(&mut self, ino: Ino, slot: Slot, lock: &FileLock) {
        self.clear(ino, slot, lock);
        self.tidy(ino);
    }

    fn clear(&mut self, ino: Ino, slot: Slot, lock: &FileLock) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        let mut kept = Vec::with_capacity(file.held.len() + 1);
        for held in file.held.drain(..) {
            let own = held.slot == slot && held.lock.owner == lock.owner;
            if !own || !overlap(&held.lock, lock) {
                kept.push(held);
            } else if lock.kind == LockKind::Posix {
                kept.extend(rest(&held, lock));
            }
        }
        file.held = kept;
    }

    fn tidy(&mut self, ino: Ino) {
        if self.files.get(&ino).is_some_and(|file| file.held.is_empty() && file.waits.is_empty()) {
            self.files.remove(&ino);
        }
    }

    /// True if waiting for this lock would be for ever, because its holders wait for the owner in the end.
    pub(crate) fn would_deadlock(&self, ino: Ino, slot: Slot, lock: &FileLock) -> bool {
        if lock.kind != LockKind::Posix {
            return false;
        }
        let me = Owner::of(slot, lock);
        let mut seen = Vec::new();
        let mut todo = self.blockers(ino, slot, lock);
        while let Some(owner) = todo.pop() {
            if owner == me {
                return true;
            }
            if seen.contains(&owner) {
                continue;
            }
            seen.push(owner);
            for (ino, wait) in self.waits_of(owner) {
                todo.extend(self.blockers(ino, wait.slot, &wait.lock));
            }
        }
        false
    }

    fn blockers(&self, ino: Ino, slot: Slot, lock: &FileLock) -> Vec<Owner> {
        let held = self.files.get(&ino).map_or(&[][..], |file| &file.held);
        held.iter().filter(|held| excludes(held, slot, lock)).map(|held| Owner::of(held.slot, &held.lock)).collect()
    }

    fn waits_of(&self, owner: Owner) -> Vec<(Ino, Wait)> {
        let inos = self.waiting.get(&owner).map_or(&[][..], |inos| inos);
        let waits = |ino: &Ino| self.files.get(ino).map_or(&[][..], |file| &file.waits);
        let all = inos.iter().flat_map(|ino| waits(ino).iter().map(move |wait| (*ino, *wait)));
        all.filter(|(_, wait)| Owner::of(wait.slot, &wait.lock) == owner).collect()
    }

    /// Lets a request wait for a lock.
    pub(crate) fn wait(&mut self, ino: Ino, slot: Slot, handle: u64, lock: FileLock, job: u64) {
        self.files.entry(ino).or_default().waits.push(Wait { job, slot, handle, lock });
        self.waiting.entry(Owner::of(slot, &lock)).or_default().push(ino);
    }

    /// Gives the locks that are free now to those who wait, in the order they came: their requests.
    pub(crate) fn grantable(&mut self, ino: Ino) -> Vec<u64> {
        let mut granted = Vec::new();
        let mut at = 0;
        while let Some(wait) = self.files.get(&ino).and_then(|file| file.waits.get(at)).copied() {
            if self.conflict(ino, wait.slot, &wait.lock).is_some() {
                at += 1;
                continue;
            }
            self.end_wait(ino, at);
            self.set(ino, wait.slot, wait.handle, wait.lock);
            granted.push(wait.job);
        }
        self.tidy(ino);
        granted
    }

    fn end_wait(&mut self, ino: Ino, at: usize) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        let wait = file.waits.remove(at);
        let owner = Owner::of(wait.slot, &wait.lock);
        if let Some(inos) = self.waiting.get_mut(&owner) {
            if let Some(at) = inos.iter().position(|other| *other == ino) {
                inos.remove(at);
            }
            if inos.is_empty() {
                self.waiting.remove(&owner);
            }
        }
    }

    /// Ends the waits of an owner for locks on a file: their requests.
    pub(crate) fn cancel(&mut self, ino: Ino, slot: Slot, owner: LockOwner) -> Vec<u64> {
        self.cancel_where(ino, |wait| wait.slot == slot && wait.lock.owner == owner)
    }

    /// Ends all waits of a session: their requests.
    pub(crate) fn cancel_all(&mut self, slot: Slot) -> Vec<u64> {
        let inos: Vec<Ino> = self.files.keys().copied().collect();
        inos.into_iter().flat_map(|ino| self.cancel_where(ino, |wait| wait.slot == slot)).collect()
    }

    fn cancel_where(&mut self, ino: Ino, which: impl Fn(&Wait) -> bool) -> Vec<u64> {
        let mut ended = Vec::new();
        while let Some(at) = self.files.get(&ino).and_then(|file| file.waits.iter().position(&which)) {
            ended.push(self.files[&ino].waits[at].job);
            self.end_wait(ino, at);
        }
        self.tidy(ino);
        ended
    }

    /// A handle was closed: the locks taken through it are gone, and so are the waits: their requests.
    pub(crate) fn drop_handle(&mut self, ino: Ino, slot: Slot, handle: u64) -> Vec<u64> {
        if let Some(file) = self.files.get_mut(&ino) {
            file.held.retain(|held| held.slot != slot || held.handle != handle);
        }
        self.cancel_where(ino, |wait| wait.slot == slot && wait.handle == handle)
    }

    /// A session has ended. Files on which others may go on now.
    pub(crate) fn end(&mut self, slot: Slot) -> Vec<Ino> {
        self.cancel_all(slot);
        let mut changed = Vec::new();
        for (ino, file) in &mut self.files {
            let before = file.held.len();
            file.held.retain(|held| held.slot != slot);
            if file.held.len() != before {
                changed.push(*ino);
            }
        }
        changed.iter().for_each(|ino| self.tidy(*ino));
        changed
    }
}

/// Rest of a range after a part of it was taken out.
fn rest(held: &Held, cut: &FileLock) -> impl Iterator<Item = Held> {
    let before = (held.lock.start < cut.start).then(|| {
        let lock = FileLock { end: cut.start - 1, ..held.lock };
        Held { lock, ..*held }
    });
    let after = (held.lock.end > cut.end).then(|| {
        let lock = FileLock { start: cut.end + 1, ..held.lock };
        Held { lock, ..*held }
    });
    before.into_iter().chain(after)
}

/// Joins a new range with the owner's neighbours of the same mode and handle.
fn merge(held: &mut Vec<Held>, new: &mut Held) {
    held.retain(|other| {
        let same = other.slot == new.slot
            && other.handle == new.handle
            && other.lock.owner == new.lock.owner
            && other.lock.kind == new.lock.kind
            && other.lock.exclusive == new.lock.exclusive;
        let touches =
            other.lock.start <= new.lock.end.saturating_add(1) && new.lock.start <= other.lock.end.saturating_add(1);
        if same && touches {
            new.lock.start = new.lock.start.min(other.lock.start);
            new.lock.end = new.lock.end.max(other.lock.end);
        }
        !(same && touches)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Slot = Slot(0);
    const B: Slot = Slot(1);
    const F: Ino = Ino(9);

    fn range(owner: u64, exclusive: bool, start: u64, end: u64) -> FileLock {
        FileLock { kind: LockKind::Posix, owner: LockOwner(owner), pid: 1, exclusive, start, end }
    }

    fn ranges(locks: &Locks) -> Vec<(u64, u64, bool)> {
        let held = locks.files.get(&F).map_or(&[][..], |file| &file.held);
        held.iter().map(|held| (held.lock.start, held.lock.end, held.lock.exclusive)).collect()
    }

    #[test]
    fn ranges_split_and_merge() {
        let mut locks = Locks::default();
        locks.set(F, A, 1, range(1, true, 0, 99));
        locks.set(F, A, 1, range(1, false, 40, 49));
        assert_eq!(ranges(&locks), [(0, 39, true), (40, 49, false), (50, 99, true)]);
        locks.set(F, A, 1, range(1, true, 40, 49));
        assert_eq!(ranges(&locks), [(0, 99, true)]);
        locks.unlock(F, A, &range(1, true, 10, u64::MAX));
        assert_eq!(ranges(&locks), [(0, 9, true)]);
        locks.set(F, A, 1, range(1, true, 10, u64::MAX));
        assert_eq!(ranges(&locks), [(0, u64::MAX, true)]);
        locks.unlock(F, A, &range(1, true, 0, u64::MAX));
        assert!(!locks.is_locked(F));
    }

    #[test]
    fn shared_ones_share_and_families_do_not_meet() {
        let mut locks = Locks::default();
        locks.set(F, A, 1, range(1, false, 0, 9));
        assert!(locks.conflict(F, B, &range(1, false, 0, 9)).is_none());
        assert!(locks.conflict(F, B, &range(1, true, 9, 9)).is_some());
        assert!(locks.conflict(F, B, &range(1, true, 10, 10)).is_none());
        let flock = FileLock { kind: LockKind::Flock, ..range(1, true, 0, u64::MAX) };
        assert!(locks.conflict(F, B, &flock).is_none());
    }

    #[test]
    fn waits_are_served_in_order() {
        let mut locks = Locks::default();
        locks.set(F, A, 1, range(1, true, 0, 9));
        locks.wait(F, B, 1, range(1, true, 0, 4), 7);
        locks.wait(F, B, 1, range(2, true, 5, 9), 8);
        locks.wait(F, B, 1, range(3, true, 5, 9), 9);
        assert!(locks.grantable(F).is_empty());
        locks.unlock(F, A, &range(1, true, 0, 9));
        assert_eq!(locks.grantable(F), [7, 8]);
        assert_eq!(locks.cancel(F, B, LockOwner(3)), [9]);
        assert!(locks.waiting.is_empty());
    }

    #[test]
    fn a_circle_of_three_is_found() {
        let (g, h) = (Ino(10), Ino(11));
        let mut locks = Locks::default();
        locks.set(F, A, 1, range(1, true, 0, 0));
        locks.set(g, B, 1, range(2, true, 0, 0));
        locks.set(h, B, 2, range(3, true, 0, 0));
        assert!(!locks.would_deadlock(g, A, &range(1, true, 0, 0)));
        locks.wait(g, A, 1, range(1, true, 0, 0), 1);
        locks.wait(h, B, 1, range(2, true, 0, 0), 2);
        assert!(locks.would_deadlock(F, B, &range(3, true, 0, 0)));
        assert!(!locks.would_deadlock(F, B, &range(4, true, 0, 0)));
    }

    #[test]
    fn the_end_of_a_session_frees_its_locks() {
        let mut locks = Locks::default();
        locks.set(F, A, 1, range(1, true, 0, 9));
        locks.wait(F, B, 1, range(1, true, 0, 9), 5);
        assert_eq!(locks.end(A), [F]);
        assert_eq!(locks.grantable(F), [5]);
        assert_eq!((locks.held(), locks.held_by(B)), (1, 1));
    }
}
