//! Where the files of a loaded namespace live. A dump does not say: it is with a name in the directory that counts them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use loligo_driver::Offline;
use loligo_journal::table::{KeyRange, Row, dir_range, key_inode, prefix_range};
use loligo_types::{Event, Ino, Kind, Place, Target};

use crate::output::{Context, Failure, Outcome};
use crate::progress::{Bar, Unit};

/// Changes written at a time.
const BATCH: usize = 1000;

/// Gives each file, all of which float, the first of its names in its parent, and makes its other names remote.
/// `entries`: how many there are, for who waits.
pub fn settle(offline: &mut Offline, entries: u64) -> Outcome {
    let mut range = prefix_range(&dir_range(Ino(0)).start[..1]);
    let mut bar = Bar::start("placing", entries, Unit::Count);
    loop {
        let events = next_changes(offline, &mut range, &mut bar)?;
        if events.is_empty() {
            return Ok(());
        }
        offline.write(&events).context(|| "writing into the table".to_string())?;
    }
}

/// Changes that the next entries need; `range` then begins behind those entries. None: all is done.
fn next_changes(offline: &Offline, range: &mut KeyRange, bar: &mut Bar) -> Result<Vec<Event>, Failure> {
    let (mut events, mut placed, mut failed) = (Vec::new(), BTreeSet::new(), None);
    let mut last = range.start.clone();
    let visited = offline.rows_in(range, &mut |(key, row)| {
        bar.add(1);
        last = [key, &[0]].concat();
        let Ok(Row::Entry { dir, hash, name, target }) = row else { return ControlFlow::Continue(()) };
        let Target { ino, kind, .. } = target;
        if kind == Kind::Dir {
            return ControlFlow::Continue(());
        }
        match offline.get(&key_inode(ino)) {
            Ok(Some(Row::Inode(mut inode)))
                if inode.parent == dir && inode.place.hash().is_none() && placed.insert(ino) =>
            {
                inode.place = Place::embedded(hash);
                events.push(Event::Inode(inode));
            }
            Ok(_) => events.push(Event::Entry { dir, name, ino, kind, remote: true }),
            Err(error) => failed = Some(error),
        }
        if events.len() >= BATCH || failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let reading = || "reading the table".to_string();
    visited.context(reading)?;
    failed.map_or(Ok(()), Err).context(reading)?;
    range.start = last;
    Ok(events)
}
