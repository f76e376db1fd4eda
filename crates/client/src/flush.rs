//! Writing back: what is held back of a file goes to the server, in runs of which a file has one at a time. Here runs begin, and
//! what they need is asked for; what that is decides the file (`run`).

use loligo_types::{Answer, Cred, DataAnswer, DataError, DataOp, FsError, FsResult, Ino, Op};

use crate::machine::Client;
use crate::own::OWN;
use crate::run::{Facts, Next};
use crate::session::{DataThen, Then};
use crate::task::Event;

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
        let inline_max = if is_own {
            self.own.inline_max(ino)
        } else {
            self.ranks.session(rank).map_or(0, |session| session.inline_max)
        };
        // Of what is decoupled for this client it may read whatever it has open.
        let reader = self.files.reader(file).or_else(|| file.handles.first().copied().filter(|_| is_own));
        let cut = file.attr.inline && file.base.is_some() && self.ranks.may_be_cut(ino);
        let unborn = !is_own && self.ranks.is_unborn(rank, ino);
        let facts = Facts { inline_max, reader, cut, unborn };
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
                self.request_at(rank, Cred::clone(&cred), Op::Persist, Then::Flush(ino), 0);
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
}
