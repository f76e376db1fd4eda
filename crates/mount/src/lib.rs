//! The FUSE adapter: thin callbacks, kernel invalidation, the one errno table.
//!
//! It holds no file system state: what is cached, held back or leased is the client's. It knows only what the kernel
//! was told ([`table`]), so that the kernel can be told to forget it ([`kernel`]). It has no path of its own into the
//! file system: no thread of it may touch the mount point, because it would wait for itself.

mod adapter;
mod body;
mod client;
pub mod convert;
mod core;
mod cred;
pub mod errno;
mod fs;
pub mod kernel;
pub mod metrics;
mod mount;
mod mountpoint;
mod submit;
pub mod table;

pub use kernel::Kernel;
pub use mount::{Counts, Mount, MountError, MountOptions, Unmounted};
pub use mountpoint::FS_TYPE;
pub use submit::Submit;
