//! The completion of a pipeline: the mechanisms that run once when work is done, in the order in which the pipeline says them, and one run of
//! them. [`Run`] is a machine without IO: it says what begins next and hears what came of it. Not here: what a mechanism does, and which
//! pipelines make sense (`pipeline`).

use std::fmt;

use crate::composition::Step;
use crate::mechanism::Mechanism::{self, GlobalPersist, LocalPersist, NonvolatileApply, VolatileApply};
use crate::pipeline::Pipeline;

/// The stages that complete work. Empty: nothing is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    root: Option<Step>,
}

impl Completion {
    /// Those of a pipeline; none, if each operation is complete when it returns.
    pub fn of(pipeline: &Pipeline) -> Completion {
        if !pipeline.has_client_journal() {
            return Completion::default();
        }
        let completes =
            |mechanism| matches!(mechanism, LocalPersist | GlobalPersist | VolatileApply | NonvolatileApply);
        Completion { root: only(pipeline.composition().root(), &completes) }
    }

    /// The same with these mechanisms alone, in the same order.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(Mechanism) -> bool) -> Completion {
        Completion { root: self.root.as_ref().and_then(|root| only(root, &wanted)) }
    }

    /// The same without what makes changes visible.
    #[must_use]
    pub fn persists(&self) -> Completion {
        self.only(|mechanism| !mechanism.applies())
    }

    /// The same with an apply at the end, if it has none.
    #[must_use]
    pub fn and_apply(&self) -> Completion {
        if self.applies() {
            return self.clone();
        }
        let parts = self.root.iter().cloned().chain([Step::Mechanism(VolatileApply)]);
        Completion { root: Some(Step::serial(parts.collect())) }
    }

    /// True if there is nothing to be done.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// True if it contains the mechanism.
    pub fn has(&self, mechanism: Mechanism) -> bool {
        self.mechanisms().contains(&mechanism)
    }

    /// True if it makes changes visible.
    pub fn applies(&self) -> bool {
        self.mechanisms().into_iter().any(Mechanism::applies)
    }

    /// All mechanisms, from left to right.
    pub fn mechanisms(&self) -> Vec<Mechanism> {
        let mut all = Vec::new();
        self.root.iter().for_each(|root| collect(root, &mut all));
        all
    }

    /// A run of it, of which nothing has begun.
    pub fn run(&self) -> Run {
        Run { root: self.root.as_ref().map(Node::of) }
    }
}

impl fmt::Display for Completion {
    /// As in a pipeline; `-` if there is nothing to be done.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.root {
            Some(root) => root.fmt(f),
            None => f.write_str("-"),
        }
    }
}

fn only(step: &Step, wanted: &dyn Fn(Mechanism) -> bool) -> Option<Step> {
    let of = |parts: &[Step]| -> Vec<Step> { parts.iter().filter_map(|part| only(part, wanted)).collect() };
    match step {
        Step::Mechanism(mechanism) => wanted(*mechanism).then(|| step.clone()),
        Step::Serial(parts) => Some(of(parts)).filter(|parts| !parts.is_empty()).map(Step::serial),
        Step::Parallel(parts) => Some(of(parts)).filter(|parts| !parts.is_empty()).map(Step::parallel),
    }
}

fn collect(step: &Step, all: &mut Vec<Mechanism>) {
    match step {
        Step::Mechanism(mechanism) => all.push(*mechanism),
        Step::Serial(parts) | Step::Parallel(parts) => parts.iter().for_each(|part| collect(part, all)),
    }
}

/// Progress of a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waits,
    Runs,
    Succeeded,
    Failed,
}

/// A step with how far each of its mechanisms is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    One(Mechanism, State),
    Serial(Vec<Node>),
    Parallel(Vec<Node>),
}

impl Node {
    fn of(step: &Step) -> Node {
        let all = |parts: &[Step]| parts.iter().map(Node::of).collect();
        match step {
            Step::Mechanism(mechanism) => Node::One(*mechanism, State::Waits),
            Step::Serial(parts) => Node::Serial(all(parts)),
            Step::Parallel(parts) => Node::Parallel(all(parts)),
        }
    }

