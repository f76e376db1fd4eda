//! The shape of a subtree as all parts of a merge give it together: the kind of each new number, whether it is made, and the name of each
//! directory. It looks nothing up, and knows no rights; `whole.rs` holds it against what was there before.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use loligo_types::{DecoupledRecord, Event, EventView, Ino, Inode, Kind};

use loligo_types::hash::IntMap;

/// Numbers of a page.
const PAGE: u64 = 256;

/// Of a number: its kind; whether anything was said of it; whether it is an inode; whether it was one and is gone.
const KIND: u8 = 7;
const SPOKEN: u8 = 8;
const MADE: u8 = 16;
const GONE: u8 = 32;

/// Effect of an event on a number that is new.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// It makes an inode of it, or changes that.
    Makes,
    /// It ends the inode.
    Ends,
    /// It needs the inode.
    Needs,
    /// It takes something away from the inode, which may be gone.
    Mentions,
}

/// A directory that is new, as it is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NewDir {
    pub(super) parent: Ino,
    pub(super) hash: Option<u64>,
    pub(super) nlink: u32,
    pub(super) size: u64,
}

/// Names of directories in a directory.
pub(super) type Names = BTreeMap<Box<[u8]>, Ino>;

/// The shape.
#[derive(Default)]
pub(super) struct Shape {
    pages: IntMap<u64, Box<[u8; PAGE as usize]>>,
    /// New numbers that something is said of and that are no inodes.
    unmade: u64,
    /// The highest new number that something is said of.
    last: Ino,
    /// New directories.
    pub(super) dirs: BTreeMap<Ino, NewDir>,
    /// Names of directories that the merge gives, by the directory that they are in.
    pub(super) names: HashMap<Ino, Names>,
    /// New inodes that say that they have xattrs.
    pub(super) xattrs: BTreeSet<Ino>,
    /// Directories that were there before and lose their names: the directory in which each had it.
    pub(super) left: BTreeMap<Ino, Ino>,
    /// A part that waits for records, and how many of its events were noted.
    under_way: Option<(Arc<[u8]>, usize)>,
}

impl Shape {
    /// Number of events of a part that were noted before it had to wait. `None`: another part waits in its place.
    pub(super) fn noted_of(&self, body: &Arc<[u8]>) -> Option<usize> {
        match &self.under_way {
            None => Some(0),
            Some((waits, noted)) => Arc::ptr_eq(waits, body).then_some(*noted),
        }
    }

    /// A part waits for records, with so many of its events noted.
    pub(super) fn waits(&mut self, body: &Arc<[u8]>, noted: usize) {
        self.under_way = Some((body.clone(), noted));
    }

    /// All of a part is noted.
    pub(super) fn is_noted(&mut self) {
        self.under_way = None;
    }

    /// True if each new number that something is said of is an inode, or was one, and is below this one.
    pub(super) fn is_made_below(&self, used: Ino) -> bool {
        self.unmade == 0 && self.last < used
    }

    /// True if a new number is an inode in the end.
    pub(super) fn is_made(&self, ino: Ino) -> bool {
        self.state(ino) & MADE != 0
    }

    /// Bytes that it takes for numbers: few unless they lie far apart.
    pub(super) fn bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    fn state(&self, ino: Ino) -> u8 {
        self.pages.get(&(ino.0 / PAGE)).map_or(0, |page| page[(ino.0 % PAGE) as usize])
    }

    /// Notes an event; whether it goes together with those before it.
    pub(super) fn note(&mut self, record: &DecoupledRecord, event: EventView<'_>) -> bool {
        match event {
            EventView::Inode(inode) => self.note_inode(record, inode),
            EventView::Entry { dir, name, ino, kind, .. } => {
                if kind == Kind::Dir {
                    self.names.entry(dir).or_default().insert(name.into(), ino);
                } else {
                    self.end_name(dir, name);
                }
                self.speak(record, dir, Some(Kind::Dir), What::Needs)
                    && self.speak(record, ino, Some(kind), What::Needs)
            }
            EventView::Other(event) => match event {
                Event::EntryGone { dir, name } => {
                    self.end_name(*dir, name.as_bytes());
                    self.speak(record, *dir, Some(Kind::Dir), What::Mentions)
                }
                Event::InodeGone(ino) => {
                    self.dirs.remove(ino);
                    self.speak(record, *ino, None, What::Ends)
                }
                Event::Xattr { ino, .. } => self.speak(record, *ino, None, What::Needs),
                Event::Inline { ino, .. } => self.speak(record, *ino, Some(Kind::File), What::Needs),
                Event::XattrGone { ino, .. } => self.speak(record, *ino, None, What::Mentions),
                Event::InlineGone(ino) | Event::Discard { ino, .. } => {
                    self.speak(record, *ino, Some(Kind::File), What::Mentions)
                }
                _ => false,
            },
        }
    }

