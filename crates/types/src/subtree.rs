//! A decoupled subtree: what a client and a rank say to each other about one, and what is kept of it. Not what a subtree's
//! policy is, and not how either side carries it out.
//!
//! Source: Cudele (Sevilla 2018), chapter 6: "decouple", "allocated inodes", "interfere", "volatile apply". Epochs, leases and
//! the record that makes a merge true at once are ours: the paper has no recovery.

use std::sync::Arc;

use crate::limits::SUBTREE_JOURNALS;
use crate::{FsError, Ino, Inode, Loaded, Need, SessionId};

/// Access of others to a decoupled subtree (Cudele §6.3, "interfere").
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum Interfere {
    /// They are refused, as busy.
    #[default]
    Block = 0,
    /// They may work there; the owner's merge wins over what they have done.
    Allow = 1,
    /// They read the state of the last merge, and are refused, as busy, where they would change something.
    Read = 2,
}

impl Interfere {
    /// True if nobody but the owner changes anything there.
    pub fn is_exclusive(self) -> bool {
        self != Interfere::Allow
    }
}

/// Files of a decoupled subtree whose objects its owner may overwrite while others read the state of the last merge. Before an object is
/// changed it is copied; others read the copy until the next merge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Overwritten {
    /// The first file.
    pub file: Ino,
    /// The number of the objects that hold its copy; those of the following files follow. These numbers make no inodes.
    pub copy: Ino,
    /// Number of files.
    pub count: u64,
}

impl Overwritten {
    /// Each file with the number of its copy.
    pub fn pairs(self) -> impl Iterator<Item = (Ino, Ino)> {
        (0..self.count).map(move |at| (Ino(self.file.0 + at), Ino(self.copy.0 + at)))
    }

    /// The number of the copy of a file.
    pub fn copy_of(self, file: Ino) -> Option<Ino> {
        let at = file.0.wrapping_sub(self.file.0);
        (at < self.count).then(|| Ino(self.copy.0 + at))
    }
}

/// The guarantee that the owner of a decoupled subtree declares: a level of consistency and one of durability. A rank checks it against
/// the policies of directories below and the floors above. The levels and their meaning are defined by the subtree policy
/// (`loligo_subtree_policy::Cell`); no decoupled subtree is strongly consistent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Promise {
    /// 0: invisible, 1: weak.
    pub consistency: u8,
    /// 0: none, 1: local, 2: global.
    pub durability: u8,
}

impl Promise {
    /// Nothing: what is done may never be seen by others and is lost with its client. So it is where nothing is said.
    pub const NONE: Promise = Promise { consistency: 0, durability: 0 };

    /// The number that stands for it. Persisted: keep stable.
    pub fn code(self) -> u8 {
        self.consistency + 2 * self.durability
    }

    /// The one of a number.
    pub fn from_code(code: u8) -> Option<Promise> {
        (code < 6).then_some(Promise { consistency: code % 2, durability: code / 2 })
    }
}

/// Why a directory is not decoupled: its promise is weaker than what is promised somewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum RefusedBy {
    /// The policy of a directory below it promises more.
    Below = 1,
    /// A floor of a directory above it asks for more.
    Floor = 2,
    /// The policy of a directory above it forbids to decouple anything below.
    Forbidden = 3,
    /// The policy of a directory above it grants fewer inode numbers, or a shorter lease.
    Limit = 4,
}

impl RefusedBy {
    /// All of them.
    pub const ALL: [RefusedBy; 4] = [RefusedBy::Below, RefusedBy::Floor, RefusedBy::Forbidden, RefusedBy::Limit];

    /// Short name, the same in commands and logs.
    pub fn name(self) -> &'static str {
        match self {
            RefusedBy::Below => "below",
            RefusedBy::Floor => "floor",
            RefusedBy::Forbidden => "forbidden",
            RefusedBy::Limit => "limit",
        }
    }

    /// The error that stands for it where there is no room for more.
    pub fn error(self) -> FsError {
        match self {
            RefusedBy::Below => FsError::NotSupported,
            RefusedBy::Floor | RefusedBy::Forbidden | RefusedBy::Limit => FsError::Perm,
        }
    }
}

/// An owner's journal in the store ("global persist", Cudele §6.2): an object of its own, under a number that was granted with the
/// decoupling and makes no inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct StoredJournal {
    /// The object's number.
    pub ino: Ino,
    /// So many of its bytes are durable and count.
    pub bytes: u64,
}

