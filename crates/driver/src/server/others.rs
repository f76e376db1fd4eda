//! Questions to other servers that share the store, on behalf of an administrator. Not here: the questions themselves, which are the admin
//! plane's, and their transport (`peers/questions.rs`).

use std::sync::{Arc, PoisonError};

use loligo_types::Rank;
use loligo_types::link::{Question, Reply};

use super::{Replier, Server, Unanswered};

impl Server {
    /// Asks the admin plane of another server. `then` is told the reply, or that there will be none; nothing else bounds how long that takes
    /// than the life of the connection. It is called on the connection's thread, and must not wait.
    pub fn ask_server(
        &self,
        server: u64,
        question: Question,
        then: impl FnOnce(Result<Reply, Unanswered>) + Send + 'static,
    ) {
        match &self.peers {
            Some(peers) => peers.ask(server, question, Box::new(then)),
            None => then(Err(Unanswered::NotSent("no other server shares this file system".into()))),
        }
    }

    /// Registers the function that takes questions of other servers to the admin plane. It is called on a connection's thread, and must not
    /// wait.
    pub fn on_question(&self, hear: impl Fn(Question, Replier) + Send + Sync + 'static) {
        if let Some(peers) = &self.peers {
            peers.on_question(Arc::new(hear));
        }
    }

    /// Number of looks of this server at the shared records. Everything that was written before a look began is known after it: when the
    /// number has grown by two, the second look began after the first number was read.
    pub fn looks(&self) -> u64 {
        self.view.as_ref().map_or(0, |view| view.lock().unwrap_or_else(PoisonError::into_inner).looks)
    }

    /// All ranks there are, also those that others run.
    pub fn all_ranks(&self) -> Vec<Rank> {
        let mut all = self.ranks();
        if let Some(view) = &self.view {
            let view = view.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(view.map.ranks.iter().map(|info| info.rank));
        }
        if let Some((me, sight)) = self.sight() {
            // A rank that never had company is in no map. What this server has, its seats say, at once.
            let held = sight.ranks.iter().filter(|(_, seen)| seen.is_held && seen.server != me).map(|(rank, _)| rank);
            all.extend(held.filter_map(|rank| u16::try_from(*rank).ok()).map(Rank));
        }
        all.sort_unstable();
        all.dedup();
        all
    }
}
