//! Extend: reserves room at the end of an object file, so that appends of several writers never overlap.

use loligo_types::{Answer, FsError, FsResult, Ino, Kind, limits};

use super::truncate;
use crate::ctx::{Change, Ctx};
use crate::tree::Tree;
use crate::work::{Work, inode_of};

pub(crate) fn prepare(tree: &Tree, ctx: &Ctx<'_>, ino: Ino, len: u64, kill_priv: bool) -> FsResult<Change> {
    let inode = inode_of(tree, ino)?;
    if inode.kind != Kind::File || !ctx.handle_write {
        return Err(FsError::BadHandle);
    }
    let offset = inode.size;
    let size = offset.checked_add(len).filter(|size| *size <= limits::FILE_SIZE_MAX).ok_or(FsError::FileTooBig)?;
    if inode.inline {
        return Err(FsError::Busy);
    }
    let mut work = Work::new(tree, ctx.stamp.now);
    let now = ctx.stamp.now;
    let copy = work.edit(inode);
    copy.size = size;
    copy.mtime = now;
    truncate::content_changed(&mut work, ctx, inode, kill_priv)?;
    let mut change = work.finish(Answer::Offset(offset), ino);
    change.origin_value = offset;
    Ok(change)
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn reserves_room_at_the_end() {
        check(
            "
            0 create /f 644
            0 extend /f 10 = Busy
            0 data /f 100 spilled
            0 extend /f 10 = offset=100
            0 extend /f 5 = offset=110
            0 stat /f = size=115
            0 extend /f 9223372036854775807 = FileTooBig
            ",
        );
    }
}
