//! A client machine: the production client, a cache of names and attributes above it as a kernel keeps one, and the
//! programs that call.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::pin::Pin;
use std::rc::Rc;

use loligo_client::{CallId, Client, Invalidation, PathCache};
use loligo_types::{Ino, Rank, RenameMode, SessionId};

use crate::calls::LostCall;
use crate::data::{Epoch, WriteId, Writer};
use crate::direct::Way;
use crate::tree::{NameId, NsOp};
use crate::workload::{Mail, Track};

/// A cached attribute: directory, mode, links, change counter.
pub type CachedAttr = (bool, u16, u32, u64);

/// The cache of a kernel: kept as long as the client says that it may be.
///
/// While a change by this very machine is under way its names and all attributes are not looked at, as a kernel that
/// holds the directory's lock does not.
#[derive(Default, Debug)]
pub struct Kernel {
    pub names: BTreeMap<(Ino, NameId), Option<(Ino, bool)>>,
    pub attrs: BTreeMap<Ino, CachedAttr>,
    busy_names: BTreeMap<Ino, u32>,
    busy_attrs: u32,
    /// Counts what makes answers under way too old to be kept.
    pub turn: u64,
    /// Counts how often names were dropped.
    dropped: u64,
}

/// A name, and what was known to be there.
type KnownName = ((Ino, NameId), Option<(Ino, bool)>);

/// Cached names that a rename moves: the entries under their new names.
#[derive(Default, Debug)]
pub struct Moving {
    names: Vec<KnownName>,
    dropped: u64,
}

impl Kernel {
    pub fn names_usable(&self, dir: Ino) -> bool {
        !self.busy_names.contains_key(&dir)
    }

    pub fn attrs_usable(&self) -> bool {
        self.busy_attrs == 0
    }

    pub fn invalidate(&mut self, what: Invalidation) {
        self.turn += 1;
        match what {
            Invalidation::Names(dir) => {
                self.dropped += 1;
                self.names.retain(|(of, _), _| *of != dir);
            }
            Invalidation::Attr(ino) | Invalidation::Data(ino) => drop(self.attrs.remove(&ino)),
        }
    }

    /// The cached names that a rename moves, taken as it begins.
    pub fn moving(&self, op: &NsOp) -> Moving {
        let mut names = Vec::new();
        if let NsOp::Rename { dir, name, to, to_name, mode } = op {
            let (old, new) = ((Ino(*dir), *name), (Ino(*to), *to_name));
            let known = |name| self.names.get(name).copied();
            names.extend(known(&old).map(|known| (new, known)));
            if *mode == RenameMode::Exchange {
                names.extend(known(&new).map(|known| (old, known)));
            }
        }
        Moving { names, dropped: self.dropped }
    }

    /// A rename was done, and the new names may be believed. Not if any were dropped meanwhile: the mount drops what moves then.
    pub fn moved(&mut self, moving: &Moving) {
        if self.dropped == moving.dropped {
            for (name, known) in &moving.names {
                if self.names_usable(name.0) {
                    self.names.insert(*name, *known);
                }
            }
        }
    }

    /// A change by this machine begins.
    pub fn begin(&mut self, op: &NsOp) {
        for (dir, name) in touched(op) {
            *self.busy_names.entry(dir).or_default() += 1;
            self.names.remove(&(dir, name));
        }
        self.busy_attrs += 1;
        self.turn += 1;
    }

    /// It ended.
    pub fn end(&mut self, op: &NsOp) {
        for (dir, name) in touched(op) {
            self.names.remove(&(dir, name));
            if let Some(busy) = self.busy_names.get_mut(&dir) {
                *busy -= 1;
                if *busy == 0 {
                    self.busy_names.remove(&dir);
                }
            }
        }
        self.attrs.clear();
        self.busy_attrs -= 1;
        self.turn += 1;
    }
}

/// Names that a change is about.
fn touched(op: &NsOp) -> Vec<(Ino, NameId)> {
    match op {
        NsOp::Mkdir { dir, name, .. }
        | NsOp::Create { dir, name, .. }
        | NsOp::Link { dir, name, .. }
        | NsOp::Unlink { dir, name }
        | NsOp::Rmdir { dir, name } => vec![(Ino(*dir), *name)],
        NsOp::Rename { dir, name, to, to_name, .. } => vec![(Ino(*dir), *name), (Ino(*to), *to_name)],
        _ => Vec::new(),
    }
}

/// Caller of a call, who waits for its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caller {
    Program(usize),
    /// The world itself, in the parts before and after the random one.
    World,
}

/// Use of a call's answer, besides the reply to its caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Want {
    Plain,
    Lookup(Ino, NameId),
    Stat(Ino),
}

/// A call without an answer.
#[derive(Debug)]
pub struct Pending {
    pub caller: Caller,
    pub want: Want,
    pub track: Track,
    /// Number in the history.
    pub op: u64,
    pub write: Option<WriteId>,
    pub begun: u64,
    pub by: Writer,
    pub sessions: BTreeSet<SessionId>,
    pub turn: u64,
    pub moving: Moving,
    /// It is about what is open.
    pub through_handle: bool,
}

/// A program.
pub struct Program {
    pub mail: Rc<RefCell<Mail>>,
    pub future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    pub id: u64,
}

/// A client machine.
pub struct Node {
    pub client: Client,
    pub life: u64,
    pub up: bool,
    /// The rank that its first connection goes to, and what it is called before that is known.
    pub home: usize,
    pub first: Rank,
    /// Connections, by what it calls them.
    pub conns: BTreeMap<Rank, u64>,
    /// It waits for these.
    pub connecting: BTreeMap<Rank, usize>,
    /// The handshake over the present connection is done.
    pub ready: BTreeSet<Rank>,
    pub sessions: BTreeMap<Rank, SessionId>,
    /// When it first greeted a rank with which it has none, over a connection that was lost before the answer, microseconds.
    pub unanswered: BTreeMap<Rank, u64>,
    pub epoch: Epoch,
    pub calls: BTreeMap<CallId, Pending>,
    pub kernel: Kernel,
    /// Where directories are, as long as that is promised.
    pub ways: PathCache<BuildHasherDefault<DefaultHasher>>,
    pub programs: Vec<Program>,
    /// It cannot reach the server before this.
    pub cut_off_until: u64,
    /// Caches that were told to drop something and have not yet.
    pub dropping: u32,
    /// Calls given up that may wait for a session to come.
    pub lost_early: Vec<LostCall>,
    pub stopped: bool,
    pub way: Way,
}
