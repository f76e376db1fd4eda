//! Cache of names and attributes above a client machine, as a kernel has it: entries live as long as the client's leases. The client
//! machine says when a lease ends.

use std::collections::{BTreeMap, VecDeque};

use loligo_client::{Done, Failed, Invalidation};
use loligo_types::{Attr, FsError, Ino, Kind, Name};

/// Result of a lookup.
pub type Found = Result<(Ino, Kind), FsError>;

/// More names and attributes than this are not cached: all is forgotten, and begun anew.
const MOST: usize = 1 << 22;

/// The cache of one client.
pub struct Kernel {
    /// So many inodes that are no directories are remembered; beyond, the oldest are forgotten.
    inodes_max: usize,
    /// Those that are remembered, oldest first.
    oldest: VecDeque<(Ino, Ino, Name)>,
    /// Those forgotten, which the client machine is to be told of.
    pub forgotten: Vec<Ino>,
    /// By directory, then by name; none: it is known that there is no such name.
    names: BTreeMap<Ino, BTreeMap<Name, Option<(Ino, Kind)>>>,
    attrs: BTreeMap<Ino, Attr>,
    size: usize,
    /// Names that a lane is looking up, with the lanes that wait for the same.
    looking: BTreeMap<(Ino, Name), Vec<usize>>,
    /// Results for lanes that waited, which are to be woken.
    pub found: Vec<(usize, Found)>,
}

impl Kernel {
    /// An empty one for so many inodes.
    pub fn new(inodes_max: usize) -> Kernel {
        Kernel {
            inodes_max,
            oldest: VecDeque::new(),
            forgotten: Vec::new(),
            names: BTreeMap::new(),
            attrs: BTreeMap::new(),
            size: 0,
            looking: BTreeMap::new(),
            found: Vec::new(),
        }
    }

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

    /// The cached target of a name; the outer none: nothing is cached.
    pub fn name(&self, dir: Ino, name: &Name) -> Option<Option<(Ino, Kind)>> {
        self.names.get(&dir)?.get(name).copied()
    }

    /// The cached attributes of an inode.
    pub fn attr(&self, ino: Ino) -> Option<&Attr> {
        self.attrs.get(&ino)
    }

    /// An answer speaks of a name.
    pub fn learn(&mut self, dir: Ino, name: &Name, result: &Result<Done, Failed>) {
        let found = match result {
            Ok(done) => match done.attr() {
                Some(attr) if done.names_cached => Some((attr.ino, attr.kind)),
                Some(attr) => {
                    // Remembered without its name, as an inode that is in use. Directories are not counted, nor forgotten.
                    if attr.kind != Kind::Dir {
                        self.oldest.push_back((attr.ino, dir, name.clone()));
                    }
                    return self.forget(dir, name);
                }
                None => return self.forget(dir, name),
            },
            Err(failed) if failed.names_cached && failed.error == FsError::NotFound => None,
            Err(_) => return,
        };
        self.make_room();
        self.size += 1;
        if let Some((ino, kind)) = found
            && kind != Kind::Dir
        {
            self.oldest.push_back((ino, dir, name.clone()));
        }
        self.names.entry(dir).or_default().insert(name.clone(), found);
        while self.oldest.len() > self.inodes_max {
            let Some((ino, dir, name)) = self.oldest.pop_front() else { break };
            self.forget(dir, &name);
            self.attrs.remove(&ino);
            self.forgotten.push(ino);
        }
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

#[cfg(test)]
mod tests {
    use loligo_types::{Answer, Attr};

    use super::*;

    const DIR: Ino = Ino(9);

    fn name(number: u64) -> Name {
        Name::new(format!("f{number}").as_bytes()).expect("a valid name")
    }

    /// A file was made.
    fn made(number: u64) -> Result<Done, Failed> {
        let inode = loligo_types::Inode::new(Ino(100 + number), Kind::File, 0o644, 0, 0, DIR, loligo_types::Time(0));
        let attr: Attr = inode.attr();
        Ok(Done { attr_cached: true, names_cached: true, ..Done::plain(Answer::Entry(attr)) })
    }

    #[test]
    fn the_oldest_are_forgotten_with_their_names_and_the_client_is_told() {
        let mut kernel = Kernel::new(3);
        for number in 0..5 {
            let made = made(number);
            kernel.learn(DIR, &name(number), &made);
            kernel.learn_attr(&made);
        }
        assert_eq!(kernel.forgotten, [Ino(100), Ino(101)]);
        assert_eq!((kernel.name(DIR, &name(1)), kernel.attr(Ino(101))), (None, None));
        assert_eq!(kernel.name(DIR, &name(4)), Some(Some((Ino(104), Kind::File))));
        assert!(kernel.attr(Ino(104)).is_some());
    }

    #[test]
    fn what_is_invalid_is_not_known_any_more() {
        let mut kernel = Kernel::new(3);
        kernel.learn(DIR, &name(0), &made(0));
        let absent = Failed { error: FsError::NotFound, names_cached: true };
        kernel.learn(DIR, &name(1), &Err(absent));
        assert_eq!(kernel.name(DIR, &name(1)), Some(None));
        kernel.invalidate(Invalidation::Names(DIR));
        assert_eq!((kernel.name(DIR, &name(0)), kernel.name(DIR, &name(1))), (None, None));
    }

    #[test]
    fn of_lanes_that_want_the_same_name_one_looks() {
        let mut kernel = Kernel::new(3);
        assert!(kernel.begin_look(DIR, &name(0), 1));
        assert!(!kernel.begin_look(DIR, &name(0), 2));
        assert!(kernel.begin_look(DIR, &name(1), 3));
        kernel.end_look(DIR, &name(0), Err(FsError::NotFound));
        assert_eq!(kernel.found, [(2, Err(FsError::NotFound))]);
        assert!(kernel.begin_look(DIR, &name(0), 1));
    }
}
