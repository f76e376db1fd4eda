//! Transactions over ranks, at the rank that coordinates: borrows what is missing, decides as always, and makes the decision
//! true with one record, which holds a letter to each rank that lent.

use std::collections::{BTreeMap, BTreeSet};

use loligo_namespace::{Loaded, Need, need};
use loligo_types::peer::Apart;
use loligo_types::{Event, Frag, FsError, Ino, Kind, Lease, Letter, Op, Rank, Subject};

use crate::cluster::borrowing::{Borrowing, Failed, Foreign, Gathered, Tx};
use crate::cluster::{Atlas, Exports, Peers, Replicas, Where};
use crate::core::Core;
use crate::job::{Job, WaitReason};
use crate::peer::{Lent, PeerMsg, TxId, Want};
use crate::recall::SHARED;
use crate::session::Sessions;
use crate::step::Step;

impl Borrowing {
    /// A rank has lent. The request that fails for it, as another rank that was asked has refused.
    pub(crate) fn lent(&mut self, core: &mut Core, from: Rank, tx: TxId, round: u32, lent: Lent) -> Failed {
        let Some(state) = self.txs.get_mut(&tx) else {
            core.tell(from, PeerMsg::Return { tx, again: false });
            return None;
        };
        if state.outstanding.get(&from) != Some(&round) {
            self.lent_later(core, from, tx, round, lent);
            return None;
        }
        state.outstanding.remove(&from);
        state.keep(from, lent);
        self.answered(core, tx)
    }

    /// A rank will not, or not now. The request that fails for it.
    pub(crate) fn denied(&mut self, core: &mut Core, from: Rank, tx: TxId, round: u32, error: FsError) -> Failed {
        let state = self.txs.get_mut(&tx)?;
        if state.outstanding.get(&from) != Some(&round) {
            return None;
        }
        state.outstanding.remove(&from);
        state.guests.remove(&from);
        if error == FsError::Busy {
            state.calls.insert(from);
        }
        state.denied = Some(state.denied.filter(|error| *error != FsError::Busy).unwrap_or(error));
        self.answered(core, tx)
    }

    fn answered(&mut self, core: &mut Core, tx: TxId) -> Failed {
        let state = self.txs.get_mut(&tx)?;
        if !state.outstanding.is_empty() {
            return None;
        }
        let id = state.job;
        match state.denied.take() {
            None => core.parked.ready(id),
            Some(FsError::Busy) => {
                // Nothing is held while it waits to be called.
                let ranks: Vec<Rank> = std::mem::take(&mut state.guests).into_keys().collect();
                state.found.clear();
                state.parts.clear();
                state.apart.clear();
                if state.calls.is_empty() {
                    // All have called before the last one answered.
                    core.parked.ready(id);
                }
                ranks.into_iter().for_each(|rank| core.tell(rank, PeerMsg::Return { tx, again: true }));
            }
            Some(error) => return Some((core.parked.take(id)?, error)),
        }
        None
    }

