//! `loligo up`: store, server and mount in one process.

use std::path::Path;
use std::time::Duration;

use loligo_store::StoreError;
use loligo_store_local::LocalStore;

use super::node::{self, Mounted, Node, Way};
use super::signals::Signals;
use super::{daemon, format, serve};
use crate::args::Up;
use crate::mounts;
use crate::output::{Context, Outcome};
use crate::settings::Given;

/// How often the loop looks whether the mount or the server has ended by itself.
const LOOK: Duration = Duration::from_millis(100);

/// Runs until told to stop, or unmounted.
pub fn run(args: &Up, given: &Given) -> Outcome {
    let data = node::data_dir(&args.data)?;
    let settings = node::settings(given, &data, &args.run)?;
    make_if_new(&data)?;
    if args.run.daemon {
        let log = node::log_file(&data);
        node::check_log(&log)?;
        crate::output::say(daemon::start(&log)?);
        return Ok(());
    }
    let signals = Signals::hold();
    crate::log::start(settings.text("log"))?;
    if let Some(parent) = args.mount.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).context(|| format!("mount point {}", args.mount.display()))?;
    }
    // From here on the mount point is never touched by its path: before the mount it may be a dead one, after it ours.
    let at = mounts::absolute(&args.mount).context(|| format!("mount point {}", args.mount.display()))?;
    node::refuse_cover(&data, &at)?;
    let node = Node::start(&data, &settings)?;
    let mounted = match mount(&node, &at, &data, args, &settings) {
        Ok(mounted) => mounted,
        Err(failure) => {
            // The reason for the failure says more than what stopping may have to add.
            let _ = node.stop();
            return Err(failure);
        }
    };
    node.tell(Some(at.clone()))?;
    daemon::ready(args.run.ready_fd, &welcome(&at, &data, &node, args.run.ready_fd.is_some()));
    let fatal = until_told(&signals, &node, &mounted);
    let _second = impatience(signals, &at);
    let unmounted = mounted.stop();
    node.source.forget_mount();
    serve::finish(node, fatal).and(unmounted)
}

/// Makes a file system where nothing is, and finishes one whose making was cut off.
fn make_if_new(data: &Path) -> Outcome {
    match LocalStore::identify(data) {
        Ok(_) => Ok(()),
        Err(StoreError::NotFound { .. } | StoreError::Foreign { .. }) if format::is_new(data) => {
            format::make(data)?;
            crate::output::say(format_args!("made a new file system in {}", data.display()));
            Ok(())
        }
        Err(_) => format::require(data),
    }
}

fn mount(
    node: &Node,
    at: &Path,
    data: &Path,
    args: &Up,
    settings: &crate::settings::Settings,
) -> Result<Mounted, crate::output::Failure> {
    let name = format!("mount {}", at.display());
    let fs_name = format!("loligo:{}", data.display());
    let mounted = node::mount(at, Way::Server(&node.server), fs_name, &name, &args.mount_options, settings)?;
    node.source.set_mount(mounted.mount.clone());
    Ok(mounted)
}

fn welcome(at: &Path, data: &Path, node: &Node, background: bool) -> String {
    let (at, data) = (at.display(), data.display());
    let stop =
        if background { format!("loligo down --data {data}") } else { format!("Ctrl-C, or loligo down --data {data}") };
    format!(
        "mounted at {at}; data in {data}; process {}\n  listening {}\n  use it    cd {at}\n  look      loligo status {at}\n  stop it   {stop}",
        std::process::id(),
        node.addresses()
    )
}

/// Waits for a signal, for somebody to unmount, or for the server to fail; then the text says why.
fn until_told(signals: &Signals, node: &Node, mounted: &Mounted) -> Option<String> {
    loop {
        if let Some(signal) = signals.wait(LOOK) {
            tracing::info!("{signal}: unmounting and stopping");
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

/// A second signal while stopping ends the process at once, as a crash would: nothing acknowledged is lost.
fn impatience(signals: Signals, at: &Path) -> std::io::Result<std::thread::JoinHandle<()>> {
    let at = at.to_path_buf();
    std::thread::Builder::new().name("loligo-signals".into()).spawn(move || {
        while signals.wait(Duration::from_secs(3600)).is_none() {}
        eprintln!("loligo: stopped at once; the next start recovers from the journal");
        // Whoever uses the mount gets errors; without it the next `up` finds the place free.
        let _ = rustix::mount::unmount(&at, rustix::mount::UnmountFlags::DETACH);
        std::process::exit(1);
    })
}
