//! Directories whose policy is strong and not globally durable ("relaxed"): an answer about what is below them leaves at once, and the journal follows
//! within the lag that the policy says. What a crash takes back is the end of the journal: so what is below them is then as it was at one earlier
//! moment. The contract: docs/subtree-policies.md, "Relaxed". Not here: the gate itself (`gate.rs`), and what clients do with an answer that is
//! ahead of the journal (crate `client`).
//!
//! Four things make that safe:
//!
//! - What says that a directory is relaxed, or what is in it, is durable before it counts: a change of a policy, a name that is moved in or out, a link.
//!   Until then answers wait as elsewhere ([`Relaxed::edge`]). So a crash never shows that something was strict whose changes were lost.
//! - Numbers of new inodes are reserved durably before they are used: one that is lost is never given again.
//! - Objects are written only of files of which it is durable that they are there: none is left without a file.
//! - An answer says up to which record it is not durable, so that its client can wait for that, and knows what it has lost.
//!
//! With several ranks a directory is relaxed if this rank has it and all that lies between it and the directory with the policy, that one included, each
//! as a whole: their journals do not end at one moment. So what has moved away from the rank of that directory is strict, unless it has a
//! policy of its own. While something is lent to another rank, which may decide where it is, or moves to another one, nothing is relaxed here. What comes by
//! a letter is durable before it counts, and when directories have come policies are looked for anew.

mod look;
mod numbers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use loligo_namespace::{Found, Need, SUBTREE};
use loligo_types::hash::IntMap;
use loligo_types::limits::DEPTH_MAX;
use loligo_types::msg::Volatile;
use loligo_types::{Answer, Event, FsResult, Ino, Inode, Kind, Letter, Lsn, SessionId, Subject};

use crate::cluster::Cluster;
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::io::{DataAccess, Output};
use crate::job::{Job, Lag, WaitReason};
use crate::load::Waiter;
use crate::modes::Says;
use crate::open::{AccessChange, Opens};
use crate::paths::Up;
use crate::session::Sessions;
use crate::status::RelaxedStatus;
use look::Look;
use numbers::Numbers;

pub(crate) use look::TICKETS;
pub(crate) use numbers::NUMBERS;

/// Directories of which it is remembered whether they are relaxed.
const MEMO_MAX: usize = 1 << 16;
/// Inodes whose last change may be not durable: beyond, answers wait for the journal.
const FRESH_MAX: usize = 1 << 16;

/// The relaxation of a request: the lag that its policy permits, if it is relaxed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Relaxation {
    pub(crate) lag: Option<Lag>,
    /// The number reserved for the inode that it makes.
    pub(crate) number: Option<Ino>,
    /// It would be relaxed, but no number is reserved for the inode that it makes.
    pub(crate) lacks_number: bool,
}

/// Relaxed directories, and their changes that are not durable yet.
#[derive(Default)]
pub(crate) struct Relaxed {
    /// All directories with a policy of their own, and what those say.
    policies: BTreeMap<Ino, Says>,
    /// Number of those that are relaxed.
    some: usize,
    /// Any has said a journal mode in this life, or was relaxed, which has consequences for it.
    says_modes: bool,
    look: Look,
    /// The last record since policies were looked for with which directories came from another rank: it does not show their policies. (A merge into a
    /// decoupled subtree brings none: its owner may not set any.)
    brought: Lsn,
    /// The policies in force at directories that were looked at; `None`: no policy above.
    memo: IntMap<Ino, Option<Says>>,
    /// The last record that may have changed what is relaxed.
    edge: Lsn,
    /// Inodes whose last change is not durable, and its record.
    fresh: IntMap<Ino, Lsn>,
    /// The same in the order of the records, with the time, milliseconds.
    order: VecDeque<(Lsn, u64, Vec<Ino>)>,
    /// Inodes whose creation is not durable.
    unborn: BTreeSet<Ino>,
    /// Inodes that somebody has open who may not reach the objects yet.
    held: BTreeSet<Ino>,
    /// Somebody waits until the creation of one of them is durable.
    birth_awaited: bool,
    numbers: Numbers,
    /// The change under way is one of a relaxed directory, and opens this inode.
    deciding: Option<Option<Ino>>,
    /// Answers that left before the journal was durable.
    pub(crate) early: u64,
}

impl Relaxed {
    /// True if somebody waits for the record of a new file.
    pub(crate) fn awaits_birth(&self) -> bool {
        self.birth_awaited
    }

    /// True if more numbers are to be reserved.
    pub(crate) fn lacks_numbers(&self) -> bool {
        self.numbers.are_few()
    }

    /// Numbers that are reserved by the record at `lsn`.
    pub(crate) fn take_numbers(&mut self, first: Ino, after: Ino, lsn: Lsn) {
        self.numbers.more = Some((first.0, after.0, lsn));
    }

