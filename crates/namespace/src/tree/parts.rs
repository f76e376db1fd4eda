//! Directories whose fragments are several ranks': this rank's part of them, parts that others have lent, and the names
//! that are this rank's. No decisions about who should have what.

use std::cell::Cell;

use loligo_types::{Attr, Event, Frag, Ino, Inode, Name, Rank, Route};

use super::{HASH_MAX, Small, Tree};
use crate::need::Need;

/// Estimated number of entries of a directory of which a rank has only fragments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Estimate {
    /// About so many in all of it, if those here are like the others.
    Entries(u64),
    /// This must be read first.
    Read(Need),
}

/// Entries that are counted for an estimate; with fewer known ones more are read, as long as there are more.
const SAMPLE: usize = 1000;
const SAMPLE_MIN: usize = 250;

/// Lines of the subtree map that a decision over ranks ends besides, at a rank whose part of a removed directory it ends:
/// those that the rank has put down for its fragments.
pub fn ended_lines(decision: &[Event]) -> impl Iterator<Item = Event> + '_ {
    decision.iter().filter_map(|event| match event {
        Event::PartGone { dir, .. } => Some(Event::RouteGone(*dir)),
        _ => None,
    })
}

impl Tree {
    /// About how many entries a directory has, by those in a range of the hashes that are this rank's: hashes are uniform.
    /// `None`: this rank has no fragment of it, or all.
    pub fn estimate(&self, dir: Ino) -> Option<Estimate> {
        let first = self.own_frags(dir)?.first()?.first();
        let until = self.own_until(dir, first)?;
        let slot = self.dirs.get(dir.0);
        let known = slot.and_then(|slot| slot.complete.known_until(first)).map(|known| known.min(until));
        let (Some(slot), Some(known)) = (slot, known) else {
            return Some(Estimate::Read(Need::Range { dir, from_hash: first }));
        };
        let (mut count, mut last) = (0, known);
        for (hash, group) in slot.entries.range(first..=known) {
            count += group.entries().iter().filter(|entry| entry.ino.0 != 0).count();
            if count >= SAMPLE {
                last = *hash;
                break;
            }
        }
        if count < SAMPLE_MIN && known < until {
            return Some(Estimate::Read(Need::Range { dir, from_hash: known + 1 }));
        }
        let (count, width) = (count as u128, u128::from(last - first) + 1);
        Some(Estimate::Entries(u64::try_from(count * (1 << 63) / width).unwrap_or(u64::MAX)))
    }

    /// From which hash on it is not known which hashes names in a fragment have, around one of which it is not known; `None`: it is.
    pub fn unknown_from(&self, dir: Ino, frag: Frag, hash: u64) -> Option<u64> {
        match self.dirs.get(dir.0) {
            Some(slot) => slot.unknown_from(frag.first(), hash),
            None => Some(frag.first()),
        }
    }

    /// True if all entries of a directory are known up to this hash, which is not: one more range is read of several.
    pub fn is_known_before(&self, dir: Ino, hash: u64) -> bool {
        hash > 1
            && self.dirs.get(dir.0).is_some_and(|slot| !slot.complete.covers(hash) && slot.complete.covers(hash - 1))
    }

    /// This rank's part of a directory of which it has fragments, but not the inode.
    pub fn part(&self, dir: Ino) -> Option<&Inode> {
        if self.parts.is_empty() {
            return None;
        }
        self.parts.get(&dir)?.value.as_deref()
    }

