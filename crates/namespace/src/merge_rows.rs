//! New inodes and names of a merge as records of the table, so that a table takes them in bulk ("nonvolatile apply", Cudele §6.2). Pure: it
//! looks at parts of a merge that is true, and not at memory; so any thread may do it. Not when a merge may go that way (`mds`), and no
//! bytes.
//!
//! Only what memory and table cannot have goes this way: inodes that the merge makes, what belongs to them, and names in directories of
//! which memory knows nothing. All else is left to be applied as any change is. What a replay of the journal would make of the merge is the
//! same.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use loligo_journal::view_record;
use loligo_types::{DecoupledRecord, Event, EventView, Ino, Name};

use crate::checkpoint::Record;
use crate::rstat::is_unsettled;
use crate::tree::hash63;

/// Parts of a merge that is true, to be made rows of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MergeRows {
    /// The parts, in order.
    pub parts: Vec<Arc<[u8]>>,
    /// The subtree as it was before the merge.
    pub record: Box<DecoupledRecord>,
    /// Directories that were there before and of whose names memory knows nothing that the table does not.
    pub dirs: BTreeSet<Ino>,
    /// Under which names are hashed.
    pub key: (u64, u64),
}

/// Result: the records and events of a merge.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MergedRows {
    /// Records for the table, no two for the same row.
    pub records: Vec<Record>,
    /// Events to apply to memory, in order.
    pub rest: Vec<Event>,
    /// Numbers of inodes that the merge made, whatever became of them: memory may believe that there is nothing.
    pub made: BTreeSet<Ino>,
}

/// Rows of the table, the last event of each.
#[derive(Default)]
struct Rows {
    inodes: HashMap<Ino, Event>,
    names: HashMap<(Ino, Box<[u8]>), Event>,
    xattrs: BTreeMap<(Ino, Arc<[u8]>), Event>,
    inline: BTreeMap<Ino, Event>,
}

impl MergeRows {
    /// Makes rows of them. What cannot be read is not there: it was looked through when it came.
    pub fn rows(&self) -> MergedRows {
        let (mut rows, mut out) = (Rows::default(), MergedRows::default());
        for body in &self.parts {
            let read = view_record(body, |event| {
                self.take(event, &mut rows, &mut out);
                ControlFlow::Continue(())
            });
            debug_assert!(read.is_ok(), "a part that cannot be read: {read:?}");
        }
        rows.into_records(self.key, &mut out);
        out
    }

    fn take(&self, event: EventView<'_>, rows: &mut Rows, out: &mut MergedRows) {
        let event = match event {
            EventView::Inode(inode) => {
                // Of others the record that made the merge true says what becomes.
                if self.record.is_new(inode.ino) {
                    out.made.insert(inode.ino);
                    rows.inodes.insert(inode.ino, Event::Inode(Box::new(inode.clone())));
                }
                return;
            }
            EventView::Entry { dir, name, ino, kind, remote } => {
                let Ok(checked) = Name::new(name) else { return };
                let event = Event::Entry { dir, name: checked, ino, kind, remote };
                if self.is_direct(dir) {
                    rows.names.insert((dir, name.into()), event);
                } else {
                    out.rest.push(event);
                }
                return;
            }
            EventView::Other(event) => event,
        };
        match event {
            Event::InodeGone(ino) if self.record.is_new(*ino) => {
                out.made.insert(*ino);
                rows.forget(*ino);
            }
            Event::EntryGone { dir, name } if self.record.is_new(*dir) => {
                rows.names.remove(&(*dir, name.as_bytes().into()));
            }
            Event::EntryGone { dir, name } if self.is_direct(*dir) => {
                rows.names.insert((*dir, name.as_bytes().into()), event.clone());
            }
            Event::Xattr { ino, name, .. } if self.record.is_new(*ino) => {
                rows.xattrs.insert((*ino, name.clone()), event.clone());
            }
            Event::XattrGone { ino, name } if self.record.is_new(*ino) => {
                rows.xattrs.remove(&(*ino, name.clone()));
            }
            Event::Inline { ino, .. } if self.record.is_new(*ino) => _ = rows.inline.insert(*ino, event.clone()),
            Event::InlineGone(ino) if self.record.is_new(*ino) => _ = rows.inline.remove(ino),
            // Others have it in the record that made the merge true.
            Event::Discard { .. } => {}
            event => out.rest.push(event.clone()),
        }
    }

    fn is_direct(&self, dir: Ino) -> bool {
        self.record.is_new(dir) || self.dirs.contains(&dir)
    }
}

impl Rows {
    /// An inode is gone, with what belongs to it. It never was in the table.
    fn forget(&mut self, ino: Ino) {
        self.inodes.remove(&ino);
        self.inline.remove(&ino);
        let first: Arc<[u8]> = Arc::new([]);
        let mut names = self.xattrs.range((ino, first)..).take_while(|((of, _), _)| *of == ino).peekable();
        if names.peek().is_some() {
            let names: Vec<_> = names.map(|(key, _)| key.clone()).collect();
            names.iter().for_each(|key| _ = self.xattrs.remove(key));
        }
    }

