//! A reference model of the name space, small enough to be believed, and random steps that are run on it and on the real
//! thing at every level: the pure tree, a server over the wire, a mount.
//!
//! Not here: times, ACLs, locks, several clients (their tests stand with the machines), nor any of the code under test.
//! The model itself is checked against a local file system with the same steps.

mod compare;
mod level;
mod reference;
mod step;
mod walk;

pub mod posix;

pub use compare::{Mismatch, run, run_with};
pub use level::{Level, PathFs, Stat};
pub use reference::Reference;
pub use step::{Action, Step, User, steps};
pub use walk::Walk;
