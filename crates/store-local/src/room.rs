//! Room on the disk under a data directory: a reserve of preallocated files, and whether there is so little room that what makes the file
//! system larger is refused. The reserve is given up step by step for what must go on without room (the journal, checkpoints, removals, the
//! next opening), and made again when there is room. A step is a file, so it gives back an inode, too.
//!
//! Not here: what is refused. The metadata server asks [`Room::is_full`], and so do writes of objects.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loligo_store::{Result, StatFs, StoreError};
use rustix::fs::FallocateFlags;

use crate::files::{self, named};
use crate::layout::Layout;

/// Files of a whole reserve.
const STEPS: u64 = 32;
/// Steps that the table leaves to the journal, to syncs of file data and to the next opening.
const STEPS_KEPT: usize = STEPS as usize / 4;
/// Those that an opening leaves to the journal.
const STEPS_AFTER_OPENING: usize = STEPS as usize / 16;
/// The largest reserve that is made unless another size is asked for, bytes.
const RESERVE_MAX: u64 = 256 << 20;
/// A disk however small has a reserve of this, or of an eighth of it, bytes.
const RESERVE_MIN: u64 = 8 << 20;
/// The reserve of a file system with a small table, bytes.
const RESERVE_BEGIN: u64 = 16 << 20;
/// Free inodes below which a disk is full, if it has many.
const INODES_LOW: u64 = 128;
/// Free inodes that an opening needs: files of the table, sockets.
const INODES_TO_OPEN: u64 = 16;
/// Free bytes that an opening needs beside what the table has to write.
const BYTES_TO_OPEN: u64 = 2 << 20;

/// Purpose of an allocation from the reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// The journal, the file `epochs`, and what makes acknowledged file data durable.
    Journal,
    /// The opening of the directory.
    Opening,
    /// The table, once it is open.
    Table,
}

/// The room under one data directory.
pub(crate) struct Room {
    layout: Layout,
    /// Bytes of a whole reserve; 0: there is none.
    size: u64,
    full: Arc<AtomicBool>,
    state: Mutex<State>,
}

struct State {
    /// The steps that are there, with their bytes.
    steps: BTreeMap<u64, u64>,
    /// The last that was said of the table.
    table: (u64, u64),
    /// This file system has no room that can be reserved.
    cannot: bool,
}

