//! What a running server tells about itself in its data directory: DATA/server.json. Written when everything works,
//! removed at a clean end. Not a lock: that is the store's.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::output::{Context, Failure};

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
    /// Where the same process has mounted it.
    pub mount: Option<PathBuf>,
}

fn path(data: &Path) -> PathBuf {
    data.join("server.json")
}

impl ServerState {
    /// Writes it, whole or not at all.
    pub fn write(&self, data: &Path) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).context(|| "server.json".into())?;
        let temporary = data.join("server.json.new");
        std::fs::write(&temporary, text).context(|| temporary.display().to_string())?;
        std::fs::rename(&temporary, path(data)).context(|| path(data).display().to_string())
    }

    /// Reads it; `None` if no server left one.
    pub fn read(data: &Path) -> Result<Option<ServerState>, Failure> {
        let path = path(data);
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).context(|| path.display().to_string()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e).context(|| path.display().to_string()),
        }
    }

    /// Takes it away at a clean end.
    pub fn remove(data: &Path) {
        // Nothing is lost if it stays: a reader finds nobody at the socket.
        let _ = std::fs::remove_file(path(data));
    }
}
