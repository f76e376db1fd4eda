//! A rank's place: what stays of it when it stops or crashes. What it does is in [`crate::server`].

use std::cell::Cell;
use std::rc::Rc;

use loligo_store::Identity;
use loligo_store::mem::MemDisk;
use loligo_types::{ClusterMap, Lsn, Rank, RankInfo, RankState, SessionId};

use crate::server::Server;

/// The place.
pub struct Seat {
    /// Where its journal lies, and nothing else.
    pub journal: MemDisk,
    pub server: Option<Server>,
    /// Which of its lives; 0: none.
    pub life: u64,
    /// Epoch of the data that was not synced: changes unless the life before stopped in order.
    pub data_epoch: u64,
    /// The life before did not stop in order.
    pub after_crash: bool,
    /// Sessions that it ended, and with which record; gone from here when that is durable.
    pub fences: Vec<(SessionId, Lsn)>,
    /// Up to which record merges are not replayed: for [`crate::Canary::RowsTrimmedEarly`].
    pub rows_upto: Rc<Cell<Lsn>>,
    /// It has come to a stop in order.
    pub stopped: bool,
    /// It is to stop alone, and to be removed then.
    pub leaves: bool,
}

impl Seat {
    /// A free one.
    pub fn new(identity: Identity) -> Seat {
        let journal = MemDisk::new(identity);
        Seat {
            journal,
            server: None,
            life: 0,
            data_epoch: 1,
            after_crash: false,
            fences: Vec::new(),
            rows_upto: Rc::default(),
            stopped: false,
            leaves: false,
        }
    }
}

/// The cluster map of so many ranks; their addresses are their numbers. A lone one has nobody to tell of.
pub fn map_of(ranks: usize) -> ClusterMap {
    if ranks < 2 {
        return ClusterMap::default();
    }
    let info = |rank: u16| RankInfo { rank: Rank(rank), address: rank.to_string(), state: RankState::Up };
    ClusterMap { epoch: 1, ranks: (0..ranks as u16).map(info).collect(), ..Default::default() }
}
