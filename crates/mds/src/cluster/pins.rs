//! Pins: directories go to where their policy allows them to be. A pin is followed as soon as it can be: from when it is set, or, after a
//! restart, from when the directory's xattrs are read.

use loligo_namespace::{PIN, pinned_ranks};
use loligo_types::{Event, Ino, Loaded, Op, Rank};

use crate::admin::Told;
use crate::cluster::state::Cluster;
use crate::cluster::{Atlas, Placement, Where};
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::grace::Grace;
use crate::job::Job;
use crate::load::Waiter;

/// The directories whose xattrs, as they were read, hold a pin.
pub(crate) fn pinned_dirs(items: &[Loaded]) -> Vec<Ino> {
    let pinned = |item: &Loaded| match item {
        Loaded::Xattrs(dir, pairs) => pairs.iter().any(|(name, _)| **name == *PIN).then_some(*dir),
        _ => None,
    };
    items.iter().filter_map(pinned).collect()
}

/// Delay after a pin could not be followed, milliseconds.
const RETRY_MS: u64 = 1000;

impl Atlas {
    /// True if a request sets a pin to ranks that do not exist.
    pub(crate) fn is_bad_pin(&self, core: &Core, job: &Job) -> bool {
        let Op::SetXattr { name, value, .. } = &job.op else { return false };
        let is_there = |rank: &Rank| self.is_a_rank(core, *rank);
        // Where it is wanted must be able to take it, now or when it has started; what is being drained never is.
        let stays = |rank: &Rank| self.map.ranks.is_empty() || self.takes_more(*rank);
        let good = |ranks: Vec<Rank>| ranks.iter().all(is_there) && (ranks.is_empty() || ranks.iter().any(stays));
        **name == *PIN && !pinned_ranks(value).is_some_and(good)
    }

    /// True if there is such a rank.
    pub(crate) fn is_a_rank(&self, core: &Core, rank: Rank) -> bool {
        rank == core.me() || self.map.ranks.iter().any(|info| info.rank == rank)
    }
}

impl Placement {
    /// A record was made (or replayed): it may say where a directory is wanted.
    pub(crate) fn note_pin(&mut self, event: &Event) {
        match event {
            Event::Xattr { ino, name, value } if **name == *PIN => {
                if let Some(ranks) = pinned_ranks(value) {
                    self.pins.insert(*ino, ranks);
                }
            }
            Event::XattrGone { ino, name } if **name == *PIN => drop(self.pins.remove(ino)),
            _ => {}
        }
    }

    /// The xattrs of a directory were read, and say where it is wanted: a life before this one may have ended before it could follow that.
    pub(crate) fn note_loaded_pin(&mut self, core: &Core, dir: Ino) {
        if let Some(ranks) = core.pins_known(dir)
            && !ranks.is_empty()
        {
            self.pins.insert(dir, ranks);
        }
    }
}

impl Cluster {
    /// Moves what is not where it may be.
    pub(crate) fn follow_pins(&mut self, core: &mut Core, grace: &Option<Grace>, decoupled: &Decoupled) {
        let busy = self.exports.is_active() || core.stopping || grace.is_some() || !self.peers.ready;
        if self.placement.pins.is_empty() || busy || core.now.mono_ms < self.placement.pins_at_ms {
            return;
        }
        self.placement.pins_at_ms = core.now.mono_ms + RETRY_MS;
        let pins: Vec<(Ino, Vec<Rank>)> =
            self.placement.pins.iter().map(|(ino, ranks)| (*ino, ranks.clone())).collect();
        for (dir, ranks) in pins {
            let mut wants = Vec::new();
            match self.locate(core, dir, &mut wants) {
                Where::Unknown => _ = self.load(core, wants, Waiter::Nobody),
                // Another rank's to follow.
                Where::Elsewhere(_) => _ = self.placement.pins.remove(&dir),
                Where::Here => {
                    let wanted = ranks.iter().copied().find(|rank| self.atlas.takes_more(*rank));
                    let gone = core.tree.inode(dir).is_none();
                    match wanted {
                        _ if gone || ranks.contains(&core.me()) && self.atlas.takes_more(core.me()) => {
                            _ = self.placement.pins.remove(&dir)
                        }
                        Some(to) if matches!(self.want_export(core, decoupled, dir, None, to), Told::Begun(_)) => {
                            return;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}

impl Core {
    /// The ranks that a directory in memory is pinned to; empty: it is not. `None`: its xattrs must be read.
    pub(crate) fn pins_known(&self, dir: Ino) -> Option<Vec<Rank>> {
        let value = self.tree.xattr(self.tree.inode(dir)?, PIN)?;
        Some(value.and_then(|value| pinned_ranks(&value)).unwrap_or_default())
    }
}
