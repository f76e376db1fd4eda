//! Rmdir: takes an empty directory away.

use loligo_types::{FsError, FsResult, Ino, Kind, Name};

use super::{DONE, make};
use crate::access;
use crate::ctx::{Change, Ctx};
use crate::tree::Tree;
use crate::work::{Work, dir_of, target_of};

pub(crate) fn prepare(tree: &Tree, ctx: &Ctx<'_>, dir: Ino, name: &Name) -> FsResult<Change> {
    let parent = dir_of(tree, ctx, dir)?;
    let victim = target_of(tree, dir, name)?;
    access::check_change(parent, ctx.cred)?;
    access::check_sticky(parent, victim, ctx.cred)?;
    if victim.kind != Kind::Dir {
        return Err(FsError::NotDir);
    }
    if tree.entries_of(victim) > 0 {
        return Err(FsError::NotEmpty);
    }
    let mut work = Work::new(tree, ctx.stamp.now);
    make::drop_entry(&mut work, parent, name, Kind::Dir);
    work.drop_link(victim, true, ctx);
    Ok(work.finish(DONE, Ino(0)))
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn only_empty_directories_go() {
        check(
            "
            0 mkdir /d 755
            0 create /d/f 644
            0 rmdir /d = NotEmpty
            0 rmdir /d/f = NotDir
            0 unlink /d/f
            0 stat /d = size=0
            0 rmdir /d
            0 rmdir /d = NotFound
            0 stat / = nlink=2 size=0
            ",
        );
    }

    #[test]
    fn a_removed_open_directory_is_empty_and_closed_to_new_names() {
        check(
            "
            0 mkdir /d 755
            0 hold /d
            0 rmdir /d
            0 stat @256 = nlink=0
            0 readdir @256 = count=0
            0 let @256
            0 stat @256 = Stale
            ",
        );
    }
}
