//! The document of what is counted of requests, a part of `/api/v1/status`: by placement, what was waited for, how long paths were. Since the
//! rank started; what never was is absent. Described in docs/cli.md.

use std::collections::BTreeMap;

use loligo_mds::{TallyStatus, WaitCount, WalkCount};
use serde::{Deserialize, Serialize};

/// Of one rank.
#[derive(Serialize, Deserialize, Clone, Debug, Default)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct TallyDoc {
    /// Requests answered, by how the directory was placed that they were in, and by operation.
    pub placed: BTreeMap<String, BTreeMap<String, u64>>,
    /// Requests that were sent on to another rank, likewise.
    pub redirected: BTreeMap<String, u64>,
    /// Waits of requests that have ended, by what was waited for.
    pub waits: BTreeMap<String, WaitDoc>,
    /// Paths that were answered, the shortest first.
    pub walks: Vec<WalkDoc>,
}

/// Waits for one thing.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct WaitDoc {
    pub count: u64,
    /// All together.
    pub total_ms: u64,
}

/// Paths of about the same length.
#[derive(Serialize, Deserialize, Clone, Debug)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct WalkDoc {
    /// From so many names to so many.
    pub names: (u64, u64),
    pub count: u64,
    /// Of those, how many began with a shortcut, and after how many the client had to go on at another rank.
    pub shortcuts: u64,
    pub partings: u64,
}

/// Number of names of the paths that are counted together.
pub fn names_of(walks: &WalkCount) -> String {
    match walks.names {
        (from, to) if from == to => to.to_string(),
        (from, to) => format!("{from}-{to}"),
    }
}

impl TallyDoc {
    /// From what a rank tells.
    pub fn new(tally: &TallyStatus) -> TallyDoc {
        let mut placed: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for (placement, op, count) in &tally.placed {
            placed.entry(placement.name().to_string()).or_default().insert((*op).to_string(), *count);
        }
        let wait = |waited: &WaitCount| WaitDoc { count: waited.count, total_ms: waited.ms };
        let walk = |walks: &WalkCount| WalkDoc {
            names: (walks.names.0 as u64, walks.names.1 as u64),
            count: walks.all,
            shortcuts: walks.shortcut,
            partings: walks.parted,
        };
        TallyDoc {
            placed,
            redirected: tally.redirected.iter().map(|(placement, n)| (placement.name().to_string(), *n)).collect(),
            waits: tally.waits.iter().map(|(why, waited)| ((*why).to_string(), wait(waited))).collect(),
            walks: tally.walks.iter().map(walk).collect(),
        }
    }
}
