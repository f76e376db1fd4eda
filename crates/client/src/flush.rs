//! Giving back what is held: what was written goes to the server, in runs of which a file has one at a time, and what ranks want back is
//! given up. Here is asked and answered; what a run needs decides the file (`run`), and what a recall takes decide the recalls (`recall`).

use loligo_types::{Answer, Control, Cred, DataAnswer, DataError, DataOp, FsError, FsResult, Ino, Lease, Op, Rank};

use crate::leases::RELEASE_MAX;
use crate::machine::Client;
use crate::own::OWN;
use crate::recall::{DataRecall, Phase};
use crate::run::{Facts, Next};
use crate::session::{DataThen, Then};
use crate::task::Event;
use crate::{Invalidation, Output, Token};

impl Client {
    /// Tells the task when everything written before is at the server, or lost.
    pub(crate) fn flush_then(&mut self, ino: Ino, task: u64) {
        self.wait_flush(ino, task, false);
    }

    /// The same, and durable.
    pub(crate) fn sync_then(&mut self, ino: Ino, task: u64) {
        self.wait_flush(ino, task, true);
    }

    fn wait_flush(&mut self, ino: Ino, task: u64, sync: bool) {
        let Some(file) = self.files.map.get_mut(&ino) else {
            return self.calls.events.push_back((task, Event::Flushed));
        };
        file.wait_flushed(sync, task);
        self.kick(ino);
    }

    /// Begins a run if there is a reason and none is under way.
    pub(crate) fn kick(&mut self, ino: Ino) {
        if self.files.is_due(&self.core, &mut self.calls, ino) {
            self.start_run(ino);
        }
    }

    /// Begins a run, unless one is under way.
    pub(crate) fn start_run(&mut self, ino: Ino) {
        if self.files.begin_run(ino) {
            self.plan_run(ino);
        }
    }

    fn plan_run(&mut self, ino: Ino) {
        let Some(file) = self.files.map.get(&ino) else { return };
        let (rank, is_own) = (file.rank, file.rank == OWN);
        let inline_max = if is_own { self.own.inline_max(ino) } else { self.ranks.inline_max(rank) };
        // Of what is decoupled for this client it may read whatever it has open.
        let reader = self.files.reader(file).or_else(|| file.handles.first().copied().filter(|_| is_own));
        let cut = file.attr.inline && file.base.is_some() && self.ranks.may_be_cut(ino);
        let unborn = !is_own && self.ranks.is_unborn(rank, ino);
        let session = self.ranks.session(rank).filter(|_| !is_own);
        let journal_max = session.map_or(0, |session| session.journal_max);
        let facts = Facts { inline_max, reader, cut, unborn, journal_max, journaling: file.journaling };
        let next = self.files.map.get_mut(&ino).and_then(|file| file.plan(ino, &facts));
        self.run_on(ino, next);
    }

    /// Does what a run needs next.
    fn run_on(&mut self, ino: Ino, next: Option<Next>) {
        match next {
            None => {}
            Some(Next::Ask(cred, op)) => self.request(&cred, op, Then::Flush(ino)),
            Some(Next::Persist(cred)) => {
                let Some(rank) = self.files.map.get(&ino).map(|file| file.rank) else { return };
                self.request_at(rank, Cred::clone(&cred), Op::Control(Control::Persist), Then::Flush(ino), 0);
            }
            Some(Next::Refresh(cred, tries)) => self.refresh(&cred, ino, Then::Flush(ino), tries),
            Some(Next::Data(op)) => _ = self.data_request(ino, op, DataThen::Flush(ino)),
            Some(Next::Plan) => self.plan_run(ino),
            Some(Next::Pump) => self.pump(ino),
            Some(Next::End(error)) => self.end_run(ino, error),
        }
    }

    /// A request of a run was answered.
    pub(crate) fn flush_reply(&mut self, ino: Ino, result: FsResult<Answer>) {
        let next = self.files.run_heard(ino, result);
        self.run_on(ino, next);
    }

    /// A data request of a run was answered.
    pub(crate) fn flush_data(&mut self, ino: Ino, result: Result<DataAnswer, DataError>) {
        if self.files.map.get_mut(&ino).is_some_and(|file| file.data_heard(result)) {
            self.pump(ino);
        }
    }

    /// A data request of a run was not done where the file was before it moved, as is believed.
    pub(crate) fn flush_elsewhere(&mut self, ino: Ino) {
        if self.files.map.get_mut(&ino).is_some_and(|file| file.data_elsewhere()) {
            self.pump(ino);
        }
    }

    /// Sends pieces; after the last one's answer goes on to the sync and the size.
    fn pump(&mut self, ino: Ino) {
        loop {
            let next = self.files.map.get_mut(&ino).and_then(|file| file.next_piece(ino));
            let goes_on = matches!(next, Some(Next::Data(DataOp::Write { .. })));
            self.run_on(ino, next);
            if !goes_on {
                return;
            }
        }
    }

    fn end_run(&mut self, ino: Ino, error: Option<FsError>) {
        match self.files.end_run(&mut self.core, &mut self.calls, ino, error) {
            None => {}
            Some(true) => self.start_run(ino),
            Some(false) => {
                self.step_recalls(ino);
                self.relieve();
                self.kick(ino);
            }
        }
    }

    /// Begins runs of files whose data has waited long enough.
    pub(crate) fn flush_old(&mut self) {
        let before = self.core.now.ms.saturating_sub(self.core.config.write_delay_ms);
        for ino in self.files.dirty.clone() {
            if self.files.map.get(&ino).is_some_and(|file| file.dirty_since <= before) {
                self.start_run(ino);
            }
        }
    }

