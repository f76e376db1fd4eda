//! At the owner of a data directory: the processes that run ranks on its store. It lets them in, serves them the store, and
//! carries what ranks of different processes say to each other; two that joined talk through it. The rules stand in
//! docs/cluster.md, "Several processes", the messages in docs/formats/link.md.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use loligo_store_remote::Service;
use loligo_types::link::{Join, Joined, LINK_VERSION, LinkMsg, Member, NotJoined};
use loligo_types::{ClusterMap, Rank, RankState};
use loligo_wire::{JOIN_MAX, LINK_MAX};

use super::error::{Result, ServerError};
use super::link::{self, Link};
use super::listen;
use super::membership::{MembershipEvent, Seats, names};
use super::rank::Done;
use crate::Address;

/// Time limit for a process that joins to name itself.
const JOIN_TIME: Duration = Duration::from_secs(5);
/// Time limit for processes that joined to end when all have stopped.
const END_TIME: Duration = Duration::from_secs(20);

/// The owner's side of the processes that joined.
pub(crate) struct StoreOwner {
    fs_id: [u8; 16],
    data_epoch: u64,
    /// The ranks that others run.
    elsewhere: BTreeSet<Rank>,
    socket: PathBuf,
    seats: Seats,
    keeper: Sender<MembershipEvent>,
    unstopped: Arc<AtomicUsize>,
    state: Mutex<State>,
    ended: Condvar,
    /// Where the ranks elsewhere are reached; apart, as it is asked for while other locks are held.
    addresses: Mutex<BTreeMap<Rank, Address>>,
}

struct State {
    /// `None`: at its end.
    store: Option<Arc<Service>>,
    map: ClusterMap,
    next_process: u64,
    is_stopping: bool,
    processes: BTreeMap<u64, Process>,
    /// Ranks that have come to a clean stop, with all in the table.
    clean: BTreeSet<Rank>,
}

/// One that joined.
struct Process {
    /// The lowest rank that it was started with.
    first: Rank,
    ranks: BTreeSet<Rank>,
    pid: u32,
    link: Arc<Link>,
    ticket: u64,
    /// Its ranks can be reached.
    is_up: bool,
    /// They have come to a clean stop.
    has_stopped: bool,
}

impl State {
    fn of_rank(&self, rank: Rank) -> Option<(u64, &Process)> {
        let has = |(_, process): &(&u64, &Process)| process.ranks.contains(&rank);
        self.processes.iter().find(has).map(|(number, process)| (*number, process))
    }

    fn tell_all(&self, msg: &LinkMsg) {
        let up = self.processes.values().filter(|process| process.is_up);
        up.for_each(|process| process.link.send(msg.clone()));
    }
}

/// Parts of a hub.
pub(crate) struct StoreOwnerParts {
    pub(crate) fs_id: [u8; 16],
    pub(crate) data_epoch: u64,
    pub(crate) elsewhere: BTreeSet<Rank>,
    pub(crate) addresses: BTreeMap<Rank, Address>,
    pub(crate) store: Service,
    pub(crate) socket: PathBuf,
    pub(crate) seats: Seats,
    pub(crate) keeper: Sender<MembershipEvent>,
    pub(crate) unstopped: Arc<AtomicUsize>,
    pub(crate) map: ClusterMap,
}

