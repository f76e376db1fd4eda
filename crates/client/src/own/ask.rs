//! Requests of a subtree decoupled for this client to its rank: records, inode numbers, rights to objects, and resumption in a new
//! session; and orders of people that begin there. One request of each kind at a time; needs that come meanwhile go with the next one. Not
//! here: which is the next one (`needs.rs`), and the form of orders (`command.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use loligo_types::{About, Answer, Control, Cred, FsError, FsResult, Ino, Need, Op, Rank, SubtreeAnswer, SubtreeOp};

use super::command::Begin;
use super::{Job, OWN, Owned};
use crate::Output;
use crate::calls::Waiter;
use crate::machine::Client;
use crate::own::command::LEASE_MS;
use crate::own::goal::Goal;
use crate::own::needs::{Ask, record_of};
use crate::route::NOWHERE;
use crate::session::Then;
use crate::task::Event;

/// No task has this number.
const NOBODY: u64 = 0;

impl Client {
    /// Asks for what something waits for.
    pub(super) fn own_ask(&mut self, root: Ino) {
        if let Some((what, ask)) = self.own.trees.get_mut(&root).and_then(Owned::next_ask) {
            self.own_say(root, what, ask);
        }
    }

    /// A rank has said that it may have been taken from this client, with this recall: it is asked, and the recall answered when that is known.
    pub(crate) fn own_doubt(&mut self, root: Ino, recall: (Rank, u64)) {
        let Some(owned) = self.own.trees.get_mut(&root) else { return };
        owned.doubted = true;
        owned.told.push(recall);
        self.own_ask(root);
    }

    /// A rank has begun another life, or has another session of this client: what is decoupled for it there may have been taken from it.
    pub(crate) fn own_doubt_all(&mut self, rank: Rank) {
        let roots: Vec<Ino> =
            self.own.trees.keys().copied().filter(|root| self.ranks.own_rank(*root) == rank).collect();
        for root in roots {
            _ = self.own.trees.get_mut(&root).map(|owned| owned.doubted = true);
            self.own_ask(root);
        }
    }

    pub(super) fn own_say(&mut self, root: Ino, what: SubtreeOp, ask: Ask) {
        let Some(owned) = self.own.trees.get(&root) else { return };
        let cred = Cred::clone(&owned.cred);
        let op = Op::Control(Control::Subtree { dir: root, what: Box::new(what) });
        self.request_at(self.ranks.own_rank(root), cred, op, Then::Own { root, ask }, 0);
    }

