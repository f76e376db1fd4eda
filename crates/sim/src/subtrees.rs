//! Check of directories that clients decouple now and then. Nobody changes anything in them in another way, and nobody else looks at them:
//! so this part of the checks stands by itself.
//!
//! Of each such directory the possible states are kept: one, and besides it the state after a merge while that is under way or its outcome
//! is unknown. A reader must see one of them, and nothing below while a client surely has the directory decoupled. The client that
//! decouples the directory looks at all of it. The owners' programs are in [`crate::workload`].

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use loligo_journal::table::Row;
use loligo_types::{Ino, Kind};

use crate::kept::{Keeping, Kept};
use crate::rng::Rng;
use crate::shared::Shared;

/// Something in such a directory, or itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thing {
    pub kind: Kind,
    /// 0 of the root, whose mode others change.
    pub mode: u16,
    pub nlink: u32,
    pub size: u64,
    pub data: Vec<u8>,
    pub entries: BTreeMap<Vec<u8>, Ino>,
}

impl Thing {
    /// An empty root.
    pub fn root() -> Thing {
        Thing { kind: Kind::Dir, mode: 0, nlink: 2, size: 0, data: Vec::new(), entries: BTreeMap::new() }
    }
}

/// All of it, the root included, by numbers.
pub type State = BTreeMap<Ino, Thing>;

/// Something that was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sight {
    /// Attributes of the root: entries and links.
    Root(u64, u32),
    /// All names of a directory.
    List(Ino, BTreeMap<Vec<u8>, Ino>),
    /// A name: number, mode, links, size.
    Name(Ino, Vec<u8>, Option<(Ino, u16, u32, u64)>),
    /// Content of a file.
    Data(Ino, Vec<u8>),
    /// The request was not refused as busy, whatever else became of it; true: it changes something.
    Met(String, bool),
}

impl Sight {
    fn fits(&self, root: Ino, state: &State) -> bool {
        match self {
            Sight::Root(size, nlink) => state.get(&root).is_some_and(|root| (root.size, root.nlink) == (*size, *nlink)),
            Sight::List(dir, names) => match state.get(dir) {
                Some(thing) => thing.entries == *names,
                None => names.is_empty(),
            },
            Sight::Name(dir, name, found) => {
                let there = state.get(dir).and_then(|dir| dir.entries.get(name));
                let told = |ino: Ino| state.get(&ino).map(|thing| (ino, thing.mode, thing.nlink, thing.size));
                there.and_then(|ino| told(*ino)) == *found
            }
            Sight::Data(ino, data) => state.get(ino).is_some_and(|thing| thing.data == *data),
            Sight::Met(..) => true,
        }
    }

    /// True if it tells nothing that others may not see while they may read.
    fn is_read(&self) -> bool {
        !matches!(self, Sight::Met(_, true))
    }

    /// True if only a client that may look below the root can be told so. Anybody can be told of things that are gone.
    fn is_inside(&self, root: Ino) -> bool {
        match self {
            Sight::Root(..) => false,
            Sight::List(dir, names) => *dir == root || !names.is_empty(),
            Sight::Name(dir, _, found) => *dir == root || found.is_some(),
            Sight::Data(..) | Sight::Met(..) => true,
        }
    }
}

/// An owner is heard so often, microseconds: what is seen so long after it was heard is counted as seen while it has the directory.
const READ_US: u64 = 100_000;

/// A state that the directory may be in.
#[derive(Debug)]
struct Way {
    state: State,
    /// From when on.
    from: u64,
    /// Until when.
    until: Option<u64>,
}

/// State of a decoupling.
#[derive(Debug, Default)]
struct Held {
    /// It was surely decoupled from then on, and until then.
    from: u64,
    until: u64,
}

/// One of the directories.
#[derive(Debug, Default)]
struct Job {
    ways: Vec<Way>,
    held: BTreeMap<u64, Held>,
    /// Sights of others below the root, from when to when.
    seen: Vec<(u64, u64, Sight)>,
}

/// A subtree whose owner has died.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Left {
    pub dir: Ino,
    pub owner: u64,
    pub epoch: u64,
}

