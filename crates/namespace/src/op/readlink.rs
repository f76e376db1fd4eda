//! Readlink: the target of a symbolic link. Needs no permission.

use loligo_types::{Answer, FsError, FsResult, Ino};

use crate::ctx::Change;
use crate::tree::Tree;
use crate::work::inode_of;

pub(crate) fn prepare(tree: &Tree, ino: Ino) -> FsResult<Change> {
    let target = inode_of(tree, ino)?.symlink().ok_or(FsError::Invalid)?;
    Ok(Change::only(Answer::Bytes(target.into())))
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn only_links_have_a_target() {
        check(
            "
            0 symlink /l target/of/link
            0 readlink /l = target/of/link
            0 create /f 644
            0 readlink /f = Invalid
            0 stat /l = mode=777 size=14 kind=Symlink
            ",
        );
    }
}
