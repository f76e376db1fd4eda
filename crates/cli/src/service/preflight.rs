//! Checks of the machine before anything is made or started, so that the error names the missing thing.

use std::io::ErrorKind;
use std::path::Path;

use rustix::process::{Resource, getrlimit, setrlimit};

use loligo_driver::server::check_listen;
use loligo_driver::{Address, ServerError};

use super::{admin, node};
use crate::output::{Failure, Outcome};
use crate::settings::Settings;

/// Open files that a server and a mount need at least: those of the table, the journal, objects in use, connections.
const FILES_MIN: u64 = 256;
const DEVICE: &str = "/dev/fuse";
const HELPER: &str = "fusermount3";

/// Takes as many open files as this process may have: a table alone may want hundreds.
pub fn many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // It then stays as it is.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// Fails if this process may not have enough files open to serve or mount.
pub fn files() -> Outcome {
    match getrlimit(Resource::Nofile).current {
        Some(most) if most < FILES_MIN => Err(Failure::new(format!(
            "this process may have {most} files open, and a server or a mount needs {FILES_MIN} or more"
        ))
        .remedy("raise the limit: ulimit -n 65536, or LimitNOFILE= in its systemd unit")),
        _ => Ok(()),
    }
}

/// Checks that this user can mount at all.
pub fn fuse() -> Outcome {
    let uid = rustix::process::geteuid();
    if let Err(error) = std::fs::File::options().read(true).write(true).open(DEVICE) {
        return Err(match error.kind() {
            ErrorKind::NotFound => {
                Failure::new(format!("there is no {DEVICE} on this machine, so nothing can be mounted"))
                    .remedy("as root: modprobe fuse; for a container: --device /dev/fuse --cap-add SYS_ADMIN")
            }
            ErrorKind::PermissionDenied if !uid.is_root() => {
                Failure::new(format!("{DEVICE}: user {} may not open it, so cannot mount: {error}", uid.as_raw()))
                    .remedy(format!("as root: chmod 666 {DEVICE} (most systems have it so), or run this as root"))
            }
            _ => Failure::new(format!("{DEVICE} cannot be opened, so nothing can be mounted: {error}"))
                .remedy("as root: modprobe fuse; for a container: --device /dev/fuse --cap-add SYS_ADMIN"),
        });
    }
    if uid.is_root() {
        let rights = rustix::thread::capabilities(None);
        if rights.is_ok_and(|sets| !sets.effective.contains(rustix::thread::CapabilitySet::SYS_ADMIN)) {
            return Err(Failure::new("this root may not mount: it lacks CAP_SYS_ADMIN, as in most containers")
                .remedy("give the container --cap-add SYS_ADMIN (and --device /dev/fuse), or run outside of it"));
        }
        return Ok(());
    }
    if in_path(HELPER) {
        return Ok(());
    }
    Err(Failure::new(format!("{HELPER} is not there, and user {} needs it to mount", uid.as_raw()))
        .remedy("as root: apt-get install fuse3; or run this as root"))
}

/// Fails if nothing can be mounted there, or what is would cover the data directory.
pub fn mount_point(data: &Path, mount: &Path, nonempty: bool) -> Outcome {
    let at = loligo_mount::check_mount_point(mount, nonempty).map_err(|error| Failure::new(error.to_string()))?;
    node::refuse_cover(data, &at)
}

/// The addresses to listen on beside the socket in the data directory.
pub fn listen(settings: &Settings) -> Result<Vec<Address>, Failure> {
    let parse = |text: &str| match text.parse() {
        Ok(address @ (Address::Tcp(_) | Address::Unix(_))) => Ok(address),
        Ok(_) => Err(Failure::usage(format!("listen: {text} is more than one address"))
            .remedy("name each by itself, as in --listen A --listen B")),
        Err(error) => Err(Failure::usage(format!("listen: {error}"))),
    };
    settings.list("listen").into_iter().map(parse).collect()
}

/// Fails if the addresses of a server make no sense.
pub fn addresses(settings: &Settings) -> Outcome {
    listen(settings)?;
    admin::check(settings.text("admin"))
}

/// Fails if a server of so many ranks could not listen there now, as where another one does: asked before a file system is made for it.
pub fn ports(settings: &Settings, ranks: u16) -> Outcome {
    check_listen(&listen(settings)?, ranks).map_err(|error| {
        let failure = Failure::new(error.to_string());
        match error {
            ServerError::Listen { .. } => {
                failure.remedy("choose another address or port of this machine: --listen HOST:PORT")
            }
            _ => failure,
        }
    })?;
    admin::check_free(settings.text("admin"))
}

/// True if there is a program of this name.
fn in_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| runs(&dir.join(name)))
}

fn runs(program: &Path) -> bool {
    rustix::fs::access(program, rustix::fs::Access::EXEC_OK).is_ok() && program.is_file()
}
