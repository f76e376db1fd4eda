//! The journal's thread: group commit. Everything that was queued goes into one append and shares one sync.
//!
//! Where a sync costs less than waking a thread (a disk in memory, say), the journal moves to the rank thread, which
//! then commits at the end of its rounds; it moves back when syncs become slow or the disk is full. Whoever has the
//! [`Journal`] owns it: it is handed over as a value, and the queue keeps the order.
//!
//! Where appends need nobody to wait for them (a cluster, say), the journal is on the rank thread for good: it begins a write at the end of
//! a round, several may be under way, and what has landed comes as a message. What takes longer, to make and remove segments, is done by
//! the journal's thread.
//!
//! A full disk (the store has given up its reserve by then), or no descriptor for a new segment, makes it wait and try again: nothing of the
//! batch was acknowledged, and the file is as before; meanwhile the rank refuses changes. A failed write or sync ends it for good, and the
//! rank with it. What records mean is unknown here.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use loligo_journal::{Batch, SegmentInfo, Writer};
use loligo_store::{LogDir, LogFile, StoreError};
use loligo_types::Lsn;

use super::metrics::Metrics;
use super::queue::{Inbox, Queue};
use super::rank::Done;

/// First and longest pause between attempts while the disk is full.
const FULL_PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Syncs that take less than this are not worth waiting for company.
const GATHER_MIN: Duration = Duration::from_micros(100);
/// Longest wait for company.
const GATHER_MAX: Duration = Duration::from_millis(2);

/// Syncs faster than this are done by the rank thread itself: less than two wake-ups of a thread.
const CHEAP: Duration = Duration::from_micros(15);
/// Syncs slower than this are not.
const DEAR: Duration = Duration::from_micros(60);
/// Syncs after which their average is believed.
const SYNCS_KNOWN: u32 = 32;

/// Writes under way at a time, where the log does not make anybody wait for them.
const WRITES_MAX: usize = 4;
/// So much is worth a write of its own, however much is under way, bytes.
const WRITE_BYTES: u64 = 64 << 10;

/// With so few records in the only write under way nobody else asks for anything, so the rank looks for its end instead of being woken by it,
const LONE_RECORDS: u64 = 2;
/// if writes take less than this: one that is on its way for longer is worth a sleep.
const LANDS_SOON: Duration = Duration::from_micros(500);

/// Work for the journal's thread.
#[derive(Debug)]
pub(crate) enum Work {
    /// Records with consecutive numbers.
    Append(Vec<(Lsn, Vec<u8>)>),
    /// Records below this are in the table, and the table says so durably.
    Trim(Lsn),
}

/// Slow work that the journal's thread does beside writing.
pub(crate) enum Chore {
    /// All of it: the journal itself.
    Keep(Box<Journal>),
    /// A new segment of a journal on the rank thread.
    Create(Arc<dyn LogDir>, u64),
    /// Segments that are not needed any more.
    Delete(Arc<dyn LogDir>, Vec<u64>),
}

/// The journal's segments, as other threads may see them.
#[derive(Debug, Default)]
pub(crate) struct Segments(Mutex<Vec<SegmentInfo>>);

impl Segments {
    /// True if dropping the records below `below` frees a segment.
    pub(crate) fn trim_helps(&self, below: Lsn) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(1).is_some_and(|second| second.first <= below)
    }
}

/// Writer and files.
pub(crate) struct Journal {
    writer: Writer,
    log: Arc<dyn LogDir>,
    file: Option<(u64, Box<dyn LogFile>)>,
    /// Taken from the writer, and refused by a full disk or for want of a descriptor.
    waiting: Option<Batch>,
    /// Why that was refused last.
    refused: String,
    /// Last record that was appended and not synced.
    unsynced: Option<Lsn>,
    segments: Arc<Segments>,
    metrics: Arc<Metrics>,
    /// Records of the last commit.
    last_batch: u64,
    /// Moving average of the time of a sync.
    sync_time: Duration,
    /// Syncs so far, up to [`SYNCS_KNOWN`].
    syncs: u32,
    /// If nobody waits for writes: what is under way.
    flight: Option<Flight>,
    /// Moving average of the time of such a write.
    write_time: Duration,
}

