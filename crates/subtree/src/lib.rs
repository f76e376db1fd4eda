//! A decoupled subtree at its owner ("append client journal", Cudele §6.2): operations are decided here, by the very code that decides
//! them at a rank, and put down in a journal of the same form. Not how records come from the rank and parts go to it, not how long
//! the subtree is the owner's, and no file data beyond what fits in an inode.
//!
//! A machine: it does no IO, and is given the time. What it lacks it says ([`Outcome::Fetch`], [`Outcome::Numbers`]); then the same
//! operation is run again.

mod batch;
mod ops;

use loligo_namespace::{Config, Ctx, Found, FragConfig, Tree, apply_decided, need, prepare};
use loligo_types::{
    Answer, Cred, DecoupledRecord, Event, FsError, FsResult, Ino, Inode, Loaded, Lsn, Need, Op, SplitRule, Stamp, Time,
};

use batch::Batch;
pub use batch::Group;

/// A group of records ends when it has so many bytes: a rank holds all of a merge until it is decided.
const GROUP_BYTES: u64 = 32 << 20;

/// What became of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is done, or cannot be.
    Done(FsResult<Answer>),
    /// These are to be fetched and learned ([`Subtree::learn`]) first.
    Fetch(Vec<Need>),
    /// It may make an inode, and there is no number left ([`Subtree::take_record`]).
    Numbers,
}

/// How much is here that the rank does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outstanding {
    /// Operations that changed something.
    pub changes: u64,
    /// Events that they were put down as.
    pub events: u64,
    /// Bytes of the journal that hold them.
    pub bytes: u64,
    /// When the first of them was made.
    pub since: Option<Time>,
}

/// What is needed to decide as the rank does.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The file system's, under which names are hashed.
    pub hash_key: (u64, u64),
    /// Largest file held in its inode, bytes.
    pub inline_max: u32,
    /// When a directory is cut.
    pub split: SplitRule,
}

/// A decoupled subtree.
pub struct Subtree {
    settings: Settings,
    record: DecoupledRecord,
    tree: Tree,
    /// The next number for an inode; `None`: none is left.
    next: Option<Ino>,
    /// Numbers from here on make inodes that no group before the one that is being filled has made.
    fresh_from: Ino,
    last: Lsn,
    batch: Batch,
    group_bytes: u64,
    outstanding: Outstanding,
}

impl Subtree {
    /// A subtree that was just decoupled, or of which all was merged.
    pub fn new(settings: Settings, record: DecoupledRecord, root: Inode) -> Subtree {
        let tree = Subtree::empty(&settings, &record);
        let mut subtree = Subtree {
            next: first_from(&record, record.used),
            fresh_from: record.used,
            settings,
            record,
            tree,
            last: Lsn(0),
            batch: Batch::default(),
            group_bytes: GROUP_BYTES,
            outstanding: Outstanding::default(),
        };
        subtree.load_root(root);
        subtree
    }

    /// What is above the root is not decoupled, and nothing here depends on it.
    fn load_root(&mut self, mut root: Inode) {
        root.parent = Ino(0);
        self.tree.load(Loaded::Inode(root.ino, Some(Box::new(root))));
    }

    /// With groups of another size: in tests small ones.
    #[must_use]
    pub fn with_groups(self, bytes: u64) -> Subtree {
        Subtree { group_bytes: bytes, ..self }
    }

    fn empty(settings: &Settings, record: &DecoupledRecord) -> Tree {
        let SplitRule { split, merge, bits } = settings.split;
        let frag = FragConfig { split_entries: split, merge_entries: merge, split_bits: bits };
        let config = Config { inline_max: settings.inline_max, rank: Ino(record.epoch).birth_rank(), frag };
        Tree::new(settings.hash_key, config)
    }

    /// The record of it that its rank keeps, as far as is known.
    pub fn record(&self) -> &DecoupledRecord {
        &self.record
    }

    /// Its root.
    pub fn root(&self) -> Ino {
        self.record.dir
    }

    /// How much is here that the rank does not have.
    pub fn outstanding(&self) -> Outstanding {
        Outstanding { bytes: self.batch.bytes(), ..self.outstanding }
    }

