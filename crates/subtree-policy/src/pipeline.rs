//! Which compositions make sense, which cell they are in, and what is worth a warning. The rules follow from what the
//! mechanisms do (Cudele, thesis chapter 6, has the table and two examples of nonsense; the rest is ours). Not here: the
//! language (`composition`), the levels (`cell`).

use std::fmt;
use std::str::FromStr;

use crate::cell::{Cell, Consistency, Durability};
use crate::composition::{Composition, Leaf, Stage};
use crate::fault::{Cause, Fault, Flaw};
use crate::mechanism::Mechanism::{
    self, AppendClientJournal, GlobalPersist, LocalPersist, NonvolatileApply, Rpcs, Stream, VolatileApply,
};

/// A composition that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    composition: Composition,
    cell: Cell,
    warnings: Vec<Warning>,
}

/// Warning about a composition that is valid but not wise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The rank's journal is in the store already.
    LocalBesideStream,
    /// The dearer of two ways to the same.
    NonvolatileApply,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Warning::LocalBesideStream => {
                "`local_persist` adds nothing to `stream`: global durability is stronger than local; leave it out"
            }
            Warning::NonvolatileApply => {
                "`nonvolatile_apply` puts what is new into the store's table, past the rank's memory: it takes about three times as long as `volatile_apply`, which is durable here, too"
            }
        })
    }
}

impl Pipeline {
    /// Reads a composition and makes sure that it makes sense.
    pub fn parse(text: &str) -> Result<Pipeline, Fault> {
        Composition::read(text).and_then(Pipeline::of).map_err(|flaw| flaw.in_text(text))
    }

    pub(crate) fn of(composition: Composition) -> Result<Pipeline, Flaw> {
        let leaves = composition.leaves();
        check(&leaves)?;
        let has = |wanted| leaves.iter().any(|leaf| leaf.mechanism == wanted);
        let cell = Cell::new(consistency(&has), durability(&has));
        let warnings = [
            (has(Stream) && has(LocalPersist)).then_some(Warning::LocalBesideStream),
            has(NonvolatileApply).then_some(Warning::NonvolatileApply),
        ];
        Ok(Pipeline { composition, cell, warnings: warnings.into_iter().flatten().collect() })
    }

    /// The composition.
    pub fn composition(&self) -> &Composition {
        &self.composition
    }

    /// As it is carried out: one stage after the other.
    pub fn stages(&self) -> impl Iterator<Item = Stage<'_>> {
        self.composition.stages()
    }

    /// The cell of table 6.1 whose promises it gives once all of it is done.
    pub fn cell(&self) -> Cell {
        self.cell
    }

    /// The warnings.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// True if operations go into a journal of the client: the subtree has to be decoupled for it.
    pub fn has_client_journal(&self) -> bool {
        self.composition.has(AppendClientJournal)
    }

    /// True if a client's journal is merged in the end, so that others see its changes.
    pub fn merges(&self) -> bool {
        self.composition.has(VolatileApply) || self.composition.has(NonvolatileApply)
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.composition.fmt(f)
    }
}

impl FromStr for Pipeline {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Pipeline, Fault> {
        Pipeline::parse(text)
    }
}

fn consistency(has: &impl Fn(Mechanism) -> bool) -> Consistency {
    match (has(Rpcs), has(VolatileApply) || has(NonvolatileApply)) {
        (true, _) => Consistency::Strong,
        (false, true) => Consistency::Weak,
        (false, false) => Consistency::Invisible,
    }
}

/// Durability of a composition. Changes that `nonvolatile_apply` has applied are in the store, too.
fn durability(has: &impl Fn(Mechanism) -> bool) -> Durability {
    match (has(Stream) || has(GlobalPersist) || has(NonvolatileApply), has(LocalPersist)) {
        (true, _) => Durability::Global,
        (false, true) => Durability::Local,
        (false, false) => Durability::None,
    }
}

/// When a mechanism runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// With each operation.
    Online,
    /// Once when the work is done, to make it durable.
    Persist,
    /// Once when the work is done, so that others see it.
    Apply,
}

/// With rpcs, `local_persist` is the rank's own log with a sync, written with each operation (strong/local; the thesis does not
/// say whose disk it means).
fn runs(mechanism: Mechanism, rpcs: bool) -> Runs {
    match mechanism {
        Rpcs | AppendClientJournal | Stream => Runs::Online,
        LocalPersist if rpcs => Runs::Online,
        LocalPersist | GlobalPersist => Runs::Persist,
        VolatileApply | NonvolatileApply => Runs::Apply,
    }
}

/// Finds the first of the rules that is broken.
fn check(leaves: &[Leaf]) -> Result<(), Flaw> {
    no_two_are_the_same(leaves)?;
    all_follow_one_way(leaves)?;
    let mut applies = leaves.iter().filter(|leaf| leaf.mechanism.applies());
    if let (Some(_), Some(second)) = (applies.next(), applies.next()) {
        return Err(Flaw::new(Cause::TwoApplies(second.mechanism), second.place));
    }
    order(leaves)
}

fn no_two_are_the_same(leaves: &[Leaf]) -> Result<(), Flaw> {
    for (at, leaf) in leaves.iter().enumerate() {
        if leaves[..at].iter().any(|earlier| earlier.mechanism == leaf.mechanism) {
            return Err(Flaw::new(Cause::Twice(leaf.mechanism), leaf.place));
        }
    }
    Ok(())
}

