//! A composition of mechanisms: `+` is one after the other, `||` at the same time and binds tighter (Cudele, thesis chapter 6; the
//! grammar is ours, as the thesis gives none):
//!
//! ```text
//! serial   := parallel ('+' parallel)*
//! parallel := unit ('||' unit)*
//! unit     := MECHANISM | '(' serial ')'
//! ```
//!
//! Not here: what makes sense (`pipeline`). Reading is in `parse.rs`.

mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use crate::fault::{Fault, Flaw};
use crate::mechanism::Mechanism;

/// Longest text of a composition, bytes.
pub const LEN_MAX: usize = 1024;
/// Most parentheses that are open at once.
pub const NESTING_MAX: usize = 16;

/// A node of the tree. What stands in parentheses without need is the same as without: no `Serial` is directly within a
/// `Serial`, no `Parallel` within a `Parallel`, and both have at least two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// One mechanism.
    Mechanism(Mechanism),
    /// One after the other: each begins only after the one before has succeeded.
    Serial(Vec<Step>),
    /// At the same time; over when all have succeeded, failed when one has.
    Parallel(Vec<Step>),
}

impl Step {
    /// As it is carried out: one stage after the other.
    pub fn stages(&self) -> impl Iterator<Item = Stage<'_>> {
        let stages = match self {
            Step::Serial(stages) => stages.as_slice(),
            other => std::slice::from_ref(other),
        };
        stages.iter().map(|stage| Stage {
            members: match stage {
                Step::Parallel(members) => members,
                other => std::slice::from_ref(other),
            },
        })
    }

    /// One after the other, parts that are such themselves opened up.
    pub(crate) fn serial(parts: Vec<Step>) -> Step {
        let parts = parts.into_iter().flat_map(|part| match part {
            Step::Serial(inner) => inner,
            other => vec![other],
        });
        Step::alone_or(parts.collect(), Step::Serial)
    }

    /// At the same time, likewise.
    pub(crate) fn parallel(parts: Vec<Step>) -> Step {
        let parts = parts.into_iter().flat_map(|part| match part {
            Step::Parallel(inner) => inner,
            other => vec![other],
        });
        Step::alone_or(parts.collect(), Step::Parallel)
    }

    fn alone_or(mut parts: Vec<Step>, make: fn(Vec<Step>) -> Step) -> Step {
        match parts.len() {
            1 => parts.remove(0),
            _ => make(parts),
        }
    }

    /// Calls for each mechanism, from left to right, with the numbers of the parts that lead to it; those of a `Serial` are
    /// marked so.
    fn walk(&self, path: &mut Vec<(bool, usize)>, each: &mut impl FnMut(Mechanism, &[(bool, usize)])) {
        let (parts, serial) = match self {
            Step::Mechanism(mechanism) => return each(*mechanism, path),
            Step::Serial(parts) => (parts, true),
            Step::Parallel(parts) => (parts, false),
        };
        for (at, part) in parts.iter().enumerate() {
            path.push((serial, at));
            part.walk(path, each);
            path.pop();
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, between) = match self {
            Step::Mechanism(mechanism) => return mechanism.fmt(f),
            Step::Serial(parts) => (parts, " + "),
            Step::Parallel(parts) => (parts, " || "),
        };
        for (at, part) in parts.iter().enumerate() {
            f.write_str(if at > 0 { between } else { "" })?;
            match part {
                Step::Serial(_) => write!(f, "({part})")?,
                _ => part.fmt(f)?,
            }
        }
        Ok(())
    }
}

/// Steps that run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage<'a> {
    members: &'a [Step],
}

impl<'a> Stage<'a> {
    /// The steps that run at the same time: mechanisms, or steps with stages of their own. The stage is over when all have succeeded.
    pub fn members(self) -> &'a [Step] {
        self.members
    }
}

/// A composition that was read: the tree, and where in its text each mechanism stands. Two are equal if their trees are.
#[derive(Clone, Debug)]
pub struct Composition {
    root: Step,
    /// Bytes before each mechanism, from left to right.
    places: Vec<usize>,
}

impl PartialEq for Composition {
    fn eq(&self, other: &Composition) -> bool {
        self.root == other.root
    }
}

impl Eq for Composition {}

/// A mechanism in a composition.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub mechanism: Mechanism,
    pub place: usize,
    path: Vec<(bool, usize)>,
}

impl Leaf {
    /// True if this mechanism is over before the other one begins.
    pub fn is_before(&self, other: &Leaf) -> bool {
        let parted = self.path.iter().zip(&other.path).find(|(one, two)| one != two);
        parted.is_some_and(|((serial, one), (_, two))| *serial && one < two)
    }
}

impl Composition {
    /// Reads one.
    pub fn parse(text: &str) -> Result<Composition, Fault> {
        Composition::read(text).map_err(|flaw| flaw.in_text(text))
    }

    pub(crate) fn read(text: &str) -> Result<Composition, Flaw> {
        parse::read(text)
    }

    /// Of mechanisms that all stand at one place.
    pub(crate) fn of(mechanisms: &[Mechanism], place: usize) -> Composition {
        let root = Step::serial(mechanisms.iter().copied().map(Step::Mechanism).collect());
        Composition { root, places: vec![place; mechanisms.len()] }
    }

    pub(crate) fn new(root: Step, places: Vec<usize>) -> Composition {
        Composition { root, places }
    }

    /// The same, in a longer text: each place is told of that.
    pub(crate) fn placed(mut self, place: impl Fn(usize) -> usize) -> Composition {
        self.places.iter_mut().for_each(|at| *at = place(*at));
        self
    }

    /// The tree.
    pub fn root(&self) -> &Step {
        &self.root
    }

    /// As it is carried out: one stage after the other.
    pub fn stages(&self) -> impl Iterator<Item = Stage<'_>> {
        self.root.stages()
    }

    /// All mechanisms, from left to right.
    pub fn mechanisms(&self) -> Vec<Mechanism> {
        self.leaves().into_iter().map(|leaf| leaf.mechanism).collect()
    }

    /// True if it contains the mechanism.
    pub fn has(&self, mechanism: Mechanism) -> bool {
        self.mechanisms().contains(&mechanism)
    }

    pub(crate) fn leaves(&self) -> Vec<Leaf> {
        let mut leaves = Vec::with_capacity(self.places.len());
        let mut places = self.places.iter();
        self.root.walk(&mut Vec::new(), &mut |mechanism, path| {
            let place = places.next().copied().unwrap_or(0);
            leaves.push(Leaf { mechanism, place, path: path.to_vec() });
        });
        leaves
    }

    /// Its stages, each a composition of its own.
    pub(crate) fn apart(&self) -> Vec<Composition> {
        let stages = match &self.root {
            Step::Serial(stages) => stages.clone(),
            other => vec![other.clone()],
        };
        let mut places = self.places.iter().copied();
        let mut take = |root: Step| {
            let mut count = 0;
            root.walk(&mut Vec::new(), &mut |_, _| count += 1);
            Composition { root, places: places.by_ref().take(count).collect() }
        };
        stages.into_iter().map(&mut take).collect()
    }

    /// One after the other.
    pub(crate) fn together(parts: Vec<Composition>) -> Composition {
        let places = parts.iter().flat_map(|part| part.places.iter().copied()).collect();
        Composition { root: Step::serial(parts.into_iter().map(|part| part.root).collect()), places }
    }
}

impl fmt::Display for Composition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(f)
    }
}

impl FromStr for Composition {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Composition, Fault> {
        Composition::parse(text)
    }
}
