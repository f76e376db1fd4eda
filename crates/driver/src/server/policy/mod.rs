//! Policies of balancers around a rank: the thread that asks them, and what of them is kept in the table. Not the policies
//! themselves (crate `policy`), not what is done of their answers (crate `mds`), and not who puts one in force: that is the
//! keeper of the cluster map.
//!
//! | file | what |
//! |---|---|
//! | `notes.rs` | versions, what was in force when, what policies remember, and the log, as notes of the table |
//! | `adviser.rs` | the thread of a rank that asks the policies |
//! | `parts.rs` | which policies those are, and what each of them is shown |
//! | `default.rs` | which one is in force as long as nobody has chosen |
//! | `order.rs` | the keeper puts a policy in force, or gives it up, and says what names mean |

mod adviser;
mod default;
mod notes;
mod order;
mod parts;

pub(crate) use self::adviser::{Advice, Adviser, Work};
pub use self::adviser::{AdviceStatus, Advised, Tick};
pub use self::default::DefaultPolicy;
pub(crate) use self::default::{is_chosen, put_default, settle};
pub(crate) use self::notes::Notes;
pub use self::notes::{InForce, LogLine, Named, Version, policy_before};
pub use loligo_types::is_policy_name as is_name;
