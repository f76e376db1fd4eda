//! Sources of the admin plane: the server, the settings, the mount of the same process. Asks and hands on; decides nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use loligo_driver::{Server, ServerError, Status};
use loligo_mds::admin::{Ask, DrainStatus, Migration, Told};
use loligo_mds::heat::SpotRates;
use loligo_mount::{Counts, Mount};
use loligo_types::{Frag, Ino, Rank, Route};

use super::snapshot::Keeper;
use crate::settings::Settings;

/// Fragments of directories of which each rank says what was counted, at most.
const HEAT_MAX: usize = 4096;

/// Everything that can be asked.
pub struct Source {
    pub(super) server: Arc<Server>,
    pub settings: Settings,
    pub data: PathBuf,
    /// It is asked by other servers, for what this one knows or is to do: it asks nobody else.
    pub(super) is_for_servers: bool,
    /// Sees that snapshots of its store go again.
    pub(super) snapshot: Arc<Keeper>,
    started: Instant,
    mount: Arc<Mutex<Option<Arc<Mount>>>>,
}

impl Source {
    /// Without a mount.
    pub fn new(server: Arc<Server>, settings: Settings, data: PathBuf) -> Source {
        let idle = Duration::from_millis(settings.number("snapshot_idle_ms"));
        let (snapshot, mount) = (Arc::new(Keeper::new(idle)), Arc::default());
        Source { server, settings, data, is_for_servers: false, snapshot, started: Instant::now(), mount }
    }

    /// The same for other servers.
    pub(super) fn for_servers(&self) -> Source {
        let Source { server, settings, data, snapshot, started, mount, .. } = self;
        let (server, settings, data, snapshot) = (server.clone(), settings.clone(), data.clone(), snapshot.clone());
        Source { server, settings, data, is_for_servers: true, snapshot, started: *started, mount: mount.clone() }
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

    /// All that the ranks know of the subtree map, each line in its newest version.
    pub fn routes(&self) -> Result<Vec<Route>, ServerError> {
        let mut newest: BTreeMap<(Ino, Frag), Route> = BTreeMap::new();
        for rank in self.ranks() {
            let Told::Routes(routes) = self.server.admin(rank, Ask::Routes)? else { continue };
            for route in routes {
                let known = newest.entry((route.dir, route.frag)).or_insert(route);
                if route.version > known.version {
                    *known = route;
                }
            }
        }
        Ok(newest.into_values().collect())
    }

    /// The migrations under way and the last ones that ended, of all ranks.
    pub fn migrations(&self) -> Result<Vec<Migration>, ServerError> {
        let mut all = Vec::new();
        for rank in self.ranks() {
            if let Told::Migrations(of_rank) = self.server.admin(rank, Ask::Migrations)? {
                all.extend(of_rank);
            }
        }
        Ok(all)
    }

    /// Heat of the hottest fragments of each rank's directories.
    pub fn heat(&self) -> Result<Vec<(Rank, SpotRates)>, ServerError> {
        let mut all = Vec::new();
        for rank in self.ranks() {
            if let Told::Heat(spots) = self.server.admin(rank, Ask::Heat { most: HEAT_MAX })? {
                all.extend(spots.into_iter().map(|spot| (rank, spot)));
            }
        }
        Ok(all)
    }

    fn ranks(&self) -> impl Iterator<Item = Rank> {
        self.server.ranks().into_iter()
    }

    /// Adds ranks; which.
    pub fn add_ranks(&self, count: u16) -> Result<Vec<Rank>, ServerError> {
        self.server.add_ranks(count)
    }

    /// Has another server run a rank; its name.
    pub fn hand_over(&self, rank: Rank, to: Option<String>) -> Result<String, ServerError> {
        self.server.hand_over(rank, to)
    }

    /// Begins to drain a rank, or stops that.
    pub fn drain_rank(&self, rank: Rank, drain: bool) -> Result<(), ServerError> {
        if drain { self.server.drain_rank(rank) } else { self.server.undrain_rank(rank) }
    }

    /// Progress of a rank's drain; `None`: it is not being drained, or not there any more (the second value).
    pub fn drain_status(&self, rank: Rank) -> Result<(Option<DrainStatus>, bool), ServerError> {
        match self.server.admin(rank, Ask::Drain) {
            Ok(Told::Drain(status)) => Ok((status, true)),
            Ok(_) => Ok((None, true)),
            Err(ServerError::NoSuchRank { .. }) => Ok((None, false)),
            Err(error) => Err(error),
        }
    }

    /// Since the start, seconds.
    pub fn uptime_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}
