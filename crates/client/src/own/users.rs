//! The users of a subtree that is decoupled for this client: the user that an operation is done as, and operations that are refused because the
//! rank would refuse the whole merge for them. Not permissions (the namespace's).

use loligo_subtree::Outcome;
use loligo_types::{Cred, FsError, Ino, Kind, Need, Op, Time};

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

    /// The error of an operation that would not be merged, because the owner of the subtree may not do it: one that makes an inode of another user, or
    /// gives one to another user, or writes a file which another user lets nobody else write, or one with privileges that a write ends. An owner
    /// that is root may do all of that. An error of its own: records that must be fetched to know it.
    pub fn may_not_merge(&mut self, cred: &Cred, op: &Op, now: Time) -> Result<Option<FsError>, Vec<Need>> {
        let owner = self.machine.record().uid;
        if owner == 0 {
            return Ok(None);
        }
        let is_another = |uid: u32| uid != owner;
        let is_refused = match op {
            Op::Create { dir, name, exclusive: false, .. } if is_another(cred.uid) => {
                let looked = Op::Lookup { dir: *dir, name: name.clone() };
                // A file that is there is only opened. If that is not known, the operation loads it and is tried again.
                matches!(self.machine.run(&looked, cred, now), Outcome::Done(Err(FsError::NotFound)))
            }
            // A rename is not refused for the whiteout that it may leave.
            op if op.makes_inode() && op.second_name().is_none() => is_another(cred.uid),
            Op::SetAttr { set, .. } if set.uid.is_some_and(is_another) => true,
            Op::Open { ino, flags, .. } if flags.write => self.is_privileged(*ino)?,
            Op::SetAttr { ino, set, handle: None } if set.size.is_some() => self.is_privileged(*ino)?,
            _ => false,
        };
        let changes = op.is_change() || matches!(op, Op::Open { flags, .. } if flags.write);
        let is_refused = is_refused || is_another(cred.uid) && changes && self.owner_may_not(op, now);
        Ok(is_refused.then_some(FsError::Perm))
    }

    fn owner_may_not(&self, op: &Op, now: Time) -> bool {
        let owner = self.machine.record().uid;
        match self.cred.uid == owner {
            true => self.machine.is_forbidden(op, &self.cred, now),
            false => self.machine.is_forbidden(op, &Cred::user(owner, owner), now),
        }
    }

    /// True if a write to a file ends privileges that only a user who may act as root is believed to have ended.
    fn is_privileged(&self, ino: Ino) -> Result<bool, Vec<Need>> {
        let Some(inode) = self.machine.inode(ino).filter(|inode| inode.kind == Kind::File) else { return Ok(false) };
        let is_another = inode.uid != self.machine.record().uid;
        Ok(is_another && inode.mode & 0o6000 != 0 || self.machine.has_capability(ino)?)
    }
}
