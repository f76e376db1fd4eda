//! Documents: the examples that users begin with, and each fault with its key, cause and remedy.

use loligo_types::Kind;

use super::*;
use crate::limits::DOCUMENT_MAX;

const PLFS: &str = r#"
version = 1
kind = "formula"
overlay = "none"
paths = [
    ".plfsaccess113918400",
    { path = "meta/{host}", contents = "0.0" },
    { path = "hostdir.{host}/dropping.{part}.{rank}", mode = 0o600, size = 1_000 },
    "openhosts/",
]

[attributes]
uid = 1000
dir_mode = 0o700
mtime = 2026-01-31T12:00:00.5+02:00

[args]
host = { first = 0, last = 1023 }
part = ["data", "index"]
rank = { first = 0, last = 999_999, width = 7, split = "host" }
"#;

fn paths(text: &str) -> (Paths, Defaults) {
    let document = Document::parse(text).expect("it is sound");
    match document.generator {
        Generator::Formula(paths) => (paths, document.defaults),
        other => panic!("another kind: {other:?}"),
    }
}

#[test]
fn a_checkpoint_of_a_million_processes_is_a_document_of_less_than_4_kib() {
    assert!(PLFS.len() < 1024);
    let document = Document::parse(PLFS).expect("it is sound");
    let totals = document.totals().expect("a formula tells");
    assert_eq!((totals.files, totals.dirs()), (2_000_000 + 1024 + 1, 1024 + 2));
    assert_eq!(document.overlay, Overlay::None);
    let (paths, defaults) = paths(PLFS);
    let of = |names: &[&str]| {
        let place = paths.tree.resolve(names.iter().map(|name| name.as_bytes())).expect("it is there");
        paths.entry(&place, &defaults)
    };
    let file = of(&["hostdir.3", "dropping.index.0003000"]);
    assert_eq!((file.attributes.mode, file.attributes.uid, file.attributes.gid), (0o600, Some(1000), None));
    assert_eq!(
        (file.body.clone(), file.body.kind(), &*file.name),
        (Body::Zeros(1000), Kind::File, &b"dropping.index.0003000"[..])
    );
    assert_eq!(file.attributes.mtime, Some(Time::new(1_769_853_600, 500_000_000)));
    let note = of(&["meta", "7"]);
    assert_eq!((note.attributes.mode, note.body.size()), (0o644, 3));
    let dir = of(&["hostdir.3"]);
    assert_eq!((dir.attributes.mode, dir.body), (0o700, Body::Dir { entries: 2 * 977, dirs: 0 }));
    assert_eq!(of(&["openhosts"]).body, Body::Dir { entries: 0, dirs: 0 });
}

#[test]
fn a_program_and_a_pointer_to_a_manifest_are_read() {
    let code = "version = 1\nkind = 'code'\nentries = 10\ncode = '''\nfunction lookup() end\n'''\nargs = { a = 1, b = [true, 'x', 1.5] }\n";
    let expected = Code {
        text: "function lookup() end\n".into(),
        args: vec![
            ("a".into(), Given::Number(1.0)),
            ("b".into(), Given::List(vec![Given::Bool(true), Given::Text("x".into()), Given::Number(1.5)])),
        ],
        entries: 10,
    };
    let document = Document::parse(code).expect("it is sound");
    assert_eq!(
        (document.generator, document.overlay, document.defaults),
        (Generator::Code(expected), Overlay::Upper, Defaults::default())
    );
    let pointer =
        "version = 1\nkind = 'pointer'\nmanifest = { ino = 256, change = 3, bytes = 4096, checksum = 0xdeadbeef }\n";
    let document = Document::parse(pointer).expect("it is sound");
    let expected = Pointer { ino: 256, change: 3, bytes: 4096, checksum: 0xdead_beef };
    assert_eq!((document.totals(), document.generator), (None, Generator::Pointer(expected)));
}

#[test]
fn times_are_seconds_or_dates_with_an_offset() {
    for (text, expected) in [
        ("0", 0),
        ("-5", -5),
        ("1970-01-02T00:00:00Z", 86_400),
        ("1969-12-31T23:00:00-01:00", 0),
        ("2000-03-01 00:00:00Z", 951_868_800),
    ] {
        let text = format!("version = 1\nkind = 'formula'\npaths = ['a']\nattributes.mtime = {text}");
        assert_eq!(paths(&text).1.mtime, Some(Time::new(expected, 0)), "{text}");
    }
}

/// A formula with these lines, of which the first is `paths`.
fn formula(lines: &str) -> String {
    format!("version = 1\nkind = \"formula\"\n{lines}\n")
}

