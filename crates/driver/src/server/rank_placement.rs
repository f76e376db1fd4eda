//! Which server runs which rank, on a store that several servers share. Each looks at what all have put down there, and does its part: takes
//! the ranks that it is to have when they are free, gives up those that others are to have, and keeps the ways to the others. One leads: it
//! says who is to have what, and keeps the cluster map. If it is gone, whoever sees that first leads instead.
//!
//! Nobody is told what to do: what is put down is true whoever reads it, and whenever. The rules stand in docs/cluster.md, "Servers on
//! several machines".

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use loligo_mds::Member;
use loligo_rows::read_head;
use loligo_store::{Batch, ServerFlags, Servers, Sight, StoreError};
use loligo_types::limits::ADDRESS_MAX;
use loligo_types::link::LinkMsg;
use loligo_types::{ClusterMap, Lsn, Rank, RankState};
use loligo_wire::{HEADER_LEN, LINK_MAX, LinkHeader, encode_link};

use super::cluster::{Others, RANKS_MAX, address_of};
use super::error::{Result, ServerError};
use super::listen::Listeners;
use super::members::Members;
use super::membership::MembershipThread;
use super::peers::Peers;
use super::rank::{Command, Done};
use super::recover::Progress;
use super::shares::{able, count, decide, settled};
use super::start::{self, Known, Recovered, Running};
use crate::Address;

/// Interval at which a server looks for changes.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(200);
/// When a rank that could not be begun is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// A server's part in it.
pub(crate) struct RankPlacement {
    pub(crate) servers: Arc<dyn Servers>,
    pub(crate) peers: Arc<Peers>,
    pub(crate) flags: ServerFlags,
    /// The last look, for other threads.
    pub(crate) view: Arc<Mutex<View>>,
    leads: bool,
    /// The cluster map as it was put down last.
    map: ClusterMap,
    /// Servers that have had their share.
    settled: BTreeSet<u64>,
    /// Ranks of this server that were told to stop here.
    handing: BTreeSet<Rank>,
    /// Messages of this server's ranks to the leader.
    unsaid: Vec<(Rank, Member)>,
    /// Ranks that could not be begun, and when to try again.
    again: BTreeMap<Rank, Instant>,
    /// The rank that listens where clients begin.
    door: Option<Rank>,
    /// Those who wait for a rank to be at a server.
    waiting: Vec<(Rank, u64, Sender<Result<String>>)>,
    pub(crate) next_look: Instant,
}

/// Result of the last look.
#[derive(Default)]
pub(crate) struct View {
    pub(crate) sight: Sight,
    /// The cluster map.
    pub(crate) map: ClusterMap,
    /// Number of looks.
    pub(crate) looks: u64,
}

/// Where a rank listens that may be at any server: never where clients begin, which is a server's and not a rank's.
pub(crate) fn own_address(begin: &Address, rank: Rank) -> Result<Address> {
    address_of(begin, if rank == Rank::ZERO { Rank(RANKS_MAX) } else { rank })
}

/// All addresses of a rank as one text, or as many as there is room for: those that other machines can reach are left out last.
pub(crate) fn text_of(addresses: &[Address]) -> String {
    // A path with a comma in it would be read as several.
    let is_read = |one: &&Address| !one.to_string().contains(',');
    let mut all: Vec<&Address> = addresses.iter().filter(is_read).collect();
    if all.is_empty() {
        return addresses.first().map(ToString::to_string).unwrap_or_default();
    }
    let text = |all: &[&Address]| all.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(",");
    while text(&all).len() > ADDRESS_MAX {
        let first_unix = all.iter().position(|one| matches!(one, Address::Unix(_))).unwrap_or(all.len() - 1);
        all.remove(first_unix);
    }
    text(&all)
}

fn bytes_of(map: &ClusterMap) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_link(&LinkMsg::Map(map.clone()), &mut bytes);
    bytes
}

