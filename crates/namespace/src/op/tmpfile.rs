//! Tmpfile: opens a new file without a name (O_TMPFILE). It is an orphan from birth.

use loligo_types::{Answer, Event, FsResult, Ino, Kind, Lease, OpenFlags, Place};

use super::{make, open_data};
use crate::access;
use crate::ctx::{Change, Ctx};
use crate::tree::Tree;
use crate::work::{Work, dir_of};

pub(crate) fn prepare(
    tree: &Tree,
    ctx: &Ctx<'_>,
    dir: Ino,
    (mode, umask): (u16, u16),
    flags: OpenFlags,
    linkable: bool,
) -> FsResult<Change> {
    let parent = dir_of(tree, ctx, dir)?;
    access::check_change(parent, ctx.cred)?;
    let mut inode = make::new_inode(ctx, parent, Kind::File, mode, umask);
    inode.nlink = 0;
    inode.place = Place::floating(tree.owner(dir));
    if linkable {
        inode.extra_mut().linkable = true;
    }
    let data = open_data(tree, &inode, flags);
    let answer = Answer::Opened { attr: inode.attr(), created: true, rights: Lease::NONE, data };
    let ino = inode.ino;
    let mut work = Work::new(tree, ctx.stamp.now);
    work.event(Event::Orphan(ino));
    work.add_uncounted(inode);
    let mut change = work.finish(answer, ino);
    change.origin_value = 1;
    Ok(change)
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn a_file_without_a_name() {
        check(
            "
            0 tmpfile / 600 = nlink=0 created=true mode=600 data=
            0 stat / = size=0
            0 write @256 0 text
            0 read @256 = text
            1000 tmpfile / 600 = Access
            0 create /f 644
            0 tmpfile /f 600 = NotDir
            ",
        );
    }
}
