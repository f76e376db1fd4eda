//! Suites of the driver: servers and clients in one process, over sockets, with memory and local stores. One program, as each program links the
//! whole workspace. A scenario that changes its process, like `scarce`, has a program of its own.

mod auth;
mod common;
mod crowd;
mod decoupled;
mod decoupled_ranks;
mod decoupled_read;
mod joined;
mod journal_modes;
mod lease;
mod members;
mod paths;
mod pipelines;
mod played_ranks;
mod ranks;
mod resident;
mod restart;
mod serve;
mod subtree;
mod subtree_faults;
mod subtree_store;
