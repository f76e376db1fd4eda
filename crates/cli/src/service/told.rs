//! The lines with which the log of a server begins: what runs, with which settings, and where it can be reached.

use std::path::Path;

use loligo_driver::Server;
use loligo_types::Rank;

use super::descriptors::Descriptors;
use crate::settings::{Origin, Settings};

/// Before anything is opened.
pub fn begins(data: &Path, settings: &Settings) {
    tracing::info!(
        "loligo {} begins on {} as process {}, user {}",
        env!("CARGO_PKG_VERSION"),
        data.display(),
        std::process::id(),
        rustix::process::geteuid().as_raw()
    );
    match set(settings) {
        text if text.is_empty() => tracing::info!("all settings are the defaults"),
        text => tracing::info!("settings that are not the defaults: {text}"),
    }
    let Descriptors { tables, objects, admin, connections } = Descriptors::of_process();
    tracing::info!(
        "files that may be open: {tables} of the table, {objects} objects, {connections} connections of clients, {admin} of the admin plane"
    );
}

/// When it serves.
pub fn serves(server: &Server, addresses: &str) {
    let ranks: Vec<String> = server.ranks().iter().map(Rank::to_string).collect();
    let fs: String = server.status().map(|status| status.identity.fs_id_hex()).unwrap_or_default();
    tracing::info!("serving file system {fs}, ranks: {}; listening at {addresses}", ranks.join(", "));
}

fn set(settings: &Settings) -> String {
    let is_set = settings.iter().filter(|(_, _, origin)| **origin != Origin::Default);
    is_set.map(|(key, value, origin)| format!("{} = {value:?} ({origin})", key.name)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Given;

    #[test]
    fn settings_that_are_not_the_defaults_are_told_with_where_they_come_from() {
        let of = |set: &[(&str, &str)]| {
            let set = set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            super::set(&Settings::load(&Given { file: None, set }, None, &[]).expect("good settings"))
        };
        assert_eq!(of(&[]), "");
        assert_eq!(
            of(&[("grace_ms", "7"), ("log", "a\nb")]),
            "grace_ms = \"7\" (command line), log = \"a\\nb\" (command line)"
        );
    }
}
