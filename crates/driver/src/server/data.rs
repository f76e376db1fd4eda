//! The object server's machine on the rank thread: its requests, its answers, and the threads that do its effects.

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loligo_mds::{DataAccess, Input};
use loligo_osd::{Access, Effect, EffectId, EffectResult, Osd, Output, Tag};
use loligo_store::{Blobs, StoreError};
use loligo_types::msg::{DataRequest, ToClient};
use loligo_types::{DataError, Ino, Lsn, Patches, SessionId};

use super::faults::{About, DataFault, Faults};
use super::queue::{Inbox, Queue};
use super::rank::Done;
use super::start::spawn;

/// An output of the data plane.
#[derive(Debug)]
pub(crate) enum Out {
    Reply { conn: u64, msg: ToClient },
    Input(Input),
}

/// An effect for a thread.
pub(crate) type Job = (EffectId, Effect);

/// The result of an effect.
pub(crate) struct DataDone {
    id: EffectId,
    about: Option<About>,
    result: EffectResult,
    work: Work,
}

/// Cost of an effect at the store, for the metrics.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Work {
    /// Bytes that went into objects, and were in no journal.
    pub(crate) direct: u64,
    /// Bytes that a journal had.
    pub(crate) logged: u64,
    /// Time of a sync, nanoseconds.
    pub(crate) sync_ns: Option<u64>,
}

impl DataDone {
    pub(crate) fn work(&self) -> Work {
        self.work
    }
}

impl Work {
    fn of(effect: &Effect, took: Duration, is_done: bool) -> Work {
        let (direct, logged) = if is_done { written(effect) } else { (0, 0) };
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        Work { direct, logged, sync_ns: effect.syncs().then_some(nanos) }
    }
}

/// Bytes that an effect writes: direct, and logged ones.
fn written(effect: &Effect) -> (u64, u64) {
    match effect {
        Effect::Write { data, .. } | Effect::Spill { data, .. } => (data.len() as u64, 0),
        Effect::Patch { patches, .. } => (0, patches.len() as u64),
        Effect::Copying { effect, .. } | Effect::AsItWas { effect, .. } | Effect::Theirs { effect, .. } => {
            written(effect)
        }
        _ => (0, 0),
    }
}

/// Effects that wait for a thread. Those that sync have threads of their own: nobody who reads or writes another file waits behind them.
#[derive(Clone)]
pub(crate) struct Jobs {
    pub(crate) quick: Arc<Queue<Job>>,
    pub(crate) syncs: Arc<Queue<Job>>,
}

impl Jobs {
    pub(crate) fn new() -> Jobs {
        Jobs { quick: Queue::new(), syncs: Queue::new() }
    }

    fn push(&self, jobs: impl Iterator<Item = Job>) {
        let (syncs, quick): (Vec<Job>, Vec<Job>) = jobs.partition(|(_, effect)| effect.syncs());
        for (queue, jobs) in [(&self.quick, quick), (&self.syncs, syncs)] {
            if !jobs.is_empty() {
                queue.push_all(jobs);
            }
        }
    }

    pub(crate) fn close(&self) {
        self.quick.close();
        self.syncs.close();
    }
}

/// A data thread: runs until the queue is closed.
pub(crate) fn run(blobs: &dyn Blobs, queue: &Queue<Job>, inbox: &Inbox<Done>) {
    while let Some(jobs) = queue.take(1) {
        for (id, effect) in jobs {
            let about = About::of(&effect);
            let begun = Instant::now();
            let result = loligo_osd::execute(blobs, &effect);
            let work = Work::of(&effect, begun.elapsed(), result.is_ok());
            match &result {
                Err(error @ StoreError::Fenced { .. }) => {
                    inbox.push(Done::Replaced(error.to_string()));
                    continue;
                }
                // As often as somebody writes; each is told.
                Err(error) if error.may_pass() => tracing::debug!("a data operation failed: {error}"),
                // Of one file: the rank says which.
                Err(_) if about.is_some() => {}
                Err(error) => tracing::warn!("a data operation failed: {error}"),
                Ok(_) => {}
            }
            inbox.push(Done::Data(DataDone { id, about, result, work }));
        }
    }
}

