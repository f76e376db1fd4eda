//! The ranks of one process: how many there are, where each listens, how they reach each other, and that they end
//! together. What they say to each other is the machines'.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loligo_mds::peer::PeerMsg;
use loligo_types::{ClusterMap, Rank, RankInfo, RankState};

use super::error::{Result, ServerError};
use super::queue::Inbox;
use super::rank::Done;
use crate::Address;

/// Most ranks of a process.
pub const RANKS_MAX: u16 = 64;

/// How many ranks to start, of those that were asked for (0: as many as there were) and those there were, each of which
/// may have changes in its journal that the table lacks.
pub(crate) fn ranks_to_start(asked: u16, there: u32) -> Result<u16> {
    let there = u16::try_from(there).unwrap_or(u16::MAX);
    match asked {
        0 if there <= RANKS_MAX => Ok(there),
        0 => Err(ServerError::TooManyRanks { asked: there }),
        asked if asked > RANKS_MAX => Err(ServerError::TooManyRanks { asked }),
        asked if asked < there => Err(ServerError::FewerRanks { asked, there }),
        asked => Ok(asked),
    }
}

/// Where a rank listens, if rank 0 listens there: `loligo.sock` becomes `loligo-2.sock`, and a port the second behind
/// (one that the system chooses stays one).
pub(crate) fn address_of(address: &Address, rank: Rank) -> Result<Address> {
    if rank == Rank::ZERO {
        return Ok(address.clone());
    }
    match address {
        Address::Unix(path) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let (stem, end) =
                name.rsplit_once('.').map_or((name.as_str(), String::new()), |(s, e)| (s, format!(".{e}")));
            Ok(Address::Unix(path.with_file_name(format!("{stem}-{rank}{end}"))))
        }
        Address::Tcp(at) => {
            let no_port = || ServerError::Listen {
                address: address.to_string(),
                cause: format!("there is no port {rank} above it for rank {rank}; choose a lower one"),
            };
            let (host, port) = at.rsplit_once(':').ok_or_else(no_port)?;
            let port: u16 = port.parse().map_err(|_| no_port())?;
            let port = if port == 0 { 0 } else { port.checked_add(rank.0).ok_or_else(no_port)? };
            Ok(Address::Tcp(format!("{host}:{port}")))
        }
        Address::Pair(_) => Ok(address.clone()),
    }
}

/// The cluster map of ranks that listen at these addresses, rank 0 first. A lone rank has nobody to tell of.
pub(crate) fn map_of(addresses: &[Vec<Address>]) -> ClusterMap {
    if addresses.len() == 1 {
        return ClusterMap::default();
    }
    let info = |(rank, addresses): (u16, &Vec<Address>)| RankInfo {
        rank: Rank(rank),
        address: addresses.first().map(Address::to_string).unwrap_or_default(),
        state: RankState::Up,
    };
    ClusterMap { epoch: 1, ranks: (0..).zip(addresses).map(info).collect() }
}

/// A rank's way to the others.
pub(crate) struct Others {
    own: Rank,
    /// Of all ranks, by number.
    inboxes: Vec<Arc<Inbox<Done>>>,
    /// How many have not come to a clean stop.
    unstopped: Arc<AtomicUsize>,
    has_stopped: bool,
}

impl Others {
    /// For each rank one.
    pub(crate) fn of(inboxes: &[Arc<Inbox<Done>>]) -> Vec<Others> {
        let unstopped = Arc::new(AtomicUsize::new(inboxes.len()));
        let others = |own: u16| Others {
            own: Rank(own),
            inboxes: inboxes.to_vec(),
            unstopped: unstopped.clone(),
            has_stopped: false,
        };
        (0..inboxes.len() as u16).map(others).collect()
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.inboxes.len() == 1
    }

    /// How many ranks there are, this one included.
    pub(crate) fn count(&self) -> usize {
        self.inboxes.len()
    }

    pub(crate) fn own(&self) -> Rank {
        self.own
    }

    /// The ranks beside this one.
    pub(crate) fn ranks(&self) -> Vec<Rank> {
        (0..self.inboxes.len() as u16).map(Rank).filter(|rank| *rank != self.own).collect()
    }

    /// Puts a message into the inbox of another rank; those to the same rank come in the order sent.
    pub(crate) fn send(&self, to: Rank, msg: PeerMsg) {
        match self.inboxes.get(usize::from(to.0)) {
            Some(inbox) if to != self.own => inbox.push(Done::Peer { from: self.own, msg: Box::new(msg) }),
            _ => tracing::error!("rank {} has a message for rank {to}, which is not there; this is a bug", self.own),
        }
    }

    /// This rank has come to a clean stop. It goes on hearing the others, which may need its answers for theirs; when
    /// the last one has stopped, all are told, this one by the result.
    pub(crate) fn stopped(&mut self) -> bool {
        if std::mem::replace(&mut self.has_stopped, true) || self.unstopped.fetch_sub(1, Ordering::AcqRel) > 1 {
            return false;
        }
        for rank in self.ranks() {
            self.inboxes[usize::from(rank.0)].push(Done::AllStopped);
        }
        true
    }

    /// This rank cannot go on, and so nobody can: what it has, the others may need.
    pub(crate) fn failed(&self, text: &str) {
        for rank in self.ranks() {
            self.inboxes[usize::from(rank.0)].push(Done::OtherFailed(text.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rank_has_an_address_of_its_own_beside_the_first() {
        for (first, second) in [
            ("unix:/d/loligo.sock", "unix:/d/loligo-2.sock"),
            ("unix:/d.x/socket", "unix:/d.x/socket-2"),
            ("tcp:127.0.0.1:70", "tcp:127.0.0.1:72"),
            ("tcp:[::1]:0", "tcp:[::1]:0"),
        ] {
            let first: Address = first.parse().expect("an address");
            assert_eq!(address_of(&first, Rank(2)).expect("there is one").to_string(), second);
            assert_eq!(address_of(&first, Rank::ZERO).expect("there is one").to_string(), first.to_string());
        }
        let last: Address = "tcp:127.0.0.1:65535".parse().expect("an address");
        assert!(address_of(&last, Rank(1)).expect_err("no such port").to_string().contains("lower"));
    }

    #[test]
    fn ranks_are_added_and_never_left_out() {
        assert_eq!(ranks_to_start(3, 1).ok(), Some(3));
        assert_eq!(ranks_to_start(0, 3).ok(), Some(3));
        assert!(ranks_to_start(2, 3).expect_err("refused").to_string().contains("--ranks 3"));
        assert!(ranks_to_start(65, 3).is_err() && ranks_to_start(0, 65).is_err());
    }
}
