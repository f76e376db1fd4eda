//! Mode bits after a change of the ACL, and the ACL after a change of the mode bits. Pure functions over both.

use loligo_types::{Acl, AclTag};

/// The permission bits that an ACL stands for, and whether they say all of it.
pub fn of(acl: &Acl) -> (u16, bool) {
    let (mut mode, mut group, mut mask, mut all) = (0, 0, None, true);
    for entry in &acl.0 {
        let perm = u16::from(entry.perm);
        match entry.tag {
            AclTag::UserObj => mode |= perm << 6,
            AclTag::GroupObj => group = perm,
            AclTag::Other => mode |= perm,
            AclTag::Mask => (mask, all) = (Some(perm), false),
            AclTag::User | AclTag::Group => all = false,
        }
    }
    (mode | mask.unwrap_or(group) << 3, all)
}

/// Makes an ACL follow a chmod.
pub fn chmod(acl: &mut Acl, mode: u16) {
    let has_mask = acl.0.iter().any(|e| e.tag == AclTag::Mask);
    for entry in &mut acl.0 {
        match entry.tag {
            AclTag::UserObj => entry.perm = (mode >> 6 & 7) as u8,
            AclTag::Other => entry.perm = (mode & 7) as u8,
            AclTag::Mask => entry.perm = (mode >> 3 & 7) as u8,
            AclTag::GroupObj if !has_mask => entry.perm = (mode >> 3 & 7) as u8,
            _ => {}
        }
    }
}

/// The mode of a new file from the default ACL of its directory, and an access ACL if it says more.
pub fn inherit(default: &Acl, mode: u16) -> (u16, Option<Acl>) {
    let mut acl = default.clone();
    let has_mask = acl.0.iter().any(|e| e.tag == AclTag::Mask);
    for entry in &mut acl.0 {
        let shift = match entry.tag {
            AclTag::UserObj => 6,
            AclTag::Mask => 3,
            AclTag::GroupObj if !has_mask => 3,
            AclTag::Other => 0,
            _ => continue,
        };
        entry.perm &= (mode >> shift & 7) as u8;
    }
    let (bits, all) = of(&acl);
    (mode & !0o777 | bits, (!all).then_some(acl))
}
