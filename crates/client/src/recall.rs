//! Obeying recalls: names and attributes are dropped above; held-back data goes to the server first.
//!
//! A recall of data passes three points. Until what was written is at the server, everything goes on as before; then
//! caches above drop the data, and reads go on, but whoever keeps what they read is told to drop that, too; then no new
//! write begins until the rest is at the server and the right is given up. So a call that the kernel waits for while it
//! drops pages never needs anything that waits for this recall. Not here: what is written and sent for it (`flush`).

use std::collections::BTreeMap;

use loligo_types::msg::ToServer;
use loligo_types::{Ino, Lease, Op, Rank};

use crate::core::Core;
use crate::direct::Direct;
use crate::file::{File, Files};
use crate::ranks::Ranks;
use crate::{Invalidation, Token};

/// Recalls that were answered lately and may have to be answered again.
const ANSWERED_MAX: usize = 256;
/// The number of a recall that nobody sent: the client gives up by itself what it may not have any more. Ranks count from 1.
const UNASKED: u64 = 0;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Until this many writes are at the server.
    Flush(u64),
    Invalidate(Token),
    /// The same, and no new ones.
    Gate(u64),
}

/// The part of a recall that concerns data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DataRecall {
    /// The rank that recalls it.
    pub rank: Rank,
    pub id: u64,
    pub bits: Lease,
    pub phase: Phase,
}

impl DataRecall {
    pub(crate) fn is_gate(&self) -> bool {
        matches!(self.phase, Phase::Gate(_))
    }

    /// Nobody wants anything back: the rights are doubted.
    pub(crate) fn is_own(&self) -> bool {
        self.id == UNASKED
    }

    pub(crate) fn takes_rights(&self) -> bool {
        self.bits.any(Lease::CACHE | Lease::BUFFER)
    }

    /// Caches above were told to drop the data, or are being told: what they take up now nobody tells them to drop.
    pub(crate) fn has_invalidated(&self) -> bool {
        self.bits.has(Lease::CACHE) && !matches!(self.phase, Phase::Flush(_))
    }
}

/// Recalls under way.
#[derive(Debug, Default)]
pub(crate) struct Recalls {
    /// Number of open parts of each recall.
    pub open: BTreeMap<(Rank, Ino, u64), usize>,
    /// Invalidations that are waited for, and of what: NAMES, ATTR, or CACHE for data.
    pub tokens: BTreeMap<Token, (Rank, Ino, u64, Lease)>,
    /// Number of those that drop an inode's names and attributes.
    dropped: BTreeMap<Ino, usize>,
}

impl Recalls {
    /// The file of these recalls is closed or lost, which is the most that can be given up.
    pub(crate) fn file_gone(&mut self, ino: Ino, recalls: &[DataRecall]) {
        for recall in recalls {
            if let Some(left) = self.open.get_mut(&(recall.rank, ino, recall.id)) {
                *left = left.saturating_sub(1);
            }
        }
    }

