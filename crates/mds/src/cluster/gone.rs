//! Clients that have ended: what moved to a rank that they never came to is let go of at once. Not how a session ends.
//!
//! What a client holds moves with the directories that it is in, and the client hears of that afterwards. One that ends in between says
//! goodbye where it was; the rank to which it moved would wait for it as long as a session lives, and everybody who wants something
//! that was lent to it. So whoever is told that a client is gone tells all others. The sessions end in `stages/links.rs`.

use loligo_types::Rank;
use loligo_types::peer::PeerMsg;

use crate::cluster::{Atlas, Peers};
use crate::core::Core;

/// Clients that are remembered: what they held may still be on its way.
const GONE_MAX: usize = 1024;

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

    pub(super) fn note_gone(&mut self, client: u64) {
        let gone = &mut self.gone;
        if !gone.contains(&client) {
            gone.push_back(client);
            gone.drain(..gone.len().saturating_sub(GONE_MAX));
        }
    }
}
