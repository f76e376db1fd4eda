//! What is locked for transactions that other ranks coordinate: inodes as a whole, or only names of a directory, so that
//! others may change other names of it meanwhile. A data structure; who is lent what is decided in `lend`.

use loligo_types::{Ino, Lease};

use crate::hash::IntMap;
use crate::peer::TxId;

/// How much of an inode a transaction wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum How {
    /// The inode is looked at. By itself that is all of it; beside names of it, what they are wanted for.
    Inode,
    /// Names with these hashes, and what is counted of them: only differences of the decision are applied.
    Names(Vec<u64>),
    /// All of it.
    Whole,
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
        (How::Whole, _) | (_, How::Inode) => {}
        (How::Names(all), How::Names(more)) => all.extend(more),
        (known, how) => *known = how,
    }
}

/// Whether two transactions cannot have both at the same time.
pub(super) fn collide(a: &Claim, b: &Claim) -> bool {
    a.ino == b.ino
        && match (&a.how, &b.how) {
            (How::Names(a), How::Names(b)) => a.iter().any(|hash| b.contains(hash)),
            _ => true,
        }
}

#[derive(Default)]
struct Lock {
    whole: Option<TxId>,
    names: Vec<(u64, TxId)>,
    /// A request waits that wants all of it: nobody else gets names of it before that had its turn.
    closed: bool,
}

/// All locks.
#[derive(Default)]
pub(super) struct Locks {
    by_ino: IntMap<Ino, Lock>,
}

impl Locks {
    /// Whether nothing is locked.
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
        lock.whole.into_iter().chain(lock.names.iter().map(|(_, tx)| *tx)).min()
    }

    /// The transaction that has all of an inode.
    pub(super) fn whole(&self, ino: Ino) -> Option<TxId> {
        self.by_ino.get(&ino)?.whole
    }

    /// Whether a transaction has something of an inode.
    pub(super) fn has(&self, tx: TxId, ino: Ino) -> bool {
        let of = |lock: &Lock| lock.whole == Some(tx) || lock.names.iter().any(|(_, holder)| *holder == tx);
        self.by_ino.get(&ino).is_some_and(of)
    }

    /// The oldest other transaction whose lock excludes this claim.
    pub(super) fn against(&self, tx: TxId, claim: &Claim) -> Option<TxId> {
        let lock = self.by_ino.get(&claim.ino)?;
        let excludes = |(hash, _): &&(u64, TxId)| match &claim.how {
            How::Names(hashes) => hashes.contains(hash) || (lock.closed && !self.has(tx, claim.ino)),
            How::Inode | How::Whole => true,
        };
        let names = lock.names.iter().filter(excludes).map(|(_, holder)| *holder);
        lock.whole.into_iter().chain(names).filter(|holder| *holder != tx).min()
    }

    /// The oldest transaction that a request of this rank waits for which changes these names of an inode, and what is
    /// counted of it; `None`: which wants all of it. That one has its turn before others get names.
    pub(super) fn in_the_way(&mut self, ino: Ino, names: Option<&[u64]>) -> Option<TxId> {
        let lock = self.by_ino.get_mut(&ino)?;
        lock.closed |= names.is_none();
        let excludes = |(hash, _): &&(u64, TxId)| names.is_none_or(|names| names.contains(hash));
        let names = lock.names.iter().filter(excludes).map(|(_, holder)| *holder);
        lock.whole.into_iter().chain(names).min()
    }

    /// Locks what nobody else has.
    pub(super) fn take(&mut self, tx: TxId, claim: &Claim) {
        self.give(tx, claim.ino);
        let lock = self.by_ino.entry(claim.ino).or_default();
        match &claim.how {
            How::Names(hashes) => lock.names.extend(hashes.iter().map(|hash| (*hash, tx))),
            How::Inode | How::Whole => lock.whole = Some(tx),
        }
    }

    /// Unlocks what a transaction has of an inode.
    pub(super) fn give(&mut self, tx: TxId, ino: Ino) {
        let Some(lock) = self.by_ino.get_mut(&ino) else { return };
        lock.whole = lock.whole.filter(|holder| *holder != tx);
        lock.names.retain(|(_, holder)| *holder != tx);
        if lock.whole.is_none() && lock.names.is_empty() {
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
        assert_eq!((locks.in_the_way(D, Some(&[])), locks.in_the_way(D, Some(&[20]))), (None, Some(tx(2))));
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
        assert_eq!(locks.in_the_way(D, None), Some(tx(5)));
        assert_eq!(locks.against(tx(6), &name(2)), Some(tx(5)));
        assert_eq!(locks.against(tx(5), &name(2)), None, "who has some may end");
        locks.give(tx(5), D);
        assert_eq!(locks.against(tx(6), &name(2)), None);
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
    }
}
