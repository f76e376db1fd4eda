//! One request from admission to the gate: need, prepare, conflicts, apply. Each wait is a [`WaitReason`], after which the
//! request starts here again; until it is applied it has changed nothing.

use loligo_namespace::{Change, Ctx, Lookup, Tree, may_search, prepare};
use loligo_types::{Answer, FsError, FsResult, Ino, Kind, Op, OpenFlags, Origin, Rank, Stamp};

use crate::cluster::{Cluster, Where};
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::discard::Discards;
use crate::eof_cleanup::EofCleanup;
use crate::open::{HANDLES_MAX, Handle, Opens};
use crate::park::{Job, WaitReason};
use crate::paths::PathCache;

/// The result of a step of a request.
pub(crate) enum Step {
    /// It is to be answered so.
    Answer(FsResult<Answer>),
    /// It waits.
    Wait(WaitReason),
    /// Another rank is to answer it.
    Redirect(Rank),
}

/// The handle in an operation, and the inode it must be of.
pub(crate) fn handle_of(op: &Op) -> Option<(u64, Ino)> {
    match op {
        Op::SetAttr { ino, handle: Some(handle), .. } => Some((*handle, *ino)),
        Op::Readdir { dir, handle: Some(handle), .. } => Some((*handle, *dir)),
        Op::ReadInline { ino, handle }
        | Op::WriteInline { ino, handle, .. }
        | Op::SetData { ino, handle, .. }
        | Op::Extend { ino, handle, .. }
        | Op::SetLock { ino, handle, .. }
        | Op::Unlock { ino, handle, .. }
        | Op::GetLock { ino, handle, .. } => Some((*handle, *ino)),
        _ => None,
    }
}

/// The inode whose size or data an operation is about to change, if its number is known beforehand.
pub(crate) fn data_of(op: &Op) -> Option<Ino> {
    match op {
        Op::SetAttr { ino, set, .. } if set.size.is_some() => Some(*ino),
        Op::Open { ino, flags, .. } if flags.truncate => Some(*ino),
        Op::WriteInline { ino, .. } | Op::SetData { ino, .. } | Op::Extend { ino, .. } => Some(*ino),
        _ => None,
    }
}

impl Opens {
    /// A cut of a file found by name while an earlier cut of it is not done yet.
    pub(crate) fn wait_for_cut(
        &self,
        discards: &Discards,
        tidy: &mut EofCleanup,
        decoupled: &Decoupled,
        job: &Job,
        change: &Change,
    ) -> Option<WaitReason> {
        let Op::Create { flags, .. } = &job.op else { return None };
        let ino = change.answer.attr()?.ino;
        match flags.truncate {
            true if discards.data_is_busy(decoupled, ino) => Some(WaitReason::Data(ino)),
            true => self.wait_for_rooms(tidy, ino),
            false => None,
        }
    }

    /// The handle that the operation goes through.
    pub(crate) fn check_handle(&self, core: &Core, job: &Job) -> FsResult<Option<Handle>> {
        if job.op.opens().is_some() && self.handles(job.slot) >= HANDLES_MAX {
            return Err(FsError::NoSpace);
        }
        let Some((number, ino)) = handle_of(&job.op) else { return Ok(None) };
        match self.handle(job.slot, number) {
            Some(handle) if handle.ino == ino => Ok(Some(handle)),
            // It is open at the home of the directory.
            None if matches!(job.op, Op::Readdir { .. }) && core.tree.part(ino).is_some() => Ok(None),
            _ => Err(FsError::BadHandle),
        }
    }

    /// The handle that a request to open got before, if its answer was lost. The open was allowed then, and may not be any more (or, of a
    /// new file whose mode lets nobody write, by that alone).
    pub(crate) fn opened_before(&self, job: &Job) -> Option<Handle> {
        let Op::Open { ino, handle, .. } = &job.op else { return None };
        self.handle(job.slot, *handle).filter(|opened| opened.ino == *ino)
    }
}

impl Cluster {
    /// The name is here, its inode is not.
    pub(crate) fn tell_remote(&mut self, core: &mut Core, job: &mut Job, ino: Ino, rank: Rank) -> Step {
        let (dir, kind) = match &job.op {
            Op::Lookup { dir, name } | Op::Create { dir, name, .. } => match core.tree.entry(*dir, name) {
                Lookup::Present(target) => (*dir, target.kind),
                _ => return Step::Wait(WaitReason::Locked),
            },
            Op::LookupParent { dir } => return remote_parent(&core.tree, job, *dir, ino, rank),
            _ => return Step::Redirect(rank),
        };
        if let Some(step) = self.blocked(core, job) {
            return step;
        }
        Step::Answer(match may_search(&core.tree, dir, &job.cred) {
            Ok(()) if kind == Kind::Dir && matches!(job.op, Op::Create { .. }) => Err(FsError::IsDir),
            Ok(()) => Ok(Answer::Remote { ino, kind, rank }),
            Err(error) => Err(error),
        })
    }

