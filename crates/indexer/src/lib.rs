//! Indexers: they read an archive, a list or a scientific file and yield the entries of a manifest, with slices of the file instead of copies
//! (Tintenfisch: pointer generators). One file each: [`tar`], [`zip`], [`kerchunk`], [`list`] (CSV, NDJSON) and [`root`].
//!
//! They run in the command, as its user, so that no server ever reads a hostile format. Each hostile input is a named fault. Not here: opening
//! files, finding out their inode numbers and change counters ([`Sources`]), writing the manifest, progress bars.

mod fault;
mod input;
pub mod kerchunk;
pub mod list;
mod name;
mod options;
pub mod root;
mod sources;
pub mod tar;
#[cfg(test)]
mod tests;
pub mod zip;

pub use fault::{Cause, Fault};
pub use input::{Input, Stream};
pub use options::Options;
pub use sources::{Found, Sources, Table};

use loligo_schema::manifest::{Path, Runs, Sorter};
use loligo_schema::{Attributes, Body};

/// Receiver of entries.
pub trait Sink {
    /// Takes an entry; none as its body: a directory.
    ///
    /// # Errors
    ///
    /// Those of a manifest.
    fn add(
        &mut self,
        path: Path,
        attributes: Attributes,
        body: Option<Body>,
    ) -> Result<(), loligo_schema::manifest::Fault>;
}

impl<S: Runs> Sink for Sorter<S> {
    fn add(
        &mut self,
        path: Path,
        attributes: Attributes,
        body: Option<Body>,
    ) -> Result<(), loligo_schema::manifest::Fault> {
        Sorter::add(self, path, attributes, body)
    }
}
