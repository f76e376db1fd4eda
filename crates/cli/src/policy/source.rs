//! A policy that a user gives: the name of a preset, a file, or stdin. Not here: policies of directories.

use std::io::Read;
use std::path::Path;

use loligo_subtree_policy::{Fault, Preset, SubtreePolicy, policy};

use crate::output::{Context, Failure};

/// Policy that a user gave.
#[derive(Debug)]
pub struct Given {
    /// As it is to be kept: with the user's comments.
    pub text: String,
    /// The parsed policy.
    pub policy: SubtreePolicy,
}

/// A preset, a file, or `-` for stdin. A word that is a preset's name is that preset, whatever files there are.
pub fn named(what: &Path) -> Result<Given, Failure> {
    let word = what.to_str().unwrap_or("");
    if let Some(preset) = Preset::of(word) {
        return Ok(Given { text: format!("preset = \"{preset}\"\n"), policy: SubtreePolicy::of(preset) });
    }
    if word != "-" && !what.exists() {
        let hint = Preset::nearest(word).map_or(String::new(), |name| format!("; did you mean {name}?"));
        let presets = Preset::ALL.map(Preset::name).join(", ");
        return Err(Failure::usage(format!("{} is neither a file nor a preset{hint}", what.display()))
            .remedy(format!("give a file, `-` for stdin, or one of the presets: {presets}")));
    }
    file(what)
}

/// A file, or `-` for stdin.
pub fn file(path: &Path) -> Result<Given, Failure> {
    // One byte more than a policy has tells one that is too long from one that is not.
    let most = policy::LEN_MAX as u64 + 1;
    let mut bytes = Vec::new();
    let (name, read) = match path.as_os_str() == "-" {
        true => ("stdin".to_string(), std::io::stdin().lock().take(most).read_to_end(&mut bytes)),
        false => {
            let file = std::fs::File::open(path);
            (path.display().to_string(), file.and_then(|file| file.take(most).read_to_end(&mut bytes)))
        }
    };
    read.context(|| format!("policy {name}"))?;
    if bytes.trim_ascii().is_empty() {
        return Err(Failure::usage(format!("the policy {name} is empty"))
            .remedy("to take a policy away: loligo policy unset DIR; presets: loligo policy presets"));
    }
    let policy = SubtreePolicy::parse_bytes(&bytes).map_err(|fault| wrong(&name, &fault))?;
    let text = String::from_utf8(bytes).context(|| format!("policy {name}"))?;
    Ok(Given { text, policy })
}

/// A policy that cannot be used, with the place.
pub fn wrong(name: &str, fault: &Fault) -> Failure {
    let caret: String = fault.caret().lines().map(|line| format!("\n  {line}")).collect();
    Failure::found(format!("{name}:{}:{}: {}{caret}", fault.line, fault.column, fault.cause))
        .remedy("the language and the keys stand in docs/subtree-policies.md")
}
