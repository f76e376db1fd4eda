//! The policy of a directory and all below it: how changes there come about, and what goes along (Cudele, thesis chapter 6; its
//! keys are those of the document). Reading one is in `read.rs`, what changes from one to another in `changes.rs`, what was in force before in `history.rs`. Not here:
//! where it is kept, which directory's counts.

mod changes;
pub mod history;
mod interval;
mod journal;
mod placement;
mod read;
#[cfg(test)]
mod tests;

use std::fmt::{self, Write};

pub use changes::changes;
pub use history::History;
pub use interval::SyncInterval;
use loligo_types::{JournalMode, Journaling, Placement};
pub use placement::{names_placement, with_placement};

use crate::ceiling::{Bounds, Ceiling};
use crate::cell::{Cell, Consistency, Durability};
use crate::fault::{Cause, Fault};
use crate::floor::Floor;
use crate::pipeline::Pipeline;
use crate::preset::Preset;

/// Longest document, bytes.
pub const LEN_MAX: usize = 4096;
/// Inode numbers that who decouples a subtree gets if nothing is said (Cudele's default).
pub const ALLOCATED_INODES: u64 = 100;
/// Most that can be asked for.
pub const ALLOCATED_INODES_MAX: u64 = 1 << 32;

/// Longest time that a change of a relaxed directory stays not durable, if the policy says nothing.
pub const LAG: SyncInterval = SyncInterval::seconds(5);
/// Longest that can be said, milliseconds.
const LAG_MAX_MS: u64 = 3_600_000;

/// Handling of other clients' requests below a decoupled subtree (Cudele's interfere policy).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interfere {
    /// They are done; at the merge the client that decoupled it wins.
    Allow,
    /// Those that only read are done, on the state of the last merge; others are refused as busy (ours).
    Read,
    /// They are refused as busy.
    Block,
}

impl Interfere {
    /// Its name in a document.
    pub fn name(self) -> &'static str {
        match self {
            Interfere::Allow => "allow",
            Interfere::Read => "read",
            Interfere::Block => "block",
        }
    }

    /// If nothing is said. Without a client's journal nothing is decoupled, and others work there as anywhere. With one they are refused, but for
    /// reading where what was done is merged while the work goes on: for that it is.
    fn default_of(pipeline: &Pipeline, syncs: bool) -> Interfere {
        match pipeline.has_client_journal() {
            false => Interfere::Allow,
            true if syncs && pipeline.merges() => Interfere::Read,
            true => Interfere::Block,
        }
    }

    /// The one of a name.
    pub fn of(name: &str) -> Option<Interfere> {
        [Interfere::Allow, Interfere::Read, Interfere::Block].into_iter().find(|one| one.name() == name)
    }
}

impl fmt::Display for Interfere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A policy that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubtreePolicy {
    pipeline: Pipeline,
    allocated_inodes: u64,
    interfere: Interfere,
    sync_interval: Option<SyncInterval>,
    lag: Option<SyncInterval>,
    blind: bool,
    placement: Option<Placement>,
    journal: Option<JournalMode>,
    journal_threshold: Option<u32>,
    floor: Floor,
    ceiling: Ceiling,
}

impl Default for SubtreePolicy {
    /// That of an empty document: posix, 100 inodes, others allowed.
    fn default() -> SubtreePolicy {
        SubtreePolicy::of(Preset::Posix)
    }
}

impl SubtreePolicy {
    /// A preset with nothing else said.
    pub fn of(preset: Preset) -> SubtreePolicy {
        let pipeline = preset.cell().composition();
        SubtreePolicy {
            interfere: Interfere::default_of(&pipeline, false),
            pipeline,
            allocated_inodes: ALLOCATED_INODES,
            sync_interval: None,
            lag: None,
            blind: false,
            placement: None,
            journal: None,
            journal_threshold: None,
            floor: Floor::default(),
            ceiling: Ceiling::default(),
        }
    }

    /// Reads a document: TOML, at most 4 KiB. The keys and what they mean: docs/subtree-policies.md.
    ///
    /// # Errors
    ///
    /// What is wrong, with line and column.
    pub fn parse(text: &str) -> Result<SubtreePolicy, Fault> {
        read::read(text).map_err(|flaw| flaw.in_text(text))
    }

