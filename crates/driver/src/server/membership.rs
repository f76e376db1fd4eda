//! The thread that keeps the cluster map of a running server: adds ranks, has them drained, removes them when they have
//! nothing any more, and waits for their end. The rules stand in docs/cluster.md, "Membership"; what a rank does for them
//! is the machine's.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use loligo_mds::Member;
use loligo_store::{Batch, Durability};
use loligo_types::{ClusterMap, Lsn, PolicyId, Rank, RankState};

use super::cluster::{Others, RANKS_MAX, address_of, told};
use super::error::{Result, ServerError};
use super::listen::Listeners;
use super::members::Members;
use super::policy::{Notes, Version, put_default, settle};
use super::queue::Inbox;
use super::rank::{Command, Done, End};
use super::rank_placement::{RankPlacement, text_of};
use super::start::{self, Known, Recovered, Running};
use super::store_owner::StoreOwner;
use super::stray_search::StraySearch;
use super::{Ended, Seat, ServerConfig};
use crate::Address;

/// Events for the membership thread.
pub(crate) enum MembershipEvent {
    /// Add so many ranks; which they are.
    Add(u16, Sender<Result<Vec<Rank>>>),
    /// Drain a rank; the answer comes when it has begun or is refused.
    Drain(Rank, Sender<Result<()>>),
    /// Put a new version of a policy in force: its name and text.
    SetPolicy(String, String, Sender<Result<Version>>),
    /// Put a new version down for directories that name the policy: its name and text.
    AddPolicy(String, String, Sender<Result<Version>>),
    /// Put a version in force that is there, or none; why.
    UsePolicy(PolicyId, String, Sender<Result<()>>),
    /// Put the default in force.
    UnsetPolicy(Sender<Result<()>>),
    /// Put the one in force again that was before; which one that is.
    RollBack(Sender<Result<PolicyId>>),
    /// Stop draining it.
    Undrain(Rank, Sender<Result<()>>),
    /// Another server is to run a rank: which one, if one is named; the answer, its name, comes when it does.
    HandOver(Rank, Option<String>, Sender<Result<String>>),
    /// A rank says something.
    Said(Rank, Member),
    /// Its thread has ended, or is about to.
    Ended(Rank),
    /// A process that joined has recovered its ranks.
    Arrived(u64),
    /// A rank that another process ran has nothing any more, and has ended.
    LeftElsewhere(Rank),
    /// In a process that joined: the owner has told a rank to go.
    Leaves(Rank),
    /// Stop, or give up stopping.
    Stop,
    Abandon,
}

/// The seats of the ranks that run, for whoever asks about them.
pub(crate) type Seats = Arc<Mutex<BTreeMap<Rank, Arc<Seat>>>>;

/// Tells the keeper when a rank's thread ends, however it does.
pub(crate) struct Farewell {
    pub(crate) rank: Rank,
    pub(crate) to: Sender<MembershipEvent>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        // A keeper that is gone does not wait for anybody.
        let _ = self.to.send(MembershipEvent::Ended(self.rank));
    }
}

pub(crate) struct MembershipThread {
    pub(crate) config: ServerConfig,
    pub(crate) members: Members,
    pub(crate) data_epoch: u64,
    pub(crate) begun: Instant,
    pub(crate) seats: Seats,
    pub(crate) running: BTreeMap<Rank, Running>,
    pub(crate) unstopped: Arc<AtomicUsize>,
    pub(crate) news: Receiver<MembershipEvent>,
    pub(crate) to_self: Sender<MembershipEvent>,
    pub(crate) ended: Arc<Ended>,
    /// Those who wait to hear whether a rank is being drained.
    pub(crate) waiting: BTreeMap<Rank, Sender<Result<()>>>,
    pub(crate) is_stopping: bool,
    /// The rank that listens where clients begin.
    pub(crate) door_at: Rank,
    /// The rank on whose thread the resident client lives, if there is one.
    pub(crate) resident_at: Arc<Mutex<Option<Rank>>>,
    /// Lines that were added to the log of balancers.
    pub(crate) log_lines: u32,
    /// The hub for processes that run other ranks, if there may be some.
    pub(crate) hub: Option<Arc<StoreOwner>>,
    /// This server's part in who runs what, if several share the store.
    pub(crate) placing: Option<RankPlacement>,
    /// The search after an unclean stop, while it may go on.
    pub(crate) search: Option<StraySearch>,
}

