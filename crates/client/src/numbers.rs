//! Inode numbers that ranks have given before they are used (`Config::ino_grant`): a creation names one, so that its number
//! is known before it is answered. Off as a rule: the numbers are lost when the session ends.

use std::collections::VecDeque;

use loligo_types::{Answer, Cred, FsError, FsResult, Ino, Op, Rank, limits};

use crate::machine::Client;
use crate::ranks::Ranks;
use crate::session::Then;

/// Those of the session with one rank.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// Named by no request: from, and up to but without.
    free: VecDeque<(u64, u64)>,
    left: u64,
    /// More were asked for.
    asked: bool,
    /// The rank gives no more, or does not know those that it gave: none are asked for in this session.
    refused: bool,
}

impl Numbers {
    /// The next one, if there is one.
    pub(crate) fn take(&mut self) -> Option<Ino> {
        let (from, to) = self.free.pop_front()?;
        if from + 1 < to {
            self.free.push_front((from + 1, to));
        }
        self.left -= 1;
        Some(Ino(from))
    }

    /// A number that has made nothing.
    pub(crate) fn give_back(&mut self, ino: Ino) {
        if !self.refused {
            self.free.push_front((ino.0, ino.0 + 1));
            self.left += 1;
        }
    }

    /// A request that named a number was answered.
    pub(crate) fn answered(&mut self, ino: Option<Ino>, result: &FsResult<Answer>) {
        let Some(ino) = ino else { return };
        match result {
            Ok(answer) if answer.attr().is_some_and(|attr| attr.ino == ino) => {}
            // It may have made something that is gone since: a repeated request is answered so.
            Err(FsError::Stale) => {}
            Err(FsError::NotGranted | FsError::NumberUsed) => *self = Numbers { refused: true, ..Numbers::default() },
            // Nothing was made, or the name was there.
            _ => self.give_back(ino),
        }
    }
}

impl Ranks {
    /// They came, or not.
    pub(crate) fn numbers_came(&mut self, rank: Rank, result: &FsResult<Answer>) {
        let Some(session) = self.sessions.get_mut(&rank) else { return };
        session.numbers.asked = false;
        match result {
            Ok(Answer::Inos { first, count }) => {
                session.numbers.free.push_back((first.0, first.0.saturating_add(u64::from(*count))));
                session.numbers.left += u64::from(*count);
            }
            _ => session.numbers.refused = true,
        }
    }
}

impl Client {
    /// Asks for more numbers if something is to be made, and less than half of them are left.
    pub(crate) fn refill_numbers(&mut self, rank: Rank, cred: &Cred, op: &Op) {
        // Those of requests under way count as given, too.
        let wanted = u64::from(self.core.config.ino_grant.min(limits::INO_GRANT_MAX / 2));
        if wanted == 0 || !op.makes_inode() {
            return;
        }
        let numbers = &mut self.ranks.open_session(&mut self.core, rank).numbers;
        if numbers.asked || numbers.refused || numbers.left > wanted / 2 {
            return;
        }
        let Ok(count) = u32::try_from(wanted - numbers.left) else { return };
        numbers.asked = true;
        self.request_at(rank, cred.clone(), Op::GrantInos { count }, Then::Numbers, 0);
    }
}
