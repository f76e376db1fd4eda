//! Whether there is an order of all calls on names, within the times in which they were under way, in which a single
//! file system would have given just these answers (linearizability). Followed online: each way that is still possible
//! is one [`Way`]. A call whose outcome the client does not know may happen at any time until its session has ended,
//! once or never.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{NodeId, NsOp, Out, Res, State};

/// More ways than this are not followed.
const WAYS_MAX: usize = 3000;
/// More steps than this are not tried for one answer.
const STEPS_MAX: usize = 60_000;

/// A way in which everything can have happened so far.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Way {
    pub state: State,
    /// Changes that happened and were not answered.
    done: BTreeMap<u64, Out>,
    /// Changes that may happen yet.
    open: BTreeSet<u64>,
    /// What calls that change nothing may have seen.
    seen: BTreeMap<u64, Vec<Out>>,
}

/// All calls and ways.
#[derive(Default)]
pub struct History {
    ops: BTreeMap<u64, NsOp>,
    pub ways: Vec<Way>,
    /// It became too wide.
    pub gave_up: bool,
    pub findings: Vec<String>,
}

impl Way {
    fn happen(&self, id: u64, ops: &BTreeMap<u64, NsOp>) -> (Way, Out) {
        let mut way = self.clone();
        way.open.remove(&id);
        let out = way.state.run(id as NodeId, &ops[&id]);
        for (read, seen) in &mut way.seen {
            let also = way.state.clone().run(0, &ops[read]);
            if !seen.contains(&also) {
                seen.push(also);
            }
        }
        (way, out)
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
            if op.is_read() {
                let out = way.state.clone().run(0, &op);
                way.seen.insert(id, vec![out]);
            } else {
                way.open.insert(id);
            }
        }
        self.ops.insert(id, op);
    }

    /// A call is answered.
    pub fn answer(&mut self, id: u64, res: &Res) {
        let Some(op) = self.ops.get(&id).cloned() else { return };
        let read = op.is_read();
        let before = std::mem::take(&mut self.ways);
        if before.is_empty() {
            return;
        }
        let (mut after, mut visited, mut steps) = (BTreeSet::new(), BTreeSet::new(), 0);
        for way in &before {
            if *res == Res::Refused {
                let mut way = way.clone();
                way.seen.remove(&id);
                if !way.done.contains_key(&id) {
                    way.open.remove(&id);
                    after.insert(way);
                }
            } else if let Some(out) = way.done.get(&id) {
                let mut next = way.clone();
                if next.state.accepts(out, res) {
                    next.done.remove(&id);
                    after.insert(next);
                }
            } else {
                let related = self.related(way, id);
                self.explore(way, id, read, Some(res), &related, &mut after, &mut visited, &mut steps);
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

    /// What a cache says at this moment.
    pub fn glance(&mut self, id: u64, op: NsOp, res: &Res) {
        self.invoke(id, op);
        self.answer(id, res);
    }

    /// The client does not know what became of a call.
    pub fn lose(&mut self, id: u64) {
        let read = self.ops.get(&id).is_some_and(NsOp::is_read);
        for way in &mut self.ways {
            way.seen.remove(&id);
            way.done.remove(&id);
        }
        if read {
            self.ops.remove(&id);
        }
        self.dedup();
    }

    /// A call that was lost cannot happen any more, if it has not yet.
    pub fn close(&mut self, id: u64) {
        if !self.ops.contains_key(&id) {
            return;
        }
        let before = std::mem::take(&mut self.ways);
        let (mut after, mut visited, mut steps) = (BTreeSet::new(), BTreeSet::new(), 0);
        for way in &before {
            if way.open.contains(&id) {
                let mut never = way.clone();
                never.open.remove(&id);
                after.insert(never);
                let related = self.related(way, id);
                self.explore(way, id, false, None, &related, &mut after, &mut visited, &mut steps);
            } else {
                after.insert(way.clone());
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

    /// All ways from here in which the call has happened just now with this answer, after any others.
    #[allow(clippy::too_many_arguments)]
    fn explore(
        &self,
        way: &Way,
        id: u64,
        read: bool,
        res: Option<&Res>,
        related: &BTreeSet<u64>,
        after: &mut BTreeSet<Way>,
        visited: &mut BTreeSet<Way>,
        steps: &mut usize,
    ) {
        *steps += 1;
        if *steps > STEPS_MAX {
            return;
        }
        if read {
            for out in way.seen.get(&id).into_iter().flatten() {
                let mut next = way.clone();
                if res.is_none_or(|res| next.state.accepts(out, res)) {
                    next.seen.remove(&id);
                    // Others that happen first can happen after it as well.
                    after.insert(next);
                    return;
                }
            }
        } else {
            let (mut next, out) = way.happen(id, &self.ops);
            if res.is_none_or(|res| next.state.accepts(&out, res)) {
                after.insert(next);
            }
        }
        for other in way.open.iter().filter(|other| **other != id && related.contains(other)) {
            let (mut next, out) = way.happen(*other, &self.ops);
            next.done.insert(*other, out);
            if visited.insert(next.clone()) {
                self.explore(&next, id, read, res, related, after, visited, steps);
            }
        }
    }

    fn settle(&mut self, after: BTreeSet<Way>, steps: usize) {
        if after.len() > WAYS_MAX || steps > STEPS_MAX {
            self.gave_up = true;
            return;
        }
        self.ways = after.into_iter().collect();
    }

    fn dedup(&mut self) {
        let all: BTreeSet<Way> = std::mem::take(&mut self.ways).into_iter().collect();
        self.ways = all.into_iter().collect();
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
