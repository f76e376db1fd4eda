//! Operations of a decoupled subtree's owner, and those it cannot do: locks, policies, and changes of the root's own place, which is not
//! decoupled. File data beyond an inode only where somebody has objects.

use loligo_namespace::{Found, Tree};
use loligo_types::{ByOwner, Event, FsError, FsResult, Ino, Op};

/// Refuses what is not for here.
pub(crate) fn may_run(tree: &Tree, root: Ino, op: &Op, objects: bool) -> FsResult<()> {
    let is_here = |ino: Ino| match tree.find(ino) {
        _ if objects => true,
        Found::Here(inode) => inode.inline || inode.kind != loligo_types::Kind::File,
        _ => true,
    };
    let subject = op.subjects()[0].ino();
    let may = match op.props().by_owner {
        ByOwner::Never => false,
        ByOwner::Always => true,
        ByOwner::BelowRoot => subject != Some(root),
        ByOwner::WithObjects => objects,
        ByOwner::WithData => subject.is_some_and(is_here),
    };
    if may { Ok(()) } else { Err(FsError::NotSupported) }
}

/// True if an event may stand in the journal of a subtree's owner.
pub(crate) fn is_for_here(event: &Event) -> bool {
    matches!(
        event,
        Event::Inode(_)
            | Event::InodeGone(_)
            | Event::Entry { .. }
            | Event::EntryGone { .. }
            | Event::Xattr { .. }
            | Event::XattrGone { .. }
            | Event::Inline { .. }
            | Event::InlineGone(_)
            | Event::Discard { .. }
    )
}