    /// All parts that this rank has, ascending.
    pub fn parts(&self) -> impl Iterator<Item = &Inode> + '_ {
        self.parts.values().filter_map(|record| record.value.as_deref())
    }

    /// This rank's part and those that were lent.
    pub(crate) fn all_parts(&self, dir: Ino) -> impl Iterator<Item = &Inode> + '_ {
        self.part(dir).into_iter().chain(self.lent_parts.get(&dir).into_iter().flatten())
    }

    /// True if all parts of a directory are here while one operation is decided.
    pub fn is_whole(&self, dir: Ino) -> bool {
        self.whole.contains(&dir)
    }

    /// They are.
    pub fn set_whole(&mut self, dir: Ino) {
        self.whole.insert(dir);
    }

    /// The attributes of an inode for clients; of a directory whose fragments are several ranks', all parts must be
    /// here.
    pub fn attr_of(&self, inode: &Inode) -> Attr {
        if !inode.is_spread() { inode.attr() } else { self.counted(inode).attr() }
    }

    /// The same as an inode.
    pub(crate) fn counted(&self, inode: &Inode) -> Inode {
        let mut all = inode.clone();
        if inode.part_of().is_none() {
            self.all_parts(inode.ino).for_each(|part| all.count_part(part));
        }
        if inode.nlink > 0 {
            all.end_spread();
        }
        all
    }

    /// Number of entries of a directory; if its fragments are several ranks', all parts must be here.
    pub(crate) fn entries_of(&self, dir: &Inode) -> u64 {
        if dir.is_spread() { self.counted(dir).size } else { dir.size }
    }

    /// The fragments of a directory that are this rank's, ascending by hash; `None` if its fragments are not several
    /// ranks', as far as this rank had to do with it.
    pub fn own_frags(&self, dir: Ino) -> Option<Vec<Frag>> {
        if self.routes.is_empty() {
            return None;
        }
        let lines: Vec<_> = self.lines(dir).collect();
        if lines.iter().all(|line| line.frag == Frag::WHOLE) {
            return None;
        }
        let own = lines.iter().filter(|line| line.rank == self.config.rank).map(|line| line.frag);
        let mut own: Vec<Frag> = own.collect();
        own.sort_by_key(|frag| frag.first());
        Some(own)
    }

    /// The lines of the subtree map that this rank has put down for a directory.
    pub fn lines(&self, dir: Ino) -> impl Iterator<Item = Route> + '_ {
        let lines = self.routes.range((dir, Frag::WHOLE)..).take_while(move |((d, _), _)| *d == dir);
        lines.filter_map(|(_, record)| record.value)
    }

    /// True if this rank has put down lines for a directory.
    pub fn has_lines(&self, dir: Ino) -> bool {
        self.lines(dir).next().is_some()
    }

    /// Up to which hash all names from this one on are this rank's; `None`: not even those with this one.
    pub fn own_until(&self, dir: Ino, hash: u64) -> Option<u64> {
        let Some(own) = self.own_frags(dir) else { return Some(HASH_MAX) };
        let mut until = None;
        for frag in own {
            match until {
                None if frag.contains(hash.min(HASH_MAX)) => until = Some(frag.last()),
                Some(last) if frag.first() == last + 1 => until = Some(frag.last()),
                Some(_) => break,
                None => {}
            }
        }
        until
    }

    /// The rank whose record a name is: this one's, but for what was lent.
    pub fn entry_owner(&self, dir: Ino, name: &Name) -> Rank {
        if self.guest_names.is_empty() {
            return if self.part(dir).is_some() { self.config.rank } else { self.owner(dir) };
        }
        match self.guest_names.get(&(dir, self.hash(name))) {
            Some(rank) => *rank,
            None if self.part(dir).is_some() => self.config.rank,
            None => self.owner(dir),
        }
    }

    /// Puts a part down that this rank has according to the table.
    pub(crate) fn load_part(&mut self, part: Inode) {
        let record = Small { value: Some(Box::new(part)), flags: Cell::new(0) };
        self.parts.entry(record.value.as_ref().map_or(Ino(0), |part| part.ino)).or_insert(record);
    }

    /// Takes in what another rank lent of a directory.
    pub(super) fn invite_part(&mut self, dir: Ino, part: Option<&Inode>) {
        if let Some(part) = part {
            self.lent_parts.entry(dir).or_default().push(part.clone());
        }
    }

    /// True if some part has grown by something that its home was not told yet.
    pub(crate) fn parts_unsettled(&self) -> bool {
        self.parts().any(|part| part.own() != part.accounted)
    }
}
