//! The text of a policy: from a file, or one that comes with Loligo; and times as people read them.

use std::path::Path;

use crate::output::{Context, Failure, human_time};
use crate::suggest;

/// Names of the policies that come with Loligo.
pub fn shipped_names() -> Vec<&'static str> {
    loligo_balancer::shipped_names().collect()
}

/// The text in a file; without one, that of the policy of this name that comes with Loligo.
pub fn of(name: &str, file: Option<&Path>) -> Result<String, Failure> {
    match file {
        Some(file) => std::fs::read_to_string(file).context(|| format!("policy {}", file.display())),
        None => loligo_balancer::shipped(name).map(|(_, text)| text.to_string()).ok_or_else(|| {
            let hint = suggest::hint(name, shipped_names());
            Failure::usage(format!("no policy {name} comes with Loligo{hint}"))
                .remedy(format!("name one of {}, or give a FILE", shipped_names().join(", ")))
        }),
    }
}

/// Time since a moment, for people.
pub fn ago(at_ms: u64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis());
    format!("{} ago", human_time((now as u64).saturating_sub(at_ms) as f64 / 1e3))
}
