//! What processes that run ranks for this server say of them: their admin planes are asked in turn, so that one question at
//! the server of the data directory tells of all ranks. One that does not answer is left out.

use std::collections::BTreeMap;

use loligo_driver::ServerError;
use loligo_types::{Rank, RankState};
use serde::de::DeserializeOwned;

use super::Source;
use super::doc::{self, DrainDoc, MigrationDoc, StatusDoc, SubtreeDoc};
use crate::look::ask;
use crate::target::{Admin, Found};

impl Source {
    /// Where the process answers that runs ranks and has this one as its lowest.
    fn other(&self, first: Rank) -> Found {
        let socket = self.data.join(format!("admin-{first}.sock"));
        Found { data: None, address: None, admin: Some(Admin::Unix(socket)), state: None }
    }

    /// A document of each of them.
    fn of_others<T: DeserializeOwned>(&self, page: &str) -> Vec<T> {
        let mut all = Vec::new();
        for (first, _) in self.server.joined() {
            match ask::json(&self.other(first), page) {
                Ok(doc) => all.push(doc),
                Err(failure) => tracing::debug!("the process with rank {first} says nothing of it: {failure}"),
            }
        }
        all
    }

    /// A picture of the server, with all ranks that answer.
    pub fn status_doc(&self) -> Result<StatusDoc, ServerError> {
        let mut doc = StatusDoc::new(self, &self.status()?);
        doc.ranks.extend(self.of_others::<StatusDoc>("/api/v1/status").into_iter().flat_map(|other| other.ranks));
        doc.ranks.sort_by_key(|rank| rank.rank);
        Ok(doc)
    }

    /// All that all ranks know of the subtree map, each line in its newest version.
    pub fn subtree_docs(&self) -> Result<Vec<SubtreeDoc>, ServerError> {
        let own = self.routes()?;
        let mut newest: BTreeMap<(u64, String), SubtreeDoc> = BTreeMap::new();
        for line in own.iter().map(doc::subtree).chain(self.of_others("/api/v1/subtrees").into_iter().flat_map(all)) {
            let known = newest.entry((line.dir, line.frag.clone())).or_insert_with(|| line.clone());
            if line.version > known.version {
                *known = line;
            }
        }
        Ok(newest.into_values().collect())
    }

    /// The migrations of all ranks.
    pub fn migration_docs(&self) -> Result<Vec<MigrationDoc>, ServerError> {
        let mut own: Vec<MigrationDoc> = self.migrations()?.iter().map(doc::migration).collect();
        own.extend(self.of_others("/api/v1/migrations").into_iter().flat_map(all));
        Ok(own)
    }

    /// How far a rank is drained.
    pub fn drain_doc(&self, rank: Rank) -> Result<DrainDoc, ServerError> {
        let Some(state) = self.server.state_elsewhere(rank) else {
            return self.drain_status(rank).map(|(status, there)| doc::drain(status, there));
        };
        let page = format!("/api/v1/rank/drain/{rank}");
        let asked = self.process_of(rank).and_then(|other| ask::json::<DrainDoc>(&other, &page).ok());
        let said = asked.filter(|doc| doc.there);
        let silent = || match self.server_of(rank) {
            Some(server) => format!("{server} runs it, and tells how far it is"),
            None => "its process does not answer".to_owned(),
        };
        let unknown = DrainDoc { there: true, state: silent(), stuck: Some(silent()), ..DrainDoc::default() };
        // That it is drained is for the map to say.
        Ok(DrainDoc { draining: state != RankState::Up, ..said.unwrap_or(unknown) })
    }

    /// Hands an order on to the process that runs a rank.
    pub fn hand_on<T: DeserializeOwned>(&self, rank: Rank, page: &str) -> Result<T, String> {
        let other = self.process_of(rank).ok_or_else(|| {
            if let Some(server) = self.server_of(rank) {
                return format!("{server} runs rank {rank}: give the order there (on its machine, or with its --data)");
            }
            format!("the process that runs rank {rank} is not there: start it again (loligo serve --join {rank})")
        })?;
        ask::order(&other, page).map_err(|failure| failure.to_string())
    }

    /// What the server is called that runs a rank, of those that share the store.
    fn server_of(&self, rank: Rank) -> Option<String> {
        let (_, sight) = self.server.sight()?;
        let seen = sight.ranks.get(&u32::from(rank.0)).filter(|seen| seen.is_held)?;
        sight.servers.get(&seen.server).map(|server| server.name.clone())
    }

    /// The process that runs a rank, if it is another one and there.
    pub(super) fn process_of(&self, rank: Rank) -> Option<Found> {
        let joined = self.server.joined();
        joined.iter().find(|(_, ranks)| ranks.contains(&rank)).map(|(first, _)| self.other(*first))
    }
}

/// The documents of one process.
fn all<T>(docs: Vec<T>) -> Vec<T> {
    docs
}
