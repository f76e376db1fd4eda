//! Subtrees that others read while their owner works ("interfere: read"): which requests of others are done there, and that each is answered
//! from the state of the last merge. Names, attributes and data in inodes are in that state by themselves: what the owner does is not here
//! before it is merged. Of data in objects, which the owner writes past the rank, it is seen to here: before the owner may change objects of
//! a file that others know, that is put down, and the object server copies what is changed; with the merge all read what the owner wrote. Where
//! nothing is merged the copies are put back. Not here: how objects are copied (`loligo_osd`), nor what a merge is (`merge.rs`).
//!
//! Others hold no leases there: what they see is at most as old as the last merge, and a merge waits for nobody. While one is on its way into
//! memory they wait. An open file is read through: who has it asks for its size and then for its bytes. A merge in between takes the
//! right to the bytes away until the size is asked for again, so that no read mixes two merges.

use loligo_namespace::Tree;
use loligo_types::{DecoupledRecord, Event, Ino, Interfere, Kind, Layout, Lsn, SessionId};

use crate::cluster::principal;
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::io::{DataAccess, Output};
use crate::job::{Job, WaitReason};
use crate::open::Opens;
use crate::session::{Sessions, Slot};
use crate::step::Step;

/// True if others read the state of the last merge in a subtree.
pub(super) fn is_read_by_others(tree: &Tree, dir: Ino) -> bool {
    tree.decoupled(dir).is_some_and(|record| record.interfere == Interfere::Read)
}

impl Decoupled {
    /// True if a request is one of those that others may make there. Its owner has what is there, and asks for it otherwise.
    pub(super) fn reads_merged(&self, core: &Core, job: &Job, dir: Ino) -> bool {
        let by = self.by_dir.get(&dir).and_then(|owned| owned.by);
        is_read_by_others(&core.tree, dir) && by != Some((job.slot, job.session)) && job.op.props().only_reads
    }

    /// Lets such a request wait while a merge is on its way into memory: half of it may be there.
    pub(super) fn read_merged(&self, dir: Ino) -> Option<Step> {
        let merging = self.by_dir.get(&dir).is_some_and(|owned| owned.merging);
        merging.then_some(Step::Wait(WaitReason::Merge(dir)))
    }

    /// Lets a client read the file up to the size that it just asked for, also when the subtree is not decoupled any more.
    pub(crate) fn show_hidden(&mut self, core: &mut Core, opens: &Opens, job: &Job) {
        let Some(ino) = principal(&job.op).filter(|_| job.op.props().tells_size) else { return };
        if core.tree.inode(ino).is_some() && self.hidden.remove(&(ino, job.slot)) {
            let access = opens.access(ino, job.slot);
            core.out.push_back(Output::Access { session: job.session, ino, access });
        }
    }

    /// Forgets that the bytes of a file are hidden from a client that has closed it.
    pub(crate) fn end_hidden(&mut self, opens: &Opens, ino: Ino, slot: Slot) {
        if self.has_hidden() && opens.access(ino, slot) == DataAccess::None {
            self.hidden.remove(&(ino, slot));
        }
    }

    /// True if a client has a file open that a merge has changed, and does not know its size yet.
    #[inline]
    pub(crate) fn has_hidden(&self) -> bool {
        !self.hidden.is_empty()
    }

    /// Tells the object server of all files that the owner may have changed: the session in which it speaks is this one.
    pub(super) fn freeze_all(&mut self, core: &mut Core, record: &DecoupledRecord, owner: SessionId) {
        let shared = record.interfere == Interfere::Allow;
        for (ino, copy) in record.overwritten.iter().flat_map(|files| files.pairs()) {
            // Their lengths are not known without reading them all: so whole objects are copied, or the copy has the length.
            core.out.push_back(Output::Freeze { ino, copy, size: u64::MAX, owner, shared });
            if shared {
                self.note_frozen(record.dir, ino);
            }
        }
    }

