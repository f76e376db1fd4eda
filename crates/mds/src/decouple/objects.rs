//! Rights of a decoupled subtree's owner on the objects of its files. File data is written where all data is; only names and attributes
//! wait for the merge. The owner cannot take back what it overwrites in a file that was there before, unless others read the last merge
//! (`read.rs`) or work there (`fork.rs`).
//!
//! Only the owner knows which inodes the granted numbers are. So that there may be objects of a number is recorded before the owner may
//! write any, for many numbers at once. When the subtree is not decoupled any more, objects of those that are no inodes are dropped. Not
//! here: who may have a subtree, and its own journal in the store.

use loligo_namespace::{Found, Need, access};
use loligo_types::limits::SUBTREE_JOURNALS;
use loligo_types::{Cred, DecoupledRecord, FsError, FsResult, Ino, Interfere, Kind, SessionId};

use super::state::DataRights;
use crate::cluster::Cluster;
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::io::{DataAccess, Output};
use crate::open::Opens;
use crate::session::Sessions;

/// So many numbers are put down at once.
const AT_ONCE: u64 = 4096;
/// Drops in one record.
pub(super) const DROPS_MAX: usize = 512;

/// The owner's access to objects of all recorded numbers. It writes new files as it likes. Where others read the last merge, or work, it may
/// only read merged files before it has said that it overwrites them.
fn ranges_of(record: &DecoupledRecord) -> Vec<(Ino, u64, DataAccess)> {
    let mut ranges = Vec::new();
    for (first, count) in record.objects.iter().map(|(first, count)| (first.0, *count)) {
        let end = first + count;
        let (journals, used) = match record.interfere {
            Interfere::Read | Interfere::Allow => (record.epoch + SUBTREE_JOURNALS, record.used.0),
            Interfere::Block => (0, 0),
        };
        let cuts = [first, journals.clamp(first, end), used.clamp(first, end).max(journals.clamp(first, end)), end];
        let access = [DataAccess::Write, DataAccess::Read, DataAccess::Write];
        for (pair, access) in cuts.windows(2).zip(access) {
            if pair[0] < pair[1] {
                ranges.push((Ino(pair[0]), pair[1] - pair[0], access));
            }
        }
    }
    ranges
}

/// The owner's right on the objects of one file.
pub(super) enum Verdict {
    /// Its number was granted, and has made nothing yet.
    Granted,
    May(DataAccess),
    Load(Vec<Need>),
}

impl Decoupled {
    pub(super) fn has_data_right(&self, dir: Ino, ino: Ino) -> bool {
        self.by_dir.get(&dir).is_some_and(|owned| owned.data.files.contains(&ino))
    }

    /// Checks that the owner may change the objects of a file that is there: an error if not; otherwise the records that are to be read
    /// first, if any.
    pub(super) fn may_overwrite(
        &self,
        core: &mut Core,
        cluster: &mut Cluster,
        record: &DecoupledRecord,
        cred: &Cred,
        ino: Ino,
    ) -> FsResult<Vec<Need>> {
        match self.data_right(core, cluster, record, cred, ino)? {
            Verdict::May(DataAccess::Write) => Ok(Vec::new()),
            Verdict::May(_) => Err(FsError::Access),
            // Of what is new others know nothing.
            Verdict::Granted => Err(FsError::Invalid),
            Verdict::Load(needs) => Ok(needs),
        }
    }

    pub(super) fn data_right(
        &self,
        core: &mut Core,
        cluster: &mut Cluster,
        record: &DecoupledRecord,
        cred: &Cred,
        ino: Ino,
    ) -> FsResult<Verdict> {
        if record.is_new(ino) || record.journal_inos().contains(&ino) {
            return Ok(Verdict::Granted);
        }
        let inode = match core.tree.find(ino) {
            Found::Here(inode) => inode,
            // It was granted, and what it was is gone again: or a part that makes it is on its way.
            Found::Gone => return Err(FsError::NotFound),
            Found::Unknown => return Ok(Verdict::Load(vec![Need::Inode(ino)])),
        };
        if inode.kind != Kind::File {
            return Err(FsError::Invalid);
        }
        let may_read = cred.is_root() || inode.uid == cred.uid || access::check(inode, cred, access::R).is_ok();
        let may_write = match core.may_change(inode, cred) {
            Ok(may) => may,
            Err(needs) => return Ok(Verdict::Load(needs)),
        };
        let access = match (may_write, may_read) {
            (true, _) => DataAccess::Write,
            (false, true) => DataAccess::Read,
            (false, false) => return Err(FsError::Access),
        };
        let is_held = record.interfere == Interfere::Allow && self.is_held_for(record, inode);
        match self.may_be_below(core, cluster, ino, record.dir) {
            // Others have removed it; its owner does not hear of that before the merge.
            Ok(below) if below || is_held => Ok(Verdict::May(access)),
            Ok(_) => Err(FsError::NotFound),
            Err(needs) => Ok(Verdict::Load(needs)),
        }
    }

