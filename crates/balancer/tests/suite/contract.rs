//! Guarantees of a decision whatever the policy: hostile and broken ones end as named faults, nothing moves, the state stays, and the next
//! decision is as good as any.

use crate::support::{check, decide, hooks, piece, plain, rank, shipped, snapshot};
use loligo_balancer::balance::{Form, Policy};
use loligo_balancer::{Fault, FaultKind, Limits, Value};
use loligo_types::{LoadVec, PolicyId, Rank};
use std::time::{Duration, Instant};

fn fault(text: &str) -> Fault {
    let outcome = decide(text, &plain());
    assert!(outcome.decision.moves.is_empty());
    outcome.fault.unwrap_or_else(|| panic!("no fault: {text}"))
}

fn refused(text: &str) -> Fault {
    let Err(fault) = Policy::load("test", text, &Limits::deterministic()) else { panic!("loaded: {text}") };
    fault
}

#[test]
fn targets_that_make_no_sense_are_faults() {
    for (places, word) in [
        ("targets[1] = 5", "itself"),
        ("targets[3] = 5", "no rank"),
        ("targets[0] = 5", "no rank"),
        ("targets[-1] = 5", "no rank"),
        ("targets[1.5] = 5", "no rank"),
        ("targets[2] = -1", "negative"),
        ("targets[2] = 0/0", "finite"),
        ("targets[2] = 1/0", "finite"),
        ("targets[2] = '5'", "a string"),
        ("targets[2] = {}", "a table"),
        ("targets[2] = true", "a boolean"),
        ("targets.x = 5", "a string"),
        ("targets[true] = 5", "a boolean"),
        ("targets = nil targets = 5", "a number"),
        ("targets[2] = 100.1", "more than there is"),
        ("targets = {} for i = 1, 17000 do targets[i] = 1 end", "entries"),
        ("local t = {} t[1] = t targets[2] = t", "nested"),
    ] {
        let fault = fault(&hooks("true", places));
        assert!(fault.text.contains(word), "{places}: {fault}");
        assert!(matches!(fault.kind, FaultKind::Target | FaultKind::Answer), "{places}: {fault:?}");
    }
    let mut draining = plain();
    draining.ranks[1].takes_more = false;
    let outcome = decide(&hooks("true", "targets[2] = 5"), &draining);
    assert_eq!(outcome.fault.expect("a rank that is drained").kind, FaultKind::Target);
}

#[test]
fn a_rank_that_something_moves_to_is_left_alone_without_a_fault() {
    let mut busy = plain();
    busy.ranks[1].is_busy_importing = true;
    let outcome = decide(&hooks("true", "targets[2] = 50"), &busy);
    assert!(outcome.fault.is_none() && outcome.decision.moves.is_empty() && outcome.explain.skipped.len() == 1);
    let outcome = decide(&hooks("true", "targets[2] = 0.9"), &plain());
    assert!(outcome.fault.is_none() && outcome.explain.skipped[0].2.contains("minimum"));
}

#[test]
fn answers_of_the_wrong_kind_are_faults() {
    for (from, to, hook) in [
        ("when = '''true'''", "when = '1'", "when"),
        ("when = '''true'''", "when = 'nil'", "when"),
        ("when = '''true'''", "when = 'local x = 1'", "when"),
        ("metaload = 'IWR'", "metaload = '0/0'", "metaload"),
        ("metaload = 'IWR'", "metaload = '-IWR'", "metaload"),
        ("metaload = 'IWR'", "metaload = '1/0'", "metaload"),
        ("metaload = 'IWR'", "metaload = '{}'", "metaload"),
        ("metaload = 'IWR'", "metaload = 'local a = 1'", "metaload"),
        ("metaload = 'IWR'", "metaload = 'IWRR'", "metaload"),
        ("metaload = 'IWR'", "metaload = 'math.pow(10, 308) * 10'", "metaload"),
        ("mdsload = 'MDSs[i].all'", "mdsload = 'MDSs[i].nothing'", "mdsload"),
        ("mdsload = 'MDSs[i].all'", "mdsload = 'MDSs[i+1].all'", "mdsload"),
        ("mdsload = 'MDSs[i].all'", "mdsload = '-1'", "mdsload"),
        ("mdsload = 'MDSs[i].all'", "mdsload = '1e308*10'", "mdsload"),
        ("mdsload = 'MDSs[i].all'", "mdsload = '1e308'", "mdsload"),
        ("howmuch = ['big_first']", "howmuch = ['big_frist']", "howmuch"),
        ("howmuch = ['big_first']", "howmuch = []", "howmuch"),
        ("howmuch = ['big_first']", "howmuch = '{}'", "howmuch"),
        ("howmuch = ['big_first']", "howmuch = '{1}'", "howmuch"),
        ("howmuch = ['big_first']", "howmuch = '7'", "howmuch"),
    ] {
        let text = hooks("true", "targets[2] = 50").replace(from, to);
        let fault = fault(&text);
        assert_eq!(fault.hook, hook, "{to}: {fault}");
    }
    assert!(fault(&hooks("true", "").replace("big_first", "big_frist")).text.contains("did you mean `big_first`?"));
}

