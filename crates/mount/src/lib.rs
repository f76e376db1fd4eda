//! The FUSE adapter: thin callbacks, kernel invalidation, the one errno table.
//!
//! It holds no file system state: what is cached, held back or leased is the client's. It knows only what the kernel
//! was told ([`table`], and which names it may believe), so that the kernel can be told to forget it ([`kernel`]). It has no path of its own into the
//! file system: no thread of it may touch the mount point, because it would wait for itself.
//!
//! What a program may see that a local file system would not show it:
//! - Reading does not change access times, as with `noatime`.
//! - There is no time of birth: asking the kernel to keep it would cost a request for every first look.
//! - A shared mapping of a file that another mount writes to follows the writes, but not within the writer's `write`.
//! - One append of more than `max_write` bytes may have another mount's append between its parts.
//! - On kernels before Linux 6.16 names are looked up anew each time.
//! - Where names cannot be dropped one by one ([`kernel`]), a working directory counts as removed for a moment, and what is mounted in the mount
//!   is unmounted.

mod client;
pub mod convert;
mod core;
mod cred;
mod dentries;
mod dispatch;
pub mod errno;
mod expire;
mod fs;
mod held;
pub mod kernel;
pub mod metrics;
mod mount;
mod mountpoint;
mod name_caching;
mod places;
mod probe;
mod session;
mod submit;
pub mod table;
mod threads;
mod twins;
mod waits;

pub use kernel::Kernel;
pub use mount::{Counts, Mount, MountError, MountOptions, Unmounted};
pub use mountpoint::{FS_TYPE, check as check_mount_point};
pub use name_caching::NameCaching;
pub use probe::{Abilities, probe};
pub use submit::Submit;