fn map_of(bytes: &[u8]) -> Option<ClusterMap> {
    let (head, body) = bytes.split_first_chunk::<HEADER_LEN>()?;
    match LinkHeader::decode(head, LINK_MAX).ok()?.message(body).ok()? {
        LinkMsg::Map(map) => Some(map),
        _ => None,
    }
}

impl RankPlacement {
    pub(crate) fn new(servers: Arc<dyn Servers>, peers: Arc<Peers>, flags: ServerFlags) -> RankPlacement {
        RankPlacement {
            servers,
            peers,
            flags,
            view: Arc::default(),
            leads: false,
            map: ClusterMap::default(),
            settled: BTreeSet::new(),
            handing: BTreeSet::new(),
            unsaid: Vec::new(),
            again: BTreeMap::new(),
            door: None,
            waiting: Vec::new(),
            next_look: Instant::now(),
        }
    }

    pub(crate) fn leads(&self) -> bool {
        self.leads
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where clients reach a rank of another server.
    pub(crate) fn address(&self, rank: Rank) -> Option<Address> {
        let view = self.view();
        let seen = view.sight.ranks.get(&u32::from(rank.0)).filter(|seen| seen.is_held)?;
        seen.at.parse().ok()
    }

    /// Puts the map down, for the other servers.
    pub(crate) fn put_map(&mut self, map: &ClusterMap) {
        self.map = map.clone();
        if let Err(error) = self.servers.place(&[], Some(&bytes_of(map))) {
            tracing::warn!("the cluster map could not be put down for the other servers, and will be: {error}");
            // As if it were another one by now.
            self.map.ranks.clear();
        }
    }

    /// Name of the leading server.
    pub(crate) fn leader(&self) -> String {
        let sight = &self.view().sight;
        let name = sight.leader.and_then(|leader| Some(sight.servers.get(&leader)?.name.clone()));
        name.unwrap_or_else(|| "that will lead in a moment".into())
    }
}

impl MembershipThread {
    /// Looks what has changed, and does its part. An error is this server's end.
    pub(crate) fn look_around(&mut self) -> Result<()> {
        let Some(placing) = &mut self.placing else { return Ok(()) };
        placing.next_look = Instant::now() + LOOK_EVERY;
        if let Some(why) = self.config.backend.lease().and_then(|lease| lease.lost()) {
            return Err(ServerError::Fatal(format!("{why}; nothing that was acknowledged is lost")));
        }
        let mut sight = match placing.servers.look() {
            Ok(sight) => sight,
            Err(error @ StoreError::Fenced { .. }) => return Err(error.into()),
            Err(error) => {
                tracing::warn!("what the other servers do could not be seen: {error}");
                return Ok(());
            }
        };
        let me = placing.servers.me();
        // That it has the lead does not say yet that it could begin to lead.
        if (sight.leader.is_none() || (sight.leader == Some(me) && !placing.leads)) && !self.is_stopping {
            let begun = match placing.servers.lead(false) {
                Ok(true) => {
                    sight.leader = Some(me);
                    self.begin_to_lead(&sight)
                }
                Ok(false) => Ok(()),
                Err(error) => Err(error.into()),
            };
            match begun {
                Ok(()) => {}
                Err(error @ ServerError::Store(StoreError::Fenced { .. })) => return Err(error),
                Err(error) => {
                    tracing::warn!("nobody leads; this server could not begin to, and will try again: {error}")
                }
            }
        }
        self.note(&sight);
        self.follow(&sight);
        if let Err(error) = self.lead(&mut sight) {
            match error {
                ServerError::Store(StoreError::Fenced { .. }) => return Err(error),
                error => tracing::warn!("what ranks are where could not be put down, and will be: {error}"),
            }
        }
        self.give_up_ranks(&sight);
        self.take_ranks(&sight);
        self.note(&sight);
        if let Some(placing) = &self.placing {
            placing.view().looks += 1;
        }
        self.prepare_tls();
        Ok(())
    }

