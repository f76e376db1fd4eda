//! Subtrees that are decoupled for this client, and worked in by programs that know nothing of it (Cudele, thesis §6.3: the client
//! library, but through any call): what they ask of names and attributes below such a directory is answered here, as if by a rank of the client's
//! own, and journaled for the merge. Here what is known of them and which operation goes there.
//!
//! Four stages are methods of the machine: `serve.rs` carries an operation out and sends bytes, `ask.rs` gets from the rank what is missing and
//! begins what people order, `task.rs` completes and ends, `merge.rs` runs the stages of a pipeline and takes over what others did in the
//! meantime. The parts: `decide.rs` decides an operation, `users.rs` says in whose name, `needs.rs` what is asked next, `data.rs` which files need
//! a version of the owner's own, `locks.rs` who gets a lock, `seal.rs` what waits for a cut, `goal.rs` how far a task is, `store.rs` what of the
//! journal goes into the store, `rebase.rs` what conflicts are told, `command.rs` how people say and see all that. Not how an operation is decided by
//! itself ([`loligo_subtree`]), nor how a subtree comes to be given or merged at the rank.
//!
//! Nobody else changes what is answered here before the next merge, so all of it may be cached, and open files may hold everything back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use loligo_subtree::{Growing, Subtree};
use loligo_subtree_policy::{Mechanism, SubtreePolicy};
use loligo_types::hash::IntMap;
use loligo_types::{About, Attr, Control, Cred, FsError, FsResult, Ino, Lease, Op, Rank, SubtreeOp};

use crate::Call;
use crate::calls::Waiter;
use crate::ranks::Ranks;
use crate::session::{PendingData, Then};
use crate::task::Task;
pub use command::NAME as SUBTREE_XATTR;
pub(crate) use goal::{OwnTask, SyncFirst};
pub(crate) use needs::Ask;

mod ask;
mod command;
mod data;
mod decide;
mod goal;
mod locks;
mod merge;
mod needs;
mod rebase;
mod seal;
mod serve;
mod store;
mod task;
mod users;

/// The pseudo-rank that serves what is decoupled for this client. No rank has this number.
pub(crate) const OWN: Rank = Rank(u16::MAX - 1);

/// Something that was asked of it.
#[derive(Debug)]
pub(crate) struct Job {
    pub cred: Cred,
    pub op: Op,
    pub then: Then,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct OwnReply {
    pub op: Op,
    pub then: Then,
    pub result: FsResult<loligo_types::Answer>,
}

/// A subtree that is decoupled for this client.
pub(crate) struct Owned {
    pub machine: Subtree,
    pub policy: SubtreePolicy,
    /// Credentials of the user who decoupled it; requests to the rank and merges use them.
    pub cred: Arc<Cred>,
    /// Handles, and how many each inode has.
    pub handles: BTreeMap<u64, Ino>,
    pub opens: IntMap<Ino, u32>,
    /// Jobs that wait for records or numbers, and the records they need.
    pub waiting: Vec<Job>,
    pub needs: Vec<loligo_types::Need>,
    pub numbers: bool,
    /// The rank is being asked for something that waits.
    pub asked: bool,
    /// It may have been taken from this client: the rank is to be asked.
    pub doubted: bool,
    /// Recalls that say so, by rank and number: they are answered when it is known.
    pub told: Vec<(Rank, u64)>,
    /// Files that were there before whose objects this session may have.
    pub rights: BTreeSet<Ino>,
    /// Where others read what was merged: those whose objects it may read alone.
    pub reads: BTreeSet<Ino>,
    /// The rank has said so of numbers that were granted, to this session.
    pub ranges_count: bool,
    /// True while written data goes to the server and new writes wait for that, before the cut of the state that others will read.
    pub freezing: bool,
    /// True from the cut until the merge is done: changes of objects wait.
    pub sealed: bool,
    /// True from the cut until what others did meanwhile is known here: all requests wait.
    pub gated: bool,
    pub held: Vec<(u64, PendingData)>,
    /// Rights are asked for one after the other, because there is none to one of several.
    pub one_by_one: bool,
    /// Data requests that wait for a right.
    pub data: Vec<(u64, PendingData)>,
    /// Where others work: calls that change data of files of which the owner does not have a version of its own yet.
    pub unforked: Vec<(Ino, Waiter, Arc<Cred>, Call)>,
    /// Files of which it has one, until the next merge.
    pub forked: BTreeSet<Ino>,
    /// Number of merges after which what was known here was forgotten.
    pub rebased: u64,
    /// Nothing goes in any more: it ends. What comes meanwhile waits.
    pub ending: bool,
    /// The task that persists, merges or ends, and those that wait for it.
    pub task: Option<u64>,
    pub queue: VecDeque<Task>,
    /// When what is outstanding was sent on last, milliseconds.
    pub synced_ms: u64,
    /// Number of outstanding changes that are on the disk, and the number once the current write of the journal ends.
    pub persisted: u64,
    pub persisting: u64,
    /// Where, for people.
    pub kept: Option<Box<str>>,
    /// The journal in the store, as far as it counts, and how many of the changes that are outstanding are in it.
    pub stored: Option<(Ino, Growing)>,
    pub stored_changes: u64,
    /// The stage of its pipeline that failed last and has not succeeded since, and why.
    pub failed: Option<(Mechanism, FsError)>,
    /// The number that was written last.
    pub last_journal: Option<Ino>,
    /// Number of times this session's rights to objects were found to be lost. Unsynced writes from before may be lost, too.
    pub life: u64,
    /// It could not be completed when the client stopped.
    pub given_up: bool,
}

impl Owned {
    /// True if something is known to be in it, or is open there.
    pub fn has(&self, ino: Ino) -> bool {
        self.machine.knows(ino) || self.opens.contains_key(&ino)
    }

