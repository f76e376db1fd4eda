//! What stands still for the sake of a migration: checkpoints while requests wait for it, and what leaves memory while it must
//! know all that it moves. Not the migration.

use super::export::Stage;
use crate::machine::Mds;

/// Checkpoints stand still for as long at most while requests wait, milliseconds.
const HURRY_MS: u64 = 500;

impl Mds {
    /// Whether requests wait for a migration, so that the disk is left to the journal for a moment: what a checkpoint has
    /// begun would be waited for.
    pub(crate) fn is_in_a_hurry(&self) -> bool {
        self.cluster.exports.now.as_ref().is_some_and(|export| {
            let frozen = matches!(export.stage, Stage::Freezing | Stage::Moving(_));
            frozen && !self.log.full && self.now.mono_ms < export.frozen_ms + HURRY_MS
        })
    }

    /// Whether nothing may leave memory just now.
    pub(crate) fn keeps_all(&self) -> bool {
        let now = self.cluster.exports.now.as_ref();
        self.cluster.exports.seeking
            || now.is_some_and(|export| match export.stage {
                Stage::Surveying => export.keeps || export.survey.asks,
                Stage::Freezing => true,
                _ => false,
            })
    }
}
