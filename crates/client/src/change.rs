//! Attribute and xattr changes, space, close, fsync and the syncs of everything: calls that are ordered with the writes before them. Not
//! here: what a fallocate needs next (`space`), and how what is held back is written (`flush`).

use std::sync::Arc;

use loligo_types::{Answer, Control, Cred, FileLock, FsError, Ino, LockKind, Op, Rank, SetAttr};

use crate::calls::Waiter;
use crate::machine::Client;
use crate::session::{DataThen, Then};
use crate::space::Next;
use crate::task::{Event, Step, Task, expect_entry};
use crate::{CallResult, Done, Fh};

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
    fn grow_file(&mut self, waiter: Waiter, cred: &Arc<Cred>, ino: Ino, (handle, kill_priv): (u64, bool), size: u64) {
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
                            self.calls.redo_reads(&self.files, ino, from, u64::MAX);
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

    pub(crate) fn step_fallocate(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let (ino, cred) = (task.ino, Arc::clone(&task.cred));
        let Step::Fallocate(falloc) = &mut task.step else { return None };
        match falloc.heard(&mut self.files, &mut self.core, &mut self.calls, &mut self.ranks, ino, event) {
            Next::Wait => {}
            Next::Flush => self.flush_then(ino, id),
            Next::Ask(op) => self.request(&cred, op, Then::Task(id)),
            Next::Look(times) => self.refresh(&cred, ino, Then::Task(id), times),
            Next::Data(op) => _ = self.data_request(ino, op, DataThen::Task(id)),
            Next::Write(write) => self.write(Waiter::Task(id), &cred, write),
            Next::Grow { handle } => {
                self.grow_file(Waiter::Task(id), &cred, ino, (handle, falloc.kill_priv), falloc.end);
            }
            Next::Done(result) => return Some(result),
        }
        None
    }

    pub(crate) fn sync_all(&mut self, waiter: Waiter, cred: &Arc<Cred>) {
        let step = Step::SyncAll { left: 0, closed: 0, losses: self.files.unsynced.losses() };
        let task = Task { waiter, cred: Arc::clone(cred), ino: Ino(0), exclusive: false, step };
        let id = self.calls.new_task(task);
        let inos: Vec<Ino> = self
            .files
            .map
            .iter()
            .filter(|(_, f)| f.unsynced || !f.is_clean() || f.run.is_some())
            .map(|(i, _)| *i)
            .collect();
        if let Some(Task { step: Step::SyncAll { left, .. }, .. }) = self.calls.tasks.get_mut(&id) {
            *left = inos.len() + 1;
        }
        for ino in inos {
            self.sync_then(ino, id);
        }
        self.calls.events.push_back((id, Event::Flushed));
    }

    /// Everything of which a rank has told this client is durable when it is answered, files that are open here apart.
    pub(crate) fn sync_ranks(&mut self, waiter: Waiter, cred: &Arc<Cred>) {
        let step = Step::SyncRanks { left: self.ranks.sessions.len() };
        let id = self.calls.new_task(Task { waiter, cred: Arc::clone(cred), ino: Ino(0), exclusive: false, step });
        self.ask_all_to_sync(id, cred);
    }

    /// Each rank makes durable what it has. How many were asked.
    fn ask_all_to_sync(&mut self, id: u64, cred: &Arc<Cred>) -> usize {
        let ranks: Vec<_> = self.ranks.sessions.keys().copied().collect();
        for rank in &ranks {
            self.request_at(*rank, Cred::clone(cred), Op::Control(Control::Sync), Then::Task(id), 0);
        }
        ranks.len()
    }

    pub(crate) fn step_sync_all(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        if !self.calls.is_waited_for(task.waiter) {
            return Some(Err(FsError::Unavailable.into()));
        }
        let cred = Arc::clone(&task.cred);
        let Step::SyncAll { left, closed, losses } = &mut task.step else { return None };
        match event {
            Event::Flushed => {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    // Data written through handles that are closed by now is made durable by the server.
                    *closed = self.files.unsynced.closed;
                    *left = self.ask_all_to_sync(id, &cred);
                }
                None
            }
            Event::Reply(Err(error)) => Some(Err(error.into())),
            Event::Reply(Ok(_)) if *left > 1 => {
                *left -= 1;
                None
            }
            Event::Reply(Ok(answer)) => {
                self.files.unsynced.settled = self.files.unsynced.settled.max(*closed);
                Some(self.files.unsynced.tell(*losses).map_or(Ok(Done::plain(answer)), |error| Err(error.into())))
            }
            _ => None,
        }
    }

    /// Asks the rank that has a file or directory for the answer that comes when all is durable that it has answered; and each rank that has told something of
    /// it which was not durable: if it crashed before the directory moved, this client may not have heard of that. How many are asked; 0: all is
    /// durable, because there is nothing that is relaxed, as far as was seen.
    fn persist_then(&mut self, rank: Option<Rank>, ino: Ino, cred: &Arc<Cred>, task: u64) -> usize {
        let ranks = self.ranks.that_persist(rank, ino);
        for rank in &ranks {
            self.request_at(*rank, Cred::clone(cred), Op::Control(Control::Persist), Then::Task(task), 0);
        }
        ranks.len()
    }

    /// Names in a directory are to be durable. Those that were answered are, but for answers that came early.
    pub(crate) fn step_fsync_dir(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let dir = task.ino;
        if !self.calls.is_waited_for(task.waiter) {
            return Some(Err(FsError::Unavailable.into()));
        }
        let Step::FsyncDir { left } = &mut task.step else { return None };
        if self.ranks.take_lost(dir) {
            return Some(Err(FsError::Io.into()));
        }
        match event {
            Event::Start => {
                let rank = self.ranks.route(&self.files, &self.own, &Op::GetAttr { ino: dir });
                *left = self.persist_then(Some(rank), dir, &task.cred, id);
                (*left == 0).then(|| Ok(Done::plain(Answer::Done)))
            }
            Event::Reply(Ok(_)) if *left > 1 => {
                *left -= 1;
                None
            }
            Event::Reply(result) => Some(result.map(Done::plain).map_err(Into::into)),
            _ => None,
        }
    }
}
