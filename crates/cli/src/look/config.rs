//! `loligo config`: every setting, its value, and where that came from.

use std::path::Path;

use serde_json::json;

use crate::output::{Failure, Outcome, put};
use crate::settings::{Given, Settings};

/// Prints it.
pub fn run(data: Option<&Path>, given: &Given, json: bool) -> Outcome {
    if let Some(data) = data.filter(|data| !data.is_dir()) {
        return Err(
            Failure::new(format!("{} is no directory", data.display())).remedy("name a data directory, or none")
        );
    }
    let settings = Settings::load(given, data, &[])?;
    settings.check()?;
    if json {
        return put(format_args!("{:#}", as_json(&settings)));
    }
    let wide = settings.iter().map(|(key, value, _)| key.name.len() + value.len()).max().unwrap_or(0) + 5;
    let lines = settings.iter().map(|(key, value, origin)| {
        let line = format!("{} = \"{value}\"", key.name);
        format!("{line:wide$} # {origin}\n#   {}", key.doc)
    });
    put(lines.collect::<Vec<_>>().join("\n"))
}

/// As the admin plane shows it, too.
pub fn as_json(settings: &Settings) -> serde_json::Value {
    settings
        .iter()
        .map(|(key, value, origin)| {
            let entry = json!({ "value": value, "origin": origin.to_string(), "default": key.default, "doc": key.doc });
            (key.name.to_string(), entry)
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}
