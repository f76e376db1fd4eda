//! Result of a step of a request, and what steps at a file, or at an inode of another rank, come to. Which steps a request takes is not here
//! (`stages/run.rs`).

use loligo_namespace::{Lookup, Tree, may_search};
use loligo_types::{Answer, FsError, FsResult, Ino, Kind, Op, Origin, Rank};

use crate::cluster::{Cluster, Where};
use crate::core::Core;
use crate::job::{Job, WaitReason};

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

pub(crate) fn origin_of(job: &Job, ino: Ino, value: u64) -> Origin {
    // What the client had of answers is filled in when the record is made.
    Origin { session: job.session, seq: job.seq, answered: loligo_types::Seq(0), ino, value }
}
