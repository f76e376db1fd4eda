//! Workloads and their measurement: the shapes of mdtest natively through the client library, and over a mount.
//!
//! Not here: servers or mounts; both are given. Nothing is asserted about speed: numbers are for people and for
//! docs/performance.md.

pub mod cpu;
pub mod md;
pub mod result;

mod mounted;
mod native;
mod shape;

pub use md::{Config, Target, run};
pub use result::PhaseResult;
pub use shape::Phase;
