//! Rules for every text file: no trailing blanks, a newline at the end, no path of somebody's machine.

use super::{Finding, Tree};

/// Endings of files that people write here; others (golden bytes, lock files) are left alone.
const WRITTEN: &[&str] = &["rs", "md", "toml", "sh", "proto", "txt", "py", "yml", "Makefile", "run", "LICENSE"];

/// Beginnings of paths that exist on one machine only. Put together so that this file does not contain them.
pub(super) const LOCAL_PATHS: &[&str] =
    &[concat!("/wo", "rk/main"), concat!("/wo", "rk/shared"), concat!("/tmp", "/t/"), concat!("/ro", "ot/")];

/// Checks all written files.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.texts().filter(|(path, _)| is_written(path)) {
        let mut report = |line, rule, message: String| {
            findings.push(Finding { path: path.to_string(), line, rule, message });
        };
        for (at, line) in text.lines().enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                report(at + 1, "whitespace", "the line ends in blanks".to_string());
            }
            for local in LOCAL_PATHS.iter().filter(|local| line.contains(**local)) {
                report(
                    at + 1,
                    "local-path",
                    format!("`{local}` is a path of one machine: take it from the environment"),
                );
            }
        }
        if !text.is_empty() && !text.ends_with('\n') {
            report(0, "whitespace", "the file does not end in a newline".to_string());
        }
    }
}

fn is_written(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    WRITTEN.contains(&name.rsplit('.').next().unwrap_or(name))
}
