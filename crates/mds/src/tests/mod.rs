//! Scenarios at the level of the machine, over a driver that keeps journal and table in memory (`harness.rs`).

mod ahead;
mod back_pressure;
mod caches;
mod cluster_harness;
mod coherence;
mod data;
mod decouple;
mod ending;
mod exactly_once;
mod frags;
pub(crate) mod harness;
mod identities;
mod locks;
mod numbers;
mod paths;
mod property;
mod random;
mod ranks;
mod relaxed;
pub(crate) mod requests;
mod restart;
mod rooms;
mod rows;
mod sessions;
mod squash;
mod stored;
mod stray_objects;
mod trusted;

use harness::*;
use random::Random;
