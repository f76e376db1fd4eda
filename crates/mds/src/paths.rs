//! Identities that are limited to paths: whether what a request is about lies where its client may do it. Not which paths those are
//! (`rights.rs`), and not what users may do (the namespace's modes and ACLs come after this).
//!
//! Where an inode is says its way up: the directories that it is in, to the root, as the hashes of the names. An inode knows the directory
//! that counts it and the hash of its primary name there, so no name is read for this. What is above may be another rank's; that one is
//! asked, and its word holds for [`KEEP_MS`]. Nobody is refused because of what was asked before he came.
//!
//! Of the directories above a path a client may see what it needs to come there: the next name, and attributes. A request that was let
//! through is carried out, also if it waits and directories are renamed meanwhile. What a session has open it may go on using.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loligo_namespace::{Change, Ctx, Found, Need, Tree, prepare};
use loligo_types::{
    Answer, FsError, Ino, Kind, Name, OnTheWay, Op, OpenFlags, Origin, Rank, SessionId, Stamp, Subject, is_looked_at,
    limits,
};

use crate::cluster::Cluster;
use crate::cluster::Where;
use crate::core::Core;
use crate::job::{Job, WaitReason};
use crate::load::Waiter;
use crate::open::{Handle, Opens};
use crate::peer::PeerMsg;
use crate::rights::{Grant, Rights};
use crate::session::Slot;
use crate::step::Step;

/// Time for which an answer of another rank about its directories is believed, milliseconds.
const KEEP_MS: u64 = 1000;
/// Answers that are kept.
const KEEP_MAX: usize = 100_000;
/// In the place of the hash of a name (63 bits) where an inode has none: matches no name.
const NO_NAME: u64 = u64::MAX;

/// Directories, and their policies as they were set.
pub(crate) type Policies = Vec<(Ino, Arc<[u8]>)>;

/// Answers of other ranks about directories above.
#[derive(Default)]
pub(crate) struct PathCache {
    known: BTreeMap<Ino, Heard>,
    /// Inodes asked about since the last tick, and not answered.
    asked: BTreeSet<Ino>,
    /// Number of the last question.
    last: u64,
}

impl PathCache {
    /// Forgets what was heard long ago, and who was asked. True if somebody waits for an answer, who asks again now.
    pub(crate) fn forget_old(&mut self, core: &mut Core) -> bool {
        let now = core.now.mono_ms;
        self.known.retain(|_, heard| now < heard.ms + KEEP_MS);
        let asked = !std::mem::take(&mut self.asked).is_empty();
        if asked {
            core.parked.wake(&WaitReason::Above);
        }
        asked
    }

    /// Puts down what another rank has said of an inode; false if it says nothing.
    pub(crate) fn hear(
        &mut self,
        core: &mut Core,
        number: u64,
        ino: Ino,
        (up, at): (Vec<u64>, Ino),
        bounds: Policies,
    ) -> bool {
        if at == ino && ino != Ino::ROOT {
            return false;
        }
        self.asked.remove(&ino);
        if self.known.len() >= KEEP_MAX {
            self.known.clear();
        }
        self.known.insert(ino, Heard { up, at, bounds, ms: core.now.mono_ms, number });
        core.parked.wake(&WaitReason::Above);
        true
    }

    /// Number of questions so far: the number of the last one.
    pub(crate) fn asks(&self) -> u64 {
        self.last
    }

    /// Checks the request of a limited identity: `None` if it may go on.
    pub(crate) fn limit(
        &mut self,
        core: &mut Core,
        opens: &Opens,
        cluster: &mut Cluster,
        job: &mut Job,
        held: Option<Handle>,
    ) -> Option<Step> {
        let (identity, _) = job.limited.clone()?;
        let change = job.op.props().needs_write;
        job.way_only = false;
        let through_handle = held.is_some_and(|handle| handle.write || !change);
        if !through_handle {
            let subjects = job.op.subjects().map(Subject::ino);
            for ino in subjects.into_iter().flatten() {
                let step = self.limit_at(core, opens, cluster, job, &identity.rights, (ino, change));
                if step.is_some() {
                    return step;
                }
            }
        }
        job.limited = None;
        None
    }

