//! Directories below a decoupled one whose policies promise more than its owner gives: with one of these it is not decoupled, and while it is
//! decoupled none comes to be. All that is below is in the owner's journal, so what those promise would not hold. Not which levels there are
//! (crate `semantics`), nor how a table finds directories with policies (`scan.rs`).
//!
//! Such directories are found by notes in the table, one for each directory with a policy of its own, and by what this life of the rank and the
//! journal that it began with say of policies: that may not be in the table yet. What comes from another rank comes with its part of that.

use std::collections::BTreeSet;
use std::sync::Arc;

use loligo_namespace::{Found, SUBTREE, Tree, bounds_of};
use loligo_subtree_policy::{Bounds, Broken, Cell, SubtreePolicy, Wanted};
use loligo_types::{Answer, Event, FsError, Ino, Need, Op, Promise, RefusedBy, SubtreeAnswer};

use super::gather::Far;
use super::state::{Look, TICKETS};
use crate::cluster::Cluster;
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::io::{Output, Page, Scan};
use crate::job::{Job, WaitReason};
use crate::paths::PathCache;
use crate::step::Step;

/// Time to wait for a page of the table before it is asked for again, milliseconds.
const PAGE_MS: u64 = 10_000;
/// Time to wait for a look in all, milliseconds.
const LOOK_MS: u64 = 60_000;
/// Records read at once.
pub(super) const READS_MAX: usize = 1024;

/// The answer where the policy of a directory is in the way.
pub(super) fn refused(by: RefusedBy, dir: Ino) -> Step {
    Step::Answer(Ok(Answer::Subtree(Box::new(SubtreeAnswer::Refused { by, dir }))))
}

/// The promise that the owner of a directory gives there, or is to give.
pub(super) struct Offer<'a> {
    pub(super) promise: Promise,
    /// The part that bounds below have to allow.
    pub(super) wanted: Option<&'a Wanted>,
}

impl Decoupled {
    /// The first directory below one whose policy promises more than this, or whose bounds do not allow what is wanted; a step: that is to be found
    /// out first.
    fn stronger_below(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        ways: &mut PathCache,
        job: &mut Job,
        dir: Ino,
        offer: &Offer,
    ) -> Result<Option<(RefusedBy, Ino)>, Step> {
        let found = self.look_for_policies(core, job, dir)?;
        let gives = Cell::of_promise(offer.promise);
        let (mut needs, mut asks) = (Vec::new(), false);
        for ino in found {
            match ways.is_policied_below(core, cluster, ino, dir) {
                Far::Elsewhere => {}
                Far::Asked => asks = true,
                Far::Load(more) => needs.extend(more),
                Far::Below => match cluster.cell_of(core, ino) {
                    Err(more) => needs.extend(more),
                    Ok(Some(cell)) if !gives.keeps(cell) => return Ok(Some((RefusedBy::Below, ino))),
                    Ok(_) => {
                        if let Some(broken) =
                            offer.wanted.and_then(|wanted| bounds_of_one(&core.tree, ino)?.broken_by(wanted))
                        {
                            return Ok(Some((refused_by(broken), ino)));
                        }
                    }
                },
            }
        }
        needs.truncate(READS_MAX);
        match (needs.is_empty(), asks) {
            (false, _) => Err(cluster.wait_to_know(core, job, needs)),
            (true, true) => Err(Step::Wait(WaitReason::Above)),
            (true, false) => Ok(None),
        }
    }

    /// Checks a directory that is to be decoupled for something below it that promises more, or has bounds that do not allow it: then the
    /// answer, or what it waits for.
    pub(super) fn promises_more_below(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        ways: &mut PathCache,
        job: &mut Job,
        dir: Ino,
        offer: &Offer,
    ) -> Option<Step> {
        match self.stronger_below(core, cluster, ways, job, dir, offer) {
            Ok(None) => None,
            Ok(Some((by, below))) => Some(refused(by, below)),
            Err(step) => Some(step),
        }
    }

