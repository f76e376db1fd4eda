//! One worker in a directory of its own, which knows what must be there.

use std::collections::BTreeMap;

use loligo_types::Random;

use crate::target::{Failed, Target};

const NAMES: u64 = 24;
/// From inside the inode to several pages of an object.
const LARGEST: u64 = 20_000;

/// Which failures of calls are none of the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allowed {
    Nothing,
    /// A sync may tell that what was written and not synced is lost, once for each crash: a client whose file moves while a rank dies may have
    /// lost the right to hold back what it writes, and with it what it could write again (docs/semantics.md).
    ToldLosses(u64),
    /// Any call may fail, and be done or not.
    Failures,
}

enum Step {
    Create(String, Vec<u8>),
    Append(String, Vec<u8>),
    Rename(String, String),
    Unlink(String),
}

/// See the module.
pub struct Worker<T> {
    target: T,
    dir: String,
    dice: Random,
    allowed: Allowed,
    /// Losses that it was told of.
    losses: u64,
    files: BTreeMap<String, Vec<u8>>,
    /// The step that failed.
    open: Option<Step>,
}

impl<T: Target> Worker<T> {
    pub fn new(target: T, number: usize, allowed: Allowed) -> Worker<T> {
        let dir = format!("w{number}");
        target.mkdir(&dir).expect("a directory for the worker");
        let dice = Random::new(number as u64 + 1);
        Worker { target, dir, dice, allowed, losses: 0, files: BTreeMap::new(), open: None }
    }

    /// The same knowledge, looked at from elsewhere.
    pub fn moved_to<U: Target>(self, target: U) -> Worker<U> {
        let Worker { dir, dice, allowed, losses, files, open, .. } = self;
        Worker { target, dir, dice, allowed, losses, files, open }
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    fn content(&mut self) -> Vec<u8> {
        let (len, salt) = (self.dice.below(LARGEST), self.dice.below(251));
        (0..len).map(|i| (i * 7 + salt) as u8).collect()
    }

    fn choose(&mut self) -> Step {
        let name = format!("n{}", self.dice.below(NAMES));
        if !self.files.contains_key(&name) {
            return Step::Create(name, self.content());
        }
        match self.dice.below(4) {
            0 => Step::Unlink(name),
            1 => Step::Append(name, self.content()),
            _ => Step::Rename(name, format!("n{}", self.dice.below(NAMES))),
        }
    }

    fn execute(&self, step: &Step) -> Result<(), Failed> {
        match step {
            Step::Create(name, content) => self.target.create(&self.path(name), content),
            Step::Append(name, content) => self.target.append(&self.path(name), content),
            Step::Rename(from, to) => self.target.rename(&self.path(from), &self.path(to)),
            Step::Unlink(name) => self.target.unlink(&self.path(name)),
        }
    }

    fn remember(&mut self, step: Step) {
        match step {
            Step::Create(name, content) => _ = self.files.insert(name, content),
            Step::Append(name, content) => self.files.get_mut(&name).expect("chosen as known").extend(content),
            Step::Rename(from, to) => {
                let content = self.files.remove(&from).expect("chosen as known");
                self.files.insert(to, content);
            }
            Step::Unlink(name) => _ = self.files.remove(&name),
        }
    }

    /// One more change. False: it failed, and that may be.
    pub fn step(&mut self) -> bool {
        let step = self.choose();
        match self.execute(&step) {
            Ok(()) => {
                self.remember(step);
                true
            }
            Err(_) if self.allowed == Allowed::Failures => {
                self.open = Some(step);
                false
            }
            Err(error) if error.is_loss && self.may_lose() => {
                self.losses += 1;
                self.resolve(step);
                true
            }
            Err(error) => panic!("a call failed that was to succeed in the end: {}", error.text),
        }
    }

    fn may_lose(&self) -> bool {
        matches!(self.allowed, Allowed::ToldLosses(most) if self.losses < most)
    }

    fn read(&self, name: &str) -> Option<Vec<u8>> {
        self.target.read(&self.path(name)).unwrap_or_else(|e| panic!("reading: {}", e.text))
    }

    /// Finds out whether the failed step happened: wholly, not at all, or, for written bytes, in part.
    fn resolve(&mut self, step: Step) {
        match step {
            Step::Create(name, content) => match self.read(&name) {
                Some(found) => {
                    assert!(found.len() <= content.len(), "{name}: more than was written");
                    self.files.insert(name, found);
                }
                None => _ = self.files.remove(&name),
            },
            Step::Append(name, content) => {
                let known = &self.files[&name];
                let found = self.read(&name).unwrap_or_else(|| panic!("{name} is gone"));
                assert!(found.starts_with(known), "{name}: synced bytes are gone");
                assert!(found.len() <= known.len() + content.len(), "{name}: more than was written");
                self.files.insert(name, found);
            }
            Step::Rename(from, to) => {
                if self.read(&from).is_none() {
                    self.remember(Step::Rename(from, to));
                }
            }
            Step::Unlink(name) => {
                if self.read(&name).is_none() {
                    self.files.remove(&name);
                }
            }
        }
    }

    /// Everything that must be there is, and nothing else.
    pub fn verify(&mut self) {
        if let Some(step) = self.open.take() {
            self.resolve(step);
        }
        let mut names = self.target.list(&self.dir).unwrap_or_else(|e| panic!("listing: {}", e.text));
        names.sort();
        let expected: Vec<String> = self.files.keys().cloned().collect();
        assert_eq!(names, sorted(expected), "in {}", self.dir);
        for (name, content) in &self.files {
            let found = self.read(name).unwrap_or_else(|| panic!("{}/{name} is listed and not found", self.dir));
            let wrong = found.iter().zip(content).position(|(a, b)| a != b);
            let lens = (found.len(), content.len());
            assert!(
                found == *content,
                "{}/{name}: found and expected length {lens:?}, first wrong byte {wrong:?}",
                self.dir
            );
        }
    }
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}
