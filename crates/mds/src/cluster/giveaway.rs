//! Goods of a rank that is drained, in the order in which they go, and the rank that each goes to: subtrees, directories that are here
//! because of their numbers, files that live by themselves. Each is a migration as any (`exports.rs`). Not when they go: `draining.rs`.

use loligo_types::{Ino, Rank, RankState};

use crate::admin::{Migration, Told};
use crate::cluster::drain::{Drain, RETRY_MS, Stage};
use crate::cluster::state::Cluster;
use crate::cluster::{Atlas, Exports, Peers, Where};
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::discard::Discards;
use crate::eof_cleanup::EofCleanup;
use crate::heat::Heat;
use crate::io::Scan;
use crate::load::Waiter;
use crate::session::Sessions;

/// Files given away at once.
const FILES_MAX: usize = 256;

/// The parts that a drain asks and uses.
pub(super) struct Ground<'a> {
    pub(super) core: &'a mut Core,
    pub(super) cluster: &'a mut Cluster,
    pub(super) decoupled: &'a Decoupled,
    pub(super) heat: &'a Heat,
    pub(super) discards: &'a Discards,
    pub(super) tidy: &'a EofCleanup,
    pub(super) sessions: &'a Sessions,
    /// Requests that wait for the journal.
    pub(super) waiting: usize,
}

impl Drain {
    /// The rank to give something to: of those that may have it and take more, that with the least load.
    fn receiver(&self, ground: &Ground<'_>, pinned: &[Rank]) -> Option<Rank> {
        let able = |rank: &Rank| {
            (pinned.is_empty() || pinned.contains(rank))
                && *rank != ground.core.config.rank
                && ground.cluster.peers.links.get(rank).is_some_and(|link| link.greeted)
        };
        let up = ground.cluster.atlas.map.ranks.iter().filter(|info| info.state == RankState::Up).map(|info| info.rank);
        let load = |rank: &Rank| {
            let known = ground.heat.load_of(ground.core, *rank).map_or(0.0, |(load, _)| load.all);
            known + self.given.get(rank).copied().unwrap_or(0.0)
        };
        up.filter(able).min_by(|a, b| load(a).total_cmp(&load(b)))
    }

    pub(super) fn give_subtree(&mut self, ground: &mut Ground<'_>) {
        if !ground.cluster.exports.is_idle() || !self.look_back(ground.core, &ground.cluster.exports) {
            return;
        }
        while let Some((dir, ranks)) = self.pins.front().cloned() {
            let mut wants = Vec::new();
            match ground.cluster.locate(ground.core, dir, &mut wants) {
                Where::Unknown => {
                    ground.cluster.load(ground.core, wants, Waiter::Nobody);
                    return;
                }
                Where::Here if ground.core.tree.inode(dir).is_some() => return self.give_dir(ground, dir, &ranks),
                Where::Here | Where::Elsewhere(_) => _ = self.pins.pop_front(),
            }
        }
        let dirs = ground.cluster.atlas.own_dirs(ground.core);
        let Some(dir) = ground.cluster.next_to_give(ground.core, ground.decoupled, &dirs) else {
            (self.stuck, self.refused) = (None, None);
            self.stage = Stage::Settling(None, Scan::Scattered);
            return;
        };
        // What it is pinned to is looked for where there is nothing else to do meanwhile: in its xattrs.
        let mut wants = Vec::new();
        match ground.cluster.atlas.locate_of(ground.core, &mut ground.cluster.exports, dir, &mut wants) {
            Where::Unknown => _ = ground.cluster.load(ground.core, wants, Waiter::Nobody),
            Where::Elsewhere(_) => {}
            // Its home has the pin, and follows it. Fragments that come together there are no part any more.
            Where::Here if ground.core.tree.part(dir).is_some() => {
                let atlas = &ground.cluster.atlas;
                let home = atlas.home_of_part(ground.core, dir).filter(|home| atlas.takes_more(*home));
                self.give_dir(ground, dir, home.as_slice());
            }
            Where::Here if ground.core.tree.inode(dir).is_none() => {
                ground.cluster.atlas.route_gone(ground.core, &ground.cluster.peers, dir)
            }
            Where::Here => match ground.core.pins_known(dir) {
                None => _ = ground.cluster.load(ground.core, vec![loligo_namespace::Need::Xattrs(dir)], Waiter::Nobody),
                Some(pinned) => self.give_dir(ground, dir, &pinned),
            },
        }
    }

