//! `loligo version`: the version of the program and of the protocols and formats that it speaks. Not here: `--version`, which is clap's.

use serde::Serialize;

use crate::output::{Context, Outcome, put};

/// Commit that the packages were built from; `scripts/package.sh` sets it.
const COMMIT: Option<&str> = option_env!("LOLIGO_COMMIT");

#[derive(Serialize)]
struct Version {
    version: &'static str,
    commit: Option<&'static str>,
    /// Architecture and operating system, as in `x86_64-linux`.
    target: String,
    /// Protocol between clients and servers.
    protocol: u32,
    /// Protocol between servers.
    link: u32,
    /// Format of a store.
    store: u32,
}

/// Prints it.
pub fn run(json: bool) -> Outcome {
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        commit: COMMIT,
        target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        protocol: loligo_types::msg::PROTOCOL_VERSION,
        link: loligo_types::link::LINK_VERSION,
        store: loligo_store::FORMAT_VERSION,
    };
    if json {
        return put(serde_json::to_string_pretty(&version).context(|| "cannot write the version as JSON".to_string())?);
    }
    put(format_args!(
        "loligo {}{} for {}\nprotocol {} between clients and servers, {} between servers; store format {}",
        version.version,
        version.commit.map(|commit| format!(" ({commit})")).unwrap_or_default(),
        version.target,
        version.protocol,
        version.link,
        version.store
    ))
}
