//! Where inodes, leases and handles are believed to be: what is noted of it when they move from rank to rank, or may have moved.
//! Not here: what is asked because of that (`moves`).

use loligo_types::{Answer, Control, Ino, Lease, Op, Rank, Shows};

use crate::core::Core;
use crate::file::Files;
use crate::own::{OWN, Own};
use crate::ranks::Ranks;
use crate::recall::Recalls;
use crate::route::{Found, Subject};
use crate::session::{Link, Pending};

/// Requests that wait before they are sent on.
#[derive(Debug)]
pub(crate) struct Paused {
    /// When, milliseconds.
    pub due: u64,
    pub rank: Rank,
    pub pending: Pending,
}

impl Ranks {
    /// True if there is only one rank, and no session with another one.
    pub(crate) fn is_single(&self) -> bool {
        self.router.is_single()
            && self.sessions.len() <= 1
            && self.sessions.keys().next().is_none_or(|rank| self.router.may_be(*rank))
    }

    /// The rank that is asked everything, if there is only one.
    pub(crate) fn only(&self) -> Rank {
        self.sessions.keys().next().copied().unwrap_or_else(|| self.router.some_rank(self.home))
    }

    /// The rank to ask.
    pub(crate) fn route(&self, files: &Files, own: &Own, op: &Op) -> Rank {
        if own.root_for(op).is_some() {
            return OWN;
        }
        if self.is_single() {
            return self.only();
        }
        if let Op::Control(Control::Close { handles, .. }) = op {
            return handles
                .first()
                .and_then(|handle| files.at.get(handle))
                .copied()
                .unwrap_or(self.router.some_rank(self.home));
        }
        let subject = self.router.subject(op);
        if let Subject::Inode(ino) = subject
            && let Some(file) = files.map.get(&ino)
        {
            return file.rank;
        }
        self.router.target(subject, self.home)
    }

    /// The rank, or who is asked instead if it is no more: it may have been removed during a pause.
    pub(crate) fn instead_of(&self, files: &Files, own: &Own, rank: Rank, op: &Op) -> Rank {
        if self.router.may_be(rank) {
            return rank;
        }
        let other = self.route(files, own, op);
        if self.router.may_be(other) { other } else { self.router.some_rank(self.home) }
    }

    /// Remembers who answered for what.
    pub(crate) fn notice(&mut self, files: &mut Files, rank: Rank, op: &Op, answer: &Answer) {
        let [subject, _] = op.subjects();
        match (op.props().shows, answer) {
            (_, Answer::Remote { .. }) => {}
            // Of what is at the end, not of where the way begins.
            (Shows::AtEnd, Answer::Entry(attr)) => self.see(files, attr.ino, rank),
            (_, Answer::Walked { dir, last, .. }) => {
                // Of the names the first was asked for, and no other is known by its hash.
                if let Answer::Entry(attr) = &**last {
                    self.router.see_child(attr.ino, *dir, None, rank);
                }
            }
            (Shows::AtEnd, Answer::Opened { attr, .. }) => self.see(files, attr.ino, rank),
            (Shows::AtEnd, _) => {}
            (Shows::Child, Answer::Entry(attr) | Answer::Opened { attr, .. }) => {
                let Some(dir) = subject.ino() else { return };
                if !self.router.is_parted(dir) {
                    self.router.see(dir, rank);
                }
                let hash = self.router.subject(op).hash();
                self.router.see_child(attr.ino, dir, hash, rank);
            }
            (Shows::Parent, Answer::Entry(attr)) => {
                self.router.see(attr.ino, rank);
                if let Some(dir) = subject.ino() {
                    self.router.see_child(dir, attr.ino, None, rank);
                }
            }
            (Shows::Entries, Answer::Entries { entries, .. }) => {
                let Some(dir) = subject.ino() else { return };
                for entry in entries.iter().filter(|entry| entry.attr.is_some()) {
                    self.router.see_child(entry.ino, dir, Some(entry.cookie), rank);
                }
            }
            (_, Answer::Opened { attr, .. }) => self.see(files, attr.ino, rank),
            _ => match self.router.subject(op) {
                Subject::Names(dir, _) if self.router.is_parted(dir) => {}
                Subject::Names(ino, _) | Subject::Inode(ino) => self.see(files, ino, rank),
                Subject::Root | Subject::Handles => {}
            },
        }
    }

