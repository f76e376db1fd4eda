//! Mknod: a regular file, pipe, socket or device.

use loligo_types::{FsError, FsResult, Ino, Kind, Name};

use super::make;
use crate::ctx::{Change, Ctx};
use crate::tree::Tree;
use crate::work::Work;

/// Arguments of a mknod.
pub(crate) struct Node {
    pub kind: Kind,
    pub mode: u16,
    pub umask: u16,
    pub rdev: u32,
}

pub(crate) fn prepare(tree: &Tree, ctx: &Ctx<'_>, dir: Ino, name: &Name, node: Node) -> FsResult<Change> {
    let is_device = matches!(node.kind, Kind::Char | Kind::Block);
    if matches!(node.kind, Kind::Dir | Kind::Symlink) {
        return Err(FsError::Invalid);
    }
    let parent = make::room_for(tree, ctx, dir, name)?;
    // A whiteout of overlayfs is no device that could be opened.
    let is_whiteout = node.kind == Kind::Char && node.rdev == 0;
    if is_device && !is_whiteout && !ctx.cred.is_root() {
        return Err(FsError::Perm);
    }
    let mut inode = make::new_inode(ctx, parent, node.kind, node.mode, node.umask);
    if is_device {
        inode.extra_mut().rdev = node.rdev;
    }
    let mut work = Work::new(tree, ctx.stamp.now);
    let made = inode.clone();
    make::make(&mut work, parent, name, inode);
    Ok(work.finish_with(&made))
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn nodes_of_every_kind() {
        check(
            "
            0 mknod /p 644 fifo = kind=Fifo
            0 mknod /s 644 socket = kind=Socket
            0 mknod /c 600 char = kind=Char
            0 mknod /f 644 file = kind=File inline=true
            0 mknod /d 755 dir = Invalid
            0 mknod /p 644 fifo = Exists
            0 chmod / 777
            1000 mknod /c2 600 char = Perm
            1000 mknod /p2 666 fifo umask27 = mode=640 uid=1000
            ",
        );
    }
}
