//! Reads of records of the table under way, and who waits for them. The same record is read once for all who wait for it.
//!
//! A read that was given out before a checkpoint was done may bring what that checkpoint replaced. Memory wins over
//! it only as long as memory remembers; so the end of a checkpoint, which lets memory forget, is held back until all
//! reads given out before it are in (see [`Loads::is_behind`]).

use std::collections::BTreeMap;

use loligo_namespace::{Loaded, Need};
use loligo_types::{Ino, Rank, SessionId};

use crate::peer::TxId;
use crate::session::Slot;

/// Waiter for a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiter {
    /// A request.
    Job(u64),
    /// The end of an orphan.
    Reap(Ino),
    /// A look at what a dead session left.
    EofCleanup(Ino),
    /// The propagation of recursive sums.
    Sums,
    /// A transaction of another rank.
    Loan(TxId),
    /// The letter of another rank at the head of its queue.
    Letter(Rank),
    /// The search for objects that no inode tells of.
    StrayObjects(Ino),
    /// The look at memory for a migration.
    Survey,
    /// Nobody in particular: the one who needs it looks again.
    Nobody,
    /// Nobody: names are read ahead of time.
    Ahead,
    /// A session that tells what it held before a restart.
    Reclaim(Slot, SessionId),
    /// Other ranks that ask for replicas.
    Replicas,
    /// Another rank that asks what an inode is in.
    Way(Rank, u64, Ino),
}

impl Waiter {
    /// True if a read for it counts as load ([`loligo_types::Hit::Fetch`]): one that a client's request or another rank's waits for.
    /// Reads for migrations, drains, sums and read-ahead do not count. A balancer that sees them would move directories because
    /// directories were moved.
    pub(crate) fn is_load(self) -> bool {
        match self {
            Waiter::Job(_) | Waiter::Loan(_) | Waiter::Way(..) | Waiter::Replicas => true,
            // Imports come as letters, too.
            Waiter::Letter(_)
            | Waiter::Reap(_)
            | Waiter::EofCleanup(_)
            | Waiter::StrayObjects(_)
            | Waiter::Sums
            | Waiter::Survey
            | Waiter::Nobody
            | Waiter::Ahead
            | Waiter::Reclaim(..) => false,
        }
    }
}

struct Ticket {
    needs: Vec<Need>,
    waiters: Vec<Waiter>,
    /// Where a directory goes on behind the range that is read with it, once that is known.
    behind: Option<(Ino, u64)>,
}

/// Reads under way.
#[derive(Default)]
pub(crate) struct Loads {
    last: u64,
    last_birth: u64,
    tickets: BTreeMap<u64, Ticket>,
    by_need: BTreeMap<Need, u64>,
    pub(crate) since_evict: usize,
}

/// Tickets from here on are for what another rank is asked: nothing is read for them, and so no checkpoint waits for them.
const BIRTHS: u64 = 1 << 63;

/// Reads after which the size of the cache is looked at again.
const LOADS_PER_EVICT: usize = 64;

impl Loads {
    /// The number of the newest read.
    pub(crate) fn newest(&self) -> u64 {
        self.last
    }

    /// True if reads up to this one are still under way.
    pub(crate) fn is_behind(&self, ticket: u64) -> bool {
        self.tickets.first_key_value().is_some_and(|(oldest, _)| *oldest <= ticket)
    }

    /// True if this need is being read.
    pub(crate) fn is_read(&self, need: &Need) -> bool {
        self.by_need.contains_key(need)
    }

    /// Notes where the directory of a read under way goes on behind its range.
    pub(crate) fn goes_on(&mut self, ticket: u64, dir: Ino, from_hash: u64) {
        if let Some(ticket) = self.tickets.get_mut(&ticket) {
            ticket.behind = Some((dir, from_hash));
        }
    }

    /// The range of a read that a request waits for, and where its directory goes on behind it, if that is known.
    pub(crate) fn awaited_range(&self, ticket: u64) -> Option<(Ino, u64, u64)> {
        let ticket = self.tickets.get(&ticket)?;
        let (dir, behind) = ticket.behind?;
        let range = |need: &Need| match need {
            Need::Range { dir: of, from_hash } if *of == dir => Some(*from_hash),
            _ => None,
        };
        let from_hash = ticket.needs.iter().find_map(range)?;
        ticket.waiters.iter().any(|waiter| matches!(waiter, Waiter::Job(_))).then_some((dir, from_hash, behind))
    }

    /// The read that this waits for.
    pub(crate) fn ticket_of(&self, need: &Need) -> Option<u64> {
        self.by_need.get(need).copied()
    }

    /// Number of reads under way.
    pub(crate) fn len(&self) -> usize {
        self.tickets.len()
    }

    /// A read has ended; who waits for it.
    pub(crate) fn end_ticket(&mut self, ticket: u64) -> Option<Vec<Waiter>> {
        let done = self.tickets.remove(&ticket)?;
        done.needs.iter().for_each(|need| _ = self.by_need.remove(need));
        Some(done.waiters)
    }

    /// True if so much was read that the size of the cache is to be looked at again; from then on it is counted anew.
    pub(crate) fn is_time_to_evict(&mut self) -> bool {
        let is_time = self.since_evict >= LOADS_PER_EVICT;
        if is_time {
            self.since_evict = 0;
        }
        is_time
    }

    /// Of some needs, the reads under way for them, and those that nothing is read for.
    pub(crate) fn part(&self, needs: Vec<Need>) -> (Vec<u64>, Vec<Need>) {
        let (mut joined, mut fresh) = (Vec::new(), Vec::new());
        for need in needs {
            match self.by_need.get(&need) {
                Some(ticket) if !joined.contains(ticket) => joined.push(*ticket),
                Some(_) => {}
                None => fresh.push(need),
            }
        }
        (joined, fresh)
    }

    /// Somebody more waits for a read; whether there is one.
    pub(crate) fn join(&mut self, ticket: u64, waiter: Waiter) -> bool {
        let Some(ticket) = self.tickets.get_mut(&ticket) else { return false };
        ticket.waiters.push(waiter);
        true
    }

    /// A need for which another rank is asked: nothing is read, and the end of the question ends it.
    pub(crate) fn await_birth(&mut self, need: Need, waiter: Waiter) {
        self.last_birth += 1;
        let ticket = BIRTHS + self.last_birth;
        self.by_need.insert(need.clone(), ticket);
        self.tickets.insert(ticket, Ticket { needs: vec![need], waiters: vec![waiter], behind: None });
    }

    /// A new read; its number.
    pub(crate) fn begin(&mut self, needs: &[Need], waiter: Waiter) -> u64 {
        self.last += 1;
        let ticket = self.last;
        needs.iter().for_each(|need| _ = self.by_need.insert(need.clone(), ticket));
        self.tickets.insert(ticket, Ticket { needs: needs.to_vec(), waiters: vec![waiter], behind: None });
        ticket
    }
}

/// A directory that is cut into fragments.
pub(crate) fn cut_dir(item: &Loaded) -> Option<Ino> {
    match item {
        Loaded::Inode(ino, Some(inode)) if inode.frag_bits > 0 => Some(*ino),
        _ => None,
    }
}
