//! Rules for Rust files: a header that says what the file is, nothing unfinished, no panic on purpose outside tests,
//! files that fit in a head, and purity of the pure crates.

use super::mask;
use super::{Finding, PURE_CRATES, Tree};

/// Longest file without an entry in the ratchet list, in lines.
const LINES_MAX: usize = 500;

/// Unfinished code, which is never committed, also not in tests.
const UNFINISHED: &[&str] = &["todo!(", "unimplemented!(", "dbg!(", "#[ignore"];

/// Names that a pure crate does not use outside its tests, and the reason.
const IMPURE: &[(&str, &str)] = &[
    ("Instant::now", "the clock is an argument"),
    ("SystemTime", "the clock is an argument"),
    ("std::thread", "a machine has one owner; threads belong to the driver"),
    ("std::net", "sockets belong to the driver"),
    ("std::fs", "files belong to the stores and the driver"),
    ("std::process", "a machine returns an error; it does not end the process"),
    ("std::env", "configuration is an argument"),
    ("RandomState", "randomness is an argument; use BTreeMap or a fixed hasher"),
];

/// Modules of `std` that a pure crate does not import in a group either (`use std::{fs, io}`).
const IMPURE_MODULES: &[&str] = &["thread", "net", "fs", "process", "env"];

/// The one file of a pure crate that is not pure: the model's level over system calls, which exists for tests.
const NOT_PURE: &[&str] = &["crates/model/src/posix.rs"];

/// Checks every `.rs` file.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".rs")) {
        let mut report = |line, rule, message: String| {
            findings.push(Finding { path: path.to_string(), line, rule, message });
        };
        if !text.starts_with("//!") {
            report(1, "header", "the file must open with `//!`: what it is and what it is not".to_string());
        }
        let length = text.lines().count();
        if length > LINES_MAX {
            report(0, "long", format!("{length} lines, more than {LINES_MAX}: split it by phase of the work"));
        }
        let code = mask::code(text);
        for needle in UNFINISHED {
            for line in lines_with(&code, needle) {
                report(line, "unfinished", format!("`{needle}` must not be committed"));
            }
        }
        if is_test_file(path) {
            continue;
        }
        let code = mask::code_outside_tests(text);
        for line in lines_with(&code, ".unwrap()") {
            report(line, "unwrap", "use `?`, or `expect(\"why it holds\")`".to_string());
        }
        if PURE_CRATES.iter().any(|name| path.starts_with(&format!("crates/{name}/src/"))) && !NOT_PURE.contains(&path)
        {
            impure(&code, &mut report);
        }
    }
}

fn impure(code: &str, report: &mut impl FnMut(usize, &'static str, String)) {
    for (needle, why) in IMPURE {
        for line in lines_with(code, needle) {
            report(line, "pure", format!("a pure crate does not mention `{needle}`: {why}"));
        }
    }
    for (at, _) in code.match_indices("use std::{") {
        let group = &code[at + "use std::{".len()..];
        let group = &group[..group.find(';').unwrap_or(group.len())];
        for module in top_level_names(group).filter(|name| IMPURE_MODULES.contains(name)) {
            report(line_of(code, at), "pure", format!("a pure crate does not import `std::{module}`"));
        }
    }
}

/// The first word of each comma-separated part that is not inside a nested group.
fn top_level_names(group: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0i32;
    group
        .split(move |character| {
            depth += i32::from(character == '{') - i32::from(character == '}');
            character == ',' && depth == 0
        })
        .map(|part| part.trim().split([':', ' ', '}']).next().unwrap_or(""))
}

/// Tests may unwrap and touch the disk: that is how they fail.
fn is_test_file(path: &str) -> bool {
    path.starts_with("crates/e2e/")
        || path.starts_with("fuzz/")
        || path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
        || path.ends_with("_tests.rs")
}

fn lines_with<'a>(code: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.lines().enumerate().filter(move |(_, line)| contains_word(line, needle)).map(|(at, _)| at + 1)
}

/// `needle` in `line`, where a needle that begins with a letter must begin a word.
fn contains_word(line: &str, needle: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(needle)
        .any(|(at, _)| !needle.starts_with(is_word) || !line[..at].chars().next_back().is_some_and(is_word))
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}
