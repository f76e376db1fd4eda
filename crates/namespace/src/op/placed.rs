//! Where directories live that are made in a directory: a field of its inode, which its owner sets by an attribute of its own or as `placement` in the
//! document of its policy. There is one truth, the field; the document is shown with what that says, and what it names it gives up with its end.
//! Beside it, for how long clients may go by where a directory is. Not here: what the placements do (docs/placement.md), and all else that a policy says.

use std::sync::Arc;

use loligo_subtree_policy::{SubtreePolicy, policy};
use loligo_types::{FsError, FsResult, Inode, Kind, LookupLease, Placement};

use super::xattr::SUBTREE;
use crate::access;
use crate::ctx::Ctx;
use crate::tree::Tree;
use crate::work::{Work, missing};

/// The document of a directory, as it was set.
fn document(tree: &Tree, inode: &Inode) -> FsResult<Option<Arc<[u8]>>> {
    tree.xattr(inode, SUBTREE).ok_or_else(|| missing("xattrs"))
}

/// A document as it is shown.
pub(super) fn shown(document: Arc<[u8]>, inode: &Inode) -> Arc<[u8]> {
    match policy::with_placement(&document, inode.placement()) {
        std::borrow::Cow::Borrowed(_) => document,
        std::borrow::Cow::Owned(text) => text.into(),
    }
}

/// Sets for how long clients may go by what they were told of a directory.
pub(super) fn lease(work: &mut Work<'_>, ctx: &Ctx<'_>, inode: &Inode, lease: LookupLease) -> FsResult<()> {
    access::check_owner(inode, ctx.cred)?;
    if inode.kind != Kind::Dir {
        return Err(FsError::NotDir);
    }
    work.edit(inode).extra_mut().lookup_lease = lease;
    Ok(())
}

/// Sets it by the attribute.
pub(super) fn place(work: &mut Work<'_>, ctx: &Ctx<'_>, inode: &Inode, own: Placement) -> FsResult<()> {
    access::check_owner(inode, ctx.cred)?;
    if inode.kind != Kind::Dir {
        return Err(FsError::NotDir);
    }
    // What cannot be read was set by a newer version, which knew what it did.
    let said = document(work.tree, inode)?
        .and_then(|text| SubtreePolicy::parse_bytes(&policy::with_placement(&text, Placement::Inherited)).ok());
    put(work, inode, own, said.as_ref())
}

/// A document is set, or taken away: it names a placement, or the one before did, or the directory keeps what it has.
pub(super) fn document_changes(work: &mut Work<'_>, inode: &Inode, value: Option<&[u8]>) -> FsResult<()> {
    let said = value.map(SubtreePolicy::parse_bytes).transpose().map_err(|_| FsError::Invalid)?;
    let own = match said.as_ref().and_then(SubtreePolicy::placement) {
        Some(named) => named,
        None if document(work.tree, inode)?.is_some_and(|old| policy::names_placement(&old)) => Placement::Inherited,
        None => inode.placement(),
    };
    put(work, inode, own, said.as_ref())
}

/// Puts it down, unless the policy of the directory permits what it cannot be then.
fn put(work: &mut Work<'_>, inode: &Inode, own: Placement, said: Option<&SubtreePolicy>) -> FsResult<()> {
    if said.is_some_and(|said| said.excludes(inode.would_place(own))) {
        return Err(FsError::Invalid);
    }
    if own != inode.placement() {
        work.edit(inode).extra_mut().placement = own;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::script::check;

    #[test]
    fn a_document_sets_the_placement_and_either_shows_what_the_other_has_set() {
        check(
            "
            0 mkdir /d 755
            0 chown /d 1000 1000
            1001 setxattr /d loligo.policy.subtree placement='giga' = Perm
            1000 setxattr /d loligo.policy.subtree placement='giga'
            1001 getxattr /d loligo.policy.placement = giga
            1001 getxattr /d loligo.dir.placement = giga
            1001 getxattr /d loligo.policy.subtree = placement=\"giga\"
            1000 setxattr /d loligo.policy.placement table
            0 getxattr /d loligo.policy.subtree = placement=\"table\"
            1000 removexattr /d loligo.policy.placement
            0 getxattr /d loligo.policy.placement = NoData
            1000 setxattr /d loligo.policy.placement replicated
            0 getxattr /d loligo.policy.subtree = placement=\"replicated\"
            1000 setxattr /d loligo.policy.subtree placement='subtree' create = Exists
            0 getxattr /d loligo.policy.placement = replicated
            1000 setxattr /d loligo.policy.subtree placement='subtree' replace
            0 getxattr /d loligo.policy.placement = subtree
            ",
        );
    }

    #[test]
    fn what_a_document_named_ends_with_it_and_what_was_set_without_one_stays() {
        check(
            "
            0 mkdir /d 755
            0 setxattr /d loligo.policy.subtree placement='giga'
            0 removexattr /d loligo.policy.subtree
            0 getxattr /d loligo.policy.placement = NoData
            0 setxattr /d loligo.policy.subtree placement='giga'
            0 setxattr /d loligo.policy.subtree blind=true
            0 getxattr /d loligo.policy.placement = NoData
            0 setxattr /d loligo.policy.placement giga
            0 setxattr /d loligo.policy.subtree blind=false
            0 getxattr /d loligo.policy.subtree = blind=false
            0 removexattr /d loligo.policy.subtree
            0 getxattr /d loligo.policy.placement = giga
            ",
        );
    }

    #[test]
    fn what_may_be_given_to_one_client_does_not_scatter_whichever_is_said_first_and_nothing_of_what_is_refused_holds() {
        check(
            "
            0 mkdir /d 755
            0 setxattr /d loligo.policy.placement giga
            0 setxattr /d loligo.policy.subtree preset='batchfs' = Invalid
            0 getxattr /d loligo.policy.subtree = NoData
            0 setxattr /d loligo.policy.subtree placement='gigo' = Invalid
            0 getxattr /d loligo.policy.placement = giga
            0 removexattr /d loligo.policy.placement
            0 setxattr /d loligo.policy.subtree preset='batchfs'
            0 setxattr /d loligo.policy.placement table = Invalid
            0 getxattr /d loligo.policy.placement = NoData
            0 setxattr /d loligo.policy.placement subtree
            0 setxattr /d loligo.policy.subtree placement='giga'
            0 getxattr /d loligo.policy.subtree = placement=\"giga\"
            ",
        );
    }
}
