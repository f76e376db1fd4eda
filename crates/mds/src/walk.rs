//! A request that finds several names one after the other: each is a lookup of its own, with all that a lookup goes through. What one of them
//! leads to says where the next one begins. It ends where there is nothing more to find, or where another rank has the next name. Directories that
//! were found before are one step (`shortcuts.rs`). Under placement `table` it is not asked who may search a directory on the way. At the end something
//! may be done, in the directory that the names lead to or of the inode, as if it had been asked for by number. Not here: a lookup, nor what is done.

use std::collections::BTreeSet;
use std::sync::Arc;

use loligo_namespace::{Tree, check_search, is_searched_by_all};
use loligo_types::{About, Answer, Cred, FsError, FsResult, Ino, Inode, Kind, Lease, Name, Op, OpenFlags, Replicas};

use crate::cluster::{Cluster, Way};
use crate::core::Core;
use crate::heat::Heat;
use crate::io::Identity;
use crate::park::Job;
use crate::shortcuts::{Shortcut, Shortcuts, shortcut_key, shortcuts_most};
use crate::step::Step;

/// Directories that are found at once are so many at least: one alone is as soon looked up.
const NAMES_MIN: usize = 2;
/// Most times that an inode at the end of the names was gone before its turn: after them no other one of the same name is
/// looked for.
const GONE_MAX: u8 = 8;

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
    /// The directories among them, but for those that a shortcut led to.
    dirs: Vec<Ino>,
    /// All of them, if it is to be said of each how long it stays there.
    led: Option<Vec<Ino>>,
    /// The operation at the end of the names; and the kind of the inode there, if that is the job's operation by now.
    what: Option<Op>,
    acts: Option<Kind>,
    /// Leases that are welcome with what is done.
    want: Lease,
    /// So often that was gone meanwhile.
    gone: u8,
    /// The credentials of the caller, while they do not matter for the next lookup.
    asks: Option<Cred>,
    /// In which the last of them is.
    above: Ino,
    /// In which the next one is looked for.
    at: Ino,
    /// The identity that asks, if its right to each name is to be checked.
    limited: Option<(Arc<Identity>, u64)>,
}

impl Walk {
    /// The first lookup of an operation, if it is a walk, with what is left to do. No lease comes with it: one that was given of a name on the
    /// way would say nothing of the next.
    pub(crate) fn begin(
        op: Op,
        want: &mut Lease,
        limited: Option<&(Arc<Identity>, u64)>,
        leases: bool,
    ) -> FsResult<(Op, Option<Box<Walk>>)> {
        let (dir, names, by, what) = match op {
            Op::Walk { dir, names, by } => (dir, names, by, None),
            Op::Via { dir, names, by, what } => (dir, names, by, Some(what.done_at(dir).ok_or(FsError::Invalid)?)),
            op => return Ok((op, None)),
        };
        let name = names.first().ok_or(FsError::Invalid)?.clone();
        // Of what is opened; what else is done by path nobody keeps.
        let opens = what.as_ref().is_some_and(|what: &Op| what.opens().is_some());
        let wanted = std::mem::replace(want, Lease::NONE);
        let want = if opens { wanted & Lease::ATTR } else { Lease::NONE };
        let walk = Walk {
            dir,
            names,
            by,
            by_path: 0,
            done: 0,
            dirs: Vec::new(),
            led: leases.then(Vec::new),
            what,
            acts: None,
            want,
            gone: 0,
            asks: None,
            above: dir,
            at: dir,
            limited: limited.cloned(),
        };
        Ok((Op::Lookup { dir, name }, Some(Box::new(walk))))
    }

    /// The operation that it is.
    pub(crate) fn op(&self) -> Op {
        let (dir, names, by) = (self.dir, Arc::clone(&self.names), self.by);
        match self.what.clone() {
            Some(what) => Op::Via { dir, names, by, what: Box::new(what) },
            None => Op::Walk { dir, names, by },
        }
    }

    /// Number of its names.
    pub(crate) fn names(&self) -> usize {
        self.names.len()
    }

    /// True if something is done where they lead.
    pub(crate) fn acts_at_end(&self) -> bool {
        self.what.is_some()
    }

    /// True if the last name leads to an inode of which something is done: then nobody is told its attributes.
    fn is_of_inode(&self) -> bool {
        self.what.as_ref().is_some_and(|what| matches!(what.about(), About::Inode(_)))
    }

    /// True if nobody is told the attributes of a file that the next name leads to.
    pub(crate) fn hides_next(&self) -> bool {
        self.is_of_inode() && self.done + 1 == self.names.len()
    }

