//! Taking over what others did in a decoupled subtree in which they may work ("interfere: allow", Cudele §6.3). Its owner works on the
//! state of the last merge. After each merge all that is known here is forgotten and fetched anew, so that programs see what others did; caches
//! above are told to drop what they hold. From the cut of the journal until then all requests below the root wait, because a change that is
//! decided on old records would be taken for a conflict.
//!
//! Before the merge the rank is told which inodes are open here: what others have removed of them lives on. Not here: what becomes of things
//! that both changed (the rank's), nor the bytes that others see meanwhile (the object server's copies).

use std::fmt::Write;
use std::sync::Arc;

use loligo_types::limits::FETCH_MAX;
use loligo_types::{Answer, Attr, Conflict, Cred, FsError, FsResult, Ino, Need, Op, SubtreeAnswer, SubtreeOp};

use super::OWN;
use super::ask::Ask;
use super::task::{Merging, OwnTask, TRIES};
use crate::Invalidation;
use crate::core::Core;
use crate::file::Files;
use crate::machine::Client;
use crate::recover::NOWHERE;
use crate::session::Then;

/// Conflicts of a command that are remembered, for people: the value of an attribute has to hold them.
const TOLD_MAX: usize = 8;

/// Conflicts of a merge with what others did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conflicts {
    pub count: u64,
    /// The first of them.
    told: Vec<Conflict>,
}

impl Conflicts {
    /// Those of one group more.
    pub fn add(&mut self, count: u64, told: Vec<Conflict>) {
        self.count += count;
        let room = TOLD_MAX - self.told.len().min(TOLD_MAX);
        self.told.extend(told.into_iter().take(room));
    }

    /// A line for each that is remembered.
    pub fn describe(&self, command: u64, text: &mut String) {
        for Conflict { kind, ino, name, kept } in &self.told {
            // Writing to a string does not fail.
            _ = writeln!(text, "conflict {command} {} {ino} {} {}", kind.name(), hex(name), hex(kept));
        }
    }
}

fn hex(name: &[u8]) -> String {
    match name {
        [] => "-".into(),
        name => name.iter().fold(String::new(), |mut text, byte| {
            _ = write!(text, "{byte:02x}");
            text
        }),
    }
}

impl Files {
    /// The attributes of an open file may be others by now, and then so are its bytes.
    pub(super) fn own_becomes(&mut self, core: &mut Core, attr: &Attr) {
        let ino = attr.ino;
        let Some(file) = self.map.get_mut(&ino).filter(|file| file.rank == OWN) else { return };
        // Others may write behind its end from now on, until this client asks for the right to change it.
        file.clean_to = file.clean_to.min(file.attr.size);
        if file.attr == *attr {
            return;
        }
        file.attr = *attr;
        file.base = None;
        file.size = if file.is_clean() { attr.size } else { attr.size.max(file.dirty.end()).max(file.flying.end()) };
        file.clean_to = attr.size;
        file.know_empty();
        self.change_blocks(ino, |file| file.blocks.clear());
        core.invalidate(Invalidation::Data(ino), false);
    }
}

impl Client {
    /// Tells the rank that programs here ask this client for what is below, and not the rank any more: what the rank has lent of it is given back.
    pub(super) fn own_say_answers(&mut self, root: Ino, command: Option<u64>) {
        let Some(owned) = self.own.trees.get(&root) else { return };
        let what = SubtreeOp::HoldOpen { epoch: owned.machine.record().epoch, first: true, inos: Vec::new() };
        self.own_say(root, what, Ask::Answers(command));
    }

    /// The rank knows it, or a program has something open that it has opened at the rank.
    pub(super) fn own_answers(&mut self, root: Ino, command: Option<u64>, result: FsResult<()>) {
        // Another session is introduced by what is asked next.
        let Some(command) = command else { return };
        let Some(owned) = self.own.trees.get_mut(&root) else {
            return self.own.commands.done(command, Err(FsError::Stale));
        };
        match result {
            Ok(()) => {
                owned.gated = false;
                self.own.commands.done(command, Ok((0, 0)));
                self.own_retry(root);
                self.own_start_unforked(root);
            }
            Err(error) => {
                let what = SubtreeOp::End { epoch: owned.machine.record().epoch };
                self.own_say(root, what, Ask::Undo(command, error));
            }
        }
    }

