//! Starts a server's threads in order, and ends them in order.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use loligo_journal::table::Meta;
use loligo_journal::{Tail, Writer, WriterConfig};
use loligo_mds::{Input, Mds, Now, TableMeta};
use loligo_namespace::Loaded;
use loligo_store::{Backend, Batch, Durability, Table};
use loligo_types::{ClusterMap, Lsn, Rank as RankId};

use super::cluster::{Others, address_of, map_of, ranks_to_start};
use super::data::DataPlane;
use super::error::{Result, ServerError, system};
use super::format::{hash_key, now as wall};
use super::journal::{Journal, Segments};
use super::listen::Listeners;
use super::load::Loader;
use super::queue::{Inbox, Queue};
use super::rank::{Done, End, Limits, Queues, Rank};
use super::recover::{Progress, read_head, read_routes, read_small, replay};
use super::rows::put_meta;
use super::table::{Checkpointer, run_loader};
use super::{Ended, Seat, Server, ServerConfig, data};
use crate::Address;
use crate::sock::Waker;

/// The journal may always be this large, bytes.
const JOURNAL_MIN: u64 = 16 << 20;

/// Threads beside the rank's, with what ends them.
struct Helpers {
    queues: Queues,
    data: Arc<Queue<super::data::Job>>,
    others: Vec<JoinHandle<()>>,
    checkpointer: JoinHandle<Option<Lsn>>,
}

/// A rank whose threads run.
struct Running {
    thread: JoinHandle<End>,
    helpers: Helpers,
}

/// A rank as the table and its journal tell.
struct Recovered {
    mds: Mds,
    tail: Tail,
    listeners: Listeners,
}

pub(crate) fn start(config: ServerConfig, progress: &mut dyn FnMut(Progress)) -> Result<Server> {
    let begun = Instant::now();
    let backend = config.backend.clone();
    let table = backend.table();
    // First, as it says whether there is a file system at all.
    let head = read_head(&*table, RankId::ZERO)?;
    let count = ranks_to_start(config.ranks, head.ranks)?;
    let listeners = listen(&config, count)?;
    let addresses: Vec<Vec<Address>> = listeners.iter().map(Listeners::addresses).collect();
    let map = map_of(&addresses);
    let mut known = Known::of(&*backend, count, progress)?;
    let mut recovered = Vec::new();
    for (rank, listeners) in (0..).map(RankId).zip(listeners) {
        let (mds, tail) = recover(&config, rank, head.next_data_epoch(), &map, begun, &mut known)?;
        recovered.push(Recovered { mds, tail, listeners });
    }
    tell_deaths(&mut recovered, begun);
    set_running(&*table, head.next_data_epoch(), count)?;
    run(config, recovered, addresses, begun)
}

/// Opens the addresses of all ranks, or none.
fn listen(config: &ServerConfig, count: u16) -> Result<Vec<Listeners>> {
    let of = |rank: u16| {
        let addresses: Result<Vec<Address>> = config.listen.iter().map(|at| address_of(at, RankId(rank))).collect();
        Listeners::open(&addresses?)
    };
    (0..count).map(of).collect()
}

/// Tells the ranks which of the clients of before are dead. The ranks' sockets lie in one directory, and so do the signs.
fn tell_deaths(recovered: &mut [Recovered], begun: Instant) {
    let sockets: Vec<PathBuf> = recovered.iter().flat_map(|r| r.listeners.files().map(Path::to_path_buf)).collect();
    for session in sockets.iter().flat_map(|socket| crate::alive::dead(socket)) {
        if let Some(rank) = recovered.get_mut(usize::from(session.rank().0)) {
            rank.mds.handle(mono(begun), Input::PeerDead { session });
        }
    }
}

/// Starts the threads of all ranks.
fn run(
    config: ServerConfig,
    recovered: Vec<Recovered>,
    addresses: Vec<Vec<Address>>,
    begun: Instant,
) -> Result<Server> {
    let mut wakers = Vec::new();
    for _ in &recovered {
        wakers.push(Waker::new().map_err(system("making an event"))?);
    }
    let inboxes: Vec<Arc<Inbox<Done>>> = wakers.iter().map(|waker| Inbox::new(waker.clone())).collect();
    let seat = |(inbox, addresses): (&Arc<Inbox<Done>>, Vec<Address>)| Seat {
        inbox: inbox.clone(),
        metrics: Arc::default(),
        addresses,
    };
    let seats: Vec<Seat> = inboxes.iter().zip(addresses).map(seat).collect();
    let mut ready = Vec::new();
    for (((recovered, others), seat), waker) in recovered.into_iter().zip(Others::of(&inboxes)).zip(&seats).zip(&wakers)
    {
        ready.push(prepare(&config, recovered, others, seat, waker, begun)?);
    }
    // None runs before all can.
    let alone = ready.len() == 1;
    let mut running = Vec::new();
    for (at, (rank, helpers)) in ready.into_iter().enumerate() {
        let name = if alone { "loligo-rank".to_owned() } else { format!("loligo-rank-{at}") };
        running.push(Running { thread: spawn(&name, move || rank.run())?, helpers });
    }
    let ended = Arc::new(Ended::default());
    let backend = config.backend;
    let supervisor = {
        let (ended, backend) = (ended.clone(), backend.clone());
        spawn("loligo-server", move || supervise(running, &*backend, &ended))?
    };
    Ok(Server { backend, ranks: seats, supervisor: Mutex::new(Some(supervisor)), ended })
}

