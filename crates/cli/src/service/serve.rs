//! `loligo serve`: a server without a mount.

use std::time::Duration;

use super::node::{self, Node, Part};
use super::signals::{RECOVERS, Signals, Stopping};
use super::{daemon, format, notify, preflight};
use loligo_driver::server::Sharing;
use loligo_store::StoreError;
use loligo_types::Rank;
use serde_json::{Value, json};

use crate::args::Serve;
use crate::at::Store;
use crate::output::{Failure, Outcome, quoted};
use crate::settings::Given;

/// Interval at which the loop looks whether the server has ended by itself.
const LOOK: Duration = Duration::from_millis(100);

/// Runs until told to stop.
pub fn run(args: &Serve, given: &Given) -> Outcome {
    if !args.join.is_empty() {
        return join(args, given);
    }
    let store = Store::named(&args.store)?;
    if let (true, Store::Local(_)) = (args.standby, &store) {
        return Err(Failure::usage("a store on this machine's disk has no standby servers")
            .remedy("with --store rados:POOL servers on several machines stand by for each other"));
    }
    let data = store.data().to_path_buf();
    format::require(&store)?;
    let settings = node::settings(given, &data, &args.run)?;
    preflight::files()?;
    store.put_down()?;
    if args.run.daemon {
        let log = node::log_file(&data);
        node::check_log(&data, &log)?;
        crate::output::say(daemon::start(&log)?);
        return Ok(());
    }
    let signals = Signals::hold();
    crate::log::start(settings.text("log"))?;
    let mut told = false;
    let mut waits = false;
    let mut wait = |error: &StoreError| {
        if args.standby && !std::mem::replace(&mut waits, true) {
            tracing::info!("waiting: {error}");
        }
        told = signals.wait(Duration::ZERO).is_some();
        args.standby && !told
    };
    let sharing = Sharing { takes_share: !args.standby, ..Sharing::default() };
    let part = Part { elsewhere: &args.elsewhere, sharing };
    let node = match Node::take_part(&store, args.ranks, part, &settings, &mut wait) {
        Ok(node) => node,
        // Told to stop before there was something to do.
        Err(_) if told => return Ok(()),
        Err(failure) => return Err(failure),
    };
    if let Err(failure) = node.tell(None) {
        let _ = node.stop();
        return Err(failure);
    }
    let how = if node.server.rank_count() > 0 { "serving" } else { "standing by for" };
    let text = format!(
        "{how} {} (process {}) at {}\n  mount it  loligo mount --data {} DIR\n  stop it   loligo down --data {}",
        store.name(),
        std::process::id(),
        node.addresses(),
        quoted(&data),
        quoted(&data)
    );
    daemon::ready(args.run.ready_fd, &text, args.run.json.then(|| document(&store, &node)).as_ref());
    let fatal = until_told(&signals, &node);
    finish(node, fatal, &signals.stopping(None, RECOVERS))
}

/// Runs ranks for the server of the data directory until that one ends, or told to stop.
fn join(args: &Serve, given: &Given) -> Outcome {
    let store = Store::named(&args.store)?;
    if let Store::Rados { .. } = store {
        return Err(Failure::usage(format!("a store such as {} needs no --join", store.name()))
            .remedy("it is for other processes on the store of a server's own disk"));
    }
    let data = store.data().to_path_buf();
    let settings = node::settings(given, &data, &args.run)?;
    preflight::files()?;
    if args.run.daemon {
        let log = node::log_file_of(&data, &args.join);
        node::check_log(&data, &log)?;
        crate::output::say(daemon::start(&log)?);
        return Ok(());
    }
    let signals = Signals::hold();
    crate::log::start(settings.text("log"))?;
    let node = Node::join(&data, &args.join, args.run.admin.as_deref(), &settings)?;
    let ranks: Vec<String> = node.server.ranks().iter().map(ToString::to_string).collect();
    let process = std::process::id();
    let stop = match args.run.ready_fd {
        Some(_) => format!("kill -TERM {process}"),
        None => "Ctrl-C".to_string(),
    };
    let text = format!(
        "running rank {} of {} (process {process}) at {}\n  stop it   {stop}; all: loligo down --data {}",
        ranks.join(", "),
        data.display(),
        node.addresses(),
        quoted(&data)
    );
    daemon::ready(args.run.ready_fd, &text, args.run.json.then(|| document(&store, &node)).as_ref());
    let fatal = until_told(&signals, &node);
    finish(node, fatal, &signals.stopping(None, RECOVERS))
}

/// The running ranks and their addresses, for programs.
fn document(store: &Store, node: &Node) -> Value {
    json!({
        "data": store.data().display().to_string(),
        "store": store.name(),
        "process": std::process::id(),
        "addresses": node.address_document(),
        "ranks": node.server.ranks().iter().map(|rank| rank.0).collect::<Vec<_>>(),
    })
}

fn until_told(signals: &Signals, node: &Node) -> Option<String> {
    let mut ranks = node.server.ranks();
    loop {
        let now = node.server.ranks();
        if now != ranks {
            ranks = now;
            let words: Vec<String> = ranks.iter().map(Rank::to_string).collect();
            notify::status(&match ranks.is_empty() {
                true => "standing by".to_string(),
                false => format!("running rank {}", words.join(", ")),
            });
        }
        if let Some(signal) = signals.wait(LOOK) {
            tracing::info!("{signal}: stopping; another one ends it at once");
            return None;
        }
        if let Some(text) = node.server.wait_fatal(Some(Duration::ZERO)) {
            return Some(text);
        }
        if node.server.has_ended() {
            tracing::info!("the server of the data directory has stopped all ranks");
            return None;
        }
    }
}

/// Stops the server, and says why if it had ended by itself.
pub fn finish(node: Node, fatal: Option<String>, stopping: &Stopping) -> Outcome {
    stopping.now("writing what is only in the journal and in memory into the table");
    stopping.needs(node.lease());
    let stopped = node.stop();
    match fatal {
        Some(text) => Err(Failure::new(format!("the server ended by itself: {text}"))),
        None => stopped,
    }
}
