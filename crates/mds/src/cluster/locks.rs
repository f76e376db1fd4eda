//! Locks for transactions that other ranks coordinate: on inodes as a whole, or only on names of a directory, so that others may change
//! other names of it meanwhile; or so that it can be shown, and others may look at it, too. A data structure; the decision to lend is made
//! in `lend`.

use loligo_types::{Ino, Lease};

use crate::peer::TxId;
use loligo_types::hash::IntMap;

/// Extent of the lock that a transaction wants on an inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum How {
    /// The inode is looked at. By itself that is all of it; beside names of it, what they are wanted for.
    Inode,
    /// Names with these hashes, and what is counted of them: only differences of the decision are applied.
    Names(Vec<u64>),
    /// All of it.
    Whole,
    /// All of it, only to be shown: nothing of it changes meanwhile, and others may be shown it, too.
    Shown,
}

/// An inode to lock, with what clients must not hold of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    pub(super) ino: Ino,
    pub(super) recall: Lease,
    pub(super) how: How,
}

/// Adds what is to be locked, once an inode.
pub(super) fn claim(claims: &mut Vec<Claim>, ino: Ino, recall: Lease, how: How) {
    let Some(known) = claims.iter_mut().find(|claim| claim.ino == ino) else {
        return claims.push(Claim { ino, recall, how });
    };
    known.recall = known.recall | recall;
    match (&mut known.how, how) {
        (How::Shown, how) => known.how = how,
        (How::Names(_), How::Shown) => known.how = How::Whole,
        (How::Whole, _) | (_, How::Inode | How::Shown) => {}
        (How::Names(all), How::Names(more)) => all.extend(more),
        (known, how) => *known = how,
    }
}

/// True if two transactions cannot have both claims at the same time.
pub(super) fn collide(a: &Claim, b: &Claim) -> bool {
    a.ino == b.ino
        && match (&a.how, &b.how) {
            (How::Names(a), How::Names(b)) => a.iter().any(|hash| b.contains(hash)),
            (How::Shown, How::Shown) => false,
            _ => true,
        }
}

#[derive(Default)]
struct Lock {
    whole: Option<TxId>,
    names: Vec<(u64, TxId)>,
    /// Those that it is shown to.
    shown: Vec<TxId>,
    /// A request waits that wants more of it than is left: nobody else gets names of it, or is shown it, before that had its turn.
    closed: bool,
}

/// Use that a request of this rank makes of an inode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// Looks at these names, or changes them and what is counted of the inode.
    Names {
        /// Their hashes.
        hashes: Vec<u64>,
        /// Set when something changes.
        changes: bool,
    },
    /// Looks at all of it, and changes nothing.
    Look,
    /// All else.
    Whole,
}

/// All locks.
#[derive(Default)]
pub(super) struct Locks {
    by_ino: IntMap<Ino, Lock>,
}

