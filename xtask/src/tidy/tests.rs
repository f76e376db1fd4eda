//! For each rule one tree that breaks it and one that does not: a rule that cannot fail is worse than none.

use super::{Tree, check, mask};

fn tree(files: &[(&str, &str)]) -> Tree {
    Tree { files: files.iter().map(|(path, text)| (path.to_string(), Some(text.to_string()))).collect() }
}

/// The rules broken by the given files, in order of place.
fn rules(files: &[(&str, &str)]) -> Vec<&'static str> {
    check(&tree(files)).iter().map(|finding| finding.rule).collect()
}

fn rules_of_source(path: &str, body: &str) -> Vec<&'static str> {
    rules(&[(path, &format!("//! A file.\n{body}\n"))])
}

#[test]
fn a_clean_tree_has_no_findings() {
    let files = [
        ("crates/types/src/lib.rs", "//! Words.\n/// A number.\npub struct Ino(u64);\n"),
        ("crates/types/Cargo.toml", "[package]\nname = \"loligo-types\"\n\n[dependencies]\n"),
        ("docs/README.md", "See [frames](formats/frame.md#head) and [away](https://example.org).\n"),
        ("docs/formats/frame.md", "Back to [the index](../README.md).\n"),
    ];
    assert_eq!(check(&tree(&files)), []);
}

#[test]
fn the_real_tree_can_be_read() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a parent");
    assert!(Tree::read(root).expect("readable").exists("xtask/src/tidy/tests.rs"));
}

#[test]
fn a_file_without_header_is_found() {
    assert_eq!(rules(&[("crates/types/src/a.rs", "pub fn a() {}\n")]), ["header"]);
}

#[test]
fn unfinished_code_is_found_in_tests_too() {
    for body in
        ["fn a() { todo!() }", "fn a() { unimplemented!(\"x\") }", "fn a() { dbg!(1); }", "#[ignore]\nfn a() {}"]
    {
        assert_eq!(rules_of_source("crates/mds/src/tests.rs", body), ["unfinished"], "{body}");
    }
}

#[test]
fn unwrap_is_found_outside_tests_only() {
    let body = "fn a() { b().unwrap(); }\n#[cfg(test)]\nmod tests { fn c() { b().unwrap(); } }\nfn d() { e.unwrap(); }";
    let findings = check(&tree(&[("crates/cli/src/a.rs", &format!("//! A.\n{body}\n"))]));
    assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2, 5]);
    assert!(findings.iter().all(|finding| finding.rule == "unwrap"));
    assert_eq!(rules_of_source("crates/cli/tests/a.rs", body), [""; 0]);
}

#[test]
fn words_in_comments_and_strings_are_not_code() {
    let body = "// todo!( and .unwrap()\n/* dbg!( /* nested */ */\nconst A: &str = \"a.unwrap() \\\" todo!(\";\n\
                const B: &str = r#\"\"dbg!(\"#;\nconst C: [char; 2] = ['\"', '\\''];\nfn f<'a>(x: &'a str) {}";
    assert_eq!(rules_of_source("crates/mds/src/a.rs", body), [""; 0]);
    assert_eq!(rules_of_source("crates/mds/src/a.rs", &format!("{body}\nfn g() {{ todo!() }}")), ["unfinished"]);
}

#[test]
fn masking_keeps_lines_and_columns() {
    let source = "let a = \"x\ny\"; // c\nlet b = '{'; /* d\n */ e";
    let masked = mask::code(source);
    assert_eq!(masked.len(), source.len());
    assert_eq!(masked.matches('\n').count(), source.matches('\n').count());
    assert_eq!(masked.find('e').map(|_| masked.ends_with('e')), Some(true));
    assert!(!masked.contains('{') && !masked.contains('c'));
}

