//! The entries of one path whose values lie within bounds, such as the objects of a box in a simulation's space (the thesis' SIRIUS), in
//! time of their number. Not here: entries of a directory (`walk.rs`).

use super::argument::{Argument, Deal, Values};
use super::pattern::{Env, UNSET};
use super::walk::Place;
use super::{Formula, Node};

/// Shares that are looked for one by one when a range that is dealt out in turn is bounded.
const PARTS_LOOKED_AT: u64 = 4096;

/// Bound of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The numbers of a range from `first` to `last`, both inclusive.
    Numbers {
        /// Smallest.
        first: u64,
        /// Largest.
        last: u64,
    },
    /// These words of a list.
    Words(Vec<Vec<u8>>),
}

/// Indices of values.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Allowed {
    /// `from..to`.
    Interval(u64, u64),
    /// These, ascending.
    Set(Vec<u64>),
}

impl Allowed {
    fn of(argument: &Argument, bound: &Bound) -> Option<Allowed> {
        match (&argument.values, bound) {
            (Values::Range(range), Bound::Numbers { first, last }) => {
                let from = first.saturating_sub(range.first).div_ceil(range.step);
                let to = last.checked_sub(range.first).map_or(0, |distance| distance / range.step + 1);
                Some(Allowed::Interval(from, to.min(range.count)))
            }
            (Values::List(list), Bound::Words(words)) => {
                let mut set: Vec<u64> = words.iter().filter_map(|word| list.index_of(word)).collect();
                set.sort_unstable();
                set.dedup();
                Some(Allowed::Set(set))
            }
            _ => None,
        }
    }

    fn and(&mut self, other: &Allowed) {
        *self = match (&*self, other) {
            (Allowed::Interval(from, to), Allowed::Interval(first, last)) => {
                Allowed::Interval(*from.max(first), *to.min(last))
            }
            (Allowed::Interval(from, to), Allowed::Set(set)) | (Allowed::Set(set), Allowed::Interval(from, to)) => {
                Allowed::Set(set.iter().copied().filter(|index| (from..to).contains(&index)).collect())
            }
            (Allowed::Set(one), Allowed::Set(two)) => {
                Allowed::Set(one.iter().copied().filter(|index| two.binary_search(index).is_ok()).collect())
            }
        };
    }

    /// The least index that is allowed, at least `from`, and in the share of `part`.
    fn next(&self, argument: &Argument, part: Option<u64>, from: u64) -> Option<u64> {
        match (self, part) {
            (Allowed::Interval(first, last), None) => Some(from.max(*first)).filter(|index| index < last),
            (Allowed::Interval(first, last), Some(part)) => {
                let least = from.max(*first);
                let step = argument.split.filter(|split| split.deal == Deal::Cyclic).map_or(1, |split| split.parts);
                let start = argument.of_share(part, 0);
                let index = start + least.saturating_sub(start).div_ceil(step) * step;
                Some(index).filter(|index| index < last && argument.in_share(part, *index).is_some())
            }
            (Allowed::Set(set), part) => {
                let rest = &set[set.partition_point(|index| *index < from)..];
                rest.iter().copied().find(|index| part.is_none_or(|part| argument.in_share(part, *index).is_some()))
            }
        }
    }
}

/// Entries of one path within bounds, in the order of their values.
#[derive(Clone, Debug)]
pub struct Selection<'a> {
    formula: &'a Formula,
    /// Nodes from below the root to the path's end.
    chain: Vec<usize>,
    /// The arguments in the order in which they are set, with the values allowed.
    levels: Vec<(usize, Allowed)>,
    env: Env,
    is_begun: bool,
}