    /// Checks a request of the owner of a decoupled subtree that gives its root another policy. From then on that is what the owner gives,
    /// so it must not be less than what directories below promise; a strong one is given when it is not decoupled any more.
    pub(super) fn changes_promise(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        ways: &mut PathCache,
        job: &mut Job,
    ) -> Option<Step> {
        let (dir, promise) = new_promise(&job.op)?;
        let Some(promise) = promise else { return Some(Step::Answer(Err(FsError::Busy))) };
        let step = match self.stronger_below(core, cluster, ways, job, dir, &Offer { promise, wanted: None }) {
            Ok(None) => None,
            Ok(Some(_)) => Some(Step::Answer(Err(FsError::Busy))),
            Err(step) => Some(step),
        };
        if !matches!(step, Some(Step::Wait(_))) {
            self.policied.forget(dir);
        }
        step
    }

    /// A record was made, or replayed: a directory may have a policy of its own from now on, or none.
    pub(crate) fn note_promise(&mut self, event: &Event) {
        self.policied.note(event);
    }

    /// The cells of all policies below a directory, and (`itself`) its own, as far as they are this rank's.
    pub(super) fn cells_below(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        job: &mut Job,
        dir: Ino,
        itself: bool,
    ) -> Result<Vec<Cell>, Step> {
        let mut found = self.look_for_policies(core, job, dir)?;
        if itself {
            found.insert(dir);
        }
        let (mut cells, mut needs) = (Vec::new(), Vec::new());
        for ino in found {
            let is_there = if ino == dir { Ok(true) } else { cluster.is_below(core, ino, dir) };
            match is_there.and_then(|is| if is { cluster.cell_of(core, ino) } else { Ok(None) }) {
                Ok(cell) => cells.extend(cell),
                Err(more) => needs.extend(more),
            }
        }
        needs.truncate(READS_MAX);
        if needs.is_empty() {
            self.policied.forget(dir);
            return Ok(cells);
        }
        Err(cluster.wait_to_know(core, job, needs))
    }

    /// All directories that may have a policy of their own.
    pub(super) fn look_for_policies(&mut self, core: &mut Core, job: &Job, dir: Ino) -> Result<BTreeSet<Ino>, Step> {
        let (now, arrivals) = (core.now.mono_ms, self.arrivals);
        let all = &mut self.policied;
        // What has come here since may have brought some that were not in the table then.
        let look = all.looks.remove(&dir).filter(|look| look.arrivals == arrivals);
        let mut look =
            look.unwrap_or(Look { ticket: 0, arrivals, asked_ms: 0, next: Some(Ino(0)), found: BTreeSet::new() });
        let Some(from) = look.next else {
            let found = look.found.union(&all.known).copied().filter(|ino| *ino != dir).collect();
            all.looks.insert(dir, look);
            return Ok(found);
        };
        if now >= job.since_ms + LOOK_MS {
            return Err(Step::Answer(Err(FsError::Busy)));
        }
        if look.ticket == 0 || now >= look.asked_ms + PAGE_MS {
            all.last += 1;
            (look.ticket, look.asked_ms) = (TICKETS + all.last, now);
            core.out.push_back(Output::Scan { ticket: look.ticket, what: Scan::Policies, from });
        }
        self.policied.looks.insert(dir, look);
        Err(Step::Wait(WaitReason::Gather))
    }

    /// A page of the table came, or it could not be read: then it is asked for again by and by.
    pub(crate) fn policies_scanned(&mut self, core: &mut Core, ticket: u64, page: Option<Page>) {
        let now = core.now.mono_ms;
        let all = &mut self.policied;
        let Some(look) = all.looks.values_mut().find(|look| look.ticket == ticket) else { return };
        let Some(page) = page else {
            look.ticket = 0;
            return;
        };
        look.found.extend(page.found.into_iter().map(|(ino, _)| ino));
        look.next = page.next;
        match page.next {
            Some(from) => {
                all.last += 1;
                (look.ticket, look.asked_ms) = (TICKETS + all.last, now);
                let ticket = look.ticket;
                core.out.push_back(Output::Scan { ticket, what: Scan::Policies, from });
            }
            None => core.parked.wake(&WaitReason::Gather),
        }
    }
}

