//! Scattered directories that are asked for before the letter is here that makes them. Who makes one tells its client at once, and not
//! when the rank that the number names has heard of it; and clients are faster than letters, now and then. So of a number that names this rank, that
//! another one has given away, and that neither memory nor the table knows, that rank is asked first: its letters come before its answer.
//! Who waits for the directory waits for that. Not here: how such directories are made (`scatter.rs`).

use loligo_namespace::Need;
use loligo_types::{Event, Ino, Letter, Rank};

use crate::cluster::births::Birth;
use crate::cluster::{Atlas, Peers};
use crate::core::Core;
use crate::peer::PeerMsg;

/// Time for which an answer counts, milliseconds: the table is read once more after it.
const KEEP_MS: u64 = 2000;

impl Atlas {
    /// The answer. The read that waited for it, if there is one: it ends, and those who wait look again.
    pub(super) fn born(&mut self, core: &Core, peers: &Peers, from: Rank, ino: Ino) -> Option<u64> {
        if ino.birth_rank() != from || self.births.by_ino.get(&ino) != Some(&Birth::Asked) {
            return None;
        }
        let makes = |event: &Event| matches!(event, Event::Inode(inode) if inode.ino == ino);
        let letters = peers.links.get(&from).into_iter().flat_map(|link| &link.inbox);
        let mut commits = letters.filter_map(|(_, letter)| match &**letter {
            Letter::Commit { events, .. } => Some(events),
            _ => None,
        });
        if commits.any(|events| events.iter().any(makes)) {
            self.births.by_ino.insert(ino, Birth::Coming);
            return None;
        }
        self.end_birth(core, ino, Some(Birth::Told(core.now.mono_ms + KEEP_MS)))
    }

    /// A letter has made it.
    pub(super) fn is_born(&mut self, core: &Core, ino: Ino) -> Option<u64> {
        if !self.births.by_ino.contains_key(&ino) {
            return None;
        }
        self.end_birth(core, ino, None)
    }

    /// A rank was removed. All that it had to say about these was said.
    pub(super) fn births_of(&self, rank: Rank) -> Vec<Ino> {
        self.births.of(rank)
    }

    /// So nothing that makes this one is on its way.
    pub(super) fn is_told(&mut self, core: &Core, ino: Ino) -> Option<u64> {
        self.end_birth(core, ino, Some(Birth::Told(core.now.mono_ms + KEEP_MS)))
    }

    fn end_birth(&mut self, core: &Core, ino: Ino, birth: Option<Birth>) -> Option<u64> {
        match birth {
            Some(birth) => _ = self.births.by_ino.insert(ino, birth),
            None => _ = self.births.by_ino.remove(&ino),
        }
        // Those who wait look again.
        core.loads.ticket_of(&Need::Inode(ino))
    }

    /// The table does not have an inode. Whether that says nothing yet; then who may have made it is asked.
    pub(super) fn is_unborn(&mut self, core: &mut Core, ino: Ino) -> bool {
        if ino.zeroth_rank() != Some(core.me()) || !self.is_made_elsewhere(core, ino) {
            return false;
        }
        if self.routes.version(ino).is_some() || self.given_to(ino).is_some() {
            return false;
        }
        match self.births.by_ino.get(&ino) {
            Some(Birth::Told(_)) => {
                self.births.by_ino.remove(&ino);
                false
            }
            Some(_) => true,
            None => {
                self.births.by_ino.insert(ino, Birth::Asked);
                core.tell(ino.birth_rank(), PeerMsg::AskBorn { ino });
                true
            }
        }
    }

    /// A rank has said hello: what it was asked, and its answers, may be lost.
    pub(super) fn ask_births_again(&mut self, core: &mut Core, rank: Rank) {
        for ino in self.births.of(rank) {
            self.births.by_ino.insert(ino, Birth::Asked);
            core.tell(rank, PeerMsg::AskBorn { ino });
        }
    }
}
