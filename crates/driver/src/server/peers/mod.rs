//! Servers of one file system on several machines: their connections, one for each pair, and which rank is behind which. What ranks say to
//! each other goes straight from server to server. Who is to have which rank is `rank_placement.rs`'s; the bytes stand in docs/formats/link.md.
//!
//! A rank of another server can be reached from when that one has named it (`Here`) until it names it no more, or the connection ends. As
//! what is said for a rank comes behind the message that names it, a rank is told of another one before it hears from it.

mod meet;
mod proof;
mod questions;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use loligo_mds::Member;
use loligo_types::link::LinkMsg;
use loligo_types::peer::PeerMsg;
use loligo_types::{ClusterMap, Rank};
use loligo_wire::LINK_MAX;

use super::Seat;
use super::error::{Result, ServerError};
use super::link::{self, Link};
use super::membership::{MembershipEvent, Seats};
use super::rank::Done;

use self::questions::Questions;
pub use self::questions::{Replier, Unanswered};
use self::waiting::Waiting;

/// A connection on which nothing comes for so long is given up.
const SILENCE: Duration = Duration::from_secs(3);
/// Longest silence on each connection.
const BEAT: Duration = Duration::from_millis(750);
/// Time limit of connecting.
const CONNECT_TIME: Duration = Duration::from_secs(2);

/// The connections to the other servers.
pub(crate) struct Peers {
    fs_id: [u8; 16],
    me: u64,
    key: [u8; 32],
    seats: Seats,
    keeper: Sender<MembershipEvent>,
    at: SocketAddr,
    state: Mutex<State>,
    /// Those who connected and have proved nothing yet.
    waiting: Mutex<Waiting>,
    /// Of administrators, which have nothing to do with the ranks.
    questions: Questions,
}

#[derive(Default)]
struct State {
    /// Ranks of this server that others are told of, with the epochs in which it owns them.
    own: BTreeMap<Rank, u64>,
    /// Where ranks of others are: epoch, server.
    away: BTreeMap<Rank, (u64, u64)>,
    /// The highest epoch of each rank that was heard of: what is said of earlier ones is late.
    seen: BTreeMap<Rank, u64>,
    links: BTreeMap<u64, Wire>,
    /// Servers to which a connection is being made.
    connecting: BTreeSet<u64>,
    /// Servers there are, as far as was seen.
    there: BTreeMap<u64, String>,
    made: u64,
    is_closed: bool,
}

/// A connection to a server, of which there may have been others.
struct Wire {
    number: u64,
    link: Arc<Link>,
}

