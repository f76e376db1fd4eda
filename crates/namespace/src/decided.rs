//! Decisions over ranks at a rank that lent for them: their records are of the time when they were lent, and the counts
//! of a directory may have grown since. No messages, no locks.

use std::collections::BTreeMap;

use loligo_types::{Event, Ino, Inode, Kind};

use crate::rstat::{add, minus};

/// Directories of which a decision over ranks holds two states: first as they were when they were lent.
pub fn lent_dirs(events: &[Event]) -> Vec<Ino> {
    let mut dirs: Vec<Ino> = events.iter().filter_map(|event| dir_of(event).map(|dir| dir.ino)).collect();
    dirs.sort();
    let twice = dirs.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    twice.collect()
}

/// The changes of a decision over ranks at the rank that lent: without what directories were when they were lent; instead,
/// they have what has been counted of them since. Of this rank's parts of directories only what is copied changes. `now`: a
/// directory as it is now, if there is one; `part`: this rank's part of it.
pub fn decided(
    events: &[Event],
    now: &mut dyn FnMut(Ino) -> Option<Inode>,
    part: &mut dyn FnMut(Ino) -> Option<Inode>,
) -> Vec<Event> {
    let twice = lent_dirs(events);
    let mut lent: BTreeMap<Ino, &Inode> = BTreeMap::new();
    let mut all = Vec::with_capacity(events.len());
    for event in events {
        let Event::Inode(inode) = event else {
            all.push(event.clone());
            continue;
        };
        let mut changed = inode.clone();
        if inode.part_of().is_some() {
            // It may have gone to another rank since.
            let Some(mut own) = part(inode.ino) else { continue };
            inode.copy_to_part(&mut own);
            *changed = own;
        } else if twice.binary_search(&inode.ino).is_ok() {
            match lent.get(&inode.ino) {
                None => {
                    lent.insert(inode.ino, inode);
                    continue;
                }
                Some(before) => {
                    if let Some(now) = now(inode.ino) {
                        add(&mut changed, minus(now.rstat(), before.rstat()));
                        changed.count_since(before, &now);
                    }
                }
            }
        }
        all.push(Event::Inode(changed));
    }
    all
}

fn dir_of(event: &Event) -> Option<&Inode> {
    match event {
        // What parts count is their rank's to say.
        Event::Inode(inode) if inode.kind == Kind::Dir && inode.part_of().is_none() => Some(inode),
        _ => None,
    }
}
