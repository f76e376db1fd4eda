//! Before a directory is decoupled all below it comes to the rank that has it: of what is another rank's that one is asked for it, and
//! gives it as it would give anything (a migration). Not how something moves (`cluster/exports.rs`), and not why nothing leaves as long as
//! it is decoupled (`migration_guard.rs`).
//!
//! What is another rank's is below a line of the subtree map. Where such a directory is says its own rank, up to where its way leaves
//! that; so each of those that are other ranks' is asked after, once. That is still so when the last has answered, because
//! nothing can have come below the directory meanwhile without a remote entry of a directory being made here, which is noted: then it is asked
//! again. Two of which one is above the other never come to be decoupled both: who has the inner one does not give it, and who
//! gathers the outer one hears that.
//!
//! Files that live by themselves at other ranks are not looked for: their names say nothing of where they are. Such a file comes when the
//! owner asks for it; if it does not, the owner is told `Busy`. The same holds for scattered directories, which no line of the subtree map
//! tells of; a directory that makes such itself cannot be decoupled at all.

use std::collections::BTreeSet;

use loligo_types::{Event, FsError, Ino, Kind, Need, Rank};

use super::state::Gathering;
use crate::admin::Told;
use crate::cluster::{Cluster, Where};
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::job::{Job, WaitReason};
use crate::paths::{PathCache, Up};
use crate::peer::PeerMsg;
use crate::step::Step;

/// Time to wait for parts that other ranks have, milliseconds.
const GATHER_MS: u64 = 20_000;
/// Delay before a rank is asked again for something, milliseconds.
const AGAIN_MS: u64 = 500;
/// Time to wait for a file, milliseconds.
const FILE_MS: u64 = 5000;

/// Where a directory of another rank is.
pub(super) enum Far {
    Below,
    Elsewhere,
    Load(Vec<Need>),
    /// Its rank was asked.
    Asked,
}

impl Decoupled {
    /// Makes a request to decouple a directory wait because something of it is another rank's; `None`: all is here.
    pub(super) fn gather_subtree(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        ways: &mut PathCache,
        job: &mut Job,
        dir: Ino,
    ) -> Option<Step> {
        if cluster.is_alone() {
            return None;
        }
        if !cluster.atlas.takes_more(core.me()) {
            // It is to be given away, and would have to wait.
            return Some(Step::Answer(Err(FsError::Busy)));
        }
        let mut gathering = self.gathering.remove(&dir).unwrap_or_default();
        gathering.at_ms = core.now.mono_ms;
        let late = core.now.mono_ms >= job.since_ms + GATHER_MS;
        let step = match self.look_below(core, cluster, ways, job, dir, &mut gathering) {
            Some(Step::Wait(WaitReason::Gather | WaitReason::Above)) if late || gathering.refused => {
                return Some(Step::Answer(Err(FsError::Busy)));
            }
            step => step,
        };
        self.gathering.insert(dir, gathering);
        step
    }

    fn look_below(
        &self,
        core: &mut Core,
        cluster: &mut Cluster,
        ways: &mut PathCache,
        job: &mut Job,
        dir: Ino,
        gathering: &mut Gathering,
    ) -> Option<Step> {
        if gathering.arrivals != self.arrivals || gathering.after == 0 {
            gathering.clear.clear();
            (gathering.arrivals, gathering.after) = (self.arrivals, ways.asks());
        }
        let me = core.me();
        let (mut needs, mut asks, mut below) = (Vec::new(), false, BTreeSet::new());
        for route in cluster.atlas.routes.all().into_iter().filter(|route| route.rank != me) {
            if gathering.clear.contains(&route.dir) {
                continue;
            }
            match ways.is_below_far(core, cluster, route.dir, dir, gathering.after) {
                Far::Below => _ = below.insert((route.dir, route.rank)),
                Far::Elsewhere => _ = gathering.clear.insert(route.dir),
                Far::Load(more) => needs.extend(more),
                Far::Asked => asks = true,
            }
        }
        let now = core.now.mono_ms;
        gathering.asked.retain(|of, _| below.contains(of));
        for (sub, rank) in &below {
            let before = gathering.asked.get(&(*sub, *rank)).copied();
            if before.is_none_or(|before| now >= before + AGAIN_MS) {
                gathering.asked.insert((*sub, *rank), now);
                core.tell(*rank, PeerMsg::Summon { dir: *sub });
            }
        }
        match (needs.is_empty(), below.is_empty(), asks) {
            (false, ..) => Some(cluster.wait_to_know(core, job, needs)),
            (true, false, _) => Some(Step::Wait(WaitReason::Gather)),
            (true, true, true) => Some(Step::Wait(WaitReason::Above)),
            (true, true, false) => None,
        }
    }

