//! Opening and closing. A handle stays open at the server for a while after its last close here, and serves the next
//! open that asks for the same, without a message. With a close go the locks that were taken through it. Not here: which handle serves
//! what (`handles`).

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_types::{
    Answer, Attr, Control, Cred, FileLock, FsError, Ino, Kind, Lease, LockKind, LockOwner, Op, OpenFlags, Rank, SetAttr,
};

use crate::calls::Waiter;
use crate::file::{File, Handle, Opened};
use crate::handles::Opening;
use crate::locks::{Key, taken};
use crate::machine::Client;
use crate::session::{Pass, Then};
use crate::task::{Event, Step, Task};
use crate::{CallResult, Done, Fh};

/// Handles closed with one request.
const CLOSE_BATCH: usize = 64;

impl Client {
    pub(crate) fn open(&mut self, waiter: Waiter, cred: &Arc<Cred>, ino: Ino, flags: OpenFlags) {
        if let Some(done) = self.files.reopen(&self.calls, &self.ranks, &self.own, cred, ino, flags) {
            return self.calls.complete(&mut self.core, waiter, Ok(done));
        }
        let handle = self.files.new_handle();
        let op = Op::Open { ino, flags, handle };
        if flags.truncate && self.files.map.contains_key(&ino) {
            // Ordered with what is held back of it.
            let opening = Opening {
                dir: Ino(0),
                flags,
                handle,
                op: Some(op),
                truncate: false,
                opened: None,
                ways: None,
                leased: Vec::new(),
            };
            let task = Task { waiter, cred: Arc::clone(cred), ino, exclusive: true, step: Step::Open(opening) };
            self.files.spawn_exclusive(&mut self.calls, &self.ranks, &self.own, task);
        } else {
            self.open_with(Pass::new(waiter, cred), op, false, None);
        }
    }

    /// Opens with a request, of this rank if it says one; `truncate`: then cuts what is not new.
    pub(crate) fn open_with(&mut self, pass: Pass, op: Op, truncate: bool, rank: Option<Rank>) {
        let Pass { waiter, cred, ways, .. } = pass;
        let Some((handle, flags)) = op.opens() else {
            return self.calls.fail(&mut self.core, waiter, FsError::Invalid);
        };
        let dir = if let Op::Create { dir, .. } = &op { *dir } else { Ino(0) };
        let opening = Opening { dir, flags, handle, op: None, truncate, opened: None, ways, leased: Vec::new() };
        let task = Task { waiter, cred: Arc::clone(&cred), ino: Ino(0), exclusive: false, step: Step::Open(opening) };
        let id = self.calls.new_task(task);
        match rank {
            Some(rank) => self.request_at(rank, Cred::clone(&cred), op, Then::Task(id), 0),
            None => self.request(&cred, op, Then::Task(id)),
        }
    }

