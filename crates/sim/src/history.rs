//! Linearizability check of all calls on names: there must be an order of them, within the times in which they were under way, in which a
//! single file system would have given just these answers. Followed online: each order that is still possible is one [`Way`]. A call whose
//! outcome the client does not know may happen at any time until its session has ended, once or never.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use crate::tree::{NodeId, NsOp, Out, Res, State};

/// More ways than this are not followed.
const WAYS_MAX: usize = 1000;
/// More steps than this are not tried for one answer.
const STEPS_MAX: usize = 10_000;

/// A way in which everything can have happened so far.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Way {
    pub state: State,
    /// Changes that happened and were not answered.
    done: BTreeMap<u64, Out>,
    /// Changes that may happen yet.
    open: BTreeSet<u64>,
    /// For each call under way: answers that were right at some moment since it began, without changing anything.
    seen: BTreeMap<u64, Vec<Out>>,
}

/// Ways, each once.
type PathCache = BTreeMap<u64, Way>;

/// All calls and ways.
#[derive(Default)]
pub struct History {
    ops: BTreeMap<u64, NsOp>,
    pub ways: Vec<Way>,
    /// It became too wide.
    pub gave_up: bool,
    pub findings: Vec<String>,
}

/// The answer to look for, and what was tried.
struct Search<'a> {
    id: u64,
    read: bool,
    /// Nothing: any.
    res: Option<&'a Res>,
    related: BTreeSet<u64>,
    after: &'a mut PathCache,
    visited: &'a mut BTreeSet<u64>,
    steps: &'a mut usize,
}

fn hash(way: &Way) -> u64 {
    // Of fixed keys: the same in every run.
    let mut hasher = std::hash::DefaultHasher::new();
    way.hash(&mut hasher);
    hasher.finish()
}

fn add(ways: &mut PathCache, way: Way) {
    ways.insert(hash(&way), way);
}

impl Way {
    /// Lets a change happen; nothing, if it would change nothing.
    fn happen(&self, id: u64, ops: &BTreeMap<u64, NsOp>) -> Option<(Way, Out)> {
        let mut state = self.state.clone();
        let out = state.run(id as NodeId, &ops[&id]);
        if state == self.state {
            return None;
        }
        let (mut open, mut seen) = (self.open.clone(), self.seen.clone());
        open.remove(&id);
        seen.remove(&id);
        let mut way = Way { state, done: self.done.clone(), open, seen };
        let ids: Vec<u64> = way.seen.keys().copied().collect();
        ids.into_iter().for_each(|id| way.look(id, &ops[&id]));
        Some((way, out))
    }

    /// Notes what a call would be answered now if that changed nothing.
    fn look(&mut self, id: u64, op: &NsOp) {
        let mut state = self.state.clone();
        let out = state.run(id, op);
        let seen = self.seen.entry(id).or_default();
        if state == self.state && !seen.contains(&out) {
            seen.push(out);
        }
    }
}

impl History {
    /// Starts from a state.
    pub fn start(&mut self, state: State) {
        self.ways = vec![Way { state, ..Way::default() }];
    }

    /// A call begins.
    pub fn invoke(&mut self, id: u64, op: NsOp) {
        for way in &mut self.ways {
            way.look(id, &op);
            if !op.is_read() {
                way.open.insert(id);
            }
        }
        self.ops.insert(id, op);
    }

