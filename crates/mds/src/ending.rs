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

use loligo_types::{Answer, Event, FsError, FsResult, SessionId};

use crate::cluster::Cluster;
use crate::core::Core;
use crate::execute::origin_of;
use crate::io::Output;
use crate::machine::Mds;
use crate::park::Job;
use crate::session::{Ending, Sessions, Slot};

impl Mds {
    /// Ends a session that is dead, or counts as such: all it held is free, as soon as nothing can come of it any more.
    pub(crate) fn end_session(&mut self, slot: Slot) {
        let Some(session) = self.sessions.get(slot).filter(|session| session.ending.is_none()) else { return };
        let (id, addresses) = (session.id, session.addresses.clone());
        // First of all its data requests must stop: others may write as soon as its rights are gone.
        self.core.out.push_back(Output::Fence { session: id });
        if !self.sessions.ends_in_steps(&self.core, slot) {
            return self.free_session(slot);
        }
        self.sessions.silence(slot, Ending { executes: true, reaches: !addresses.is_empty() });
        self.cluster.drop_jobs(&mut self.core, slot);
        if !addresses.is_empty() {
            self.core.out.push_back(Output::ShutOut { session: id, addresses });
        }
    }

    /// The object server executes nothing of the session, and never will.
    pub(crate) fn fenced(&mut self, id: SessionId) {
        self.ended_further(id, |ending| ending.executes = false);
    }

    /// The store takes nothing of its client.
    pub(crate) fn shut_out(&mut self, id: SessionId) {
        self.ended_further(id, |ending| ending.reaches = false);
    }

    fn ended_further(&mut self, id: SessionId, step: impl FnOnce(&mut Ending)) {
        let Some(slot) = self.sessions.find(id) else { return };
        let Some(ending) = self.sessions.get_mut(slot).and_then(|session| session.ending.as_mut()) else { return };
        step(ending);
        if !ending.executes && !ending.reaches {
            self.free_session(slot);
        }
    }

    /// All that a session held is free: nothing of it can take effect any more.
    pub(crate) fn free_session(&mut self, slot: Slot) {
        let Some(session) = self.sessions.remove(slot) else { return };
        self.commit(None, &[Event::SessionGone(session.id)]);
        self.cluster.drop_jobs(&mut self.core, slot);
        self.cluster.exports.forget_moved_handles(slot);
        self.decoupled.lose_decoupled(&mut self.core, &mut self.sessions, &mut self.opens, slot);
        let unlocked = self.locks.end(slot);
        self.grant_locks(unlocked);
        let opened = self.opens.end(slot);
        for (ino, wrote) in &opened {
            if *wrote {
                self.tidy.forget(*ino);
                self.tidy.leave(*ino);
            }
            self.opens.closed(&self.core, &mut self.tidy, *ino);
        }
        // Now, not with the next tick: who waits for the file is one who writes it by then.
        opened.into_iter().filter(|(_, wrote)| *wrote).for_each(|(ino, _)| self.tidy_one(ino));
        self.leases.end(slot);
        self.end_recalls_of(slot);
        self.background.freed_slots.push(slot);
        self.check_grace();
    }

    /// A client tells by what the store knows it. Who may change nothing has a key that cannot either, and would name others; who is
    /// known by his user alone might, too.
    pub(crate) fn take_address(&mut self, job: &Job, address: &[u8]) -> FsResult<Answer> {
        if self.core.config.direct.is_none() || address.is_empty() {
            return Err(FsError::NotSupported);
        }
        let Some(session) = self.sessions.same(job.slot, job.session) else { return Err(FsError::Stale) };
        if session.client == 0 {
            return Err(FsError::NotSupported);
        }
        let Some(conn) = session.conn else { return Err(FsError::Stale) };
        let Some(peer) = self.sessions.conns.get(&conn).map(|conn| &conn.peer) else { return Err(FsError::Stale) };
        if peer.limited().is_some() {
            // The store asks nothing about paths, and whose address it says, its own or a server's, nobody knows.
            return Err(FsError::NotSupported);
        }
        if peer.is_read_only() {
            return Ok(Answer::Done);
        }
        if !peer.trusted && peer.identity.is_none() {
            return Err(FsError::NotAuthorized);
        }
        let Some(session) = self.sessions.get_mut(job.slot) else { return Err(FsError::Stale) };
        session.add_address(address);
        let record = session.record();
        self.commit(Some(origin_of(job, loligo_types::Ino(0), 0)), &[Event::Session(record)]);
        Ok(Answer::Done)
    }
}

impl Sessions {
    /// True if what a session holds is others' only some time after its end was decided.
    pub(crate) fn ends_in_steps(&self, core: &Core, slot: Slot) -> bool {
        core.config.direct.is_some() || self.get(slot).is_some_and(|session| !session.addresses.is_empty())
    }
}

impl Cluster {
    /// Nothing that a session has asked for is done any more.
    fn drop_jobs(&mut self, core: &mut Core, slot: Slot) {
        for mut job in core.parked.take_session(slot) {
            core.parked.unmark(&mut job);
            self.borrowing.give_back(core, &mut job, false);
        }
    }
}
