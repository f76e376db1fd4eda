//! Apply and log: a decided change gets into the tree and, as one record, on its way into the journal.

use loligo_journal::encode_record;
use loligo_namespace::{apply, apply_decided};
use loligo_types::{Event, Ino, Lsn, Origin, SessionId};

use crate::core::Core;
use crate::decouple::Decoupled;
use crate::io::Output;
use crate::machine::Mds;
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
    last_len: usize,
}

impl Mds {
    /// Applies events and gives them to the journal as one record.
    pub(crate) fn commit(&mut self, origin: Option<Origin>, events: &[Event]) -> Lsn {
        self.commit_made(origin, events, None)
    }

    /// The same; `made`: they are what an operation decided here over records of this rank alone, and this is the number it was given
    /// for a new inode.
    pub(crate) fn commit_made(&mut self, origin: Option<Origin>, events: &[Event], made: Option<Ino>) -> Lsn {
        let lsn = self.core.log.last.next();
        self.core.log.last = lsn;
        let origin = origin.map(|origin| self.sessions.remember(origin, lsn));
        let mut record = Vec::with_capacity(self.core.log.last_len + 16);
        encode_record(&mut record, origin.as_ref(), events);
        self.core.log.last_len = record.len();
        self.core.log.used += record.len() as u64;
        self.relaxed.note_relaxed(&mut self.core, &self.cluster, events, lsn, made);
        let alone = self.cluster.is_alone();
        if !alone {
            self.cluster.replicas.check_replicas(&self.core, events);
            self.decoupled.note_arrivals(&self.core, events);
        }
        self.promises.check_promises(&self.core, events);
        for event in events {
            self.shortcuts.note(&self.core.tree, event);
            if !alone {
                self.note_for_others(event);
            }
            match made {
                // It gets into memory in steps.
                _ if matches!(event, Event::Merge { .. }) => {}
                Some(made) => apply_decided(&mut self.core.tree, event, lsn, made),
                None => apply(&mut self.core.tree, event, lsn),
            }
            match event {
                Event::Discard { ino, from, object_size } => {
                    self.discards.add(*ino, *from, *object_size, lsn);
                    self.tidy.dropped(&self.opens, *ino);
                }
                Event::InodeGone(ino) => {
                    self.leases.forget(*ino);
                    self.decoupled.note_promise(event);
                }
                Event::Merge { dir } => self.core.tree.begin_merge(*dir),
                Event::Letter { to, seq, letter } => self.cluster.peers.letter_written(*to, *seq, letter, lsn),
                Event::Route(route) => {
                    self.cluster.atlas.route_written(&mut self.core, &self.cluster.peers, &mut self.balance, *route)
                }
                Event::RouteGone(dir) => self.cluster.atlas.route_gone(&mut self.core, &self.cluster.peers, *dir),
                Event::Xattr { .. } | Event::XattrGone { .. } => {
                    self.cluster.placement.note_pin(event);
                    self.decoupled.note_promise(event);
                }
                _ => {}
            }
        }
        let recuts = self.core.tree.take_recuts();
        if !recuts.is_empty() {
            self.heat.recut(&mut self.core, &mut self.cluster, recuts);
        }
        if let Some(tail) = &mut self.cluster.exports.tail {
            tail.add(events, self.core.log.last_len);
        }
        self.core.out.push_back(Output::Append { lsn, record });
        lsn
    }
}

impl Sessions {
    /// The session's window knows the change from now on.
    fn remember(&mut self, mut origin: Origin, lsn: Lsn) -> Origin {
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
