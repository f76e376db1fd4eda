//! Licences and versions of the crates from elsewhere, by the lists in `deny.toml`: what `cargo deny check licenses bans` says, from `cargo tree`
//! alone. Not here: known vulnerabilities (`cargo deny check advisories`), whose list is on the network.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Where the lists are.
const LISTS: &str = "deny.toml";

/// A crate of another project.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Foreign {
    name: String,
    version: String,
    licence: String,
}

/// Content of `deny.toml`.
#[derive(Default, Debug)]
struct Lists {
    licences: BTreeSet<String>,
    /// `NAME@VERSION`, or the beginning of a version, of crates that are there in another one, too.
    duplicates: BTreeSet<String>,
}

impl Lists {
    /// The line that allows this version beside another one.
    fn line_of(&self, name: &str, version: &str) -> Option<&String> {
        let covers = |line: &&String| {
            let rest = line.strip_prefix(name)?.strip_prefix('@').and_then(|begin| version.strip_prefix(begin))?;
            (rest.is_empty() || rest.starts_with('.')).then_some(())
        };
        self.duplicates.iter().find(|line| covers(line).is_some())
    }
}

/// Faults of the crates that the workspace uses.
///
/// # Errors
///
/// The list, or `cargo tree`, cannot be read.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(root.join(LISTS)).map_err(|error| format!("{LISTS}: {error}"))?;
    let mut tree = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tree.current_dir(root).args(["tree", "--quiet", "--locked", "--workspace", "--edges", "all", "--prefix", "none"]);
    let out = tree.args(["--format", "{p}\t{l}"]).output().map_err(|error| format!("cargo tree: {error}"))?;
    if !out.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&out.stderr).trim()));
    }
    Ok(faults(&foreign(&String::from_utf8_lossy(&out.stdout)), &lists(&text)))
}

/// The crates of other projects in the output of `cargo tree`: own ones have a path behind the version.
fn foreign(tree: &str) -> BTreeSet<Foreign> {
    let of_line = |line: &str| {
        let (package, licence) = line.split_once('\t')?;
        let mut words = package.split(' ');
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        if words.next().is_some_and(|word| word.starts_with("(/")) {
            return None;
        }
        let licence = licence.trim_end_matches("(*)").trim();
        Some(Foreign { name: name.into(), version: version.into(), licence: licence.into() })
    };
    tree.lines().filter_map(of_line).collect()
}

/// Reads `allow` of `[licenses]` and `skip` of `[bans]`: lists of texts, one a line.
fn lists(text: &str) -> Lists {
    let (mut lists, mut section, mut key) = (Lists::default(), "", "");
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            (section, key) = (name, "");
        } else if let Some((name, _)) = line.split_once(" = ") {
            key = name;
        } else if let Some(entry) = line.strip_prefix('"').and_then(|line| line.trim_end_matches(',').strip_suffix('"'))
        {
            match (section, key) {
                ("licenses", "allow") => _ = lists.licences.insert(entry.into()),
                ("bans", "skip") => _ = lists.duplicates.insert(entry.into()),
                _ => {}
            }
        }
    }
    lists
}

fn faults(crates: &BTreeSet<Foreign>, lists: &Lists) -> Vec<String> {
    let mut faults = Vec::new();
    let mut used = BTreeSet::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for one in crates {
        versions.entry(&one.name).or_default().insert(&one.version);
        if !is_allowed(&one.licence, &lists.licences, &mut used) {
            let Foreign { name, version, licence } = one;
            faults.push(format!("{name} {version} is under `{licence}`, which {LISTS} does not allow"));
        }
    }
    let mut needed = BTreeSet::new();
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let listed: Vec<_> = versions.iter().filter_map(|version| lists.line_of(name, version)).collect();
        if listed.len() + 1 < versions.len() {
            let all = versions.iter().copied().collect::<Vec<_>>().join(" and ");
            faults.push(format!("{name} is there as {all}: update what needs the older, or list that in {LISTS}"));
        }
        needed.extend(listed.into_iter().cloned());
    }
    // A line without a crate is taken out: the crate must not come back unnoticed.
    let gone = lists.duplicates.difference(&needed).map(|name| format!("{name} is in no need of its line in {LISTS}"));
    faults.extend(gone);
    let unused = lists.licences.difference(&used).map(|name| format!("no crate needs the licence {name} of {LISTS}"));
    faults.extend(unused);
    faults
}

