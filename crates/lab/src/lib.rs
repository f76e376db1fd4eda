//! Workloads on many ranks in virtual time: [`Plan`] says what, [`run`] does it, [`Report`] says how it went. The metadata
//! machines are the production ones, all of them, with their messages, journals' order, heat, beats, balancers and migrations;
//! so are the client machines, with their sessions, leases, redirects and what they know of who has what. Given are only times:
//! what an input costs a rank's thread, how long a sync and a message take ([`Costs`], measured on a real machine). Each rank has
//! a core and a journal's disk to itself; clients take a microsecond between two calls.
//!
//! Not here: file data (it is answered for, not kept), networks and disks that are shared or full, faults (crate `sim` has
//! those). What is to move is decided by a [`Decider`]: a policy's text ([`PolicyDecider`]), or what a test gives.
//!
//! | file | what |
//! |---|---|
//! | `world.rs` | ranks, queues, virtual time |
//! | `clients.rs`, `shell.rs`, `kernel.rs` | client machines, the programs above them, and what they cache |
//! | `by_path.rs` | programs that ask by path instead, and cache nothing |
//! | `lab.rs`, `spread.rs` | a run from its set-up to its report, and who has what at its beginning |
//! | `policy.rs` | a policy's text as what decides |
//! | `tally.rs`, `report.rs`, `text.rs`, `draw.rs`, `svg.rs` | what came out, as data, as text, as a picture |
//!
//! Beside that stands [`Many`], a small model of clients that work decoupled, in which there are no machines at all. Charts of numbers of any kind, for the
//! benchmarks, are drawn by the crate `chart`.

mod by_path;
pub mod clients;
mod costs;
mod draw;
mod kernel;
mod lab;
mod many;
mod policy;
mod queue;
mod report;
mod shell;
mod spread;
pub mod svg;
mod tally;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_placement;
#[cfg(test)]
mod tests_policy;
mod text;
pub mod world;

pub use costs::Costs;
pub use lab::{Decider, Lab, Plan, run};
pub use many::Many;
pub use policy::PolicyDecider;
pub use report::{Client, KindTimes, Moving, Part, Phase, Report, Second};
pub use spread::Spread;
