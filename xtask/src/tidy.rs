//! The rules of the project as functions from the text of the tree to findings. Reading the disk happens in one place
//! (`Tree::read`); every rule can be tested on a tree made of strings. Read next: `source.rs`, the rules for code.

mod docs;
mod ladder;
mod machine;
mod mask;
mod prose;
mod ratchet;
mod source;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;

/// Crates that do no IO and know no clock, no threads and no randomness: those are arguments.
pub const PURE_CRATES: &[&str] = &[
    "types",
    "subtree-policy",
    "schema",
    "namespace",
    "journal",
    "rows",
    "subtree",
    "wire",
    "mds",
    "osd",
    "client",
    "model",
    "workload",
];

/// Directories that hold no source: products, data of a file system, and a mount that may be dead (reading it hangs).
const SKIPPED_DIRS: &[&str] = &["target", "data", "mnt", ".git", "corpus", "artifacts", "node_modules"];

/// One broken rule at one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root, with slashes.
    pub path: String,
    /// Line from 1; 0 where the whole file is meant.
    pub line: usize,
    /// Name of the rule.
    pub rule: &'static str,
    /// The fault and its remedy.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}: {}: {}", self.path, self.rule, self.message),
            line => write!(out, "{}:{line}: {}: {}", self.path, self.rule, self.message),
        }
    }
}

/// Beginning of files that a program has written: no rule is about them.
const GENERATED: &str = "// @generated";

/// The text files of the project by their path from the root. Files that are not text are known by name only.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads every file below `root` but products, data and mounts.
    pub fn read(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        tree.read_dir(root, "")?;
        Ok(tree)
    }

    fn read_dir(&mut self, dir: &Path, prefix: &str) -> io::Result<()> {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                if !SKIPPED_DIRS.contains(&name.as_str()) {
                    self.read_dir(&entry.path(), &format!("{path}/"))?;
                }
            } else if kind.is_file() {
                self.files.insert(path, String::from_utf8(std::fs::read(entry.path())?).ok());
            }
        }
        Ok(())
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Every text file that somebody has written: path and text, by path.
    fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let texts = self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)));
        texts.filter(|(_, text)| !text.starts_with(GENERATED))
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Is there a file, or a directory with a file in it, at `path`?
    fn exists(&self, path: &str) -> bool {
        let dir = format!("{}/", path.trim_end_matches('/'));
        self.files.contains_key(path) || self.files.keys().any(|file| file.starts_with(&dir))
    }
}

/// All rules over the whole tree, sorted by place.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    text::check(tree, &mut findings);
    source::check(tree, &mut findings);
    ladder::check(tree, &mut findings);
    prose::check(tree, &mut findings);
    machine::check(tree, &mut findings);
    docs::check(tree, &mut findings);
    let mut findings = ratchet::apply(tree, findings);
    findings.sort();
    findings
}
