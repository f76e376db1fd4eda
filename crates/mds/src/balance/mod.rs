//! The balancer's place in a metadata server: from time to time it shows what it has and what it knows of the others to the
//! policy in force, checks what that wants to move, and moves it as an administrator would. Not what is decided: that is the
//! policy's, outside of the machine (crate `policy`).
//!
//! | file | what |
//! |---|---|
//! | `mod.rs` | when it is asked, and what becomes of the answer |
//! | `pieces.rs` | what could move: directories and fragments with their heat |
//! | `resolution.rs` | by which policy each of them is balanced |
//! | `status.rs` | what is shown |

mod pieces;
mod resolution;
mod status;

use std::collections::BTreeMap;

use loligo_types::{Decision, Ino, Move, PolicyId, Rank, RankState, RankView, Snapshot, Weighed};

use crate::admin::Told;
use crate::cluster::Where;
use crate::io::Output;
use crate::load::Waiter;
use crate::machine::Mds;

use self::pieces::{Pieces, Scratch};
use self::resolution::{Distants, Look, Stand};

pub(crate) use self::resolution::is_rule;
pub use self::status::BalanceStatus;

/// Time before what could not be known at a tick is looked for again, milliseconds.
const AGAIN_MS: u64 = 100;
/// Most such attempts before the tick goes on without.
const AGAINS_MAX: u32 = 5;
/// Most that a decision may move; the rest is passed over.
const MOVES_MAX: usize = 64;

/// State of the balancer of this rank.
#[derive(Default)]
pub(crate) struct Balance {
    /// Ticks so far.
    tick: u64,
    /// When the next one is, milliseconds; 0: not known yet.
    next_ms: u64,
    /// Times that the next one was put off because something had to be read first.
    agains: u32,
    /// The tick that was not answered yet.
    asked: Option<u64>,
    /// The load of this rank as the policy weighed it at the last tick.
    weighed: Weighed,
    /// When something came to a rank last, as the subtree map told, milliseconds.
    came_ms: BTreeMap<Rank, u64>,
    /// Directories of others above those of this rank.
    distants: Distants,
    /// Migrations that decisions began.
    moves: u64,
    /// Migrations that decisions wanted and that were refused.
    refused: u64,
    /// Ticks to which no answer came before the next one, and how many of these there were in a row up to now.
    unanswered: u64,
    silent: u64,
    /// At the last tick there was something to ask.
    asks: bool,
    scratch: Scratch,
}

impl Mds {
    /// The policy of the file system: by it this rank balances what stands under no other one.
    pub(crate) fn policy(&self) -> PolicyId {
        self.cluster.atlas.map.policy
    }

    /// The load as the policy weighs it, for other ranks.
    pub(crate) fn weighed(&self) -> Weighed {
        if self.balance.weighed.policy == self.policy() { self.balance.weighed } else { Weighed::default() }
    }

    /// A line of the subtree map was told or written: something came to this rank.
    pub(crate) fn came_to(&mut self, rank: Rank) {
        self.balance.came_ms.insert(rank, self.core.now.mono_ms);
    }

    /// On ticks of the machine: asks the policies, if it is time.
    pub(crate) fn balance(&mut self) {
        if self.cluster.is_alone() || self.core.stopping || self.grace.is_some() || !self.cluster.peers.ready {
            (self.balance.next_ms, self.balance.silent) = (0, 0);
            return;
        }
        let (now, tick_ms) = (self.core.now.mono_ms, self.core.config.balance_ms.max(1));
        if self.balance.next_ms == 0 {
            // What was counted before is too little to tell.
            self.balance.next_ms = now + tick_ms;
        }
        // What was decided before is done first: it would be decided again.
        if now < self.balance.next_ms || !self.cluster.exports.is_idle() {
            return;
        }
        let mut scratch = std::mem::take(&mut self.balance.scratch);
        let mut look = self.look_around(&mut scratch);
        let pieces = match self.asks(&mut look) {
            true => Some(self.pieces(&mut scratch, &look)),
            false => None,
        };
        self.balance.scratch = scratch;
        let Some(pieces) = pieces else { return };
        let snapshot = self.snapshot(pieces);
        self.core.out.push_back(Output::Balance(Box::new(snapshot)));
    }

