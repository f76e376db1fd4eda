//! GetXattr, ListXattr, SetXattr, RemoveXattr: user, trusted and security names are records, and so are policies; ACLs are
//! in the inode; other names under `loligo.` are computed.

use std::sync::Arc;

use loligo_subtree_policy::{Bounds, SubtreePolicy};
use loligo_types::{
    Acl, Answer, Cred, Event, FsError, FsResult, Ino, Inode, Kind, LookupLease, NO_POLICY, Placement, Rank, XattrMode,
};
use loligo_types::{is_policy_name, limits};

use super::truncate::CAPABILITY;
use super::{past, placed};
use crate::access::{self, R, S_ISGID, S_ISVTX, W};
use crate::acl::{self, xattr as form};
use crate::ctx::{Change, Ctx};
use crate::need::Wants;
use crate::tree::{Tree, XattrPair};
use crate::vxattr;
use crate::work::{Work, inode_of, missing};

/// The policy that says which ranks may have a directory and all below it: their numbers with commas between them, of which
/// the first is where it goes if it is somewhere else.
pub const PIN: &[u8] = b"loligo.policy.pin";

/// The policy that says by what a directory and all below it are balanced: the name of a balancer's policy, or `none`, which
/// keeps balancers' hands off it. Whether there is such a policy is not known here.
pub const BALANCER: &[u8] = b"loligo.policy.balancer";

/// The policy that says how many entries a directory will have: it is cut into as many fragments at once as they need, and
/// stays so. Its owner's to set; for this one directory, not for those below.
pub const EXPECTED_ENTRIES: &[u8] = b"loligo.policy.expected_entries";

/// The policy that says where directories live that are made in a directory: `subtree`, with their names; `giga`, each at a rank of
/// its own. What is made in those goes on so. Its owner's to set, also as a field of [`SUBTREE`] (`placed.rs`); what is there already
/// stays where it is.
pub const PLACEMENT: &[u8] = b"loligo.policy.placement";

/// The policy that says for how long clients may go by what they were told of a directory without asking ([`LookupLease::named`]). What is made in it goes
/// on so. Its owner's to set; what is there already stays as it is.
pub const LOOKUP_LEASE: &[u8] = b"loligo.policy.lookup_lease";

/// The policy that says what a directory and all below it promise: a document of `loligo_subtree_policy`. Its owner's to set: it is
/// the owner's changes that it is about.
pub const SUBTREE: &[u8] = b"loligo.policy.subtree";

/// The versions of [`SUBTREE`] and which was in force when: a record of `loligo_subtree_policy::policy::History`. It is written with each change of that, and by
/// nothing else; everybody reads it.
pub const HISTORY: &[u8] = b"loligo.policy.subtree.history";

/// The ranks that a pin names; none if it makes no sense.
pub fn pinned_ranks(value: &[u8]) -> Option<Vec<Rank>> {
    let text = std::str::from_utf8(value).ok()?;
    text.trim().split(',').map(|number| number.trim().parse().ok().map(Rank)).collect()
}

/// By what a directory is to be balanced: a name, or `none`; none if it makes no sense.
pub fn balancer_of(value: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(value.trim_ascii()).ok()?;
    (name == NO_POLICY || is_policy_name(name)).then_some(name)
}

/// True if a value is valid for a policy.
fn is_policy(name: &[u8], value: &[u8]) -> bool {
    match name {
        BALANCER => balancer_of(value).is_some(),
        SUBTREE => SubtreePolicy::parse_bytes(value).is_ok(),
        _ => pinned_ranks(value).is_some(),
    }
}

/// The kind of an xattr name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    User,
    Trusted,
    Security,
    AccessAcl,
    DefaultAcl,
    /// A rule that a directory has: root's to set, everybody's to read, and not listed, so that copies do not take it along.
    Policy,
    /// The same, but its owner's to set.
    OwnersPolicy,
    /// The history of a policy: everybody may read it, nobody may set it.
    History,
    /// As a policy, but in the inode, and its owner's to set.
    Expected,
    /// The same.
    Placement,
    /// The same.
    LookupLease,
    Computed,
}

fn space_of(name: &[u8]) -> FsResult<Space> {
    if name.len() > limits::XATTR_NAME_MAX {
        return Err(FsError::Range);
    }
    match name {
        form::ACCESS => return Ok(Space::AccessAcl),
        form::DEFAULT => return Ok(Space::DefaultAcl),
        PIN | BALANCER => return Ok(Space::Policy),
        SUBTREE => return Ok(Space::OwnersPolicy),
        HISTORY => return Ok(Space::History),
        EXPECTED_ENTRIES => return Ok(Space::Expected),
        PLACEMENT => return Ok(Space::Placement),
        LOOKUP_LEASE => return Ok(Space::LookupLease),
        _ => {}
    }
    let spaces = [
        (&b"user."[..], Space::User),
        (b"trusted.", Space::Trusted),
        (b"security.", Space::Security),
        (vxattr::PREFIX, Space::Computed),
    ];
    let (prefix, space) = *spaces.iter().find(|(prefix, _)| name.starts_with(prefix)).ok_or(FsError::NotSupported)?;
    if name.len() == prefix.len() || name.contains(&0) {
        return Err(FsError::Invalid);
    }
    Ok(space)
}