    fn note_inode(&mut self, record: &DecoupledRecord, inode: &Inode) -> bool {
        if !record.is_new(inode.ino) {
            return true;
        }
        if inode.kind == Kind::Dir {
            let dir = NewDir { parent: inode.parent, hash: inode.place.hash(), nlink: inode.nlink, size: inode.size };
            self.dirs.insert(inode.ino, dir);
        }
        // The directory that counts a file which is not embedded there may be gone.
        let embedded = inode.place.hash().is_some();
        let parent = if embedded { What::Needs } else { What::Mentions };
        if inode.has_xattrs {
            self.xattrs.insert(inode.ino);
        } else if !self.xattrs.is_empty() {
            self.xattrs.remove(&inode.ino);
        }
        self.speak(record, inode.ino, Some(inode.kind), What::Makes)
            && self.speak(record, inode.parent, Some(Kind::Dir), parent)
    }

    fn end_name(&mut self, dir: Ino, name: &[u8]) {
        if let Some(names) = self.names.get_mut(&dir) {
            names.remove(name);
        }
    }

    /// Something is said of a number; whether it can be, if it is a new one.
    fn speak(&mut self, record: &DecoupledRecord, ino: Ino, kind: Option<Kind>, what: What) -> bool {
        if !record.is_new(ino) {
            return true;
        }
        self.last = self.last.max(ino);
        let page = self.pages.entry(ino.0 / PAGE).or_insert_with(|| Box::new([0; PAGE as usize]));
        let state = &mut page[(ino.0 % PAGE) as usize];
        let lacks = |state: u8| u64::from(state & SPOKEN != 0 && state & (MADE | GONE) == 0);
        let before = lacks(*state);
        if let Some(kind) = kind {
            if *state & KIND != 0 && *state & KIND != kind.code() {
                return false;
            }
            *state |= kind.code();
        }
        *state |= SPOKEN;
        match what {
            What::Makes => *state = *state & !GONE | MADE,
            What::Ends => *state = *state & !MADE | GONE,
            What::Needs => *state &= !GONE,
            What::Mentions => {}
        }
        let after = lacks(*state);
        self.unmade = self.unmade + after - before;
        true
    }
}

#[cfg(test)]
mod tests {
    use loligo_types::{Name, Time};

    use super::*;

    const DIR: Ino = Ino(300);

    fn record() -> DecoupledRecord {
        let mut record = DecoupledRecord { dir: DIR, used: Ino(400), ..DecoupledRecord::default() };
        record.grant(Ino(390), 100);
        record
    }

    fn inode(ino: u64, kind: Kind) -> Event {
        Event::Inode(Box::new(Inode::new(Ino(ino), kind, 0o755, 0, 0, DIR, Time(1))))
    }

    fn entry(dir: u64, ino: u64, kind: Kind) -> Event {
        let name = Name::new(b"n").expect("a good name");
        Event::Entry { dir: Ino(dir), name, ino: Ino(ino), kind, remote: false }
    }

    /// Notes events; true if they go together, and true if all that they speak of is made.
    fn noted(events: &[Event]) -> (bool, bool) {
        let mut shape = Shape::default();
        let all = events.iter().all(|event| shape.note(&record(), event.view()));
        (all, shape.is_made_below(Ino(410)))
    }

    #[test]
    fn each_new_number_has_one_kind_and_is_made() {
        assert_eq!(noted(&[entry(300, 400, Kind::File), inode(400, Kind::File)]), (true, true));
        assert!(!noted(&[inode(400, Kind::File), entry(300, 400, Kind::Dir)]).0);
        assert!(!noted(&[inode(400, Kind::File), entry(400, 401, Kind::File)]).0, "a file has no names");
        assert!(!noted(&[inode(400, Kind::Dir), inode(400, Kind::File)]).0);
        assert_eq!(noted(&[entry(300, 400, Kind::File)]), (true, false), "a name of nothing");
        let gone = Event::InodeGone(Ino(400));
        assert_eq!(noted(&[inode(400, Kind::File), gone.clone()]), (true, true));
        assert_eq!(noted(&[inode(400, Kind::File), gone.clone(), entry(300, 400, Kind::File)]), (true, false));
        let drops = Event::Discard { ino: Ino(400), from: 0, object_size: 1 << 20 };
        assert_eq!(noted(&[inode(400, Kind::File), gone, drops]), (true, true));
        assert_eq!(noted(&[inode(411, Kind::File)]), (true, false), "beyond what is said to be used");
    }

    #[test]
    fn names_of_directories_are_known_as_the_last_word_has_them() {
        let mut shape = Shape::default();
        let events = [inode(400, Kind::Dir), entry(300, 400, Kind::Dir), entry(300, 401, Kind::File)];
        assert!(events.iter().all(|event| shape.note(&record(), event.view())));
        assert!(shape.names[&DIR].is_empty() && shape.dirs.contains_key(&Ino(400)), "the name is another's");
    }
}
