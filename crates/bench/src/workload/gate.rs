//! Where the lanes wait: for each other at marks, until that was looked at, for a time, for their end. Not what they do between, nor who looks.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// State of the lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Come {
    /// Nothing yet.
    Nowhere,
    /// All that have not ended wait at a mark, since then.
    Mark(Duration),
    /// All have ended.
    End,
}

/// All lanes of a run.
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    began: Instant,
}

struct State {
    /// Lanes that have not ended.
    going: usize,
    /// Those that wait at a mark.
    marked: usize,
    /// Name of the phase that begins when all have come: that of the lane that came first.
    name: Option<Arc<str>>,
    /// When all had come to a mark; they wait there until [`Gate::open`].
    come: Option<Duration>,
    /// Marks that all have passed.
    passed: u64,
    /// All are to end.
    over: bool,
}

impl State {
    /// Says so if all have come to a mark.
    fn settle(&mut self, began: Instant, changed: &Condvar) {
        if self.marked > 0 && self.marked >= self.going {
            self.come.get_or_insert_with(|| began.elapsed());
        }
        changed.notify_all();
    }
}

impl Gate {
    /// For so many lanes, which begin now.
    pub fn new(lanes: usize) -> Gate {
        let state = State { going: lanes, marked: 0, name: None, come: None, passed: 0, over: false };
        Gate { state: Mutex::new(state), changed: Condvar::new(), began: Instant::now() }
    }

    /// When the lanes began.
    pub fn began(&self) -> Instant {
        self.began
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Numbers that are right after each step: those of a thread that has panicked are no worse.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all lanes that have not ended have come to a mark and it is opened. False: it is over.
    pub fn mark(&self, name: Arc<str>) -> bool {
        let mut state = self.state();
        state.name.get_or_insert(name);
        state.marked += 1;
        let mine = state.passed;
        state.settle(self.began, &self.changed);
        while state.passed == mine && !state.over {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.over
    }

    /// Waits until this time. False: it is over.
    pub fn rest(&self, until: Instant) -> bool {
        let mut state = self.state();
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            if state.over || rest.is_zero() {
                return !state.over;
            }
            state = self.changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A lane has ended.
    pub fn end(&self) {
        let mut state = self.state();
        state.going -= 1;
        state.settle(self.began, &self.changed);
    }

    /// Waits so long for all lanes to come to a mark or to their end.
    pub fn come(&self, patience: Duration) -> Come {
        let until = Instant::now() + patience;
        let mut state = self.state();
        loop {
            match state.come {
                _ if state.going == 0 => return Come::End,
                Some(at) if !state.over => return Come::Mark(at),
                _ => {}
            }
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return Come::Nowhere;
            }
            state = self.changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Lets those at the mark go on; the name of the phase that begins, and when.
    pub fn open(&self) -> (Duration, Arc<str>) {
        let mut state = self.state();
        // Taken before anybody is woken, so that no call of the new phase is older than it.
        let begins = (self.began.elapsed(), state.name.take().unwrap_or_default());
        (state.come, state.marked) = (None, 0);
        state.passed += 1;
        self.changed.notify_all();
        begins
    }

    /// Time is up.
    pub fn close(&self) {
        self.state().over = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For a gate that never opens; no test waits for it to pass.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn lanes_wait_at_a_mark_for_those_that_go_on_and_not_for_those_that_have_ended() {
        let gate = Gate::new(3);
        std::thread::scope(|scope| {
            let lanes = [(); 2].map(|()| {
                scope.spawn(|| {
                    let passed = gate.mark("a".into()) && gate.mark("b".into());
                    gate.end();
                    passed
                })
            });
            gate.end();
            for name in ["a", "b"] {
                assert!(matches!(gate.come(LONG), Come::Mark(_)));
                assert_eq!(&*gate.open().1, name);
            }
            assert_eq!(gate.come(LONG), Come::End);
            assert!(lanes.into_iter().all(|lane| lane.join().expect("no panic")));
        });
    }

    #[test]
    fn when_it_is_over_nobody_waits() {
        let gate = Gate::new(2);
        std::thread::scope(|scope| {
            let marked = scope.spawn(|| gate.mark("a".into()));
            let resting = scope.spawn(|| gate.rest(Instant::now() + LONG));
            assert_eq!(gate.come(Duration::ZERO), Come::Nowhere, "one rests");
            gate.close();
            assert!(!marked.join().expect("no panic") && !resting.join().expect("no panic"));
        });
    }
}
