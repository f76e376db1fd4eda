//! Files, handles and answers that are lost with a session or with a rank's memory, and what a rank that has restarted is told to
//! be held. Not here: what is asked or answered because of that (`recover`).

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::msg::Reclaim;
use loligo_types::{Control, Cred, FsError, Ino, Lease, Lsn, Op, Rank};

use crate::Invalidation;
use crate::calls::Calls;
use crate::core::Core;
use crate::direct::{Direct, Told};
use crate::file::{File, Files};
use crate::numbers::Numbers;
use crate::ranks::Ranks;
use crate::recall::Recalls;
use crate::route::NOWHERE;
use crate::session::{DataThen, Pending, PendingData, Then, task_of};
use crate::volatile::LOST_MAX;

/// Files and handles that were at a rank.
pub(crate) struct Lost {
    pub files: BTreeSet<Ino>,
    /// Tasks that waited for data to be written.
    pub waiting: Vec<u64>,
    pub handles: Vec<u64>,
    /// A user who had one of them open.
    pub cred: Option<Cred>,
}

/// Requests that were asked in a session that is lost.
pub(crate) struct Asked {
    pub pending: BTreeMap<u64, Pending>,
    /// Data requests of files that are elsewhere by now.
    pub elsewhere: BTreeMap<u64, PendingData>,
    /// Tasks that wait for what was asked.
    pub tasks: BTreeSet<u64>,
}

impl Files {
    /// Forgets the files and handles at a rank.
    pub(crate) fn lose(&mut self, core: &mut Core, direct: &mut Direct, recalls: &mut Recalls, rank: Rank) -> Lost {
        // A server that does not know the session does not say whether it was restarted.
        self.unsynced.lose();
        let (files, left) =
            std::mem::take(&mut self.map).into_iter().partition::<BTreeMap<_, _>, _>(|(_, f)| f.rank == rank);
        self.map = left;
        direct.lose(|ino| files.contains_key(ino));
        if files.values().any(|file| !file.is_clean()) {
            self.unsynced.fail(FsError::Io);
        }
        let at = &self.at;
        let here = |handle: &u64| at.get(handle) == Some(&rank);
        for opened in self.opened.values_mut().filter(|opened| !opened.dead && here(&opened.handle)) {
            opened.dead = true;
            if let Some(file) = files.get(&opened.ino) {
                opened.lost = opened.flags.write && (!file.is_clean() || opened.errors_seen != file.errors);
            }
        }
        let cred = self.handles.iter().find(|(handle, _)| here(handle)).map(|(_, lost)| Cred::clone(&lost.cred));
        let cred = cred.or_else(|| self.close_cred.as_deref().cloned());
        let gone: Vec<u64> = at.iter().filter(|(_, at)| **at == rank).map(|(handle, _)| *handle).collect();
        self.handles.retain(|handle, _| !here(handle));
        self.closing.retain(|handle| !here(handle));
        self.at.retain(|_, at| *at != rank);
        self.guessed.retain(|(handle, _)| self.at.contains_key(handle));
        if self.closing.is_empty() {
            self.close_cred = None;
        }
        let handles = &self.handles;
        self.idle.retain(|handle| handles.contains_key(handle));
        self.locks.retain(|(ino, _, _), _| !files.contains_key(ino));
        for (ino, file) in &files {
            // Also of ranks from which it had moved: one that is never answered would end its session.
            recalls.file_gone(*ino, &file.recalls);
            if file.may_cache() {
                core.invalidate(Invalidation::Data(*ino), false);
            }
            self.dirty.remove(ino);
            self.blocks_of.remove(ino);
            self.block_bytes = self.block_bytes.saturating_sub(file.blocks.bytes());
        }
        let waiting = files.values().flat_map(File::flush_waiting).collect();
        Lost { files: files.into_keys().collect(), waiting, handles: gone, cred }
    }

    /// Moves to nowhere what is open of these inodes at a rank. Whether anything was.
    pub(crate) fn lose_inodes(&mut self, rank: Rank, lost: &BTreeSet<Ino>) -> bool {
        let mut ends = false;
        let of_it: Vec<u64> =
            self.handles.iter().filter(|(_, handle)| lost.contains(&handle.ino)).map(|(number, _)| *number).collect();
        for number in of_it {
            if self.at.get(&number) == Some(&rank) {
                self.at.insert(number, NOWHERE);
                ends = true;
            }
        }
        for ino in lost {
            if let Some(file) = self.map.get_mut(ino).filter(|file| file.rank == rank) {
                file.rank = NOWHERE;
                ends = true;
            }
        }
        ends
    }

