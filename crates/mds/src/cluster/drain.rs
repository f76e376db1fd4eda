//! A rank that gives everything away, so that it can be removed: subtrees, files that live by themselves, letters; then its
//! clients go. What is done stands in docs/cluster.md, "Membership". One subtree after the other, each a migration as any.

use std::collections::{BTreeMap, VecDeque};

use loligo_types::{Ino, Lsn, Rank, RankState};

use super::Where;
use crate::admin::{DrainStatus, Migration, Told};
use crate::cluster::Atlas;
use crate::cluster::Cluster;
use crate::cluster::Exports;
use crate::cluster::Peers;
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::decouple::POLICY_TICKETS;
use crate::discard::Discards;
use crate::eof_cleanup::EofCleanup;
use crate::io::{Member, Output, Page, Scan};
use crate::load::Waiter;
use crate::machine::Mds;
use crate::peer::PeerMsg;
use crate::relaxed::TICKETS as RELAXED_TICKETS;

/// Delay before something that could not be done is tried again, milliseconds.
const RETRY_MS: u64 = 300;
/// Time to wait for a scan of the table before it is asked for again: it may have failed, milliseconds.
const SCAN_MS: u64 = 10_000;
/// Files given away at once.
const FILES_MAX: usize = 256;
/// Directories that a refusal names.
const NAMED_MAX: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Everything up to this record (all there is, as long as none is named) gets into the table, so that it can be looked
    /// through.
    Settling(Option<Lsn>, Scan),
    /// It is looked through, from this inode on.
    Looking(Scan, Ino),
    /// Subtrees move.
    Giving,
    /// Directories move that were found so far, which are here because of their numbers; then the look goes on from there.
    GivingScattered(Option<Ino>),
    /// Files move that were found so far; then the look goes on from there.
    GivingFiles(Option<Ino>),
    /// Some inodes without a name are open.
    Orphans,
    /// The inodes given away must be in the table of the ranks that have them now, and nothing else may be under way.
    Landing,
    /// The others were told.
    Parting,
    /// The keeper of the map was told.
    Parted,
    /// Clients end their sessions.
    Leaving,
    /// So they have.
    Left,
    /// It cannot be drained; the keeper of the map was told.
    Refused,
}

/// State of a drain.
pub(crate) struct Drain {
    stage: Stage,
    begun_ms: u64,
    /// Nothing is tried before this.
    not_before_ms: u64,
    ticket: u64,
    /// Directories with a pin that names this rank among others.
    pins: VecDeque<(Ino, Vec<Rank>)>,
    /// Those with one that names no other rank that takes more.
    bound: Vec<Ino>,
    files: Vec<Ino>,
    /// Directories whose number names this rank, found in the table.
    scattered: VecDeque<Ino>,
    /// Number of scattered directories that had come here by messages when the table was scanned.
    came: u64,
    /// Load given to each rank, in parts of this one's load.
    given: BTreeMap<Rank, f64>,
    subtrees_given: u64,
    files_given: u64,
    /// Letters that this rank had had when it said to the others that it has nothing any more.
    letters_got: u64,
    /// The migration that it has begun last, until it has looked what became of it.
    tried: Option<u64>,
    /// Why that one, or the one before it, failed; it is tried again.
    refused: Option<String>,
    /// Nobody is there to give to, and why.
    stuck: Option<String>,
}

impl Drain {
    /// One that begins now.
    pub(crate) fn new(now_ms: u64) -> Drain {
        Drain {
            stage: Stage::Settling(None, Scan::Pins),
            begun_ms: now_ms,
            not_before_ms: 0,
            ticket: 0,
            pins: VecDeque::new(),
            bound: Vec::new(),
            files: Vec::new(),
            scattered: VecDeque::new(),
            came: 0,
            given: BTreeMap::new(),
            subtrees_given: 0,
            files_given: 0,
            letters_got: 0,
            tried: None,
            refused: None,
            stuck: None,
        }
    }
}

impl Mds {
    /// Goes on with giving everything away.
    pub(crate) fn step_drain(&mut self) {
        if self.core.stopping || self.grace.is_some() || !self.cluster.peers.ready {
            return;
        }
        let Some(mut drain) = self.cluster.drain.take() else { return };
        for _ in 0..4 {
            let before = drain.stage;
            if self.core.now.mono_ms >= drain.not_before_ms {
                self.step_drain_stage(&mut drain);
            }
            if drain.stage == before {
                break;
            }
        }
        self.cluster.drain = Some(drain);
    }

