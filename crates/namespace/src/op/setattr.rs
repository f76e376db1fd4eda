//! SetAttr: chmod, chown, truncate, utimens, and the layout of an empty file; any of them together.

use loligo_types::{FsError, FsResult, Ino, Inode, Kind, Layout, SetAttr, SetTime, Time};

use super::truncate;
use crate::access::{self, S_ISGID, S_ISUID, W};
use crate::acl;
use crate::ctx::{Change, Ctx};
use crate::need::Wants;
use crate::tree::Tree;
use crate::work::{Work, inode_of};

pub(crate) fn need(wants: &mut Wants<'_>, ino: Ino, set: &SetAttr) {
    let Some(inode) = wants.whole(ino) else { return };
    if let Some(size) = set.size {
        truncate::need(wants, inode, size);
    }
    if (set.uid.is_some() || set.gid.is_some() || set.kill_priv) && inode.kind != Kind::Dir {
        wants.xattrs(inode);
    }
}

pub(crate) fn prepare(tree: &Tree, ctx: &Ctx<'_>, ino: Ino, set: &SetAttr, by_handle: bool) -> FsResult<Change> {
    let inode = inode_of(tree, ino)?;
    if *set == SetAttr::default() {
        return Ok(Change::only(loligo_types::Answer::Entry(tree.attr_of(inode))));
    }
    check(inode, ctx, set, by_handle)?;
    if set.grow && set.size.is_some_and(|size| size <= inode.size) {
        return Ok(Change::only(loligo_types::Answer::Entry(tree.attr_of(inode))));
    }
    let mut work = Work::new(tree, ctx.stamp.now);
    if let Some(size) = set.size {
        truncate::apply(&mut work, ctx, inode, size)?;
    }
    if set.kill_priv {
        truncate::kill(&mut work, ctx, inode)?;
    }
    if set.uid.is_some() || set.gid.is_some() {
        chown(&mut work, ctx, inode, set)?;
    }
    if let Some(mode) = set.mode {
        chmod(&mut work, ctx, inode, mode);
    }
    if let Some(layout) = set.layout {
        set_layout(&mut work, inode, layout)?;
    }
    let now = ctx.stamp.now;
    let copy = work.edit(inode);
    if let Some(time) = set.atime {
        copy.atime = at(time, now);
    }
    if let Some(time) = set.mtime {
        copy.mtime = at(time, now);
    }
    work.copy_to_parts(inode, set.mtime.is_some());
    Ok(work.finish_with(inode))
}

fn at(time: SetTime, now: Time) -> Time {
    match time {
        SetTime::Now => now,
        SetTime::At(time) => time,
    }
}

/// All permissions, in Linux's order: owner, group, mode, times; then what `truncate` asks before them.
fn check(inode: &Inode, ctx: &Ctx<'_>, set: &SetAttr, by_handle: bool) -> FsResult<()> {
    let cred = ctx.cred;
    if set.size.is_some() {
        check_size(inode, ctx, by_handle)?;
    } else if set.kill_priv && !by_handle && !access::is_owner(inode, cred) {
        // Privileges may be ended by those who could end them by a write.
        access::check(inode, cred, W)?;
    }
    if let Some(uid) = set.uid
        && !(cred.is_root() || cred.uid == inode.uid && uid == inode.uid)
    {
        return Err(FsError::Perm);
    }
    if let Some(gid) = set.gid
        && !(cred.is_root() || cred.uid == inode.uid && (gid == inode.gid || cred.in_group(gid)))
    {
        return Err(FsError::Perm);
    }
    // A kernel that ends privileges itself sends the reduced mode along with a truncation.
    let reduced = |mode: u16| set.size.is_some() && mode & 0o7777 == inode.mode & !(S_ISUID | S_ISGID) & 0o7777;
    if let Some(mode) = set.mode
        && !reduced(mode)
    {
        access::check_owner(inode, cred)?;
    }
    if set.layout.is_some() {
        access::check_owner(inode, cred)?;
    }
    check_times(inode, ctx, set)
}