/// The record of a decoupled subtree, kept as long as it is decoupled.
#[derive(Clone, PartialEq, Eq, Debug, Default, Hash)]
pub struct DecoupledRecord {
    /// Its root.
    pub dir: Ino,
    /// Which decoupling of all times this is: whoever speaks of another one has lost the subtree. It is the first number that
    /// was granted with it, which is never granted twice.
    pub epoch: u64,
    /// A number that only its owner knows: who says it may go on with the subtree after a crash.
    pub owner: u64,
    /// The session in which its owner speaks.
    pub session: SessionId,
    /// User who has decoupled it.
    pub uid: u32,
    /// The owner's name, for `loligo status`; at most 255 bytes.
    pub name: Box<[u8]>,
    /// Longest silence of the owner before the subtree is taken from it, milliseconds: by the rank, or, if the store has a journal of it,
    /// by whoever merges that.
    pub lease_ms: u32,
    /// Inode numbers that it was given: the first, and how many. Ascending.
    pub grants: Vec<(Ino, u64)>,
    /// Those below this have made inodes in a merge that is done, or never will.
    pub used: Ino,
    /// Number of completed merges.
    pub merges: u64,
    /// Access of others to it.
    pub interfere: Interfere,
    /// Its journal in the store, if any.
    pub journal: Option<StoredJournal>,
    /// Numbers of which there may be objects: what makes no inode in the end is to be dropped. The first, and how many. Ascending.
    pub objects: Vec<(Ino, u64)>,
    /// The guarantee that its owner has declared.
    pub promise: Promise,
    /// With [`Interfere::Read`] and [`Interfere::Allow`]: files that its owner may have overwritten and not merged. Ascending by file.
    pub overwritten: Vec<Overwritten>,
}

impl DecoupledRecord {
    /// The number of the objects that hold the copy of a file, if its owner may have overwritten it since the last merge.
    pub fn copy_of(&self, file: Ino) -> Option<Ino> {
        let at = self.overwritten.partition_point(|files| files.file <= file);
        self.overwritten.get(at.checked_sub(1)?)?.copy_of(file)
    }

    /// Notes files, ascending, that it may overwrite from now on; their copies have numbers from `copy` on. Those that were noted before are
    /// left out. How many numbers were used.
    pub fn note_overwritten(&mut self, files: impl IntoIterator<Item = Ino>, copy: Ino) -> u64 {
        let mut used = 0;
        for file in files {
            if self.copy_of(file).is_some() {
                continue;
            }
            let next = Overwritten { file, copy: Ino(copy.0 + used), count: 1 };
            used += 1;
            let at = self.overwritten.partition_point(|files| files.file < file);
            match at.checked_sub(1).and_then(|before| self.overwritten.get_mut(before)) {
                Some(before)
                    if before.file.0 + before.count == file.0 && before.copy.0 + before.count == next.copy.0 =>
                {
                    before.count += 1;
                }
                _ => self.overwritten.insert(at, next),
            }
        }
        used
    }

    /// The copies of these files do not count any more.
    pub fn forget_overwritten(&mut self, gone: &std::collections::BTreeSet<Ino>) {
        let has_some = |files: &Overwritten| gone.range(files.file..Ino(files.file.0 + files.count)).next().is_some();
        if !self.overwritten.iter().any(has_some) {
            return;
        }
        let mut left: Vec<Overwritten> = Vec::with_capacity(self.overwritten.len());
        for files in std::mem::take(&mut self.overwritten) {
            if !has_some(&files) {
                left.push(files);
                continue;
            }
            for (file, copy) in files.pairs().filter(|(file, _)| !gone.contains(file)) {
                match left.last_mut() {
                    Some(last) if last.file.0 + last.count == file.0 && last.copy.0 + last.count == copy.0 => {
                        last.count += 1;
                    }
                    _ => left.push(Overwritten { file, copy, count: 1 }),
                }
            }
        }
        self.overwritten = left;
    }

    /// True if an inode number was granted to it.
    pub fn is_granted(&self, ino: Ino) -> bool {
        self.grants.iter().any(|(first, count)| ino.0.wrapping_sub(first.0) < *count)
    }

    /// True if an inode number may make an inode in the next merge.
    pub fn is_new(&self, ino: Ino) -> bool {
        ino >= self.used && self.is_granted(ino)
    }