    fn has_succeeded(&self) -> bool {
        match self {
            Node::One(_, state) => *state == State::Succeeded,
            Node::Serial(parts) | Node::Parallel(parts) => parts.iter().all(Node::has_succeeded),
        }
    }

    fn begin(&mut self, begun: &mut Vec<Mechanism>) {
        match self {
            Node::One(mechanism, state) if *state == State::Waits => {
                *state = State::Runs;
                begun.push(*mechanism);
            }
            Node::One(..) => {}
            // The first that has not succeeded is the only one that may be under way.
            Node::Serial(parts) => {
                let next = parts.iter_mut().find(|part| !part.has_succeeded());
                next.into_iter().for_each(|part| part.begin(begun));
            }
            Node::Parallel(parts) => parts.iter_mut().for_each(|part| part.begin(begun)),
        }
    }

    fn each(&mut self, change: &mut dyn FnMut(Mechanism, &mut State)) {
        match self {
            Node::One(mechanism, state) => change(*mechanism, state),
            Node::Serial(parts) | Node::Parallel(parts) => parts.iter_mut().for_each(|part| part.each(change)),
        }
    }

    fn in_state(&self, wanted: State, found: &mut Vec<Mechanism>) {
        match self {
            Node::One(mechanism, state) if *state == wanted => found.push(*mechanism),
            Node::One(..) => {}
            Node::Serial(parts) | Node::Parallel(parts) => {
                parts.iter().for_each(|part| part.in_state(wanted, found));
            }
        }
    }
}

/// One run of the stages. A stage begins when all of the stage before has succeeded. When a mechanism fails, nothing more begins; what runs beside it
/// goes on to its end, and what has succeeded counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    root: Option<Node>,
}

impl Run {
    fn all(&self, state: State) -> Vec<Mechanism> {
        let mut found = Vec::new();
        self.root.iter().for_each(|root| root.in_state(state, &mut found));
        found
    }

    /// Begins the next mechanisms, which are to run at the same time, and returns them. Empty: running ones are to be waited for, or all is
    /// over.
    #[must_use]
    pub fn begin(&mut self) -> Vec<Mechanism> {
        let mut begun = Vec::new();
        if self.failed().is_empty() {
            self.root.iter_mut().for_each(|root| root.begin(&mut begun));
        }
        begun
    }

    /// A mechanism that runs has come to its end.
    pub fn ended(&mut self, mechanism: Mechanism, succeeded: bool) {
        let to = if succeeded { State::Succeeded } else { State::Failed };
        let mut change = |one: Mechanism, state: &mut State| {
            if one == mechanism && *state == State::Runs {
                *state = to;
            }
        };
        self.root.iter_mut().for_each(|root| root.each(&mut change));
    }

    /// True if the mechanism runs.
    pub fn runs(&self, mechanism: Mechanism) -> bool {
        self.all(State::Runs).contains(&mechanism)
    }

    /// Those that have failed, from left to right.
    pub fn failed(&self) -> Vec<Mechanism> {
        self.all(State::Failed)
    }

    /// Those that have succeeded, from left to right.
    pub fn succeeded(&self) -> Vec<Mechanism> {
        self.all(State::Succeeded)
    }

