//! Cache of names and attributes in a client of the native run, as in a kernel above it: an entry stays as long as the client says that it
//! may. Used by all lanes of the client at once; not who asks for what is not there.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use loligo_client::{Done, Failed};
use loligo_driver::client::Invalidate;
use loligo_types::{FsError, Ino, Kind, Name};

/// Inodes that are no directories and that are remembered; beyond, the oldest are forgotten (as in the simulation).
const INODES_MAX: usize = 16_384;
/// Names known to be absent and times of invalidations: with more all of them are forgotten, and begun anew.
const MOST: usize = 1 << 20;

/// Result of a lookup.
pub type Found = Result<(Ino, Kind), FsError>;
/// When something was asked: what has become invalid since is not learned from the answer.
#[derive(Clone, Copy)]
pub struct Asked(u64);

/// The cache of one client.
#[derive(Default)]
pub struct Names {
    state: Mutex<State>,
    /// A lane has looked something up.
    looked: Condvar,
}

#[derive(Default)]
struct State {
    /// By directory; none: it is known that there is no such name.
    names: HashMap<Ino, HashMap<Name, Option<(Ino, Kind)>>>,
    /// Inodes whose attributes are known; nobody here wants to see them.
    attrs: HashSet<Ino>,
    /// Those remembered, oldest first.
    oldest: VecDeque<(Ino, Ino, Name)>,
    /// Those forgotten since the client machine was told.
    forgotten: Vec<Ino>,
    /// Names that a lane is looking up.
    looking: HashSet<(Ino, Name)>,
    /// Counts what becomes invalid.
    clock: u64,
    /// When the names of a directory, or the attributes of an inode, became invalid last.
    invalid: HashMap<Ino, u64>,
    /// Nothing asked before this is learned.
    floor: u64,
    absent: usize,
}

impl State {
    fn spoil(&mut self, ino: Ino) {
        self.clock += 1;
        if self.invalid.len() >= MOST {
            self.invalid.clear();
            self.floor = self.clock;
        }
        self.invalid.insert(ino, self.clock);
    }

    fn fresh(&self, ino: Ino, asked: Asked) -> bool {
        asked.0 >= self.floor && self.invalid.get(&ino).is_none_or(|at| *at <= asked.0)
    }
}

impl Names {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic of a lane ends the run with an error; what the others find here is no worse for it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something is asked now.
    pub fn asking(&self) -> Asked {
        Asked(self.state().clock)
    }

    /// The cached target of a name. None: this lane is to look it up, and to say so with [`Names::end_look`]. If another lane is looking it
    /// up, waits for that.
    pub fn begin_look(&self, dir: Ino, name: &Name) -> Option<Found> {
        let mut state = self.state();
        loop {
            if let Some(known) = state.names.get(&dir).and_then(|names| names.get(name)) {
                return Some(known.ok_or(FsError::NotFound));
            }
            if state.looking.insert((dir, name.clone())) {
                return None;
            }
            state = self.looked.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// It has.
    pub fn end_look(&self, dir: Ino, name: &Name) {
        self.state().looking.remove(&(dir, name.clone()));
        self.looked.notify_all();
    }

    /// An answer speaks of a name: of what is there (or was made), or of its absence. Inodes that are to be forgotten are returned.
    pub fn learn(&self, asked: Asked, dir: Ino, name: &Name, result: &Result<Done, Failed>) -> Vec<Ino> {
        let mut state = self.state();
        match result {
            Ok(done) => {
                let Some(attr) = done.attr() else { return Vec::new() };
                if done.attr_cached && state.fresh(attr.ino, asked) {
                    state.attrs.insert(attr.ino);
                }
                if done.names_cached && state.fresh(dir, asked) {
                    state.names.entry(dir).or_default().insert(name.clone(), Some((attr.ino, attr.kind)));
                }
                if attr.kind != Kind::Dir {
                    state.oldest.push_back((attr.ino, dir, name.clone()));
                }
            }
            // Another lane may have made it meanwhile: what is known is not overwritten.
            Err(failed) if failed.names_cached && failed.error == FsError::NotFound && state.fresh(dir, asked) => {
                if state.absent >= MOST {
                    state.names.values_mut().for_each(|names| names.retain(|_, known| known.is_some()));
                    state.absent = 0;
                }
                state.absent += 1;
                state.names.entry(dir).or_default().entry(name.clone()).or_insert(None);
            }
            Err(_) => {}
        }
        state.shrink()
    }

    /// An answer speaks of an inode.
    pub fn learn_attr(&self, asked: Asked, result: &Result<Done, Failed>) {
        let Some((done, attr)) = result.as_ref().ok().and_then(|done| Some((done, done.attr()?))) else { return };
        let mut state = self.state();
        if done.attr_cached && state.fresh(attr.ino, asked) {
            state.attrs.insert(attr.ino);
        }
    }

    /// True if the attributes of an inode are cached.
    pub fn has_attr(&self, ino: Ino) -> bool {
        self.state().attrs.contains(&ino)
    }

    /// A name is being changed by this client, or was: nothing asked before is learned.
    pub fn change(&self, dir: Ino, name: &Name) {
        let mut state = self.state();
        state.spoil(dir);
        if let Some(names) = state.names.get_mut(&dir) {
            names.remove(name);
        }
    }
}

impl State {
    /// Forgets the oldest if there are too many; those that the client machine is to be told of, some at a time.
    fn shrink(&mut self) -> Vec<Ino> {
        while self.oldest.len() > INODES_MAX {
            let Some((ino, dir, name)) = self.oldest.pop_front() else { break };
            if let Some(names) = self.names.get_mut(&dir)
                && names.get(&name).is_some_and(|known| known.is_some_and(|(known, _)| known == ino))
            {
                names.remove(&name);
            }
            self.attrs.remove(&ino);
            self.forgotten.push(ino);
        }
        if self.forgotten.len() < 64 { Vec::new() } else { std::mem::take(&mut self.forgotten) }
    }
}

impl Invalidate for Names {
    fn names(&self, dirs: &[Ino]) {
        let mut state = self.state();
        for dir in dirs {
            state.spoil(*dir);
            state.names.remove(dir);
        }
    }

    fn attr(&self, ino: Ino) {
        let mut state = self.state();
        state.spoil(ino);
        state.attrs.remove(&ino);
    }

    fn data(&self, ino: Ino) {
        self.attr(ino);
    }
}