    /// The rank has answered.
    pub(crate) fn own_asked(&mut self, root: Ino, ask: Ask, result: FsResult<Answer>) {
        let ask = match ask {
            Ask::Begin(begin) => return self.own_begun(root, *begin, result),
            Ask::Claim(job, tried) => return self.own_claimed(root, job, tried, result),
            Ask::Answers(command) => return self.own_answers(root, command, result.map(drop)),
            Ask::Undo(command, error) => return self.own_undone(root, command, error),
            ask => ask,
        };
        let Some(owned) = self.own.trees.get_mut(&root) else { return };
        owned.asked = false;
        if matches!(ask, Ask::Resume) && !matches!(result, Err(FsError::Stale | FsError::Perm | FsError::NotFound)) {
            let told = std::mem::take(&mut owned.told);
            self.own_told(root, told);
        }
        let Some(owned) = self.own.trees.get_mut(&root) else { return };
        match (ask, result) {
            (Ask::Records, Ok(Answer::Subtree(answer))) => {
                if let SubtreeAnswer::Records(items) = *answer {
                    self.own.learn(&mut self.core, &mut self.files, root, items);
                }
                self.own_retry(root);
                self.own_start_unforked(root);
            }
            (Ask::Numbers, Ok(answer)) => {
                owned.numbers = false;
                if let Some(record) = record_of(answer) {
                    owned.machine.take_record(record);
                }
                self.own_retry(root);
            }
            (ask @ (Ask::Rights(_) | Ask::Overwrite(_)), Ok(answer)) => {
                if let Some(record) = record_of(answer) {
                    owned.machine.take_record(record);
                    owned.ranges_count = true;
                }
                match ask {
                    Ask::Rights(inos) if owned.is_seen_by_others() => owned.reads.extend(inos),
                    Ask::Overwrite(inos) => {
                        // The changes of these files that are under way are decided.
                        owned.forked.extend(inos.iter().copied());
                        owned.rights.extend(inos);
                    }
                    Ask::Rights(inos) => owned.rights.extend(inos),
                    _ => {}
                }
                self.own_send_data(root);
            }
            (Ask::Fork(inos, rebased), Ok(answer)) => self.own_forked(root, inos, rebased, answer),
            (Ask::Resume, Ok(answer)) => {
                if let Some(record) = record_of(answer) {
                    owned.machine.take_record(record);
                }
                owned.forget_rights();
                if owned.is_shared() {
                    self.own_say_answers(root, None);
                }
                self.own_retry(root);
            }
            // Of this session the rank knows nothing.
            (ask, Err(FsError::Stale)) if !matches!(ask, Ask::Resume) => {
                if let Some(what) = self.own.resume_op(root) {
                    if let Some(owned) = self.own.trees.get_mut(&root) {
                        owned.asked = true;
                    }
                    self.own_say(root, what, Ask::Resume);
                }
                return;
            }
            (Ask::Resume, Err(FsError::Stale | FsError::Perm | FsError::NotFound)) => return self.own_lost(root),
            // Of several it may be true of one only.
            (Ask::Rights(inos) | Ask::Overwrite(inos) | Ask::Fork(inos, _), Err(_)) if inos.len() > 1 => {
                owned.one_by_one = true;
            }
            (Ask::Fork(inos, _), Err(error)) => {
                self.own.fail_unforked(&mut self.core, &mut self.calls, root, &inos, error)
            }
            (Ask::Rights(inos) | Ask::Overwrite(inos), Err(error)) => self.own_fail_data(root, &inos, error),
            (Ask::Resume, Err(error)) => {
                self.own.fail_waiting(root, error);
                self.own.fail_unforked(&mut self.core, &mut self.calls, root, &[], error);
                self.own_fail_data(root, &[], error);
            }
            (_, Err(error)) => {
                owned.numbers = false;
                self.own.fail_waiting(root, error);
                self.own.fail_unforked(&mut self.core, &mut self.calls, root, &[], error);
            }
            (_, Ok(_)) => self.own.fail_waiting(root, FsError::Io),
        }
        self.own_ask(root);
    }

    /// It is known whether it was taken from this client.
    fn own_told(&mut self, root: Ino, recalls: Vec<(Rank, u64)>) {
        recalls.into_iter().for_each(|(rank, id)| self.part_done(rank, root, id));
    }

    /// It was taken from this client, which was away for longer than its lease, or by root: what was not merged is nobody's. Where its policy
    /// makes something durable all of that goes to this machine's disk, to be looked into.
    pub(super) fn own_lost(&mut self, root: Ino) {
        // Requests that wait fail.
        _ = self.own.trees.get_mut(&root).map(|owned| owned.gated = false);
        self.own_unseal(root);
        self.own.fail_waiting(root, FsError::Stale);
        self.own.fail_unforked(&mut self.core, &mut self.calls, root, &[], FsError::Stale);
        self.own_fail_data(root, &[], FsError::Stale);
        self.own.commands.lost(root);
        self.own.drop_cached(&mut self.core, root, false);
        let Some(mut owned) = self.own.trees.remove(&root) else { return };
        let told = std::mem::take(&mut owned.told);
        let (record, epoch) = (Box::new(owned.machine.record().clone()), owned.machine.record().epoch);
        if self.core.config.keeps && Goal::of(&owned.policy).durable && owned.machine.outstanding().changes > 0 {
            let (fs, groups) = (self.ranks.fs_id.unwrap_or_default(), owned.machine.groups());
            self.core.out.push_back(Output::Keep { token: NOBODY, fs, record, groups });
        }
        self.core.out.push_back(Output::KeptLost { epoch });
        // One that waits before it tries something again would not be told by anybody else.
        owned.task.into_iter().for_each(|id| self.calls.events.push_back((id, Event::Start)));
        let of_it =
            |job: &mut Job| matches!(job.op, Op::Control(Control::SetLock { ino, .. }) if owned.machine.knows(ino));
        for job in self.own.locks.extract_if(.., of_it).collect::<Vec<_>>() {
            self.own.answer(job.op, job.then, Err(FsError::Stale));
        }
        // A task under way finds that it is gone.
        for task in owned.queue {
            self.calls.fail(&mut self.core, task.waiter, FsError::Stale);
        }
        if self.own.is_any() {
            // Others are there: only what was open in this one.
            for (handle, ino) in &owned.handles {
                self.files.at.insert(*handle, NOWHERE);
                _ = self.files.map.get_mut(ino).map(|file| file.rank = NOWHERE);
            }
            self.lose_held(NOWHERE, BTreeSet::new(), false);
        } else {
            self.lose_held(OWN, BTreeSet::new(), false);
        }
        self.own_told(root, told);
    }

