//! Parts to be merged into decoupled subtrees: they are held as they are, without any effect, until one record of the
//! journal makes all of them true. Their contents are not checked here.
//!
//! A part is the body of a journal record, so its events get into the cache as any change does. Until all that a merge
//! changed is in the table the journal is needed from its first part on: the record that makes it true names none of it.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use loligo_journal::view_record;
use loligo_types::{DecoupledRecord, Event, EventView, Ino, Kind, Lsn};

use super::{Tree, flag};
use crate::MergeRows;
use crate::apply::apply_view;

/// Names of a directory that are looked at, whether the table has them.
const NAMES_MAX: usize = 4096;

/// Parts to be merged into a subtree.
pub(crate) struct Merge {
    /// Where its first part stands in the journal.
    first: Lsn,
    parts: VecDeque<Arc<[u8]>>,
    bytes: u64,
    /// It is true: the subtree as it was when it became so.
    begun: Option<Box<DecoupledRecord>>,
}

/// The journal is needed from a record on as long as it is needed from another one, or one before that, on.
pub(crate) struct Pin {
    from: Lsn,
    until: Lsn,
}

impl Tree {
    /// A decoupled subtree.
    pub fn decoupled(&self, dir: Ino) -> Option<&DecoupledRecord> {
        self.decoupled.get(&dir)?.value.as_deref()
    }