#[test]
fn a_long_file_is_found_and_the_ratchet_holds_it_to_fifty_lines() {
    let long = format!("//! Long.\n{}", "// line\n".repeat(700));
    let with = |ratchet: &'static str| rules(&[("crates/mds/src/a.rs", &long), ("xtask/ratchet.txt", ratchet)]);
    assert_eq!(with("# nothing\n"), ["long"]);
    assert_eq!(with("long crates/mds/src/a.rs 750\n"), [""; 0]);
    assert_eq!(with("long crates/mds/src/a.rs 700\n"), ["long"]);
    assert_eq!(with("long crates/mds/src/a.rs 800\n"), ["ratchet"]);
    assert_eq!(with("long crates/mds/src/gone.rs 800\n"), ["long", "ratchet"]);
    assert_eq!(with("pure crates/mds/src/a.rs 1\n"), ["long", "ratchet"]);
}

#[test]
fn files_have_500_lines_but_those_that_a_program_has_written() {
    let lines = |head: &str, count: usize| format!("{head}\n{}", "// line\n".repeat(count - 1));
    assert_eq!(rules(&[("crates/mds/src/a.rs", &lines("//! A.", 500))]), [""; 0]);
    assert_eq!(rules(&[("crates/mds/src/a.rs", &lines("//! A.", 501))]), ["long"]);
    assert_eq!(rules(&[("crates/mds/src/a.rs", &lines("// @generated", 501))]), [""; 0]);
}

#[test]
fn the_ratchet_counts_unwraps() {
    let body = "//! A.\nfn a() { b().unwrap(); }\n";
    let with = |ratchet: &'static str| rules(&[("crates/cli/src/a.rs", body), ("xtask/ratchet.txt", ratchet)]);
    assert_eq!(with("unwrap crates/cli/src/a.rs 1\n"), [""; 0]);
    assert_eq!(with("unwrap crates/cli/src/a.rs 2\n"), ["ratchet"]);
}

#[test]
fn impurity_is_found_in_pure_crates_only() {
    let bodies = [
        "fn a() { let t = std::time::Instant::now(); }",
        "use std::time::SystemTime;",
        "use std::thread;",
        "use std::net::TcpStream;",
        "fn a() { std::fs::read(p); }",
        "use std::{collections::BTreeMap, fs};",
        "use std::{collections::{BTreeMap, btree_map}, net::{IpAddr, TcpStream}};",
    ];
    for body in bodies {
        assert_eq!(rules_of_source("crates/mds/src/a.rs", body), ["pure"], "{body}");
        assert_eq!(rules_of_source("crates/driver/src/a.rs", body), [""; 0], "{body}");
        assert_eq!(rules_of_source("crates/mds/src/tests.rs", body), [""; 0], "{body}");
    }
    assert_eq!(rules_of_source("crates/mds/src/a.rs", "use std::{collections::{fs_map, net}, fmt};"), [""; 0]);
}

#[test]
fn a_dependency_upwards_or_sideways_is_found() {
    let with = |name: &str, line: &str| {
        rules(&[(&format!("crates/{name}/Cargo.toml"), &format!("[package]\nname = \"x\"\n[dependencies]\n{line}\n"))])
    };
    assert_eq!(with("namespace", "loligo-mds.workspace = true"), ["ladder"]);
    assert_eq!(with("journal", "loligo-wire = { path = \"../wire\" }"), ["ladder"]);
    assert_eq!(with("mds", "loligo-nothing.workspace = true"), ["ladder"]);
    assert_eq!(with("newcomer", ""), ["ladder"]);
    assert_eq!(with("mds", "loligo-namespace.workspace = true\nloligo-types.workspace = true"), [""; 0]);
    assert_eq!(with("sim", "loligo-model.workspace = true"), [""; 0]);
    assert_eq!(with("mds", "tokio.workspace = true"), ["ladder"]);
    assert_eq!(with("driver", "rustix.workspace = true"), [""; 0]);
    assert_eq!(with("model", "rustix.workspace = true"), ["ladder"]);
    assert_eq!(with("model", "libc.workspace = true"), [""; 0]);
}

#[test]
fn development_dependencies_are_free_but_for_the_command() {
    let with = |text: &str| rules(&[("crates/mds/Cargo.toml", text)]);
    assert_eq!(with("[dev-dependencies]\nloligo-sim.workspace = true\ntempfile.workspace = true\n"), [""; 0]);
    assert_eq!(with("[dev-dependencies]\nloligo-cli.workspace = true\n"), ["ladder"]);
    assert_eq!(with("[dependencies.loligo-cli]\npath = \"../cli\"\n"), ["ladder"]);
}

