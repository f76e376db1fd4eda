//! The balancer's place in a metadata server: from time to time it shows what it has and what it knows of the others to the
//! policy in force, checks what that wants to move, and moves it as an administrator would. Not what is decided: that is the
//! policy's, outside of the machine (crate `policy`).
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | when it is asked, and what becomes of the answer |
//! | `state.rs` | its state |
//! | `pieces.rs` | what could move: directories and fragments with their heat |
//! | `rules.rs` | what directories say of it |
//! | `resolution.rs` | by which policy each of them is balanced |
//! | `status.rs` | what is shown |

mod pieces;
mod resolution;
mod rules;
mod state;
mod status;

use loligo_types::{Decision, Ino, Move, PolicyId, Rank, RankState, RankView, Snapshot, Weighed};

pub(crate) use self::rules::is_rule;
pub(crate) use self::state::Balance;
pub use self::status::BalanceStatus;
use crate::admin::Told;
use crate::balance::pieces::{Pieces, Scratch};
use crate::balance::rules::{Look, Stand};
use crate::cluster::Cluster;
use crate::cluster::{Atlas, Exports, Where};
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::heat::Heat;
use crate::io::Output;
use crate::load::Waiter;

/// Time before what could not be known at a tick is looked for again, milliseconds.
const AGAIN_MS: u64 = 100;
/// Most such attempts before the tick goes on without.
const AGAINS_MAX: u32 = 5;
/// Most that a decision may move; the rest is passed over.
const MOVES_MAX: usize = 64;

impl Atlas {
    /// The policy of the file system: by it this rank balances what stands under no other one.
    pub(crate) fn policy(&self) -> PolicyId {
        self.map.policy
    }

    /// Directories with a line of the subtree map that makes them this rank's.
    fn tops(&self, core: &Core) -> Vec<Ino> {
        let me = core.me();
        let own = self.routes.all().into_iter().filter(|route| route.rank == me && route.dir != Ino::ROOT);
        let mut dirs: Vec<Ino> = own.map(|route| route.dir).collect();
        dirs.dedup();
        dirs
    }

    /// The location of a directory, or of this rank's part of it.
    fn locate_part(&mut self, core: &mut Core, exports: &mut Exports, dir: Ino) -> Where {
        let mut wants = Vec::new();
        if core.tree.part(dir).is_some() { Where::Here } else { self.locate(core, exports, dir, &mut wants) }
    }
}

