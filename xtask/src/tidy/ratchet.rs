//! The list of what is still allowed: `xtask/ratchet.txt`, lines of `rule path count`. It may only shrink: more than
//! `count` is a finding, and so is less, so that the number is lowered in the same change. For the rule `long` the
//! count is the length of the file in lines, rounded up to fifties, for `prose` and `machine` the number of findings in a crate, for the others that in a file.

use super::{Finding, Tree};
use std::collections::BTreeMap;

/// Where the list is.
pub const PATH: &str = "xtask/ratchet.txt";

/// Rules that may stand in the list; the others have no exceptions.
const RATCHETED: &[&str] = &["long", "machine", "prose", "unwrap"];

/// Lines by which the length of a file is counted: a line more or less is nothing to note.
const LONG_STEP: usize = 50;

/// Those that are counted by crate.
const BY_CRATE: &[&str] = &["machine", "prose"];

/// Takes out of `findings` what the list allows, and adds what is wrong with the list.
pub fn apply(tree: &Tree, findings: Vec<Finding>) -> Vec<Finding> {
    let mut kept = Vec::new();
    let mut by_entry: BTreeMap<(&'static str, String), Vec<Finding>> = BTreeMap::new();
    for finding in findings {
        match RATCHETED.contains(&finding.rule) {
            true => by_entry.entry((finding.rule, place(&finding))).or_default().push(finding),
            false => kept.push(finding),
        }
    }
    for (at, line) in tree.text(PATH).unwrap_or("").lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let complaint = match parse(line) {
            None => Some("must be `rule path count` with a rule that allows exceptions".to_string()),
            Some((rule, path, allowed)) => {
                let found = by_entry.remove(&(rule, path.to_string())).unwrap_or_default();
                let actual = actual_count(tree, rule, path, found.len());
                match actual.cmp(&allowed) {
                    std::cmp::Ordering::Greater => {
                        kept.extend(found);
                        None
                    }
                    std::cmp::Ordering::Less => Some(format!("{path} is down to {actual}: lower or remove this line")),
                    std::cmp::Ordering::Equal => None,
                }
            }
        };
        kept.extend(complaint.map(|message| Finding {
            path: PATH.to_string(),
            line: at + 1,
            rule: "ratchet",
            message,
        }));
    }
    kept.extend(by_entry.into_values().flatten());
    kept
}

/// The path of a finding in the list.
fn place(finding: &Finding) -> String {
    let mut ends = finding.path.match_indices('/').map(|(at, _)| at);
    let end = if finding.path.starts_with("crates/") { ends.nth(1) } else { ends.next() };
    match end {
        Some(end) if BY_CRATE.contains(&finding.rule) => finding.path[..end].to_string(),
        _ => finding.path.clone(),
    }
}

fn parse(line: &str) -> Option<(&'static str, &str, usize)> {
    let mut words = line.split_whitespace();
    let rule = words.next()?;
    let rule = RATCHETED.iter().find(|known| **known == rule)?;
    let (path, count) = (words.next()?, words.next()?.parse().ok()?);
    words.next().is_none().then_some((*rule, path, count))
}

fn actual_count(tree: &Tree, rule: &str, path: &str, findings: usize) -> usize {
    match rule {
        "long" if findings > 0 => tree.text(path).map_or(0, |text| text.lines().count().next_multiple_of(LONG_STEP)),
        _ => findings,
    }
}