#[test]
fn every_fault_of_a_document_names_key_cause_and_remedy() {
    let long = format!("version = 1\n#{}", "x".repeat(DOCUMENT_MAX));
    let cases = [
        (long.as_str().into(), "the document has 4109 bytes, more than 4096; shorten it"),
        ("kind = 'formula'".to_string(), "`version` of a schema is missing; say version = 1"),
        ("version = 2\nfuture = 1".into(), "version: 2 is not known here, only 1 is"),
        ("version = 'x'".into(), "version: `x` is not known here"),
        ("version = 1".into(), "`kind` of a schema is missing; say kind ="),
        (
            "version = 1\nkind = 'forumla'".into(),
            "kind: one of \"formula\", \"code\", \"pointer\" has to stand here, not `forumla`",
        ),
        ("version = ".into(), "this is no TOML"),
        (formula("path = ['a']"), "`path` is no key of a schema; did you mean `paths`?"),
        (formula(""), "`paths` of a schema is missing"),
        (formula("paths = 'a'"), "paths: a list of paths has to stand here, not `a`"),
        (formula("paths = []"), "paths: at least one path"),
        (formula("paths = [1]"), "paths: a path, or a table with `path` and its attributes has to stand here, not 1"),
        (formula("paths = ['a']\ncode = ''"), "`code` is for `kind = \"code\"`; remove it"),
        (formula("paths = ['a']\noverlay = 'lower'"), "overlay: one of \"none\", \"upper\""),
        (formula("paths = [{ path = 'a', mod = 1 }]"), "`mod` is no key of a path; did you mean `mode`?"),
        (formula("paths = [{ mode = 1 }]"), "`path` of a path is missing"),
        (formula("paths = [{ path = 'a', mode = 0o10000 }]"), "mode: a whole number from 0 to 4095"),
        (formula("paths = [{ path = 'a', size = -1 }]"), "size: a whole number from 0"),
        (formula("paths = [{ path = 'a', size = nan }]"), "not nan, which is no number"),
        (formula("paths = [{ path = 'a', size = inf }]"), "not infinity"),
        (formula("paths = [{ path = 'a', size = 1, contents = 'x' }]"), "`size` and `contents` exclude each other"),
        (formula("paths = [{ path = 'a/', size = 1 }]"), "directories have no `size`"),
        (formula("paths = ['a']\nattributes.uid = 4294967295"), "uid: a whole number from 0 to 4294967294"),
        (formula("paths = ['a']\nattributes.mtime = 2026-01-01"), "mtime: seconds since 1970, or a time"),
        (formula("paths = ['a']\nattributes.mtime = 9999-01-01T00:00:00Z"), "mtime: seconds since 1970, or a time"),
        (formula("paths = ['a']\nattributes.mode = 1"), "`mode` is no key of `attributes`"),
        (formula("paths = ['{a}']\nargs.a = 3"), "args.a: a list of texts, or a range"),
        (formula("paths = ['{a}']\nargs.a = []"), "args.a: it has no values (the list is empty)"),
        (formula("paths = ['{a}']\nargs.a = ['x', 'x']"), "args.a: `x` stands twice in the list"),
        (formula("paths = ['{a}']\nargs.a = ['']"), "args.a: the value `` is empty; replace it"),
        (formula("paths = ['{a}']\nargs.a = ['x/y']"), "args.a: the value `x/y` contains `/`"),
        (formula("paths = ['{a}']\nargs.a = [\"x\\u0000\"]"), "contains a NUL"),
        (formula("paths = ['{a}']\nargs.a = ['.']"), "`.` or `..` would appear as a name"),
        (formula("paths = ['{a}']\nargs.a = [1]"), "args.a: a text in quotes has to stand here, not 1"),
        (formula("paths = ['{a}']\nargs.a = { first = 1 }"), "`last` of a range is missing"),
        (
            formula("paths = ['{a}']\nargs.a = { first = 2, last = 1 }"),
            "args.a: it has no values (`last` is less than `first`)",
        ),
        (formula("paths = ['{a}']\nargs.a = { last = 1, step = 0 }"), "args.a.step: a whole number from 1"),
        (
            formula("paths = ['{a}']\nargs.a = { last = 1.5 }"),
            "args.a.last: a whole number from 0 to 9223372036854775807 has to stand here, not a fraction",
        ),
        (formula("paths = ['{a}']\nargs.a = { last = nan }"), "args.a.last: a whole number"),
        (
            formula("paths = ['{a}']\nargs.a = { last = 9223372036854775807 }"),
            "the paths give more than 1099511627776 entries; shorten the ranges",
        ),
        (formula("paths = ['{a}']\nargs.a = { last = 9223372036854775808 }"), "args.a.last: a whole number"),
        (formula("paths = ['{a}']\nargs.a = { last = 9, base = 8 }"), "args.a.base: a whole number from 10 to 16"),
        (
            formula("paths = ['{a}']\nargs.a = { last = 9, base = 12 }"),
            "args.a.base: 10 or 16 has to stand here, not 12",
        ),
        (formula("paths = ['{a}']\nargs.a = { last = 9, width = 99 }"), "args.a.width: a whole number from 0 to 32"),
        (
            formula("paths = ['{a}']\nargs.a = { last = 9, with = 9 }"),
            "`with` is no key of a range; did you mean `width`?",
        ),
        (
            formula("paths = ['{a}']\nargs.a = { last = 9, deal = 'block' }"),
            "args.a.split: there is a `deal` and no `split`",
        ),
        (
            formula("paths = ['{a}']\nargs.a = { last = 9, split = 'b' }"),
            "args.a.split: the name of an argument has to stand here, not `b`",
        ),
        (
            formula("paths = ['{a}']\nargs.a = { last = 9, split = 'a' }"),
            "`a` is split over itself, directly or by way of others",
        ),
        (formula("paths = ['{a}']\nargs.'1a' = ['x']"), "args.1a: a name consists of letters"),
        (formula("paths = ['x']\nargs.a = ['x']"), "args.a: no path contains `{a}`; remove the argument"),
        (formula("paths = ['{a}', 'x']\nargs.a = ['x']"), "paths `{a}` and `x` both give the name `x`"),
        ("version = 1\nkind = 'code'\nentries = 1".into(), "`code` of a schema is missing; put the program between"),
        ("version = 1\nkind = 'code'\ncode = ''".into(), "`entries` of a schema is missing"),
        (
            "version = 1\nkind = 'code'\ncode = ''\nentries = 0".into(),
            "entries: a whole number from 1 to 1099511627776",
        ),
        (
            "version = 1\nkind = 'code'\ncode = ''\nentries = 1\nargs.a = nan".into(),
            "args.a: a finite number, true or false, a text, or a list of those has to stand here, not nan",
        ),
        (
            "version = 1\nkind = 'code'\ncode = ''\nentries = 1\nargs.a = [[[[[1]]]]]".into(),
            "args.a: a list that is less deep",
        ),
        (
            "version = 1\nkind = 'code'\ncode = ''\nentries = 1\nargs.a = 9007199254740993".into(),
            "args.a: a whole number of at most 53 bits",
        ),
        ("version = 1\nkind = 'pointer'".into(), "`manifest` of a schema is missing; write one with"),
        ("version = 1\nkind = 'pointer'\nargs.a = 1\nmanifest.ino = 1".into(), "`args` is for `kind = \"formula\"`"),
        ("version = 1\nkind = 'pointer'\nmanifest.ino = 0".into(), "manifest.ino: a whole number from 1"),
        ("version = 1\nkind = 'pointer'\nmanifest.ino = 1".into(), "`change` of `manifest` is missing"),
    ];
    for (text, expected) in cases {
        let fault = Document::parse(&text).expect_err(expected);
        let shown = fault.to_string();
        assert!(shown.contains(expected), "{text}\n{shown}");
        assert!(fault.offset <= text.len() && fault.caret().lines().count() == 2, "{text}");
    }
}

