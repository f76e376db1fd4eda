//! Migration, at the rank that gives a subtree away: what was written to files that move is durable before they do. The object
//! server of the other rank knows of no write of before, so a sync that a client asks for there would not cover it. Not what
//! is open (`stages/migrate.rs`: that ends first).
//!
//! Most of it becomes durable while the directory is in use: all that was answered before a round of checkpoints began, with
//! one sync of everything. What is written after that shows in the inodes that have changed since.

use std::collections::BTreeSet;

use loligo_types::{Ino, Kind};

use super::exports::Export;
use super::survey::{Moves, Survey};
use crate::cluster::{Atlas, Exports};
use crate::core::Core;
use crate::load::Waiter;
use crate::sync::Syncs;

impl Syncs {
    /// Begins the sync. To be called when changes begin to be remembered.
    pub(super) fn sync_before_move(&mut self, core: &mut Core, export: &mut Export) {
        export.data_sync = Some(self.sync_data(core));
    }
}

impl Exports {
    /// Files that move and may have been written since that sync, or move by themselves. `None`: something must be read
    /// first.
    pub(super) fn written_since(
        &mut self,
        core: &mut Core,
        atlas: &mut Atlas,
        export: &Export,
        survey: &mut Survey,
    ) -> Option<BTreeSet<Ino>> {
        let mut written: BTreeSet<Ino> = export.files.iter().copied().collect();
        for ino in self.changed_inos() {
            if core.tree.peek(ino).is_none_or(|inode| inode.kind != Kind::File || inode.inline) {
                continue;
            }
            match survey.moves(core, self, atlas, ino) {
                Moves::Yes => _ = written.insert(ino),
                Moves::No => {}
                Moves::Unknown(needs) => {
                    atlas.load(core, needs, Waiter::Nobody);
                    return None;
                }
            }
        }
        Some(written)
    }
}
