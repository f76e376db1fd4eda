//! The client machine: sessions, retries, leases, open files, cached reads and written data.
//!
//! A machine without IO: a driver feeds [`Input`]s with the time to [`Client::handle`] and carries out what
//! [`Client::poll`] gives, in order. One owner, no threads, no clock, no randomness: the same inputs give the same
//! outputs. Read [`io`] and [`call`] first, then `machine`, which says how the parts fit together.
//!
//! Not here: bytes on the wire, sockets, paths, and any cache of names and attributes (those are cached above, by the
//! kernel; this machine knows what may be cached and says when it must be dropped).

pub mod call;
mod io;

mod blocks;
mod buffer;
mod cache;
mod calls;
mod change;
mod core;
mod data;
mod direct;
mod dispatch;
mod extents;
mod file;
mod flush;
mod handles;
mod hints;
mod indeterminate;
mod leases;
mod lent;
mod locks;
mod losses;
mod machine;
mod moves;
mod numbers;
mod open;
mod own;
mod pace;
mod path_cache;
mod places;
mod ranks;
mod raw;
mod reading;
mod recall;
mod recover;
mod request;
mod route;
mod run;
mod sending;
mod session;
mod sessions;
mod space;
mod stale_replies;
mod task;
#[cfg(test)]
mod tests;
mod unmerged;
mod unsynced;
mod volatile;
mod writing;

pub use call::{Call, CallResult, Done, Failed, Fallocate, Fh, Invalidation, WalkAt};
pub use hints::{Asked, Hints};
pub use io::{CallId, Config, DirectError, Input, Now, Output, Token};
pub use machine::Client;
pub use own::SUBTREE_XATTR;
pub use pace::Runs;
pub use path_cache::{DEPTHS, Lead, PathCache};
pub use unmerged::Unmerged;
