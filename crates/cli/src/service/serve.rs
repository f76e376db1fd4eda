//! `loligo serve`: a server without a mount.

use std::time::Duration;

use super::node::{self, Node};
use super::signals::{RECOVERS, Signals, Stopping};
use super::{daemon, format, preflight};
use crate::args::Serve;
use crate::output::{Failure, Outcome, quoted};
use crate::settings::Given;

/// How often the loop looks whether the server has ended by itself.
const LOOK: Duration = Duration::from_millis(100);

/// Runs until told to stop.
pub fn run(args: &Serve, given: &Given) -> Outcome {
    let data = node::data_dir(&args.data)?;
    format::require(&data)?;
    let settings = node::settings(given, &data, &args.run)?;
    preflight::files()?;
    if args.run.daemon {
        crate::output::say(daemon::start(&node::log_file(&data))?);
        return Ok(());
    }
    let signals = Signals::hold();
    crate::log::start(settings.text("log"))?;
    let node = Node::start(&data, args.ranks, &settings)?;
    if let Err(failure) = node.tell(None) {
        let _ = node.stop();
        return Err(failure);
    }
    let text = format!(
        "serving {} (process {}) at {}\n  mount it  loligo mount --data {} DIR\n  stop it   loligo down --data {}",
        data.display(),
        std::process::id(),
        node.addresses(),
        quoted(&data),
        quoted(&data)
    );
    daemon::ready(args.run.ready_fd, &text);
    let fatal = until_told(&signals, &node);
    finish(node, fatal, &signals.stopping(None, RECOVERS))
}

fn until_told(signals: &Signals, node: &Node) -> Option<String> {
    loop {
        if let Some(signal) = signals.wait(LOOK) {
            tracing::info!("{signal}: stopping; another one ends it at once");
            return None;
        }
        if let Some(text) = node.server.wait_fatal(Some(Duration::ZERO)) {
            return Some(text);
        }
    }
}

/// Stops the server, and says why if it had ended by itself.
pub fn finish(node: Node, fatal: Option<String>, stopping: &Stopping) -> Outcome {
    stopping.now("writing what is only in the journal and in memory into the table");
    let stopped = node.stop();
    match fatal {
        Some(text) => Err(Failure::new(format!("the server ended by itself: {text}"))),
        None => stopped,
    }
}
