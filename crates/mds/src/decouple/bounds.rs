//! Floors and ceilings: what an administrator has said of directories above, held against whoever decouples a directory, gives one a policy, sets
//! such bounds, or moves a directory below them. So they count however somebody comes, with an attribute or with options of his own. Not
//! what they are (`loligo_subtree_policy::ceiling`), and not who may set them (the namespace's xattrs).
//!
//! They are read on the way up from the directory. Of directories of other ranks those tell them, with the way itself: that word holds for a second.

use std::collections::BTreeSet;
use std::sync::Arc;

use loligo_namespace::{Found, Lookup, SUBTREE, bounds_of};
use loligo_subtree_policy::{Bounds, Cell, SubtreePolicy, Wanted};
use loligo_types::limits::{DEPTH_MAX, SUBTREE_JOURNALS};
use loligo_types::{DecoupledRecord, FsError, Ino, Kind, Name, Need, Op, RenameMode};

use super::intake::Intake;
use super::look::names_of;
use super::nested::{READS_MAX, refused, refused_by};
use crate::cluster::{Cluster, Where};
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::job::{Job, WaitReason};
use crate::paths::{PathCache, Up};
use crate::step::Step;

/// Bounds, and the directory whose policy has them.
type Bound = (Ino, Bounds);

/// True if a document may have bounds. To look at it is cheaper than to read it.
fn may_bind(text: &[u8]) -> bool {
    let has = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
    has(b"floor") || has(b"ceiling")
}

fn bound(dir: Ino, text: &[u8]) -> Option<Bound> {
    may_bind(text).then(|| bounds_of(text)).filter(|bounds| !bounds.is_none()).map(|bounds| (dir, bounds))
}

/// The promise, inode numbers and lease that a decoupling has by now.
fn has(record: &DecoupledRecord) -> Wanted {
    let granted: u64 = record.grants.iter().map(|(_, count)| count).sum();
    Wanted {
        cell: Cell::of_promise(record.promise),
        inodes: granted.saturating_sub(SUBTREE_JOURNALS),
        lease_ms: u64::from(record.lease_ms),
    }
}

impl Core {
    /// Adds the policy of a directory of this rank, if it may have bounds. `Err`: that is to be read first.
    pub(crate) fn add_bounds(&self, dir: Ino, bounds: &mut Vec<(Ino, Arc<[u8]>)>) -> Result<(), Vec<Need>> {
        let inode = match self.tree.find(dir) {
            Found::Here(inode) => inode,
            Found::Gone => return Ok(()),
            Found::Unknown => return Err(vec![Need::Inode(dir)]),
        };
        if inode.kind == Kind::Dir && inode.has_xattrs {
            let text = self.tree.xattr(inode, SUBTREE).ok_or_else(|| vec![Need::Xattrs(dir)])?;
            bounds.extend(text.filter(|text| may_bind(text)).map(|text| (dir, text)));
        }
        Ok(())
    }

    /// The bounds that these directories of this rank have themselves.
    fn bounds_on(&self, dirs: impl IntoIterator<Item = Ino>) -> Result<Vec<Bound>, Vec<Need>> {
        let (mut texts, mut needs) = (Vec::new(), Vec::new());
        for dir in dirs {
            needs.extend(self.add_bounds(dir, &mut texts).err().into_iter().flatten());
        }
        if needs.is_empty() {
            Ok(texts.into_iter().filter_map(|(dir, text)| bound(dir, &text)).collect())
        } else {
            Err(needs)
        }
    }
}

