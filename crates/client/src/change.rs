//! Attribute and xattr changes, close and fsync: calls that are ordered with the writes before them.

use std::sync::Arc;

use loligo_types::{Answer, Cred, FileLock, FsError, Ino, LockKind, Op, SetAttr};

use crate::file::Files;
use crate::machine::{Client, Waiter};
use crate::ranks::Ranks;
use crate::session::Then;
use crate::task::{Event, Step, Task, expect_entry};
use crate::{CallResult, Done, Fh};

impl Files {
    /// Returns the number of flushed buffered writes of the file if its attributes may be set ahead of the waiting writes, which cannot
    /// go before the create is durable. This holds if the order of the two affects neither the size nor setuid and setgid; the mtime is
    /// kept ([`Files::keep_mtime`]). The caller compares the number later to see that no write went first.
    pub(crate) fn ahead_of_writes(&self, ranks: &Ranks, ino: Ino, set: &SetAttr) -> Option<u64> {
        let file = self.map.get(&ino)?;
        let is_setid = |mode: u16| mode & 0o6000 != 0;
        let stays = set.size.is_none() && !set.kill_priv && set.layout.is_none() && !set.mode.is_some_and(is_setid);
        let may = stays && !is_setid(file.attr.mode) && !file.kill_priv && self.waits_for_birth(ranks, ino);
        may.then_some(file.flushed)
    }

    /// The file of an operation on xattrs that must come behind what is held back of it: a write ends capabilities, but not those that are set
    /// after it; and who looks after it finds none.
    pub(crate) fn behind_writes(&self, op: &Op) -> Option<Ino> {
        let (ino, looks) = match op {
            Op::SetXattr { ino, .. } | Op::RemoveXattr { ino, .. } => (*ino, false),
            Op::GetXattr { ino, .. } | Op::ListXattr { ino } => (*ino, true),
            _ => return None,
        };
        let file = self.map.get(&ino)?;
        let held = !file.is_clean() || file.run.is_some() || file.exclusive.is_some();
        (held && (file.attr.has_xattrs || !looks)).then_some(ino)
    }

    /// The result of a flush: an error that this handle was not told yet, or `Done`.
    pub(crate) fn written_result(&mut self, fh: Fh) -> CallResult {
        match self.take_error(fh) {
            Some(error) => Err(error.into()),
            None => Ok(Done::plain(Answer::Done)),
        }
    }
}

impl Client {
    pub(crate) fn spawn_behind_writes(&mut self, waiter: Waiter, cred: &Arc<Cred>, ino: Ino, op: Op) {
        if op.is_change() {
            self.files.forbid_reuse(ino);
        }
        let task = Task { waiter, cred: Arc::clone(cred), ino, exclusive: true, step: Step::Behind(op) };
        self.files.spawn_exclusive(&mut self.calls, &self.ranks, &self.own, task);
    }

    /// Makes a file at least so long. How long it is the server looks up when it does it: until then the right to be alone
    /// may be given up, and others may have let it grow further.
    pub(crate) fn grow_file(
        &mut self,
        waiter: Waiter,
        cred: &Arc<Cred>,
        ino: Ino,
        (handle, kill_priv): (u64, bool),
        size: u64,
    ) {
        let set = SetAttr { size: Some(size), grow: true, kill_priv, ..SetAttr::default() };
        let step = Step::SetAttr { set, handle: Some(handle), ahead: None };
        let task = Task { waiter, cred: Arc::clone(cred), ino, exclusive: true, step };
        self.files.spawn_exclusive(&mut self.calls, &self.ranks, &self.own, task);
    }

    pub(crate) fn setattr(&mut self, waiter: Waiter, cred: &Arc<Cred>, ino: Ino, set: SetAttr, fh: Option<Fh>) {
        let opened = fh.and_then(|fh| self.files.opened.get(&fh));
        if opened.is_some_and(|opened| opened.dead) {
            return self.calls.fail(&mut self.core, waiter, FsError::Stale);
        }
        // Only a handle that writes may change the size without a look at the permissions.
        let handle = opened.filter(|opened| opened.flags.write).map(|opened| opened.handle);
        self.files.forbid_reuse(ino);
        let ordered = self.files.map.get(&ino).is_some_and(|file| {
            set.size.is_some() || !file.is_clean() || file.run.is_some() || file.exclusive.is_some()
        });
        if !ordered {
            return self.pass(waiter, cred, Op::SetAttr { ino, set, handle });
        }
        let step = Step::SetAttr { set, handle, ahead: None };
        self.files.spawn_exclusive(
            &mut self.calls,
            &self.ranks,
            &self.own,
            Task { waiter, cred: Arc::clone(cred), ino, exclusive: true, step },
        );
    }

