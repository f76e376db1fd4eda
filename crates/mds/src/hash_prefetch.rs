//! Which hashes the names of a directory have is read ahead of time. Whether a name is not there only the table knows, as long as memory
//! does not know all names around it: after a restart, where a fragment has come from another rank, and where memory is short, each new
//! name of a large directory would cost a read. So each such read that finds nothing is followed by one of the next hashes that are not
//! known, until all are. That takes hardly more than the reads in vain before it, so there is nothing to be set; nobody waits for it.
//!
//! Who lists a directory wants its entries in order. So when some are read that somebody waits for, behind others that are known, those
//! behind them are read, too: as soon as it is known where they begin, which is before the inodes of the first are there. One range ahead.

use loligo_namespace::{Loaded, Need};
use loligo_types::Ino;

use crate::cluster::Atlas;
use crate::core::Core;
use crate::load::Waiter;

/// Hashes take no more than one part of the cache in so many.
const PART_MAX: usize = 8;

impl Core {
    /// Directories and hashes of names that were looked for in the table and are not there.
    pub(crate) fn missed(&self, items: &[Loaded]) -> Vec<(Ino, u64)> {
        let missed = |item: &Loaded| match item {
            Loaded::Entry { dir, name, found: None } => Some((*dir, self.tree.hash(name))),
            _ => None,
        };
        items.iter().filter_map(missed).collect()
    }

    /// Where the listing of directories goes on after what was just read. To be asked before memory has it.
    pub(crate) fn listed(&self, items: &[Loaded]) -> Vec<(Ino, u64)> {
        let behind = |item: &Loaded| match item {
            Loaded::Range { dir, from_hash, upto_hash, .. } if self.tree.is_known_before(*dir, *from_hash) => {
                Some((*dir, upto_hash.checked_add(1)?))
            }
            _ => None,
        };
        items.iter().filter_map(behind).collect()
    }
}

impl Atlas {
    /// Reads the next hashes in the fragment that has this one, unless they are known, or being read, or there are too many.
    pub(crate) fn read_ahead(&self, core: &mut Core, dir: Ino, hash: u64) {
        if core.tree.hash_bytes() >= core.config.cache_bytes_max / PART_MAX {
            return;
        }
        if self.routes.of(dir, hash).is_some_and(|rank| rank != core.me()) {
            return;
        }
        let frag = self.routes.frag(dir, || hash);
        let Some(from_hash) = core.tree.unknown_from(dir, frag, hash) else { return };
        let need = Need::Hashes { dir, from_hash };
        if !core.loads.is_read(&need) {
            self.read_now(core, vec![need], Waiter::Ahead);
        }
    }

    /// Reads the entries from this hash on, if they are this rank's and there is room.
    pub(crate) fn read_on(&self, core: &mut Core, dir: Ino, from_hash: u64) {
        if core.tree.is_known_before(dir, from_hash) {
            self.read_range(core, dir, from_hash);
        }
    }

    /// Where a read under way goes on has become known.
    pub(crate) fn load_goes_on(&self, core: &mut Core, ticket: u64, dir: Ino, from_hash: u64) {
        core.loads.goes_on(ticket, dir, from_hash);
        self.read_behind(core, ticket);
    }

    /// Reads the entries behind those of a read under way, if a request waits for that, and it goes on behind what is known.
    pub(crate) fn read_behind(&self, core: &mut Core, ticket: u64) {
        if let Some((dir, from_hash, behind)) = core.loads.awaited_range(ticket)
            && core.tree.is_known_before(dir, from_hash)
        {
            self.read_range(core, dir, behind);
        }
    }

    fn read_range(&self, core: &mut Core, dir: Ino, from_hash: u64) {
        if core.tree.memory_bytes() >= core.config.cache_bytes_max {
            return;
        }
        if self.routes.of(dir, from_hash).is_some_and(|rank| rank != core.me()) {
            return;
        }
        let need = Need::Range { dir, from_hash };
        if !core.loads.is_read(&need) {
            self.read_now(core, vec![need], Waiter::Ahead);
        }
    }
}
