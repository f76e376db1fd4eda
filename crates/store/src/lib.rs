//! The engine under a file system, as traits: a sorted table, journal files, and blobs of file data,
//! all of one [`Backend`] that one server process owns.
//!
//! Calls block; a driver makes them from threads it keeps for that. Every trait is object safe and
//! `Send + Sync`, so a backend over a network (objects, omap, locks) fits behind it as well.
//!
//! Not here: any knowledge of inodes, events or journal records (bytes in, bytes out), and any real
//! disk. The backend for one machine is `loligo-store-local`; [`mem`] is volatile, deterministic and
//! can be told to fail or to crash, for tests and the simulator. [`conformance`] is the suite that
//! every backend passes.

mod backend;
mod blobs;
mod check;
mod clients;
mod error;
mod identity;
mod log;
mod servers;
mod snapshots;
mod table;

pub mod conformance;
pub mod mem;

pub use backend::{Backend, Lease, StatFs};
pub use blobs::{BLOCK_SIZE, Blobs, Extent, MAX_OBJECT_LEN, ObjectId, check_range};
pub use check::{CheckProgress, Checked, Finding, Segments, look};
pub use clients::{Clients, PathCache, Way};
pub use error::{Result, StoreError};
pub use identity::{FORMAT_VERSION, IDENTITY_LEN, Identity};
pub use log::{Landed, LogDir, LogFile, LogReader, Segment};
pub use servers::{RankSeen, ServerFlags, ServerSeen, Servers, Sight};
pub use snapshots::{SnapshotState, Snapshots};
pub use table::{Batch, Durability, KeyValue, Table, TableSize};
