//! Compositions that are read, printed and refused.

use proptest::prelude::*;

use super::*;
use crate::fault::Cause;
use Mechanism::{AppendClientJournal, LocalPersist, Rpcs, Stream, VolatileApply};

fn parsed(text: &str) -> Composition {
    Composition::parse(text).unwrap_or_else(|fault| panic!("{fault}\n{}", fault.caret()))
}

/// Byte, column and words of what is wrong.
fn refused(text: &str) -> (usize, usize, String) {
    let fault = Composition::parse(text).expect_err("it is wrong");
    (fault.offset, fault.column, fault.cause.to_string())
}

#[test]
fn of_the_two_signs_the_bars_bind_tighter() {
    let m = Step::Mechanism;
    let tree = Step::Serial(vec![m(Rpcs), Step::Parallel(vec![m(Stream), m(LocalPersist)])]);
    assert_eq!(parsed("rpcs + stream || local_persist").root, tree);
    let tree = Step::Parallel(vec![Step::Serial(vec![m(Rpcs), m(Stream)]), m(LocalPersist)]);
    assert_eq!(parsed("(rpcs + stream) || local_persist").root, tree);
}

#[test]
fn parentheses_without_need_change_nothing() {
    assert_eq!(parsed("((rpcs) + (stream + (local_persist)))"), parsed("rpcs+stream+local_persist"));
    assert_eq!(parsed("rpcs || (stream || local_persist)").to_string(), "rpcs || stream || local_persist");
}

#[test]
fn the_spellings_of_the_thesis_are_read_and_ours_are_printed() {
    let text = "Append Client Journal+Local-Persist\n + VOLATILE_APPLY";
    assert_eq!(parsed(text).to_string(), "append_client_journal + local_persist + volatile_apply");
    assert_eq!(parsed(text).leaves().iter().map(|leaf| leaf.place).collect::<Vec<_>>(), [0, 22, 39]);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let (at, column, words) = refused("append client journal + local persit + volatile_apply");
    assert_eq!((at, column), (24, 25));
    assert_eq!(words, "`local persit` is no mechanism; did you mean `local_persist`?");
    assert_eq!(refused("rpcs +"), (6, 7, "a mechanism or `(` has to stand here, not the end".into()));
    assert_eq!(refused("").2, "a mechanism or `(` has to stand here, not the end");
    assert_eq!(refused("rpcs + + stream").0, 7);
    assert_eq!(
        refused("rpcs | stream").2,
        "here only `+`, `||` or the end can stand, not a single `|` (at the same time is `||`)"
    );
    assert_eq!(refused("rpcs )").0, 5);
    assert_eq!(refused("rpcs + (stream || rpcs").0, 7);
    assert_eq!(refused("(rpcs (stream))").2, "here only `+`, `||`, `)` or the end can stand, not `(`");
    assert_eq!(refused("rpcs + \u{e9}\u{20ac}\u{0}").1, 8);
    assert_eq!(refused("rpcs \u{20ac} stream").1, 6);
}

#[test]
fn the_caret_stands_below_the_place() {
    let fault = Composition::parse("rpcs + strem").expect_err("it is wrong");
    assert_eq!(fault.caret(), "rpcs + strem\n       ^");
    assert_eq!(fault.to_string(), "line 1, column 8: `strem` is no mechanism; did you mean `stream`?");
}

#[test]
fn length_and_nesting_are_bounded() {
    let nested = |depth: usize| format!("{}rpcs{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(parsed(&nested(NESTING_MAX)), parsed("rpcs"));
    let fault = Composition::parse(&nested(NESTING_MAX + 1)).expect_err("too deep");
    assert_eq!((fault.cause, fault.offset), (Cause::TooDeep, NESTING_MAX));
    assert!(matches!(Composition::parse(&nested(LEN_MAX)).expect_err("too long").cause, Cause::TooLong { .. }));
}

#[test]
fn an_executor_walks_stage_by_stage_and_a_member_may_have_stages_of_its_own() {
    let composition = parsed("append_client_journal + (local_persist + volatile_apply) || stream + rpcs");
    let stages: Vec<Vec<String>> =
        composition.stages().map(|stage| stage.members().iter().map(Step::to_string).collect()).collect();
    assert_eq!(stages, [vec!["append_client_journal"], vec!["local_persist + volatile_apply", "stream"], vec!["rpcs"]]);
    let inner = &composition.stages().nth(1).expect("three").members()[0];
    assert_eq!(inner.stages().count(), 2);
    assert_eq!(parsed("rpcs").stages().count(), 1);
    assert_eq!(parsed("rpcs || stream").stages().next().expect("one").members().len(), 2);
}

#[test]
fn before_is_what_a_plus_parts_and_not_what_bars_do() {
    let leaves = parsed("(append_client_journal + local_persist) || (stream + rpcs) + volatile_apply").leaves();
    let of = |wanted| leaves.iter().find(|leaf| leaf.mechanism == wanted).expect("it is there");
    assert!(of(AppendClientJournal).is_before(of(LocalPersist)));
    assert!(!of(LocalPersist).is_before(of(AppendClientJournal)));
    assert!(!of(AppendClientJournal).is_before(of(Rpcs)) && !of(Rpcs).is_before(of(AppendClientJournal)));
    assert!(leaves.iter().take(4).all(|leaf| leaf.is_before(of(VolatileApply))));
}

#[test]
fn taken_apart_and_put_together_it_is_the_same_with_its_places() {
    let whole = parsed("rpcs + (stream + rpcs) || local_persist + volatile_apply");
    let again = Composition::together(whole.apart());
    assert_eq!((&again.root, &again.places), (&whole.root, &whole.places));
}

fn steps() -> impl Strategy<Value = Step> {
    let leaf = prop::sample::select(Mechanism::ALL.to_vec()).prop_map(Step::Mechanism);
    leaf.prop_recursive(4, 16, 3, |inner| {
        let parts = || prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![parts().prop_map(Step::serial), parts().prop_map(Step::parallel)]
    })
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_as_the_same_tree(step in steps()) {
        let text = step.to_string();
        prop_assume!(text.len() <= LEN_MAX);
        let again = Composition::parse(&text).map_err(|fault| TestCaseError::fail(format!("{fault}: {text}")))?;
        prop_assert_eq!(again.root(), &step);
        prop_assert_eq!(again.to_string(), text);
    }

    #[test]
    fn no_text_panics_the_reader(text in "([a-z_ +|()\\-]|rpcs|stream|\\PC){0,40}") {
        if let Err(fault) = Composition::parse(&text) {
            prop_assert!(fault.offset <= text.len());
            prop_assert_eq!(fault.caret().lines().count(), 2);
        }
    }
}