    /// A rank wants something back.
    pub(crate) fn recalled(&mut self, rank: Rank, ino: Ino, id: u64, bits: Lease) {
        if self.recalls.open.contains_key(&(rank, ino, id)) {
            // Said again over a new connection, and under way already.
            return;
        }
        let key = (rank, ino, id);
        let (parts, of_root) = self.recalls.taken(&mut self.core, &mut self.ranks, &mut self.files, key, bits);
        // No names of a decoupled root are lent to its owner: the rank says that it may have another one.
        let is_own = of_root && self.own.trees.contains_key(&ino);
        self.recalls.open.insert(key, parts + usize::from(is_own));
        if is_own {
            self.own_doubt(ino, (rank, id));
        } else if of_root {
            self.core.out.push_back(Output::Doubt { dir: ino });
        }
        self.finish_recalls();
        self.kick(ino);
        self.step_recalls(ino);
    }

    /// Gives up the rights to a file's data: its rank may not know of them, and may have given them to others. So nothing
    /// is read here any more from now on, and no write begins until what was held back is at the server, which is first
    /// asked whether it knows the handle.
    pub(crate) fn doubt_rights(&mut self, ino: Ino) {
        if !self.recalls.doubt(&mut self.core, &mut self.files, ino) {
            return;
        }
        self.kick(ino);
        self.step_recalls(ino);
    }

    /// Caches above have dropped something.
    pub(crate) fn invalidated(&mut self, token: Token) {
        if self.own.invalidated(&mut self.calls, token) {
            return;
        }
        let Some((rank, ino, id, bits)) = self.recalls.end(token) else { return };
        if !bits.has(Lease::CACHE) {
            return self.part_done(rank, ino, id);
        }
        if let Some(file) = self.files.map.get_mut(&ino) {
            file.data_dropped(token);
        }
        self.kick(ino);
        self.step_recalls(ino);
    }

    pub(crate) fn part_done(&mut self, rank: Rank, ino: Ino, id: u64) {
        if let Some(left) = self.recalls.open.get_mut(&(rank, ino, id)) {
            *left = left.saturating_sub(1);
        }
        self.finish_recalls();
    }

    /// Answers recalls of which nothing is left to do.
    pub(crate) fn finish_recalls(&mut self) {
        let done = self.recalls.done(&self.direct);
        if done.is_empty() {
            return;
        }
        // A handle that is closed here only would keep a right alive.
        self.send_closes();
        self.recalls.answer(&mut self.core, &mut self.ranks, done);
    }

    /// Goes on with the recalls of a file's data as far as they can.
    pub(crate) fn step_recalls(&mut self, ino: Ino) {
        let mut at = 0;
        while let Some(recall) = self.files.map.get(&ino).and_then(|file| file.recalls.get(at)).copied() {
            if self.step_recall(ino, at, recall) {
                // Done, and taken out.
                self.part_done(recall.rank, ino, recall.id);
            } else {
                at += 1;
            }
        }
    }

    fn step_recall(&mut self, ino: Ino, at: usize, recall: DataRecall) -> bool {
        let cached = self.files.is_cached_above(ino);
        let Some(file) = self.files.map.get_mut(&ino) else { return false };
        let flushed = |target: u64| file.flushed >= target || file.is_clean();
        match recall.phase {
            Phase::Flush(target) if flushed(target) => {
                if !recall.takes_rights() {
                    file.recalls.remove(at);
                    return true;
                }
                let phase = if recall.bits.has(Lease::CACHE) && cached {
                    let token = self.core.invalidate(Invalidation::Data(ino), true);
                    self.recalls.tokens.insert(token, (recall.rank, ino, recall.id, Lease::CACHE));
                    Phase::Invalidate(token)
                } else {
                    Phase::Gate(file.written)
                };
                let gate = matches!(phase, Phase::Gate(_));
                if let Some(recall) = self.files.map.get_mut(&ino).and_then(|file| file.recalls.get_mut(at)) {
                    recall.phase = phase;
                }
                if gate {
                    self.kick(ino);
                    let again = self.files.map.get(&ino).and_then(|file| file.recalls.get(at)).copied();
                    return again.is_some_and(|recall| self.step_recall(ino, at, recall));
                }
                false
            }
            Phase::Gate(target) if flushed(target) && !file.discarding => {
                file.recalls.remove(at);
                file.end_doubt();
                self.give_up(ino, recall.bits);
                true
            }
            _ => false,
        }
    }

    /// Gives up rights to data: everything written is at the server.
    pub(crate) fn give_up(&mut self, ino: Ino, bits: Lease) {
        if !self.files.give_up(ino, bits) {
            return;
        }
        // Somebody else opens the file: handles that nobody uses here would only hold them up.
        self.close_unused(ino);
        self.files.start_waiting(&mut self.calls, &self.ranks, &self.own, ino);
    }

    /// Caches above hold nothing of these inodes any more.
    pub(crate) fn forget(&mut self, inos: Vec<Ino>) {
        let single = self.ranks.is_single();
        for ino in inos {
            self.close_unused(ino);
            self.own.cached.remove(&ino);
            if !single && !self.files.map.contains_key(&ino) {
                self.ranks.router.forget(ino);
            }
            for session in self.ranks.sessions.values_mut() {
                if single || !session.leases.of(ino).is_none() {
                    session.leases.forgotten.insert(ino);
                }
            }
        }
        let most = self.core.config.some(RELEASE_MAX);
        let many = |rank: &Rank| self.ranks.session(*rank).is_some_and(|s| s.leases.forgotten.len() >= most);
        for rank in self.ranks.sessions.keys().copied().filter(many).collect::<Vec<_>>() {
            self.ranks.release_forgotten(&mut self.core, &self.files, rank);
        }
    }
}