    fn give_dir(&mut self, ground: &mut Ground<'_>, dir: Ino, pinned: &[Rank]) {
        self.not_before_ms = ground.core.now.mono_ms + RETRY_MS;
        let Some(to) = self.receiver(ground, pinned) else {
            self.stuck = Some(ground.cluster.peers.no_receiver(
                ground.core,
                &ground.cluster.atlas,
                &format!("directory {dir}"),
                pinned,
            ));
            return;
        };
        self.stuck = None;
        match ground.cluster.want_export(ground.core, ground.decoupled, dir, None, to) {
            Told::Begun(id) => {
                let share = ground.heat.load_now(ground.core, ground.waiting).auth
                    / (ground.cluster.atlas.own_dirs(ground.core).len().max(1) as f64);
                *self.given.entry(to).or_default() += share.max(1.0);
                self.subtrees_given += 1;
                self.tried = Some(id);
                self.not_before_ms = 0;
                self.pins.rotate_left(usize::from(self.pins.len() > 1));
            }
            Told::Refused(why) => {
                self.refused = Some(why);
                self.pins.rotate_left(usize::from(self.pins.len() > 1));
            }
            _ => {}
        }
    }

    pub(super) fn give_scattered(&mut self, ground: &mut Ground<'_>, next: Option<Ino>) {
        if !ground.cluster.exports.is_idle() || !self.look_back(ground.core, &ground.cluster.exports) {
            return;
        }
        while let Some(dir) = self.scattered.front().copied() {
            let mut wants = Vec::new();
            match ground.cluster.locate(ground.core, dir, &mut wants) {
                Where::Unknown => _ = ground.cluster.load(ground.core, wants, Waiter::Nobody),
                Where::Here if ground.core.tree.inode(dir).is_some_and(|inode| inode.nlink > 0) => {
                    match ground.core.pins_known(dir) {
                        None => {
                            _ = ground.cluster.load(
                                ground.core,
                                vec![loligo_namespace::Need::Xattrs(dir)],
                                Waiter::Nobody,
                            )
                        }
                        Some(pinned) => {
                            self.give_dir(ground, dir, &pinned);
                            // The next one while that is decoupled, or such.
                            self.scattered.rotate_left(1);
                        }
                    }
                }
                Where::Here | Where::Elsewhere(_) => {
                    self.scattered.pop_front();
                    continue;
                }
            }
            return;
        }
        (self.stuck, self.refused) = (None, None);
        match next {
            Some(next) => self.look_on(ground.core, Scan::Scattered, next),
            // Of files that live by themselves there may be more by now.
            None => self.stage = Stage::Settling(None, Scan::Floating),
        }
    }

    pub(super) fn give_files(&mut self, ground: &mut Ground<'_>, next: Option<Ino>) {
        if !ground.cluster.exports.is_idle() || !self.look_back(ground.core, &ground.cluster.exports) {
            return;
        }
        let mut wants = Vec::new();
        let mut left = Vec::new();
        for ino in std::mem::take(&mut self.files) {
            match ground.cluster.locate(ground.core, ino, &mut wants) {
                Where::Unknown => left.push(ino),
                Where::Elsewhere(_) => {}
                Where::Here if ground.core.floats_here(ino) => left.push(ino),
                Where::Here => {}
            }
        }
        self.files = left;
        if !wants.is_empty() {
            ground.cluster.load(ground.core, wants, Waiter::Nobody);
            return;
        }
        if self.files.is_empty() {
            (self.stuck, self.refused) = (None, None);
            match next {
                Some(next) => self.look_on(ground.core, Scan::Floating, next),
                None if ground.core.tree.orphans().next().is_some() => self.stage = Stage::Orphans,
                None => self.stage = Stage::Landing,
            }
            return;
        }
        self.not_before_ms = ground.core.now.mono_ms + RETRY_MS;
        let Some(to) = self.receiver(ground, &[]) else {
            self.stuck = Some(ground.cluster.peers.no_receiver(
                ground.core,
                &ground.cluster.atlas,
                "files that live by themselves",
                &[],
            ));
            return;
        };
        self.stuck = None;
        let files: Vec<Ino> = self.files.iter().take(ground.core.config.some(FILES_MAX)).copied().collect();
        self.files_given += files.len() as u64;
        self.tried = ground.cluster.exports.want_export_of_files(files, to);
    }

    /// Looks at the result of the migration that was begun last. False: it has failed, and is not tried again at once.
    fn look_back(&mut self, core: &Core, exports: &Exports) -> bool {
        let Some(id) = self.tried.take() else { return true };
        let ended = exports.ended.iter().rev().find(|ended| ended.id == id);
        let failed = ended.and_then(|ended| Some((ended, ended.state.strip_prefix("failed: ")?)));
        self.refused = failed.map(|(Migration { dir, to, .. }, why)| match self.stage {
            Stage::GivingFiles(_) => format!("files that live by themselves cannot be moved to rank {to} yet: {why}"),
            _ => format!("directory {dir} cannot be moved to rank {to} yet: {why}"),
        });
        if self.refused.is_some() {
            self.not_before_ms = core.now.mono_ms + RETRY_MS;
        }
        self.refused.is_none()
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
}