impl MembershipThread {
    /// Until all ranks have ended.
    pub(crate) fn run(mut self) -> Result<()> {
        let mut end = End::Stopped;
        let mut panicked = false;
        let mut trimmed: Vec<(Rank, Option<Lsn>)> = Vec::new();
        // One that shares a store with others may have no rank, and wait for some.
        while !self.running.is_empty() || (self.placing.is_some() && !self.is_stopping && end == End::Stopped) {
            let news = match self.next_news() {
                Ok(Some(news)) => news,
                Ok(None) => break,
                Err(error) => {
                    tracing::error!("{error}");
                    end = End::Fatal(error.to_string());
                    self.tell_all(|| Done::OtherFailed(error.to_string()));
                    // It has nothing to look for any more.
                    self.is_stopping = true;
                    continue;
                }
            };
            let MembershipEvent::Ended(rank) = news else {
                self.hear(news);
                continue;
            };
            let Some(Running { thread, helpers }) = self.running.remove(&rank) else { continue };
            let ended = thread.join().unwrap_or(End::Fatal("the rank thread panicked; this is a bug".into()));
            let left = ended == End::Stopped && self.members.states.get(&rank) == Some(&RankState::Leaving);
            let from = helpers.end();
            panicked |= from.is_none();
            match (ended, from) {
                (End::Stopped, Some(from)) if self.placing.is_some() => {
                    if let Err(error) = self.gave_up(rank, from) {
                        end = End::Fatal(error.to_string());
                        self.tell_all(|| Done::OtherFailed(error.to_string()));
                    }
                }
                (End::Stopped, Some(from)) if left && !self.is_stopping => self.remove(rank, from),
                (End::Stopped, from) => trimmed.push((rank, from.flatten())),
                (fatal, _) if end == End::Stopped => end = fatal,
                _ => {}
            }
        }
        // The store is closed next.
        drop(self.search.take());
        let placed = self.end_placing(end == End::Stopped && !panicked);
        let elsewhere_clean = self.hub.as_ref().is_none_or(|hub| hub.end(end == End::Stopped));
        let backend = &*self.config.backend;
        let result = match &end {
            End::Fatal(text) => Err(ServerError::Fatal(text.clone())),
            End::Stopped if panicked => {
                Err(ServerError::Fatal("a thread of the server panicked; this is a bug".into()))
            }
            End::Stopped if self.placing.is_some() => placed.and_then(|()| Ok(backend.close()?)),
            End::Stopped => start::set_clean(backend, &trimmed, elsewhere_clean).and_then(|()| Ok(backend.close()?)),
        };
        *self.ended.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        self.ended.told.notify_all();
        result
    }

