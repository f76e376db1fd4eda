//! What a subtree promises: who sees a change when (consistency), and what survives which crash (durability). A policy of a
//! directory says it, as a composition of mechanisms (Sevilla, Cudele, thesis chapter 6).
//!
//! From below: [`mechanism`] has the seven parts, [`composition`] the language that puts them together, [`pipeline`] the rules
//! for what makes sense, [`completion`] the order in which work is completed, [`cell`] the levels and table 6.1, [`preset`] the cells that have names, [`policy`] the document on a
//! directory, [`floor`] the least that directories below must promise, [`ceiling`] the most that decoupling there may take. Not here: carrying a mechanism out, where policies are
//! kept, and whose may be set. No IO, no clock; bytes of others never panic it. What users are told: docs/subtree-policies.md.

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
