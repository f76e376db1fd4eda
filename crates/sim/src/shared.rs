//! Check of a directory in which others work while its owner has it decoupled ("interfere: allow"): nothing is lost that either side made
//! and was told to be done, whatever the other side did meanwhile without knowing of it. The programs of both sides are in
//! [`crate::workload`]; directories in which nobody else works are in [`crate::subtrees`].
//!
//! Each thing that was made is remembered: a file or directory by its number, written data by a tag that nobody else writes. It must be
//! found, under any name, until somebody who knows of it begins an operation that may end it. Of others that is a remove or an overwrite;
//! of the owner only if it had fetched the file after that state. The owner's things must be found when their merge was acknowledged, and
//! all or none of them if the outcome of the merge is unknown.
//!
//! Others take turns, so operations of one of them stand by themselves, but for merges. Where the outcome of an operation is unknown, or a
//! merge came between the look and the operation, everything that it may have met is given up: that is seldom.

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::{Ino, Kind};

use crate::data::filled;
use crate::subtrees::State;

/// Bytes of a file, all of them written at once.
pub const LEN: usize = 64;

/// A place for a name.
pub type Place = (Ino, Vec<u8>);

/// The maker of a thing, and whether it must be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Made {
    /// Its maker was told that it is done.
    Sure,
    /// It comes with a merge of which nobody knows, by its number here.
    With(u64),
}

/// Something that was made.
#[derive(Clone, Debug)]
struct Thing {
    ino: Ino,
    /// Tag that was written there; 0: it is the inode itself.
    tag: u32,
    /// From when on it may have been seen.
    begun: u64,
    made: Made,
    /// Somebody may have ended it.
    ended: bool,
}

/// Operation of one of the others. Numbers are those found under the names just before.
#[derive(Clone, Debug)]
pub enum Act {
    /// It ends nothing.
    Make,
    Write {
        ino: Ino,
        tag: u32,
    },
    /// A name is taken away, and what has no other may be gone.
    Remove {
        at: Place,
        found: Ino,
    },
    Rename {
        from: Place,
        moved: Ino,
        to: Place,
        over: Option<Ino>,
    },
}

/// Result of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Became {
    Done,
    /// Nothing was done.
    Refused,
    /// Nobody knows, and it may still come.
    Unknown,
}

/// Changes of an owner since its last merge.
#[derive(Clone, Debug, Default)]
pub struct Mine {
    /// Inodes that it made, and what it wrote last into files.
    pub made: BTreeSet<Ino>,
    pub tags: BTreeMap<Ino, u32>,
    pub places: Vec<(Ino, Place)>,
    /// Things that it may have ended, with the time when it had fetched them; data: only as written there.
    pub ended: Vec<(Ino, u64)>,
    pub written: Vec<(Ino, u64)>,
    /// When it has fetched which inode.
    pub fetched: BTreeMap<Ino, u64>,
}

impl Mine {
    /// It writes something over.
    pub fn writes(&mut self, ino: Ino, tag: u32) {
        self.tags.insert(ino, tag);
        self.written.extend(self.fetched.get(&ino).map(|at| (ino, *at)));
    }

    /// It removes something.
    pub fn removes(&mut self, ino: Ino) {
        self.tags.remove(&ino);
        self.made.remove(&ino);
        self.ended.extend(self.fetched.get(&ino).map(|at| (ino, *at)));
    }
}

/// Counts of operations, to see that some were done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Merges that were acknowledged, and what did not go together in them.
    pub merged: u64,
    pub conflicts: u64,
    /// Things that had to be there at the end, and those that were made.
    pub wanted: u64,
    pub made: u64,
    /// Looks at something that had to be there.
    pub looks: u64,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Counts) {
        self.merged += other.merged;
        self.conflicts += other.conflicts;
        self.wanted += other.wanted;
        self.made += other.made;
        self.looks += other.looks;
    }
}

