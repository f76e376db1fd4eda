//! Rights that a server lends to a session until it recalls them.

/// A set of rights on one inode. The bits are on the wire: keep stable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, PartialOrd, Ord)]
pub struct Lease(pub u8);

impl Lease {
    /// Nothing.
    pub const NONE: Lease = Lease(0);
    /// Attributes, xattrs and the symlink target may be cached. Shared.
    pub const ATTR: Lease = Lease(1);
    /// Of a directory: its entries, present and absent ones, may be cached. Shared.
    pub const NAMES: Lease = Lease(2);
    /// File data that was read may be cached. Shared; comes with Open only.
    pub const CACHE: Lease = Lease(4);
    /// Written data and the size and times that follow from it may be held back. Exclusive; comes with Open only.
    pub const BUFFER: Lease = Lease(8);
    /// In a recall only: write back what is held, and keep the right.
    pub const FLUSH: Lease = Lease(16);

    /// True if all bits of `other` are in it.
    pub fn has(self, other: Lease) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if any bit of `other` is in it.
    pub fn any(self, other: Lease) -> bool {
        self.0 & other.0 != 0
    }

    /// True if it is empty.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Without the bits of `other`.
    #[must_use]
    pub fn without(self, other: Lease) -> Lease {
        Lease(self.0 & !other.0)
    }
}

impl std::ops::BitOr for Lease {
    type Output = Lease;
    fn bitor(self, other: Lease) -> Lease {
        Lease(self.0 | other.0)
    }
}

impl std::ops::BitAnd for Lease {
    type Output = Lease;
    fn bitand(self, other: Lease) -> Lease {
        Lease(self.0 & other.0)
    }
}
