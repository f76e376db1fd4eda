//! Lines of the subtree map that name a rank which was removed. A rank that goes has handed everything on, and who got it says so with a later line. So
//! such a line is of a directory that was removed, of which its last rank told nobody; or the later line is still under way.
//!
//! What counts is the table: all that the rank ever had, or gave away, was there before it went. Who believed such a line would wait for a rank that
//! does not come, or ask another one of the same number, which knows nothing. Not here: lines that name ranks which are there (`link.rs`, doubts). They are
//! forgotten in `stages/upkeep.rs`.

use loligo_types::Route;

use crate::cluster::Atlas;

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