fn check_size(inode: &Inode, ctx: &Ctx<'_>, by_handle: bool) -> FsResult<()> {
    match inode.kind {
        Kind::Dir => Err(FsError::IsDir),
        Kind::File if by_handle => Ok(()),
        Kind::File => access::check(inode, ctx.cred, W),
        _ => Err(FsError::Invalid),
    }
}

/// Both times to "now" needs write permission or ownership; anything else ownership. With a size, "now" is its own.
fn check_times(inode: &Inode, ctx: &Ctx<'_>, set: &SetAttr) -> FsResult<()> {
    let now_or_none = |time: Option<SetTime>| matches!(time, None | Some(SetTime::Now));
    let none = set.atime.is_none() && set.mtime.is_none();
    if none || set.size.is_some() && now_or_none(set.atime) && now_or_none(set.mtime) {
        return Ok(());
    }
    if set.atime == Some(SetTime::Now) && set.mtime == Some(SetTime::Now) {
        let owner = access::is_owner(inode, ctx.cred);
        return if owner { Ok(()) } else { access::check(inode, ctx.cred, W) };
    }
    access::check_owner(inode, ctx.cred)
}

/// Any chown of what is no directory ends setuid, setgid and capabilities, root's too.
fn chown(work: &mut Work<'_>, ctx: &Ctx<'_>, inode: &Inode, set: &SetAttr) -> FsResult<()> {
    truncate::kill_by(work, ctx, inode, ctx.cred.is_root())?;
    let copy = work.edit(inode);
    copy.uid = set.uid.unwrap_or(copy.uid);
    copy.gid = set.gid.unwrap_or(copy.gid);
    Ok(())
}

/// Somebody who is not in the file's group cannot give it setgid. The ACL follows the mode.
fn chmod(work: &mut Work<'_>, ctx: &Ctx<'_>, inode: &Inode, mode: u16) {
    let copy = work.edit(inode);
    let mut mode = mode & 0o7777;
    if !ctx.cred.is_root() && !ctx.cred.in_group(copy.gid) {
        mode &= !S_ISGID;
    }
    copy.mode = mode;
    if let Some(acl) = copy.extra.as_mut().and_then(|extra| extra.acl.as_mut()) {
        acl::mode::chmod(acl, mode);
    }
}

