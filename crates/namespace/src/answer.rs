//! The answer of a change that was executed before, made again from the current state (a repeated request).

use loligo_types::{Answer, FsResult, Ino, Lease, Op, Origin};

use crate::need::Need;
use crate::tree::{Found, Tree};
use crate::work::inode_of;

/// What must be loaded for [`answer_again`].
pub fn need_again(tree: &Tree, origin: &Origin) -> Vec<Need> {
    if origin.ino == Ino(0) || !matches!(tree.find(origin.ino), Found::Unknown) {
        return Vec::new();
    }
    vec![Need::Inode(origin.ino)]
}

/// The answer of an operation that was executed as `origin` says. `Stale` if what it speaks of is gone since.
pub fn answer_again(tree: &Tree, op: &Op, origin: &Origin) -> FsResult<Answer> {
    match op {
        Op::Extend { .. } => Ok(Answer::Offset(origin.value)),
        _ if origin.ino == Ino(0) => Ok(Answer::Done),
        Op::Open { flags, .. } | Op::Create { flags, .. } | Op::Tmpfile { flags, .. } => {
            let inode = inode_of(tree, origin.ino)?;
            let data = crate::op::open_data(tree, inode, *flags);
            Ok(Answer::Opened { attr: inode.attr(), created: origin.value != 0, rights: Lease::NONE, data })
        }
        _ => Ok(Answer::Entry(inode_of(tree, origin.ino)?.attr())),
    }
}
