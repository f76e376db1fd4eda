//! `loligo up`: store, server and mount in one process.

use std::path::Path;
use std::time::Duration;

use loligo_store::StoreError;
use serde_json::{Value, json};

use super::node::{self, Mounted, Node, Way};
use super::signals::{RECOVERS, Signals};
use super::state::ServerState;
use super::{daemon, format, preflight, serve, waiting};
use crate::args::Up;
use crate::at::Store;
use crate::mounts;
use crate::output::{Context, Failure, Outcome, quoted};
use crate::settings::{Given, Settings};

/// Interval at which the loop looks whether the mount or the server has ended by itself.
const LOOK: Duration = Duration::from_millis(100);

/// Runs until told to stop, or unmounted.
pub fn run(args: &Up, given: &Given) -> Outcome {
    let store = Store::named(&args.store)?;
    let data = store.data().to_path_buf();
    let settings = node::settings(given, &data, &args.run)?;
    // Before the formatting, whose store has threads: one that does not hold the signals back would be killed by them,
    // and the process with it.
    let signals = (!args.run.daemon).then(Signals::hold);
    preflight::files()?;
    preflight::fuse()?;
    node::refuse_second(&data)?;
    preflight::mount_point(&data, &args.mount, args.mount_options.nonempty)?;
    crate::auth::read(settings.text("identity"))?;
    let made = make_if_new(&store, args, &settings)?;
    let Some(signals) = signals else {
        let log = node::log_file(&data);
        node::check_log(&data, &log)?;
        let told = daemon::start(&log)?;
        crate::output::say(if args.run.json { with_made(&told, made) } else { told });
        if let Ok(Some(state)) = ServerState::read(&data) {
            tell_waiting(&data, &settings, &state);
        }
        return Ok(());
    };
    crate::log::start(settings.text("log"))?;
    if let Some(parent) = args.mount.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).context(|| format!("mount point {}", args.mount.display()))?;
    }
    // From here on the mount point is never touched by its path: before the mount it may be a dead one, after it ours.
    let at = mounts::absolute(&args.mount).context(|| format!("mount point {}", args.mount.display()))?;
    node::refuse_cover(&data, &at)?;
    let node = Node::start(&store, args.ranks, &settings)?;
    let mounted = match mount(&node, &at, &data, args, &settings) {
        Ok(mounted) => mounted,
        Err(failure) => {
            // The reason for the failure says more than what stopping may have to add.
            let _ = node.stop();
            return Err(failure);
        }
    };
    let told = node.tell(Some(at.clone()));
    if let Err(failure) = told {
        // Nobody could find it, so it must not stay.
        let _ = mounted.stop(&signals.stopping(Some(at), RECOVERS));
        node.source.forget_mount();
        let _ = node.stop();
        return Err(failure);
    }
    let document = args.run.json.then(|| document(&at, &store, &node, made));
    daemon::ready(args.run.ready_fd, &welcome(&at, &store, &node, args.run.ready_fd.is_some()), document.as_ref());
    if let (None, Ok(state)) = (args.run.ready_fd, &told) {
        tell_waiting(&data, &settings, state);
    }
    let fatal = until_told(&signals, &node, &mounted);
    let stopping = signals.stopping(Some(at), RECOVERS);
    let unmounted = mounted.stop(&stopping);
    node.source.forget_mount();
    serve::finish(node, fatal, &stopping).and(unmounted)
}

/// Names what mounts that are gone have left on this machine.
fn tell_waiting(data: &Path, settings: &Settings, state: &ServerState) {
    if let Some(now) = waiting::Decoupled::at(state) {
        waiting::tell(data, settings, &now);
    }
}

/// Makes a file system where nothing is, and finishes one whose making was cut off. What would keep the server from starting is found
/// before that. True if one was made.
fn make_if_new(store: &Store, args: &Up, settings: &Settings) -> Result<bool, Failure> {
    match store.identify() {
        Ok(_) => store.put_down().map(|()| false),
        Err(StoreError::NotFound { .. } | StoreError::Foreign { .. }) if format::is_new(store) => {
            preflight::ports(settings, args.ranks.ranks.unwrap_or(1))?;
            if let Some(path) =
                args.mount_options.path.as_deref().filter(|path| path.split('/').any(|name| !matches!(name, "" | ".")))
            {
                return Err(Failure::usage(format!(
                    "--path {path}: {} is to be a new file system, which has no directories",
                    store.name()
                ))
                .remedy("mount all of it first, and make the directory there"));
            }
            format::make(store)?;
            if !args.run.json {
                crate::output::say(format_args!("made a new file system in {}", store.name()));
            }
            Ok(true)
        }
        Err(_) => format::require(store).map(|()| false),
    }
}

fn mount(node: &Node, at: &Path, data: &Path, args: &Up, settings: &Settings) -> Result<Mounted, Failure> {
    let name = super::mount::session_name(at);
    let fs_name = format!("loligo:{}", data.display());
    let mounted =
        node::mount(at, Way::Server(&node.server), fs_name, &name, &args.mount_options, settings, Some(data))?;
    node.source.set_mount(mounted.mount.clone());
    Ok(mounted)
}

/// The same as [`welcome`] says, for programs.
fn document(at: &Path, store: &Store, node: &Node, made: bool) -> Value {
    json!({
        "mount": at.display().to_string(),
        "data": store.data().display().to_string(),
        "store": store.name(),
        "process": std::process::id(),
        "addresses": node.address_document(),
        "made": made,
    })
}

/// The document of the process in the background, which finds the file system that this one has made.
fn with_made(told: &str, made: bool) -> String {
    match serde_json::from_str::<Value>(told) {
        Ok(mut document) => {
            document["made"] = made.into();
            document.to_string()
        }
        Err(_) => told.to_string(),
    }
}

fn welcome(at: &Path, store: &Store, node: &Node, background: bool) -> String {
    let (cd, down) = (quoted(at), format!("loligo down --data {}", quoted(store.data())));
    let stop = if background { down } else { format!("Ctrl-C, or {down}") };
    format!(
        "mounted at {}; data in {}; process {}\n  listening {}\n  use it    cd {cd}\n  look      loligo status {cd}\n  stop it   {stop}",
        at.display(),
        store.name(),
        std::process::id(),
        node.addresses()
    )
}

/// Waits for a signal, for somebody to unmount, or for the server to fail; then the text says why.
fn until_told(signals: &Signals, node: &Node, mounted: &Mounted) -> Option<String> {
    loop {
        if let Some(signal) = signals.wait(LOOK) {
            tracing::info!("{signal}: unmounting and stopping; another one ends it at once");
            return None;
        }
        if mounted.mount.wait(Duration::ZERO) {
            tracing::info!("{} was unmounted: stopping", mounted.mount.path().display());
            return None;
        }
        if let Some(text) = node.server.wait_fatal(Some(Duration::ZERO)) {
            return Some(text);
        }
    }
}
