//! Parts of a rank that make it one of several: the subtree map, links to the others, letters, lending, migration. The
//! protocols stand in docs/cluster.md. A rank alone in the cluster map does none of it.
//!
//! | part | state | its methods besides |
//! |---|---|---|
//! | `Atlas` | `atlas.rs`: which rank has what; `routes.rs`, `strangers.rs`, `births.rs` | `locate.rs`, `spread.rs`, `stale_rows.rs`, `early_requests.rs`, `nowhere.rs` |
//! | `Peers` | `peers.rs`: the links to the others | `link.rs`, `letters.rs`, `members.rs`, `gone.rs` |
//! | `Borrowing` | `borrowing.rs`: transactions that this rank coordinates | `borrow.rs`, `admission.rs` |
//! | `Loans` | `lend.rs`: records lent to others' transactions; `locks.rs` | `search.rs` |
//! | `Replicas` | `replicas/`: of other ranks' directories, and at other ranks | `replica_paths.rs`, `replica_answers.rs` |
//! | `Exports` | `exports.rs`: migrations from here; `survey.rs`, `held.rs`, `tail.rs` | `exporting.rs`, `below.rs`, `holdings.rs`, `depart.rs`, `leave.rs`, `moving.rs`, `size.rs`, `written.rs` |
//! | `Placement` | `placement.rs`: what is to be elsewhere | `pins.rs`, `giga.rs`, `recut.rs`, `scatter.rs`, `float.rs` |
//! | `Drain` | `drain.rs`: this rank gives everything away | `draining.rs`, `giveaway.rs` |
//!
//! The state does not know the methods that need other parts: files of state take in none of those files. `state.rs` has the parts side by side.
//! A part is given what it needs of the others for the call. What needs them all, and what commits, is in `stages`.

mod admission;
mod atlas;
mod below;
mod births;
mod borrow;
mod borrowing;
mod cuts;
mod depart;
mod drain;
mod draining;
mod early_requests;
mod exporting;
mod exports;
mod float;
mod giga;
mod giveaway;
mod gone;
mod held;
mod holdings;
mod import;
mod leave;
mod lend;
mod letters;
mod link;
mod locate;
mod locks;
mod members;
mod moving;
mod nowhere;
mod peers;
mod pins;
mod placement;
mod progress;
mod recut;
mod replica_answers;
mod replica_paths;
mod replicas;
mod requests;
mod rest;
mod routes;
mod scatter;
mod search;
mod size;
mod spread;
mod stages;
mod stale_rows;
mod state;
mod steps;
mod strangers;
mod survey;
mod tail;
mod written;

pub(crate) use self::atlas::{Atlas, Where};
pub(crate) use self::borrowing::{Borrowing, Gathered};
#[cfg(test)]
pub(crate) use self::depart::last_of_each;
pub(crate) use self::drain::Drain;
pub(crate) use self::exports::Exports;
pub(crate) use self::lend::Loans;
pub(crate) use self::locks::Use;
pub(crate) use self::peers::Peers;
pub(crate) use self::pins::pinned_dirs;
pub(crate) use self::placement::Placement;
pub(crate) use self::replicas::{Replicas, Way};
pub(crate) use self::requests::principal;
pub(crate) use self::state::Cluster;
