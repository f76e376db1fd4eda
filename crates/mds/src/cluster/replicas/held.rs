//! Replicas that this rank holds of other ranks' directories, and the next step of a path by them.

use std::collections::BTreeMap;

use loligo_namespace::Need;
use loligo_types::{FsError, Ino, Inode, Name, Rank, limits};

use crate::cluster::Peers;
use crate::core::Core;
use crate::job::WaitReason;
use crate::lookup_leases::LookupLeases;
use crate::peer::PeerMsg;
use crate::shortcuts::Shortcuts;
use loligo_types::hash::IntMap;

/// After this the holder asks to keep them, milliseconds.
const KEEP_MS: u64 = limits::REPLICA_MS / 3;
/// Most of them; beyond, all are dropped: who comes next asks again.
const HELD_MAX: usize = 1 << 17;
/// Delay before a refused replica is asked for again, milliseconds. Its directory is mostly being changed, which takes less than
/// one.
const REFUSED_MS: u64 = 2;
/// Time to wait for an answer before the question is asked again, milliseconds.
const ASKED_MS: u64 = 500;

/// Question to another rank.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::cluster) enum Asked {
    Name(Ino, Name),
    Dir(Ino),
}

/// State of a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cluster) enum Reply {
    /// Nothing yet; since when, milliseconds.
    None(u64),
    /// No; when, milliseconds.
    No(u64),
}

/// One replica.
pub(in crate::cluster) struct Replica {
    pub(in crate::cluster) inode: Box<Inode>,
    /// The rank that has the directory.
    pub(in crate::cluster) from: Rank,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Held {
    pub(in crate::cluster) dirs: IntMap<Ino, Replica>,
    /// Which directory has a name, by the one that this is in and its hash, as was said once: it counts only with a replica that says the same.
    pub(in crate::cluster) names: IntMap<(Ino, u64), (Name, Ino)>,
    /// Until when those of a rank count, and when it was asked last, milliseconds.
    pub(in crate::cluster) until_ms: BTreeMap<Rank, (u64, u64)>,
    pub(in crate::cluster) asked: BTreeMap<Asked, Reply>,
    /// Steps of paths that were found by replicas, and that could not be; questions to other ranks.
    pub(crate) steps: u64,
    pub(crate) partings: u64,
    pub(crate) asks: u64,
}

impl Held {
    /// Number of replicas.
    pub(crate) fn len(&self) -> usize {
        self.dirs.len()
    }

    pub(in crate::cluster) fn get(&self, ino: Ino, now_ms: u64) -> Option<&Inode> {
        let replica = self.dirs.get(&ino)?;
        self.counts(replica.from, now_ms).then_some(&*replica.inode)
    }

    /// For how long those of a rank count yet, milliseconds.
    pub(crate) fn left_ms(&self, rank: Rank, now_ms: u64) -> u64 {
        self.until_ms.get(&rank).map_or(0, |(until, _)| until.saturating_sub(now_ms))
    }

    /// True if the replicas of a rank count.
    pub(in crate::cluster) fn counts(&self, rank: Rank, now_ms: u64) -> bool {
        self.until_ms.get(&rank).is_some_and(|(until, _)| now_ms < *until)
    }

    /// Those of a rank count so long. What has come to its end meanwhile does not come back: its rank may have given it up.
    /// Whether some were dropped for that.
    fn extend(&mut self, rank: Rank, sent_ms: u64, now_ms: u64) -> bool {
        let (until, _) = self.until_ms.entry(rank).or_default();
        let ended = now_ms >= *until;
        // Nobody was asked later than now.
        *until = (*until).max(sent_ms.min(now_ms) + limits::REPLICA_MS);
        let before = self.dirs.len();
        if ended {
            self.dirs.retain(|_, replica| replica.from != rank);
        }
        self.dirs.len() < before
    }

    /// True if replicas of a rank count.
    pub(crate) fn replicas_count(&self, core: &Core, rank: Rank) -> bool {
        self.counts(rank, core.now.mono_ms)
    }

    pub(in crate::cluster) fn ask_for(&mut self, core: &mut Core, peers: &Peers, what: Asked, rank: Rank) -> Way {
        let now = core.now.mono_ms;
        match self.asked.get(&what) {
            Some(Reply::None(since)) if now < since + ASKED_MS => return Way::Wait(WaitReason::Replicas),
            Some(Reply::No(since)) if now < since + REFUSED_MS => return Way::Unknown,
            _ => {}
        }
        if rank == core.me() || !peers.links.get(&rank).is_some_and(|link| link.greeted) {
            return Way::Unknown;
        }
        let msg = match &what {
            Asked::Name(dir, name) => PeerMsg::AskName { dir: *dir, name: name.clone() },
            Asked::Dir(ino) => PeerMsg::AskReplica { ino: *ino, sent_ms: now },
        };
        self.asked.insert(what, Reply::None(now));
        self.asks += 1;
        core.tell(rank, msg);
        Way::Wait(WaitReason::Replicas)
    }

