//! Create: opens a name, and makes a regular file if it is not there.

use loligo_types::{Answer, FsError, FsResult, Ino, Kind, Lease, Name, OpenFlags, Target};

use super::{make, open, open_data};
use crate::access;
use crate::ctx::{Change, Ctx};
use crate::need::Wants;
use crate::tree::Tree;
use crate::work::{Work, dir_of, entry_of, pointed};

/// Arguments of a create: the flags of the open, and the mode of the new file.
pub(crate) struct How {
    pub mode: u16,
    pub umask: u16,
    pub flags: OpenFlags,
    pub exclusive: bool,
}

pub(crate) fn need(wants: &mut Wants<'_>, dir: Ino, name: &Name, flags: OpenFlags, exclusive: bool) {
    match wants.entry(dir, name) {
        Some(target) if !exclusive => open::need(wants, target.ino, flags),
        _ => {}
    }
}

pub(crate) fn prepare(tree: &Tree, ctx: &Ctx<'_>, dir: Ino, name: &Name, how: How) -> FsResult<Change> {
    let parent = dir_of(tree, ctx, dir)?;
    if let Some(Target { ino, kind, .. }) = entry_of(tree, dir, name)? {
        return match kind {
            _ if how.exclusive => Err(FsError::Exists),
            Kind::Dir => Err(FsError::IsDir),
            _ => {
                pointed(tree, ino)?;
                open::prepare(tree, ctx, ino, how.flags)
            }
        };
    }
    access::check_change(parent, ctx.cred)?;
    let inode = make::new_inode(ctx, parent, Kind::File, how.mode, how.umask);
    // The mode of a file just made does not bind the one who makes it.
    let data = open_data(tree, &inode, how.flags);
    let answer = Answer::Opened { attr: inode.attr(), created: true, rights: Lease::NONE, data };
    let ino = inode.ino;
    let mut work = Work::new(tree, ctx.stamp.now);
    make::make(&mut work, parent, name, inode);
    let mut change = work.finish(answer, ino);
    change.origin_value = 1;
    Ok(change)
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn makes_or_opens() {
        check(
            "
            0 create /f 644 rw = created=true mode=644 size=0 data=
            0 create /f 600 rw = created=false mode=644
            0 create /f 600 rwe = Exists
            0 mkdir /d 755
            0 create /d 644 rw = IsDir
            0 create /d 644 rwe = Exists
            0 symlink /l f
            0 create /l 644 rw = Loop
            0 create /l 644 e = Exists
            0 mknod /p 644 fifo
            0 create /p 644 rw = NotSupported
            ",
        );
    }

    #[test]
    fn the_mode_of_a_new_file_does_not_bind_its_maker() {
        check(
            "
            0 chmod / 777
            1000 create /f 000 rw = created=true mode=0
            1000 create /f 000 r = Access
            1000 create /g 666 rw umask22 = mode=644
            0 chmod / 755
            1000 create /h 644 rw = Access
            ",
        );
    }

    #[test]
    fn create_of_an_existing_file_may_truncate_it() {
        check(
            "
            0 create /f 644
            0 write /f 0 abc
            0 create /f 644 rwt = created=false size=0 cuts=1
            ",
        );
    }
}
