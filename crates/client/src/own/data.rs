//! Bytes of files in subtrees that are decoupled for this client: they go where all bytes go. The rank's object server takes them once the
//! rank was asked for the right to it (`SubtreeOp::Data`), for this session.

use loligo_subtree::Drop;
use loligo_types::msg::DataRequest;
use std::sync::Arc;

use loligo_types::{Answer, Cred, DataAnswer, DataError, DataOp, FsError, Ino, Kind, Loaded, Need, SubtreeAnswer};

use super::{OwnReply, Owned};
use crate::calls::Calls;
use crate::core::Core;
use crate::file::Files;
use crate::machine::{Client, Waiter};
use crate::own::Own;
use crate::session::{DataThen, PendingData};
use crate::task::data_error;
use crate::{Call, Fh, Invalidation};

/// A data request is sent again at most so often because the rank does not know this session's right to it.
const AGAIN_MAX: u32 = 4;

impl Own {
    /// The root of a subtree in which others work, and the file of which the owner must have a version of its own before this call is decided: what is
    /// known here of the file is of when it was fetched. Data that are held in the inode are fetched, with the inode.
    pub(crate) fn must_fork(&self, files: &Files, call: &Call) -> Option<(Ino, Ino)> {
        if !self.trees.values().any(Owned::is_shared) {
            return None;
        }
        let of_handle = |fh: &Fh| files.opened.get(fh).map(|opened| opened.ino);
        let ino = match call {
            Call::SetAttr { ino, set, .. } if set.size.is_some() => Some(*ino),
            Call::Write { fh, .. } | Call::Fallocate { fh, .. } | Call::Copy { to: fh, .. } => of_handle(fh),
            _ => None,
        }?;
        let root = self.root_of(ino)?;
        let owned = self.trees.get(&root).filter(|owned| owned.is_shared())?;
        if owned.is_cutting() {
            // The state on which a call would be decided now is over with the merge.
            return Some((root, ino));
        }
        if owned.ending || owned.forked.contains(&ino) || owned.machine.record().is_new(ino) {
            return None;
        }
        let inode = owned.machine.inode(ino)?;
        let is_fetched = inode.inline && !owned.machine.lacks_data(ino);
        (inode.kind == Kind::File && !is_fetched && inode.nlink > 0).then_some((root, ino))
    }

    /// Records have come.
    pub(super) fn learn(&mut self, core: &mut Core, files: &mut Files, root: Ino, items: Vec<Loaded>) {
        let Some(owned) = self.trees.get_mut(&root) else { return };
        let changed = owned.machine.learn(items);
        self.changed(core, files, root, &changed);
    }

    /// Files are not as caches here and above know them: others have changed them since.
    pub(super) fn changed(&mut self, core: &mut Core, files: &mut Files, root: Ino, inos: &[Ino]) {
        let Some(owned) = self.trees.get(&root) else { return };
        let attrs: Vec<_> =
            inos.iter().filter_map(|ino| owned.machine.inode(*ino)).map(loligo_types::Inode::attr).collect();
        for attr in attrs {
            files.own_becomes(core, &attr);
            core.invalidate(Invalidation::Attr(attr.ino), false);
        }
    }

    /// There is no version of these, or (none named) of any.
    pub(super) fn fail_unforked(
        &mut self,
        core: &mut Core,
        calls: &mut Calls,
        root: Ino,
        inos: &[Ino],
        error: FsError,
    ) {
        let Some(owned) = self.trees.get_mut(&root) else { return };
        let of_them = |(ino, ..): &mut (Ino, Waiter, Arc<Cred>, Call)| inos.is_empty() || inos.contains(ino);
        let failed: Vec<_> = owned.unforked.extract_if(.., of_them).collect();
        for (_, waiter, ..) in failed {
            calls.fail(core, waiter, error);
        }
    }

    /// Bytes are dropped, or cannot be.
    pub(crate) fn dropped(&mut self, calls: &mut Calls, token: u64, result: Result<DataAnswer, DataError>) {
        self.change_ended(calls);
        let Some((left, reply)) = self.drops.get_mut(&token) else { return };
        *left -= 1;
        if let Err(error) = result {
            reply.result = Err(data_error(error));
        }
        if *left == 0
            && let Some((_, reply)) = self.drops.remove(&token)
        {
            self.replies.push_back(reply);
        }
    }
}

impl Files {
    /// A rank that has such a subtree was restarted, or its session with this client is gone: what its disk may not have of files there
    /// is written again. Which files.
    pub(crate) fn own_files(&self) -> Vec<Ino> {
        self.map.iter().filter(|(_, file)| file.rank == super::OWN).map(|(ino, _)| *ino).collect()
    }
}

impl Client {
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
    pub(super) fn own_start_unforked(&mut self, root: Ino) {
        let calls = self.own.trees.get_mut(&root).map(|owned| std::mem::take(&mut owned.unforked));
        for (_, waiter, cred, call) in calls.unwrap_or_default() {
            self.dispatch(waiter, &cred, call);
        }
    }

    /// The owner has a version of each of these files from now on, which begins as it is in the answer.
    /// `rebased`: how often what is known here had been forgotten when it was asked for.
    pub(super) fn own_forked(&mut self, root: Ino, inos: Vec<Ino>, rebased: u64, answer: Answer) {
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
    pub(super) fn own_send_data(&mut self, root: Ino) {
        let waiting = self.own.trees.get_mut(&root).map(|owned| std::mem::take(&mut owned.data));
        for (id, pending) in waiting.unwrap_or_default() {
            self.own_data(id, pending);
        }
    }

    /// There is no right to these, or (none named) to any.
    pub(super) fn own_fail_data(&mut self, root: Ino, inos: &[Ino], error: FsError) {
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
    pub(super) fn own_drop(&mut self, drops: Vec<Drop>, reply: Option<OwnReply>) {
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
}
