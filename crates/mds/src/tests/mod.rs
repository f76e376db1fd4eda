//! Scenarios at the level of the machine, over a driver that keeps journal and table in memory (`harness.rs`).

mod back_pressure;
mod caches;
mod coherence;
mod data;
mod exactly_once;
mod harness;
mod locks;
mod property;
mod random;
mod restart;
mod rows;
mod sessions;

use harness::*;
use random::Random;
