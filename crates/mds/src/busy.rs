//! Files whose data or size must stay as they are for now: objects are being dropped, inline data moves to one, or the owner of a
//! subtree has them held still.

use loligo_namespace::Change;
use loligo_types::{Ino, Op};

use crate::decouple::Decoupled;
use crate::discard::Discards;
use crate::eof_cleanup::EofCleanup;
use crate::job::{Job, WaitReason};
use crate::open::Opens;

impl Discards {
    /// True if the file's data or size must stay as they are for now.
    pub(crate) fn data_is_busy(&self, decoupled: &Decoupled, ino: Ino) -> bool {
        self.drops_or_spills(ino) || decoupled.is_still(ino)
    }
}

impl Opens {
    /// A cut of a file found by name while an earlier cut of it is not done yet.
    pub(crate) fn wait_for_cut(
        &self,
        discards: &Discards,
        tidy: &mut EofCleanup,
        decoupled: &Decoupled,
        job: &Job,
        change: &Change,
    ) -> Option<WaitReason> {
        let Op::Create { flags, .. } = &job.op else { return None };
        let ino = change.answer.attr()?.ino;
        match flags.truncate {
            true if discards.data_is_busy(decoupled, ino) => Some(WaitReason::Data(ino)),
            true => self.wait_for_rooms(tidy, ino),
            false => None,
        }
    }
}