    /// The step of a request at one inode, which it changes or not, if its client may not do it there.
    pub(crate) fn limit_at(
        &mut self,
        core: &mut Core,
        opens: &Opens,
        cluster: &mut Cluster,
        job: &mut Job,
        rights: &Rights,
        (ino, change): (Ino, bool),
    ) -> Option<Step> {
        let open = opens.open_by(job.slot, ino).is_some_and(|writes| writes || !change);
        let is_file = core.tree.inode(ino).is_some_and(|inode| inode.kind != Kind::Dir);
        if open && is_file && job.op.subjects()[1].ino() != Some(ino) {
            return None;
        }
        let (names, oldest) = match self.way(core, cluster, ino) {
            Way::Found { names, oldest } => (names, oldest),
            Way::Load(needs) => return Some(cluster.wait_for(core, job, needs)),
            Way::Ask(at, rank) => return Some(self.ask_way(core, at, rank)),
        };
        let verdict = match names {
            Some(names) => {
                let verdict = verdict(&core.tree, rights, &names, &job.op, change);
                let lists = matches!(job.op, Op::ListXattr { .. });
                job.way_only = lists && rights_at(&core.tree, rights, &names, change) != Verdict::Yes;
                verdict
            }
            None if matches!(core.tree.find(ino), Found::Gone) => return None,
            None if open => return None,
            None => Verdict::No,
        };
        if verdict == Verdict::Yes {
            return None;
        }
        if job.limited.as_ref().is_some_and(|(_, before)| oldest <= *before) {
            // Something may have moved since.
            self.known.clear();
            return self.limit_at(core, opens, cluster, job, rights, (ino, change));
        }
        let error = if verdict == Verdict::OnlyRead { FsError::ReadOnly } else { FsError::Access };
        Some(Step::Answer(Err(error)))
    }

    fn way(&self, core: &mut Core, cluster: &mut Cluster, ino: Ino) -> Way {
        let now = core.now.mono_ms;
        let (mut names, mut at, mut oldest) = (Vec::new(), ino, u64::MAX);
        for _ in 0..limits::DEPTH_MAX {
            if at == Ino::ROOT {
                names.reverse();
                return Way::Found { names: Some(names), oldest };
            }
            if at.0 == 0 {
                break;
            }
            match cluster.next(core, at) {
                Next::Up { hash, parent } => {
                    names.push(hash);
                    at = parent;
                }
                Next::Nowhere => break,
                Next::Load(needs) => return Way::Load(needs),
                Next::Elsewhere(rank) => match self.known.get(&at).filter(|heard| now < heard.ms + KEEP_MS) {
                    Some(heard) => {
                        names.extend(&heard.up);
                        (at, oldest) = (heard.at, oldest.min(heard.number));
                    }
                    None => return Way::Ask(at, rank),
                },
            }
        }
        Way::Found { names: None, oldest }
    }

    /// The first directory above something of another rank that that one does not have, or 0 if it is in none: as it has answered a
    /// question after this one. `None`: it is asked.
    pub(crate) fn above_there(&mut self, core: &mut Core, ino: Ino, rank: Rank, after: u64) -> Option<Ino> {
        match self.known.get(&ino).filter(|heard| heard.number > after) {
            Some(heard) => Some(heard.at),
            None => {
                self.ask_way(core, ino, rank);
                None
            }
        }
    }

    /// The same, with the policies on the way there that may have a floor or a ceiling.
    pub(crate) fn bounds_there(&mut self, core: &mut Core, ino: Ino, rank: Rank) -> Option<(Ino, Policies)> {
        match self.known.get(&ino) {
            Some(heard) => Some((heard.at, heard.bounds.clone())),
            None => {
                self.ask_way(core, ino, rank);
                None
            }
        }
    }

    fn ask_way(&mut self, core: &mut Core, ino: Ino, rank: Rank) -> Step {
        if self.asked.insert(ino) {
            self.last += 1;
            let number = self.last;
            core.tell(rank, PeerMsg::AskWay { number, ino });
        }
        Step::Wait(WaitReason::Above)
    }

    /// Of what a limited session says to have had open before a restart: whether it may. `None`: something is read or asked first.
    pub(crate) fn may_have_open(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        slot: Slot,
        session: SessionId,
        rights: &Rights,
        (ino, write): (Ino, bool),
    ) -> Option<Result<bool, usize>> {
        match self.way(core, cluster, ino) {
            Way::Found { names: None, .. } => Some(Ok(false)),
            Way::Found { names: Some(names), .. } => {
                Some(Ok(rights_at(&core.tree, rights, &names, write) == Verdict::Yes))
            }
            Way::Load(needs) => Some(Err(cluster.load(core, needs, Waiter::Reclaim(slot, session)))),
            Way::Ask(at, rank) => {
                self.ask_way(core, at, rank);
                None
            }
        }
    }