    /// The same of bytes that may be anything.
    ///
    /// # Errors
    ///
    /// What is wrong, with line and column.
    pub fn parse_bytes(bytes: &[u8]) -> Result<SubtreePolicy, Fault> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let (good, _) = bytes.split_at(error.valid_up_to());
            Fault::new(Cause::NoText, &String::from_utf8_lossy(good), good.len())
        })?;
        SubtreePolicy::parse(text)
    }

    /// The document that reads back as this policy, with all that counts said in it; at most 4 KiB.
    pub fn to_text(&self) -> String {
        let mut out = format!("pipeline = \"{}\"\n", self.pipeline);
        let mut line = |key: &str, value: &dyn fmt::Display| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{key} = {value}");
        };
        line("allocated_inodes", &self.allocated_inodes);
        line("interfere", &format_args!("\"{}\"", self.interfere));
        if let Some(interval) = self.sync_interval {
            line("sync_interval", &format_args!("\"{interval}\""));
        }
        if let Some(lag) = self.lag {
            line("lag", &format_args!("\"{lag}\""));
        }
        line("blind", &self.blind);
        if let Some(placement) = self.placement {
            line(placement::KEY, &format_args!("\"{}\"", placement.name()));
        }
        if let Some(mode) = self.journal {
            line(journal::KEY, &format_args!("\"{}\"", mode.name()));
        }
        if let Some(threshold) = self.journal_threshold {
            line(journal::THRESHOLD_KEY, &format_args!("\"{}\"", journal::shown(threshold)));
        }
        if !self.floor.is_none() {
            out.push_str("\n[floor]\n");
            let levels = [
                ("consistency", self.floor.consistency.map(|level| level.name())),
                ("durability", self.floor.durability.map(|level| level.name())),
            ];
            for (key, level) in levels {
                out.push_str(&level.map_or(String::new(), |level| format!("{key} = \"{level}\"\n")));
            }
        }
        if !self.ceiling.is_none() {
            out.push_str("\n[ceiling]\n");
            let lines = [
                self.ceiling.forbids.then(|| "decouple = false\n".to_string()),
                self.ceiling.allocated_inodes.map(|most| format!("allocated_inodes = {most}\n")),
                self.ceiling.lease.map(|most| format!("lease = \"{most}\"\n")),
            ];
            lines.into_iter().flatten().for_each(|line| out.push_str(&line));
        }
        out
    }

    /// The pipeline by which changes are made, become durable and become visible.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// The cell that it promises, once all of the pipeline is done.
    pub fn cell(&self) -> Cell {
        self.pipeline.cell()
    }

    /// Number of inode numbers granted to the client that decouples the subtree.
    pub fn allocated_inodes(&self) -> u64 {
        self.allocated_inodes
    }

    /// Handling of other clients' requests while the subtree is decoupled.
    pub fn interfere(&self) -> Interfere {
        self.interfere
    }

    /// Interval at which the client's journal is merged while the work goes on; none: only when the work is done.
    pub fn sync_interval(&self) -> Option<SyncInterval> {
        self.sync_interval
    }

    /// True if answers come before changes are durable: its consistency is strong, and its durability not global.
    pub fn is_relaxed(&self) -> bool {
        let cell = self.cell();
        cell.consistency == Consistency::Strong && cell.durability != Durability::Global
    }

    /// Longest time that a change stays not durable, if the policy is relaxed ([`LAG`] if it says nothing). None: a change is durable when
    /// it is answered, or not at all before it is merged.
    pub fn lag(&self) -> Option<SyncInterval> {
        self.is_relaxed().then(|| self.lag.unwrap_or(LAG))
    }

    /// True if a merge takes the client's journal as it is, without validating each change, as the paper does.
    pub fn blind(&self) -> bool {
        self.blind
    }

    /// Where directories live that are made below; none: it says nothing of that, and they live as they would without this policy.
    pub fn placement(&self) -> Option<Placement> {
        self.placement
    }

    /// Mode of the data journal of files below; none: that of the server.
    pub fn journaling(&self) -> Option<Journaling> {
        let threshold = self.journal_threshold.unwrap_or(Journaling::default().threshold);
        self.journal.map(|mode| Journaling { mode, threshold })
    }

    /// Largest synced write in the journal, bytes, if the policy says one.
    pub fn journal_threshold(&self) -> Option<u32> {
        self.journal_threshold
    }

    /// True if the policy excludes this placement of a directory: a decoupled subtree is given to one client at one rank, so its
    /// directories cannot scatter.
    pub fn excludes(&self, placement: Placement) -> bool {
        self.pipeline.has_client_journal() && placement.scatters()
    }

    /// The least that policies of directories below must promise.
    pub fn floor(&self) -> Floor {
        self.floor
    }

    /// The most that may be done by decoupling it, or directories below.
    pub fn ceiling(&self) -> Ceiling {
        self.ceiling
    }

    /// Both.
    pub fn bounds(&self) -> Bounds {
        Bounds { floor: self.floor, ceiling: self.ceiling }
    }
}