    /// Numbers for its journal in the store, which make no inodes: two, so that a new one can be begun beside the one that counts.
    pub fn journal_inos(&self) -> [Ino; SUBTREE_JOURNALS as usize] {
        std::array::from_fn(|n| Ino(self.epoch + n as u64))
    }

    /// Number of granted inode numbers that are left.
    pub fn left(&self) -> u64 {
        let of = |(first, count): &(Ino, u64)| (first.0 + count).saturating_sub(self.used.0.max(first.0));
        self.grants.iter().map(of).sum()
    }

    /// Adds numbers that are higher than all that it has.
    pub fn grant(&mut self, first: Ino, count: u64) {
        match self.grants.last_mut() {
            Some((begin, length)) if begin.0 + *length == first.0 => *length += count,
            _ => self.grants.push((first, count)),
        }
    }
}

/// A request about a decoupled subtree, or to decouple one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SubtreeOp {
    /// To have it, with so many inode numbers: `Decoupled`. `resume`: to go on with the one of this epoch, which is the owner's
    /// already; 0: a new one, with room for so many inodes. `Busy` if it, or something above or below it, is decoupled, or something
    /// below it is open. `promise`: what its owner will do with what it makes; `Refused` if a directory below or above asks for more.
    Decouple { owner: u64, resume: u64, inos: u64, lease_ms: u32, interfere: Interfere, promise: Promise },
    /// To have the one whose owner is away for longer than its lease, and has left a journal in the store: `Decoupled`, of the same
    /// epoch; from then on `owner` is the number that may go on with it, and the one of before is nobody's. Its user and root may.
    /// `Busy` if the owner is here, or may still come back; `NotFound` if there is none, or no journal of it in the store.
    /// `now`: whether the owner is here or may come back, and whatever is in the store; root's alone, else `Perm`.
    TakeOver { owner: u64, now: bool },
    /// More numbers: `Decoupled`.
    Grant { epoch: u64, inos: u64 },
    /// Records of what is there: `Records`, of some or all that is asked for.
    Fetch { epoch: u64, needs: Vec<Need> },
    /// A part of what is to be merged: the body of one record of the owner's journal. Part 0 begins anew. `Done` when it has come,
    /// which need not be durable; nobody sees anything of it. `Invalid` if an event in it is not the owner's to make,
    /// `Quota` if it is more than can be merged at once: merge what has come before. `blind`: the owner's word is taken for it, whatever it
    /// says of the subtree (Cudele §6.3); root's alone, else `Perm`, and not where others may work meanwhile.
    Part { epoch: u64, merge: u64, part: u32, blind: bool, body: Arc<[u8]> },
    /// All parts that have come become true at once. `Merged`. `merge`: one more than those that are done; of one that is done
    /// already the answer is given again. `used`: numbers below this are not used any more. `into`: where what is new goes first.
    Merge { epoch: u64, merge: u64, parts: u32, used: Ino, into: MergeInto },
    /// To read and write objects of these by data requests: of files that are there, as the owner may do it; of numbers that were
    /// granted, everything. `Decoupled`. `NotFound` if one is not of the subtree.
    Data { epoch: u64, inos: Vec<Ino> },
    /// To change objects of these files that are there, where others read the state of the last merge meanwhile ([`Interfere::Read`]) or
    /// change a version of their own ([`Interfere::Allow`]): the right ends with the next merge, there with the next one that changes the
    /// file's bytes. There the owner's version of each begins as it is at that moment: `Forked`. Else `Decoupled`. `NotFound` if one is not of the subtree, `Quota` if they are too many before a merge.
    Overwrite { epoch: u64, inos: Vec<Ino> },
    /// Its owner has these open. Where others may work meanwhile, inodes that they removed and that are said here are not let go at a merge.
    /// `first`: instead of all that was said before; else these as well. `Done`. It is not kept over a restart of the rank, which lets
    /// nothing go before the next merge. `Quota` if they are too many ([`crate::limits::HELD_OPEN_MAX`]).
    ///
    /// From the first one with `first` on, the session answers below the root by itself: what it has there as one of those who work there is
    /// asked back, and its requests below the root that are not about the subtree are answered `Busy`. `Busy` if it has a file open there that
    /// it does not close in time: then it works there as before. It is not kept over a restart of the rank either.
    HoldOpen { epoch: u64, first: bool, inos: Vec<Ino> },
    /// So much of the owner's journal is in the store, durably. `Decoupled`. `Invalid` if that is not one of the numbers which were
    /// reserved for it ([`DecoupledRecord::journal_inos`]).
    Keep { epoch: u64, journal: StoredJournal },
    /// It is not decoupled any more; parts that are not merged are dropped. `Done`.
    End { epoch: u64 },
}