impl Peers {
    /// Begins to listen for others. `address`: HOST:PORT; port 0: a free one.
    pub(crate) fn start(
        (fs_id, me, key): ([u8; 16], u64, [u8; 32]),
        address: &str,
        seats: Seats,
        keeper: Sender<MembershipEvent>,
    ) -> Result<Arc<Peers>> {
        let refused =
            |error: io::Error| ServerError::Listen { address: format!("tcp:{address}"), cause: error.to_string() };
        let listener = TcpListener::bind(address).map_err(refused)?;
        let at = listener.local_addr().map_err(refused)?;
        let peers = Arc::new(Peers {
            fs_id,
            me,
            key,
            seats,
            keeper,
            at,
            state: Mutex::default(),
            waiting: Mutex::default(),
            questions: Questions::default(),
        });
        let own = peers.clone();
        let accept = move || {
            for stream in listener.incoming() {
                if own.lock().is_closed {
                    return;
                }
                let (peers, stream) = match stream {
                    Ok(stream) => (own.clone(), stream),
                    Err(error) => {
                        tracing::warn!("a server that connects could not be heard: {error}");
                        thread::sleep(BEAT);
                        continue;
                    }
                };
                let begun = peers.waiting().begin(&stream);
                let number = match begun {
                    Ok(number) => number,
                    Err(error) => {
                        peers.waiting().refused(&error);
                        continue;
                    }
                };
                let meet = move || {
                    let met = peers.accept(&stream);
                    peers.waiting().end(number);
                    match met {
                        Ok(server) => peers.serve(server, stream),
                        Err(error) => peers.waiting().refused(&error),
                    }
                };
                if let Err(error) = thread::Builder::new().name("loligo-peer".into()).spawn(meet) {
                    own.waiting().end(number);
                    tracing::warn!("a server that connects could not be heard: {error}");
                }
            }
        };
        thread::Builder::new().name("loligo-peers".into()).spawn(accept).map_err(refused)?;
        Ok(peers)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where others reach this server.
    pub(crate) fn at(&self) -> SocketAddr {
        self.at
    }

    /// Which servers there are, and where they are reached. Connections to others end.
    pub(crate) fn know(self: &Arc<Peers>, there: BTreeMap<u64, String>) {
        let mut state = self.lock();
        for (_, wire) in state.links.iter().filter(|(server, _)| !there.contains_key(server)) {
            wire.link.cut();
        }
        state.there = there;
        let State { there, links, connecting, is_closed, .. } = &mut *state;
        // The one with the lower number connects.
        let missing = |(server, at): &(&u64, &String)| {
            **server > self.me && !at.is_empty() && !links.contains_key(server) && !connecting.contains(server)
        };
        let missing: Vec<(u64, String)> =
            there.iter().filter(missing).filter(|_| !*is_closed).map(|(server, at)| (*server, at.clone())).collect();
        for (server, at) in missing {
            connecting.insert(server);
            let peers = self.clone();
            let connect = move || {
                let made = peers.connect(server, &at);
                peers.lock().connecting.remove(&server);
                match made {
                    Ok(stream) => peers.serve(server, stream),
                    Err(error) => tracing::debug!("no connection to another server at {at}: {error}"),
                }
            };
            if let Err(error) = thread::Builder::new().name("loligo-peer".into()).spawn(connect) {
                tracing::warn!("no connection to another server: {error}");
                connecting.remove(&server);
            }
        }
    }

    fn connect(&self, server: u64, at: &str) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in at.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, CONNECT_TIME) {
                Ok(stream) => return self.greet(&stream, server).map(|()| stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    // One connection.

    /// From when both sides know each other to its end.
    fn serve(&self, server: u64, mut stream: TcpStream) {
        let begun = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(SILENCE)))
            .and_then(|()| Link::start_beating(&stream, BEAT));
        let link = match begun {
            Ok(link) => link,
            Err(error) => return tracing::warn!("no connection to another server: {error}"),
        };
        let number = {
            let mut state = self.lock();
            if state.is_closed {
                return link.cut();
            }
            state.made += 1;
            let number = state.made;
            if let Some(before) = state.links.insert(server, Wire { number, link: link.clone() }) {
                before.link.cut();
                self.forget_ranks(&mut state, server);
            }
            link.send(here(&state.own));
            number
        };
        let end = match self.hear(server, number, &link, &mut stream) {
            Ok(()) => "it was closed".to_owned(),
            Err(error) => error.to_string(),
        };
        link.cut();
        let mut state = self.lock();
        if state.links.get(&server).is_some_and(|wire| wire.number == number) {
            tracing::info!("the connection to server {server:016x} has ended: {end}");
            state.links.remove(&server);
            self.forget_ranks(&mut state, server);
        }
        drop(state);
        self.questions.lost(number);
    }