    /// True if nothing runs and nothing more begins.
    pub fn is_over(&self) -> bool {
        let done = self.root.as_ref().is_none_or(Node::has_succeeded);
        self.all(State::Runs).is_empty() && (done || !self.failed().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cell::Cell;

    fn of(text: &str) -> Completion {
        Completion::of(&Pipeline::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}")))
    }

    #[test]
    fn stages_begin_in_the_written_order_and_each_after_all_of_the_one_before() {
        let mut run = of("append_client_journal + global_persist + local_persist + volatile_apply").run();
        for mechanism in [GlobalPersist, LocalPersist, VolatileApply] {
            assert_eq!(run.begin(), [mechanism]);
            assert_eq!(run.begin(), [], "it runs");
            assert!(run.runs(mechanism) && !run.is_over());
            run.ended(mechanism, true);
        }
        assert!(run.begin().is_empty() && run.is_over());
        assert_eq!(run.succeeded(), [GlobalPersist, LocalPersist, VolatileApply]);
    }

    #[test]
    fn what_stands_in_parallel_begins_together_and_the_next_waits_for_both() {
        let mut run = of("append_client_journal + local_persist || global_persist + nonvolatile_apply").run();
        assert_eq!(run.begin(), [LocalPersist, GlobalPersist]);
        run.ended(GlobalPersist, true);
        assert_eq!(run.begin(), []);
        run.ended(LocalPersist, true);
        assert_eq!(run.begin(), [NonvolatileApply]);
    }

    #[test]
    fn after_a_failure_nothing_begins_what_runs_is_waited_for_and_what_was_done_counts() {
        let mut run = of("append_client_journal + local_persist || global_persist + volatile_apply").run();
        assert_eq!(run.begin(), [LocalPersist, GlobalPersist]);
        run.ended(LocalPersist, false);
        assert!(run.begin().is_empty() && !run.is_over(), "the other one runs");
        run.ended(GlobalPersist, true);
        assert!(run.begin().is_empty() && run.is_over());
        assert_eq!((run.failed(), run.succeeded()), (vec![LocalPersist], vec![GlobalPersist]));
        let mut run = of("append_client_journal + local_persist + volatile_apply").run();
        assert_eq!(run.begin(), [LocalPersist]);
        run.ended(LocalPersist, false);
        assert!(run.begin().is_empty() && run.is_over());
    }

    #[test]
    fn parts_are_taken_out_in_their_order_and_an_apply_is_added_once() {
        let all = of("append_client_journal + global_persist || local_persist + volatile_apply");
        assert_eq!(all.to_string(), "global_persist || local_persist + volatile_apply");
        assert_eq!(all.persists().to_string(), "global_persist || local_persist");
        assert_eq!(all.persists().and_apply(), all);
        assert_eq!(all.and_apply(), all);
        assert_eq!(all.only(|mechanism| mechanism == LocalPersist).to_string(), "local_persist");
        assert_eq!(of("append_client_journal").and_apply().to_string(), "volatile_apply");
        assert_eq!(of("append_client_journal + nonvolatile_apply").and_apply().to_string(), "nonvolatile_apply");
    }

    #[test]
    fn what_is_complete_with_each_operation_has_nothing_to_complete() {
        for cell in Cell::all() {
            let completion = Completion::of(&cell.composition());
            assert_eq!(completion.is_empty(), completion.to_string() == "-");
            let by_itself = cell.promise().is_none() || cell.to_string() == "invisible/none";
            assert_eq!(completion.is_empty(), by_itself, "{cell}");
            assert!(!completion.is_empty() || completion.run().is_over(), "{cell}");
        }
    }

    fn step(depth: u32) -> impl Strategy<Value = Step> {
        let one = prop::sample::select(Mechanism::ALL.to_vec()).prop_map(Step::Mechanism);
        one.prop_recursive(depth, 24, 4, |inner| {
            let parts = prop::collection::vec(inner, 1..4);
            prop_oneof![parts.clone().prop_map(Step::serial), parts.prop_map(Step::parallel)]
        })
    }

    proptest! {
        /// Whatever the tree, and in whatever order mechanisms end: all of them run once, and none before what it stands behind.
        #[test]
        fn any_tree_comes_to_its_end_with_each_mechanism_run_in_order(step in step(4), picks in prop::collection::vec(0usize..8, 64)) {
            // Each mechanism stands once in what makes sense: the first of each is taken.
            let mut seen = Vec::new();
            let seen_at = std::cell::RefCell::new(&mut seen);
            let first = |mechanism| {
                let mut seen = seen_at.borrow_mut();
                let is_new = !seen.contains(&mechanism);
                seen.push(mechanism);
                is_new
            };
            let completion = Completion { root: only(&step, &first) };
            let mut run = completion.run();
            let (mut running, mut order) = (run.begin(), Vec::new());
            for pick in picks {
                if running.is_empty() {
                    break;
                }
                let mechanism = running.swap_remove(pick % running.len());
                run.ended(mechanism, true);
                order.push(mechanism);
                running.extend(run.begin());
            }
            prop_assert!(run.is_over());
            let mut all = completion.mechanisms();
            order.sort();
            all.sort();
            prop_assert_eq!(order, all);
        }
    }
}
