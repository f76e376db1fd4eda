//! Answers that were ahead of a rank's journal, because a directory's policy lets them: what is waited for at an fsync, and what a crash of the
//! server took back. Not here: which answers these are (the rank says so), nor file data that a server's disk does not have (`unsynced`).
//!
//! Of each inode that such an answer was about it is remembered with which record it is durable. A rank that begins a new life says which record was
//! its last: what is beyond it is lost. Then nothing that the rank had lent is believed, handles of what lost something end as those of a lost
//! session do, and the next fsync of each of these inodes fails, once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loligo_types::msg::Volatile;
use loligo_types::{About, Answer, Cred, FsError, FsResult, Ino, Kind, Lsn, Op, Rank, Seq};

use crate::calls::Calls;
use crate::machine::{Client, Waiter};
use crate::ranks::Ranks;
use crate::recover::NOWHERE;
use crate::session::{Session, Then};
use crate::task::{Event, Step, Task};
use crate::{CallResult, Done};

/// Inodes that lost something and of which no fsync has told it: more are not remembered one by one.
const LOST_MAX: usize = 65_536;

/// Of one rank.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// It has told something of what is below a relaxed directory, of which others may have been told more.
    relaxed: bool,
    by_ino: BTreeMap<Ino, Lsn>,
    by_lsn: BTreeSet<(Lsn, Ino)>,
    /// Those that such an answer made.
    made: BTreeSet<Ino>,
    /// Requests that are answered when all is durable that had been answered by then; and up to where that was.
    asked: BTreeMap<u64, Lsn>,
    /// A crash took back something of these.
    lost: BTreeSet<Ino>,
    /// Inodes that such an answer was about: of what others did to them a crash may take back what was never told here.
    seen: BTreeSet<Ino>,
}

impl Ahead {
    fn note(&mut self, ino: Ino, lsn: Lsn) {
        if let Some(before) = self.by_ino.insert(ino, lsn) {
            self.by_lsn.remove(&(before, ino));
        }
        self.by_lsn.insert((lsn, ino));
    }

    /// The journal is durable up to here.
    fn settle(&mut self, durable: Lsn) {
        while let Some((lsn, ino)) = self.by_lsn.first().copied()
            && lsn <= durable
        {
            self.by_lsn.pop_first();
            self.by_ino.remove(&ino);
            self.made.remove(&ino);
        }
    }

    /// With which record all is durable.
    fn upto(&self) -> Option<Lsn> {
        self.by_lsn.last().map(|(lsn, _)| *lsn)
    }

    /// A request is sent that waits for all of it.
    pub(crate) fn ask(&mut self, seq: u64, op: &Op) {
        if let (Op::Persist | Op::Sync, Some(upto)) = (op, self.upto()) {
            self.asked.insert(seq, upto);
        }
    }

    /// It is answered.
    fn answered(&mut self, seq: u64, ok: bool) {
        if let Some(upto) = self.asked.remove(&seq)
            && ok
        {
            self.settle(upto);
        }
    }

    fn is_idle(&self) -> bool {
        self.by_ino.is_empty() && self.asked.is_empty()
    }

    /// The rank is in another life, whose journal ends here; `None`: that is not known of the life that the answers came from. What is lost.
    fn lose(&mut self, recovered: Option<Lsn>) -> BTreeSet<Ino> {
        let gone = |lsn: Lsn| recovered.is_none_or(|recovered| lsn > recovered);
        let lost = self.by_ino.iter().filter(|(_, lsn)| gone(**lsn)).map(|(ino, _)| *ino).collect();
        let asked = std::mem::take(&mut self.asked);
        let told = std::mem::take(&mut self.lost);
        // Of requests that are sent again the answer is of the new life.
        let (relaxed, seen) = (self.relaxed, std::mem::take(&mut self.seen));
        let asked = asked.into_keys().map(|seq| (seq, Lsn(0))).collect();
        *self = Ahead { relaxed, lost: told, seen, asked, ..Ahead::default() };
        lost
    }
}

impl Ranks {
    /// An answer came.
    pub(crate) fn note_volatile(
        &mut self,
        rank: Rank,
        seq: Seq,
        result: &FsResult<Answer>,
        volatile: Option<Volatile>,
    ) {
        let Some(session) = self.sessions.get_mut(&rank) else { return };
        let ahead = &mut session.ahead;
        if volatile.is_none() && ahead.is_idle() {
            return;
        }
        let Some(op) = session.pending.get(&seq.0).map(|pending| &pending.request.op) else { return };
        if matches!(op, Op::Persist | Op::Sync) {
            ahead.answered(seq.0, result.is_ok());
        }
        let Some(Volatile { lsn, durable }) = volatile else { return };
        ahead.relaxed = true;
        ahead.settle(durable);
        let about = match op.about() {
            About::Names(ino) | About::Inode(ino) => Some(ino),
            About::Nothing => None,
        };
        let second = if let Op::Rename { new_dir, .. } = op { Some(*new_dir) } else { None };
        let shown = result.as_ref().ok().and_then(Answer::attr).map(|attr| attr.ino);
        for ino in about.into_iter().chain(second).chain(shown) {
            ahead.seen.insert(ino);
            if lsn > durable {
                ahead.note(ino, lsn);
            }
        }
        if let Ok(Answer::Entries { entries, .. }) = result {
            // Files are opened before they are synced, and that is told of them then.
            ahead.seen.extend(entries.iter().filter(|entry| entry.kind == Kind::Dir).map(|entry| entry.ino));
        }
        while ahead.seen.len() > LOST_MAX {
            ahead.seen.pop_first();
        }
        if lsn <= durable {
            return;
        }
        if let (true, Some(ino)) = (op.makes_inode(), shown) {
            ahead.made.insert(ino);
        }
    }

