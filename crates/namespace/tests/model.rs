//! The pure tree against the reference model: same random steps, same answers, same tree at the end.

use std::collections::BTreeMap;

use loligo_model::{Level, Step, Walk, run, steps};
use loligo_namespace::{Config, Ctx, Tree, apply, invariants, need, prepare};
use loligo_types::{Answer, Attr, Cred, FsError, FsResult, Ino, Lsn, Name, Op, OpenFlags, SetTime, Stamp, Time};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config as Runs, RngAlgorithm, TestRng, TestRunner};

/// A tree that is wholly in memory, with as much of a server around it as single calls need.
struct Bare {
    tree: Tree,
    next: u64,
    lsn: Lsn,
    /// Data that spilled out of inodes: this level has no objects, so it keeps the bytes here.
    objects: BTreeMap<Ino, Vec<u8>>,
}

impl Bare {
    fn new() -> Bare {
        let mut tree = Tree::new(
            (1, 2),
            Config {
                inline_max: 65_536,
                rank: loligo_types::Rank::ZERO,
                frag: loligo_namespace::FragConfig::default(),
            },
        );
        for event in Tree::format(Time(1), 0o777, 0, 0) {
            apply(&mut tree, &event, Lsn(1));
        }
        Bare { tree, next: Ino::FIRST.0, lsn: Lsn(1), objects: BTreeMap::new() }
    }

    fn act(&mut self, cred: &Cred, op: &Op, handle: bool) -> FsResult<Answer> {
        assert_eq!(need(&self.tree, op, cred), [], "a tree that is wholly in memory needs nothing: {op:?}");
        self.next += 1;
        let stamp = Stamp { now: Time(self.next as i64), ino: Ino(self.next) };
        let ctx = Ctx {
            cred,
            distrusted: false,
            stamp,
            handle_read: handle,
            handle_write: handle,
            open_count: &|_| 0,
            route_version: &|_| None,
        };
        let change = prepare(&self.tree, op, &ctx)?;
        self.lsn = self.lsn.next();
        for event in &change.events {
            apply(&mut self.tree, event, self.lsn);
        }
        let problems = invariants::check(&self.tree);
        assert!(problems.is_empty(), "after {op:?}: {problems:?}");
        Ok(change.answer)
    }

    fn open(&mut self, cred: &Cred, ino: Ino, flags: OpenFlags) -> FsResult<Attr> {
        match self.act(cred, &Op::Open { ino, flags, handle: 1 }, false)? {
            Answer::Opened { attr, .. } => Ok(attr),
            other => panic!("an opened file was due, not {other:?}"),
        }
    }

    fn put(&mut self, cred: &Cred, ino: Ino, offset: Option<u64>, data: &[u8]) -> FsResult<()> {
        if data.is_empty() {
            return Ok(());
        }
        let kill_priv = !cred.is_root();
        let op = Op::WriteInline { ino, handle: 1, offset, data: data.into(), mtime: SetTime::Now, kill_priv };
        self.act(cred, &op, true).map(drop)
    }
}

impl Level for Bare {
    fn op(&mut self, cred: &Cred, op: Op) -> FsResult<Answer> {
        self.act(cred, &op, false)
    }

    fn create(&mut self, cred: &Cred, dir: Ino, name: Name, mode: u16, exclusive: bool) -> FsResult<Attr> {
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        match self.act(cred, &Op::Create { dir, name, mode, umask: 0, flags, exclusive, handle: 1 }, false)? {
            Answer::Opened { attr, .. } => Ok(attr),
            other => panic!("an opened file was due, not {other:?}"),
        }
    }

    fn write(&mut self, cred: &Cred, ino: Ino, offset: u64, data: &[u8], cut: bool) -> FsResult<()> {
        self.open(cred, ino, OpenFlags { write: true, truncate: cut, ..OpenFlags::default() })?;
        self.put(cred, ino, Some(offset), data)
    }

    fn append(&mut self, cred: &Cred, ino: Ino, data: &[u8]) -> FsResult<()> {
        self.open(cred, ino, OpenFlags { write: true, append: true, ..OpenFlags::default() })?;
        self.put(cred, ino, None, data)
    }

    fn read(&mut self, cred: &Cred, ino: Ino) -> FsResult<Vec<u8>> {
        let attr = self.open(cred, ino, OpenFlags { read: true, ..OpenFlags::default() })?;
        let mut all = match self.act(cred, &Op::ReadInline { ino, handle: 1 }, true) {
            Ok(Answer::Bytes(bytes)) => bytes.to_vec(),
            Err(FsError::Stale) => self.objects.get(&ino).cloned().unwrap_or_default(),
            other => panic!("bytes were due, not {other:?}"),
        };
        all.resize(attr.size as usize, 0);
        Ok(all)
    }
}

fn random_steps(seed: u8, length: usize) -> Vec<Step> {
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(Runs::default(), rng);
    steps(length).new_tree(&mut runner).expect("the strategy rejects nothing").current()
}

#[test]
fn the_tree_answers_as_the_model_does() {
    for seed in 0..60 {
        if let Err(mismatch) = run(&mut Walk(Bare::new()), &random_steps(seed, 250)) {
            panic!("seed {seed}: {mismatch}");
        }
    }
}
