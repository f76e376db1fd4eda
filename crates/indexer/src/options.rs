//! Settings of an indexer: the rights of its user, and attributes that files do not give.

use loligo_schema::Attributes;
use loligo_types::Time;

use crate::fault::Cause;

/// Settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// True if owners, setuid and setgid of the file count. They do for root alone.
    pub is_root: bool,
    /// Attributes of files of which the indexed file says nothing.
    pub file: Attributes,
    /// The same of directories.
    pub dir: Attributes,
}

impl Default for Options {
    fn default() -> Options {
        let none = Attributes { mode: 0, uid: None, gid: None, mtime: None };
        Options { is_root: false, file: Attributes { mode: 0o644, ..none }, dir: Attributes { mode: 0o755, ..none } }
    }
}

impl Options {
    /// The attributes that a member asks for, as far as the user may give them.
    pub(crate) fn attributes(&self, mode: u32, uid: u64, gid: u64, mtime: Option<Time>) -> Result<Attributes, Cause> {
        let mode = (mode & 0o7777) as u16;
        if mode & 0o6000 != 0 && !self.is_root {
            return Err(Cause::Privileged);
        }
        let id = |id: u64, what| match u32::try_from(id) {
            Ok(id) if id != u32::MAX => Ok(self.is_root.then_some(id)),
            _ => Err(Cause::Number(what)),
        };
        Ok(Attributes { mode, uid: id(uid, "its owner")?, gid: id(gid, "its group")?, mtime })
    }
}
