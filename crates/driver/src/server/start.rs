//! Starts a server's threads in order, and ends them in order.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use loligo_journal::table::Meta;
use loligo_journal::{Writer, WriterConfig};
use loligo_mds::{Input, Mds, Now, TableMeta};
use loligo_namespace::Loaded;
use loligo_store::{Backend, Batch, Durability, Table};
use loligo_types::Lsn;

use super::data::DataPlane;
use super::error::{Result, ServerError, system};
use super::format::{hash_key, now as wall};
use super::journal::{Journal, Segments};
use super::listen::Listeners;
use super::load::Loader;
use super::metrics::Metrics;
use super::queue::{Inbox, Queue};
use super::rank::{Done, End, Limits, Queues, Rank};
use super::recover::{Head, Progress, read_head, read_small, replay};
use super::rows::put_meta;
use super::table::{Checkpointer, run_loader};
use super::{Ended, Server, ServerConfig, data};
use crate::Address;
use crate::sock::Waker;

/// The one rank there is for now.
const RANK: u32 = 0;
/// The journal may always be this large, bytes.
const JOURNAL_MIN: u64 = 16 << 20;

/// Threads beside the rank's, with what ends them.
struct Helpers {
    queues: Queues,
    data: Arc<Queue<super::data::Job>>,
    others: Vec<JoinHandle<()>>,
    checkpointer: JoinHandle<Option<Lsn>>,
}

pub(crate) fn start(config: ServerConfig, progress: &mut dyn FnMut(Progress)) -> Result<Server> {
    let begun = Instant::now();
    let backend = config.backend.clone();
    let listeners = Listeners::open(&config.listen)?;
    let addresses = listeners.addresses();
    let head = read_head(&*backend.table())?;
    let data_epoch = head.next_data_epoch();
    let (mut mds, tail) = recover(&config, &head, begun, progress)?;
    mds.recovered(mono(begun), Lsn(tail.next_lsn.0 - 1));
    for address in &addresses {
        let Address::Unix(socket) = address else { continue };
        for session in crate::alive::dead(socket) {
            mds.handle(mono(begun), Input::PeerDead { session });
        }
    }
    set_running(&*backend.table(), data_epoch)?;

    let metrics = Arc::new(Metrics::default());
    let waker = Waker::new().map_err(system("making an event"))?;
    let inbox = Inbox::new(waker.clone());
    let log = backend.log_dir(RANK)?;
    let journal_bytes = config.journal_bytes.max(JOURNAL_MIN);
    // Segments go as a whole: several must fit, or changes would wait for space that nothing can free.
    let segment_size = config.segment_bytes.clamp(JOURNAL_MIN / 16, journal_bytes / 8);
    let writer_config = WriterConfig { fs: backend.identity().fs_id, rank: RANK, segment_size };
    let writer = Writer::resume(writer_config, &tail);
    metrics.journal_space.set(writer.space());
    let segments = Arc::new(Segments::default());
    let journal = Journal::new(writer, log, segments.clone(), metrics.clone());
    let helpers = helpers(&config, journal, segments, &inbox, &metrics)?;

    let ServerConfig { connections_max: connections, trust_tcp, look, .. } = config;
    let limits = Limits { connections, journal_bytes, trust_tcp, look };
    let queues = Queues {
        journal: helpers.queues.journal.clone(),
        home: helpers.queues.home.clone(),
        table: helpers.queues.table.clone(),
        loads: helpers.queues.loads.clone(),
    };
    let plane = DataPlane::new(helpers.data.clone());
    let rank = Rank::new(mds, plane, queues, inbox.clone(), &waker, metrics.clone(), limits, listeners, begun)
        .map_err(system("making the event loop"))?;
    let ended = Arc::new(Ended::default());
    let rank_thread = spawn("loligo-rank", move || rank.run())?;
    let supervisor = {
        let (ended, backend) = (ended.clone(), backend.clone());
        spawn("loligo-server", move || supervise(rank_thread, helpers, &*backend, &ended))?
    };
    Ok(Server { backend, inbox, metrics, addresses, supervisor: Mutex::new(Some(supervisor)), ended })
}

fn mono(begun: Instant) -> Now {
    Now { mono_ms: begun.elapsed().as_millis() as u64, wall: wall() }
}

