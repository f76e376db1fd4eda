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
mod logged;
mod modes;
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
mod short;
mod squash;
mod stored;
mod stray_objects;
mod trusted;

use harness::*;
use loligo_types::{Answer, FsResult, StatFs};
use random::Random;

fn size(answer: FsResult<Answer>) -> u64 {
    match answer {
        Ok(Answer::Entry(attr)) => attr.size,
        other => panic!("no attributes: {other:?}"),
    }
}

fn totals() -> StatFs {
    StatFs { bytes: 1000, bytes_free: 900, inodes: 0, inodes_free: 1 << 40 }
}
