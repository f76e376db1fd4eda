//! Doc comments name a thing, then say what it does. A comment that begins with one of [`RIDDLES`] describes its noun instead of
//! naming it. Not a check of grammar.

use super::{Finding, Tree};

/// First words of comments that hold back their noun.
const RIDDLES: &[&str] = &["What", "Who", "Whoever", "Whom", "Whose", "How", "Whether"];

/// Checks the first word of each doc comment of each Rust file.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".rs")) {
        let mut is_inside = false;
        for (at, line) in text.lines().enumerate() {
            let comment = line.trim_start();
            let body = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"));
            if let Some(body) = body.filter(|_| !is_inside)
                && let Some(word) = RIDDLES.iter().find(|word| begins_with(body.trim_start(), word))
            {
                findings.push(Finding {
                    path: path.to_string(),
                    line: at + 1,
                    rule: "prose",
                    message: format!("the comment begins with `{word}`: name the thing first"),
                });
            }
            is_inside = body.is_some();
        }
    }
}

fn begins_with(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
}
