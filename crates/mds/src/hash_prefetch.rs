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

    /// Reads the next hashes in the fragment that has this one, unless they are known, or being read, or there are too many.
    pub(crate) fn read_ahead(&mut self, atlas: &mut Atlas, dir: Ino, hash: u64) {
        if self.tree.hash_bytes() >= self.config.cache_bytes_max / PART_MAX {
            return;
        }
        if atlas.routes.of(dir, hash).is_some_and(|rank| rank != self.me()) {
            return;
        }
        let frag = atlas.routes.frag(dir, || hash);
        let Some(from_hash) = self.tree.unknown_from(dir, frag, hash) else { return };
        let need = Need::Hashes { dir, from_hash };
        if !self.loads.is_read(&need) {
            self.read_now(atlas, vec![need], Waiter::Ahead);
        }
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

    /// Reads the entries from this hash on, if they are this rank's and there is room.
    pub(crate) fn read_on(&mut self, atlas: &mut Atlas, dir: Ino, from_hash: u64) {
        if self.tree.is_known_before(dir, from_hash) {
            self.read_range(atlas, dir, from_hash);
        }
    }

    /// Where a read under way goes on has become known.
    pub(crate) fn load_goes_on(&mut self, atlas: &mut Atlas, ticket: u64, dir: Ino, from_hash: u64) {
        self.loads.goes_on(ticket, dir, from_hash);
        self.read_behind(atlas, ticket);
    }

    /// Reads the entries behind those of a read under way, if a request waits for that, and it goes on behind what is known.
    pub(crate) fn read_behind(&mut self, atlas: &mut Atlas, ticket: u64) {
        if let Some((dir, from_hash, behind)) = self.loads.awaited_range(ticket)
            && self.tree.is_known_before(dir, from_hash)
        {
            self.read_range(atlas, dir, behind);
        }
    }

    fn read_range(&mut self, atlas: &mut Atlas, dir: Ino, from_hash: u64) {
        if self.tree.memory_bytes() >= self.config.cache_bytes_max {
            return;
        }
        if atlas.routes.of(dir, from_hash).is_some_and(|rank| rank != self.me()) {
            return;
        }
        let need = Need::Range { dir, from_hash };
        if !self.loads.is_read(&need) {
            self.read_now(atlas, vec![need], Waiter::Ahead);
        }
    }
}
