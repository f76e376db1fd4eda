//! The command interface to decouple, sync, merge or recouple a subtree and to read its state: an extended attribute of its root, which
//! any program can set and read, on a mount too. Setting it only begins a command: the setter holds the directory in the kernel, and
//! others would wait. What is ordered and what is told of it; `ask.rs` and `task.rs` do the work.
//!
//! ```text
//! set:  decouple NUMBER [lease_ms=N], with a policy document from the next line on
//!       sync NUMBER, merge NUMBER, recouple NUMBER, abandon NUMBER
//! get:  a line for each thing known, KEY VALUE...; of commands: command NUMBER running DONE TOTAL | done RECORDS BYTES CONFLICTS | failed ERROR |
//!       failed ERROR at STAGE, of the pipeline | failed Refused below|floor|forbidden|limit DIRECTORY, the number of the directory whose
//!       policy is in the way; conflict NUMBER KIND INODE NAME KEPT of the first conflicts with what others did, names in hexadecimal, - if there
//!       is none
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::sync::Arc;

use loligo_subtree::Subtree;
use loligo_subtree_policy::{Mechanism, SubtreePolicy};
use loligo_types::hash::mix;
use loligo_types::{Answer, Cred, FsError, FsResult, Ino, Interfere, Op, RefusedBy, SubtreeAnswer, SubtreeOp};

use super::Owned;
use super::rebase::Conflicts;
use crate::calls::Calls;
use crate::core::Core;
use crate::own::Own;
use crate::own::goal::Goal;
use crate::own::needs::Ask;
use crate::ranks::Ranks;
use crate::task::Step;

/// The attribute.
pub const NAME: &[u8] = b"loligo.subtree";
/// The attribute that holds a directory's policy.
const POLICY: &[u8] = b"loligo.policy.subtree";
/// The lease of a decoupled subtree: the owner's longest silence beyond the end of its session, milliseconds.
pub(crate) const LEASE_MS: u32 = 60_000;
/// Commands whose results are remembered.
const DONE_MAX: usize = 64;

/// A subtree that is about to be decoupled.
#[derive(Debug)]
pub(crate) struct Begin {
    policy: SubtreePolicy,
    cred: Arc<Cred>,
    command: u64,
}

/// A command that is over: records and bytes that it merged.
#[derive(Debug)]
struct Over {
    number: u64,
    root: Ino,
    result: FsResult<(u64, u64)>,
    /// The directory whose policy is in the way.
    refused: Option<(RefusedBy, Ino)>,
    /// The stage of the pipeline that failed.
    stage: Option<Mechanism>,
    /// Conflicts with what others did.
    conflicts: Conflicts,
}

/// Commands, by the numbers that those who gave them chose.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    running: BTreeMap<u64, Ino>,
    done: VecDeque<Over>,
    /// Directories that were taken from this client, the newest last: whoever gives an order about one is told so.
    pub taken: VecDeque<Ino>,
}

impl Commands {
    pub(crate) fn begin(&mut self, number: u64, root: Ino) {
        self.done.retain(|over| over.number != number);
        self.running.insert(number, root);
    }

    /// One has come to this: records and bytes that were merged.
    pub fn done(&mut self, number: u64, result: FsResult<(u64, u64)>) {
        self.ended(number, result, None, Conflicts::default());
    }

    /// Likewise. If it failed: in which stage of the pipeline.
    pub fn ended(&mut self, number: u64, result: FsResult<(u64, u64)>, stage: Option<Mechanism>, conflicts: Conflicts) {
        self.over(number, result, None, stage, conflicts);
    }

    /// A directory is not decoupled because of the policy of another one.
    pub(crate) fn refused(&mut self, number: u64, by: RefusedBy, dir: Ino) {
        self.over(number, Err(by.error()), Some((by, dir)), None, Conflicts::default());
    }

