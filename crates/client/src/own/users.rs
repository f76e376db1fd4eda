//! In whose name something is done in a subtree that is decoupled for this client, and what is not merged in the name of who decoupled it. Here it
//! is said at once: the rank would refuse the merge as a whole. Not what permissions say (the namespace's).

use loligo_subtree::Outcome;
use loligo_types::{Cred, FsError, Op, Time};

use super::Owned;

/// Who counts for users that an identity does not act for.
const NOBODY: u32 = 65_534;

impl Owned {
    /// Who counts for a user of this machine. The rank has decoupled it for another user than the one who asked if the identity of this client
    /// does not act for that one: for root, or for nobody at all. So it goes on with whoever works in it.
    pub fn counts_as(&self, cred: Cred) -> Cred {
        let (asked, owner) = (self.cred.uid, self.machine.record().uid);
        match owner {
            NOBODY if asked == 0 && cred.uid == 0 => Cred::user(NOBODY, NOBODY),
            NOBODY if asked == 0 => {
                let gid = if cred.gid == 0 { NOBODY } else { cred.gid };
                Cred { gid, groups: cred.groups.into_iter().filter(|gid| *gid != 0).collect(), ..cred }
            }
            NOBODY if asked != NOBODY => Cred::user(NOBODY, NOBODY),
            _ => cred,
        }
    }

    /// Why something is not done that would not be merged: only root may make what is another user's, and only as its owner.
    pub fn may_not_merge(&mut self, cred: &Cred, op: &Op, now: Time) -> Option<FsError> {
        let owner = self.machine.record().uid;
        let is_another = |uid: u32| owner != 0 && uid != owner;
        let is_refused = match op {
            Op::Create { dir, name, exclusive: false, .. } if is_another(cred.uid) => {
                let looked = Op::Lookup { dir: *dir, name: name.clone() };
                // What is there is only opened. Where that is not known, the operation finds it out, and comes again.
                matches!(self.machine.run(&looked, cred, now), Outcome::Done(Err(FsError::NotFound)))
            }
            Op::Create { .. } | Op::Tmpfile { .. } | Op::Mknod { .. } | Op::Mkdir { .. } | Op::Symlink { .. } => {
                is_another(cred.uid)
            }
            Op::SetAttr { set, .. } => set.uid.is_some_and(is_another),
            _ => false,
        };
        is_refused.then_some(FsError::Perm)
    }
}
