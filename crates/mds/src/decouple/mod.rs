//! Decoupled subtrees: one client has all below a directory for itself, changes it where it is, and gives back what it made as a whole.
//! Here who has what, and which request goes where; `begin.rs` how it comes about and ends, `away.rs` what becomes of one whose owner
//! is not heard, `shut.rs` what others meet, `stages/asks.rs` what the owner is told, `objects.rs` what of its files' bytes it may
//! have, `look.rs` whether what it made is its to say, `shape.rs` and `whole.rs` whether that is a tree, `merge.rs` how it becomes
//! true, `into_table.rs` how it gets into the table past memory, `allow.rs` what is otherwise where others may work meanwhile,
//! `read.rs` where they may read, `fork.rs` files of which both have a version, `status.rs` what is shown, `nested.rs` what policies of
//! directories below have to say, `bounds.rs` those above; with several ranks, `gather.rs` how all of it comes to one of them, and
//! `migration_guard.rs` that it stays there. What the machine does for them with several parts is in `stages`. Not what the owner does
//! meanwhile.
//!
//! Source: Cudele (Sevilla 2018), chapter 6. With `interfere: block`, what is decoupled is nobody else's, in no way: not by a path, nor
//! by a number, nor through something that was open. So what the owner fetched stays as it was fetched, and what it has decided
//! upon that is still right when it is merged.

mod allow;
mod away;
mod begin;
mod bounds;
mod fork;
mod gather;
mod intake;
mod into_table;
mod look;
mod merge;
mod migration_guard;
mod nested;
mod objects;
mod read;
mod shape;
mod shut;
mod stages;
mod state;
mod status;
mod whole;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use intake::Intake;
use loligo_types::{Answer, DecoupledRecord, FsError, FsResult, Ino, Lsn, SessionId, SplitRule, SubtreeAnswer};
use state::{DataRights, Gathering};

use crate::core::Core;
use crate::job::Job;
use crate::session::Slot;
pub(crate) use state::TICKETS as POLICY_TICKETS;
pub use status::{DecoupledCount, DecoupledStatus, OwnerAway};

/// A decoupled subtree's state in this life of the rank; the record holds the rest.
#[derive(Default)]
pub(crate) struct Owned {
    /// The session that speaks for its owner.
    by: Option<(Slot, SessionId)>,
    /// That session may do things below paths only: its word does not count of what may be elsewhere.
    path_bound: bool,
    /// Since when nobody speaks for it, milliseconds.
    lost_ms: u64,
    /// The session of an owner from whom it was taken, and who is being told.
    tells: Option<Slot>,
    /// Where others may work: the session of its owner answers there by itself, and is none of those.
    answers: bool,
    /// It has nothing there any more that it had as one of them.
    has_left: bool,
    /// Nobody else holds anything on what is below it.
    alone: bool,
    /// Parts of a merge that have come.
    intake: Option<Intake>,
    /// The rights of the owner's session on objects.
    data: DataRights,
    /// Which part of which merge waits for records, and since when: those behind it wait for it.
    part_waits: Option<(u64, u32, u64)>,
    /// A merge is decided, and what it says is on its way into memory.
    merging: bool,
    /// Files with several names that were found to be below it.
    lent: BTreeSet<Ino>,
    /// It goes into the table first.
    into_table: Option<state::IntoTable>,
    /// Inodes that others have removed and its owner may have changed.
    held: state::Held,
    /// Files of which its owner and others each have a version.
    forks: state::Forks,
    /// Conflicts of the last merge of this life.
    last: state::LastConflicts,
    /// It is about to end: files that are not yet as they were at the last merge.
    putting_back: Option<BTreeSet<Ino>>,
    /// Files to put back, and their copies, when this record is durable.
    restores: Option<(Lsn, Vec<(Ino, Ino)>)>,
}

impl Owned {
    /// True if memory has nothing to do for its merge now.
    pub(super) fn waits_for_table(&self) -> bool {
        !matches!(self.into_table, None | Some(state::IntoTable::Follows(..)))
    }
}

/// All decoupled subtrees.
#[derive(Default)]
pub(crate) struct Decoupled {
    /// Orphans that were to have a version of others for a merge which was given up, while that is copied.
    dropped: BTreeSet<Ino>,
    by_dir: BTreeMap<Ino, Owned>,
    /// The number of the last question to the table.
    last_rows: u64,
    /// Directories that are to be, of which it is found out what other ranks have of them.
    gathering: BTreeMap<Ino, Gathering>,
    /// Until then all replicas are asked back for one, milliseconds, and none is given.
    pub(crate) asks_until_ms: u64,
    /// Number of times that directories of other ranks may have come below directories of this one.
    arrivals: u64,
    /// Open files that a merge has changed since their session asked for the size.
    hidden: BTreeSet<(Ino, Slot)>,
    /// Files of which nobody changes the data for now.
    still: BTreeSet<Ino>,
    /// Those that go on when a record is durable.
    thaws: VecDeque<state::Thaws>,
    /// Directories with policies of their own.
    policied: state::Policied,
}

impl Decoupled {
    /// True while a merge is on its way into memory: until it is there nothing else may change below that root.
    pub(crate) fn is_merging(&self) -> bool {
        self.merging_dir().is_some()
    }

    /// The root of the subtree whose merge is on its way into memory.
    fn merging_dir(&self) -> Option<Ino> {
        self.by_dir.iter().find(|(_, owned)| owned.merging).map(|(dir, _)| *dir)
    }

    /// Forgets parts of merges that are not decided: they hold the journal. Their owners send them again from the first part on.
    pub(crate) fn drop_intakes(&mut self, core: &mut Core) {
        core.tree.drop_merges();
        self.by_dir.values_mut().for_each(|owned| (owned.intake, owned.part_waits) = (None, None));
    }

    /// The record of a subtree, if this request may speak for it: `Stale` if it is not its any more, whatever became of it.
    fn owned(&self, core: &Core, job: &Job, dir: Ino, epoch: u64) -> FsResult<DecoupledRecord> {
        let record = core.tree.decoupled(dir).filter(|record| record.epoch == epoch).ok_or(FsError::Stale)?;
        match self.by_dir.get(&dir) {
            Some(owned) if owned.by == Some((job.slot, job.session)) => Ok(record.clone()),
            _ => Err(FsError::Stale),
        }
    }
}

impl Core {
    /// The answer to a decoupled subtree's owner: the record, the root and its settings.
    fn tell_decoupled(&self, record: DecoupledRecord) -> FsResult<Answer> {
        let root = self.tree.inode(record.dir).ok_or(FsError::Stale)?;
        let frag = self.tree.config().frag;
        let split = SplitRule { split: frag.split_entries, merge: frag.merge_entries, bits: frag.split_bits };
        let inline_max = self.tree.config().inline_max;
        let root = Box::new(root.clone());
        Ok(Answer::Subtree(Box::new(SubtreeAnswer::Decoupled { record, root, inline_max, split })))
    }
}
