//! Migration, at the rank that gives a subtree away: what clients hold on what moves, and how it is taken from them.
//!
//! What is held is looked through in small steps before the directory freezes, and what is given or opened meanwhile is
//! remembered: so when it freezes, only what may move has to be looked at again. When that is: `stages/migrate.rs`.

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::{Event, Ino, Lease, MovedClient, Rank};

use crate::cluster::held::{Held, HeldOne, Holders};
use crate::cluster::survey::{Moves, Survey};
use crate::cluster::{Atlas, Exports};
use crate::core::Core;
use crate::eof_cleanup::EofCleanup;
use crate::io::{DataAccess, Output};
use crate::lease::Leases;
use crate::load::Waiter;
use crate::lock::Locks;
use crate::open::Opens;
use crate::pace::Pace;
use crate::recall::{Recalls, SHARED};
use crate::session::{Sessions, Slot};

/// Cost of a note that something of an inode is held, beside the look at the inode, in units of [`crate::pace::Pace`].
const NOTE: usize = 4;
/// Records read at a time.
const READS_MAX: usize = 512;
/// Leases asked back at a time.
const ASKED_MAX: usize = 1024;
/// Most times that all leases are looked through again because some were asked back.
const ROUNDS_MAX: u32 = 4;

impl Held {
    /// The next thing that somebody holds.
    fn next_held(&mut self, leases: &Leases, pace: &mut Pace) -> Option<HeldOne> {
        if let Some(ino) = self.opens.pop() {
            return Some(HeldOne { ino, lease: None });
        }
        while let Some(place) = self.place.and_then(|place| place.checked_sub(1)) {
            self.place = Some(place);
            pace.spend(1);
            if let Some((ino, slot, bits)) = leases.at(place) {
                return Some(HeldOne { ino, lease: Some((slot, bits)) });
            }
            if !pace.is_left() {
                break;
            }
        }
        None
    }

    /// Something moves that somebody holds.
    fn note_held(
        &mut self,
        core: &mut Core,
        recalls: &mut Recalls,
        sessions: &mut Sessions,
        leases: &Leases,
        HeldOne { ino, lease }: HeldOne,
    ) {
        // While records were read for it, its session may have ended: nobody would give it back.
        let still = |(slot, _): (Slot, Lease)| (slot, leases.held(ino, slot));
        match lease.map(still) {
            Some((_, Lease::NONE)) => {}
            Some((slot, bits)) if self.leases >= core.config.moved_leases_max => {
                self.shed = true;
                self.asked.push_back((ino, slot));
                recalls.shed(core, sessions, ino, slot, bits);
            }
            lease => {
                self.leases += usize::from(lease.is_some());
                self.inos.insert(ino);
            }
        }
    }

    /// Waits for what was asked back; then looks again, as long as much is given anew.
    fn await_asked(&mut self, core: &mut Core, recalls: &Recalls, leases: &Leases) -> bool {
        while let Some((ino, slot)) = self.asked.front().copied()
            && !recalls.pending(ino, slot).any(SHARED)
        {
            self.asked.pop_front();
            if !leases.held(ino, slot).is_none() {
                self.inos.insert(ino);
            }
        }
        let looked = self.opens.is_empty() && self.place == Some(0) && self.unknown.is_empty();
        if !looked && self.asked.len() < core.config.some(ASKED_MAX) {
            core.out.push_back(Output::Again);
        }
        if !looked || !self.asked.is_empty() {
            return false;
        }
        if std::mem::take(&mut self.shed) && self.rounds < ROUNDS_MAX {
            let rounds = self.rounds + 1;
            *self = Held { rounds, ..Held::default() };
            core.out.push_back(Output::Again);
            return false;
        }
        self.done = true;
        true
    }

    /// Notes leases given and inodes opened since the look.
    fn note_given(
        &mut self,
        core: &mut Core,
        exports: &mut Exports,
        atlas: &mut Atlas,
        leases: &mut Leases,
        opens: &mut Opens,
        survey: &mut Survey,
    ) {
        for ino in leases.given().into_iter().chain(opens.opened()) {
            if !matches!(survey.moves_in_step(core, exports, atlas, ino).0, Moves::No) {
                self.inos.insert(ino);
            }
        }
    }

