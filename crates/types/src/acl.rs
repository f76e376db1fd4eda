//! POSIX ACLs as data (POSIX 1003.1e draft 17). Their enforcement lives in the namespace, their xattr bytes there too.

/// Subject of an entry. The number is persisted: keep stable (they are those of `system.posix_acl_*`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u16)]
pub enum AclTag {
    /// The owner.
    UserObj = 0x01,
    /// A named user.
    User = 0x02,
    /// The owning group.
    GroupObj = 0x04,
    /// A named group.
    Group = 0x08,
    /// The most that named users and groups may have.
    Mask = 0x10,
    /// Everybody else.
    Other = 0x20,
}

/// One entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct AclEntry {
    /// The subject of the entry.
    pub tag: AclTag,
    /// uid or gid for `User` and `Group`; `u32::MAX` otherwise.
    pub id: u32,
    /// rwx, 0..=7.
    pub perm: u8,
}

/// A list of entries, sorted by tag and id, valid as a whole (checked where it is made).
#[derive(Clone, PartialEq, Eq, Debug, Default, Hash)]
pub struct Acl(pub Vec<AclEntry>);
