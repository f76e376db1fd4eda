//! Policies of balancers around a rank: the thread that asks them, and what of them is kept in the table. Not the policies
//! themselves (crate `policy`), not what is done of their answers (crate `mds`), and not who puts one in force: that is the
//! keeper of the cluster map.
//!
//! | file | what |
//! |---|---|
//! | `notes.rs` | versions, what was in force when, what policies remember, and the log, as notes of the table |
//! | `adviser.rs` | the thread of a rank that asks the policy |
//! | `order.rs` | the keeper puts a policy in force, or gives it up |

mod adviser;
mod notes;
mod order;

pub(crate) use self::adviser::{Advice, Adviser, Work};
pub use self::adviser::{AdviceStatus, Tick};
pub(crate) use self::notes::Notes;
pub use self::notes::{InForce, LogLine, Version, is_name};
