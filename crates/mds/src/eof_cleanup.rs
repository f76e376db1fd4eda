//! Bytes beyond the end of a file, left by a writer that died (or failed) between writing them and telling the size.
//!
//! Who alone has a file open drops them before it leaves a gap. Of several writers none can: it might drop what another
//! one just wrote. So the server does it before the first growth that they tell, and counts that as a cut: what one of
//! them has written beyond the end and not told of is refused as stale, and written again. From then on nothing lies
//! there but what they write, until one of them dies.
//!
//! When a session dies this is done at once with the files that it wrote: if several others write them, too, as a cut, because one of these may
//! come to have the file alone before it tells of what it has written further behind, and nobody asks it then. If nobody else does, also with the
//! objects of a file that is still inline, which it was moving there. Until it is done nobody gets the file for himself.

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::{Ino, Lease};

use crate::core::Core;
use crate::open::Opens;
use crate::room::Appended;

/// Knowledge of the bytes beyond the ends of files.
#[derive(Default)]
pub(crate) struct EofCleanup {
    /// Open files of which nothing lies there but what their writers write now.
    known: BTreeSet<Ino>,
    /// Where appends lie that were told since the file is known.
    appended: BTreeMap<Ino, Appended>,
    /// Files at whose end no room is reserved for now, because somebody waits for what is.
    closed_ends: BTreeSet<Ino>,
    /// Files that sessions had open for writing when they died.
    left: BTreeSet<Ino>,
}

/// Files of dead sessions looked at in one tick.
pub(crate) const LEFT_PER_TICK: usize = 64;

impl EofCleanup {
    /// A session that had the file open for writing has died.
    pub(crate) fn leave(&mut self, ino: Ino) {
        self.left.insert(ino);
    }

    /// The files that are to be looked at.
    pub(crate) fn inos(&self) -> impl Iterator<Item = Ino> + '_ {
        self.left.iter().copied()
    }

    /// Number of files to look at.
    pub(crate) fn left(&self) -> usize {
        self.left.len()
    }

    /// True if a dead session may have left something of the file that is still to be dropped.
    #[inline]
    pub(crate) fn is_left(&self, ino: Ino) -> bool {
        !self.left.is_empty() && self.left.contains(&ino)
    }

    /// Something may be left there now.
    pub(crate) fn forget(&mut self, ino: Ino) {
        if !self.known.is_empty() {
            self.known.remove(&ino);
        }
        if !self.appended.is_empty() {
            self.appended.remove(&ino);
        }
    }

    /// The file is being looked at: it is not left any more.
    pub(crate) fn is_looked_at(&mut self, ino: Ino) {
        self.left.remove(&ino);
    }

    /// Nothing is left there from now on.
    pub(crate) fn know(&mut self, ino: Ino) {
        self.known.insert(ino);
    }

    /// True if nothing lies beyond the end but what the file's writers write now.
    pub(crate) fn is_known(&self, ino: Ino) -> bool {
        self.known.contains(&ino)
    }

    /// True if room may be reserved beside other room.
    pub(crate) fn takes_appends(&self, ino: Ino) -> bool {
        self.is_known(ino) && !self.closed_ends.contains(&ino)
    }

    /// True if somebody waits for all room to end.
    pub(crate) fn is_end_closed(&self, ino: Ino) -> bool {
        self.closed_ends.contains(&ino)
    }

    /// No more room is to be reserved until that ends which is.
    pub(crate) fn close_end(&mut self, ino: Ino) {
        self.closed_ends.insert(ino);
    }

    /// None is reserved any more.
    pub(crate) fn open_end(&mut self, ino: Ino) {
        if !self.closed_ends.is_empty() {
            self.closed_ends.remove(&ino);
        }
    }

    /// An append became visible.
    pub(crate) fn append(&mut self, ino: Ino, new: Appended) {
        if !self.is_known(ino) {
            return;
        }
        let all = self.appended.entry(ino).or_insert(new);
        if all.cuts == new.cuts {
            (all.start, all.end) = (all.start.min(new.start), all.end.max(new.end));
        } else {
            *all = new;
        }
    }

    /// Where appends lie that became visible since the file is known.
    pub(crate) fn appended(&self, ino: Ino) -> Option<Appended> {
        self.appended.get(&ino).copied()
    }

    /// Notes that the bytes beyond the end of a file are being dropped.
    pub(crate) fn dropped(&mut self, opens: &Opens, ino: Ino) {
        if !opens.is_alone_with(ino) && opens.any_writer(ino) {
            self.known.insert(ino);
        }
    }
}

impl Opens {
    /// True if somebody holds CACHE: if that one writes he is alone.
    pub(crate) fn is_alone_with(&self, ino: Ino) -> bool {
        self.all_rights(ino).any(|(_, rights)| rights.has(Lease::CACHE))
    }

    /// A handle on the inode has ended: it may be the last of an orphan.
    pub(crate) fn closed(&mut self, core: &Core, tidy: &mut EofCleanup, ino: Ino) {
        if self.is_closed(ino) {
            tidy.forget(ino);
            if core.tree.is_orphan(ino) {
                self.reaps.insert(ino);
            }
        }
    }
}