/// Evaluates an expression of SPDX licences; `/` of old manifests is an OR. What of the list was needed is noted.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>, used: &mut BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ").replace(" WITH ", "+WITH+");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let holds = either(&words, &mut at, allowed, used);
    holds && at == words.len()
}

fn either(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>, used: &mut BTreeSet<String>) -> bool {
    let mut holds = both(words, at, allowed, used);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        holds |= both(words, at, allowed, used);
    }
    holds
}

fn both(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>, used: &mut BTreeSet<String>) -> bool {
    let mut holds = licence(words, at, allowed, used);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        holds &= licence(words, at, allowed, used);
    }
    holds
}

fn licence(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>, used: &mut BTreeSet<String>) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let holds = either(words, at, allowed, used);
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return holds && closed;
    }
    let name = word.replace("+WITH+", " WITH ");
    let holds = allowed.contains(&name);
    if holds {
        used.insert(name);
    }
    holds
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "loligo-cli v0.1.0 (/src/crates/cli)\tApache-2.0\nsyn v2.0.1\tMIT OR Apache-2.0 (*)\n\
                        a_derive v1.0.0 (proc-macro)\tMIT\nsyn v2.0.1\tMIT OR Apache-2.0\nsyn v3.0.0\tMIT/Apache-2.0\n";

    fn found(tree: &str, text: &str) -> Vec<String> {
        faults(&foreign(tree), &lists(text))
    }

    #[test]
    fn crates_of_others_are_found_once_and_own_ones_are_none() {
        let names: Vec<_> = foreign(TREE).into_iter().map(|one| format!("{} {}", one.name, one.version)).collect();
        assert_eq!(names, ["a_derive 1.0.0", "syn 2.0.1", "syn 3.0.0"]);
    }

    #[test]
    fn a_second_version_needs_a_line_and_a_line_a_second_version() {
        let text = "[licenses]\nallow = [\n    \"MIT\", # Short.\n]\n[bans]\nskip = [\n    \"syn@2.0.1\",\n]\n";
        assert_eq!(found(TREE, text), [""; 0]);
        let without = text.replace("\"syn@2.0.1\",", "# \"syn@2.0.1\",");
        assert_eq!(found(TREE, &without).len(), 1, "{:?}", found(TREE, &without));
        assert_eq!(found(TREE, &text.replace("2.0.1", "2")), [""; 0], "the beginning is enough");
        assert_eq!(found(TREE, &text.replace("2.0.1", "2.0.10")).len(), 2);
        let one = TREE.replace("syn v2.0.1", "syn v3.0.0");
        assert_eq!(found(&one, text), ["syn@2.0.1 is in no need of its line in deny.toml"]);
    }

    #[test]
    fn expressions_of_licences_are_understood() {
        let allowed: BTreeSet<String> = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(String::from).into();
        for good in ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "MIT AND ISC", "(GPL-3.0 OR MIT) AND ISC"] {
            assert!(is_allowed(good, &allowed, &mut BTreeSet::new()), "{good}");
        }
        assert!(is_allowed("GPL-3.0 OR Apache-2.0 WITH LLVM-exception", &allowed, &mut BTreeSet::new()));
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "MIT AND", "(MIT", "MIT ISC", "GPL-3.0 OR MIT AND GPL-3.0"] {
            assert!(!is_allowed(bad, &allowed, &mut BTreeSet::new()), "{bad}");
        }
        let text = "[licenses]\nallow = [\n    \"MIT\",\n    \"Zlib\",\n]\n";
        assert_eq!(found("a v1.0.0\tMIT\n", text), ["no crate needs the licence Zlib of deny.toml"]);
        assert_eq!(found("a v1.0.0\t\n", "").len(), 1, "no licence at all");
    }
}
