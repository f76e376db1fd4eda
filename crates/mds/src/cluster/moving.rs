//! What a migration from this rank means to requests while it goes on: they wait for what moves, and go where it has moved.
//! How it goes on is `export.rs`'s.

use loligo_types::Ino;

use super::export::{Export, Stage};
use super::survey::Moves;
use crate::execute::Step;
use crate::load::Waiter;
use crate::machine::Mds;
use crate::park::Why;

impl Mds {
    /// A request on something that moves waits; on something that has moved it goes where that is.
    pub(crate) fn moved(&mut self, ino: Ino) -> Option<Step> {
        let mut export = self.cluster.exports.now.take()?;
        let frozen = matches!(export.stage, Stage::Freezing | Stage::Moving(_));
        let mut step = None;
        if frozen || export.stage == Stage::Cleaning {
            let mut survey = std::mem::take(&mut export.survey);
            let moves = if self.tree.peek(ino).is_some() || survey.knows(ino) {
                self.moves(&mut survey, ino)
            } else {
                Moves::No
            };
            step = match moves {
                Moves::No => None,
                _ if frozen => Some(Step::Wait(Why::Moving)),
                Moves::Yes => Some(Step::Redirect(export.to)),
                Moves::Unknown(needs) => {
                    self.load(needs, Waiter::Nobody);
                    Some(Step::Wait(Why::Locked))
                }
            };
            export.survey = survey;
        }
        self.cluster.exports.now = Some(export);
        step
    }

    /// A request on a name in a fragment that moves waits; if it has moved, it goes where that is.
    pub(crate) fn moved_name(&self, dir: Ino, hash: u64) -> Option<Step> {
        let export = self.cluster.exports.now.as_deref()?;
        if export.dir != dir || !export.moves.iter().any(|frag| frag.contains(hash)) {
            return None;
        }
        match export.stage {
            Stage::Freezing | Stage::Moving(_) => Some(Step::Wait(Why::Moving)),
            Stage::Cleaning => Some(Step::Redirect(export.to)),
            _ => None,
        }
    }

    /// Whether a fragment of a directory is about to move without the directory itself.
    pub(crate) fn is_spreading(&self, dir: Ino) -> bool {
        let is_it = |export: &Export| {
            let begun = matches!(export.stage, Stage::Freezing | Stage::Moving(_) | Stage::Cleaning);
            export.dir == dir && !export.itself && begun
        };
        self.cluster.exports.now.as_deref().is_some_and(is_it)
    }

    /// Whether an inode is about to move, or has moved.
    pub(crate) fn is_leaving(&mut self, ino: Ino) -> bool {
        self.cluster.exports.is_active() && self.moved(ino).is_some()
    }

    /// Whether nothing may leave memory just now.
    pub(crate) fn keeps_all(&self) -> bool {
        let now = self.cluster.exports.now.as_ref();
        self.cluster.exports.seeking
            || now.is_some_and(|export| match export.stage {
                Stage::Surveying => export.keeps || export.survey.asks || export.held.asks(),
                Stage::Freezing => true,
                _ => false,
            })
    }
}
