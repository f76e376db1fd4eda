//! `loligo mount`: a mount of a server that runs elsewhere.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use loligo_driver::Address;
use serde_json::json;

use super::daemon;
use super::node::{self, Way};
use super::preflight;
use super::signals::{Signals, UNSYNCED};
use super::waiting;
use crate::args::MountArgs;
use crate::mounts;
use crate::output::{Context, Failure, Outcome, quoted};
use crate::ranks::place;
use crate::settings::{Given, Settings};
use crate::target::{self, Found};

/// Interval at which the loop looks whether somebody unmounted.
const LOOK: Duration = Duration::from_millis(100);

/// Mounts, and stays until it is unmounted or told to stop.
pub fn run(args: &MountArgs, given: &Given) -> Outcome {
    let found = find(args)?;
    let address = found.address()?.clone();
    preflight::files()?;
    preflight::fuse()?;
    let mut flags: Vec<_> = args.log.clone().map(|log| ("log".to_string(), log)).into_iter().collect();
    flags.extend(args.identity.clone().map(|file| ("identity".to_string(), file)));
    let settings = Settings::load(given, found.data.as_deref(), &flags)?;
    settings.check()?;
    crate::auth::read(settings.text("identity"))?;
    check_mount_point(args, &found)?;
    if args.daemon {
        let log = log_path(args, &found);
        node::check_mount_log(&log)?;
        crate::output::say(daemon::start(&log)?);
        tell_waiting(&found, &settings);
        return Ok(());
    }
    let signals = Signals::hold();
    crate::log::start(settings.text("log"))?;
    let made = missing(&args.mount);
    if let Some(parent) = args.mount.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).context(|| format!("mount point {}", args.mount.display()))?;
    }
    let at = mounts::absolute(&args.mount).context(|| format!("mount point {}", args.mount.display()))?;
    if let Some(data) = &found.data {
        node::refuse_cover(data, &at)?;
    }
    let name = format!("{} of {}", session_name(&at), host());
    let shown = args.source.clone().map_or_else(|| fs_name(&found, &address), Ok)?;
    let way = Way::Address(address.clone());
    let mounted = node::mount(&at, way, shown, &name, &args.options, &settings, found.data.as_deref());
    let mounted = mounted.inspect_err(|_| {
        // The connection shows only then if there is a server: a mount that fails leaves no directory behind.
        made.iter().for_each(|dir| _ = std::fs::remove_dir(dir));
    })?;
    let text = format!(
        "mounted {address} at {}; process {}\n  stop it   loligo umount {}",
        at.display(),
        std::process::id(),
        quoted(&at)
    );
    let document = args.json.then(
        || json!({ "mount": at.display().to_string(), "server": address.to_string(), "process": std::process::id() }),
    );
    daemon::ready(args.ready_fd, &text, document.as_ref());
    if args.ready_fd.is_none() {
        tell_waiting(&found, &settings);
    }
    loop {
        if let Some(signal) = signals.wait(LOOK) {
            tracing::info!("{signal}: unmounting; another one ends it at once");
            break;
        }
        if mounted.mount.wait(Duration::ZERO) {
            tracing::info!("{} was unmounted", at.display());
            break;
        }
    }
    mounted.stop(&signals.stopping(Some(at), UNSYNCED))
}

/// Names what mounts that are gone have left on this machine, if the server is one of this machine.
fn tell_waiting(found: &Found, settings: &Settings) {
    let (Some(data), Some(state)) = (&found.data, &found.state) else { return };
    if let Some(now) = waiting::Decoupled::at(state) {
        waiting::tell(data, settings, &now);
    }
}

/// Mounts in the background, by a command line of this program that mounts what these say.
pub fn in_background(args: &MountArgs, arguments: Vec<OsString>) -> Result<String, Failure> {
    let found = find(args)?;
    found.address()?;
    preflight::many_files();
    preflight::files()?;
    preflight::fuse()?;
    check_mount_point(args, &found)?;
    let log = log_path(args, &found);
    node::check_mount_log(&log)?;
    daemon::start_as(&log, arguments, Some(Path::new("/")))
}

/// The directories of a path that are not there yet, the innermost first.
fn missing(path: &Path) -> Vec<PathBuf> {
    let full = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    full.ancestors().take_while(|dir| dir.symlink_metadata().is_err()).map(Path::to_path_buf).collect()
}

/// Fails if nothing can be mounted there, before anything is made or started.
fn check_mount_point(args: &MountArgs, found: &Found) -> Outcome {
    match &found.data {
        Some(data) => preflight::mount_point(data, &args.mount, args.options.nonempty),
        None => loligo_mount::check_mount_point(&args.mount, args.options.nonempty)
            .map(drop)
            .map_err(|error| Failure::new(error.to_string())),
    }
}

fn find(args: &MountArgs) -> Result<Found, Failure> {
    target::agree(args.data.as_deref(), args.server.as_deref())?;
    let found = match (&args.data, target::named(args.server.as_deref())) {
        (Some(data), _) => target::by_data(&node::data_dir(&target::data_of(data)?)?)?,
        (None, Some(server)) => target::by_address(server)?,
        (None, None) => {
            return Err(
                Failure::usage("no server is named").remedy("give --data DIR or --server ADDR, or set LOLIGO_SERVER")
            );
        }
    };
    place::let_in(found)
}

/// Device name of the mount: `df` shows it, and other commands find the server by it.
fn fs_name(found: &Found, address: &Address) -> Result<String, Failure> {
    let server = match (&found.data, address) {
        (_, several @ Address::Any(_)) => several.to_string(),
        (Some(data), _) => node::data_dir(data)?.display().to_string(),
        (None, Address::Unix(path)) => {
            std::path::absolute(path).context(|| format!("socket {}", path.display()))?.display().to_string()
        }
        (None, Address::Tcp(at)) => at.clone(),
        (None, Address::Pair(_)) => String::new(),
    };
    Ok(format!("loligo:{server}"))
}

fn log_path(args: &MountArgs, found: &Found) -> PathBuf {
    let in_data = || found.data.as_deref().map(|data: &Path| data.join("loligo-mount.log"));
    // Root writes nothing where anybody may have put a link.
    let is_root = rustix::process::geteuid().is_root();
    let elsewhere = || if is_root { PathBuf::from("/var/log") } else { std::env::temp_dir() };
    args.log_file.clone().or_else(in_data).unwrap_or_else(|| elsewhere().join("loligo-mount.log"))
}

/// Session name of the client of a mount; one of `loligo mount` also names its host.
pub fn session_name(at: &Path) -> String {
    format!("mount {}", at.display())
}

/// Name of this machine.
pub fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or("an unknown host".to_string(), |name| name.trim().to_string())
}