fn set_layout(work: &mut Work<'_>, inode: &Inode, layout: Layout) -> FsResult<()> {
    let size = layout.object_size;
    let valid = size.is_power_of_two() && (64 << 10..=1 << 30).contains(&size);
    if inode.kind != Kind::File || inode.size != 0 || !valid {
        return Err(FsError::Invalid);
    }
    let copy = work.edit(inode);
    if layout != Layout::default() {
        copy.extra_mut().layout = Some(layout);
    } else if let Some(extra) = &mut copy.extra {
        extra.layout = None;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn chmod_by_owners_and_setgid_by_members() {
        check(
            "
            0 create /f 644
            0 chown /f 1000 2000
            1000 chmod /f 2755 = mode=755
            1000:1000,2000 chmod /f 2755 = mode=2755
            0 chmod /f 6755 = mode=6755
            1001 chmod /f 777 = Perm
            ",
        );
    }

    #[test]
    fn chown_by_root_chgrp_by_owners_into_their_groups() {
        check(
            "
            0 create /f 644
            0 chown /f 1000 1000
            1000 chown /f 1001 - = Perm
            1000 chown /f 1000 -
            1000 chown /f - 1000
            1000 chown /f - 2000 = Perm
            1000:1000,2000 chown /f - 2000 = gid=2000
            1001:2000 chown /f - 2000 = Perm
            0 chown /f 5 6 = uid=5 gid=6
            ",
        );
    }

    #[test]
    fn chown_ends_setuid_and_setgid_but_not_of_directories() {
        check(
            "
            0 create /f 6755
            0 chown /f 0 0 = mode=755
            0 chmod /f 6745
            0 chown /f 0 0 = mode=2745 # no group x: mandatory locking of old, kept for members
            0 mkdir /d 755
            0 chmod /d 6755
            0 chown /d 1 1 = mode=6755
            ",
        );
    }

    #[test]
    fn privileges_end_for_those_who_could_end_them_by_a_write() {
        check(
            "
            0 create /f 6755
            1000 killpriv /f = Access
            0 stat /f = mode=6755
            1000 killpriv /f handle = mode=755
            0 chmod /f 6757
            1000 killpriv /f = mode=757
            0 chown /f 1000 1000
            0 chmod /f 6555
            1000 killpriv /f = mode=555 # the owner, who may not even write
            0 mkdir /d 777
            0 chmod /d 6777
            1000 killpriv /d = mode=6777
            ",
        );
    }

    #[test]
    fn root_without_fsetid_ends_setuid_by_a_truncation_and_root_with_it_does_not() {
        check(
            "
            0 create /f 6755
            0 truncate /f 5 = mode=6755
            0 truncate-kill /f 4 = mode=755
            0 chmod /f 6755
            0 open /f wt = mode=6755 size=0
            ",
        );
    }

    #[test]
    fn truncate_needs_write_permission_or_a_handle() {
        check(
            "
            0 create /f 644
            0 mkdir /d 755
            0 mknod /p 644 fifo
            0 truncate /d 0 = IsDir
            0 truncate /p 0 = Invalid
            1000 truncate /f 5 = Access
            1000 ftruncate /f 5 = size=5
            0 truncate /f 9223372036854775807 = FileTooBig
            0 chmod /f 6777
            1000 truncate /f 5 = mode=777 size=5
            ",
        );
    }

    #[test]
    fn truncate_of_inline_files() {
        check(
            "
            0 create /f 644
            0 write /f 0 hello
            0 truncate /f 2 = size=2 cuts=1 inline=true
            0 truncate /f 4 = size=4 cuts=1
            0 read /f = he
            0 truncate /f 64 = inline=true
            0 truncate /f 1000 = size=1000 inline=true # data is a prefix, the rest zeros
            0 write /f 10 x = size=1000
            0 write /f 100 x = Busy
            0 truncate /f 3 = size=3
            0 read /f = he
            0 truncate /f 0 = size=0
            0 truncate /f 1000 = inline=false size=1000 # nothing to keep: all hole
            ",
        );
    }

    #[test]
    fn truncate_of_object_files_discards() {
        check(
            "
            0 create /f 644
            0 data /f 1000 spilled = inline=false size=1000
            0 truncate /f 10 = cuts=1 size=10 inline=false
            0 truncate /f 20 = cuts=2 size=20
            0 data /f 30 - old = Stale
            ",
        );
    }

    #[test]
    fn growing_never_makes_a_file_shorter() {
        check(
            "
            0 create /f 644
            0 write /f 0 hello
            0 grow /f 3 = size=5 cuts=0
            0 read /f = hello
            0 grow /f 1000 = size=1000 cuts=0 inline=true
            0 data /f 1000 spilled = inline=false size=1000
            0 grow /f 10 = size=1000 cuts=0
            0 grow /f 2000 = size=2000 cuts=1 # what others put beyond the end is dropped
            1000 grow /f 3000 = Access
            ",
        );
    }

    #[test]
    fn times_to_now_by_writers_else_by_owners() {
        check(
            "
            0 create /f 666
            0 utimes /f 5 7 = atime=5 mtime=7
            0 utimes /f - 9 = atime=5 mtime=9
            1000 utimes /f now now
            1000 utimes /f 5 7 = Perm
            1000 utimes /f now - = Perm
            0 chmod /f 644
            1000 utimes /f now now = Access
            0 chown /f 1000 1000
            1000 utimes /f 1 now = atime=1
            ",
        );
    }

    #[test]
    fn a_layout_only_for_an_empty_file() {
        check(
            "
            0 create /f 644
            0 layout /f 65536
            0 getxattr /f loligo.layout.object_size = 65536
            0 layout /f 65537 = Invalid
            0 layout /f 4096 = Invalid
            0 write /f 0 x
            0 layout /f 65536 = Invalid
            0 layout / 65536 = Invalid
            1000 layout /f 65536 = Perm
            ",
        );
    }
}