/// The request that an effect's answer is for.
#[derive(Clone, Debug)]
enum Asked {
    Client { conn: u64, id: u64 },
    Discard { from: u64, object_size: u32 },
    Spill,
    Restore { copy: Ino },
    Keep,
    Look { copy: Ino },
    SyncAll { ticket: u64 },
}

/// The plane.
pub(crate) struct DataPlane {
    osd: Osd,
    blobs: Arc<dyn Blobs>,
    jobs: Jobs,
    ready: Vec<Job>,
    asked: HashMap<Tag, Asked>,
    next_tag: Tag,
    out: VecDeque<Out>,
    /// Discards that failed, to be tried again with the next tick.
    retry: Vec<(Ino, u64, u32)>,
    /// Files that could not be put back, and their copies, likewise.
    restore: Vec<(Ino, Ino)>,
    /// Files of which it could not be found out whether others have changed them, and their copies, likewise.
    look: Vec<(Ino, Ino)>,
    /// Files that are to be quiet, by the ticket of who wants it.
    quieting: HashMap<u64, Vec<Ino>>,
    faults: Faults,
    /// The thread that tells the store to expect stray objects.
    expecting: Option<JoinHandle<()>>,
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        self.end_expecting();
    }
}

impl DataPlane {
    pub(crate) fn new(jobs: Jobs, blobs: Arc<dyn Blobs>) -> DataPlane {
        DataPlane {
            osd: Osd::new(loligo_osd::Config::default()),
            blobs,
            jobs,
            ready: Vec::new(),
            asked: HashMap::new(),
            next_tag: 1,
            out: VecDeque::new(),
            retry: Vec::new(),
            restore: Vec::new(),
            look: Vec::new(),
            quieting: HashMap::new(),
            faults: Faults::default(),
            expecting: None,
        }
    }

    /// Objects may be stray from now on. On a thread of its own, as it writes to the disk.
    pub(crate) fn expect_strays(&mut self) {
        self.end_expecting();
        let blobs = self.blobs.clone();
        let told = |error: &dyn Display| {
            tracing::warn!(%error, "objects that no file tells of may be left: fsck --repair drops them");
        };
        let expect = move || blobs.expect_strays().unwrap_or_else(|error| told(&error));
        self.expecting = spawn("loligo-strays", expect).inspect_err(|error| told(error)).ok();
    }