    /// The next event; looks at the other servers while it waits. `None`: no sender is left.
    fn next_news(&mut self) -> Result<Option<MembershipEvent>> {
        loop {
            let Some(placing) = self.placing.as_ref().filter(|_| !self.is_stopping || !self.running.is_empty()) else {
                return Ok(self.news.recv().ok());
            };
            match self.news.recv_timeout(placing.next_look.saturating_duration_since(Instant::now())) {
                Ok(news) => return Ok(Some(news)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => self.look_around()?,
            }
        }
    }

    /// Orders that concern all servers go to the one that leads.
    fn must_lead(&self) -> Result<()> {
        match &self.placing {
            Some(placing) if !placing.leads() => Err(ServerError::Refused(format!(
                "another server leads, or is about to, and keeps the map of all ranks: try again, or ask {} (on its machine, or with \
                 its --data)",
                placing.leader()
            ))),
            _ => Ok(()),
        }
    }

    fn hear(&mut self, news: MembershipEvent) {
        let news = match self.must_lead() {
            Err(error) => match self.refuse(news, error) {
                Some(news) => news,
                None => return,
            },
            Ok(()) => news,
        };
        match news {
            MembershipEvent::HandOver(rank, server, to) => self.hand_to(rank, server, to),
            MembershipEvent::Add(count, to) => _ = to.send(self.add_all(count)),
            MembershipEvent::Drain(rank, to) => match self.drain(rank) {
                Ok(()) => _ = self.waiting.insert(rank, to),
                Err(error) => _ = to.send(Err(error)),
            },
            MembershipEvent::Undrain(rank, to) => _ = to.send(self.undrain(rank)),
            MembershipEvent::SetPolicy(name, text, to) => _ = to.send(self.set_policy(&name, &text)),
            MembershipEvent::AddPolicy(name, text, to) => _ = to.send(self.add_policy(&name, &text)),
            MembershipEvent::UsePolicy(policy, why, to) => _ = to.send(self.use_policy(policy, &why)),
            MembershipEvent::UnsetPolicy(to) => _ = to.send(self.unset_policy()),
            MembershipEvent::RollBack(to) => _ = to.send(self.roll_back("rolled back", false)),
            MembershipEvent::Said(rank, member) if self.placing.is_some() => self.pass_on(rank, member),
            MembershipEvent::Said(rank, member) => self.said(rank, member),
            MembershipEvent::Arrived(process) => self.arrived(process),
            MembershipEvent::LeftElsewhere(rank) => self.remove(rank, None),
            MembershipEvent::Ended(_) | MembershipEvent::Leaves(_) => {}
            MembershipEvent::Stop if self.placing.is_some() => {
                self.is_stopping = true;
                self.give_up_all();
            }
            MembershipEvent::Stop => {
                self.is_stopping = true;
                self.tell_all(|| Done::Command(Command::Stop));
                self.hub.iter().for_each(|hub| hub.stop());
            }
            MembershipEvent::Abandon => self.tell_all(|| Done::Command(Command::Abandon)),
        }
    }

    /// Answers with that error what only the server does that leads; gives back anything else.
    fn refuse(&self, news: MembershipEvent, error: ServerError) -> Option<MembershipEvent> {
        match news {
            MembershipEvent::Add(_, to) => _ = to.send(Err(error)),
            MembershipEvent::Drain(_, to)
            | MembershipEvent::Undrain(_, to)
            | MembershipEvent::UsePolicy(_, _, to)
            | MembershipEvent::UnsetPolicy(to) => {
                let _ = to.send(Err(error));
            }
            MembershipEvent::SetPolicy(_, _, to) | MembershipEvent::AddPolicy(_, _, to) => _ = to.send(Err(error)),
            MembershipEvent::RollBack(to) => _ = to.send(Err(error)),
            MembershipEvent::HandOver(_, _, to) => _ = to.send(Err(error)),
            other => return Some(other),
        }
        None
    }

    pub(crate) fn tell_all(&self, what: impl Fn() -> Done) {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.values().for_each(|seat| seat.inbox.push(what()));
    }

    pub(crate) fn map(&self) -> ClusterMap {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        self.members.map(|rank| self.address(&seats, rank))
    }

    fn address(&self, seats: &BTreeMap<Rank, Arc<Seat>>, rank: Rank) -> Option<Address> {
        let own = seats.get(&rank);
        if let Some(placing) = &self.placing {
            // Clients on any machine have to reach it.
            return own.and_then(|seat| text_of(&seat.addresses).parse().ok()).or_else(|| placing.address(rank));
        }
        let own = own.and_then(|seat| told(&seat.addresses));
        own.or_else(|| self.hub.as_ref().and_then(|hub| hub.address(rank)))
    }

    /// Tells all ranks of this process and of others.
    pub(crate) fn tell_map(&mut self, map: &ClusterMap) {
        self.tell_all(|| Done::Map(map.clone()));
        self.hub.iter().for_each(|hub| hub.tell_map(map));
        self.placing.iter_mut().for_each(|placing| placing.put_map(map));
    }

    /// The ranks of a process that joined are there, at addresses that may be new.
    fn arrived(&mut self, process: u64) {
        self.members.epoch += 1;
        if let Err(error) = self.members.write(&*self.config.backend.table(), None) {
            // The number is higher all the same, as long as this server runs.
            tracing::warn!("the epoch of the cluster map could not be put down: {error}");
        }
        let map = self.map();
        self.tell_map(&map);
        self.hub.iter().for_each(|hub| hub.arrived(process));
    }

    fn no_rank(&self, rank: Rank) -> ServerError {
        ServerError::NoSuchRank { rank, there: names(self.members.states.keys()) }
    }

    /// Puts a state down, and tells all ranks.
    fn set_state(&mut self, rank: Rank, state: RankState) -> Result<()> {
        let before = self.members.clone();
        self.members.states.insert(rank, state);
        self.members.epoch += 1;
        if let Err(error) = self.members.write(&*self.config.backend.table(), None) {
            self.members = before;
            return Err(error);
        }
        let map = self.map();
        tracing::info!("rank {rank} is {} from epoch {} on", word(state), map.epoch);
        self.tell_map(&map);
        Ok(())
    }

    // Adds.

    fn add_all(&mut self, count: u16) -> Result<Vec<Rank>> {
        if self.is_stopping {
            return Err(ServerError::Refused("the server is stopping".into()));
        }
        let all = self.members.states.len() + usize::from(count);
        if all > usize::from(RANKS_MAX) {
            return Err(ServerError::TooManyRanks { asked: u16::try_from(all).unwrap_or(u16::MAX) });
        }
        if self.placing.is_some() {
            return (0..count).map(|_| self.add_placed()).collect();
        }
        (0..count).map(|_| self.add()).collect()
    }

    /// The members with one more, which that is, and how the table is told of it.
    fn one_more(&self) -> Result<(Members, Rank, Batch)> {
        let mut members = self.members.clone();
        let rank = members.free_number();
        members.states.insert(rank, RankState::Up);
        members.numbers = members.numbers.max(u32::from(rank.0) + 1);
        members.epoch += 1;
        // With the second rank there is something to balance.
        let notes = Notes::new(self.config.backend.table());
        let by_default = settle(&notes, &self.config.default_policy, &mut members)?;
        let mut batch = Batch::new();
        members.put(&mut batch, None);
        by_default.map_or(Ok(()), |one| put_default(&notes, &mut batch, &one))?;
        Ok((members, rank, batch))
    }

    /// One that is wanted somewhere is begun there; it is there as soon as the table says so.
    fn add_placed(&mut self) -> Result<Rank> {
        let (members, rank, batch) = self.one_more()?;
        self.config.backend.table().write(&batch, Durability::Sync)?;
        self.members = members;
        let map = self.map();
        self.tell_map(&map);
        tracing::info!("rank {rank} was added; the map has epoch {}", map.epoch);
        self.look_around()?;
        Ok(rank)
    }

    /// Everything that can fail is done before the table says that the rank is there; then the others are told of it
    /// before it can say something to them.
    fn add(&mut self) -> Result<Rank> {
        let (members, rank, batch) = self.one_more()?;
        let addresses: Result<Vec<_>> = self.config.listen.iter().map(|at| address_of(at, rank)).collect();
        let listeners = Listeners::open(&addresses?)?;
        let address = told(&listeners.addresses());
        let others = self.inboxes();
        let map = {
            let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
            let of_other = |rank: Rank| self.address(&seats, rank);
            members.map(|other| if other == rank { address.clone() } else { of_other(other) })
        };
        let mut quiet = |_| {};
        let mut known = Known::nothing(&mut quiet);
        let (mds, tail) = start::recover(&self.config, rank, self.data_epoch, &map, self.begun, &mut known)?;
        let recovered = Recovered { rank, mds, tail, listeners, door: Listeners::default() };
        let (seat, waker) = start::seat(&recovered)?;
        let mut inboxes = others.clone();
        inboxes.insert(rank, seat.inbox.clone());
        let mut ways = Others::new(rank, inboxes, self.unstopped.clone(), self.to_self.clone());
        if self.hub.is_some() {
            ways = ways.among(None);
        }
        let (machine, helpers) = start::prepare(&self.config, recovered, ways, &seat, &waker, self.begun)?;
        if let Err(error) = self.config.backend.table().write(&batch, Durability::Sync) {
            machine.never_ran();
            helpers.end();
            return Err(error.into());
        }
        self.members = members;
        self.unstopped.fetch_add(1, Ordering::AcqRel);
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).insert(rank, Arc::new(seat.clone()));
        for inbox in others.values() {
            inbox.push(Done::Joined { map: map.clone(), rank, inbox: seat.inbox.clone() });
        }
        if let Some(hub) = &self.hub {
            hub.tell_map(&map);
            hub.greet(rank);
        }
        let thread = start::spawn_rank(machine, rank, self.to_self.clone())?;
        self.running.insert(rank, Running { thread, helpers });
        tracing::info!("rank {rank} was added; the map has epoch {}", map.epoch);
        Ok(rank)
    }

