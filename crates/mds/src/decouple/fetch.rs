//! Records that the owner of a decoupled subtree fetches, as the rank has them: the root and what is below it, nothing else.

use loligo_types::Need;

/// Names are wanted, whatever was asked for of them.
pub(super) fn to_be_read(need: &Need) -> Need {
    match need {
        Need::Hashes { dir, from_hash } => Need::Range { dir: *dir, from_hash: *from_hash },
        need => need.clone(),
    }
}
