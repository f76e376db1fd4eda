//! Lending: records of this rank, locked for a transaction that another rank coordinates, until it says what became of it.
//!
//! What clients hold is asked back before anything is locked, and meanwhile nothing new of it is given out: so no lock is
//! held while a client is waited for. Of two transactions the older one waits for the younger one's locks; the younger
//! one is denied, gives back all it has, and stands in a queue by age: when its turn comes it is lent what it wanted,
//! unasked. What is locked of a directory for the sake of names are those names, not the directory (`locks`). The decision
//! to lend needs many parts: `stages/loans.rs`.

use std::collections::BTreeMap;

use loligo_types::{FsError, Ino, Rank};

use super::locks::{Claim, How, Locks, Use, collide};
use crate::core::Core;
use crate::eof_cleanup::EofCleanup;
use crate::job::WaitReason;
use crate::open::Opens;
use crate::peer::{PeerMsg, TxId, Want};

/// Time that inodes marked for a denied transaction stay marked, milliseconds. Then it is called in any case.
const INTEREST_MS: u64 = 5000;

/// State of a loan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Records are being read, or an older transaction waits for a younger one.
    Waiting,
    /// Locked and sent.
    Held,
    /// Denied: it is lent what it wanted when that can be had.
    Denied,
    /// It has nothing and comes again: it gave back by itself.
    Called,
}

/// Request of one transaction for records.
struct Loan {
    client: u64,
    /// Number of times that it has asked.
    round: u32,
    wants: Vec<Want>,
    stage: Stage,
    /// Inodes on which nothing new is given out.
    marks: Vec<Ino>,
    /// Locks that it is to take, as far as they are known.
    claims: Vec<Claim>,
    /// A lock is in the way of it: younger ones do not get what it waits for before it.
    queued: bool,
    /// Locked inodes.
    locked: Vec<Ino>,
    since_ms: u64,
    /// Made before the last hello of its coordinator.
    old: bool,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Loans {
    by_tx: BTreeMap<TxId, Loan>,
    locks: Locks,
    /// Something was unlocked: those that wait go on after the requests of this rank that waited for it.
    due: bool,
}

impl Loans {
    /// True if nothing is locked.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.locks.is_empty()
    }

    /// The oldest transaction that has an inode or names of it locked.
    pub(crate) fn locked(&self, ino: Ino) -> Option<TxId> {
        self.locks.holder(ino)
    }

    /// True if all of an inode is locked.
    pub(crate) fn is_locked_whole(&self, ino: Ino) -> bool {
        self.locks.whole(ino).is_some()
    }

    /// The transaction that a request of this rank waits for which does this with an inode.
    pub(crate) fn in_the_way(&mut self, ino: Ino, what: &Use) -> Option<TxId> {
        self.locks.in_the_way(ino, what)
    }

    /// All of which something is locked, ascending.
    pub(crate) fn locked_inos(&self) -> Vec<Ino> {
        self.locks.inos()
    }