    /// The claim by which a restarted rank is told what is held of it. `leases`: those that are claimed.
    pub(crate) fn claim(&self, ranks: &Ranks, recalls: &Recalls, rank: Rank, leases: Vec<(Ino, Lease)>) -> Reclaim {
        let mut claim = Reclaim { leases, ..Reclaim::default() };
        // Entries that caches above have not dropped yet are in use: others must not change them before they have. If the rank wants it
        // back after that, it is answered at once.
        let dropping = recalls.dropping().filter(|(of, ino, _)| *of == rank || ranks.router.may_have(rank, *ino));
        claim.leases.extend(dropping.map(|(_, ino, bits)| (ino, bits)));
        claim.leases.sort_unstable();
        claim.leases.dedup();
        // Files that are known to be elsewhere, too: what that rank says of their move may be under way.
        let files = self;
        let may_be = |number: &u64, ino: Ino| match files.at.get(number) {
            // This client's own affair: no rank knows of the handle.
            Some(&crate::own::OWN) => false,
            at => {
                at == Some(&rank)
                    || files.guessed.contains(&(*number, rank))
                    || !ranks.router.is_single() && (ranks.router.may_have(rank, ino) || files.map.contains_key(&ino))
            }
        };
        for (number, handle) in files.handles.iter().filter(|(number, handle)| may_be(number, handle.ino)) {
            let rights = files.map.get(&handle.ino).map_or(Lease::NONE, |file| file.rights);
            claim.opens.push((*number, handle.ino, handle.flags, rights));
        }
        for ((ino, _, _), locks) in &files.locks {
            let held = locks.iter().filter(|(handle, _)| may_be(handle, *ino));
            claim.locks.extend(held.map(|(handle, lock)| (*ino, *handle, *lock)));
        }
        claim
    }
}

impl Ranks {
    /// The session with a rank is lost: what was asked in it begins anew, or not. `None`: there was none.
    pub(crate) fn end_session(&mut self, files: &Files, direct: &Direct, rank: Rank) -> Option<Asked> {
        let session = self.sessions.get_mut(&rank)?;
        session.recalls_done.clear();
        session.numbers = Numbers::default();
        session.direct = Told::default();
        let (data, elsewhere) =
            std::mem::take(&mut session.data).into_iter().partition::<BTreeMap<_, _>, _>(|(_, pending)| {
                files.map.get(&pending.request.ino).is_none_or(|file| file.rank == rank)
            });
        session.data_held = None;
        let pending = std::mem::take(&mut session.pending);
        self.first_seq = self.first_seq.max(session.next_seq);
        session.next_seq = self.first_seq;
        session.unsent = 0;
        let mut lost: BTreeSet<u64> = pending.values().filter_map(|pending| task_of(&pending.then)).collect();
        lost.extend(data.values().filter_map(|pending| match pending.then {
            DataThen::Task(task) | DataThen::Read { task, .. } => Some(task),
            DataThen::Flush(_) | DataThen::Block { .. } | DataThen::Own(_) | DataThen::OwnTask(_) => None,
        }));
        let at = |ino: &Ino| files.map.get(ino).is_none_or(|file| file.rank == rank);
        lost.extend(direct.tasks().filter(|(ino, _)| at(ino)).map(|(_, task)| task));
        Some(Asked { pending, elsewhere, tasks: lost })
    }

    /// Leases that a restarted rank may have lent: those of all ranks on what it may have.
    pub(crate) fn leases_claimed(&self, rank: Rank) -> Vec<(Ino, Lease)> {
        let leases = self.sessions.iter().flat_map(|(of, session)| {
            let all = session.leases.all().into_iter();
            all.filter(|(ino, _)| *of == rank || self.router.may_have(rank, *ino))
        });
        leases.collect()
    }

    /// A rank says hello. Inodes of which something is lost, and those of them of which that is told at once.
    pub(crate) fn lose_ahead(
        &mut self,
        calls: &Calls,
        files: &Files,
        rank: Rank,
        recovered: Lsn,
        epochs: (u64, u64),
    ) -> Option<(BTreeSet<Ino>, BTreeSet<Ino>)> {
        let session = self.sessions.get_mut(&rank).filter(|_| epochs.0 != epochs.1 || epochs.1 == 0)?;
        // A crash, and no other one before it since: this says where the journal ended.
        let is_next = epochs.1 == epochs.0.wrapping_add(1) && recovered.0 > 0;
        let lost = session.ahead.lose(is_next.then_some(recovered));
        // A sync that waited over the crash fails: changes of others to the same file may be lost.
        let waiting = session.pending.values().filter_map(|pending| match (&pending.request.op, &pending.then) {
            (Op::Control(Control::Persist), Then::Task(id)) => calls.tasks.get(id).map(|task| task.ino),
            _ => None,
        });
        let waiting: Vec<Ino> = waiting.filter(|ino| session.ahead.seen.contains(ino) && !lost.contains(ino)).collect();
        session.ahead.lost.extend(waiting);
        if lost.is_empty() {
            return None;
        }
        let at_once: BTreeSet<Ino> = lost
            .iter()
            .copied()
            .filter(|ino| files.opened.values().any(|opened| opened.ino == *ino && opened.flags.write))
            .collect();
        session.ahead.lost.extend(lost.difference(&at_once));
        while session.ahead.lost.len() > LOST_MAX {
            session.ahead.lost.pop_first();
        }
        Some((lost, at_once))
    }
}