    /// Clients come in over TLS as soon as there is an authority, which the server that leads makes.
    fn prepare_tls(&mut self) {
        let listens = self.config.listen.iter().any(|address| matches!(address, Address::Tcp(_)));
        let Some(auth) = self.config.auth.as_ref().filter(|auth| listens && auth.tls().is_none()) else { return };
        match auth.prepare() {
            Ok(()) | Err(ServerError::Store(StoreError::Fenced { .. })) => {}
            Err(error) => tracing::warn!("clients cannot come in over TLS yet: {error}"),
        }
    }

    pub(crate) fn leads(&self) -> bool {
        self.placing.as_ref().is_none_or(RankPlacement::leads)
    }

    /// Publishes the last look.
    fn note(&mut self, sight: &Sight) {
        let Some(placing) = &mut self.placing else { return };
        let me = placing.servers.me();
        let others = sight.servers.iter().filter(|(server, seen)| **server != me && !seen.is_gone);
        placing.peers.know(others.map(|(server, seen)| (*server, seen.at.clone())).collect());
        let map = placing.map.clone();
        let mut view = placing.view();
        (view.sight, view.map) = (sight.clone(), map);
        drop(view);
        for (rank, member) in std::mem::take(&mut placing.unsaid) {
            self.pass_on(rank, member);
        }
    }

    /// Brings what a rank of this server says to the leader.
    pub(crate) fn pass_on(&mut self, rank: Rank, member: Member) {
        let Some(placing) = &mut self.placing else { return };
        let leader = placing.view().sight.leader;
        match leader {
            _ if placing.leads => self.said(rank, member),
            Some(leader) if placing.peers.say(leader, rank, member.clone()) => {}
            _ => placing.unsaid.push((rank, member)),
        }
    }

    // The leader's part.

    /// The table is this server's to write from now on.
    pub(crate) fn begin_to_lead(&mut self, sight: &Sight) -> Result<()> {
        let table = self.config.backend.table();
        let head = read_head(&*table, Rank::ZERO)?;
        self.members = Members::read(&*table, head.ranks)?;
        self.data_epoch = head.next_data_epoch();
        start::set_running(&*table, Batch::new(), self.data_epoch, &self.members)?;
        let Some(placing) = &mut self.placing else { return Ok(()) };
        placing.leads = true;
        placing.settled = settled(sight);
        placing.settled.insert(placing.servers.me());
        tracing::info!("this server leads from now on");
        Ok(())
    }