impl PathCache {
    fn is_policied_below(&mut self, core: &mut Core, cluster: &mut Cluster, ino: Ino, dir: Ino) -> Far {
        if !cluster.is_alone() {
            // A scattered one may be another rank's; that rank's word of a moment ago will do.
            return self.is_below_far(core, cluster, ino, dir, 0);
        }
        match cluster.is_below(core, ino, dir) {
            Ok(true) => Far::Below,
            Ok(false) => Far::Elsewhere,
            Err(needs) => Far::Load(needs),
        }
    }
}

impl Cluster {
    /// The cell of a directory's own policy. One that cannot be read, because it is another rank's or a newer version's, counts as the strongest.
    pub(super) fn cell_of(&mut self, core: &mut Core, dir: Ino) -> Result<Option<Cell>, Vec<Need>> {
        if self.is_elsewhere(core, dir) {
            return Ok(Some(Cell::POSIX));
        }
        let text = core.own_policy(dir)?;
        Ok(text.map(|text| SubtreePolicy::parse_bytes(&text).map_or(Cell::POSIX, |policy| policy.cell())))
    }
}

impl Core {
    /// The policy of a directory of this rank, as it was set. `Err`: that is to be read first.
    pub(crate) fn own_policy(&self, dir: Ino) -> Result<Option<Arc<[u8]>>, Vec<Need>> {
        let inode = match self.tree.find(dir) {
            Found::Here(inode) => inode,
            Found::Gone => return Ok(None),
            Found::Unknown => return Err(vec![Need::Inode(dir)]),
        };
        self.tree.xattr(inode, SUBTREE).ok_or_else(|| vec![Need::Xattrs(dir)])
    }

    /// The record of a decoupled root whose owner gives it another policy.
    pub(crate) fn with_new_promise(&self, op: &Op) -> Option<Event> {
        let (dir, promise) = new_promise(op)?;
        let record = self.tree.decoupled(dir)?.clone();
        Some(Event::Decoupled(Box::new(loligo_types::DecoupledRecord { promise: promise?, ..record })))
    }

    /// True if somebody who works in a decoupled subtree of somebody else gives a directory there a policy that does not hold there.
    pub(super) fn promises_more_within(&self, op: &Op, root: Ino) -> bool {
        let Some(cell) = new_cell(op).map(|(_, cell)| cell) else { return false };
        self.tree.decoupled(root).is_some_and(|record| !Cell::of_promise(record.promise).keeps(cell))
    }
}

/// The bounds that the policy of a directory of this rank has, of which the cell is known.
fn bounds_of_one(tree: &Tree, dir: Ino) -> Option<Bounds> {
    let Found::Here(inode) = tree.find(dir) else { return None };
    tree.xattr(inode, SUBTREE)?.map(|text| bounds_of(&text))
}

/// The directory that a request gives a policy to, and the cell of that. What makes no sense is refused later.
fn new_cell(op: &Op) -> Option<(Ino, Cell)> {
    let Op::SetXattr { ino, name, value, .. } = op else { return None };
    let policy = (**name == *SUBTREE).then(|| SubtreePolicy::parse_bytes(value).ok()).flatten()?;
    Some((*ino, policy.cell()))
}

fn new_promise(op: &Op) -> Option<(Ino, Option<Promise>)> {
    new_cell(op).map(|(dir, cell)| (dir, cell.promise()))
}

/// The reason in a refusal for a broken bound.
pub(super) fn refused_by(broken: Broken) -> RefusedBy {
    match broken {
        Broken::Forbidden => RefusedBy::Forbidden,
        Broken::Floor => RefusedBy::Floor,
        Broken::Ceiling => RefusedBy::Limit,
    }
}
