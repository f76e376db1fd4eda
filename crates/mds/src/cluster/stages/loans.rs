//! Loans: what other ranks want to borrow is considered, with all that may be in the way of it, and what they decide is applied. The loans
//! themselves, and the rules, are `lend.rs`'s.

use loligo_namespace::{decided, ended_lines, lent_dirs};
use loligo_types::{Event, Ino, Kind, Lease, PeerRecord, Rank};

use crate::cluster::lend::replicated;
use crate::cluster::locks::Claim;
use crate::cluster::search::{Search, name_of};
use crate::load::Waiter;
use crate::machine::Mds;
use crate::peer::{Lent, PeerMsg, TxId, Want};
use crate::recall::SHARED;
use crate::session::Slot;

/// Answer to a transaction that asks for a loan.
enum Verdict {
    Wait,
    Deny,
    Lend(Lent, Vec<Claim>),
}

impl Mds {
    /// Another rank wants to borrow.
    pub(crate) fn borrowed(&mut self, from: Rank, tx: TxId, round: u32, client: u64, wants: Vec<Want>) {
        if tx.rank != from {
            return;
        }
        self.cluster.loans.want(&self.core, tx, round, client, wants);
        self.run_loan(tx);
    }

    /// Goes on with a loan that waits, or was denied.
    fn run_loan(&mut self, tx: TxId) {
        // If it stops, an error would be the client's answer; unanswered, it asks the next life.
        let Some((round, denied)) = self.cluster.loans.goes_on(tx).filter(|_| !self.core.stopping) else { return };
        match self.consider_loan(tx) {
            Verdict::Wait => {}
            Verdict::Deny if denied => {}
            Verdict::Deny => self.cluster.loans.deny_loan(&mut self.core, &mut self.opens, &mut self.tidy, tx),
            Verdict::Lend(..) if denied && !self.cluster.peers.links.get(&tx.rank).is_some_and(|link| link.greeted) => {
                // It would be locked until that rank is back, which wants nothing of before.
            }
            Verdict::Lend(lent, claims) => {
                self.cluster.loans.lend(&mut self.core, tx, &claims);
                self.core.tell_durably(tx.rank, PeerMsg::Lent { tx, round, lent });
            }
        }
    }

    fn consider_loan(&mut self, tx: TxId) -> Verdict {
        if self.grace.is_some() || !self.cluster.peers.ready || self.decoupled.is_merging() {
            // Of what is merged half is in memory.
            return Verdict::Wait;
        }
        let Some((wants, client, first)) = self.cluster.loans.wanted(tx) else { return Verdict::Wait };
        let mut search = Search::default();
        for want in &wants {
            search.look_for(&mut self.core, &mut self.cluster.exports, &mut self.cluster.atlas, tx.rank, want);
        }
        let Search { needs, claims, mut lent } = search;
        if !needs.is_empty() {
            self.cluster.load(&mut self.core, needs, Waiter::Loan(tx));
            return Verdict::Wait;
        }
        if let Some(holder) = self.cluster.loans.queue(tx, &claims) {
            return if holder < tx { Verdict::Deny } else { Verdict::Wait };
        }
        let names: Vec<(Ino, u64)> = wants.iter().filter_map(|want| name_of(&self.core.tree, want)).collect();
        if names.into_iter().any(|(dir, hash)| self.cluster.exports.moved_name(dir, hash).is_some()) {
            return Verdict::Deny;
        }
        // What another rank decides may cut a file.
        let mut busy = |ino: Ino| {
            self.discards.data_is_busy(&self.decoupled, ino)
                || self.cluster.exports.is_leaving(&mut self.core, &mut self.cluster.atlas, ino)
                || self.cluster.exports.is_spreading(ino)
                || self.opens.wait_for_rooms(&mut self.tidy, ino).is_some()
        };
        if claims.iter().any(|claim| busy(claim.ino)) {
            return Verdict::Deny;
        }
        let inos: Vec<Ino> = claims.iter().map(|claim| claim.ino).collect();
        match self.decoupled.apart_of(&mut self.core, &mut self.cluster, &inos) {
            Ok(apart) => lent.apart = apart,
            Err(needs) => {
                self.cluster.load(&mut self.core, needs, Waiter::Loan(tx));
                return Verdict::Wait;
            }
        }
        if self.ask_back(tx, client, &claims) {
            return Verdict::Deny;
        }
        if !self.cluster.replicas.lent.is_empty()
            && self.cluster.replicas.lent.take_replicas_back(&mut self.core, &replicated(&claims))
        {
            self.cluster.loans.mark_loan(&mut self.core, tx, &inos);
            return Verdict::Deny;
        }
        if self.promises.are_promised(&self.core, &replicated(&claims), first) {
            self.cluster.loans.mark_loan(&mut self.core, tx, &inos);
            return Verdict::Deny;
        }
        // Paths do not lead through what another rank decides on.
        replicated(&claims).into_iter().for_each(|ino| self.shortcuts.drop_through(ino));
        lent.opens = claims.iter().map(|claim| (claim.ino, self.opens.count(claim.ino))).collect();
        Verdict::Lend(lent, claims)
    }