    /// Finds the records that an operation needs, by the rank that has them.
    pub(crate) fn gather(&self, core: &mut Core, atlas: &mut Atlas, exports: &mut Exports, job: &Job) -> Gathered {
        let needs = need(&core.tree, &job.op, &job.cred);
        if needs.is_empty() {
            return Gathered::All;
        }
        let (mut own, mut foreign) = (Vec::new(), Foreign::new());
        let mut away: BTreeMap<Ino, Rank> = BTreeMap::new();
        let mut unknown: BTreeSet<Ino> = BTreeSet::new();
        for need in &needs {
            let Need::Inode(ino) = need else { continue };
            let told = job.tx.and_then(|tx| self.txs.get(&tx)?.found.get(ino).copied());
            let verdict = match told {
                Some(rank) if rank != core.me() => Where::Elsewhere(rank),
                told => match atlas.locate(core, exports, *ino, &mut own) {
                    // Whom this rank asked says that it is here, where it is not any more: both would ask each other for ever.
                    Where::Elsewhere(_) if told.is_some() => {
                        if !atlas.unconfirmed_routes.contains_key(&(*ino, Frag::WHOLE)) {
                            atlas.doubt(core, *ino, Frag::WHOLE);
                        }
                        return Gathered::Again;
                    }
                    verdict => verdict,
                },
            };
            match verdict {
                Where::Elsewhere(rank) => drop(away.insert(*ino, rank)),
                _ => drop(unknown.insert(*ino)),
            }
        }
        for need in needs {
            if let Need::Parts(dir) = need {
                if job.op.props().remote {
                    // A request for the attributes will look for all of it.
                    away.insert(dir, core.me());
                    continue;
                }
                let lent = job.tx.and_then(|tx| self.txs.get(&tx)?.parts.get(&dir));
                let lent = lent.map(|by_rank| by_rank.keys().copied().collect()).unwrap_or_default();
                let Some(ranks) = atlas.missing_parts(core, dir, &lent) else { return Gathered::Again };
                let want = Want { need, recall: Lease::NONE, shown: !job.op.is_change() };
                ranks.into_iter().for_each(|rank| foreign.entry(rank).or_default().push(want.clone()));
                continue;
            }
            let of = match &need {
                Need::Inode(ino) | Need::Xattrs(ino) | Need::Inline(ino) | Need::Parts(ino) => *ino,
                Need::Entry { dir, .. } | Need::Range { dir, .. } | Need::Hashes { dir, .. } => *dir,
            };
            let named = match &need {
                Need::Entry { dir, name } => atlas.rank_of_name(core, *dir, name),
                Need::Range { dir, .. } if core.tree.part(*dir).is_some() => Some(core.me()),
                _ => None,
            };
            let rank = named.or(away.get(&of).copied()).unwrap_or_else(|| core.tree.owner(of));
            if rank != core.me() {
                let recall = bits_for(&job.op, of);
                foreign.entry(rank).or_default().push(Want { need, recall, shown: false });
            } else if !matches!(need, Need::Inode(_)) && !unknown.contains(&of) {
                own.push(need);
            }
        }
        if job.op.props().lists_from.is_some() {
            // The attributes of others' inodes are left out; the client asks there if it wants them.
            foreign.clear();
        }
        own.dedup();
        if !own.is_empty() {
            return Gathered::Own(own);
        }
        match away.first_key_value() {
            Some((ino, rank)) if job.op.props().remote => Gathered::Remote(*ino, *rank),
            _ if foreign.is_empty() => Gathered::All,
            _ => Gathered::Foreign(foreign),
        }
    }

    /// True if something is borrowed from a rank, or asked for.
    pub(crate) fn borrows_from(&self, rank: Rank) -> bool {
        let from = |tx: &Tx| tx.guests.contains_key(&rank) || tx.outstanding.contains_key(&rank);
        self.txs.values().any(from)
    }

    /// Forgets inodes that were found at a rank: they are not there any more.
    pub(crate) fn forget_found_at(&mut self, rank: Rank) {
        for tx in self.txs.values_mut() {
            tx.found.retain(|_, at| *at != rank);
        }
    }

    /// Borrows; the request waits until all have answered.
    pub(crate) fn borrow(
        &mut self,
        core: &mut Core,
        peers: &Peers,
        replicas: &mut Replicas,
        sessions: &Sessions,
        job: &mut Job,
        foreign: Foreign,
    ) -> Step {
        let up = |rank: &Rank| peers.links.get(rank).is_some_and(|link| link.greeted);
        if !foreign.keys().all(up) {
            self.give_back(core, job, true);
            return Step::Wait(WaitReason::Peers);
        }
        if !self.is_its_turn(job, &foreign) {
            self.give_back(core, job, true);
            job.tx.into_iter().for_each(|tx| self.end_turn(core, tx));
            return Step::Wait(WaitReason::Locked);
        }
        replicas.lent.ask_for_replicas(core, job, &foreign);
        let client = sessions.get(job.slot).map_or(0, |session| session.client);
        let tx = self.transaction(core, job).0;
        self.take_turn(tx, &foreign);
        let (_, state) = self.transaction(core, job);
        state.round += 1;
        let round = state.round;
        state.calls.clear();
        for rank in foreign.keys() {
            state.asked.insert(*rank);
            state.outstanding.insert(*rank, round);
        }
        for (rank, wants) in foreign {
            core.tell(rank, PeerMsg::Borrow { tx, round, client, wants });
        }
        Step::Wait(WaitReason::Borrow)
    }

    /// The transaction of a request; it begins if there is none.
    fn transaction(&mut self, core: &mut Core, job: &mut Job) -> (TxId, &mut Tx) {
        let id = core.parked.number(job);
        let tx = match job.tx {
            Some(tx) => tx,
            None => {
                let now = u64::try_from(core.now.wall.0).unwrap_or(0);
                self.last_tx = now.max(self.last_tx + 1);
                TxId { number: self.last_tx, rank: core.me() }
            }
        };
        job.tx = Some(tx);
        let state = self.txs.entry(tx).or_default();
        state.job = id;
        (tx, state)
    }

