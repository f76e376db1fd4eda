//! Records of the cache for somebody else's, in the form in which the table gives them. Reads nothing.

use loligo_types::{Loaded, Need};

use super::{Found, Lookup, Tree};

impl Tree {
    /// The records for a need of another rank; `None`: they must be loaded first. Of a directory at most `limit` names, and then
    /// all of the last one's namesakes.
    pub fn lend(&self, need: &Need, limit: usize) -> Option<Loaded> {
        Some(match need {
            Need::Inode(ino) => match self.find(*ino) {
                Found::Unknown => return None,
                Found::Gone => Loaded::Inode(*ino, None),
                Found::Here(inode) => Loaded::Inode(*ino, Some(Box::new(inode.clone()))),
            },
            Need::Entry { dir, name } => match self.entry(*dir, name) {
                Lookup::Unknown => return None,
                Lookup::Absent => Loaded::Entry { dir: *dir, name: name.clone(), found: None },
                Lookup::Present(target) => Loaded::Entry { dir: *dir, name: name.clone(), found: Some(target) },
            },
            Need::Range { dir, from_hash } | Need::Hashes { dir, from_hash } => {
                let Some(slot) = self.dirs.get(dir.0) else {
                    let empty = self.inode(*dir).is_some_and(|inode| inode.size == 0);
                    let none =
                        Loaded::Range { dir: *dir, from_hash: *from_hash, upto_hash: u64::MAX, entries: Vec::new() };
                    return empty.then_some(none);
                };
                let mut upto_hash = slot.complete.known_until(*from_hash)?;
                let mut entries = Vec::new();
                for (hash, group) in slot.entries.range(*from_hash..=upto_hash) {
                    if entries.len() >= limit.max(1) {
                        upto_hash = hash - 1;
                        break;
                    }
                    let there = group.entries().iter().filter(|entry| entry.ino.0 != 0);
                    entries.extend(there.map(|entry| (entry.name.to_name(), entry.target())));
                }
                Loaded::Range { dir: *dir, from_hash: *from_hash, upto_hash, entries }
            }
            Need::Xattrs(ino) => match self.find(*ino) {
                Found::Here(inode) => Loaded::Xattrs(*ino, self.xattrs(inode)?),
                _ => Loaded::Xattrs(*ino, Vec::new()),
            },
            Need::Inline(ino) => match self.find(*ino) {
                Found::Here(inode) if inode.inline => Loaded::Inline(*ino, Some(self.inline(inode)?)),
                _ => Loaded::Inline(*ino, None),
            },
            Need::Parts(_) => return None,
        })
    }
}