    /// True if a file's create is not durable yet: its objects must not be written before.
    pub(crate) fn is_unborn(&self, rank: Rank, ino: Ino) -> bool {
        self.session(rank).is_some_and(|session| session.ahead.made.contains(&ino))
    }

    /// True if a crash rolled back something of an inode; reported once.
    pub(crate) fn take_lost(&mut self, ino: Ino) -> bool {
        self.sessions.values_mut().any(|session| session.ahead.lost.remove(&ino))
    }
}

impl Calls {
    /// True if somebody still waits for the result of a task. A call that was given up or interrupted is answered, but goes on: it must
    /// not consume news that are told only once.
    pub(crate) fn is_waited_for(&self, waiter: Waiter) -> bool {
        match waiter {
            Waiter::Call(id) => self.waiting.contains(&id),
            _ => true,
        }
    }
}

impl Client {
    /// Asks the rank that has a file or directory for the answer that comes when all is durable that it has answered; and each rank that has told something of
    /// it which was not durable: if it crashed before the directory moved, this client may not have heard of that. How many are asked; 0: all is
    /// durable, because there is nothing that is relaxed, as far as was seen.
    pub(crate) fn persist_then(&mut self, rank: Option<Rank>, ino: Ino, cred: &Arc<Cred>, task: u64) -> usize {
        // Also for what others have been told: who syncs a file syncs all that was done to it.
        let waits = |(of, session): (&Rank, &Session)| {
            let ahead = &session.ahead;
            (rank == Some(*of) && ahead.relaxed || ahead.by_ino.contains_key(&ino)).then_some(*of)
        };
        let ranks: Vec<Rank> = self.ranks.sessions.iter().filter_map(waits).collect();
        for rank in &ranks {
            self.request_at(*rank, Cred::clone(cred), Op::Persist, Then::Task(task), 0);
        }
        ranks.len()
    }

    /// Names in a directory are to be durable. Those that were answered are, but for answers that came early.
    pub(crate) fn step_fsync_dir(&mut self, id: u64, task: &mut Task, event: Event) -> Option<CallResult> {
        let dir = task.ino;
        if !self.calls.is_waited_for(task.waiter) {
            return Some(Err(FsError::Unavailable.into()));
        }
        let Step::FsyncDir { left } = &mut task.step else { return None };
        if self.ranks.take_lost(dir) {
            return Some(Err(FsError::Io.into()));
        }
        match event {
            Event::Start => {
                let rank = self.ranks.route(&self.files, &self.own, &Op::GetAttr { ino: dir });
                *left = self.persist_then(Some(rank), dir, &task.cred, id);
                (*left == 0).then(|| Ok(Done::plain(Answer::Done)))
            }
            Event::Reply(Ok(_)) if *left > 1 => {
                *left -= 1;
                None
            }
            Event::Reply(result) => Some(result.map(Done::plain).map_err(Into::into)),
            _ => None,
        }
    }

    /// A rank says hello. `epochs`: of its data, before and now; each start that may have lost something counts one. If they are the same, nothing is
    /// lost, and what is ahead of its journal still is.
    pub(crate) fn lose_volatile(&mut self, rank: Rank, recovered: Lsn, epochs: (u64, u64)) {
        let Some(session) = self.ranks.sessions.get_mut(&rank).filter(|_| epochs.0 != epochs.1 || epochs.1 == 0) else {
            return;
        };
        // A crash, and no other one before it since: this says where the journal ended.
        let is_next = epochs.1 == epochs.0.wrapping_add(1) && recovered.0 > 0;
        let lost = session.ahead.lose(is_next.then_some(recovered));
        // A sync that waited over the crash fails: changes of others to the same file may be lost.
        let waiting = session.pending.values().filter_map(|pending| match (&pending.request.op, &pending.then) {
            (Op::Persist, Then::Task(id)) => self.calls.tasks.get(id).map(|task| task.ino),
            _ => None,
        });
        let waiting: Vec<Ino> = waiting.filter(|ino| session.ahead.seen.contains(ino) && !lost.contains(ino)).collect();
        session.ahead.lost.extend(waiting);
        if lost.is_empty() {
            return;
        }
        let at_once: BTreeSet<Ino> = lost
            .iter()
            .copied()
            .filter(|ino| self.files.opened.values().any(|opened| opened.ino == *ino && opened.flags.write))
            .collect();
        session.ahead.lost.extend(lost.difference(&at_once));
        while session.ahead.lost.len() > LOST_MAX {
            session.ahead.lost.pop_first();
        }
        self.files.unsynced.fail(FsError::Io);
        // What was seen and lost may be cached anywhere.
        self.recalls.give_up_leases(&mut self.core, &mut self.ranks, &mut self.files, rank);
        let mut ends = false;
        let of_it: Vec<u64> = self
            .files
            .handles
            .iter()
            .filter(|(_, handle)| lost.contains(&handle.ino))
            .map(|(number, _)| *number)
            .collect();
        for number in of_it {
            if self.files.at.get(&number) == Some(&rank) {
                self.files.at.insert(number, NOWHERE);
                ends = true;
            }
        }
        for ino in &lost {
            if let Some(file) = self.files.map.get_mut(ino).filter(|file| file.rank == rank) {
                file.rank = NOWHERE;
                ends = true;
            }
        }
        if ends {
            self.lose_held(NOWHERE, BTreeSet::new(), false);
            for opened in self.files.opened.values_mut() {
                opened.lost |= opened.dead && at_once.contains(&opened.ino) && opened.flags.write;
            }
        }
    }
}
