//! What an administrator can ask of a rank, beside its status.

use loligo_types::{Ino, Rank, Route};

/// A question or an order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Move authority over a directory and all below it (as far as it is this rank's) to another rank.
    Migrate { dir: Ino, to: Rank },
    /// How far that is.
    Migrations,
    /// All this rank knows of the subtree map.
    Routes,
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// The migration was begun under this number.
    Begun(u64),
    /// The migrations under way and the last ones that ended.
    Migrations(Vec<Migration>),
    /// The subtree map.
    Routes(Vec<Route>),
    /// No; why, and what to do.
    Refused(String),
    /// The directory is this rank's to ask.
    Elsewhere(Rank),
}

/// How far a migration is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Migration {
    /// Its number at the exporting rank.
    pub id: u64,
    /// What moves.
    pub dir: Ino,
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
    /// How long requests for it had to wait, microseconds (0: not yet).
    pub frozen_us: u64,
    /// How long it took so far or in all, milliseconds.
    pub took_ms: u64,
}
