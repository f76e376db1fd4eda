//! `loligo umount`: takes a mount away, and waits until the process that served it has ended.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use serde_json::json;

use crate::mounts;
use crate::output::{Context, Failure, Outcome, note, put, quoted};
use crate::service::presence::Presence;
use crate::service::state::ServerState;
use crate::service::unmerged::{self, UnmergedDoc};
use crate::service::waiting::Decoupled;
use crate::target;

/// Time limit for the process of a mount to end. Its client brings what was written lately to the server for up to 60 s.
const ENDS: Duration = Duration::from_secs(70);
/// After this it is said what is waited for.
const TELL: Duration = Duration::from_secs(3);

/// Unmounts.
pub fn run(path: &Path, lazy: bool, as_json: bool) -> Outcome {
    let at = mounts::absolute(path).context(|| format!("mount point {}", path.display()))?;
    let Some(line) = mounts::at(&mounts::all()?, &at) else {
        return Err(Failure::new(format!("{} is no mount point", at.display()))
            .remedy("`findmnt -t fuse.loligo` shows what is mounted"));
    };
    if line.server().is_none() {
        return Err(Failure::new(format!(
            "{} is a mount of {} ({}), not of Loligo",
            at.display(),
            line.source,
            line.fs_type
        ))
        .remedy(format!("umount {}", quoted(&at))));
    }
    let server = line.server().map(Path::new).and_then(|data| mounted_by_up(data, &at));
    // A mount that goes when its last user is done is not waited for.
    let mut processes = if lazy { Vec::new() } else { Presence::of(&line) };
    let address = line.server().unwrap_or_default().to_string();
    // Asked before, as the server may end with the mount.
    let decoupled = if lazy { None } else { decoupled_at(&address) };
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(&at, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(busy(&at)),
        Err(Errno::PERM) => fusermount(&at, lazy),
        Err(error) => Err(Failure::new(format!("{}: {error}", at.display()))),
    }?;
    if let Some((data, state)) = server {
        note(format_args!(
            "{} was mounted by loligo up, whose server (process {}) stops now that it is unmounted: other mounts of it wait until it is back\n  \
             without a mount   loligo serve --data {data}\n  with one again    loligo up --data {data} --mount {}",
            at.display(),
            state.pid,
            quoted(&at)
        ));
    }
    let ends: Vec<Outcome> = processes.iter_mut().map(|process| ended(&at, process)).collect();
    let left: Vec<UnmergedDoc> = processes.iter().flat_map(|process| unmerged::of_text(&process.said())).collect();
    if left.is_empty() {
        ends.into_iter().collect::<Outcome>()?;
        return match as_json {
            true => put(json!({ "mount": at.display().to_string(), "server": address, "lazy": lazy })),
            false => Ok(()),
        };
    }
    let known = decoupled.as_ref().map_or(&[][..], Decoupled::all);
    let failure = unmerged::failure(&at.display().to_string(), &left, known, &address);
    // Both are said.
    ends.into_iter().filter_map(Result::err).for_each(|late| note(format_args!("loligo: {late}")));
    Err(failure)
}

/// The decoupled directories that the server of a mount knows; nothing, if it does not answer to this user.
fn decoupled_at(address: &str) -> Option<Decoupled> {
    let found = target::by_mount(address).ok()?;
    let mut decoupled = Decoupled::of(found.admin.as_ref()?)?;
    decoupled.name(&found);
    Some(decoupled)
}

/// Waits for the end of the process that served it: until then its session is not given back, and a server that is stopped
/// before that waits for it at its next start.
fn ended(at: &Path, process: &mut Presence) -> Outcome {
    let begun = Instant::now();
    if process.wait(begun + TELL) {
        return Ok(());
    }
    let pid = process.pid;
    note(format_args!(
        "loligo: {} is unmounted; process {pid}, which served it, still brings to the server what was written, or waits for the server, or another mount namespace \
         still has it",
        at.display()
    ));
    if process.wait(begun + ENDS) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} is unmounted, but process {pid}, which served it, has not ended within {} s; it goes on",
        at.display(),
        ENDS.as_secs()
    ))
    .remedy("look whether the server runs (loligo status), and into the log of the mount"))
}

/// The server whose own mount this is, which ends with it, and its data directory, quoted.
fn mounted_by_up(data: &Path, at: &Path) -> Option<(String, ServerState)> {
    let state = ServerState::read(data).ok()??;
    (state.mount.as_deref() == Some(at)).then(|| (quoted(data), state))
}

/// Takes a mount out of sight, in use or not.
pub fn detach(at: &Path) -> Outcome {
    match rustix::mount::unmount(at, UnmountFlags::DETACH) {
        Err(Errno::PERM) => fusermount(at, true),
        other => other.context(|| at.display().to_string()),
    }
}

fn busy(at: &Path) -> Failure {
    let (shown, at) = (at.display(), quoted(at));
    Failure::new(format!("{shown} is in use"))
        .remedy(format!("`fuser -vm {at}` shows by whom; or loligo umount --lazy {at}, and it goes when they are done"))
}

/// As another user than root.
fn fusermount(at: &Path, lazy: bool) -> Outcome {
    let mut command = std::process::Command::new("fusermount3");
    command.arg("-u").args(lazy.then_some("-z")).arg("--").arg(at);
    let output = command.output().map_err(|e| {
        Failure::new(format!("fusermount3: {e}")).remedy("install it (package fuse3), or unmount as root")
    })?;
    let text = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false if text.contains("busy") => Err(busy(at)),
        false => Err(Failure::new(format!("{}: {}", at.display(), text.trim()))),
    }
}
