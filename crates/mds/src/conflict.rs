//! Claims of a decided change (or answer): the leases and rights of others that it would make untrue, and that are
//! asked back first.
//!
//! The decision itself tells: each event names the record that changes. So nobody is asked for a request that fails.

use loligo_namespace::{Lookup, Tree};
use loligo_types::{Answer, Claims, Event, Ino, Kind, Lease, Name};

use crate::job::Job;
use crate::lease::Leases;
use crate::open::Opens;
use crate::recall::{DATA, SHARED};
use crate::session::Slot;

/// Bits that others must not hold.
pub(crate) type Claim = (Ino, Lease);

/// More are found by an index.
pub(crate) const CLAIMS_FEW: usize = 32;

fn is_same(tree: &Tree, dir: Ino, name: &Name, ino: Ino) -> bool {
    matches!(tree.entry(dir, name), Lookup::Present(target) if target.ino == ino)
}

/// The claim of an event. An inode whose change counter stays only brings sums up to date, which nobody caches.
pub(crate) fn claim_of(tree: &Tree, event: &Event, data: bool) -> Option<Claim> {
    match event {
        Event::Inode(inode) => {
            let before = tree.inode(inode.ino)?;
            if before.change == inode.change {
                return None;
            }
            let bits = if data && inode.kind == Kind::File { Lease::ATTR | DATA } else { Lease::ATTR | Lease::BUFFER };
            Some((inode.ino, bits))
        }
        Event::InodeGone(ino) => Some((*ino, Lease::ATTR | DATA)),
        // Put down anew, only because the inode does not live with it any more: nobody can tell.
        Event::Entry { dir, name, ino, .. } if is_same(tree, *dir, name, *ino) => None,
        Event::Entry { dir, .. } | Event::EntryGone { dir, .. } => Some((*dir, Lease::NAMES)),
        _ => None,
    }
}

impl Opens {
    /// The claim of an answer: opens take rights from others, and attributes must have what others hold back.
    pub(crate) fn claim_of_answer(&self, job: &Job, answer: &Answer) -> Option<Claim> {
        let props = job.op.props();
        match (props.claims, answer) {
            (Claims::Opened, Answer::Opened { attr, .. }) => {
                if attr.kind != Kind::File {
                    return None;
                }
                let (ino, slot) = (attr.ino, job.slot);
                let write = props.opens.is_some_and(|(_, flags)| flags.write);
                let writers = write || self.any_writer(ino);
                let mut bits = if writers { DATA } else { Lease::BUFFER };
                if write && !self.others_open(ino, slot) {
                    // Who may hold changes back must be the only one who knows the attributes.
                    bits = bits | Lease::ATTR;
                }
                Some((ino, bits))
            }
            (Claims::HeldBack, Answer::Entry(attr)) if attr.kind == Kind::File => {
                let hidden = job.walk.as_ref().is_some_and(|walk| walk.hides_next());
                (!hidden).then_some((attr.ino, Lease::FLUSH))
            }
            (Claims::Nothing | Claims::Opened | Claims::HeldBack, _) => None,
        }
    }

    pub(crate) fn holders_due(&self, leases: &Leases, job: &Job, claim: Claim) -> Vec<(Slot, Lease)> {
        let mut all_due: Vec<(Slot, Lease)> = Vec::new();
        let leases = leases.holders(claim.0).map(|(slot, held)| (slot, held & SHARED));
        for (slot, held) in leases.chain(self.others_rights(claim.0, job.slot)) {
            let bits = due(job, claim, slot, held);
            if bits.is_none() {
                continue;
            }
            match all_due.iter_mut().find(|(s, _)| *s == slot) {
                Some((_, all)) => *all = *all | bits,
                None => all_due.push((slot, bits)),
            }
        }
        all_due
    }

    #[inline]
    pub(crate) fn conflicts(&self, leases: &Leases, job: &Job, claim: Claim) -> bool {
        let (ino, bits) = claim;
        // Each look is a walk through cold memory, so only where the bits can be held.
        let leased =
            bits.any(SHARED) && leases.holders(ino).any(|(slot, held)| !due(job, claim, slot, held & SHARED).is_none());
        leased
            || bits.any(DATA | Lease::FLUSH)
                && self.others_rights(ino, job.slot).any(|(slot, held)| !due(job, claim, slot, held).is_none())
    }
}

/// The leases and rights that a holder must give up for a claim.
fn due(job: &Job, (ino, bits): Claim, holder: Slot, held: Lease) -> Lease {
    if holder == job.slot {
        return Lease::NONE;
    }
    let mut due = held & bits;
    if bits.has(Lease::FLUSH) && held.has(Lease::BUFFER) && !job.flushed.contains(&ino) {
        due = due | Lease::FLUSH;
    }
    if due.has(Lease::BUFFER) {
        // Under BUFFER attributes are cached without a lease.
        due = due | Lease::ATTR;
    }
    due
}
