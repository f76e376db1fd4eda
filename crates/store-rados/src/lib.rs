//! The engine on Ceph RADOS: the table as omaps of objects, journals and file data as objects, all in one pool or a namespace of it.
//! Several servers may have it open; what each of them may write is decided by epochs ([`Slots`]), which every write names and the
//! cluster compares.
//!
//! Not here: what the bytes mean, who takes over from whom and when, and any retry of what the cluster has refused for good. How objects
//! are called and what is in them is drawn in `docs/formats/rados.md`, the reasons are in `docs/decisions/rados.md`.

mod blobs;
mod bytes;
mod check;
mod clients;
mod error;
mod log;
mod names;
mod placement;
mod rights;
mod room;
mod servers;
mod slots;
mod space;
mod store;
mod table;

pub use check::RadosCheck;
pub use clients::RadosWays;
pub use slots::Slots;
pub use store::{FormatOptions, OpenOptions, Place, RadosStore, this_process};
