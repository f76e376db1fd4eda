//! Extend: where an append to an object file begins if nobody else has reserved room at its end. Changes nothing: who has
//! which room is the metadata server's to know, and the size grows when the data is there (`set_data`).

use loligo_types::{Answer, FsError, FsResult, Ino, Kind, limits};

use crate::ctx::{Change, Ctx};
use crate::tree::Tree;
use crate::work::inode_of;

pub(crate) fn prepare(tree: &Tree, ctx: &Ctx<'_>, ino: Ino, len: u64) -> FsResult<Change> {
    let inode = inode_of(tree, ino)?;
    if inode.kind != Kind::File || !ctx.handle_write {
        return Err(FsError::BadHandle);
    }
    let offset = inode.size;
    offset.checked_add(len).filter(|size| *size <= limits::FILE_SIZE_MAX).ok_or(FsError::FileTooBig)?;
    if inode.inline {
        return Err(FsError::Busy);
    }
    Ok(Change::only(Answer::Offset(offset)))
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn an_append_begins_at_the_end_and_changes_nothing() {
        check(
            "
            0 create /f 644
            0 extend /f 10 = Busy
            0 data /f 100 spilled
            0 extend /f 10 = offset=100
            0 extend /f 5 = offset=100
            0 stat /f = size=100
            0 extend /f 9223372036854775807 = FileTooBig
            ",
        );
    }
}
