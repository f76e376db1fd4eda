//! The thread of a rank that asks the policies what is to move: that of the file system, and those that directories name. It
//! may take as long as it likes: the rank goes on, and without an answer nothing moves. What fails is told, and after some
//! failures in a row the keeper gives that policy up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use loligo_balancer::balance::{Outcome, Policy};
use loligo_balancer::{Limits, Streak, Value};
use loligo_types::link::Member;
use loligo_types::{Decision, PolicyId, Rank, Snapshot};

use super::super::queue::{Inbox, Queue};
use super::super::rank::Done;
use super::Notes;
use super::parts::{self, Part};

/// Ticks that are remembered for those who ask how they came to be.
const TICKS_MAX: u64 = 64;
/// Policies that directories name and that are asked in one tick.
const NAMES_MAX: u32 = 32;

/// Work for the policy thread.
#[derive(Debug)]
pub(crate) enum Work {
    /// Decide on moves.
    Decide(Box<Snapshot>),
}

/// A tick of the balancer by one policy, for people.
#[derive(Clone, PartialEq, Debug)]
pub struct Tick {
    /// When, milliseconds since 1970.
    pub at_ms: u64,
    /// Number of the tick.
    pub tick: u64,
    /// By which policy; 0: there is none of that name.
    pub policy: PolicyId,
    /// As directories name it; none: it is that of the file system.
    pub name: Option<String>,
    /// Input and answer of each hook, as lines.
    pub lines: Vec<String>,
    /// Number of moves that the policy wanted.
    pub moves: usize,
    /// Error of the policy; nothing moved then.
    pub fault: Option<String>,
    /// Time of the decision, microseconds.
    pub took_us: u64,
}

/// Statistics of a policy at a rank.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Advised {
    /// As directories name it; none: it is that of the file system.
    pub name: Option<String>,
    /// Which version; 0: there is none of that name.
    pub policy: PolicyId,
    /// Faults in a row up to now.
    pub streak: u32,
    /// Error of the last tick.
    pub fault: Option<String>,
    /// Moves that it wanted then.
    pub moves: usize,
}

/// Statistics of all policies at a rank.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AdviceStatus {
    /// Decisions so far.
    pub decisions: u64,
    /// Of those, failed.
    pub faults: u64,
    /// Those that were asked at the last tick.
    pub policies: Vec<Advised>,
    /// Time of all policies together, microseconds.
    pub took_us: u64,
}

/// State of the policy thread, for other threads.
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

    /// All of one tick.
    fn put(&self, ticks: Vec<(Tick, u32)>) {
        let mut seen = self.lock();
        let (status, kept) = &mut *seen;
        (status.policies, status.took_us) = (Vec::new(), 0);
        for (tick, streak) in ticks {
            status.decisions += 1;
            status.faults += u64::from(tick.fault.is_some());
            status.took_us += tick.took_us;
            let (name, fault) = (tick.name.clone(), tick.fault.clone());
            status.policies.push(Advised { name, policy: tick.policy, streak, fault, moves: tick.moves });
            let newest = tick.tick;
            kept.push_back(tick);
            while kept.front().is_some_and(|oldest| oldest.tick + TICKS_MAX <= newest) {
                kept.pop_front();
            }
        }
    }
}

/// A policy that was read, and what it remembers.
struct Loaded {
    id: PolicyId,
    /// Or why it could not be.
    policy: Result<Policy, String>,
    state: Option<Value>,
    streak: Streak,
    /// The tick at which it was asked last.
    asked: u64,
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

/// State of the policy thread from tick to tick.
#[derive(Default)]
struct Known {
    loaded: BTreeMap<PolicyId, Loaded>,
    /// Names of which there was no version, and the keeper was told.
    missed: BTreeSet<String>,
    /// Lines of the log so far.
    lines: u32,
}

impl Adviser {
    /// Runs until the queue is closed.
    pub(crate) fn run(self, queue: &Queue<Work>, inbox: &Inbox<Done>) {
        let mut known = Known::default();
        while let Some(work) = queue.take(1) {
            for Work::Decide(snapshot) in work {
                let decision = self.decide(&mut known, &snapshot, inbox);
                inbox.push(Done::Decided(decision));
            }
        }
    }

