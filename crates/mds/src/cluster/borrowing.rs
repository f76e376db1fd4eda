//! Transactions that this rank coordinates, and turns of requests: the state. Its rules are in `borrow.rs` and `admission.rs`.

use std::collections::{BTreeMap, BTreeSet};

use loligo_namespace::{Loaded, Need};
use loligo_types::peer::Apart;
use loligo_types::{Frag, FsError, Ino, Lsn, Rank};

use crate::job::Job;
use crate::peer::{Lent, TxId, Want};

/// The transactions that this rank coordinates.
#[derive(Default)]
pub(crate) struct Borrowing {
    pub(super) txs: BTreeMap<TxId, Tx>,
    pub(super) turns: AdmissionQueue,
    pub(super) last_tx: u64,
}

/// A transaction.
#[derive(Default)]
pub(crate) struct Tx {
    /// The request that it is for.
    pub(super) job: u64,
    /// Records that were lent, by rank.
    pub(super) guests: BTreeMap<Rank, Vec<Loaded>>,
    /// Fragments of directories that ranks have, as they said when they lent their parts.
    pub(super) parts: BTreeMap<Ino, BTreeMap<Rank, Vec<Frag>>>,
    /// Number of opens of inodes at their ranks.
    pub(super) opens: BTreeMap<Ino, u32>,
    /// Ranks that were asked at all, and so must be told of the end.
    pub(super) asked: BTreeSet<Rank>,
    /// Ranks that have not answered, and in which round they were asked.
    pub(super) outstanding: BTreeMap<Rank, u32>,
    /// Number of rounds of questions so far.
    pub(super) round: u32,
    /// Ranks that said `Busy` and have neither lent nor called since. Only those are waited for.
    pub(super) calls: BTreeSet<Rank>,
    /// Where inodes are that a rank did not have.
    pub(super) found: BTreeMap<Ino, Rank>,
    /// Those of what was lent that are in decoupled subtrees of their ranks.
    pub(super) apart: Vec<Apart>,
    /// One rank said no: all is given back when the others have answered.
    pub(super) denied: Option<FsError>,
}

impl Tx {
    /// Puts down what a rank has lent.
    pub(super) fn keep(&mut self, from: Rank, lent: Lent) {
        let Lent { items, opens, elsewhere, apart } = lent;
        for item in &items {
            if let Loaded::Part { dir, frags, .. } = item {
                self.parts.entry(*dir).or_default().insert(from, frags.clone());
            }
        }
        self.guests.insert(from, items);
        self.opens.extend(opens);
        self.found.extend(elsewhere);
        self.apart.extend(apart);
    }
}

/// Records to borrow for a request, by rank.
pub(super) type Foreign = BTreeMap<Rank, Vec<Want>>;

/// Records that a request needs before it can be decided.
pub(crate) enum Gathered {
    /// Nothing.
    All,
    /// Records of this rank.
    Own(Vec<Need>),
    /// An inode that another rank has, of an operation that needs only to say so.
    Remote(Ino, Rank),
    /// Records of others.
    Foreign(Foreign),
    /// Nothing can be had now: a fragment is on its way between other ranks.
    Again,
}

/// A request that fails because a rank does not lend what it needs.
pub(crate) type Failed = Option<(Job, FsError)>;

/// A turn.
pub(super) struct Turn {
    pub(super) tx: TxId,
    /// The record of the decision; none: it is not decided yet. When that is durable letters go to those that lent, and what is
    /// asked of them then comes behind.
    pub(super) decided: Option<Lsn>,
}

/// All turns.
#[derive(Default)]
pub(crate) struct AdmissionQueue {
    pub(super) by_dir: BTreeMap<Ino, Turn>,
}