    /// A rank has said which directory has a name.
    pub(crate) fn name_told(
        &mut self,
        core: &mut Core,
        shortcuts: &mut Shortcuts,
        dir: Ino,
        name: Name,
        ino: Option<Ino>,
    ) {
        let what = Asked::Name(dir, name.clone());
        match ino {
            Some(ino) => {
                self.asked.remove(&what);
                self.make_room_for_replicas(core, shortcuts);
                let hash = core.tree.hash(&name);
                self.names.insert((dir, hash), (name, ino));
            }
            None => _ = self.asked.insert(what, Reply::No(core.now.mono_ms)),
        }
        core.parked.wake(&WaitReason::Replicas);
    }

    /// A replica came.
    pub(crate) fn replica_came(
        &mut self,
        core: &mut Core,
        shortcuts: &mut Shortcuts,
        from: Rank,
        sent_ms: u64,
        inode: Box<Inode>,
    ) {
        self.asked.remove(&Asked::Dir(inode.ino));
        self.replicas_kept(core, shortcuts, from, sent_ms);
        self.make_room_for_replicas(core, shortcuts);
        self.dirs.insert(inode.ino, Replica { inode, from });
        core.parked.wake(&WaitReason::Replicas);
    }

    /// There is none to be had.
    pub(crate) fn replica_refused(&mut self, core: &mut Core, ino: Ino) {
        self.asked.insert(Asked::Dir(ino), Reply::No(core.now.mono_ms));
        core.parked.wake(&WaitReason::Replicas);
    }

    fn make_room_for_replicas(&mut self, core: &Core, shortcuts: &mut Shortcuts) {
        let most = core.config.some(HELD_MAX);
        if self.dirs.len() >= most || self.names.len() >= most {
            self.dirs.clear();
            self.names.clear();
            shortcuts.clear();
        }
    }

    /// A rank wants one back.
    pub(crate) fn drop_replica(
        &mut self,
        core: &mut Core,
        shortcuts: &mut Shortcuts,
        promises: &LookupLeases,
        from: Rank,
        ino: Ino,
    ) {
        self.dirs.remove(&ino);
        shortcuts.drop_through(ino);
        let promised_ms = promises.left_ms(ino, core.now.mono_ms);
        core.tell(from, PeerMsg::ReplicaDropped { ino, promised_ms });
    }

    /// Those of a rank go on to count.
    pub(crate) fn replicas_kept(&mut self, core: &Core, shortcuts: &mut Shortcuts, from: Rank, sent_ms: u64) {
        if self.extend(from, sent_ms, core.now.mono_ms) {
            shortcuts.clear();
        }
    }

    /// The connection to a rank is gone, or is new: nothing that it has lent counts, and nothing that it was asked will be answered.
    pub(crate) fn forget_replicas_of(&mut self, core: &mut Core, shortcuts: &mut Shortcuts, rank: Rank) {
        self.dirs.retain(|_, replica| replica.from != rank);
        self.until_ms.remove(&rank);
        shortcuts.clear();
        if !self.asked.is_empty() {
            self.asked.clear();
            core.parked.wake(&WaitReason::Replicas);
        }
    }

    /// Says to those who have lent something that it is still held, and forgets what was answered long ago.
    pub(crate) fn keep_held(&mut self, core: &mut Core, shortcuts: &mut Shortcuts) {
        let now = core.now.mono_ms;
        if !self.asked.is_empty() {
            let late = |reply: &Reply| match reply {
                Reply::None(since) => now >= since + ASKED_MS,
                Reply::No(since) => now >= since + REFUSED_MS,
            };
            self.asked.retain(|_, reply| !late(reply));
            core.parked.wake(&WaitReason::Replicas);
        }
        let mut due = Vec::new();
        self.until_ms.retain(|rank, (until, asked)| {
            if now + limits::REPLICA_MS >= *until + KEEP_MS && now >= *asked + KEEP_MS {
                *asked = now;
                due.push(*rank);
            }
            now < *until
        });
        let before = self.dirs.len();
        let (dirs, until_ms) = (&mut self.dirs, &self.until_ms);
        dirs.retain(|_, replica| until_ms.contains_key(&replica.from));
        if dirs.len() < before {
            shortcuts.clear();
        }
        due.into_iter().for_each(|rank| core.tell(rank, PeerMsg::KeepReplicas { sent_ms: now }));
    }
}

/// Where the next step of a path leads.
pub(crate) enum Way {
    /// To this directory.
    To(Ino),
    /// Nowhere: whoever asks may not search the directory.
    No(FsError),
    /// Another rank is asked.
    Wait(WaitReason),
    /// This must be read first.
    Load(Vec<Need>),
    /// Nobody says here.
    Unknown,
}