    /// Asks clients for what they must not hold; whether there is something.
    fn ask_back(&mut self, tx: TxId, client: u64, claims: &[Claim]) -> bool {
        let mut due: Vec<(Ino, Slot, Lease)> = Vec::new();
        for Claim { ino, recall: bits, .. } in claims {
            let leases = self.leases.holders(*ino).map(|(slot, held)| (slot, held & SHARED));
            for (slot, held) in leases.chain(self.opens.all_rights(*ino)) {
                let own = client != 0 && self.sessions.get(slot).is_some_and(|session| session.client == client);
                if !own && held.any(*bits) {
                    due.push((*ino, slot, held & *bits));
                }
            }
        }
        if due.is_empty() {
            return false;
        }
        let inos: Vec<Ino> = claims.iter().map(|claim| claim.ino).collect();
        self.cluster.loans.mark_loan(&mut self.core, tx, &inos);
        due.into_iter()
            .for_each(|(ino, slot, bits)| self.recalls.recall(&mut self.core, &self.sessions, ino, slot, bits, 0));
        true
    }

    /// Something was unlocked, given back by a client, or read: those that wait or were denied go on, the oldest first.
    pub(crate) fn next_loans(&mut self) {
        for tx in self.cluster.loans.waiting() {
            if !self.cluster.loans.still_waits(tx) {
                self.run_loan(tx);
            }
        }
    }

    /// Something was read for a loan. It goes on at once: what was read may not stay in memory for long.
    pub(crate) fn loan_loaded(&mut self, tx: TxId) {
        self.run_loan(tx);
    }

    /// The decision of a transaction came: its changes are applied, and its locks go. False if something must be read first.
    pub(crate) fn settle_loan(&mut self, tx: TxId, events: &[Event], peer: PeerRecord) -> bool {
        let mut wants = Vec::new();
        for ino in lent_dirs(events) {
            self.cluster.locate(&mut self.core, ino, &mut wants);
        }
        if !wants.is_empty() {
            self.cluster.load(&mut self.core, wants, Waiter::Letter(tx.rank));
            return false;
        }
        let tree = &self.core.tree;
        let mut all = decided(events, &mut |ino| tree.inode(ino).cloned(), &mut |ino| tree.part(ino).cloned());
        all.extend(ended_lines(events));
        all.push(Event::Peer(peer));
        let moves = |event: &Event| match event {
            Event::Inode(inode) => inode.kind == Kind::Dir,
            Event::Route(_) | Event::RouteGone(_) => true,
            _ => false,
        };
        if events.iter().any(moves) {
            self.cluster.exports.disturb_export(&mut self.core, &self.sessions, &self.opens);
        }
        let born = self.cluster.placement.note_scattered(&self.core, events);
        self.commit(None, &all);
        for ino in born {
            if let Some(ticket) = self.cluster.atlas.is_born(&self.core, ino) {
                self.loaded(ticket, Vec::new());
            }
        }
        for event in events {
            if let Event::Orphan(ino) = event {
                // Its last handle may have been closed meanwhile.
                self.opens.closed(&self.core, &mut self.tidy, *ino);
            }
        }
        self.cluster.loans.end_loan(&mut self.core, &mut self.opens, &mut self.tidy, tx);
        true
    }

    /// Goes on with those that wait for time, and forgets those that did not come or wait for too long.
    pub(crate) fn expire_loans(&mut self) {
        if self.cluster.loans.expire(&mut self.core, &mut self.opens, &mut self.tidy) {
            self.next_loans();
        }
    }
}
