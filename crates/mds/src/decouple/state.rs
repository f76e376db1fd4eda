//! State of decoupled subtrees in this life of the rank, as plain data: gathering, versions of files, rights on objects, looks for policies,
//! and what a merge waits for. What becomes of it is not here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use loligo_namespace::{MergedRows, SUBTREE};
use loligo_types::{Conflict, DataError, Event, Ino, Inode, Lsn, Rank};

use crate::io::DataAccess;

/// Progress of gathering a subtree.
#[derive(Default)]
pub(super) struct Gathering {
    /// Only answers to later questions count.
    pub(super) after: u64,
    /// Number of directories that had come here from others by then.
    pub(super) arrivals: u64,
    /// Directories of others that are not below it.
    pub(super) clear: BTreeSet<Ino>,
    /// Those that are, who has them, and when that one was asked last, milliseconds.
    pub(super) asked: BTreeMap<(Ino, Rank), u64>,
    /// One of those that were asked does not give it.
    pub(super) refused: bool,
    /// When it was last looked at, milliseconds.
    pub(super) at_ms: u64,
}

/// Rights on objects of a session that speaks for a subtree's owner.
#[derive(Default)]
pub(super) struct DataRights {
    pub(super) files: BTreeSet<Ino>,
    pub(super) ranges: Vec<(Ino, u64, DataAccess)>,
}

impl DataRights {
    /// One file more.
    pub(super) fn add_file(&mut self, ino: Ino) {
        self.files.insert(ino);
    }

    /// Files that were there before, one by one.
    pub(super) fn files(&self) -> Vec<Ino> {
        self.files.iter().copied().collect()
    }
}

/// Directories with policies of their own, as far as is known without the table, and looks at that.
#[derive(Default)]
pub(crate) struct Policied {
    pub(super) known: BTreeSet<Ino>,
    pub(super) looks: BTreeMap<Ino, Look>,
    pub(super) last: u64,
}

/// A look at the table on behalf of a directory that is to be decoupled.
pub(super) struct Look {
    pub(super) ticket: u64,
    /// Number of directories that had come here from other ranks when it began.
    pub(super) arrivals: u64,
    pub(super) asked_ms: u64,
    pub(super) next: Option<Ino>,
    pub(super) found: BTreeSet<Ino>,
}

impl Policied {
    /// A record was made, or replayed.
    pub(super) fn note(&mut self, event: &Event) {
        match event {
            Event::Xattr { ino, name, .. } if **name == *SUBTREE => _ = self.known.insert(*ino),
            Event::XattrGone { ino, name } if **name == *SUBTREE => _ = self.known.remove(ino),
            Event::InodeGone(ino) => _ = self.known.remove(ino),
            _ => {}
        }
    }

    /// A request has ended.
    pub(super) fn forget(&mut self, dir: Ino) {
        self.looks.remove(&dir);
    }
}

/// The forked files of a subtree, as this life of the rank knows them.
#[derive(Default)]
pub(super) struct Forks {
    /// Those of which the object server knows.
    pub(super) frozen: BTreeSet<Ino>,
    /// The record with files that are to be forked.
    pub(super) noted: Option<Lsn>,
    /// Files as others had them when they were forked, or looked at; and whether others had changed them before that.
    pub(super) seen: BTreeMap<Ino, (Box<Inode>, bool)>,
    /// The object server is asked about these, which are as they are here.
    pub(super) asked: BTreeMap<Ino, Box<Inode>>,
    /// The others' versions that the merge which is decided upon keeps, or puts back.
    pub(super) kept: BTreeMap<Ino, Kept>,
    /// Files that are held still for it, or for the end.
    pub(super) still: BTreeSet<Ino>,
}

/// The others' version of a file.
pub(super) struct Kept {
    /// The orphan that gets it; none: the file itself.
    pub(super) to: Option<Ino>,
    /// Its length, and the size of its objects.
    pub(super) len: u64,
    pub(super) object_size: u32,
    pub(super) is: State,
}

pub(super) enum State {
    /// It begins when this is durable.
    Noted(Lsn),
    Copied,
    Done,
    Failed(DataError),
}

impl Forks {
    /// True if an orphan is to have a version of others: the merge that is prepared gives it a name.
    pub(super) fn keeps(&self, orphan: Ino) -> bool {
        self.kept.values().any(|kept| kept.to == Some(orphan))
    }
}

/// Inodes that others have removed below a root.
#[derive(Default)]
pub(super) struct Held {
    pub(super) inos: BTreeSet<Ino>,
    /// It was found so after a restart, when nobody can tell where it was: only what is the owner's own comes back.
    pub(super) found: bool,
    /// Inodes that its owner has open, as it says: of these nothing goes with a merge.
    pub(super) open: BTreeSet<Ino>,
    /// Those that a merge of this life has left for that reason: their owner knows that they have no name.
    pub(super) left: BTreeSet<Ino>,
}

/// Conflicts of the last merge, for an owner who asks again.
#[derive(Default)]
pub(super) struct LastConflicts {
    pub(super) count: u64,
    pub(super) told: Vec<Conflict>,
}

/// Stage of a merge that goes into the table.
#[derive(Debug)]
pub(super) enum IntoTable {
    /// The record is on its way into the journal.
    Waits(Lsn, BTreeSet<Ino>),
    /// The table is asked; with the number of the question.
    Asked(u64, BTreeSet<Ino>),
    /// The rows are there; reads up to this one may have seen the table before.
    There(u64, BTreeSet<Ino>, Box<MergedRows>),
    /// Memory forgets what it knew of these, and is told the rest.
    Follows(BTreeSet<Ino>, VecDeque<Event>),
}

/// When which files of the subtree with this root are let go; true: a file is one again.
pub(super) type Thaws = (Lsn, Ino, Vec<(Ino, bool)>);

/// Tickets of these looks begin here: those of a rank that gives everything away are smaller.
pub(crate) const TICKETS: u64 = 1 << 63;
