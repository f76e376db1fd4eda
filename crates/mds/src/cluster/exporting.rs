//! Migrations from this rank and the subtree map: whether one may be wanted, whether its directory is still here, and what is known of what has gone.

use std::collections::BTreeSet;

use loligo_types::{Frag, Ino, Kind, Lsn, Rank};

use crate::admin::Told;
use crate::cluster::cuts::cut;
use crate::cluster::exports::{Export, Exports};
use crate::cluster::state::Cluster;
use crate::cluster::survey::Survey;
use crate::cluster::{Atlas, Where};
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::io::{DataAccess, Output};
use crate::load::Waiter;
use crate::open::Opens;
use crate::session::Sessions;

impl Cluster {
    /// Wants a subtree to be moved.
    pub(crate) fn want_export(
        &mut self,
        core: &mut Core,
        decoupled: &Decoupled,
        dir: Ino,
        frag: Option<Frag>,
        to: Rank,
    ) -> Told {
        if !self.atlas.map.ranks.iter().any(|info| info.rank == to) {
            let ranks: Vec<String> = self.atlas.map.ranks.iter().map(|info| info.rank.to_string()).collect();
            return Told::Refused(match &ranks[..] {
                [] => "this file system has one rank; add one: loligo rank add".into(),
                ranks => format!("there is no rank {to}; there are {}", ranks.join(", ")),
            });
        }
        if !self.atlas.takes_more(to) {
            return Told::Refused(format!("rank {to} is being drained and takes nothing more: choose another one"));
        }
        if core.stopping {
            return Told::Refused("the server is stopping".into());
        }
        if let Some(refused) = frag.and_then(|frag| self.atlas.cannot_cut(core, dir, frag)) {
            return refused;
        }
        let mut wants = Vec::new();
        match self.atlas.locate_of(core, &mut self.exports, dir, &mut wants) {
            Where::Elsewhere(rank) => return Told::Elsewhere(rank),
            Where::Unknown => drop(self.load(core, wants, Waiter::Nobody)),
            Where::Here => {
                let Some(inode) = core.tree.inode(dir) else {
                    return Told::Refused(format!("inode {dir} does not exist (any more)"));
                };
                if inode.kind != Kind::Dir {
                    return Told::Refused(format!("inode {dir} is not a directory"));
                }
                if to == core.me() {
                    return Told::Refused(format!("directory {dir} is rank {to}'s already"));
                }
                let (moves, _) = cut(&core.frags_of(dir), frag);
                if let Ok(Some(root)) = decoupled.stays_for(core, self, dir, &moves) {
                    return Told::Refused(core.stays_text(dir, root));
                }
            }
        }
        Told::Begun(self.exports.wait(dir, frag, to))
    }

    /// From now on requests on what moves wait, and so do data operations. `inos`: files that are to be durable besides.
    pub(super) fn freeze(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        opens: &Opens,
        export: &mut Export,
        survey: &mut Survey,
        mut inos: BTreeSet<Ino>,
    ) {
        export.frozen_ms = core.now.mono_ms;
        export.data_upto = core.log.last;
        for (ino, slot, access) in export.held.users(core, &mut self.exports, &mut self.atlas, opens, survey) {
            let is_file = core.tree.inode(ino).is_some_and(|inode| inode.kind == Kind::File);
            if let Some(session) = sessions.get(slot).map(|session| session.id).filter(|_| is_file) {
                core.out.push_back(Output::Access { session, ino, access: DataAccess::Moving });
                export.stopped.push((slot, ino, access));
                inos.insert(ino);
            }
        }
        export.quiesced = inos.is_empty();
        if !inos.is_empty() {
            self.exports.last_ticket += 1;
            export.ticket = self.exports.last_ticket;
            core.out.push_back(Output::Quiesce { ticket: export.ticket, inos: inos.into_iter().collect() });
        }
    }
}

impl Exports {
    /// True if the directory exists and is this rank's. `None`: it has left memory, and is read first.
    pub(super) fn has_dir(&mut self, core: &mut Core, atlas: &mut Atlas, dir: Ino) -> Option<bool> {
        let mut wants = Vec::new();
        let place = atlas.locate_of(core, self, dir, &mut wants);
        if !wants.is_empty() {
            atlas.load(core, wants, Waiter::Nobody);
        }
        (place != Where::Unknown).then(|| place == Where::Here && core.tree.inode(dir).is_some())
    }

    /// A rank has what letters up to here brought in the table.
    pub(crate) fn export_landed(&mut self, core: &Core, atlas: &mut Atlas, from: Rank, upto: u64) {
        let Some(landing) = self.landing.get_mut(&from) else { return };
        let mut landed = Vec::new();
        landing.retain(|(seq, lsn)| {
            if *seq <= upto {
                landed.push(*lsn);
            }
            *seq > upto
        });
        if !landed.is_empty() {
            atlas.departed.retain(|_, (rank, lsn)| *rank != from || !landed.contains(lsn));
            // What was read, or is being read, may be from before it was in the table.
            atlas.barrier = core.loads.newest();
            atlas.foreign_inodes.clear();
        }
    }

    /// A record with a departure was replayed.
    pub(crate) fn replay_departure(&mut self, atlas: &mut Atlas, to: Rank, seq: u64, inos: &[Ino], lsn: Lsn) {
        atlas.departed.extend(inos.iter().map(|ino| (*ino, (to, lsn))));
        self.landing.entry(to).or_default().push((seq, lsn));
    }
}
