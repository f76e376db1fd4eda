//! The metadata-server machine: admit, need, prepare, apply, log, gate; sessions, leases, locks.
//!
//! A machine without IO: a driver feeds [`Input`]s with the time ([`Now`]) to [`Mds::handle`], then drains
//! [`Output`]s and carries them out in order. What it is *not*: the namespace (what an operation does stands in
//! `loligo-namespace`), bytes of records or messages, file data (that is the object server's).
//!
//! The machine (`machine.rs`) is a table of *parts*. A part owns its state and does not know the machine: its methods take the other parts
//! that they need, first of all the core (`core.rs`: settings, moment, tree, ends of the journal, requests that wait, outputs). The *stages*
//! are the methods of the machine: they call parts, and commit what those decide.
//!
//! The way of a request, in this order; read [`mod@io`] and then `stages/run.rs` first:
//!
//! | step | stage | parts | may wait for |
//! |---|---|---|---|
//! | admit | `stages/run.rs` | `admit.rs` | the end of the grace time, room in the journal |
//! | where | `stages/run.rs` | `paths.rs` (only of identities that are limited to paths) | records of the table, other ranks |
//! | need | `stages/run.rs` | `load.rs`, `reads.rs` | records of the table |
//! | prepare | `stages/decide.rs` | | |
//! | conflict | `stages/decide.rs` | `conflict.rs`, `recall.rs` | leases and rights of other sessions |
//! | apply, log | `stages/decide.rs` | `log.rs` | |
//! | gate | `stages/answer.rs` | `gate.rs` | the journal; a cut also the objects |
//! | grant, reply | `stages/answer.rs` | `grant.rs`, `reply.rs` | |
//!
//! The other stages: `stages/sessions.rs`, `stages/files.rs`, `stages/upkeep.rs`, `stages/restart.rs`, `stages/status.rs`, those of decoupled
//! subtrees (`decouple/stages`) and of several ranks (`cluster/stages`).
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
mod data;
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
mod modes;
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
mod stray_objects;
mod sync;
mod tally;
#[cfg(test)]
mod tests;
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
