//! Records of the table of inodes that are not known to be this rank's: remembered for a while. A data structure.

use std::collections::BTreeMap;

use loligo_types::{Ino, Inode, Place};

/// Time that the table's records of foreign inodes are used, milliseconds.
pub(super) const KEEP_MS: u64 = 2000;

/// Table records of inodes that are not (known to be) this rank's.
#[derive(Default)]
pub(crate) struct Strangers {
    pub(super) by_ino: BTreeMap<Ino, (Option<(Ino, Place)>, u64)>,
}

impl Strangers {
    pub(super) fn put(&mut self, ino: Ino, inode: Option<&Inode>, now_ms: u64, most: usize) {
        self.by_ino.insert(ino, (inode.map(|inode| (inode.parent, inode.place)), now_ms + KEEP_MS));
        if self.by_ino.len() > most {
            let any = self.by_ino.keys().find(|other| **other != ino).copied();
            any.and_then(|any| self.by_ino.remove(&any));
        }
    }

    /// Forgets what was read long ago.
    pub(crate) fn expire(&mut self, now_ms: u64) {
        if !self.by_ino.is_empty() {
            self.by_ino.retain(|_, (_, until)| *until > now_ms);
        }
    }

    /// The directory in which the table has an inode's primary name.
    pub(crate) fn parent(&self, ino: Ino) -> Option<Ino> {
        let ((parent, _), _) = self.by_ino.get(&ino).and_then(|(known, until)| Some(((*known)?, until)))?;
        Some(parent)
    }

    /// It is this rank's, or the table may say something else by now.
    pub(super) fn forget(&mut self, ino: Ino) {
        self.by_ino.remove(&ino);
    }

    /// Something has changed hands.
    pub(crate) fn clear(&mut self) {
        self.by_ino.clear();
    }
}
