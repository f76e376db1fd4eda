//! GetAttr: attributes by number. Needs no permission, and works on orphans.

use loligo_types::{Answer, FsResult, Ino};

use crate::ctx::Change;
use crate::tree::Tree;
use crate::work::inode_of;

pub(crate) fn prepare(tree: &Tree, ino: Ino) -> FsResult<Change> {
    Ok(Change::only(Answer::Entry(tree.attr_of(inode_of(tree, ino)?))))
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn attributes_of_files_and_of_open_orphans() {
        check(
            "
            0 create /f 640
            0 stat /f = mode=640 nlink=1 size=0 change=1
            0 hold /f
            0 unlink /f
            0 stat @256 = nlink=0
            ",
        );
    }
}
