//! The object server of the embedded default: which operation on a file's bytes may run now, for whom,
//! and what a sync must cover. [`Osd`] is a machine: [`Osd::handle`] an [`Input`], then drain
//! [`Osd::next_output`] until it is empty.
//!
//! [`execute`] does an [`Effect`] on real [`loligo_store::Blobs`]; threads of a driver and the simulator
//! call it, so what an operation means on objects is in one place.
//!
//! Not here: checksums and files (`loligo-store-local`), sizes and permissions of files (`loligo-mds`),
//! sockets, threads, time.

mod admit;
mod dirty;
mod execute;
mod fork;
mod frozen;
mod io;
mod logged;
mod machine;
mod patch;
mod queue;
mod quiesce;
mod rights;

#[cfg(test)]
mod tests;

pub use execute::{Durable, Effect, EffectResult, execute};
pub use io::{Access, EffectId, Input, Output, Tag};
pub use machine::{Config, Osd};
