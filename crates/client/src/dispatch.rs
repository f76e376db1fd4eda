//! From a call to what is done for it; and calls that are one request and nothing else, with those on locks and on objects of a granted
//! number. Not here: calls of several steps (`open`, `data`, `change`).

use std::sync::Arc;

use loligo_types::limits::WALK_MAX;
use loligo_types::{
    About, Answer, Control, Cred, DataOp, FileLock, FsError, FsResult, Ino, Name, Op, Rank, RenameMode, Replicas,
};

use crate::call::Done;
use crate::calls::Waiter;
use crate::machine::Client;
use crate::own::SUBTREE_XATTR;
use crate::session::{DataThen, Pass, Then};
use crate::space::{Copy, Falloc, Seek};
use crate::task::{Step, Task};
use crate::{Call, Failed, Fh, WalkAt};

impl Client {
    /// Starts a task on a file, if that can be done.
    fn spawn_found(&mut self, waiter: Waiter, cred: &Arc<Cred>, found: FsResult<(Ino, Step)>) {
        match found {
            Ok((ino, step)) => _ = self.calls.spawn(waiter, cred, ino, step),
            Err(error) => self.calls.fail(&mut self.core, waiter, error),
        }
    }

    pub(crate) fn dispatch(&mut self, waiter: Waiter, cred: &Arc<Cred>, call: Call) {
        if self.own.is_any()
            && let Some(file) = self.own.must_fork(&self.files, &call)
        {
            return self.own_fork_first(file, waiter, cred, call);
        }
        match call {
            call @ (Call::Op(Op::Control(Control::Sync)) | Call::SyncAll) if self.own.persists() => {
                self.own.sync_first(&mut self.core, &mut self.calls, waiter, cred, call)
            }
            // What its owner does is durable as the policies say.
            Call::FsyncDir { .. } if self.own.persists() => {
                self.own.sync_first(&mut self.core, &mut self.calls, waiter, cred, Call::Op(Op::Control(Control::Sync)))
            }
            Call::Op(Op::Control(Control::Sync)) if !self.ranks.is_single() => self.sync_ranks(waiter, cred),
            Call::Op(Op::SetXattr { ino, name, value, .. }) if *name == *SUBTREE_XATTR => {
                self.own_command(waiter, cred, ino, &value);
            }
            Call::Op(Op::GetXattr { ino, name }) if *name == *SUBTREE_XATTR => {
                match self.own.status(&self.core, &self.calls, ino) {
                    Some(text) => self.calls.answer(&mut self.core, waiter, Answer::Bytes(text.into())),
                    None => self.calls.fail(&mut self.core, waiter, FsError::NoData),
                }
            }
            Call::Op(op) => match self.own.new_policy(&op) {
                Some((root, policy)) => {
                    self.own.change_policy(&mut self.core, &mut self.calls, waiter, root, policy, op)
                }
                None => match self.files.behind_writes(&op) {
                    Some(ino) => self.spawn_behind_writes(waiter, cred, ino, op),
                    None => self.pass(waiter, cred, op),
                },
            },
            Call::Walk { dir, names, at, to_dir, ways } => {
                self.walk(Pass { ways, ..Pass::new(waiter, cred) }, (dir, names), at, to_dir);
            }
            Call::Via { dir, names, at, what, ways } => {
                self.via(Pass { ways, ..Pass::new(waiter, cred) }, (dir, names), at, *what);
            }
            Call::GetAttr { ino } => self.pass(waiter, cred, Op::GetAttr { ino }),
            Call::SetAttr { ino, set, fh } => self.setattr(waiter, cred, ino, set, fh),
            Call::Open { ino, flags } => self.open(waiter, cred, ino, flags),
            Call::Create { dir, name, mode, umask, flags, exclusive } => {
                let handle = self.files.new_handle();
                // Cutting a file that exists must be ordered with what this client holds back of it; its number is
                // known only when it is open.
                let truncate = flags.truncate && !exclusive;
                let flags = loligo_types::OpenFlags { truncate: false, ..flags };
                let op = Op::Create { dir, name, mode, umask, flags, exclusive, handle };
                self.open_with(Pass::new(waiter, cred), op, truncate, None);
            }
            Call::Tmpfile { dir, mode, umask, flags, linkable } => {
                let handle = self.files.new_handle();
                let op = Op::Tmpfile { dir, mode, umask, flags, linkable, handle };
                self.open_with(Pass::new(waiter, cred), op, false, None);
            }
            Call::Read { fh, offset, len } => self.read(waiter, cred, fh, offset, len),
            Call::Write { fh, offset, data, append, kill_priv } => {
                self.write(waiter, cred, crate::writing::Write { fh, offset, data, append, kill_priv });
            }
            Call::Flush { fh, owner } => self.calls.spawn_fh(&mut self.core, &mut self.files, waiter, cred, fh, |_| {
                Step::Flush { fh, owner, unlocking: false }
            }),
            Call::Fsync { fh, .. } => {
                self.calls.spawn_fh(&mut self.core, &mut self.files, waiter, cred, fh, |_| Step::Fsync { fh, left: 0 })
            }
            Call::FsyncDir { dir } => _ = self.calls.spawn(waiter, cred, dir, Step::FsyncDir { left: 0 }),
            Call::Release { fh, flock_owner } => self.release(waiter, cred, fh, flock_owner),
            Call::Fallocate { fh, how, offset, len, kill_priv } => {
                // An inline range is zeroed by writes, which have the file to themselves one by one; so this has it not.
                let found = Falloc::new(&self.files, fh, (how, kill_priv), offset, len);
                self.spawn_found(waiter, cred, found.map(|(ino, falloc)| (ino, Step::Fallocate(falloc))));
            }
            Call::Seek { fh, offset, data } => {
                self.calls.spawn_fh(&mut self.core, &mut self.files, waiter, cred, fh, |_| {
                    Step::Seek(Seek::new(offset, data))
                });
            }
            Call::Copy { from, from_offset, to, to_offset, len, kill_priv } => {
                let copy = Copy::new((from, from_offset), (to, to_offset), len, kill_priv);
                let found = copy.target(&self.files);
                self.spawn_found(waiter, cred, found.map(|ino| (ino, Step::Copy(copy))));
            }
            Call::Readdir { fh, cookie, limit, plus } => match self.files.fh_handle(fh) {
                Ok((dir, handle)) => {
                    self.pass(waiter, cred, Op::Readdir { dir, cookie, limit, plus, handle: Some(handle) });
                }
                Err(error) => self.calls.fail(&mut self.core, waiter, error),
            },
            Call::SetLock { fh, lock, wait } => self.set_lock(waiter, cred, fh, lock, wait),
            Call::Unlock { fh, lock } => self.unlock(waiter, cred, fh, lock),
            Call::GetLock { fh, lock } => match self.files.fh_handle(fh) {
                Ok((ino, handle)) => self.pass(waiter, cred, Op::Control(Control::GetLock { ino, handle, lock })),
                Err(error) => self.calls.fail(&mut self.core, waiter, error),
            },
            Call::CancelLock { ino, owner } => {
                self.cancel_behind(ino, owner);
                self.pass(waiter, cred, Op::Control(Control::CancelLock { ino, owner }));
            }
            Call::Access { ino, want } => self.pass(waiter, cred, Op::Access { ino, want }),
            Call::Forget { inos } => {
                self.forget(inos);
                self.calls.answer(&mut self.core, waiter, Answer::Done);
            }
            Call::SyncAll => self.sync_all(waiter, cred),
            Call::Data { ino, op } => self.data_raw(waiter, cred, ino, op),
        }
    }

