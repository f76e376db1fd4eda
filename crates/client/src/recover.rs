//! When the connection, the server or the session is lost.
//!
//! A lost connection costs nothing: the session goes on over a new one, and what was not answered is sent again. A server
//! that restarted is told what was held. A lost session loses what was held under it: handles are stale, and data that
//! was not written is reported lost, once, by the next close or fsync.

use loligo_types::msg::{Reclaim, Refusal, ToServer};
use loligo_types::{FsError, Lease, Op};

use crate::machine::Client;
use crate::session::{Link, Then};
use crate::{Fh, Invalidation, Output};

impl Client {
    pub(crate) fn is_up(&self) -> bool {
        self.session.link == Link::Up
    }

    /// The connection is gone.
    pub(crate) fn disconnected(&mut self) {
        self.session.link = Link::Down;
        self.session.down_since.get_or_insert(self.now.ms);
        if !self.session.refused && !self.stopped {
            self.out.push_back(Output::Connect);
        }
    }

    pub(crate) fn refused(&mut self, why: Refusal, text: String) {
        if matches!(why, Refusal::TooMany | Refusal::Stopping) && self.session.fs_id.is_some() {
            // It was welcome before: this may be over soon.
            return self.disconnected();
        }
        self.session.link = Link::Down;
        self.session.refused = true;
        self.out.push_back(Output::Refused { why, text });
        self.give_up_calls();
    }

    /// The server has ended the session.
    pub(crate) fn evicted(&mut self) {
        self.session.id = None;
        self.session.link = Link::Down;
        self.session_lost();
        self.disconnected();
    }

    /// Everything held is void. Calls under way fail, but those that may simply be asked again.
    pub(crate) fn session_lost(&mut self) {
        self.drop_leases();
        self.recalls.clear();
        self.session.recalls_done.clear();
        self.session.data.clear();
        self.session.data_held = false;
        let pending = std::mem::take(&mut self.session.pending);
        self.session.next_seq = 1;
        self.session.unsent = 0;
        self.lose_files();
        let tasks = std::mem::take(&mut self.tasks);
        self.events.clear();
        for (_, task) in tasks {
            self.fail(task.waiter, FsError::Stale);
        }
        for (waiter, _) in std::mem::take(&mut self.blocked) {
            self.fail(waiter, FsError::Stale);
        }
        // Waiters that were tasks are gone with the others.
        self.events.clear();
        for (_, pending) in pending {
            let Then::Pass(pass) = pending.then else { continue };
            if is_repeatable(&pending.request.op) {
                let cred = pass.cred.clone();
                self.request(&cred, pending.request.op, Then::Pass(pass));
            } else {
                // Whether it was done is not known.
                self.fail(pass.waiter, FsError::Io);
            }
        }
    }

    fn lose_files(&mut self) {
        // Whether the server that knows nothing of the session was restarted, it does not say.
        self.unsynced.lose();
        let files = std::mem::take(&mut self.files.map);
        if files.values().any(|file| !file.is_clean()) {
            self.unsynced.fail(FsError::Io);
        }
        for opened in self.files.opened.values_mut().filter(|opened| !opened.dead) {
            opened.dead = true;
            if let Some(file) = files.get(&opened.ino) {
                opened.lost = opened.flags.write && (!file.is_clean() || opened.errors_seen != file.errors);
            }
        }
        for (ino, file) in &files {
            if file.may_cache() {
                self.invalidate(Invalidation::Data(*ino), false);
            }
        }
        self.files.handles.clear();
        self.files.closing.clear();
        self.files.close_cred = None;
        self.files.idle.clear();
        self.files.locks.clear();
        self.dirty.clear();
        self.blocks_of.clear();
        self.block_bytes = 0;
    }

    /// What a handle of a lost session says: first that data was lost, if it was, then that it is stale.
    pub(crate) fn dead_error(&mut self, fh: Fh) -> FsError {
        let lost = self.files.opened.get_mut(&fh).is_some_and(|opened| std::mem::take(&mut opened.lost));
        if lost { FsError::Io } else { FsError::Stale }
    }

    /// The server restarted: tells it what is held. `lost`: it may have forgotten data that was not synced.
    pub(crate) fn reclaim(&mut self, lost: bool) {
        // Recalls of the server before the restart are void; if it still wants something back it says so again.
        self.recalls.clear();
        self.session.recalls_done.clear();
        for file in self.files.map.values_mut() {
            file.recalls.clear();
        }
        let mut claim = Reclaim { leases: self.leases.all(), ..Reclaim::default() };
        for (number, handle) in &self.files.handles {
            let rights = self.files.map.get(&handle.ino).map_or(Lease::NONE, |file| file.rights);
            claim.opens.push((*number, handle.ino, handle.flags, rights));
        }
        for ((ino, _, _), locks) in &self.files.locks {
            claim.locks.extend(locks.iter().map(|(handle, lock)| (*ino, *handle, *lock)));
        }
        self.send(ToServer::Reclaim(claim));
        if lost {
            self.session.restarts += 1;
            self.rewrite_unstable();
        }
        let inos: Vec<_> = self.files.map.keys().copied().collect();
        for ino in inos {
            self.start_waiting(ino);
        }
    }

    /// So long without a connection: calls fail, whatever becomes of their requests.
    pub(crate) fn give_up_calls(&mut self) {
        self.session.gave_up = true;
        for id in std::mem::take(&mut self.calls) {
            self.out.push_back(Output::Complete { id, result: Err(FsError::Unavailable.into()) });
        }
    }

    /// The server may have given to others what this client holds: nothing is served from here until it is back.
    pub(crate) fn suspend(&mut self) {
        self.session.suspended = true;
        self.drop_leases();
        let cached: Vec<_> = self.files.map.iter().filter(|(_, f)| f.may_cache()).map(|(ino, _)| *ino).collect();
        for ino in cached {
            self.invalidate(Invalidation::Data(ino), false);
        }
        for file in self.files.map.values_mut() {
            file.current = false;
        }
    }
}

/// May be asked again in another session: it changes nothing and needs no handle.
fn is_repeatable(op: &Op) -> bool {
    matches!(
        op,
        Op::Lookup { .. }
            | Op::LookupParent { .. }
            | Op::GetAttr { .. }
            | Op::Readlink { .. }
            | Op::GetXattr { .. }
            | Op::ListXattr { .. }
            | Op::Access { .. }
            | Op::StatFs
    )
}