    pub(crate) fn step_open(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let cred = Arc::clone(&task.cred);
        let ino = task.ino;
        let Step::Open(opening) = &mut task.step else { return None };
        match event {
            Event::Start => self.flush_then(ino, id),
            Event::Flushed => {
                let op = opening.op.take()?;
                if let Some(file) = self.files.map.get_mut(&ino) {
                    file.drop_unstable(0, u64::MAX);
                }
                self.request(&cred, op, Then::Task(id));
            }
            Event::Reply(Err(error)) => {
                if let Some(file) = self.files.map.get_mut(&ino) {
                    file.at_risk = true;
                }
                let names_cached =
                    opening.dir != Ino(0) && error == FsError::NotFound && self.lent().use_names(opening.dir);
                return Some(Err(crate::Failed { error, names_cached }));
            }
            Event::Reply(Ok(answer)) => {
                let (flags, handle, dir) = (opening.flags, opening.handle, opening.dir);
                let ways = std::mem::take(&mut opening.leased);
                let (attr, created, rights, data) = match answer {
                    Answer::Opened { attr, created, rights, data } => (attr, created, rights, data),
                    walked @ Answer::Walked { .. } => {
                        let (mut lent, files) = self.lent_beside_files();
                        return Some(Ok(Done { ways, ..lent.done_walked(files, walked) }));
                    }
                    _ => return Some(Err(FsError::Io.into())),
                };
                if !self.calls.is_awaited(task.waiter) {
                    // Given up meanwhile: nobody will close it.
                    self.close_later(handle, &cred);
                    return Some(Err(FsError::Interrupted.into()));
                }
                let done = self.opened(&cred, handle, flags, &attr, rights, data);
                let names_cached = dir != Ino(0) && self.lent().use_names(dir);
                let answer = Answer::Opened { attr: done.1, created, rights: done.2, data: None };
                let mut result = Done {
                    fh: Some(done.0),
                    keep_data: done.3,
                    attr_cached: self.lent().use_attr(attr.ino),
                    names_cached,
                    ways,
                    ..Done::plain(answer)
                };
                let Step::Open(opening) = &mut task.step else { return None };
                if !opening.truncate || created || attr.kind != Kind::File {
                    return Some(Ok(result));
                }
                result.keep_data = false;
                opening.opened = Some(result);
                let set = SetAttr { size: Some(0), ..SetAttr::default() };
                self.setattr(Waiter::Task(id), &cred, attr.ino, set, Some(done.0));
            }
            Event::Done(result) => {
                let mut done = opening.opened.take()?;
                return Some(match result {
                    Ok(cut) => {
                        if let (Answer::Opened { attr, .. }, Some(new)) = (&mut done.answer, cut.attr()) {
                            *attr = *new;
                        }
                        Ok(done)
                    }
                    Err(error) => {
                        if let Some(fh) = done.fh {
                            self.release(Waiter::Nobody, &cred, fh, None);
                        }
                        Err(error)
                    }
                });
            }
            _ => {}
        }
        None
    }

    /// Notes a new handle. Its number here, the attributes, the rights, and whether data above may be kept.
    fn opened(
        &mut self,
        cred: &Arc<Cred>,
        handle: u64,
        flags: OpenFlags,
        attr: &Attr,
        rights: Lease,
        data: Option<Arc<[u8]>>,
    ) -> (Fh, Attr, Lease, bool) {
        let is_file = attr.kind == Kind::File;
        let fh = self.files.new_fh(attr.ino, handle, flags);
        let handle_state = Handle {
            ino: attr.ino,
            flags: OpenFlags { truncate: false, ..flags },
            cred: Arc::clone(cred),
            dir: !is_file,
            fh: Some(fh),
            idle_since: 0,
            reusable: true,
        };
        self.files.handles.insert(handle, handle_state);
        let rank = *self.files.at.entry(handle).or_insert(self.ranks.speaker);
        if !is_file {
            let (lent, files) = self.lent_beside_files();
            lent.learn(files, attr);
            return (fh, *attr, Lease::NONE, false);
        }
        let known = self.files.map.contains_key(&attr.ino);
        let current = self.lent().counts(attr.ino, Lease::ATTR);
        if known {
            // It may have moved since it was opened before.
            self.move_file(attr.ino, rank);
        }
        let mode = self.files.modes.remove(&attr.ino);
        let file = self.files.map.entry(attr.ino).or_insert_with(|| File::new(*attr, rank));
        file.journaling = mode.unwrap_or(file.journaling);
        let keep = known && file.may_cache() && !flags.truncate;
        let unfounded = file.opened(&mut self.core, (handle, flags), attr, current, rights, data);
        let (cached, errors) = (file.may_cache(), file.errors);
        let mut attr = *attr;
        file.overlay(&mut attr);
        let rights = file.rights;
        if let Some(opened) = self.files.opened.get_mut(&fh) {
            (opened.cached, opened.errors_seen) = (cached, errors);
        }
        if unfounded {
            self.doubt_rights(attr.ino);
        }
        (fh, attr, rights, keep && !unfounded)
    }

    /// The last descriptor was closed. Answered at once; the rest goes on behind.
    pub(crate) fn release(&mut self, waiter: Waiter, cred: &Arc<Cred>, fh: Fh, flock_owner: Option<LockOwner>) {
        let Some(opened) = self.files.opened.remove(&fh) else {
            return self.calls.fail(&mut self.core, waiter, FsError::BadHandle);
        };
        if !opened.dead {
            if let Some(owner) = flock_owner {
                self.drop_flock(cred, &opened, owner);
            }
            self.drop_taken_through(cred, &opened);
            self.retire(opened.handle);
            self.kick(opened.ino);
        }
        self.calls.answer(&mut self.core, waiter, Answer::Done);
    }

