//! Deterministic simulation: the production machines over a fake network, disk and clock from one seed.
//!
//! One rank or several (each a metadata machine, an object machine, and a journal on a disk of its own in memory that
//! forgets what was not synced; one table and one store of objects for all), and some client machines with programs that
//! make random calls. Connections to clients and between ranks break and stall, machines stop at any moment, alone or all
//! together, disks fail, and somebody orders migrations all the time; the worst of all policies may balance besides ([`worst`](Options::balance)).
//! Clients may read and write file data in the store by themselves ([`direct`](Options::direct)), which is a cluster's then: it outlives the ranks,
//! and what is on its way to it may come when its client is long gone. What is checked all the time:
//!
//! - names and attributes: some order of the calls explains all answers, also those out of a cache ([`history`]);
//! - file data: nothing that was surely written is missing, nothing is seen that cannot be there ([`data`]);
//! - locks exclude each other ([`locks`]), and no change passes a lease of another session ([`watch`]);
//! - what is decoupled is nobody else's meanwhile, and what is merged there whole or not at all ([`subtrees`]);
//! - of relaxed directories a crash takes back the end of what was done, and no more than it may ([`relaxed`]);
//! - where others work in what is decoupled, nothing that either side made is lost in a merge ([`shared`]);
//! - after every restart of a lone rank the whole tree is sound; at the end every call was answered, nothing is under way
//!   between ranks, no inode is in the memory of two, nothing is left over, the table alone is a sound tree, fsck is silent.
//!
//! Files are few here. So that what needs many is met all the same, machines may do up to 512 times less in one go, and keep
//! and tell so much less, than elsewhere (`shrink` of their settings, from the seed).
//!
//! Everything follows from the seed: [`run`] twice gives the same trace. What is *not* simulated: bytes on the wire,
//! threads, the kernel's cache of file data, servers that replace one another while the one before still writes.

mod calls;
pub mod data;
mod direct;
mod faults;
mod heat;
pub mod history;
pub mod kept;
mod knobs;
mod life;
mod links;
pub mod locks;
mod look_relaxed;
mod members;
mod net;
mod node;
mod options;
mod peers;
mod pieces;
mod recovery;
pub mod relaxed;
mod rng;
pub mod rows;
mod run;
mod seat;
mod server;
pub mod shared;
pub mod subtrees;
pub mod tree;
pub mod watch;
mod workload;
mod world;
mod worst;

pub use options::{Canary, Options, Outcome};
pub use run::run;
