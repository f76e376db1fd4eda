//! Operations of a decoupled subtree's owner, and those it cannot do: locks, policies, and changes of the root's own place, which is not
//! decoupled. File data beyond an inode only where somebody has objects.

use loligo_namespace::{Found, Tree};
use loligo_types::{Event, FsError, FsResult, Ino, Op, SetAttr};

/// Refuses what is not for here.
pub(crate) fn may_run(tree: &Tree, root: Ino, op: &Op, objects: bool) -> FsResult<()> {
    let is_here = |ino: Ino| match tree.find(ino) {
        _ if objects => true,
        Found::Here(inode) => inode.inline || inode.kind != loligo_types::Kind::File,
        _ => true,
    };
    match op {
        Op::Lookup { .. }
        | Op::GetAttr { .. }
        | Op::Create { .. }
        | Op::Mknod { .. }
        | Op::Mkdir { .. }
        | Op::Symlink { .. }
        | Op::Link { .. }
        | Op::Unlink { .. }
        | Op::Rmdir { .. }
        | Op::Rename { .. }
        | Op::Readlink { .. }
        | Op::Readdir { .. }
        | Op::GetXattr { .. }
        | Op::ListXattr { .. }
        | Op::Access { .. } => Ok(()),
        Op::SetData { patches: None, .. } | Op::Extend { .. } if objects => Ok(()),
        Op::LookupParent { dir } if *dir != root => Ok(()),
        Op::SetAttr { set: SetAttr { size: None, .. }, .. } | Op::Open { .. } => Ok(()),
        Op::SetAttr { ino, .. } | Op::ReadInline { ino, .. } | Op::WriteInline { ino, .. } if is_here(*ino) => Ok(()),
        Op::SetXattr { name, .. } | Op::RemoveXattr { name, .. } if !name.starts_with(b"loligo.") => Ok(()),
        _ => Err(FsError::NotSupported),
    }
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