impl SubtreeOp {
    /// Bytes that it says in fields of any length.
    pub fn said(&self) -> usize {
        match self {
            SubtreeOp::Part { body, .. } => body.len(),
            SubtreeOp::Fetch { needs, .. } => size_of_val(&needs[..]),
            SubtreeOp::Data { inos, .. } | SubtreeOp::Overwrite { inos, .. } | SubtreeOp::HoldOpen { inos, .. } => {
                size_of_val(&inos[..])
            }
            SubtreeOp::Decouple { .. }
            | SubtreeOp::TakeOver { .. }
            | SubtreeOp::Grant { .. }
            | SubtreeOp::Merge { .. }
            | SubtreeOp::Keep { .. }
            | SubtreeOp::End { .. } => 0,
        }
    }

    /// To go on with a decoupling of this client, whose session the rank may not know.
    pub fn resume(record: &DecoupledRecord) -> SubtreeOp {
        SubtreeOp::Decouple {
            owner: record.owner,
            resume: record.epoch,
            inos: 1,
            lease_ms: record.lease_ms,
            interfere: Interfere::Block,
            promise: Promise::NONE,
        }
    }

    /// Short name, the same in metrics and logs.
    pub fn name(&self) -> &'static str {
        match self {
            SubtreeOp::Decouple { .. } => "decouple",
            SubtreeOp::TakeOver { .. } => "subtree_take_over",
            SubtreeOp::Grant { .. } => "subtree_grant",
            SubtreeOp::Fetch { .. } => "subtree_fetch",
            SubtreeOp::Part { .. } => "merge_part",
            SubtreeOp::Merge { .. } => "merge",
            SubtreeOp::Data { .. } => "subtree_data",
            SubtreeOp::Overwrite { .. } => "subtree_overwrite",
            SubtreeOp::HoldOpen { .. } => "subtree_hold_open",
            SubtreeOp::Keep { .. } => "subtree_keep",
            SubtreeOp::End { .. } => "recouple",
        }
    }
}

/// Where a rank brings what is new in a merge. What it means and promises is the same; it differs in what it costs whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MergeInto {
    /// Its memory, from where it gets into the table as any change does ("volatile apply", Cudele §6.2).
    #[default]
    Memory,
    /// The table, as rows in bulk; memory learns of it when somebody looks ("nonvolatile apply").
    Table,
}

/// The answer to a [`SubtreeOp`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SubtreeAnswer {
    /// It is decoupled. `inline_max`, `split`: as the rank has them, so that the owner makes the same of it.
    Decoupled { record: DecoupledRecord, root: Box<Inode>, inline_max: u32, split: SplitRule },
    /// Records as the rank has them.
    Records(Vec<Loaded>),
    /// Files have a version of their owner's from now on, which begins as they are here. Of those that had one before there is nothing.
    Forked { record: DecoupledRecord, files: Vec<Inode> },
    /// It is merged: so many merges are done. Where others might work meanwhile: how often their work and the owner's did not go
    /// together in this merge, and the first of these ([`crate::limits::CONFLICTS_TOLD_MAX`]). Of a merge that was done before the rank
    /// began its life nothing is told.
    Merged { merges: u64, conflicts: u64, told: Vec<Conflict> },
    /// It is not decoupled, because of the policy of this directory.
    Refused { by: RefusedBy, dir: Ino },
}

/// The kind of a conflict in a merge. The owner's change wins; nothing that others made is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ConflictKind {
    /// Something of others had a name that the owner has given: it is kept under another one.
    Name = 1,
    /// Both wrote a file: the others' version is kept.
    Data = 2,
    /// The owner has removed what others had changed meanwhile: it is kept.
    Removed = 3,
    /// Others had removed what the owner has changed: it is back.
    Returned = 4,
    /// Both gave it another name: it has the owner's.
    Moved = 5,
    /// Directories were moved into each other: one is kept elsewhere.
    Loop = 6,
    /// Both set the same attributes: the owner's count.
    Attributes = 7,
    /// The owner made something whose place is gone: it is kept.
    Homeless = 8,
    /// The owner may not do it any more, as others have it by now: theirs counts, and data that the owner wrote are kept.
    Denied = 9,
}

