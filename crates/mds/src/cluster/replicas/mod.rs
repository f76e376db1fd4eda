//! Replicas of directory lookup state: what a path that leads through a directory needs to know of it (where it is, who owns it, who may
//! search it), held at other ranks than its own. So a rank finds the way to what it has itself, whoever has the directories above. ShardFS (Xiao et
//! al., SoCC 2015, digest §2.5-2.8) has them at every rank, and changes them all in a transaction of the client's. Here a rank asks for a replica
//! when a path leads through the directory, and is asked back before that changes: the same rule by which clients hold leases ("recall, then
//! change"). So there is nothing to log, to redo or to bring together after a crash, and a directory that is made costs nothing more.
//!
//! Only what is there is replicated, never that something is not: a rank that does not find a name leaves it to the one that has it.
//!
//! A rank that is not heard may hold replicas, and one that does not hear must not use them. Each hears from the other that they
//! count, again and again; without that they end [`limits::REPLICA_MS`] after they were asked for, by the holder's clock, and a tenth of that
//! later, by the lender's: one clock may so run a tenth faster than the other. A rank that starts has lent nothing; it serves when all
//! others have said hello to it, and whoever says hello has dropped what it held.
//!
//! Here what both sides share; `lent` is the rank that has the directory, `held` the one that goes by a replica of it. What a walk is: `walk.rs`.

pub(in crate::cluster) mod held;
pub(in crate::cluster) mod lent;

use self::held::Held;
pub(crate) use self::held::Way;
use self::lent::Lent;

/// Replicas of other ranks' directories, and of this rank's directories at others.
#[derive(Default)]
pub(crate) struct Replicas {
    pub(crate) held: Held,
    pub(crate) lent: Lent,
}
