//! Policies: small programs in Luau that a service asks what to do, run in a sandbox with budgets.
//!
//! [`engine`] is the general part: a text with named callbacks, an environment of named values (numbers, tables of metrics
//! per server, time series) and a state of one number or boolean that outlives an evaluation. It knows no metadata. What a
//! metadata server asks is [`balance`], after the paper's Mantle; [`lint`] tries a policy of that kind on toy clusters before
//! anyone depends on it. Not here: measuring, checking of authority and moving, which are the host's; no IO, and no clock but
//! for the time budget. What a policy is given is told in docs/policies.md.

pub mod balance;
mod embedded;
pub mod engine;
mod fault;
mod limits;
pub mod lint;
mod streak;
pub mod toy;

pub use embedded::{embedded, shipped, shipped_names};
pub use engine::Value;
pub use fault::{Fault, FaultKind};
pub use limits::Limits;
pub use lint::{LintCase, LintReport, lint};
pub use streak::Streak;
