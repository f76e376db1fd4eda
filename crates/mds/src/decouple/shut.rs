//! Refusal of requests below the root of a decoupled subtree. Others get `Busy`, whichever way they come, unless they may work there
//! (`allow.rs`) or read (`read.rs`). The owner's own requests that are not about the subtree get it, too: the owner has what is there.
//!
//! The root itself is an entry of a directory that is not decoupled: it is seen. As a mount point it is neither removed nor renamed, by
//! nobody: its owner may have made something in it, and programs find it by its path.
//!
//! All inodes below a root are this rank's (`gather.rs`), so they are reached through this rank only: by requests of clients, and by inodes
//! that it lends to other ranks for theirs. With each lent inode the rank says whether that is in a decoupled subtree, and the other rank
//! refuses then what this one would.

use loligo_namespace::{Found, Lookup, Need, SUBTREE};
use loligo_types::peer::Apart;
use loligo_types::{Control, FsError, Ino, Inode, Kind, Lease, Name, Op};

use crate::cluster::Cluster;
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::job::{Job, WaitReason};
use crate::paths::{PathCache, Up};
use crate::step::Step;

/// Where something is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Above {
    /// In no decoupled subtree.
    Nothing,
    /// It is the root of one.
    Root(Ino),
    /// Below the root of one.
    Below(Ino),
    /// Its way up ends before the root: it is gone, or has no name, or a directory above it is to come with a merge that is on its way into
    /// memory.
    Lost,
    /// That is to be read first.
    Load(Vec<Need>),
}

impl Above {
    /// The subtree in which others may work that something is in; its root is not in it but for names.
    fn allowed(&self, names: bool, allows: bool) -> Option<Ino> {
        match self {
            Above::Below(dir) if allows => Some(*dir),
            Above::Root(dir) if names && allows => Some(*dir),
            _ => None,
        }
    }
}

/// Names by which an operation gets at what is called so, to change or to open it.
fn reached_names(op: &Op) -> [Option<(Ino, &Name)>; 2] {
    op.subjects().map(|subject| subject.name().filter(|_| op.props().reaches.nodes()))
}

/// The names that an operation may take away from what is called so.
fn ended_names(op: &Op) -> [Option<(Ino, &Name)>; 2] {
    op.subjects().map(|subject| subject.name().filter(|_| op.props().reaches.dirs()))
}

impl Decoupled {
    /// The step for a request that meets a decoupled subtree: `None` if it may go on.
    pub(crate) fn busy_below(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        ways: &mut PathCache,
        job: &mut Job,
    ) -> Option<Step> {
        if matches!(job.op, Op::Control(Control::Subtree { .. })) {
            return None;
        }
        if let Op::SetXattr { ino, name, .. } | Op::RemoveXattr { ino, name } = &job.op
            && **name == *SUBTREE
            && let Some(owned) = self.by_dir.get(ino)
        {
            if owned.by != Some((job.slot, job.session)) {
                // What is outstanding is to be brought to what another policy promises first: that its owner alone can do.
                return Some(Step::Answer(Err(FsError::Busy)));
            }
            if let Some(step) = self.changes_promise(core, cluster, ways, job) {
                return Some(step);
            }
        }
        // Which subtree each is in, of those in which others may work.
        let mut within = [None; 2];
        let mut at_all = 0;
        // Those must not be below the root of a decoupled subtree, nor names in the root.
        let subjects = job.op.subjects().map(|subject| subject.ino().map(|ino| (ino, subject.is_names())));
        for (ino, names) in subjects.into_iter().flatten() {
            let (above, allows) = self.stand_of(core, cluster, job, ino);
            if above == Above::Lost && self.merging_dir().is_none() {
                // A file without a name may get one anywhere.
                continue;
            }
            within[at_all] = above.allowed(names, allows);
            at_all += 1;
            if within[at_all - 1].is_some() {
                continue;
            }
            match above {
                Above::Nothing => {}
                Above::Lost => {
                    if let Some(dir) = self.merging_dir() {
                        return Some(Step::Wait(WaitReason::Merge(dir)));
                    }
                }
                Above::Root(dir) | Above::Below(dir) if self.reads_merged(core, job, dir) => {
                    if let Some(step) = self.read_merged(dir) {
                        return Some(step);
                    }
                }
                Above::Root(_) if !names => {}
                Above::Root(_) | Above::Below(_) => return Some(Step::Answer(Err(FsError::Busy))),
                Above::Load(needs) => return Some(cluster.wait_for(core, job, needs)),
            }
        }
        if at_all == 2 && within[0] != within[1] {
            return Some(Step::Answer(Err(FsError::CrossDevice)));
        }
        job.within = within[0];
        if job.within.is_some_and(|root| core.promises_more_within(&job.op, root)) {
            return Some(Step::Answer(Err(FsError::Busy)));
        }
        if let Some(step) = self.busy_through_a_name_outside(core, cluster, job) {
            return Some(step);
        }
        cluster.ends_root(core, job).then_some(Step::Answer(Err(FsError::Busy)))
    }

