//! The log: lines on stderr. Not here: what is worth logging.

use tracing_subscriber::EnvFilter;

use crate::output::Failure;

/// Logs from here on what the filter lets through, such as `info` or `warn,loligo_mds=debug`.
pub fn start(filter: &str) -> Result<(), Failure> {
    let parsed = parse(filter)?;
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    // A log that cannot be written (its disk is full) is no reason to end: the subscriber would panic where it tells so.
    tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .log_internal_errors(false)
        .init();
    Ok(())
}

/// Refuses a filter that cannot be understood.
pub fn check(filter: &str) -> Result<(), Failure> {
    parse(filter).map(drop)
}

fn parse(filter: &str) -> Result<EnvFilter, Failure> {
    EnvFilter::try_new(filter).map_err(|e| {
        Failure::usage(format!("log = `{filter}`: {e}"))
            .remedy("give a level (error, warn, info, debug, trace), or parts as in warn,loligo_mds=debug")
    })
}
