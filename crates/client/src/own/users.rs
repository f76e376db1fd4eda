//! The users of a subtree that is decoupled for this client: the user that an operation is done as, and operations that are refused because the
//! rank would refuse the whole merge for them. Not permissions (the namespace's).

use loligo_subtree::Outcome;
use loligo_types::{Cred, FsError, Op, Time};

use super::Owned;

/// The user and group that stand for users whom an identity does not act for.
const NOBODY: u32 = 65_534;

impl Owned {
    /// The user that an operation of this one is done as. If the record names another user than the one who asked, the identity of this client does
    /// not act for that user. So it acts either for all but root or for no user at all.
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

    /// The error of an operation that would not be merged: one that makes an inode of another user than the owner of the subtree, or gives one to another
    /// user. An owner that is root may do both.
    pub fn may_not_merge(&mut self, cred: &Cred, op: &Op, now: Time) -> Option<FsError> {
        let owner = self.machine.record().uid;
        let is_another = |uid: u32| owner != 0 && uid != owner;
        let is_refused = match op {
            Op::Create { dir, name, exclusive: false, .. } if is_another(cred.uid) => {
                let looked = Op::Lookup { dir: *dir, name: name.clone() };
                // A file that is there is only opened. If that is not known, the operation loads it and is tried again.
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
