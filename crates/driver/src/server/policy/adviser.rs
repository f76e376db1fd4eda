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