    /// Names and attributes that caches above are just dropping, because a rank has wanted them back or the client has given
    /// them up by itself: by whom they were lent, and what. They are not held any more, but in use until that is done.
    pub(crate) fn dropping(&self) -> impl Iterator<Item = (Rank, Ino, Lease)> + '_ {
        let shared = self.tokens.values().filter(|(.., bits)| bits.any(Lease::NAMES | Lease::ATTR));
        shared.map(|(rank, ino, _, bits)| (*rank, *ino, *bits))
    }

    /// True if they are dropping something of an inode.
    pub(crate) fn drops(&self, ino: Ino) -> bool {
        self.dropped.contains_key(&ino)
    }

    /// Caches above are to drop names or attributes.
    pub(crate) fn begin(&mut self, token: Token, rank: Rank, ino: Ino, id: u64, bits: Lease) {
        self.tokens.insert(token, (rank, ino, id, bits));
        *self.dropped.entry(ino).or_default() += 1;
    }

    /// They have dropped something: for what, and what it was.
    pub(crate) fn end(&mut self, token: Token) -> Option<(Rank, Ino, u64, Lease)> {
        let ended = self.tokens.remove(&token)?;
        let (_, ino, _, bits) = ended;
        if !bits.has(Lease::CACHE)
            && let Some(left) = self.dropped.get_mut(&ino)
        {
            *left -= 1;
            if *left == 0 {
                self.dropped.remove(&ino);
            }
        }
        Some(ended)
    }

    /// A rank knows nothing of them any more. What the client gives up by itself it goes on with, and so do caches above with
    /// what they drop: whoever wants that back anew waits for it. Rights to data are given up only after it, so they are as
    /// before.
    pub(crate) fn clear(&mut self, rank: Rank) {
        self.open.retain(|(of, _, id), _| *of != rank || *id == UNASKED);
        self.tokens.retain(|_, (of, _, _, bits)| *of != rank || !bits.has(Lease::CACHE));
        for (_, _, id, _) in self.tokens.values_mut().filter(|(of, ..)| *of == rank) {
            *id = UNASKED;
        }
    }

    /// A rank wants something back, which is not under way: begins to give it up. In how many parts, and whether it is names that are not
    /// held.
    pub(crate) fn taken(
        &mut self,
        core: &mut Core,
        ranks: &mut Ranks,
        files: &mut Files,
        (rank, ino, id): (Rank, Ino, u64),
        bits: Lease,
    ) -> (usize, bool) {
        let wanted = bits & (Lease::ATTR | Lease::NAMES);
        let mut held = ranks.take_lent(rank, ino, wanted);
        if held != wanted && self.drops(ino) {
            // Given up already, but caches above may have it yet.
            held = wanted;
        }
        let mut parts = 0;
        if held.has(Lease::NAMES) {
            core.names_lost.add(ino);
            let token = core.invalidate(Invalidation::Names(ino), true);
            self.begin(token, rank, ino, id, Lease::NAMES);
            parts += 1;
        }
        if held.has(Lease::ATTR) {
            let token = core.invalidate(Invalidation::Attr(ino), true);
            self.begin(token, rank, ino, id, Lease::ATTR);
            parts += 1;
        }
        let data = bits & (Lease::CACHE | Lease::BUFFER | Lease::FLUSH);
        if let Some(file) = files.map.get_mut(&ino) {
            if held.has(Lease::ATTR) {
                file.current = false;
            }
            if !data.is_none() {
                file.recalls.push(DataRecall { rank, id, bits: data, phase: Phase::Flush(file.written) });
                parts += 1;
            }
        }
        (parts, wanted.has(Lease::NAMES) && !held.has(Lease::NAMES))
    }

    /// Begins to give up the rights to a file's data. Whether there are any.
    pub(crate) fn doubt(&mut self, core: &mut Core, files: &mut Files, ino: Ino) -> bool {
        let cached = files.is_cached_above(ino);
        let Some(file) = files.map.get_mut(&ino) else { return false };
        if !file.may_cache() {
            file.end_doubt();
            return false;
        }
        let (rank, bits) = (file.rank, Lease::CACHE | Lease::BUFFER);
        file.doubted = true;
        file.recalls.push(DataRecall { rank, id: UNASKED, bits, phase: Phase::Gate(file.written) });
        (file.base, file.current) = (None, false);
        files.change_blocks(ino, |file| file.blocks.clear());
        if cached {
            core.invalidate(Invalidation::Data(ino), false);
        }
        self.open.insert((rank, ino, UNASKED), 1);
        true
    }

    /// Recalls of which nothing is left to do.
    pub(crate) fn done(&self, direct: &Direct) -> Vec<(Rank, Ino, u64)> {
        let done = self.open.iter().filter(|((_, ino, _), left)| **left == 0 && !direct.is_left(*ino));
        done.map(|(key, _)| *key).collect()
    }

    /// They are answered.
    pub(crate) fn answer(&mut self, core: &mut Core, ranks: &mut Ranks, done: Vec<(Rank, Ino, u64)>) {
        for (rank, ino, id) in done {
            self.open.remove(&(rank, ino, id));
            if id == UNASKED {
                continue;
            }
            if ranks.is_up(rank) {
                ranks.send(core, rank, ToServer::RecallDone { ino, id });
            }
            let Some(session) = ranks.sessions.get_mut(&rank) else { continue };
            session.recalls_done.push_back((ino, id));
            if session.recalls_done.len() > ANSWERED_MAX {
                session.recalls_done.pop_front();
            }
        }
    }

    /// A rank is there again, and has said who has what; it may have been missed what had moved from it. It is not known that
    /// it still lends what the map does not say to be its own: whoever has that now may lose it, or end a session of which
    /// nothing is known here, and nobody would say so. So it is given up, and if somebody wants it back nevertheless he is
    /// answered when caches above have dropped it.
    pub(crate) fn give_up_unplaced(&mut self, core: &mut Core, ranks: &mut Ranks, files: &mut Files, rank: Rank) {
        if ranks.is_single() {
            return;
        }
        let Some(session) = ranks.session(rank) else { return };
        let mut unplaced = session.leases.all();
        unplaced.retain(|(ino, _)| !ranks.router.says(rank, *ino));
        for (ino, bits) in unplaced {
            _ = ranks.sessions.get_mut(&rank).map(|session| session.leases.take(ino, bits));
            self.give_up_lease(core, files, rank, ino, bits);
        }
    }

    /// Gives up a lease by itself. The rank does not know it: its recall is answered when caches above have dropped the inode.
    pub(crate) fn give_up_lease(&mut self, core: &mut Core, files: &mut Files, rank: Rank, ino: Ino, bits: Lease) {
        if bits.has(Lease::NAMES) {
            core.names_lost.add(ino);
            let token = core.invalidate(Invalidation::Names(ino), true);
            self.begin(token, rank, ino, UNASKED, Lease::NAMES);
        }
        if bits.has(Lease::ATTR) {
            let token = core.invalidate(Invalidation::Attr(ino), true);
            self.begin(token, rank, ino, UNASKED, Lease::ATTR);
            if let Some(file) = files.map.get_mut(&ino) {
                file.current = false;
            }
        }
    }

    /// The same of all that it has lent.
    pub(crate) fn give_up_leases(&mut self, core: &mut Core, ranks: &mut Ranks, files: &mut Files, rank: Rank) {
        let lent = ranks.sessions.get_mut(&rank).map(|session| session.leases.take_all());
        lent.into_iter().flatten().for_each(|(ino, bits)| self.give_up_lease(core, files, rank, ino, bits));
    }
}

