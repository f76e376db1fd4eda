//! Questions and orders of an administrator to a rank, beside its status.

use loligo_types::{Frag, Ino, Rank, Route};

use crate::heat::{DirChanges, LoadVec};

/// A question or an order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Move authority over a directory and all below it (as far as it is this rank's) to another rank.
    Migrate { dir: Ino, to: Rank },
    /// The same for the names in a fragment of a directory and all below them.
    MigrateFrag { dir: Ino, frag: Frag, to: Rank },
    /// Bring all fragments of a directory together at this rank, which has its inode.
    Gather { dir: Ino },
    /// The progress of migrations.
    Migrations,
    /// The progress of the drain, if the rank is being drained.
    Drain,
    /// All this rank knows of the subtree map.
    Routes,
    /// Rates of the hottest fragments of directories; at most so many.
    Heat { most: usize },
}

/// The answer.
#[derive(Clone, PartialEq, Debug)]
pub enum Told {
    /// The migration was begun under this number.
    Begun(u64),
    /// The migrations under way and the last ones that ended.
    Migrations(Vec<Migration>),
    /// The progress of the drain; `None`: the rank is not being drained.
    Drain(Option<DrainStatus>),
    /// The subtree map.
    Routes(Vec<Route>),
    /// The rates of fragments, hottest first.
    Heat(Vec<SpotRates>),
    /// No; why, and what to do.
    Refused(String),
    /// The directory is this rank's to ask.
    Elsewhere(Rank),
}

/// Progress of a migration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Migration {
    /// Its number at the exporting rank.
    pub id: u64,
    /// The directory that moves.
    pub dir: Ino,
    /// The fragment, if it is not all that the rank has of it.
    pub frag: Option<Frag>,
    /// From there.
    pub from: Rank,
    /// There.
    pub to: Rank,
    /// `preparing`, `freezing`, `moving`, `done`, or why it failed.
    pub state: String,
    /// Inodes found so far that move, and those looked at of all that are in memory.
    pub inodes: u64,
    /// Looked at.
    pub seen: u64,
    /// Of so many.
    pub of: u64,
    /// Time that requests for it had to wait, microseconds (0: not yet).
    pub frozen_us: u64,
    /// Duration so far or in all, milliseconds.
    pub took_ms: u64,
}

/// Progress of a drain: a rank gives away all that it has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DrainStatus {
    /// The current stage, in words.
    pub state: String,
    /// Subtrees that it still has.
    pub subtrees_left: u64,
    /// Those that it has given away, or tried to.
    pub subtrees_given: u64,
    /// Files that live by themselves, known and not given away.
    pub files_left: u64,
    /// Given away, or tried.
    pub files_given: u64,
    /// Open inodes without a name: it waits for their last close.
    pub orphans: u64,
    /// Sessions of clients.
    pub sessions: u64,
    /// Since it began, milliseconds.
    pub took_ms: u64,
    /// Why it does not go on, and what to do.
    pub stuck: Option<String>,
}

/// Rates of a fragment of a directory, per second, on average over the last half-lives of the counters.
#[derive(Clone, PartialEq, Debug)]
pub struct SpotRates {
    /// The directory.
    pub dir: Ino,
    /// The fragment.
    pub frag: Frag,
    /// The directory above, if it is known without reading.
    pub parent: Option<Ino>,
    /// Entries that this rank counts in the directory. Of one whose fragments are several ranks' that is what came since it has them.
    pub entries: u64,
    /// Counts per second.
    pub load: LoadVec,
    /// Changes of directories below it per second.
    pub dirs: DirChanges,
}