#[test]
fn own_selectors_choose_and_are_checked() {
    let with = |body: &str| {
        hooks("true", "targets[2] = 50").replace("howmuch = ['big_first']", "howmuch = ['mine']")
            + &format!("[selectors]\nmine = '''{body}'''\n")
    };
    for body in ["{1, 3, 5, 7, 9}", "return {1,3,5,7,9}", "function(loads, target) return {1,3,5,7,9} end"] {
        let outcome = decide(&with(body), &plain());
        assert!(outcome.fault.is_none(), "{:?}", outcome.fault);
        let dirs: Vec<u64> = outcome.decision.moves.iter().map(|step| step.piece.dir.0).collect();
        assert_eq!(dirs, [1, 3, 5, 7, 9]);
    }
    for body in ["{1, 1}", "{0}", "{11}", "{1.5}", "{'a'}", "5", "nil", "{a = 1}", "{0/0}", "{loads}", "loads[1] + nil"]
    {
        assert_eq!(fault(&with(body)).hook, "selectors.mine", "{body}");
    }
    let file = "function when() return true end function where() targets[2] = 20 end howmuch = {'two'}
        metaload = function(a, b) return b end mdsload = function(i) return MDSs[i].all end
        selectors = {two = function(loads, target) return {2, 3} end}";
    let outcome = decide(file, &plain());
    assert_eq!(outcome.decision.moves.len(), 2, "{:?}", outcome.fault);
}

/// Texts that try to run for ever, take all memory, get out, or break the machine.
pub const NASTY: &[&str] = &[
    "while true do end",
    "repeat until false",
    "for i = 1, 1/0 do end",
    "local function f() return f() end f()",
    "local function f() f() end f()",
    "local function f() return 1 + f() end f()",
    "local s = 'x' while true do s = s .. s end",
    "local s = 'x' for i = 1, 22 do s = s .. s end while true do local t = s .. i end",
    "local t = {} while true do t[#t + 1] = {} end",
    "local t = {} for i = 1, 1e9 do t[i] = i end",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.insert(t, 1, 0) end",
    "local t = {} for i = 1, 1e5 do t[i] = '' end while true do table.concat(t) end",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t, function() return true end) end",
    "local t = {} for i = 1, 3e5 do t[i] = i end for i = 1, 3e5 do t[i] = nil end while true do next(t) end",
    "local s = 'x' for i = 1, 21 do s = s .. s end while true do local b = s .. 'a' < s .. 'b' end",
    "local t = {} for i = 1, 2e5 do t[i] = i end while true do select('#', unpack(t)) end",
    "local function f(...) return f(1, ...) end f()",
    "table.sort({3, 2, 1}, function(a, b) while true do end end)",
    "table.clone(5)",
    "error()",
    "error(nil)",
    "error({})",
    "error(setmetatable)",
    "error(function() end)",
    "error('\\0\\255')",
    "error('x', 2^31)",
    "error(('x'):rep(1e9))",
    "local s = 'x' for i = 1, 22 do s = s .. s end error(s)",
    "string.rep('x', 1e9)",
    "('x'):rep(1e9)",
    "local s = `{1}`",
    "pcall(error)",
    "xpcall(error, print)",
    "coroutine.wrap(function() end)()",
    "setmetatable({}, {__tostring = function() while true do end end})",
    "getmetatable('').__index.rep = nil",
    "getfenv().x = 1",
    "setfenv(1, {})",
    "loadstring('x = 1')()",
    "require('os')",
    "os.exit()",
    "io.open('/etc/passwd')",
    "debug.info(1, 's')",
    "newproxy(true)",
    "collectgarbage()",
    "_G.x = 1",
    "buffer.create(1e9)",
    "math.max = nil",
    "math.huge = 1",
    "MDSs[1].load = 5",
    "MDSs[1] = nil",
    "rawset(MDSs, 1, nil)",
    "table.freeze(MDSs) table.clear(MDSs)",
    "WRstate('x')",
    "WRstate({})",
    "WRstate(nil)",
    "WRstate()",
    "WRstate(0/0)",
    "WRstate(1/0)",
    "nothing.at.all = 1",
    "local x = nil + 1",
    "local x = {} < {}",
    "local x = #5",
    "assert(false)",
    "assert(nil, {})",
    "for k in pairs(5) do end",
    "for k in 5 do end",
    "unpack({}, 1, 1e8)",
    "unpack({}, 1, 2^31 - 1)",
    "select(-1)",
    "next({}, 'x')",
    "table.concat({{}})",
    "table.insert({}, 5, 5, 5)",
    "bit32.extract(1, 40, 40)",
    "print(('x'))error(print)",
    "math.random()",
];

