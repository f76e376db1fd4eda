//! Deciding operations on what a decoupled subtree holds: the answer, or what it waits for. Not here: how an operation is decided by itself
//! ([`loligo_subtree`]), in whose name (`users`), and the way of the answer (`serve`).

use loligo_subtree::{Drop, Outcome};
use loligo_types::{Answer, FsResult, Ino, Kind, Lease, Op, Time};

use super::{Job, Own, OwnReply, Owned};

impl Owned {
    /// Decides an operation. `None`: it waits, for what is to be asked for if `Owned::next_ask` says so.
    pub(super) fn decide(&mut self, job: Job, now: Time) -> Option<(OwnReply, Vec<Drop>)> {
        if self.ending || self.gated {
            self.waiting.push(job);
            return None;
        }
        let job = Job { cred: self.counts_as(job.cred), ..job };
        match self.may_not_merge(&job.cred, &job.op, now) {
            Ok(None) => {}
            Ok(Some(error)) => return Some(self.decided(job, Err(error))),
            Err(needs) => {
                self.needs.extend(needs);
                self.waiting.push(job);
                return None;
            }
        }
        let opens = &self.opens;
        let open_count = |ino: Ino| opens.get(&ino).copied().unwrap_or(0);
        // Of a walk the first step is done: it is of one name, or goes on with another request.
        let first = match &job.op {
            Op::Walk { dir, names, .. } => names.first().map(|name| Op::Lookup { dir: *dir, name: name.clone() }),
            _ => None,
        };
        match self.machine.run_while_open(first.as_ref().unwrap_or(&job.op), &job.cred, now, &open_count) {
            Outcome::Done(result) => return Some(self.decided(job, result)),
            Outcome::Fetch(needs) => self.needs.extend(needs),
            Outcome::Numbers => self.numbers = true,
        }
        self.waiting.push(job);
        None
    }

    /// The answer to an operation, and bytes that are to be dropped before it is given.
    fn decided(&mut self, job: Job, mut result: FsResult<Answer>) -> (OwnReply, Vec<Drop>) {
        let drops = self.machine.take_drops();
        match &mut result {
            Ok(Answer::Opened { attr, rights, .. }) => {
                if let Op::Open { handle, .. } | Op::Create { handle, .. } = &job.op {
                    self.handles.insert(*handle, attr.ino);
                    *self.opens.entry(attr.ino).or_default() += 1;
                }
                let all = Lease::CACHE | Lease::BUFFER;
                *rights = if attr.kind == Kind::File { all } else { Lease::NONE };
            }
            Ok(last @ Answer::Entry(_)) => {
                if let Op::Walk { dir, .. } = &job.op {
                    let last = Box::new(std::mem::replace(last, Answer::Done));
                    result = Ok(Answer::Walked { done: 1, dir: *dir, last, by_path: 0 });
                }
            }
            Ok(Answer::Entries { entries, .. }) => {
                for entry in entries.iter_mut().filter(|entry| entry.attr.is_some()) {
                    entry.lease = Lease::ATTR;
                }
            }
            _ => {}
        }
        (OwnReply { op: job.op, then: job.then, result }, drops)
    }
}

impl Own {
    /// Handles are closed: what has no name any more is gone with the last, and its bytes are to be dropped.
    pub(super) fn closed(&mut self, handles: &[u64]) -> Vec<Drop> {
        let mut drops = Vec::new();
        for owned in self.trees.values_mut() {
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
        drops
    }
}
