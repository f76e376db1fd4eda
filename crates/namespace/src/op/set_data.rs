//! SetData: the size and times that follow from data written to objects.

use std::sync::Arc;

use loligo_types::{Event, FsError, FsResult, Ino, Kind, Patches, SetTime, limits};

use super::truncate;
use crate::ctx::{Change, Ctx};
use crate::tree::Tree;
use crate::work::{Work, inode_of};

/// Arguments from the writer.
pub(crate) struct Told {
    pub cuts: u32,
    pub grow_to: Option<u64>,
    pub mtime: SetTime,
    pub spilled: bool,
    pub kill_priv: bool,
    pub patches: Option<Arc<Patches>>,
}

/// `Stale` if the file was cut since the writer knew it; `Busy` if it is still inline and would grow: its data must be
/// spilled first, or written inline. Data that comes with it is that of a file in objects, and ends where the file does at the latest.
pub(crate) fn prepare(tree: &Tree, ctx: &Ctx<'_>, ino: Ino, told: Told) -> FsResult<Change> {
    let inode = inode_of(tree, ino)?;
    if inode.kind != Kind::File || !ctx.handle_write {
        return Err(FsError::BadHandle);
    }
    if told.cuts != inode.cuts {
        return Err(FsError::Stale);
    }
    let size = inode.size.max(told.grow_to.unwrap_or(0));
    if size > limits::FILE_SIZE_MAX {
        return Err(FsError::FileTooBig);
    }
    if inode.inline && !told.spilled && size > inode.size {
        return Err(FsError::Busy);
    }
    if told.patches.as_ref().is_some_and(|patches| inode.inline && !told.spilled || patches.end() > size) {
        return Err(FsError::Invalid);
    }
    let mut work = Work::new(tree, ctx.stamp.now);
    if inode.inline && told.spilled && inode.size > 0 {
        work.event(Event::InlineGone(ino));
    }
    if let Some(patches) = told.patches {
        work.event(Event::Data { ino, object_size: inode.layout().object_size, patches });
    }
    let now = ctx.stamp.now;
    let copy = work.edit(inode);
    copy.inline &= !told.spilled;
    copy.size = size;
    truncate::stamp(copy, inode, told.mtime, now);
    truncate::content_changed(&mut work, ctx, inode, told.kill_priv)?;
    Ok(work.finish_with(inode))
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn tells_sizes_and_spills() {
        check(
            "
            0 create /f 644
            0 data /f 10 = Busy
            0 data /f - = size=0
            0 write /f 0 abc
            0 data /f 100 spilled = size=100 inline=false
            0 data /f 50 = size=100
            0 data /f 200 = size=200
            0 data /f 9223372036854775807 = FileTooBig
            0 data /f 300 - old = Stale
            ",
        );
    }

    #[test]
    fn takes_data_of_a_file_in_objects_that_ends_where_the_file_does() {
        check(
            "
            0 create /f 644
            0 data /f 10 - - 0 abc = Busy
            0 data /f - - - 0 abc = Invalid
            0 data /f 10 spilled - 7 abc = size=10 inline=false
            0 data /f 10 - - 8 abc = Invalid
            0 data /f 11 - - 8 abc = size=11
            0 data /f - - old 0 abc = Stale
            ",
        );
    }

    /// The client has shown them since it was written, and so does everybody then.
    #[test]
    fn what_was_held_back_has_the_times_of_when_it_was_written() {
        for spilled in ["late /f now", "data /f 100 spilled"] {
            check(&format!(
                "
                0 create /f 644
                0 {spilled}
                0 late /f 5000000000000 = mtime=5000000000000 ctime=5000000000000
                0 late /f 7 = mtime=7 ctime=5000000000000
                "
            ));
        }
    }
}
