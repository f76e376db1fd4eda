//! Answers that were ahead of a rank's journal, because a directory's policy lets them: what is waited for at an fsync, and what a crash of the
//! server took back. Not here: which answers these are (the rank says so), file data that a server's disk does not have (`unsynced`), nor what is given up for what is lost (`recover`).
//!
//! Of each inode that such an answer was about it is remembered with which record it is durable. A rank that begins a new life says which record was
//! its last: what is beyond it is lost. Then nothing that the rank had lent is believed, handles of what lost something end as those of a lost
//! session do, and the next fsync of each of these inodes fails, once.

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::msg::Volatile;
use loligo_types::{Answer, Control, FsResult, Ino, Kind, Lsn, Op, Rank, Seq};

use crate::ranks::Ranks;
use crate::session::Session;

/// Inodes that lost something and of which no fsync has told it: more are not remembered one by one.
pub(crate) const LOST_MAX: usize = 65_536;

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
    pub lost: BTreeSet<Ino>,
    /// Inodes that such an answer was about: of what others did to them a crash may take back what was never told here.
    pub seen: BTreeSet<Ino>,
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
        if let (Op::Control(Control::Persist | Control::Sync), Some(upto)) = (op, self.upto()) {
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
    pub(crate) fn lose(&mut self, recovered: Option<Lsn>) -> BTreeSet<Ino> {
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
    /// The ranks of which it is asked that all is durable that they have answered of an inode; `rank`: the one that has it.
    pub(crate) fn that_persist(&self, rank: Option<Rank>, ino: Ino) -> Vec<Rank> {
        // Also for what others have been told: who syncs a file syncs all that was done to it.
        let waits = |(of, session): (&Rank, &Session)| {
            let ahead = &session.ahead;
            (rank == Some(*of) && ahead.relaxed || ahead.by_ino.contains_key(&ino)).then_some(*of)
        };
        self.sessions.iter().filter_map(waits).collect()
    }

    /// The file that an answer is about.
    pub(crate) fn file_of_answer(&self, rank: Rank, seq: Seq, result: &FsResult<Answer>) -> Option<Ino> {
        match result.as_ref().ok().and_then(Answer::opened) {
            Some(attr) => Some(attr.ino),
            None => self.sessions.get(&rank)?.pending.get(&seq.0)?.request.op.subjects()[0].ino(),
        }
    }

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
        if matches!(op, Op::Control(Control::Persist | Control::Sync)) {
            ahead.answered(seq.0, result.is_ok());
        }
        let Some(Volatile { lsn, durable }) = volatile else { return };
        ahead.relaxed = true;
        ahead.settle(durable);
        let [subject, second] = op.subjects();
        let (about, second) = (subject.ino(), second.name().map(|(dir, _)| dir));
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