    /// A rank says that something is nobody's but a subtree's owner's: it may be of one that this client has, known here from before it was
    /// decoupled. Of which, the rank tells.
    pub(crate) fn own_claim(&mut self, job: Box<Job>, mut tried: Vec<Ino>) {
        let ino = match job.op.about() {
            About::Names(ino) | About::Inode(ino) => ino,
            About::Nothing => Ino(0),
        };
        let Some(owned) = self.own.trees.values().find(|owned| !tried.contains(&owned.machine.root())) else {
            return self.own.answer(job.op, job.then, Err(FsError::Busy));
        };
        let (root, epoch) = (owned.machine.root(), owned.machine.record().epoch);
        tried.push(root);
        let what = SubtreeOp::Fetch { epoch, needs: vec![Need::Inode(ino)] };
        self.own_say(root, what, Ask::Claim(job, tried));
    }

    fn own_claimed(&mut self, root: Ino, job: Box<Job>, tried: Vec<Ino>, result: FsResult<Answer>) {
        if let Ok(Answer::Subtree(answer)) = result
            && let SubtreeAnswer::Records(items) = *answer
            && self.own.trees.contains_key(&root)
        {
            self.own.learn(&mut self.core, &mut self.files, root, items);
            return self.own_run(root, *job);
        }
        self.own_claim(job, tried);
    }

    /// The attribute is set.
    pub(crate) fn own_command(&mut self, waiter: Waiter, cred: &Arc<Cred>, root: Ino, value: &[u8]) {
        match self.own_begin_command(cred, root, value) {
            Ok(()) => self.calls.answer(&mut self.core, waiter, Answer::Done),
            Err(error) => self.calls.fail(&mut self.core, waiter, error),
        }
    }

    fn own_begin_command(&mut self, cred: &Arc<Cred>, root: Ino, value: &[u8]) -> FsResult<()> {
        let text = std::str::from_utf8(value).map_err(|_| FsError::Invalid)?;
        let (line, document) = text.split_once('\n').unwrap_or((text, ""));
        let (verb, rest) = line.split_once(' ').ok_or(FsError::Invalid)?;
        let (number, lease) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
        let number = number.parse().map_err(|_| FsError::Invalid)?;
        if verb == "decouple" {
            let lease_ms = match lease.trim().strip_prefix("lease_ms=") {
                Some(ms) => ms.parse().map_err(|_| FsError::Invalid)?,
                None => LEASE_MS,
            };
            let (what, ask) = self.own.begin(&self.core, cred, root, number, (lease_ms, document))?;
            let op = Op::Control(Control::Subtree { dir: root, what: Box::new(what) });
            self.request_at(self.ranks.own_rank(root), Cred::clone(cred), op, Then::Own { root, ask }, 0);
            return Ok(());
        }
        let none = if self.own.commands.taken.contains(&root) { FsError::Stale } else { FsError::NoData };
        let owned = self.own.trees.get(&root).ok_or(none)?;
        if !cred.is_root() && cred.uid != owned.cred.uid {
            return Err(FsError::Perm);
        }
        let goal = Goal::of(&owned.policy);
        let goal = match verb {
            "sync" => goal,
            "merge" => goal.and_apply(),
            "recouple" => Goal { end: true, ..goal },
            "abandon" => Goal { end: true, abandon: true, ..Goal::default() },
            _ => return Err(FsError::Invalid),
        };
        self.own.commands.begin(number, root);
        self.own.complete(&mut self.core, &mut self.calls, root, Waiter::Nobody, goal, Some(number));
        Ok(())
    }

    /// The rank has given it, or not.
    fn own_begun(&mut self, root: Ino, begin: Begin, result: FsResult<Answer>) {
        if let Some(command) = self.own.begun_at_rank(&self.core, &self.ranks, root, begin, result) {
            self.own_say_answers(root, Some(command));
        }
    }
}
