//! Messages of a service to the manager that started it (systemd's `Type=notify`, sd_notify(3)): that it is ready, what it does, that it
//! stops. Without one, nothing. Not here: when that is so.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Where the manager listens.
const SOCKET: &str = "NOTIFY_SOCKET";

/// It does what it was started for, and what that is.
pub fn ready(status: &str) {
    tell(&format!("READY=1\n{}", line(status)));
}

/// Tells the current work.
pub fn status(status: &str) {
    tell(&line(status));
}

/// It stops.
pub fn stopping() {
    tell("STOPPING=1\nSTATUS=stopping");
}

/// A status is one line.
fn line(status: &str) -> String {
    format!("STATUS={}", status.lines().next().unwrap_or_default())
}

fn tell(text: &str) {
    let Some(place) = std::env::var_os(SOCKET) else { return };
    // A manager that does not listen any more is no reason to do anything else.
    if let Err(error) = send(&place, text) {
        tracing::debug!("{SOCKET} {}: {error}", place.display());
    }
}

/// To a path, or, with an @ in front, to a name that no file has.
fn send(place: &OsStr, text: &str) -> std::io::Result<()> {
    let address = match place.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(place)?,
    };
    UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 200];
        let len = socket.recv(&mut buffer).expect("it was sent");
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }

    #[test]
    fn a_manager_hears_it_at_a_path_and_at_a_name_without_a_file() {
        let dir = tempfile::tempdir().expect("a directory for the test");
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a new path");
        send(path.as_os_str(), "READY=1").expect("somebody listens");
        assert_eq!(received(&socket), "READY=1");
        let name = format!("loligo-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let socket = UnixDatagram::bind_addr(&address).expect("a new name");
        send(OsStr::new(&format!("@{name}")), &line("one\ntwo")).expect("somebody listens");
        assert_eq!(received(&socket), "STATUS=one");
        drop(socket);
        assert!(send(OsStr::new(&format!("@{name}")), "READY=1").is_err(), "nobody is there");
    }
}
