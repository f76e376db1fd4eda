//! The ranks, as they are known here: the sessions with them, what waits to be asked of them, and which one is to be asked. Not
//! here: a session by itself (`session`), the map by itself (`route`), and what is done with answers (`request`).

use std::collections::BTreeMap;

use loligo_types::{Ino, Rank};

use crate::Config;
use crate::locks::Behind;
use crate::moves::Paused;
use crate::route::{Router, SEEN_MAX};
use crate::session::{PendingData, Session};

/// All ranks.
#[derive(Debug)]
pub(crate) struct Ranks {
    /// One with each rank that was asked something.
    pub sessions: BTreeMap<Rank, Session>,
    /// Sessions that begin count their requests from here: above all of those before. A crash can take back that a rank has ended
    /// one, which then goes on and takes numbers for what they were.
    pub first_seq: u64,
    /// The number that the driver's first connection has in inputs and outputs ([`Config::rank`]).
    pub named: Rank,
    /// The rank at the driver's first connection: as configured, until it is known.
    pub home: Rank,
    pub home_known: bool,
    /// Where the driver's first connection was made to there is another rank by now, or may be.
    pub home_moved: bool,
    pub router: Router,
    /// The sender of the message that is being handled.
    pub speaker: Rank,
    /// Requests that are sent on later.
    pub paused: Vec<Paused>,
    /// Requests for locks whose owners are giving locks back.
    pub behind: Vec<Behind>,
    /// Data requests of files that are looked for.
    pub parked: BTreeMap<Ino, Vec<(u64, PendingData)>>,
    pub fs_id: Option<[u8; 16]>,
    /// The server will not have this client.
    pub refused: bool,
}

impl Ranks {
    pub(crate) fn new(config: &Config) -> Ranks {
        Ranks {
            sessions: BTreeMap::from([(config.rank, Session::default())]),
            first_seq: 1,
            named: config.rank,
            home: config.rank,
            home_known: false,
            home_moved: false,
            router: Router::with(config.some(SEEN_MAX)),
            speaker: config.rank,
            paused: Vec::new(),
            behind: Vec::new(),
            parked: BTreeMap::new(),
            fs_id: None,
            refused: false,
        }
    }
}
