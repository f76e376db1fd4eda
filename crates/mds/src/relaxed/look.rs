//! The search of the table for directories with policies: at the start, and when directories came from another rank. Not here: what the policies
//! say there.

use std::collections::BTreeSet;
use std::sync::Arc;

use loligo_namespace::Need;
use loligo_types::{Ino, Lsn};

use super::Relaxed;
use crate::cluster::Cluster;
use crate::core::Core;
use crate::io::{Output, Page, Scan};
use crate::load::Waiter;
use crate::modes::Says;
use crate::paths::Up;
use crate::session::Sessions;

/// Tickets of the look for policies begin here: those of other looks are smaller, or much larger.
pub(crate) const TICKETS: u64 = 1 << 62;
/// Time for a page of the table before it is asked for again, milliseconds.
const PAGE_MS: u64 = 10_000;
/// Records read at once.
const READS_MAX: usize = 256;

/// The look at the table for directories with policies, at the start.
pub(super) struct Look {
    ticket: u64,
    asked_ms: u64,
    /// Where it goes on; `None`: all were found.
    next: Option<Ino>,
    /// Found, and their policies are not read yet.
    pub(super) unread: BTreeSet<Ino>,
    /// All that were found, or whose policies were set since it began.
    pub(super) found: BTreeSet<Ino>,
    /// It has ended, and those that it did not find are forgotten.
    pub(super) is_whole: bool,
    /// Policies may have come that no record shows: it begins when the table has all up to this one.
    after: Lsn,
}

impl Default for Look {
    fn default() -> Look {
        Look {
            ticket: 0,
            asked_ms: 0,
            next: Some(Ino(0)),
            unread: BTreeSet::new(),
            found: BTreeSet::new(),
            is_whole: false,
            after: Lsn(0),
        }
    }
}

impl Look {
    pub(super) fn is_done(&self) -> bool {
        self.next.is_none() && self.unread.is_empty()
    }
}

impl Relaxed {
    /// Has the policies in force found anew.
    #[cfg(test)]
    pub(crate) fn forget_places(&mut self) {
        self.memo.clear();
    }

    /// A tick: the policies that the table knows are looked for until all are known.
    pub(crate) fn look_for_relaxed(&mut self, core: &mut Core, sessions: &Sessions, cluster: &mut Cluster) {
        if self.brought.0 > 0 {
            let (ticket, after) = (self.look.ticket, std::mem::take(&mut self.brought));
            self.look = Look { ticket, after, ..Look::default() };
        }
        if self.look.is_done() || !cluster.peers.ready {
            return;
        }
        let (now, after) = (core.now.mono_ms, self.look.after);
        if after.0 > 0 && core.needed_from(sessions, cluster) <= after {
            return;
        }
        let look = &mut self.look;
        if let Some(from) = look.next
            && (look.asked_ms == 0 || now >= look.asked_ms + PAGE_MS)
        {
            look.asked_ms = now.max(1);
            look.ticket = TICKETS.max(look.ticket) + 1;
            let ticket = look.ticket;
            core.out.push_back(Output::Scan { ticket, what: Scan::Policies, from });
        }
        self.read_policies(core, cluster);
    }

    /// A page of the table came, or it could not be read.
    pub(crate) fn relaxed_scanned(&mut self, core: &mut Core, cluster: &mut Cluster, ticket: u64, page: Option<Page>) {
        if self.look.ticket != ticket {
            return;
        }
        let Some(page) = page else {
            // With the next page's time it is asked for again.
            return;
        };
        for (ino, _) in page.found {
            if self.look.found.insert(ino) {
                self.look.unread.insert(ino);
            }
        }
        (self.look.next, self.look.asked_ms) = (page.next, 0);
        self.read_policies(core, cluster);
    }

    fn read_policies(&mut self, core: &mut Core, cluster: &mut Cluster) {
        let some: Vec<Ino> = self.look.unread.iter().take(READS_MAX).copied().collect();
        let mut needs = Vec::new();
        for dir in some {
            match cluster.policy_here(core, dir) {
                Ok(Some(text)) => {
                    self.look.unread.remove(&dir);
                    self.set(dir, Says::of(dir, &text));
                }
                Ok(None) => {
                    self.look.unread.remove(&dir);
                    self.unset(dir);
                }
                Err(more) => needs.extend(more),
            }
        }
        if !needs.is_empty() {
            cluster.load(core, needs, Waiter::Nobody);
        }
        if self.look.is_done() {
            if !std::mem::replace(&mut self.look.is_whole, true) {
                // A directory that was known before and was not found has gone to another rank, or was changed there.
                let found = std::mem::take(&mut self.look.found);
                let gone: Vec<Ino> = self.policies.keys().copied().filter(|ino| !found.contains(ino)).collect();
                gone.into_iter().for_each(|ino| self.unset(ino));
            }
            // Names may have been moved by records that are not durable, before it was known what is relaxed.
            self.edge = core.log.last;
        }
    }
}

impl Cluster {
    /// The policy of a directory, if it is this rank's and has one.
    fn policy_here(&mut self, core: &mut Core, dir: Ino) -> Result<Option<Arc<[u8]>>, Vec<Need>> {
        if !self.is_alone() {
            match self.up(core, dir) {
                Up::Elsewhere(_) => return Ok(None),
                Up::Load(needs) => return Err(needs),
                Up::To(..) | Up::Nowhere => {}
            }
        }
        core.own_policy(dir)
    }
}