    /// A merge of these inodes is decided: from now on all read the objects as they are. Nobody reads bytes of a file that is another one now
    /// before it has asked how long that is; nor its owner changes it before it has said so once more.
    pub(super) fn show_merged(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        opens: &Opens,
        before: &DecoupledRecord,
        merged: impl IntoIterator<Item = Ino>,
    ) {
        if before.interfere != Interfere::Read {
            return;
        }
        let by = self.by_dir.get(&before.dir).and_then(|owned| owned.by);
        for ino in merged {
            if core.tree.inode(ino).is_some_and(|inode| inode.kind == Kind::Dir) {
                continue;
            }
            for (slot, _) in opens.users(ino) {
                let session = sessions.get(slot).map(|session| session.id);
                if let Some(session) = session.filter(|_| by.is_none_or(|(owner, _)| owner != slot)) {
                    self.hidden.insert((ino, slot));
                    core.out.push_back(Output::Access { session, ino, access: DataAccess::Hidden });
                }
            }
        }
        core.thaw_all(before);
        if let (Some((_, session)), Some(record)) = (by, core.tree.decoupled(before.dir).cloned()) {
            self.give_data_ranges(core, before.dir, session, &record);
            let files = self.by_dir.get(&before.dir).map(|owned| owned.data.files()).unwrap_or_default();
            for ino in files {
                core.out.push_back(Output::Access { session, ino, access: DataAccess::Read });
            }
        }
    }

    /// All read the objects as they are, because the subtree ends with the record at `at`. What others then change in a file must not
    /// be put back once more.
    pub(super) fn thaw_at_end(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        opens: &Opens,
        record: &DecoupledRecord,
        at: Lsn,
    ) {
        if record.interfere != Interfere::Allow {
            return core.thaw_all(record);
        }
        let files = record.overwritten.iter().flat_map(|files| files.pairs()).map(|(ino, _)| (ino, true)).collect();
        self.thaw_when_durable(core, sessions, opens, record.dir, at, files);
    }

    /// Files are put back when it is durable that the subtree ends.
    pub(crate) fn emit_restores(&mut self, core: &mut Core) {
        let durable = core.log.durable;
        for owned in self.by_dir.values_mut() {
            if let Some((_, pairs)) = owned.restores.take_if(|(lsn, _)| *lsn <= durable) {
                core.out.extend(pairs.into_iter().map(|(ino, copy)| Output::Restore { ino, copy }));
            }
        }
    }

    /// A file is as it was, durably.
    pub(crate) fn put_back(&mut self, core: &mut Core, ino: Ino) {
        self.theirs_put_back(core, ino);
        let mut over = Vec::new();
        for (dir, owned) in &mut self.by_dir {
            if let Some(left) = &mut owned.putting_back
                && left.remove(&ino)
                && left.is_empty()
            {
                over.push(*dir);
            }
        }
        over.into_iter().for_each(|dir| core.parked.wake(&WaitReason::Merge(dir)));
    }

    /// True if a subtree is about to end and its files are being put back.
    pub(super) fn is_putting_back(&self, dir: Ino) -> bool {
        self.by_dir.get(&dir).is_some_and(|owned| owned.putting_back.as_ref().is_some_and(|left| !left.is_empty()))
    }
}

impl Opens {
    /// True if a file that others have open keeps a subtree from being decoupled: one that is only read does not, once nobody caches it.
    pub(super) fn is_in_the_way(&self, ino: Ino, interfere: Interfere) -> bool {
        match interfere {
            Interfere::Read => self.any_writer(ino) || self.all_rights(ino).next().is_some(),
            Interfere::Block | Interfere::Allow => !self.is_closed(ino),
        }
    }
}

impl Core {
    /// All read the objects as they are.
    pub(super) fn thaw_all(&mut self, record: &DecoupledRecord) {
        for (ino, _) in record.overwritten.iter().flat_map(|files| files.pairs()) {
            self.out.push_back(Output::Thaw { ino });
        }
    }

    /// True if a subtree ends: its files are being put back, and no owner goes on with it.
    pub(super) fn is_ending(&self, dir: Ino) -> bool {
        self.tree.decoupled(dir).is_some_and(|record| record.owner == 0)
    }
}

/// Events for the record of a merge that drop the copies.
pub(super) fn copies_gone(record: &mut DecoupledRecord) -> Vec<Event> {
    let object_size = Layout::default().object_size;
    let files = std::mem::take(&mut record.overwritten);
    let copies = files.iter().flat_map(|files| files.pairs()).map(|(_, copy)| copy);
    copies.map(|ino| Event::Discard { ino, from: 0, object_size }).collect()
}