impl Locks {
    /// True if nothing is locked.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.by_ino.is_empty()
    }

    /// All inodes of which something is locked, ascending.
    pub(super) fn inos(&self) -> Vec<Ino> {
        let mut all: Vec<Ino> = self.by_ino.keys().copied().collect();
        all.sort();
        all
    }

    /// The oldest transaction that has something of an inode.
    pub(super) fn holder(&self, ino: Ino) -> Option<TxId> {
        let lock = self.by_ino.get(&ino)?;
        let names = lock.names.iter().map(|(_, tx)| *tx);
        lock.whole.into_iter().chain(names).chain(lock.shown.iter().copied()).min()
    }

    /// The transaction that has all of an inode.
    pub(super) fn whole(&self, ino: Ino) -> Option<TxId> {
        self.by_ino.get(&ino)?.whole
    }

    /// True if a transaction has something of an inode locked.
    pub(super) fn has(&self, tx: TxId, ino: Ino) -> bool {
        let of = |lock: &Lock| {
            lock.whole == Some(tx) || lock.names.iter().any(|(_, holder)| *holder == tx) || lock.shown.contains(&tx)
        };
        self.by_ino.get(&ino).is_some_and(of)
    }

    /// The oldest other transaction whose lock excludes this claim.
    pub(super) fn against(&self, tx: TxId, claim: &Claim) -> Option<TxId> {
        let lock = self.by_ino.get(&claim.ino)?;
        let is_late = lock.closed && !self.has(tx, claim.ino);
        let excludes = |(hash, _): &&(u64, TxId)| match &claim.how {
            How::Names(hashes) => hashes.contains(hash) || is_late,
            How::Inode | How::Whole | How::Shown => true,
        };
        let names = lock.names.iter().filter(excludes).map(|(_, holder)| *holder);
        let is_shown_more = claim.how == How::Shown && !is_late;
        let shown = lock.shown.iter().copied().filter(|_| !is_shown_more);
        lock.whole.into_iter().chain(names).chain(shown).filter(|holder| *holder != tx).min()
    }

    /// The oldest transaction that a request of this rank waits for which does this with an inode. If it wants more than what is left,
    /// it has its turn before others get of that.
    pub(super) fn in_the_way(&mut self, ino: Ino, what: &Use) -> Option<TxId> {
        let lock = self.by_ino.get_mut(&ino)?;
        let excludes = |(hash, _): &&(u64, TxId)| match what {
            Use::Names { hashes, .. } => hashes.contains(hash),
            Use::Look | Use::Whole => true,
        };
        let names = lock.names.iter().filter(excludes).map(|(_, holder)| *holder);
        let changes = !matches!(what, Use::Look | Use::Names { changes: false, .. });
        let shown = lock.shown.iter().copied().filter(|_| changes);
        let holder = lock.whole.into_iter().chain(names).chain(shown).min();
        let is_in_turn = matches!(what, Use::Names { .. }) && (!changes || lock.shown.is_empty());
        lock.closed |= holder.is_some() && !is_in_turn;
        holder
    }

    /// Locks what nobody else has.
    pub(super) fn take(&mut self, tx: TxId, claim: &Claim) {
        self.give(tx, claim.ino);
        let lock = self.by_ino.entry(claim.ino).or_default();
        match &claim.how {
            How::Names(hashes) => lock.names.extend(hashes.iter().map(|hash| (*hash, tx))),
            How::Inode | How::Whole => lock.whole = Some(tx),
            How::Shown => lock.shown.push(tx),
        }
    }

    /// Unlocks what a transaction has of an inode.
    pub(super) fn give(&mut self, tx: TxId, ino: Ino) {
        let Some(lock) = self.by_ino.get_mut(&ino) else { return };
        lock.whole = lock.whole.filter(|holder| *holder != tx);
        lock.names.retain(|(_, holder)| *holder != tx);
        lock.shown.retain(|holder| *holder != tx);
        if lock.whole.is_none() && lock.names.is_empty() && lock.shown.is_empty() {
            self.by_ino.remove(&ino);
        }
    }
}

#[cfg(test)]
mod tests {
    use loligo_types::Rank;

    use super::*;

    const D: Ino = Ino(7);

    fn tx(number: u64) -> TxId {
        TxId { number, rank: Rank(1) }
    }

    fn of(how: How) -> Claim {
        Claim { ino: D, recall: Lease::NONE, how }
    }

    fn name(hash: u64) -> Claim {
        of(How::Names(vec![hash]))
    }

    #[test]
    fn other_names_of_a_directory_exclude_nobody_and_the_whole_excludes_all() {
        let mut locks = Locks::default();
        locks.take(tx(2), &name(20));
        assert_eq!((locks.against(tx(1), &name(10)), locks.against(tx(1), &name(20))), (None, Some(tx(2))));
        assert_eq!(locks.against(tx(2), &of(How::Whole)), None, "it may have more of what it has");
        locks.take(tx(1), &name(10));
        assert_eq!(locks.against(tx(3), &of(How::Inode)), Some(tx(1)), "the oldest of them");
        let change = |hashes: &[u64]| Use::Names { hashes: hashes.to_vec(), changes: true };
        assert_eq!((locks.in_the_way(D, &change(&[])), locks.in_the_way(D, &change(&[20]))), (None, Some(tx(2))));
        locks.give(tx(1), D);
        locks.take(tx(2), &of(How::Whole));
        assert_eq!((locks.whole(D), locks.against(tx(3), &name(30))), (Some(tx(2)), Some(tx(2))));
        locks.give(tx(2), D);
        assert!(locks.is_empty() && locks.holder(D).is_none());
    }

