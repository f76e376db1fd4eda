//! Answers that come after another rank was told what is held here, and may have been given before that.
//!
//! A rank that was restarted is told once what is held, of what it has and of what may have moved there. What is
//! opened or locked by an answer that was under way then is not in it. If the file has moved to that rank since it
//! was answered, and the rank that answered does not say so any more (it may have been restarted, too, and what comes
//! is from its former life), nobody there knows of it. So such an answer counts as lost, as it is when a connection is:
//! it lends nothing, and what was opened, locked or unlocked is asked once more of whoever has it now.

use std::sync::Arc;

use loligo_types::{Answer, FsResult, Lease, Op, OpenFlags, Rank};

use crate::machine::Client;
use crate::ranks::Ranks;
use crate::recover::waiter_of;
use crate::session::{Link, Pending, Second, Then};

impl Ranks {
    /// A rank is told what is held: the answers that are under way from others do not count in it.
    pub(crate) fn doubt_answers(&mut self, told: Rank) {
        let others = self.sessions.iter_mut().filter(|(rank, session)| **rank != told && session.link == Link::Up);
        others.for_each(|(_, session)| session.late_below = session.unsent);
    }
}

impl Client {
    /// Such an answer came: asks again, or gives back what it is for, if the answer (without what it lends) is as good as any.
    pub(crate) fn ask_once_more(&mut self, pending: Pending, result: &mut FsResult<Answer>) -> Option<Pending> {
        let Ok(answer) = result else { return Some(pending) };
        lends_nothing(answer);
        let gives_back = matches!(pending.request.op, Op::Unlock { .. });
        if !gives_back && waiter_of(&pending.then).is_none_or(|waiter| !self.calls.is_awaited(waiter)) {
            // Nobody waits for it: what it has got is given back.
            return Some(pending);
        }
        let cred = Arc::new(pending.request.cred.clone());
        match (answer, pending.request.op.opens()) {
            (Answer::Opened { attr, created, .. }, Some((handle, flags))) => {
                // It was cut when it was opened first.
                let op = Op::Open { ino: attr.ino, flags: OpenFlags { truncate: false, ..flags }, handle };
                let second = Second { names: None, created: Some(*created), then: pending.then };
                self.request(&cred, op, Then::Second(Box::new(second)));
                None
            }
            (Answer::Done, None) if matches!(pending.request.op, Op::SetLock { .. } | Op::Unlock { .. }) => {
                self.request(&cred, pending.request.op, pending.then);
                None
            }
            _ => Some(pending),
        }
    }
}

fn lends_nothing(answer: &mut Answer) {
    match answer {
        Answer::Opened { rights, .. } => *rights = Lease::NONE,
        Answer::Entries { entries, .. } => entries.iter_mut().for_each(|entry| entry.lease = Lease::NONE),
        Answer::Walked { last, .. } => lends_nothing(last),
        _ => {}
    }
}
