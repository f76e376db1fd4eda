//! Input and answer of a balancer, as plain data. A policy decides (crate `policy`); the metadata server measures,
//! checks and moves.

use std::sync::Arc;

use crate::{Frag, Ino, Load, LoadVec, Rank};

/// Longest name of a policy, bytes.
const NAME_MAX: usize = 64;
/// Name that says that there is none; no policy is called so.
pub const NO_POLICY: &str = "none";

/// True if a policy can be called so: letters, digits, `_`, `-` and `.`, the first one a letter or digit; not `none`.
pub fn is_policy_name(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let plain = (1..=NAME_MAX).contains(&name.len()) && name.chars().all(good);
    plain && !name.starts_with(['.', '-', '_']) && name != NO_POLICY
}

/// Number of a version of a policy: grows with each one that is put in force, in the whole file system. 0: none, nothing is
/// balanced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PolicyId(pub u32);

impl PolicyId {
    /// Nothing is balanced.
    pub const NONE: PolicyId = PolicyId(0);
}

/// A rank's counters as weighed by a policy's `metaload`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Weighed {
    /// By which policy. Loads of different policies cannot be compared.
    pub policy: PolicyId,
    /// Of all that the rank has authority over.
    pub auth: f64,
    /// The same with what it does besides.
    pub all: f64,
}

impl Weighed {
    /// True if the numbers can be loads: finite and not negative.
    pub fn is_sound(&self) -> bool {
        [self.auth, self.all].into_iter().all(|n| n.is_finite() && n >= 0.0)
    }
}

/// Unit of migration: a directory with all below it as far as it is the rank's, or the names of one fragment of it with all
/// below them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Piece {
    /// The directory.
    pub dir: Ino,
    /// The fragment; none: all that the rank has of it.
    pub frag: Option<Frag>,
}

/// A piece with what was counted of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PieceHeat {
    /// Which.
    pub piece: Piece,
    /// Its place in the list of the piece that it is in; always before its own. None: it is at the top of what the rank has.
    pub above: Option<u32>,
    /// Counters of it, without those of the pieces in it; decayed.
    pub load: LoadVec,
    /// Inodes that it has, with all below, as far as that is known; what a move costs grows with it.
    pub inodes: u64,
    /// It may not be moved: it is pinned, about to move, the root, the fragment that a directory's own inode lives with, or there
    /// is something hot in it that stands under another policy, or none. What is in it may.
    pub fixed: bool,
    /// The policy by which it may be moved: its place in [`Snapshot::names`]; none: that of the file system.
    pub under: Option<u32>,
    /// Of those at the top: the rank that has the directory above, if it is another one. Giving the piece to that one joins it
    /// with what it was cut from.
    pub home: Option<Rank>,
}

/// One rank, as the one that decides knows it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RankView {
    /// Which.
    pub rank: Rank,
    /// As it was told last; of the one that decides, as it is.
    pub load: Load,
    /// The load as weighed by the policy in force there at its last tick; none if it was not told of yet.
    pub weighed: Option<Weighed>,
    /// Age of the load, milliseconds.
    pub age_ms: u64,
    /// It is up and not being drained: something may be given to it.
    pub takes_more: bool,
    /// Something moves to it or came to it within the last tick, as far as the one that decides knows.
    pub is_busy_importing: bool,
}

/// All that a decision is made of.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Snapshot {
    /// Counts the ticks of this rank, in this life; answers carry it.
    pub tick: u64,
    /// That of the file system. It moves what stands under no other one.
    pub policy: PolicyId,
    /// Names of the policies that directories name, as far as some of the pieces stand under them.
    pub names: Vec<Arc<str>>,
    /// The rank that decides. It is in `ranks`.
    pub whoami: Rank,
    /// Time between two ticks, milliseconds.
    pub tick_ms: u64,
    /// All ranks, ascending.
    pub ranks: Vec<RankView>,
    /// Counters for directories of others; decayed.
    pub besides: LoadVec,
    /// Pieces of this rank, as far as they are hot; those above first.
    pub pieces: Vec<PieceHeat>,
}

/// A piece is to go to a rank.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Move {
    /// The piece.
    pub piece: Piece,
    /// Where to.
    pub to: Rank,
    /// Load that goes with it, as the policy weighs.
    pub load: f64,
}

/// The answer.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Decision {
    /// See [`Snapshot::tick`].
    pub tick: u64,
    /// Own load, as the policy of the file system weighs it; none: it could not say.
    pub weighed: Option<Weighed>,
    /// Moves, in this order; mostly none.
    pub moves: Vec<Move>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_policies_are_plain() {
        assert!(["a", "fill_and_spill", "v2.1", "x-y", "None"].into_iter().all(is_policy_name));
        assert!(["", ".x", "-x", "a/b", "a b", "\u{e4}", "none"].into_iter().all(|name| !is_policy_name(name)));
        assert!(!is_policy_name(&"a".repeat(65)));
    }
}
