//! The time after a restart in which the sessions of before tell what they held. Nobody else may act in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loligo_types::msg::Reclaim;
use loligo_types::{Ino, SessionId};

use crate::io::Identity;
use crate::open::HANDLES_MAX;
use crate::rights::Squash;
use crate::session::{Session, Sessions, Slot, Standing};

/// It goes on.
#[derive(Debug)]
pub(crate) struct Grace {
    /// At the latest until then.
    until_ms: u64,
    /// The same for clients of the network. One of this machine hears at once that the server is gone; one that is cut off does
    /// not, and relies on what was lent to it for as long as its session lives.
    cut_off_until_ms: u64,
    /// Reclaims of sessions, while the inodes in them are being read.
    told: BTreeMap<SessionId, Telling>,
}

/// Inodes that a session had open, each with whether it wrote.
pub(crate) type OpenInos = BTreeSet<(Ino, bool)>;

/// Reclaim of one session.
#[derive(Debug)]
struct Telling {
    held: Reclaim,
    /// Reads that it waits for.
    left: usize,
    /// Number of times that something was read for it.
    rounds: usize,
    /// A read has failed: it is tried again.
    has_failed: bool,
    /// Number of failed reads, in all.
    failures: u32,
    /// It came over a connection that may act for everybody, which may be gone before it is read.
    trusted: bool,
    /// Which users its identity does not act for.
    squash: Squash,
    /// The identity that told it, if its rights depend on where something is.
    limited: Option<Arc<Identity>>,
}

/// Reads for one reclaim that may fail: a table that cannot be read for so many ticks will not be, and what cannot be found is not given back.
const FAILED_MAX: u32 = 100;

impl Grace {
    pub(crate) fn until(until_ms: u64, cut_off_until_ms: u64) -> Grace {
        Grace { until_ms, cut_off_until_ms, told: BTreeMap::new() }
    }

    /// It goes on for so much longer, milliseconds.
    pub(crate) fn wait_longer(&mut self, ms: u64) {
        self.until_ms += ms;
        self.cut_off_until_ms += ms;
    }

    /// A session tells what it held. `peer`: it came over a connection that may act for everybody; which users it does not act for.
    pub(crate) fn begin(
        &mut self,
        id: SessionId,
        held: Reclaim,
        (trusted, squash): (bool, Squash),
        limited: Option<Arc<Identity>>,
    ) {
        let telling = Telling { held, left: 0, rounds: 0, has_failed: false, failures: 0, trusted, squash, limited };
        self.told.insert(id, telling);
    }

    /// One of the reads for a reclaim is done; whether all are, and none has failed.
    pub(crate) fn one_is_read(&mut self, id: SessionId) -> bool {
        let Some(told) = self.told.get_mut(&id) else { return false };
        told.left -= 1;
        told.left == 0 && !told.has_failed
    }

    /// One of the reads for a reclaim has failed.
    pub(crate) fn one_has_failed(&mut self, id: SessionId) {
        if let Some(told) = self.told.get_mut(&id)
            && told.failures < FAILED_MAX
        {
            if !told.has_failed {
                // What was not read in this round is wanted once more.
                told.rounds = told.rounds.saturating_sub(1);
            }
            (told.has_failed, told.failures) = (true, told.failures + 1);
        }
    }

    /// The reclaims for which something is to be read again.
    pub(crate) fn take_failed(&mut self) -> Vec<SessionId> {
        let failed = self.told.iter_mut().filter(|(_, told)| told.has_failed && told.left == 0);
        failed
            .map(|(id, told)| {
                told.has_failed = false;
                *id
            })
            .collect()
    }

    /// The inodes that a session had open, and how often something was read for it.
    pub(crate) fn open_inos(&self, id: SessionId) -> Option<(Vec<Ino>, usize)> {
        let told = self.told.get(&id)?;
        let mut inos: Vec<Ino> = told.held.opens.iter().take(HANDLES_MAX).map(|(_, ino, ..)| *ino).collect();
        inos.sort();
        inos.dedup();
        Some((inos, told.rounds))
    }

    /// So many reads are under way for a reclaim; whether it waits for them.
    pub(crate) fn is_read_for(&mut self, id: SessionId, count: usize) -> bool {
        match self.told.get_mut(&id) {
            Some(told) if count > 0 => {
                (told.left, told.rounds) = (count, told.rounds + 1);
                true
            }
            _ => false,
        }
    }

    /// The reclaims of sessions whose rights depend on where something is, as far as nothing is read for them.
    pub(crate) fn limited(&self) -> Vec<SessionId> {
        let waits = |told: &Telling| told.limited.is_some() && told.left == 0;
        self.told.iter().filter(|(_, told)| waits(told)).map(|(id, _)| *id).collect()
    }

    /// Takes a reclaim out: what was held, and who has told it.
    pub(crate) fn end(&mut self, id: SessionId) -> Option<(Reclaim, (bool, Squash))> {
        let told = self.told.remove(&id)?;
        Some((told.held, (told.trusted, told.squash)))
    }

    /// Until when it goes on for a session that has not come back.
    fn lasts(&self, session: &Session) -> u64 {
        if session.is_remote() { self.cut_off_until_ms } else { self.until_ms }
    }

    /// The identity of a session that tells what it held, if its rights depend on where something is; and its opens, each with whether
    /// it writes.
    pub(crate) fn opens_of(&self, id: SessionId) -> Option<(Option<Arc<Identity>>, OpenInos)> {
        let told = self.told.get(&id)?;
        let opens = told.held.opens.iter().take(HANDLES_MAX);
        Some((told.limited.clone(), opens.map(|(_, ino, flags, _)| (*ino, flags.write)).collect()))
    }

    /// So many reads are under way for a reclaim.
    pub(crate) fn waits_for(&mut self, id: SessionId, reads: usize) {
        if let Some(told) = self.told.get_mut(&id) {
            told.left = reads;
        }
    }
}

/// Time after the grace time for which orphans that nobody has open are kept: for requests sent again that made them.
pub(crate) const ORPHANS_KEPT_MS: u64 = 2000;

impl Sessions {
    /// Known sessions that have not come back all the way.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (Slot, &Session)> + '_ {
        self.iter().filter(|(_, session)| session.standing != Standing::Here && session.ending.is_none())
    }

    /// Until when the grace time lasts for those that have not come back; 0: there are none.
    pub(crate) fn grace_until(&self, grace: &Grace) -> u64 {
        self.missing().map(|(_, session)| grace.lasts(session)).max().unwrap_or(0)
    }
}