    /// It is given back as it was, or the rank takes it back.
    pub(super) fn own_undone(&mut self, root: Ino, command: u64, error: FsError) {
        self.own.commands.done(command, Err(error));
        // Whatever the rank says of it: this client does not have it.
        _ = self.own_ended(root, Ok(Answer::Done));
    }

    /// Tells the rank what is open here; then the merge begins.
    pub(super) fn own_hold_open(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        let Some(owned) = self.own.trees.get(&own.root) else { return Some(Err(FsError::Stale)) };
        let record = owned.machine.record();
        let open: Vec<Ino> = owned.opens.keys().copied().filter(|ino| !record.is_new(*ino)).collect();
        own.open = chunks(open);
        if own.open.is_empty() {
            // Nothing: what was open before the last merge is not any more.
            own.open.push_back(Vec::new());
        }
        own.merging = Merging::Hold;
        own.told = 0;
        self.own_hold_next(id, own, cred)
    }

    fn own_hold_next(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        let Some(inos) = own.open.pop_front() else { return self.own_cut(id, own, cred) };
        let Some(owned) = self.own.trees.get(&own.root) else { return Some(Err(FsError::Stale)) };
        let what = SubtreeOp::HoldOpen { epoch: owned.machine.record().epoch, first: own.told == 0, inos };
        own.told += 1;
        self.own_ask_rank(id, own, cred, what);
        None
    }

    fn own_ask_rank(&mut self, id: u64, own: &OwnTask, cred: &Arc<Cred>, what: SubtreeOp) {
        let op = Op::Subtree { dir: own.root, what: Box::new(what) };
        self.request_at(self.ranks.own_rank(own.root), Cred::clone(cred), op, Then::OwnTask(id), 0);
    }

    /// The rank knows it, or does not know this session for the owner's.
    pub(super) fn own_held_open(
        &mut self,
        id: u64,
        own: &mut OwnTask,
        cred: &Arc<Cred>,
        result: FsResult<Answer>,
    ) -> Option<FsResult<()>> {
        match result {
            Ok(_) => self.own_hold_next(id, own, cred),
            // More than the rank remembers: handles of the rest are stale if others have removed what they open.
            Err(FsError::Quota) => {
                own.open.clear();
                self.own_cut(id, own, cred)
            }
            // The rank is told who this is, and asked once more.
            Err(FsError::Stale) => self.own_parts_failed(id, own, cred, FsError::Stale),
            Err(error) => Some(Err(error)),
        }
    }

    /// All is merged: asks the rank for the root as it is now.
    pub(super) fn own_rebase(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        own.merging = Merging::Rebase;
        let what = self.own.resume_op(own.root)?;
        self.own_ask_rank(id, own, cred, what);
        None
    }

    /// The root is known: all else is forgotten, and the files that are open are fetched.
    pub(super) fn own_rebase_on(
        &mut self,
        id: u64,
        own: &mut OwnTask,
        cred: &Arc<Cred>,
        result: FsResult<Answer>,
    ) -> Option<FsResult<()>> {
        let (record, inode) = match result {
            Ok(Answer::Subtree(answer)) => match *answer {
                SubtreeAnswer::Decoupled { record, root, .. } => (record, root),
                _ => return Some(Err(FsError::Io)),
            },
            Ok(_) => return Some(Err(FsError::Io)),
            Err(error) => return self.own_not_resumed(own, error),
        };
        if self.own.trees.get(&own.root).is_some_and(|owned| owned.machine.outstanding().changes > 0) {
            // Nothing else has them.
            return Some(Err(FsError::Busy));
        }
        // Programs that wait here may be waited for by the kernel when it drops something, so that is not waited for.
        self.own.drop_cached(&mut self.core, own.root, false);
        let idle: Vec<Ino> =
            self.files.files_at(OWN).into_iter().filter(|ino| self.own.root_of(*ino) == Some(own.root)).collect();
        idle.into_iter().for_each(|ino| self.close_unused(ino));
        self.send_closes();
        let Some(owned) = self.own.trees.get_mut(&own.root) else { return Some(Err(FsError::Stale)) };
        owned.machine.take_record(record);
        owned.forked.clear();
        owned.rebased += 1;
        let opens = &owned.opens;
        owned.machine.forget_but(*inode, &|ino| opens.contains_key(&ino));
        // Of those that were removed here, and merged, the rank knows nothing.
        let open: Vec<Ino> = opens.keys().copied().filter(|ino| owned.machine.inode(*ino).is_none()).collect();
        own.open = chunks(open);
        self.own_refresh(id, own, cred)
    }

