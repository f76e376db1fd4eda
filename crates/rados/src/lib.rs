//! librados, loaded when it is needed, so that one program works with and without Ceph installed. A thin layer: connections, pools,
//! compound operations on one object, completions, locks, watches and the blocklist, in terms of Rust.
//!
//! Not here: what objects mean (`loligo-store-rados`), retries, threads of our own. Calls block unless they say that they do not.
//! Pool, object and lock names are text without NUL; keys of omaps may have any bytes, but see [`ReadOp::omap_after`].

mod api;
mod cluster;
mod completion;
mod error;
mod lock;
mod pool;
mod read;
mod watch;
mod write;

pub use api::version;
pub use cluster::{Cluster, Space};
pub use completion::Pending;
pub use error::{Error, Result};
pub use lock::Held;
pub use pool::Pool;
pub use read::{Brought, Omap, ReadOp, Reading, Stat};
pub use watch::{Notified, Watch};
pub use write::WriteOp;
