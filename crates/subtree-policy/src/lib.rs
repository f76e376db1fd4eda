//! Subtree policies: a directory's policy sets the consistency of its subtree (the clients that see a change, and when) and its durability
//! (the crashes that a change survives), as a composition of mechanisms (Sevilla, Cudele, thesis chapter 6).
//!
//! From below: [`mechanism`] has the seven parts, [`composition`] the language that puts them together, [`pipeline`] the rules for valid
//! compositions, [`completion`] the order in which work is completed, [`cell`] the levels and table 6.1, [`preset`] the cells that have
//! names, [`policy`] the document on a directory, [`floor`] the least that directories below must promise, [`ceiling`] the most that
//! decoupling there may take. Not here: carrying a mechanism out, storing policies, and the rights to set them. No IO, no clock; untrusted
//! bytes never make it panic. For users: docs/subtree-policies.md.

pub mod ceiling;
pub mod cell;
pub mod completion;
pub mod composition;
pub mod fault;
pub mod floor;
pub mod mechanism;
mod nearest;
pub mod pipeline;
pub mod policy;
pub mod preset;

pub use ceiling::{Bounds, Broken, Ceiling, Wanted};
pub use cell::{Cell, Consistency, Durability};
pub use completion::{Completion, Run};
pub use composition::{Composition, Stage, Step};
pub use fault::{Cause, Fault};
pub use floor::{BelowFloor, Floor, check_floor};
pub use mechanism::Mechanism;
pub use pipeline::{Pipeline, Warning};
pub use policy::{Interfere, SubtreePolicy, SyncInterval};
pub use preset::Preset;
