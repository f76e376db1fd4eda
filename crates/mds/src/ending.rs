//! End of a session that has not said goodbye: first nothing that its client has sent can take effect any more, then what it held is
//! others'.
//!
//! Where clients reach file data only through the object server of this rank, that is so at once: the object server drops what waits and
//! has what others ask wait for what runs. Where they read and write in the store by themselves
//! ([`Config::direct`](crate::Config::direct)), nothing orders a client's late write and the write of who has the file next: so the session
//! *ends* for a while. It has no connection, nobody goes on with it, and it keeps all it holds, until the object server executes nothing of
//! it any more ([`Input::Fenced`]) and the store refuses its client ([`Input::ShutOut`]). Its record, with the client's addresses, is in
//! the journal until then: a server that takes over meanwhile finds the session, waits for its client in the grace time as for any other,
//! and shuts it out then. The grace time lasts until that is done, as what such a session held is known to nobody.
//!
//! [`Input::Fenced`]: crate::Input::Fenced [`Input::ShutOut`]: crate::Input::ShutOut

use crate::cluster::Cluster;
use crate::core::Core;
use crate::session::{Sessions, Slot};

impl Sessions {
    /// True if what a session holds is others' only some time after its end was decided.
    pub(crate) fn ends_in_steps(&self, core: &Core, slot: Slot) -> bool {
        core.config.direct.is_some() || self.get(slot).is_some_and(|session| !session.addresses.is_empty())
    }
}

impl Cluster {
    /// Nothing that a session has asked for is done any more.
    pub(crate) fn drop_jobs(&mut self, core: &mut Core, slot: Slot) {
        for mut job in core.parked.take_session(slot) {
            core.parked.unmark(&mut job);
            self.borrowing.give_back(core, &mut job, false);
        }
    }
}