    fn over(
        &mut self,
        number: u64,
        result: FsResult<(u64, u64)>,
        refused: Option<(RefusedBy, Ino)>,
        stage: Option<Mechanism>,
        conflicts: Conflicts,
    ) {
        let Some(root) = self.running.remove(&number) else { return };
        self.done.push_back(Over { number, root, result, refused, stage, conflicts });
        if self.done.len() > DONE_MAX {
            self.done.pop_front();
        }
    }

    /// It was taken from this client: whatever is under way there fails.
    pub fn lost(&mut self, root: Ino) {
        self.taken.push_back(root);
        if self.taken.len() > DONE_MAX {
            self.taken.pop_front();
        }
        let of_it: Vec<u64> = self.running.iter().filter(|(_, of)| **of == root).map(|(number, _)| *number).collect();
        of_it.into_iter().for_each(|number| self.done(number, Err(FsError::Stale)));
    }
}

impl Own {
    /// A directory is to be decoupled: what its rank is asked for.
    pub(super) fn begin(
        &mut self,
        core: &Core,
        cred: &Arc<Cred>,
        root: Ino,
        command: u64,
        (lease_ms, document): (u32, &str),
    ) -> FsResult<(SubtreeOp, Ask)> {
        let policy = SubtreePolicy::parse(document).map_err(|_| FsError::Invalid)?;
        if !policy.pipeline().has_client_journal() {
            // Operations go to the rank one by one: there is nothing to decouple.
            return Err(FsError::NotSupported);
        }
        if Goal::of(&policy).local() && !core.config.keeps {
            return Err(FsError::NotSupported);
        }
        if self.root_of(root).is_some() {
            return Err(FsError::Busy);
        }
        self.begun += 1;
        // Nobody else must be able to guess it.
        let owner = mix(mix(core.config.client ^ self.begun) ^ core.now.wall.0.cast_unsigned()) | 1;
        let interfere = match policy.interfere() {
            loligo_subtree_policy::Interfere::Block => Interfere::Block,
            loligo_subtree_policy::Interfere::Read => Interfere::Read,
            loligo_subtree_policy::Interfere::Allow => Interfere::Allow,
        };
        let promise = policy.cell().promise().ok_or(FsError::NotSupported)?;
        let inos = policy.allocated_inodes().min(loligo_types::limits::SUBTREE_INOS_MAX / 2);
        let what = SubtreeOp::Decouple { owner, resume: 0, inos, lease_ms, interfere, promise };
        self.commands.begin(command, root);
        let ask = Ask::Begin(Box::new(Begin { policy, cred: Arc::clone(cred), command }));
        Ok((what, ask))
    }

    /// The rank has given it, or not. `Some`: it has, and the command is done when it is told that this client answers below.
    pub(super) fn begun_at_rank(
        &mut self,
        core: &Core,
        ranks: &Ranks,
        root: Ino,
        begin: Begin,
        result: FsResult<Answer>,
    ) -> Option<u64> {
        let Begin { policy, cred, command } = begin;
        let given = match result {
            Ok(Answer::Subtree(answer)) => match *answer {
                SubtreeAnswer::Decoupled { record, root, inline_max, split } => Ok((record, root, inline_max, split)),
                SubtreeAnswer::Refused { by, dir } => {
                    self.commands.refused(command, by, dir);
                    return None;
                }
                _ => Err(FsError::Io),
            },
            Ok(_) => Err(FsError::Io),
            Err(error) => Err(error),
        };
        let (record, inode, inline_max, split) = match given {
            Ok(given) => given,
            Err(error) => {
                self.commands.done(command, Err(error));
                return None;
            }
        };
        let hash_key = ranks.router.hash_key.unwrap_or_default();
        let settings = loligo_subtree::Settings { hash_key, inline_max, split };
        let machine = Subtree::new(settings, record, *inode).with_objects();
        let owned = Owned::new(machine, policy, cred, core.now.ms);
        let is_shared = owned.is_shared();
        self.trees.insert(root, Owned { gated: is_shared, ..owned });
        self.commands.taken.retain(|taken| *taken != root);
        if is_shared {
            return Some(command);
        }
        self.commands.done(command, Ok((0, 0)));
        None
    }

