//! State of a running server in its data directory: DATA/server.json. Written when everything works, removed at a clean
//! end. Not a lock: that is the store's.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::output::{Context, Failure, quoted};

/// The file's content.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct ServerState {
    /// Process.
    pub pid: u32,
    /// Unix socket for clients.
    pub socket: PathBuf,
    /// Unix socket of the admin plane; always there.
    pub admin_socket: PathBuf,
    /// HTTP admin address.
    pub admin: Option<String>,
    /// Where the same process has mounted it; a name that is not UTF-8 only nearly.
    #[serde(serialize_with = "nearly")]
    pub mount: Option<PathBuf>,
    /// It takes ranks of servers that are gone only.
    #[serde(default)]
    pub standby: bool,
}

/// Only for people: who wants the path itself asks the kernel what is mounted.
fn nearly<S: serde::Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(serializer)
}

fn path(data: &Path) -> PathBuf {
    data.join("server.json")
}

impl ServerState {
    /// Writes it, whole or not at all.
    pub fn write(&self, data: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).context(|| "server.json".into())?;
        let temporary = data.join("server.json.new");
        let place = || format!("what tells others of this server, {}", temporary.display());
        let put = |path: &Path| {
            let mut file = File::create(path)?;
            // On disk before it has its name: after a power cut it must not be there without its content.
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all())
        };
        match put(&temporary) {
            // What the last server has left has the room that this needs; it says nothing that is still true.
            Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                let _ = std::fs::remove_file(&temporary);
                put(&path(data)).context(|| path(data).display().to_string())
            }
            done => {
                done.context(place)?;
                std::fs::rename(&temporary, path(data)).context(|| path(data).display().to_string())
            }
        }
    }

    /// Reads it; `None` if no server left one.
    pub fn read(data: &Path) -> Result<Option<ServerState>, Failure> {
        let path = path(data);
        let unreadable = |why: String, what: &str| Err(Failure::new(format!("{}: {why}", path.display())).remedy(what));
        match std::fs::read(&path) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(state) => Ok(Some(state)),
                Err(e) => unreadable(
                    format!("this is not what a server tells of itself ({e})"),
                    "start the server (loligo up), which writes it anew; one that runs is stopped by SIGTERM",
                ),
            },
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                unreadable(e.to_string(), "run as root, or as the user whom the data directory belongs to")
            }
            Err(e) => unreadable(e.to_string(), "remove it, and start the server (loligo up)"),
        }
    }

    /// The failure that tells that the server which left this is gone.
    pub fn killed(&self, data: &Path) -> Failure {
        let failure = Failure::new(format!(
            "no server runs on {}: the last one (process {}) ended without stopping; nothing acknowledged is lost, but for the last moment of relaxed directories",
            data.display(),
            self.pid
        ));
        let data = quoted(data);
        let how = match (&self.mount, self.standby) {
            (Some(mount), _) => format!("loligo up --data {data} --mount {}", quoted(mount)),
            (None, true) => format!("loligo serve --data {data} --standby"),
            (None, false) => format!("loligo serve --data {data}"),
        };
        failure.remedy(format!("bring it back: {how}"))
    }

    /// Takes it away at a clean end.
    pub fn remove(data: &Path) {
        // Nothing is lost if it stays: a reader finds nobody at the socket.
        let _ = std::fs::remove_file(path(data));
    }
}
