//! Mkdir: a directory.

use loligo_types::{FsResult, Ino, Kind, Name};

use super::make;
use crate::ctx::{Change, Ctx};
use crate::tree::Tree;
use crate::work::Work;

pub(crate) fn prepare(tree: &Tree, ctx: &Ctx<'_>, dir: Ino, name: &Name, mode: u16, umask: u16) -> FsResult<Change> {
    let parent = make::room_for(tree, ctx, dir, name)?;
    let inode = make::new_inode(ctx, parent, Kind::Dir, mode, umask);
    let mut work = Work::new(tree, ctx.stamp.now);
    let attr = inode.attr();
    make::make(&mut work, parent, name, inode);
    Ok(work.finish(loligo_types::Answer::Entry(attr), attr.ino))
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn a_directory_counts_in_its_parents_links() {
        check(
            "
            0 mkdir /d 755 = nlink=2 size=0 kind=Dir
            0 stat / = nlink=3 size=1
            0 mkdir /d/e 700
            0 stat /d = nlink=3 size=1
            0 mkdir /d 755 = Exists
            0 mkdir /x/y 755 = NotFound
            1000 mkdir /d/z 755 = Access
            1000 mkdir /d/e 755 = Exists # before Access
            ",
        );
    }

    #[test]
    fn setgid_directories_hand_down_their_group() {
        check(
            "
            0 mkdir /d 777
            0 chown /d 0 2000
            0 chmod /d 2777
            1000 mkdir /d/e 755 = mode=2755 gid=2000 uid=1000
            1000 create /d/f 644 = mode=644 gid=2000
            1000 create /d/x 2775 = mode=775 gid=2000
            9:9,2000 create /d/y 2775 = mode=2775
            0 mkdir /p 777
            1000 mkdir /p/e 6755 = mode=755 gid=1000
            ",
        );
    }

    #[test]
    fn default_acls_are_inherited_and_no_umask_counts_then() {
        check(
            "
            0 mkdir /d 777
            0 setacl /d default u::rwx,u:5:rwx,g::r-x,m::rwx,o::---
            0 stat /d = xattrs=true
            0 mkdir /d/e 777 - umask77 = mode=770 xattrs=true
            5 access /d/e rwx
            0 create /d/e/f 666 rw umask77 = mode=660
            5 access /d/e/f rw
            6 access /d/e/f r = Access
            0 symlink /d/l x = mode=777
            0 setacl /d/e default -
            0 create /d/e/g 666 rw umask77 = mode=600
            ",
        );
    }

    #[test]
    fn nothing_is_made_in_a_removed_directory() {
        check(
            "
            0 mkdir /d 777
            0 hold /d
            0 rmdir /d
            0 readdir @256 = count=0 end=true
            0 tmpfile @256 600 = NotFound
            ",
        );
    }
}