    /// The step for a request about a subtree with the number of an executed one; `None` if it may go on. Nothing says that it is the same
    /// request.
    pub(crate) fn admit_again(
        &mut self,
        core: &mut Core,
        opens: &Opens,
        cluster: &mut Cluster,
        job: &mut Job,
        dir: Ino,
    ) -> Option<Step> {
        if !cluster.is_alone() {
            if !cluster.peers.ready {
                return Some(Step::Wait(WaitReason::Peers));
            }
            let mut wants = Vec::new();
            match cluster.locate(core, dir, &mut wants) {
                Where::Here => {}
                // As long as it was this client's it was here.
                Where::Elsewhere(_) => return Some(Step::Answer(Err(FsError::Stale))),
                Where::Unknown => return Some(cluster.wait_for(core, job, wants)),
            }
        }
        if job.limited.is_some() { self.limit(core, opens, cluster, job, None) } else { None }
    }

    /// Why a request to open does not open what was found or made when its number was executed. That need not have been the same request: a
    /// number does not say what was asked. So whoever has not just made the file, nor has it open, must be allowed to open it now.
    pub(crate) fn refuse_opening_again(
        &mut self,
        core: &mut Core,
        opens: &Opens,
        cluster: &mut Cluster,
        job: &mut Job,
        origin: &Origin,
    ) -> Option<Step> {
        let (_, flags) = job.op.opens()?;
        let needs_write = flags.write || flags.truncate || flags.append;
        let inode = core.tree.inode(origin.ino)?;
        // A new file is open to who made it, whatever its mode says.
        let is_new = origin.value != 0 && inode.kind == Kind::File && inode.uid == job.cred.uid;
        let has_name = inode.nlink > 0;
        if let Some((identity, _)) = job.limited.clone()
            && (has_name || !is_new)
            && let Some(step) = self.limit_at(core, opens, cluster, job, &identity.rights, (origin.ino, needs_write))
        {
            return Some(step);
        }
        if is_new {
            return None;
        }
        let held = opens.opened_before(job);
        let ctx = Ctx {
            cred: &job.cred,
            stamp: Stamp { now: core.now.wall, ino: core.tree.next_ino() },
            handle_read: held.is_some_and(|handle| handle.read),
            handle_write: held.is_some_and(|handle| handle.write),
            open_count: &|_| 1,
            route_version: &|_| None,
            // Asked for the permission alone: nothing is opened by this.
            distrusted: false,
        };
        let flags = OpenFlags { truncate: false, write: flags.write || flags.truncate, ..flags };
        let open = Op::Open { ino: origin.ino, flags, handle: 0 };
        prepare(&core.tree, &open, &ctx).err().map(|error| Step::Answer(Err(error)))
    }
}

/// An answer.
struct Heard {
    up: Vec<u64>,
    at: Ino,
    /// Policies of the directories on it that may have a floor or a ceiling.
    bounds: Policies,
    /// When, milliseconds.
    ms: u64,
    /// To which question.
    number: u64,
}

/// The next step of a way.
enum Next {
    Up {
        hash: u64,
        parent: Ino,
    },
    /// It is in no directory, or gone.
    Nowhere,
    Load(Vec<Need>),
    Elsewhere(Rank),
}

/// The next step of a way as far as it is this rank's.
pub(crate) enum Up {
    /// The directory that an inode is in, and the hash of its name there.
    To(Ino, u64),
    /// It is in none, or is gone.
    Nowhere,
    /// It is another rank's.
    Elsewhere(Rank),
    /// That is to be read first.
    Load(Vec<Need>),
}

/// Where an inode is.
enum Way {
    /// The hashes of the names from the root on; none: it is in no directory. `oldest`: number of the first question of those
    /// that this relies on.
    Found {
        names: Option<Vec<u64>>,
        oldest: u64,
    },
    Load(Vec<Need>),
    /// That rank knows.
    Ask(Ino, Rank),
}

/// Verdict of rights about an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Yes,
    /// It may be read there, and not changed.
    OnlyRead,
    No,
}

/// Limits an answer about a directory above a path: of the names of its xattrs to those that may be read.
pub(crate) fn shown_on_the_way(mut change: Change) -> Change {
    if let Answer::Bytes(names) = &change.answer {
        let shown = names.split_inclusive(|byte| *byte == 0).filter(|name| is_looked_at(name));
        change.answer = Answer::Bytes(shown.flatten().copied().collect());
    }
    change
}

