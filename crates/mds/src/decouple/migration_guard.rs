//! Limits of migrations at a decoupled subtree: nothing of it, nor what it is in as far as that is this rank's, goes to another rank
//! before it ends. So its owner has one rank to speak to, and what it was told is that rank's to keep. Gathering a subtree before is
//! `gather.rs`'s.

use loligo_namespace::{Found, Need};
use loligo_types::{Event, Frag, FsError, Ino};

use crate::cluster::{Cluster, Use, Where};
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::job::Job;
use crate::paths::Up;
use crate::step::Step;

impl Decoupled {
    /// True if something is decoupled here, or about to be.
    pub(crate) fn is_any_decoupled(&self) -> bool {
        !self.by_dir.is_empty() || !self.gathering.is_empty()
    }

    /// The root of a decoupled subtree because of which these fragments of a directory, and what is below them, stay here: it is in them,
    /// or they are in it. `Err`: that is to be read first.
    pub(crate) fn stays_for(
        &self,
        core: &mut Core,
        cluster: &mut Cluster,
        dir: Ino,
        frags: &[Frag],
    ) -> Result<Option<Ino>, Vec<Need>> {
        if !self.is_any_decoupled() {
            return Ok(None);
        }
        let roots: Vec<Ino> = self.by_dir.keys().chain(self.gathering.keys()).copied().collect();
        for root in roots {
            if root == dir || cluster.is_below(core, dir, root)? {
                return Ok(Some(root));
            }
            let hash = cluster.hash_below(core, root, dir)?;
            if hash.is_some_and(|hash| frags.iter().any(|frag| frag.contains(hash))) {
                return Ok(Some(root));
            }
        }
        Ok(None)
    }
}

impl Core {
    /// The refusal for an administrator who wants to move such a directory.
    pub(crate) fn stays_text(&self, dir: Ino, root: Ino) -> String {
        let what = if root == dir { "is".into() } else { format!("is in, or contains, directory {root}, which is") };
        format!(
            "directory {dir} {what} decoupled for a client, and stays with rank {} until that ends (loligo recouple; loligo \
             status says whose it is)",
            self.me()
        )
    }
}

impl Cluster {
    /// True if the migration under way, if there is one, is of something in a directory, or of what that is in.
    pub(super) fn is_moving(&mut self, core: &mut Core, dir: Ino) -> Result<bool, Vec<Need>> {
        let Some((moving, frags, files)) = self.exports.what() else { return Ok(false) };
        if files || moving == dir || self.is_below(core, moving, dir)? {
            return Ok(true);
        }
        Ok(self.hash_below(core, dir, moving)?.is_some_and(|hash| frags.iter().any(|frag| frag.contains(hash))))
    }

    /// The hash of the name in a directory that something below it is below, as far as all between is this rank's.
    fn hash_below(&mut self, core: &mut Core, ino: Ino, dir: Ino) -> Result<Option<u64>, Vec<Need>> {
        let mut at = ino;
        for _ in 0..loligo_types::limits::DEPTH_MAX {
            if at == Ino::ROOT || at.0 == 0 {
                break;
            }
            match self.up(core, at) {
                Up::To(parent, hash) if parent == dir => return Ok(Some(hash)),
                Up::To(parent, _) => at = parent,
                Up::Nowhere | Up::Elsewhere(_) => break,
                Up::Load(needs) => return Err(needs),
            }
        }
        Ok(None)
    }

    /// Makes a request about a subtree wait while something of it is lent to another rank: the result of that loan comes before.
    pub(super) fn wait_for_loans(&mut self, core: &mut Core, job: &mut Job, dir: Ino) -> Option<Step> {
        if self.loans.is_idle() {
            return None;
        }
        for ino in self.loans.locked_inos() {
            match self.is_below(core, ino, dir) {
                Ok(below) if below || ino == dir => {
                    if let Some(holder) = self.loans.in_the_way(ino, &Use::Whole) {
                        return Some(self.borrowing.give_way(core, job, holder));
                    }
                }
                Ok(_) => {}
                Err(needs) => return Some(self.wait_to_know(core, job, needs)),
            }
        }
        None
    }

    /// True if something is known to be another rank's.
    pub(super) fn is_elsewhere(&mut self, core: &mut Core, ino: Ino) -> bool {
        let unknown = !self.is_alone() && matches!(core.tree.find(ino), Found::Unknown);
        unknown && matches!(self.locate(core, ino, &mut Vec::new()), Where::Elsewhere(_))
    }

    /// The lines of the subtree map that end because an owner has removed directories which had some: it knows nothing of those.
    pub(super) fn lines_gone(&self, inos: impl Iterator<Item = Ino>) -> Vec<Event> {
        inos.filter(|ino| self.atlas.routes.version(*ino).is_some()).map(Event::RouteGone).collect()
    }

    /// Lets a request about a subtree wait for records. What the table has is taken for this rank's only when it is known whose it is;
    /// with several ranks that is found out first. Of what is another rank's nothing comes.
    pub(super) fn wait_to_know(&mut self, core: &mut Core, job: &mut Job, needs: Vec<Need>) -> Step {
        if self.is_alone() {
            return self.wait_for(core, job, needs);
        }
        let mut wants = Vec::new();
        for need in needs {
            let ino = need_of(&need);
            let before = wants.len();
            match self.locate(core, ino, &mut wants) {
                Where::Elsewhere(_) => return Step::Answer(Err(FsError::Busy)),
                Where::Unknown if wants.len() > before => {}
                Where::Here | Where::Unknown => wants.push(need),
            }
        }
        wants.sort_unstable();
        wants.dedup();
        self.wait_for(core, job, wants)
    }

    /// The root of a decoupled subtree is told with most answers: before anything is done it must be in memory, where it may not be after a
    /// restart.
    pub(super) fn load_root(&mut self, core: &mut Core, job: &mut Job, dir: Ino) -> Option<Step> {
        let is_missing = core.tree.decoupled(dir).is_some() && matches!(core.tree.find(dir), Found::Unknown);
        is_missing.then(|| self.wait_to_know(core, job, vec![Need::Inode(dir)]))
    }
}

/// The inode that a need is about.
pub(super) fn need_of(need: &Need) -> Ino {
    match need {
        Need::Inode(ino) | Need::Xattrs(ino) | Need::Inline(ino) | Need::Parts(ino) => *ino,
        Need::Entry { dir, .. } | Need::Range { dir, .. } | Need::Hashes { dir, .. } => *dir,
    }
}
