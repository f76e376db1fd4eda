//! The metadata-server machine: admit, need, prepare, apply, log, gate; sessions, leases, locks.
//!
//! A machine without IO: a driver feeds [`Input`]s with the time ([`Now`]) to [`Mds::handle`], then drains
//! [`Output`]s and carries them out in order. What it is *not*: the namespace (what an operation does stands in
//! `loligo-namespace`), bytes of records or messages, file data (that is the object server's).
//!
//! The way of a request, one file for each stage, in this order; read [`mod@io`] and then `execute.rs` first:
//!
//! | stage | file | may wait for |
//! |---|---|---|
//! | admit | `admit.rs` | the end of the grace time, room in the journal |
//! | where | `paths.rs` (only of identities that are limited to paths) | records of the table, other ranks |
//! | need | `load.rs` | records of the table |
//! | prepare | `execute.rs` | |
//! | conflict | `conflict.rs`, `recall.rs` | leases and rights of other sessions |
//! | apply, log | `commit.rs` | |
//! | gate | `gate.rs` | the journal; a cut also the objects |
//! | grant, reply | `grant.rs` | |
//!
//! A request that waits holds nothing that another request waits for: it only forbids new grants on the inodes it is
//! about to touch (see `park.rs`). So nobody waits in a circle, and what it waits for only shrinks.

pub mod admin;
mod admit;
mod appends;
mod background;
mod balance;
mod busy;
mod checkpoint;
mod cluster;
mod config;
mod conflict;
mod core;
mod counters;
mod decouple;
mod discard;
mod ending;
mod eof_cleanup;
mod gate;
mod grace;
mod grant;
mod handshake;
mod hash;
mod hash_prefetch;
pub mod heat;
mod inline_spill;
pub mod io;
mod job;
mod lease;
mod load;
mod lock;
mod log;
mod lookup;
mod lookup_leases;
mod machine;
mod numbers;
mod open;
mod pace;
mod park;
mod paths;
mod pause;
mod reads;
mod recall;
mod reclaim;
mod recover;
mod relaxed;
mod reply;
mod rights;
mod room;
mod scan;
mod session;
mod shards;
mod shortcuts;
mod stages;
mod status;
mod step;
mod sync;
mod tally;
#[cfg(test)]
mod tests;
mod view;
mod walk;
mod walk_steps;
mod weight;
mod window;

pub use config::{Config, Now};
pub use counters::OpCount;
pub use decouple::{DecoupledCount, DecoupledStatus, OwnerAway};
pub use io::{ConnId, DataAccess, Identity, IdentityKey, Input, Member, Output, Page, Peer, Scan};
pub use loligo_types::{TableMeta, peer};
pub use machine::Mds;
pub use rights::{GRANTS_MAX, Grant, NOBODY, Rights, Squash};
pub use status::{GraceStatus, PathStatus, RelaxedStatus, SessionStatus, Status, WaitStatus};
pub use tally::{TallyStatus, WaitCount, WalkCount};
