//! Common parts of all operations that make an inode: the checks, its owner, group, mode and ACLs, and its entry.

use loligo_types::{Event, FsError, FsResult, Ino, Inode, Kind, Name, Place, Placement, Target};

use crate::access::{self, S_ISGID, S_ISVTX};
use crate::acl;
use crate::ctx::Ctx;
use crate::tree::Tree;
use crate::work::{Work, dir_of, entry_of, subdirs};

/// The directory, if the caller may add this name to it. `Exists` comes before `Access`, as in Linux.
pub(crate) fn room_for<'a>(tree: &'a Tree, ctx: &Ctx<'_>, dir: Ino, name: &Name) -> FsResult<&'a Inode> {
    let inode = dir_of(tree, ctx, dir)?;
    if entry_of(tree, dir, name)?.is_some() {
        return Err(FsError::Exists);
    }
    access::check_change(inode, ctx.cred)?;
    Ok(inode)
}

/// A new inode in `dir`: its group and setgid bit from a setgid directory, its ACLs from the default ACL.
pub(crate) fn new_inode(ctx: &Ctx<'_>, dir: &Inode, kind: Kind, mode: u16, umask: u16) -> Inode {
    let inherits = dir.mode & S_ISGID != 0;
    let gid = if inherits { dir.gid } else { ctx.cred.gid };
    let mut mode = match kind {
        // As Linux's mkdir: setuid and setgid of the mode are ignored.
        Kind::Dir => mode & (0o777 | S_ISVTX) | if inherits { S_ISGID } else { 0 },
        _ => mode & 0o7777,
    };
    let default = if kind == Kind::Symlink { None } else { dir.default_acl() };
    let mut access_acl = None;
    match default {
        Some(default) => (mode, access_acl) = acl::mode::inherit(default, mode),
        None if kind != Kind::Symlink => mode &= !(umask & 0o777),
        None => {}
    }
    let denied = denied_below(dir);
    if kind != Kind::Symlink && mode & denied != 0 {
        mode &= !denied;
        if let Some(acl) = &mut access_acl {
            acl::mode::chmod(acl, mode);
        }
    }
    let outsider = !ctx.cred.is_root() && !ctx.cred.in_group(gid);
    if kind != Kind::Dir && inherits && mode & (S_ISGID | 0o010) == S_ISGID | 0o010 && outsider {
        mode &= !S_ISGID;
    }
    let mut inode = Inode::new(ctx.stamp.ino, kind, mode, ctx.cred.uid, gid, Ino(0), ctx.stamp.now);
    if access_acl.is_some() {
        inode.extra_mut().acl = access_acl;
    }
    if kind == Kind::Dir && default.is_some() {
        inode.extra_mut().default_acl = default.cloned();
    }
    let lease = dir.lookup_lease().passed_on();
    if kind == Kind::Dir && !lease.is_none() {
        inode.extra_mut().lookup_lease = lease;
    }
    inode
}

/// The permission bits that nothing has which is made in this directory: under placement `table-inherit` those of a class of users that may not
/// search it. Paths do not ask who may search what is above a file, so the file says it (as in Lazy Hybrid; digest §2.4).
fn denied_below(dir: &Inode) -> u16 {
    if dir.places_dirs() != Placement::TableInherit {
        return 0;
    }
    let of = |search: u16, class: u16| if dir.mode & search == 0 { class } else { 0 };
    of(0o010, 0o070) | of(0o001, 0o007)
}

/// Adds the entry of an inode to a directory.
pub(crate) fn add_entry(work: &mut Work<'_>, dir: &Inode, name: &Name, target: Target) {
    let Target { ino, kind, remote } = target;
    work.event(Event::Entry { dir: dir.ino, name: name.clone(), ino, kind, remote });
    let config = work.tree.config().frag;
    let copy = work.edit_dir(dir);
    copy.size += 1;
    config.adapt(copy);
    if kind == Kind::Dir {
        subdirs(copy, 1);
    }
}

/// Takes the entry of an inode away from a directory.
pub(crate) fn drop_entry(work: &mut Work<'_>, dir: &Inode, name: &Name, kind: Kind) {
    work.event(Event::EntryGone { dir: dir.ino, name: name.clone() });
    let config = work.tree.config().frag;
    let copy = work.edit_dir(dir);
    copy.size = copy.size.saturating_sub(1);
    config.adapt(copy);
    if kind == Kind::Dir {
        subdirs(copy, -1);
    }
}

/// Makes an inode with its entry. One whose number names a rank lives there, not with its name.
pub(crate) fn make(work: &mut Work<'_>, dir: &Inode, name: &Name, mut inode: Inode) {
    let remote = inode.ino.zeroth_rank().is_some();
    add_entry(work, dir, name, Target { ino: inode.ino, kind: inode.kind, remote });
    inode.place = Place::embedded(work.tree.hash(name));
    work.add_inode(inode, dir);
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn under_placement_table_inherit_nothing_is_more_open_than_its_directory() {
        check(
            "
            0 mkdir /d 755
            0 setxattr /d loligo.policy.placement table-inherit
            0 create /d/a 644 = mode=644
            0 chmod /d 750
            0 mkdir /d/e 777 = mode=770
            0 create /d/b 666 = mode=660
            0 chmod /d 705
            0 create /d/c 666 = mode=606
            0 chmod /d 700
            0 mknod /d/p 644 fifo = mode=600
            0 create /d/s 4755 = mode=4700
            0 symlink /d/l a = mode=777
            0 setxattr /d loligo.policy.placement table
            0 create /d/t 644 = mode=644
            ",
        );
    }
}
