//! What the admin plane knows: the server, the settings, the mount of the same process. Asks; decides nothing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use loligo_driver::{Server, ServerError, Status};
use loligo_mount::{Counts, Mount};

use crate::settings::Settings;

/// Everything that can be asked.
pub struct Source {
    server: Arc<Server>,
    pub settings: Settings,
    pub data: PathBuf,
    started: Instant,
    mount: Mutex<Option<Arc<Mount>>>,
}

impl Source {
    /// Without a mount.
    pub fn new(server: Arc<Server>, settings: Settings, data: PathBuf) -> Source {
        Source { server, settings, data, started: Instant::now(), mount: Mutex::new(None) }
    }

    /// This process has mounted it.
    pub fn set_mount(&self, mount: Arc<Mount>) {
        *self.mount.lock().unwrap_or_else(PoisonError::into_inner) = Some(mount);
    }

    /// It was unmounted.
    pub fn forget_mount(&self) {
        *self.mount.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Where it is mounted, and what the kernel asked there.
    pub fn mount(&self) -> Option<(PathBuf, Counts)> {
        let mount = self.mount.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some((mount.path().to_path_buf(), mount.counts()))
    }

    /// A picture of the server. Waits for its rank: not to be called where others wait.
    pub fn status(&self) -> Result<Status, ServerError> {
        self.server.status()
    }

    /// Since the start, seconds.
    pub fn uptime_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}
