//! Data operations that the client does in the store by itself, beside the rank that has the file. Here is what is under way and
//! which way an operation goes; it is sent, and its answer dealt with, in `request`.
//!
//! Only under a lease that leaves nobody else who could do harm: reads under CACHE or BUFFER, writes under BUFFER. What several share
//! goes through their rank, which brings it into an order. The lease is given back when all that was written under it is answered, as
//! ever: a run of writing back ends with the answer of its last piece, however that was done.
//!
//! - **The rank knows first.** Before the first such operation on a file of a rank, that rank has put down by what address the store knows
//!   this client, so that it (or whoever takes over from it) can have the store refuse what is still under way before somebody else gets
//!   the file. What moves from rank to rank takes the address along.
//! - **Not beside its own.** As long as a change of the file that was asked of a rank is not answered, nothing is done beside it.
//! - **Refused.** When any rank has ended its session with this client, the store refuses the whole connection, also for files of
//!   other ranks, the leases on which are as good as before. What was refused is then asked of the file's rank, which still
//!   knows whether it may be done; and so is everything else, until there is a new connection of which that rank knows.
//! - **What is left.** Files that are lost with a session may have moved to another rank before, where they still are this client's. So
//!   until the store has answered (or refused) what was written to them, nothing is closed, given back or ended that would let others write
//!   them there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loligo_types::{Answer, Cred, DataOp, FsResult, Ino, Rank};

use crate::Output;
use crate::core::Core;
use crate::file::Files;
use crate::ranks::Ranks;
use crate::session::{DataThen, Link, PendingData};

/// The connection to the store, and what is under way over it.
#[derive(Debug, Default)]
pub(crate) struct Direct {
    /// By what the store knows it; `None`: there is none.
    pub address: Option<Arc<[u8]>>,
    /// Which one that is, from 1.
    pub life: u64,
    /// Not answered.
    pub data: BTreeMap<u64, PendingData>,
    /// Writes not answered to files that were lost since.
    pub left: BTreeMap<u64, Ino>,
    /// Handles of lost sessions that are to be closed elsewhere when none is left.
    pub closes: Vec<(Rank, Cred, Vec<u64>)>,
    /// Ranks where all such handles are to be closed then.
    pub closes_at: BTreeSet<Rank>,
}

/// A rank's knowledge of the connection to the store: the number of its life, 0 for none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    pub asked: u64,
    known: u64,
}

impl Direct {
    /// True if something of the file is being written there that no call waits for.
    pub(crate) fn is_left(&self, ino: Ino) -> bool {
        !self.left.is_empty() && self.left.values().any(|left| *left == ino)
    }

    /// True if something is being written.
    pub(crate) fn is_writing(&self) -> bool {
        !self.left.is_empty() || self.data.values().any(|pending| pending.request.op.is_change())
    }

    /// True if anything is under way.
    pub(crate) fn is_busy(&self) -> bool {
        !self.left.is_empty() || !self.data.is_empty()
    }

    /// Nobody waits any more for what is done with these files.
    pub(crate) fn lose(&mut self, lost: impl Fn(&Ino) -> bool) {
        let gone: Vec<u64> =
            self.data.iter().filter(|(_, pending)| lost(&pending.request.ino)).map(|(id, _)| *id).collect();
        for id in gone {
            if let Some(pending) = self.data.remove(&id).filter(|pending| pending.request.op.is_change()) {
                self.left.insert(id, pending.request.ino);
            }
        }
    }

    /// True if handles of a lost session have to wait; then they are remembered.
    pub(crate) fn delays_closes(&mut self, lost: Rank, cred: &Cred, handles: &[u64]) -> bool {
        let delays = !self.left.is_empty();
        if delays {
            self.closes.push((lost, cred.clone(), handles.to_vec()));
        }
        delays
    }

    /// The same for all of them at a rank.
    pub(crate) fn delays_closes_at(&mut self, rank: Rank) -> bool {
        let delays = !self.left.is_empty();
        if delays {
            self.closes_at.insert(rank);
        }
        delays
    }

    /// There is a (new) connection to the store, or none.
    pub(crate) fn changed(&mut self, address: Option<Arc<[u8]>>) {
        self.life += u64::from(address.is_some());
        self.address = address;
    }

    /// Does a data operation in the store.
    pub(crate) fn request(&mut self, core: &mut Core, files: &Files, id: u64, pending: PendingData) {
        let file = files.map.get(&pending.request.ino);
        let pieces = file.map_or(0, |file| file.pieces ^ u64::from(file.attr.cuts) << 40);
        core.out.push_back(Output::Direct { request: pending.request.clone(), pieces });
        self.data.insert(id, pending);
    }

    /// Tasks of data operations that are done in the store.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (Ino, u64)> + '_ {
        self.data.values().filter_map(|pending| match pending.then {
            DataThen::Task(task) | DataThen::Read { task, .. } => Some((pending.request.ino, task)),
            DataThen::Flush(_) | DataThen::Block { .. } | DataThen::Own(_) | DataThen::OwnTask(_) => None,
        })
    }

    /// The way of a data operation on a file.
    pub(crate) fn way(&self, ranks: &Ranks, files: &Files, ino: Ino, op: &DataOp) -> Way {
        let life = self.life;
        if self.address.is_none() {
            return Way::Rank;
        }
        let Some(file) = files.map.get(&ino) else { return Way::Rank };
        let may = match op {
            DataOp::Read { .. } => file.may_cache(),
            DataOp::Write { .. } | DataOp::Sync => file.may_cache() && file.may_buffer(),
            DataOp::Punch { .. } | DataOp::Discard { .. } | DataOp::Seek { .. } => false,
        };
        let (rank, doubted, first) = (file.rank, file.doubted, file.handles.first().copied());
        let Some(session) = ranks.session(rank).filter(|_| may && !doubted) else { return Way::Rank };
        let changes = |pending: &PendingData| pending.request.ino == ino && pending.request.op.is_change();
        if session.link != Link::Up || session.data_held.is_some() || session.suspended {
            return Way::Rank;
        }
        if session.data.values().any(changes) || ranks.parked.contains_key(&ino) {
            return Way::Rank;
        }
        if session.direct.known == life {
            return Way::Store;
        }
        if session.direct.asked == life {
            return Way::Rank;
        }
        let cred = first.and_then(|handle| files.handles.get(&handle)).map(|handle| Cred::clone(&handle.cred));
        cred.map_or(Way::Rank, |cred| Way::Tell(rank, cred))
    }
}

/// The way of a data operation.
pub(crate) enum Way {
    /// Through the rank.
    Rank,
    /// In the store, beside it.
    Store,
    /// Through this rank, which is to be told of the connection to the store by this user.
    Tell(Rank, Cred),
}

impl Ranks {
    /// A rank has put the address down, or will not.
    pub(crate) fn address_told(&mut self, rank: Rank, life: u64, result: &FsResult<Answer>) {
        let Some(session) = self.sessions.get_mut(&rank) else { return };
        // Where clients cannot, or this one may not, it is not asked again.
        if result.is_ok() {
            session.direct.known = session.direct.known.max(life);
        }
    }
}
