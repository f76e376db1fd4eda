//! Where the lanes wait: for each other at marks, for a time, for their end. Not what they do between.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
    /// Marks that all have passed.
    passed: u64,
    /// Phases that have begun, since the beginning.
    phases: Vec<(Duration, Arc<str>)>,
    /// All are to end.
    over: bool,
}

impl State {
    /// Lets those at a mark go on, if all have come.
    fn settle(&mut self, began: Instant, changed: &Condvar) {
        if self.marked > 0 && self.marked >= self.going {
            // Taken before anybody is woken, so that no call of the new phase is older than it.
            self.phases.extend(self.name.take().map(|name| (began.elapsed(), name)));
            self.marked = 0;
            self.passed += 1;
        }
        changed.notify_all();
    }
}

impl Gate {
    /// For so many lanes, which begin now.
    pub fn new(lanes: usize) -> Gate {
        let (name, phases) = (None, Vec::new());
        let state = State { going: lanes, marked: 0, name, passed: 0, phases, over: false };
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

    /// Waits until all lanes that have not ended have come to a mark. False: it is over.
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

    /// Waits so long for the end of all lanes; whether they have.
    pub fn ended(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut state = self.state();
        while state.going > 0 {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Time is up.
    pub fn close(&self) {
        self.state().over = true;
        self.changed.notify_all();
    }

    /// Phases that have begun, since the beginning.
    pub fn phases(&self) -> Vec<(Duration, Arc<str>)> {
        self.state().phases.clone()
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
            assert!(gate.ended(LONG));
            assert!(lanes.into_iter().all(|lane| lane.join().expect("no panic")));
        });
        let names: Vec<String> = gate.phases().iter().map(|(_, name)| name.to_string()).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn when_it_is_over_nobody_waits() {
        let gate = Gate::new(2);
        std::thread::scope(|scope| {
            let marked = scope.spawn(|| gate.mark("a".into()));
            let resting = scope.spawn(|| gate.rest(Instant::now() + LONG));
            gate.close();
            assert!(!marked.join().expect("no panic") && !resting.join().expect("no panic"));
        });
    }
}
