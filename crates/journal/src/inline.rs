//! Data held in inodes whose changes the journal has in short. A rank logs a small change of larger data as its difference
//! ([`InlinePatch`]); whoever replays a journal makes events of it that are as absolute as all others. Both sides are here, for they must
//! agree on which data a change builds on. Not here: replay, and what is in the table.
//!
//! A change builds on the whole data that an earlier record has, or on changes that lead back to it. It is made only while that data is
//! continuously dirty: then the journal is trimmed of the record with it only after a checkpoint has written a state that has all changes
//! that build on it. So changes that a journal has without that record are in the table, or later states of the same data, and say nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_types::{Event, InlinePatch, Ino, Lsn};
use thiserror::Error;

/// Changes that build on one record.
const PATCHES_MAX: u32 = 128;
/// Bytes of all changes that build on one record, in lengths of the data.
const LENGTHS_MAX: usize = 4;
/// Bytes of a change beside its new bytes, about.
const HEAD: usize = 24;
/// Files whose changes a rank may log in short: twice as many at most. One that is forgotten is logged whole once more.
const FILES: usize = 2048;

/// CRC-32C of data, as changes of it have it.
fn crc_of(data: &[u8]) -> u32 {
    crc32c::crc32c(data)
}

/// A change that does not fit what the journal has before it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PatchError {
    /// The record with the whole data is missing.
    #[error("it has a change of the data held in inode {ino}, and builds on record {whole}, which has no such data")]
    NoBase {
        /// The inode.
        ino: Ino,
        /// The record.
        whole: Lsn,
    },
    /// A change between that record and this one is missing, or is another one.
    #[error(
        "it has a change of the data held in inode {ino}, and what records {whole} and later make of that data is not what it changes"
    )]
    OtherBase {
        /// The inode.
        ino: Ino,
        /// The record with the whole data.
        whole: Lsn,
    },
}

/// Data held in inodes, as far as a journal that is read has told it. Given all events in the order of the journal.
#[derive(Default)]
pub struct InlineLog {
    /// The first record that was read.
    first: Option<Lsn>,
    /// By inode: the record with the whole data, and the data with all changes.
    data: BTreeMap<Ino, (Lsn, Arc<[u8]>)>,
}

impl InlineLog {
    /// Replaces changes in a record by the whole data, and takes out those that the table has: the record with their whole data was trimmed,
    /// or is before the one that reading began with.
    pub fn make_whole(&mut self, lsn: Lsn, events: &mut Vec<Event>) -> Result<(), PatchError> {
        let first = *self.first.get_or_insert(lsn);
        let mut late = false;
        for event in events.iter_mut() {
            match event {
                Event::Inline { ino, data } => drop(self.data.insert(*ino, (lsn, data.clone()))),
                Event::InlineGone(ino) | Event::InodeGone(ino) => drop(self.data.remove(ino)),
                Event::Departed(inos) => inos.iter().for_each(|ino| drop(self.data.remove(ino))),
                Event::InlinePatch(patch) if patch.whole < first => late = true,
                Event::InlinePatch(patch) => {
                    let data = self.changed(patch)?;
                    *event = Event::Inline { ino: patch.ino, data };
                }
                _ => {}
            }
        }
        if late {
            events.retain(|event| !matches!(event, Event::InlinePatch(_)));
        }
        Ok(())
    }

    fn changed(&mut self, patch: &InlinePatch) -> Result<Arc<[u8]>, PatchError> {
        let (ino, whole) = (patch.ino, patch.whole);
        let known = self.data.get_mut(&ino).filter(|(lsn, _)| *lsn == whole);
        let (_, data) = known.ok_or(PatchError::NoBase { ino, whole })?;
        let fits = data.len() == patch.base_len as usize && crc_of(data) == patch.base_crc;
        let new = if fits { patch.apply(data) } else { None };
        *data = new.ok_or(PatchError::OtherBase { ino, whole })?;
        Ok(data.clone())
    }
}