/// Writes under way, and whom to tell.
struct Flight {
    inbox: Arc<Inbox<Done>>,
    home: Arc<Queue<Chore>>,
    writes: usize,
    /// When the last one began.
    begun: Instant,
    /// The last record that was given to a write.
    upto: Lsn,
    /// A segment is being made.
    is_creating: bool,
}

/// True if another write should begin with the waiting records while so many are under way, the last one up to `upto`. If there is less
/// than what is under way it waits for that to land: the many small writes that clients with many requests would else fall into cost each
/// as much as a large one.
fn is_due(writes: usize, upto: Lsn, writer: &Writer) -> bool {
    let flying = upto.0.saturating_sub(writer.durable().0);
    writes == 0 || writer.outstanding().records - flying >= flying || writer.pending_bytes() >= WRITE_BYTES
}

/// True if the write under way is the only one, small, and soon over by the average time of a write.
fn is_lone(writes: usize, records: u64, write_time: Duration) -> bool {
    writes == 1 && records <= LONE_RECORDS && write_time < LANDS_SOON
}

/// Result of a commit.
struct Commit {
    durable: Option<Lsn>,
    full: bool,
}

impl Journal {
    pub(crate) fn new(writer: Writer, log: Arc<dyn LogDir>, segments: Arc<Segments>, metrics: Arc<Metrics>) -> Journal {
        let journal = Journal {
            writer,
            log,
            file: None,
            waiting: None,
            refused: String::new(),
            unsynced: None,
            segments,
            metrics,
            last_batch: 0,
            sync_time: Duration::ZERO,
            syncs: 0,
            flight: None,
            write_time: Duration::ZERO,
        };
        journal.publish();
        journal
    }

    /// Puts it where it begins: on the rank thread if nobody has to wait for its writes, else on its own.
    pub(crate) fn begin(mut self, home: &Arc<Queue<Chore>>, inbox: &Arc<Inbox<Done>>) {
        if self.log.is_async() {
            let (inbox, home, begun) = (inbox.clone(), home.clone(), Instant::now());
            let flight = Flight { inbox: inbox.clone(), home, writes: 0, begun, upto: Lsn(0), is_creating: false };
            self.flight = Some(flight);
            inbox.push(Done::JournalHere(Box::new(self)));
        } else {
            home.push(Chore::Keep(Box::new(self)));
        }
    }

    /// Commits for the rank thread: what is queued and what waited. `Ok(None)`: nothing became durable.
    pub(crate) fn step(&mut self, queue: &Queue<Work>) -> Result<Option<Lsn>, String> {
        self.accept(queue.take_now())?;
        if self.flight.is_some() {
            return self.fly().map(|()| None).map_err(|e| self.failed(&e));
        }
        let commit = self.commit().map_err(|e| e.to_string());
        if commit.is_err() {
            self.writer.fail();
        }
        commit.map(|commit| commit.durable)
    }

    /// True if the rank thread should go on committing by itself.
    pub(crate) fn may_stay(&self) -> bool {
        self.flight.is_some() || (self.waiting.is_none() && self.sync_time <= DEAR)
    }

    /// True if appended records become durable without this thread.
    pub(crate) fn flies(&self) -> bool {
        self.flight.is_some()
    }

    /// Until when to look for the end of the only write under way, if that is worth it: it is small, so few wait for it, and soon over.
    pub(crate) fn lands_by(&self) -> Option<Instant> {
        let flight = self.flight.as_ref()?;
        is_lone(flight.writes, self.writer.outstanding().records, self.write_time)
            .then(|| flight.begun + self.write_time * 2)
    }

    fn failed(&mut self, error: &StoreError) -> String {
        self.writer.fail();
        error.to_string()
    }

