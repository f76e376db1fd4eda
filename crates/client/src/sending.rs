//! Requests on their way to ranks: which are sent, sent again or held back. Not here: what is asked, and what is done with answers
//! (`request`).

use loligo_types::limits::IN_FLIGHT_MAX;
use loligo_types::msg::{Request, ToServer};
use loligo_types::{Control, Cred, Ino, Lease, Op, Rank, Seq};

use crate::Invalidation;
use crate::calls::Calls;
use crate::core::Core;
use crate::file::Files;
use crate::lent::AtHand;
use crate::ranks::Ranks;
use crate::session::{Link, Pending, PendingData, Then};
use crate::task::{Step, Task};

/// Requests are sent at most this far beyond the oldest unanswered one, whose followers the server must remember.
pub(crate) const WINDOW: usize = 100_000;
/// So often the clock of a rank is asked for that gives lookup leases, milliseconds.
const COMPARE_MS: u64 = 1000;

impl Ranks {
    /// Sends what is unanswered, in order.
    pub(crate) fn resend(&mut self, core: &mut Core, rank: Rank) {
        let Some(session) = self.sessions.get_mut(&rank) else { return };
        session.in_flight = 0;
        session.unsent = 0;
        session.late_below = 0;
        self.send_data(core, rank);
        self.send_requests(core, rank);
    }

    /// Sends all data requests that are unanswered, unless they must wait.
    pub(crate) fn send_data(&mut self, core: &mut Core, rank: Rank) {
        let Some(session) = self.sessions.get_mut(&rank) else { return };
        if session.data_held.is_some() {
            return;
        }
        let mut data = Vec::new();
        for pending in session.data.values_mut() {
            pending.again = false;
            data.push(pending.request.clone());
        }
        for request in data {
            self.send(core, rank, ToServer::Data(request));
        }
    }

    /// Holds data requests back until a request was answered that the server does only when it knows what is open.
    pub(crate) fn hold_data(&mut self, files: &Files, rank: Rank) {
        // Also if only files of others were claimed: one of them may be said to have moved there before it is known there.
        let (files, single) = (files, self.is_single());
        let mut claimed = files.handles.iter().filter(|(number, handle)| {
            files.at.get(number) == Some(&rank) || !single && files.map.contains_key(&handle.ino)
        });
        let Some(cred) = claimed.next().map(|(_, handle)| Cred::clone(&handle.cred)) else { return };
        let Some(session) = self.sessions.get_mut(&rank) else { return };
        let seq = session.next_seq.max(1);
        session.next_seq = seq + 1;
        session.data_held = Some(seq);
        let op = Op::Control(Control::Close { handles: Vec::new(), lost: false });
        let request = Request { seq: Seq(seq), answered: Seq(seq), want: Lease::NONE, cred, op, ino: None, ways: None };
        session.pending.insert(seq, Pending { request, then: Then::Reclaimed(seq), hops: 0 });
    }

    /// Sends requests as far as the server takes them.
    pub(crate) fn send_requests(&mut self, core: &mut Core, rank: Rank) {
        let window = core.config.some(WINDOW) as u64;
        while let Some(session) = self.sessions.get_mut(&rank) {
            if session.link != Link::Up || session.in_flight >= IN_FLIGHT_MAX {
                return;
            }
            let Some((seq, pending)) = session.pending.range(session.unsent..).next() else { return };
            let (seq, mut request) = (*seq, pending.request.clone());
            let first = session.first_unanswered();
            if seq >= first + window {
                return;
            }
            request.answered = Seq(first);
            session.unsent = seq + 1;
            session.never_sent = session.never_sent.max(seq + 1);
            session.in_flight += 1;
            self.send(core, rank, ToServer::Request(request));
        }
    }

    /// They came.
    pub(crate) fn lookup_leases_came(
        &mut self,
        core: &mut Core,
        calls: &mut Calls,
        at_hand: &mut AtHand,
        rank: Rank,
        then: &Then,
        mut ways: Vec<(Ino, u16)>,
    ) {
        if !ways.is_empty() {
            let now = core.now.ms;
            let Some(session) = self.sessions.get(&rank) else { return };
            if !session.pace.trusts(now) {
                ways.clear();
            }
            if now.saturating_sub(session.asked_life) >= COMPARE_MS {
                // They are worth something only if the clocks run alike.
                self.send(core, rank, ToServer::Ping);
            }
        }
        match then {
            Then::Task(id) if !ways.is_empty() => {
                if let Some(Task { step: Step::Open(opening), .. }) = calls.tasks.get_mut(id) {
                    opening.leased = ways;
                }
            }
            _ => at_hand.ways = ways,
        }
    }

    /// True if a restarted rank has been asked whether it has the file of a data request and has not answered yet. It may have given the
    /// file away without this client hearing of it, and refuse the request because of that. Asked once per data request.
    pub(crate) fn is_sought(&self, rank: Rank, data: &PendingData) -> bool {
        let asks = |pending: &Pending| match &pending.request.op {
            Op::GetAttr { ino } => *ino == data.request.ino,
            Op::Control(Control::GetLock { ino, .. }) => {
                *ino == data.request.ino && matches!(pending.then, Then::Verified(_))
            }
            _ => false,
        };
        let session = self.session(rank).filter(|_| data.hops == 0 && !self.is_single());
        session.is_some_and(|session| session.pending.values().any(asks))
    }

    /// Sends data requests again that the server was too busy for. In order, and all: later ones of the same file may
    /// rest on earlier ones.
    pub(crate) fn repeat_busy(&mut self, core: &mut Core, rank: Rank) {
        let Some(session) = self.sessions.get_mut(&rank) else { return };
        if session.link != Link::Up || session.data_held.is_some() {
            return;
        }
        let mut requests = Vec::new();
        for pending in session.data.values_mut().filter(|pending| pending.again) {
            pending.again = false;
            requests.push(pending.request.clone());
        }
        for request in requests {
            self.send(core, rank, ToServer::Data(request));
        }
    }

    /// Drops everything that was lent, above and here, without waiting: it may be somebody else's by now.
    pub(crate) fn drop_leases(&mut self, core: &mut Core, rank: Rank) {
        let Some(session) = self.sessions.get_mut(&rank) else { return };
        for (ino, bits) in session.leases.take_all() {
            if bits.has(Lease::NAMES) {
                core.names_lost.add(ino);
                core.invalidate(Invalidation::Names(ino), false);
            }
            if bits.has(Lease::ATTR) {
                core.invalidate(Invalidation::Attr(ino), false);
            }
        }
    }
}

impl Core {
    /// Leases that are of use with an operation.
    pub(crate) fn want(&self, op: &Op) -> Lease {
        if !self.config.cache {
            return Lease::NONE;
        }
        let want = op.props().want;
        if self.config.cache_names { want } else { want.without(Lease::NAMES) }
    }
}
