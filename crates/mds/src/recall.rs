//! Asking leases and rights back. A recall waits for its answer, or for the end of the session.
//!
//! Who does not obey may not even have heard of it, and is not sure to hear that the session is over. So it gets no sign of life
//! any more until it obeys, and is evicted when it cannot rely by its own clock on anything it was lent.

use std::collections::BTreeMap;

use loligo_types::msg::ToClient;
use loligo_types::{Ino, Lease};

use crate::core::Core;
use crate::eof_cleanup::EofCleanup;
use crate::io::Output;
use crate::lease::Leases;
use crate::open::Opens;
use crate::session::{Session, Sessions, Slot};

/// Bits that the leases hold; the others are rights that come with opens.
pub(crate) const SHARED: Lease = Lease(Lease::ATTR.0 | Lease::NAMES.0);
/// Bits that come with opens.
pub(crate) const DATA: Lease = Lease(Lease::CACHE.0 | Lease::BUFFER.0);

pub(crate) struct Recall {
    pub(crate) ino: Ino,
    pub(crate) slot: Slot,
    pub(crate) bits: Lease,
    pub(crate) since_ms: u64,
    /// Asked for only because the session holds too much.
    shed: bool,
    waiters: Vec<u64>,
}

/// Recalls that were not answered yet.
#[derive(Default)]
pub(crate) struct Recalls {
    last: u64,
    by_id: BTreeMap<u64, Recall>,
    by_ino: BTreeMap<Ino, Vec<u64>>,
}

impl Recalls {
    /// Numbers from here on, so that what a client says of a recall of an earlier life of the server meets none of this.
    pub(crate) fn begin(&mut self, from: u64) {
        self.last = self.last.max(from);
    }

    /// The bits that are being asked back from the session.
    #[inline]
    pub(crate) fn pending(&self, ino: Ino, slot: Slot) -> Lease {
        if self.by_ino.is_empty() {
            return Lease::NONE;
        }
        let of_it = self.of(ino).filter(|(_, recall)| recall.slot == slot);
        of_it.fold(Lease::NONE, |all, (_, recall)| all | recall.bits)
    }

