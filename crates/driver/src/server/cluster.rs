//! Connections between ranks, of the same process and of others: where each listens, and their common end. Not here: the content of their
//! messages, which is the machines'.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use loligo_mds::Member;
use loligo_mds::peer::PeerMsg;
use loligo_types::Rank;
use loligo_types::limits::ADDRESS_MAX;
use loligo_types::link::LinkMsg;

use super::error::{Result, ServerError};
use super::link::Link;
use super::membership::MembershipEvent;
use super::queue::Inbox;
use super::rank::Done;
use crate::Address;

/// Most ranks of a process, with those of processes that joined it. A change to a directory with fragments at all of them is
/// one record with a letter for each, of up to some 30 KiB (attributes, both ACLs): with more than 500 it might be longer
/// than the journal takes.
pub const RANKS_MAX: u16 = 64;

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
        Address::Any(_) | Address::Pair(_) => Ok(address.clone()),
    }
}

/// The address that clients are told for a rank: all of its addresses, as some clients may use one and some another.
pub(crate) fn told(addresses: &[Address]) -> Option<Address> {
    let all = Address::Any(addresses.into());
    let text = all.to_string();
    let is_read = || text.parse::<Address>().is_ok_and(|read| read.each().len() == addresses.len());
    if addresses.len() > 1 && text.len() <= ADDRESS_MAX && is_read() { Some(all) } else { addresses.first().cloned() }
}

/// A rank's way to the others, and to the keeper of the map.
pub(crate) struct Others {
    own: Rank,
    /// Of all ranks of this process, this one too.
    inboxes: BTreeMap<Rank, Arc<Inbox<Done>>>,
    /// To ranks of other processes, with the number of their process, as long as they can be reached.
    links: BTreeMap<Rank, (u64, Arc<Link>)>,
    /// To the owner, in a process that joined: it says when all have stopped.
    owner: Option<Arc<Link>>,
    /// The process that joined stops without the others.
    departs: bool,
    /// Other processes may run ranks.
    has_others: bool,
    keeper: Sender<MembershipEvent>,
    /// Number of ranks that have not come to a clean stop.
    unstopped: Arc<AtomicUsize>,
    has_stopped: bool,
    /// This one is to end when it has stopped, without the others.
    is_leaving: bool,
    /// Each rank of the file system starts and stops for itself.
    is_apart: bool,
}

impl Others {
    pub(crate) fn new(
        own: Rank,
        inboxes: BTreeMap<Rank, Arc<Inbox<Done>>>,
        unstopped: Arc<AtomicUsize>,
        keeper: Sender<MembershipEvent>,
    ) -> Others {
        let (links, owner) = (BTreeMap::new(), None);
        Others {
            own,
            inboxes,
            links,
            owner,
            has_others: false,
            departs: false,
            keeper,
            unstopped,
            has_stopped: false,
            is_leaving: false,
            is_apart: false,
        }
    }

    /// Other processes run ranks, too; `owner`: the one that lets this one run some.
    pub(crate) fn among(mut self, owner: Option<Arc<Link>>) -> Others {
        (self.owner, self.has_others) = (owner, true);
        self
    }

    /// Each rank starts and stops for itself, as others may run it.
    pub(crate) fn apart(mut self) -> Others {
        (self.has_others, self.is_apart) = (true, true);
        self
    }

    pub(crate) fn stands_apart(&self) -> bool {
        self.is_apart
    }

    /// True if there is a connection to a rank of another process; to that life of it, if one is named.
    pub(crate) fn reaches(&self, rank: Rank, process: Option<u64>) -> bool {
        self.links.get(&rank).is_some_and(|(is, _)| process.is_none_or(|process| process == *is))
    }

    /// There is none any more.
    pub(crate) fn unreach(&mut self, rank: Rank) {
        self.links.remove(&rank);
    }

    /// A rank of another process can be reached.
    pub(crate) fn reach(&mut self, rank: Rank, process: u64, link: Arc<Link>) {
        self.links.insert(rank, (process, link));
    }

    /// The process, which has joined, stops alone: nobody else is waited for, or told.
    pub(crate) fn depart(&mut self) {
        self.departs = true;
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.inboxes.len() == 1 && !self.has_others
    }

