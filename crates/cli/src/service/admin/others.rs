//! Requests to the other processes that run ranks of this file system: processes of this machine by the sockets of their admin planes,
//! servers that share the store over the connections that servers have. The answers are put together in `all.rs`, orders are handed on in
//! `handing.rs`.
//!
//! Whoever does not answer in time is named, and nobody is waited for longer. What another server has asked is asked nobody else, so no question
//! goes in a circle.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use loligo_driver::Unanswered;
use loligo_types::link::{Method, Question, Reply};
use loligo_types::{Rank, RankState};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::Source;
use crate::look::ask;
use crate::target;

/// Time limit for the answers of others.
pub const REACH: Duration = Duration::from_secs(1);

/// Another one that runs ranks.
#[derive(Clone, Debug)]
pub enum Other {
    /// A process of this machine that joined; the lowest rank that it was started with names its socket.
    Process { first: Rank, ranks: Vec<Rank> },
    /// A server that shares the store.
    Server { number: u64, name: String, ranks: Vec<Rank> },
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Other::Process { first, .. } => write!(f, "the process that was started with rank {first}"),
            Other::Server { name, .. } => f.write_str(name),
        }
    }
}

/// Where a rank is.
pub enum At {
    /// In this process, or there is none.
    Here,
    There(Other),
    /// With nobody just now; why, and what to do.
    Nowhere(String),
}

/// A process or server whose ranks are missing in an answer.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct UnreachedDoc {
    /// The number of the server, in hexadecimal digits; none: a process of this machine, or nobody.
    pub number: Option<String>,
    /// Its name.
    pub name: String,
    /// Those that it runs.
    pub ranks: Vec<u16>,
    /// Why it is not reached.
    pub why: String,
}

impl UnreachedDoc {
    fn new(other: &Other, why: String) -> UnreachedDoc {
        let (number, ranks) = match other {
            Other::Process { ranks, .. } => (None, ranks),
            Other::Server { number, ranks, .. } => (Some(format!("{number:016x}")), ranks),
        };
        UnreachedDoc { number, name: other.to_string(), ranks: ranks.iter().map(|rank| rank.0).collect(), why }
    }

    /// Ranks that nobody runs.
    pub(super) fn nobody(ranks: Vec<Rank>, why: String) -> UnreachedDoc {
        UnreachedDoc { number: None, name: "nobody".into(), ranks: ranks.iter().map(|rank| rank.0).collect(), why }
    }
}

/// Answers of the others, and those that did not answer.
pub struct Gathered<T> {
    pub docs: Vec<T>,
    pub unreached: Vec<UnreachedDoc>,
}

impl Source {
    /// Those who are asked besides: all that run ranks.
    fn others(&self) -> Vec<Other> {
        if self.is_for_servers {
            return Vec::new();
        }
        let mut all: Vec<Other> =
            self.server.joined().into_iter().map(|(first, ranks)| Other::Process { first, ranks }).collect();
        if let Some((me, sight)) = self.server.sight() {
            for (number, seen) in sight.servers.iter().filter(|(number, _)| **number != me) {
                let held = sight.ranks.iter().filter(|(_, rank)| rank.is_held && rank.server == *number);
                let ranks: Vec<Rank> = held.filter_map(|(rank, _)| u16::try_from(*rank).ok()).map(Rank).collect();
                if !ranks.is_empty() {
                    all.push(Other::Server { number: *number, name: seen.name.clone(), ranks });
                }
            }
        }
        all
    }

    /// The server that leads, if that is another one; or why there is none.
    pub(super) fn leader_elsewhere(&self) -> Option<Result<Other, String>> {
        let (me, sight) = self.server.sight()?;
        let found = sight.leader.and_then(|leader| Some((leader, sight.servers.get(&leader)?)));
        match found {
            Some((leader, _)) if leader == me => None,
            Some((number, seen)) => Some(Ok(Other::Server { number, name: seen.name.clone(), ranks: Vec::new() })),
            None => Some(Err(
                "no server leads just now, so nothing was done: another one will in a moment; try again".into()
            )),
        }
    }

    /// Name of this server at the other servers.
    pub(super) fn own_name(&self) -> String {
        let seen = self.server.sight().and_then(|(me, sight)| Some(sight.servers.get(&me)?.name.clone()));
        seen.unwrap_or_else(|| "this server".into())
    }

