//! ReadInline and WriteInline: the bytes of files that are held in the inode.

use std::sync::Arc;

use loligo_types::{Answer, Event, FsError, FsResult, Ino, Kind, SetTime, limits};

use super::truncate;
use crate::ctx::{Change, Ctx};
use crate::need::Wants;
use crate::tree::Tree;
use crate::work::{Work, inode_of, missing};

pub(crate) fn need_read(wants: &mut Wants<'_>, ino: Ino) {
    if let Some(inode) = wants.inode(ino) {
        wants.inline(inode);
    }
}

pub(crate) fn need_write(wants: &mut Wants<'_>, ino: Ino) {
    if let Some(inode) = wants.inode(ino) {
        wants.inline(inode);
        wants.xattrs(inode);
    }
}

/// The whole file; it may be shorter than the size says, the rest is zeros. `Stale` if it is in objects.
pub(crate) fn read(tree: &Tree, ctx: &Ctx<'_>, ino: Ino) -> FsResult<Change> {
    let inode = inode_of(tree, ino)?;
    if inode.kind != Kind::File || !ctx.handle_read {
        return Err(FsError::BadHandle);
    }
    if !inode.inline {
        return Err(FsError::Stale);
    }
    let data = tree.inline(inode).ok_or_else(|| missing("inline data"))?;
    Ok(Change::only(Answer::Bytes(data)))
}

/// Arguments of a write.
pub(crate) struct Write<'a> {
    pub offset: Option<u64>,
    pub data: &'a Arc<[u8]>,
    pub mtime: SetTime,
    pub kill_priv: bool,
}

pub(crate) fn write(tree: &Tree, ctx: &Ctx<'_>, ino: Ino, write: Write<'_>) -> FsResult<Change> {
    let inode = inode_of(tree, ino)?;
    if inode.kind != Kind::File || !ctx.handle_write {
        return Err(FsError::BadHandle);
    }
    let offset = write.offset.unwrap_or(inode.size);
    let end = offset.checked_add(write.data.len() as u64).ok_or(FsError::FileTooBig)?;
    if end > limits::FILE_SIZE_MAX {
        return Err(FsError::FileTooBig);
    }
    if !inode.inline || end > u64::from(tree.config().inline_max) {
        return Err(FsError::Busy);
    }
    // Nothing, written beyond the end, makes the file longer: unlike a truncate it never makes it shorter.
    if write.data.is_empty() && offset <= inode.size {
        return Ok(Change::only(Answer::Entry(inode.attr())));
    }
    let old = tree.inline(inode).ok_or_else(|| missing("inline data"))?;
    let mut work = Work::new(tree, ctx.stamp.now);
    work.event(Event::Inline { ino, data: splice(&old, offset as usize, write.data) });
    let now = ctx.stamp.now;
    let copy = work.edit(inode);
    copy.size = inode.size.max(end);
    truncate::stamp(copy, inode, write.mtime, now);
    truncate::content_changed(&mut work, ctx, inode, write.kill_priv)?;
    Ok(work.finish_with(inode))
}

/// `old` with `data` at `offset`, and zeros in a gap before it. One allocation.
fn splice(old: &Arc<[u8]>, offset: usize, data: &Arc<[u8]>) -> Arc<[u8]> {
    let end = offset + data.len();
    if offset == 0 && end >= old.len() {
        return data.clone();
    }
    let mut bytes = Vec::with_capacity(end.max(old.len()));
    bytes.extend_from_slice(old);
    bytes.resize(end.max(old.len()), 0);
    bytes[offset..end].copy_from_slice(data);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn reads_and_writes() {
        check(
            "
            0 create /f 644
            0 write /f 0 hello = size=5
            0 write /f 3 p!! = size=6
            0 read /f = help!!
            0 write /f - ++ = size=8
            0 read /f = help!!++
            0 write /f 10 = size=10
            0 write /f 9 = size=10
            0 write /f 62 xxx = Busy
            0 write /f 62 xx = size=64
            0 write /f - y = Busy
            0 mkdir /d 755
            0 write /d 0 x = BadHandle
            0 data /f 100 spilled
            0 write /f 0 x = Busy
            0 read /f = Stale
            ",
        );
    }

    #[test]
    fn a_write_by_others_ends_setuid() {
        check(
            "
            0 create /f 6777
            1000 write /f 0 x = mode=6777
            1000 write /f 0 x kill = mode=777
            ",
        );
    }

    /// Linux goes by the groups of who writes, and by CAP_FSETID, which who says `kill` has not.
    #[test]
    fn setgid_without_execution_by_the_group_ends_by_a_write_of_whom_is_not_in_the_group_root_without_fsetid_too() {
        check(
            "
            0 create /f 2767
            0 chown /f 7 7
            0 chmod /f 2767
            0 write /f 0 x = mode=2767
            7 write /f 0 x kill = mode=2767
            0 write /f 0 x kill = mode=767
            ",
        );
    }
}