    fn inboxes(&self) -> BTreeMap<Rank, Arc<Inbox<Done>>> {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.iter().map(|(rank, seat)| (*rank, seat.inbox.clone())).collect()
    }

    // Drains and removes.

    fn drain(&mut self, rank: Rank) -> Result<()> {
        let refused = |text: String| Err(ServerError::Refused(text));
        match self.members.states.get(&rank) {
            None => return Err(self.no_rank(rank)),
            Some(RankState::Up) => {}
            Some(_) => {
                return refused(format!("rank {rank} is being drained already: see how far with loligo rank list"));
            }
        }
        let up = self.members.states.iter().filter(|(_, state)| **state == RankState::Up).map(|(rank, _)| rank);
        if up.filter(|other| **other != rank).count() == 0 {
            return refused(format!(
                "rank {rank} is the last one that takes more: add another one first (loligo rank add), or stop draining \
                 one (loligo rank undrain RANK)"
            ));
        }
        if self.hub.is_some() && self.is_last_here(rank) {
            return refused(format!(
                "rank {rank} is the last one that takes more in the process that owns the data directory, where clients begin: \
                 add another one first (loligo rank add)"
            ));
        }
        if *self.resident_at.lock().unwrap_or_else(PoisonError::into_inner) == Some(rank) {
            return refused(format!(
                "rank {rank} cannot be drained: the mount in the server's process lives on its thread. Start again, \
                 which gives the mount threads of its own (loligo down; loligo up), and drain it then"
            ));
        }
        if self.is_stopping {
            return refused("the server is stopping".into());
        }
        self.set_state(rank, RankState::Draining)
    }

