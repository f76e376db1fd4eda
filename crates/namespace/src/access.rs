//! Permission checks: mode bits, ACLs, groups, root, the sticky bit. As Linux does them. Changes nothing.

use loligo_types::{Acl, AclTag, Cred, FsError, FsResult, Inode, Kind};

/// Read.
pub const R: u8 = 4;
/// Write.
pub const W: u8 = 2;
/// Execute or search.
pub const X: u8 = 1;

/// setuid.
pub const S_ISUID: u16 = 0o4000;
/// setgid.
pub const S_ISGID: u16 = 0o2000;
/// Sticky.
pub const S_ISVTX: u16 = 0o1000;

/// True if the caller may do all of `want` with the inode.
#[inline]
pub fn may(inode: &Inode, cred: &Cred, want: u8) -> bool {
    if cred.is_root() {
        // Root may do all, but execute a file only if anybody may.
        return want & X == 0 || inode.kind == Kind::Dir || inode.mode & 0o111 != 0;
    }
    let granted = if cred.uid == inode.uid {
        inode.mode >> 6
    } else {
        match inode.acl() {
            Some(acl) => return acl_allows(acl, inode, cred, want),
            None if cred.in_group(inode.gid) => inode.mode >> 3,
            None => inode.mode,
        }
    };
    granted as u8 & want == want
}

/// [`may`] as a result: `Access` if not.
#[inline]
pub fn check(inode: &Inode, cred: &Cred, want: u8) -> FsResult<()> {
    if may(inode, cred, want) { Ok(()) } else { Err(FsError::Access) }
}

/// POSIX 1003.1e §23.1.5 for somebody who is not the owner.
fn acl_allows(acl: &Acl, inode: &Inode, cred: &Cred, want: u8) -> bool {
    let mask = acl.0.iter().find(|e| e.tag == AclTag::Mask).map_or(7, |e| e.perm);
    let allows = |perm: u8| perm & want == want;
    if let Some(user) = acl.0.iter().find(|e| e.tag == AclTag::User && e.id == cred.uid) {
        return allows(user.perm & mask);
    }
    let groups = acl.0.iter().filter(|e| match e.tag {
        AclTag::GroupObj => cred.in_group(inode.gid),
        AclTag::Group => cred.in_group(e.id),
        _ => false,
    });
    let mut member = false;
    for group in groups {
        member = true;
        if allows(group.perm & mask) {
            return true;
        }
    }
    let other = || acl.0.iter().any(|e| e.tag == AclTag::Other && allows(e.perm));
    !member && other()
}

/// True if the caller is the owner or root.
pub fn is_owner(inode: &Inode, cred: &Cred) -> bool {
    cred.is_root() || cred.uid == inode.uid
}

/// `Perm` unless the caller is the owner or root.
pub fn check_owner(inode: &Inode, cred: &Cred) -> FsResult<()> {
    if is_owner(inode, cred) { Ok(()) } else { Err(FsError::Perm) }
}

/// Search permission in a directory: `NotDir` if it is none.
pub fn check_search(dir: &Inode, cred: &Cred) -> FsResult<()> {
    if dir.kind != Kind::Dir {
        return Err(FsError::NotDir);
    }
    check(dir, cred, X)
}

/// True if everybody may search the directory.
pub fn is_searched_by_all(dir: &Inode) -> bool {
    dir.mode & 0o111 == 0o111 && dir.acl().is_none()
}

/// Permission to add or take away a name: `NotFound` in a directory that was itself removed.
pub fn check_change(dir: &Inode, cred: &Cred) -> FsResult<()> {
    if dir.nlink == 0 {
        return Err(FsError::NotFound);
    }
    check(dir, cred, W | X)
}

/// In a sticky directory only the owner of the file or of the directory, or root, takes a name away.
pub fn check_sticky(dir: &Inode, victim: &Inode, cred: &Cred) -> FsResult<()> {
    if dir.mode & S_ISVTX == 0 || is_owner(victim, cred) || is_owner(dir, cred) { Ok(()) } else { Err(FsError::Perm) }
}

/// The mode without what a change by others must clear: setuid always; setgid if the group may execute, or if the
/// caller is not in the group and has no CAP_FSETID (Linux's `setattr_should_drop_suidgid`). Directories keep both.
pub fn without_privilege(inode: &Inode, cred: &Cred, fsetid: bool) -> u16 {
    if inode.kind == Kind::Dir {
        return inode.mode;
    }
    let mut mode = inode.mode & !S_ISUID;
    if mode & S_ISGID != 0 && (mode & 0o010 != 0 || !(fsetid || cred.in_group(inode.gid))) {
        mode &= !S_ISGID;
    }
    mode
}

/// Permission to look names up in a directory that is in memory.
pub fn may_search(tree: &crate::Tree, dir: loligo_types::Ino, cred: &Cred) -> FsResult<()> {
    match tree.find(dir) {
        crate::Found::Here(inode) => check_search(inode, cred),
        _ => Err(FsError::NotFound),
    }
}
