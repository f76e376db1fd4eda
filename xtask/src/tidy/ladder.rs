//! The direction of dependencies: a crate uses only crates on a lower rung, and the pure crates nothing that reaches
//! for the machine. Read from the `Cargo.toml` files as they are written here (one dependency a line).

use super::{Finding, PURE_CRATES, Tree};

/// Rungs from below. Crates on one rung do not know each other. Development dependencies are free, but for the
/// command, on which nothing stands.
const LADDER: &[&[&str]] = &[
    &["types", "subtree-policy", "schema", "workload", "rados"],
    &["namespace", "journal", "wire", "store", "balancer", "indexer"],
    &["rows", "mds", "osd", "client", "subtree", "store-local", "store-rados", "store-remote", "generator"],
    &["driver", "model", "sim", "fuse"],
    &["mount", "bench", "lab"],
    &["cli", "chart"],
    &["e2e"],
];

/// Pairs of crates of one rung of which the first may use the second. The simulator checks against the model. Ranks send each other
/// records of the journal, and a merge is the body of one. A client owns decoupled subtrees. A policy names a placement, a schema file kinds, a
/// workload draws its numbers.
const SAME_RUNG: &[(&str, &str)] = &[
    ("sim", "model"),
    ("wire", "journal"),
    ("namespace", "journal"),
    ("client", "subtree"),
    ("subtree-policy", "types"),
    ("schema", "types"),
    ("workload", "types"),
];

/// Foreign crates that reach for sockets, disks, threads, clocks or randomness.
const IMPURE_CRATES: &[&str] =
    &["tokio", "rustix", "libc", "polling", "axum", "rocksdb", "rand", "getrandom", "tempfile", "nix", "mio"];

/// Exceptions: the model's level over system calls, which exists for tests.
const ALLOWED: &[(&str, &str)] = &[("model", "libc")];

/// Checks every `crates/*/Cargo.toml`.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.texts() {
        let Some(name) = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml")) else {
            continue;
        };
        let mut report = |line, message| {
            findings.push(Finding { path: path.to_string(), line, rule: "ladder", message });
        };
        let Some(own) = rung(name) else {
            report(0, format!("crate `{name}` stands on no rung: give it one in xtask/src/tidy/ladder.rs"));
            continue;
        };
        for dependency in dependencies(text) {
            if let Some(complaint) = complain(name, own, &dependency) {
                report(dependency.line, complaint);
            }
        }
    }
}

struct Dependency<'a> {
    name: &'a str,
    line: usize,
    development: bool,
}

fn dependencies(text: &str) -> impl Iterator<Item = Dependency<'_>> {
    let mut section = "";
    text.lines().enumerate().filter_map(move |(at, line)| {
        let line_number = at + 1;
        let trimmed = line.trim();
        if let Some(header) = trimmed.strip_prefix('[') {
            section = header.trim_end_matches(']');
            // `[dependencies.name]` is a dependency by itself.
            let name = section.split_once("dependencies.")?.1;
            return Some(Dependency { name, line: line_number, development: section.contains("dev-") });
        }
        if !section.ends_with("dependencies") || trimmed.starts_with('#') {
            return None;
        }
        let name = trimmed.split(['.', ' ', '=']).next().filter(|name| !name.is_empty())?;
        Some(Dependency { name, line: line_number, development: section.contains("dev-") })
    })
}

fn complain(name: &str, own: usize, dependency: &Dependency) -> Option<String> {
    let Some(used) = dependency.name.strip_prefix("loligo-") else {
        let bad = PURE_CRATES.contains(&name)
            && !dependency.development
            && IMPURE_CRATES.contains(&dependency.name)
            && !ALLOWED.contains(&(name, dependency.name));
        return bad.then(|| format!("`{name}` is pure and must not use `{}`", dependency.name));
    };
    if dependency.development {
        return (used == "cli" && name != "e2e").then(|| "nothing stands on the command".to_string());
    }
    match rung(used) {
        None => Some(format!("`loligo-{used}` stands on no rung")),
        Some(other) if other < own || SAME_RUNG.contains(&(name, used)) => None,
        Some(_) => Some(format!("`{name}` must not use `{used}`: a crate uses only those on a lower rung")),
    }
}

fn rung(name: &str) -> Option<usize> {
    LADDER.iter().position(|rung| rung.contains(&name))
}
