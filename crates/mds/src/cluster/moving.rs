//! Requests during a migration from this rank: they wait for inodes that move, and go where they have moved. The course of
//! a migration is in `stages/migrate.rs`.

use loligo_namespace::Need;
use loligo_types::{Frag, Ino, Rank};

use crate::cluster::exports::{Export, Exports, Stage};
use crate::cluster::state::Cluster;
use crate::cluster::survey::Moves;
use crate::cluster::{Atlas, Where};
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::job::WaitReason;
use crate::load::Waiter;
use crate::step::Step;

impl Exports {
    /// The object of the migration under way, until it is the other rank's: a directory and the fragments of it that move;
    /// true if it is files.
    pub(crate) fn what(&self) -> Option<(Ino, Vec<Frag>, bool)> {
        let export = self.now.as_ref().filter(|export| export.stage != Stage::Cleaning)?;
        Some((export.dir, export.moves.clone(), !export.files.is_empty()))
    }

    /// True if a directory is about to go to a rank as a whole, or waits for that.
    pub(crate) fn goes(&self, dir: Ino, to: Rank) -> bool {
        let now = self.now.as_ref().is_some_and(|now| (now.dir, now.frag, now.to) == (dir, None, to));
        now || self.waiting.iter().any(|wanted| (wanted.dir, wanted.frag, wanted.to) == (dir, None, to))
    }

    /// A request on something that moves waits; on something that has moved it goes where that is.
    pub(crate) fn moved(&mut self, core: &mut Core, atlas: &mut Atlas, ino: Ino) -> Option<Step> {
        let mut export = self.now.take()?;
        let frozen = matches!(export.stage, Stage::Freezing | Stage::Moving(_));
        let mut step = None;
        if frozen || export.stage == Stage::Cleaning {
            let mut survey = std::mem::take(&mut export.survey);
            let moves = if core.tree.peek(ino).is_some() || survey.knows(ino) {
                survey.moves(core, self, atlas, ino)
            } else {
                Moves::No
            };
            step = match moves {
                Moves::No => None,
                _ if frozen => Some(Step::Wait(WaitReason::Moving)),
                Moves::Yes => Some(Step::Redirect(export.to)),
                Moves::Unknown(needs) => {
                    atlas.load(core, needs, Waiter::Nobody);
                    Some(Step::Wait(WaitReason::Locked))
                }
            };
            export.survey = survey;
        }
        self.now = Some(export);
        step
    }

    /// A request on a name in a fragment that moves waits; if it has moved, it goes where that is.
    pub(crate) fn moved_name(&self, dir: Ino, hash: u64) -> Option<Step> {
        let export = self.now.as_deref()?;
        if export.dir != dir || !export.moves.iter().any(|frag| frag.contains(hash)) {
            return None;
        }
        match export.stage {
            Stage::Freezing | Stage::Moving(_) => Some(Step::Wait(WaitReason::Moving)),
            Stage::Cleaning => Some(Step::Redirect(export.to)),
            _ => None,
        }
    }

    /// True if a fragment of a directory is about to move without the directory itself.
    pub(crate) fn is_spreading(&self, dir: Ino) -> bool {
        let is_it = |export: &Export| {
            let begun = matches!(export.stage, Stage::Freezing | Stage::Moving(_) | Stage::Cleaning);
            export.dir == dir && !export.itself && begun
        };
        self.now.as_deref().is_some_and(is_it)
    }

    /// True if an inode is about to move, or has moved.
    pub(crate) fn is_leaving(&mut self, core: &mut Core, atlas: &mut Atlas, ino: Ino) -> bool {
        self.is_active() && self.moved(core, atlas, ino).is_some()
    }

    /// True if nothing may leave memory just now.
    pub(crate) fn keeps_all(&self) -> bool {
        let now = self.now.as_ref();
        self.seeking
            || now.is_some_and(|export| match export.stage {
                Stage::Surveying => export.keeps || export.survey.asks || export.held.asks(),
                Stage::Freezing => true,
                _ => false,
            })
    }
}

impl Cluster {
    /// True if the migration may not begin because of a decoupled subtree. `Err`: that is to be read first.
    pub(super) fn stays(&mut self, core: &mut Core, decoupled: &Decoupled, export: &Export) -> Result<bool, Vec<Need>> {
        if export.files.is_empty() {
            return Ok(decoupled.stays_for(core, self, export.dir, &export.moves)?.is_some());
        }
        if !decoupled.is_any_decoupled() {
            return Ok(false);
        }
        for ino in export.files.clone() {
            let Some(parent) = core.tree.inode(ino).map(|inode| inode.parent) else { continue };
            let mut wants = Vec::new();
            match self.locate(core, parent, &mut wants) {
                Where::Elsewhere(_) => {}
                // Its directory is decoupled itself, or is gone, and it may have a name in one that is.
                Where::Here => return Ok(true),
                Where::Unknown => return Err(wants),
            }
        }
        Ok(false)
    }
}