impl Room {
    /// Looks at what there is; makes and removes nothing. `size`: bytes of the reserve, by default as the disk's size wants it.
    pub(crate) fn of(layout: &Layout, size: Option<u64>) -> Result<Room> {
        let space = files::statfs(&layout.dir)?;
        let size = size.unwrap_or_else(|| by_default(space.total_bytes));
        let mut steps = BTreeMap::new();
        match fs::read_dir(layout.reserve()) {
            Ok(entries) => {
                let step = |entry: fs::DirEntry| {
                    let number = entry.file_name().to_str()?.parse::<u64>().ok()?;
                    Some((number, entry.metadata().ok()?.len()))
                };
                steps.extend(entries.flatten().filter_map(step));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(named(&layout.reserve(), &e)),
        }
        let state = State { steps, table: (0, 0), cannot: false };
        Ok(Room { layout: layout.clone(), size, full: Arc::default(), state: Mutex::new(state) })
    }

    /// True if operations that make the file system larger are to be refused.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    /// The same as it is now: there may be room since it was looked at last.
    pub(crate) fn is_full_now(&self) -> bool {
        if self.is_full() {
            let (table, need) = self.state().table;
            let _ = self.look(table, need);
        }
        self.is_full()
    }

    /// The same, to be asked later.
    pub(crate) fn full(&self) -> Arc<AtomicBool> {
        self.full.clone()
    }

    /// Before the directory is opened: sees to it that there is room for that, `bytes` and a little more. What a server that was killed had
    /// reserved for its journal and its table comes first, then the reserve.
    pub(crate) fn before_opening(&self, bytes: u64) {
        if self.is_enough_to_open(bytes) {
            return;
        }
        files::end_reservations(&self.layout.table(), ".log");
        for rank in fs::read_dir(self.layout.journal()).into_iter().flatten().flatten() {
            files::end_reservations(&rank.path(), ".seg");
        }
        while !self.is_enough_to_open(bytes) && self.give(For::Opening) {}
    }

    fn is_enough_to_open(&self, bytes: u64) -> bool {
        files::statfs(&self.layout.dir).map_or(true, |space| {
            space.free_bytes >= bytes.saturating_add(BYTES_TO_OPEN)
                && (space.total_inodes == 0 || space.free_inodes >= INODES_TO_OPEN)
        })
    }

    /// Runs `f` until it finds room, giving up the reserve step by step.
    pub(crate) fn find<R>(&self, who: For, mut f: impl FnMut() -> Result<R>) -> Result<R> {
        loop {
            match f() {
                Err(error @ StoreError::Full { .. }) => {
                    if !self.give(who) {
                        self.met_full();
                        return Err(error);
                    }
                }
                done => return done,
            }
        }
    }

    /// Gives up a step of the reserve; `false`: there is none that `who` may have.
    pub(crate) fn give(&self, who: For) -> bool {
        let mut state = self.state();
        let kept = match who {
            For::Table => STEPS_KEPT,
            For::Opening => STEPS_AFTER_OPENING,
            For::Journal => 0,
        };
        if state.steps.len() <= kept {
            return false;
        }
        let Some((step, _)) = state.steps.pop_last() else { return false };
        self.found(true);
        let path = self.layout.reserve().join(step.to_string());
        match fs::remove_file(&path) {
            Ok(()) => {
                tracing::info!(left = state.steps.len(), "the disk is full: a part of the reserve is given up");
                true
            }
            // Somebody has removed it.
            Err(e) if e.kind() == io::ErrorKind::NotFound => true,
            Err(error) => {
                tracing::warn!("{}: {error}", path.display());
                false
            }
        }
    }

    /// A call found no room.
    pub(crate) fn met_full(&self) {
        self.found(true);
    }

    /// Looks how much room there is: says whether the disk is full, and makes the reserve whole if it is not. `table`: bytes of the table,
    /// which the reserve grows with; `need`: bytes that it has to find free to compact.
    pub(crate) fn look(&self, table: u64, need: u64) -> Result<StatFs> {
        let mut space = files::statfs(&self.layout.dir)?;
        let mut state = self.state();
        state.table = (table, need);
        let low = self.size / 4 + need;
        let high = low + low / 2;
        let (few, enough) = inodes(space.total_inodes);
        let is_low = |space: &StatFs| space.free_bytes < low || (space.total_inodes > 0 && space.free_inodes < few);
        let has_room =
            |space: &StatFs| space.free_bytes >= high && (space.total_inodes == 0 || space.free_inodes >= enough);
        if is_low(&space) {
            self.found(true);
        } else {
            let is_whole = self.refill(&mut state, table, high, &mut space)?;
            if is_whole && has_room(&space) {
                self.found(false);
            }
        }
        let there = if self.is_full() { 0 } else { space.free_bytes };
        Ok(StatFs {
            free_bytes: there.saturating_sub(low),
            free_inodes: space.free_inodes.saturating_sub(few),
            ..space
        })
    }

    /// Makes steps that are missing or too small, as long as `keep` bytes stay free; whether none is then.
    fn refill(&self, state: &mut State, table: u64, keep: u64, space: &mut StatFs) -> Result<bool> {
        let most = self.size / STEPS;
        if state.cannot {
            return Ok(true);
        }
        let wanted = (table.max(RESERVE_BEGIN) / STEPS).next_power_of_two().min(most);
        let steps: Vec<u64> = (0..STEPS).chain(state.steps.keys().copied().filter(|step| *step >= STEPS)).collect();
        for step in steps {
            let there = state.steps.get(&step).copied();
            if step >= STEPS || most == 0 {
                // Of a time with other settings.
                let _ = fs::remove_file(self.layout.reserve().join(step.to_string()));
                state.steps.remove(&step);
                continue;
            }
            if there.is_some_and(|there| (wanted..=most).contains(&there)) {
                continue;
            }
            if space.free_bytes < keep + wanted.saturating_sub(there.unwrap_or(0)) {
                return Ok(false);
            }
            match self.make(step, wanted) {
                Ok(()) => _ = state.steps.insert(step, wanted),
                Err(StoreError::Full { .. }) => {
                    if there.is_none() {
                        let _ = fs::remove_file(self.layout.reserve().join(step.to_string()));
                    }
                    return Ok(false);
                }
                Err(error) => {
                    tracing::warn!("no room can be kept in reserve for the time when the disk is full: {error}");
                    state.cannot = true;
                    return Ok(true);
                }
            }
            *space = files::statfs(&self.layout.dir)?;
        }
        Ok(true)
    }

    /// Makes a step, or gives it another size.
    fn make(&self, step: u64, bytes: u64) -> Result<()> {
        let dir = self.layout.reserve();
        files::make_dir(&dir)?;
        let path = dir.join(step.to_string());
        let make = || {
            let file = File::options().write(true).create(true).truncate(false).open(&path)?;
            if file.metadata()?.len() > bytes {
                file.set_len(bytes)?;
            }
            Ok(rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)?)
        };
        make().map_err(|e| named(&path, &e))
    }