fn is_record(name: &[u8]) -> bool {
    use Space::{History, OwnersPolicy, Policy, Security, Trusted, User};
    matches!(space_of(name), Ok(User | Trusted | Security | Policy | OwnersPolicy | History))
}

pub(crate) fn need_get(wants: &mut Wants<'_>, ino: Ino, name: &[u8]) {
    let Some(inode) = wants.inode(ino) else { return };
    if is_record(name) && wants.tree.xattr(inode, name).is_none() {
        wants.xattrs(inode);
    } else if space_of(name) == Ok(Space::Computed) {
        wants.whole(ino);
    }
}

pub(crate) fn need_all(wants: &mut Wants<'_>, ino: Ino) {
    if let Some(inode) = wants.inode(ino) {
        wants.xattrs(inode);
    }
}

pub(crate) fn need_set(wants: &mut Wants<'_>, ino: Ino, name: &[u8], _cred: &Cred) {
    // A placement is held against the document.
    if is_record(name) || name == PLACEMENT {
        need_all(wants, ino);
    }
    wants.whole(ino);
}

/// Linux's `xattr_permission`, and what its security module asks for `security.`.
fn check(inode: &Inode, cred: &Cred, space: Space, write: bool) -> FsResult<()> {
    let denied = |write: bool| Err(if write { FsError::Perm } else { FsError::NoData });
    match space {
        Space::Trusted if !cred.is_root() => denied(write),
        Space::Security | Space::Policy if write && !cred.is_root() => Err(FsError::Perm),
        Space::OwnersPolicy if write && !access::is_owner(inode, cred) => Err(FsError::Perm),
        Space::Policy | Space::OwnersPolicy if write && inode.kind != Kind::Dir => Err(FsError::NotDir),
        Space::User => {
            if !matches!(inode.kind, Kind::File | Kind::Dir) {
                return denied(write);
            }
            let sticky = inode.kind == Kind::Dir && inode.mode & S_ISVTX != 0;
            if write && sticky && !access::is_owner(inode, cred) {
                return Err(FsError::Perm);
            }
            access::check(inode, cred, if write { W } else { R })
        }
        _ => Ok(()),
    }
}

pub(crate) fn get(tree: &Tree, ctx: &Ctx<'_>, ino: Ino, name: &[u8]) -> FsResult<Change> {
    let inode = inode_of(tree, ino)?;
    let space = space_of(name)?;
    check(inode, ctx.cred, space, false)?;
    let acl = |acl: Option<&Acl>| acl.map(|acl| form::print(acl).into());
    let value: Option<Arc<[u8]>> = match space {
        Space::AccessAcl => acl(inode.acl()),
        Space::DefaultAcl => acl(inode.default_acl()),
        Space::Expected => Some(inode.expected_entries()).filter(|n| *n > 0).map(|n| n.to_string().into_bytes().into()),
        Space::Placement => {
            Some(inode.placement()).filter(|own| *own != Placement::Inherited).map(|own| own.name().as_bytes().into())
        }
        Space::LookupLease => {
            Some(inode.lookup_lease()).filter(|own| !own.is_none()).map(|own| own.text().into_bytes().into())
        }
        Space::Computed => {
            vxattr::value(&tree.counted(inode), name, tree.config().frag).map(|text| text.into_bytes().into())
        }
        Space::OwnersPolicy => {
            tree.xattr(inode, name).ok_or_else(|| missing("xattrs"))?.map(|text| placed::shown(text, inode))
        }
        _ => tree.xattr(inode, name).ok_or_else(|| missing("xattrs"))?,
    };
    Ok(Change::only(Answer::Bytes(value.ok_or(FsError::NoData)?)))
}

pub(crate) fn list(tree: &Tree, ctx: &Ctx<'_>, ino: Ino) -> FsResult<Change> {
    let inode = inode_of(tree, ino)?;
    let mut names = Vec::new();
    let mut add = |name: &[u8]| {
        names.extend_from_slice(name);
        names.push(0);
    };
    if inode.acl().is_some() {
        add(form::ACCESS);
    }
    if inode.default_acl().is_some() {
        add(form::DEFAULT);
    }
    for (name, _) in tree.xattrs(inode).ok_or_else(|| missing("xattrs"))? {
        if !name.starts_with(vxattr::PREFIX) && (ctx.cred.is_root() || !name.starts_with(b"trusted.")) {
            add(&name);
        }
    }
    Ok(Change::only(Answer::Bytes(names.into())))
}

