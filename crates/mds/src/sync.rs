//! Syncs of all file data: whoever asks shares the next one with all others who do.
//!
//! Clients sync the files that they have open themselves; this is for what was written through handles that are closed,
//! of which nobody but the object server knows.

use crate::core::Core;
use crate::io::Output;

/// Where they are.
#[derive(Default)]
pub(crate) struct Syncs {
    last: u64,
    /// The last one is under way, and whether another is wanted behind it.
    running: bool,
    wanted: bool,
}

impl Syncs {
    /// One is done; false if it is not the one under way.
    pub(crate) fn end(&mut self, ticket: u64) -> bool {
        ticket == self.last && std::mem::take(&mut self.running)
    }

    /// Starts the one that was wanted meanwhile.
    pub(crate) fn go_on(&mut self, core: &mut Core) {
        if std::mem::take(&mut self.wanted) {
            self.sync_data(core);
        }
    }

    /// The number of the sync that covers all that was answered so far.
    pub(crate) fn sync_data(&mut self, core: &mut Core) -> u64 {
        if self.running {
            // That one may have begun before something that was answered since.
            self.wanted = true;
            return self.last + 1;
        }
        self.running = true;
        self.last += 1;
        core.out.push_back(Output::SyncData { ticket: self.last });
        self.last
    }
}
