//! Workloads and their measurement: the shapes of mdtest ([`md`]), and what the generators and traces of `loligo_workload` ask for
//! ([`workload`]); natively through the client library, and with system calls over a mount or any directory.
//!
//! Not here: servers or mounts; both are given. Nothing is asserted about speed: numbers are for people and for
//! docs/performance.md.

pub mod cpu;
pub mod figure;
pub mod md;
pub mod result;
pub mod workload;

mod mounted;
mod native;
mod shape;

pub use md::{Config, Target, run};
pub use result::PhaseResult;
pub use shape::Phase;
