//! Mounting without being root: the setuid program `fusermount3` mounts, and hands the device over through a socket.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::net::{AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType};

use crate::Device;

/// Why `fusermount3` did not mount.
#[derive(Debug, thiserror::Error)]
pub enum FusermountError {
    /// It is not there, or cannot be started.
    #[error("fusermount3 could not be started: {0}; install it (package fuse3)")]
    Start(io::Error),
    /// It refused.
    #[error("{0}")]
    Refused(String),
    /// The socket to it failed.
    #[error("talking to fusermount3: {0}")]
    Socket(#[from] io::Error),
}

/// Mounts at `path` with options as in fstab (`rw,default_permissions,fsname=...`).
pub fn fusermount(path: &Path, options: &str) -> Result<Device, FusermountError> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(io::Error::from)?;
    let number = theirs.as_raw_fd();
    let mut command = Command::new("fusermount3");
    command.arg("-o").arg(options).arg("--").arg(path).env("_FUSE_COMMFD", number.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // SAFETY: between fork and exec only one system call is made, on a descriptor that stays open until `spawn` returns.
    unsafe {
        command.pre_exec(move || match libc::fcntl(number, libc::F_SETFD, 0) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    let child = command.spawn().map_err(FusermountError::Start)?;
    drop(theirs);
    let device = receive(&ours);
    let output = child.wait_with_output()?;
    match device? {
        Some(device) if output.status.success() => Ok(Device::from(device)),
        _ => {
            let text = String::from_utf8_lossy(&output.stderr);
            let text = text.trim().trim_start_matches("fusermount3: ").to_owned();
            Err(FusermountError::Refused(if text.is_empty() {
                format!("fusermount3: {}", output.status)
            } else {
                text
            }))
        }
    }
}

/// The descriptor that comes with one byte; none if the other side closed.
fn receive(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    let device = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok(device)
}