    fn found(&self, full: bool) {
        let dir = self.layout.dir.display();
        match (self.full.swap(full, Ordering::AcqRel), full) {
            (false, true) => tracing::warn!(
                "the disk of {dir} is full: what needs more room is refused (ENOSPC), removals go on; free space, or enlarge the disk"
            ),
            (true, false) => tracing::info!("there is room on the disk of {dir} again"),
            _ => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A hundredth of the disk; more of a small one, as what the table writes at a time is not smaller there, and less of a large one.
fn by_default(disk: u64) -> u64 {
    (disk / 100).clamp(RESERVE_MIN.min(disk / 8), RESERVE_MAX)
}

/// Free inodes below which the disk is full, and from which on it is not any more.
fn inodes(total: u64) -> (u64, u64) {
    let few = INODES_LOW.min(total / 16);
    (few, few + few / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_a_hundredth_of_the_disk_and_more_of_a_small_one() {
        assert_eq!(by_default(1 << 40), RESERVE_MAX);
        assert_eq!(by_default(10 << 30), (10 << 30) / 100);
        assert_eq!(by_default(64 << 20), RESERVE_MIN);
        assert_eq!(by_default(16 << 20), 2 << 20);
        assert_eq!(by_default(0), 0);
    }

    #[test]
    fn a_reserve_is_made_given_up_in_steps_and_made_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let layout = Layout::new(dir.path());
        let room = Room::of(&layout, Some(4 << 20)).expect("it can be looked at");
        let steps = || fs::read_dir(layout.reserve()).map_or(0, Iterator::count);
        assert_eq!(steps(), 0);
        room.look(0, 0).expect("there is room");
        assert_eq!((steps(), room.is_full()), (STEPS as usize, false));
        let mut tries = 0;
        let found = room.find(For::Table, || {
            tries += 1;
            if tries > 3 { Ok(tries) } else { Err(StoreError::Full { what: "a table".into() }) }
        });
        assert_eq!((found, steps(), room.is_full()), (Ok(4), STEPS as usize - 3, true));
        let none: Result<()> = room.find(For::Table, || Err(StoreError::Full { what: "a table".into() }));
        assert!(none.is_err_and(|error| error.is_full()));
        assert_eq!(steps(), STEPS_KEPT, "the rest is the journal's");
        let none: Result<()> = room.find(For::Journal, || Err(StoreError::Full { what: "a segment".into() }));
        assert!(none.is_err_and(|error| error.is_full()));
        assert_eq!(steps(), 0);
        // Another opening sees what is there.
        let room = Room::of(&layout, Some(4 << 20)).expect("it can be looked at");
        assert!(!room.give(For::Journal));
        room.met_full();
        room.look(0, 0).expect("there is room");
        assert_eq!((steps(), room.is_full()), (STEPS as usize, false));
    }

    #[test]
    fn the_reserve_grows_with_the_table_and_shrinks_with_the_setting() {
        let dir = tempfile::tempdir().expect("a directory");
        let layout = Layout::new(dir.path());
        let bytes = || -> u64 {
            let steps = fs::read_dir(layout.reserve()).expect("it is there");
            steps.map(|step| step.and_then(|step| step.metadata()).expect("it is there").len()).sum()
        };
        let room = Room::of(&layout, Some(64 << 20)).expect("it can be looked at");
        for (table, reserve) in [(0, 16 << 20), (20 << 20, 32 << 20), (1 << 40, 64 << 20), (0, 64 << 20)] {
            room.look(table, 0).expect("there is room");
            assert_eq!(bytes(), reserve);
        }
        let room = Room::of(&layout, Some(32 << 20)).expect("it can be looked at");
        room.look(1 << 40, 0).expect("there is room");
        assert_eq!(bytes(), 32 << 20);
        let room = Room::of(&layout, Some(0)).expect("it can be looked at");
        room.look(0, 0).expect("there is room");
        assert_eq!((bytes(), room.is_full()), (0, false));
    }
    #[test]
    fn what_a_killed_server_had_reserved_behind_the_ends_of_files_is_given_back_and_the_bytes_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("1.log");
        fs::write(&path, b"records").expect("written");
        let file = File::options().write(true).open(&path).expect("there");
        if rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 20).is_err() {
            return;
        }
        let blocks = || rustix::fs::stat(&path).expect("there").st_blocks;
        let reserved = blocks();
        files::end_reservations(dir.path(), ".seg");
        assert_eq!(blocks(), reserved, "it has another name");
        files::end_reservations(dir.path(), ".log");
        assert!(blocks() < reserved);
        assert_eq!(fs::read(&path).expect("there"), b"records");
    }
}
