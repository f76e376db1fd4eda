//! `loligo balancer lint`: what a policy would do, tried on toy clusters.

use std::path::Path;

use super::text;
use crate::output::{Failure, Outcome, put};

/// Tries the policy in a file.
pub fn run(file: &Path) -> Outcome {
    let name = file.file_stem().map_or("policy".into(), |stem| stem.to_string_lossy().into_owned());
    put(report(&name, &text::of(&name, Some(file))?)?)
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