    /// Returns the root and the new policy if a request changes the policy of a root that is decoupled for this client.
    pub(crate) fn new_policy(&self, op: &Op) -> Option<(Ino, SubtreePolicy)> {
        let Op::SetXattr { ino, name, value, .. } = op else { return None };
        let is_policy = **name == *POLICY && self.trees.contains_key(ino);
        // The rank refuses nonsense.
        is_policy.then(|| SubtreePolicy::parse_bytes(value).ok()).flatten().map(|policy| (*ino, policy))
    }

    /// The value of the attribute; `None` if nothing is known.
    pub(crate) fn status(&self, core: &Core, calls: &Calls, ino: Ino) -> Option<Vec<u8>> {
        let root = self.root_of(ino).unwrap_or(ino);
        let mut text = String::new();
        if let Some(owned) = self.trees.get(&root) {
            self.describe(core, owned, &mut text);
        }
        for (number, _) in self.commands.running.iter().filter(|(_, of)| **of == root) {
            let (done, total) = calls.own_progress(self, root, *number);
            // Writing to a string does not fail.
            _ = writeln!(text, "command {number} running {done} {total}");
        }
        for Over { number, result, refused, stage, conflicts, .. } in
            self.commands.done.iter().filter(|over| over.root == root)
        {
            _ = match (result, refused, stage) {
                (Ok((records, bytes)), ..) => {
                    conflicts.describe(*number, &mut text);
                    writeln!(text, "command {number} done {records} {bytes} {}", conflicts.count)
                }
                (_, Some((by, dir)), _) => writeln!(text, "command {number} failed Refused {} {dir}", by.name()),
                (Err(error), None, Some(stage)) => writeln!(text, "command {number} failed {error:?} at {stage}"),
                (Err(error), None, None) => writeln!(text, "command {number} failed {error:?}"),
            };
        }
        (!text.is_empty()).then(|| text.into_bytes())
    }

    pub(crate) fn describe(&self, core: &Core, owned: &Owned, text: &mut String) {
        let (record, out) = (owned.machine.record(), owned.machine.outstanding());
        let age_ms = out.since.map_or(0, |since| (core.now.wall.0 - since.0).max(0) / 1_000_000);
        let goal = Goal::of(&owned.policy);
        let facts: [(&str, u64); 11] = [
            ("root", record.dir.0),
            ("epoch", record.epoch),
            ("merges", record.merges),
            ("numbers_left", record.left()),
            ("changes", out.changes),
            ("events", out.events),
            ("bytes", out.bytes),
            ("age_ms", age_ms.cast_unsigned()),
            ("persisted", if goal.local() { owned.persisted.min(out.changes) } else { 0 }),
            ("stored", owned.stored_changes.min(out.changes)),
            ("memory_bytes", owned.machine.memory_bytes() as u64),
        ];
        for (key, value) in facts {
            _ = writeln!(text, "{key} {value}");
        }
        _ = writeln!(text, "pipeline {}", owned.policy.pipeline());
        let others = match record.interfere {
            Interfere::Block => "block",
            Interfere::Read => "read",
            Interfere::Allow => "allow",
        };
        _ = writeln!(text, "others {others}");
        if let Some(file) = owned.kept.as_ref().filter(|_| owned.persisted > 0) {
            _ = writeln!(text, "kept {file}");
        }
        if let Some((stage, error)) = owned.failed {
            _ = writeln!(text, "failed_stage {stage} {error:?}");
        }
        if owned.ending {
            text.push_str("ending 1\n");
        }
    }
}

impl Calls {
    fn own_progress(&self, own: &Own, root: Ino, command: u64) -> (u64, u64) {
        let task = own.trees.get(&root).and_then(|owned| self.tasks.get(&owned.task?));
        match task.map(|task| &task.step) {
            Some(Step::Own(own)) if own.command == Some(command) => (own.merged, own.total),
            _ => (0, 0),
        }
    }
}
