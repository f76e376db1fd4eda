//! Checkpoints: dirty records go into the table in slices, then the journal before them is trimmed.
//!
//! A slice holds the newest state of its records, so it is written only when the journal is durable up to the moment
//! it was taken.

use loligo_namespace::Record;
use loligo_types::Lsn;

use crate::cluster::Cluster;
use crate::core::Core;
use crate::grace::Grace;
use crate::heat::Heat;
use crate::io::Output;
use crate::job::WaitReason;
use crate::session::Sessions;

/// Delay before a failed checkpoint is tried again, milliseconds.
const RETRY_MS: u64 = 1000;
/// A stop is given up when so many slices in a row could not be written, and not for want of room: the journal has all of it.
const STOP_TRIES: u32 = 3;
/// Slices with nothing to be written that are passed over at a time.
const IDLE_SLICES: usize = 8;
/// So many times the records that begin a round may wait with nothing to be written.
const IDLE_TIMES: usize = 4;
/// Time to wait for the table to be made durable before that is asked for again: it may have failed, milliseconds.
const SETTLE_AGAIN_MS: u64 = 5000;

/// A rank that stops soon stops when what is dirty fits one slice, or after so many rounds: what is changed faster than it is written does not
/// get less.
const SOON_ROUNDS: u32 = 8;
/// Or after so long, milliseconds.
const SOON_MS: u64 = 10_000;

/// A stop that is to come.
#[derive(Clone, Copy, Debug)]
struct Soon {
    rounds: u32,
    until_ms: u64,
}

struct Slice {
    id: u64,
    /// Until it is given out.
    records: Option<Vec<Record>>,
    upto: Lsn,
    /// It is in the table; the end waits for reads up to this one.
    landed: Option<u64>,
}

/// State of checkpoints into the table.
#[derive(Default)]
pub(crate) struct Checkpointer {
    last_id: u64,
    slice: Option<Slice>,
    /// The round that goes on: everything up to here is to be written.
    round: Option<Lsn>,
    /// When the last round ended.
    ended_ms: u64,
    retry_ms: u64,
    /// Slices in a row that could not be written.
    failed: u32,
    trimmed: Lsn,
    soon: Option<Soon>,
}

impl Checkpointer {
    /// True if nothing can be written now: a slice is on its way, or has failed a moment ago.
    pub(crate) fn is_held_up(&self, core: &Core) -> bool {
        self.slice.is_some() || core.now.mono_ms < self.retry_ms
    }

    /// True if a round is to begin.
    pub(crate) fn begins_round(&self, core: &Core, sessions: &Sessions) -> bool {
        self.round.is_none() && self.is_time_to_checkpoint(core, sessions)
    }

    pub(crate) fn begin_round(&mut self, upto: Lsn) {
        self.round = Some(upto);
    }

    /// Everything up to a record is wanted in the table.
    pub(crate) fn want(&mut self, lsn: Lsn) {
        if self.round.is_none_or(|round| round < lsn) {
            self.round = Some(lsn);
        }
    }

    /// Takes the next slice of the round, or ends it.
    pub(crate) fn go_on(&mut self, core: &mut Core, cluster: &mut Cluster, heat: &mut Heat, grace: &Option<Grace>) {
        let Some(upto) = self.round else { return };
        let mut idle = 0;
        while core.tree.oldest_dirty().is_some_and(|oldest| oldest <= upto) {
            if idle == IDLE_SLICES {
                // The rest at the next tick.
                return;
            }
            let taken = core.tree.take_checkpoint(core.config.checkpoint_records);
            if taken.records.is_empty() {
                core.tree.checkpoint_done();
                idle += 1;
                continue;
            }
            self.last_id += 1;
            let id = self.last_id;
            self.slice = Some(Slice { id, records: Some(taken.records), upto: taken.upto, landed: None });
            return self.emit_checkpoint(core, cluster, heat);
        }
        self.round = None;
        self.ended_ms = core.now.mono_ms;
        if let Some(soon) = &mut self.soon {
            soon.rounds += 1;
            self.stop_if_soon(core, cluster, grace);
        }
    }

    /// The slice is in the table; false if it is another one.
    pub(crate) fn is_written(&mut self, core: &mut Core, id: u64) -> bool {
        let Some(slice) = self.slice.as_mut().filter(|slice| slice.id == id) else { return false };
        slice.landed = Some(core.loads.newest());
        self.failed = 0;
        core.log.full = false;
        true
    }

    /// Ends the slice that is in the table, unless a read is under way that may have seen the table before it; whether it has ended.
    pub(crate) fn land(&mut self, core: &mut Core) -> bool {
        let landed = self.slice.as_ref().and_then(|slice| slice.landed);
        let Some(behind) = landed else { return false };
        if core.loads.is_behind(behind) {
            return false;
        }
        self.slice = None;
        core.tree.checkpoint_done();
        true
    }

    /// True if a slice is in the table and its end is held back.
    #[cfg(test)]
    pub(crate) fn is_held(&self) -> bool {
        self.slice.as_ref().is_some_and(|slice| slice.landed.is_some())
    }

    /// A record is wanted in the table for good: asks for that, if it is there; else up to where a checkpoint is needed before.
    pub(crate) fn settle(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        cluster: &mut Cluster,
        lsn: Lsn,
    ) -> Option<Lsn> {
        let oldest = core.tree.oldest_dirty().unwrap_or(core.log.last.next());
        // What a merge made true gets into memory after its record, and is dirty from then on only.
        let written = oldest.min(core.log.durable.next());
        let table_upto = core.tree.settled_for_merges(written);
        if table_upto <= lsn {
            let with_merges = if table_upto < written { core.log.last } else { lsn };
            return Some(with_merges.max(lsn));
        }
        let atlas = &mut cluster.atlas;
        if atlas.settling <= lsn || core.now.mono_ms >= atlas.settling_ms + SETTLE_AGAIN_MS {
            (atlas.settling, atlas.settling_ms) = (table_upto, core.now.mono_ms);
            let replay_from = core.needed_from(sessions, cluster);
            self.trimmed = self.trimmed.max(replay_from);
            core.out.push_back(Output::Settle { replay_from, table_upto });
        }
        None
    }