impl PathCache {
    /// The bounds that count in a directory: its own, and those of all above.
    fn bounds_at(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        job: &mut Job,
        dir: Ino,
    ) -> Result<Vec<Bound>, Step> {
        let (mut at, mut texts) = (dir, Vec::new());
        for _ in 0..DEPTH_MAX {
            let next = match core.tree.owner(at) {
                // Lent by that rank for this request, without its attributes.
                rank if rank != core.me() => Up::Elsewhere(rank),
                _ if at == Ino::ROOT => cluster.root_above(core),
                _ => cluster.up(core, at),
            };
            match next {
                Up::Load(needs) => return Err(cluster.wait_to_know(core, job, needs)),
                Up::Elsewhere(rank) => match self.bounds_there(core, at, rank) {
                    Some((above, told)) => {
                        texts.extend(told);
                        if at == Ino::ROOT || above.0 == 0 {
                            break;
                        }
                        at = above;
                    }
                    None => return Err(Step::Wait(WaitReason::Above)),
                },
                Up::Nowhere | Up::To(..) => {
                    if let Err(needs) = core.add_bounds(at, &mut texts) {
                        return Err(cluster.wait_to_know(core, job, needs));
                    }
                    match next {
                        Up::To(parent, _) if at != Ino::ROOT && parent.0 != 0 => at = parent,
                        _ => break,
                    }
                }
            }
        }
        Ok(texts.into_iter().filter_map(|(dir, text)| bound(dir, &text)).collect())
    }

    /// Checks the bounds of a directory that is to be decoupled: the answer if they are broken, or the wait until they
    /// are known.
    pub(super) fn breaks_bounds(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        job: &mut Job,
        dir: Ino,
        wanted: &Wanted,
    ) -> Option<Step> {
        let bounds = match self.bounds_at(core, cluster, job, dir) {
            Ok(bounds) => bounds,
            Err(step) => return Some(step),
        };
        let broken = bounds.into_iter().find_map(|(at, bounds)| bounds.broken_by(wanted).map(|broken| (at, broken)));
        broken.map(|(at, broken)| refused(refused_by(broken), at))
    }

    /// Number of further inode numbers that may be granted to a subtree.
    pub(super) fn room_for_inodes(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        job: &mut Job,
        record: &DecoupledRecord,
    ) -> Result<u64, Step> {
        let bounds = self.bounds_at(core, cluster, job, record.dir)?;
        let most = bounds.into_iter().filter_map(|(_, bounds)| bounds.ceiling.allocated_inodes).min();
        Ok(most.map_or(u64::MAX, |most| most.saturating_sub(has(record).inodes)))
    }
}

impl Cluster {
    /// Where the root of the file system is: above it there is nothing.
    fn root_above(&mut self, core: &mut Core) -> Up {
        if self.is_alone() {
            return Up::Nowhere;
        }
        let mut wants = Vec::new();
        match self.locate(core, Ino::ROOT, &mut wants) {
            Where::Here => Up::Nowhere,
            Where::Elsewhere(rank) => Up::Elsewhere(rank),
            Where::Unknown => Up::Load(wants),
        }
    }

    fn bounds_of_policied(
        &mut self,
        core: &mut Core,
        job: &mut Job,
        record: &DecoupledRecord,
        intake: &Intake,
        policied: BTreeSet<Ino>,
    ) -> Result<(), Step> {
        let may = job.cred.is_root() && !job.path_bound;
        let mut needs = Vec::new();
        for ino in policied {
            match self.bounds_of_one_policied(core, record, intake, ino, may) {
                Ok(None) => {}
                Ok(Some(error)) => return Err(Step::Answer(Err(error))),
                Err(more) => needs.extend(more),
            }
        }
        needs.truncate(READS_MAX);
        if needs.is_empty() { Ok(()) } else { Err(self.wait_to_know(core, job, needs)) }
    }