    /// Goes a way as far as one request leads.
    fn walk(&mut self, pass: Pass, way: (Ino, Arc<[Name]>), at: WalkAt, to_dir: bool) {
        let (dir, names) = way;
        if names.is_empty() || names.len() > WALK_MAX {
            // A server would take it for nonsense, and end the connection.
            return self.calls.fail(&mut self.core, pass.waiter, FsError::Invalid);
        }
        let rank = if self.ranks.is_single() { None } else { self.ranks.rank_of_walk(&names, at, to_dir) };
        let by = match rank {
            _ if self.ranks.is_single() => Replicas::Unused,
            _ if to_dir => Replicas::ToTheEnd,
            _ => Replicas::OnTheWay,
        };
        let op = Op::Walk { dir, names, by };
        let rank = rank.filter(|rank| self.ranks.router.has_rank(*rank) && self.own.root_for(&op).is_none());
        self.pass_at(rank, pass, op);
    }

    /// A call that is one request, at a rank, or at the one that is likely to know.
    fn pass_at(&mut self, rank: Option<Rank>, pass: Pass, op: Op) {
        let cred = Arc::clone(&pass.cred);
        match rank {
            Some(rank) => self.request_at(rank, Cred::clone(&cred), op, Then::Pass(pass), 0),
            None => self.request(&cred, op, Then::Pass(pass)),
        }
    }

