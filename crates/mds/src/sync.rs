//! Syncs of all file data: whoever asks shares the next one with all others who do.
//!
//! Clients sync the files that they have open themselves; this is for what was written through handles that are closed,
//! of which nobody but the object server knows.

use loligo_types::{Answer, FsError};

use crate::io::Output;
use crate::machine::Mds;
use crate::park::WaitReason;

/// Where they are.
#[derive(Default)]
pub(crate) struct Syncs {
    last: u64,
    /// The last one is under way, and whether another is wanted behind it.
    running: bool,
    wanted: bool,
}

impl Mds {
    /// The number of the sync that covers all that was answered so far.
    pub(crate) fn sync_data(&mut self) -> u64 {
        if self.syncs.running {
            // That one may have begun before something that was answered since.
            self.syncs.wanted = true;
            return self.syncs.last + 1;
        }
        self.syncs.running = true;
        self.syncs.last += 1;
        self.core.out.push_back(Output::SyncData { ticket: self.syncs.last });
        self.syncs.last
    }

    /// One is done. Who waits is answered.
    pub(crate) fn data_synced(&mut self, ticket: u64, ok: bool) {
        if ticket != self.syncs.last || !self.syncs.running {
            return;
        }
        self.syncs.running = false;
        for job in self.core.parked.take_waiting(&WaitReason::Sync(ticket)) {
            if ok { self.done(job, Answer::Done) } else { self.fail(job, FsError::Io) }
        }
        if std::mem::take(&mut self.syncs.wanted) {
            self.sync_data();
        }
        if self.cluster.exports.is_active() {
            self.synced_before_move(ticket, ok);
        }
    }
}
