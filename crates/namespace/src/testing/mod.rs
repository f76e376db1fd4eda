//! A small server around the tree for tests: loads what is needed, applies, keeps a journal, checks.

mod random;
pub mod script;
pub mod table;

use std::collections::BTreeMap;

use loligo_types::{Cred, Event, FsResult, Ino, Lsn, Op, Stamp, Time};

use crate::{Change, Config, Ctx, FragConfig, Tree, apply, apply_decided, need, prepare};

pub const INLINE_MAX: u32 = 64;

/// A file system in memory over a [`table::Table`].
pub struct Fs {
    pub tree: Tree,
    pub table: table::Table,
    pub journal: Vec<(Lsn, Vec<Event>)>,
    pub now: i64,
    pub open: BTreeMap<Ino, u32>,
    /// Clients are not believed what they say of privileges.
    pub distrusted: bool,
}

/// Directories are cut from the fifth entry on.
pub const FRAG: FragConfig = FragConfig { split_entries: 4, merge_entries: 1, split_bits: 1 };

pub fn empty_tree() -> Tree {
    Tree::new(table::KEY, Config { inline_max: INLINE_MAX, rank: loligo_types::Rank::ZERO, frag: FRAG })
}

impl Fs {
    /// A new file system with a root of mode 755.
    pub fn new() -> Fs {
        let (tree, table) = (empty_tree(), table::Table::default());
        let mut fs = Fs { tree, table, journal: Vec::new(), now: 1000, open: BTreeMap::new(), distrusted: false };
        fs.commit(Tree::format(Time(fs.now), 0o755, 0, 0));
        fs
    }

    /// Applies and journals the events of one change.
    pub fn commit(&mut self, events: Vec<Event>) {
        self.commit_made(events, None);
    }

    /// The same for what an operation decided; the number that it was given for a new inode.
    fn commit_made(&mut self, events: Vec<Event>, made: Option<Ino>) {
        if events.is_empty() {
            return;
        }
        let lsn = self.tree.last_lsn().next();
        for event in &events {
            match made {
                Some(made) => apply_decided(&mut self.tree, event, lsn, made),
                None => apply(&mut self.tree, event, lsn),
            }
        }
        self.journal.push((lsn, events));
    }

    /// Loads what an operation needs.
    pub fn load(&mut self, op: &Op, cred: &Cred) {
        for round in 0.. {
            let needs = need(&self.tree, op, cred);
            if needs.is_empty() {
                return;
            }
            assert!(round < 10_000, "{op:?} needs {needs:?} for ever");
            needs.iter().for_each(|need| self.tree.load(self.table.read(need)));
        }
    }

    /// Runs an operation with a handle that is open for reading and writing.
    pub fn run(&mut self, cred: &Cred, op: &Op) -> FsResult<Change> {
        self.run_with(cred, op, true)
    }

    pub fn run_with(&mut self, cred: &Cred, op: &Op, handle: bool) -> FsResult<Change> {
        self.now += 1;
        self.load(op, cred);
        let stamp = Stamp { now: Time(self.now), ino: self.tree.next_ino() };
        let open_count = |ino: Ino| self.open.get(&ino).copied().unwrap_or(0);
        let ctx = Ctx {
            cred,
            distrusted: self.distrusted,
            stamp,
            handle_read: handle,
            handle_write: handle,
            open_count: &open_count,
            route_version: &|_| None,
        };
        let touch = crate::touches(&self.tree, op);
        let change = prepare(&self.tree, op, &ctx)?;
        self.check_touches(op, &touch, &change);
        self.commit_made(change.events.clone(), Some(stamp.ino));
        Ok(change)
    }

    /// Every inode and directory that an event changes was announced, but those that are new.
    fn check_touches(&self, op: &Op, touch: &crate::Touch, change: &Change) {
        for event in &change.events {
            match event {
                Event::Inode(inode) => {
                    let before = self.tree.inode(inode.ino);
                    let moved = before.is_some_and(|before| before.change != inode.change);
                    assert!(!moved || touch.attr.contains(&inode.ino), "{op:?} changes {} unannounced", inode.ino);
                }
                Event::InodeGone(ino) => assert!(touch.attr.contains(ino), "{op:?} removes {ino} unannounced"),
                Event::Entry { dir, .. } | Event::EntryGone { dir, .. } => {
                    assert!(touch.names.contains(dir), "{op:?} changes names of {dir} unannounced");
                }
                _ => {}
            }
        }
    }

    /// Writes up to `max` dirty records into the table.
    pub fn checkpoint(&mut self, max: usize) {
        let checkpoint = self.tree.take_checkpoint(max);
        checkpoint.records.iter().for_each(|record| self.table.write(record));
        self.tree.checkpoint_done();
    }

    /// Settles all recursive sums.
    pub fn settle(&mut self) {
        loop {
            let needs = crate::propagate_need(&self.tree, 4);
            needs.iter().for_each(|need| self.tree.load(self.table.read(need)));
            match crate::propagate(&self.tree, 4) {
                Some(events) => self.commit(events),
                None if needs.is_empty() => return,
                None => {}
            }
        }
    }

    pub fn check(&self) {
        let faults = crate::invariants::check(&self.tree);
        assert!(faults.is_empty(), "{faults:#?}");
    }
}