    /// True if something was unlocked since the last call.
    pub(crate) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }

    /// The oldest transaction that is in the way of these claims: it has some of it, or stands before it in the queue.
    fn against(&self, tx: TxId, claims: &[Claim]) -> Option<TxId> {
        let holder = claims.iter().filter_map(|claim| self.locks.against(tx, claim)).min();
        let before = self.by_tx.range(..tx).find(|(_, other)| {
            let waits = other.queued && matches!(other.stage, Stage::Waiting | Stage::Denied);
            waits
                && claims.iter().any(|own| !self.locks.has(tx, own.ino) && other.claims.iter().any(|o| collide(own, o)))
        });
        holder.into_iter().chain(before.map(|(other, _)| *other)).min()
    }

    /// A transaction wants something, or something more.
    pub(super) fn want(&mut self, core: &Core, tx: TxId, round: u32, client: u64, wants: Vec<Want>) {
        let since_ms = core.now.mono_ms;
        let loan = self.by_tx.entry(tx).or_insert_with(|| Loan {
            client,
            round,
            wants: Vec::new(),
            stage: Stage::Waiting,
            marks: Vec::new(),
            claims: Vec::new(),
            queued: false,
            locked: Vec::new(),
            since_ms,
            old: false,
        });
        (loan.stage, loan.since_ms, loan.old, loan.round) = (Stage::Waiting, since_ms, false, round);
        for want in wants {
            if !loan.wants.contains(&want) {
                loan.wants.push(want);
            }
        }
    }

    /// The round and whether it was denied, of a loan that waits or was denied.
    pub(super) fn goes_on(&self, tx: TxId) -> Option<(u32, bool)> {
        let loan = self.by_tx.get(&tx).filter(|loan| matches!(loan.stage, Stage::Waiting | Stage::Denied))?;
        Some((loan.round, loan.stage == Stage::Denied))
    }

    /// Locks what is lent from now on.
    pub(super) fn lend(&mut self, core: &mut Core, tx: TxId, claims: &[Claim]) {
        // Also what an earlier round has locked, and is found to be another rank's, or gone, by now.
        let mut inos = self.by_tx.get(&tx).map_or_else(Vec::new, |loan| loan.locked.clone());
        inos.extend(claims.iter().map(|claim| claim.ino));
        inos.sort_unstable();
        inos.dedup();
        // What is only shown does not change: clients may be given of it what they ask for.
        let shown = |ino: &Ino| claims.iter().any(|claim| claim.ino == *ino && claim.how == How::Shown);
        let marks: Vec<Ino> = inos.iter().copied().filter(|ino| !shown(ino)).collect();
        self.mark_loan(core, tx, &marks);
        claims.iter().for_each(|claim| self.locks.take(tx, claim));
        if let Some(loan) = self.by_tx.get_mut(&tx) {
            (loan.stage, loan.locked) = (Stage::Held, inos);
        }
    }

    /// A loan is about to be considered: the records that it wants, its client, and whether it waits for the first time. It stands in no queue
    /// meanwhile.
    pub(super) fn wanted(&mut self, tx: TxId) -> Option<(Vec<Want>, u64, bool)> {
        let loan = self.by_tx.get_mut(&tx)?;
        loan.queued = false;
        Some((loan.wants.clone(), loan.client, loan.stage == Stage::Waiting))
    }

    /// Notes what a loan is to lock. The transaction that is in the way of that, if there is one: it stands in the queue then.
    pub(super) fn queue(&mut self, tx: TxId, claims: &[Claim]) -> Option<TxId> {
        let holder = self.against(tx, claims);
        if let Some(loan) = self.by_tx.get_mut(&tx) {
            (loan.claims, loan.queued) = (claims.to_vec(), holder.is_some());
        }
        holder
    }

    /// The loans that wait or were denied, the oldest first.
    pub(super) fn waiting(&self) -> Vec<TxId> {
        let waits = |loan: &Loan| matches!(loan.stage, Stage::Waiting | Stage::Denied);
        self.by_tx.iter().filter(|(_, loan)| waits(loan)).map(|(tx, _)| *tx).collect()
    }

    /// Forgets those that did not come or wait for too long; whether there are any loans.
    pub(super) fn expire(&mut self, core: &mut Core, opens: &mut Opens, tidy: &mut EofCleanup) -> bool {
        if self.by_tx.is_empty() {
            return false;
        }
        let now = core.now.mono_ms;
        let late = self.by_tx.iter().filter(|(_, loan)| loan.since_ms + INTEREST_MS < now);
        let late: Vec<(TxId, Stage)> = late.map(|(tx, loan)| (*tx, loan.stage)).collect();
        for (tx, stage) in late {
            match stage {
                // It waits for this call, and is denied again if need be.
                Stage::Denied => {
                    self.end_loan(core, opens, tidy, tx);
                    core.tell(tx.rank, PeerMsg::Ready { tx });
                }
                Stage::Called => self.end_loan(core, opens, tidy, tx),
                Stage::Waiting | Stage::Held => {}
            }
        }
        true
    }

    pub(super) fn deny_loan(&mut self, core: &mut Core, opens: &mut Opens, tidy: &mut EofCleanup, tx: TxId) {
        self.unlock(core, opens, tidy, tx);
        let Some(loan) = self.by_tx.get_mut(&tx) else { return };
        loan.stage = Stage::Denied;
        let round = loan.round;
        core.tell(tx.rank, PeerMsg::Denied { tx, round, error: FsError::Busy });
    }

    /// Ends a loan whose records could not be read.
    pub(crate) fn loan_failed(&mut self, core: &mut Core, opens: &mut Opens, tidy: &mut EofCleanup, tx: TxId) {
        let round = self.by_tx.get(&tx).map_or(0, |loan| loan.round);
        self.end_loan(core, opens, tidy, tx);
        core.tell(tx.rank, PeerMsg::Denied { tx, round, error: FsError::Io });
    }

    pub(super) fn mark_loan(&mut self, core: &mut Core, tx: TxId, inos: &[Ino]) {
        let Some(loan) = self.by_tx.get_mut(&tx) else { return };
        let before = std::mem::replace(&mut loan.marks, inos.to_vec());
        core.parked.mark_inos(inos);
        core.parked.unmark_inos(&before);
    }

    /// Takes the locks of a transaction away.
    fn unlock(&mut self, core: &mut Core, opens: &mut Opens, tidy: &mut EofCleanup, tx: TxId) {
        let Some(loan) = self.by_tx.get_mut(&tx) else { return };
        let inos = std::mem::take(&mut loan.locked);
        if inos.is_empty() {
            return;
        }
        self.due = true;
        for ino in inos {
            self.locks.give(tx, ino);
            // An orphan may have had its last close meanwhile.
            opens.closed(core, tidy, ino);
        }
        core.parked.wake(&WaitReason::Locked);
    }

    pub(super) fn end_loan(&mut self, core: &mut Core, opens: &mut Opens, tidy: &mut EofCleanup, tx: TxId) {
        self.unlock(core, opens, tidy, tx);
        if let Some(loan) = self.by_tx.remove(&tx) {
            core.parked.unmark_inos(&loan.marks);
        }
        self.due = true;
    }

    /// The transaction gives back what it borrowed.
    pub(crate) fn returned(
        &mut self,
        core: &mut Core,
        opens: &mut Opens,
        tidy: &mut EofCleanup,
        tx: TxId,
        again: bool,
    ) {
        if !again {
            return self.end_loan(core, opens, tidy, tx);
        }
        self.unlock(core, opens, tidy, tx);
        let now_ms = core.now.mono_ms;
        if let Some(loan) = self.by_tx.get_mut(&tx) {
            // It waits for something else than this rank, and comes by itself.
            (loan.stage, loan.since_ms) = (Stage::Called, now_ms);
        }
        self.due = true;
    }

    /// True if nothing has changed for a waiting loan, as locks go: this is asked of all after each transaction.
    pub(super) fn still_waits(&self, tx: TxId) -> bool {
        let loans = self;
        let Some(loan) = loans.by_tx.get(&tx).filter(|loan| loan.queued) else { return false };
        let holder = loans.against(tx, &loan.claims);
        holder.is_some_and(|holder| loan.stage == Stage::Denied || tx < holder)
    }

    /// A coordinator has said hello: what it borrowed before is only kept until its letters of before are here.
    pub(crate) fn age_loans(&mut self, from: Rank) {
        let of_it = self.by_tx.iter_mut().filter(|(tx, _)| tx.rank == from);
        of_it.for_each(|(_, loan)| loan.old = true);
    }

    /// They are: it is over.
    pub(crate) fn end_old_loans(&mut self, core: &mut Core, opens: &mut Opens, tidy: &mut EofCleanup, from: Rank) {
        let old = self.by_tx.iter().filter(|(tx, loan)| tx.rank == from && loan.old);
        let old: Vec<TxId> = old.map(|(tx, _)| *tx).collect();
        old.into_iter().for_each(|tx| self.end_loan(core, opens, tidy, tx));
    }
}

/// Inodes of which replicas of other ranks may become stale: not those that are locked for names alone, or only shown.
pub(super) fn replicated(claims: &[Claim]) -> Vec<Ino> {
    let may_change = |claim: &&Claim| !matches!(claim.how, How::Names(_) | How::Shown);
    claims.iter().filter(may_change).map(|claim| claim.ino).collect()
}
