//! A request that finds several names one after the other: each is a lookup of its own, with all that a lookup goes through. What one of them
//! leads to says where the next one begins. It ends where there is nothing more to find, or where another rank has the next name. Not here:
//! a lookup.

use std::sync::Arc;

use loligo_types::{Answer, FsError, FsResult, Ino, Kind, Lease, Name, Op, Replicas};

use crate::cluster::Way;
use crate::execute::Step;
use crate::io::Identity;
use crate::machine::Mds;
use crate::park::Job;

/// A request of this kind, on its way. The lookup of the next name is the job's operation.
pub(crate) struct Walk {
    dir: Ino,
    names: Arc<[Name]>,
    /// Which names are found by replicas.
    by: Replicas,
    /// So many directories that were found last have numbers by their paths.
    by_path: u32,
    /// So many were found.
    done: usize,
    /// In which the last of them is.
    above: Ino,
    /// Who asks, if each name is to be looked at whether that one may.
    limited: Option<(Arc<Identity>, u64)>,
}

impl Walk {
    /// The first lookup of an operation, if it is a walk, with what is left to do. No lease comes with it: one that was given of a name on the
    /// way would say nothing of the next.
    pub(crate) fn begin(
        op: Op,
        want: &mut Lease,
        limited: Option<&(Arc<Identity>, u64)>,
    ) -> FsResult<(Op, Option<Box<Walk>>)> {
        let Op::Walk { dir, names, by } = op else { return Ok((op, None)) };
        let name = names.first().ok_or(FsError::Invalid)?.clone();
        *want = Lease::NONE;
        let walk = Walk { dir, names, by, by_path: 0, done: 0, above: dir, limited: limited.cloned() };
        Ok((Op::Lookup { dir, name }, Some(Box::new(walk))))
    }

    /// The operation that it is.
    pub(crate) fn op(&self) -> Op {
        Op::Walk { dir: self.dir, names: Arc::clone(&self.names), by: self.by }
    }

    /// Whether directories of others on the way are to be found by replicas. Not for who is limited to paths: what is on the way there, and
    /// what is not, its rank says.
    fn by_replicas(&self) -> bool {
        self.by != Replicas::Unused && self.limited.is_none()
    }

    /// Whether the next name may be found by them.
    fn next_by_replicas(&self) -> bool {
        self.by_replicas() && (self.done + 1 < self.names.len() || self.by == Replicas::ToTheEnd)
    }

    /// A name was found: of a directory, with this number.
    fn found(&mut self, above: Ino, dir: Option<Ino>) {
        (self.done, self.above) = (self.done + 1, above);
        if let Some(dir) = dir {
            self.by_path = if dir.is_by_path() { self.by_path + 1 } else { 0 };
        }
    }

    fn walked(&self, last: Answer) -> Step {
        let (done, dir, by_path) = (self.done as u32, self.above, self.by_path);
        Step::Answer(Ok(Answer::Walked { done, dir, last: Box::new(last), by_path }))
    }
}

impl Mds {
    /// One name was found, or not. `None`: the next one is looked for, and is the job's operation.
    pub(crate) fn walk_on(&mut self, job: &mut Job, step: Step) -> Option<Step> {
        let (Some(mut walk), Op::Lookup { dir: at, .. }) = (job.walk.take(), &job.op) else { return Some(step) };
        let at = *at;
        let me = self.me();
        let step = match step {
            Step::Answer(Ok(answer)) => {
                let (dir, goes_on) = match &answer {
                    Answer::Entry(attr) if attr.kind == Kind::Dir => (Some(attr.ino), true),
                    // Of a directory that is in several ranks' fragments this one may have the next name.
                    Answer::Remote { ino, kind: Kind::Dir, rank } => (Some(*ino), *rank == me || walk.by_replicas()),
                    _ => (None, false),
                };
                walk.found(at, dir);
                match (dir.filter(|_| goes_on), walk.names.get(walk.done)) {
                    (Some(dir), Some(name)) => {
                        let looked = std::mem::replace(&mut job.op, Op::Lookup { dir, name: name.clone() });
                        self.parked.unmark(job);
                        self.give_back(job, false);
                        job.flushed.clear();
                        job.limited.clone_from(&walk.limited);
                        if self.heat.sampler.choose() {
                            self.heat_op(&looked);
                        }
                        job.walk = Some(walk);
                        return None;
                    }
                    _ => walk.walked(answer),
                }
            }
            // That rank need not be asked.
            Step::Redirect(rank) if walk.next_by_replicas() => {
                let name = walk.names[walk.done].clone();
                match self.step_by_replica(at, &name, &job.cred, rank) {
                    Way::To(dir) => {
                        walk.found(at, Some(dir));
                        if let Some(name) = walk.names.get(walk.done) {
                            job.op = Op::Lookup { dir, name: name.clone() };
                            job.walk = Some(walk);
                            return None;
                        }
                        let rank = self.probable_home(dir, rank);
                        walk.walked(Answer::Remote { ino: dir, kind: Kind::Dir, rank })
                    }
                    Way::No(error) => Step::Answer(Err(error)),
                    Way::Wait(why) => Step::Wait(why),
                    Way::Load(needs) => self.wait_for(job, needs),
                    Way::Unknown if walk.done == 0 => Step::Redirect(rank),
                    Way::Unknown => walk.walked(Answer::Remote { ino: at, kind: Kind::Dir, rank }),
                }
            }
            // Whoever asks goes on there.
            Step::Redirect(rank) if walk.done > 0 => walk.walked(Answer::Remote { ino: at, kind: Kind::Dir, rank }),
            // It may be decoupled for who asks, who then finds what is in it without this rank.
            Step::Answer(Err(FsError::Busy)) if walk.done > 0 => {
                walk.walked(Answer::Remote { ino: at, kind: Kind::Dir, rank: me })
            }
            step => step,
        };
        job.walk = Some(walk);
        Some(step)
    }
}
