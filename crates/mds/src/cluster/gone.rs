//! Clients that have ended: what moved to a rank that they never came to is let go of at once. Not how a session ends.
//!
//! What a client holds moves with the directories that it is in, and the client hears of that afterwards. One that ends in between says
//! goodbye where it was; the rank to which it moved would wait for it as long as a session lives, and everybody who wants something
//! that was lent to it. So whoever is told that a client is gone tells all others.

use loligo_types::Rank;
use loligo_types::peer::PeerMsg;

use crate::cluster::Atlas;
use crate::cluster::Peers;
use crate::core::Core;
use crate::machine::Mds;
use crate::session::{Session, Slot};

/// Clients that are remembered: what they held may still be on its way.
const GONE_MAX: usize = 1024;

impl Mds {
    /// Another rank says so.
    pub(crate) fn client_gone(&mut self, client: u64) {
        if client != 0 {
            self.cluster.peers.note_gone(client);
            self.end_gone(std::iter::once(client));
        }
    }

    /// Ends the sessions of those of these clients that are gone. One that still has a connection here says goodbye over that; one that
    /// ends already waits for the store to refuse its client.
    pub(crate) fn end_gone(&mut self, clients: impl Iterator<Item = u64>) {
        for client in clients.filter(|client| *client != 0) {
            if !self.cluster.peers.gone.contains(&client) {
                continue;
            }
            let is_left = |own: &Session| own.client == client && own.conn.is_none() && own.ending.is_none();
            let slots: Vec<Slot> = self.sessions.iter().filter(|(_, own)| is_left(own)).map(|(slot, _)| slot).collect();
            slots.into_iter().for_each(|slot| self.goodbye(slot, false));
        }
    }
}

impl Peers {
    /// A client has said here that it ends: tells the other ranks. If a connection to one of them is lost just now, the session there
    /// ends when its time is over, as that of a client that died.
    pub(crate) fn say_client_gone(&mut self, core: &mut Core, atlas: &Atlas, client: u64) {
        if client == 0 || atlas.is_alone() {
            return;
        }
        self.note_gone(client);
        let others: Vec<Rank> = self.links.keys().copied().collect();
        // After what moves there with records that are not durable yet.
        others.into_iter().for_each(|rank| core.tell_durably(rank, PeerMsg::ClientGone { client }));
    }

    fn note_gone(&mut self, client: u64) {
        let gone = &mut self.gone;
        if !gone.contains(&client) {
            gone.push_back(client);
            gone.drain(..gone.len().saturating_sub(GONE_MAX));
        }
    }
}