    /// True if no other rank of this process takes requests.
    fn is_last_here(&self, rank: Rank) -> bool {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let is_up = |other: &&Rank| self.members.states.get(other) == Some(&RankState::Up);
        seats.contains_key(&rank) && seats.keys().filter(is_up).all(|other| *other == rank)
    }

    fn undrain(&mut self, rank: Rank) -> Result<()> {
        match self.members.states.get(&rank) {
            None => Err(self.no_rank(rank)),
            Some(RankState::Up) => Err(ServerError::Refused(format!("rank {rank} is not being drained"))),
            Some(RankState::Leaving) => Err(ServerError::Refused(format!(
                "rank {rank} has nothing any more and is about to go: add it again afterwards (loligo rank add)"
            ))),
            Some(RankState::Draining) => {
                let stopped = ServerError::Refused(format!("draining rank {rank} was stopped by another command"));
                self.answer(rank, Err(stopped));
                self.set_state(rank, RankState::Up)
            }
        }
    }

    fn answer(&mut self, rank: Rank, what: Result<()>) {
        if let Some(to) = self.waiting.remove(&rank) {
            let _ = to.send(what);
        }
    }

    pub(crate) fn said(&mut self, rank: Rank, member: Member) {
        let state = self.members.states.get(&rank).copied();
        let done = match (member, state) {
            (Member::BadPolicy { policy, why }, _) => self.policy_failed(rank, policy, &why),
            (Member::NoPolicy { name }, _) => self.no_policy(&name),
            (Member::Drains, Some(RankState::Draining)) => {
                self.answer(rank, Ok(()));
                Ok(())
            }
            (Member::Refused(text), Some(RankState::Draining)) => {
                tracing::warn!("{text}");
                self.answer(rank, Err(ServerError::Refused(text)));
                self.set_state(rank, RankState::Up)
            }
            (Member::Drained, Some(RankState::Draining)) => self.set_state(rank, RankState::Leaving),
            (Member::Left, Some(RankState::Leaving)) if self.placing.is_some() => self.unwant(rank),
            (Member::Left, Some(RankState::Leaving)) => {
                self.hand_over_door(rank);
                let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
                let own = seats.get(&rank).cloned();
                drop(seats);
                match own {
                    Some(seat) => seat.inbox.push(Done::Command(Command::Leave)),
                    // One that is not reached now says it again when it is.
                    None => _ = self.hub.as_ref().is_some_and(|hub| hub.leave(rank)),
                }
                Ok(())
            }
            // It was told otherwise meanwhile.
            _ => Ok(()),
        };
        if let Err(error) = done {
            // The table does not take it now: the next start goes on from what it has.
            tracing::error!("the state of rank {rank} could not be put down: {error}; it is as before until a restart");
        }
    }