    /// The error for a merge that does something to a directory with a policy, or to those above it, which it may not. `Err`:
    /// that is to be read first.
    fn bounds_of_one_policied(
        &mut self,
        core: &mut Core,
        record: &DecoupledRecord,
        intake: &Intake,
        ino: Ino,
        may: bool,
    ) -> Result<Option<FsError>, Vec<Need>> {
        if !self.is_below(core, ino, record.dir)? {
            return Ok(None);
        }
        let known = intake.known.get(&ino);
        let moved = known.is_some_and(|(base, made)| made.as_ref().is_none_or(|made| names_of(made) != names_of(base)));
        if moved && !may && !core.bounds_on([ino])?.is_empty() {
            return Ok(Some(FsError::Perm));
        }
        if known.is_some_and(|(_, made)| made.is_none()) {
            return Ok(None);
        }
        let Some(cell) = self.cell_of(core, ino)? else { return Ok(None) };
        let before = self.way_within(core, record, ino, None)?;
        let mut after = self.way_within(core, record, ino, Some(intake))?;
        after.retain(|dir| !before.contains(dir) && !record.is_new(*dir));
        let new = core.bounds_on(after)?;
        let lacks = new.iter().any(|(_, bounds)| bounds.floor.lacks(cell).is_some());
        Ok(lacks.then_some(FsError::CrossDevice))
    }

    /// The directories above one, below the root of its subtree; with a merge, as that leaves them.
    fn way_within(
        &mut self,
        core: &mut Core,
        record: &DecoupledRecord,
        of: Ino,
        with: Option<&Intake>,
    ) -> Result<BTreeSet<Ino>, Vec<Need>> {
        let (mut at, mut way) = (of, BTreeSet::new());
        loop {
            let new = with.and_then(|with| with.shape.dirs.get(&at)).map(|dir| dir.parent);
            let made = with.and_then(|with| with.known.get(&at)).and_then(|(_, made)| Some(made.as_ref()?.parent));
            at = match new.or(made) {
                Some(parent) => parent,
                None => match self.up(core, at) {
                    Up::To(parent, _) => parent,
                    Up::Load(needs) => return Err(needs),
                    Up::Nowhere | Up::Elsewhere(_) => break,
                },
            };
            // Whether it is a tree is found out by others.
            if at == record.dir || at == Ino::ROOT || at.0 == 0 || !way.insert(at) {
                break;
            }
        }
        Ok(way)
    }
}

impl Decoupled {
    /// Checks the bounds for a request that gives a directory a policy, or takes it away, or moves a directory: `None` if it
    /// may go on.
    pub(crate) fn bounds_first(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        ways: &mut PathCache,
        job: &mut Job,
    ) -> Option<Step> {
        let checked = match &job.op {
            Op::SetXattr { ino, name, value, .. } if **name == *SUBTREE => {
                let (dir, value) = (*ino, Arc::clone(value));
                self.bounds_of_policy(core, cluster, ways, job, dir, Some(&value))
            }
            Op::RemoveXattr { ino, name } if **name == *SUBTREE => {
                let dir = *ino;
                self.bounds_of_policy(core, cluster, ways, job, dir, None)
            }
            Op::Rename { dir, name, new_dir, new_name, mode } if dir != new_dir => {
                let (from, to) = ((*dir, name.clone()), (*new_dir, new_name.clone()));
                let exchanged = (*mode == RenameMode::Exchange).then(|| (to.clone(), from.0));
                let moved = self.bounds_of_move(core, cluster, ways, job, &from, to.0);
                moved.and_then(|()| {
                    exchanged.map_or(Ok(()), |(back, old)| self.bounds_of_move(core, cluster, ways, job, &back, old))
                })
            }
            _ => return None,
        };
        checked.err()
    }