    /// Goes a way and does something at its end. Where names are cached above it is to be known in which directory a name changed, and what is
    /// decoupled for this client is not the ranks': then the way alone is gone.
    fn via(&mut self, pass: Pass, way: (Ino, Arc<[Name]>), at: WalkAt, what: Op) {
        let (dir, names) = way;
        let Some(mut what) = what.done_at(Ino(0)) else {
            return self.calls.fail(&mut self.core, pass.waiter, FsError::Invalid);
        };
        if names.is_empty() || names.len() > WALK_MAX {
            return self.calls.fail(&mut self.core, pass.waiter, FsError::Invalid);
        }
        let in_dir = matches!(what.about(), About::Names(_));
        if self.core.config.cache_names || self.own.is_any() || self.files.is_ordered(&what) {
            return self.walk(pass, (dir, names), at, in_dir);
        }
        let mut truncate = false;
        if let Op::Open { flags, handle, .. } | Op::Create { flags, handle, .. } = &mut what {
            // As of a create: what it cuts is known only when it is open.
            truncate = std::mem::take(&mut flags.truncate);
            *handle = self.files.new_handle();
        }
        let (mut rank, mut by) = (None, Replicas::Unused);
        if !self.ranks.is_single() {
            rank = match what.first_name() {
                Some((_, name)) => {
                    let all: Vec<Name> = names.iter().chain([name]).cloned().collect();
                    self.ranks.rank_of_walk(&all, at, false)
                }
                None => self.ranks.rank_of_walk(&names, at, in_dir),
            };
            rank = rank.filter(|rank| self.ranks.router.has_rank(*rank));
            by = if in_dir { Replicas::ToTheEnd } else { Replicas::OnTheWay };
        }
        let sets = matches!(what, Op::SetAttr { .. });
        let op = Op::Via { dir, names, by, what: Box::new(what) };
        if op.opens().is_some() {
            return self.open_with(pass, op, truncate, rank);
        }
        self.pass_at(rank, Pass { sets, ..pass }, op);
    }

    /// A call that is one request.
    pub(crate) fn pass(&mut self, waiter: Waiter, cred: &Arc<Cred>, op: Op) {
        let (props, [subject, _]) = (op.props(), op.subjects());
        let dir = subject.ino().filter(|_| props.names_cached).unwrap_or(Ino(0));
        if let (true, Some(ino)) = (props.sets_attr, subject.ino()) {
            self.files.forbid_reuse(ino);
        }
        let renamed = if let Op::Rename { dir, new_dir, mode, .. } = &op {
            Some((*new_dir, (*mode == RenameMode::Exchange).then_some(*dir)))
        } else {
            None
        };
        self.request(cred, op, Then::Pass(Pass { dir, renamed, ..Pass::new(waiter, cred) }));
    }

