//! Files that add methods to a machine as a whole (`impl Mds`, `impl Client`). A method belongs to the part whose state it
//! changes; the ratchet list holds how many files still add theirs to the machine.

use super::{Finding, Tree};

/// Where a machine's files lie, and how its methods begin.
const MACHINES: &[(&str, &str)] = &[("crates/mds/src/", "impl Mds {"), ("crates/client/src/", "impl Client {")];

/// One finding for each such file outside tests.
pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".rs") && !path.contains("/tests")) {
        for (place, head) in MACHINES.iter().filter(|(place, _)| path.starts_with(place)) {
            let Some(at) = text.lines().position(|line| line.starts_with(head)) else { continue };
            findings.push(Finding {
                path: path.to_string(),
                line: at + 1,
                rule: "machine",
                message: format!(
                    "`{head} ..`: {place} has more such files than the list allows; give the method to a part"
                ),
            });
        }
    }
}
