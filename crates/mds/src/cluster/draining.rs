//! Stages of a drain: the table is looked through, everything is given away (`giveaway.rs`), the others are told, clients go. The state is
//! `drain.rs`'s.

use loligo_types::{Ino, Rank, RankState};

use crate::admin::DrainStatus;
use crate::cluster::drain::{Drain, RETRY_MS, Stage};
use crate::cluster::giveaway::Ground;
use crate::cluster::state::Cluster;
use crate::cluster::{Atlas, Peers};
use crate::core::Core;
use crate::discard::Discards;
use crate::eof_cleanup::EofCleanup;
use crate::io::{Member, Output, Page, Scan};
use crate::peer::PeerMsg;
use crate::session::Sessions;

/// Time to wait for a scan of the table before it is asked for again: it may have failed, milliseconds.
const SCAN_MS: u64 = 10_000;

/// Directories that a refusal names.
const NAMED_MAX: usize = 5;

/// The refusal for directories that are bound to this rank.
fn bound_text(me: Rank, bound: &[Ino]) -> String {
    let mut named: Vec<String> = bound.iter().take(NAMED_MAX).map(|ino| format!("inode {ino}")).collect();
    if bound.len() > NAMED_MAX {
        named.push(format!("{} more", bound.len() - NAMED_MAX));
    }
    format!(
        "rank {} cannot be drained: directories are pinned to it and to no rank that takes more ({}); pin them to \
         another rank (loligo subtree pin DIR RANK) or unpin them (loligo subtree unpin DIR; loligo path \
         NUMBER says which they are), then drain it again",
        me,
        named.join(", ")
    )
}

impl Core {
    /// True if an inode is in memory, has a name and lives by itself here.
    pub(crate) fn floats_here(&self, ino: Ino) -> bool {
        let here = |inode: &loligo_types::Inode| inode.place.rank() == Some(self.config.rank);
        self.tree.inode(ino).is_some_and(here) && !self.tree.is_orphan(ino)
    }
}

impl Atlas {
    /// The directories that this rank has a line of the subtree map for: also those of which it has only fragments. Of
    /// these it has a part: a line of a fragment without one is of a directory that was removed, and was told again by the
    /// table or somebody who had not heard of it.
    pub(super) fn own_dirs(&self, core: &Core) -> Vec<Ino> {
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
    /// The other ranks of some that cannot be spoken to, by name.
    pub(super) fn unreached(&self, core: &Core, atlas: &Atlas, some: impl Fn(&Rank) -> bool) -> String {
        let others = atlas.map.ranks.iter().map(|info| info.rank).filter(|rank| *rank != core.config.rank);
        let greeted = |rank: &Rank| self.links.get(rank).is_some_and(|link| link.greeted);
        let away: Vec<String> =
            others.filter(|rank| some(rank) && !greeted(rank)).map(|rank| format!("rank {rank}")).collect();
        away.join(", ")
    }

    /// Letters that this rank has had from all others.
    pub(super) fn letters_got(&self, core: &Core) -> u64 {
        self.links.keys().map(|rank| core.tree.peer(*rank).received).sum()
    }
}

impl Cluster {
    /// Progress of the drain, for an administrator; `None`: the rank is not being drained.
    pub(crate) fn drain_status(&self, core: &Core, sessions: &Sessions) -> Option<DrainStatus> {
        let drain = self.drain.as_deref()?;
        let orphans = core.tree.orphans().count() as u64;
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
            subtrees_left: (self.atlas.own_dirs(core).len() + drain.scattered.len()) as u64,
            subtrees_given: drain.subtrees_given,
            files_left: drain.files.len() as u64,
            files_given: drain.files_given,
            orphans,
            sessions: sessions.len() as u64,
            took_ms: core.now.mono_ms.saturating_sub(drain.begun_ms),
            stuck: self.drain_stuck(core),
        })
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
            |link: &super::peers::Link| link.outbox.is_empty() && link.inbox.is_empty() && link.landing.is_empty();
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

impl Drain {
    /// One step. `settled`: all is in the table that must be, if that is waited for. True if nothing is here any more: the lines of the subtree map
    /// that are still this rank's are dropped, and then the others are told.
    pub(super) fn step(&mut self, ground: &mut Ground<'_>, settled: bool) -> bool {
        match self.stage {
            Stage::Settling(None, what) => {
                if what == Scan::Scattered {
                    self.came = ground.cluster.placement.scattered.came;
                }
                self.stage = Stage::Settling(Some(ground.core.log.last), what);
            }
            Stage::Settling(Some(_), what) => {
                if settled {
                    self.look_on(ground.core, what, Ino(0));
                }
            }
            // It was not answered for so long.
            Stage::Looking(what, from) => self.look_on(ground.core, what, from),
            Stage::Giving => self.give_subtree(ground),
            Stage::GivingScattered(next) => self.give_scattered(ground, next),
            Stage::GivingFiles(next) => self.give_files(ground, next),
            Stage::Orphans => {
                if ground.core.tree.orphans().next().is_none() {
                    self.stage = Stage::Settling(None, Scan::Floating);
                }
            }
            Stage::Landing => return self.is_empty(ground),
            Stage::Parting => {
                let others = ground.cluster.atlas.map.ranks.iter().filter(|info| info.rank != ground.core.config.rank);
                let mut words =
                    others.map(|info| ground.cluster.peers.links.get(&info.rank).is_some_and(|link| link.farewell));
                if !words.all(|said| said) {
                    return false;
                }
                // Before they heard that there was nothing here they may have sent something.
                if ground.cluster.peers.letters_got(ground.core) != self.letters_got
                    || !ground.cluster.has_landed(ground.core, ground.discards, ground.tidy)
                {
                    self.stage = Stage::Giving;
                } else if ground.core.log.durable == ground.core.log.last {
                    ground.core.out.push_back(Output::Member(Member::Drained));
                    self.stage = Stage::Parted;
                }
            }
            Stage::Parted => {
                if ground.cluster.atlas.state_of(ground.core.config.rank) == Some(RankState::Leaving) {
                    self.stage = Stage::Leaving;
                }
            }
            Stage::Leaving => {
                // What sessions leave is dropped by the rank that they had it at, as long as there is one.
                let dropped = ground.tidy.left() == 0 && ground.discards.is_idle();
                if ground.sessions.len() == 0 && dropped && ground.core.log.durable == ground.core.log.last {
                    ground.core.out.push_back(Output::Member(Member::Left));
                    self.stage = Stage::Left;
                }
            }
            Stage::Left | Stage::Refused => {}
        }
        false
    }

