//! The engine on one machine: RocksDB for the table, plain files for journals and objects, all under
//! one data directory that one server process owns.
//!
//! Not here: what the bytes mean (`loligo-journal`, `loligo-namespace`), who may write which object
//! (`loligo-osd`), and any thread that serves requests; calls block. The layout of the directory is
//! drawn in `docs/formats/objects.md`, the choice of RocksDB in `docs/decisions/engine.md`.

mod check;
mod files;
mod journal;
mod layout;
mod marks;
mod objects;
mod room;
mod salvage;
mod snapshot;
mod spare;
mod store;
mod table;

pub use check::LocalCheck;
pub use layout::FormatOptions;
pub use salvage::Salvaged;
pub use store::{LocalStore, OpenOptions};