#[test]
fn whatever_is_hostile_ends_as_a_fault_in_every_hook_and_at_load_and_the_next_decision_is_good() {
    let limits = Limits { steps: 300_000, memory_bytes: 4 << 20, ..Limits::deterministic() };
    let good = hooks("true", "targets[2] = 50");
    for nasty in NASTY {
        let began = Instant::now();
        if let Ok(_policy) = Policy::load("nasty", &format!("{nasty}\nfunction when() return true end"), &limits) {
            panic!("loads: {nasty}");
        }
        for (hook, text) in [
            ("metaload", good.replace("metaload = 'IWR'", &format!("metaload = '''{nasty} return 1'''"))),
            ("mdsload", good.replace("mdsload = 'MDSs[i].all'", &format!("mdsload = '''{nasty} return 1'''"))),
            ("when", good.replace("when = '''true'''", &format!("when = '''{nasty} return true'''"))),
            ("where", good.replace("targets[2] = 50", &format!("{nasty} targets[2] = 50"))),
            ("howmuch", good.replace("['big_first']", &format!("'''{nasty} return {{'half'}}'''"))),
            ("selectors.x", good.replace("big_first", "x") + &format!("[selectors]\nx = '''{nasty} return {{1}}'''")),
        ] {
            let Ok(mut policy) = Policy::load("nasty", &text, &limits) else {
                panic!("{hook} does not load: {text}");
            };
            let mut state = Some(Value::Number(7.0));
            for _ in 0..2 {
                let outcome = policy.decide(&plain(), &mut state);
                check(&plain(), &outcome).expect("a sound answer");
                let Some(fault) = outcome.fault else { panic!("no fault in {hook}: {nasty}") };
                assert!(fault.hook == hook && !fault.text.contains("0x"), "{hook}: {nasty}: {fault:?}");
                assert_eq!(state, Some(Value::Number(7.0)));
            }
        }
        assert!(began.elapsed() < Duration::from_secs(8), "{nasty} took {:?}", began.elapsed());
    }
}

#[test]
fn a_policy_that_ran_out_once_decides_well_the_next_time() {
    for nasty in ["while true do end", "local s = 'x' while true do s = s .. s end"] {
        let text = hooks("true", &format!("if MDSs[2].q > 0 then {nasty} end targets[2] = 50"));
        let limits = Limits { time: Some(Duration::from_millis(20)), steps: u64::MAX, ..Limits::default() };
        let mut policy = Policy::load("once", &text, &limits).expect("loads");
        let mut state = None;
        for _ in 0..3 {
            let mut bad = plain();
            bad.ranks[1].load.queue = 1;
            let fault = policy.decide(&bad, &mut state).fault.expect("a fault");
            assert!(matches!(fault.kind, FaultKind::Time | FaultKind::Memory), "{fault:?}");
            assert_eq!(policy.decide(&plain(), &mut state).decision.moves.len(), 5);
        }
    }
}