    /// True if this rank has nothing any more, and nothing is under way; else it goes on.
    pub(super) fn is_empty(&mut self, ground: &Ground<'_>) -> bool {
        if !ground.cluster.atlas.own_dirs(ground.core).is_empty() {
            self.stage = Stage::Giving;
            return false;
        }
        if ground.core.tree.orphans().next().is_some() {
            self.stage = Stage::Orphans;
            return false;
        }
        if !ground.cluster.has_landed(ground.core, ground.discards, ground.tidy) {
            return false;
        }
        if self.came != ground.cluster.placement.scattered.came {
            // Others made directories here before they had heard.
            self.stage = Stage::Settling(None, Scan::Scattered);
            return false;
        }
        true
    }

    /// Tells the others that this rank has nothing any more.
    pub(super) fn part(&mut self, core: &mut Core, peers: &mut Peers) {
        self.stage = Stage::Parting;
        self.letters_got = peers.letters_got(core);
        let others: Vec<Rank> = peers.links.keys().copied().collect();
        for rank in others {
            if let Some(link) = peers.links.get_mut(&rank) {
                link.farewell = false;
            }
            core.tell_durably(rank, PeerMsg::Empty);
        }
    }

    pub(super) fn look_on(&mut self, core: &mut Core, what: Scan, from: Ino) {
        self.ticket += 1;
        self.stage = Stage::Looking(what, from);
        self.not_before_ms = core.now.mono_ms + SCAN_MS;
        core.out.push_back(Output::Scan { ticket: self.ticket, what, from });
    }

    /// Some of the table has been looked through.
    pub(super) fn scanned(&mut self, core: &mut Core, atlas: &Atlas, ticket: u64, page: Option<Page>) {
        if let Stage::Looking(what, from) = self.stage
            && self.ticket == ticket
        {
            self.not_before_ms = 0;
            match page {
                None => self.not_before_ms = core.now.mono_ms + RETRY_MS,
                Some(page) => match what {
                    Scan::Pins => self.take_pins(core, atlas, page),
                    Scan::Scattered => {
                        self.scattered = page.found.into_iter().map(|(ino, _)| ino).collect();
                        self.stage = Stage::GivingScattered(page.next);
                    }
                    Scan::Floating => self.take_floating(core, page),
                    Scan::Policies => {}
                },
            }
            debug_assert!(self.stage != Stage::Looking(what, from) || self.not_before_ms > 0, "it goes on");
        }
    }

    fn take_pins(&mut self, core: &mut Core, atlas: &Atlas, page: Page) {
        for (dir, ranks) in page.found {
            if !ranks.contains(&core.config.rank) {
                continue;
            }
            if ranks.iter().any(|rank| atlas.takes_more(*rank)) {
                self.pins.push_back((dir, ranks));
            } else {
                self.bound.push(dir);
            }
        }
        if let Some(next) = page.next {
            return self.look_on(core, Scan::Pins, next);
        }
        let leaves = atlas.state_of(core.config.rank) == Some(RankState::Leaving);
        if self.bound.is_empty() || leaves {
            if !leaves {
                core.out.push_back(Output::Member(Member::Drains));
            }
            self.stage = Stage::Giving;
        } else {
            let text = bound_text(core.me(), &self.bound);
            core.out.push_back(Output::Member(Member::Refused(text)));
            self.stage = Stage::Refused;
        }
    }

    fn take_floating(&mut self, core: &Core, page: Page) {
        let files = page.found.into_iter().map(|(ino, _)| ino);
        self.files = files.filter(|ino| !core.tree.is_orphan(*ino)).collect();
        self.stage = Stage::GivingFiles(page.next);
    }
}
