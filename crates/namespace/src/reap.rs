//! The end of an inode: what must happen when nothing names it and nobody has it open.

use loligo_types::{Event, Ino, Inode, Kind};

use crate::tree::{Found, Tree};

/// The events that end an orphan whose last open has ended. Empty if it is none, or was named again. The inode must be
/// in memory.
pub fn reap(tree: &Tree, ino: Ino) -> Vec<Event> {
    let mut events = Vec::new();
    if !tree.is_orphan(ino) {
        return events;
    }
    events.push(Event::OrphanGone(ino));
    if let Found::Here(inode) = tree.find(ino)
        && inode.nlink == 0
    {
        gone(inode, &mut events);
    }
    events
}

/// The events that remove an inode with all it has.
pub(crate) fn gone(inode: &Inode, events: &mut Vec<Event>) {
    events.push(Event::InodeGone(inode.ino));
    // Also of an empty file that is not inline: bytes may have been written whose size was never told.
    if inode.kind == Kind::File && !inode.inline {
        events.push(Event::Discard { ino: inode.ino, from: 0, object_size: inode.layout().object_size });
    }
}