    fn hear(&self, server: u64, number: u64, link: &Arc<Link>, stream: &mut TcpStream) -> io::Result<()> {
        let (mut body, open) = (Vec::new(), Arc::<AtomicUsize>::default());
        while let Some(msg) = link::read(stream, LINK_MAX, &mut body)? {
            match msg {
                LinkMsg::Beat => {}
                LinkMsg::Question { number, question } => self.questions.asked(link, &open, number, *question),
                LinkMsg::Reply { number: to, reply } => self.questions.replied(number, to, *reply),
                LinkMsg::Peer { from, to, process, msg } => self.deliver((server, number), from, to, process, msg),
                LinkMsg::Here { ranks } => self.named((server, number), link, &ranks),
                LinkMsg::Member { rank, member } => _ = self.keeper.send(MembershipEvent::Said(rank, member)),
                _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "a message came out of turn")),
            }
        }
        Ok(())
    }

    /// Brings a message to its rank, if it comes from where its sender is, for the rank as it is now.
    fn deliver(&self, (server, number): (u64, u64), from: Rank, to: Rank, epoch: u64, msg: Box<PeerMsg>) {
        let state = self.lock();
        let is_current = state.links.get(&server).is_some_and(|wire| wire.number == number);
        let is_there = state.away.get(&from).is_some_and(|(_, at)| *at == server);
        if is_current && is_there && state.own.get(&to) == Some(&epoch) {
            self.push(to, Done::Peer { from, msg });
        }
    }

    fn push(&self, rank: Rank, done: Done) {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seat) = seats.get(&rank) {
            seat.inbox.push(done);
        }
    }

    fn push_all(&self, state: &State, what: impl Fn() -> Done) {
        state.own.keys().for_each(|rank| self.push(*rank, what()));
    }

    /// A server says which ranks it runs.
    fn named(&self, (server, number): (u64, u64), link: &Arc<Link>, ranks: &[(Rank, u64)]) {
        let mut state = self.lock();
        if state.links.get(&server).is_none_or(|wire| wire.number != number) {
            return;
        }
        let gone: Vec<(Rank, u64)> = state
            .away
            .iter()
            .filter(|(rank, (epoch, at))| *at == server && !ranks.contains(&(**rank, *epoch)))
            .map(|(rank, (epoch, _))| (*rank, *epoch))
            .collect();
        for (rank, epoch) in gone {
            state.away.remove(&rank);
            self.push_all(&state, || Done::LinkDown { rank, process: Some(epoch) });
        }
        for (rank, epoch) in ranks {
            let is_late = state.seen.get(rank).is_some_and(|seen| seen > epoch);
            if is_late || state.away.get(rank) == Some(&(*epoch, server)) || state.own.contains_key(rank) {
                continue;
            }
            state.seen.insert(*rank, *epoch);
            // Of where it was nothing may have been heard yet.
            if let Some((before, _)) = state.away.insert(*rank, (*epoch, server)) {
                self.push_all(&state, || Done::LinkDown { rank: *rank, process: Some(before) });
            }
            self.push_all(&state, || Done::LinkUp { rank: *rank, process: *epoch, link: link.clone() });
        }
    }

    fn forget_ranks(&self, state: &mut State, server: u64) {
        let gone: Vec<(Rank, u64)> =
            state.away.iter().filter(|(_, (_, at))| *at == server).map(|(rank, (epoch, _))| (*rank, *epoch)).collect();
        for (rank, epoch) in gone {
            state.away.remove(&rank);
            self.push_all(state, || Done::LinkDown { rank, process: Some(epoch) });
        }
    }

    // What the keeper says.

    /// This server runs a rank, in that epoch, from now on. It is told of the others, and they of it: those of this server when nothing
    /// comes any more from where it was.
    pub(crate) fn begin(&self, rank: Rank, epoch: u64, seat: Arc<Seat>, map: &ClusterMap) {
        let mut state = self.lock();
        if let Some((before, _)) = state.away.remove(&rank) {
            self.push_all(&state, || Done::LinkDown { rank, process: Some(before) });
        }
        self.push_all(&state, || Done::Joined { map: map.clone(), rank, inbox: seat.inbox.clone() });
        state.seen.insert(rank, epoch);
        for (other, (epoch, server)) in &state.away {
            if let Some(wire) = state.links.get(server) {
                seat.inbox.push(Done::LinkUp { rank: *other, process: *epoch, link: wire.link.clone() });
            }
        }
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).insert(rank, seat);
        state.own.insert(rank, epoch);
        state.links.values().for_each(|wire| wire.link.send(here(&state.own)));
    }

    /// No more.
    pub(crate) fn end(&self, rank: Rank) {
        let mut state = self.lock();
        state.own.remove(&rank);
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).remove(&rank);
        state.links.values().for_each(|wire| wire.link.send(here(&state.own)));
    }

    /// Tells another server what a rank of this one says to the keeper of the map. False: it cannot be reached.
    pub(crate) fn say(&self, server: u64, rank: Rank, member: Member) -> bool {
        let state = self.lock();
        let wire = state.links.get(&server);
        wire.map(|wire| wire.link.send(LinkMsg::Member { rank, member })).is_some()
    }

    /// Ends all connections, when what was sent is out.
    pub(crate) fn stop(&self) {
        {
            let mut state = self.lock();
            state.is_closed = true;
            state.links.values().for_each(|wire| wire.link.finish());
        }
        // Wakes the thread that listens.
        let ip = if self.at.ip().is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { self.at.ip() };
        let _ = TcpStream::connect_timeout(&SocketAddr::new(ip, self.at.port()), CONNECT_TIME);
    }
}

