//! `loligo config`: every setting, its value, and where that came from: of the server that runs on a data directory those that it was started
//! with, else those that one would be started with.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::ask;
use crate::output::{Failure, Outcome, note, put};
use crate::service::state::ServerState;
use crate::settings::{Given, Settings};
use crate::target;

/// A setting as the admin plane shows it.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
struct Shown {
    value: String,
    origin: String,
    default: String,
    doc: String,
}

/// Prints it.
pub fn run(data: Option<&Path>, given: &Given, json: bool) -> Outcome {
    if let Some(data) = data.filter(|data| !data.is_dir()) {
        return Err(
            Failure::new(format!("{} is no directory", data.display())).remedy("name a data directory, or none")
        );
    }
    let settings = Settings::load(given, data, &[])?;
    settings.check()?;
    let next = shown(&settings);
    let (used, server) = match data.map(running).transpose()?.flatten() {
        Some((used, pid)) => (used, Some(pid)),
        None => (next.clone(), None),
    };
    if json {
        return put(format_args!("{:#}", json!(used)));
    }
    let head = server.map(|pid| format!("# as the server that runs (process {pid}) was started\n")).unwrap_or_default();
    // In the order in which they are described.
    let order = settings.iter().filter_map(|(key, ..)| Some((key.name, used.get(key.name)?)));
    let all: Vec<(&str, &Shown)> = order.collect();
    let wide = all.iter().map(|(name, one)| name.len() + one.value.len()).max().unwrap_or(0) + 5;
    let lines = all.iter().map(|(name, Shown { value, origin, doc, .. })| {
        let line = format!("{name} = \"{value}\"");
        let later = next.get(*name).filter(|next| next.value != *value);
        let later = later.map(|next| format!("\n#   at the next start \"{}\" ({})", next.value, next.origin));
        format!("{line:wide$} # {origin}\n#   {doc}{}", later.unwrap_or_default())
    });
    put(format_args!("{head}{}", lines.collect::<Vec<_>>().join("\n")))
}

/// Settings of a server, and its process.
type Used = (BTreeMap<String, Shown>, u32);

/// The settings of the server that runs on a data directory, and its process; `None`: none runs.
fn running(data: &Path) -> Result<Option<Used>, Failure> {
    let Some(state) = ServerState::read(data)? else { return Ok(None) };
    match ask::json(&target::by_data(data)?, "/api/v1/config") {
        Ok(used) => Ok(Some((used, state.pid))),
        // It was killed, or is not this user's to ask: that is no reason to say nothing.
        Err(failure) => {
            note(format_args!(
                "loligo: these are the settings of a server that is started now, not of one that runs: {failure}"
            ));
            Ok(None)
        }
    }
}

fn shown(settings: &Settings) -> BTreeMap<String, Shown> {
    let one = |(key, value, origin): (&crate::settings::Key, &str, &crate::settings::Origin)| {
        let shown =
            Shown { value: value.into(), origin: origin.to_string(), default: key.default.into(), doc: key.doc.into() };
        (key.name.to_string(), shown)
    };
    settings.iter().map(one).collect()
}

/// As the admin plane shows it.
pub fn as_json(settings: &Settings) -> serde_json::Value {
    json!(shown(settings))
}