#[test]
fn a_fault_points_at_the_value_that_it_is_about() {
    let text = formula("paths = [\n    'a/{n}',\n    '{w}/b',\n]\n[args]\nn = { last = 3 }\nw = ['b', 'a']");
    let fault = Document::parse(&text).expect_err("both give `a`");
    assert_eq!((fault.line, fault.column), (5, 5));
    assert_eq!(fault.caret(), "    '{w}/b',\n    ^");
    let fault = Document::parse_bytes(b"version = 1\n\xff").expect_err("no text");
    assert_eq!((fault.cause, fault.line), (Cause::NoText, 2));
}

#[test]
fn counts_of_paths_and_arguments_are_bounded() {
    let many: Vec<String> = (0..257).map(|n| format!("'{n:x}'")).collect();
    let fault = Document::parse(&formula(&format!("paths = [{}]", many.join(",")))).expect_err("257 paths");
    assert!(fault.to_string().contains("paths: there are 257, at most 256 are allowed"), "{fault}");
    let args: Vec<String> = (0..65).map(|n| format!("a{n} = ['x']")).collect();
    let text = formula(&format!("paths = ['a']\n[args]\n{}", args.join("\n")));
    let fault = Document::parse(&text).expect_err("65 arguments");
    assert!(fault.to_string().contains("args: there are 65, at most 64 are allowed"), "{fault}");
}
