//! Common parts of truncation and writing: a new size, and the privileges that a change of content ends.

use loligo_types::{Event, FsError, FsResult, Inode, Kind, SetTime, Time, limits};

use crate::access::{self, S_ISGID, S_ISUID};
use crate::ctx::Ctx;
use crate::need::Wants;
use crate::tree::Tree;
use crate::work::{Work, missing};

/// The xattr that holds a file's capabilities.
pub(crate) const CAPABILITY: &[u8] = b"security.capability";

/// Adds the records that a truncation of this inode to `size` needs.
pub(crate) fn need(wants: &mut Wants<'_>, inode: &Inode, size: u64) {
    if inode.kind == Kind::File {
        wants.xattrs(inode);
        if size > 0 {
            wants.inline(inode);
        }
    }
}

/// Gives a regular file a new size. Permission was checked. `IsDir` and `Invalid` for other kinds.
pub(crate) fn apply(work: &mut Work<'_>, ctx: &Ctx<'_>, inode: &Inode, size: u64) -> FsResult<()> {
    match inode.kind {
        Kind::File => {}
        Kind::Dir => return Err(FsError::IsDir),
        _ => return Err(FsError::Invalid),
    }
    if size > limits::FILE_SIZE_MAX {
        return Err(FsError::FileTooBig);
    }
    if inode.inline {
        resize_inline(work, inode, size)?;
    } else if size != inode.size {
        // Objects keep nothing beyond the size; when it grows, what a writer that died left there must not show.
        let from = size.min(inode.size);
        work.event(Event::Discard { ino: inode.ino, from, object_size: inode.layout().object_size });
    }
    let now = work.now;
    let copy = work.edit(inode);
    // Growing drops what another writer put beyond the end and has not told of yet: it must write again, too.
    let drops = size < copy.size || !inode.inline && size > inode.size;
    copy.cuts = copy.cuts.wrapping_add(u32::from(drops));
    copy.size = size;
    copy.mtime = now;
    content_changed(work, ctx, inode, !ctx.cred.is_root())
}

/// Ends what a change of content or size ends: capabilities whoever makes it, setuid and setgid if the caller has no CAP_FSETID.
pub(crate) fn content_changed(work: &mut Work<'_>, ctx: &Ctx<'_>, inode: &Inode, kill_priv: bool) -> FsResult<()> {
    if kill_priv { kill(work, ctx, inode) } else { kill_capability(work, inode) }
}

/// Data in the inode: cut, or filled with zeros up to the threshold. What lies beyond the threshold are zeros that
/// nobody stores: an empty file then becomes one of objects (all hole), others keep their data as a prefix.
fn resize_inline(work: &mut Work<'_>, inode: &Inode, size: u64) -> FsResult<()> {
    if size == inode.size {
        return Ok(());
    }
    let max = u64::from(work.tree.config().inline_max);
    if size == 0 {
        work.event(Event::InlineGone(inode.ino));
        return Ok(());
    }
    if inode.size == 0 && size > max {
        // A writer that died while it moved the file may have left objects.
        work.event(Event::Discard { ino: inode.ino, from: 0, object_size: inode.layout().object_size });
        work.quiet(inode).inline = false;
        return Ok(());
    }
    let data = work.tree.inline(inode).ok_or_else(|| missing("inline data"))?;
    let want = if size > max { data.len() } else { size as usize };
    if want != data.len() || inode.size == 0 {
        let mut bytes = data[..data.len().min(want)].to_vec();
        bytes.resize(want, 0);
        work.event(Event::Inline { ino: inode.ino, data: bytes.into() });
    }
    Ok(())
}

/// True if a file has setuid, setgid or capabilities.
pub(crate) fn is_privileged(tree: &Tree, inode: &Inode) -> FsResult<bool> {
    if inode.kind != Kind::File || inode.mode & (S_ISUID | S_ISGID) != 0 || !inode.has_xattrs {
        return Ok(inode.kind == Kind::File && inode.mode & (S_ISUID | S_ISGID) != 0);
    }
    let all = tree.xattrs(inode).ok_or_else(|| missing("xattrs"))?;
    Ok(all.iter().any(|(name, _)| name.as_ref() == CAPABILITY))
}

/// The times of a file whose data was written. Of what was held back the client says when it was written, and both times are
/// those by then: the client has shown them since, and that the data comes only now changes nothing of the file.
pub(crate) fn stamp(copy: &mut Inode, before: &Inode, mtime: SetTime, now: Time) {
    (copy.mtime, copy.ctime) = match mtime {
        SetTime::Now => (now, now),
        SetTime::At(time) => (time, before.ctime.max(time)),
    };
}

/// Ends setuid, setgid and file capabilities, as a change of content by a process without CAP_FSETID must.
pub(crate) fn kill(work: &mut Work<'_>, ctx: &Ctx<'_>, inode: &Inode) -> FsResult<()> {
    kill_by(work, ctx, inode, false)
}

/// The same, as a change of the owner must. `fsetid`: the caller has CAP_FSETID.
pub(crate) fn kill_by(work: &mut Work<'_>, ctx: &Ctx<'_>, inode: &Inode, fsetid: bool) -> FsResult<()> {
    if inode.kind == Kind::Dir {
        return Ok(());
    }
    let copy = work.quiet(inode);
    copy.mode = access::without_privilege(copy, ctx.cred, fsetid);
    kill_capability(work, inode)
}

/// Ends file capabilities.
pub(crate) fn kill_capability(work: &mut Work<'_>, inode: &Inode) -> FsResult<()> {
    if inode.kind == Kind::Dir || !inode.has_xattrs {
        return Ok(());
    }
    let all = work.tree.xattrs(inode).ok_or_else(|| missing("xattrs"))?;
    if all.iter().any(|(name, _)| name.as_ref() == CAPABILITY) {
        work.event(Event::XattrGone { ino: inode.ino, name: CAPABILITY.into() });
        work.quiet(inode).has_xattrs = all.len() > 1;
    }
    Ok(())
}