    fn step_drain_stage(&mut self, drain: &mut Drain) {
        match drain.stage {
            Stage::Settling(None, what) => {
                if what == Scan::Scattered {
                    drain.came = self.cluster.placement.scattered.came;
                }
                drain.stage = Stage::Settling(Some(self.core.log.last), what);
            }
            Stage::Settling(Some(upto), what) => {
                if self.settle_upto(upto) {
                    self.core.look_on(drain, what, Ino(0));
                }
            }
            // It was not answered for so long.
            Stage::Looking(what, from) => self.core.look_on(drain, what, from),
            Stage::Giving => self.give_subtree(drain),
            Stage::GivingScattered(next) => self.give_scattered(drain, next),
            Stage::GivingFiles(next) => self.give_files(drain, next),
            Stage::Orphans => {
                if self.core.tree.orphans().next().is_none() {
                    drain.stage = Stage::Settling(None, Scan::Floating);
                }
            }
            Stage::Landing => self.part_if_empty(drain),
            Stage::Parting => {
                let others = self.cluster.atlas.map.ranks.iter().filter(|info| info.rank != self.core.config.rank);
                let mut words =
                    others.map(|info| self.cluster.peers.links.get(&info.rank).is_some_and(|link| link.farewell));
                if !words.all(|said| said) {
                    return;
                }
                // Before they heard that there was nothing here they may have sent something.
                if self.cluster.peers.letters_got(&self.core) != drain.letters_got
                    || !self.cluster.has_landed(&self.core, &self.discards, &self.tidy)
                {
                    drain.stage = Stage::Giving;
                } else if self.core.log.durable == self.core.log.last {
                    self.core.out.push_back(Output::Member(Member::Drained));
                    drain.stage = Stage::Parted;
                }
            }
            Stage::Parted => {
                if self.cluster.atlas.state_of(self.core.config.rank) == Some(RankState::Leaving) {
                    drain.stage = Stage::Leaving;
                }
            }
            Stage::Leaving => {
                // What sessions leave is dropped by the rank that they had it at, as long as there is one.
                let dropped = self.tidy.left() == 0 && self.discards.is_idle();
                if self.sessions.len() == 0 && dropped && self.core.log.durable == self.core.log.last {
                    self.core.out.push_back(Output::Member(Member::Left));
                    drain.stage = Stage::Left;
                }
            }
            Stage::Left | Stage::Refused => {}
        }
    }

    /// Some of it has been looked through.
    pub(crate) fn scanned(&mut self, ticket: u64, page: Option<Page>) {
        if ticket >= POLICY_TICKETS {
            return self.decoupled.policies_scanned(&mut self.core, ticket, page);
        }
        if ticket > RELAXED_TICKETS {
            return self.relaxed.relaxed_scanned(&mut self.core, &mut self.cluster, ticket, page);
        }
        let Some(mut drain) = self.cluster.drain.take() else { return };
        if let Stage::Looking(what, from) = drain.stage
            && drain.ticket == ticket
        {
            drain.not_before_ms = 0;
            match page {
                None => drain.not_before_ms = self.core.now.mono_ms + RETRY_MS,
                Some(page) => match what {
                    Scan::Pins => self.cluster.atlas.take_pins(&mut self.core, &mut drain, page),
                    Scan::Scattered => {
                        drain.scattered = page.found.into_iter().map(|(ino, _)| ino).collect();
                        drain.stage = Stage::GivingScattered(page.next);
                    }
                    Scan::Floating => self.core.take_floating(&mut drain, page),
                    Scan::Policies => {}
                },
            }
            debug_assert!(drain.stage != Stage::Looking(what, from) || drain.not_before_ms > 0, "it goes on");
        }
        self.cluster.drain = Some(drain);
        self.step_drain();
    }

    // Gives away.

    /// The rank to give something to: of those that may have it and take more, that with the least load.
    fn receiver(&self, drain: &Drain, pinned: &[Rank]) -> Option<Rank> {
        let able = |rank: &Rank| {
            (pinned.is_empty() || pinned.contains(rank))
                && *rank != self.core.config.rank
                && self.cluster.peers.links.get(rank).is_some_and(|link| link.greeted)
        };
        let up = self.cluster.atlas.map.ranks.iter().filter(|info| info.state == RankState::Up).map(|info| info.rank);
        let load = |rank: &Rank| {
            let known = self.load_of(*rank).map_or(0.0, |(load, _)| load.all);
            known + drain.given.get(rank).copied().unwrap_or(0.0)
        };
        up.filter(able).min_by(|a, b| load(a).total_cmp(&load(b)))
    }

