//! What is cached above a client machine, as a kernel caches it: names and attributes, as long as the client says that they may be.
//! Not when that ends: the client machine says it.

use std::collections::BTreeMap;

use loligo_client::{Done, Failed, Invalidation};
use loligo_types::{Attr, FsError, Ino, Kind, Name};

/// What a name was found to be.
pub type Found = Result<(Ino, Kind), FsError>;

/// More directories and attributes than this are not cached: all is forgotten, and begun anew.
const MOST: usize = 1 << 20;

/// The cache of one client.
#[derive(Default)]
pub struct Kernel {
    /// By directory, then by name; none: it is known that there is no such name.
    names: BTreeMap<Ino, BTreeMap<Name, Option<(Ino, Kind)>>>,
    attrs: BTreeMap<Ino, Attr>,
    size: usize,
    /// Names that a lane is looking up, with the lanes that wait for the same.
    looking: BTreeMap<(Ino, Name), Vec<usize>>,
    /// What was found for lanes that waited, which are to be woken.
    pub found: Vec<(usize, Found)>,
}

impl Kernel {
    /// A lane wants to look up a name. Whether it is to do so: else another one does, for both.
    pub fn begin_look(&mut self, dir: Ino, name: &Name, lane: usize) -> bool {
        match self.looking.get_mut(&(dir, name.clone())) {
            Some(waiting) => {
                waiting.push(lane);
                false
            }
            None => self.looking.insert((dir, name.clone()), Vec::new()).is_none(),
        }
    }

    /// It has.
    pub fn end_look(&mut self, dir: Ino, name: &Name, found: Found) {
        let waiting = self.looking.remove(&(dir, name.clone())).unwrap_or_default();
        self.found.extend(waiting.into_iter().map(|lane| (lane, found)));
    }

    /// What a name is known to be; the outer none: nothing is known.
    pub fn name(&self, dir: Ino, name: &Name) -> Option<Option<(Ino, Kind)>> {
        self.names.get(&dir)?.get(name).copied()
    }

    /// What is known of an inode.
    pub fn attr(&self, ino: Ino) -> Option<&Attr> {
        self.attrs.get(&ino)
    }

    /// An answer speaks of a name.
    pub fn learn(&mut self, dir: Ino, name: &Name, result: &Result<Done, Failed>) {
        let found = match result {
            Ok(done) => match done.attr() {
                Some(attr) if done.names_cached => Some((attr.ino, attr.kind)),
                _ => return self.forget(dir, name),
            },
            Err(failed) if failed.names_cached && failed.error == FsError::NotFound => None,
            Err(_) => return,
        };
        self.make_room();
        self.size += 1;
        self.names.entry(dir).or_default().insert(name.clone(), found);
    }

    /// An answer speaks of an inode.
    pub fn learn_attr(&mut self, result: &Result<Done, Failed>) {
        let Ok(done) = result else { return };
        match done.attr() {
            Some(attr) if done.attr_cached => {
                self.make_room();
                self.size += 1;
                self.attrs.insert(attr.ino, *attr);
            }
            Some(attr) => drop(self.attrs.remove(&attr.ino)),
            None => {}
        }
    }

    /// A name is changed.
    pub fn forget(&mut self, dir: Ino, name: &Name) {
        if let Some(names) = self.names.get_mut(&dir) {
            names.remove(name);
        }
    }

    /// An inode is changed.
    pub fn forget_attr(&mut self, ino: Ino) {
        self.attrs.remove(&ino);
    }

    /// The client says what may not be cached any more.
    pub fn invalidate(&mut self, what: Invalidation) {
        match what {
            Invalidation::Names(dir) => drop(self.names.remove(&dir)),
            Invalidation::Attr(ino) | Invalidation::Data(ino) => drop(self.attrs.remove(&ino)),
        }
    }

    fn make_room(&mut self) {
        if self.size >= MOST {
            self.names.clear();
            self.attrs.clear();
            self.size = 0;
        }
    }
}