/// The machine with what the table and the journal tell.
fn recover(
    config: &ServerConfig,
    head: &Head,
    begun: Instant,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Mds, loligo_journal::Tail)> {
    let backend = &*config.backend;
    let table = backend.table();
    let mut meta = TableMeta::default();
    read_small(&*table, head, &mut |loaded| match loaded {
        Loaded::NextIno(ino) => meta.next_ino = ino,
        Loaded::Session(session) => meta.sessions.push(session),
        Loaded::Orphan(ino) => meta.orphans.push(ino),
        Loaded::Discard { ino, from, object_size } => meta.discards.push((ino, from, object_size)),
        _ => {}
    })?;
    let settings = loligo_mds::Config {
        rank: RANK,
        fs_id: backend.identity().fs_id,
        hash_key: hash_key(backend),
        data_epoch: head.next_data_epoch(),
        ..config.mds.clone()
    };
    let mut mds = Mds::recover(settings, meta, mono(begun));
    let tail = replay(backend, RANK, head.replay_from, progress, &mut |lsn, record| mds.replay(lsn, &record))?;
    Ok((mds, tail))
}

/// Says in the table that a server runs, so that the next start has something to recover unless this one stops cleanly.
fn set_running(table: &dyn Table, data_epoch: u64) -> Result<()> {
    let mut batch = Batch::new();
    put_meta(&mut batch, Meta::Clean, 0);
    put_meta(&mut batch, Meta::DataEpoch, data_epoch);
    table.write(&batch, Durability::Sync)?;
    Ok(())
}

/// Says in the table that the next start has nothing to recover, and that no data was lost. First makes that true.
fn set_clean(backend: &dyn Backend, replay_from: Option<Lsn>) -> Result<()> {
    backend.blobs().sync_all()?;
    let table = backend.table();
    let mut batch = Batch::new();
    put_meta(&mut batch, Meta::Clean, 1);
    if let Some(lsn) = replay_from {
        put_meta(&mut batch, Meta::ReplayFrom, lsn.0);
    }
    table.write(&batch, Durability::Sync)?;
    Ok(())
}

fn spawn<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    thread::Builder::new().name(name.into()).spawn(body).map_err(system("starting a thread"))
}

fn helpers(
    config: &ServerConfig,
    journal: Journal,
    segments: Arc<Segments>,
    inbox: &Arc<Inbox<Done>>,
    metrics: &Arc<Metrics>,
) -> Result<Helpers> {
    let backend = &config.backend;
    let queues = Queues { journal: Queue::new(), home: Queue::new(), table: Queue::new(), loads: Queue::new() };
    let data = Queue::new();
    let mut others = Vec::new();
    queues.home.push(Box::new(journal));
    let (home, queue, to) = (queues.home.clone(), queues.journal.clone(), inbox.clone());
    others.push(spawn("loligo-journal", move || Journal::run_thread(&home, &queue, &to))?);
    let checkpointer = Checkpointer {
        backend: backend.clone(),
        table: backend.table(),
        segments,
        journal: queues.journal.clone(),
        metrics: metrics.clone(),
    };
    let (queue, to) = (queues.table.clone(), inbox.clone());
    let checkpointer = spawn("loligo-table", move || checkpointer.run(&queue, &to))?;
    for at in 0..config.load_threads.max(1) {
        let loader = Loader::new(backend.table(), hash_key(&**backend));
        let (queue, to) = (queues.loads.clone(), inbox.clone());
        others.push(spawn(&format!("loligo-load-{at}"), move || run_loader(&loader, &queue, &to))?);
    }
    for at in 0..config.data_threads.max(1) {
        let (blobs, queue, to) = (backend.blobs(), Arc::clone(&data), inbox.clone());
        others.push(spawn(&format!("loligo-data-{at}"), move || data::run(&*blobs, &queue, &to))?);
    }
    Ok(Helpers { queues, data, others, checkpointer })
}

/// Waits for the rank's end, ends the other threads, and says on disk how it went.
fn supervise(rank: JoinHandle<End>, helpers: Helpers, backend: &dyn Backend, ended: &Ended) -> Result<()> {
    let end = rank.join().unwrap_or_else(|_| End::Fatal("the rank thread panicked; this is a bug".into()));
    helpers.data.close();
    helpers.queues.loads.close();
    helpers.queues.table.close();
    let trimmed = helpers.checkpointer.join();
    helpers.queues.journal.close();
    helpers.queues.home.close();
    let panicked = helpers.others.into_iter().map(JoinHandle::join).filter(|joined| joined.is_err()).count();
    let result = match (&end, trimmed, panicked) {
        (End::Fatal(text), _, _) => Err(ServerError::Fatal(text.clone())),
        (End::Stopped, Ok(trimmed), 0) => set_clean(backend, trimmed).and_then(|()| Ok(backend.close()?)),
        _ => Err(ServerError::Fatal("a thread of the server panicked; this is a bug".into())),
    };
    *ended.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
    ended.told.notify_all();
    result
}
