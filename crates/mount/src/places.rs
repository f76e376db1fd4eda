//! Where the kernel has each directory, as far as it was told, and what it is told where it cannot take in that another mount has moved one.
//!
//! The kernel has a directory at one place. Told of it at another, it moves it there, for which it needs the lock of all renames and the
//! lock of the old place. A rename that looks for what it moves has these itself, so it ends with `ESTALE`; the kernel tries it once more, finds
//! the same, and tells the program. So a thread that looks for the directory a second time is told of it under *another number*, as if it were one
//! that the kernel does not have. Nothing about that may be cached: the next who looks there finds the first number, and the kernel
//! moves the directory.
//!
//! Whether the kernel could take it in it does not say. What else a thread asks for shows that it could; a thread that looks at the same name twice in a
//! row, and whose kernel believes no name there, is taken for one that could not, once: then it asks a third time, which shows it.
//!
//! Not here: names that the kernel believes (`dentries`).

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use loligo_types::Ino;

use crate::table::{Tick, guard};

/// In another number of a directory; in no number of an inode that a mount comes by (`loligo_types::limits::RANKS_MAX`).
const OTHER: u64 = 1 << 63;
/// For so long a thread that was told of a directory at a new place may come back because the kernel could not take it in: longer than an
/// answer takes.
const RETRY_TICKS: Tick = 200;

/// A directory and the hash of a name in it.
type Place = (u64, u64);

/// True if this is another number of a directory.
pub(crate) fn is_other(node: u64) -> bool {
    node & OTHER != 0
}

/// The inode that a number of the kernel's is of.
pub(crate) fn inode_of(node: u64) -> u64 {
    node & !OTHER
}

/// Told to a thread, and maybe not taken in.
#[derive(Clone, Copy)]
struct Told {
    place: Place,
    tid: u32,
    since: Tick,
    /// Under the other number.
    as_other: bool,
}

#[derive(Default)]
struct Dir {
    at: Option<Place>,
    told: Option<Told>,
}

#[derive(Default)]
struct State {
    dirs: HashMap<u64, Dir>,
    by_place: HashMap<Place, u64>,
    /// By thread: of which directory it was told last, of those that have moved.
    told: HashMap<u32, u64>,
}

/// All directories that the kernel has.
#[derive(Default)]
pub(crate) struct Places {
    state: Mutex<State>,
    /// True if any thread was told of one.
    any_told: AtomicBool,
    hash: RandomState,
}

impl State {
    fn put(&mut self, ino: u64, at: Option<Place>) {
        let dir = self.dirs.entry(ino).or_default();
        dir.told = None;
        let before = std::mem::replace(&mut dir.at, at);
        if let Some(before) = before.filter(|before| self.by_place.get(before) == Some(&ino)) {
            self.by_place.remove(&before);
        }
        if let Some(at) = at {
            self.by_place.insert(at, ino);
        }
    }
}

impl Places {
    fn place(&self, dir: Ino, name: &[u8]) -> Place {
        (dir.0, self.hash.hash_one(name))
    }

    /// The number by which the kernel is to be told of a directory that was looked up or made, in answer to a thread. `has`: it has the directory, here or
    /// elsewhere.
    pub fn found(&self, ino: Ino, (dir, name): (Ino, &[u8]), tid: u32, has: bool, now: Tick) -> u64 {
        let place = self.place(dir, name);
        let mut state = guard(&self.state);
        let known = state.dirs.entry(ino.0).or_default();
        if !has || known.at == Some(place) {
            if known.at != Some(place) || known.told.is_some() {
                state.put(ino.0, Some(place));
            }
            return ino.0;
        }
        match known.told {
            Some(told)
                if told.place == place && told.tid == tid && told.since + RETRY_TICKS > now && !told.as_other =>
            {
                // Where it will be had next is not known.
                state.put(ino.0, None);
                state.dirs.entry(ino.0).or_default().told = Some(Told { as_other: true, ..told });
                ino.0 | OTHER
            }
            // It asks at once once more: it had the directory. Or nobody came back: it was taken in.
            Some(told) if told.place == place && (told.tid == tid || told.since + RETRY_TICKS <= now) => {
                state.put(ino.0, Some(place));
                ino.0
            }
            _ => {
                known.told = Some(Told { place, tid, since: now, as_other: false });
                state.told.insert(tid, ino.0);
                self.any_told.store(true, Ordering::Release);
                ino.0
            }
        }
    }

    /// A thread asks for something else than what a name leads to: it was told of a directory before, and could take that in.
    pub fn goes_on(&self, tid: u32) {
        if !self.any_told.load(Ordering::Acquire) {
            return;
        }
        let mut state = guard(&self.state);
        let ino = state.told.remove(&tid);
        self.any_told.store(!state.told.is_empty(), Ordering::Release);
        let Some(dir) = ino.and_then(|ino| state.dirs.get_mut(&ino)) else { return };
        let Some(told) = dir.told.take_if(|told| told.tid == tid) else { return };
        if let (false, Some(ino)) = (told.as_other, ino) {
            state.put(ino, Some(told.place));
        }
    }

