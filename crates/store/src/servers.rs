//! Records of several servers of one file system in the store that they share: which servers exist, the leader, the owner of each rank, and
//! its intended owner. The store keeps them and says which servers are gone; the consequences are decided elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Result;

/// Roles of a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerFlags {
    /// It takes its share of the ranks when it comes; otherwise it stands by for those that fail.
    pub shares: bool,
    /// It is about to end, and takes nothing more.
    pub stops: bool,
}

/// A server as the others see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerSeen {
    /// For people: what it is called, or which process of which machine it is.
    pub name: String,
    /// Where other servers reach it; empty: it has not said so yet.
    pub at: String,
    /// Its roles.
    pub flags: ServerFlags,
    /// It said nothing for so long that it can be replaced, or is known to be dead.
    pub is_gone: bool,
}

/// The owner of a rank.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankSeen {
    /// The server that has it, or had it last.
    pub server: u64,
    /// Grows with each owner.
    pub epoch: u64,
    /// It has not been given back, and its owner is not known to be gone.
    pub is_held: bool,
    /// Where clients reach it; empty: it does not serve yet.
    pub at: String,
}

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sight {
    /// The server that keeps the cluster map, if it is not known to be gone.
    pub leader: Option<u64>,
    /// The servers, by number.
    pub servers: BTreeMap<u64, ServerSeen>,
    /// The ranks that ever were.
    pub ranks: BTreeMap<u32, RankSeen>,
    /// Which server is to have which rank.
    pub wants: BTreeMap<u32, u64>,
    /// The cluster map, as the leader put it down.
    pub map: Vec<u8>,
}

/// Of a store that several servers share.
pub trait Servers: Send + Sync {
    /// The number of this server.
    fn me(&self) -> u64;

    /// After so long a silent server can be replaced.
    fn lease_time(&self) -> Duration;

    /// Reads all records. A server that is gone shows only after several looks in the time of a lease.
    fn look(&self) -> Result<Sight>;

    /// A secret that only servers of this file system know: the proof of being one of them.
    fn key(&self) -> Result<[u8; 32]>;

    /// Publishes this server's address and roles.
    fn announce(&self, at: &str, flags: ServerFlags) -> Result<()>;

    /// Takes the lead, if nobody has it. Whether this server has it now. `wait`: of one that has it and is silent, for as long as it takes to
    /// know whether it is gone; otherwise who may be there counts as there.
    fn lead(&self, wait: bool) -> Result<bool>;

    /// Where clients reach a rank that this server owns.
    fn announce_rank(&self, rank: u32, at: &str) -> Result<()>;

    /// Gives back a rank that this server owns: from now on others may own it. Nothing of it may be under way.
    fn disown(&self, rank: u32) -> Result<()>;

    /// The epoch in which this server owns a rank; `None`: it does not.
    fn epoch(&self, rank: u32) -> Option<u64>;

    /// The leader's: who is to have which rank (`None`: nobody), and the map if it has changed. All together, or nothing.
    fn place(&self, wants: &[(u32, Option<u64>)], map: Option<&[u8]>) -> Result<()>;

    /// The leader's: strikes out a server that is gone, and has no rank.
    fn forget(&self, server: u64) -> Result<()>;
}
