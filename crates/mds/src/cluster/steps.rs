//! Steps of a request at something that may be another rank's: it is here, or there, or that is to be read first.

use loligo_namespace::{Found, Lookup, Need, Tree, may_search};
use loligo_types::{Answer, FsError, Ino, Kind, Op, Rank, Subject};

use crate::cluster::Where;
use crate::cluster::state::Cluster;
use crate::core::Core;
use crate::job::{Job, WaitReason};
use crate::step::Step;

impl Cluster {
    /// The name is here, its inode is not.
    pub(crate) fn tell_remote(&mut self, core: &mut Core, job: &mut Job, ino: Ino, rank: Rank) -> Step {
        let (dir, kind) = match job.op.subjects()[0] {
            _ if !job.op.props().remote => return Step::Redirect(rank),
            Subject::Name(dir, name) => match core.tree.entry(dir, name) {
                Lookup::Present(target) => (dir, target.kind),
                _ => return Step::Wait(WaitReason::Locked),
            },
            Subject::Inode(dir) => return remote_parent(&core.tree, job, dir, ino, rank),
            Subject::Names(_) | Subject::Nothing => return Step::Redirect(rank),
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

    /// The location of a file; a rank alone has all.
    pub(crate) fn locate_here(&mut self, core: &mut Core, ino: Ino, wants: &mut Vec<Need>) -> Where {
        if !self.is_alone() {
            return self.locate(core, ino, wants);
        }
        if !matches!(core.tree.find(ino), Found::Unknown) {
            return Where::Here;
        }
        wants.push(Need::Inode(ino));
        Where::Unknown
    }
}

fn remote_parent(tree: &Tree, job: &Job, dir: Ino, ino: Ino, rank: Rank) -> Step {
    Step::Answer(match tree.inode(dir) {
        Some(inode) if inode.kind != Kind::Dir && !job.cred.is_root() => Err(FsError::NotDir),
        Some(_) => Ok(Answer::Remote { ino, kind: Kind::Dir, rank }),
        None => Err(FsError::NotFound),
    })
}
