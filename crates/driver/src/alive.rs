//! Detection of dead clients before their session time runs out: each client on the server's machine holds a lock on a file beside the
//! socket, and the kernel releases the lock with the process.
//!
//! A hint that saves time, not a promise: where there is no file (over TCP, or cut off in the first moment), the
//! session's or the grace time decides. Nothing is read of other processes.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use loligo_types::SessionId;
use rustix::fs::FlockOperation;

/// Where the files of clients of the server at this Unix socket are.
fn dir_of(socket: &Path) -> PathBuf {
    socket.with_file_name("sessions")
}

/// Held by a client while its session lives.
#[derive(Debug)]
pub(crate) struct Alive {
    path: PathBuf,
    _locked: File,
}

impl Alive {
    /// Takes the lock of a session; `None` where that cannot be done (the directory is another user's, say).
    pub(crate) fn hold(socket: &Path, session: SessionId) -> Option<Alive> {
        let dir = dir_of(socket);
        // It is there already, or the open below fails.
        let _ = fs::create_dir(&dir);
        let path = dir.join(session.to_string());
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).ok()?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Alive { path, _locked: file })
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        // One that stays is taken away when the server starts.
        let _ = fs::remove_file(&self.path);
    }
}

/// State of a client by its lock file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sign {
    /// There is none: it ended cleanly, or never left one.
    None,
    /// The client lives.
    Alive,
    /// It is dead.
    Dead,
}

/// Looks at the file of one client. That of a dead one is taken away.
pub(crate) fn look(socket: &Path, session: SessionId) -> Sign {
    let path = dir_of(socket).join(session.to_string());
    let Ok(file) = OpenOptions::new().write(true).open(&path) else { return Sign::None };
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Sign::Alive;
    }
    let _ = fs::remove_file(path);
    Sign::Dead
}

/// Sessions whose clients are dead, of those that left a file and are asked for.
pub(crate) fn dead(socket: &Path, of: impl Fn(SessionId) -> bool) -> Vec<SessionId> {
    let Ok(entries) = fs::read_dir(dir_of(socket)) else { return Vec::new() };
    let sessions = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(SessionId));
    sessions.filter(|session| of(*session) && look(socket, *session) == Sign::Dead).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_alive_while_it_holds_its_file_and_dead_after() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("loligo.sock");
        assert_eq!(dead(&socket, |_| true), []);
        let one = Alive::hold(&socket, SessionId(7)).expect("our own directory");
        let two = Alive::hold(&socket, SessionId(8)).expect("our own directory");
        assert_eq!(dead(&socket, |_| true), []);
        // As if its process had been killed: the lock goes, the file stays.
        let path = two.path.clone();
        drop(two);
        fs::write(&path, "").expect("our own directory");
        fs::write(dir.path().join("sessions/odd"), "").expect("our own directory");
        assert_eq!(dead(&socket, |session| session == SessionId(7)), []);
        assert_eq!(dead(&socket, |_| true), [SessionId(8)]);
        assert_eq!(dead(&socket, |_| true), []);
        assert_eq!((look(&socket, SessionId(7)), look(&socket, SessionId(8))), (Sign::Alive, Sign::None));
        drop(one);
        assert!(!dir.path().join("sessions/7").exists());
    }
}
