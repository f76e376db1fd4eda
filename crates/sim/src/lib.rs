//! Deterministic simulation: the production machines over a fake network, disk and clock from one seed.
//!
//! One server (metadata machine, object machine, journal, all on a disk in memory that forgets what was not synced) and
//! some client machines with programs that make random calls. Connections break and stall, machines stop at any moment,
//! disks fail. What is checked all the time:
//!
//! - names and attributes: some order of the calls explains all answers, also those out of a cache ([`history`]);
//! - file data: nothing that was surely written is missing, nothing is seen that cannot be there ([`data`]);
//! - locks exclude each other ([`locks`]), and no change passes a lease of another session ([`watch`]);
//! - after every restart the whole tree is sound; at the end every call was answered, nothing is left over, fsck is silent.
//!
//! Everything follows from the seed: [`run`] twice gives the same trace. What is *not* simulated: bytes on the wire,
//! threads, the kernel's cache of file data, more than one server.

mod calls;
pub mod data;
mod faults;
pub mod history;
mod knobs;
mod life;
mod links;
pub mod locks;
mod net;
mod node;
mod options;
mod recovery;
mod rng;
mod rows;
mod run;
mod server;
pub mod tree;
pub mod watch;
mod workload;
mod world;

pub use options::{Canary, Options, Outcome};
pub use run::run;
