//! Moving a file's inline data to an object, when it grows beyond the threshold while nobody may buffer it.
//!
//! The holder of BUFFER does this itself and only learns `Busy` here, unless the handle it writes through may not read
//! the data that is to be moved.

use loligo_namespace::Tree;
use loligo_types::{Event, Ino};

/// The file is no longer inline.
pub(crate) fn spilled_events(tree: &Tree, ino: Ino) -> Vec<Event> {
    let Some(inode) = tree.inode(ino).filter(|inode| inode.inline) else { return Vec::new() };
    let mut inode = inode.clone();
    inode.inline = false;
    inode.change += 1;
    vec![Event::Inode(Box::new(inode)), Event::InlineGone(ino)]
}