fn verdict(tree: &Tree, rights: &Rights, names: &[u64], op: &Op, change: bool) -> Verdict {
    let verdict = rights_at(tree, rights, names, change);
    if verdict != Verdict::No || change {
        return verdict;
    }
    let is_above = |grant: &&Grant| grant.path.len() > names.len() && begins(tree, &grant.path[..names.len()], names);
    let mut below = rights.grants().iter().filter(is_above);
    let may = match op.props().on_the_way {
        OnTheWay::Refused => false,
        OnTheWay::Itself => below.next().is_some(),
        OnTheWay::Name => op.first_name().is_some_and(|(_, name)| below.any(|grant| grant.path[names.len()] == *name)),
    };
    if may { Verdict::Yes } else { Verdict::No }
}

fn rights_at(tree: &Tree, rights: &Rights, names: &[u64], change: bool) -> Verdict {
    let covers = |grant: &&Grant| begins(tree, &grant.path, names);
    let mut verdict = Verdict::No;
    for grant in rights.grants().iter().filter(covers) {
        if grant.write || !change {
            return Verdict::Yes;
        }
        verdict = Verdict::OnlyRead;
    }
    verdict
}

/// True if a way begins with this path.
fn begins(tree: &Tree, path: &[Name], way: &[u64]) -> bool {
    path.len() <= way.len() && path.iter().zip(way).all(|(name, hash)| tree.hash(name) == *hash)
}

impl Cluster {
    /// Another rank asks what is above something. Answered when all that is said is durable.
    pub(crate) fn tell_way(&mut self, core: &mut Core, from: Rank, number: u64, ino: Ino) {
        if !self.peers.ready {
            return;
        }
        let (mut up, mut at, mut bounds) = (Vec::new(), ino, Vec::new());
        if ino == Ino::ROOT && core.add_bounds(ino, &mut bounds).is_err() {
            self.load(core, vec![Need::Inode(ino), Need::Xattrs(ino)], Waiter::Way(from, number, ino));
            return;
        }
        while at != Ino::ROOT && at.0 != 0 && up.len() < limits::DEPTH_MAX {
            match self.next(core, at) {
                Next::Up { hash, parent } => {
                    if let Err(needs) = core.add_bounds(at, &mut bounds) {
                        self.load(core, needs, Waiter::Way(from, number, ino));
                        return;
                    }
                    up.push(hash);
                    at = parent;
                }
                Next::Nowhere => at = Ino(0),
                Next::Load(needs) => {
                    self.load(core, needs, Waiter::Way(from, number, ino));
                    return;
                }
                Next::Elsewhere(_) if at == ino => return,
                Next::Elsewhere(_) => break,
            }
        }
        core.tell_durably(from, PeerMsg::Way { number, ino, up, at, bounds });
    }

    /// The directory that an inode is in.
    pub(crate) fn up(&mut self, core: &mut Core, at: Ino) -> Up {
        if let Some(home) = self.atlas.home_of_part(core, at) {
            // What this rank has of it says what its names are, not where it is.
            return Up::Elsewhere(home);
        }
        match self.next(core, at) {
            Next::Up { parent, hash } => Up::To(parent, hash),
            Next::Nowhere => Up::Nowhere,
            Next::Elsewhere(rank) => Up::Elsewhere(rank),
            Next::Load(needs) => Up::Load(needs),
        }
    }

    fn next(&mut self, core: &mut Core, at: Ino) -> Next {
        // What has moved and is not dropped from memory yet says where it was.
        match self.exports.has_moved(core, &mut self.atlas, at) {
            Ok(None) => {}
            Ok(Some(rank)) => return Next::Elsewhere(rank),
            Err(needs) => return Next::Load(needs),
        }
        loop {
            match core.tree.find(at) {
                Found::Here(inode) if inode.parent.0 == 0 => return Next::Nowhere,
                Found::Here(inode) => {
                    return Next::Up { hash: inode.place.hash().unwrap_or(NO_NAME), parent: inode.parent };
                }
                Found::Gone => return Next::Nowhere,
                Found::Unknown if self.is_alone() => return Next::Load(vec![Need::Inode(at)]),
                Found::Unknown => {}
            }
            let mut wants = Vec::new();
            match self.locate(core, at, &mut wants) {
                // It is known to be gone now.
                Where::Here => {}
                Where::Elsewhere(rank) => return Next::Elsewhere(rank),
                Where::Unknown => return Next::Load(wants),
            }
        }
    }
}