    /// Waits until that is written: the store may be closed next.
    fn end_expecting(&mut self) {
        if self.expecting.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that expects stray objects panicked; this is a bug");
        }
    }

    pub(crate) fn next_output(&mut self) -> Option<Out> {
        self.out.pop_front()
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Hands the threads what may run now and somebody waits for.
    pub(crate) fn submit_awaited(&mut self) {
        let awaited = |(_, effect): &mut Job| !matches!(effect, Effect::Patch { .. });
        let jobs: Vec<Job> = self.ready.extract_if(.., awaited).collect();
        if !jobs.is_empty() {
            self.jobs.push(jobs.into_iter());
        }
    }

    /// Hands the threads all that may run now.
    pub(crate) fn submit(&mut self) {
        if !self.ready.is_empty() {
            self.jobs.push(self.ready.drain(..));
        }
    }

    pub(crate) fn request(&mut self, conn: u64, session: SessionId, request: DataRequest) {
        let DataRequest { id, ino, object_size, op } = request;
        let tag = self.tag(Asked::Client { conn, id });
        self.feed(loligo_osd::Input::Request { session, tag, ino, object_size, op });
    }

    /// Answers a connection that speaks for no session.
    pub(crate) fn refuse(&mut self, conn: u64, id: u64) {
        self.out.push_back(Out::Reply { conn, msg: ToClient::Data { id, result: Err(DataError::Stale) } });
    }

    pub(crate) fn access(&mut self, session: SessionId, ino: Ino, access: DataAccess) {
        let access = of(access);
        if access == Access::Write {
            // Another server may have had the file, or its rank, since it was written here.
            self.blobs.forget(ino.0);
        }
        self.feed(loligo_osd::Input::Access { session, ino, access });
    }

    /// The same of many files, of which nobody else has anything.
    pub(crate) fn access_range(&mut self, session: SessionId, (first, count): (Ino, u64), access: DataAccess) {
        self.feed(loligo_osd::Input::AccessRange { session, first, count, access: of(access) });
    }

    /// Nothing of the session is executed any more; what waits is dropped.
    pub(crate) fn fence(&mut self, session: SessionId) {
        self.feed(loligo_osd::Input::Fence { session });
    }

    pub(crate) fn discard(&mut self, ino: Ino, from: u64, object_size: u32) {
        let tag = self.tag(Asked::Discard { from, object_size });
        self.feed(loligo_osd::Input::Discard { tag, ino, object_size, from });
    }

    /// Writes what the journal has durably.
    pub(crate) fn write_logged(&mut self, lsn: Lsn, ino: Ino, object_size: u32, patches: Arc<Patches>) {
        self.feed(loligo_osd::Input::WriteLogged { lsn, ino, object_size, patches });
    }

    /// Makes durable what was written so.
    pub(crate) fn settle_logged(&mut self) {
        self.feed(loligo_osd::Input::SettleLogged);
    }

    /// The journal says that it is.
    pub(crate) fn forget_logged(&mut self, ino: Ino, upto: Lsn) {
        self.feed(loligo_osd::Input::Forget { ino, upto });
    }

    pub(crate) fn spill(&mut self, ino: Ino, data: Arc<[u8]>, object_size: u32) {
        let tag = self.tag(Asked::Spill);
        self.feed(loligo_osd::Input::Spill { tag, ino, object_size, data });
    }

    /// One session changes a file, and others read it as it was, or change a version of their own.
    pub(crate) fn freeze(&mut self, ino: Ino, copy: Ino, size: u64, (owner, shared): (SessionId, bool)) {
        self.feed(loligo_osd::Input::Freeze { ino, copy, size, owner, shared });
    }

    /// All read a file as it is.
    pub(crate) fn thaw(&mut self, ino: Ino) {
        self.feed(loligo_osd::Input::Thaw { ino });
    }

    /// Puts back what was copied of a file.
    pub(crate) fn restore(&mut self, ino: Ino, copy: Ino) {
        let tag = self.tag(Asked::Restore { copy });
        self.feed(loligo_osd::Input::Restore { tag, ino, copy });
    }

    /// Keeps the others' version of a file as another one.
    pub(crate) fn keep_theirs(&mut self, ino: Ino, copy: Ino, object_size: u32, (to, len): (Ino, u64)) {
        let tag = self.tag(Asked::Keep);
        self.feed(loligo_osd::Input::KeepTheirs { tag, ino, copy, object_size, to, len });
    }

    /// Finds out whether others have changed a file.
    pub(crate) fn look_at_fork(&mut self, ino: Ino, copy: Ino) {
        let tag = self.tag(Asked::Look { copy });
        self.feed(loligo_osd::Input::LookAtFork { tag, ino, copy });
    }

    /// Makes all data durable that was answered before.
    pub(crate) fn sync_all(&mut self, ticket: u64) {
        let tag = self.tag(Asked::SyncAll { ticket });
        self.feed(loligo_osd::Input::SyncAll { tag });
    }

    /// Ends what is under way on these files and forgets them.
    pub(crate) fn quiesce(&mut self, ticket: u64, inos: Vec<Ino>) {
        self.quieting.insert(ticket, inos.clone());
        self.feed(loligo_osd::Input::Quiesce { ticket, inos });
    }

    /// Of an error that is not the first one of its file nothing is said again.
    pub(crate) fn done(&mut self, done: DataDone) -> Option<DataFault> {
        let noted = done.about.as_ref().and_then(|about| self.faults.note(about, &done.result));
        let fault = match (&done.result, noted) {
            (Err(error), Some((ino, true))) => Some(DataFault { ino, path: None, text: error.to_string(), times: 1 }),
            _ => None,
        };
        self.feed(loligo_osd::Input::Done { id: done.id, result: done.result });
        fault
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The connection is gone: its answers go nowhere.
    pub(crate) fn disconnected(&mut self, conn: u64) {
        self.asked.retain(|_, asked| !matches!(asked, Asked::Client { conn: of, .. } if *of == conn));
    }

    /// Tries again what failed.
    pub(crate) fn tick(&mut self) {
        self.feed(loligo_osd::Input::Retry);
        for (ino, from, object_size) in std::mem::take(&mut self.retry) {
            self.discard(ino, from, object_size);
        }
        for (ino, copy) in std::mem::take(&mut self.restore) {
            self.restore(ino, copy);
        }
        for (ino, copy) in std::mem::take(&mut self.look) {
            self.look_at_fork(ino, copy);
        }
    }

    fn tag(&mut self, asked: Asked) -> Tag {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.asked.insert(tag, asked);
        tag
    }

    fn feed(&mut self, input: loligo_osd::Input) {
        self.osd.handle(input);
        while let Some(output) = self.osd.next_output() {
            self.carry_out(output);
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Run { id, effect } => self.ready.push((id, effect)),
            Output::Reply { tag, result, .. } => {
                if let Some(Asked::Client { conn, id }) = self.asked.remove(&tag) {
                    self.out.push_back(Out::Reply { conn, msg: ToClient::Data { id, result } });
                }
            }
            Output::Discarded { tag, ino, result } => match (self.asked.remove(&tag), result) {
                (Some(Asked::Discard { from, object_size }), Err(_)) => self.retry.push((ino, from, object_size)),
                _ => self.out.push_back(Out::Input(Input::Discarded { ino })),
            },
            Output::Spilled { tag, ino, result } => {
                self.asked.remove(&tag);
                self.out.push_back(Out::Input(Input::Spilled { ino, ok: result.is_ok() }));
            }
            Output::Restored { tag, ino, result } => match (self.asked.remove(&tag), result) {
                (Some(Asked::Restore { copy }), Err(_)) => self.restore.push((ino, copy)),
                _ => self.out.push_back(Out::Input(Input::Restored { ino })),
            },
            Output::Kept { tag, to, result, .. } => {
                self.asked.remove(&tag);
                self.out.push_back(Out::Input(Input::Kept { to, result }));
            }
            Output::Fork { tag, ino, result } => match (self.asked.remove(&tag), result) {
                (Some(Asked::Look { copy }), Err(_)) => self.look.push((ino, copy)),
                (_, Ok(size)) => self.out.push_back(Out::Input(Input::Fork { ino, size })),
                (_, Err(_)) => {}
            },
            Output::SyncedAll { tag, result } => {
                if let Some(Asked::SyncAll { ticket }) = self.asked.remove(&tag) {
                    self.out.push_back(Out::Input(Input::DataSynced { ticket, ok: result.is_ok() }));
                }
            }
            Output::InPlace { ino, upto, no_room } => {
                self.out.push_back(Out::Input(Input::DataInPlace { ino, upto, no_room }));
            }
            Output::LoggedFailed => self.out.push_back(Out::Input(Input::DataFailed)),
            Output::Quiesced { ticket, ok } => {
                // A discard that is to be tried again must not come when another rank has the file.
                let inos = self.quieting.remove(&ticket).unwrap_or_default();
                let ok = ok && !self.retry.iter().any(|(ino, ..)| inos.contains(ino));
                self.out.push_back(Out::Input(Input::Quiesced { ticket, ok }));
            }
            Output::Fenced { session } => self.out.push_back(Out::Input(Input::Fenced { session })),
        }
    }
}

/// The object server's form of an access that the metadata server gives.
fn of(access: DataAccess) -> Access {
    match access {
        DataAccess::None => Access::None,
        DataAccess::Read => Access::Read,
        DataAccess::Write => Access::Write,
        DataAccess::Hidden => Access::Hidden,
        DataAccess::Moving => Access::Moving,
        DataAccess::Moved => Access::Moved,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_or_writes_does_not_wait_behind_the_syncs_of_other_files() {
        let jobs = Jobs::new();
        let (ino, object_size) = (Ino(7), 4096);
        let sync = |id| (id, Effect::Sync { ino: Ino(id), ranges: vec![(0, 0)], removed: false, copy: None });
        jobs.push((1..=20).map(sync));
        let data: Arc<[u8]> = [1].into();
        jobs.push(
            [
                (21, Effect::Read { ino, object_size, offset: 0, len: 1 }),
                (22, Effect::Write { ino, object_size, offset: 0, data: data.clone() }),
                (23, Effect::Spill { ino, object_size, data }),
            ]
            .into_iter(),
        );
        let ids = |queue: &Queue<Job>| queue.take_now().into_iter().map(|(id, _)| id).collect::<Vec<_>>();
        assert_eq!(ids(&jobs.quick), [21, 22]);
        assert_eq!(ids(&jobs.syncs), (1..=20).chain([23]).collect::<Vec<_>>());
    }
}