/// The directory.
#[derive(Debug, Default)]
pub struct Shared {
    /// 0: there is none.
    pub root: Ino,
    /// One of the others has its turn.
    pub taken: bool,
    /// Directories that were made in it.
    pub dirs: Vec<Ino>,
    things: Vec<Thing>,
    doing: Option<(Act, u64)>,
    /// Things that may still change.
    wild: BTreeSet<Ino>,
    wild_names: BTreeSet<Place>,
    /// Names that were ever given.
    places: BTreeMap<Ino, BTreeSet<Place>>,
    /// Merges that were sent and may come at any time, and when it was last known of one.
    under_way: BTreeSet<u64>,
    known_at: u64,
    merges: u64,
    pub counts: Counts,
}

impl Shared {
    /// It is there, and empty.
    pub fn begin(&mut self, root: Ino) {
        self.root = root;
        self.dirs.push(root);
    }

    fn add(&mut self, ino: Ino, tag: u32, begun: u64, made: Made) {
        self.counts.made += 1;
        self.things.push(Thing { ino, tag, begun, made, ended: false });
    }

    /// A name was given.
    pub fn gives(&mut self, ino: Ino, at: Place) {
        self.places.entry(ino).or_default().insert(at);
    }

    // The others.

    /// One of them is about to do this; `begun`: when it looked what there is.
    pub fn does(&mut self, act: Act, begun: u64) {
        self.doing = Some((act, begun));
    }

    /// True if no merge can have come since.
    pub fn is_alone_since(&self, begun: u64) -> bool {
        self.under_way.is_empty() && self.known_at < begun
    }

    /// That is over.
    pub fn did(&mut self, became: Became) {
        let Some((act, begun)) = self.doing.take() else { return };
        let alone = self.is_alone_since(begun);
        match (act, became) {
            (_, Became::Refused) | (Act::Make, _) => {}
            (Act::Write { ino, tag }, Became::Done) => {
                self.end_tags(ino);
                self.add(ino, tag, begun, Made::Sure);
                if !alone {
                    // It may have been removed while it was open.
                    self.end_tags(ino);
                }
            }
            (Act::Write { ino, .. }, Became::Unknown) => _ = self.wild.insert(ino),
            (Act::Remove { at, found }, Became::Done) => {
                self.end_all(found);
                if !alone {
                    self.end_all_at(&at);
                }
            }
            (Act::Remove { at, found }, Became::Unknown) => {
                self.wild.insert(found);
                self.wild_names.insert(at);
            }
            (Act::Rename { from, moved, to, over }, Became::Done) => {
                if let Some(over) = over.filter(|over| *over != moved) {
                    self.end_all(over);
                }
                if !alone {
                    self.end_all_at(&to);
                    let others: Vec<Ino> = self.at(&from).collect();
                    others.into_iter().for_each(|ino| self.gives(ino, to.clone()));
                }
                self.gives(moved, to);
            }
            (Act::Rename { from, moved, to, over }, Became::Unknown) => {
                self.wild.extend(over);
                self.wild_names.insert(to.clone());
                self.wild_names.insert(from);
                self.gives(moved, to);
            }
        }
    }

    /// One of them has made something that was not there. A merge that came before it was told so may have ended it.
    pub fn made(&mut self, ino: Ino, at: Place, begun: u64) {
        self.gives(ino, at);
        if self.is_alone_since(begun) {
            self.add(ino, 0, begun, Made::Sure);
        }
    }

    /// Notes that the client whose turn it was is gone.
    pub fn leaves(&mut self) {
        self.did(Became::Unknown);
        self.taken = false;
    }

    fn at<'a>(&'a self, at: &'a Place) -> impl Iterator<Item = Ino> + 'a {
        self.places.iter().filter(|(_, places)| places.contains(at)).map(|(ino, _)| *ino)
    }

    fn end_all(&mut self, ino: Ino) {
        self.things.iter_mut().filter(|thing| thing.ino == ino).for_each(|thing| thing.ended = true);
    }

