//! `loligo balancer lint`: what a policy would do, tried on toy clusters.

use std::path::Path;

use serde_json::json;

use super::text;
use crate::output::{Failure, Outcome, put};

/// Tries the policy in a file.
pub fn run(file: &Path, as_json: bool) -> Outcome {
    let name = file.file_stem().map_or("policy".into(), |stem| stem.to_string_lossy().into_owned());
    let text = text::of(&name, Some(file))?;
    if as_json {
        let report = loligo_balancer::lint(&name, &text);
        put(json!({ "policy": name, "usable": report.is_usable(), "lines": report.lines() }))?;
    }
    let said = report(&name, &text)?;
    if as_json { Ok(()) } else { put(said) }
}

/// Report on a policy; a failure if the policy cannot be used.
pub fn report(name: &str, text: &str) -> Result<String, Failure> {
    let report = loligo_balancer::lint(name, text);
    let lines = report.lines().join("\n");
    match report.is_usable() {
        true => Ok(lines),
        false => Err(Failure::found(format!("{name} cannot be used\n{lines}"))
            .remedy("mend what is said above; what a policy can use stands in docs/policies.md")),
    }
}