fn here(own: &BTreeMap<Rank, u64>) -> LinkMsg {
    LinkMsg::Here { ranks: own.iter().map(|(rank, epoch)| (*rank, *epoch)).collect() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;

    use super::super::queue::Inbox;
    use super::*;
    use crate::sock::Waker;

    fn seat() -> Arc<Seat> {
        let inbox = Inbox::new(Waker::new().expect("a waker"));
        Arc::new(Seat { inbox, metrics: Arc::default(), advice: Arc::default(), addresses: Vec::new() })
    }

    /// Messages that a rank received from others.
    fn heard(seat: &Seat) -> Vec<String> {
        let mut all = Vec::new();
        seat.inbox.take(&mut all);
        let word = |done: &Done| match done {
            Done::LinkUp { rank, process, .. } => format!("{rank} up in {process}"),
            Done::LinkDown { rank, process } => format!("{rank} down in {}", process.unwrap_or_default()),
            Done::Joined { rank, .. } => format!("{rank} joined"),
            _ => "something else".into(),
        };
        all.iter().map(word).collect()
    }

    #[test]
    fn a_rank_that_goes_from_server_to_server_is_down_where_it_was_before_it_is_up_where_it_is() {
        let (keeper, _news) = channel();
        let peers = Peers::start(([0; 16], 1, [0; 32]), "127.0.0.1:0", Seats::default(), keeper).expect("it listens");
        let mut ends = Vec::new();
        let mut link = |server| {
            let (ours, theirs) = UnixStream::pair().expect("two sockets");
            let link = Link::start(&ours).expect("a thread");
            peers.lock().links.insert(server, Wire { number: server, link: link.clone() });
            ends.push((ours, theirs));
            link
        };
        let (two, three) = (link(2), link(3));
        let own = seat();
        peers.begin(Rank(0), 1, own.clone(), &ClusterMap::default());
        peers.named((2, 2), &two, &[(Rank(1), 4)]);
        assert_eq!(heard(&own), ["1 up in 4"]);
        // The server that had it has said nothing yet: it may hang.
        peers.named((3, 3), &three, &[(Rank(1), 5)]);
        assert_eq!(heard(&own), ["1 down in 4", "1 up in 5"]);
        peers.named((2, 2), &two, &[(Rank(1), 4)]);
        assert_eq!(heard(&own), [""; 0], "what is said late counts for nothing");
        peers.begin(Rank(1), 6, seat(), &ClusterMap::default());
        assert_eq!(heard(&own), ["1 down in 5", "1 joined"]);
        peers.named((3, 3), &three, &[(Rank(1), 5)]);
        assert_eq!(heard(&own), [""; 0]);
        peers.stop();
    }
}
