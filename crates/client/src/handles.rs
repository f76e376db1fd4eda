//! Handles of open files: which one may serve what, and which may be closed. Not here: what is asked of the server for them
//! (`open`), and the data of files (`file`).

use std::collections::BTreeSet;
use std::sync::Arc;

use loligo_types::{Answer, Cred, FsError, FsResult, Ino, Lease, Op, OpenFlags, Rank, SetAttr, Xattrs};

use crate::call::Done;
use crate::calls::Calls;
use crate::core::Core;
use crate::file::{Files, Handle, Opened};
use crate::own::Own;
use crate::ranks::Ranks;
use crate::{CallResult, Fh, Invalidation};

/// An open under way.
#[derive(Debug)]
pub(crate) struct Opening {
    /// Directory whose names the answer speaks of; 0: none.
    pub dir: Ino,
    pub flags: OpenFlags,
    pub handle: u64,
    /// The request, until it was sent.
    pub op: Option<Op>,
    /// Cut the file once it is open, if it is not new.
    pub truncate: bool,
    /// The result, while the cut is under way.
    pub opened: Option<Done>,
    /// Lookup leases that are welcome with it (see [`crate::session::Pass::ways`]), and those that came.
    pub(crate) ways: Option<u16>,
    pub(crate) leased: Vec<(Ino, u16)>,
}

impl Files {
    /// Inode and handle at the server of something open.
    pub(crate) fn fh_handle(&self, fh: crate::Fh) -> FsResult<(Ino, u64)> {
        let opened = self.opened.get(&fh).ok_or(FsError::BadHandle)?;
        if opened.dead { Err(FsError::Stale) } else { Ok((opened.ino, opened.handle)) }
    }

    /// True if the operation at the end of a path may have to be ordered with writes that are held back here. The file shows only at the
    /// end of the path.
    pub(crate) fn is_ordered(&self, what: &Op) -> bool {
        match what {
            Op::SetAttr { set, .. } => set.size.is_some() || !self.dirty.is_empty(),
            _ => false,
        }
    }

    pub(crate) fn new_handle(&mut self) -> u64 {
        self.next_handle += 1;
        self.next_handle
    }

    pub(crate) fn new_fh(&mut self, ino: Ino, handle: u64, flags: OpenFlags) -> Fh {
        self.next_fh += 1;
        let fh = Fh(self.next_fh);
        let opened = Opened {
            ino,
            handle,
            flags,
            errors_seen: 0,
            cached: false,
            next_read: 0,
            window: 0,
            dead: false,
            lost: false,
        };
        self.opened.insert(fh, opened);
        fh
    }

    /// Opens without asking: a handle that the same user opened in the same way before, and nothing that the server
    /// would look at can have changed since.
    pub(crate) fn reopen(
        &mut self,
        calls: &Calls,
        ranks: &Ranks,
        own: &Own,
        cred: &Arc<Cred>,
        ino: Ino,
        flags: OpenFlags,
    ) -> Option<Done> {
        if flags.truncate
            || !ranks.has_attr(own, ino)
            || calls.is_unsettled(ranks, ino, Lease::ATTR)
            || self.is_suspended(ranks, own, ino)
        {
            return None;
        }
        let file = self.map.get(&ino)?;
        if !file.recalls.is_empty() {
            return None;
        }
        let handle = file.spare.iter().copied().find(|handle| {
            self.handles.get(handle).is_some_and(|h| {
                h.fh.is_none() && h.reusable && h.flags == flags && (Arc::ptr_eq(&h.cred, cred) || h.cred == *cred)
            })
        })?;
        let file = self.map.get_mut(&ino)?;
        file.spare.retain(|spare| *spare != handle);
        let (rights, mut attr, errors) = (file.rights, file.attr, file.errors);
        file.overlay(&mut attr);
        let fh = self.new_fh(ino, handle, flags);
        self.handles.get_mut(&handle)?.fh = Some(fh);
        let opened = self.opened.get_mut(&fh)?;
        opened.cached = rights.any(Lease::CACHE | Lease::BUFFER);
        opened.errors_seen = errors;
        let keep_data = opened.cached;
        let answer = Answer::Opened { attr, created: false, rights, data: None };
        // Times and links may be newer at the server, by operations of this session that did not tell: not for caches.
        Some(Done { fh: Some(fh), keep_data, ..Done::plain(answer) })
    }