/// State of the data that the journal has of an inode.
#[derive(Clone, Copy, Debug)]
struct Chain {
    /// The record with the whole data.
    whole: Lsn,
    /// Checksum of the data with all changes.
    crc: u32,
    /// Changes that build on it, and their bytes.
    patches: u32,
    bytes: usize,
}

/// Decides which changes a rank logs in short. Told of each record that it makes.
pub struct Shortener {
    /// Shorter data is always logged whole.
    from: usize,
    young: BTreeMap<Ino, Chain>,
    /// Those before; a file that is changed comes among the young ones again.
    old: BTreeMap<Ino, Chain>,
}

impl Shortener {
    /// `from`: of shorter data it logs all.
    pub fn new(from: u32) -> Shortener {
        Shortener { from: from as usize, young: BTreeMap::new(), old: BTreeMap::new() }
    }

    /// The events of a record as they are to be logged, if others than those that are applied, and the bytes that are left out. `before`: the data that an inode holds; and
    /// true if it is dirty, so that no checkpoint is writing that state or has written it.
    pub fn shorten(
        &mut self,
        lsn: Lsn,
        events: &[Event],
        before: impl FnOnce(Ino) -> Option<(Arc<[u8]>, bool)>,
    ) -> Option<(Vec<Event>, usize)> {
        let mut about = events.iter().enumerate().filter(|(_, event)| is_about_data(event));
        let (at, one) = about.next()?;
        let Event::Inline { ino, data } = one else {
            events.iter().for_each(|event| self.forget(event));
            return None;
        };
        if about.next().is_some() {
            events.iter().for_each(|event| self.forget(event));
            return None;
        }
        let chain = self.young.remove(ino).or_else(|| self.old.remove(ino));
        if data.len() < self.from {
            return None;
        }
        // Most files are written once: only the second time something is known to build on.
        let (before, is_dirty) = before(*ino).filter(|(before, _)| !before.is_empty())?;
        let patch = chain.filter(|_| is_dirty).and_then(|chain| chain.patch(*ino, &before, data));
        let crc = crc_of(data);
        let Some((chain, patch)) = patch else {
            self.keep(*ino, Chain { whole: lsn, crc, patches: 0, bytes: 0 });
            return None;
        };
        self.keep(
            *ino,
            Chain { crc, patches: chain.patches + 1, bytes: chain.bytes + patch.bytes.len() + HEAD, ..chain },
        );
        let left_out = data.len() - patch.bytes.len();
        let mut logged = events.to_vec();
        logged[at] = Event::InlinePatch(Box::new(patch));
        Some((logged, left_out))
    }

    fn keep(&mut self, ino: Ino, chain: Chain) {
        if self.young.len() >= FILES {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(ino, chain);
    }

    fn forget(&mut self, event: &Event) {
        let mut forget = |ino: &Ino| {
            self.young.remove(ino);
            self.old.remove(ino);
        };
        match event {
            Event::Inline { ino, .. } | Event::InlineGone(ino) | Event::InodeGone(ino) => forget(ino),
            Event::Departed(inos) => inos.iter().for_each(forget),
            _ => {}
        }
    }
}

impl Chain {
    /// The change, if it is worth it and fits.
    fn patch(self, ino: Ino, before: &[u8], data: &[u8]) -> Option<(Chain, InlinePatch)> {
        if self.patches >= PATCHES_MAX || crc_of(before) != self.crc {
            return None;
        }
        let patch = InlinePatch::between(ino, self.whole, (before, self.crc), data)?;
        let len = patch.bytes.len() + HEAD;
        (len <= data.len() / 2 && self.bytes + len <= LENGTHS_MAX * data.len()).then_some((self, patch))
    }
}

fn is_about_data(event: &Event) -> bool {
    matches!(event, Event::Inline { .. } | Event::InlineGone(_) | Event::InodeGone(_) | Event::Departed(_))
}

#[cfg(test)]
mod tests;