    /// Inodes that have changed their place may move now, and did not when it was looked at what is held of them. To be
    /// called before it is forgotten what has changed.
    pub(super) fn note_changed(&mut self, exports: &Exports, leases: &Leases, opens: &Opens) {
        if self.place.is_none() {
            return;
        }
        for event in exports.tail.iter().flat_map(|tail| &tail.events) {
            if let Event::Inode(inode) = event
                && (!opens.is_closed(inode.ino) || leases.holders(inode.ino).next().is_some())
            {
                self.inos.insert(inode.ino);
            }
        }
    }

    /// True if it is known of everything that clients hold if it moves. Missing records are read: their inodes may have
    /// left memory, or directories above them.
    pub(super) fn knows_all(
        &mut self,
        core: &mut Core,
        exports: &mut Exports,
        atlas: &mut Atlas,
        leases: &mut Leases,
        opens: &mut Opens,
        survey: &mut Survey,
    ) -> bool {
        self.note_given(core, exports, atlas, leases, opens, survey);
        self.note_changed(exports, leases, opens);
        let mut needs = Vec::new();
        for ino in &self.inos {
            match survey.moves_in_step(core, exports, atlas, *ino).0 {
                Moves::Unknown(mut wants) => needs.append(&mut wants),
                // A directory is remembered after it has left memory, and what is open is told to the other rank.
                Moves::Yes if !opens.is_closed(*ino) => _ = atlas.locate(core, exports, *ino, &mut needs),
                _ => {}
            }
        }
        needs.sort();
        needs.dedup();
        if needs.is_empty() {
            return true;
        }
        atlas.load(core, needs, Waiter::Nobody);
        false
    }

    /// Sessions that have moving files open, and their access to the data.
    pub(super) fn users(
        &self,
        core: &mut Core,
        exports: &mut Exports,
        atlas: &mut Atlas,
        opens: &Opens,
        survey: &mut Survey,
    ) -> Vec<(Ino, Slot, DataAccess)> {
        let mut all = Vec::new();
        for ino in &self.inos {
            if !opens.is_closed(*ino) && !matches!(survey.moves_in_step(core, exports, atlas, *ino).0, Moves::No) {
                all.extend(opens.users(*ino).into_iter().map(|(slot, access)| (*ino, slot, access)));
            }
        }
        all
    }
}

/// The parts of a rank that know what clients hold.
pub(super) struct Clients<'a> {
    pub(super) sessions: &'a mut Sessions,
    pub(super) leases: &'a mut Leases,
    pub(super) recalls: &'a mut Recalls,
    pub(super) opens: &'a mut Opens,
    pub(super) locks: &'a mut Locks,
    pub(super) tidy: &'a mut EofCleanup,
}