    /// The rank is to stop soon; false if it stops, or was told so.
    pub(crate) fn stops_soon(&mut self, core: &Core) -> bool {
        if core.stopping || self.soon.is_some() {
            return false;
        }
        self.soon = Some(Soon { rounds: 0, until_ms: core.now.mono_ms + SOON_MS });
        true
    }

    /// True if a slice is on its way into the table.
    pub(crate) fn checkpoint_is_under_way(&self) -> bool {
        self.slice.is_some()
    }

    fn is_time_to_checkpoint(&self, core: &Core, sessions: &Sessions) -> bool {
        let dirty = core.tree.oldest_dirty().is_some() || sessions.oldest_unsaved().is_some();
        // On a full disk what removals have freed of the journal is needed soon.
        let age_max = if core.log.no_room { RETRY_MS } else { core.config.dirty_ms_max };
        let old = core.now.mono_ms >= self.ended_ms + age_max;
        let long = core.log.limit > 0 && core.log.used > core.log.limit / 2;
        // Before changes have to wait for it.
        let full = core.is_overfull(core.config.cache_bytes_max / 16);
        let many = core.tree.dirty_records() > core.config.dirty_max
            || core.tree.dirty_queue() / IDLE_TIMES > core.config.dirty_max;
        dirty && (core.stopping || self.soon.is_some() || old || long || full || many)
    }

    /// Gives the slice out as soon as the journal holds all that it contains.
    pub(crate) fn emit_checkpoint(&mut self, core: &mut Core, cluster: &mut Cluster, heat: &mut Heat) {
        let durable = core.log.durable;
        if let Some(slice) = self.slice.as_mut().filter(|slice| slice.upto <= durable)
            && let Some(records) = slice.records.take()
        {
            let id = slice.id;
            heat.heat_store(core, cluster, &records);
            core.out.push_back(Output::Checkpoint { id, records });
        }
    }

    /// The slice could not be written.
    pub(crate) fn checkpoint_failed(&mut self, core: &mut Core, id: u64, full: bool) {
        if self.slice.as_ref().is_none_or(|slice| slice.id != id) {
            return;
        }
        self.slice = None;
        core.tree.checkpoint_failed();
        self.retry_ms = core.now.mono_ms + RETRY_MS;
        core.counters.checkpoints_failed += 1;
        self.failed += 1;
        if core.stopping && !full && self.failed >= STOP_TRIES && !core.stopped {
            core.stopped = true;
            let text = "the store takes no more writes, so it cannot be stopped in order: check the disk under the data directory, or the \
                        cluster, then start the server again; it recovers everything it acknowledged from its journal";
            core.out.push_back(Output::Fatal { text: text.into() });
        }
        if full && !core.log.full {
            core.log.full = true;
            // Those who wait learn that waiting does not help.
            core.parked.wake(&WaitReason::Space);
        }
    }

    /// Says from where on the journal is needed, if that is further than before.
    pub(crate) fn trim(&mut self, core: &mut Core, sessions: &Sessions, cluster: &Cluster) {
        let below = core.needed_from(sessions, cluster);
        if below > self.trimmed {
            self.trimmed = below;
            core.tree.drop_pins(below);
            core.out.push_back(Output::Trim { below });
        }
    }

    /// Stops if it is to stop soon and little is left, or it does not get less. Nobody is served before the grace time is over, so
    /// then there is nothing to wait for.
    pub(crate) fn stop_if_soon(&mut self, core: &mut Core, cluster: &Cluster, grace: &Option<Grace>) {
        let Some(Soon { rounds, until_ms }) = self.soon else { return };
        let late = rounds >= SOON_ROUNDS || core.now.mono_ms >= until_ms || grace.is_some();
        if late || core.tree.dirty_records() <= core.config.checkpoint_records {
            self.soon = None;
            self.stop(core, cluster);
        }
    }

    /// Stop: everything goes into the table first.
    pub(crate) fn stop(&mut self, core: &mut Core, cluster: &Cluster) {
        core.stopping = true;
        // Room may have come since that was said: it is asked for once more.
        core.data.no_room = false;
        self.retry_ms = 0;
        cluster.borrowing.stop_borrowing(core);
    }
}

impl Sessions {
    /// The oldest change that only the journal knows to be executed.
    pub(crate) fn oldest_unsaved(&self) -> Option<Lsn> {
        self.iter().filter_map(|(_, session)| session.unsaved).min()
    }
}

impl Core {
    /// The journal is needed from here on.
    pub(crate) fn needed_from(&self, sessions: &Sessions, cluster: &Cluster) -> Lsn {
        let needed = self
            .tree
            .oldest_dirty()
            .into_iter()
            .chain(sessions.oldest_unsaved())
            .chain(cluster.atlas.oldest_promise(&cluster.peers))
            .chain(self.data.oldest())
            .min();
        let needed = needed.unwrap_or(self.log.last.next()).min(self.log.durable.next());
        self.tree.needed_for_merges(needed)
    }

    /// True if some of the journal is still needed, so that a checkpoint, or another rank, will free it.
    pub(crate) fn journal_is_needed(&self, sessions: &Sessions, cluster: &Cluster) -> bool {
        self.needed_from(sessions, cluster) <= self.log.last
    }
}