    /// Tells the object server, of all that is put down and of these files.
    pub(super) fn give_data_rights(
        &mut self,
        core: &mut Core,
        dir: Ino,
        session: SessionId,
        record: &DecoupledRecord,
        files: &[(Ino, DataAccess)],
    ) {
        let Some(owned) = self.by_dir.get_mut(&dir) else { return };
        for (ino, access) in files {
            owned.data.files.insert(*ino);
            core.out.push_back(Output::Access { session, ino: *ino, access: *access });
        }
        self.give_data_ranges(core, dir, session, record);
    }

    /// The same of all that is put down.
    pub(super) fn give_data_ranges(&mut self, core: &mut Core, dir: Ino, session: SessionId, record: &DecoupledRecord) {
        let Some(owned) = self.by_dir.get_mut(&dir) else { return };
        let ranges = ranges_of(record);
        let before = std::mem::replace(&mut owned.data.ranges, ranges.clone());
        // Of several that cover a number the last one counts: so there is no moment without a right.
        for (first, count, access) in ranges.iter().filter(|range| !before.contains(range)).copied() {
            core.out.push_back(Output::AccessRange { session, first, count, access });
        }
        let is_same = |(first, count, _): &(Ino, u64, DataAccess)| {
            ranges.iter().any(|(begin, length, _)| (begin, length) == (first, count))
        };
        for (first, count, _) in before.into_iter().filter(|range| !is_same(range)) {
            core.out.push_back(Output::AccessRange { session, first, count, access: DataAccess::None });
        }
    }
}

impl Opens {
    /// A session does not speak for the owner any more: it may do nothing that it might because of that alone. What it has open it may use.
    pub(super) fn end_data_rights(&self, core: &mut Core, sessions: &Sessions, session: SessionId, rights: DataRights) {
        let slot = sessions.find(session);
        for ino in rights.files {
            let access = slot.map_or(DataAccess::None, |slot| self.access(ino, slot));
            core.out.push_back(Output::Access { session, ino, access });
        }
        let access = DataAccess::None;
        for (first, count, _) in rights.ranges {
            core.out.push_back(Output::AccessRange { session, first, count, access });
        }
    }
}

/// Puts down that there may be objects of a number, and of those behind it; whether that was news.
pub(super) fn note_objects(record: &mut DecoupledRecord, ino: Ino) -> bool {
    let is_in = |(first, count): &(Ino, u64)| ino.0.wrapping_sub(first.0) < *count;
    if record.objects.iter().any(is_in) {
        return false;
    }
    let Some((first, count)) = record.grants.iter().find(|range| is_in(range)).copied() else { return false };
    let is_journal = record.journal_inos().contains(&ino);
    let mut end = if is_journal { record.epoch + SUBTREE_JOURNALS } else { (ino.0 + AT_ONCE).min(first.0 + count) };
    let begin = if is_journal { Ino(record.epoch) } else { ino };
    // Up to what is known already.
    if let Some((next, _)) = record.objects.iter().find(|(next, _)| *next > begin) {
        end = end.min(next.0);
    }
    let at = record.objects.partition_point(|(first, _)| *first < begin);
    record.objects.insert(at, (begin, end - begin.0));
    // What follows on is one range; numbers that have made inodes are not dropped any more.
    let mut ranges: Vec<(Ino, u64)> = Vec::with_capacity(record.objects.len());
    for (first, count) in std::mem::take(&mut record.objects) {
        match ranges.last_mut() {
            Some((begin, length)) if begin.0 + *length == first.0 => *length += count,
            _ => ranges.push((first, count)),
        }
    }
    record.objects = ranges;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_put_down_many_at_once_and_none_twice() {
        let mut record = DecoupledRecord { epoch: 1000, used: Ino(1002), ..DecoupledRecord::default() };
        record.grant(Ino(1000), 10_000);
        assert!(note_objects(&mut record, Ino(5000)) && !note_objects(&mut record, Ino(9000)));
        assert_eq!(record.objects, [(Ino(5000), 4096)]);
        assert!(note_objects(&mut record, Ino(1001)), "a journal's");
        assert_eq!(record.objects, [(Ino(1000), 2), (Ino(5000), 4096)]);
        assert!(note_objects(&mut record, Ino(1500)) && note_objects(&mut record, Ino(10_999)));
        assert_eq!(record.objects, [(Ino(1000), 2), (Ino(1500), 3500 + 4096), (Ino(10_999), 1)]);
        assert!(!note_objects(&mut record, Ino(20_000)), "it was not granted");
    }
}
