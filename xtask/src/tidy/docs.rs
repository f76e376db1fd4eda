//! Rules for documents: relative links lead somewhere, and every description of a format can be found from an index.

use super::{Finding, Tree};

/// Documents from which the formats must be reachable.
const INDEXES: &[&str] = &["ARCHITECTURE.md", "README.md", "docs/README.md", "docs/formats/README.md"];

/// Checks every Markdown file.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut indexed = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
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