    /// Where a rank is.
    pub(super) fn at(&self, rank: Rank) -> At {
        if self.server.ranks().contains(&rank) {
            return At::Here;
        }
        let Some((me, sight)) = self.server.sight() else {
            let joined = self.server.joined();
            return match joined.into_iter().find(|(_, ranks)| ranks.contains(&rank)) {
                Some((first, ranks)) => At::There(Other::Process { first, ranks }),
                None if self.server.state_elsewhere(rank).is_some() => At::Nowhere(format!(
                    "the process that runs rank {rank} is not there: start it again (loligo serve --join {rank})"
                )),
                None => At::Here,
            };
        };
        let held = sight.ranks.get(&u32::from(rank.0)).filter(|seen| seen.is_held && seen.server != me);
        match held.and_then(|held| Some((held.server, sight.servers.get(&held.server)?))) {
            Some((number, seen)) => At::There(Other::Server { number, name: seen.name.clone(), ranks: vec![rank] }),
            None if self.server.state_elsewhere(rank).is_some() => At::Nowhere(self.awaited(rank)),
            None => At::Here,
        }
    }

    /// Why nobody runs a rank.
    fn awaited(&self, rank: Rank) -> String {
        let to = self.server.sight().and_then(|(_, sight)| {
            let wanted = sight.wants.get(&u32::from(rank.0))?;
            Some(sight.servers.get(wanted)?.name.clone())
        });
        let to = to.unwrap_or_else(|| "another server".into());
        format!("no server runs rank {rank} just now, {to} is to: try again")
    }

    /// Ranks that nobody runs.
    fn nowhere(&self) -> Vec<UnreachedDoc> {
        if self.is_for_servers {
            return Vec::new();
        }
        let why = |rank: Rank| match self.at(rank) {
            At::Nowhere(why) => Some(UnreachedDoc::nobody(vec![rank], why)),
            _ => None,
        };
        self.server.all_ranks().into_iter().filter_map(why).collect()
    }

    /// State in the map of a rank that another process runs.
    pub(super) fn state_elsewhere(&self, rank: Rank) -> Option<RankState> {
        self.server.state_elsewhere(rank)
    }
}

/// A page that is looked at.
pub fn page(path: impl Into<String>) -> Question {
    Question { method: Method::Get, path: path.into(), text: String::new() }
}

/// Asks another one.
pub async fn ask(
    source: &Arc<Source>,
    other: &Other,
    question: Question,
    patience: Duration,
) -> Result<Reply, Unanswered> {
    let late = || Unanswered::Lost(format!("no answer within {} s", patience.as_secs()));
    match other {
        Other::Server { number, .. } => {
            let (to, from) = oneshot::channel();
            source.server.ask_server(*number, question, move |told| _ = to.send(told));
            match tokio::time::timeout(patience, from).await {
                Ok(Ok(told)) => told,
                Ok(Err(_)) => Err(Unanswered::Lost("this server is stopping".into())),
                Err(_) => Err(late()),
            }
        }
        Other::Process { first, .. } => {
            let socket = target::Admin::Unix(source.data.join(format!("admin-{first}.sock")));
            let asked = tokio::task::spawn_blocking(move || ask::raw(&socket, patience, &question));
            match tokio::time::timeout(patience, asked).await {
                Ok(Ok(told)) => told,
                Ok(Err(_)) => Err(Unanswered::Lost("this server is stopping".into())),
                Err(_) => Err(late()),
            }
        }
    }
}

/// A document of each of the others, and who gives none.
pub async fn gather<T: DeserializeOwned>(source: &Arc<Source>, path: &str) -> Gathered<T> {
    let mut gathered = Gathered { docs: Vec::new(), unreached: source.nowhere() };
    // All at once: together they take no longer than one.
    let asked: Vec<_> = source
        .others()
        .into_iter()
        .map(|other| {
            let (source, one, question) = (source.clone(), other.clone(), page(path));
            (other, tokio::spawn(async move { ask(&source, &one, question, REACH).await }))
        })
        .collect();
    for (other, told) in asked {
        let told = match told.await {
            Ok(Ok(reply)) => document(&reply),
            Ok(Err(Unanswered::NotSent(why) | Unanswered::Lost(why))) => Err(why),
            Err(_) => Err("this server is stopping".into()),
        };
        match told {
            Ok(doc) => gathered.docs.push(doc),
            Err(why) => gathered.unreached.push(UnreachedDoc::new(&other, why)),
        }
    }
    gathered
}

/// The document that a reply is, or what it says instead.
pub fn document<T: DeserializeOwned>(reply: &Reply) -> Result<T, String> {
    match reply.status {
        200 => serde_json::from_str(&reply.text)
            .map_err(|error| format!("its answer cannot be understood ({error}): use programs of one release")),
        _ => Err(reply.text.trim().to_string()),
    }
}
