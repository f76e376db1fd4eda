//! Contents of a letter that moves something here, and the part of taking it in that needs no record. The rest is in `stages/letters.rs`.

use loligo_types::{Event, FsError, Loaded, MovedClient, Rank, Route};

use crate::cluster::state::Cluster;
use crate::cluster::{Atlas, Peers};
use crate::core::Core;
use crate::grace::Grace;
use crate::peer::PeerMsg;
use crate::session::Sessions;

/// Contents of a letter that moves something here.
pub(crate) struct Moved<'a> {
    pub(super) routes: &'a [Route],
    pub(super) events: &'a [Event],
    pub(super) clients: &'a [MovedClient],
}

pub(super) fn route_of(event: &Event) -> Option<Route> {
    match event {
        Event::Route(route) => Some(*route),
        _ => None,
    }
}

impl Peers {
    /// Takes in what the other rank had in memory of it: nobody can have changed it since, and what was just put down counts.
    pub(super) fn take_cached(&mut self, core: &mut Core, atlas: &mut Atlas, from: Rank) {
        let items = self.links.get_mut(&from).map(|link| std::mem::take(&mut link.cached));
        for item in items.unwrap_or_default() {
            if let Loaded::Inode(ino, Some(_)) = &item {
                atlas.departed.remove(ino);
            }
            if matches!(item, Loaded::Inode(_, Some(_)) | Loaded::Entry { found: Some(_), .. }) {
                core.tree.load(item);
            }
        }
    }
}

impl Cluster {
    /// Another rank would like to give a subtree. It may be what is just being dropped here, because it had moved there: that
    /// must be over before it comes back.
    pub(crate) fn offered(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        grace: &Option<Grace>,
        from: Rank,
        moving: u64,
    ) {
        if self.exports.drops() {
            return self.exports.offers.push((from, moving));
        }
        let able = self.peers.ready && grace.is_none() && !core.stopping && !core.is_short_of_space(sessions, self);
        let refused = (!able || !self.atlas.takes_more(core.me())).then_some(FsError::Busy);
        core.tell(from, PeerMsg::Accept { moving, refused });
    }
}
