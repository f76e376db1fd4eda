//! Lookup and LookupParent: a name to an inode, a directory to the one above it.

use loligo_types::{Answer, FsError, FsResult, Ino, Kind, Name};

use crate::ctx::{Change, Ctx};
use crate::need::Wants;
use crate::tree::{Found, Tree};
use crate::work::{dir_of, missing, target_of};

pub(crate) fn prepare(tree: &Tree, ctx: &Ctx<'_>, dir: Ino, name: &Name) -> FsResult<Change> {
    dir_of(tree, ctx, dir)?;
    Ok(Change::only(Answer::Entry(tree.attr_of(target_of(tree, dir, name)?))))
}

pub(crate) fn need_parent(wants: &mut Wants<'_>, dir: Ino) {
    if let Some(inode) = wants.inode(dir) {
        wants.whole(inode.parent);
    }
}

/// No permission is needed: `..` is resolved in a directory that was reached. A removed directory has no parent. Of anything else only root is
/// told in which directory it lives.
pub(crate) fn prepare_parent(tree: &Tree, ctx: &Ctx<'_>, dir: Ino) -> FsResult<Change> {
    let inode = match tree.find(dir) {
        Found::Here(inode) => inode,
        Found::Gone => return Err(FsError::NotFound),
        Found::Unknown => return Err(missing("a directory")),
    };
    if inode.kind != Kind::Dir && !ctx.cred.is_root() {
        return Err(FsError::NotDir);
    }
    if inode.parent == Ino(0) || inode.nlink == 0 {
        return Err(FsError::NotFound);
    }
    Ok(Change::only(Answer::Entry(tree.attr_of(crate::work::pointed(tree, inode.parent)?))))
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn a_name_is_found_if_its_directory_may_be_searched() {
        check(
            "
            0 mkdir /d 755
            0 create /d/f 600
            1000 lookup /d/f = kind=File mode=600
            1000 lookup /d/g = NotFound
            1000 lookup /d/f/x = NotDir
            0 chmod /d 766
            1000 lookup /d/f = Access
            0 lookup /d/f
            ",
        );
    }

    #[test]
    fn the_parent_of_a_directory() {
        check(
            "
            0 mkdir /d 755
            0 mkdir /d/e 755
            0 create /f 644
            0 parent /d/e = kind=Dir ino=256
            0 parent /d = ino=1
            0 parent / = ino=1
            0 parent /f = ino=1
            0 mkdir /g 755
            0 create /g/f 644
            0 parent /g/f = kind=Dir ino=259
            1000 parent /g/f = NotDir
            0 link /g/f /f2
            0 parent /f2 = ino=1
            0 hold /g/f
            0 unlink /f2
            0 unlink /g/f
            0 parent @260 = NotFound
            0 hold /d/e
            0 rmdir /d/e
            0 parent @257 = NotFound
            ",
        );
    }
}
