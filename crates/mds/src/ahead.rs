//! Names that are read ahead of time. Whether a name is not there only the table knows, as long as memory does not know all names
//! around it: after a restart, and where a fragment has come from another rank, each new name of a large directory would cost a
//! read. So each such read that finds nothing is followed by one of the next names that are not in memory, until all are: what it
//! costs is never more than a part of what has been spent in vain before, and there is nothing to be set. Nobody waits for it.

use loligo_namespace::{Loaded, Need};
use loligo_types::Ino;

use crate::load::Waiter;
use crate::machine::Mds;

impl Mds {
    /// Directories and hashes of names that were looked for in the table and are not there.
    pub(crate) fn missed(&self, items: &[Loaded]) -> Vec<(Ino, u64)> {
        let missed = |item: &Loaded| match item {
            Loaded::Entry { dir, name, found: None } => Some((*dir, self.tree.hash(name))),
            _ => None,
        };
        items.iter().filter_map(missed).collect()
    }

    /// Reads the next names of the fragment that has this hash, unless all are known, are being read, or would be in the way of what is
    /// in memory because it is used.
    pub(crate) fn read_ahead(&mut self, dir: Ino, hash: u64) {
        if self.tree.memory_bytes() > self.config.cache_bytes_max / 4 * 3 {
            return;
        }
        if self.cluster.routes.of(dir, hash).is_some_and(|rank| rank != self.me()) {
            return;
        }
        let frag = self.cluster.routes.frag(dir, || hash);
        let Some(from_hash) = self.tree.unknown_from(dir, frag, hash) else { return };
        let need = Need::Hashes { dir, from_hash };
        if !self.loads.is_read(&need) {
            self.read_now(vec![need], Waiter::Ahead);
        }
    }
}
