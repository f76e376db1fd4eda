//! Open: a regular file or directory by number. Handles, rights and shares are the server's.

use std::sync::Arc;

use loligo_types::{Answer, FsError, FsResult, Ino, Inode, Kind, Lease, OpenFlags};

use super::truncate;
use crate::access::{self, R, W, X};
use crate::ctx::{Change, Ctx};
use crate::need::Wants;
use crate::tree::Tree;
use crate::work::{Work, inode_of};

pub(crate) fn need(wants: &mut Wants<'_>, ino: Ino, flags: OpenFlags) {
    let Some(inode) = wants.inode(ino) else { return };
    if flags.truncate {
        truncate::need(wants, inode, 0);
    }
    if flags.write && inode.kind == Kind::File {
        wants.xattrs(inode);
    }
    if !flags.truncate && (flags.read || flags.exec) && inode.kind == Kind::File {
        wants.inline(inode);
    }
}

pub(crate) fn prepare(tree: &Tree, ctx: &Ctx<'_>, ino: Ino, flags: OpenFlags) -> FsResult<Change> {
    let inode = inode_of(tree, ino)?;
    check_kind(inode, flags)?;
    // What is open under that number already was allowed.
    let bit = |wanted: bool, held: bool, bit: u8| if wanted && !held { bit } else { 0 };
    let read = bit(flags.read && !flags.exec, ctx.handle_read, R) | bit(flags.exec, ctx.handle_read, X);
    let write = bit(flags.write, ctx.handle_write, W) | bit(flags.truncate, false, W);
    access::check(inode, ctx.cred, read | write)?;
    let mut work = Work::new(tree, ctx.stamp.now);
    if flags.truncate {
        truncate::apply(&mut work, ctx, inode, 0)?;
    }
    if flags.write && ctx.distrusted && truncate::is_privileged(tree, inode)? {
        work.edit(inode);
        truncate::kill(&mut work, ctx, inode)?;
    }
    // Of a directory whose fragments are several ranks' what is counted here: who lists it asks for entries next, and all those ranks need
    // not be asked for what it has all in all.
    let attr = if inode.is_spread() { inode.attr() } else { work.attr(inode) };
    let data = if flags.truncate { truncated_data(attr.inline) } else { open_data(tree, inode, flags) };
    Ok(work.finish(Answer::Opened { attr, created: false, rights: Lease::NONE, data }, ino))
}

fn check_kind(inode: &Inode, flags: OpenFlags) -> FsResult<()> {
    match inode.kind {
        Kind::File => Ok(()),
        Kind::Dir if flags.write || flags.truncate => Err(FsError::IsDir),
        Kind::Dir => Ok(()),
        Kind::Symlink => Err(FsError::Loop),
        // The kernel opens pipes, sockets and devices itself.
        Kind::Fifo | Kind::Socket | Kind::Char | Kind::Block => Err(FsError::NotSupported),
    }
}

fn truncated_data(inline: bool) -> Option<Arc<[u8]>> {
    inline.then(Arc::default)
}

/// The data that goes with an open: of a file held in its inode, if it is opened for reading or is empty, and loaded.
/// It may be shorter than the file: the rest is zeros.
pub(crate) fn open_data(tree: &Tree, inode: &Inode, flags: OpenFlags) -> Option<Arc<[u8]>> {
    let wanted = inode.kind == Kind::File && inode.inline && (flags.read || flags.exec || inode.size == 0);
    if wanted { tree.inline(inode) } else { None }
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn permissions_and_kinds() {
        check(
            "
            0 create /f 640
            0 chown /f 1000 2000
            2000 open /f r
            2000 open /f w = Access
            2000 open /f rt = Access
            3000 open /f r = Access
            1000 open /f rw
            0 open /f x = Access
            0 chmod /f 641
            0 open /f x
            3000 open /f x # to execute needs no r
            0 open / r
            0 open / w = IsDir
            0 open / rt = IsDir
            0 symlink /l f
            0 open /l r = Loop
            0 mknod /p 644 fifo
            0 open /p r = NotSupported
            ",
        );
    }

    #[test]
    fn the_data_of_a_small_file_comes_with_the_open() {
        check(
            "
            0 create /f 644
            0 open /f w = data=
            0 write /f 0 hello
            0 open /f r = data=hello size=5
            0 open /f rw = data=hello
            0 open /f wt = size=0 data= cuts=1
            0 write /f 0 x*64
            0 data /f 100 spilled
            0 open /f r = size=100 inline=false
            ",
        );
    }
}