    /// Something was renamed by this mount; `swapped`: and the other way round.
    pub fn renamed(&self, (dir, name): (Ino, &[u8]), (new_dir, new_name): (Ino, &[u8]), swapped: bool) {
        let (from, to) = (self.place(dir, name), self.place(new_dir, new_name));
        let mut state = guard(&self.state);
        let (moved, other) = (state.by_place.get(&from).copied(), state.by_place.get(&to).copied());
        if let Some(other) = other {
            state.put(other, swapped.then_some(from));
        }
        if let Some(moved) = moved {
            state.put(moved, Some(to));
        }
    }

    /// The kernel has forgotten inodes.
    pub fn forget(&self, inos: &[Ino]) {
        if inos.is_empty() {
            return;
        }
        let mut state = guard(&self.state);
        state.told.retain(|_, of| inos.iter().all(|ino| ino.0 != *of));
        for ino in inos {
            if state.dirs.contains_key(&ino.0) {
                state.put(ino.0, None);
                state.dirs.remove(&ino.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: Ino = Ino(300);
    const UP: Ino = Ino(301);
    const DOWN: Ino = Ino(302);

    /// The kernel has D as `d` of UP.
    fn places() -> Places {
        let places = Places::default();
        assert_eq!(places.found(D, (UP, b"d"), 7, false, 1), D.0);
        places
    }

    #[test]
    fn a_thread_that_cannot_take_in_a_move_is_told_of_another_directory_the_second_time() {
        let places = places();
        assert_eq!(places.found(D, (DOWN, b"e"), 7, true, 1), D.0, "most can take it in");
        let other = places.found(D, (DOWN, b"e"), 7, true, 1);
        assert!(is_other(other) && inode_of(other) == D.0 && !is_other(D.0));
        // It renames it. The kernel has it where it was still.
        places.goes_on(7);
        places.renamed((DOWN, b"e"), (DOWN, b"f"), false);
        assert_eq!(places.found(D, (DOWN, b"f"), 7, true, 1), D.0);
        assert!(is_other(places.found(D, (DOWN, b"f"), 7, true, 1)));
    }

    #[test]
    fn a_thread_that_has_taken_in_a_move_is_told_of_the_directory_from_then_on() {
        let places = places();
        places.found(D, (DOWN, b"e"), 7, true, 1);
        places.goes_on(8);
        places.goes_on(7);
        for _ in 0..3 {
            assert_eq!(places.found(D, (DOWN, b"e"), 7, true, 1), D.0);
        }
        assert!(!places.any_told.load(Ordering::Acquire));
    }

    #[test]
    fn a_thread_that_looks_twice_in_a_row_is_taken_for_one_that_could_not_take_it_in_once() {
        let places = places();
        places.found(D, (DOWN, b"e"), 7, true, 1);
        assert!(is_other(places.found(D, (DOWN, b"e"), 7, true, 1)));
        for _ in 0..4 {
            assert_eq!(places.found(D, (DOWN, b"e"), 7, true, 1), D.0);
        }
    }

    #[test]
    fn whoever_else_looks_is_told_of_the_directory_itself() {
        let places = places();
        places.found(D, (DOWN, b"e"), 7, true, 1);
        assert_eq!(places.found(D, (DOWN, b"e"), 8, true, 1), D.0);
        assert_eq!(places.found(D, (DOWN, b"f"), 8, true, 1), D.0);
        assert_eq!(places.found(D, (UP, b"d"), 8, true, 1), D.0, "it has come back");
    }

    #[test]
    fn what_nobody_came_back_for_was_taken_in() {
        let places = places();
        for now in [1, 1 + RETRY_TICKS, 2 + RETRY_TICKS, 2 + RETRY_TICKS] {
            assert_eq!(places.found(D, (DOWN, b"e"), 7, true, now), D.0);
        }
    }

    #[test]
    fn a_directory_that_did_not_move_keeps_its_number_however_often_it_is_looked_up() {
        let places = places();
        let made = Ino(303);
        places.found(made, (UP, b"m"), 7, false, 1);
        for _ in 0..4 {
            assert_eq!(places.found(D, (UP, b"d"), 7, true, 1), D.0);
            assert_eq!(places.found(made, (UP, b"m"), 7, true, 1), made.0);
        }
    }

    #[test]
    fn what_this_mount_renames_has_moved_in_the_kernel_too() {
        let places = places();
        places.renamed((UP, b"d"), (DOWN, b"e"), false);
        for _ in 0..3 {
            assert_eq!(places.found(D, (DOWN, b"e"), 7, true, 1), D.0);
        }
        let other = Ino(303);
        places.found(other, (UP, b"o"), 7, false, 1);
        places.renamed((UP, b"o"), (DOWN, b"e"), true);
        for _ in 0..3 {
            assert_eq!(places.found(D, (UP, b"o"), 7, true, 1), D.0);
            assert_eq!(places.found(other, (DOWN, b"e"), 7, true, 1), other.0);
        }
    }

    #[test]
    fn of_what_the_kernel_forgot_nothing_is_kept() {
        let places = places();
        places.forget(&[D, UP]);
        let state = guard(&places.state);
        assert!(state.dirs.is_empty() && state.by_place.is_empty());
    }
}