    /// Begins to write what was accepted.
    fn fly(&mut self) -> Result<(), StoreError> {
        let Some(flight) = &mut self.flight else { return Ok(()) };
        while flight.writes < WRITES_MAX && !flight.is_creating && is_due(flight.writes, flight.upto, &self.writer) {
            let Some(batch) = self.waiting.take().or_else(|| self.writer.take_batch()) else { break };
            let Some((_, file)) = self.file.as_mut().filter(|(id, _)| *id == batch.segment) else {
                // All before it has landed, or the writer would not have given it.
                flight.home.push(Chore::Create(self.log.clone(), batch.segment));
                flight.is_creating = true;
                self.waiting = Some(batch);
                break;
            };
            let (to, last, begun) = (flight.inbox.clone(), batch.last, Instant::now());
            let landed = move |done| to.push(Done::Landed { lsn: last, begun, done });
            file.append_then(&batch.bytes, Box::new(landed))?;
            (flight.writes, flight.begun, flight.upto) = (flight.writes + 1, begun, last);
            self.metrics.journal_bytes.add(batch.bytes.len() as u64);
            self.writer.recycle(batch.bytes);
        }
        Ok(())
    }

    /// A write has landed, and with it all before it; what is durable now, and more is begun.
    pub(crate) fn landed(&mut self, lsn: Lsn, begun: Instant, done: Result<(), StoreError>) -> Result<Lsn, String> {
        if let Some(flight) = &mut self.flight {
            flight.writes -= 1;
        }
        done.map_err(|error| self.failed(&error))?;
        let took = begun.elapsed();
        self.write_time = (self.write_time * 7 + took) / 8;
        self.metrics.journal_sync.record(took.as_nanos() as u64);
        let before = self.writer.durable();
        let durable = self.writer.synced(lsn);
        self.became_durable(before, durable);
        self.fly().map_err(|error| self.failed(&error))?;
        Ok(durable)
    }

    /// A segment was made.
    pub(crate) fn created(&mut self, id: u64, made: Result<Box<dyn LogFile>, StoreError>) -> Result<(), String> {
        if let Some(flight) = &mut self.flight {
            flight.is_creating = false;
        }
        self.file = Some((id, made.map_err(|error| self.failed(&error))?));
        self.publish();
        self.fly().map_err(|error| self.failed(&error))
    }

    fn became_durable(&mut self, before: Lsn, durable: Lsn) {
        if durable > before {
            self.last_batch = durable.0 - before.0;
            self.metrics.journal_records.add(self.last_batch);
            self.metrics.journal_batch.record(self.last_batch);
            self.metrics.journal_space.set(self.writer.space());
        }
    }

    /// Keeps journals going on a thread: each that comes home, until it can go to the rank thread (again). And does what is too slow for
    /// that one.
    pub(crate) fn run_thread(home: &Queue<Chore>, queue: &Queue<Work>, inbox: &Inbox<Done>) {
        while let Some(mut come) = home.take(1) {
            match come.pop() {
                Some(Chore::Keep(journal)) => {
                    if let Some(journal) = journal.run(queue, inbox) {
                        inbox.push(Done::JournalHere(journal));
                    }
                }
                Some(Chore::Create(log, id)) => inbox.push(Done::SegmentHere { id, made: log.create(id) }),
                Some(Chore::Delete(log, ids)) => delete(&*log, &ids),
                None => {}
            }
        }
    }

    /// Runs until the queue is closed or the disk fails; or gives the journal back because syncs are cheap.
    fn run(mut self: Box<Self>, queue: &Queue<Work>, inbox: &Inbox<Done>) -> Option<Box<Journal>> {
        let mut pause = FULL_PAUSE.0;
        let mut full = self.waiting.is_some();
        self.tell_full(false, full);
        // Records came during the last sync: those who are answered after it bring more. Looked at before they are answered: one client alone may
        // have asked again by the time this thread looks for work.
        let mut is_behind = !queue.is_empty();
        loop {
            let work = if full { queue.take_within(usize::MAX, pause) } else { queue.take(usize::MAX) };
            let work = work?;
            let accepted = self.accept(work).and_then(|()| if full { Ok(()) } else { self.gather(queue, is_behind) });
            let committed = accepted.and_then(|()| self.commit().map_err(|e| e.to_string()));
            match committed {
                Err(text) => {
                    self.writer.fail();
                    tracing::error!("the journal failed, the server stops: {text}");
                    inbox.push(Done::JournalFailed(text));
                    return None;
                }
                Ok(commit) => {
                    is_behind = !queue.is_empty();
                    if let Some(lsn) = commit.durable {
                        inbox.push(Done::Durable(lsn));
                    }
                    pause = if commit.full { (pause * 2).min(FULL_PAUSE.1) } else { FULL_PAUSE.0 };
                    self.tell_full(full, commit.full);
                    full = commit.full;
                    if !full && self.syncs >= SYNCS_KNOWN && self.sync_time < CHEAP {
                        return Some(self);
                    }
                }
            }
        }
    }

