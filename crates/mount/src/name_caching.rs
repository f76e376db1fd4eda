//! Level of name caching in the kernel, by the version of its FUSE protocol. Not which names it may cache ([`crate::dentries`]), and not
//! how it is told to drop them ([`crate::kernel`]).
//!
//! All levels keep the same promise: before a lease on the names of a directory is given back, the kernel uses no name of it any more.
//! The levels differ in the time that takes. A kernel that can be told at any moment caches names without a limit. Where the only
//! notification takes the lock of the directory, somebody who waits for the lease may have that lock. There each name has a time limit,
//! and the mount waits for its end if it cannot notify the kernel.

use std::time::Duration;

use loligo_fuse::{EPOCH_MINOR, EXPIRE_MINOR};

use crate::convert::FOREVER;

/// Level of caching of names in the kernel. A smaller one asks less of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NameCaching {
    /// Names are not cached.
    Off,
    /// Names are cached for 0.1 s, and no notification is used. Without `FUSE_EXPIRE_ONLY` a notification drops a directory that is in
    /// use, and detaches what is mounted below it.
    Timed,
    /// Names are cached for 0.25 s. Single names expire earlier by `FUSE_EXPIRE_ONLY` (Linux 6.2).
    Expiry,
    /// Names are cached until they expire by `FUSE_EXPIRE_ONLY` or by an epoch, which takes no lock (Linux 6.16).
    Epochs,
}

impl NameCaching {
    /// The highest level that a kernel with this minor protocol version can do.
    pub fn of_kernel(minor: u32) -> NameCaching {
        match minor {
            EPOCH_MINOR.. => NameCaching::Epochs,
            EXPIRE_MINOR.. => NameCaching::Expiry,
            _ => NameCaching::Timed,
        }
    }

    /// The word for it, as in the setting `name_caching`.
    pub fn name(self) -> &'static str {
        match self {
            NameCaching::Off => "off",
            NameCaching::Timed => "timed",
            NameCaching::Expiry => "expiry",
            NameCaching::Epochs => "epochs",
        }
    }

    /// Time for which the kernel may use a name without asking again.
    pub fn ttl(self) -> Duration {
        match self {
            NameCaching::Off => Duration::ZERO,
            NameCaching::Timed => Duration::from_millis(100),
            NameCaching::Expiry => Duration::from_millis(250),
            NameCaching::Epochs => FOREVER,
        }
    }

    /// True if names have a time limit, whose end can be waited for.
    pub fn is_limited(self) -> bool {
        matches!(self, NameCaching::Timed | NameCaching::Expiry)
    }

    /// True if single names can be told to expire.
    pub fn can_expire(self) -> bool {
        self >= NameCaching::Expiry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_of_distributions_have_the_level_of_their_protocol() {
        // Linux 5.10, 6.1, 6.2, 6.12, 6.16, 6.18.
        let levels = [32, 37, 38, 41, 44, 45].map(NameCaching::of_kernel);
        use NameCaching::{Epochs, Expiry, Timed};
        assert_eq!(levels, [Timed, Timed, Expiry, Expiry, Epochs, Epochs]);
    }
}
