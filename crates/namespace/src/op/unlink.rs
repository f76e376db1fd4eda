//! Unlink: takes a name of anything but a directory away.

use loligo_types::{FsError, FsResult, Ino, Kind, Name};

use super::{DONE, make};
use crate::access;
use crate::ctx::{Change, Ctx};
use crate::need::Wants;
use crate::tree::Tree;
use crate::work::{Work, dir_of, entry_of, pointed};

pub(crate) fn need(wants: &mut Wants<'_>, dir: Ino, name: &Name) {
    if let Some(inode) = wants.target(dir, name) {
        wants.counter(inode);
    }
}

pub(crate) fn prepare(tree: &Tree, ctx: &Ctx<'_>, dir: Ino, name: &Name) -> FsResult<Change> {
    let parent = dir_of(tree, ctx, dir)?;
    let target = entry_of(tree, dir, name)?.ok_or(FsError::NotFound)?;
    let victim = pointed(tree, target.ino)?;
    access::check_change(parent, ctx.cred)?;
    access::check_sticky(parent, victim, ctx.cred)?;
    if victim.kind == Kind::Dir {
        return Err(FsError::IsDir);
    }
    let mut work = Work::new(tree, ctx.stamp.now);
    make::drop_entry(&mut work, parent, name, victim.kind);
    work.drop_link(victim, !target.remote, ctx);
    Ok(work.finish(DONE, Ino(0)))
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn takes_a_name_away() {
        check(
            "
            0 create /f 644
            0 mkdir /d 755
            1000 unlink /f = Access
            0 unlink /f
            0 unlink /f = NotFound
            0 unlink /d = IsDir
            0 stat / = size=1 nlink=3
            ",
        );
    }

    #[test]
    fn an_open_file_lives_on_as_an_orphan() {
        check(
            "
            0 create /f 644
            0 write /f 0 data
            0 hold /f
            0 unlink /f
            0 read @256 = data
            0 let @256
            0 stat @256 = Stale
            ",
        );
    }

    #[test]
    fn in_a_sticky_directory_only_owners_remove() {
        check(
            "
            0 mkdir /t 1777
            1000 create /t/f 666
            1001 unlink /t/f = Perm
            1000 unlink /t/f
            1000 create /t/g 666
            0 unlink /t/g
            0 chown /t 1001 1001
            1000 create /t/h 666
            1001 unlink /t/h # the directory's owner
            ",
        );
    }
}
