//! Answers that come after another rank was told what is held here, and may have been given before that.
//!
//! A rank that was restarted is told once what is held, of what it has and of what may have moved there. What is
//! opened or locked by an answer that was under way then is not in it. If the file has moved to that rank since it
//! was answered, and the rank that answered does not say so any more (it may have been restarted, too, and what comes
//! is from its former life), nobody there knows of it. So such an answer counts as lost, as it is when a connection is:
//! it lends nothing, and what was opened, locked or unlocked is asked once more of whoever has it now.

use loligo_types::{Answer, Lease, Rank};

use crate::ranks::Ranks;
use crate::session::Link;

impl Ranks {
    /// A rank is told what is held: the answers that are under way from others do not count in it.
    pub(crate) fn doubt_answers(&mut self, told: Rank) {
        let others = self.sessions.iter_mut().filter(|(rank, session)| **rank != told && session.link == Link::Up);
        others.for_each(|(_, session)| session.late_below = session.unsent);
    }
}

pub(crate) fn lends_nothing(answer: &mut Answer) {
    match answer {
        Answer::Opened { rights, .. } => *rights = Lease::NONE,
        Answer::Entries { entries, .. } => entries.iter_mut().for_each(|entry| entry.lease = Lease::NONE),
        Answer::Walked { last, .. } => lends_nothing(last),
        _ => {}
    }
}
