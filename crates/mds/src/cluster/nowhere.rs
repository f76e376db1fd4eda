//! Lines of the subtree map that name a rank which was removed. A rank that goes has handed everything on, and who got it says so with a later line. So
//! such a line is of a directory that was removed, of which its last rank told nobody; or the later line is still under way.
//!
//! What counts is the table: all that the rank ever had, or gave away, was there before it went. Who believed such a line would wait for a rank that
//! does not come, or ask another one of the same number, which knows nothing. Not here: lines that name ranks which are there (`link.rs`, doubts).

use std::collections::BTreeSet;

use loligo_namespace::Need;
use loligo_types::{Event, Ino, Route};

use crate::cluster::Atlas;
use crate::load::Waiter;
use crate::machine::Mds;
use crate::park::WaitReason;

impl Mds {
    /// This rank has nothing any more: lines by which something is still its own are of directories that are gone, and the next rank with its number
    /// would take them for true.
    pub(super) fn drop_own_lines(&mut self) {
        let own = self
            .cluster
            .atlas
            .routes
            .all()
            .into_iter()
            .filter(|line| line.rank == self.core.me() && self.core.tree.has_lines(line.dir));
        let dirs: BTreeSet<Ino> = own.map(|line| line.dir).collect();
        let events: Vec<Event> = dirs.into_iter().map(Event::RouteGone).collect();
        if !events.is_empty() {
            self.commit(None, &events);
        }
    }

    /// Forgets lines that lead nowhere of directories that are gone. Also when a rank of that number has come again: it is another one.
    pub(crate) fn forget_nowhere(&mut self) {
        if self.cluster.atlas.nowhere.is_empty() || !self.cluster.peers.ready {
            return;
        }
        let (mut wants, mut forgotten) = (Vec::new(), false);
        for (key, (line, mut read_before)) in std::mem::take(&mut self.cluster.atlas.nowhere) {
            let dir = line.dir;
            if !self.cluster.atlas.routes.has(&line) {
                continue;
            }
            match self.cluster.atlas.exists(&self.core, dir) {
                // A later line comes.
                Some(true) => read_before = false,
                None => wants.push(Need::Inode(dir)),
                Some(false) if read_before => {
                    self.cluster.atlas.routes.forget(dir);
                    if self.core.tree.has_lines(dir) && self.core.tree.part(dir).is_none() {
                        self.commit(None, &[Event::RouteGone(dir)]);
                    }
                    forgotten = true;
                    continue;
                }
                Some(false) => {
                    // The read may have begun before the rank was gone: once more.
                    self.cluster.atlas.foreign_inodes.forget(dir);
                    read_before = true;
                }
            }
            self.cluster.atlas.nowhere.insert(key, (line, read_before));
        }
        if !wants.is_empty() {
            self.cluster.load(&mut self.core, wants, Waiter::Nobody);
        }
        if forgotten {
            self.core.parked.wake(&WaitReason::Peers);
        }
    }
}

impl Atlas {
    /// A rank was removed, or this one begins: all lines that lead nowhere are to be looked at.
    pub(super) fn doubt_nowhere(&mut self) {
        self.routes.nowhere().into_iter().for_each(|line| self.doubt_line(line));
    }

    /// A line came that names a rank: if that was removed it leads nowhere. (One that is not known yet may be new.)
    pub(super) fn doubt_if_removed(&mut self, line: Route) {
        if self.removed.contains(&line.rank) {
            self.doubt_line(line);
        }
    }

    fn doubt_line(&mut self, line: Route) {
        // What was read of it before was read too early.
        self.foreign_inodes.forget(line.dir);
        self.nowhere.insert((line.dir, line.frag), (line, false));
    }
}