    pub(crate) fn step_behind(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let Step::Behind(op) = &task.step else { return None };
        match event {
            Event::Start => self.flush_then(task.ino, id),
            Event::Flushed => {
                let (op, cred) = (op.clone(), Arc::clone(&task.cred));
                self.request(&cred, op, Then::Task(id));
            }
            Event::Reply(Ok(Answer::Entry(attr))) => {
                let (mut lent, files) = self.lent_beside_files();
                return Some(Ok(lent.done_attr(files, attr)));
            }
            Event::Reply(result) => return Some(result.map(Done::plain).map_err(Into::into)),
            _ => {}
        }
        None
    }

    pub(crate) fn step_setattr(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let ino = task.ino;
        let Step::SetAttr { set, handle, ahead } = &mut task.step else { return None };
        match event {
            Event::Start => {
                *ahead = self.files.ahead_of_writes(&self.ranks, ino, set);
                if ahead.is_some() {
                    let op = Op::SetAttr { ino, set: set.clone(), handle: *handle };
                    self.request(&task.cred, op, Then::Task(id));
                    return None;
                }
                // What was written before must not come after: neither its bytes, nor its time, nor that it clears
                // setuid.
                self.flush_then(ino, id);
                None
            }
            Event::Flushed => {
                if let (Some(size), false, Some(file)) = (set.size, set.grow, self.files.map.get_mut(&ino)) {
                    file.drop_unstable(size, u64::MAX);
                }
                let op = Op::SetAttr { ino, set: set.clone(), handle: *handle };
                self.request(&task.cred, op, Then::Task(id));
                None
            }
            Event::Reply(result) => match expect_entry(result) {
                Ok(attr) => {
                    if let Some(flushed) = ahead.take()
                        && set.mtime.is_some()
                    {
                        if !self.files.is_unwritten_since(ino, flushed) {
                            // A later write has set its own time.
                            self.flush_then(ino, id);
                            return None;
                        }
                        self.files.keep_mtime(ino, attr.mtime);
                    }
                    if set.size.is_some() {
                        if let Some(file) = self.files.map.get(&ino) {
                            let from = file.attr.size.min(attr.size);
                            self.calls.redo_reads(&mut self.files, ino, from, u64::MAX);
                        }
                        self.files.change_blocks(ino, |file| file.cut(&attr));
                    }
                    let (mut lent, files) = self.lent_beside_files();
                    Some(Ok(lent.done_attr(files, attr)))
                }
                Err(error) => {
                    if let (Some(_), Some(file)) = (set.size, self.files.map.get_mut(&ino)) {
                        file.at_risk = true;
                    }
                    Some(Err(error.into()))
                }
            },
            _ => None,
        }
    }

    /// A descriptor was closed.
    pub(crate) fn step_flush(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let (ino, cred) = (task.ino, Arc::clone(&task.cred));
        let Step::Flush { fh, owner, unlocking } = &mut task.step else { return None };
        match event {
            Event::Start if self.files.may_close_ahead(&self.core, &self.ranks, ino) => {
                self.start_run(ino);
                self.calls.events.push_back((id, Event::Flushed));
                None
            }
            Event::Start => {
                self.flush_then(ino, id);
                None
            }
            Event::Flushed => {
                let lock = owner.filter(|owner| self.files.holds_locks(ino, LockKind::Posix, *owner)).map(|owner| {
                    FileLock { kind: LockKind::Posix, owner, pid: 0, exclusive: false, start: 0, end: u64::MAX }
                });
                if let (Some(lock), false) = (lock, *unlocking) {
                    *unlocking = true;
                    self.unlock(Waiter::Task(id), &cred, *fh, lock);
                    return None;
                }
                Some(self.files.written_result(*fh))
            }
            Event::Done(_) => Some(self.files.written_result(*fh)),
            _ => None,
        }
    }

    pub(crate) fn step_fsync(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let ino = task.ino;
        if !self.calls.is_waited_for(task.waiter) {
            return Some(Err(FsError::Unavailable.into()));
        }
        let Step::Fsync { fh, left } = &mut task.step else { return None };
        match event {
            Event::Start => {
                self.sync_then(ino, id);
                None
            }
            Event::Flushed => match (self.files.written_result(*fh), self.own.fsync(ino)) {
                // What says that it is there is to be durable, too.
                (Ok(_), Some((root, goal))) => {
                    self.own.complete(&mut self.core, &mut self.calls, root, Waiter::Task(id), goal, None);
                    None
                }
                (Ok(_), None) if self.ranks.take_lost(ino) => Some(Err(FsError::Io.into())),
                (Ok(done), None) => {
                    let rank = self.files.map.get(&ino).map(|file| file.rank);
                    let rank = rank.or_else(|| self.files.at.get(&self.files.opened.get(fh)?.handle).copied());
                    *left = self.persist_then(rank, ino, &task.cred, id);
                    (*left == 0).then_some(Ok(done))
                }
                (result, _) => Some(result),
            },
            Event::Reply(Ok(_)) if self.ranks.take_lost(ino) => Some(Err(FsError::Io.into())),
            Event::Reply(Ok(_)) if *left > 1 => {
                *left -= 1;
                None
            }
            Event::Reply(result) => Some(result.map(Done::plain).map_err(Into::into)),
            Event::Done(result) => Some(result),
            _ => None,
        }
    }
}
