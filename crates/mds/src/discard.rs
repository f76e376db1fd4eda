//! Objects' bytes that a cut or a removal leaves behind: dropped after the change is durable, and, for a cut, before
//! it is answered.
//!
//! Where clients write in the store by themselves nothing there orders a drop with a write. That the write comes after follows from when who
//! is told what: whoever is told the file's state after the cut, or gets a right to it (an open), is answered when the drop is done, and
//! the record that says so is durable: so no crash repeats it beside what is written then. Who held the right to write and cuts the file himself
//! may be writing what the drop takes, before he has the answer: that counts only when he tells the size, which is refused
//! because of the cut he did not know, and he writes it again. Without such clients the object server orders them, and what a repeated drop takes
//! is written again because the server's life is another one ([`loligo_types::msg::Welcome::data_epoch`]).
//!
//! Until the drop is done nothing else may change the file's data or size, and the record that says it is done goes
//! into the journal at once. So every later change that is durable finds that record durable, and a drop repeated
//! after a crash never meets data that was acknowledged after it.

use std::collections::{BTreeMap, VecDeque};

use loligo_types::{Event, Ino, Lsn};

use crate::core::Core;
use crate::io::Output;
use crate::reply::Reply;

struct Discard {
    from: u64,
    object_size: u32,
    lsn: Lsn,
    emitted: bool,
}

/// Data to be dropped.
#[derive(Default)]
pub(crate) struct Discards {
    by_ino: BTreeMap<Ino, VecDeque<Discard>>,
    /// Those not given out yet, in the order of the journal.
    waiting: VecDeque<(Lsn, Ino)>,
    replies: BTreeMap<Ino, Vec<Reply>>,
    /// Removed inodes whose drop is done; the journal is told of many at once.
    done: Vec<Ino>,
    /// Files whose inline data is on its way to an object, with the size of their objects.
    pub(crate) spills: BTreeMap<Ino, u32>,
}

/// Most removed inodes in one record of drops that are done.
const DONE_MAX: usize = 256;

impl Discards {
    /// A record of the journal (or of the table) says so.
    pub(crate) fn add(&mut self, ino: Ino, from: u64, object_size: u32, lsn: Lsn) {
        let discard = Discard { from, object_size, lsn, emitted: false };
        self.by_ino.entry(ino).or_default().push_back(discard);
        self.waiting.push_back((lsn, ino));
    }

    /// True if something is still to be dropped of the inode.
    #[inline]
    pub(crate) fn is_pending(&self, ino: Ino) -> bool {
        !self.by_ino.is_empty() && self.by_ino.contains_key(&ino)
    }

    /// An answer that waits for it.
    pub(crate) fn wait(&mut self, ino: Ino, reply: Reply) {
        self.replies.entry(ino).or_default().push(reply);
    }

    /// Of which inodes something is to be dropped.
    pub(crate) fn inos(&self) -> Vec<Ino> {
        self.by_ino.keys().copied().collect()
    }

    /// True if no drop waits until its record is durable.
    pub(crate) fn nothing_waits(&self) -> bool {
        self.waiting.is_empty()
    }

    /// True if nothing is to be dropped, and the journal knows it.
    pub(crate) fn is_idle(&self) -> bool {
        self.by_ino.is_empty() && self.done.is_empty()
    }

    /// The oldest drop of the inode is done; whether it was the last.
    pub(crate) fn one_is_done(&mut self, ino: Ino) -> bool {
        let Some(queue) = self.by_ino.get_mut(&ino) else { return false };
        if queue.front().is_none_or(|discard| !discard.emitted) {
            return false;
        }
        queue.pop_front();
        if !queue.is_empty() {
            return false;
        }
        self.by_ino.remove(&ino);
        true
    }

    /// The journal is to be told that nothing is left of a removed inode; whether it is to be told at once.
    pub(crate) fn note_done(&mut self, ino: Ino) -> bool {
        self.done.push(ino);
        self.done.len() >= DONE_MAX
    }

    /// Events that tell the journal of removed inodes of which nothing is left.
    pub(crate) fn take_done(&mut self) -> Vec<Event> {
        self.done.drain(..).map(Event::DiscardGone).collect()
    }

    /// The answers that waited for it.
    pub(crate) fn take_replies(&mut self, ino: Ino) -> Vec<Reply> {
        self.replies.remove(&ino).unwrap_or_default()
    }

    /// Of how many inodes something is to be dropped.
    pub(crate) fn len(&self) -> usize {
        self.by_ino.len()
    }

    /// Gives out the drops whose change is durable.
    pub(crate) fn emit_discards(&mut self, core: &mut Core) {
        while let Some((lsn, ino)) = self.waiting.front().copied() {
            if lsn > core.log.durable {
                return;
            }
            self.waiting.pop_front();
            let queue = self.by_ino.get_mut(&ino);
            if let Some(discard) = queue.and_then(|queue| queue.iter_mut().find(|d| d.lsn == lsn && !d.emitted)) {
                discard.emitted = true;
                let (from, object_size) = (discard.from, discard.object_size);
                core.out.push_back(Output::Discard { ino, from, object_size });
            }
        }
    }

    /// True if objects of the file are being dropped, or its inline data moved to one.
    pub(crate) fn drops_or_spills(&self, ino: Ino) -> bool {
        self.is_pending(ino) || self.spills.contains_key(&ino)
    }
}