    fn give_subtree(&mut self, drain: &mut Drain) {
        if !self.cluster.exports.is_idle() || !self.cluster.exports.look_back(&self.core, drain) {
            return;
        }
        while let Some((dir, ranks)) = drain.pins.front().cloned() {
            let mut wants = Vec::new();
            match self.cluster.locate(&mut self.core, dir, &mut wants) {
                Where::Unknown => {
                    self.cluster.load(&mut self.core, wants, Waiter::Nobody);
                    return;
                }
                Where::Here if self.core.tree.inode(dir).is_some() => return self.give_dir(drain, dir, &ranks),
                Where::Here | Where::Elsewhere(_) => _ = drain.pins.pop_front(),
            }
        }
        let dirs = self.cluster.atlas.own_dirs(&self.core);
        let Some(dir) = self.cluster.next_to_give(&mut self.core, &self.decoupled, &dirs) else {
            (drain.stuck, drain.refused) = (None, None);
            drain.stage = Stage::Settling(None, Scan::Scattered);
            return;
        };
        // What it is pinned to is looked for where there is nothing else to do meanwhile: in its xattrs.
        let mut wants = Vec::new();
        match self.cluster.atlas.locate_of(&mut self.core, &mut self.cluster.exports, dir, &mut wants) {
            Where::Unknown => _ = self.cluster.load(&mut self.core, wants, Waiter::Nobody),
            Where::Elsewhere(_) => {}
            // Its home has the pin, and follows it. Fragments that come together there are no part any more.
            Where::Here if self.core.tree.part(dir).is_some() => {
                let home = self
                    .cluster
                    .atlas
                    .home_of_part(&self.core, dir)
                    .filter(|home| self.cluster.atlas.takes_more(*home));
                self.give_dir(drain, dir, home.as_slice());
            }
            Where::Here if self.core.tree.inode(dir).is_none() => {
                self.cluster.atlas.route_gone(&mut self.core, &self.cluster.peers, dir)
            }
            Where::Here => match self.core.pins_known(dir) {
                None => {
                    _ = self.cluster.load(&mut self.core, vec![loligo_namespace::Need::Xattrs(dir)], Waiter::Nobody)
                }
                Some(pinned) => self.give_dir(drain, dir, &pinned),
            },
        }
    }

    fn give_dir(&mut self, drain: &mut Drain, dir: Ino, pinned: &[Rank]) {
        drain.not_before_ms = self.core.now.mono_ms + RETRY_MS;
        let Some(to) = self.receiver(drain, pinned) else {
            drain.stuck = Some(self.cluster.peers.no_receiver(
                &self.core,
                &self.cluster.atlas,
                &format!("directory {dir}"),
                pinned,
            ));
            return;
        };
        drain.stuck = None;
        match self.cluster.want_export(&mut self.core, &self.decoupled, dir, None, to) {
            Told::Begun(id) => {
                let share = self.load_now().auth / (self.cluster.atlas.own_dirs(&self.core).len().max(1) as f64);
                *drain.given.entry(to).or_default() += share.max(1.0);
                drain.subtrees_given += 1;
                drain.tried = Some(id);
                drain.not_before_ms = 0;
                drain.pins.rotate_left(usize::from(drain.pins.len() > 1));
            }
            Told::Refused(why) => {
                drain.refused = Some(why);
                drain.pins.rotate_left(usize::from(drain.pins.len() > 1));
            }
            _ => {}
        }
    }