#[test]
fn the_time_limit_ends_a_loop_soon() {
    let limits = Limits { time: Some(Duration::from_millis(30)), steps: u64::MAX, ..Limits::default() };
    let mut policy = Policy::load("slow", &hooks("while true do end return true", ""), &limits).expect("loads");
    let began = Instant::now();
    let fault = policy.decide(&plain(), &mut None).fault.expect("a fault");
    assert!(fault.kind == FaultKind::Time && began.elapsed() < Duration::from_secs(2), "{fault:?}");
}

#[test]
fn only_the_state_lasts_and_only_if_there_is_no_fault() {
    let file = "
        local count = 0
        function metaload(a, b) return b end
        function mdsload(i) return MDSs[i].all end
        function when()
            count = count + 1
            global = if rawequal(count, 1) then 1 else error('a local lasted')
            WRstate(RDstate() + 1)
            return RDstate() ~= 2
        end
        function where() if RDstate() == 3 then error('no') end end";
    let mut policy = Policy::load("lasting", file, &Limits::deterministic()).expect("loads");
    assert_eq!(policy.form(), Form::File);
    let mut state = None;
    let mut step = || {
        let outcome = policy.decide(&plain(), &mut state);
        (state, outcome.fault.is_some())
    };
    assert_eq!(step(), (Some(Value::Number(1.0)), false));
    assert_eq!(step(), (Some(Value::Number(2.0)), false));
    assert_eq!(step(), (Some(Value::Number(2.0)), true));
    assert_eq!(step(), (Some(Value::Number(2.0)), true));
}

#[test]
fn a_state_may_be_a_boolean_and_the_file_says_how_it_begins() {
    let text = hooks("WRstate(not RDstate()) return RDstate()", "") + "state = false\n";
    let mut policy = Policy::load("flip", &text, &Limits::deterministic()).expect("loads");
    let mut state = None;
    let seen: Vec<Option<bool>> = (0..3).map(|_| policy.decide(&plain(), &mut state).explain.when).collect();
    assert_eq!((seen, state), (vec![Some(true), Some(false), Some(true)], Some(Value::Bool(true))));
}

#[test]
fn what_cannot_be_a_policy_is_refused_with_a_reason() {
    for (text, word) in [
        ("", "neither"),
        ("\0\u{1b}Lua", "byte"),
        ("-- nothing", "neither"),
        ("\u{1}\u{2}\u{3}", ""),
        ("api = 1", "neither"),
        ("api = 2\nwhen = 'true'", "needs api 2"),
        ("api = 0\nwhen = 'true'", "needs api 0"),
        ("api = 2\nfunction when() return true end", "needs api 2"),
        ("wen = 'true'", "did you mean `when`?"),
        ("when = 5", "wrong type"),
        ("when = 'true'\nstate = 'x'", "a number or a boolean"),
        ("when = 'true'\nminimum_offload = -1", "not negative"),
        ("when = 'true'\nneed_min = 1.1", "from 0 to 1"),
        ("when = 'true'\nneed_min = 'most'", "not negative"),
        ("need_min = -0.1\nfunction when() return true end", "not negative"),
        ("when = 'true +'", "when"),
        ("when = 'end while true do'", ""),
        ("when = 'true'\nhowmuch = [1]", "names"),
        ("when = 'true\n", "line"),
        ("function when( return true end", "test:1"),
        ("function wen() return true end", "neither"),
        ("when = true", ""),
        ("function when() return true end state = {}", "a number or a boolean"),
        ("x = totall\nfunction when() end", "totall"),
    ] {
        let fault = refused(text);
        assert!(fault.kind == FaultKind::Load && fault.to_string().contains(word), "{text:?}: {fault}");
    }
    assert!(refused(&"-".repeat(1 << 20)).text.contains("at most"));
}

