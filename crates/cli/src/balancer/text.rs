//! The text of a policy: from a file, or one that comes with Loligo; and times as people read them.

use std::path::Path;

use crate::output::{Context, Failure, human_time};

/// Name and text of a policy that comes with Loligo.
pub fn shipped(name: &str) -> Option<(&'static str, &'static str)> {
    let stem = |file: &'static str| file.split_once('.').map_or(file, |(stem, _)| stem);
    loligo_policy::embedded().iter().map(|(file, text)| (stem(file), *text)).find(|(stem, _)| *stem == name)
}

/// Names of those.
pub fn shipped_names() -> Vec<&'static str> {
    loligo_policy::embedded().iter().filter_map(|(file, _)| Some(file.split_once('.')?.0)).collect()
}

/// The text in a file; without one, that of the policy of this name that comes with Loligo.
pub fn of(name: &str, file: Option<&Path>) -> Result<String, Failure> {
    match file {
        Some(file) => std::fs::read_to_string(file).context(|| format!("policy {}", file.display())),
        None => shipped(name).map(|(_, text)| text.to_string()).ok_or_else(|| {
            Failure::usage(format!("no policy {name} comes with Loligo; there are: {}", shipped_names().join(", ")))
                .remedy("name one of these, or give a FILE")
        }),
    }
}

/// How long ago.
pub fn ago(at_ms: u64) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_millis());
    format!("{} ago", human_time((now as u64).saturating_sub(at_ms) as f64 / 1e3))
}
