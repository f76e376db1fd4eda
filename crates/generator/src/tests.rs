//! Programs that are sound, and programs that do everything they must not.

use loligo_schema::code::{Budget, Checked};
use loligo_schema::{Body, Document, Generator};

use super::Luau;

/// Simulation objects in a grid of cells; hot cells are split into four (the thesis' SIRIUS).
const GRID: &str = include_str!("../examples/grid.toml");

fn load(text: &str) -> Result<Checked<Luau>, String> {
    let document = Document::parse(text).map_err(|fault| fault.to_string())?;
    let Generator::Code(code) = &document.generator else { return Err("another kind".into()) };
    let program = Luau::load(code, Budget::default())?;
    Ok(Checked::new(program, code.entries, document.defaults.of_file(), document.defaults.of_dir()))
}

#[test]
fn a_grid_with_split_cells_is_listed_looked_up_and_numbered() {
    let mut grid = load(GRID).expect("it is sound");
    let steps = grid.list(0, 0, 100).expect("sound");
    assert_eq!(steps.len(), 10);
    for dir in [&steps[0], &steps[9]] {
        let mut all: Vec<loligo_schema::Entry> = Vec::new();
        while all.len() < 130 {
            let page = grid.list(dir.index, all.len() as u64, 37).expect("sound");
            assert!(!page.is_empty());
            all.extend(page);
        }
        assert_eq!(grid.list(dir.index, 130, 37), Ok(Vec::new()));
        for entry in &all {
            assert_eq!(grid.child(dir.index, &entry.name).as_ref(), Ok(&Some(entry.clone())));
            assert_eq!(grid.entry(entry.index).as_ref(), Ok(&Some(entry.clone())));
        }
        let names: Vec<&str> = all[..6].iter().map(|entry| std::str::from_utf8(&entry.name).expect("text")).collect();
        assert_eq!(names, ["run.0.0", "run.0.1", "run.0.2", "run.0.3", "run.1.0", "run.2.0"]);
        assert_eq!((all[0].attributes.mode, &all[0].body), (0o400, &Body::Zeros(8_000_000)));
    }
    for name in ["run.1.1", "run.01.0", "run.100.0", "run.1", "x", "run.1.0x", ""] {
        assert_eq!(grid.child(3, name.as_bytes()), Ok(None), "{name}");
    }
    assert_eq!(grid.child(3, b"\xff"), Ok(None));
}

/// A program whose functions have these bodies.
fn program(list: &str, lookup: &str, entry: &str) -> Result<Checked<Luau>, String> {
    let text = format!(
        "version = 1\nkind = 'code'\nentries = 10\ncode = '''\nfunction list(dir, from) {list} end\n\
         function lookup(dir, name, parts) {lookup} end\nfunction entry(n) {entry} end\n'''\n"
    );
    load(&text)
}

const ENTRY: &str = "if n == 0 then return { entries = 1 } end return { dir = 0, name = 'a' }";

#[test]
fn hostile_programs_are_faults_with_the_place_and_the_next_call_works() {
    let listed = |list: &str| {
        let mut program = program(list, "return 1", ENTRY).expect("it loads");
        let fault = program.list(0, 0, 10).expect_err(list).to_string();
        assert!(program.child(0, b"a").expect("a new machine").is_some(), "{list}");
        fault
    };
    let cases = [
        ("while true do end", "used more than 200000 steps"),
        ("local t = {} for i = 1, 1e9 do t[i] = i end", "used more than 200000 steps"),
        ("local s = 'x' while true do s = s .. s end", "list"),
        ("return os.time()", "os"),
        ("return { math.random() }", "schema:1: attempt to call a nil value"),
        ("return { 1, x = 2 }", "must answer a table of numbers with the keys 1, 2"),
        ("return { [2] = 1 }", "must answer a table of numbers"),
        ("return { 'a' }", "must answer a table of numbers"),
        ("return 'a'", "it answered a string"),
        ("return { 1, 2 }", "answers 2 entries"),
        ("return { 0/0 }", "not NaN"),
        ("error('no')", "no"),
        ("return list(dir, from)", "list"),
    ];
    for (list, expected) in cases {
        let fault = listed(list);
        assert!(fault.contains(expected), "{list}: {fault}");
    }
    let entry = |entry: &str| {
        let mut program = program("return { 1 }", "return 1", entry).expect("it loads");
        program.entry(1).expect_err(entry).to_string()
    };
    assert!(entry("return { dir = 0, name = 'a', colour = 1 }").contains("`colour` is no key of an entry"));
    assert!(entry("return { dir = 0, name = 1 }").contains("entry(1): `name` is a number"));
    assert!(entry("return { dir = 0, name = 'a/b' }").contains("`name` has 1 to 255 bytes"));
    assert!(entry("return 'a'").contains("must answer a table or nil"));
    assert!(
        entry("local s = 'xxxxxxxx' for i = 1, 6 do s = s .. s end return { dir = 0, name = s }")
            .contains("`name` has")
    );
}

#[test]
fn nothing_lasts_from_call_to_call() {
    let mut counter = program(
        "return { 1 }",
        "return 1",
        "WRstate(RDstate() + 1) count = (rawget({}, 'x') or 0) + 1 return { dir = 0, name = 'a', size = RDstate() }",
    )
    .expect("it loads");
    let first = counter.entry(1).expect("sound").expect("there");
    assert_eq!(counter.entry(1), Ok(Some(first)));
}

#[test]
fn texts_that_are_no_programs_are_refused_when_they_are_loaded() {
    let refused = |code: &str, expected: &str| {
        let fault =
            load(&format!("version = 1\nkind = 'code'\nentries = 1\ncode = '''\n{code}\n'''\n")).err().expect(code);
        assert!(fault.contains(expected), "{code}: {fault}");
    };
    refused("function list(", "Expected");
    refused("while true do end", "steps");
    refused("", "the program has no function list(dir, from); define it");
    refused("function list() end function lookup() end", "the program has no function entry(n)");
    refused("list = 1 function lookup() end function entry() end", "the program has no function list");
}

#[test]
fn names_are_cut_into_numbers_and_texts() {
    let shown = |name: &str| format!("{:?}", super::parts::of(name));
    assert_eq!(shown("t12.7"), r#"List([Text("t"), Number(12.0), Text("."), Number(7.0)])"#);
    assert_eq!(shown("007-0"), r#"List([Text("007-"), Number(0.0)])"#);
    assert_eq!(shown("1234567890123456"), r#"List([Text("1234567890123456")])"#);
    assert_eq!(shown("\u{fc}1"), "List([Text(\"\u{fc}\"), Number(1.0)])");
    assert_eq!(shown(""), "List([])");
}