#[test]
fn versions_are_never_mixed_and_old_news_is_not_used_but_the_own_load_is_told() {
    let text = hooks("true", "targets[2] = 50");
    let mut cases = vec![plain(), plain(), plain()];
    cases[0].ranks[1].weighed.as_mut().expect("has one").policy = PolicyId(2);
    cases[1].ranks[1].weighed = None;
    cases[2].ranks[1].age_ms = 30_001;
    for snapshot in cases {
        let outcome = decide(&text, &snapshot);
        assert!(outcome.fault.is_none() && outcome.decision.moves.is_empty());
        assert!(outcome.explain.held.as_ref().is_some_and(|why| why.contains("rank 1")), "{:?}", outcome.explain.held);
        let weighed = outcome.decision.weighed.expect("weighed");
        assert_eq!((weighed.policy, weighed.auth), (PolicyId(1), 100.0));
        let mut drained = snapshot.clone();
        drained.ranks[1].takes_more = false;
        drained.ranks.push(rank(2, 0.0));
        let outcome = decide(&text, &drained);
        assert_eq!(outcome.decision.moves.len(), 5, "one that takes nothing is not waited for: MDSs[2] is rank 2");
        assert!(outcome.decision.moves.iter().all(|step| step.to == Rank(2)));
    }
}

#[test]
fn a_snapshot_that_makes_no_sense_is_a_fault_of_the_host() {
    let mut cases = vec![plain(), plain(), plain(), plain(), plain()];
    cases[0].whoami = Rank(7);
    cases[1].pieces[3].above = Some(3);
    cases[2].pieces[3].load.iwr = f64::NAN;
    cases[3].ranks.swap(0, 1);
    cases[4].besides.ird = -1.0;
    for snapshot in cases {
        let outcome = decide(shipped("cephfs.toml"), &snapshot);
        assert_eq!(outcome.fault.expect("a fault").kind, FaultKind::Host);
    }
}

#[test]
fn too_big_pieces_are_gone_into_and_nothing_goes_twice() {
    // 1 (0) has 2 (60) and 3 (40); 2 has 4, 5, 6 of 20 each.
    let mut snapshot = snapshot(0, &[100.0, 0.0, 0.0], &[]);
    snapshot.pieces = vec![
        piece(1, None, 0.0),
        piece(2, Some(0), 0.0),
        piece(3, Some(0), 40.0),
        piece(4, Some(1), 20.0),
        piece(5, Some(1), 20.0),
        piece(6, Some(1), 20.0),
    ];
    snapshot.pieces[0].fixed = true;
    let moved = |places: &str| -> Vec<(u64, u16)> {
        let outcome = decide(&hooks("true", places), &snapshot);
        assert!(outcome.fault.is_none(), "{:?}", outcome.fault);
        outcome.decision.moves.iter().map(|step| (step.piece.dir.0, step.to.0)).collect()
    };
    assert_eq!(moved("targets[2] = 20"), [(4, 1)]);
    assert_eq!(moved("targets[2] = 60"), [(2, 1)]);
    assert_eq!(moved("targets[2] = 40"), [(3, 1)]);
    assert_eq!(moved("targets[2] = 40 targets[3] = 40"), [(3, 1), (4, 2), (5, 2)]);
    assert_eq!(moved("targets[2] = 100"), [(2, 1), (3, 1)]);
}

#[test]
fn what_came_from_a_rank_goes_back_to_it_first() {
    let mut snapshot = plain();
    snapshot.pieces[6].home = Some(Rank(1));
    let outcome = decide(&hooks("true", "targets[2] = home[2]"), &snapshot);
    assert_eq!(outcome.decision.moves.len(), 1);
    assert_eq!(outcome.decision.moves[0].piece, snapshot.pieces[6].piece);
    assert!(outcome.explain.rounds[0].home);
}

#[test]
fn targets_in_other_units_than_the_pieces_are_converted() {
    let mut snapshot = plain();
    snapshot.ranks[0].load.busy_percent = 80.0;
    snapshot.besides = LoadVec { iwr: 50.0, ..LoadVec::default() };
    let text = hooks("true", "targets[2] = 40").replace("MDSs[i].all", "MDSs[i].busy");
    let outcome = decide(&text, &snapshot);
    assert_eq!(outcome.decision.moves.iter().map(|step| step.load).sum::<f64>(), 50.0, "half of what can move");
    assert_eq!(outcome.decision.weighed.expect("weighed").all, 150.0);
}