    /// Asks each policy, and puts together what they want.
    fn decide(&self, known: &mut Known, snapshot: &Snapshot, inbox: &Inbox<Done>) -> Decision {
        let parts = parts::parts(snapshot, |name, at| self.meant(&mut known.missed, snapshot, name, at, inbox));
        known.missed.retain(|name| snapshot.names.iter().any(|named| **named == **name));
        let (mut ticks, mut wanted, mut weighed) = (Vec::new(), Vec::new(), None);
        for part in &parts {
            let begun = std::time::Instant::now();
            let (outcome, streak) = match part.policy.clone() {
                Ok(id) => self.ask(known, snapshot, part, id, inbox),
                // Its name is not known for long: the keeper has only just heard of it.
                Err(why) if why.is_empty() => (Ok(not_yet(snapshot, part)), 0),
                Err(why) => (Err(why), 0),
            };
            let took_us = begun.elapsed().as_micros() as u64;
            let (decision, tick) = self.tell(snapshot, part, outcome, took_us, &mut known.lines);
            if let Some(fault) = &tick.fault {
                tracing::warn!("the balancer's policy {} fails: {fault}; nothing moves", called(part));
            }
            if part.name.is_none() {
                weighed = decision.weighed;
            }
            wanted.push(decision.moves);
            ticks.push((tick, streak));
        }
        known.loaded.retain(|_, loaded| loaded.asked == snapshot.tick);
        self.advice.put(ticks);
        Decision { tick: snapshot.tick, weighed, moves: parts::together(wanted) }
    }

    /// Which version a name means; or why none, in no words if that is about to change.
    fn meant(
        &self,
        missed: &mut BTreeSet<String>,
        snapshot: &Snapshot,
        name: &str,
        at: u32,
        inbox: &Inbox<Done>,
    ) -> Result<PolicyId, String> {
        if at >= NAMES_MAX {
            return Err(format!("directories name more than {NAMES_MAX} policies: it is left out; name fewer"));
        }
        match self.notes.named(name) {
            Ok(Some(named)) if named.now != PolicyId::NONE => Ok(named.now),
            Ok(Some(_)) => Err(format!(
                "each version of {name} has failed, so directories that name it are left alone: put a better one down \
                 (loligo balancer add {name} FILE)"
            )),
            Ok(None) => {
                inbox.push(Done::Say(Member::NoPolicy { name: name.into() }));
                if missed.insert(name.into()) {
                    return Err(String::new());
                }
                let dir = snapshot.pieces.iter().find(|piece| piece.under == Some(at)).map(|piece| piece.piece.dir);
                let dir = dir.map_or(String::new(), |dir| format!(", as directory {dir}"));
                Err(format!(
                    "there is no policy {name}, so what names it{dir}, is left alone: put one down (loligo balancer add {name} \
                     FILE), or name another one (setfattr -n loligo.policy.balancer -v NAME DIRECTORY)"
                ))
            }
            Err(error) => Err(error.to_string()),
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
            Ok((policy, state)) => Loaded { id, policy: Ok(policy), state, streak: Streak::default(), asked: 0 },
            Err(why) => Loaded { id, policy: Err(why), state: None, streak: Streak::default(), asked: 0 },
        }
    }

    /// Asks one, and counts its faults; how many in a row there are now.
    fn ask(
        &self,
        known: &mut Known,
        snapshot: &Snapshot,
        part: &Part,
        id: PolicyId,
        inbox: &Inbox<Done>,
    ) -> (Result<Outcome, String>, u32) {
        let loaded = known.loaded.entry(id).or_insert_with(|| self.load(id));
        if loaded.policy.is_err() && loaded.asked > 0 {
            // One that could not be read is tried again: the store may answer by now.
            *loaded = Loaded { streak: loaded.streak, ..self.load(id) };
        }
        loaded.asked = snapshot.tick;
        let outcome = self.ask_loaded(loaded, snapshot, part);
        let fault = match &outcome {
            Ok(outcome) => outcome.fault.as_ref().map(ToString::to_string),
            Err(why) => Some(why.clone()),
        };
        let give_up = loaded.streak.note(fault.is_some());
        let streak = loaded.streak.faults();
        if give_up {
            inbox.push(Done::Say(Member::BadPolicy { policy: id, why: fault.unwrap_or_default() }));
            // Who puts it in force again is told again.
            loaded.streak = Streak::default();
        }
        (outcome, streak)
    }

