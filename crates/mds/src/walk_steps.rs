//! Steps of a walk: the next name, what was found of it, and shortcuts over several. The walk itself is `walk.rs`.

use std::collections::BTreeSet;

use loligo_namespace::{Tree, check_search, is_searched_by_all};
use loligo_types::{Answer, Cred, FsError, FsResult, Ino, Inode, Kind, Lease, Name, Op};

use crate::cluster::Cluster;
use crate::cluster::Way;
use crate::core::Core;
use crate::heat::Heat;
use crate::job::Job;
use crate::shortcuts::{Shortcut, Shortcuts, shortcut_key, shortcuts_most};
use crate::step::Step;
use crate::walk::Walk;

/// Directories that are found at once are so many at least: one alone is as soon looked up.
const NAMES_MIN: usize = 2;
/// Most times that an inode at the end of the names was gone before its turn: after them no other one of the same name is
/// looked for.
const GONE_MAX: u8 = 8;
impl Walk {
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
        if !shortcut.lenders.iter().all(|rank| cluster.replicas.held.replicas_count(core, *rank))
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

/// True if a directory says that it is in another one by this name.
fn is_in(tree: &Tree, dir: &Inode, above: Ino, name: &Name) -> bool {
    dir.parent == above && dir.place.hash() == Some(tree.hash(name))
}
