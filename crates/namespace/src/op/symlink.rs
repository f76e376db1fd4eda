//! Symlink: a symbolic link. Its target is any text; nobody checks it.

use std::sync::Arc;

use loligo_types::{Answer, FsError, FsResult, Ino, Kind, Name, limits};

use super::make;
use crate::ctx::{Change, Ctx};
use crate::tree::Tree;
use crate::work::Work;

pub(crate) fn prepare(tree: &Tree, ctx: &Ctx<'_>, dir: Ino, name: &Name, target: &Arc<[u8]>) -> FsResult<Change> {
    if target.is_empty() || target.contains(&0) {
        return Err(FsError::Invalid);
    }
    if target.len() > limits::SYMLINK_MAX {
        return Err(FsError::NameTooLong);
    }
    let parent = make::room_for(tree, ctx, dir, name)?;
    let mut inode = make::new_inode(ctx, parent, Kind::Symlink, 0o777, 0);
    inode.size = target.len() as u64;
    inode.extra_mut().symlink = Some(target.as_ref().into());
    let mut work = Work::new(tree, ctx.stamp.now);
    let attr = inode.attr();
    make::make(&mut work, parent, name, inode);
    Ok(work.finish(Answer::Entry(attr), attr.ino))
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn targets_are_any_text_within_limits() {
        check(
            "
            0 symlink /l a*4095
            0 stat /l = size=4095
            0 symlink /m a*4096 = NameTooLong
            0 symlink /l x = Exists
            ",
        );
    }
}