    /// Waits a little for the records that the last commit's answers are about to bring. Without this, clients that
    /// always have as much in flight split into two halves that wait for each other's syncs. One request at a time
    /// never waits here: it is all that the last commit had.
    fn gather(&mut self, queue: &Queue<Work>, is_behind: bool) -> Result<(), String> {
        let expected = self.last_batch + if is_behind { self.writer.outstanding().records } else { 0 };
        let until = Instant::now() + (self.sync_time / 4).min(GATHER_MAX);
        while self.sync_time >= GATHER_MIN && self.writer.outstanding().records < expected {
            let left = until.saturating_duration_since(Instant::now());
            let Some(work) = queue.take_within(usize::MAX, left) else { break };
            if left.is_zero() || work.is_empty() {
                return self.accept(work);
            }
            self.accept(work)?;
        }
        Ok(())
    }

    fn tell_full(&self, was: bool, is: bool) {
        match (was, is) {
            (false, true) => tracing::warn!(
                "the journal cannot be written now ({}): changes are refused or wait until it can; free space on the disk of the data directory \
                 if it is full",
                self.refused
            ),
            (true, false) => tracing::info!("the journal goes on"),
            _ => return,
        }
        self.metrics.journal_full.set(u64::from(is));
    }

    fn accept(&mut self, work: Vec<Work>) -> Result<(), String> {
        for item in work {
            match item {
                Work::Append(records) => {
                    for (lsn, record) in records {
                        let got = self.writer.append(&record).map_err(|e| e.to_string())?;
                        if got != lsn {
                            return Err(format!("record {lsn} came as number {got}; this is a bug"));
                        }
                    }
                }
                Work::Trim(below) => self.trim(below),
            }
        }
        Ok(())
    }

    /// Writes and syncs what was accepted, as far as there is space.
    fn commit(&mut self) -> Result<Commit, StoreError> {
        let before = self.writer.durable();
        let mut full = false;
        // A new segment waits for the sync of the one before it, and nobody may come with more after which the rest would go.
        while !full && (self.waiting.is_some() || self.writer.has_pending()) {
            full = !self.write_pending()?;
            self.sync()?;
        }
        let durable = self.writer.durable();
        self.became_durable(before, durable);
        Ok(Commit { durable: (durable > before).then_some(durable), full })
    }