    fn ask_loaded(&self, known: &mut Loaded, snapshot: &Snapshot, part: &Part) -> Result<Outcome, String> {
        let policy = known.policy.as_mut().map_err(|why| why.clone())?;
        let view = match snapshot.names.is_empty() {
            true => None,
            false => Some(parts::view(snapshot, part, policy).map_err(|fault| fault.to_string())?),
        };
        let before = known.state;
        let outcome = policy.decide(view.as_ref().unwrap_or(snapshot), &mut known.state);
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
        part: &Part,
        outcome: Result<Outcome, String>,
        took_us: u64,
        count: &mut u32,
    ) -> (Decision, Tick) {
        let nothing = Decision { tick: snapshot.tick, ..Decision::default() };
        let (decision, lines, fault) = match outcome {
            Ok(outcome) => (outcome.decision, outcome.explain.lines(), outcome.fault.map(|fault| fault.to_string())),
            Err(why) => (nothing, Vec::new(), Some(why)),
        };
        let (at_ms, policy, moves) = (now_ms(), part.policy.clone().unwrap_or_default(), decision.moves.len());
        let (who, mut log) = (called(part), Vec::new());
        log.extend(fault.iter().map(|fault| format!("policy {who} failed: {fault}")));
        for one in &decision.moves {
            let frag = one.piece.frag.map_or(String::new(), |frag| format!(" fragment {frag}"));
            let (dir, to, load) = (one.piece.dir, one.to, one.load);
            log.push(format!("policy {who}: directory {dir}{frag} to rank {to}, load {load:.1}"));
        }
        for line in log {
            if let Err(error) = self.notes.log(Some(self.rank), at_ms, count, &line) {
                tracing::warn!("the log of balancers could not be written: {error}");
            }
        }
        let name = part.name.as_deref().map(str::to_string);
        (decision, Tick { at_ms, tick: snapshot.tick, policy, name, lines, moves, fault, took_us })
    }
}

/// Nothing, by a policy that is still to be put down.
fn not_yet(snapshot: &Snapshot, part: &Part) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.explain.policy = part.name.as_deref().unwrap_or_default().to_string();
    (outcome.explain.tick, outcome.explain.whoami) = (snapshot.tick, snapshot.whoami);
    outcome.explain.held = Some("no version of it is known, and the keeper of the cluster map is asked for one".into());
    outcome
}

