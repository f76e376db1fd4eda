//! What the admin plane knows: the server, the settings, the mount of the same process. Asks and hands on; decides nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use loligo_driver::{Server, ServerError, Status};
use loligo_mds::admin::{Ask, DrainStatus, Migration, Told};
use loligo_mount::{Counts, Mount};
use loligo_types::{Frag, Ino, Rank, Route};

use super::doc::BegunDoc;
use crate::settings::Settings;

/// A migration that was begun: its number, and the rank that does it; or why not, and what to do.
pub type Begun = Result<(u64, Rank), String>;

/// Everything that can be asked.
pub struct Source {
    pub(super) server: Arc<Server>,
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

    /// Begins to move the authority over a directory and all below it to another rank. `from`: who is likely to have it.
    /// Gives the migration's number and the rank that gives the subtree away; or why not, and what to do.
    pub fn migrate(&self, dir: Ino, frag: Option<Frag>, to: Rank, from: Rank) -> Result<Begun, ServerError> {
        let ask = match frag {
            Some(frag) => Ask::MigrateFrag { dir, frag, to },
            None => Ask::Migrate { dir, to },
        };
        let ranks = self.server.ranks();
        // Where others run some, the rank itself knows who is there.
        if !ranks.contains(&to) && !self.server.has_others() {
            let there: Vec<String> = ranks.iter().map(Rank::to_string).collect();
            return Ok(Err(format!("there is no rank {to}; there are: {}", there.join(", "))));
        }
        let part = frag.map_or(String::new(), |frag| format!("/{:x}/{}", frag.value, frag.bits));
        self.order(&ask, from, |at| format!("/api/v1/migrate/{}/{to}/{at}{part}", dir.0))
    }

    /// Asks all ranks to give the fragments of a directory to the one that has its inode.
    pub fn gather(&self, dir: Ino) -> Result<Begun, ServerError> {
        self.order(&Ask::Gather { dir }, Rank::ZERO, |_| format!("/api/v1/gather/{}", dir.0))
    }

    /// Tells the rank that is to do it. `page`: where another process is told, if that one runs it.
    fn order(&self, ask: &Ask, from: Rank, page: impl Fn(Rank) -> String) -> Result<Begun, ServerError> {
        let ranks = self.server.ranks();
        let first = ranks.first().copied().unwrap_or_default();
        // Each rank that does not have it names one that knows better; more often than there are ranks only if it moves.
        let is_there = ranks.contains(&from) || self.server.state_elsewhere(from).is_some();
        let mut from = if is_there { from } else { first };
        for _ in 0..=2 * self.server.rank_count() {
            if self.server.state_elsewhere(from).is_some() {
                return Ok(self.hand_on::<BegunDoc>(from, &page(from)).map(|begun| (begun.id, Rank(begun.from))));
            }
            let told = match self.server.admin(from, ask.clone()) {
                // It has just left: any other knows better.
                Err(ServerError::NoSuchRank { .. }) => {
                    from = self.ranks().next().unwrap_or(Rank::ZERO);
                    continue;
                }
                told => told?,
            };
            match told {
                Told::Begun(id) => return Ok(Ok((id, from))),
                Told::Elsewhere(rank) => from = rank,
                Told::Refused(why) => return Ok(Err(why)),
                told => {
                    return Ok(Err(format!("rank {from} answers with what was not asked: {told:?}; this is a bug")));
                }
            }
        }
        Ok(Err("the directory moves from rank to rank; try again".into()))
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

    /// How far a rank is drained; `None`: it is not being drained, or not there any more (the second value).
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