impl Ranks {
    /// A rank has refused what does not fit into an inode: it leaves it to who has the right to hold back what is written to move
    /// the file to objects. This client may have given that right up without a word, when it was in doubt. Says so now; not if
    /// an open is under way, whose answer may bring the right.
    pub(crate) fn say_given_up(&mut self, core: &mut Core, files: &Files, ino: Ino) {
        // The inode that an open at the end of a path opens is known with its answer.
        let opens = |op: &Op| match op {
            Op::Open { ino: of, .. } => *of == ino,
            op => op.opens().is_some(),
        };
        let Some(file) = files.map.get(&ino) else { return };
        let (rank, bits) = (file.rank, (Lease::CACHE | Lease::BUFFER).without(file.rights));
        let waits = !file.recalls.is_empty() || self.unanswered().any(|pending| opens(&pending.request.op));
        if file.attr.inline && bits.has(Lease::BUFFER) && !waits && self.is_up(rank) {
            self.send(core, rank, ToServer::Release(vec![(ino, bits)]));
        }
    }

    /// Gives up what a rank lent, and what others lent of the same: it has moved since, which may not have been heard yet, and
    /// would be taken for lent by the new rank when it is. Of a directory in fragments of several ranks each lends the names that it has:
    /// caches above cannot tell them apart, and drop all, so none is held any more.
    fn take_lent(&mut self, rank: Rank, ino: Ino, bits: Lease) -> Lease {
        let mut held = Lease::NONE;
        for (of, session) in &mut self.sessions {
            held = held | session.leases.take(ino, bits);
            if *of != rank && !session.pending.is_empty() {
                session.leases.void(ino, session.next_seq);
            }
        }
        held
    }

    /// Answers again what may have been lost with a connection.
    pub(crate) fn repeat_recalls_done(&mut self, core: &mut Core, rank: Rank) {
        let Some(session) = self.session(rank) else { return };
        for (ino, id) in session.recalls_done.clone() {
            self.send(core, rank, ToServer::RecallDone { ino, id });
        }
    }
}

impl Files {
    /// Gives up rights to data: everything written is at the server. Whether there is such a file.
    pub(crate) fn give_up(&mut self, ino: Ino, bits: Lease) -> bool {
        let Some(file) = self.map.get_mut(&ino) else { return false };
        file.rights = if bits.has(Lease::CACHE) { Lease::NONE } else { file.rights.without(bits) };
        file.clean_to = file.attr.size;
        if !file.may_buffer() {
            file.risk();
        }
        if !file.may_cache() {
            file.base = None;
            self.change_blocks(ino, |file| file.blocks.clear());
        }
        true
    }

    /// True if caches above may hold data of the file.
    pub(crate) fn is_cached_above(&self, ino: Ino) -> bool {
        self.map.get(&ino).is_some_and(|file| {
            file.handles.iter().any(|handle| {
                let fh = self.handles.get(handle).and_then(|handle| handle.fh);
                fh.and_then(|fh| self.opened.get(&fh)).is_some_and(|opened| opened.cached)
            })
        })
    }
}

impl File {
    /// Caches above have dropped its data: no new writes begin until those before are at the server.
    pub(crate) fn data_dropped(&mut self, token: Token) {
        for recall in self.recalls.iter_mut().filter(|recall| recall.phase == Phase::Invalidate(token)) {
            recall.phase = Phase::Gate(self.written);
        }
    }
}
