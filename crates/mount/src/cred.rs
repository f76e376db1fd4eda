//! Credentials of callers. The kernel names user, group and thread of a caller; supplementary groups come from `/proc`, and only when
//! they can matter, because that costs more than most operations.
//!
//! The kernel has checked permissions with the caller's whole identity before it asks (`default_permissions`). So a call
//! is first made without supplementary groups; when it is refused, or when the answer depends silently on membership
//! (setgid bits, ACLs), the groups are read. Groups are not cached: a program may change them between two calls.

use std::collections::HashMap;
use std::sync::{Arc, RwLock};

use loligo_client::{Call, Failed};
use loligo_fuse::Header;
use loligo_types::{Cred, FsError, Op};

/// Most identities that are remembered.
const REMEMBERED: usize = 4096;
const S_ISGID: u16 = 0o2000;

/// A caller as the kernel names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Who {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Thread; 0 if it is in another pid namespace.
    pub pid: u32,
}

impl From<&Header> for Who {
    fn from(header: &Header) -> Who {
        Who { uid: header.uid, gid: header.gid, pid: header.pid }
    }
}

/// Identities seen lately, so that most calls need no allocation.
#[derive(Default)]
pub struct Creds(RwLock<HashMap<(u32, u32), Arc<Cred>>>);

impl Creds {
    /// The identity without supplementary groups.
    pub fn plain(&self, who: Who) -> Arc<Cred> {
        let key = (who.uid, who.gid);
        if let Some(cred) = self.0.read().unwrap_or_else(|e| e.into_inner()).get(&key) {
            return cred.clone();
        }
        let cred = Arc::new(Cred::user(who.uid, who.gid));
        let mut map = self.0.write().unwrap_or_else(|e| e.into_inner());
        if map.len() >= REMEMBERED {
            map.clear();
        }
        map.insert(key, cred.clone());
        cred
    }

    /// The identity with supplementary groups; `None` if there are none, or they cannot be learnt.
    pub fn with_groups(&self, who: Who) -> Option<Arc<Cred>> {
        if who.uid == 0 || who.pid == 0 {
            return None;
        }
        let groups = groups(&std::fs::read_to_string(format!("/proc/{}/status", who.pid)).ok()?);
        (!groups.is_empty()).then(|| Arc::new(Cred { uid: who.uid, gid: who.gid, groups }))
    }
}

/// CAP_FSETID: a change of a file's content leaves its setuid and setgid bits.
pub const FSETID: u32 = 4;
/// CAP_SETFCAP: file capabilities may be set and removed.
pub const SETFCAP: u32 = 31;

/// True if a caller has a capability in the user namespace of this process; false if that cannot be learnt.
pub fn may(who: Who, capability: u32) -> bool {
    if who.pid == 0 {
        return false;
    }
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/user")).ok();
    let pid = who.pid.to_string();
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return false };
    has_capability(&status, who.uid, capability) && namespace(&pid).is_some_and(|own| Some(own) == namespace("self"))
}

/// True if the status of a thread has a capability in its effective set. A thread that works in the name of another user than its own (as
/// those of io_uring may) counts as having none.
fn has_capability(status: &str, uid: u32, capability: u32) -> bool {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let fs_uid = field("Uid:").and_then(|ids| ids.split_ascii_whitespace().nth(3)?.parse::<u32>().ok());
    let set = field("CapEff:").and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    fs_uid == Some(uid) && set.is_some_and(|set| set >> capability & 1 != 0)
}

/// The `Groups:` line of `/proc/PID/status`, sorted.
fn groups(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|l| l.strip_prefix("Groups:")).unwrap_or_default();
    let mut groups: Vec<u32> = line.split_ascii_whitespace().filter_map(|g| g.parse().ok()).collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

/// True if the answer depends on membership of groups without an error: setgid bits are dropped silently for those outside the group.
pub fn groups_matter(call: &Call) -> bool {
    match call {
        Call::SetAttr { set, .. } => set.mode.is_some_and(|m| m & S_ISGID != 0),
        Call::Create { mode, .. } | Call::Tmpfile { mode, .. } => mode & S_ISGID != 0,
        Call::Op(Op::Mknod { mode, .. } | Op::Mkdir { mode, .. }) => mode & S_ISGID != 0,
        Call::Op(Op::SetXattr { name, .. }) => name.starts_with(b"system.posix_acl"),
        _ => false,
    }
}

/// True if a call is worth a second try with supplementary groups: its permissions are checked when it is made.
pub fn may_be_refused(call: &Call) -> bool {
    matches!(call, Call::Op(_) | Call::SetAttr { .. } | Call::Open { .. } | Call::Create { .. } | Call::Access { .. })
}

/// True if it was refused for lack of permission.
pub fn refused(failed: &Failed) -> bool {
    matches!(failed.error, FsError::Access | FsError::Perm)
}

#[cfg(test)]
mod tests {
    use loligo_types::{Ino, SetAttr};

    use super::*;

    const STATUS: &str = "Name:\tx\nGroups:\t30 4 24 4 \n";

    #[test]
    fn groups_are_read_sorted_and_without_repeats() {
        assert_eq!(groups(STATUS), vec![4, 24, 30]);
        assert_eq!(groups("Name:\tx\nGroups:\t \n"), Vec::<u32>::new());
        assert_eq!(groups(""), Vec::<u32>::new());
    }

    #[test]
    fn a_capability_counts_if_it_is_effective_and_the_caller_is_who_the_kernel_says() {
        let status = "Name:\tx\nUid:\t0\t0\t0\t5\nCapEff:\t0000000080000010\n";
        assert!(has_capability(status, 5, FSETID) && has_capability(status, 5, SETFCAP));
        assert!(!has_capability(status, 5, 3));
        assert!(!has_capability(status, 0, FSETID), "works for another one");
        assert!(!has_capability("", 0, FSETID));
        assert!(!may(Who { uid: 0, gid: 0, pid: 0 }, FSETID), "of another pid namespace");
    }

    #[test]
    fn root_needs_no_groups() {
        assert_eq!(Creds::default().with_groups(Who { uid: 0, gid: 0, pid: std::process::id() }), None);
    }

    #[test]
    fn identities_are_shared() {
        let creds = Creds::default();
        let who = Who { uid: 5, gid: 6, pid: 7 };
        assert!(Arc::ptr_eq(&creds.plain(who), &creds.plain(Who { pid: 8, ..who })));
    }

    #[test]
    fn a_setgid_bit_needs_the_groups_at_once() {
        let set =
            |mode| Call::SetAttr { ino: Ino(7), set: SetAttr { mode: Some(mode), ..SetAttr::default() }, fh: None };
        assert!(groups_matter(&set(0o2755)));
        assert!(!groups_matter(&set(0o755)));
    }
}