    /// A call is answered.
    pub fn answer(&mut self, id: u64, res: &Res) {
        let Some(op) = self.ops.get(&id).cloned() else { return };
        let before = std::mem::take(&mut self.ways);
        if before.is_empty() {
            return;
        }
        let (mut after, mut visited, mut steps) = (PathCache::new(), BTreeSet::new(), 0);
        for way in &before {
            if *res == Res::Refused {
                let mut way = way.clone();
                way.seen.remove(&id);
                if !way.done.contains_key(&id) {
                    way.open.remove(&id);
                    add(&mut after, way);
                }
            } else if let Some(out) = way.done.get(&id) {
                let mut next = way.clone();
                if next.state.accepts(out, res) {
                    next.done.remove(&id);
                    add(&mut after, next);
                }
            } else {
                let (after, visited, steps) = (&mut after, &mut visited, &mut steps);
                let related = self.related(way, id);
                let mut search = Search { id, read: op.is_read(), res: Some(res), related, after, visited, steps };
                self.explore(way, &mut search);
            }
        }
        if after.is_empty() && steps < STEPS_MAX {
            let text = format!("call {id} {op:?} was answered {res:?}, which no order of the calls explains");
            self.findings.push(text);
            if let Some(way) = before.first() {
                self.findings.push(format!("one of {} ways before it: {}", before.len(), self.show(way)));
            }
        }
        self.settle(after, steps);
        self.ops.remove(&id);
    }

    /// Takes an answer of a cache at this moment.
    pub fn glance(&mut self, id: u64, op: NsOp, res: &Res) {
        self.invoke(id, op);
        self.answer(id, res);
    }

    /// The client does not know what became of a call.
    pub fn lose(&mut self, id: u64) {
        let read = self.ops.get(&id).is_some_and(NsOp::is_read);
        let mut all = PathCache::new();
        for mut way in std::mem::take(&mut self.ways) {
            way.seen.remove(&id);
            way.done.remove(&id);
            add(&mut all, way);
        }
        self.ways = all.into_values().collect();
        if read {
            self.ops.remove(&id);
        }
    }

    /// A call that was lost cannot happen any more, if it has not yet.
    pub fn close(&mut self, id: u64) {
        if !self.ops.contains_key(&id) {
            return;
        }
        let before = std::mem::take(&mut self.ways);
        let (mut after, mut visited, mut steps) = (PathCache::new(), BTreeSet::new(), 0);
        for way in &before {
            if way.open.contains(&id) {
                let mut never = way.clone();
                never.open.remove(&id);
                add(&mut after, never);
                let (after, visited, steps) = (&mut after, &mut visited, &mut steps);
                let related = self.related(way, id);
                let mut search = Search { id, read: false, res: None, related, after, visited, steps };
                self.explore(way, &mut search);
            } else {
                add(&mut after, way.clone());
            }
        }
        self.settle(after, steps);
        self.ops.remove(&id);
    }

    /// Calls whose order with this one may matter, directly or through others.
    fn related(&self, way: &Way, id: u64) -> BTreeSet<u64> {
        let mut related = BTreeSet::from([id]);
        let mut todo = vec![id];
        while let Some(at) = todo.pop() {
            for other in way.open.iter().chain(way.seen.keys()) {
                if !related.contains(other) && self.ops[other].conflicts(&self.ops[&at]) {
                    related.insert(*other);
                    todo.push(*other);
                }
            }
        }
        related
    }

    /// All ways from here in which the call got this answer, after any others that happen first.
    fn explore(&self, way: &Way, search: &mut Search<'_>) {
        *search.steps += 1;
        if *search.steps > STEPS_MAX {
            return;
        }
        let id = search.id;
        if let Some(res) = search.res {
            let mut certain = false;
            for out in way.seen.get(&id).into_iter().flatten() {
                let mut next = way.clone();
                if next.state.accepts(out, res) {
                    next.seen.remove(&id);
                    next.open.remove(&id);
                    certain |= next.state == way.state && !out.is_vague(&way.state);
                    add(search.after, next);
                }
            }
            if certain && (search.read || matches!(res, Res::Err(_))) {
                // Others that happen first can happen after it as well. But not if the number in the answer was taken for that of
                // a file whose own answer is to come, or that is gone: it may be another one's.
                return;
            }
        }
        let may_change = !search.read && !matches!(search.res, Some(Res::Err(_)));
        if let Some((mut next, out)) = Some(way).filter(|_| may_change).and_then(|way| way.happen(id, &self.ops))
            && search.res.is_none_or(|res| next.state.accepts(&out, res))
        {
            add(search.after, next);
        }
        for other in &way.open {
            if *other == id || !search.related.contains(other) {
                continue;
            }
            let Some((mut next, out)) = way.happen(*other, &self.ops) else { continue };
            if way.seen.contains_key(other) {
                // It was not lost: its own answer is to come.
                next.done.insert(*other, out);
            }
            if search.visited.insert(hash(&next)) {
                self.explore(&next, search);
            }
        }
    }