impl StoreOwner {
    /// Begins to let processes in.
    pub(crate) fn start(parts: StoreOwnerParts) -> Result<Arc<StoreOwner>> {
        let StoreOwnerParts { fs_id, data_epoch, elsewhere, addresses, store, socket, seats, keeper, unstopped, map } =
            parts;
        let refused = |error: io::Error| ServerError::Listen {
            address: format!("unix:{}", socket.display()),
            cause: error.to_string(),
        };
        let listener = listen::unix_blocking(&socket).map_err(refused)?;
        let hub = Arc::new(StoreOwner {
            fs_id,
            data_epoch,
            elsewhere,
            socket: socket.clone(),
            seats,
            keeper,
            unstopped,
            state: Mutex::new(State {
                store: Some(Arc::new(store)),
                map,
                next_process: 1,
                is_stopping: false,
                processes: BTreeMap::new(),
                clean: BTreeSet::new(),
            }),
            ended: Condvar::new(),
            addresses: Mutex::new(addresses),
        });
        let own = hub.clone();
        let accept = move || {
            for stream in listener.incoming() {
                if own.lock().store.is_none() {
                    return;
                }
                let hub = own.clone();
                let served = stream.and_then(|stream| {
                    thread::Builder::new().name("loligo-joined".into()).spawn(move || hub.serve(stream))
                });
                if let Err(error) = served {
                    tracing::warn!("a process that wants to join could not be heard: {error}");
                }
            }
        };
        thread::Builder::new().name("loligo-hub".into()).spawn(accept).map_err(refused)?;
        Ok(hub)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where clients reach a rank that another process runs, or will.
    pub(crate) fn address(&self, rank: Rank) -> Option<Address> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).get(&rank).cloned()
    }

    fn push(&self, rank: Rank, done: Done) -> bool {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.get(&rank).map(|seat| seat.inbox.push(done)).is_some()
    }

    fn own_ranks(&self) -> Vec<Rank> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// The processes whose ranks can be reached: the lowest that each was started with, and those that it has.
    pub(crate) fn joined(&self) -> Vec<(Rank, Vec<Rank>)> {
        let state = self.lock();
        let up = state.processes.values().filter(|process| process.is_up);
        up.map(|process| (process.first, process.ranks.iter().copied().collect())).collect()
    }

    /// State in the map of a rank that another process runs; `None`: it does not exist, or is the owner's.
    pub(crate) fn state_elsewhere(&self, rank: Rank) -> Option<RankState> {
        let is_own = self.own_ranks().contains(&rank);
        let state = self.lock();
        let info = state.map.ranks.iter().find(|info| info.rank == rank);
        info.filter(|_| !is_own && self.elsewhere.contains(&rank)).map(|info| info.state)
    }

    // What the keeper says.

    /// The map has changed.
    pub(crate) fn tell_map(&self, map: &ClusterMap) {
        let mut state = self.lock();
        state.map = map.clone();
        state.tell_all(&LinkMsg::Map(map.clone()));
    }

    /// The owner runs another rank: it and those of others can reach each other.
    pub(crate) fn greet(&self, rank: Rank) {
        let state = self.lock();
        state.tell_all(&LinkMsg::Up { rank, process: 0 });
        for (number, process) in state.processes.iter().filter(|(_, process)| process.is_up) {
            for other in &process.ranks {
                self.push(rank, Done::LinkUp { rank: *other, process: *number, link: process.link.clone() });
            }
        }
    }

    /// A rank of the owner is gone.
    pub(crate) fn part(&self, rank: Rank) {
        self.lock().tell_all(&LinkMsg::Down { rank });
    }

    /// A rank that has nothing any more is to stop alone. False: no process runs it.
    pub(crate) fn leave(&self, rank: Rank) -> bool {
        let state = self.lock();
        state.of_rank(rank).map(|(_, process)| process.link.send(LinkMsg::Leave { rank })).is_some()
    }

    /// A process has recovered its ranks, which are there: all can reach each other. The map is told before.
    pub(crate) fn arrived(&self, number: u64) {
        let mut state = self.lock();
        let state = &mut *state;
        let Some(process) = state.processes.get_mut(&number).filter(|process| !process.is_up) else { return };
        process.is_up = true;
        self.unstopped.fetch_add(process.ranks.len(), Ordering::AcqRel);
        let (ranks, link) = (process.ranks.clone(), process.link.clone());
        link.send(LinkMsg::Map(state.map.clone()));
        for (other, process) in state.processes.iter().filter(|(other, process)| **other != number && process.is_up) {
            process.ranks.iter().for_each(|rank| link.send(LinkMsg::Up { rank: *rank, process: *other }));
            ranks.iter().for_each(|rank| process.link.send(LinkMsg::Up { rank: *rank, process: number }));
        }
        for own in self.own_ranks() {
            link.send(LinkMsg::Up { rank: own, process: 0 });
            for rank in &ranks {
                self.push(own, Done::LinkUp { rank: *rank, process: number, link: link.clone() });
            }
        }
        if state.is_stopping {
            link.send(LinkMsg::Stop);
        }
    }

    /// All are to stop.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.is_stopping = true;
        state.tell_all(&LinkMsg::Stop);
        for process in state.processes.values().filter(|process| !process.is_up) {
            let text = "the server is stopping: start it again first".to_owned();
            process.link.send(LinkMsg::Refused { why: NotJoined::Stopping, text });
            process.link.finish();
        }
    }

    /// The owner's ranks have ended; waits until the others have, and ends what serves them. Whether all ranks elsewhere have
    /// come to a clean stop.
    pub(crate) fn end(&self, is_clean: bool) -> bool {
        let (store, clean) = {
            let mut state = self.lock();
            if is_clean {
                let (left, _) = self
                    .ended
                    .wait_timeout_while(state, END_TIME, |state| !state.processes.is_empty())
                    .unwrap_or_else(PoisonError::into_inner);
                state = left;
            }
            state.processes.values().for_each(|process| process.link.cut());
            let clean = self
                .elsewhere
                .iter()
                .all(|rank| state.clean.contains(rank) || !state.map.ranks.iter().any(|info| info.rank == *rank));
            (state.store.take(), clean)
        };
        // Wakes the thread that lets processes in.
        let _ = UnixStream::connect(&self.socket);
        let _ = std::fs::remove_file(&self.socket);
        drop(store);
        clean
    }

    // One process.

    /// From its first message to its end.
    fn serve(self: Arc<StoreOwner>, mut stream: UnixStream) {
        let (number, link) = match self.let_in(&mut stream) {
            Ok(entered) => entered,
            Err(error) => return tracing::warn!("a process did not join: {error}"),
        };
        let why = match self.hear(number, &mut stream) {
            Ok(()) => "it has ended".to_owned(),
            Err(error) => error.to_string(),
        };
        link.cut();
        self.lost(number, &why);
    }

    fn let_in(&self, stream: &mut UnixStream) -> io::Result<(u64, Arc<Link>)> {
        stream.set_read_timeout(Some(JOIN_TIME))?;
        let link = Link::start(stream)?;
        let refuse = |why, text: String| {
            link.send(LinkMsg::Refused { why, text: text.clone() });
            link.finish();
            Err(io::Error::other(text))
        };
        let uid = rustix::net::sockopt::socket_peercred(&*stream)?.uid;
        if uid != rustix::process::geteuid() && !uid.is_root() {
            return refuse(NotJoined::NotAuthorized, format!("user {} does not own this file system", uid.as_raw()));
        }
        let join = match link::read(stream, JOIN_MAX, &mut Vec::new()) {
            Ok(Some(LinkMsg::Join(join))) => join,
            Ok(_) => return refuse(NotJoined::Malformed, "the first message is not the one to join".into()),
            Err(error) => return refuse(NotJoined::Malformed, error.to_string()),
        };
        stream.set_read_timeout(None)?;
        let mut state = self.lock();
        if let Err((why, text)) = self.may_join(&state, &join) {
            return refuse(why, text);
        }
        let Some(store) = &state.store else { return refuse(NotJoined::Stopping, "the server has ended".into()) };
        let ticket = store.admit(join.ranks.iter().map(|rank| u32::from(rank.0)).collect());
        let path = store.path().display().to_string();
        let number = state.next_process;
        state.next_process += 1;
        link.send(LinkMsg::Joined(Joined {
            version: LINK_VERSION,
            fs_id: self.fs_id,
            process: number,
            ticket,
            store: path,
            data_epoch: self.data_epoch,
            map: state.map.clone(),
        }));
        tracing::info!("process {} runs rank {} from now on", join.pid, names(join.ranks.iter()));
        let ranks: BTreeSet<Rank> = join.ranks.iter().copied().collect();
        state.clean.retain(|rank| !ranks.contains(rank));
        let process = Process {
            first: join.ranks[0],
            ranks,
            pid: join.pid,
            link: link.clone(),
            ticket,
            is_up: false,
            has_stopped: false,
        };
        state.processes.insert(number, process);
        Ok((number, link))
    }

    fn may_join(&self, state: &State, join: &Join) -> std::result::Result<(), (NotJoined, String)> {
        if join.versions.0 > LINK_VERSION || join.versions.1 < LINK_VERSION {
            let text = format!(
                "the server speaks version {LINK_VERSION} of the protocol between processes, this one {} to {}: use \
                 programs of one release",
                join.versions.0, join.versions.1
            );
            return Err((NotJoined::Version, text));
        }
        if join.fs_id.is_some_and(|fs_id| fs_id != self.fs_id) {
            let text = "the server has another file system: name its data directory".to_owned();
            return Err((NotJoined::OtherFileSystem, text));
        }
        if state.is_stopping {
            return Err((NotJoined::Stopping, "the server is stopping: start it again first".into()));
        }
        // The number of one that was drained may be the owner's by now.
        let own = self.own_ranks();
        let there = |rank: &Rank| {
            let is_elsewhere = self.elsewhere.contains(rank) && !own.contains(rank);
            is_elsewhere && state.map.ranks.iter().any(|info| info.rank == *rank)
        };
        if let Some(rank) = join.ranks.iter().find(|rank| !there(rank)) {
            let text = format!(
                "the server itself runs rank {rank}, or there is none: it leaves rank {} to others; start it with \
                 --elsewhere {rank} to change that",
                names(self.elsewhere.iter())
            );
            return Err((NotJoined::NoSuchRank, text));
        }
        if join.ranks.is_empty() {
            return Err((NotJoined::NoSuchRank, "a process has to run a rank at least".into()));
        }
        for rank in &join.ranks {
            if let Some((_, process)) = state.of_rank(*rank) {
                let text = format!("process {} runs rank {rank}: stop that one first", process.pid);
                return Err((NotJoined::InUse, text));
            }
        }
        Ok(())
    }

    /// Until it ends.
    fn hear(&self, number: u64, stream: &mut UnixStream) -> io::Result<()> {
        let mut body = Vec::new();
        while let Some(msg) = link::read(stream, LINK_MAX, &mut body)? {
            match msg {
                LinkMsg::Peer { from, to, process, msg } => self.carry(number, from, to, process, msg)?,
                LinkMsg::Ready { addresses } => self.ready(number, addresses)?,
                LinkMsg::Member { rank, member } => self.said(number, rank, member)?,
                LinkMsg::Left { rank } => self.left(number, rank),
                LinkMsg::Stopped => self.stopped(number),
                _ => return Err(out_of_turn()),
            }
        }
        Ok(())
    }

    /// Brings a message to its rank, if that is where the sender believes it to be.
    fn carry(
        &self,
        number: u64,
        from: Rank,
        to: Rank,
        process: u64,
        msg: Box<loligo_mds::peer::PeerMsg>,
    ) -> io::Result<()> {
        let state = self.lock();
        if !state.processes.get(&number).is_some_and(|sender| sender.is_up && sender.ranks.contains(&from)) {
            return Err(out_of_turn());
        }
        if process == 0 {
            self.push(to, Done::Peer { from, msg });
        } else if let Some(receiver) = state.processes.get(&process).filter(|p| p.is_up && p.ranks.contains(&to)) {
            receiver.link.send(LinkMsg::Peer { from, to, process, msg });
        }
        Ok(())
    }

    fn ready(&self, number: u64, addresses: Vec<(Rank, String)>) -> io::Result<()> {
        let parsed: Option<BTreeMap<Rank, Address>> =
            addresses.into_iter().map(|(rank, address)| Some((rank, address.parse().ok()?))).collect();
        let parsed = parsed.ok_or_else(out_of_turn)?;
        {
            let state = self.lock();
            let ranks = state.processes.get(&number).map(|process| &process.ranks);
            if !ranks.is_some_and(|ranks| parsed.keys().all(|rank| ranks.contains(rank))) {
                return Err(out_of_turn());
            }
        }
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).extend(parsed);
        // Without a keeper the server is at its end.
        let _ = self.keeper.send(MembershipEvent::Arrived(number));
        Ok(())
    }

    fn said(&self, number: u64, rank: Rank, member: Member) -> io::Result<()> {
        if !self.lock().processes.get(&number).is_some_and(|process| process.ranks.contains(&rank)) {
            return Err(out_of_turn());
        }
        let _ = self.keeper.send(MembershipEvent::Said(rank, member));
        Ok(())
    }

    /// A rank was drained and has ended.
    fn left(&self, number: u64, rank: Rank) {
        let is_counted = {
            let mut state = self.lock();
            let Some(process) = state.processes.get_mut(&number) else { return };
            if !process.ranks.remove(&rank) {
                return;
            }
            // The last one of a process has said so with all others.
            let is_counted = process.has_stopped;
            state.clean.insert(rank);
            is_counted
        };
        if !is_counted {
            self.fewer(1);
        }
        let _ = self.keeper.send(MembershipEvent::LeftElsewhere(rank));
    }

    fn stopped(&self, number: u64) {
        let count = {
            let mut state = self.lock();
            let Some(process) = state.processes.get_mut(&number).filter(|process| !process.has_stopped) else { return };
            process.has_stopped = true;
            process.ranks.len()
        };
        self.fewer(count);
    }

    /// So many ranks less are waited for when all stop; if these were the last, all are told.
    fn fewer(&self, count: usize) {
        if count == 0 || self.unstopped.fetch_sub(count, Ordering::AcqRel) > count {
            return;
        }
        self.lock().tell_all(&LinkMsg::AllStopped);
        for rank in self.own_ranks() {
            self.push(rank, Done::AllStopped);
        }
    }

    /// A process has ended, however it did. When this returns, another one may run its ranks.
    fn lost(&self, number: u64, why: &str) {
        let (ticket, store, missing) = {
            let mut state = self.lock();
            let Some(process) = state.processes.get_mut(&number) else { return };
            let was_up = std::mem::replace(&mut process.is_up, false);
            let (ranks, ticket, has_stopped) = (process.ranks.clone(), process.ticket, process.has_stopped);
            if !ranks.is_empty() {
                let rest = if has_stopped { "stopped" } else { "can be reached again when it was started again" };
                tracing::info!("process {} is gone ({why}): rank {} {rest}", process.pid, names(ranks.iter()));
            }
            if has_stopped {
                state.clean.extend(ranks.iter().copied());
            }
            for rank in ranks.iter().filter(|_| was_up) {
                state.tell_all(&LinkMsg::Down { rank: *rank });
                self.own_ranks()
                    .into_iter()
                    .for_each(|own| _ = self.push(own, Done::LinkDown { rank: *rank, process: None }));
            }
            (ticket, state.store.clone(), if was_up && !has_stopped { ranks.len() } else { 0 })
        };
        if let Some(store) = store {
            store.revoke(ticket);
        }
        self.fewer(missing);
        self.lock().processes.remove(&number);
        self.ended.notify_all();
    }
}

fn out_of_turn() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message came out of turn")
}

/// The socket beside that of rank 0 at which processes join.
pub(crate) fn join_socket(listen: &[Address]) -> Option<PathBuf> {
    beside(listen, "join.sock")
}

/// That at which the store is served.
pub(crate) fn store_socket(listen: &[Address]) -> Option<PathBuf> {
    beside(listen, "store.sock")
}

fn beside(listen: &[Address], name: &str) -> Option<PathBuf> {
    listen.iter().find_map(|address| match address {
        Address::Unix(path) => Some(path.with_file_name(name)),
        _ => None,
    })
}