    /// A handle is not in use any more.
    fn retire(&mut self, number: u64) {
        let (now, delay) = (self.core.now.ms, self.core.config.close_delay_ms);
        let Some(handle) = self.files.handles.get_mut(&number) else { return };
        handle.fh = None;
        handle.idle_since = now;
        let is_dir = handle.dir;
        if let Some(file) = self.files.map.get_mut(&handle.ino) {
            file.spare.push(number);
        }
        if is_dir || !self.core.config.cache || delay == 0 {
            handle.reusable = false;
        } else if self.files.has_like(number) && !self.files.is_needed(number) {
            // Who opens by path gets a new one each time.
            return self.close(number);
        }
        self.files.idle.push_back(number);
        if is_dir || !self.core.config.cache || self.files.idle.len() > self.core.config.idle_handles {
            self.close_idle();
        }
    }

    /// Closes handles that were idle for long enough, or are too many.
    pub(crate) fn close_idle(&mut self) {
        let mut rounds = self.files.idle.len();
        while rounds > 0 {
            rounds -= 1;
            let Some(number) = self.files.idle.pop_front() else { return };
            let Some(handle) = self.files.handles.get(&number) else { continue };
            if handle.fh.is_some() {
                continue;
            }
            let old = self.core.now.ms.saturating_sub(handle.idle_since) >= self.core.config.close_delay_ms;
            let crowded = self.files.idle.len() >= self.core.config.idle_handles;
            if handle.reusable && !old && !crowded && !self.core.stopping {
                self.files.idle.push_front(number);
                return;
            }
            if self.files.is_needed(number) {
                self.files.idle.push_back(number);
                continue;
            }
            self.close(number);
        }
    }

    /// Closes the handles of a file that nobody uses here, if nothing may need them.
    pub(crate) fn close_unused(&mut self, ino: Ino) {
        let Some(file) = self.files.map.get(&ino) else { return };
        let idle: Vec<u64> = file
            .handles
            .iter()
            .copied()
            .filter(|h| self.files.handles.get(h).is_some_and(|h| h.fh.is_none()) && !self.files.is_needed(*h))
            .collect();
        for handle in idle {
            self.close(handle);
        }
    }

    /// Ends a handle. Nothing of its file may need it.
    pub(crate) fn close(&mut self, number: u64) {
        let Some(handle) = self.files.handles.remove(&number) else { return };
        if handle.flags.write && self.files.map.get(&handle.ino).is_some_and(|file| file.leaves_bytes) {
            self.files.closing_leaves.insert(number);
        }
        let writer = match self.files.map.get_mut(&handle.ino) {
            Some(file) => {
                file.handles.retain(|h| *h != number);
                file.spare.retain(|h| *h != number);
                file.writers = file.writers.saturating_sub(usize::from(handle.flags.write));
                self.files.map.get(&handle.ino).and_then(|file| self.files.writer(file))
            }
            None => None,
        };
        if let Some(file) = self.files.map.get_mut(&handle.ino) {
            if file.handles.is_empty() {
                self.drop_file(handle.ino);
            } else if writer.is_none() && handle.flags.write {
                // The right to hold back came with a handle that writes.
                file.rights = file.rights.without(Lease::BUFFER);
                file.risk();
            }
        }
        self.close_later(number, &handle.cred);
    }

    /// Forgets a file that has no handle any more.
    fn drop_file(&mut self, ino: Ino) {
        if let Some(file) = self.files.map.remove(&ino) {
            self.files.unsynced.forget(&file);
            self.files.block_bytes = self.files.block_bytes.saturating_sub(file.blocks.bytes());
            self.files.blocks_of.remove(&ino);
            self.files.dirty.remove(&ino);
            self.recalls.file_gone(ino, &file.recalls);
        }
        self.finish_recalls();
    }

    /// Puts a handle among those that are closed with the next request.
    pub(crate) fn close_later(&mut self, handle: u64, cred: &Arc<Cred>) {
        self.files.closing.push(handle);
        // Any user may close; one that this connection may speak for.
        self.files.close_cred = Some(Arc::clone(cred));
        if self.files.closing.len() >= CLOSE_BATCH {
            self.send_closes();
        }
    }