    /// Where something is that a request is about, and whether others may work there. Of what is another rank's that one has said it when
    /// it lent it: so it is there until the request is over.
    fn stand_of(&self, core: &mut Core, cluster: &mut Cluster, job: &Job, ino: Ino) -> (Above, bool) {
        if let Some(apart) = cluster.borrowing.lent_apart(job, ino) {
            let above = if apart.root == ino { Above::Root(ino) } else { Above::Below(apart.root) };
            return (above, apart.allows);
        }
        let above = self.decoupled_above(core, cluster, ino);
        let allows =
            matches!(above, Above::Root(dir) | Above::Below(dir) if core.allows(dir) && !self.answers(job, dir));
        (above, allows)
    }

    /// True if a session answers below a root by itself, though others may work there.
    fn answers(&self, job: &Job, dir: Ino) -> bool {
        let by = Some((job.slot, job.session));
        self.by_dir.get(&dir).is_some_and(|owned| owned.answers && owned.by == by)
    }

    /// Which of these inodes, which are to be lent, are in decoupled subtrees. `Err`: that is to be read first.
    pub(crate) fn apart_of(
        &self,
        core: &mut Core,
        cluster: &mut Cluster,
        inos: &[Ino],
    ) -> Result<Vec<Apart>, Vec<Need>> {
        let mut apart = Vec::new();
        if !core.tree.has_decoupled() {
            return Ok(apart);
        }
        for ino in inos.iter().copied() {
            match self.decoupled_above(core, cluster, ino) {
                Above::Root(root) | Above::Below(root) => {
                    apart.push(Apart { ino, root, allows: core.allows(root) });
                }
                Above::Nothing | Above::Lost => {}
                Above::Load(needs) => return Err(needs),
            }
        }
        Ok(apart)
    }

    /// A file in a subtree may have a name outside of it, too: what it is and how many names it has is its owner's to say.
    fn busy_through_a_name_outside(&self, core: &mut Core, cluster: &mut Cluster, job: &mut Job) -> Option<Step> {
        let names = reached_names(&job.op).map(|reached| reached.map(|(dir, name)| core.tree.entry(dir, name)));
        for lookup in names.into_iter().flatten() {
            let Lookup::Present(target) = lookup else { continue };
            if target.kind == Kind::Dir {
                continue;
            }
            match self.decoupled_above(core, cluster, target.ino) {
                Above::Below(root) if !core.allows(root) => return Some(Step::Answer(Err(FsError::Busy))),
                Above::Load(needs) => return Some(cluster.wait_for(core, job, needs)),
                _ => {}
            }
        }
        None
    }

    /// Where something is.
    pub(super) fn decoupled_above(&self, core: &mut Core, cluster: &mut Cluster, ino: Ino) -> Above {
        let mut at = ino;
        for _ in 0..loligo_types::limits::DEPTH_MAX {
            if core.tree.decoupled(at).is_some() {
                return if at == ino { Above::Root(at) } else { Above::Below(at) };
            }
            if at == Ino::ROOT {
                return Above::Nothing;
            }
            match if at.0 == 0 { Up::Nowhere } else { cluster.up(core, at) } {
                Up::To(parent, _) => at = parent,
                Up::Nowhere => break,
                // Nor is that in a subtree which that rank has decoupled: this would have been gathered there first (`gather.rs`), and nothing
                // comes below a root later, nor leaves the rank that has it.
                Up::Elsewhere(_) => return Above::Nothing,
                Up::Load(needs) => return Above::Load(needs),
            }
        }
        self.found_below(ino).map_or(Above::Lost, Above::Below)
    }

