//! Commands about the ranks that serve a namespace, and which of them has what.

mod leases;
pub mod members;
pub mod migrate;
pub mod place;
pub mod rank;
mod resettle;
mod split;
pub mod subtree;