    /// True if it is done of something of this kind.
    fn is_done_of(&self, kind: Kind) -> bool {
        match (&self.what, self.is_of_inode()) {
            (Some(Op::Readlink { .. }), _) => true,
            (Some(_), true) => kind != Kind::Symlink,
            _ => kind == Kind::Dir,
        }
    }

    /// The handle that it opens at its end.
    pub(crate) fn opens(&self) -> Option<(u64, OpenFlags)> {
        self.what.as_ref()?.opens()
    }

    /// True if directories of others on the way are to be found by replicas. Not for an identity that is limited to paths: the rank of a
    /// name says if it is on the way there.
    fn by_replicas(&self) -> bool {
        self.by != Replicas::Unused && self.limited.is_none()
    }

    /// True if the next name may be found by them.
    fn next_by_replicas(&self) -> bool {
        self.by_replicas() && (self.done + 1 < self.names.len() || self.by == Replicas::ToTheEnd && !self.is_of_inode())
    }

    /// A name was found: of a directory, with this number.
    fn found(&mut self, above: Ino, dir: Option<Ino>) {
        (self.done, self.above) = (self.done + 1, above);
        if let Some(dir) = dir {
            self.by_path = if dir.is_by_path() { self.by_path + 1 } else { 0 };
            self.dirs.push(dir);
            if let Some(led) = &mut self.led {
                led.push(dir);
            }
        }
    }

    /// Where it began, its names, and the directories that those have led to so far.
    /// None: nothing is to be said of them.
    pub(crate) fn way(&self) -> Option<(Ino, &[Name], &[Ino])> {
        Some((self.dir, &self.names, self.led.as_deref()?))
    }

    /// True if the identity's right to each name is to be checked.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited.is_some()
    }

    /// The credentials of the caller, while the lookup is not done in its name.
    pub(crate) fn asks(&self) -> Option<&Cred> {
        self.asks.as_ref()
    }

    /// The lookup of the next name, in this directory.
    fn look(&mut self, job: &mut Job, dir: Ino, name: Name) -> Op {
        (self.at, self.acts, job.want) = (dir, None, Lease::NONE);
        if dir.is_table() && self.limited.is_none() {
            let asks = std::mem::replace(&mut job.cred, Cred::root());
            self.asks.get_or_insert(asks);
        } else if let Some(asks) = self.asks.take() {
            job.cred = asks;
        }
        std::mem::replace(&mut job.op, Op::Lookup { dir, name })
    }

    /// The names have led to this, and the rest is done there, in the name of who asks.
    fn act(&mut self, job: &mut Job, at: Ino, kind: Kind) -> Option<Op> {
        let op = self.what.clone()?.done_at(at)?;
        (self.at, self.acts, job.want) = (at, Some(kind), self.want);
        if let Some(asks) = self.asks.take() {
            job.cred = asks;
        }
        Some(std::mem::replace(&mut job.op, op))
    }

    /// Goes on from what was found: what the job did until now, if there is more to do.
    fn go_on(&mut self, job: &mut Job, at: Ino, kind: Kind) -> Option<Op> {
        match self.names.get(self.done) {
            Some(name) if kind == Kind::Dir => {
                let name = name.clone();
                Some(self.look(job, at, name))
            }
            None if self.is_done_of(kind) => self.act(job, at, kind),
            _ => None,
        }
    }

    /// So many directories are found at once at most: with the last name, if it leads to one and nobody asks for more than which one that is.
    fn at_once(&self) -> usize {
        let to_end = if self.what.is_some() { !self.is_of_inode() } else { self.by == Replicas::ToTheEnd };
        self.names.len() - usize::from(!to_end)
    }

    fn walked(&self, last: Answer) -> Step {
        let (done, dir, by_path) = (self.done as u32, self.above, self.by_path);
        Step::Answer(Ok(Answer::Walked { done, dir, last: Box::new(last), by_path }))
    }
}

impl Shortcuts {
    /// A request begins. What it is answered with, if it is a walk whose names were all found before.
    pub(crate) fn begin_walk(&mut self, core: &mut Core, cluster: &Cluster, job: &mut Job) -> Option<FsResult<Answer>> {
        let mut walk = job.walk.take()?;
        if walk.led.is_some() && cluster.known_dir(core, walk.dir).is_some_and(|(dir, _)| dir.lookup_lease().is_none())
        {
            // As where nobody has said that they may be given.
            walk.led = None;
        }
        // Of what was done before only the answer is made again, wherever that was.
        let done_before = walk.what.is_some() && job.repeats().is_some();
        let answer = if done_before { None } else { self.take_shortcut(core, cluster, job, &mut walk) };
        let at = walk.at;
        match answer {
            None if done_before => drop(walk.act(job, at, Kind::Dir)),
            None => drop(walk.go_on(job, at, Kind::Dir)),
            Some(_) => {}
        }
        job.walk = Some(walk);
        answer
    }

