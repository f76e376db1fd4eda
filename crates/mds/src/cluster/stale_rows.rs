//! Inodes of which the table tells what cannot be so: whoever has one has moved it, or removed it, and has not written that
//! there yet. They are read again, once a tick, until the table tells something else. Nothing is locked meanwhile.

use loligo_namespace::Need;
use loligo_types::{Event, Ino};

use crate::cluster::Atlas;
use crate::core::Core;
use crate::load::Waiter;

/// Time that the table may be behind before an inode is believed to be gone, milliseconds.
const PATIENCE_MS: u64 = 10_000;
/// Time for which it is remembered when a row was found stale, milliseconds.
const KEEP_MS: u64 = 60_000;

impl Atlas {
    /// Notes a change that other ranks can only learn from the table, so that it is there soon: a file which has names has become
    /// one that lives by itself, a directory with a route of its own is gone, or a directory is balanced by something else.
    /// Before it is applied.
    pub(crate) fn note_for_others(&mut self, core: &Core, event: &Event) {
        let concerns_others = match event {
            Event::Inode(inode) if inode.place.rank() == Some(core.me()) && inode.nlink > 0 => {
                core.tree.peek(inode.ino).is_some_and(|known| known.place != inode.place)
            }
            Event::RouteGone(_) => true,
            event => crate::balance::is_rule(event),
        };
        self.told_by_table |= concerns_others;
    }

    /// A tick: reads again.
    pub(crate) fn step_riddles(&mut self, core: &mut Core) {
        let now = core.now.mono_ms;
        self.riddles.since.retain(|_, since| now < *since + KEEP_MS);
        for (need, waiter) in std::mem::take(&mut self.riddles.later) {
            // One read each: so many are waited for.
            self.read_now(core, vec![need], waiter);
        }
    }

    /// True if it is worth waiting until the table tells something else of an inode.
    pub(crate) fn is_riddle(&mut self, core: &Core, ino: Ino) -> bool {
        let now = core.now.mono_ms;
        let since = *self.riddles.since.entry(ino).or_insert(now);
        now < since + PATIENCE_MS
    }

    /// Takes reads out that are to wait for the next tick; how many that are.
    pub(crate) fn read_later(&mut self, needs: &mut Vec<Need>, waiter: Waiter) -> usize {
        let riddles = &mut self.riddles;
        if riddles.since.is_empty() {
            return 0;
        }
        let before = riddles.later.len();
        needs.retain(|need| {
            let later = matches!(need, Need::Inode(ino) if riddles.since.contains_key(ino));
            if later {
                riddles.later.push((need.clone(), waiter));
            }
            !later
        });
        riddles.later.len() - before
    }

    /// The table told of an inode what can be so.
    pub(crate) fn solved(&mut self, ino: Ino) {
        if !self.riddles.since.is_empty() {
            self.riddles.since.remove(&ino);
        }
    }
}
