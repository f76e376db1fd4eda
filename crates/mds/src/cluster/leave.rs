//! Obstacles to the record with which something moves to another rank, while requests on it are kept waiting: what was changed or is lent
//! below it, and records that the table does not show yet. The course of a migration is in `stages/migrate.rs`.

use std::collections::BTreeSet;

use loligo_namespace::{DirtyKey, Tree};
use loligo_types::Ino;

use crate::cluster::state::Cluster;
use crate::cluster::survey::{Moves, Survey, inode_of};
use crate::cluster::{Atlas, Exports};
use crate::core::Core;
use crate::load::Waiter;

impl Exports {
    /// The inodes that were changed since the last round of checkpoints, ascending.
    pub(super) fn changed_inos(&self) -> BTreeSet<Ino> {
        self.tail.iter().flat_map(|tail| &tail.events).filter_map(inode_of).collect()
    }

    /// True if it is known of all changed inodes whether they move. Many may have left memory: those that were made and removed meanwhile
    /// have. Records needed for that are read at once, and before requests are kept waiting.
    pub(super) fn knows_changed(&mut self, core: &mut Core, atlas: &mut Atlas, survey: &mut Survey) -> bool {
        let (mut needs, mut all) = (Vec::new(), true);
        for ino in self.changed_inos() {
            if let Moves::Unknown(mut wants) = survey.moves(core, self, atlas, ino) {
                all = false;
                needs.append(&mut wants);
            }
        }
        needs.sort();
        needs.dedup();
        if !needs.is_empty() {
            atlas.load(core, needs, Waiter::Survey);
        }
        all
    }
}

impl Cluster {
    /// True if other ranks have replicas of moving inodes: they are asked back.
    pub(super) fn replicas_move(&mut self, core: &mut Core, survey: &mut Survey) -> bool {
        let lent = self.replicas.lent.inos();
        let moving: Vec<Ino> = lent
            .into_iter()
            .filter(|ino| !matches!(survey.moves(core, &mut self.exports, &mut self.atlas, *ino), Moves::No))
            .collect();
        self.replicas.lent.take_replicas_back(core, &moving)
    }
}

pub(super) fn has_changed_floating(tree: &Tree) -> bool {
    let floats = |ino: Ino| tree.peek(ino).is_some_and(|inode| inode.place.rank().is_some());
    tree.dirty_keys().into_iter().any(|(ino, key)| key == DirtyKey::Inode(ino) && floats(ino))
}