    /// Lets a request wait for records.
    pub(crate) fn wait_for(&mut self, core: &mut Core, job: &mut Job, needs: Vec<loligo_namespace::Need>) -> Step {
        let id = core.parked.number(job);
        let count = self.load(core, needs, crate::load::Waiter::Job(id));
        job.reads += count;
        Step::Wait(WaitReason::Load(count))
    }

    /// The step for an executed request whose inode may have become another rank's; `None` if it is this rank's.
    pub(crate) fn again_elsewhere(&mut self, core: &mut Core, job: &mut Job, ino: Ino) -> Option<Step> {
        if !self.peers.ready {
            return Some(Step::Wait(WaitReason::Peers));
        }
        if let Some(step) = self.exports.moved(core, &mut self.atlas, ino) {
            return Some(step);
        }
        let mut wants = Vec::new();
        match self.locate(core, ino, &mut wants) {
            Where::Here => None,
            Where::Elsewhere(rank) => Some(Step::Redirect(rank)),
            Where::Unknown => Some(self.wait_for(core, job, wants)),
        }
    }
}

fn remote_parent(tree: &Tree, job: &Job, dir: Ino, ino: Ino, rank: Rank) -> Step {
    Step::Answer(match tree.inode(dir) {
        Some(inode) if inode.kind != Kind::Dir && !job.cred.is_root() => Err(FsError::NotDir),
        Some(_) => Ok(Answer::Remote { ino, kind: Kind::Dir, rank }),
        None => Err(FsError::NotFound),
    })
}

impl PathCache {
    /// The step for a request about a subtree with the number of an executed one; `None` if it may go on. Nothing says that it is the same
    /// request.
    pub(crate) fn admit_again(
        &mut self,
        core: &mut Core,
        opens: &Opens,
        cluster: &mut Cluster,
        job: &mut Job,
        dir: Ino,
    ) -> Option<Step> {
        if !cluster.is_alone() {
            if !cluster.peers.ready {
                return Some(Step::Wait(WaitReason::Peers));
            }
            let mut wants = Vec::new();
            match cluster.locate(core, dir, &mut wants) {
                Where::Here => {}
                // As long as it was this client's it was here.
                Where::Elsewhere(_) => return Some(Step::Answer(Err(FsError::Stale))),
                Where::Unknown => return Some(cluster.wait_for(core, job, wants)),
            }
        }
        if job.limited.is_some() { self.limit(core, opens, cluster, job, None) } else { None }
    }

    /// Why a request to open does not open what was found or made when its number was executed. That need not have been the same request: a
    /// number does not say what was asked. So whoever has not just made the file, nor has it open, must be allowed to open it now.
    pub(crate) fn refuse_opening_again(
        &mut self,
        core: &mut Core,
        opens: &Opens,
        cluster: &mut Cluster,
        job: &mut Job,
        origin: &Origin,
    ) -> Option<Step> {
        let (_, flags) = job.op.opens()?;
        let needs_write = flags.write || flags.truncate || flags.append;
        let inode = core.tree.inode(origin.ino)?;
        // A new file is open to who made it, whatever its mode says.
        let is_new = origin.value != 0 && inode.kind == Kind::File && inode.uid == job.cred.uid;
        let has_name = inode.nlink > 0;
        if let Some((identity, _)) = job.limited.clone()
            && (has_name || !is_new)
            && let Some(step) = self.limit_at(core, opens, cluster, job, &identity.rights, (origin.ino, needs_write))
        {
            return Some(step);
        }
        if is_new {
            return None;
        }
        let held = opens.opened_before(job);
        let ctx = Ctx {
            cred: &job.cred,
            stamp: Stamp { now: core.now.wall, ino: core.tree.next_ino() },
            handle_read: held.is_some_and(|handle| handle.read),
            handle_write: held.is_some_and(|handle| handle.write),
            open_count: &|_| 1,
            route_version: &|_| None,
            // Asked for the permission alone: nothing is opened by this.
            distrusted: false,
        };
        let flags = OpenFlags { truncate: false, write: flags.write || flags.truncate, ..flags };
        let open = Op::Open { ino: origin.ino, flags, handle: 0 };
        prepare(&core.tree, &open, &ctx).err().map(|error| Step::Answer(Err(error)))
    }
}

pub(crate) fn origin_of(job: &Job, ino: Ino, value: u64) -> Origin {
    // What the client had of answers is filled in when the record is made.
    Origin { session: job.session, seq: job.seq, answered: loligo_types::Seq(0), ino, value }
}
