//! Admission: checks of a request's name, of its time, and of the room for it. A request that came before is found by its session
//! (`window.rs`).

use loligo_types::{Adds, Control, Cred, Event, FsError, Op, SubtreeOp};

use crate::cluster::Cluster;
use crate::core::Core;
use crate::decouple::Decoupled;
use crate::grace::Grace;
use crate::io::Peer;
use crate::job::{Job, WaitReason};
use crate::session::Sessions;
use crate::step::Step;

/// True if the peer may act as this user.
pub(crate) fn may_claim(peer: &Peer, cred: &Cred) -> bool {
    let in_groups = || std::iter::once(&cred.gid).chain(&cred.groups).all(|gid| peer.groups.contains(gid));
    peer.trusted || (peer.uid == Some(cred.uid) && in_groups())
}

/// True if the operation is refused while the journal cannot be written. Of the requests of owners of decoupled subtrees, only those that
/// are new or bring much are refused: parts of a merge, which owners send again, and what is to be overwritten. The rest is small, and waits for its answer: to be refused
/// it would end what they have.
fn needs_journal(op: &Op) -> bool {
    let Op::Control(Control::Subtree { what, .. }) = op else { return true };
    matches!(**what, SubtreeOp::Part { .. } | SubtreeOp::Overwrite { .. } | SubtreeOp::Decouple { resume: 0, .. })
}

impl Core {
    /// True if a change makes the file system larger, and so is refused when the store has no room: something new, a name more, an xattr,
    /// longer contents. A change that leaves the size as it was is done: a program that replaces a file by another one must be able to.
    pub(crate) fn adds(&self, op: &Op, events: &[Event]) -> bool {
        let is_longer = |event: &Event| match event {
            Event::Inline { ino, data } => {
                let there = self.tree.inode(*ino).and_then(|inode| self.tree.inline(inode));
                there.is_none_or(|there| there.len() < data.len())
            }
            _ => false,
        };
        match op.props().adds {
            Adds::Nothing => false,
            Adds::Change => !events.is_empty(),
            // Of a file that is there only the contents may be cut.
            Adds::Entry => events.iter().any(|event| matches!(event, Event::Entry { .. })),
            Adds::Longer => events.iter().any(is_longer),
            Adds::Room => true,
        }
    }

    /// The first check of every request, each time it starts.
    #[inline]
    pub(crate) fn admission(
        &self,
        sessions: &Sessions,
        cluster: &Cluster,
        grace: &Option<Grace>,
        job: &Job,
    ) -> Option<Step> {
        if grace.is_some() {
            return Some(Step::Wait(WaitReason::Grace));
        }
        if self.stopping && job.repeats().is_none() {
            // An error would make the client give up what it holds back; unanswered, it asks the next life.
            return Some(Step::Wait(WaitReason::Stop));
        }
        if job.again.is_some() || !job.op.is_change() {
            return None;
        }
        if self.log.stuck && needs_journal(&job.op) {
            return Some(Step::Answer(Err(FsError::NoSpace)));
        }
        if !self.is_short_of_space(sessions, cluster) {
            return None;
        }
        if !self.log.full {
            return Some(Step::Wait(WaitReason::Space));
        }
        let reserve = self.log.limit / 4;
        let spare = job.op.props().frees && self.log.used < self.log.limit + reserve;
        if spare { None } else { Some(Step::Answer(Err(FsError::NoSpace))) }
    }

    /// True if changes must wait for checkpoints: the journal is too long, or memory is full of records that only the
    /// journal holds.
    ///
    /// The newest segment of a journal that nothing needs any more stays until the next record begins another, and a single
    /// record, as of a subtree that came, may make it longer than the limit. A request that waited then would wait for that
    /// record.
    #[inline]
    pub(crate) fn is_short_of_space(&self, sessions: &Sessions, cluster: &Cluster) -> bool {
        let long = self.log.limit > 0 && self.log.used >= self.log.limit;
        long && self.journal_is_needed(sessions, cluster) || self.is_overfull(self.config.cache_bytes_max / 8)
    }

    /// True if the cache is over its limit by more than this, and it has enough dirty records, which eviction cannot
    /// touch.
    #[inline]
    pub(crate) fn is_overfull(&self, over: usize) -> bool {
        self.tree.dirty_records() >= self.config.checkpoint_records
            && self.tree.memory_bytes() > self.config.cache_bytes_max.saturating_add(over)
    }

    /// The journal has no room, or has it again.
    pub(crate) fn journal_full(&mut self, full: bool) {
        if full && !self.log.stuck {
            self.log.stuck = true;
            // Those who wait learn that waiting does not help.
            self.parked.wake(&WaitReason::Space);
        }
        self.log.stuck = full;
    }

    /// Lets those go on that waited for room, if there is some.
    pub(crate) fn wake_if_room(&mut self, sessions: &Sessions, cluster: &Cluster) {
        if !self.is_short_of_space(sessions, cluster) {
            self.parked.wake(&WaitReason::Space);
        }
    }
}

impl Decoupled {
    /// The driver says how long the journal is.
    pub(crate) fn journal_space(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        cluster: &Cluster,
        used: u64,
        limit: u64,
    ) {
        (core.log.used, core.log.limit) = (used, limit);
        if limit > 0 && used >= limit {
            // Whoever sends parts and no end of them must not hold up all others.
            self.drop_intakes(core);
        }
        core.wake_if_room(sessions, cluster);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_untrusted_peer_is_itself_with_its_own_groups_only() {
        let peer = Peer { uid: Some(1000), groups: vec![1000, 50], trusted: false, local: false, identity: None };
        let claim = |uid, gid, groups: &[u32]| may_claim(&peer, &Cred { uid, gid, groups: groups.to_vec() });
        assert!(claim(1000, 1000, &[50]));
        assert!(claim(1000, 50, &[]));
        assert!(!claim(1000, 0, &[]));
        assert!(!claim(1000, 1000, &[0]));
        assert!(!claim(0, 1000, &[]));
        let root = Peer { trusted: true, ..peer.clone() };
        assert!(may_claim(&root, &Cred::user(7, 7)));
    }
}