/// Counts of operations, to see that some were done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Subtrees that were decoupled.
    pub decoupled: u64,
    /// Those that were gone on with after their owner had lost its session or died.
    pub resumed: u64,
    /// Merges that were acknowledged.
    pub merged: u64,
    /// Times that parts had to be sent again from the first one on.
    pub again: u64,
    /// Subtrees that were taken from their owners.
    pub lost: u64,
    /// Journals that were kept in the store, and those that another one merged.
    pub kept: u64,
    pub taken: u64,
    /// Looks that were refused because of it, and those that were not.
    pub busy: u64,
    /// Looks that saw something.
    pub seen: u64,
    /// Looks below one that saw something about while it was decoupled.
    pub read: u64,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: &Counts) {
        self.decoupled += other.decoupled;
        self.resumed += other.resumed;
        self.merged += other.merged;
        self.again += other.again;
        self.lost += other.lost;
        self.kept += other.kept;
        self.taken += other.taken;
        self.busy += other.busy;
        self.seen += other.seen;
        self.read += other.read;
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Jobs {
    /// Now, microseconds: programs have no clock.
    pub now: u64,
    /// The file system's, under which names are hashed.
    pub hash_key: (u64, u64),
    /// Owners keep journals in the store.
    pub keeps: bool,
    /// Others read the last merge of what is decoupled.
    pub readers: bool,
    /// They merge what is there, also if that was merged: [`crate::Canary::KeptMergedTwice`].
    pub merges_twice: bool,
    /// Those.
    pub kept: Kept,
    jobs: BTreeMap<Ino, Job>,
    /// There are several ranks. A file that had several names may then live by itself at another one than its directory does, where others
    /// reach it by its number; it is not its owner's before it comes there.
    pub several: bool,
    /// Files that had several names.
    linked: BTreeSet<Ino>,
    /// A directory in which others work besides its owner.
    pub shared: Shared,
    /// Decouplings whose owners have died.
    left: Vec<Left>,
    pub counts: Counts,
    pub findings: Vec<String>,
}

impl Jobs {
    /// A new empty directory.
    pub fn create(&mut self, dir: Ino) {
        let way = Way { state: State::from([(dir, Thing::root())]), from: 0, until: None };
        self.jobs.insert(dir, Job { ways: vec![way], ..Job::default() });
    }

    /// A directory to decouple or to look at.
    pub fn some_job(&self, rng: &mut Rng) -> Ino {
        let dirs: Vec<Ino> = self.jobs.keys().copied().collect();
        rng.pick(&dirs)
    }

    /// A directory in one of them that may be there, or the root.
    pub fn some_dir(&self, root: Ino, rng: &mut Rng) -> Ino {
        let Some(way) = self.jobs.get(&root).and_then(|job| job.ways.last()) else { return root };
        let dirs: Vec<Ino> = way.state.iter().filter(|(_, t)| t.kind == Kind::Dir).map(|(ino, _)| *ino).collect();
        if rng.one_in(2) { root } else { rng.pick(&dirs) }
    }

    /// Something below one of them that may be there and is not at another rank by itself.
    pub fn some_inside(&self, root: Ino, rng: &mut Rng) -> Option<(Ino, Kind)> {
        let way = self.jobs.get(&root)?.ways.last()?;
        let is_apart = |ino: Ino| self.several && self.linked.contains(&ino);
        let inside = way.state.iter().map(|(ino, thing)| (*ino, thing.kind));
        let inside: Vec<_> = inside.filter(|(ino, _)| *ino != root && !is_apart(*ino)).collect();
        (!inside.is_empty()).then(|| rng.pick(&inside))
    }

    /// Those directories, and the directories in them that may be there.
    pub fn all_dirs(&self) -> Vec<Ino> {
        let states = self.jobs.values().filter_map(|job| job.ways.last()).map(|way| &way.state);
        states
            .flat_map(|state| state.iter().filter(|(_, thing)| thing.kind == Kind::Dir).map(|(ino, _)| *ino))
            .chain(self.shared.dirs.iter().copied())
            .collect()
    }

    fn wrong(&mut self, dir: Ino, text: String) {
        self.findings.push(format!("decoupled directory {dir}: {text}"));
    }

    fn show(&self, dir: Ino) -> String {
        let ways = self.jobs.get(&dir).into_iter().flat_map(|job| &job.ways).filter(|way| way.until.is_none());
        ways.map(|way| format!("\n  from {} on {:?}", way.from, way.state)).collect()
    }

    /// The owner of an epoch was heard: a request that it sent at `begun` was answered well.
    pub fn heard(&mut self, dir: Ino, epoch: u64, begun: u64) {
        let Some(job) = self.jobs.get_mut(&dir) else { return };
        let Some(held) = job.held.get_mut(&epoch) else { return };
        held.until = held.until.max(begun);
        let (from, until) = (held.from, held.until);
        let inside = job.seen.iter().find(|(begun, ended, _)| *begun >= from && *ended <= until).cloned();
        job.seen.retain(|(begun, ..)| *begun >= from);
        if let Some(seen) = inside {
            self.wrong(dir, format!("{seen:?} was seen while it was decoupled ({epoch}) from {from} to {until}"));
        }
    }

    /// It is decoupled, as the owner was told now.
    pub fn decoupled(&mut self, dir: Ino, epoch: u64) {
        let now = self.now;
        if let Err(text) = self.kept.decoupled(dir, epoch) {
            self.wrong(dir, text);
        }
        let Some(job) = self.jobs.get_mut(&dir) else { return };
        match job.held.entry(epoch) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(Held { from: now, until: now });
                self.counts.decoupled += 1;
            }
            std::collections::btree_map::Entry::Occupied(_) => self.counts.resumed += 1,
        }
    }

    /// Its owner has given a file another name.
    pub fn links(&mut self, ino: Ino) {
        self.linked.insert(ino);
    }

    fn note_linked(&mut self, state: &State) {
        let linked = |(_, thing): &(&Ino, &Thing)| thing.kind == Kind::File && thing.nlink > 1;
        self.linked.extend(state.iter().filter(linked).map(|(ino, _)| *ino));
    }

    /// Its new owner has looked at all of it.
    pub fn found(&mut self, dir: Ino, state: &State) {
        let now = self.now;
        self.note_linked(state);
        let Some(job) = self.jobs.get_mut(&dir) else { return };
        let fits = job.ways.iter().any(|way| way.until.is_none() && way.state == *state);
        if !fits {
            let text = format!("its owner finds {state:?}, and there may be {}", self.show(dir));
            return self.wrong(dir, text);
        }
        job.ways.iter_mut().filter(|way| way.state != *state).for_each(|way| _ = way.until.get_or_insert(now));
    }

    /// A merge is about to be sent which makes it so.
    pub fn sends(&mut self, dir: Ino, state: &State) {
        let now = self.now;
        self.note_linked(state);
        let Some(job) = self.jobs.get_mut(&dir) else { return };
        if !job.ways.iter().any(|way| way.until.is_none() && way.state == *state) {
            job.ways.push(Way { state: state.clone(), from: now, until: None });
        }
    }

    /// It was acknowledged.
    pub fn merged(&mut self, dir: Ino, state: &State) {
        self.counts.merged += 1;
        self.found(dir, state);
    }

    /// Somebody who does not own it has seen this, between `begun` and now.
    pub fn see(&mut self, root: Ino, begun: u64, sight: Sight) {
        let now = self.now;
        self.counts.seen += 1;
        let Some(job) = self.jobs.get_mut(&root) else { return };
        let may_be = |way: &Way| way.from <= now && way.until.is_none_or(|until| until >= begun);
        if !job.ways.iter().any(|way| may_be(way) && sight.fits(root, &way.state)) {
            let text = format!("{sight:?} was seen from {begun} to {now}, and there may be {}", self.show(root));
            return self.wrong(root, text);
        }
        let is_apart = |ino: &Ino| self.several && self.linked.contains(ino);
        if self.readers && sight.is_read() {
            // It says nothing of who has it. It fits the last merge, or one of which it is not known whether it was done.
            self.counts.read += u64::from(
                sight.is_inside(root)
                    && job.held.values().any(|held| held.from <= begun && now <= held.until + READ_US),
            );
            return;
        }
        if !sight.is_inside(root) || matches!(&sight, Sight::Data(ino, _) if is_apart(ino)) {
            return;
        }
        if let Some((epoch, held)) = job.held.iter().find(|(_, held)| held.from <= begun && now <= held.until) {
            let text = format!("{sight:?} was seen from {begun} to {now} while it was decoupled ({epoch}): {held:?}");
            return self.wrong(root, text);
        }
        // Who sees what is below sees that no decoupling lasts in which a merge was sent before.
        if job.ways.iter().all(|way| way.until.is_some() || way.from < begun) {
            let living = job.ways.iter_mut().filter(|way| way.until.is_none() && !sight.fits(root, &way.state));
            living.for_each(|way| way.until = Some(now));
        }
        job.seen.push((begun, now, sight));
    }

    /// Parts that were merged, as if they had not been and nothing had come of them.
    pub fn again(&self, dir: Ino, parts: Vec<Arc<[u8]>>, used: Ino) -> Option<Keeping> {
        let state = self.jobs.get(&dir)?.ways.last()?.state.clone();
        Some(Keeping { merges: 0, parts, used, state })
    }

    /// One whose owner has died, to go on with.
    pub fn take_left(&mut self, dir: Ino) -> Option<Left> {
        let at = self.left.iter().position(|left| left.dir == dir)?;
        Some(self.left.remove(at))
    }

    /// It could not be gone on with yet.
    pub fn put_back(&mut self, left: Left) {
        self.left.push(left);
    }

    /// The rows of the table at the end must be one of the states.
    pub fn compare(&mut self, rows: &[Row]) {
        for (dir, state) in self.jobs.keys().map(|dir| (*dir, state_of(rows, *dir))).collect::<Vec<_>>() {
            self.found(dir, &state);
        }
        if self.shared.root.0 != 0 {
            let wrong = self.shared.compare(&state_of(rows, self.shared.root));
            self.findings.extend(wrong);
        }
        for row in rows {
            if let Row::Decoupled { record, .. } = row
                && record.journal.is_none()
            {
                self.wrong(record.dir, format!("it is so for ever: {record:?}"));
            }
        }
        for dir in self.kept.lost(rows) {
            self.wrong(dir, "what was kept in the store does not wait for anybody".into());
        }
    }
}

