//! Rules for documents: relative links lead somewhere, tests and paths that are cited exist, and every description of a format can be
//! found from an index.

use std::collections::BTreeSet;

use super::{Finding, Tree};

/// Documents from which the formats must be reachable.
const INDEXES: &[&str] = &["ARCHITECTURE.md", "README.md", "docs/README.md", "docs/formats/README.md"];

/// Underscores from which on a word in backquotes is taken for the name of a test.
const TEST_UNDERSCORES: usize = 4;

/// First parts of paths that a document cites from the root of the project.
const PLACES: &[&str] = &["crates/", "docs/", "bench/", "scripts/", "policies/", "fuzz/", "deploy/", "xtask/"];

/// Checks every Markdown file.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut indexed = Vec::new();
    let functions = functions(tree);
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        for (line, word) in words_of_code(text) {
            if let Some(message) = complain(tree, &functions, word) {
                findings.push(Finding { path: path.to_string(), line, rule: "cites", message });
            }
        }
        for (line, target) in links(text) {
            let Some(resolved) = resolve(path, target) else { continue };
            if !tree.exists(&resolved) {
                findings.push(Finding {
                    path: path.to_string(),
                    line,
                    rule: "link",
                    message: format!("`{target}` leads nowhere (no {resolved})"),
                });
            }
            if INDEXES.contains(&path) {
                indexed.push(resolved);
            }
        }
    }
    let formats = tree
        .texts()
        .map(|(path, _)| path)
        .filter(|path| path.starts_with("docs/formats/") && path.ends_with(".md") && !INDEXES.contains(path));
    for path in formats.filter(|path| !indexed.iter().any(|known| known == path)) {
        findings.push(Finding {
            path: path.to_string(),
            line: 0,
            rule: "index",
            message: format!("no index links here: link it from one of {}", INDEXES.join(", ")),
        });
    }
}

/// Names of all functions.
fn functions(tree: &Tree) -> BTreeSet<&str> {
    let sources = tree.texts().filter(|(path, _)| path.ends_with(".rs"));
    let after = sources.flat_map(|(_, text)| text.split("fn ").skip(1));
    after.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("")).collect()
}

/// Words in backquotes outside fenced blocks, with their lines.
fn words_of_code(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if !fenced {
            found.extend(line.split('`').skip(1).step_by(2).map(|word| (at + 1, word)));
        }
    }
    found
}

/// The complaint about a word that cites a test or a path that there is not; `...` stands for the rest of a name.
fn complain(tree: &Tree, functions: &BTreeSet<&str>, word: &str) -> Option<String> {
    let is_path = PLACES.iter().any(|place| word.starts_with(place))
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
        && !word.contains("FILE");
    if is_path {
        return (!tree.exists(word)).then(|| format!("there is no `{word}`"));
    }
    let last = word.rsplit("::").next().unwrap_or(word);
    let name = last.trim_matches('.').trim_matches('_');
    let is_test = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && name.matches('_').count() >= TEST_UNDERSCORES;
    let is_there = |name: &str| match (last.starts_with("..."), last.ends_with("...")) {
        (false, false) => functions.contains(name),
        (false, true) => functions.range(name..).next().is_some_and(|next| next.starts_with(name)),
        _ => functions.iter().any(|function| function.contains(name)),
    };
    // Names of metrics and of fields of documents stand in strings.
    let is_string = || tree.texts().any(|(path, text)| path.ends_with(".rs") && text.contains(&format!("{name}\"")));
    let is_metric = name.starts_with("loligo_");
    (is_test && !is_metric && !is_there(name) && !is_string()).then(|| format!("there is no test `{name}`"))
}

/// Targets of `[text](target)` outside code, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for (open, _) in line.match_indices("](") {
            // An odd number of backquotes before it: inside inline code.
            if line[..open].matches('`').count() % 2 == 1 && !line[..open].ends_with('`') {
                continue;
            }
            let rest = &line[open + 2..];
            if let Some(close) = rest.find(')') {
                found.push((at + 1, &rest[..close]));
            }
        }
    }
    found
}

/// The path from the root that a relative link of the document `from` means; nothing for links to elsewhere.
fn resolve(from: &str, target: &str) -> Option<String> {
    let target = target.split(['#', ' ']).next().unwrap_or("");
    if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let mut parts: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => from.split('/').collect(),
    };
    parts.pop();
    for part in target.trim_start_matches('/').split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}
