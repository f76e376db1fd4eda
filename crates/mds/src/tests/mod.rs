//! Scenarios at the level of the machine, over a driver that keeps journal and table in memory (`harness.rs`).

mod back_pressure;
mod coherence;
mod data;
mod exactly_once;
mod harness;
mod locks;
mod property;
mod restart;
mod sessions;

use harness::*;