#[test]
fn what_is_printed_is_kept_within_bounds() {
    let text = hooks("print('a', 1, nil, {}) BAL_LOG(0, 'x') for i = 1, 1000 do print(i) end return false", "");
    let outcome = decide(&text, &plain());
    assert_eq!(&outcome.explain.log[..2], ["a 1 nil table", "[0] x"]);
    assert_eq!((outcome.explain.log.len(), outcome.explain.log_dropped), (64, 938));
    assert!(outcome.explain.lines().iter().any(|line| line.contains("938 more")));
}

#[test]
fn an_explanation_tells_the_whole_way() {
    let mut policy =
        Policy::load("all", &hooks("WRstate(3) return true", "targets[2] = 50"), &Limits::default()).expect("loads");
    let lines = policy.decide(&plain(), &mut None).explain.lines().join("\n");
    for part in [
        "all (policy 1), tick",
        "MDSs[1] rank 0 (me): load 100",
        "total 100",
        "when: true",
        "50 to rank 1",
        "big_first* 50 (5)",
        "move Ino(1) load 10 to rank 1",
        "state: nothing -> 3",
        "steps",
    ] {
        assert!(lines.contains(part), "{part} is not in\n{lines}");
    }
}

#[test]
fn texts_that_nest_deeply_or_go_on_for_long_are_refused_or_harmless() {
    let many = |part: &str, count: usize| part.repeat(count);
    for body in [
        many("(", 100_000),
        many("{", 100_000),
        many("-", 99_999) + "1",
        many("not ", 50_000) + "true",
        "1".to_string() + &many("+1", 100_000),
        "1".to_string() + &many("^1", 100_000),
        "'x'".to_string() + &many("..'x'", 40_000),
        "1".to_string() + &many(" and 1", 40_000),
        "a".to_string() + &many(".a", 100_000),
        "a".to_string() + &many("()", 100_000),
        "a".to_string() + &many("[a", 100_000),
        many("function() return ", 10_000),
        many("function() ", 10_000) + &many(" end", 10_000),
        many("if true then ", 15_000),
        many("do ", 80_000),
        many("for i = 1, 1 do ", 15_000),
        many("local x = 1 ", 20_000),
        "{".to_string() + &many("1,", 100_000) + "}",
        many("if x then x() else", 10_000),
        "`".to_string() + &many("{`", 50_000),
        "x :: ".to_string() + &many("{", 100_000),
        many("a,", 100_000) + "a = 1",
        "[".to_string() + &many("=", 200_000) + "[",
        "1 local a = 'xxxxxxxx' ".to_string() + &many("local a = a .. a ", 40),
        "1 local a = 'xxxxxxxx' ".to_string() + &many("local a = `{a}{a}` ", 40),
    ] {
        for text in [
            format!("function when() return {body}"),
            format!("function when() {body}"),
            format!("function when() return true end local x = {body}"),
            format!("function when() return true end {body}"),
            format!("when = '''{body}'''"),
            format!("when = 'true'\nmetaload = '''{body}'''"),
            format!("when = 'true'\nx = {body}"),
            format!("when = {body}"),
        ] {
            if let Ok(mut policy) = Policy::load("deep", &text, &Limits::deterministic()) {
                check(&plain(), &policy.decide(&plain(), &mut None)).expect("a sound answer");
            }
        }
    }
}

#[test]
fn names_and_lines_of_a_policy_stay_as_they_are() {
    let text = "
when = '''
local my_load_now = MDSs[whoami].load
print(\"a_b c\\\\n\", my_load_now)
return my_load_now ~= my_load_now'''
where = ''
howmuch = ['_under_score']
[selectors]
_under_score = 'return {}'
";
    let outcome = decide(text, &plain());
    assert_eq!(outcome.fault, None);
    let lines = outcome.explain.lines().join("\n");
    assert!(lines.contains("a_b c"), "{lines}");
}