/// A policy as the log calls it: by its number, and by its name, if directories name it.
fn called(part: &Part) -> String {
    match (&part.name, &part.policy) {
        (None, policy) => policy.as_ref().map_or(0, |policy| policy.0).to_string(),
        (Some(name), Ok(policy)) => format!("{} ({name})", policy.0),
        (Some(name), Err(_)) => name.to_string(),
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

    /// The rank's messages of these ticks.
    fn heard(notes: &Notes, ticks: &[(u64, PolicyId)]) -> (Vec<Done>, Arc<Advice>) {
        let ticks: Vec<Snapshot> = ticks.iter().map(|(tick, policy)| snapshot(*tick, *policy)).collect();
        heard_of(notes, &ticks)
    }

    fn heard_of(notes: &Notes, ticks: &[Snapshot]) -> (Vec<Done>, Arc<Advice>) {
        let (queue, advice) = (Queue::new(), Arc::new(Advice::default()));
        let inbox = Inbox::new(Waker::new().expect("an event"));
        let (limits, rank) = (Limits::deterministic(), Rank::ZERO);
        ticks.iter().for_each(|snapshot| queue.push(Work::Decide(Box::new(snapshot.clone()))));
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
        let [one] = &status.policies[..] else { panic!("{status:?}") };
        assert_eq!((one.policy, one.streak), (PolicyId(3), 1), "it would be told again");
        assert!(one.fault.as_ref().is_some_and(|fault| fault.contains("does not have policy 3")));
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
        let ticks: Vec<(u64, PolicyId)> = (1..=TICKS_MAX + 6).map(|tick| (tick, policy)).collect();
        let (_, advice) = heard(&notes, &ticks);
        let seen = advice.ticks();
        assert_eq!((seen.len(), seen.last().map(|tick| tick.tick)), (TICKS_MAX as usize, Some(TICKS_MAX + 6)));
        assert!(
            seen.iter().all(|tick| tick.fault.is_none() && tick.lines.iter().any(|line| line.contains("when: false")))
        );
    }

    /// Two pieces at two ranks: one under the policy of the file system, one under a name.
    fn named(tick: u64, policy: PolicyId, name: &str) -> Snapshot {
        let counts = |iwr| loligo_types::LoadVec { iwr, ..Default::default() };
        let piece = |dir, under| loligo_types::PieceHeat {
            piece: loligo_types::Piece { dir: loligo_types::Ino(dir), frag: None },
            above: None,
            load: counts(10.0),
            inodes: 1,
            fixed: false,
            under,
            home: None,
        };
        let names = vec![name.into()];
        Snapshot { names, pieces: vec![piece(5, None), piece(6, Some(0))], ..snapshot(tick, policy) }
    }

    const GIVES: &str = "metaload = 'IWR'\nmdsload = 'MDSs[i].all'\nwhen = 'whoami == 1'\nwhere = 'targets[2] = 10'\n";

    fn means(notes: &Notes, name: &str, now: PolicyId) {
        let mut batch = loligo_store::Batch::new();
        Notes::put_named(&mut batch, name, &super::super::Named { now, failed: Vec::new() });
        notes.put_batch(&batch).expect("there is room");
    }

    #[test]
    fn each_policy_moves_what_stands_under_it_and_one_that_fails_does_not_stop_the_other() {
        let (_disk, notes) = notes();
        let gives = notes.add("gives", GIVES, 1).expect("there is room").id;
        let fails = notes.add("fails", "when = 'error(1)'\nwhere = ''\n", 1).expect("there is room").id;
        means(&notes, "gives", gives);
        let ticks = |policy| (1..=6).map(|tick| named(tick, policy, "gives")).collect::<Vec<_>>();
        let (all, advice) = heard_of(&notes, &ticks(fails));
        let moved = |all: &[Done]| -> Vec<u64> {
            let moves = all.iter().filter_map(|done| match done {
                Done::Decided(decision) => Some(decision.moves.iter().map(|one| one.piece.dir.0)),
                _ => None,
            });
            moves.flatten().collect()
        };
        assert_eq!(moved(&all), [6; 6], "only what names it");
        let given_up =
            all.iter().filter(|done| matches!(done, Done::Say(Member::BadPolicy { policy, .. }) if *policy == fails));
        assert_eq!(given_up.count(), 1);
        let status = advice.status();
        let of: Vec<_> =
            status.policies.iter().map(|one| (one.name.as_deref(), one.policy, one.fault.is_some())).collect();
        assert_eq!(of, [(None, fails, true), (Some("gives"), gives, false)]);
        assert_eq!((status.decisions, status.faults), (12, 6));
        // And the other way round, and with none of the file system.
        means(&notes, "fails", fails);
        let (all, _) = heard_of(&notes, &[named(1, gives, "fails")]);
        assert_eq!(moved(&all), [5]);
        let (all, _) = heard_of(&notes, &[named(1, PolicyId::NONE, "gives")]);
        assert_eq!(moved(&all), [6]);
        assert!(matches!(&all[..], [Done::Decided(decision)] if decision.weighed.is_none()));
    }

    #[test]
    fn a_name_without_a_policy_is_asked_for_moves_nothing_and_is_told_with_what_to_do() {
        let (_disk, notes) = notes();
        let ticks: Vec<Snapshot> = (1..=2).map(|tick| named(tick, PolicyId::NONE, "nothing")).collect();
        let (all, advice) = heard_of(&notes, &ticks[..1]);
        let asked = |done: &&Done| matches!(done, Done::Say(Member::NoPolicy { name }) if name == "nothing");
        assert_eq!(all.iter().filter(asked).count(), 1);
        assert_eq!(advice.status().policies[0].fault, None, "it may be one that comes with Loligo");
        assert!(advice.ticks()[0].lines.iter().any(|line| line.contains("held still: no version of it is known")));
        let (all, advice) = heard_of(&notes, &ticks);
        assert!(all.iter().all(|done| !matches!(done, Done::Decided(decision) if !decision.moves.is_empty())));
        let fault = advice.status().policies[0].fault.clone().expect("it is told");
        assert!(fault.contains("no policy nothing") && fault.contains("loligo balancer add nothing"), "{fault}");
        means(&notes, "nothing", PolicyId::NONE);
        let (_, advice) = heard_of(&notes, &ticks[..1]);
        assert!(advice.status().policies[0].fault.as_ref().is_some_and(|fault| fault.contains("has failed")));
    }
}