pub(crate) fn set(
    tree: &Tree,
    ctx: &Ctx<'_>,
    ino: Ino,
    name: &Arc<[u8]>,
    value: &Arc<[u8]>,
    mode: XattrMode,
) -> FsResult<Change> {
    let inode = inode_of(tree, ino)?;
    let space = space_of(name)?;
    if value.len() > limits::XATTR_VALUE_MAX {
        return Err(FsError::TooBig);
    }
    let mut work = Work::new(tree, ctx.stamp.now);
    match space {
        Space::Computed | Space::History => return Err(FsError::Perm),
        Space::AccessAcl => set_access_acl(&mut work, ctx, inode, form::parse(value)?)?,
        Space::DefaultAcl => set_default_acl(&mut work, ctx, inode, form::parse(value)?)?,
        Space::Expected => {
            match mode {
                XattrMode::Create if inode.expected_entries() != 0 => return Err(FsError::Exists),
                XattrMode::Replace if inode.expected_entries() == 0 => return Err(FsError::NoData),
                _ => {}
            }
            expect(&mut work, ctx, inode, expected_entries(value).ok_or(FsError::Invalid)?)?;
        }
        Space::Placement => {
            match (mode, inode.placement()) {
                (XattrMode::Create, own) if own != Placement::Inherited => return Err(FsError::Exists),
                (XattrMode::Replace, Placement::Inherited) => return Err(FsError::NoData),
                _ => {}
            }
            placed::place(&mut work, ctx, inode, Placement::named(value.trim_ascii()).ok_or(FsError::Invalid)?)?;
        }
        Space::LookupLease => {
            match mode {
                XattrMode::Create if !inode.lookup_lease().is_none() => return Err(FsError::Exists),
                XattrMode::Replace if inode.lookup_lease().is_none() => return Err(FsError::NoData),
                _ => {}
            }
            placed::lease(&mut work, ctx, inode, LookupLease::named(value).ok_or(FsError::Invalid)?)?;
        }
        _ => {
            check(inode, ctx.cred, space, true)?;
            if matches!(space, Space::Policy | Space::OwnersPolicy) && !is_policy(name, value) {
                return Err(FsError::Invalid);
            }
            let all = tree.xattrs(inode).ok_or_else(|| missing("xattrs"))?;
            let old = all.iter().find(|(other, _)| other == name);
            match mode {
                XattrMode::Create if old.is_some() => return Err(FsError::Exists),
                XattrMode::Replace if old.is_none() => return Err(FsError::NoData),
                _ => {}
            }
            let cost = |(name, value): &XattrPair| name.len() + 1 + value.len();
            // The history makes room.
            let stays =
                |(other, _): &&XattrPair| other != name && !(space == Space::OwnersPolicy && **other == *HISTORY);
            let others: usize = all.iter().filter(stays).map(cost).sum();
            if others + name.len() + 1 + value.len() > limits::XATTR_TOTAL_MAX {
                return Err(FsError::NoSpace);
            }
            if space == Space::OwnersPolicy {
                let old = old.map(|(_, old)| &**old);
                may_bind(ctx.cred, old, Some(value))?;
                placed::document_changes(&mut work, inode, Some(value))?;
                past::note(&mut work, ctx, inode, &all, (old, Some(value)));
            }
            work.event(Event::Xattr { ino, name: name.clone(), value: value.clone() });
            work.edit(inode).has_xattrs = true;
        }
    }
    work.copy_to_parts(inode, false);
    Ok(work.finish_with(inode))
}

