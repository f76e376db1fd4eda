//! Credentials of a caller.

/// The caller's identity as the server accepted it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hash)]
pub struct Cred {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups, sorted.
    pub groups: Vec<u32>,
}

impl Cred {
    /// Root, without further groups.
    pub fn root() -> Cred {
        Cred::default()
    }

    /// A user with one group.
    pub fn user(uid: u32, gid: u32) -> Cred {
        Cred { uid, gid, groups: Vec::new() }
    }

    /// True if the caller is root, whom permission bits do not bind.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// True if the caller is in the group, primarily or as a supplement.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.binary_search(&gid).is_ok()
    }
}
