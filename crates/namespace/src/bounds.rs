//! Bounds of an inode's fields, whatever made it. Values within bounds may be wrong: wrong counts and sums are found by `fsck`.

use loligo_types::limits::{
    ACL_ENTRIES_MAX, DIR_NLINK_MAX, EXPECTED_ENTRIES_MAX, FILE_SIZE_MAX, LINK_MAX, SYMLINK_MAX,
};
use loligo_types::{Frag, Inode, Kind, Placement, RStat, Spread};

/// Most that sums may be, either way: so many trees of the largest size can be added up.
const SUM_MAX: u64 = 1 << 60;
/// Most changes of an inode, and cuts of a file: with one each nanosecond in a year, and with 68 in each second.
const CHANGES_MAX: u64 = 1 << 55;
const CUTS_MAX: u32 = u32::MAX / 2;

/// True if an inode is within bounds: nothing that is done with it later can leave what its numbers can hold. For inodes that others than
/// a rank have decided, such as the owner of a decoupled subtree.
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
    inode.mode & !0o7777 == 0
        && has_rare_parts_of_its_kind(inode)
        && inode.size <= size
        && inode.nlink <= links
        && inode.frag_bits <= bits
        && inode.change <= CHANGES_MAX
        && inode.cuts <= CUTS_MAX
        // Its data may end before the file does: the rest is a hole.
        && (!inode.inline || inode.kind == Kind::File)
        && sums(inode.accounted)
        && sums(inode.rstat())
        && acls
}

/// True if an inode has of its rare parts only those that its kind has, and a symbolic link its target.
fn has_rare_parts_of_its_kind(inode: &Inode) -> bool {
    let (is_dir, is_link) = (inode.kind == Kind::Dir, inode.kind == Kind::Symlink);
    let is_device = matches!(inode.kind, Kind::Char | Kind::Block);
    let Some(rare) = inode.extra.as_deref() else { return !is_link };
    let of_dirs = rare.default_acl.is_none()
        && rare.rstat == RStat::default()
        && rare.expected_entries == 0
        && rare.spread == Spread::No
        && rare.placement == Placement::Inherited
        && !rare.moved
        && rare.lookup_lease.is_none();
    let target = rare.symlink.as_ref().map(|target| target.len() as u64);
    (is_dir || of_dirs)
        && target == is_link.then_some(inode.size)
        && (is_device || rare.rdev == 0)
        && (inode.kind == Kind::File || rare.layout.is_none())
}

#[cfg(test)]
mod tests {
    use loligo_types::{Ino, Time};

    use super::*;

    #[test]
    fn each_kind_has_its_own_rare_parts_and_no_others() {
        let of = |kind| Inode::new(Ino(300), kind, 0o644, 0, 0, Ino(1), Time(1));
        assert!(is_within_bounds(&of(Kind::File)) && is_within_bounds(&of(Kind::Dir)));
        assert!(!is_within_bounds(&of(Kind::Symlink)), "it has no target");
        let mut link = of(Kind::Symlink);
        link.extra_mut().symlink = Some((*b"there").into());
        assert!(!is_within_bounds(&link), "it is not as long as its target");
        link.size = 5;
        assert!(is_within_bounds(&link));
        let mut file = link.clone();
        file.kind = Kind::File;
        assert!(!is_within_bounds(&file));
        let mut placed = of(Kind::File);
        placed.extra_mut().placement = Placement::Giga;
        assert!(!is_within_bounds(&placed));
        let mut node = of(Kind::Fifo);
        node.extra_mut().rdev = 7;
        assert!(!is_within_bounds(&node));
    }
    #[test]
    fn a_file_in_its_inode_may_be_longer_than_its_data_and_not_longer_than_a_file() {
        let mut file = Inode::new(Ino(300), Kind::File, 0o644, 0, 0, Ino(1), Time(1));
        (file.inline, file.size) = (true, 300_000);
        assert!(is_within_bounds(&file));
        file.size = FILE_SIZE_MAX + 1;
        assert!(!is_within_bounds(&file));
        let dir = Inode { inline: true, size: 0, ..Inode::new(Ino(300), Kind::Dir, 0o755, 0, 0, Ino(1), Time(1)) };
        assert!(!is_within_bounds(&dir));
    }
}