/// A rank's loop and the threads beside it.
fn prepare(
    config: &ServerConfig,
    recovered: Recovered,
    others: Others,
    seat: &Seat,
    waker: &Waker,
    begun: Instant,
) -> Result<(Rank, Helpers)> {
    let backend = &config.backend;
    let Recovered { mds, tail, listeners } = recovered;
    let (number, metrics) = (u32::from(others.own().0), seat.metrics.clone());
    let log = backend.log_dir(number)?;
    let journal_bytes = config.journal_bytes.max(JOURNAL_MIN);
    // Segments go as a whole: several must fit, or changes would wait for space that nothing can free.
    let segment_size = config.segment_bytes.clamp(JOURNAL_MIN / 16, journal_bytes / 8);
    let writer_config = WriterConfig { fs: backend.identity().fs_id, rank: number, segment_size };
    let writer = Writer::resume(writer_config, &tail);
    metrics.journal_space.set(writer.space());
    let segments = Arc::new(Segments::default());
    let journal = Journal::new(writer, log, segments.clone(), metrics.clone());
    let helpers = helpers(config, &others, journal, segments, seat)?;
    let ServerConfig { connections_max: connections, trust_tcp, look, .. } = *config;
    let limits = Limits { connections, journal_bytes, trust_tcp, look };
    let queues = Queues {
        journal: helpers.queues.journal.clone(),
        home: helpers.queues.home.clone(),
        table: helpers.queues.table.clone(),
        loads: helpers.queues.loads.clone(),
    };
    let plane = DataPlane::new(helpers.data.clone());
    let rank = Rank::new(mds, plane, queues, seat.inbox.clone(), waker, metrics, limits, listeners, others, begun)
        .map_err(system("making the event loop"))?;
    Ok((rank, helpers))
}

fn mono(begun: Instant) -> Now {
    Now { mono_ms: begun.elapsed().as_millis() as u64, wall: wall() }
}

/// How far the journals of all ranks were read.
struct Known<'a> {
    before: Progress,
    total_bytes: u64,
    tell: &'a mut dyn FnMut(Progress),
}

impl<'a> Known<'a> {
    fn of(backend: &dyn Backend, count: u16, tell: &'a mut dyn FnMut(Progress)) -> Result<Known<'a>> {
        let mut total_bytes = 0;
        for rank in 0..count {
            total_bytes += backend.log_dir(u32::from(rank))?.list()?.iter().map(|segment| segment.len).sum::<u64>();
        }
        Ok(Known { before: Progress::default(), total_bytes, tell })
    }

    /// Tells how far all are, of how far the one is that is being read.
    fn tell(&mut self, one: Progress) -> Progress {
        let (records, bytes) = (self.before.records + one.records, self.before.bytes + one.bytes);
        let all = Progress { records, bytes, total_bytes: self.total_bytes, left: one.left };
        (self.tell)(all);
        all
    }
}

/// The machine with what the table and the journal tell.
fn recover(
    config: &ServerConfig,
    rank: RankId,
    data_epoch: u64,
    map: &ClusterMap,
    begun: Instant,
    known: &mut Known<'_>,
) -> Result<(Mds, Tail)> {
    let backend = &*config.backend;
    let table = backend.table();
    let head = read_head(&*table, rank)?;
    let mut meta =
        TableMeta { table_upto: head.table_upto, other_routes: read_routes(&*table)?, ..TableMeta::default() };
    read_small(&*table, rank, &head, &mut |loaded| match loaded {
        Loaded::NextIno(ino) => meta.next_ino = ino,
        Loaded::Session(session) => meta.sessions.push(session),
        Loaded::Orphan(ino) => meta.orphans.push(ino),
        Loaded::Discard { ino, from, object_size } => meta.discards.push((ino, from, object_size)),
        Loaded::Route(route) => meta.routes.push(route),
        Loaded::Peer(peer) => meta.peers.push(peer),
        _ => {}
    })?;
    let settings = loligo_mds::Config {
        rank,
        map: map.clone(),
        fs_id: backend.identity().fs_id,
        hash_key: hash_key(backend),
        data_epoch,
        ..config.mds.clone()
    };
    let mut mds = Mds::recover(settings, meta, mono(begun));
    let mut told = known.before;
    let mut progress = |one| told = known.tell(one);
    let tail = replay(backend, u32::from(rank.0), head.replay_from, &mut progress, &mut |lsn, record| {
        mds.replay(lsn, &record)
    })?;
    known.before = told;
    mds.recovered(mono(begun), Lsn(tail.next_lsn.0 - 1));
    Ok((mds, tail))
}

/// Says in the table that a server runs, so that the next start has something to recover unless this one stops cleanly.
/// And how many ranks it has, before any of them writes something.
fn set_running(table: &dyn Table, data_epoch: u64, ranks: u16) -> Result<()> {
    let mut batch = Batch::new();
    put_meta(&mut batch, Meta::Clean, RankId::ZERO, 0);
    put_meta(&mut batch, Meta::DataEpoch, RankId::ZERO, data_epoch);
    put_meta(&mut batch, Meta::Ranks, RankId::ZERO, u64::from(ranks));
    table.write(&batch, Durability::Sync)?;
    Ok(())
}

/// Says in the table that the next start has nothing to recover, and that no data was lost. First makes that true.
/// `trimmed`: for each rank, where its replay starts, if that has changed.
fn set_clean(backend: &dyn Backend, trimmed: &[Option<Lsn>]) -> Result<()> {
    backend.blobs().sync_all()?;
    let table = backend.table();
    let mut batch = Batch::new();
    put_meta(&mut batch, Meta::Clean, RankId::ZERO, 1);
    for (rank, lsn) in (0..).map(RankId).zip(trimmed) {
        if let Some(lsn) = lsn {
            put_meta(&mut batch, Meta::ReplayFrom, rank, lsn.0);
        }
    }
    table.write(&batch, Durability::Sync)?;
    Ok(())
}

fn spawn<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    thread::Builder::new().name(name.into()).spawn(body).map_err(system("starting a thread"))
}