    /// Memory that it takes, about, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes() + self.batch.memory_bytes()
    }

    /// Records that were fetched.
    pub fn learn(&mut self, items: Vec<Loaded>) {
        items.into_iter().for_each(|item| self.tree.load(item));
    }

    /// The rank has put down this of the subtree: there are more numbers.
    pub fn take_record(&mut self, record: DecoupledRecord) {
        let from = self.next.unwrap_or_else(|| self.used());
        self.record.grants = record.grants;
        self.next = first_from(&self.record, from);
    }

    /// Carries out an operation in somebody's name.
    pub fn run(&mut self, op: &Op, cred: &Cred, now: Time) -> Outcome {
        if let Err(error) = ops::may_run(&self.tree, self.root(), op) {
            return Outcome::Done(Err(error));
        }
        let needs = need(&self.tree, op, cred);
        if !needs.is_empty() {
            return Outcome::Fetch(needs);
        }
        let Some(made) = self.next.or_else(|| (!op.makes_inode()).then_some(Ino(0))) else { return Outcome::Numbers };
        let ctx = Ctx {
            cred,
            stamp: Stamp { now, ino: made },
            // What the owner has open is its own affair.
            handle_read: true,
            handle_write: true,
            open_count: &|_| 0,
            route_version: &|_| None,
        };
        match prepare(&self.tree, op, &ctx) {
            Err(error) => Outcome::Done(Err(error)),
            Ok(change) => match self.put_down(change.events, made, now) {
                Ok(()) => Outcome::Done(Ok(change.answer)),
                Err(error) => Outcome::Done(Err(error)),
            },
        }
    }

    /// Applies and journals a change.
    fn put_down(&mut self, events: Vec<Event>, made: Ino, now: Time) -> FsResult<()> {
        if events.is_empty() {
            return Ok(());
        }
        if !events.iter().all(ops::is_for_here) {
            return Err(FsError::NotSupported);
        }
        if self.batch.end_group(self.group_bytes, self.used()) {
            self.fresh_from = self.used();
        }
        self.last = self.last.next();
        self.outstanding.changes += 1;
        self.outstanding.events += events.len() as u64;
        self.outstanding.since.get_or_insert(now);
        let mut makes = false;
        for event in events {
            match &event {
                Event::Inode(inode) if inode.ino == made && made.0 != 0 => makes = true,
                Event::Inode(inode) => self.tell_base(inode.ino),
                Event::InodeGone(ino) => self.tell_base(*ino),
                _ => {}
            }
            apply_decided(&mut self.tree, &event, self.last, made);
            self.batch.add(event);
        }
        self.batch.end_change();
        if makes {
            self.next = first_from(&self.record, Ino(made.0 + 1));
        }
        Ok(())
    }

    /// Before the first change of an inode that was there at the last merge, the journal says how it was then: the rank may have counted
    /// since.
    fn tell_base(&mut self, ino: Ino) {
        let is_fresh = ino >= self.fresh_from && self.record.is_granted(ino);
        if is_fresh || !self.batch.begins(ino) {
            return;
        }
        if let Found::Here(inode) = self.tree.find(ino) {
            self.batch.add_base(inode.clone());
        }
    }

    /// Numbers below this are used up.
    pub fn used(&self) -> Ino {
        self.next.unwrap_or_else(|| {
            let end = self.record.grants.last().map_or(self.record.used.0, |(first, count)| first.0 + count);
            Ino(end)
        })
    }

    /// All that is outstanding, in groups that are merged one after the other, the oldest first. What is done next goes into another
    /// record.
    pub fn groups(&mut self) -> Vec<Group> {
        let used = self.used();
        self.batch.groups(used)
    }

    /// The rank has merged the oldest group, with the numbers below `used`.
    pub fn merged(&mut self, merges: u64, used: Ino) {
        (self.record.merges, self.record.used) = (merges, used);
        if self.batch.drop_oldest() {
            self.fresh_from = used;
            self.outstanding = Outstanding::default();
        }
    }

    /// Forgets what is known, to give memory back: it is fetched again. Nothing may be outstanding.
    pub fn forget(&mut self, root: Inode) {
        debug_assert_eq!(self.outstanding.changes, 0, "what is outstanding is nowhere else");
        self.tree = Subtree::empty(&self.settings, &self.record);
        self.last = Lsn(0);
        self.load_root(root);
    }
}

/// The first number from one on that was granted.
fn first_from(record: &DecoupledRecord, from: Ino) -> Option<Ino> {
    let at = |(first, count): &(Ino, u64)| {
        let at = Ino(from.0.max(first.0));
        (at.0 < first.0 + count).then_some(at)
    };
    record.grants.iter().find_map(at)
}