    /// All of them.
    pub fn all_decoupled(&self) -> impl Iterator<Item = &DecoupledRecord> + '_ {
        self.decoupled.values().filter_map(|record| record.value.as_deref())
    }

    /// True if there may be one.
    #[inline]
    pub fn has_decoupled(&self) -> bool {
        !self.decoupled.is_empty()
    }

    /// Number of parts that have come to be merged into a subtree, and their bytes.
    pub fn merge_parts(&self, dir: Ino) -> (usize, u64) {
        self.merges.get(&dir).map_or((0, 0), |merge| (merge.parts.len(), merge.bytes))
    }

    /// The parts that have come to be merged into a subtree, in order.
    pub fn merge_bodies(&self, dir: Ino) -> impl Iterator<Item = &Arc<[u8]>> + '_ {
        self.merges.get(&dir).into_iter().flat_map(|merge| &merge.parts)
    }

    pub(crate) fn add_merge_part(&mut self, dir: Ino, part: u32, body: &Arc<[u8]>, lsn: Lsn) {
        let fresh = || Merge { first: lsn, parts: VecDeque::new(), bytes: 0, begun: None };
        if part == 0 {
            self.merges.insert(dir, fresh());
        }
        let merge = self.merges.entry(dir).or_insert_with(fresh);
        merge.bytes += body.len() as u64;
        merge.parts.push_back(body.clone());
    }

    pub(crate) fn drop_merge(&mut self, dir: Ino) {
        self.merges.remove(&dir);
    }

    /// Drops the parts of all merges that are not true: their owners begin anew.
    pub fn drop_merges(&mut self) {
        self.merges.retain(|_, merge| merge.begun.is_some());
    }

    /// Makes the parts to be merged into a subtree true from now on; [`Tree::merge_some`] brings them into the cache.
    pub fn begin_merge(&mut self, dir: Ino) {
        let record = self.decoupled.get(&dir).and_then(|record| record.value.clone());
        if let Some(merge) = self.merges.get_mut(&dir) {
            merge.begun = Some(record.unwrap_or_default());
        }
    }

    /// Brings a part of what is true into the cache; whether that was the last one. Until then nothing else may look below
    /// the subtree's root. `lsn`: the last record that was applied.
    pub fn merge_some(&mut self, dir: Ino, lsn: Lsn) -> bool {
        let Some(merge) = self.merges.get_mut(&dir) else { return true };
        let Some(record) = merge.begun.take() else { return true };
        let part = merge.parts.pop_front();
        let (done, from) = (merge.parts.is_empty(), merge.first);
        if let Some(body) = part {
            // It was looked through when it came, and can be read.
            let read = view_record(&body, |event| {
                match event {
                    EventView::Inode(inode) if !record.is_new(inode.ino) => {}
                    // Others have it in the record that made this true.
                    EventView::Other(Event::Discard { .. }) => {}
                    event => apply_view(self, event, lsn),
                }
                ControlFlow::Continue(())
            });
            debug_assert!(read.is_ok(), "a part that cannot be read: {read:?}");
        }
        if let Some(merge) = self.merges.get_mut(&dir) {
            merge.begun = Some(record);
        }
        if done {
            self.merges.remove(&dir);
            self.pins.push(Pin { from, until: lsn });
        }
        done
    }

    /// The part of a true merge that is to become rows of the table, instead of getting into the cache by
    /// [`Tree::merge_some`]. `touched`: inodes that were there before and may get other names. Nothing below the root may
    /// change until [`Tree::merge_rest`] has said the last of it.
    pub fn merge_rows(&self, dir: Ino, touched: impl Iterator<Item = Ino>) -> Option<MergeRows> {
        let merge = self.merges.get(&dir)?;
        let record = merge.begun.clone()?;
        let is_dir = |ino: &Ino| self.inode(*ino).is_some_and(|inode| inode.kind == Kind::Dir);
        let dirs = touched.filter(is_dir).filter(|dir| self.names_are_in_table(*dir)).collect();
        Some(MergeRows { parts: merge.parts.iter().cloned().collect(), record, dirs, key: self.key })
    }

    /// True if the table has all that the cache has of a directory's names; not if that takes long to tell.
    fn names_are_in_table(&self, dir: Ino) -> bool {
        let Some(slot) = self.dirs.get(dir.0) else { return true };
        slot.entries.len() <= NAMES_MAX && slot.all(|entry| entry.flags.get() & flag::HELD == 0)
    }

    /// Rows of a merge are in the table: the cache forgets what it knows of names in `dir`, which may be old.
    pub fn forget_merged_names(&mut self, dir: Ino) {
        self.forget_known_names(dir);
    }

    /// The last of a merge that went into the table: it is over, and what was to be done in the cache was applied as of `lsn`.
    pub fn merge_rest(&mut self, dir: Ino, lsn: Lsn) {
        if let Some(merge) = self.merges.remove(&dir) {
            self.pins.push(Pin { from: merge.first, until: lsn });
        }
    }

    /// The first record of what came to be merged and is not all in memory.
    pub fn oldest_merge(&self) -> Option<Lsn> {
        self.merges.values().map(|merge| merge.first).min()
    }

    /// From where on the journal is needed if it is from `needed` on for all other reasons: a merge that is replayed at all is replayed from
    /// its first part on. Half of it would not do: what was said in between of a directory, that it is empty, is true only if all that
    /// came into it later is replayed.
    pub fn needed_for_merges(&self, needed: Lsn) -> Lsn {
        let mut needed = self.oldest_merge().map_or(needed, |oldest| oldest.min(needed));
        // Of several that overlap each may need the one before.
        while let Some(pin) = self.pins.iter().find(|pin| pin.until >= needed && pin.from < needed) {
            needed = pin.from;
        }
        needed
    }

    /// The table has what records say of inodes up to one, but for merges; up to where with them: of those that are true the record that says
    /// so must be replayed until all of it is there.
    pub fn settled_for_merges(&self, upto: Lsn) -> Lsn {
        let begun = self.merges.values().filter(|merge| merge.begun.is_some()).map(|merge| merge.first);
        let mut upto = begun.min().map_or(upto, |first| first.min(upto));
        while let Some(pin) = self.pins.iter().find(|pin| pin.until >= upto && pin.from < upto) {
            upto = pin.from;
        }
        upto
    }

    /// The journal is needed from there on, and no record before it will be again.
    pub fn drop_pins(&mut self, needed: Lsn) {
        self.pins.retain(|pin| pin.until >= needed);
    }
}