    /// Goes to the last directory in one step, if it is known which one that is. What the walk is answered with, if there is nothing left of it.
    fn take_shortcut(
        &mut self,
        core: &mut Core,
        cluster: &Cluster,
        job: &Job,
        walk: &mut Walk,
    ) -> Option<FsResult<Answer>> {
        let count = walk.at_once();
        if self.is_empty() || count == 0 || walk.limited.is_some() || core.tree.has_decoupled() || core.stopping {
            return None;
        }
        let names = &walk.names[..count];
        let shortcut = self.get(shortcut_key(&core.tree, walk.dir, names), walk.dir, names)?;
        let searches =
            |dir: &Ino| cluster.known_dir(core, *dir).is_some_and(|(dir, _)| check_search(dir, &job.cred).is_ok());
        debug_assert!(
            cluster.is_true(core, shortcut, names),
            "rank {}: a shortcut that is none: {:?}",
            core.me(),
            shortcut.found()
        );
        // Otherwise the walk itself finds out who refuses it, or asks for what it needs.
        if !shortcut.lenders.iter().all(|rank| cluster.replicas.replicas_count(core, *rank))
            || !shortcut.guarded.iter().all(searches)
        {
            return None;
        }
        let dirs = shortcut.found();
        walk.by_path = dirs.iter().rev().take_while(|dir| dir.is_by_path()).count() as u32;
        walk.above = dirs.len().checked_sub(2).map_or(walk.dir, |at| dirs[at]);
        walk.at = *dirs.last()?;
        walk.done = count;
        if let Some(led) = &mut walk.led {
            led.extend_from_slice(dirs);
        }
        self.taken += 1;
        core.counters.tally.shortcut(walk.names.len());
        if count < walk.names.len() || walk.what.is_some() {
            return None;
        }
        let (end, rank) = (walk.at, cluster.atlas.probable_home(walk.at, core.me()));
        let Step::Answer(answer) = walk.walked(Answer::Remote { ino: end, kind: Kind::Dir, rank }) else { return None };
        Some(answer)
    }

    /// Puts down which directories a walk has found, if this rank knows each of them now.
    fn learn_shortcut(&mut self, core: &Core, cluster: &Cluster, walk: &Walk, cred: &Cred) {
        let count = walk.at_once();
        if count < core.config.some(NAMES_MIN)
            || walk.dirs.len() < count
            || walk.limited.is_some()
            || core.tree.has_decoupled()
        {
            return;
        }
        let (mut guarded, mut lenders) = (Vec::new(), BTreeSet::new());
        let all: Vec<Ino> = std::iter::once(walk.dir).chain(walk.dirs[..count].iter().copied()).collect();
        for (at, ino) in all.iter().enumerate() {
            let Some((dir, lender)) = cluster.known_dir(core, *ino) else { return };
            let above = at.checked_sub(1).map(|at| (all[at], &walk.names[at]));
            if !above.is_none_or(|(above, name)| is_in(&core.tree, dir, above, name))
                || dir.kind != Kind::Dir
                || dir.nlink == 0
            {
                return;
            }
            if at < count && !ino.is_table() && !is_searched_by_all(dir) {
                if check_search(dir, cred).is_err() {
                    return;
                }
                guarded.push(*ino);
            }
            lenders.extend(lender);
        }
        let names = &walk.names[..count];
        let shortcut = Shortcut::new(&all, names, guarded, &lenders);
        let key = shortcut_key(&core.tree, walk.dir, names);
        let most = shortcuts_most(&core.config);
        self.put(key, shortcut, most);
    }

