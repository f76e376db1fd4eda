//! Division of a process's limit of open files: connections, which others can make as many of as they like, leave enough for journal,
//! table and objects. Drawn in docs/reliability.md.

use rustix::process::{Resource, getrlimit};

/// More than anything here takes.
const LIMIT_MAX: u64 = 1 << 20;

/// Shares of the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptors {
    /// Files of the table that are kept open.
    pub tables: usize,
    /// Objects that are kept open.
    pub objects: usize,
    /// Connections to the admin plane.
    pub admin: usize,
    /// Connections of clients to all ranks of the process.
    pub connections: usize,
}

impl Descriptors {
    /// Of this process, as its limit is now.
    pub fn of_process() -> Descriptors {
        Descriptors::of(getrlimit(Resource::Nofile).current.unwrap_or(LIMIT_MAX))
    }

    fn of(limit: u64) -> Descriptors {
        let limit = usize::try_from(limit.min(LIMIT_MAX)).unwrap_or(usize::MAX);
        let files = (limit / 8).clamp(32, 256);
        let admin = (limit / 16).clamp(16, 64);
        // Journals, listeners, threads that wait, what is opened for a moment, the kernel's device, mounts.
        let own = (limit / 8).clamp(64, 1024);
        let connections = limit.saturating_sub(2 * files + admin + own).max(16);
        Descriptors { tables: files, objects: files, admin, connections }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shares_together_leave_something_of_the_limit() {
        for limit in [256, 300, 512, 1024, 4096, 65_536, 1 << 20, u64::MAX] {
            let d = Descriptors::of(limit);
            let all = d.tables + d.objects + d.admin + d.connections;
            assert!(all as u64 + 64 <= limit, "{d:?} of {limit}");
        }
        assert_eq!(Descriptors::of(256), Descriptors { tables: 32, objects: 32, admin: 16, connections: 112 });
        assert_eq!(Descriptors::of(1024).connections, 576);
        assert_eq!(Descriptors::of(u64::MAX).objects, 256);
    }
}
