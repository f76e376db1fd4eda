//! Heat: decaying counters of what is done with directories, and the load that ranks tell each other. It measures; what
//! to move where is decided elsewhere. Units and cost: docs/cluster.md, docs/performance.md.
//!
//! | file | what |
//! |---|---|
//! | `decay.rs` | a counter that forgets |
//! | `loligo_types::heat` | the five counters of a fragment and their weights |
//! | `vec.rs` | those, decaying together |
//! | `sample.rs` | which requests are counted |
//! | `table.rs` | the hot fragments |
//! | `count.rs` | what counts as what |
//! | `loligo_types::beat` | the load of a rank |
//! | `gossip.rs` | how all ranks learn it |
//! | `rank.rs` | both of a rank |
//! | `status.rs` | what is shown |

mod count;
mod decay;
mod gossip;
mod rank;
mod sample;
mod status;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_gossip;
mod vec;

pub use self::decay::{DecayCounter, fading};
pub use self::gossip::{BEATS_MAX, FAN_OUT, Gossip, rounds, steps};
pub(crate) use self::rank::Heat;
pub use self::rank::HeatAccount;
pub use self::sample::Sampler;
pub(crate) use self::status::path_of;
pub use self::status::{HotDir, KnownLoad};
pub use self::vec::{DecayVec, DirChanges};
pub use crate::admin::SpotRates;
pub use loligo_types::{Beat, Hit, Load, LoadVec};
