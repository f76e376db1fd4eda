//! The tree: what an operation needs, how it is decided, and the one way a change is applied.
//!
//! The way of an operation: [`need`] names the records that must be in memory; when they are, [`prepare`] decides and
//! gives a [`Change`]; its events go to the journal as one record and through [`apply`] into the [`Tree`]. No IO, no
//! clock, no threads; handles, locks and leases are the metadata server's.

pub mod access;
pub mod acl;
mod answer;
mod apply;
mod bounds;
mod checkpoint;
mod ctx;
mod decided;
mod evict;
mod frag;
pub mod fsck;
pub mod invariants;
mod merge_rows;
mod merged;
mod need;
mod op;
mod reap;
mod resolve;
mod rstat;
#[cfg(test)]
mod testing;
mod touches;
mod tree;
mod vxattr;
mod work;

pub use access::{check_search, is_searched_by_all, may_search};
pub use answer::{answer_again, need_again};
pub use apply::{apply, apply_decided};
pub use bounds::is_within_bounds;
pub use checkpoint::{Checkpoint, Record};
pub use ctx::{Change, Ctx};
pub use decided::{decided, lent_dirs};
pub use frag::{FragConfig, Recut};
pub use merge_rows::{MergeRows, MergedRows};
pub use merged::{merged, uncount};
pub use need::{Need, need};
pub use op::xattr::{
    BALANCER, EXPECTED_ENTRIES, HISTORY, LOOKUP_LEASE, PIN, PLACEMENT, SUBTREE, balancer_of, bounds_of, pinned_ranks,
};
pub use op::{prepare, touches};
pub use reap::reap;
pub use resolve::{CONFLICTS, Draft, Fork, Plan, Terms, is_written, resolve};
pub use rstat::{add_sum, propagate, propagate_abroad, propagate_need, settle};
pub use touches::{Inos, Touch};
pub use tree::{
    Config, Estimate, Found, HASH_MAX, Key as DirtyKey, Loaded, Lookup, Tree, XattrPair, ended_lines, hash63,
};