    /// Forgets this session's rights to objects.
    pub fn forget_rights(&mut self) {
        self.rights.clear();
        self.reads.clear();
        self.ranges_count = false;
        self.life += 1;
    }

    pub fn new(machine: Subtree, policy: SubtreePolicy, cred: Arc<Cred>, now_ms: u64) -> Owned {
        Owned {
            machine,
            policy,
            cred,
            handles: BTreeMap::new(),
            opens: IntMap::default(),
            waiting: Vec::new(),
            needs: Vec::new(),
            numbers: false,
            asked: false,
            doubted: false,
            told: Vec::new(),
            rights: BTreeSet::new(),
            reads: BTreeSet::new(),
            freezing: false,
            sealed: false,
            gated: false,
            held: Vec::new(),
            ranges_count: false,
            one_by_one: false,
            data: Vec::new(),
            unforked: Vec::new(),
            forked: BTreeSet::new(),
            rebased: 0,
            ending: false,
            task: None,
            queue: VecDeque::new(),
            synced_ms: now_ms,
            persisted: 0,
            persisting: 0,
            kept: None,
            stored: None,
            stored_changes: 0,
            failed: None,
            last_journal: None,
            life: 0,
            given_up: false,
        }
    }
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owned").field("record", self.machine.record()).finish_non_exhaustive()
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Own {
    pub trees: BTreeMap<Ino, Owned>,
    pub replies: VecDeque<OwnReply>,
    /// Leases of inodes that caches above hold from answers given here.
    pub cached: IntMap<Ino, Lease>,
    /// Answers that wait until bytes are dropped, with how many drops are under way.
    pub drops: BTreeMap<u64, (usize, OwnReply)>,
    pub next_drop: u64,
    /// Locks that are waited for.
    pub locks: Vec<Job>,
    /// Invalidations that a task waits for.
    pub tokens: BTreeMap<crate::Token, u64>,
    pub commands: command::Commands,
    /// Number of subtrees decoupled so far.
    pub begun: u64,
}

impl Own {
    /// True if any subtree is decoupled.
    pub fn is_any(&self) -> bool {
        !self.trees.is_empty()
    }

    /// The root of the subtree that an inode is in, or that it is the root of.
    pub fn root_of(&self, ino: Ino) -> Option<Ino> {
        self.trees.iter().find(|(_, owned)| owned.has(ino)).map(|(root, _)| *root)
    }