    fn give_scattered(&mut self, drain: &mut Drain, next: Option<Ino>) {
        if !self.cluster.exports.is_idle() || !self.cluster.exports.look_back(&self.core, drain) {
            return;
        }
        while let Some(dir) = drain.scattered.front().copied() {
            let mut wants = Vec::new();
            match self.cluster.locate(&mut self.core, dir, &mut wants) {
                Where::Unknown => _ = self.cluster.load(&mut self.core, wants, Waiter::Nobody),
                Where::Here if self.core.tree.inode(dir).is_some_and(|inode| inode.nlink > 0) => {
                    match self.core.pins_known(dir) {
                        None => {
                            _ = self.cluster.load(
                                &mut self.core,
                                vec![loligo_namespace::Need::Xattrs(dir)],
                                Waiter::Nobody,
                            )
                        }
                        Some(pinned) => {
                            self.give_dir(drain, dir, &pinned);
                            // The next one while that is decoupled, or such.
                            drain.scattered.rotate_left(1);
                        }
                    }
                }
                Where::Here | Where::Elsewhere(_) => {
                    drain.scattered.pop_front();
                    continue;
                }
            }
            return;
        }
        (drain.stuck, drain.refused) = (None, None);
        match next {
            Some(next) => self.core.look_on(drain, Scan::Scattered, next),
            // Of files that live by themselves there may be more by now.
            None => drain.stage = Stage::Settling(None, Scan::Floating),
        }
    }

    fn give_files(&mut self, drain: &mut Drain, next: Option<Ino>) {
        if !self.cluster.exports.is_idle() || !self.cluster.exports.look_back(&self.core, drain) {
            return;
        }
        let mut wants = Vec::new();
        let mut left = Vec::new();
        for ino in std::mem::take(&mut drain.files) {
            match self.cluster.locate(&mut self.core, ino, &mut wants) {
                Where::Unknown => left.push(ino),
                Where::Elsewhere(_) => {}
                Where::Here if self.core.floats_here(ino) => left.push(ino),
                Where::Here => {}
            }
        }
        drain.files = left;
        if !wants.is_empty() {
            self.cluster.load(&mut self.core, wants, Waiter::Nobody);
            return;
        }
        if drain.files.is_empty() {
            (drain.stuck, drain.refused) = (None, None);
            match next {
                Some(next) => self.core.look_on(drain, Scan::Floating, next),
                None if self.core.tree.orphans().next().is_some() => drain.stage = Stage::Orphans,
                None => drain.stage = Stage::Landing,
            }
            return;
        }
        drain.not_before_ms = self.core.now.mono_ms + RETRY_MS;
        let Some(to) = self.receiver(drain, &[]) else {
            drain.stuck = Some(self.cluster.peers.no_receiver(
                &self.core,
                &self.cluster.atlas,
                "files that live by themselves",
                &[],
            ));
            return;
        };
        drain.stuck = None;
        let files: Vec<Ino> = drain.files.iter().take(self.core.config.some(FILES_MAX)).copied().collect();
        drain.files_given += files.len() as u64;
        drain.tried = self.cluster.exports.want_export_of_files(files, to);
    }

    // Ends.

    fn part_if_empty(&mut self, drain: &mut Drain) {
        if !self.cluster.atlas.own_dirs(&self.core).is_empty() {
            drain.stage = Stage::Giving;
            return;
        }
        if self.core.tree.orphans().next().is_some() {
            drain.stage = Stage::Orphans;
            return;
        }
        if !self.cluster.has_landed(&self.core, &self.discards, &self.tidy) {
            return;
        }
        if drain.came != self.cluster.placement.scattered.came {
            // Others made directories here before they had heard.
            drain.stage = Stage::Settling(None, Scan::Scattered);
            return;
        }
        self.drop_own_lines();
        drain.stage = Stage::Parting;
        drain.letters_got = self.cluster.peers.letters_got(&self.core);
        let others: Vec<Rank> = self.cluster.peers.links.keys().copied().collect();
        for rank in others {
            if let Some(link) = self.cluster.peers.links.get_mut(&rank) {
                link.farewell = false;
            }
            self.core.tell_durably(rank, PeerMsg::Empty);
        }
    }

