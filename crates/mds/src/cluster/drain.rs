//! A rank that gives everything away, so that it can be removed: subtrees, files that live by themselves, letters; then its
//! clients go. The course stands in docs/cluster.md, "Membership". One subtree after the other, each a migration as any.
//! Here the state; the stages are in `draining.rs`.

use std::collections::{BTreeMap, VecDeque};

use loligo_types::{Ino, Lsn, Rank};

use crate::io::Scan;

/// Delay before something that could not be done is tried again, milliseconds.
pub(super) const RETRY_MS: u64 = 300;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Everything up to this record (all there is, as long as none is named) gets into the table, so that it can be looked
    /// through.
    Settling(Option<Lsn>, Scan),
    /// It is looked through, from this inode on.
    Looking(Scan, Ino),
    /// Subtrees move.
    Giving,
    /// Directories move that were found so far, which are here because of their numbers; then the look goes on from there.
    GivingScattered(Option<Ino>),
    /// Files move that were found so far; then the look goes on from there.
    GivingFiles(Option<Ino>),
    /// Some inodes without a name are open.
    Orphans,
    /// The inodes given away must be in the table of the ranks that have them now, and nothing else may be under way.
    Landing,
    /// The others were told.
    Parting,
    /// The keeper of the map was told.
    Parted,
    /// Clients end their sessions.
    Leaving,
    /// So they have.
    Left,
    /// It cannot be drained; the keeper of the map was told.
    Refused,
}

/// State of a drain.
pub(crate) struct Drain {
    pub(super) stage: Stage,
    pub(super) begun_ms: u64,
    /// Nothing is tried before this.
    pub(super) not_before_ms: u64,
    pub(super) ticket: u64,
    /// Directories with a pin that names this rank among others.
    pub(super) pins: VecDeque<(Ino, Vec<Rank>)>,
    /// Those with one that names no other rank that takes more.
    pub(super) bound: Vec<Ino>,
    pub(super) files: Vec<Ino>,
    /// Directories whose number names this rank, found in the table.
    pub(super) scattered: VecDeque<Ino>,
    /// Number of scattered directories that had come here by messages when the table was scanned.
    pub(super) came: u64,
    /// Load given to each rank, in parts of this one's load.
    pub(super) given: BTreeMap<Rank, f64>,
    pub(super) subtrees_given: u64,
    pub(super) files_given: u64,
    /// Letters that this rank had had when it said to the others that it has nothing any more.
    pub(super) letters_got: u64,
    /// The migration that it has begun last, until it has looked what became of it.
    pub(super) tried: Option<u64>,
    /// Why that one, or the one before it, failed; it is tried again.
    pub(super) refused: Option<String>,
    /// Nobody is there to give to, and why.
    pub(super) stuck: Option<String>,
}

impl Drain {
    /// One that begins now.
    pub(crate) fn new(now_ms: u64) -> Drain {
        Drain {
            stage: Stage::Settling(None, Scan::Pins),
            begun_ms: now_ms,
            not_before_ms: 0,
            ticket: 0,
            pins: VecDeque::new(),
            bound: Vec::new(),
            files: Vec::new(),
            scattered: VecDeque::new(),
            came: 0,
            given: BTreeMap::new(),
            subtrees_given: 0,
            files_given: 0,
            letters_got: 0,
            tried: None,
            refused: None,
            stuck: None,
        }
    }

    /// The record up to which all must be in the table before it goes on, if that is waited for.
    pub(super) fn settling(&self) -> Option<Lsn> {
        match self.stage {
            Stage::Settling(upto, _) => upto,
            _ => None,
        }
    }
}