impl ConflictKind {
    /// All of them.
    pub const ALL: [ConflictKind; 9] = [
        ConflictKind::Name,
        ConflictKind::Data,
        ConflictKind::Removed,
        ConflictKind::Returned,
        ConflictKind::Moved,
        ConflictKind::Loop,
        ConflictKind::Attributes,
        ConflictKind::Homeless,
        ConflictKind::Denied,
    ];

    /// Short name, the same in commands and logs.
    pub fn name(self) -> &'static str {
        match self {
            ConflictKind::Name => "name",
            ConflictKind::Data => "data",
            ConflictKind::Removed => "removed",
            ConflictKind::Returned => "returned",
            ConflictKind::Moved => "moved",
            ConflictKind::Loop => "loop",
            ConflictKind::Attributes => "attributes",
            ConflictKind::Homeless => "homeless",
            ConflictKind::Denied => "denied",
        }
    }
}

/// One thing that did not go together.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Conflict {
    /// The kind of conflict.
    pub kind: ConflictKind,
    /// The inode concerned.
    pub ino: Ino,
    /// The last name that it had; empty: none is known.
    pub name: Box<[u8]>,
    /// The name under which something is kept in the directory of conflicts; empty: nothing is.
    pub kept: Box<[u8]>,
}

/// When a directory is cut into fragments, as the rank that gave it away does it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct SplitRule {
    /// Entries of a fragment above which a directory is cut finer.
    pub split: u64,
    /// Entries of a fragment below which it is cut coarser.
    pub merge: u64,
    /// Bits more with each cut.
    pub bits: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_overwritten_are_noted_once_and_those_in_a_row_as_one() {
        let mut record = DecoupledRecord::default();
        assert_eq!(record.note_overwritten([Ino(10), Ino(11), Ino(20)], Ino(1000)), 3);
        assert_eq!(record.note_overwritten([Ino(11), Ino(12), Ino(15)], Ino(2000)), 2, "one was noted before");
        let all: Vec<_> = record.overwritten.iter().map(|files| (files.file.0, files.copy.0, files.count)).collect();
        assert_eq!(all, [(10, 1000, 2), (12, 2000, 1), (15, 2001, 1), (20, 1002, 1)]);
        let copies = [9, 10, 11, 12, 13, 15, 20, 21].map(|file| record.copy_of(Ino(file)).map(|copy| copy.0));
        assert_eq!(copies, [None, Some(1000), Some(1001), Some(2000), None, Some(2001), Some(1002), None]);
        let pairs: Vec<_> = record.overwritten.iter().flat_map(|files| files.pairs()).collect();
        assert!(pairs.iter().all(|(file, copy)| record.copy_of(*file) == Some(*copy)) && pairs.len() == 5);
    }

    #[test]
    fn copies_that_do_not_count_any_more_are_forgotten_one_by_one() {
        let mut record = DecoupledRecord::default();
        record.note_overwritten((10..16).chain([20]).map(Ino), Ino(1000));
        record.forget_overwritten(&[Ino(9), Ino(12), Ino(20)].into());
        let all: Vec<_> = record.overwritten.iter().map(|files| (files.file.0, files.copy.0, files.count)).collect();
        assert_eq!(all, [(10, 1000, 2), (13, 1003, 3)]);
        record.forget_overwritten(&[Ino(10), Ino(11), Ino(13), Ino(14), Ino(15)].into());
        assert!(record.overwritten.is_empty());
    }

    #[test]
    fn numbers_are_new_until_a_merge_has_used_them() {
        let mut record = DecoupledRecord { used: Ino(100), ..DecoupledRecord::default() };
        record.grant(Ino(100), 10);
        record.grant(Ino(110), 5);
        record.grant(Ino(200), 5);
        assert_eq!((record.grants.len(), record.left()), (2, 20));
        assert!(
            record.is_new(Ino(114)) && !record.is_new(Ino(115)) && !record.is_new(Ino(99)) && record.is_new(Ino(204))
        );
        record.used = Ino(112);
        assert!(!record.is_new(Ino(111)) && record.is_granted(Ino(111)) && record.is_new(Ino(112)));
        assert_eq!(record.left(), 8);
        record.used = Ino(203);
        assert_eq!(record.left(), 2);
    }
}
