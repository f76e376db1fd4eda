//! Requests to a subtree that is decoupled for this client, carried out here, and bytes of its objects: they go where all bytes go. The rank's
//! object server takes them once the rank was asked for the right to it (`SubtreeOp::Data`), for this session. The journal goes to the store in
//! the same way. Not here: what an operation comes to (`decide.rs`), and fetching missing records (`ask.rs`).

use std::sync::Arc;

use loligo_subtree::Drop;
use loligo_types::msg::DataRequest;
use loligo_types::{
    Answer, Control, Cred, DataAnswer, DataError, DataOp, FsError, FsResult, Ino, Layout, Need, Op, StoredJournal,
    SubtreeAnswer, SubtreeOp,
};

use super::{Job, OWN, OwnReply};
use crate::Call;
use crate::calls::Waiter;
use crate::machine::Client;
use crate::own::goal::OwnTask;
use crate::own::store::At;
use crate::session::{DataThen, PendingData, Then};
use crate::task::data_error;

/// It is begun anew so often because the rank began a new life.
const STORE_TRIES: u32 = 8;
/// A data request is sent again at most so often because the rank does not know this session's right to it.
const AGAIN_MAX: u32 = 4;

impl Client {
    /// Something is asked that was to be asked of a rank, of what is decoupled here.
    pub(crate) fn own_request(&mut self, cred: Cred, op: Op, then: Then) {
        let job = Job { cred, op, then };
        match &job.op {
            Op::Control(Control::Close { handles, .. }) => {
                let handles = handles.clone();
                let drops = self.own.closed(&handles);
                if !drops.is_empty() {
                    self.own_drop(drops, None);
                }
                self.own.answer(job.op, job.then, Ok(Answer::Done));
            }
            Op::Control(
                Control::SetLock { .. } | Control::Unlock { .. } | Control::GetLock { .. } | Control::CancelLock { .. },
            ) => {
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
        let is_held = owned.ending || owned.gated;
        match owned.decide(job, now) {
            Some((reply, drops)) if drops.is_empty() => self.own.replies.push_back(reply),
            Some((reply, drops)) => self.own_drop(drops, Some(reply)),
            None if is_held => {}
            None => self.own_ask(root),
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
        let unlocks = matches!(op, Op::Control(Control::Unlock { .. } | Control::SetLock { .. }));
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

    /// Sends a data request, when this session may do that.
    pub(crate) fn own_data(&mut self, id: u64, pending: PendingData) {
        let ino = pending.request.ino;
        let Some(root) = self.own.root_of(ino) else {
            return self.data_replied(id, pending.then, Err(DataError::Stale));
        };
        let Some(owned) = self.own.trees.get_mut(&root) else { return };
        if owned.holds(&pending) {
            return owned.held.push((id, pending));
        }
        if owned.may_send(&pending) {
            let rank = self.ranks.own_rank(root);
            return self.data_request_at(rank, id, pending);
        }
        owned.data.push((id, pending));
        self.own_ask(root);
    }

    /// The call waits for it.
    pub(crate) fn own_fork_first(&mut self, (root, ino): (Ino, Ino), waiter: Waiter, cred: &Arc<Cred>, call: Call) {
        let Some(owned) = self.own.trees.get_mut(&root) else {
            return self.calls.fail(&mut self.core, waiter, FsError::Stale);
        };
        if owned.machine.lacks_data(ino) {
            owned.needs.push(Need::Inline(ino));
        }
        owned.unforked.push((ino, waiter, Arc::clone(cred), call));
        self.own_ask(root);
    }

    /// A merge is over: calls that have waited are decided on what is there now.
    pub(crate) fn own_start_unforked(&mut self, root: Ino) {
        let calls = self.own.trees.get_mut(&root).map(|owned| std::mem::take(&mut owned.unforked));
        for (_, waiter, cred, call) in calls.unwrap_or_default() {
            self.dispatch(waiter, &cred, call);
        }
    }

    /// The owner has a version of each of these files from now on, which begins as it is in the answer.
    /// `rebased`: how often what is known here had been forgotten when it was asked for.
    pub(crate) fn own_forked(&mut self, root: Ino, inos: Vec<Ino>, rebased: u64, answer: Answer) {
        let Answer::Subtree(answer) = answer else {
            return self.own.fail_unforked(&mut self.core, &mut self.calls, root, &inos, FsError::Io);
        };
        let SubtreeAnswer::Forked { record, files } = *answer else {
            return self.own.fail_unforked(&mut self.core, &mut self.calls, root, &inos, FsError::Io);
        };
        let Some(owned) = self.own.trees.get_mut(&root) else { return };
        if owned.rebased != rebased {
            // It may be of before a merge. The calls ask anew.
            return self.own_start_unforked(root);
        }
        owned.machine.take_record(record);
        owned.ranges_count = true;
        owned.rights.extend(inos.iter().copied());
        let mut changed = Vec::new();
        for inode in files {
            let ino = inode.ino;
            if owned.forked.insert(ino) && owned.machine.begin_version(inode) {
                changed.push(ino);
            }
        }
        owned.forked.extend(inos.iter().copied());
        let calls: Vec<_> = owned.unforked.extract_if(.., |(ino, ..)| inos.contains(ino)).collect();
        self.own.changed(&mut self.core, &mut self.files, root, &changed);
        for (_, waiter, cred, call) in calls {
            self.dispatch(waiter, &cred, call);
        }
    }

    /// Those that waited for a right.
    pub(crate) fn own_send_data(&mut self, root: Ino) {
        let waiting = self.own.trees.get_mut(&root).map(|owned| std::mem::take(&mut owned.data));
        for (id, pending) in waiting.unwrap_or_default() {
            self.own_data(id, pending);
        }
    }

    /// There is no right to these, or (none named) to any.
    pub(crate) fn own_fail_data(&mut self, root: Ino, inos: &[Ino], error: FsError) {
        let Some(owned) = self.own.trees.get_mut(&root) else { return };
        let of_them = |(_, pending): &mut (u64, PendingData)| inos.is_empty() || inos.contains(&pending.request.ino);
        let failed: Vec<_> = owned.data.extract_if(.., of_them).collect();
        let error = match error {
            FsError::NoSpace | FsError::Quota => DataError::NoSpace,
            FsError::Stale | FsError::NotFound | FsError::Access => DataError::Stale,
            _ => DataError::Io,
        };
        for (id, pending) in failed {
            self.data_replied(id, pending.then, Err(error));
        }
    }

    /// The object server does not know of a right: it was restarted, or the session is another one. Whether it is asked for anew.
    pub(crate) fn own_data_again(&mut self, id: u64, mut pending: PendingData) -> Option<(u64, PendingData)> {
        let root = self.own.root_of(pending.request.ino);
        let Some(owned) = root.and_then(|root| self.own.trees.get_mut(&root)) else { return Some((id, pending)) };
        if pending.hops >= AGAIN_MAX {
            return Some((id, pending));
        }
        pending.hops += 1;
        owned.forget_rights();
        self.own_data(id, pending);
        None
    }

    /// Drops bytes; then the answer is given.
    fn own_drop(&mut self, drops: Vec<Drop>, reply: Option<OwnReply>) {
        let token = self.own.next_drop;
        self.own.next_drop += 1;
        if let Some(reply) = reply {
            self.own.drops.insert(token, (drops.len(), reply));
        }
        for Drop { ino, from, object_size } in drops {
            self.core.next_data += 1;
            let id = self.core.next_data;
            if let Some(file) = self.files.map.get_mut(&ino) {
                file.pieces = id;
            }
            let request = DataRequest { id, ino, object_size, op: DataOp::Discard { from } };
            self.own_data(id, PendingData { request, then: DataThen::Own(token), again: false, hops: 0 });
        }
    }

    /// Puts what is outstanding into the store. What came of it, as soon as that is known.
    pub(crate) fn own_store(&mut self, id: u64, own: &mut OwnTask) -> Option<FsResult<()>> {
        own.store_tries = 0;
        self.own_store_anew(id, own)
    }

    fn own_store_anew(&mut self, id: u64, own: &mut OwnTask) -> Option<FsResult<()>> {
        let fs = self.ranks.fs_id.unwrap_or_default();
        let Some(owned) = self.own.trees.get_mut(&own.root) else { return Some(Err(FsError::Stale)) };
        match owned.begin_store(fs) {
            Ok(Some(store)) => own.store = Some(store),
            Ok(None) => return Some(Ok(())),
            Err(error) => return Some(Err(error)),
        }
        self.own_store_on(id, own)
    }

    fn own_store_on(&mut self, id: u64, own: &mut OwnTask) -> Option<FsResult<()>> {
        let Some(store) = &mut own.store else { return Some(Err(FsError::Io)) };
        let ino = store.ino;
        store.next_ops().into_iter().for_each(|op| self.own_store_say(id, ino, op));
        None
    }

    fn own_store_say(&mut self, id: u64, ino: Ino, op: DataOp) {
        self.core.next_data += 1;
        let request = DataRequest { id: self.core.next_data, ino, object_size: Layout::default().object_size, op };
        let then = DataThen::OwnTask(id);
        self.own_data(self.core.next_data, PendingData { request, then, again: false, hops: 0 });
    }

    pub(crate) fn own_store_data(
        &mut self,
        id: u64,
        own: &mut OwnTask,
        cred: &Arc<Cred>,
        result: Result<DataAnswer, DataError>,
    ) -> Option<FsResult<()>> {
        let life = self.own.trees.get(&own.root).map(|owned| owned.life);
        let Some(store) = &mut own.store else { return Some(Err(FsError::Io)) };
        store.left = store.left.saturating_sub(1);
        if let Err(error) = result {
            store.failed.get_or_insert(error);
        } else if life != Some(store.life) {
            // Data that was written before and not synced may be lost.
            store.failed.get_or_insert(DataError::Stale);
        }
        match store.failed {
            Some(_) if store.left > 0 => None,
            Some(DataError::Stale) if own.store_tries < STORE_TRIES => {
                own.store_tries += 1;
                if let Some(owned) = self.own.trees.get_mut(&own.root)
                    && owned.life == store.life
                {
                    owned.forget_rights();
                }
                self.own_store_anew(id, own)
            }
            Some(error) => {
                own.store = None;
                if let Some(owned) = self.own.trees.get_mut(&own.root) {
                    owned.stored = None;
                }
                Some(Err(data_error(error)))
            }
            None if store.at == At::Syncs => {
                store.form.synced();
                store.at = At::Registers;
                let journal = StoredJournal { ino: store.ino, bytes: store.form.bytes() };
                let epoch = self.own.trees.get(&own.root)?.machine.record().epoch;
                let op =
                    Op::Control(Control::Subtree { dir: own.root, what: Box::new(SubtreeOp::Keep { epoch, journal }) });
                self.request_at(self.ranks.own_rank(own.root), Cred::clone(cred), op, Then::OwnTask(id), 0);
                None
            }
            None => self.own_store_on(id, own),
        }
    }

    pub(super) fn own_store_kept(&mut self, own: &mut OwnTask, result: FsResult<Answer>) -> FsResult<()> {
        let store = own.store.take().ok_or(FsError::Io)?;
        let owned = self.own.trees.get_mut(&own.root).ok_or(FsError::Stale)?;
        if let Some(old) = owned.stored(store, result)? {
            let drop = loligo_subtree::Drop { ino: old, from: 0, object_size: Layout::default().object_size };
            self.own_drop(vec![drop], None);
        }
        Ok(())
    }
}
