//! Requests to a subtree that is decoupled for this client, carried out here. Not here: fetching missing records (`ask.rs`), and bytes of
//! objects (`data.rs`).

use loligo_subtree::Outcome;
use loligo_types::{Answer, Attr, Cred, FsError, FsResult, Ino, Kind, Lease, Op};

use super::{Job, OWN, OwnReply};
use crate::machine::Client;
use crate::own::Own;
use crate::session::Then;

impl Own {
    /// Overlays a rank's attributes of the root of a decoupled subtree with those here.
    pub(crate) fn overlay(&self, attr: &mut Attr) {
        if let Some(root) = self.trees.get(&attr.ino).and_then(|owned| owned.machine.inode(attr.ino)) {
            let here = root.attr();
            (attr.size, attr.nlink) = (here.size, here.nlink);
            (attr.mtime, attr.ctime) = (here.mtime.max(attr.mtime), here.ctime.max(attr.ctime));
        }
    }

    /// Fails the requests that wait in a subtree.
    pub(super) fn fail_waiting(&mut self, root: Ino, error: FsError) {
        let waiting = self.trees.get_mut(&root).map(|owned| {
            owned.needs.clear();
            std::mem::take(&mut owned.waiting)
        });
        for job in waiting.unwrap_or_default() {
            self.answer(job.op, job.then, Err(error));
        }
    }
}

impl Client {
    /// Something is asked that was to be asked of a rank, of what is decoupled here.
    pub(crate) fn own_request(&mut self, cred: Cred, op: Op, then: Then) {
        let job = Job { cred, op, then };
        match &job.op {
            Op::Close { handles, .. } => {
                let handles = handles.clone();
                self.own_close(&handles);
                self.own.answer(job.op, job.then, Ok(Answer::Done));
            }
            Op::SetLock { .. } | Op::Unlock { .. } | Op::GetLock { .. } | Op::CancelLock { .. } => {
                self.own.lock(&self.files.locks, job);
            }
            op => match self.own.root_for(op) {
                Some(root) => self.own_run(root, job),
                // It was decoupled when it was routed.
                None => {
                    let rank = self.ranks.route(&self.files, &self.own, op);
                    self.request_at(if rank == OWN { self.ranks.home } else { rank }, job.cred, job.op, job.then, 0);
                }
            },
        }
    }

    pub(super) fn own_run(&mut self, root: Ino, job: Job) {
        let now = self.core.now.wall;
        let Some(owned) = self.own.trees.get_mut(&root) else { return };
        if owned.ending || owned.gated {
            return owned.waiting.push(job);
        }
        let job = Job { cred: owned.counts_as(job.cred), ..job };
        match owned.may_not_merge(&job.cred, &job.op, now) {
            Ok(None) => {}
            Ok(Some(error)) => return self.own_done(root, job, Err(error)),
            Err(needs) => {
                owned.needs.extend(needs);
                owned.waiting.push(job);
                return self.own_ask(root);
            }
        }
        let opens = &owned.opens;
        let open_count = |ino: Ino| opens.get(&ino).copied().unwrap_or(0);
        // Of a walk the first step is done: it is of one name, or goes on with another request.
        let first = match &job.op {
            Op::Walk { dir, names, .. } => names.first().map(|name| Op::Lookup { dir: *dir, name: name.clone() }),
            _ => None,
        };
        match owned.machine.run_while_open(first.as_ref().unwrap_or(&job.op), &job.cred, now, &open_count) {
            Outcome::Done(result) => self.own_done(root, job, result),
            Outcome::Fetch(needs) => {
                owned.needs.extend(needs);
                owned.waiting.push(job);
                self.own_ask(root);
            }
            Outcome::Numbers => {
                owned.numbers = true;
                owned.waiting.push(job);
                self.own_ask(root);
            }
        }
    }

    fn own_done(&mut self, root: Ino, job: Job, mut result: FsResult<Answer>) {
        let Some(owned) = self.own.trees.get_mut(&root) else { return };
        let drops = owned.machine.take_drops();
        match &mut result {
            Ok(Answer::Opened { attr, rights, .. }) => {
                if let Op::Open { handle, .. } | Op::Create { handle, .. } = &job.op {
                    owned.handles.insert(*handle, attr.ino);
                    *owned.opens.entry(attr.ino).or_default() += 1;
                }
                let all = Lease::CACHE | Lease::BUFFER;
                *rights = if attr.kind == Kind::File { all } else { Lease::NONE };
            }
            Ok(last @ Answer::Entry(_)) if matches!(job.op, Op::Walk { .. }) => {
                let Op::Walk { dir, .. } = &job.op else { return };
                let last = Box::new(std::mem::replace(last, Answer::Done));
                result = Ok(Answer::Walked { done: 1, dir: *dir, last, by_path: 0 });
            }
            Ok(Answer::Entries { entries, .. }) => {
                for entry in entries.iter_mut().filter(|entry| entry.attr.is_some()) {
                    entry.lease = Lease::ATTR;
                }
            }
            _ => {}
        }
        let reply = OwnReply { op: job.op, then: job.then, result };
        if drops.is_empty() {
            return self.own.replies.push_back(reply);
        }
        self.own_drop(drops, Some(reply));
    }

    /// Handles are closed: what has no name any more is gone with the last.
    fn own_close(&mut self, handles: &[u64]) {
        let mut drops = Vec::new();
        for owned in self.own.trees.values_mut() {
            for handle in handles {
                let Some(ino) = owned.handles.remove(handle) else { continue };
                let Some(count) = owned.opens.get_mut(&ino) else { continue };
                *count -= 1;
                if *count == 0 {
                    owned.opens.remove(&ino);
                    drops.extend(owned.machine.closed(ino));
                }
            }
        }
        if !drops.is_empty() {
            self.own_drop(drops, None);
        }
    }

    /// An answer is given to who asked.
    pub(crate) fn own_replied(&mut self, reply: OwnReply) {
        let OwnReply { op, then, result } = reply;
        self.at_hand.take_up(OWN, 0, &[]);
        match (&result, &op) {
            (Ok(Answer::Entry(attr)), _) => {
                let (lent, files) = self.lent_beside_files();
                lent.learn(files, attr);
            }
            (Ok(Answer::Opened { .. }), Op::Open { handle, .. } | Op::Create { handle, .. }) => {
                self.files.at.insert(*handle, OWN);
            }
            _ => {}
        }
        let unlocks = matches!(op, Op::Unlock { .. } | Op::SetLock { .. });
        self.replied(OWN, then, result);
        self.at_hand.put_down();
        if unlocks && !self.own.locks.is_empty() {
            self.own.try_locks(&self.files.locks);
        }
    }

    /// Everything that waits in a subtree is tried again.
    pub(super) fn own_retry(&mut self, root: Ino) {
        let waiting = self.own.trees.get_mut(&root).map(|owned| std::mem::take(&mut owned.waiting));
        for job in waiting.unwrap_or_default() {
            self.own_run(root, job);
        }
    }
}
