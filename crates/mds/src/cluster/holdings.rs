//! Migration, at the rank that gives a subtree away: what clients hold on what moves. Not when that is taken from them.

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::{Ino, MovedClient, Rank};

use super::survey::{Moves, Survey};
use crate::load::Waiter;
use crate::machine::Mds;
use crate::session::Slot;

/// Sessions with the inodes that they hold something of.
pub(super) type Holders = BTreeMap<Slot, Vec<Ino>>;

impl Mds {
    /// Whether it is known of all that clients hold if it moves. What must be read for it is read: their inodes may have
    /// left memory, or directories above them.
    pub(super) fn knows_held(&mut self, survey: &mut Survey) -> bool {
        let mut inos: Vec<Ino> = self.opens.all_shares().into_iter().map(|(ino, ..)| ino).collect();
        inos.extend(self.leases.all().into_iter().map(|(ino, ..)| ino));
        inos.extend(self.opens.all_handles().into_iter().map(|(_, _, handle)| handle.ino));
        inos.extend(self.locks.all().into_iter().map(|(ino, ..)| ino));
        inos.sort();
        inos.dedup();
        let mut needs = Vec::new();
        for ino in inos {
            if let Moves::Unknown(mut wants) = self.moves(survey, ino) {
                needs.append(&mut wants);
            }
        }
        needs.sort();
        needs.dedup();
        if needs.is_empty() {
            return true;
        }
        self.load(needs, Waiter::Nobody);
        false
    }

    /// What clients hold on what moves, and which sessions hold something of which inodes; it is not held here any more.
    pub(super) fn take_holdings(&mut self, survey: &mut Survey, to: Rank) -> (Vec<MovedClient>, Holders) {
        let mut by_slot: BTreeMap<Slot, MovedClient> = BTreeMap::new();
        let sessions = self.sessions.iter().map(|(slot, session)| {
            let client = MovedClient {
                client: session.client,
                name: session.name.clone(),
                uid: session.uid,
                ..MovedClient::default()
            };
            (slot, client)
        });
        by_slot.extend(sessions);
        for (ino, slot, bits) in self.leases.all() {
            if !matches!(self.moves(survey, ino), Moves::No) {
                self.leases.take(ino, slot, bits);
                if let Some(client) = by_slot.get_mut(&slot) {
                    client.held.leases.push((ino, bits));
                }
            }
        }
        for (slot, number, handle) in self.opens.all_handles() {
            if matches!(self.moves(survey, handle.ino), Moves::No) {
                continue;
            }
            let rights = self.opens.rights(handle.ino, slot);
            let Some(client) = by_slot.get_mut(&slot) else { continue };
            client.held.opens.push((number, handle.ino, handle.flags(), rights));
        }
        for (ino, slot, handle, lock) in self.locks.all() {
            if !matches!(self.moves(survey, ino), Moves::No)
                && let Some(client) = by_slot.get_mut(&slot)
            {
                client.held.locks.push((ino, handle, lock));
            }
        }
        for (slot, client) in &by_slot {
            for (number, ino, ..) in &client.held.opens {
                self.opens.close(*slot, *number);
                self.tidy.forget(*ino);
                let waited = self.locks.drop_handle(*ino, *slot, *number);
                // They wait again at the new rank.
                for id in waited {
                    self.parked.ready(id);
                }
            }
        }
        let numbers = |(slot, client): (&Slot, &MovedClient)| {
            client.held.opens.iter().map(|(number, ..)| (*slot, *number)).collect::<Vec<_>>()
        };
        let handles: Vec<(Slot, u64)> = by_slot.iter().flat_map(numbers).collect();
        self.note_moved_handles(&handles, to);
        let mut holders: Holders = by_slot.iter().map(|(slot, client)| (*slot, held_inos(client))).collect();
        holders.retain(|_, inos| !inos.is_empty());
        let clients = by_slot.into_values();
        (clients.filter(|client| client.held != Default::default() && client.client != 0).collect(), holders)
    }
}

/// The inodes that a client holds something of, ascending.
fn held_inos(client: &MovedClient) -> Vec<Ino> {
    let opens = client.held.opens.iter().map(|(_, ino, ..)| *ino);
    let leases = client.held.leases.iter().map(|(ino, _)| *ino);
    let all: BTreeSet<Ino> = opens.chain(leases).chain(client.held.locks.iter().map(|(ino, ..)| *ino)).collect();
    all.into_iter().collect()
}