fn helpers(
    config: &ServerConfig,
    rank: &Others,
    journal: Journal,
    segments: Arc<Segments>,
    seat: &Seat,
) -> Result<Helpers> {
    let (backend, inbox) = (&config.backend, &seat.inbox);
    let queues = Queues { journal: Queue::new(), home: Queue::new(), table: Queue::new(), loads: Queue::new() };
    let data = Queue::new();
    let mut others = Vec::new();
    queues.home.push(Box::new(journal));
    let (home, queue, to) = (queues.home.clone(), queues.journal.clone(), inbox.clone());
    others.push(spawn("loligo-journal", move || Journal::run_thread(&home, &queue, &to))?);
    let checkpointer = Checkpointer {
        rank: rank.own(),
        backend: backend.clone(),
        table: backend.table(),
        segments,
        journal: queues.journal.clone(),
        metrics: seat.metrics.clone(),
    };
    let (queue, to) = (queues.table.clone(), inbox.clone());
    let checkpointer = spawn("loligo-table", move || checkpointer.run(&queue, &to))?;
    let share = |threads: usize| threads.div_ceil(rank.count()).max(1);
    for at in 0..share(config.load_threads) {
        let loader = Loader::new(backend.table(), hash_key(&**backend));
        let (queue, to) = (queues.loads.clone(), inbox.clone());
        others.push(spawn(&format!("loligo-load-{at}"), move || run_loader(&loader, &queue, &to))?);
    }
    for at in 0..share(config.data_threads) {
        let (blobs, queue, to) = (backend.blobs(), Arc::clone(&data), inbox.clone());
        others.push(spawn(&format!("loligo-data-{at}"), move || data::run(&*blobs, &queue, &to))?);
    }
    Ok(Helpers { queues, data, others, checkpointer })
}

impl Helpers {
    /// Ends the threads; says where replay would start now. `None`: one of them panicked.
    fn end(self) -> Option<Option<Lsn>> {
        self.data.close();
        self.queues.loads.close();
        self.queues.table.close();
        let trimmed = self.checkpointer.join();
        self.queues.journal.close();
        self.queues.home.close();
        let panicked = self.others.into_iter().map(JoinHandle::join).filter(|joined| joined.is_err()).count();
        trimmed.ok().filter(|_| panicked == 0)
    }
}

/// Waits for the ranks' end, ends the other threads, and says on disk how it went. A rank that fails ends the others.
fn supervise(running: Vec<Running>, backend: &dyn Backend, ended: &Ended) -> Result<()> {
    let mut end = End::Stopped;
    let mut helpers = Vec::new();
    for rank in running {
        let panicked = |_| End::Fatal("the rank thread panicked; this is a bug".into());
        match rank.thread.join().unwrap_or_else(panicked) {
            fatal @ End::Fatal(_) if end == End::Stopped => end = fatal,
            _ => {}
        }
        helpers.push(rank.helpers);
    }
    let trimmed: Vec<Option<Option<Lsn>>> = helpers.into_iter().map(Helpers::end).collect();
    let trimmed: Option<Vec<Option<Lsn>>> = trimmed.into_iter().collect();
    let result = match (&end, trimmed) {
        (End::Fatal(text), _) => Err(ServerError::Fatal(text.clone())),
        (End::Stopped, Some(trimmed)) => set_clean(backend, &trimmed).and_then(|()| Ok(backend.close()?)),
        (End::Stopped, None) => Err(ServerError::Fatal("a thread of the server panicked; this is a bug".into())),
    };
    *ended.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    ended.told.notify_all();
    result
}