    /// True if an inode is neither in a decoupled subtree nor the root of one, as far as memory tells.
    pub(crate) fn is_free_above(&self, core: &mut Core, cluster: &mut Cluster, ino: Ino) -> bool {
        matches!(self.decoupled_above(core, cluster, ino), Above::Nothing)
    }

    /// The subtree in which its owner has found a file whose way up does not end there: what counted it is gone.
    fn found_below(&self, ino: Ino) -> Option<Ino> {
        self.by_dir.iter().find(|(_, owned)| owned.lent.contains(&ino)).map(|(dir, _)| *dir)
    }

    /// True if something that the owner speaks of is below a directory. A file with several names is known by the directory that counts
    /// it; if that is gone, nobody can tell where it is, and the owner's word is taken: it may change of it what it may change of any
    /// file. Not the word of who may do things below paths only.
    pub(super) fn may_be_below(
        &self,
        core: &mut Core,
        cluster: &mut Cluster,
        ino: Ino,
        dir: Ino,
    ) -> Result<bool, Vec<Need>> {
        if cluster.is_below(core, ino, dir)? {
            return Ok(true);
        }
        let Found::Here(inode) = core.tree.find(ino) else { return Ok(false) };
        if inode.kind == Kind::Dir || inode.nlink == 0 {
            return Ok(false);
        }
        let Some(owned) = self.by_dir.get(&dir) else { return Ok(false) };
        if owned.lent.contains(&ino) {
            // It was found to be there before: what counted it may be gone since, and nothing leaves.
            return Ok(true);
        }
        if owned.path_bound {
            return Ok(false);
        }
        let mut at = inode.parent;
        for _ in 0..loligo_types::limits::DEPTH_MAX {
            if at == Ino::ROOT {
                return Ok(false);
            }
            match if at.0 == 0 { Up::Nowhere } else { cluster.up(core, at) } {
                Up::To(parent, _) => at = parent,
                Up::Nowhere => break,
                // Counted there, or gone, which only that rank knows.
                Up::Elsewhere(_) => return Ok(false),
                Up::Load(needs) => return Err(needs),
            }
        }
        Ok(true)
    }

    /// Something that is no directory and may lose the directory which counts it was found to be in a subtree.
    pub(super) fn note_lent(&mut self, core: &Core, ino: Ino, dir: Ino) {
        let may_be_lost = |inode: &Inode| inode.kind != Kind::Dir && (inode.nlink > 1 || inode.place.rank().is_some());
        if core.tree.inode(ino).is_some_and(may_be_lost)
            && let Some(owned) = self.by_dir.get_mut(&dir)
        {
            owned.lent.insert(ino);
        }
    }

    /// True if nobody gets these bits on an inode because it is decoupled, as far as memory tells; also where memory does not tell.
    pub(crate) fn is_decoupled(&self, core: &mut Core, cluster: &mut Cluster, ino: Ino, bits: Lease) -> bool {
        match self.decoupled_above(core, cluster, ino) {
            Above::Nothing => false,
            Above::Lost => self.merging_dir().is_some(),
            Above::Root(dir) => bits.has(Lease::NAMES) && !core.allows(dir),
            Above::Below(dir) => !core.allows(dir),
            Above::Load(_) => true,
        }
    }
}

impl Cluster {
    /// True if a request would remove or rename the root of a decoupled subtree, as far as its entry is known here.
    pub(crate) fn ends_root(&self, core: &Core, job: &Job) -> bool {
        ended_names(&job.op).into_iter().flatten().any(|(dir, name)| {
            let Lookup::Present(target) = core.tree.entry(dir, name) else { return false };
            let lent = self.borrowing.lent_apart(job, target.ino);
            core.tree.decoupled(target.ino).is_some() || lent.is_some_and(|apart| apart.root == target.ino)
        })
    }

    /// True if an inode is below this directory; `Err`: records to be read first.
    pub(super) fn is_below(&mut self, core: &mut Core, ino: Ino, dir: Ino) -> Result<bool, Vec<Need>> {
        let mut at = ino;
        for _ in 0..loligo_types::limits::DEPTH_MAX {
            if at == Ino::ROOT || at.0 == 0 {
                break;
            }
            match self.up(core, at) {
                Up::To(parent, _) if parent == dir => return Ok(true),
                Up::To(parent, _) => at = parent,
                Up::Nowhere | Up::Elsewhere(_) => break,
                Up::Load(needs) => return Err(needs),
            }
        }
        Ok(false)
    }
}