    /// Closes at the server what is closed here.
    pub(crate) fn send_closes(&mut self) {
        let Some(cred) = self.files.close_cred.take() else { return };
        let mut ranks = BTreeMap::<(Rank, bool), Vec<u64>>::new();
        let leaves = std::mem::take(&mut self.files.closing_leaves);
        for handle in std::mem::take(&mut self.files.closing) {
            let lost = leaves.contains(&handle);
            let at = self.files.at.remove(&handle).unwrap_or(self.ranks.router.some_rank(self.ranks.home));
            ranks.entry((at, lost)).or_default().push(handle);
            // Whoever does not have it passes that over.
            for from in
                self.files.take_guessed(handle).into_iter().filter(|from| self.ranks.sessions.contains_key(from))
            {
                ranks.entry((from, lost)).or_default().push(handle);
            }
        }
        for ((rank, lost), handles) in ranks {
            self.request_at(rank, Cred::clone(&cred), Op::Control(Control::Close { handles, lost }), Then::Nothing, 0);
        }
    }

    /// A lock was got after its call had been given up: nobody would ever give it back. Not done if the owner has others
    /// there, or asks for one, which would go with it.
    pub(crate) fn give_lock_back(&mut self, cred: &Arc<Cred>, handle: u64, lock: FileLock) -> bool {
        let Some(ino) = self.files.handles.get(&handle).map(|handle| handle.ino) else { return false };
        let key = (ino, lock.kind, lock.owner);
        let asks = self.ranks.unanswered().any(|pending| taken(&pending.request.op) == Some(key));
        if asks || self.files.holds_locks(ino, lock.kind, lock.owner) {
            return false;
        }
        self.lock_request(
            Waiter::Nobody,
            cred,
            Op::Control(Control::Unlock { ino, handle, lock }),
            (handle, lock, false),
        );
        true
    }

    /// The open file that a flock belongs to is gone, and so is what was asked for and is not answered yet: a kernel lets nobody close what
    /// a lock is being taken through, but a program that uses the library may.
    fn drop_flock(&mut self, cred: &Arc<Cred>, opened: &Opened, owner: LockOwner) {
        let kind = LockKind::Flock;
        let asked = self.ranks.end_taking(&mut self.own, (opened.ino, kind, owner));
        if asked {
            // It may wait at the server. If it has it, it is given back below: what is asked of a rank is done in order.
            self.cancel_behind(opened.ino, owner);
            self.request(cred, Op::Control(Control::CancelLock { ino: opened.ino, owner }), Then::Nothing);
        }
        if !asked && !self.files.holds_locks(opened.ino, kind, owner) {
            return;
        }
        self.files.locks.remove(&(opened.ino, kind, owner));
        let lock = FileLock { kind, owner, pid: 0, exclusive: false, start: 0, end: u64::MAX };
        let op = Op::Control(Control::Unlock { ino: opened.ino, handle: opened.handle, lock });
        self.lock_request(Waiter::Nobody, cred, op, (opened.handle, lock, false));
    }

    /// An open file is gone, and with it the record locks that were taken through it and are held still. Those are of its open file
    /// description (`F_OFD_SETLK`): nothing else tells of their end, and a process gives its own back at each close. The handle may serve
    /// the next open, so the server does not end them by itself.
    fn drop_taken_through(&mut self, cred: &Arc<Cred>, opened: &Opened) {
        if self.files.locks.is_empty() {
            return;
        }
        let (ino, kind) = (opened.ino, LockKind::Posix);
        let of_file = (ino, kind, LockOwner(0))..=(ino, kind, LockOwner(u64::MAX));
        let mut taken = Vec::new();
        for (_, held) in self.files.locks.range_mut(of_file.clone()) {
            taken.extend(held.extract_if(.., |(through, _)| *through == opened.handle).map(|(_, lock)| lock));
        }
        if taken.is_empty() {
            return;
        }
        let ended: Vec<Key> =
            self.files.locks.range(of_file).filter(|(_, held)| held.is_empty()).map(|(key, _)| *key).collect();
        ended.iter().for_each(|key| _ = self.files.locks.remove(key));
        for lock in taken {
            let op = Op::Control(Control::Unlock { ino, handle: opened.handle, lock });
            self.lock_request(Waiter::Nobody, cred, op, (opened.handle, lock, false));
        }
    }
}