    /// Progress of the drain, for an administrator; `None`: the rank is not being drained.
    pub fn drain_status(&self) -> Option<DrainStatus> {
        let drain = self.cluster.drain.as_deref()?;
        let orphans = self.core.tree.orphans().count() as u64;
        let state = match drain.stage {
            Stage::Settling(_, Scan::Pins) | Stage::Looking(Scan::Pins, _) => "looking for pins",
            Stage::Settling(_, Scan::Scattered) | Stage::Looking(Scan::Scattered, _) => "looking for directories",
            Stage::Giving | Stage::GivingScattered(_) => "giving subtrees away",
            Stage::Settling(..) | Stage::Looking(..) | Stage::GivingFiles(_) => "giving files away",
            Stage::Orphans => "waiting for open files that have no name to be closed",
            Stage::Landing | Stage::Parting | Stage::Parted => "waiting for the other ranks",
            Stage::Leaving | Stage::Left => "waiting for clients to go",
            Stage::Refused => "refused",
        };
        Some(DrainStatus {
            state: state.into(),
            subtrees_left: (self.cluster.atlas.own_dirs(&self.core).len() + drain.scattered.len()) as u64,
            subtrees_given: drain.subtrees_given,
            files_left: drain.files.len() as u64,
            files_given: drain.files_given,
            orphans,
            sessions: self.sessions.len() as u64,
            took_ms: self.core.now.mono_ms.saturating_sub(drain.begun_ms),
            stuck: self.cluster.drain_stuck(&self.core),
        })
    }
}

impl Core {
    // Looks through the table.

    fn look_on(&mut self, drain: &mut Drain, what: Scan, from: Ino) {
        drain.ticket += 1;
        drain.stage = Stage::Looking(what, from);
        drain.not_before_ms = self.now.mono_ms + SCAN_MS;
        self.out.push_back(Output::Scan { ticket: drain.ticket, what, from });
    }

    fn bound_text(&self, bound: &[Ino]) -> String {
        let mut named: Vec<String> = bound.iter().take(NAMED_MAX).map(|ino| format!("inode {ino}")).collect();
        if bound.len() > NAMED_MAX {
            named.push(format!("{} more", bound.len() - NAMED_MAX));
        }
        format!(
            "rank {} cannot be drained: directories are pinned to it and to no rank that takes more ({}); pin them to \
             another rank (loligo subtree pin DIR RANK) or unpin them (loligo subtree unpin DIR; find MOUNT -inum \
             NUMBER says which they are), then drain it again",
            self.config.rank,
            named.join(", ")
        )
    }

    fn take_floating(&self, drain: &mut Drain, page: Page) {
        let files = page.found.into_iter().map(|(ino, _)| ino);
        drain.files = files.filter(|ino| !self.tree.is_orphan(*ino)).collect();
        drain.stage = Stage::GivingFiles(page.next);
    }

    /// True if an inode is in memory, has a name and lives by itself here.
    pub(crate) fn floats_here(&self, ino: Ino) -> bool {
        let here = |inode: &loligo_types::Inode| inode.place.rank() == Some(self.config.rank);
        self.tree.inode(ino).is_some_and(here) && !self.tree.is_orphan(ino)
    }
}

impl Atlas {
    fn take_pins(&self, core: &mut Core, drain: &mut Drain, page: Page) {
        for (dir, ranks) in page.found {
            if !ranks.contains(&core.config.rank) {
                continue;
            }
            if ranks.iter().any(|rank| self.takes_more(*rank)) {
                drain.pins.push_back((dir, ranks));
            } else {
                drain.bound.push(dir);
            }
        }
        if let Some(next) = page.next {
            return core.look_on(drain, Scan::Pins, next);
        }
        let leaves = self.state_of(core.config.rank) == Some(RankState::Leaving);
        if drain.bound.is_empty() || leaves {
            if !leaves {
                core.out.push_back(Output::Member(Member::Drains));
            }
            drain.stage = Stage::Giving;
        } else {
            let text = core.bound_text(&drain.bound);
            core.out.push_back(Output::Member(Member::Refused(text)));
            drain.stage = Stage::Refused;
        }
    }

    /// The directories that this rank has a line of the subtree map for: also those of which it has only fragments. Of
    /// these it has a part: a line of a fragment without one is of a directory that was removed, and was told again by the
    /// table or somebody who had not heard of it.
    fn own_dirs(&self, core: &Core) -> Vec<Ino> {
        let routes = &self.routes;
        let own = routes.all().into_iter().filter(|route| route.rank == core.me());
        let mut dirs: Vec<Ino> =
            own.map(|route| route.dir).filter(|dir| routes.home(*dir).is_none_or(|home| home == core.me())).collect();
        if core.config.rank == Rank::ZERO && self.routes.home(Ino::ROOT).is_none() {
            dirs.push(Ino::ROOT);
        }
        dirs.extend(core.tree.parts().map(|part| part.ino));
        dirs.sort();
        dirs.dedup();
        dirs
    }
}