    fn end_tags(&mut self, ino: Ino) {
        let tags = self.things.iter_mut().filter(|thing| thing.ino == ino && thing.tag != 0);
        tags.for_each(|thing| thing.ended = true);
    }

    fn end_all_at(&mut self, at: &Place) {
        let inos: Vec<Ino> = self.at(at).collect();
        inos.into_iter().for_each(|ino| self.end_all(ino));
    }

    // The owner.

    /// It is about to merge this; the number of that.
    pub fn sends(&mut self, mine: &Mine, now: u64) -> u64 {
        self.merges += 1;
        let with = Made::With(self.merges);
        let ended = mine.ended.iter().map(|ended| (ended, true));
        for ((ino, fetched), all) in ended.chain(mine.written.iter().map(|written| (written, false))) {
            let known = |thing: &&mut Thing| thing.ino == *ino && thing.begun <= *fetched && (all || thing.tag != 0);
            self.things.iter_mut().filter(known).for_each(|thing| thing.ended = true);
        }
        mine.places.iter().for_each(|(ino, at)| self.gives(*ino, at.clone()));
        mine.made.iter().for_each(|ino| self.add(*ino, 0, now, with));
        mine.tags.iter().for_each(|(ino, tag)| self.add(*ino, *tag, now, with));
        self.under_way.insert(self.merges);
        self.merges
    }

    /// It was acknowledged.
    pub fn merged(&mut self, merge: u64, now: u64) {
        let of_it = self.things.iter_mut().filter(|thing| thing.made == Made::With(merge));
        of_it.for_each(|thing| thing.made = Made::Sure);
        self.under_way.remove(&merge);
        self.known_at = now;
        self.counts.merged += 1;
    }

    /// Another one has it: what was not merged by now never is.
    pub fn decoupled(&mut self, now: u64) {
        self.under_way.clear();
        self.known_at = now;
    }

    // What must be there.

    fn is_wild(&self, ino: Ino) -> bool {
        let named = self.places.get(&ino).is_some_and(|places| places.iter().any(|at| self.wild_names.contains(at)));
        named || self.wild.contains(&ino)
    }

    fn is_wanted(&self, thing: &Thing) -> bool {
        thing.made == Made::Sure && !thing.ended && !self.is_wild(thing.ino)
    }

    /// True if nothing else was ever written there, so that it is found under its number.
    fn is_only(&self, thing: &Thing) -> bool {
        self.things.iter().filter(|other| other.ino == thing.ino && other.tag != 0).count() == 1
    }

    /// Files that must have these tags now.
    pub fn wanted_files(&self) -> Vec<(Ino, u32)> {
        let wanted = self.things.iter().filter(|thing| thing.tag != 0 && self.is_wanted(thing) && self.is_only(thing));
        wanted.map(|thing| (thing.ino, thing.tag)).collect()
    }