    fn bounds_of_policy(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        ways: &mut PathCache,
        job: &mut Job,
        dir: Ino,
        value: Option<&[u8]>,
    ) -> Result<(), Step> {
        let old = core.tree.inode(dir).and_then(|inode| core.tree.xattr(inode, SUBTREE)).flatten();
        let old = old.map(|text| bounds_of(&text)).unwrap_or_default();
        let new = value.map(bounds_of).unwrap_or_default();
        if job.path_bound && old != new {
            // It may say to be root, of some paths only.
            return Err(Step::Answer(Err(FsError::Perm)));
        }
        if new != old && !new.is_none() {
            self.keep_below(core, cluster, job, dir, &[(dir, new)], FsError::Busy)?;
        }
        let Some(policy) = value.and_then(|value| SubtreePolicy::parse_bytes(value).ok()) else { return Ok(()) };
        let above = ways.bounds_at(core, cluster, job, dir)?;
        let lacks = above.iter().any(|(at, bounds)| *at != dir && bounds.floor.lacks(policy.cell()).is_some());
        if lacks { Err(Step::Answer(Err(FsError::Perm))) } else { Ok(()) }
    }

    /// A directory goes into another one.
    fn bounds_of_move(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        ways: &mut PathCache,
        job: &mut Job,
        (dir, name): &(Ino, Name),
        to: Ino,
    ) -> Result<(), Step> {
        let Lookup::Present(target) = core.tree.entry(*dir, name) else { return Ok(()) };
        if target.kind != Kind::Dir {
            return Ok(());
        }
        let bounds = ways.bounds_at(core, cluster, job, to)?;
        if bounds.is_empty() {
            return Ok(());
        }
        let before = ways.bounds_at(core, cluster, job, *dir)?;
        let new: Vec<Bound> = bounds.into_iter().filter(|bound| !before.contains(bound)).collect();
        if new.is_empty() {
            Ok(())
        } else {
            self.keep_below(core, cluster, job, target.ino, &new, FsError::CrossDevice)
        }
    }

    /// Checks that a merge keeps bounds. A directory that has some is moved and removed by root alone; the promise of a policy below is not
    /// less than the floors that come to be above it. `Err`: it does not, or that is to be found out first.
    pub(super) fn bounds_of_merge(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        job: &mut Job,
        record: &DecoupledRecord,
        intake: &Intake,
    ) -> Result<(), Step> {
        let mut dirs = intake.known.values().filter(|(base, _)| base.kind == Kind::Dir);
        if !dirs.any(|(base, made)| made.as_ref().is_none_or(|made| names_of(made) != names_of(base))) {
            return Ok(());
        }
        // Those with policies are few, and the merge may move many.
        let policied = self.look_for_policies(core, job, record.dir)?;
        let verdict = cluster.bounds_of_policied(core, job, record, intake, policied);
        if !matches!(verdict, Err(Step::Wait(_))) {
            self.policied.forget(record.dir);
        }
        verdict
    }

    /// Checks that a directory and all in it are within these bounds: decoupled directories, and policies. `Err`: they are not, or that is
    /// to be found out first. `weaker`: the error where a policy is below a floor.
    fn keep_below(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        job: &mut Job,
        dir: Ino,
        bounds: &[Bound],
        weaker: FsError,
    ) -> Result<(), Step> {
        let records: Vec<(Ino, Wanted)> = core.tree.all_decoupled().map(|record| (record.dir, has(record))).collect();
        for (root, wanted) in records {
            if bounds.iter().all(|(_, bounds)| bounds.broken_by(&wanted).is_none()) {
                continue;
            }
            match cluster.is_below(core, root, dir) {
                Ok(below) if below || root == dir => return Err(Step::Answer(Err(FsError::Busy))),
                Ok(_) => {}
                Err(needs) => return Err(cluster.wait_to_know(core, job, needs)),
            }
        }
        if bounds.iter().all(|(_, bounds)| bounds.floor.is_none()) {
            return Ok(());
        }
        let own = bounds.first().is_some_and(|(at, _)| *at == dir);
        let cells = self.cells_below(core, cluster, job, dir, !own)?;
        let is_below = cells.iter().any(|cell| bounds.iter().any(|(_, bounds)| bounds.floor.lacks(*cell).is_some()));
        if is_below { Err(Step::Answer(Err(weaker))) } else { Ok(()) }
    }
}