    /// A number of another rank that nobody has: as if that rank had lent that nothing has it. It need not be asked.
    pub(super) fn bring_absent(&mut self, core: &mut Core, job: &mut Job, rank: Rank, number: Ino) {
        let absent = Loaded::Inode(number, None);
        let (_, state) = self.transaction(core, job);
        let guests = state.guests.entry(rank).or_default();
        if !guests.contains(&absent) {
            guests.push(absent.clone());
        }
        core.tree.invite(rank, &[absent]);
    }

    /// A rank that had denied lends now, unasked. That is of use if nobody else is waited for.
    fn lent_later(&mut self, core: &mut Core, from: Rank, tx: TxId, round: u32, lent: Lent) {
        let Some(state) = self.txs.get_mut(&tx) else { return };
        if state.outstanding.contains_key(&from) || state.guests.contains_key(&from) {
            // It has been asked again, and answers that.
            return;
        }
        let called = state.calls.remove(&from) && state.round == round;
        if called && state.calls.is_empty() && state.outstanding.is_empty() {
            state.keep(from, lent);
            return core.parked.ready(state.job);
        }
        // Nothing is held while others are waited for.
        core.tell(from, PeerMsg::Return { tx, again: true });
    }

    /// Lets a transaction ask again for records that it was denied, as far as this rank is concerned.
    pub(crate) fn try_again(&mut self, core: &mut Core, from: Rank, tx: TxId) {
        if let Some(state) = self.txs.get_mut(&tx)
            && state.calls.remove(&from)
            && state.calls.is_empty()
            && state.outstanding.is_empty()
        {
            core.parked.ready(state.job);
        }
    }

    /// A record that this request looks at is locked for another transaction. It waits; but a younger one that holds
    /// something gives that back first.
    pub(crate) fn give_way(&mut self, core: &mut Core, job: &mut Job, holder: TxId) -> Step {
        if job.tx.is_some_and(|tx| holder < tx) {
            self.give_back(core, job, true);
        }
        Step::Wait(WaitReason::Locked)
    }

    /// Gives borrowed records back if a request waits for clients, for data, or for a migration.
    pub(crate) fn give_back_for(&mut self, core: &mut Core, job: &mut Job, why: &WaitReason) {
        match why {
            WaitReason::Load(_) | WaitReason::Borrow | WaitReason::Locked | WaitReason::Peers => {}
            WaitReason::Stop => self.give_back(core, job, false),
            _ => self.give_back(core, job, true),
        }
    }

    /// The rank stops: those that have borrowed, or asked for it, wait for the next life without.
    pub(crate) fn stop_borrowing(&self, core: &mut Core) {
        let jobs: Vec<u64> = self.txs.values().map(|tx| tx.job).collect();
        jobs.into_iter().for_each(|id| core.parked.ready(id));
    }

    /// Gives back all that was borrowed for a request.
    pub(crate) fn give_back(&mut self, core: &mut Core, job: &mut Job, again: bool) {
        let Some(tx) = job.tx else { return };
        let Some(state) = self.txs.get_mut(&tx) else { return };
        state.guests.clear();
        state.opens.clear();
        state.parts.clear();
        state.found.clear();
        state.apart.clear();
        state.outstanding.clear();
        state.calls.clear();
        state.denied = None;
        let ranks: Vec<Rank> = state.asked.iter().copied().collect();
        if !again {
            self.txs.remove(&tx);
            job.tx = None;
        }
        ranks.into_iter().for_each(|rank| core.tell(rank, PeerMsg::Return { tx, again }));
        match again {
            true => self.pause_turn(core, tx),
            false => self.end_turn(core, tx),
        }
    }

    /// Voids records that were borrowed from a rank, or asked of it: those requests begin anew.
    pub(crate) fn void_loans_of(&mut self, core: &mut Core, rank: Rank) {
        let with = self.txs.iter().filter(|(_, tx)| tx.asked.contains(&rank));
        let with: Vec<TxId> = with.map(|(id, _)| *id).collect();
        for tx in with {
            let Some(state) = self.txs.get_mut(&tx) else { continue };
            state.outstanding.clear();
            state.calls.clear();
            state.found.clear();
            state.parts.clear();
            state.apart.clear();
            state.denied = None;
            state.asked.remove(&rank);
            let id = state.job;
            let guests = std::mem::take(&mut state.guests);
            for other in guests.into_keys().filter(|other| *other != rank) {
                core.tell(other, PeerMsg::Return { tx, again: true });
            }
            core.parked.ready(id);
        }
    }

    /// True if something is borrowed for a transaction, or asked for.
    pub(super) fn borrows(&self, tx: TxId) -> bool {
        self.txs.get(&tx).is_some_and(|tx| !tx.guests.is_empty() || !tx.outstanding.is_empty())
    }