    /// If clients begin at this rank, they begin at another one from now on. The sockets stay open meanwhile, so whoever
    /// connects is heard; a start after a crash opens them anew.
    fn hand_over_door(&mut self, rank: Rank) {
        if self.door_at != rank {
            return;
        }
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let stays = |(other, state): &(&Rank, &RankState)| {
            **other != rank && **state != RankState::Leaving && seats.contains_key(other)
        };
        let Some(heir) = self.members.states.iter().find(stays).map(|(heir, _)| *heir) else { return };
        if let (Some(from), Some(to)) = (seats.get(&rank), seats.get(&heir)) {
            from.inbox.push(Done::GiveDoor { to: to.inbox.clone() });
            self.door_at = heir;
            tracing::info!("clients begin at rank {heir} from now on");
        }
    }

    /// A rank has ended that has nothing any more: from now on no start needs it.
    pub(crate) fn remove(&mut self, rank: Rank, replay_from: Option<Lsn>) {
        let mut members = self.members.clone();
        members.states.remove(&rank);
        members.epoch += 1;
        let table = self.config.backend.table();
        let done = start::note_trimmed(&*table, rank, replay_from).and_then(|()| members.write(&*table, Some(rank)));
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).remove(&rank);
        // Those who wait to hear that it is gone.
        drop(self.ended.end.lock().unwrap_or_else(PoisonError::into_inner));
        self.ended.told.notify_all();
        if let Err(error) = done {
            tracing::error!("that rank {rank} is gone could not be put down: {error}; the next start finds it again");
        }
        self.members = members;
        let map = self.map();
        tracing::info!("rank {rank} was removed; the map has epoch {}", map.epoch);
        self.tell_all(|| Done::Parted { map: map.clone(), rank });
        if let Some(hub) = &self.hub {
            hub.part(rank);
            hub.tell_map(&map);
        }
        self.placing.iter_mut().for_each(|placing| placing.put_map(&map));
    }
}

/// Ranks, for people.
pub(crate) fn names<'a>(ranks: impl Iterator<Item = &'a Rank>) -> String {
    ranks.map(Rank::to_string).collect::<Vec<_>>().join(", ")
}

fn word(state: RankState) -> &'static str {
    match state {
        RankState::Up => "up",
        RankState::Draining => "draining",
        RankState::Leaving => "leaving",
    }
}