impl Peers {
    /// Why there is no rank to give something to, and what to do.
    fn no_receiver(&self, core: &Core, atlas: &Atlas, what: &str, pinned: &[Rank]) -> String {
        let able = |rank: &Rank| (pinned.is_empty() || pinned.contains(rank)) && atlas.takes_more(*rank);
        let away = self.unreached(core, atlas, able);
        if away.is_empty() {
            let pin = if pinned.is_empty() { "" } else { ", or change its pin" };
            format!("there is no rank that takes {what}: add one (loligo rank add){pin}")
        } else {
            format!("there is no connection to {away}, to take {what}: it goes on when there is; see whether it runs")
        }
    }

    /// The other ranks of some that cannot be spoken to, by name.
    fn unreached(&self, core: &Core, atlas: &Atlas, some: impl Fn(&Rank) -> bool) -> String {
        let others = atlas.map.ranks.iter().map(|info| info.rank).filter(|rank| *rank != core.config.rank);
        let greeted = |rank: &Rank| self.links.get(rank).is_some_and(|link| link.greeted);
        let away: Vec<String> =
            others.filter(|rank| some(rank) && !greeted(rank)).map(|rank| format!("rank {rank}")).collect();
        away.join(", ")
    }

    /// Letters that this rank has had from all others.
    fn letters_got(&self, core: &Core) -> u64 {
        self.links.keys().map(|rank| core.tree.peer(*rank).received).sum()
    }
}

impl Exports {
    /// Looks at the result of the migration that was begun last. False: it has failed, and is not tried again at once.
    fn look_back(&self, core: &Core, drain: &mut Drain) -> bool {
        let Some(id) = drain.tried.take() else { return true };
        let ended = self.ended.iter().rev().find(|ended| ended.id == id);
        let failed = ended.and_then(|ended| Some((ended, ended.state.strip_prefix("failed: ")?)));
        drain.refused = failed.map(|(Migration { dir, to, .. }, why)| match drain.stage {
            Stage::GivingFiles(_) => format!("files that live by themselves cannot be moved to rank {to} yet: {why}"),
            _ => format!("directory {dir} cannot be moved to rank {to} yet: {why}"),
        });
        if drain.refused.is_some() {
            drain.not_before_ms = core.now.mono_ms + RETRY_MS;
        }
        drain.refused.is_none()
    }
}

impl Cluster {
    /// The first directory that nothing keeps here; if all are kept, the first one: why it is says the attempt.
    fn next_to_give(&mut self, core: &mut Core, decoupled: &Decoupled, dirs: &[Ino]) -> Option<Ino> {
        for dir in dirs {
            let frags = core.frags_of(*dir);
            if matches!(decoupled.stays_for(core, self, *dir, &frags), Ok(None)) {
                return Some(*dir);
            }
        }
        dirs.first().copied()
    }

    /// True if nothing is under way that this rank has a part in.
    fn has_landed(&self, core: &Core, discards: &Discards, tidy: &EofCleanup) -> bool {
        let quiet = self.exports.is_idle()
            && self.atlas.departed.is_empty()
            && self.borrowing.txs.is_empty()
            && self.loans.is_idle()
            && core.mail.is_empty()
            && discards.is_idle()
            && tidy.left() == 0
            && discards.spills.is_empty();
        // What others have got in letters they have in their journals; of what moved `departed` tells until it is in the
        // table, too.
        let said =
            |link: &super::link::Link| link.outbox.is_empty() && link.inbox.is_empty() && link.landing.is_empty();
        quiet && self.peers.links.values().all(said)
    }

    /// A rank has said hello: it is told again what it may have missed.
    pub(crate) fn say_empty(&self, core: &mut Core, to: Rank) {
        if self.drain.as_ref().is_some_and(|drain| drain.stage == Stage::Parting) {
            core.tell_durably(to, PeerMsg::Empty);
        }
    }

    /// Why it does not go on, and what to do; `None` if it does, or nothing is drained here.
    pub(crate) fn drain_stuck(&self, core: &Core) -> Option<String> {
        let drain = self.drain.as_deref()?;
        if !self.peers.ready || matches!(drain.stage, Stage::Landing | Stage::Parting) {
            let away = self.peers.unreached(core, &self.atlas, |_| true);
            return (!away.is_empty()).then(|| format!("there is no connection to {away}: see whether it runs"));
        }
        drain.stuck.clone().or_else(|| drain.refused.clone())
    }
}
