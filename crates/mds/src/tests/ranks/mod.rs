//! Scenarios of several ranks over one table (`cluster_harness.rs`).

mod back;
mod balance;
mod closes;
mod contention;
mod crashes;
mod dropped;
mod floating;
mod gone;
mod hellos;
mod holdings;
mod known;
mod large;
mod lent_names;
mod meetings;
mod members;
mod memory;
mod moves;
mod names;
mod paths;
mod repeats;
mod returns;
mod scattered;
mod shortcuts;
mod shut_out;
mod spread;
mod stands;
mod stops;
mod sums;
mod table;
mod three;
mod transactions;
mod under_way;
mod walks;

use super::cluster_harness::*;
use super::harness::*;
