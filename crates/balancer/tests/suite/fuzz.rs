//! Random policies: programs of a grammar, mixes of hostile ones, and bytes. Whatever they are, loading and deciding come back
//! within the budget, without a panic, and with an answer that an independent check finds sound.

use crate::contract::NASTY;
use crate::support::{check, piece, rank, shipped, snapshot};
use loligo_balancer::balance::Policy;
use loligo_balancer::{FaultKind, Limits, Value};
use loligo_types::{LoadVec, Rank, Snapshot};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::time::{Duration, Instant};

const CASES: u32 = 2500;

fn limits() -> Limits {
    Limits { steps: 20_000, memory_bytes: 1 << 20, ..Limits::deterministic() }
}

/// A tree with fixed and foreign parts, on any of some ranks.
fn snapshots() -> impl Strategy<Value = Snapshot> {
    let pieces = proptest::collection::vec((0usize..8, 0.0f64..100.0, 0u8..10, 0u16..5), 0..30);
    (1u16..6, 0u16..6, pieces, 0.0f64..50.0, proptest::collection::vec((0.0f64..500.0, 0u8..12), 6)).prop_map(
        |(ranks, me, pieces, besides, others)| {
            let me = me % ranks;
            let mut snapshot = snapshot(me, &[], &[]);
            for (number, (load, kind)) in (0..ranks).zip(others) {
                let mut view = rank(number, load);
                view.load.busy_percent = (load / 5.0) as f32;
                view.load.cpu_percent = (load / 5.0) as f32;
                view.takes_more = kind != 1;
                view.is_busy_importing = kind == 2;
                view.age_ms = if kind == 3 { 50_000 } else { 5 };
                snapshot.ranks.push(view);
            }
            snapshot.besides = LoadVec { ird: besides, ..LoadVec::default() };
            for (at, (above, load, kind, home)) in pieces.into_iter().enumerate() {
                let above = (above < at && kind > 2).then_some(above as u32);
                let mut piece = piece(at as u64 + 1, above, load);
                piece.fixed = kind == 5;
                piece.home = (above.is_none() && home != me && home < ranks).then_some(Rank(home));
                snapshot.pieces.push(piece);
            }
            snapshot
        },
    )
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        4 => prop_oneof![
            Just("0"), Just("1"), Just("2"), Just("0.5"), Just("-1"), Just("1e308"), Just("0/0"), Just("nil"), Just("true"),
            Just("false"), Just("''"), Just("'abc'"), Just("{}"), Just("{1, 2, 3}"), Just("function(...) return ... end"),
        ].prop_map(str::to_string),
        6 => prop_oneof![
            Just("whoami"), Just("total"), Just("MDSs"), Just("MDSs[1]"), Just("MDSs[whoami].load"), Just("MDSs[2]['all']"),
            Just("#MDSs"), Just("targets"), Just("allmetaload"), Just("authmetaload"), Just("RDstate()"), Just("home[1]"),
            Just("a"), Just("b"), Just("i"), Just("IWR"), Just("IRD"), Just("tick_ms"), Just("math.huge"), Just("math.pi"),
        ].prop_map(str::to_string),
    ];
    leaf.prop_recursive(3, 16, 3, |inner| {
        let op = prop_oneof![
            Just("+"),
            Just("-"),
            Just("*"),
            Just("/"),
            Just("%"),
            Just("^"),
            Just(".."),
            Just("=="),
            Just("<"),
            Just(">"),
            Just("and"),
            Just("or"),
            Just("//"),
        ];
        let call = prop_oneof![
            Just("max"),
            Just("min"),
            Just("tostring"),
            Just("tonumber"),
            Just("math.floor"),
            Just("type"),
            Just("unpack"),
            Just("table.concat"),
            Just("table.clone"),
            Just("next"),
            Just("error"),
            Just("WRstate"),
            Just("select"),
            Just("print"),
        ];
        prop_oneof![
            (inner.clone(), op, inner.clone()).prop_map(|(x, op, y)| format!("({x} {op} {y})")),
            (call, inner.clone()).prop_map(|(f, x)| format!("{f}({x})")),
            (inner.clone(), inner.clone()).prop_map(|(x, y)| format!("({x})[{y}]")),
            inner.clone().prop_map(|x| format!("#({x})")),
            inner.clone().prop_map(|x| format!("-({x})")),
            (inner.clone(), inner).prop_map(|(x, y)| format!("{{{x}, [1] = {y}}}")),
        ]
    })
}