    /// The next number that is reserved durably.
    pub(crate) fn next_number(&mut self, core: &Core) -> Option<Ino> {
        self.numbers.peek(core.log.durable)
    }

    /// True if any directory may be relaxed.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.some > 0
    }

    fn knows_all(&self) -> bool {
        self.look.is_done() && self.brought.0 == 0
    }

    /// True if a policy may say a journal mode.
    #[inline]
    pub(crate) fn says_modes(&self) -> bool {
        self.says_modes
    }

    fn set(&mut self, dir: Ino, says: Says) {
        let before = self.policies.insert(dir, says);
        self.some -= usize::from(before.is_some_and(|before| before.lag.is_some()));
        self.some += usize::from(says.lag.is_some());
        self.says_modes |= says.journaling.is_some() || says.lag.is_some();
        self.memo.clear();
    }

    fn unset(&mut self, dir: Ino) {
        if let Some(before) = self.policies.remove(&dir) {
            self.some -= usize::from(before.lag.is_some());
            self.memo.clear();
        }
    }

    /// A policy of a directory was set or removed, in this life or in the journal that it began with.
    pub(crate) fn note_policy(&mut self, event: &Event, lsn: Lsn) {
        match event {
            Event::Xattr { ino, name, value } if **name == *SUBTREE => {
                self.look.unread.remove(ino);
                if !self.look.is_whole {
                    self.look.found.insert(*ino);
                }
                self.set(*ino, Says::of(*ino, value));
            }
            Event::XattrGone { ino, name } if **name == *SUBTREE => {
                self.look.unread.remove(ino);
                self.unset(*ino);
            }
            Event::InodeGone(ino) => {
                self.look.unread.remove(ino);
                return self.unset(*ino);
            }
            _ => return,
        }
        self.edge = lsn;
    }

    /// A decided change is about to be made; `lag`: it is relaxed.
    #[inline]
    pub(crate) fn begin(&mut self, lag: Option<Lag>, answer: &Answer) {
        self.deciding = lag.map(|_| match answer {
            Answer::Opened { attr, .. } => Some(attr.ino),
            _ => None,
        });
    }

    /// It is made, with this record.
    #[inline]
    pub(crate) fn end(&mut self, relaxation: &Relaxation, events: &[Event], lsn: Lsn) {
        self.deciding = None;
        if let Some(number) = relaxation.number
            && events.iter().any(|event| matches!(event, Event::Inode(inode) if inode.ino == number))
        {
            self.numbers.next = number.0 + 1;
        }
        if relaxation.lacks_number {
            // Until it is durable its number may be given again.
            self.edge = lsn;
        }
    }

    /// Age of the oldest change that is not durable, milliseconds.
    fn age(&self, now_ms: u64) -> u64 {
        self.order.front().map_or(0, |(_, since, _)| now_ms.saturating_sub(*since))
    }

    pub(crate) fn status(&self, now_ms: u64) -> RelaxedStatus {
        let (directories, early, behind) = (self.some, self.early, self.fresh.len());
        RelaxedStatus { directories, early, behind, lag_ms: self.age(now_ms) }
    }

    /// The journal is durable up to here.
    pub(crate) fn relaxed_durable(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        opens: &Opens,
        cluster: &mut Cluster,
    ) {
        self.birth_awaited &= core.log.durable < core.log.last;
        while let Some((lsn, ..)) = self.order.front()
            && *lsn <= core.log.durable
        {
            let Some((lsn, _, inos)) = self.order.pop_front() else { return };
            for ino in inos {
                if self.fresh.get(&ino) == Some(&lsn) {
                    self.fresh.remove(&ino);
                }
                // The first record that says something of it made it.
                if self.unborn.remove(&ino) && self.held.remove(&ino) {
                    if cluster.exports.is_leaving(core, &mut cluster.atlas, ino) {
                        // Another rank is about to have it, which says what may be done.
                        continue;
                    }
                    for (slot, access) in opens.users(ino) {
                        if let Some(session) = sessions.get(slot).map(|session| session.id) {
                            core.out.push_back(Output::Access { session, ino, access });
                        }
                    }
                    core.parked.wake(&WaitReason::Data(ino));
                }
            }
        }
    }

    /// The lag that counts at an inode, if that is known without reading. Unknown is strict.
    fn lag_at(&mut self, core: &mut Core, cluster: &mut Cluster, ino: Ino) -> Option<Lag> {
        match self.says_at(core, cluster, ino) {
            Ok(says) => says?.lag,
            Err(needs) => {
                cluster.load(core, needs, Waiter::Nobody);
                None
            }
        }
    }

    /// The policy in force at an inode; none: none is, or it is another rank's to say. Fails with what must be read to know it.
    pub(crate) fn says_at(
        &mut self,
        core: &mut Core,
        cluster: &mut Cluster,
        ino: Ino,
    ) -> Result<Option<Says>, Vec<Need>> {
        let (mut at, mut way) = (ino, Vec::new());
        let mut found = None;
        for _ in 0..DEPTH_MAX {
            if let Some(known) = self.memo.get(&at) {
                found = *known;
                break;
            }
            let up = cluster.up(core, at);
            if let Up::Load(needs) = up {
                return Err(needs);
            }
            if !cluster.is_alone() && (matches!(up, Up::Elsewhere(_)) || cluster.atlas.routes.is_spread(at)) {
                return Ok(None);
            }
            if let Some(own) = self.policies.get(&at) {
                found = Some(*own);
                way.push(at);
                break;
            }
            way.push(at);
            if at == Ino::ROOT {
                break;
            }
            match up {
                Up::To(parent, _) if parent.0 != 0 => at = parent,
                // In no directory.
                _ => return Ok(None),
            }
        }
        if self.memo.len() + way.len() > MEMO_MAX {
            self.memo.clear();
        }
        for dir in way {
            if dir != ino || core.tree.inode(dir).is_some_and(|inode| inode.kind == Kind::Dir) {
                self.memo.insert(dir, found);
            }
        }
        Ok(found)
    }

    /// The lag of a request, if all that it is about is relaxed by the same policy.
    #[inline]
    pub(crate) fn lag_of(&mut self, core: &mut Core, cluster: &mut Cluster, job: &Job) -> Option<Lag> {
        if !self.is_any() {
            return None;
        }
        self.lag_of_op(core, cluster, job)
    }

    fn lag_of_op(&mut self, core: &mut Core, cluster: &mut Cluster, job: &Job) -> Option<Lag> {
        if !self.knows_all() || cluster.is_between_ranks() || job.tx.is_some() || job.within.is_some() {
            return None;
        }
        if !job.op.props().may_lag {
            return None;
        }
        let ino = match job.op.subjects() {
            [Subject::Name(dir, _), Subject::Name(other, _)] => {
                let lag = self.lag_at(core, cluster, dir)?;
                return (dir == other || self.lag_at(core, cluster, other) == Some(lag)).then_some(lag);
            }
            [subject, _] => subject.ino()?,
        };
        let is_elsewhere = |inode: &Inode| inode.nlink != 1 || inode.place.hash().is_none();
        if core.tree.inode(ino).is_some_and(|inode| inode.kind != Kind::Dir && is_elsewhere(inode)) {
            // Other directories show it, too; or the one that counts it does not.
            return None;
        }
        self.lag_at(core, cluster, ino)
    }

    /// Notes a record before it is applied: what it changes below relaxed directories, and of what is relaxed.
    #[inline]
    pub(crate) fn note_relaxed(
        &mut self,
        core: &Core,
        cluster: &Cluster,
        events: &[Event],
        lsn: Lsn,
        made: Option<Ino>,
    ) {
        if self.says_modes {
            return self.note_relaxed_record(core, cluster, events, lsn, made);
        }
        events.iter().for_each(|event| self.note_brought(core, event, lsn));
    }

    /// Notes an event that may bring policies.
    fn note_brought(&mut self, core: &Core, event: &Event, lsn: Lsn) {
        match event {
            Event::Route(route) if route.rank == core.me() => self.brought = lsn,
            event => self.note_policy(event, lsn),
        }
    }

    fn note_relaxed_record(&mut self, core: &Core, cluster: &Cluster, events: &[Event], lsn: Lsn, made: Option<Ino>) {
        for event in events {
            if let Event::Orphan(ino) = event {
                // It is in no directory any more.
                self.memo.remove(ino);
            }
        }
        if self.deciding.is_some() {
            let mut inos: Vec<Ino> = events.iter().filter_map(changed_by).collect();
            inos.sort_unstable();
            inos.dedup();
            for ino in &inos {
                self.fresh.insert(*ino, lsn);
            }
            if let Some(made) = made.filter(|made| inos.binary_search(made).is_ok()) {
                self.unborn.insert(made);
            }
            self.order.push_back((lsn, core.now.mono_ms, inos));
            events.iter().for_each(|event| self.note_policy(event, lsn));
            return;
        }
        let by_letter = events.iter().any(|event| matches!(event, Event::Peer(_)));
        for event in events {
            let moves = match event {
                // Something that was there has a new name: it may be in another directory.
                Event::Entry { ino, .. } => made != Some(*ino),
                Event::Merge { .. } | Event::Route(_) | Event::RouteGone(_) => true,
                // It may have one at another rank.
                Event::EntryGone { .. } => !cluster.is_alone(),
                Event::Letter { letter, .. } => !matches!(**letter, Letter::Sum { .. }),
                Event::Inode(inode) if inode.kind == Kind::Dir && !cluster.is_alone() => {
                    let before = core.tree.inode(inode.ino).map(|before| before.parent);
                    before.map_or(by_letter, |before| before != inode.parent)
                }
                Event::Inode(inode) if inode.kind != Kind::Dir => {
                    core.tree.inode(inode.ino).is_some_and(|before| before.nlink != inode.nlink && before.nlink > 1)
                }
                _ => false,
            };
            if moves {
                self.edge = lsn;
                self.memo.clear();
            }
            self.note_brought(core, event, lsn);
        }
    }

    /// True if a relaxed answer may leave before the journal is durable.
    pub(crate) fn may_run_ahead(&self, core: &Core, lag: Lag) -> bool {
        !core.log.failed
            && self.edge <= core.log.durable
            && self.fresh.len() <= FRESH_MAX
            && self.age(core.now.mono_ms) < lag.ms
    }

    /// The last record that an answer about these inodes shows and that is not durable; if it is about something `relaxed`, `Some` also if
    /// there is none.
    pub(crate) fn volatile(&self, core: &Core, relaxed: bool, about: &[Ino]) -> Option<Volatile> {
        let durable = core.log.durable;
        let lsn = about.iter().filter_map(|ino| self.fresh.get(ino)).max().copied().filter(|lsn| *lsn > durable);
        (relaxed || lsn.is_some()).then(|| Volatile { lsn: lsn.unwrap_or(durable), durable })
    }

    /// The inodes that the answer to a request is about.
    pub(crate) fn shown_by(&self, job: &Job, result: &FsResult<Answer>) -> Vec<Ino> {
        if self.fresh.is_empty() {
            return Vec::new();
        }
        let [subject, second] = job.op.subjects();
        let mut inos: Vec<Ino> = subject.ino().into_iter().collect();
        inos.extend(second.name().map(|(dir, _)| dir));
        match result {
            Ok(Answer::Entries { entries, .. }) => inos.extend(entries.iter().map(|entry| entry.ino)),
            Ok(answer) => inos.extend(answer.attr().map(|attr| attr.ino)),
            Err(_) => {}
        }
        inos
    }

    /// True if a file's objects must not be written yet, because its creation is not durable.
    #[inline]
    pub(crate) fn is_volatile(&self, ino: Ino) -> bool {
        !self.unborn.is_empty() && self.unborn.contains(&ino)
    }

    /// The access that a session gets to a file's objects for now: [`DataAccess::Moving`] until the file's creation is durable.
    #[inline]
    pub(crate) fn access_for_now(
        &mut self,
        core: &Core,
        decoupled: &Decoupled,
        ino: Ino,
        access: DataAccess,
    ) -> DataAccess {
        if access != DataAccess::None && decoupled.is_still(ino) {
            return DataAccess::Moving;
        }
        let is_opened = self.deciding == Some(Some(ino)) && !matches!(core.tree.find(ino), Found::Here(_));
        if access == DataAccess::None || !(is_opened || self.is_volatile(ino)) {
            return access;
        }
        self.held.insert(ino);
        DataAccess::Moving
    }

    /// Somebody waits until it is durable that a file is there.
    pub(crate) fn wait_for_birth(&mut self, ino: Ino) {
        self.birth_awaited = true;
        self.held.insert(ino);
    }

    /// Tells the object server what a session may do from now on.
    pub(crate) fn tell_access(
        &mut self,
        core: &mut Core,
        decoupled: &Decoupled,
        session: SessionId,
        change: AccessChange,
    ) {
        if let Some((ino, access)) = change {
            let access = self.access_for_now(core, decoupled, ino, access);
            core.out.push_back(Output::Access { session, ino, access });
        }
    }
}

/// The inodes that an event changes.
fn changed_by(event: &Event) -> Option<Ino> {
    match event {
        Event::Inode(inode) => Some(inode.ino),
        Event::InodeGone(ino) | Event::Xattr { ino, .. } | Event::XattrGone { ino, .. } => Some(*ino),
        Event::Entry { dir, .. } | Event::EntryGone { dir, .. } => Some(*dir),
        _ => None,
    }
}

impl Cluster {
    /// True if this rank is the only one.
    pub(crate) fn is_only_rank(&self, core: &Core) -> bool {
        self.is_alone() || self.atlas.map.ranks.iter().all(|info| info.rank == core.me())
    }

    /// True if another rank may decide on something of this one's meanwhile, or gets it.
    fn is_between_ranks(&self) -> bool {
        !self.loans.is_idle() || self.exports.is_active() || self.drain.is_some()
    }
}
