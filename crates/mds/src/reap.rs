//! Closing handles, and the end of inodes that have no name and no handle any more.

use loligo_types::Ino;

use crate::core::Core;
use crate::eof_cleanup::EofCleanup;
use crate::open::Opens;

impl Opens {
    /// A handle on the inode has ended: it may be the last of an orphan.
    pub(crate) fn closed(&mut self, core: &Core, tidy: &mut EofCleanup, ino: Ino) {
        if self.is_closed(ino) {
            tidy.forget(ino);
            if core.tree.is_orphan(ino) {
                self.reaps.insert(ino);
            }
        }
    }
}
