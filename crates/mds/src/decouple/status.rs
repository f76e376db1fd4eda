//! Decoupled subtrees as they are shown: who has which, how many numbers and merges, and whose owner is away. Looks only; what becomes
//! of one whose owner does not come back is `begin.rs`'s.

use loligo_namespace::Tree;
use loligo_types::limits::SUBTREE_JOURNALS;
use loligo_types::{DecoupledRecord, Ino, Interfere};

use super::{Decoupled, Owned};

/// Most of them shown one by one.
const SHOWN: usize = 256;
/// Longest path shown, bytes.
const PATH_MAX: usize = 1024;

/// A decoupled subtree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecoupledStatus {
    /// Its root.
    pub dir: Ino,
    /// Which decoupling of all times this is.
    pub epoch: u64,
    /// The path of the root, if all names of it are in memory, and it is not too long.
    pub path: Option<String>,
    /// The name of its owner's client.
    pub name: String,
    /// User who has decoupled it.
    pub uid: u32,
    /// Others may work in it, too.
    pub shared: bool,
    /// Others may read the state of the last merge.
    pub read: bool,
    /// No session speaks for it; none: its owner is here.
    pub away: Option<OwnerAway>,
    /// Inode numbers that it was given so far.
    pub granted: u64,
    /// Of those, numbers that may make inodes in merges to come.
    pub left: u64,
    /// Merges done.
    pub merges: u64,
    /// Parts of a merge that have come and are not decided upon.
    pub parts: usize,
    /// Their bytes, which are in memory.
    pub part_bytes: u64,
    /// A merge is decided, and what it says is on its way into memory.
    pub merging: bool,
    /// So many bytes of its owner's journal are in the store, and not known to be merged.
    pub stored: Option<u64>,
}

/// That the owner of a decoupled subtree is not here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnerAway {
    /// For how long no session has spoken for the subtree, milliseconds.
    pub for_ms: u64,
    /// It is taken back after so many milliseconds more; if its journal is in the store, it may be taken over after so many, and waits
    /// for somebody who does.
    pub left_ms: u64,
}

/// Number of decoupled subtrees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DecoupledCount {
    /// All.
    pub all: usize,
    /// Those whose owners are away.
    pub away: usize,
}

impl Decoupled {
    /// Number of decoupled subtrees.
    pub(crate) fn count(&self, tree: &Tree, now_ms: u64) -> DecoupledCount {
        let mut count = DecoupledCount::default();
        for record in tree.all_decoupled() {
            count.all += 1;
            count.away += usize::from(self.owner_away(record, now_ms).is_some());
        }
        count
    }

    /// Decoupled subtrees: those that are lost soonest, or wait for somebody, then those whose owners are here by the numbers of their roots; at most 256.
    /// `path_of`: the path of a directory, if it is known.
    pub(crate) fn statuses(
        &self,
        tree: &Tree,
        now_ms: u64,
        path_of: &dyn Fn(Ino) -> Option<String>,
    ) -> Vec<DecoupledStatus> {
        let mut all: Vec<(&DecoupledRecord, Option<OwnerAway>)> =
            tree.all_decoupled().map(|record| (record, self.owner_away(record, now_ms))).collect();
        all.sort_unstable_by_key(|(record, away)| (away.map_or(u64::MAX, |away| away.left_ms), record.dir));
        all.into_iter().take(SHOWN).map(|(record, away)| self.show(tree, record, away, path_of)).collect()
    }

    fn show(
        &self,
        tree: &Tree,
        record: &DecoupledRecord,
        away: Option<OwnerAway>,
        path_of: &dyn Fn(Ino) -> Option<String>,
    ) -> DecoupledStatus {
        let merging = self.by_dir.get(&record.dir).is_some_and(|owned| owned.merging);
        // Those of a merge that is decided are as good as merged.
        let (parts, part_bytes) = if merging { (0, 0) } else { tree.merge_parts(record.dir) };
        DecoupledStatus {
            dir: record.dir,
            epoch: record.epoch,
            path: path_of(record.dir).filter(|path| path.len() <= PATH_MAX),
            name: String::from_utf8_lossy(&record.name).into_owned(),
            uid: record.uid,
            shared: record.interfere == Interfere::Allow,
            read: record.interfere == Interfere::Read,
            away,
            granted: record.grants.iter().map(|(_, count)| count).sum::<u64>().saturating_sub(SUBTREE_JOURNALS),
            left: record.left(),
            merges: record.merges,
            parts,
            part_bytes,
            merging,
            stored: record.journal.map(|journal| journal.bytes),
        }
    }

    /// The absence of its owner, and the time that it may last; `None`: the owner is here.
    fn owner_away(&self, record: &DecoupledRecord, now_ms: u64) -> Option<OwnerAway> {
        match self.by_dir.get(&record.dir) {
            Some(Owned { by: Some(_), .. }) => None,
            Some(Owned { lost_ms, .. }) => {
                let left_ms = (lost_ms + u64::from(record.lease_ms)).saturating_sub(now_ms);
                Some(OwnerAway { for_ms: now_ms.saturating_sub(*lost_ms), left_ms })
            }
            // Nobody was looked for yet.
            None => Some(OwnerAway { for_ms: 0, left_ms: record.lease_ms.into() }),
        }
    }
}