    /// Number of ranks, this one included.
    pub(crate) fn count(&self) -> usize {
        self.inboxes.len()
    }

    pub(crate) fn own(&self) -> Rank {
        self.own
    }

    /// The ranks beside this one.
    pub(crate) fn ranks(&self) -> Vec<Rank> {
        self.inboxes.keys().copied().filter(|rank| *rank != self.own).collect()
    }

    /// The inbox of another rank.
    pub(crate) fn inbox(&self, rank: Rank) -> Option<&Arc<Inbox<Done>>> {
        self.inboxes.get(&rank).filter(|_| rank != self.own)
    }

    /// There is another rank.
    pub(crate) fn join(&mut self, rank: Rank, inbox: Arc<Inbox<Done>>) {
        self.links.remove(&rank);
        self.inboxes.insert(rank, inbox);
    }

    /// A rank is gone.
    pub(crate) fn part(&mut self, rank: Rank) {
        self.inboxes.remove(&rank);
        self.links.remove(&rank);
    }

    /// This rank is to end alone.
    pub(crate) fn leave(&mut self) {
        self.is_leaving = true;
    }

    /// Says something to the keeper of the map.
    pub(crate) fn say(&self, member: Member) {
        // Without one the server is at its end.
        let _ = self.keeper.send(MembershipEvent::Said(self.own, member));
    }

    /// Puts a message into the inbox of another rank; those to the same rank come in the order sent.
    pub(crate) fn send(&self, to: Rank, msg: PeerMsg) {
        match self.inboxes.get(&to) {
            Some(inbox) if to != self.own => inbox.push(Done::Peer { from: self.own, msg: Box::new(msg) }),
            _ => self.send_away(to, msg),
        }
    }

    /// The same to a rank of another process.
    fn send_away(&self, to: Rank, msg: PeerMsg) {
        match self.links.get(&to) {
            Some((process, link)) => {
                link.send(LinkMsg::Peer { from: self.own, to, process: *process, msg: Box::new(msg) });
            }
            // Its process went away a moment ago, which the machine is about to hear.
            None if self.has_others && to != self.own => {}
            None => tracing::error!("rank {} has a message for rank {to}, which is not there; this is a bug", self.own),
        }
    }

    /// This rank has come to a clean stop. It goes on hearing the others, which may need its answers for theirs; when
    /// the last one has stopped, all are told, this one by the result. One that leaves does not wait for that.
    pub(crate) fn stopped(&mut self) -> bool {
        if self.is_apart {
            self.has_stopped = true;
            return true;
        }
        if std::mem::replace(&mut self.has_stopped, true) || self.unstopped.fetch_sub(1, Ordering::AcqRel) > 1 {
            return self.is_leaving;
        }
        match &self.owner {
            None => self.links.values().for_each(|(_, link)| link.send(LinkMsg::AllStopped)),
            Some(_) if self.departs => {}
            Some(owner) => {
                owner.send(LinkMsg::Stopped);
                return self.is_leaving;
            }
        }
        self.tell_others(|| Done::AllStopped);
        true
    }

    fn tell_others(&self, what: impl Fn() -> Done) {
        let others = self.inboxes.iter().filter(|(rank, _)| **rank != self.own);
        others.for_each(|(_, inbox)| inbox.push(what()));
    }

    /// This rank cannot go on, and so nobody of this process can: what it has, the others may need.
    pub(crate) fn failed(&self, text: &str) {
        self.tell_others(|| Done::OtherFailed(text.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_all_addresses_that_they_can_read() {
        let parse = |text: &str| text.parse::<Address>().expect("an address");
        let told = |all: &[Address]| told(all).map(|told| told.to_string());
        assert_eq!(told(&[]), None);
        assert_eq!(told(&[parse("/d/a")]).as_deref(), Some("unix:/d/a"));
        assert_eq!(told(&[parse("/d/a"), parse("h:1")]).as_deref(), Some("unix:/d/a,tcp:h:1"));
        assert_eq!(
            told(&[parse("/d,1/a"), parse("h:1")]).as_deref(),
            Some("unix:/d,1/a"),
            "it would be read as another"
        );
    }

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
}
