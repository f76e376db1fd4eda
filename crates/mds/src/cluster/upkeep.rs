//! The work between ranks that comes with time: what ticks do, and what is put down or asked for again then. Not what messages do (`link.rs`).

use super::giveaway::Ground;
use crate::decouple::POLICY_TICKETS;
use crate::io::Page;
use crate::machine::Mds;
use crate::relaxed::TICKETS as RELAXED_TICKETS;

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
                let settled = drain.settling().is_some_and(|upto| self.settle_upto(upto));
                let waiting = self.gate.len();
                let mut ground = Ground {
                    core: &mut self.core,
                    cluster: &mut self.cluster,
                    decoupled: &self.decoupled,
                    heat: &self.heat,
                    discards: &self.discards,
                    tidy: &self.tidy,
                    sessions: &self.sessions,
                    waiting,
                };
                if drain.step(&mut ground, settled) {
                    self.drop_own_lines();
                    drain.part(&mut self.core, &mut self.cluster.peers);
                }
            }
            if drain.stage == before {
                break;
            }
        }
        self.cluster.drain = Some(drain);
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
        drain.scanned(&mut self.core, &self.cluster.atlas, ticket, page);
        self.cluster.drain = Some(drain);
        self.step_drain();
    }
}
