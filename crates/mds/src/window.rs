//! Window of a session's requests from the oldest unanswered one on: exactly-once. One per session.

use std::collections::VecDeque;

use loligo_types::{Ino, Seq};

/// Most requests between the oldest unanswered and the newest.
pub(crate) const WINDOW_MAX: u64 = 1 << 17;

/// Of one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Never seen, or answered without a change: may be executed (again).
    Free,
    /// Being executed.
    Running,
    /// Answered without a change, over a later connection than it came on: the client sent it again before it had the
    /// answer. Executed then, it might succeed after it has failed.
    Told,
    /// Changed something; the answer is on its way.
    Applied(Ino, u64),
    /// Changed something; the answer was sent, or was there before a restart.
    Done(Ino, u64),
}

/// Verdict about a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Execute it.
    New,
    /// It was executed: make the answer again from these.
    Again(Ino, u64),
    /// It is being executed: its answer will come.
    Running,
    /// The client had its answer.
    Old,
    /// Too far ahead of the oldest unanswered one.
    TooFar,
}

/// The requests of a session.
#[derive(Default)]
pub(crate) struct Window {
    /// Number of the first in `states`: all below were answered.
    base: u64,
    states: VecDeque<State>,
    running: usize,
    /// Those below came over an earlier connection.
    carried: u64,
}

impl Window {
    /// As a restart finds it.
    pub(crate) fn restore(answered: Seq, done: &[(Seq, Ino, u64)]) -> Window {
        let mut window = Window { base: answered.0.max(1), ..Window::default() };
        done.iter().for_each(|(seq, ino, value)| window.replay(*seq, *ino, *value));
        window
    }

    /// True if the oldest unanswered request lies so far back that long waits should end.
    pub(crate) fn is_stretched(&self) -> bool {
        self.states.len() as u64 > WINDOW_MAX / 2
    }

    /// True if the session ever sent a request.
    pub(crate) fn is_used(&self) -> bool {
        self.base > 1 || self.states.iter().any(|state| *state != State::Free)
    }

    /// Requests being executed.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// All below this were answered.
    pub(crate) fn answered(&self) -> Seq {
        Seq(self.base)
    }

    /// The executed ones, ascending.
    pub(crate) fn done(&self) -> Vec<(Seq, Ino, u64)> {
        let numbered = self.states.iter().enumerate();
        let done = numbered.filter_map(|(i, state)| match state {
            State::Applied(ino, value) | State::Done(ino, value) => Some((Seq(self.base + i as u64), *ino, *value)),
            _ => None,
        });
        done.collect()
    }

    /// The client says that it had all answers below this. It says so of no request that still runs, so a number
    /// beyond such a one goes only up to it.
    pub(crate) fn forget_below(&mut self, answered: Seq) {
        while self.base < answered.0 {
            match self.states.front() {
                Some(State::Running | State::Applied(..)) => return,
                Some(_) => drop(self.states.pop_front()),
                None => {
                    self.base = answered.0;
                    return;
                }
            }
            self.base += 1;
        }
    }

    /// The session has a new connection: what was not answered will come again, once, and answers may be lost with the
    /// old one.
    pub(crate) fn reconnected(&mut self) {
        self.carried = self.base + self.states.len() as u64;
        for state in self.states.iter_mut().filter(|state| **state == State::Told) {
            *state = State::Free;
        }
    }

    /// A request came.
    pub(crate) fn admit(&mut self, seq: Seq) -> Verdict {
        self.base = self.base.max(1);
        if seq.0 < self.base {
            return Verdict::Old;
        }
        let Some(state) = self.at(seq) else { return Verdict::TooFar };
        match *state {
            State::Free => {
                *state = State::Running;
                self.running += 1;
                Verdict::New
            }
            State::Running | State::Applied(..) => Verdict::Running,
            State::Told => Verdict::Old,
            State::Done(ino, value) => Verdict::Again(ino, value),
        }
    }

    /// It changed something.
    pub(crate) fn applied(&mut self, seq: Seq, ino: Ino, value: u64) {
        // What was done before, and is only answered again, is not under way.
        if let Some(state) = self.at(seq)
            && matches!(state, State::Running | State::Applied(..))
        {
            *state = State::Applied(ino, value);
        }
    }

    /// Its answer leaves.
    pub(crate) fn answer(&mut self, seq: Seq) {
        if seq.0 < self.base {
            return;
        }
        let carried = self.carried;
        let Some(state) = self.at(seq) else { return };
        match *state {
            State::Running if seq.0 < carried => *state = State::Told,
            State::Running => *state = State::Free,
            State::Applied(ino, value) => *state = State::Done(ino, value),
            _ => return,
        }
        self.running -= 1;
    }

    /// A record of the journal says that it was executed.
    pub(crate) fn replay(&mut self, seq: Seq, ino: Ino, value: u64) {
        self.base = self.base.max(1);
        if seq.0 >= self.base
            && let Some(state) = self.at(seq)
        {
            *state = State::Done(ino, value);
        }
    }

    fn at(&mut self, seq: Seq) -> Option<&mut State> {
        let index = seq.0.checked_sub(self.base)?;
        if index >= WINDOW_MAX {
            return None;
        }
        let index = index as usize;
        if index >= self.states.len() {
            self.states.resize(index + 1, State::Free);
        }
        self.states.get_mut(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_executed_once() {
        let mut window = Window::default();
        assert_eq!(window.admit(Seq(1)), Verdict::New);
        assert_eq!(window.admit(Seq(1)), Verdict::Running);
        window.applied(Seq(1), Ino(7), 3);
        assert_eq!(window.admit(Seq(1)), Verdict::Running);
        window.answer(Seq(1));
        assert_eq!(window.admit(Seq(1)), Verdict::Again(Ino(7), 3));
        window.forget_below(Seq(2));
        assert_eq!(window.admit(Seq(1)), Verdict::Old);
        assert_eq!(window.running(), 0);
    }

    #[test]
    fn what_changed_nothing_may_be_repeated() {
        let mut window = Window::default();
        assert_eq!(window.admit(Seq(1)), Verdict::New);
        window.answer(Seq(1));
        assert_eq!(window.admit(Seq(1)), Verdict::New);
    }

    #[test]
    fn a_hostile_number_takes_no_memory() {
        let mut window = Window::default();
        assert_eq!(window.admit(Seq(u64::MAX)), Verdict::TooFar);
        assert_eq!(window.admit(Seq(0)), Verdict::Old);
        window.forget_below(Seq(u64::MAX - 1));
        assert_eq!(window.admit(Seq(u64::MAX)), Verdict::New);
        assert!(window.states.len() <= 2);
    }

    #[test]
    fn a_running_request_is_never_forgotten() {
        let mut window = Window::default();
        window.admit(Seq(1));
        window.forget_below(Seq(5));
        assert_eq!(window.answered(), Seq(1));
        window.answer(Seq(1));
        window.forget_below(Seq(5));
        assert_eq!(window.answered(), Seq(5));
    }

    #[test]
    fn survives_as_a_list() {
        let mut window = Window::default();
        window.admit(Seq(1));
        window.admit(Seq(2));
        window.applied(Seq(2), Ino(9), 1);
        let mut again = Window::restore(window.answered(), &window.done());
        assert_eq!(again.admit(Seq(1)), Verdict::New);
        assert_eq!(again.admit(Seq(2)), Verdict::Again(Ino(9), 1));
    }
}
