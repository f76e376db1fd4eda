//! The journal of a subtree's owner as it grows: changes are gathered and written as one record when there are enough of them. Of an
//! inode that changes often, as a directory does in which files are made, a record says only the last state.

use std::sync::Arc;

use loligo_journal::encode_record;
use loligo_types::hash::{IntMap, IntSet};
use loligo_types::{Event, Ino, Inode, Name};

/// A record is ended when it has about so many bytes: a rank looks through one, or applies it, in some 100 us, and others wait so long.
const RECORD_BYTES: usize = 6 << 10;
/// Approximate bytes of an inode, an entry and any other event, beside names and data.
const EVENT_BYTES: (usize, usize, usize) = (64, 16, 12);

/// Records that are merged at once, and what makes them so.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Group {
    /// The bodies of the records, the oldest first.
    pub parts: Vec<Arc<[u8]>>,
    /// Their bytes.
    pub bytes: u64,
    /// Numbers below this are used up when it is merged.
    pub used: Ino,
}

/// Changes that are not merged.
#[derive(Default)]
pub(crate) struct Batch {
    /// Groups that are full.
    full: Vec<Group>,
    /// The one that is being filled; its `used` is not known yet.
    now: Group,
    /// Events that are not in a part yet.
    open: Vec<Event>,
    open_bytes: usize,
    /// Where in it the last state of an inode stands.
    states: IntMap<Ino, usize>,
    /// Inodes of before of which it was said how they were.
    told: IntSet<Ino>,
    spare: Vec<u8>,
}

impl Batch {
    /// True if an inode of before was not named yet; it is from now on.
    pub(crate) fn begins(&mut self, ino: Ino) -> bool {
        self.told.insert(ino)
    }

    /// Adds the earlier state of an inode of before, and its name, if it is to be said.
    pub(crate) fn add_base(&mut self, inode: Inode, name: Option<Name>) {
        self.open_bytes += EVENT_BYTES.0;
        let (dir, ino, kind) = (inode.parent, inode.ino, inode.kind);
        self.open.push(Event::Inode(Box::new(inode)));
        if let Some(name) = name {
            self.open_bytes += EVENT_BYTES.1 + name.as_bytes().len();
            self.open.push(Event::Entry { dir, name, ino, kind, remote: false });
        }
    }

    /// An event of a change.
    pub(crate) fn add(&mut self, event: Event) {
        let (inode, entry, other) = EVENT_BYTES;
        self.open_bytes += match &event {
            Event::Inode(_) => inode,
            Event::Entry { name, .. } | Event::EntryGone { name, .. } => entry + name.as_bytes().len(),
            Event::Xattr { name, value, .. } => other + name.len() + value.len(),
            Event::Inline { data, .. } => other + data.len(),
            _ => other,
        };
        if let Event::Inode(state) = &event {
            match self.states.get(&state.ino) {
                Some(at) => {
                    self.open_bytes -= inode;
                    self.open[*at] = event;
                    return;
                }
                // A new directory is first said to be empty: so it is known in full from then on, also where it is merged.
                None if state.kind == loligo_types::Kind::Dir && state.size == 0 => {}
                None => drop(self.states.insert(state.ino, self.open.len())),
            }
        }
        self.open.push(event);
    }

    /// All events of a change are there: a record has whole ones.
    pub(crate) fn end_change(&mut self) {
        if self.is_full() {
            self.cut();
        }
    }

    /// True if the record is to end with this change.
    pub(crate) fn is_full(&self) -> bool {
        self.open_bytes >= RECORD_BYTES
    }

    /// Ends the record.
    pub(crate) fn cut(&mut self) {
        if self.open.is_empty() {
            return;
        }
        self.spare.clear();
        encode_record(&mut self.spare, None, &self.open);
        self.now.bytes += self.spare.len() as u64;
        self.now.parts.push(self.spare.as_slice().into());
        self.open.clear();
        self.states.clear();
        self.open_bytes = 0;
    }

    /// True if the group that is being filled has so many bytes.
    pub(crate) fn has_bytes(&self, bytes: u64) -> bool {
        self.now.bytes + self.open_bytes as u64 >= bytes
    }

    /// Ends a group that has so many bytes; whether it did. `used`: numbers below this have made inodes.
    pub(crate) fn end_group(&mut self, bytes: u64, used: Ino) -> bool {
        if !self.has_bytes(bytes) {
            return false;
        }
        self.cut();
        if self.now.parts.is_empty() {
            return false;
        }
        self.full.push(Group { used, ..std::mem::take(&mut self.now) });
        self.told.clear();
        true
    }

    /// All groups, the last one as far as it has come.
    pub(crate) fn groups(&mut self, used: Ino) -> Vec<Group> {
        self.cut();
        let now = Group { used, ..self.now.clone() };
        self.full.iter().cloned().chain((!now.parts.is_empty()).then_some(now)).collect()
    }

    /// The oldest group is merged. Whether that was the one that was being filled.
    pub(crate) fn drop_oldest(&mut self) -> bool {
        if !self.full.is_empty() {
            self.full.remove(0);
            return false;
        }
        *self = Batch::default();
        true
    }

    /// Bytes of all of it, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.full.iter().map(|group| group.bytes).sum::<u64>() + self.now.bytes + self.open_bytes as u64
    }

    /// Memory that it takes, about, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let groups = self.full.iter().chain([&self.now]);
        let parts: usize = groups.map(|group| group.bytes as usize + 32 * group.parts.len()).sum();
        parts + self.open.capacity() * size_of::<Event>() + self.states.capacity() * 24 + self.told.capacity() * 16
    }
}