    #[test]
    fn a_request_for_the_whole_lets_no_more_names_be_taken_before_it_had_its_turn() {
        let mut locks = Locks::default();
        locks.take(tx(5), &name(1));
        assert_eq!(locks.in_the_way(D, &Use::Whole), Some(tx(5)));
        assert_eq!(locks.against(tx(6), &name(2)), Some(tx(5)));
        assert_eq!(locks.against(tx(5), &name(2)), None, "who has some may end");
        locks.give(tx(5), D);
        assert_eq!(locks.against(tx(6), &name(2)), None);
    }

    #[test]
    fn what_is_shown_to_one_is_shown_to_others_and_is_changed_by_nobody() {
        let mut locks = Locks::default();
        let look = |hashes: &[u64]| Use::Names { hashes: hashes.to_vec(), changes: false };
        let change = |hashes: &[u64]| Use::Names { hashes: hashes.to_vec(), changes: true };
        locks.take(tx(4), &of(How::Shown));
        locks.take(tx(3), &of(How::Shown));
        assert_eq!((locks.holder(D), locks.whole(D)), (Some(tx(3)), None));
        assert_eq!(locks.against(tx(9), &of(How::Shown)), None);
        assert_eq!((locks.against(tx(9), &name(1)), locks.against(tx(9), &of(How::Whole))), (Some(tx(3)), Some(tx(3))));
        assert_eq!((locks.in_the_way(D, &Use::Look), locks.in_the_way(D, &look(&[1]))), (None, None));
        assert_eq!(locks.against(tx(9), &of(How::Shown)), None, "who only looks keeps nobody from looking");
        assert_eq!(locks.in_the_way(D, &change(&[1])), Some(tx(3)));
        assert_eq!(locks.against(tx(9), &of(How::Shown)), Some(tx(3)), "who waits to change it has its turn first");
        assert_eq!(locks.against(tx(4), &of(How::Shown)), None, "who has it may ask again");
        locks.give(tx(3), D);
        locks.give(tx(4), D);
        assert!(locks.is_empty());
        locks.take(tx(5), &name(1));
        assert_eq!(locks.against(tx(9), &of(How::Shown)), Some(tx(5)));
    }

    #[test]
    fn claims_of_one_transaction_add_up() {
        let mut claims = Vec::new();
        claim(&mut claims, D, Lease::NONE, How::Inode);
        claim(&mut claims, D, Lease::CACHE, How::Names(vec![1]));
        claim(&mut claims, D, Lease::NONE, How::Names(vec![2]));
        claim(&mut claims, D, Lease::NONE, How::Inode);
        assert_eq!(claims, [Claim { ino: D, recall: Lease::CACHE, how: How::Names(vec![1, 2]) }]);
        assert!(collide(&claims[0], &name(2)) && !collide(&claims[0], &name(3)));
        claim(&mut claims, D, Lease::NONE, How::Whole);
        claim(&mut claims, D, Lease::NONE, How::Names(vec![3]));
        assert_eq!(claims[0].how, How::Whole);
        assert!(collide(&claims[0], &name(9)));
        let mut claims = vec![of(How::Shown)];
        assert!(collide(&claims[0], &name(1)) && !collide(&claims[0], &of(How::Shown)));
        claim(&mut claims, D, Lease::NONE, How::Inode);
        assert_eq!(claims[0].how, How::Inode, "it may be changed");
    }
}
