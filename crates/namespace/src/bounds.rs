//! What an inode can say of itself at most, whatever made it. Not whether that is so: counts and sums that are within bounds may be wrong, which
//! `fsck` finds.

use loligo_types::limits::{
    ACL_ENTRIES_MAX, DIR_NLINK_MAX, EXPECTED_ENTRIES_MAX, FILE_SIZE_MAX, INLINE_MAX, LINK_MAX, SYMLINK_MAX,
};
use loligo_types::{Frag, Inode, Kind, RStat};

/// Most that sums may be, either way: so many trees of the largest size can be added up.
const SUM_MAX: u64 = 1 << 60;
/// Most changes of an inode, and cuts of a file: with one each nanosecond in a year, and with 68 in each second.
const CHANGES_MAX: u64 = 1 << 55;
const CUTS_MAX: u32 = u32::MAX / 2;

/// Whether an inode is within bounds: nothing that is done with it later can leave what its numbers can hold. For what others than a rank
/// have decided, such as the owner of a decoupled subtree.
pub fn is_within_bounds(inode: &Inode) -> bool {
    let sums = |sums: RStat| sums.entries.unsigned_abs() <= SUM_MAX && sums.bytes.unsigned_abs() <= SUM_MAX;
    let (size, links) = match inode.kind {
        Kind::Dir => (EXPECTED_ENTRIES_MAX, DIR_NLINK_MAX / 2),
        Kind::File => (FILE_SIZE_MAX, LINK_MAX),
        Kind::Symlink => (SYMLINK_MAX as u64, LINK_MAX),
        _ => (0, LINK_MAX),
    };
    let bits = if inode.kind == Kind::Dir { Frag::BITS_MAX } else { 0 };
    let acls = [inode.acl(), inode.default_acl()].into_iter().flatten().all(|acl| acl.0.len() <= ACL_ENTRIES_MAX);
    inode.size <= size
        && inode.nlink <= links
        && inode.frag_bits <= bits
        && inode.change <= CHANGES_MAX
        && inode.cuts <= CUTS_MAX
        && (!inode.inline || inode.size <= INLINE_MAX as u64)
        && sums(inode.accounted)
        && sums(inode.rstat())
        && acls
}