/// Operations go to the rank or into a client's journal, and all else works on what is there then.
fn all_follow_one_way(leaves: &[Leaf]) -> Result<(), Flaw> {
    let mut ways = leaves.iter().filter(|leaf| leaf.mechanism.does_operations());
    let (way, second) = (ways.next(), ways.next());
    if let (Some(first), Some(second)) = (way, second) {
        let cause = Cause::TwoWays { first: first.mechanism, second: second.mechanism };
        return Err(Flaw::new(cause, second.place));
    }
    let way = way.map(|leaf| leaf.mechanism);
    for leaf in leaves.iter().filter(|leaf| !leaf.mechanism.does_operations()) {
        let cause = match (way, leaf.mechanism) {
            (Some(Rpcs), Stream | LocalPersist) => continue,
            (Some(Rpcs), mechanism) => Cause::NotWithRpcs { mechanism },
            (Some(_), Stream) => Cause::StreamOfClient,
            (Some(_), _) => continue,
            (None, Stream) => Cause::NoRpcs,
            (None, other) => Cause::NoClientJournal(other),
        };
        return Err(Flaw::new(cause, leaf.place));
    }
    Ok(())
}

/// Checks the order: mechanisms for each operation come before those that run once, and persist mechanisms before apply mechanisms.
fn order(leaves: &[Leaf]) -> Result<(), Flaw> {
    let rpcs = leaves.iter().any(|leaf| leaf.mechanism == Rpcs);
    let runs = |leaf: &Leaf| runs(leaf.mechanism, rpcs);
    for leaf in leaves {
        for other in leaves.iter().filter(|other| !leaf.is_before(other)) {
            let cause = match (runs(leaf), runs(other)) {
                (Runs::Online, Runs::Persist | Runs::Apply) => {
                    Cause::OnlineTooLate { late: leaf.mechanism, early: other.mechanism }
                }
                (Runs::Persist, Runs::Apply) => {
                    Cause::PersistAfterApply { persist: leaf.mechanism, apply: other.mechanism }
                }
                _ => continue,
            };
            return Err(Flaw::new(cause, leaf.place));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes before what is wrong, and the words.
    fn refused(text: &str) -> (usize, String) {
        let fault = Pipeline::parse(text).expect_err(text);
        (fault.offset, fault.cause.to_string())
    }

    #[track_caller]
    fn refused_at(text: &str, mechanism: &str, words: &str) {
        let (offset, said) = refused(text);
        assert_eq!(&text[offset..offset + mechanism.len()], mechanism, "{said}");
        assert!(said.contains(words), "{said}");
    }

    fn cell(text: &str) -> String {
        Pipeline::parse(text).unwrap_or_else(|fault| panic!("{text}: {fault}")).cell().to_string()
    }

    #[test]
    fn a_mechanism_that_stands_twice_is_refused_at_the_second() {
        let (offset, words) = refused("rpcs + stream || rpcs");
        assert_eq!(offset, 17);
        assert!(words.contains("second time"), "{words}");
    }

    #[test]
    fn completion_without_a_clients_journal_is_refused() {
        for completion in ["local_persist", "global_persist", "volatile_apply", "nonvolatile_apply"] {
            refused_at(completion, completion, "there is none");
        }
        refused_at("rpcs + global_persist", "global_persist", "say `stream`");
        refused_at("rpcs + volatile_apply", "volatile_apply", "all see already");
        refused_at("stream", "stream", "begin with `rpcs +`");
    }

    #[test]
    fn two_ways_of_doing_operations_are_refused_at_the_later() {
        refused_at("append client journal + rpcs", "rpcs", "same work");
        refused_at("rpcs || append_client_journal", "append_client_journal", "same work");
    }

    #[test]
    fn the_ranks_journal_takes_nothing_of_a_clients() {
        refused_at("append_client_journal + stream", "stream", "global_persist");
    }

    #[test]
    fn both_applies_are_refused() {
        refused_at("append_client_journal + volatile_apply + nonvolatile_apply", "nonvolatile_apply", "second time");
    }

    #[test]
    fn what_is_done_with_each_operation_stands_before_what_is_done_once() {
        refused_at("local_persist + append_client_journal", "append_client_journal", "`local_persist` once");
        refused_at("append_client_journal || volatile_apply", "append_client_journal", "before it with a `+`");
    }

    #[test]
    fn what_makes_durable_is_over_before_the_apply() {
        let words = "a crash in the apply would leave nothing durable";
        refused_at("append_client_journal + volatile_apply + local_persist", "local_persist", words);
        refused_at("append_client_journal + volatile_apply || global_persist", "global_persist", words);
        refused_at(
            "append_client_journal + (nonvolatile_apply + local_persist) || global_persist",
            "local_persist",
            words,
        );
        let fine = "append_client_journal + local_persist || global_persist + volatile_apply";
        assert_eq!(cell(fine), "weak/global");
    }

    #[test]
    fn a_composition_out_of_the_table_is_in_a_cell_too() {
        assert_eq!(cell("rpcs || local_persist"), "strong/local");
        assert_eq!(cell("stream || rpcs"), "strong/global");
        assert_eq!(cell("append_client_journal + local_persist + global_persist"), "invisible/global");
        assert_eq!(cell("append_client_journal + nonvolatile_apply"), "weak/global");
    }

    #[test]
    fn what_is_redundant_is_a_warning_and_no_fault() {
        let warnings = |text| Pipeline::parse(text).expect("it makes sense").warnings().to_vec();
        assert_eq!(warnings("rpcs + stream + local_persist"), [Warning::LocalBesideStream]);
        assert_eq!(warnings("append_client_journal + nonvolatile_apply"), [Warning::NonvolatileApply]);
        assert_eq!(warnings("append_client_journal + local_persist + global_persist"), []);
    }
}