    /// The answer of a call that is one request.
    pub(crate) fn passed(&mut self, pass: Pass, result: FsResult<Answer>) {
        // The first parts of a listing were said earlier.
        let names_cached = pass.dir != Ino(0) && self.lent().use_names(pass.dir) && pass.listed.is_empty();
        let ways = if pass.ways.is_some() { std::mem::take(&mut self.at_hand.ways) } else { Vec::new() };
        if let (Some((handle, lock, take)), Ok(_), false) = (pass.lock, &result, pass.over) {
            if take && !self.calls.is_awaited(pass.waiter) && self.give_lock_back(&pass.cred, handle, lock) {
                return;
            }
            self.files.lock_changed(handle, &lock, take);
        }
        let done = match result {
            Ok(Answer::Entry(attr)) => {
                if pass.sets {
                    self.files.forbid_reuse(attr.ino);
                }
                let (mut lent, files) = self.lent_beside_files();
                Ok(Done { names_cached, ..lent.done_attr(files, attr) })
            }
            Ok(Answer::Entries { mut entries, next, end }) => {
                if !pass.listed.is_empty() {
                    entries.splice(0..0, pass.listed);
                }
                let (mut lent, files) = self.lent_beside_files();
                for entry in &mut entries {
                    lent.overlay_entry(files, &mut entry.attr, &mut entry.lease);
                }
                Ok(Done { names_cached, ..Done::plain(Answer::Entries { entries, next, end }) })
            }
            Ok(walked @ Answer::Walked { .. }) => {
                let (mut lent, files) = self.lent_beside_files();
                Ok(lent.done_walked(files, walked))
            }
            Ok(answer) => {
                let names_cached = pass.renamed.is_some_and(|(dir, other)| self.lent().use_renamed(dir, other));
                Ok(Done { names_cached, ..Done::plain(answer) })
            }
            Err(error) => Err(Failed { error, names_cached: names_cached && error == FsError::NotFound }),
        };
        self.calls.complete(&mut self.core, pass.waiter, done.map(|done| Done { ways, ..done }));
    }

    /// Asks for it. Objects have the default size: there is no layout that says otherwise. Nor is there a name by which they could be found: a
    /// rank lets its own numbers be used in what it has decoupled, and keeps that as long as it lasts.
    fn data_raw(&mut self, waiter: Waiter, cred: &Arc<Cred>, ino: Ino, op: DataOp) {
        // It is no open file's, and waits for none.
        let task = Task { waiter, cred: Arc::clone(cred), ino: Ino(0), exclusive: false, step: Step::Raw };
        let id = self.calls.new_task(task);
        let at = (!self.ranks.is_single()).then(|| self.ranks.router.some_rank(ino.birth_rank()));
        self.data_request_of(ino, op, DataThen::Task(id), at);
    }

    fn set_lock(&mut self, waiter: Waiter, cred: &Arc<Cred>, fh: Fh, lock: FileLock, wait: bool) {
        match self.files.fh_handle(fh) {
            Ok((ino, handle)) => {
                let op = Op::Control(Control::SetLock { ino, handle, lock, wait });
                self.lock_request(waiter, cred, op, (handle, lock, true));
            }
            Err(error) => self.calls.fail(&mut self.core, waiter, error),
        }
    }

    pub(crate) fn unlock(&mut self, waiter: Waiter, cred: &Arc<Cred>, fh: Fh, lock: FileLock) {
        match self.files.fh_handle(fh) {
            Ok((ino, handle)) => {
                let op = Op::Control(Control::Unlock { ino, handle, lock });
                self.lock_request(waiter, cred, op, (handle, lock, false));
            }
            Err(error) => self.calls.fail(&mut self.core, waiter, error),
        }
    }

    pub(crate) fn lock_request(&mut self, waiter: Waiter, cred: &Arc<Cred>, op: Op, lock: (u64, FileLock, bool)) {
        self.request(cred, op, Then::Pass(Pass { lock: Some(lock), ..Pass::new(waiter, cred) }));
    }
}