    /// A rank answered for an inode: it has that, with what is open of it.
    pub(crate) fn see(&mut self, files: &mut Files, ino: Ino, rank: Rank) {
        self.router.see(ino, rank);
        if files.map.get(&ino).is_some_and(|file| file.rank == rank) {
            files.is_known(ino);
        }
    }

    /// True if a rank may have restarted since an inode moved to it, of which this client hears only now: the rank was told of the state
    /// here without leases, and does not know of them.
    pub(crate) fn may_have_forgotten(&self, core: &Core, rank: Rank, frozen_ms: u32) -> bool {
        let Some(session) = self.session(rank) else { return false };
        // The message was sent while the session lives.
        let since = core.now.ms.saturating_sub(u64::from(frozen_ms) + session.session_ms);
        session.reclaimed_ms.is_some_and(|at| at >= since)
    }

    /// True if a migration from a rank may have been missed.
    pub(crate) fn may_have_missed(&self, rank: Rank) -> bool {
        self.session(rank).is_none_or(|session| session.link != Link::Up || session.missed)
    }

    /// Leases of which it may have been missed that they moved are believed to be where the subtree map says. Names are given up: they may
    /// have been those of a fragment, which its rank has asked back before that moved, and the rank that has it now lends none.
    pub(crate) fn follow_leases(&mut self, core: &mut Core, files: &mut Files, recalls: &mut Recalls) {
        let mut moved = Vec::new();
        for (from, session) in self.sessions.iter().filter(|(rank, _)| self.may_have_missed(**rank)) {
            for (ino, bits) in session.leases.all() {
                match self.router.find(ino, None) {
                    Found::Known(to) if to != *from => moved.push((*from, to, ino, bits)),
                    _ => {}
                }
            }
        }
        for (from, to, ino, bits) in moved {
            let follows = if self.router.may_be(to) { Lease::ATTR } else { Lease::NONE };
            let lent = self.sessions.get_mut(&from).map(|session| session.leases.take(ino, bits.without(follows)));
            recalls.give_up_lease(core, files, from, ino, lent.unwrap_or_default());
            if !follows.is_none() {
                // Also if nothing of it is held here any more, which that rank does not know.
                self.open_session(core, to);
            }
            self.move_lease(core, files, recalls, (from, to), ino, bits & follows);
        }
    }

    pub(crate) fn move_lease(
        &mut self,
        core: &mut Core,
        files: &mut Files,
        recalls: &mut Recalls,
        (from, to): (Rank, Rank),
        ino: Ino,
        bits: Lease,
    ) {
        let Some(session) = self.sessions.get_mut(&from) else { return };
        let taken = session.leases.take(ino, bits);
        if taken.is_none() {
            return;
        }
        let session = self.open_session(core, to);
        if session.suspended {
            return recalls.give_up_lease(core, files, to, ino, taken);
        }
        session.leases.adopt(ino, taken, session.next_seq);
    }
}

impl Files {
    /// True if a request writes or locks through a handle that was lost since it was sent. Its caller was told of the loss and does not
    /// expect a write any more, which would overwrite later writes of others. A lock granted after that would never be released.
    pub(crate) fn rests_on_what_was_lost(&self, op: &Op) -> bool {
        let props = op.props();
        props.rests_on_handle && props.handle.is_some_and(|handle| !self.at.contains_key(&handle))
    }

    /// Notes that an inode which may have been at a rank has moved on.
    pub(crate) fn moved_guess(&mut self, from: Rank, ino: Ino, to: Rank) {
        for (number, _) in self.handles.iter().filter(|(_, handle)| handle.ino == ino) {
            if self.guessed.remove(&(*number, from)) && self.at.get(number) != Some(&to) {
                self.guessed.insert((*number, to));
            }
        }
    }

    /// The same for an open directory. If its fragments are at several ranks, it stays where it was opened, unless just that rank says that
    /// it has gone from there.
    pub(crate) fn move_dir(&mut self, core: &mut Core, ranks: &mut Ranks, ino: Ino, from: Option<Rank>, to: Rank) {
        let parted = ranks.router.is_parted(ino);
        let at = |number: &u64| from.is_some() && self.at.get(number).copied() == from;
        let handles = self.handles.iter().filter(|(_, handle)| handle.dir && handle.ino == ino);
        let numbers: Vec<u64> = handles.map(|(number, _)| *number).filter(|number| !parted || at(number)).collect();
        for number in &numbers {
            self.at.insert(*number, to);
        }
        if !numbers.is_empty() {
            ranks.open_session(core, to);
        }
    }
}
