//! The cut of a decoupled subtree before a merge with concurrent readers. Names and attributes are in the journal and bytes in objects,
//! and the rank cannot tell which bytes belong to which state. So all buffered writes go to the server, and calls that write wait for
//! that (*freezing*). Then the journal is cut, and no object is changed before the rank has merged the journal up to the cut (*sealed*):
//! until then others read copies, from then on the objects. Calls go on meanwhile, in buffers. Not here: the merge (`merge.rs`), and which
//! objects are copied (the rank's object server).

use loligo_types::{Ino, Interfere};

use super::{OWN, Own, Owned};
use crate::calls::Calls;
use crate::file::Files;
use crate::ranks::Ranks;
use crate::session::PendingData;
use crate::task::{Event, Step, Task};

impl Owned {
    /// True if others read the state of the last merge.
    pub fn is_read_by_others(&self) -> bool {
        self.machine.record().interfere == Interfere::Read
    }

    /// True if others work in it: what they do is known here after the next merge.
    pub fn is_shared(&self) -> bool {
        self.machine.may_change_meanwhile()
    }

    /// True from the beginning of a merge's cut until what others did meanwhile is known here.
    pub fn is_cutting(&self) -> bool {
        self.freezing || self.sealed || self.gated
    }

    /// True if others see the objects of files that were merged, so that the owner changes them only after the server has begun to copy
    /// what it changes.
    pub fn is_seen_by_others(&self) -> bool {
        self.is_read_by_others() || self.is_shared()
    }

    /// True if others do not know the inode of a data request.
    fn is_unknown(&self, ino: Ino) -> bool {
        let record = self.machine.record();
        record.is_new(ino) || record.journal_inos().contains(&ino)
    }

    /// True if a data request changes bytes that others may read.
    pub fn overwrites(&self, pending: &PendingData) -> bool {
        self.is_seen_by_others() && pending.request.op.is_change() && !self.is_unknown(pending.request.ino)
    }

    /// True if the rank has granted this session the right to a data request.
    pub fn may_send(&self, pending: &PendingData) -> bool {
        let (ino, record) = (pending.request.ino, self.machine.record());
        let is_in = |(first, count): &(Ino, u64)| ino.0.wrapping_sub(first.0) < *count;
        let noted = self.ranges_count && record.objects.iter().any(is_in);
        self.rights.contains(&ino) || !self.overwrites(pending) && (noted || self.reads.contains(&ino))
    }

    /// True if a data request must wait until the merge after the cut is done.
    pub fn holds(&self, pending: &PendingData) -> bool {
        let is_journal = self.machine.record().journal_inos().contains(&pending.request.ino);
        self.sealed && pending.request.op.is_change() && !is_journal
    }

    /// The rank has merged what was cut off: files that were known, or are by now, are to be asked for once more before they are changed.
    pub fn rights_of_merge_end(&mut self) {
        if self.is_seen_by_others() {
            let rights = std::mem::take(&mut self.rights);
            self.reads.extend(rights);
        }
    }
}

impl Own {
    /// True if calls that write a file wait.
    pub fn is_freezing(&self, ino: Ino) -> bool {
        self.trees.values().any(|owned| owned.freezing && owned.has(ino))
    }

    /// Files with something that is not at the server.
    pub(crate) fn unwritten(&self, files: &Files, root: Ino) -> Vec<Ino> {
        let unwritten = |file: &crate::file::File| file.rank == OWN && (!file.is_clean() || file.run.is_some());
        let files = files.map.iter().filter(|(_, file)| unwritten(file)).map(|(ino, _)| *ino);
        files.filter(|ino| self.root_of(*ino) == Some(root)).collect()
    }

    /// True if calls that change files, or changes of objects, are under way.
    pub(crate) fn is_changing(&self, ranks: &Ranks, files: &Files, root: Ino) -> bool {
        let is_of_it = |ino: Ino| self.root_of(ino) == Some(root);
        let exclusive = files.map.iter().any(|(ino, file)| file.exclusive.is_some() && is_of_it(*ino));
        let changes = |pending: &PendingData| pending.request.op.is_change() && is_of_it(pending.request.ino);
        let waits = self.trees.get(&root).is_some_and(|owned| owned.data.iter().any(|(_, one)| changes(one)));
        exclusive || waits || ranks.sessions.values().any(|session| session.data.values().any(changes))
    }

    /// A change has ended: one that cuts off what is merged may have waited for it.
    pub(crate) fn change_ended(&self, calls: &mut Calls) {
        for id in self.trees.values().filter(|owned| owned.freezing).filter_map(|owned| owned.task) {
            if let Some(Task { step: Step::Own(own), .. }) = calls.tasks.get_mut(&id)
                && own.again_ms.take().is_some()
            {
                calls.events.push_back((id, Event::Start));
            }
        }
    }

    /// Calls that wrote files have waited.
    pub(crate) fn start_writes(&self, calls: &mut Calls, ranks: &Ranks, files: &mut Files, root: Ino) {
        let waits = files.map.iter().filter(|(_, file)| !file.waiting.is_empty()).map(|(ino, _)| *ino);
        let waits: Vec<Ino> = waits.filter(|ino| self.root_of(*ino) == Some(root)).collect();
        waits.into_iter().for_each(|ino| files.start_waiting(calls, ranks, self, ino));
    }
}