    /// True if an inode's answer may be cached, because nobody else changes the inode. Others may change the attributes of a root.
    pub fn may_cache(&self, ino: Ino, bits: Lease) -> bool {
        let Some(root) = self.root_of(ino) else { return false };
        let stays = self.trees.get(&root).is_some_and(|owned| !owned.ending);
        stays && !(root == ino && bits.has(Lease::ATTR))
    }

    /// Caches above hold this of an inode.
    pub fn note_cached(&mut self, ino: Ino, bits: Lease) {
        let held = self.cached.entry(ino).or_default();
        *held = *held | bits;
    }

    /// An answer of its own.
    pub fn answer(&mut self, op: Op, then: Then, result: FsResult<loligo_types::Answer>) {
        self.replies.push_back(OwnReply { op, then, result });
    }

    /// Locks that are waited for, and answers that nobody has yet.
    pub fn asked_mut(&mut self) -> impl Iterator<Item = (&Op, &mut Then)> {
        let waits = self.locks.iter_mut().map(|job| (&job.op, &mut job.then));
        waits.chain(self.replies.iter_mut().map(|reply| (&reply.op, &mut reply.then)))
    }

    /// The root of the subtree in which an operation is to be carried out here.
    pub(crate) fn root_for(&self, op: &Op) -> Option<Ino> {
        if !self.is_any() {
            return None;
        }
        let is_root = |ino: &Ino| self.trees.contains_key(ino);
        match op {
            // A root's place, and what policies say of it, is its parent's rank's.
            Op::LookupParent { dir } if is_root(dir) => None,
            Op::GetXattr { ino, name } | Op::SetXattr { ino, name, .. } | Op::RemoveXattr { ino, name }
                if is_root(ino) && name.starts_with(b"loligo.") =>
            {
                None
            }
            Op::Control(Control::Subtree { .. }) => None,
            Op::Control(Control::Close { handles, .. }) => {
                let first = handles.first()?;
                self.trees.iter().find(|(_, owned)| owned.handles.contains_key(first)).map(|(root, _)| *root)
            }
            op => match op.about() {
                About::Names(ino) | About::Inode(ino) => self.root_of(ino),
                About::Nothing => None,
            },
        }
    }

    /// Returns an error if an operation involves an inode inside such a subtree and another outside.
    pub(crate) fn crosses(&self, op: &Op) -> Option<FsError> {
        let [one, other] = op.subjects();
        (self.root_of(one.ino()?) != self.root_of(other.ino()?)).then_some(FsError::CrossDevice)
    }

    /// Largest file that is held in an inode there, bytes.
    pub(crate) fn inline_max(&self, ino: Ino) -> u64 {
        let root = self.root_of(ino).and_then(|root| self.trees.get(&root));
        root.map_or(0, |owned| u64::from(owned.machine.settings().inline_max))
    }

    /// Overlays a rank's attributes of the root of a decoupled subtree with those here.
    pub(crate) fn overlay(&self, attr: &mut Attr) {
        if let Some(root) = self.trees.get(&attr.ino).and_then(|owned| owned.machine.inode(attr.ino)) {
            let here = root.attr();
            (attr.size, attr.nlink) = (here.size, here.nlink);
            (attr.mtime, attr.ctime) = (here.mtime.max(attr.mtime), here.ctime.max(attr.ctime));
        }
    }

    /// Fails the requests that wait in a subtree.
    pub(super) fn fail_waiting(&mut self, root: Ino, error: FsError) {
        let waiting = self.trees.get_mut(&root).map(|owned| {
            owned.needs.clear();
            std::mem::take(&mut owned.waiting)
        });
        for job in waiting.unwrap_or_default() {
            self.answer(job.op, job.then, Err(error));
        }
    }

    /// The rank may know another session of this client, or none: says whose the subtree is.
    pub(super) fn resume_op(&self, root: Ino) -> Option<SubtreeOp> {
        Some(SubtreeOp::resume(self.trees.get(&root)?.machine.record()))
    }
}

impl Ranks {
    /// The rank that a subtree was decoupled at.
    pub(crate) fn own_rank(&self, root: Ino) -> Rank {
        if self.is_single() {
            return self.only();
        }
        self.router.target(crate::route::Subject::Inode(root), self.home)
    }
}