#[test]
fn blanks_at_the_end_and_a_missing_newline_are_found() {
    assert_eq!(rules(&[("docs/a.md", "text \n")]), ["whitespace"]);
    assert_eq!(rules(&[("Makefile", "all:\n\ttrue\t\n")]), ["whitespace"]);
    assert_eq!(rules(&[("docs/a.md", "text")]), ["whitespace"]);
    assert_eq!(rules(&[("golden/a.bin", "text ")]), [""; 0]);
}

#[test]
fn a_path_of_one_machine_is_found() {
    for path in super::text::LOCAL_PATHS {
        assert_eq!(rules(&[("scripts/a.sh", &format!("cd {path}\n"))]), ["local-path"]);
    }
    assert_eq!(rules(&[("scripts/a.sh", "cd frame/work/mine\n")]), [""; 0]);
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    assert_eq!(rules(&[("docs/a.md", "[x](gone.md)\n")]), ["link"]);
    assert_eq!(
        rules(&[("docs/a.md", "[x](../docs/a.md) [y](#here) `[z](gone.md)`\n```\n[x](gone.md)\n```\n")]),
        [""; 0]
    );
    assert_eq!(rules(&[("docs/a.md", "[x](../crates)\n"), ("crates/types/Cargo.toml", "")]), [""; 0]);
}

#[test]
fn a_format_without_a_way_to_it_is_found() {
    assert_eq!(rules(&[("docs/formats/frame.md", "Bytes.\n")]), ["index"]);
    let linked = [("docs/formats/frame.md", "Bytes.\n"), ("ARCHITECTURE.md", "[frames](docs/formats/frame.md)\n")];
    assert_eq!(rules(&linked), [""; 0]);
}

#[test]
fn a_comment_that_holds_back_its_noun_is_found_and_the_list_counts_by_crate() {
    let body = "//! A file.\n\n/// What it says.\n/// What goes on is no beginning.\nfn a() {}\n/// Whatever else.\nfn b() {}\n";
    let files = [("crates/types/src/a.rs", body), ("crates/types/src/b.rs", body)];
    assert_eq!(rules(&files), ["prose", "prose"]);
    let listed = |count: &str| {
        let list = format!("prose crates/types {count}\n");
        rules(&[files[0], files[1], ("xtask/ratchet.txt", &list)])
    };
    assert_eq!(listed("2"), [""; 0]);
    assert_eq!(listed("1"), ["prose", "prose"]);
    assert_eq!(listed("3"), ["ratchet"]);
}

#[test]
fn files_that_add_methods_to_a_machine_are_counted() {
    let files = [
        ("crates/mds/src/a.rs", "//! A.\nimpl Mds {}\n"),
        ("crates/mds/src/tests/b.rs", "//! B.\nimpl Mds {}\n"),
        ("crates/osd/src/a.rs", "//! A.\nimpl Mds {}\n"),
    ];
    assert_eq!(rules(&files), ["machine"]);
}

#[test]
fn tests_and_paths_that_a_document_cites_exist() {
    let source = ("crates/mds/src/a.rs", "//! A.\nfn a_name_of_a_test() {}\n");
    let of = |text: &str| rules(&[source, ("docs/a.md", &format!("{text}\n"))]);
    assert_eq!(
        of("`a_name_of_a_test` `deep::a_name_of_a_test` `a_name_of_...` `..._of_a_test_` `crates/mds/src/a.rs`"),
        [""; 0]
    );
    assert_eq!(of("`a_name_of_no_test`"), ["cites"]);
    assert_eq!(of("`b_name_of_a_long_...`"), ["cites"]);
    assert_eq!(of("`crates/mds/src/b.rs`"), ["cites"]);
    assert_eq!(of("```\n`a_name_of_no_test`\n```\n`loligo_a_metric_of_it_all`"), [""; 0]);
}