    /// Permissions change, or the handles may be lost: those not in use serve nobody any more.
    pub(crate) fn forbid_reuse(&mut self, ino: Ino) {
        let Some(file) = self.map.get(&ino) else { return };
        for handle in &file.handles {
            if let Some(handle) = self.handles.get_mut(handle) {
                handle.reusable = false;
            }
        }
    }

    /// True if another unused handle serves every open that this one would serve.
    pub(crate) fn has_like(&self, number: u64) -> bool {
        let Some(handle) = self.handles.get(&number) else { return false };
        let Some(file) = self.map.get(&handle.ino) else { return false };
        let is_like = |other: &Handle| {
            other.fh.is_none() && other.reusable && other.flags == handle.flags && other.cred == handle.cred
        };
        handle.reusable && file.spare.iter().any(|of| *of != number && self.handles.get(of).is_some_and(is_like))
    }

    /// True if data that waits to be written, or a task, may need the handle.
    pub(crate) fn is_needed(&self, number: u64) -> bool {
        let Some(handle) = self.handles.get(&number) else { return false };
        let Some(file) = self.map.get(&handle.ino) else { return false };
        !file.is_clean()
            || file.run.is_some()
            || !file.flush_waiters.is_empty()
            || file.exclusive.is_some()
            || !file.waiting.is_empty()
            || !file.reads.is_empty()
    }

    /// The file of an open handle, for reading or writing data.
    pub(crate) fn file_of(&self, fh: Fh, write: bool) -> FsResult<(Ino, u64)> {
        let opened = self.opened.get(&fh).ok_or(FsError::BadHandle)?;
        if opened.dead {
            return Err(FsError::Stale);
        }
        let allowed = if write { opened.flags.write } else { opened.flags.read || opened.flags.exec };
        if !self.map.contains_key(&opened.ino) {
            return Err(FsError::IsDir);
        }
        if allowed { Ok((opened.ino, opened.handle)) } else { Err(FsError::BadHandle) }
    }

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
        let looks = match op.props().xattrs {
            Xattrs::Set => false,
            Xattrs::Looked => true,
            Xattrs::Unused => return None,
        };
        let ino = op.subjects()[0].ino()?;
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

    /// Inodes that are open at a rank, each with somebody who opened it.
    pub(crate) fn held_at(&self, rank: Rank) -> Vec<(Ino, Cred)> {
        let mut seen = BTreeSet::new();
        let here = self.handles.iter().filter(|(number, _)| self.at.get(number) == Some(&rank));
        let first = here.filter(|(_, handle)| seen.insert(handle.ino));
        first.map(|(_, handle)| (handle.ino, Cred::clone(&handle.cred))).collect()
    }

    /// The open files that a rank has.
    pub(crate) fn files_at(&self, rank: Rank) -> Vec<Ino> {
        self.map.iter().filter(|(_, file)| file.rank == rank).map(|(ino, _)| *ino).collect()
    }

    /// True if the leases that a rank granted for an open file cannot be relied on.
    pub(crate) fn is_suspended(&self, ranks: &Ranks, own: &Own, ino: Ino) -> bool {
        let session = self.map.get(&ino).and_then(|file| ranks.session(file.rank));
        session.is_some_and(|session| session.suspended) || own.is_any() && own.is_freezing(ino)
    }

    /// Number of restarts with possible data loss of the rank that has an open file.
    pub(crate) fn restarts(&self, ranks: &Ranks, ino: Ino) -> u64 {
        let session = self.map.get(&ino).and_then(|file| ranks.session(file.rank));
        session.map_or(0, |session| session.restarts)
    }

    /// Errors of a handle of a lost session: first that data was lost, if it was, then that it is stale.
    pub(crate) fn dead_error(&mut self, fh: Fh) -> FsError {
        let lost = self.opened.get_mut(&fh).is_some_and(|opened| std::mem::take(&mut opened.lost));
        if lost { FsError::Io } else { FsError::Stale }
    }

    /// The same for one file of such a rank.
    pub(crate) fn suspend_file(&mut self, core: &mut Core, ino: Ino) {
        if self.map.get(&ino).is_some_and(|file| file.may_cache()) {
            core.invalidate(Invalidation::Data(ino), false);
        }
        if let Some(file) = self.map.get_mut(&ino) {
            file.current = false;
        }
    }
}