impl Formula {
    /// The entries of a path, by its place in the document, whose arguments lie within all of these bounds; arguments without one take
    /// every value. None: there is no such path or argument, or a bound is not of the argument's kind.
    pub fn select(&self, path: usize, bounds: &[(&str, Bound)]) -> Option<Selection<'_>> {
        let mut chain = Vec::new();
        if !self.chain_to(0, path, &mut chain) {
            return None;
        }
        let arguments =
            chain.iter().flat_map(|node| self.nodes[*node].levels.iter().filter_map(|level| level.argument));
        let mut levels: Vec<(usize, Allowed)> =
            arguments.map(|argument| (argument, Allowed::Interval(0, self.args[argument].count()))).collect();
        for (name, bound) in bounds {
            let (argument, allowed) = levels.iter_mut().find(|(argument, _)| self.args[*argument].name == *name)?;
            allowed.and(&Allowed::of(&self.args[*argument], bound)?);
        }
        for at in 0..levels.len() {
            let Some((over, parts)) = self.parts_with(&levels[at]) else { continue };
            if let Some((_, allowed)) = levels.iter_mut().find(|(argument, _)| *argument == over) {
                allowed.and(&parts);
            }
        }
        Some(Selection { formula: self, chain, levels, env: vec![UNSET; self.args.len()], is_begun: false })
    }

    fn chain_to(&self, node: usize, path: usize, chain: &mut Vec<usize>) -> bool {
        if self.nodes[node].path == Some(path) {
            return true;
        }
        self.nodes[node].children.iter().any(|child| {
            chain.push(*child);
            let found = self.chain_to(*child, path, chain);
            if !found {
                chain.pop();
            }
            found
        })
    }

    /// The shares with a value that is allowed, so that others are not looked into.
    fn parts_with(&self, (argument, allowed): &(usize, Allowed)) -> Option<(usize, Allowed)> {
        let argument = &self.args[*argument];
        let split = argument.split?;
        let parts = match (split.deal, allowed) {
            (_, Allowed::Interval(from, to)) if from >= to => Allowed::Interval(0, 0),
            (Deal::Block, Allowed::Interval(from, to)) => {
                Allowed::Interval(argument.part_of(*from), argument.part_of(to - 1) + 1)
            }
            (Deal::Cyclic, Allowed::Interval(from, to)) if to - from <= PARTS_LOOKED_AT => {
                let mut set: Vec<u64> = (*from..*to).map(|index| argument.part_of(index)).collect();
                set.sort_unstable();
                set.dedup();
                Allowed::Set(set)
            }
            _ => return None,
        };
        Some((split.over, parts))
    }
}

impl Selection<'_> {
    /// Sets the argument of a level to the least allowed value at or behind `from`, and those behind it to their first ones.
    fn settle(&mut self, mut level: usize, mut from: u64) -> bool {
        loop {
            let Some((argument, allowed)) = self.levels.get(level) else { return true };
            let definition = &self.formula.args[*argument];
            let part = definition.split.map(|split| self.env[split.over]);
            match allowed.next(definition, part, from) {
                Some(index) => {
                    self.env[*argument] = index;
                    (level, from) = (level + 1, 0);
                }
                None => {
                    self.env[*argument] = UNSET;
                    let Some(above) = level.checked_sub(1) else { return false };
                    level = above;
                    from = self.env[self.levels[level].0] + 1;
                }
            }
        }
    }

    fn place(&self) -> Option<Place> {
        let formula = self.formula;
        let mut place = formula.root();
        for child in &self.chain {
            let siblings = formula.nodes[place.node].children.iter().take_while(|other| *other != child);
            let all = |node: &Node| node.all.inodes.value(&formula.args, &place.env);
            let mut index = place.index + 1 + siblings.map(|other| all(&formula.nodes[*other])).sum::<u64>();
            let mut env = place.env.clone();
            let levels = &formula.nodes[*child].levels;
            levels.iter().filter_map(|level| level.argument).for_each(|argument| env[argument] = self.env[argument]);
            index += formula.before(&formula.nodes[*child], &place.env, &env, |sums| &sums.inodes)?;
            place = Place { index, parent: place.index, node: *child, env };
        }
        Some(place)
    }
}

impl Iterator for Selection<'_> {
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        let found = match (is_first, self.levels.last()) {
            (true, _) => self.settle(0, 0),
            (false, Some((argument, _))) if self.env[*argument] != UNSET => {
                let from = self.env[*argument] + 1;
                self.settle(self.levels.len() - 1, from)
            }
            // A path without arguments is one entry.
            (false, _) => false,
        };
        if found { self.place() } else { None }
    }
}