    /// All of before that moment, oldest first, milliseconds.
    pub(crate) fn older_than(&self, ms: u64) -> impl Iterator<Item = &Recall> + '_ {
        self.by_id.values().take_while(move |recall| recall.since_ms < ms)
    }

    /// Gives the sessions so much more time to answer, milliseconds.
    pub(crate) fn wait_longer(&mut self, ms: u64) {
        self.by_id.values_mut().for_each(|recall| recall.since_ms += ms);
    }

    /// Number of recalls.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    fn of(&self, ino: Ino) -> impl Iterator<Item = (u64, &Recall)> + '_ {
        let ids = self.by_ino.get(&ino).map_or(&[][..], |ids| ids);
        ids.iter().filter_map(|id| Some((*id, self.by_id.get(id)?)))
    }

    /// One under way that asks for all of this. A FLUSH never counts: what was written after it is not in it.
    fn covering(&self, ino: Ino, slot: Slot, bits: Lease) -> Option<u64> {
        if bits.has(Lease::FLUSH) {
            return None;
        }
        self.of(ino).find(|(_, recall)| recall.slot == slot && recall.bits.has(bits)).map(|(id, _)| id)
    }

    /// True if this was asked of the session.
    pub(crate) fn is_asked(&self, slot: Slot, ino: Ino, id: u64) -> bool {
        self.by_id.get(&id).is_some_and(|recall| recall.slot == slot && recall.ino == ino)
    }

    /// The numbers of all that a session was asked for.
    pub(crate) fn ids_of(&self, slot: Slot) -> Vec<u64> {
        self.by_id.iter().filter(|(_, recall)| recall.slot == slot).map(|(id, _)| *id).collect()
    }

    /// The end of a recall: its bits are given back, or lost. False if nothing was asked.
    pub(crate) fn end(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        leases: &mut Leases,
        opens: &mut Opens,
        id: u64,
    ) -> bool {
        let Some(recall) = self.remove(id) else { return false };
        leases.take(recall.ino, recall.slot, recall.bits & SHARED);
        opens.take(recall.ino, recall.slot, recall.bits & DATA);
        if recall.shed
            && let Some(session) = sessions.get_mut(recall.slot)
        {
            session.shedding = session.shedding.saturating_sub(1);
        }
        recall.waiters.into_iter().for_each(|job| core.parked.less(job));
        true
    }

    fn remove(&mut self, id: u64) -> Option<Recall> {
        let recall = self.by_id.remove(&id)?;
        if let Some(ids) = self.by_ino.get_mut(&recall.ino) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_ino.remove(&recall.ino);
            }
        }
        Some(recall)
    }

    /// Sessions that have not obeyed, and rely on nothing any more.
    pub(crate) fn disobedient(&self, core: &Core, sessions: &Sessions, opens: &Opens, tidy: &EofCleanup) -> Vec<Slot> {
        let relies = |session: &Session| core.now.mono_ms <= session.assured_ms + u64::from(core.config.session_ms);
        let overdue = self.older_than(core.overdue_ms(0)).map(|recall| recall.slot);
        let overdue = overdue.chain(opens.slow_writers(tidy, core.overdue_ms(0)));
        overdue.filter(|slot| sessions.get(*slot).is_some_and(|session| !relies(session))).collect()
    }

    /// A session asks whether it is heard.
    pub(crate) fn ping(&self, core: &mut Core, sessions: &mut Sessions, opens: &Opens, tidy: &EofCleanup, slot: Slot) {
        if let Some(session) = sessions.get_mut(slot) {
            session.pongs_owed += 1;
        }
        self.pay_pongs(core, sessions, opens, tidy, slot);
    }

    /// Tells a session that it is heard, as often as it has asked.
    pub(crate) fn pay_pongs(
        &self,
        core: &mut Core,
        sessions: &mut Sessions,
        opens: &Opens,
        tidy: &EofCleanup,
        slot: Slot,
    ) {
        if self.is_overdue(core, opens, tidy, slot, 0) {
            return;
        }
        let now_ms = core.now.mono_ms;
        let Some(session) = sessions.get_mut(slot) else { return };
        let owed = std::mem::take(&mut session.pongs_owed);
        let Some(conn) = session.conn.filter(|_| owed > 0) else { return };
        session.assured_ms = now_ms;
        for _ in 0..owed {
            core.out.push_back(Output::Send { conn, msg: ToClient::Pong { at_ms: now_ms.max(1) } });
        }
    }

    /// Asks a session for leases because it holds too many. Nobody waits.
    pub(crate) fn shed(&mut self, core: &mut Core, sessions: &mut Sessions, ino: Ino, slot: Slot, bits: Lease) {
        let before = self.last;
        self.recall(core, sessions, ino, slot, bits, 0);
        if self.last > before
            && let Some(recall) = self.by_id.get_mut(&self.last)
        {
            recall.shed = true;
            if let Some(session) = sessions.get_mut(slot) {
                session.shedding += 1;
            }
        }
    }

    /// True if the session has not obeyed a recall, or held up others with room that it has reserved, for `recall_ms`, and so much longer,
    /// milliseconds.
    pub(crate) fn is_overdue(&self, core: &Core, opens: &Opens, tidy: &EofCleanup, slot: Slot, longer_ms: u32) -> bool {
        let overdue_ms = core.overdue_ms(longer_ms);
        self.older_than(overdue_ms).any(|recall| recall.slot == slot)
            || opens.slow_writers(tidy, overdue_ms).any(|slow| slow == slot)
    }

    /// The session has a new connection: what was asked on the old one may be lost.
    pub(crate) fn repeat_recalls(&self, core: &mut Core, sessions: &Sessions, slot: Slot) {
        let Some(conn) = sessions.get(slot).and_then(|session| session.conn) else { return };
        for (id, recall) in self.by_id.iter().filter(|(_, recall)| recall.slot == slot) {
            let msg = ToClient::Recall { ino: recall.ino, id: *id, bits: recall.bits };
            core.out.push_back(Output::Send { conn, msg });
        }
    }

    /// Asks bits back, for a request (or for nobody: 0) to wait for.
    pub(crate) fn recall(&mut self, core: &mut Core, sessions: &Sessions, ino: Ino, slot: Slot, bits: Lease, job: u64) {
        let waiters = if job == 0 { Vec::new() } else { vec![job] };
        if let Some(id) = self.covering(ino, slot, bits) {
            if let Some(recall) = self.by_id.get_mut(&id) {
                recall.waiters.extend(waiters);
            }
            return;
        }
        self.last += 1;
        let id = self.last;
        let since_ms = core.now.mono_ms;
        self.by_id.insert(id, Recall { ino, slot, bits, since_ms, shed: false, waiters });
        self.by_ino.entry(ino).or_default().push(id);
        core.counters.recalls += 1;
        if let Some(conn) = sessions.get(slot).and_then(|session| session.conn) {
            core.out.push_back(Output::Send { conn, msg: ToClient::Recall { ino, id, bits } });
        }
    }
}

impl Core {
    /// Recalls of before are overdue, milliseconds.
    fn overdue_ms(&self, longer_ms: u32) -> u64 {
        self.now.mono_ms.saturating_sub(u64::from(self.config.recall_ms) + u64::from(longer_ms))
    }
}
