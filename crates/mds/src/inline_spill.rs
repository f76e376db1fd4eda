//! Moving a file's inline data to an object, when it grows beyond the threshold while nobody may buffer it.
//!
//! The holder of BUFFER does this itself and only learns `Busy` here, unless the handle it writes through may not read
//! the data that is to be moved.

use loligo_namespace::{Change, Found, Tree};
use loligo_types::{Answer, Event, FsError, Ino, Lease, Op};

use crate::execute::Step;
use crate::io::Output;
use crate::machine::Mds;
use crate::park::{Job, WaitReason};

impl Mds {
    /// A write does not fit into the inode (any more).
    pub(crate) fn spill(&mut self, job: &mut Job) -> Step {
        let busy = Step::Answer(Err(FsError::Busy));
        let Op::WriteInline { ino, handle, .. } = job.op else { return busy };
        let reads = self.opens.handle(job.slot, handle).is_some_and(|handle| handle.read);
        if reads && self.opens.rights(ino, job.slot).has(Lease::BUFFER) {
            return busy;
        }
        let Some(inode) = self.core.tree.inode(ino).filter(|inode| inode.inline) else { return busy };
        let Some(data) = self.core.tree.inline(inode) else {
            return Step::Answer(Err(FsError::Io));
        };
        let object_size = inode.layout().object_size;
        if self.relaxed.is_volatile(ino) {
            // No object without a durable file.
            self.relaxed.wait_for_birth(ino);
            return Step::Wait(WaitReason::Data(ino));
        }
        let change = Change { events: spilled_events(&self.core.tree, ino), ..Change::only(Answer::Done) };
        if let Some(why) = self.settle_conflicts(job, &change) {
            return Step::Wait(why);
        }
        // Also when there is nothing to move: what an earlier writer may have left in objects must not show.
        self.core.out.push_back(Output::Spill { ino, data, object_size });
        self.discards.spills.insert(ino, object_size);
        Step::Wait(WaitReason::Data(ino))
    }

    /// The inline data are in the first object, or are not. The writers start again: they meet a file with objects,
    /// or the error.
    pub(crate) fn spilled(&mut self, ino: Ino, ok: bool) {
        let Some(object_size) = self.discards.spills.remove(&ino) else { return };
        if !ok {
            for job in self.core.parked.take_waiting(&WaitReason::Data(ino)) {
                self.fail(job, FsError::NoSpace);
            }
            return;
        }
        let mut events = spilled_events(&self.core.tree, ino);
        if matches!(self.core.tree.find(ino), Found::Gone) {
            // Removed meanwhile: what was written has no owner.
            events.push(Event::Discard { ino, from: 0, object_size });
        }
        if !events.is_empty() {
            self.commit(None, &events);
        }
        self.core.parked.wake(&WaitReason::Data(ino));
        self.opens.closed(&self.core, &mut self.tidy, ino);
    }
}

/// The file is no longer inline.
fn spilled_events(tree: &Tree, ino: Ino) -> Vec<Event> {
    let Some(inode) = tree.inode(ino).filter(|inode| inode.inline) else { return Vec::new() };
    let mut inode = inode.clone();
    inode.inline = false;
    inode.change += 1;
    vec![Event::Inode(Box::new(inode)), Event::InlineGone(ino)]
}
