//! Inode numbers that ranks have given before they are used (`Config::ino_grant`): a creation names one, so that its number
//! is known before it is answered. Off as a rule: the numbers are lost when the session ends. They are asked for in `request`.

use std::collections::VecDeque;

use loligo_types::{Answer, FsError, FsResult, Ino, Rank};

use crate::ranks::Ranks;

/// Those of the session with one rank.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// Named by no request: from, and up to but without.
    free: VecDeque<(u64, u64)>,
    pub left: u64,
    /// More were asked for.
    pub asked: bool,
    /// The rank gives no more, or does not know those that it gave: none are asked for in this session.
    pub refused: bool,
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