impl Clients<'_> {
    /// Goes on looking at what clients hold; whether all was seen, and few enough leases are held on what moves.
    pub(super) fn look_at_held(
        &mut self,
        core: &mut Core,
        (atlas, exports): (&mut Atlas, &mut Exports),
        pace: &mut Pace,
        survey: &mut Survey,
        held: &mut Held,
    ) -> bool {
        if held.done {
            return true;
        }
        if held.place.is_none() {
            held.opens = self.opens.watch();
            held.place = Some(self.leases.watch());
        }
        held.note_given(core, exports, atlas, self.leases, self.opens, survey);
        let mut needs = Vec::new();
        let (asked_max, reads_max) = (core.config.some(ASKED_MAX), core.config.some(READS_MAX));
        let mut again = std::mem::take(&mut held.unknown);
        while pace.is_left() && needs.len() < reads_max && held.asked.len() < asked_max {
            let Some(one) = again.pop().or_else(|| held.next_held(self.leases, pace)) else { break };
            let (moves, cost) = survey.moves_in_step(core, exports, atlas, one.ino);
            pace.spend(cost + NOTE);
            match moves {
                Moves::Unknown(mut wants) => {
                    needs.append(&mut wants);
                    held.unknown.push(one);
                }
                Moves::Yes => held.note_held(core, self.recalls, self.sessions, self.leases, one),
                Moves::No => {}
            }
        }
        held.unknown.append(&mut again);
        if !needs.is_empty() {
            needs.sort();
            needs.dedup();
            survey.read(core, atlas, needs);
            return false;
        }
        held.await_asked(core, self.recalls, self.leases)
    }

    /// Takes the holdings of clients on moving inodes, and the sessions with the inodes that each holds something of;
    /// they are not held here any more.
    pub(super) fn take_holdings(
        &mut self,
        core: &mut Core,
        (atlas, exports): (&mut Atlas, &mut Exports),
        survey: &mut Survey,
        held: &mut Held,
        to: Rank,
    ) -> (Vec<MovedClient>, Holders) {
        let mut by_slot: BTreeMap<Slot, MovedClient> = BTreeMap::new();
        let sessions = self.sessions.iter().map(|(slot, session)| {
            let client = MovedClient {
                client: session.client,
                name: session.name.clone(),
                uid: session.uid,
                addresses: session.addresses.clone(),
                ..MovedClient::default()
            };
            (slot, client)
        });
        by_slot.extend(sessions);
        let mut inos = std::mem::take(&mut held.inos);
        inos.retain(|ino| !matches!(survey.moves_in_step(core, exports, atlas, *ino).0, Moves::No));
        let mut openers = BTreeSet::new();
        for ino in &inos {
            let leases: Vec<_> = self.leases.holders(*ino).collect();
            for (slot, bits) in leases {
                self.leases.take(*ino, slot, bits);
                if let Some(client) = by_slot.get_mut(&slot) {
                    client.held.leases.push((*ino, bits));
                }
            }
            openers.extend(self.opens.users(*ino).into_iter().map(|(slot, _)| slot));
            for (slot, handle, lock) in self.locks.of(*ino) {
                if let Some(client) = by_slot.get_mut(&slot) {
                    client.held.locks.push((*ino, handle, lock));
                }
            }
        }
        for slot in openers {
            for (number, handle) in self.opens.handles_of(slot) {
                if !inos.contains(&handle.ino) {
                    continue;
                }
                let rights = self.opens.rights(handle.ino, slot);
                let Some(client) = by_slot.get_mut(&slot) else { continue };
                client.held.opens.push((number, handle.ino, handle.flags(), rights));
            }
        }
        self.close_moved(core, exports, &by_slot, to);
        let mut holders: Holders = by_slot.iter().map(|(slot, client)| (*slot, held_inos(client))).collect();
        holders.retain(|_, inos| !inos.is_empty());
        let clients = by_slot.into_values();
        (clients.filter(|client| client.held != Default::default() && client.client != 0).collect(), holders)
    }

    /// Handles that move are not open here any more.
    fn close_moved(&mut self, core: &mut Core, exports: &mut Exports, by_slot: &BTreeMap<Slot, MovedClient>, to: Rank) {
        for (slot, client) in by_slot {
            for (number, ino, ..) in &client.held.opens {
                self.opens.close(*slot, *number);
                self.tidy.forget(*ino);
                let waited = self.locks.drop_handle(*ino, *slot, *number);
                // They wait again at the new rank.
                for id in waited {
                    core.parked.ready(id);
                }
            }
        }
        let numbers = |(slot, client): (&Slot, &MovedClient)| {
            client.held.opens.iter().map(|(number, ..)| (*slot, *number)).collect::<Vec<_>>()
        };
        let handles: Vec<(Slot, u64)> = by_slot.iter().flat_map(numbers).collect();
        exports.note_moved_handles(core, &handles, to);
    }
}

impl Opens {
    /// Nobody looks at what clients hold any more.
    pub(super) fn look_ends(&mut self, leases: &mut Leases) {
        leases.watch_ends();
        self.watch_ends();
    }
}

/// The inodes that a client holds something of, ascending.
fn held_inos(client: &MovedClient) -> Vec<Ino> {
    let opens = client.held.opens.iter().map(|(_, ino, ..)| *ino);
    let leases = client.held.leases.iter().map(|(ino, _)| *ino);
    let all: BTreeSet<Ino> = opens.chain(leases).chain(client.held.locks.iter().map(|(ino, ..)| *ino)).collect();
    all.into_iter().collect()
}