fn statements() -> impl Strategy<Value = String> {
    let simple = prop_oneof![
        (
            prop_oneof![Just("a"), Just("b"), Just("local a"), Just("targets[2]"), Just("targets[1]"), Just("targets")],
            expression()
        )
            .prop_map(|(name, value)| format!("{name} = {value}")),
        expression().prop_map(|place| format!("targets[{place}] = MDSs[whoami].load / 2")),
        expression().prop_map(|value| format!("for i = 1, #MDSs do if i ~= whoami then targets[i] = {value} end end")),
        expression().prop_map(|value| format!("WRstate({value})")),
        expression().prop_map(|value| format!("local x = {value}")),
        prop::sample::select(NASTY).prop_map(str::to_string),
    ];
    let nested = simple.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (expression(), inner.clone()).prop_map(|(x, body)| format!("if {x} then {body} end")),
            (expression(), inner.clone()).prop_map(|(x, body)| format!("while {x} do {body} end")),
            (expression(), inner.clone()).prop_map(|(x, body)| format!("for k = 1, {x} do {body} end")),
            (expression(), inner.clone()).prop_map(|(x, body)| format!("for k, v in pairs({x}) do {body} end")),
            inner.clone().prop_map(|body| format!("local function f(n) {body} if n then f(n) end end f(1)")),
            (inner.clone(), inner).prop_map(|(first, second)| format!("{first}\n{second}")),
        ]
    });
    (proptest::collection::vec(nested, 0..3), proptest::option::weighted(0.8, expression())).prop_map(
        |(body, answer)| {
            let answer = answer.map_or(String::new(), |answer| format!("\nreturn {answer}"));
            format!("{}{answer}", body.join("\n"))
        },
    )
}

/// Sensible most of the time, so that later hooks are reached too.
fn hook(sensible: &'static str) -> impl Strategy<Value = String> {
    prop_oneof![3 => Just(sensible.to_string()), 1 => statements(), 1 => expression().prop_map(|x| format!("return {x}"))]
}

fn policies() -> impl Strategy<Value = String> {
    let hooks = (
        hook("return IWR + IRD"),
        hook("return MDSs[i].all"),
        hook("return true"),
        hook("for i = 1, #MDSs do if i ~= whoami and MDSs[i].open then targets[i] = MDSs[whoami].load / #MDSs end end"),
        hook("return {'big_first', 'half', 'mine'}"),
        hook("return {#loads}"),
    );
    let whole =
        (hooks, any::<bool>()).prop_map(|((metaload, mdsload, when, places, howmuch, mine), is_file)| match is_file {
            true => format!(
                "function metaload(IRD, IWR, READDIR, FETCH, STORE) {metaload} end
            function mdsload(i) {mdsload} end
            function when() {when} end
            function where() {places} end
            function howmuch() {howmuch} end
            selectors = {{mine = function(loads, target) {mine} end}}"
            ),
            false => format!(
                "metaload = '''{metaload}'''\nmdsload = '''{mdsload}'''\nwhen = '''{when}'''\nwhere = '''{places}'''\n\
             howmuch = '''{howmuch}'''\n[selectors]\nmine = '''{mine}'''\n"
            )
            .replace("= ''''", "= '''\n'"),
        });
    // A shipped one with a few bytes changed.
    let mangled = (prop::sample::select(loligo_balancer::embedded()), 0usize..2000, ".{0,6}", 0usize..8).prop_map(
        |((_, text), at, new, gone)| {
            let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let end = (at + gone..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
            format!("{}{new}{}", &text[..at], &text[end..])
        },
    );
    let bytes =
        proptest::collection::vec(any::<u8>(), 0..200).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    prop_oneof![8 => whole, 2 => mangled, 1 => bytes, 1 => statements()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn random_policies_come_back_in_time_with_sound_answers(text in policies(), snapshot in snapshots()) {
        let began = Instant::now();
        if let Ok(mut policy) = Policy::load("random", &text, &limits()) {
            let mut state = Some(Value::Number(1.0));
            for _ in 0..3 {
                let before = state;
                let outcome = policy.decide(&snapshot, &mut state);
                prop_assert_eq!(check(&snapshot, &outcome), Ok(()), "{}", text);
                prop_assert!(outcome.fault.is_none() || state == before);
                prop_assert!(outcome.fault.as_ref().is_none_or(|fault| fault.kind != FaultKind::Host), "{:?}", outcome.fault);
                prop_assert!(outcome.explain.steps <= limits().steps);
                outcome.explain.lines();
            }
        }
        prop_assert!(began.elapsed() < Duration::from_secs(5), "{:?}: {}", began.elapsed(), text);
    }
}

/// The fuzz is worth nothing if nothing gets through: a canary.
#[test]
fn sensible_policies_of_the_same_snapshots_do_move_something() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut moved, mut held) = (0, 0);
    for _ in 0..200 {
        let snapshot = snapshots().new_tree(&mut runner).expect("a snapshot").current();
        let mut policy = Policy::load("ceph", shipped("cephfs.toml"), &limits()).expect("loads");
        let outcome = policy.decide(&snapshot, &mut None);
        assert_eq!((check(&snapshot, &outcome), outcome.fault), (Ok(()), None));
        moved += usize::from(!outcome.decision.moves.is_empty());
        held += usize::from(outcome.explain.held.is_some());
    }
    assert!(moved > 20 && held > 20, "{moved} moved, {held} held still");
}