    /// After the look of a tick: whether there is somebody to ask, and all is known that can be. Else something is read first,
    /// and the tick comes again soon.
    fn asks(&mut self, look: &mut Look) -> bool {
        let (now, tick_ms) = (self.core.now.mono_ms, self.core.config.balance_ms.max(1));
        if self.balance.agains < AGAINS_MAX && !look.wants.is_empty() {
            self.core.load(&mut self.cluster.atlas, std::mem::take(&mut look.wants), Waiter::Nobody);
            self.balance.agains += 1;
            self.balance.next_ms = now + AGAIN_MS;
            return false;
        }
        self.forget_distants();
        let balance = &mut self.balance;
        (balance.agains, balance.next_ms) = (0, now + tick_ms);
        if self.cluster.atlas.map.policy == PolicyId::NONE && !look.is_any_named {
            (balance.asked, balance.silent, balance.asks) = (None, 0, false);
            return false;
        }
        balance.tick += 1;
        balance.asks = true;
        if balance.asked.replace(balance.tick).is_some() {
            (balance.unanswered, balance.silent) = (balance.unanswered + 1, balance.silent + 1);
        }
        balance.came_ms.retain(|_, at| *at + tick_ms > now);
        true
    }

    /// Finds out what is hot, by what each directory of it is balanced, and who has the directories above those that this rank has
    /// at the top.
    fn look_around(&mut self, scratch: &mut Scratch) -> Look {
        let mut look = Look::default();
        self.lay_out(scratch, &mut look);
        self.find_stands(scratch, &mut look);
        if self.policy() != PolicyId::NONE || look.is_any_named {
            for dir in self.tops() {
                let parent = self.core.tree.peek(dir).map(|inode| inode.parent);
                if let Some(parent) = parent.filter(|parent| parent.0 != 0) {
                    self.cluster.atlas.locate(&mut self.core, &mut self.cluster.exports, parent, &mut look.wants);
                }
            }
        }
        look.wants.sort();
        look.wants.dedup();
        look
    }

    /// Directories with a line of the subtree map that makes them this rank's.
    fn tops(&self) -> Vec<Ino> {
        let me = self.core.me();
        let own =
            self.cluster.atlas.routes.all().into_iter().filter(|route| route.rank == me && route.dir != Ino::ROOT);
        let mut dirs: Vec<Ino> = own.map(|route| route.dir).collect();
        dirs.dedup();
        dirs
    }

    fn snapshot(&mut self, Pieces { all: pieces, names, sum }: Pieces) -> Snapshot {
        let (now, half_life) = (self.core.now.mono_ms, self.core.config.heat_half_life_ms);
        let views = self.cluster.atlas.map.ranks.iter().map(|info| {
            let is_me = info.rank == self.core.me();
            let told = self.heat.gossip.beat_of(info.rank, now);
            let (load, weighed, age_ms) = match told {
                _ if is_me => (self.load_with(&sum), Some(self.weighed()), 0),
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
                is_busy_importing: self.balance.came_ms.contains_key(&info.rank),
            }
        });
        let mut ranks: Vec<RankView> = views.collect();
        ranks.sort_by_key(|view| view.rank);
        Snapshot {
            tick: self.balance.tick,
            policy: self.policy(),
            whoami: self.core.me(),
            tick_ms: self.core.config.balance_ms,
            ranks,
            besides: self.heat.besides.get(now, half_life),
            pieces,
            names,
        }
    }

    /// The policy has answered. Whatever it says, only what could be ordered by hand is done.
    pub(crate) fn decided(&mut self, decision: Decision) {
        if self.balance.asked != Some(decision.tick) {
            return;
        }
        (self.balance.asked, self.balance.silent) = (None, 0);
        let sound = |weighed: &Weighed| weighed.policy == self.policy() && weighed.is_sound();
        let weighed = decision.weighed.filter(sound);
        if let Some(weighed) = weighed {
            self.balance.weighed = weighed;
        }
        if self.core.stopping || !self.cluster.exports.is_idle() {
            return;
        }
        // Without a sound weight the answer of the policy of the file system counts as none.
        let common = self.policy() != PolicyId::NONE && weighed.is_some();
        let mut look = Look::default();
        for wanted in decision.moves.iter().take(MOVES_MAX) {
            let stand = self.stand(wanted.piece.dir, &mut look).unwrap_or(Stand::Nobody);
            if common || stand != Stand::Common {
                self.follow(wanted, &stand);
            }
        }
    }

    fn follow(&mut self, wanted: &Move, stand: &Stand) {
        let (dir, to) = (wanted.piece.dir, wanted.to);
        let is_own = matches!(self.locate_part(dir), Where::Here);
        let may = dir != Ino::ROOT && to != self.core.me() && is_own && *stand != Stand::Nobody;
        match may.then(|| self.want_export(dir, wanted.piece.frag, to)) {
            Some(Told::Begun(_)) => self.balance.moves += 1,
            _ => self.balance.refused += 1,
        }
    }

    /// The location of a directory, or of this rank's part of it.
    fn locate_part(&mut self, dir: Ino) -> Where {
        let mut wants = Vec::new();
        if self.core.tree.part(dir).is_some() {
            Where::Here
        } else {
            self.cluster.atlas.locate(&mut self.core, &mut self.cluster.exports, dir, &mut wants)
        }
    }
}
