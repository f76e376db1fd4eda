//! The engine with other hosts than a metadata server: one that places sequencers, one that manages a cache. And what it
//! promises all of them: one budget, fresh globals, arithmetic that is the same here and in Luau.

use super::arith::Arith;
use super::{Code, HookSpec, Input, Output, Program, Value};
use crate::{Fault, FaultKind, Limits};
use proptest::prelude::*;
use std::borrow::Cow;
use std::rc::Rc;

const HOOKS: &[HookSpec] = &[
    HookSpec { name: "when", params: &[] },
    HookSpec { name: "where", params: &[] },
    HookSpec { name: "howmuch", params: &[] },
];

fn file(text: &str) -> Code {
    Code { file: Some(text.to_string()), hooks: Vec::new() }
}

fn hooks(hooks: &[(&str, &str)]) -> Code {
    Code { file: None, hooks: hooks.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect() }
}

fn load(code: Code) -> Program {
    Program::load("test", code, HOOKS, &Limits::deterministic()).expect("loads")
}

fn map(metrics: &[(&'static str, f64)]) -> Input {
    Input::Map(metrics.iter().map(|(name, number)| (Cow::Borrowed(*name), Input::Number(*number))).collect())
}

#[test]
fn a_service_that_places_sequencers_asks_where_each_goes() {
    // Half of the sequencers of an overloaded server go to the idlest one.
    let mut program = load(hooks(&[
        ("when", "if servers[me].cpu > 80 and #sequencers > 1 then"),
        (
            "where",
            "local idle = 1
            for i = 2, #servers do if servers[i].cpu < servers[idle].cpu then idle = i end end
            table.sort(sequencers, function(a, b) return a.rate > b.rate end)",
        ),
    ]));
    let sequencers = Input::List(vec![map(&[("rate", 5.0)]), map(&[("rate", 9.0)])]);
    let mut run = program.begin(Value::Number(0.0)).expect("begins");
    run.set("me", Input::Number(1.0)).expect("set");
    run.set("servers", Input::List(vec![map(&[("cpu", 95.0)]), map(&[("cpu", 10.0)])])).expect("set");
    run.set("sequencers", sequencers.clone()).expect("set");
    assert_eq!(run.call("when", &[]).map(|_| ()), Ok(()), "a `then` at the end makes it a condition");
    let fault = run.call("where", &[]).expect_err("what the host gives is read-only");
    assert!(fault.text.contains("readonly"), "{fault}");

    let mut program = load(file(
        "function when() return servers[me].cpu > 80 and #sequencers > 1 end
        function where()
            local idle = 1
            for i = 2, #servers do if servers[i].cpu < servers[idle].cpu then idle = i end end
            local order = {}
            for at, one in ipairs(sequencers) do order[at] = {at = at, rate = one.rate} end
            table.sort(order, function(a, b) return a.rate > b.rate end)
            for n = 1, #order, 2 do places[order[n].at] = idle end
        end",
    ));
    let mut run = program.begin(Value::Number(0.0)).expect("begins");
    run.set("me", Input::Number(1.0)).expect("set");
    run.set("servers", Input::List(vec![map(&[("cpu", 95.0)]), map(&[("cpu", 10.0)])])).expect("set");
    run.set("sequencers", sequencers).expect("set");
    run.set("places", Input::Out).expect("set");
    assert_eq!(run.call("when", &[]), Ok(Output::Bool(true)));
    assert_eq!(run.call("where", &[]), Ok(Output::Nil));
    assert_eq!(run.global("places"), Ok(Output::Table(vec![(Output::Number(2.0), Output::Number(2.0))])));
    assert!(run.finish().steps > 5);
}

#[test]
fn a_cache_that_absorbs_the_first_burst_shrinks_only_after_it() {
    let mut program = load(hooks(&[
        (
            "when",
            "if cachesize > n then
                if cachesize > 100000 then WRstate(1) end
                if RDstate() == 1 then return true end
            end
            return false",
        ),
        ("howmuch", "cachesize - n"),
    ]));
    let mut state = Value::Number(0.0);
    let mut evicted = Vec::new();
    for size in [10.0, 50_000.0, 100_001.0, 50_000.0, 500.0] {
        let mut run = program.begin(state).expect("begins");
        run.set("cachesize", size.into()).expect("set");
        run.set("n", Input::Number(1000.0)).expect("set");
        let shrink = run.call("when", &[]).expect("answers") == Output::Bool(true);
        evicted.push(if shrink { run.call_number("howmuch", &[]).expect("answers") } else { 0.0 });
        state = run.finish().state;
    }
    assert_eq!(evicted, [0.0, 0.0, 99_001.0, 49_000.0, 0.0]);
}

/// The dissertation's detector of groups of accesses, with the repair that evicts what is older than the newest group.
const FANS: &str = "
function when()
    local d = timeseries()
    local ts, id = d:get(d:size())
    local fans, top, bottom = {}, 0, id
    for k = d:size(), 1, -1 do
        ts, id = d:get(k)
        if id < bottom then
            table.insert(fans, {top = top, bottom = bottom})
            top, bottom = 0, id
        end
        top = max(top, id)
    end
    table.insert(fans, {top = top, bottom = bottom})
    if #fans < 2 then return false end
    local cut, again = fans[1].bottom, true
    while again do
        again = false
        for j = #fans, 1, -1 do
            if fans[j].top >= cut and fans[j].bottom < cut then cut, again = fans[j].bottom, true end
        end
    end
    WRstate(cut)
    return true
end
function howmuch() return RDstate() end";

#[test]
fn a_cache_that_follows_groups_of_accesses_finds_where_the_current_one_begins() {
    let mut program = load(file(FANS));
    let series =
        |ids: &[f64]| Input::Series(ids.iter().enumerate().map(|(ts, id)| (ts as f64, *id)).collect::<Rc<[_]>>());
    for (ids, cut) in [
        (vec![1.0, 2.0, 3.0, 1.0], None),
        (vec![1.0, 2.0, 3.0, 2.0, 10.0, 11.0, 12.0, 10.0, 11.0], Some(10.0)),
        (vec![1.0, 5.0, 10.0, 5.0, 12.0, 10.0], Some(5.0)),
    ] {
        let mut run = program.begin(Value::Number(0.0)).expect("begins");
        run.set("timeseries", series(&ids)).expect("set");
        let found = run.call("when", &[]).expect("answers") == Output::Bool(true);
        let evict = if found { Some(run.call_number("howmuch", &[]).expect("answers")) } else { None };
        assert_eq!(evict, cut, "{ids:?}");
    }
}

#[test]
fn a_long_series_is_shared_and_entries_that_are_not_there_are_errors() {
    let mut program = load(file(
        "function when() local d = timeseries() local s = 0 for i = 1, d:size() do local t, v = d:get(i) s = s + v end return s end
        function where() return timeseries():get(at) end",
    ));
    let series: Rc<[(f64, f64)]> = (0..100_000).map(|ts| (f64::from(ts), 1.0)).collect();
    let mut run = program.begin(Value::Number(0.0)).expect("begins");
    run.set("timeseries", Input::Series(series)).expect("set");
    assert_eq!(run.call_number("when", &[]), Ok(100_000.0));
    for at in
        [Input::Number(0.0), Input::Number(100_001.0), Input::Number(f64::NAN), Input::Number(1.5), Input::Bool(true)]
    {
        run.set("at", at).expect("set");
        assert_eq!(run.call("where", &[]).expect_err("no such entry").kind, FaultKind::Runtime);
    }
}

#[test]
fn hooks_of_one_evaluation_share_globals_and_the_budget_and_the_next_one_has_none_of_it() {
    let limits = Limits { steps: 1000, ..Limits::deterministic() };
    let text = "function when() seen = 1 for i = 1, 300 do end return true end function where() return seen end";
    let mut program = Program::load("test", file(text), HOOKS, &limits).expect("loads");
    for _ in 0..3 {
        let mut run = program.begin(Value::Number(0.0)).expect("begins");
        assert!(run.call("where", &[]).expect_err("not set yet").text.contains("`seen` is not known"));
        let mut run = program.begin(Value::Number(0.0)).expect("begins");
        let ended: Vec<bool> = (0..4).map(|_| run.call("when", &[]).is_ok()).collect();
        assert_eq!(ended, [true, true, true, false]);
        assert_eq!(run.call("where", &[]).expect_err("nothing is left").kind, FaultKind::Steps);
        assert_eq!(run.finish().steps, 1000);
    }
    let mut run = program.begin(Value::Number(0.0)).expect("begins");
    run.call("when", &[]).expect("answers");
    assert_eq!(run.call("where", &[]), Ok(Output::Number(1.0)));
}

#[test]
fn memory_is_counted_over_all_hooks_of_an_evaluation_and_freed_after_it() {
    let limits = Limits { memory_bytes: 1 << 20, steps: u64::MAX, ..Limits::deterministic() };
    let text = "function when() local t = {} for i = 1, 20000 do t[i] = i end return true end";
    let mut program = Program::load("test", file(text), HOOKS, &limits).expect("loads");
    for _ in 0..50 {
        let mut run = program.begin(Value::Number(0.0)).expect("begins");
        assert!(run.call("when", &[]).is_ok());
        let later: Vec<Result<Output, Fault>> = (0..3).map(|_| run.call("when", &[])).collect();
        assert_eq!(later.last().expect("three").as_ref().expect_err("too much").kind, FaultKind::Memory);
    }
    for _ in 0..500 {
        let mut run = program.begin(Value::Number(0.0)).expect("begins");
        assert!(run.call("when", &[]).is_ok(), "what an evaluation leaves is collected before it is in the way");
    }
}

#[test]
fn the_librarys_own_things_cannot_be_changed_and_a_policys_names_may_hide_them_for_one_evaluation() {
    let mut program = load(file(
        "function when() max = function() return 7 end return max(1, 2) end function where() return max(1, 2) end",
    ));
    for _ in 0..2 {
        let mut run = program.begin(Value::Number(0.0)).expect("begins");
        assert_eq!(run.call("where", &[]), Ok(Output::Number(2.0)));
        assert_eq!(run.call("when", &[]), Ok(Output::Number(7.0)));
    }
}

#[test]
fn sorting_is_stable_and_a_comparison_that_lies_does_no_harm() {
    let mut program = load(file(
        "function when()
            local list = {}
            for i = 1, 100 do list[i] = {key = i % 7, at = i} end
            table.sort(list, function(a, b) return a.key < b.key end)
            for i = 2, 100 do
                local a, b = list[i - 1], list[i]
                if a.key > b.key or a.key == b.key and a.at > b.at then return false end
            end
            local plain = {3, 1, 2, 5, 4, 9, 7}
            table.sort(plain)
            return table.concat(plain, ' ')
        end
        function where() local list = {3, 1, 2} table.sort(list, function() return true end) return #list end",
    ));
    let mut run = program.begin(Value::Number(0.0)).expect("begins");
    assert_eq!(run.call("when", &[]), Ok(Output::Text("1 2 3 4 5 7 9".to_string())));
    assert_eq!(run.call("where", &[]), Ok(Output::Number(3.0)));
}

const WEIGH: &[HookSpec] = &[HookSpec { name: "weigh", params: &["a", "b", "c"] }];

/// Both ways to work out a hook for rows; none for the first if it is not taken for arithmetic.
fn both_ways(code: Code, rows: &[f64]) -> (Option<Vec<f64>>, Result<Vec<f64>, Fault>) {
    let here = Arith::find(&code, &WEIGH[0]).map(|arith| arith.rows(rows, 3));
    let mut program = Program::load("test", code, WEIGH, &Limits::deterministic()).expect("loads");
    program.arith.clear();
    let mut run = program.begin(Value::Number(0.0)).expect("begins");
    let there = run.call_rows("weigh", rows, 3);
    (here, there)
}

#[test]
fn only_plain_arithmetic_is_taken_for_it() {
    for (text, is_plain) in [
        ("a + 2*b + c/4 - (a - b) * -c", true),
        ("max(a, min(b, 2.5))", true),
        ("a -- and so on", true),
        ("a + d", false),
        ("a ^ 2", false),
        ("a // b", false),
        ("a % b", false),
        ("math.max(a, b)", false),
        ("max(a)", false),
        ("0x10 + a", false),
        ("1e3 * a", false),
        ("a if", false),
        ("a b", false),
        ("", false),
        ("a + --[[ b ]] c", false),
    ] {
        let code = hooks(&[("weigh", text)]);
        assert_eq!(Arith::find(&code, &WEIGH[0]).is_some(), is_plain, "{text}");
    }
    for (text, is_plain) in [
        ("function weigh(x, y) return x + y end", true),
        ("local s = 'weigh' function weigh(x) return x end", true),
        ("function weigh(x, x) return x end", false),
        ("function weigh(x) return max(x, 1) end", false),
        ("local function weigh(x) return x end", false),
        ("function weigh(x) local y = x return y end", false),
        ("function weigh(x) return x end weigh = nil", false),
        ("function other.weigh(x) return x end", false),
        ("function weigh(x) return x, 1 end", false),
        ("function weigh(x: number) return x end", false),
        ("x = [[ function weigh(x) return x end ]]", false),
        ("x = ' \\' function weigh(x) return x end '", false),
    ] {
        assert_eq!(Arith::find(&file(text), &WEIGH[0]).is_some(), is_plain, "{text}");
    }
}

#[test]
fn a_function_that_a_file_only_could_make_is_not_taken_for_the_hook() {
    let weigh = vec![("weigh".to_string(), "a".to_string())];
    for (text, expected) in [
        ("local function never() function weigh(x) return 9 end end", 1.0),
        ("local function now() function weigh(x) return 9 end end now()", 9.0),
        ("function weigh(x) return x + 2 end", 3.0),
        ("local x = 1", 1.0),
    ] {
        let code = Code { file: Some(text.to_string()), hooks: weigh.clone() };
        let mut program = Program::load("test", code, WEIGH, &Limits::deterministic()).expect("loads");
        let mut run = program.begin(Value::Number(0.0)).expect("begins");
        assert_eq!(run.call_rows("weigh", &[1.0, 5.0, 6.0], 3), Ok(vec![expected]), "{text}");
    }
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop_oneof![Just("a"), Just("b"), Just("c")].prop_map(str::to_string),
        (0u32..1000).prop_map(|n| n.to_string()),
        (0u32..100, 0u32..1000).prop_map(|(n, m)| format!("{n}.{m}")),
    ];
    leaf.prop_recursive(5, 40, 2, |inner| {
        prop_oneof![
            (inner.clone(), prop_oneof![Just("+"), Just("-"), Just("*"), Just("/")], inner.clone())
                .prop_map(|(a, op, b)| format!("{a} {op} {b}")),
            inner.clone().prop_map(|a| format!("({a})")),
            inner.clone().prop_map(|a| format!("-({a})")),
            (prop_oneof![Just("max"), Just("min")], inner.clone(), inner)
                .prop_map(|(f, a, b)| format!("{f}({a}, {b})")),
        ]
    })
}

proptest! {
    #[test]
    fn arithmetic_is_the_same_here_and_in_luau_to_the_last_bit(
        text in expression(), numbers in proptest::collection::vec(0.0f64..1e6, 3..210),
    ) {
        let rows = &numbers[..numbers.len() / 3 * 3];
        let (here, there) = both_ways(hooks(&[("weigh", &text)]), rows);
        if let (Some(here), Ok(there)) = (&here, &there) {
            let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(here), bits(there), "{}", text);
        }
        if let (Some(here), Err(_)) = (here, there) {
            prop_assert!(here.iter().any(|number| !number.is_finite() || *number < 0.0), "{}", text);
        }
    }
}