    /// Puts what was borrowed for a request beside this rank's own records.
    pub(crate) fn invite(&self, core: &mut Core, tx: TxId) {
        let Some(state) = self.txs.get(&tx) else { return };
        for (rank, items) in &state.guests {
            core.tree.invite(*rank, items);
        }
        for (dir, by_rank) in &state.parts {
            let mut all = core.tree.own_frags(*dir).unwrap_or_default();
            all.extend(by_rank.values().flatten());
            if super::cuts::covers_all(&all) {
                core.tree.set_whole(*dir);
            }
        }
    }

    /// Where an inode is that was lent for a request, if it is in a decoupled subtree of its rank.
    pub(crate) fn lent_apart(&self, job: &Job, ino: Ino) -> Option<Apart> {
        let apart = &self.txs.get(&job.tx?)?.apart;
        apart.iter().find(|apart| apart.ino == ino).copied()
    }

    /// True if some of the records lent for a request are in decoupled subtrees.
    pub(crate) fn has_apart(&self, job: &Job) -> bool {
        job.tx.and_then(|tx| self.txs.get(&tx)).is_some_and(|tx| !tx.apart.is_empty())
    }

    /// Number of opens of an inode, at whatever rank it is.
    pub(crate) fn opens_of_guest(&self, tx: TxId, ino: Ino) -> Option<u32> {
        self.txs.get(&tx)?.opens.get(&ino).copied()
    }

    /// Parts the events of a decision: those of this rank, and a letter to each other one. Guests are still there.
    pub(crate) fn part(&mut self, core: &mut Core, job: &mut Job, events: Vec<Event>) -> Vec<Event> {
        let Some(tx) = job.tx else { return events };
        let mut own = Vec::new();
        let mut theirs: BTreeMap<Rank, Vec<Event>> = BTreeMap::new();
        for event in events {
            let rank = rank_of_event(core, &event);
            if rank == core.me() {
                own.push(event);
                continue;
            }
            let events = theirs.entry(rank).or_default();
            if let Event::Inode(inode) = &event
                && inode.part_of().is_none()
                && let Some(lent) = core.tree.inode(inode.ino)
                && (lent.kind, lent.part_of()) == (Kind::Dir, None)
            {
                // What is below it may grow while it is lent: its rank needs what the decision adds.
                events.push(Event::Inode(Box::new(lent.clone())));
            }
            events.push(event);
        }
        for (rank, events) in theirs {
            own.extend(core.write_letter(rank, Letter::Commit { tx: tx.number, events }));
            if let Some(state) = self.txs.get_mut(&tx) {
                state.asked.remove(&rank);
            }
        }
        self.decide_turn(core, tx);
        self.give_back(core, job, false);
        own
    }
}

/// The inode whose owner applies an event.
fn owner_of(event: &Event) -> Option<Ino> {
    match event {
        Event::Inode(inode) => Some(inode.ino),
        Event::InodeGone(ino)
        | Event::InlineGone(ino)
        | Event::Orphan(ino)
        | Event::OrphanGone(ino)
        | Event::DiscardGone(ino)
        | Event::RouteGone(ino)
        | Event::Xattr { ino, .. }
        | Event::XattrGone { ino, .. }
        | Event::Inline { ino, .. }
        | Event::Data { ino, .. }
        | Event::Discard { ino, .. } => Some(*ino),
        _ => None,
    }
}

/// Leases that clients must not have on a foreign inode while the operation is decided.
fn bits_for(op: &Op, ino: Ino) -> Lease {
    let (names, target) = match op.subjects()[1] {
        Subject::Name(dir, _) | Subject::Names(dir) => (dir == ino, false),
        Subject::Inode(target) => (false, target == ino),
        // The target of an entry here; of directories above nothing is asked.
        Subject::Nothing => (false, op.props().takes_target),
    };
    match (names, target) {
        (true, _) => SHARED,
        (_, true) => SHARED | Lease::CACHE | Lease::BUFFER,
        // Moved inodes change their ctime; of directories above it costs a little too much.
        _ => SHARED | Lease::BUFFER,
    }
}

/// The rank that applies an event of a decision. Guests are still there.
fn rank_of_event(core: &Core, event: &Event) -> Rank {
    match event {
        Event::Route(route) => route.rank,
        Event::PartGone { rank, .. } => *rank,
        Event::Inode(inode) if inode.part_of().is_some() => inode.part_of().unwrap_or_default(),
        Event::Entry { dir, name, .. } | Event::EntryGone { dir, name } => core.tree.entry_owner(*dir, name),
        event => owner_of(event).map_or(core.me(), |ino| core.tree.owner(ino)),
    }
}
