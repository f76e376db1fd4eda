//! The thread of a rank that asks the policy in force what is to move. It may take as long as it likes: the rank goes on, and
//! without an answer nothing moves. What fails is told, and after some failures in a row the keeper gives the policy up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use loligo_policy::balance::{Outcome, Policy};
use loligo_policy::{Limits, Streak, Value};
use loligo_types::link::Member;
use loligo_types::{Decision, PolicyId, Rank, Snapshot};

use super::super::queue::{Inbox, Queue};
use super::super::rank::Done;
use super::Notes;

/// Ticks that are remembered for those who ask how they came to be.
const TICKS_MAX: usize = 64;

/// What is asked of the thread.
#[derive(Debug)]
pub(crate) enum Work {
    /// What is to move?
    Decide(Box<Snapshot>),
}

/// A tick of the balancer, for people.
#[derive(Clone, PartialEq, Debug)]
pub struct Tick {
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// Number of the tick.
    pub tick: u64,
    /// By which policy.
    pub policy: PolicyId,
    /// What each hook saw and answered, as lines.
    pub lines: Vec<String>,
    /// How many moves were wanted.
    pub moves: usize,
    /// What went wrong; nothing moved then.
    pub fault: Option<String>,
    /// How long the decision took, microseconds.
    pub took_us: u64,
}

/// How the policy does at a rank.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AdviceStatus {
    /// Decisions so far.
    pub decisions: u64,
    /// Of those, failed.
    pub faults: u64,
    /// What went wrong with the last one.
    pub fault: Option<String>,
    /// How long the last one took, microseconds.
    pub took_us: u64,
}

/// What the thread lets others see.
#[derive(Default)]
pub(crate) struct Advice {
    seen: Mutex<(AdviceStatus, VecDeque<Tick>)>,
}

impl Advice {
    fn lock(&self) -> MutexGuard<'_, (AdviceStatus, VecDeque<Tick>)> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self) -> AdviceStatus {
        self.lock().0.clone()
    }

    /// The last ticks, the newest last.
    pub(crate) fn ticks(&self) -> Vec<Tick> {
        self.lock().1.iter().cloned().collect()
    }

    fn put(&self, tick: Tick) {
        let mut seen = self.lock();
        seen.0.decisions += 1;
        seen.0.faults += u64::from(tick.fault.is_some());
        seen.0.fault.clone_from(&tick.fault);
        seen.0.took_us = tick.took_us;
        seen.1.push_back(tick);
        if seen.1.len() > TICKS_MAX {
            seen.1.pop_front();
        }
    }
}

/// A policy that was read, and what it remembers.
struct Loaded {
    id: PolicyId,
    /// Or why it could not be.
    policy: Result<Policy, String>,
    state: Option<Value>,
}

pub(crate) struct Adviser {
    pub(crate) rank: Rank,
    pub(crate) notes: Notes,
    pub(crate) advice: Arc<Advice>,
    pub(crate) limits: Limits,
}

pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl Adviser {
    /// Runs until the queue is closed.
    pub(crate) fn run(self, queue: &Queue<Work>, inbox: &Inbox<Done>) {
        let (mut loaded, mut streak, mut lines): (Option<Loaded>, _, _) = (None, Streak::default(), 0);
        while let Some(work) = queue.take(1) {
            for Work::Decide(snapshot) in work {
                // One that could not be read is tried again: the store may answer by now.
                if loaded.as_ref().is_none_or(|l| l.id != snapshot.policy || l.policy.is_err()) {
                    if loaded.as_ref().is_some_and(|l| l.id != snapshot.policy) {
                        streak = Streak::default();
                    }
                    loaded = Some(self.load(snapshot.policy));
                }
                let Some(known) = &mut loaded else { continue };
                let begun = std::time::Instant::now();
                let outcome = self.ask(known, &snapshot);
                let took_us = begun.elapsed().as_micros() as u64;
                let (decision, tick) = self.tell(&snapshot, outcome, took_us, &mut lines);
                if let Some(fault) = &tick.fault {
                    tracing::warn!("the balancer's policy {} fails: {fault}; nothing moves", snapshot.policy.0);
                }
                if streak.note(tick.fault.is_some()) {
                    let why = tick.fault.clone().unwrap_or_default();
                    inbox.push(Done::Say(Member::BadPolicy { policy: snapshot.policy, why }));
                }
                self.advice.put(tick);
                inbox.push(Done::Decided(decision));
            }
        }
    }

    fn load(&self, id: PolicyId) -> Loaded {
        let read = || -> Result<(Policy, Option<Value>), String> {
            let version = self.notes.version(id).map_err(|e| e.to_string())?;
            let version = version.ok_or_else(|| format!("the table does not have policy {}", id.0))?;
            let policy = Policy::load(&version.name, &version.text, &self.limits).map_err(|e| e.to_string())?;
            let state = self.notes.state(id, self.rank).map_err(|e| e.to_string())?;
            Ok((policy, state))
        };
        match read() {
            Ok((policy, state)) => Loaded { id, policy: Ok(policy), state },
            Err(why) => Loaded { id, policy: Err(why), state: None },
        }
    }

    fn ask(&self, known: &mut Loaded, snapshot: &Snapshot) -> Result<Outcome, String> {
        let policy = known.policy.as_mut().map_err(|why| why.clone())?;
        let before = known.state;
        let outcome = policy.decide(snapshot, &mut known.state);
        if known.state != before
            && let Some(value) = known.state
            && let Err(error) = self.notes.set_state(known.id, self.rank, value)
        {
            // It is remembered as long as this server runs.
            tracing::warn!("what policy {} remembers could not be put down: {error}", known.id.0);
        }
        Ok(outcome)
    }

    fn tell(
        &self,
        snapshot: &Snapshot,
        outcome: Result<Outcome, String>,
        took_us: u64,
        count: &mut u32,
    ) -> (Decision, Tick) {
        let nothing = Decision { tick: snapshot.tick, ..Decision::default() };
        let (decision, lines, fault) = match outcome {
            Ok(outcome) => (outcome.decision, outcome.explain.lines(), outcome.fault.map(|fault| fault.to_string())),
            Err(why) => (nothing, Vec::new(), Some(why)),
        };
        let (at_ms, policy, moves) = (now_ms(), snapshot.policy, decision.moves.len());
        let mut log: Vec<String> = Vec::new();
        log.extend(fault.iter().map(|fault| format!("policy {} failed: {fault}", policy.0)));
        for one in &decision.moves {
            let frag = one.piece.frag.map_or(String::new(), |frag| format!(" fragment {frag}"));
            let (dir, to, load) = (one.piece.dir, one.to, one.load);
            log.push(format!("policy {}: directory {dir}{frag} to rank {to}, load {load:.1}", policy.0));
        }
        for line in log {
            if let Err(error) = self.notes.log(Some(self.rank), at_ms, count, &line) {
                tracing::warn!("the log of balancers could not be written: {error}");
            }
        }
        (decision, Tick { at_ms, tick: snapshot.tick, policy, lines, moves, fault, took_us })
    }
}

#[cfg(test)]
mod tests {
    use loligo_store::mem::MemDisk;
    use loligo_store::{Backend, Identity};
    use loligo_types::RankView;

    use super::*;
    use crate::sock::Waker;

    const ASKS: &str = "when = 'WRstate(RDstate() + 1) return false'\nwhere = ''\n";

    fn snapshot(tick: u64, policy: PolicyId) -> Snapshot {
        let view = |rank: u16| RankView {
            rank: Rank(rank),
            load: Default::default(),
            weighed: Some(loligo_types::Weighed { policy, auth: 1.0, all: 1.0 }),
            age_ms: 0,
            takes_more: true,
            is_busy_importing: false,
        };
        let ranks = vec![view(0), view(1)];
        Snapshot { tick, policy, tick_ms: 1000, ranks, ..Snapshot::default() }
    }