    fn settle(&mut self, after: PathCache, steps: usize) {
        if after.len() > WAYS_MAX || steps > STEPS_MAX {
            self.gave_up = true;
            return;
        }
        self.ways = after.into_values().collect();
    }

    fn show(&self, way: &Way) -> String {
        let mut text = String::new();
        for (id, node) in &way.state.nodes {
            text += &format!(
                "\n  node {id}: ino {} dir {} mode {:o} nlink {} {:?}",
                node.ino, node.dir, node.mode, node.nlink, node.entries
            );
        }
        let open: Vec<_> = way.open.iter().map(|id| (id, &self.ops[id])).collect();
        format!("open {open:?} done {:?} seen {:?}{text}", way.done, way.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Node;

    /// A file is made, removed and made again by three calls that overlap, and listed before they are answered: the listing
    /// may show the first file or the last one.
    #[test]
    fn a_listing_before_the_answers_may_show_either_of_two_files_of_one_name() {
        let root = Node { ino: 1, dir: true, mode: 0o755, nlink: 2, entries: BTreeMap::new(), parent: 1 };
        let mut history = History::default();
        history.start(State { nodes: BTreeMap::from([(1, root)]) });
        let create = |exclusive| NsOp::Create { dir: 1, name: 0, mode: 0o600, exclusive };
        history.invoke(10, create(true));
        history.invoke(11, NsOp::Unlink { dir: 1, name: 0 });
        history.invoke(12, create(false));
        history.invoke(13, NsOp::Readdir { dir: 1 });
        let last = Res::List(vec![(0, 289, false)]);
        history.answer(13, &last);
        history.answer(10, &Res::Created { ino: 278, created: true });
        history.answer(11, &Res::Done);
        history.answer(12, &Res::Created { ino: 289, created: true });
        history.invoke(14, NsOp::Readdir { dir: 1 });
        history.answer(14, &last);
        assert_eq!(history.findings, Vec::<String>::new());
    }

    /// A file of which nobody was told is removed, another one is made under its name, and that is opened before either was
    /// answered: its number is not the first one's.
    #[test]
    fn a_number_may_be_that_of_a_file_that_takes_the_place_of_one_of_which_nobody_was_told() {
        let root = Node { ino: 1, dir: true, mode: 0o755, nlink: 2, entries: BTreeMap::new(), parent: 1 };
        let mut history = History::default();
        history.start(State { nodes: BTreeMap::from([(1, root)]) });
        let create = || NsOp::Create { dir: 1, name: 0, mode: 0o600, exclusive: false };
        history.invoke(10, create());
        history.lose(10);
        history.invoke(11, NsOp::Unlink { dir: 1, name: 0 });
        history.invoke(12, create());
        history.invoke(13, create());
        history.answer(13, &Res::Created { ino: 289, created: false });
        history.invoke(14, NsOp::Link { ino: 289, dir: 1, name: 1 });
        history.answer(14, &Res::Name { ino: 289, dir: false });
        history.answer(11, &Res::Done);
        history.answer(12, &Res::Created { ino: 289, created: true });
        history.invoke(15, NsOp::GetAttr { ino: 289 });
        history.answer(15, &Res::Entry { ino: 289, dir: false, mode: 0o600, nlink: 2 });
        assert_eq!(history.findings, Vec::<String>::new());
    }
}