    /// One name was found, or not. `None`: the next one is looked for, and is the job's operation.
    pub(crate) fn walk_on(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        heat: &mut Heat,
        job: &mut Job,
        step: Step,
    ) -> Option<Step> {
        let Some(mut walk) = job.walk.take() else { return Some(step) };
        let (at, me) = (walk.at, core.me());
        let step = match step {
            step if walk.acts.is_some() => match cluster.walk_acted(core, job, &mut walk, step) {
                Some(step) => step,
                None => {
                    job.walk = Some(walk);
                    return None;
                }
            },
            Step::Answer(Ok(answer)) => {
                let to = match &answer {
                    Answer::Entry(attr) => Some((attr.ino, attr.kind)),
                    // Of a directory that is in several ranks' fragments this one may have the next name.
                    Answer::Remote { ino, kind: Kind::Dir, rank } if *rank == me || walk.by_replicas() => {
                        Some((*ino, Kind::Dir))
                    }
                    _ => None,
                };
                let dir = match &answer {
                    Answer::Entry(attr) if attr.kind == Kind::Dir => Some(attr.ino),
                    Answer::Remote { ino, kind: Kind::Dir, .. } => Some(*ino),
                    _ => None,
                };
                walk.found(at, dir);
                match to.and_then(|(ino, kind)| walk.go_on(job, ino, kind)) {
                    Some(looked) => {
                        cluster.walk_anew(core, job, &walk);
                        if heat.sampler.choose() {
                            heat.heat_op(core, &cluster.atlas, &looked);
                        }
                        job.walk = Some(walk);
                        return None;
                    }
                    None => walk.walked(answer),
                }
            }
            // That rank need not be asked.
            Step::Redirect(rank) if walk.next_by_replicas() => {
                let name = walk.names[walk.done].clone();
                match cluster.step_by_replica(core, at, &name, &job.cred, rank) {
                    Way::To(dir) => {
                        walk.found(at, Some(dir));
                        if walk.go_on(job, dir, Kind::Dir).is_some() {
                            job.walk = Some(walk);
                            return None;
                        }
                        let rank = cluster.atlas.probable_home(dir, rank);
                        walk.walked(Answer::Remote { ino: dir, kind: Kind::Dir, rank })
                    }
                    Way::No(error) => Step::Answer(Err(error)),
                    Way::Wait(why) => Step::Wait(why),
                    Way::Load(needs) => cluster.wait_for(core, job, needs),
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
        if matches!(step, Step::Answer(_)) {
            let cred = walk.asks.as_ref().unwrap_or(&job.cred);
            self.learn_shortcut(core, cluster, &walk, cred);
        }
        job.walk = Some(walk);
        Some(step)
    }
}

/// True if a directory says that it is in another one by this name.
fn is_in(tree: &Tree, dir: &Inode, above: Ino, name: &Name) -> bool {
    dir.parent == above && dir.place.hash() == Some(tree.hash(name))
}

impl Cluster {
    /// True if no directory that this rank knows says something else than a shortcut: a mistake of this code, which simulations look for.
    fn is_true(&self, core: &Core, shortcut: &Shortcut, names: &[Name]) -> bool {
        shortcut.dirs().windows(2).zip(names).all(|(pair, name)| {
            self.known_dir(core, pair[1]).is_none_or(|(dir, _)| dir.nlink > 0 && is_in(&core.tree, dir, pair[0], name))
        })
    }

    /// The next part of a walk holds nothing that the one before it held.
    fn walk_anew(&mut self, core: &mut Core, job: &mut Job, walk: &Walk) {
        core.parked.unmark(job);
        self.borrowing.give_back(core, job, false);
        job.flushed.clear();
        job.limited.clone_from(&walk.limited);
    }

    /// Ends a walk whose operation was done, or not: then its caller goes on where it can be. If it was done before, another rank has the
    /// answer. `None`: the inode was gone before its turn, and the one that has its name by now is looked for.
    fn walk_acted(&mut self, core: &mut Core, job: &mut Job, walk: &mut Walk, step: Step) -> Option<Step> {
        let kind = walk.acts.unwrap_or(Kind::Dir);
        let elsewhere = |walk: &Walk, rank| walk.walked(Answer::Remote { ino: walk.at, kind, rank });
        Some(match step {
            Step::Redirect(rank) if job.again.is_none() => elsewhere(walk, rank),
            // The directory may be decoupled for who asks.
            Step::Answer(Err(FsError::Busy)) if job.again.is_none() => elsewhere(walk, core.me()),
            Step::Answer(Err(FsError::Stale)) if job.again.is_none() && walk.is_of_inode() => {
                walk.gone += 1;
                let Some(name) = walk.names.last().filter(|_| walk.gone <= GONE_MAX).cloned() else {
                    return Some(Step::Answer(Err(FsError::Stale)));
                };
                walk.done -= 1;
                if kind == Kind::Dir {
                    if let Some(led) = &mut walk.led {
                        led.pop();
                    }
                    walk.dirs.pop();
                    walk.by_path = walk.by_path.saturating_sub(1);
                }
                let above = walk.above;
                walk.look(job, above, name);
                self.walk_anew(core, job, walk);
                return None;
            }
            // Whoever lists goes on by the number of the directory, if there is more.
            Step::Answer(Ok(entries @ Answer::Entries { .. })) => {
                walk.above = walk.at;
                walk.walked(entries)
            }
            step => step,
        })
    }
}