impl Balance {
    /// On ticks of the machine: asks the policies, if it is time. `waiting`: requests that wait for the journal.
    pub(crate) fn balance(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        heat: &Heat,
        waiting: usize,
        in_grace: bool,
    ) {
        if cluster.is_alone() || core.stopping || in_grace || !cluster.peers.ready {
            (self.next_ms, self.silent) = (0, 0);
            return;
        }
        let (now, tick_ms) = (core.now.mono_ms, core.config.balance_ms.max(1));
        if self.next_ms == 0 {
            // What was counted before is too little to tell.
            self.next_ms = now + tick_ms;
        }
        // What was decided before is done first: it would be decided again.
        if now < self.next_ms || !cluster.exports.is_idle() {
            return;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut look = self.look_around(core, cluster, heat, &mut scratch);
        let pieces = match self.asks(core, &mut cluster.atlas, &mut look) {
            true => Some(scratch.pieces(core, &look)),
            false => None,
        };
        self.scratch = scratch;
        let Some(pieces) = pieces else { return };
        let snapshot = self.snapshot(core, &cluster.atlas, heat, waiting, pieces);
        core.out.push_back(Output::Balance(Box::new(snapshot)));
    }

    /// Finds out what is hot, by what each directory of it is balanced, and who has the directories above those that this rank has
    /// at the top.
    fn look_around(&mut self, core: &mut Core, cluster: &mut Cluster, heat: &Heat, scratch: &mut Scratch) -> Look {
        let mut look = Look::default();
        cluster.atlas.lay_out(core, heat, scratch, &mut look);
        self.find_stands(core, scratch, &mut look);
        if cluster.atlas.policy() != PolicyId::NONE || look.is_any_named {
            for dir in cluster.atlas.tops(core) {
                let parent = core.tree.peek(dir).map(|inode| inode.parent);
                if let Some(parent) = parent.filter(|parent| parent.0 != 0) {
                    cluster.locate(core, parent, &mut look.wants);
                }
            }
        }
        look.wants.sort();
        look.wants.dedup();
        look
    }

    fn snapshot(&self, core: &Core, atlas: &Atlas, heat: &Heat, waiting: usize, found: Pieces) -> Snapshot {
        let Pieces { all: pieces, names, sum } = found;
        let (now, half_life) = (core.now.mono_ms, core.config.heat_half_life_ms);
        let views = atlas.map.ranks.iter().map(|info| {
            let is_me = info.rank == core.me();
            let told = heat.gossip.beat_of(info.rank, now);
            let (load, weighed, age_ms) = match told {
                _ if is_me => (heat.load_with(core, waiting, &sum), Some(self.weighed(atlas)), 0),
                Some((load, weighed, age_ms)) => (load, Some(weighed), age_ms),
                None => (Default::default(), None, u64::MAX),
            };
            let weighed = weighed.filter(|weighed| weighed.policy != PolicyId::NONE);
            RankView {
                rank: info.rank,
                load,
                weighed,
                age_ms,
                takes_more: info.state == RankState::Up,
                is_busy_importing: self.came_ms.contains_key(&info.rank),
            }
        });
        let mut ranks: Vec<RankView> = views.collect();
        ranks.sort_by_key(|view| view.rank);
        Snapshot {
            tick: self.tick,
            policy: atlas.policy(),
            whoami: core.me(),
            tick_ms: core.config.balance_ms,
            ranks,
            besides: heat.besides.get(now, half_life),
            pieces,
            names,
        }
    }

    /// The load as the policy weighs it, for other ranks.
    pub(crate) fn weighed(&self, atlas: &Atlas) -> Weighed {
        if self.weighed.policy == atlas.policy() { self.weighed } else { Weighed::default() }
    }

    /// A line of the subtree map was told or written: something came to this rank.
    pub(crate) fn came_to(&mut self, core: &Core, rank: Rank) {
        self.came_ms.insert(rank, core.now.mono_ms);
    }

    /// After the look of a tick: whether there is somebody to ask, and all is known that can be. Else something is read first,
    /// and the tick comes again soon.
    fn asks(&mut self, core: &mut Core, atlas: &mut Atlas, look: &mut Look) -> bool {
        let (now, tick_ms) = (core.now.mono_ms, core.config.balance_ms.max(1));
        if self.agains < AGAINS_MAX && !look.wants.is_empty() {
            atlas.load(core, std::mem::take(&mut look.wants), Waiter::Nobody);
            self.agains += 1;
            self.next_ms = now + AGAIN_MS;
            return false;
        }
        self.forget_distants(core);
        (self.agains, self.next_ms) = (0, now + tick_ms);
        if atlas.map.policy == PolicyId::NONE && !look.is_any_named {
            (self.asked, self.silent, self.asks) = (None, 0, false);
            return false;
        }
        self.tick += 1;
        self.asks = true;
        if self.asked.replace(self.tick).is_some() {
            (self.unanswered, self.silent) = (self.unanswered + 1, self.silent + 1);
        }
        self.came_ms.retain(|_, at| *at + tick_ms > now);
        true
    }

    /// The policy has answered. Whatever it says, only what could be ordered by hand is done.
    pub(crate) fn decided(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        decoupled: &Decoupled,
        decision: Decision,
    ) {
        if self.asked != Some(decision.tick) {
            return;
        }
        (self.asked, self.silent) = (None, 0);
        let sound = |weighed: &Weighed| weighed.policy == cluster.atlas.policy() && weighed.is_sound();
        let weighed = decision.weighed.filter(sound);
        if let Some(weighed) = weighed {
            self.weighed = weighed;
        }
        if core.stopping || !cluster.exports.is_idle() {
            return;
        }
        // Without a sound weight the answer of the policy of the file system counts as none.
        let common = cluster.atlas.policy() != PolicyId::NONE && weighed.is_some();
        let mut look = Look::default();
        for wanted in decision.moves.iter().take(MOVES_MAX) {
            let stand = self.stand(core, wanted.piece.dir, &mut look).unwrap_or(Stand::Nobody);
            if common || stand != Stand::Common {
                self.follow(core, cluster, decoupled, wanted, &stand);
            }
        }
    }

    fn follow(&mut self, core: &mut Core, cluster: &mut Cluster, decoupled: &Decoupled, wanted: &Move, stand: &Stand) {
        let (dir, to) = (wanted.piece.dir, wanted.to);
        let is_own = matches!(cluster.atlas.locate_part(core, &mut cluster.exports, dir), Where::Here);
        let may = dir != Ino::ROOT && to != core.me() && is_own && *stand != Stand::Nobody;
        match may.then(|| cluster.want_export(core, decoupled, dir, wanted.piece.frag, to)) {
            Some(Told::Begun(_)) => self.moves += 1,
            _ => self.refused += 1,
        }
    }
}