    /// Another rank wants what this one has of a directory, or a file that lives by itself.
    pub(crate) fn summoned(&self, core: &mut Core, cluster: &mut Cluster, from: Rank, dir: Ino) {
        if cluster.exports.goes(dir, from) {
            return;
        }
        if core.floats_here(dir) {
            cluster.exports.want_export_of_files(vec![dir], from);
            return;
        }
        let is_pinned = core.pins_known(dir).is_some_and(|ranks| !ranks.is_empty() && !ranks.contains(&from));
        if is_pinned || matches!(cluster.want_export(core, self, dir, None, from), Told::Refused(_)) {
            core.tell(from, PeerMsg::Stays { dir });
        }
    }

    /// It does not give it.
    pub(crate) fn not_given(&mut self, core: &mut Core, from: Rank, dir: Ino) {
        let wants = |gathering: &&mut Gathering| gathering.asked.contains_key(&(dir, from));
        self.gathering.values_mut().filter(wants).for_each(|gathering| gathering.refused = true);
        core.parked.wake(&WaitReason::Gather);
    }

    /// A record was made: directories of other ranks may have come below directories of this one, or with them.
    pub(crate) fn note_arrivals(&mut self, core: &Core, events: &[Event]) {
        let comes = |event: &Event| match event {
            Event::Entry { kind: Kind::Dir, remote: true, .. } => true,
            Event::Route(route) => route.rank == core.me(),
            _ => false,
        };
        self.arrivals += u64::from(events.iter().any(comes));
    }

    /// A tick: who gathers looks again; those whose requests have ended are forgotten.
    pub(super) fn gather_again(&mut self, core: &mut Core) {
        let now = core.now.mono_ms;
        self.gathering.retain(|_, gathering| now <= gathering.at_ms + GATHER_MS);
        core.parked.wake(&WaitReason::Gather);
    }
}

impl PathCache {
    pub(super) fn is_below_far(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        ino: Ino,
        dir: Ino,
        after: u64,
    ) -> Far {
        let mut at = ino;
        for _ in 0..loligo_types::limits::DEPTH_MAX {
            if at == dir {
                return Far::Below;
            }
            if at == Ino::ROOT || at.0 == 0 {
                break;
            }
            match cluster.up(core, at) {
                Up::To(parent, _) => at = parent,
                Up::Nowhere => break,
                Up::Load(needs) => return Far::Load(needs),
                Up::Elsewhere(rank) => match self.above_there(core, at, rank, after) {
                    Some(above) => at = above,
                    None => return Far::Asked,
                },
            }
        }
        Far::Elsewhere
    }

    /// The owner of a subtree asks for a file that lives by itself at another rank, or a scattered directory. If a directory of the subtree counts it, it comes here, as
    /// it would by and by without that; else it is others', too.
    pub(super) fn fetch_home(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        job: &mut Job,
        dir: Ino,
        ino: Ino,
    ) -> Step {
        let Where::Elsewhere(rank) = cluster.locate(core, ino, &mut Vec::new()) else {
            return Step::Wait(WaitReason::Gather);
        };
        let counts = match cluster.atlas.foreign_inodes.parent(ino) {
            Some(parent) if parent == dir => Ok(true),
            Some(parent) => cluster.is_below(core, parent, dir),
            // Its number says where it is, and that rank what it is in. A word of before will do: if it is not true any more, a directory
            // comes that did not have to.
            None if ino.zeroth_rank().is_some() => match self.is_below_far(core, cluster, ino, dir, 0) {
                Far::Below => Ok(true),
                Far::Elsewhere => Ok(false),
                Far::Load(needs) => Err(needs),
                Far::Asked if core.now.mono_ms < job.since_ms + FILE_MS => return Step::Wait(WaitReason::Above),
                Far::Asked => Ok(false),
            },
            None => Ok(false),
        };
        match counts {
            Ok(true) if core.now.mono_ms < job.since_ms + FILE_MS => {
                core.tell(rank, PeerMsg::Summon { dir: ino });
                Step::Wait(WaitReason::Gather)
            }
            Ok(_) => Step::Answer(Err(FsError::Busy)),
            Err(needs) => cluster.wait_to_know(core, job, needs),
        }
    }
}