    /// At the start of a server that leads: runs what nobody else has.
    pub(crate) fn begin_all(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<()> {
        let Some(placing) = &self.placing else { return Ok(()) };
        let me = placing.servers.me();
        let sight = placing.servers.look()?;
        let others: BTreeSet<u64> = able(&sight).map(|(server, _)| server).filter(|server| *server != me).collect();
        let is_others = |rank: &Rank| {
            let rank = u32::from(rank.0);
            let has = sight.ranks.get(&rank).filter(|seen| seen.is_held && others.contains(&seen.server));
            has.is_some() || sight.wants.get(&rank).is_some_and(|server| others.contains(server))
        };
        let own: BTreeSet<Rank> = self.members.states.keys().filter(|rank| !is_others(rank)).copied().collect();
        let wants: Vec<_> = own.iter().map(|rank| (u32::from(rank.0), Some(me))).collect();
        placing.servers.place(&wants, None)?;
        self.note(&sight);
        let backend = self.config.backend.clone();
        let mut known = Known::of(&*backend, &own, progress)?;
        own.iter().try_for_each(|rank| self.begin_rank(*rank, &mut known))?;
        self.look_around()?;
        // Who is gone may have to be watched for a while to know it.
        while self.config.sharing.must_lead && self.running.is_empty() {
            std::thread::sleep(LOOK_EVERY);
            self.look_around()?;
        }
        Ok(())
    }

    fn lead(&mut self, sight: &mut Sight) -> Result<()> {
        let Some(placing) = self.placing.as_mut().filter(|placing| placing.leads) else { return Ok(()) };
        let me = placing.servers.me();
        if let Some(own) = sight.servers.get_mut(&me) {
            own.flags = placing.flags;
        }
        let is_to_go = |rank: &Rank, state: &RankState| {
            *state == RankState::Leaving && !sight.wants.contains_key(&u32::from(rank.0))
        };
        let states = &self.members.states;
        let going: Vec<Rank> = states.iter().filter(|(rank, state)| is_to_go(rank, state)).map(|(r, _)| *r).collect();
        let stay = states.keys().filter(|rank| !going.contains(rank)).map(|rank| u32::from(rank.0));
        let wants = decide(sight, &stay.collect::<Vec<_>>(), &mut placing.settled);
        let changed: Vec<(u32, Option<u64>)> = wants
            .iter()
            .filter(|(rank, server)| sight.wants.get(rank) != Some(server))
            .map(|(rank, server)| (*rank, Some(*server)))
            .collect();
        if !changed.is_empty() {
            placing.servers.place(&changed, None)?;
            for (rank, server) in changed {
                let name =
                    server.and_then(|server| Some(sight.servers.get(&server)?.name.as_str())).unwrap_or("nobody");
                tracing::info!("rank {rank} is to be run by {name}");
                sight.wants.extend(server.map(|server| (rank, server)));
            }
        }
        let has_rank = |server: u64| sight.ranks.values().any(|seen| seen.is_held && seen.server == server);
        for (server, _) in sight.servers.iter().filter(|(server, seen)| seen.is_gone && !has_rank(**server)) {
            placing.servers.forget(*server)?;
        }
        let placed = |(rank, server, _): &mut (Rank, u64, Sender<Result<String>>)| {
            let seen = sight.ranks.get(&u32::from(rank.0));
            seen.is_some_and(|seen| seen.is_held && seen.server == *server && !seen.at.is_empty())
        };
        for (_, server, to) in placing.waiting.extract_if(.., placed) {
            let name = sight.servers.get(&server).map(|seen| seen.name.clone());
            let _ = to.send(Ok(name.unwrap_or_default()));
        }
        let elsewhere = |(rank, server, _): &mut (Rank, u64, Sender<Result<String>>)| {
            sight.wants.get(&u32::from(rank.0)) != Some(server)
        };
        for (rank, _, to) in placing.waiting.extract_if(.., elsewhere) {
            let now =
                sight.wants.get(&u32::from(rank.0)).and_then(|server| Some(sight.servers.get(server)?.name.as_str()));
            let _ = to.send(Err(ServerError::Refused(format!(
                "rank {rank} was not handed over: that server is gone, about to end, or not ready yet, or there was another order; it is \
                 to be run by {} (loligo status)",
                now.unwrap_or("nobody")
            ))));
        }
        for rank in going {
            if !self.running.contains_key(&rank) && sight.ranks.get(&u32::from(rank.0)).is_none_or(|seen| !seen.is_held)
            {
                self.remove(rank, None);
            }
        }
        self.renew_map()
    }

    /// Ranks may be elsewhere than before.
    fn renew_map(&mut self) -> Result<()> {
        let map = self.map();
        let Some(placing) = &self.placing else { return Ok(()) };
        if map.ranks == placing.map.ranks && map.policy == placing.map.policy {
            return Ok(());
        }
        self.members.epoch += 1;
        self.members.write(&*self.config.backend.table(), None)?;
        let map = self.map();
        self.tell_map(&map);
        Ok(())
    }

    /// A rank that has nothing any more is to stop, wherever it is.
    pub(crate) fn unwant(&mut self, rank: Rank) -> Result<()> {
        let Some(placing) = &mut self.placing else { return Ok(()) };
        placing.next_look = Instant::now();
        Ok(placing.servers.place(&[(u32::from(rank.0), None)], None)?)
    }

    /// Another server is to run a rank; who asked hears it when it does.
    pub(crate) fn hand_to(&mut self, rank: Rank, to: Option<String>, asked: Sender<Result<String>>) {
        match self.hand_to_server(rank, to) {
            Ok(server) => {
                let Some(placing) = &mut self.placing else { return };
                placing.next_look = Instant::now();
                placing.waiting.push((rank, server, asked));
            }
            Err(error) => _ = asked.send(Err(error)),
        }
    }

    fn hand_to_server(&mut self, rank: Rank, to: Option<String>) -> Result<u64> {
        let refused = |text: String| Err(ServerError::Refused(text));
        let Some(placing) = &mut self.placing else {
            return refused("this file system is on one machine's disk, where its server runs all ranks".into());
        };
        if !self.members.states.contains_key(&rank) {
            let there = super::membership::names(self.members.states.keys());
            return Err(ServerError::NoSuchRank { rank, there });
        }
        let sight = placing.view().sight.clone();
        let has = sight.wants.get(&u32::from(rank.0)).copied();
        let names = || sight.servers.values().filter(|seen| !seen.is_gone).map(|seen| seen.name.as_str());
        let server = match &to {
            Some(to) => {
                let named = |(number, seen): &(&u64, &loligo_store::ServerSeen)| {
                    !seen.is_gone && (seen.name == *to || format!("{number:016x}") == *to)
                };
                let found: Vec<u64> = sight.servers.iter().filter(named).map(|(number, _)| *number).collect();
                match found[..] {
                    [one] => one,
                    [] => {
                        let there = names().collect::<Vec<_>>().join("; ");
                        return refused(format!("there is no server {to}; there are: {there}"));
                    }
                    _ => {
                        return refused(format!(
                            "several servers are called {to}: name one by its number (loligo status)"
                        ));
                    }
                }
            }
            None => {
                let others = able(&sight).map(|(server, _)| server).filter(|server| Some(*server) != has);
                match others.min_by_key(|server| count(&sight.wants, *server)) {
                    Some(server) => server,
                    None => {
                        return refused("there is no other server: start one on another machine (loligo serve)".into());
                    }
                }
            }
        };
        if sight.servers.get(&server).is_none_or(|seen| seen.flags.stops) {
            return refused("that server is about to end".into());
        }
        if *self.resident_at.lock().unwrap_or_else(PoisonError::into_inner) == Some(rank) && has != Some(server) {
            return refused(format!(
                "rank {rank} cannot be handed over: the mount in its server's process lives on its thread. Start that server with \
                 loligo serve, and mount with loligo mount"
            ));
        }
        placing.servers.place(&[(u32::from(rank.0), Some(server))], None)?;
        Ok(server)
    }

    // The part of those that do not lead.

    fn follow(&mut self, sight: &Sight) {
        let Some(placing) = self.placing.as_mut().filter(|placing| !placing.leads) else { return };
        let Some(map) = map_of(&sight.map).filter(|map| map.epoch > placing.map.epoch) else { return };
        self.members.states = map.ranks.iter().map(|info| (info.rank, info.state)).collect();
        (self.members.epoch, self.members.policy) = (map.epoch, map.policy);
        placing.map = map.clone();
        self.tell_all(|| Done::Map(map.clone()));
    }

    // Everybody's.

    /// Stops ranks that others are to have.
    fn give_up_ranks(&mut self, sight: &Sight) {
        let Some(placing) = &self.placing else { return };
        let me = placing.servers.me();
        let resident = *self.resident_at.lock().unwrap_or_else(PoisonError::into_inner);
        let mut going = Vec::new();
        for rank in self.running.keys().filter(|rank| !placing.handing.contains(rank) && resident != Some(**rank)) {
            match sight.wants.get(&u32::from(rank.0)) {
                Some(server) if *server == me => {}
                // Whoever leads finds another one.
                Some(server) if sight.servers.get(server).is_none_or(|seen| seen.is_gone) => {}
                _ => going.push(*rank),
            }
        }
        for rank in going {
            self.give_up(rank);
        }
    }

    /// Stops a rank, which another server then may run.
    pub(crate) fn give_up(&mut self, rank: Rank) {
        let Some(placing) = &mut self.placing else { return };
        if !placing.handing.insert(rank) {
            return;
        }
        tracing::info!("rank {rank} stops here: another server is to run it, or nobody");
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(seat) = seats.get(&rank) else { return };
        if placing.door == Some(rank) {
            let heir = seats.iter().find(|(other, _)| !placing.handing.contains(other));
            placing.door = heir.map(|(heir, _)| *heir);
            if let Some((_, to)) = heir {
                seat.inbox.push(Done::GiveDoor { to: to.inbox.clone() });
            }
        }
        seat.inbox.push(Done::Command(Command::HandOver));
    }

    /// All ranks of this server are to stop, and others to have them.
    pub(crate) fn give_up_all(&mut self) {
        let Some(placing) = &mut self.placing else { return };
        placing.flags.stops = true;
        let at = placing.peers.at().to_string();
        if let Err(error) = placing.servers.announce(&at, placing.flags) {
            tracing::warn!("the other servers could not be told that this one ends: {error}");
        }
        if let Err(error) = self.look_around() {
            tracing::warn!("{error}");
        }
        for rank in self.running.keys().copied().collect::<Vec<_>>() {
            self.give_up(rank);
        }
    }

    /// A rank has come to a clean stop: whoever is to have it may own it.
    pub(crate) fn gave_up(&mut self, rank: Rank, replay_from: Option<Lsn>) -> Result<()> {
        let Some(placing) = &mut self.placing else { return Ok(()) };
        placing.handing.remove(&rank);
        placing.door = placing.door.filter(|door| *door != rank);
        placing.peers.end(rank);
        placing.next_look = Instant::now();
        let servers = placing.servers.clone();
        self.tell_all(|| Done::Away { rank });
        let number = u32::from(rank.0);
        start::note_trimmed(&*self.config.backend.table_of(number)?, rank, replay_from)?;
        Ok(servers.disown(number)?)
    }

    /// Runs the ranks that this server is to have, as soon as they are free.
    fn take_ranks(&mut self, sight: &Sight) {
        if self.is_stopping {
            return;
        }
        let Some(placing) = &mut self.placing else { return };
        let (me, now) = (placing.servers.me(), Instant::now());
        placing.again.retain(|_, at| *at > now);
        let mine = sight.wants.iter().filter(|(_, server)| **server == me).map(|(rank, _)| *rank);
        let is_free = |rank: &u32| sight.ranks.get(rank).is_none_or(|seen| !seen.is_held || seen.server == me);
        let ranks: Vec<Rank> = mine.filter(is_free).filter_map(|rank| u16::try_from(rank).ok().map(Rank)).collect();
        for rank in ranks {
            if let (Some(running), Some(seen)) = (self.running.get(&rank), sight.ranks.get(&u32::from(rank.0))) {
                // What was to be told may not have been.
                if seen.at.is_empty() && !running.thread.is_finished() {
                    self.announce_rank(rank);
                }
                continue;
            }
            let is_later = self.placing.as_ref().is_some_and(|placing| placing.again.contains_key(&rank));
            if is_later || self.running.contains_key(&rank) {
                continue;
            }
            match self.begin_rank(rank, &mut Known::nothing(&mut |_| {})) {
                Ok(()) | Err(ServerError::Store(StoreError::InUse { .. })) => {}
                Err(error) => {
                    tracing::error!("rank {rank} could not be begun, and will be tried again: {error}");
                    if let Some(placing) = &mut self.placing {
                        placing.again.insert(rank, Instant::now() + AGAIN);
                    }
                }
            }
        }
    }

    fn announce_rank(&self, rank: Rank) {
        let Some(placing) = &self.placing else { return };
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(at) = seats.get(&rank).map(|seat| text_of(&seat.addresses)) else { return };
        if let Err(error) = placing.servers.announce_rank(u32::from(rank.0), &at) {
            tracing::warn!("where rank {rank} listens could not be told, and will be: {error}");
        }
    }

    /// Owns, recovers and runs a rank.
    pub(crate) fn begin_rank(&mut self, rank: Rank, known: &mut Known<'_>) -> Result<()> {
        let config = &self.config;
        let at: Result<Vec<Address>> = config.listen.iter().map(|begin| own_address(begin, rank)).collect();
        let listeners = Listeners::open(&at?)?;
        let has_door = self.placing.as_ref().is_some_and(|placing| placing.door.is_some());
        let door = if has_door { Listeners::default() } else { Listeners::open(&config.listen)? };
        let map =
            if self.leads() { self.map() } else { self.placing.as_ref().map(|p| p.map.clone()).unwrap_or_default() };
        let (mds, tail) = start::recover(config, rank, self.data_epoch, &map, self.begun, known)?;
        let mut recovered = [Recovered { rank, mds, tail, listeners, door }];
        start::tell_deaths(&mut recovered, self.begun);
        let [recovered] = recovered;
        let Some(placing) = &mut self.placing else { return Ok(()) };
        let fenced = || StoreError::Fenced { what: format!("rank {rank}"), cause: "another server has it".into() };
        let epoch = placing.servers.epoch(u32::from(rank.0)).ok_or_else(fenced)?;
        let (seat, waker) = start::seat(&recovered)?;
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inboxes: BTreeMap<Rank, _> = seats.iter().map(|(rank, seat)| (*rank, seat.inbox.clone())).collect();
        drop(seats);
        inboxes.insert(rank, seat.inbox.clone());
        let ways = Others::new(rank, inboxes, self.unstopped.clone(), self.to_self.clone()).apart();
        let (machine, helpers) = start::prepare(config, recovered, ways, &seat, &waker, self.begun)?;
        let seat = Arc::new(seat);
        placing.peers.begin(rank, epoch, seat, &map);
        if !has_door {
            placing.door = Some(rank);
        }
        let thread = start::spawn_rank(machine, rank, self.to_self.clone())?;
        self.running.insert(rank, Running { thread, helpers });
        tracing::info!("rank {rank} is run by this server, in epoch {epoch}");
        self.announce_rank(rank);
        Ok(())
    }

    /// The end of all ranks of this server. Nothing is to be recovered if it was the last one and all have stopped.
    pub(crate) fn end_placing(&mut self, is_clean: bool) -> Result<()> {
        let Some(placing) = &mut self.placing else { return Ok(()) };
        placing.peers.stop();
        for (_, _, to) in placing.waiting.drain(..) {
            let _ = to.send(Err(ServerError::Refused("the server is stopping".into())));
        }
        if !is_clean || !placing.leads {
            return Ok(());
        }
        let sight = placing.servers.look()?;
        let me = placing.servers.me();
        let alone = sight.servers.iter().all(|(server, seen)| *server == me || seen.is_gone);
        if alone && sight.ranks.values().all(|seen| !seen.is_held) {
            start::set_clean(&*self.config.backend, &[], true)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_read_as_it_was_put_down_and_other_bytes_are_none() {
        let map = ClusterMap { epoch: 3, ..ClusterMap::default() };
        assert_eq!(map_of(&bytes_of(&map)), Some(map));
        assert_eq!(map_of(b""), None);
        assert_eq!(map_of(&[0; 40]), None);
    }

    #[test]
    fn addresses_that_do_not_fit_are_left_out_those_of_this_machine_first() {
        let long = Address::Unix(format!("/{}", "d".repeat(250)).into());
        let tcp: Address = "tcp:10.0.0.1:70".parse().expect("an address");
        assert_eq!(text_of(&[long, tcp]), "tcp:10.0.0.1:70");
    }
}