    fn own_refresh(&mut self, id: u64, own: &mut OwnTask, cred: &Arc<Cred>) -> Option<FsResult<()>> {
        let Some(owned) = self.own.trees.get(&own.root) else { return Some(Err(FsError::Stale)) };
        let Some(inos) = own.open.pop_front() else { return Some(self.own_rebased(own.root)) };
        own.merging = Merging::Refresh;
        let needs = inos.into_iter().map(Need::Inode).collect();
        let what = SubtreeOp::Fetch { epoch: owned.machine.record().epoch, needs };
        self.own_ask_rank(id, own, cred, what);
        None
    }

    pub(super) fn own_refreshed(
        &mut self,
        id: u64,
        own: &mut OwnTask,
        cred: &Arc<Cred>,
        result: FsResult<Answer>,
    ) -> Option<FsResult<()>> {
        match result {
            Ok(Answer::Subtree(answer)) => {
                if let (SubtreeAnswer::Records(items), Some(owned)) = (*answer, self.own.trees.get_mut(&own.root)) {
                    owned.machine.learn_open(items);
                }
            }
            // The rank has another session of this client by now: all is asked once more.
            Err(FsError::Stale) if own.tries < TRIES => {
                own.tries += 1;
                return self.own_rebase(id, own, cred);
            }
            // One that has gone elsewhere, or is nobody's any more: its handles are stale.
            _ => {}
        }
        self.own_refresh(id, own, cred)
    }

    /// Files that are open here become what they are now. Programs go on.
    fn own_rebased(&mut self, root: Ino) -> FsResult<()> {
        let owned = self.own.trees.get(&root).ok_or(FsError::Stale)?;
        let open: Vec<(Ino, Option<Attr>)> =
            owned.opens.keys().map(|ino| (*ino, owned.machine.inode(*ino).map(|inode| inode.attr()))).collect();
        let mut gone = Vec::new();
        for (ino, attr) in open {
            match attr {
                Some(attr) => self.files.own_becomes(&mut self.core, &attr),
                None => gone.push(ino),
            }
        }
        if !gone.is_empty() {
            self.own_lose_files(root, &gone);
        }
        self.own_unseal(root);
        Ok(())
    }

    /// Handles of files that are not there any more, and were not said to be open in time.
    fn own_lose_files(&mut self, root: Ino, gone: &[Ino]) {
        let Some(owned) = self.own.trees.get_mut(&root) else { return };
        owned.handles.retain(|handle, ino| {
            let stays = !gone.contains(ino);
            if !stays {
                self.files.at.insert(*handle, NOWHERE);
                _ = self.files.map.get_mut(ino).map(|file| file.rank = NOWHERE);
            }
            stays
        });
        owned.opens.retain(|ino, _| !gone.contains(ino));
        self.lose_held(NOWHERE, std::collections::BTreeSet::new(), false);
    }
}

fn chunks(inos: Vec<Ino>) -> std::collections::VecDeque<Vec<Ino>> {
    inos.chunks(FETCH_MAX / 2).map(<[Ino]>::to_vec).collect()
}