    /// Writes what can be written before a sync; whether there was space for it.
    fn write_pending(&mut self) -> Result<bool, StoreError> {
        while let Some(batch) = self.waiting.take().or_else(|| self.writer.take_batch()) {
            match self.write(&batch) {
                Ok(()) => {
                    self.unsynced = Some(batch.last);
                    self.metrics.journal_bytes.add(batch.bytes.len() as u64);
                    self.writer.recycle(batch.bytes);
                }
                Err(error) if error.may_pass() => {
                    self.waiting = Some(batch);
                    self.refused = error.to_string();
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if self.file.as_ref().is_none_or(|(id, _)| *id != batch.segment) {
            // A segment is durable before anything is written to the next.
            self.sync()?;
            self.file = Some((batch.segment, self.log.create(batch.segment)?));
            self.publish();
        }
        let (_, file) = self.file.as_mut().expect("just opened");
        file.append(&batch.bytes)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let (Some(lsn), Some((_, file))) = (self.unsynced, self.file.as_mut()) else { return Ok(()) };
        let begun = Instant::now();
        file.sync()?;
        let took = begun.elapsed();
        self.metrics.journal_sync.record(took.as_nanos() as u64);
        self.sync_time = (self.sync_time * 7 + took) / 8;
        self.syncs = (self.syncs + 1).min(SYNCS_KNOWN);
        self.unsynced = None;
        self.writer.synced(lsn);
        Ok(())
    }

    fn trim(&mut self, below: Lsn) {
        let ids: Vec<u64> = self.writer.trim(below).into_iter().collect();
        match &self.flight {
            Some(flight) if !ids.is_empty() => flight.home.push(Chore::Delete(self.log.clone(), ids)),
            _ => delete(&*self.log, &ids),
        }
        self.metrics.journal_space.set(self.writer.space());
        self.publish();
    }

    fn publish(&self) {
        *self.segments.0.lock().unwrap_or_else(PoisonError::into_inner) = self.writer.segments().collect();
    }
}

fn delete(log: &dyn LogDir, ids: &[u64]) {
    for id in ids {
        if let Err(error) = log.delete(*id) {
            tracing::warn!("journal segment {id} is not needed any more and could not be deleted: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use loligo_journal::WriterConfig;
    use loligo_store::mem::MemDisk;
    use loligo_store::{Backend, Identity};

    use super::*;

    #[test]
    fn the_end_of_a_write_is_looked_for_if_it_is_the_only_one_and_small_and_soon_over() {
        let (soon, late) = (Duration::from_micros(200), Duration::from_millis(2));
        assert!(is_lone(1, 1, soon) && is_lone(1, 2, soon));
        assert!(!is_lone(0, 0, soon), "nothing is under way");
        assert!(!is_lone(2, 2, soon) && !is_lone(1, 3, soon), "there is other work");
        assert!(!is_lone(1, 1, late), "a disk takes its time");
    }

    #[test]
    fn what_a_commit_brings_beyond_the_end_of_a_segment_is_durable_with_it() {
        // Nobody may come with more, after which the rest would go.
        let segment_size = 4096;
        let writer = Writer::new(WriterConfig { segment_size, ..WriterConfig::new([1; 16], 0) });
        let log =
            MemDisk::new(Identity::new([1; 16], [2; 16])).open().expect("memory opens").log_dir(0).expect("a log");
        let mut journal = Journal::new(writer, log.clone(), Arc::default(), Arc::default());
        let queue = Queue::new();
        let records: Vec<_> = (1..=100).map(|lsn| (Lsn(lsn), vec![7; 100])).collect();
        queue.push(Work::Append(records));
        assert_eq!(journal.step(&queue), Ok(Some(Lsn(100))));
        assert!(log.list().expect("a list").len() > 2, "it went over the ends of segments");
    }

    #[test]
    fn another_write_is_begun_if_it_brings_as_much_as_is_under_way_or_is_large() {
        let mut writer = Writer::new(WriterConfig::new([1; 16], 0));
        let append = |writer: &mut Writer, records: usize, bytes: usize| {
            (0..records).for_each(|_| _ = writer.append(&vec![1; bytes]).expect("it has not failed"));
        };
        append(&mut writer, 3, 10);
        assert!(is_due(0, Lsn(0), &writer), "nothing is under way");
        let first = writer.take_batch().expect("three records").last;
        append(&mut writer, 2, 10);
        assert!(!is_due(1, first, &writer), "two wait for three");
        append(&mut writer, 1, 10);
        assert!(is_due(1, first, &writer));
        let second = writer.take_batch().expect("three more").last;
        append(&mut writer, 5, 10);
        assert!(!is_due(2, second, &writer), "five wait for six");
        writer.synced(first);
        assert!(is_due(1, second, &writer), "and not for three");
        let third = writer.take_batch().expect("five").last;
        append(&mut writer, 1, WRITE_BYTES as usize);
        assert!(is_due(2, third, &writer), "one that is large waits for nothing");
    }
}