    /// Faults at the end, when this is there.
    pub fn compare(&mut self, state: &State) -> Vec<String> {
        let files = state.values().filter(|thing| thing.kind == Kind::File);
        let held: BTreeSet<&[u8]> = files.map(|thing| &thing.data[..]).collect();
        let is_there = |thing: &Thing| match thing.tag {
            0 => state.contains_key(&thing.ino),
            tag if self.is_only(thing) => state.get(&thing.ino).is_some_and(|found| found.data == filled(tag, LEN)),
            tag => held.contains(&filled(tag, LEN)[..]),
        };
        let mut wrong = Vec::new();
        let wanted: Vec<&Thing> = self.things.iter().filter(|thing| self.is_wanted(thing)).collect();
        for thing in wanted.iter().filter(|thing| !is_there(thing)) {
            wrong.push(format!("of what was done in {} this is lost: {thing:?}; there is {state:?}", self.root));
        }
        // Of what others may have met nothing is known.
        let mut unknown: BTreeMap<u64, Vec<&Thing>> = BTreeMap::new();
        for thing in &self.things {
            if let Made::With(merge) = thing.made
                && !thing.ended
                && !self.is_wild(thing.ino)
            {
                unknown.entry(merge).or_default().push(thing);
            }
        }
        for (merge, things) in unknown {
            let there = things.iter().filter(|thing| is_there(thing)).count();
            if there != 0 && there != things.len() {
                wrong.push(format!("of merge {merge} {there} of these are there: {things:?}, in {state:?}"));
            }
        }
        self.counts.wanted += wanted.len() as u64;
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subtrees::Thing as Found;

    const ROOT: Ino = Ino(5);
    const FILE: Ino = Ino(9);

    fn at(name: &[u8]) -> Place {
        (ROOT, name.to_vec())
    }

    fn shared() -> Shared {
        let mut shared = Shared::default();
        shared.begin(ROOT);
        shared
    }

    fn with(files: &[(Ino, u32)]) -> State {
        let file = |tag| Found { kind: Kind::File, data: filled(tag, LEN), ..Found::root() };
        files.iter().map(|(ino, tag)| (*ino, file(*tag))).collect()
    }

    fn wrote(shared: &mut Shared, tag: u32, begun: u64) {
        shared.does(Act::Write { ino: FILE, tag }, begun);
        shared.did(Became::Done);
    }

    #[test]
    fn what_others_wrote_is_wanted_until_somebody_ends_it_who_knew_of_it() {
        let mut shared = shared();
        shared.made(FILE, at(b"p"), 10);
        wrote(&mut shared, 1, 20);
        assert!(shared.compare(&with(&[(FILE, 1)])).is_empty());
        assert_eq!(shared.compare(&with(&[])).len(), 2);
        // The owner has fetched it before that was written: it is kept as another file, or under another name.
        let mine = Mine { written: vec![(FILE, 15)], tags: BTreeMap::from([(FILE, 2)]), ..Mine::default() };
        let merge = shared.sends(&mine, 30);
        shared.merged(merge, 40);
        assert!(shared.compare(&with(&[(FILE, 2), (Ino(10), 1)])).is_empty());
        assert_eq!(shared.compare(&with(&[(FILE, 2)])).len(), 1);
        assert_eq!(shared.compare(&with(&[(FILE, 1)])).len(), 1);
        // And after.
        let mine = Mine { ended: vec![(FILE, 45)], ..Mine::default() };
        shared.sends(&mine, 50);
        assert!(shared.compare(&with(&[])).is_empty());
    }

    #[test]
    fn of_a_merge_of_which_nobody_knows_all_is_there_or_nothing() {
        let mut shared = shared();
        let other = Ino(10);
        let mine = Mine {
            made: BTreeSet::from([FILE, other]),
            tags: BTreeMap::from([(FILE, 1), (other, 2)]),
            ..Mine::default()
        };
        shared.sends(&mine, 20);
        assert!(shared.compare(&with(&[])).is_empty());
        assert!(shared.compare(&with(&[(FILE, 1), (other, 2)])).is_empty());
        assert_eq!(shared.compare(&with(&[(FILE, 1)])).len(), 1);
    }

    #[test]
    fn what_met_a_merge_or_may_still_come_is_given_up() {
        let mut shared = shared();
        shared.made(FILE, at(b"p"), 10);
        shared.does(Act::Remove { at: at(b"p"), found: Ino(11) }, 20);
        let mine = Mine { made: BTreeSet::from([Ino(12)]), places: vec![(Ino(12), at(b"p"))], ..Mine::default() };
        let merge = shared.sends(&mine, 25);
        shared.merged(merge, 26);
        shared.did(Became::Done);
        assert!(shared.compare(&with(&[])).is_empty(), "it may have been either");
        let mut shared = self::shared();
        shared.does(Act::Remove { at: at(b"p"), found: Ino(11) }, 20);
        shared.leaves();
        shared.made(FILE, at(b"p"), 30);
        assert!(shared.compare(&with(&[])).is_empty(), "it may have come later");
    }
}
