//! Status of the balancer of a rank.

use loligo_types::{PolicyId, Weighed};

use crate::balance::state::Balance;
use crate::cluster::Atlas;

/// Of one rank.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct BalanceStatus {
    /// The policy of the file system.
    pub policy: PolicyId,
    /// At the last tick there was something to ask: that one, or one that directories name.
    pub asks: bool,
    /// Ticks in this life.
    pub ticks: u64,
    /// The load as the policy made it of the last one.
    pub weighed: Weighed,
    /// Migrations that it wanted and that were begun.
    pub moves: u64,
    /// Those that could not be begun.
    pub refused: u64,
    /// Ticks to which there was no answer before the next one.
    pub unanswered: u64,
    /// The same, in a row up to now.
    pub silent: u64,
}

impl Balance {
    /// The status of this rank's balancer.
    pub(crate) fn balance_status(&self, atlas: &Atlas) -> BalanceStatus {
        BalanceStatus {
            policy: atlas.policy(),
            asks: self.asks,
            ticks: self.tick,
            weighed: self.weighed(atlas),
            moves: self.moves,
            refused: self.refused,
            unanswered: self.unanswered,
            silent: self.silent,
        }
    }
}