pub(crate) fn remove(tree: &Tree, ctx: &Ctx<'_>, ino: Ino, name: &Arc<[u8]>) -> FsResult<Change> {
    let inode = inode_of(tree, ino)?;
    let space = space_of(name)?;
    let mut work = Work::new(tree, ctx.stamp.now);
    match space {
        Space::Computed | Space::History => return Err(FsError::Perm),
        Space::AccessAcl => set_access_acl(&mut work, ctx, inode, None)?,
        Space::DefaultAcl => set_default_acl(&mut work, ctx, inode, None)?,
        Space::Expected => {
            expect(&mut work, ctx, inode, 0)?;
            if inode.expected_entries() == 0 {
                return Err(FsError::NoData);
            }
        }
        Space::Placement => {
            placed::place(&mut work, ctx, inode, Placement::Inherited)?;
            if inode.placement() == Placement::Inherited {
                return Err(FsError::NoData);
            }
        }
        Space::LookupLease => {
            placed::lease(&mut work, ctx, inode, LookupLease::NONE)?;
            if inode.lookup_lease().is_none() {
                return Err(FsError::NoData);
            }
        }
        _ => {
            if !may_end_capability(inode, ctx.cred, name) {
                check(inode, ctx.cred, space, true)?;
            }
            let all = tree.xattrs(inode).ok_or_else(|| missing("xattrs"))?;
            let old = all.iter().find(|(other, _)| other == name).ok_or(FsError::NoData)?;
            let mut stays = all.len() > 1;
            if space == Space::OwnersPolicy {
                may_bind(ctx.cred, Some(&*old.1), None)?;
                placed::document_changes(&mut work, inode, None)?;
                // What was in force is known of a directory that says nothing any more.
                let noted = past::note(&mut work, ctx, inode, &all, (Some(&*old.1), None));
                stays = noted || all.iter().any(|(other, _)| **other != *SUBTREE && **other != *HISTORY);
            }
            work.event(Event::XattrGone { ino, name: name.clone() });
            work.edit(inode).has_xattrs = stays;
        }
    }
    work.copy_to_parts(inode, false);
    Ok(work.finish_with(inode))
}

/// The floor and the ceiling in a policy's document.
pub fn bounds_of(text: &[u8]) -> Bounds {
    SubtreePolicy::parse_bytes(text).map_or_else(|_| Bounds::unknown(), |policy| policy.bounds())
}

/// Floors and ceilings are for whoever administers the file system: root alone sets them, changes them and takes them away.
fn may_bind(cred: &Cred, old: Option<&[u8]>, new: Option<&[u8]>) -> FsResult<()> {
    let of = |text: Option<&[u8]>| text.map(bounds_of).unwrap_or_default();
    if cred.is_root() || of(old) == of(new) { Ok(()) } else { Err(FsError::Perm) }
}

/// True if the name is that of the capabilities, and the caller could end them by a write or a change of the group: a kernel removes them
/// in the caller's name before it does so.
fn may_end_capability(inode: &Inode, cred: &Cred, name: &[u8]) -> bool {
    let may_write = || inode.kind == Kind::File && access::check(inode, cred, W).is_ok();
    name == CAPABILITY && (access::is_owner(inode, cred) || may_write())
}

/// A number of entries; none if it makes no sense.
fn expected_entries(value: &[u8]) -> Option<u64> {
    let number = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
    (1..=limits::EXPECTED_ENTRIES_MAX).contains(&number).then_some(number)
}

/// Sets how many entries a directory will have (0: nobody knows), and cuts it accordingly.
fn expect(work: &mut Work<'_>, ctx: &Ctx<'_>, inode: &Inode, entries: u64) -> FsResult<()> {
    access::check_owner(inode, ctx.cred)?;
    if inode.kind != Kind::Dir {
        return Err(FsError::NotDir);
    }
    let (config, now) = (work.tree.config().frag, work.tree.entries_of(inode));
    let copy = work.edit(inode);
    copy.extra_mut().expected_entries = entries;
    config.cut_anew(copy, now);
    Ok(())
}

/// The mode follows the ACL; an ACL that says no more than the mode is not kept.
fn set_access_acl(work: &mut Work<'_>, ctx: &Ctx<'_>, inode: &Inode, acl: Option<Acl>) -> FsResult<()> {
    if inode.kind == Kind::Symlink {
        return Err(FsError::NotSupported);
    }
    access::check_owner(inode, ctx.cred)?;
    let copy = work.edit(inode);
    let Some(acl) = acl else {
        if let Some(extra) = &mut copy.extra {
            extra.acl = None;
        }
        return Ok(());
    };
    let (bits, all) = acl::mode::of(&acl);
    copy.mode = copy.mode & !0o777 | bits;
    if !ctx.cred.is_root() && !ctx.cred.in_group(inode.gid) {
        copy.mode &= !S_ISGID;
    }
    match &mut copy.extra {
        None if all => {}
        _ => copy.extra_mut().acl = (!all).then_some(acl),
    }
    Ok(())
}

fn set_default_acl(work: &mut Work<'_>, ctx: &Ctx<'_>, inode: &Inode, acl: Option<Acl>) -> FsResult<()> {
    if inode.kind == Kind::Symlink {
        return Err(FsError::NotSupported);
    }
    access::check_owner(inode, ctx.cred)?;
    if inode.kind != Kind::Dir && acl.is_some() {
        return Err(FsError::Access);
    }
    let copy = work.edit(inode);
    if acl.is_some() || copy.extra.is_some() {
        copy.extra_mut().default_acl = acl;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