/// State of a directory by the rows.
fn state_of(rows: &[Row], root: Ino) -> State {
    let mut things: BTreeMap<Ino, Thing> = BTreeMap::new();
    for row in rows {
        if let Row::Inode(inode) = row {
            let mode = if inode.ino == root { 0 } else { inode.mode };
            let (kind, nlink, size) = (inode.kind, inode.nlink, inode.size);
            things.insert(inode.ino, Thing { kind, mode, nlink, size, ..Thing::root() });
        }
    }
    for row in rows {
        match row {
            Row::Entry { dir, name, target, .. } => {
                let thing = things.get_mut(dir);
                thing.map(|thing| thing.entries.insert(name.as_bytes().to_vec(), target.ino));
            }
            Row::Inline { ino, data } => _ = things.get_mut(ino).map(|thing| thing.data = data.to_vec()),
            _ => {}
        }
    }
    let (mut state, mut todo) = (State::new(), vec![root]);
    while let Some(ino) = todo.pop() {
        if let Some(thing) = things.get(&ino) {
            todo.extend(thing.entries.values());
            state.insert(ino, thing.clone());
        }
    }
    state
}

/// A subtree is left when its owner dies.
pub struct Guard {
    pub jobs: Rc<RefCell<Jobs>>,
    pub left: Left,
    /// It has not ended.
    pub lives: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.lives
            && let Ok(mut jobs) = self.jobs.try_borrow_mut()
        {
            jobs.left.push(self.left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Ino = Ino(5);

    fn with_file(data: &[u8]) -> State {
        let file = Thing { kind: Kind::File, mode: 0o600, nlink: 1, size: data.len() as u64, ..Thing::root() };
        let root = Thing { size: 1, entries: BTreeMap::from([(b"f".to_vec(), Ino(9))]), ..Thing::root() };
        State::from([(ROOT, root), (Ino(9), Thing { data: data.to_vec(), ..file })])
    }

    fn names(state: &State) -> Sight {
        Sight::List(ROOT, state[&ROOT].entries.clone())
    }

    fn empty() -> State {
        State::from([(ROOT, Thing::root())])
    }

    fn jobs() -> Jobs {
        let mut jobs = Jobs::default();
        jobs.create(ROOT);
        jobs.now = 10;
        jobs.decoupled(ROOT, 7);
        jobs
    }

    #[test]
    fn a_look_inside_while_somebody_has_it_is_found_also_when_that_is_known_only_later() {
        let mut jobs = jobs();
        jobs.now = 20;
        jobs.see(ROOT, 15, names(&empty()));
        jobs.heard(ROOT, 7, 19);
        assert!(jobs.findings.is_empty(), "it may have ended just then");
        jobs.heard(ROOT, 7, 30);
        assert_eq!(jobs.findings.len(), 1);
        jobs.see(ROOT, 16, names(&empty()));
        assert_eq!(jobs.findings.len(), 2);
    }

    #[test]
    fn a_merge_of_which_nobody_knows_is_there_or_not_and_stays_as_it_was_seen() {
        let mut jobs = jobs();
        jobs.now = 20;
        jobs.sends(ROOT, &with_file(b"x"));
        jobs.now = 40;
        jobs.see(ROOT, 35, names(&with_file(b"x")));
        assert!(jobs.findings.is_empty());
        jobs.now = 50;
        jobs.see(ROOT, 45, names(&empty()));
        assert_eq!(jobs.findings.len(), 1);
    }

    #[test]
    fn what_was_acknowledged_is_all_there() {
        let mut jobs = jobs();
        jobs.sends(ROOT, &with_file(b"x"));
        jobs.merged(ROOT, &with_file(b"x"));
        jobs.now = 40;
        jobs.see(ROOT, 35, Sight::Root(1, 2));
        jobs.see(ROOT, 35, Sight::Data(Ino(9), b"x".to_vec()));
        assert!(jobs.findings.is_empty());
        jobs.see(ROOT, 35, Sight::Root(0, 2));
        jobs.found(ROOT, &with_file(b""));
        assert_eq!(jobs.findings.len(), 2);
    }
}
