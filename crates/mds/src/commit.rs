//! Apply and log: a decided change gets into the tree and, as one record, on its way into the journal.

use loligo_types::{Lsn, Origin, SessionId};

use crate::core::Core;
use crate::decouple::Decoupled;
use crate::io::Output;
use crate::open::AccessChange;
use crate::relaxed::Relaxed;
use crate::session::Sessions;

/// Where the journal stands.
#[derive(Default)]
pub(crate) struct Log {
    /// The last record given out.
    pub(crate) last: Lsn,
    /// All records up to here are durable.
    pub(crate) durable: Lsn,
    /// The last one when this life began.
    pub(crate) recovered: Lsn,
    /// It is broken: nothing may be acknowledged any more.
    pub(crate) failed: bool,
    /// Bytes not yet trimmed: what the driver said last, and what was given out since.
    pub(crate) used: u64,
    /// Above this changes wait.
    pub(crate) limit: u64,
    /// The table is full.
    pub(crate) full: bool,
    /// The store has no room for more, and says so before it must.
    pub(crate) no_room: bool,
    /// The journal cannot be written for want of room: what is given to it waits.
    pub(crate) stuck: bool,
    /// Length of the last record, as a guess for the next.
    pub(crate) last_len: usize,
}

impl Sessions {
    /// The session's window knows the change from now on.
    pub(crate) fn remember(&mut self, mut origin: Origin, lsn: Lsn) -> Origin {
        let slot = self.find(origin.session);
        if let Some(session) = slot.and_then(|slot| self.get_mut(slot)) {
            session.window.applied(origin.seq, origin.ino, origin.value);
            session.unsaved.get_or_insert(lsn);
            origin.answered = session.window.answered();
        }
        origin
    }
}

impl Relaxed {
    /// Tells the object server what a session may do from now on.
    pub(crate) fn tell_access(
        &mut self,
        core: &mut Core,
        decoupled: &Decoupled,
        session: SessionId,
        change: AccessChange,
    ) {
        if let Some((ino, access)) = change {
            let access = self.access_for_now(core, decoupled, ino, access);
            core.out.push_back(Output::Access { session, ino, access });
        }
    }
}