    fn into_records(self, key: (u64, u64), out: &mut MergedRows) {
        let hashed = |((_, name), event): ((Ino, Box<[u8]>), Event)| {
            let hash = hash63(key, &name);
            Record { event, hash, sweep: false }
        };
        out.records.extend(self.names.into_iter().map(hashed));
        for event in self.inodes.into_values() {
            match event {
                // Its directory is still to count it: memory keeps those in mind.
                Event::Inode(inode) if is_unsettled(&inode) => out.rest.push(Event::Inode(inode)),
                event => out.records.push(Record::plain(event)),
            }
        }
        let rest = self.xattrs.into_values().chain(self.inline.into_values());
        out.records.extend(rest.map(Record::plain));
    }
}

#[cfg(test)]
mod tests {
    use loligo_journal::encode_record;
    use loligo_types::{Inode, Interfere, Kind, Time};

    use super::*;

    const DIR: Ino = Ino(300);
    const OTHER: Ino = Ino(301);

    fn name(text: &str) -> Name {
        Name::new(text.as_bytes()).expect("a good name")
    }

    fn inode(ino: u64, parent: Ino) -> Event {
        let mut inode = Inode::new(Ino(ino), Kind::File, 0o644, 0, 0, parent, Time(1));
        inode.accounted = inode.own();
        Event::Inode(Box::new(inode))
    }

    fn entry(dir: Ino, text: &str, ino: u64) -> Event {
        Event::Entry { dir, name: name(text), ino: Ino(ino), kind: Kind::File, remote: false }
    }

    /// The rows of these events, in two parts. Numbers from 400 on are new; of `DIR` nothing is known.
    fn rows_of(first: &[Event], second: &[Event]) -> MergedRows {
        let body = |events: &[Event]| {
            let mut bytes = Vec::new();
            encode_record(&mut bytes, None, events);
            bytes.into()
        };
        let mut record =
            DecoupledRecord { dir: DIR, used: Ino(400), interfere: Interfere::Block, ..Default::default() };
        record.grant(Ino(390), 100);
        let (parts, dirs) = (vec![body(first), body(second)], BTreeSet::from([DIR]));
        MergeRows { parts, record: Box::new(record), dirs, key: (1, 2) }.rows()
    }

    fn events(rows: &MergedRows) -> Vec<Event> {
        rows.records.iter().map(|record| record.event.clone()).collect()
    }

    #[test]
    fn what_is_made_goes_into_the_table_under_the_hash_of_its_name_and_the_last_word_counts() {
        let value = |n: u8| Event::Inline { ino: Ino(400), data: [n][..].into() };
        let rows = rows_of(&[inode(400, DIR), entry(DIR, "a", 400), value(1)], &[value(2), entry(DIR, "a", 401)]);
        assert_eq!(events(&rows), [entry(DIR, "a", 401), inode(400, DIR), value(2)]);
        assert_eq!(rows.records[0].hash, hash63((1, 2), b"a"));
        assert_eq!((rows.rest, rows.made), (vec![], BTreeSet::from([Ino(400)])));
    }

    #[test]
    fn what_is_made_and_gone_is_nowhere_but_a_name_that_was_there_before_is_taken_out() {
        let xattr = Event::Xattr { ino: Ino(400), name: b"user.a"[..].into(), value: b"b"[..].into() };
        let gone = |text| Event::EntryGone { dir: DIR, name: name(text) };
        let rows = rows_of(
            &[inode(400, DIR), entry(DIR, "a", 400), xattr, inode(401, Ino(400)), entry(Ino(402), "x", 401)],
            &[gone("a"), Event::InodeGone(Ino(400)), Event::EntryGone { dir: Ino(402), name: name("x") }],
        );
        assert_eq!(events(&rows), [gone("a"), inode(401, Ino(400))]);
        assert_eq!(rows.made, BTreeSet::from([Ino(400), Ino(401)]));
    }

    #[test]
    fn what_memory_may_know_more_of_is_left_to_memory_in_its_order() {
        let left = [
            entry(OTHER, "b", 400),
            Event::InodeGone(Ino(310)),
            Event::EntryGone { dir: OTHER, name: name("c") },
            Event::InlineGone(Ino(311)),
        ];
        let drops = Event::Discard { ino: Ino(310), from: 0, object_size: 1 << 20 };
        let rows = rows_of(&[inode(310, DIR), left[0].clone(), drops], &left[1..]);
        assert_eq!(rows.rest, left);
        assert_eq!(rows.records, []);
        let mut counts = Inode::new(Ino(400), Kind::Dir, 0o755, 0, 0, DIR, Time(1));
        counts.size = 7;
        assert!(is_unsettled(&counts));
        let counts = Event::Inode(Box::new(counts));
        assert_eq!(rows_of(&[inode(400, DIR)], std::slice::from_ref(&counts)).rest, [counts]);
    }
}