    /// What a rank hears to these ticks.
    fn heard(notes: &Notes, ticks: &[(u64, PolicyId)]) -> (Vec<Done>, Arc<Advice>) {
        let (queue, advice) = (Queue::new(), Arc::new(Advice::default()));
        let inbox = Inbox::new(Waker::new().expect("an event"));
        let (limits, rank) = (Limits::deterministic(), Rank::ZERO);
        ticks.iter().for_each(|(tick, policy)| queue.push(Work::Decide(Box::new(snapshot(*tick, *policy)))));
        queue.close();
        Adviser { rank, notes: notes.clone(), advice: advice.clone(), limits }.run(&queue, &inbox);
        let mut all = Vec::new();
        inbox.take(&mut all);
        (all, advice)
    }

    fn notes() -> (MemDisk, Notes) {
        let disk = MemDisk::new(Identity::new([1; 16], [2; 16]));
        let table = disk.open().expect("memory opens").table();
        (disk, Notes::new(table))
    }

    #[test]
    fn a_policy_that_the_table_does_not_have_moves_nothing_is_tried_again_and_given_up_after_five_ticks() {
        let (_disk, notes) = notes();
        let ticks: Vec<(u64, PolicyId)> = (1..=6).map(|tick| (tick, PolicyId(3))).collect();
        let (heard, advice) = heard(&notes, &ticks);
        let decided = heard.iter().filter(|done| matches!(done, Done::Decided(decision) if decision.moves.is_empty()));
        assert_eq!(decided.count(), 6, "the rank has its answer each time");
        let given_up = |done: &&Done| matches!(done, Done::Say(Member::BadPolicy { policy: PolicyId(3), .. }));
        assert_eq!(heard.iter().position(|done| given_up(&done)), Some(4), "before the fifth answer, and once");
        assert_eq!(heard.iter().filter(given_up).count(), 1);
        let status = advice.status();
        assert_eq!((status.decisions, status.faults), (6, 6));
        assert!(status.fault.is_some_and(|fault| fault.contains("does not have policy 3")));
    }

    #[test]
    fn what_a_policy_remembers_is_there_in_the_next_life_and_other_policies_do_not_see_it() {
        let (_disk, notes) = notes();
        let first = notes.add("asks", ASKS, 1).expect("there is room").id;
        let other = notes.add("asks", &format!("{ASKS}#\n"), 2).expect("there is room").id;
        heard(&notes, &[(1, first), (2, first), (3, other), (4, first)]);
        assert_eq!(notes.state(first, Rank::ZERO).expect("a good note"), Some(Value::Number(3.0)));
        assert_eq!(notes.state(other, Rank::ZERO).expect("a good note"), Some(Value::Number(1.0)));
        heard(&notes, &[(1, first)]);
        assert_eq!(notes.state(first, Rank::ZERO).expect("a good note"), Some(Value::Number(4.0)));
        assert_eq!(notes.state(first, Rank(1)).expect("no error"), None);
    }

    #[test]
    fn the_last_ticks_are_remembered_with_what_each_hook_answered() {
        let (_disk, notes) = notes();
        let policy = notes.add("asks", ASKS, 1).expect("there is room").id;
        let ticks: Vec<(u64, PolicyId)> = (1..=TICKS_MAX as u64 + 6).map(|tick| (tick, policy)).collect();
        let (_, advice) = heard(&notes, &ticks);
        let seen = advice.ticks();
        assert_eq!((seen.len(), seen.last().map(|tick| tick.tick)), (TICKS_MAX, Some(TICKS_MAX as u64 + 6)));
        assert!(
            seen.iter().all(|tick| tick.fault.is_none() && tick.lines.iter().any(|line| line.contains("when: false")))
        );
    }
}
