//! Starts a server's threads in order, and ends them in order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use loligo_journal::table::Meta;
use loligo_journal::{Tail, Writer, WriterConfig};
use loligo_mds::{Input, Mds, Now};
use loligo_rows::{Loader, Pieces, put_meta, read_head, read_meta};
use loligo_store::{Backend, Batch, Durability, Table};
use loligo_store_remote::Service;
use loligo_types::{ClusterMap, Lsn, Rank as RankId};

use super::auth::Auth;
use super::cluster::{Others, address_of, told};
use super::data::{DataPlane, Jobs};
use super::error::{Result, ServerError, system};
use super::format::{hash_key, now as wall};
use super::joined::{JOIN_TIME, JoinAgent, Joint};
use super::journal::{Journal, Segments};
use super::listen::Listeners;
use super::members::Members;
use super::membership::{Farewell, MembershipEvent, MembershipThread, Seats, names};
use super::policy::{Adviser, Notes, put_default, settle};
use super::queue::{Inbox, Queue};
use super::rank::{Done, End, Limits, Queues, Rank};
use super::recover::{Progress, replay};
use super::slots::Connections;
use super::start_shared::join_servers;
use super::store_owner::{self, StoreOwner, StoreOwnerParts};
use super::stray_search::StraySearch;
use super::table::{Checkpointer, run_loader};
use super::{Ended, Seat, Server, ServerConfig, data, fencing};
use crate::Address;
use crate::sock::Waker;

/// The journal may always be this large, bytes.
const JOURNAL_MIN: u64 = 16 << 20;
/// A disk is at least so many times as large as the journal of a rank.
const DISK_TO_JOURNAL: u64 = 16;

/// Threads beside the rank's, with what ends them.
pub(super) struct Helpers {
    queues: Queues,
    data: Jobs,
    others: Vec<JoinHandle<()>>,
    checkpointer: JoinHandle<Option<Lsn>>,
}

/// A rank whose threads run.
pub(super) struct Running {
    pub(super) thread: JoinHandle<End>,
    pub(super) helpers: Helpers,
}

/// A rank as the table and its journal tell.
pub(super) struct Recovered {
    pub(super) rank: RankId,
    pub(super) mds: Mds,
    pub(super) tail: Tail,
    pub(super) listeners: Listeners,
    /// Where clients begin, if they begin at this rank and it is not the first one, which has no other address.
    pub(super) door: Listeners,
}

pub(crate) fn start(mut config: ServerConfig, progress: &mut dyn FnMut(Progress)) -> Result<Server> {
    if let Some(servers) = config.backend.servers() {
        return join_servers(config, servers, progress);
    }
    let begun = Instant::now();
    let backend = config.backend.clone();
    let table = backend.table();
    // First, as it says whether there is a file system at all.
    let head = read_head(&*table, RankId::ZERO)?;
    let mut members = Members::read(&*table, head.ranks)?;
    members.fill(config.ranks)?;
    if !members.is_single() {
        // Ranks may listen elsewhere than before.
        members.epoch += 1;
    }
    let notes = Notes::new(table.clone());
    let by_default = settle(&notes, &config.default_policy, &mut members)?;
    let own: BTreeSet<RankId> =
        members.states.keys().filter(|rank| !config.elsewhere.contains(rank)).copied().collect();
    let away = elsewhere(&config, &members)?;
    let listeners = listen(&config, &own)?;
    // The first one has no other address.
    let mut door = if own.contains(&RankId::ZERO) { Listeners::default() } else { Listeners::open(&config.listen)? };
    let address = |rank: RankId| match listeners.get(&rank) {
        Some(listeners) => told(&listeners.addresses()),
        None => away.get(&rank).cloned(),
    };
    let map = members.map(address);
    let data_epoch = head.next_data_epoch();
    config.auth = Some(auth(&config)?);
    let mut known = Known::of(&*backend, &own, progress)?;
    let mut recovered = Vec::new();
    for (rank, listeners) in listeners {
        let (mds, tail) = recover(&config, rank, data_epoch, &map, begun, &mut known)?;
        // The lowest one has it.
        let door = std::mem::take(&mut door);
        recovered.push(Recovered { rank, mds, tail, listeners, door });
    }
    tell_deaths(&mut recovered, begun);
    let mut batch = Batch::new();
    if let Some(one) = by_default {
        tracing::info!("policy {} is in force: {}", one.policy.0, one.why);
        put_default(&notes, &mut batch, &one)?;
    }
    set_running(&*table, batch, data_epoch, &members)?;
    run(config, recovered, members, data_epoch, begun, (away, map))
}

/// Recovers and starts the ranks of a process that has joined another one.
pub(crate) fn join(mut config: ServerConfig, joint: Joint, progress: &mut dyn FnMut(Progress)) -> Result<Server> {
    let begun = Instant::now();
    let backend = joint.backend();
    config.backend = backend.clone();
    let own: BTreeSet<RankId> = joint.ranks().iter().copied().collect();
    let (map, data_epoch) = (joint.told().map.clone(), joint.told().data_epoch);
    let listeners = listen(&config, &own)?;
    let auth = auth(&config)?;
    config.auth = Some(auth.clone());
    let mut known = Known::of(&*backend, &own, progress)?;
    let mut recovered = Vec::new();
    for (rank, listeners) in listeners {
        let (mds, tail) = recover(&config, rank, data_epoch, &map, begun, &mut known)?;
        recovered.push(Recovered { rank, mds, tail, listeners, door: Listeners::default() });
    }
    tell_deaths(&mut recovered, begun);
    let (to_self, news) = channel();
    let Launched { seats, running, .. } =
        launch(&config, recovered, begun, &to_self, |others| others.among(Some(joint.link().clone())))?;
    let of_rank = |(rank, seat): (&RankId, &Arc<Seat>)| Some((*rank, told(&seat.addresses)?.to_string()));
    let (own, addresses) = {
        let seats = seats.lock().unwrap_or_else(PoisonError::into_inner);
        let first = seats.values().next().map(|seat| seat.addresses.clone()).unwrap_or_default();
        (seats.iter().filter_map(of_rank).collect(), first)
    };
    let ended = Arc::new(Ended::default());
    let (at, told, to) = (seats.clone(), ended.clone(), to_self.clone());
    let leaving = BTreeSet::new();
    let (arrived, here) = channel();
    let join_agent = JoinAgent {
        joint,
        backend: backend.clone(),
        seats: at,
        running,
        leaving,
        news,
        to_self: to,
        ended: told,
        arrived,
    };
    let watch = auth.begin_to_watch(&seats)?;
    let supervisor = Mutex::new(Some(spawn("loligo-server", move || join_agent.run(own))?));
    let keeper = Mutex::new(to_self);
    let server = Server {
        backend,
        addresses,
        seats,
        auth,
        _watch: Some(watch),
        hub: None,
        has_joined: true,
        view: None,
        peers: None,
        keeper,
        resident_at: Default::default(),
        supervisor,
        ended,
    };
    if here.recv_timeout(JOIN_TIME).is_err() {
        let silent = || "the server of the data directory does not answer: look at its log".into();
        return Err(ServerError::Fatal(server.wait_fatal(Some(Duration::ZERO)).unwrap_or_else(silent)));
    }
    Ok(server)
}

/// The list of identities.
fn auth(config: &ServerConfig) -> Result<Arc<Auth>> {
    let auth = Auth::open(&*config.backend)?;
    if config.listen.iter().any(|address| matches!(address, Address::Tcp(_))) {
        auth.prepare()?;
    }
    Ok(auth)
}

/// Where clients will reach the ranks that other processes are to run.
fn elsewhere(config: &ServerConfig, members: &Members) -> Result<BTreeMap<RankId, Address>> {
    let refused = |text: String| Err(ServerError::Refused(text));
    let mut addresses = BTreeMap::new();
    for rank in &config.elsewhere {
        if *rank == RankId::ZERO {
            return refused("rank 0 is run by the process that owns the data directory: name others".into());
        }
        if !members.states.contains_key(rank) {
            let there = names(members.states.keys());
            return refused(format!("rank {rank} cannot be run elsewhere, as it is not there; there are: {there}"));
        }
        if members.states.keys().all(|rank| config.elsewhere.contains(rank)) {
            return refused(
                "the process that owns the data directory runs at least one rank itself: leave it one".into(),
            );
        }
        let unix = config.listen.iter().find(|address| matches!(address, Address::Unix(_)));
        let Some(first) = unix else {
            return refused("other processes join over a Unix socket, and this server listens on none".into());
        };
        addresses.insert(*rank, address_of(first, *rank)?);
    }
    Ok(addresses)
}

/// Opens the addresses of these ranks, or none.
fn listen(config: &ServerConfig, ranks: &BTreeSet<RankId>) -> Result<BTreeMap<RankId, Listeners>> {
    let of = |rank: &RankId| {
        let addresses: Result<Vec<Address>> = config.listen.iter().map(|at| address_of(at, *rank)).collect();
        Ok((*rank, Listeners::open(&addresses?)?))
    };
    ranks.iter().map(of).collect()
}

/// Tells the ranks which of the clients of before are dead. The ranks' sockets lie in one directory, and so do the signs.
pub(super) fn tell_deaths(recovered: &mut [Recovered], begun: Instant) {
    let sockets: Vec<PathBuf> = recovered.iter().flat_map(|r| r.listeners.files().map(Path::to_path_buf)).collect();
    let own: BTreeSet<RankId> = recovered.iter().map(|recovered| recovered.rank).collect();
    for session in sockets.iter().flat_map(|socket| crate::alive::dead(socket, |session| own.contains(&session.rank())))
    {
        if let Some(rank) = recovered.iter_mut().find(|recovered| recovered.rank == session.rank()) {
            rank.mds.handle(mono(begun), Input::PeerDead { session });
        }
    }
}

/// The seat of a rank, and what wakes it.
pub(super) fn seat(recovered: &Recovered) -> Result<(Seat, Waker)> {
    let waker = Waker::new().map_err(system("making an event"))?;
    let inbox = Inbox::new(waker.clone());
    let addresses = recovered.listeners.addresses();
    Ok((Seat { inbox, metrics: Arc::default(), advice: Arc::default(), addresses }, waker))
}

/// Where clients begin, with the ports that the system chose.
fn door_addresses(recovered: &[Recovered]) -> Vec<Address> {
    let first = recovered.iter().find(|recovered| recovered.rank == RankId::ZERO);
    let door = first.map(|first| &first.listeners).or(recovered.first().map(|lowest| &lowest.door));
    door.map(Listeners::addresses).unwrap_or_default()
}

/// Starts the threads of all ranks of the owner of the data directory.
fn run(
    config: ServerConfig,
    recovered: Vec<Recovered>,
    members: Members,
    data_epoch: u64,
    begun: Instant,
    (elsewhere, map): (BTreeMap<RankId, Address>, ClusterMap),
) -> Result<Server> {
    let (to_keeper, news) = channel();
    let addresses = door_addresses(&recovered);
    let resident_at = Arc::<Mutex<Option<RankId>>>::default();
    let among = |others: Others| if elsewhere.is_empty() { others } else { others.among(None) };
    let Launched { seats, door_at, running, unstopped } = launch(&config, recovered, begun, &to_keeper, among)?;
    let ended = Arc::new(Ended::default());
    let backend = config.backend.clone();
    let auth = made(&config)?;
    let mut keeper = MembershipThread {
        config,
        members,
        data_epoch,
        begun,
        seats: seats.clone(),
        running,
        unstopped: unstopped.clone(),
        news,
        to_self: to_keeper.clone(),
        ended: ended.clone(),
        waiting: BTreeMap::new(),
        is_stopping: false,
        door_at,
        resident_at: resident_at.clone(),
        log_lines: 0,
        hub: None,
        placing: None,
        search: None,
    };
    if !elsewhere.is_empty() {
        match open_hub(&keeper, elsewhere, map) {
            Ok(hub) => keeper.hub = Some(hub),
            Err(error) => {
                // The ranks run already; what they have is in their journals.
                let _ = to_keeper.send(MembershipEvent::Abandon);
                let _ = keeper.run();
                return Err(error);
            }
        }
    }
    let inboxes =
        seats.lock().unwrap_or_else(PoisonError::into_inner).values().map(|seat| seat.inbox.clone()).collect();
    match StraySearch::start(backend.clone(), inboxes) {
        Ok(search) => keeper.search = Some(search),
        Err(error) => tracing::warn!(%error, "objects that no file tells of are searched by the next start"),
    }
    let hub = keeper.hub.clone();
    let supervisor = spawn("loligo-server", move || keeper.run())?;
    let supervisor = Mutex::new(Some(supervisor));
    let keeper = Mutex::new(to_keeper);
    let (has_joined, view, peers, _watch) = (false, None, None, None);
    Ok(Server {
        backend,
        addresses,
        seats,
        auth,
        _watch,
        hub,
        has_joined,
        view,
        peers,
        keeper,
        resident_at,
        supervisor,
        ended,
    })
}

/// The list that [`auth`] has made.
fn made(config: &ServerConfig) -> Result<Arc<Auth>> {
    config.auth.clone().ok_or_else(|| ServerError::Fatal("nobody can come in; this is a bug".into()))
}

/// Serves the store to the processes that run the other ranks.
fn open_hub(
    keeper: &MembershipThread,
    addresses: BTreeMap<RankId, Address>,
    map: ClusterMap,
) -> Result<Arc<StoreOwner>> {
    let listen = &keeper.config.listen;
    let (Some(socket), Some(store)) = (store_owner::join_socket(listen), store_owner::store_socket(listen)) else {
        return Err(ServerError::Refused("other processes join over a Unix socket".into()));
    };
    let backend = keeper.config.backend.clone();
    let refused =
        |cause: std::io::Error| ServerError::Listen { address: store.display().to_string(), cause: cause.to_string() };
    StoreOwner::start(StoreOwnerParts {
        fs_id: backend.identity().fs_id,
        data_epoch: keeper.data_epoch,
        elsewhere: addresses.keys().copied().collect(),
        addresses,
        store: Service::start(backend, &store).map_err(refused)?,
        socket,
        seats: keeper.seats.clone(),
        keeper: keeper.to_self.clone(),
        unstopped: keeper.unstopped.clone(),
        map,
    })
}

/// Ranks whose threads run.
struct Launched {
    seats: Seats,
    /// The lowest one, where clients begin.
    door_at: RankId,
    running: BTreeMap<RankId, Running>,
    unstopped: Arc<AtomicUsize>,
}

/// Starts the threads of the ranks of a process; none runs before all can.
fn launch(
    config: &ServerConfig,
    recovered: Vec<Recovered>,
    begun: Instant,
    to_keeper: &Sender<MembershipEvent>,
    among: impl Fn(Others) -> Others,
) -> Result<Launched> {
    let unstopped = Arc::new(AtomicUsize::new(recovered.len()));
    let seats: Vec<(Seat, Waker)> = recovered.iter().map(seat).collect::<Result<_>>()?;
    let inboxes: BTreeMap<RankId, Arc<Inbox<Done>>> =
        recovered.iter().zip(&seats).map(|(recovered, (seat, _))| (recovered.rank, seat.inbox.clone())).collect();
    let mut ready = Vec::new();
    let mut by_rank = BTreeMap::new();
    for (recovered, (seat, waker)) in recovered.into_iter().zip(seats) {
        let rank = recovered.rank;
        let others = among(Others::new(rank, inboxes.clone(), unstopped.clone(), to_keeper.clone()));
        ready.push((rank, prepare(config, recovered, others, &seat, &waker, begun)?));
        by_rank.insert(rank, Arc::new(seat));
    }
    let Some((door_at, _)) = by_rank.first_key_value() else {
        return Err(ServerError::Fatal("a file system without ranks; this is a bug".into()));
    };
    let door_at = *door_at;
    let mut running = BTreeMap::new();
    for (rank, (machine, helpers)) in ready {
        running.insert(rank, Running { thread: spawn_rank(machine, rank, to_keeper.clone())?, helpers });
    }
    Ok(Launched { seats: Arc::new(Mutex::new(by_rank)), door_at, running, unstopped })
}

/// Starts a rank's thread.
pub(super) fn spawn_rank(machine: Rank, rank: RankId, keeper: Sender<MembershipEvent>) -> Result<JoinHandle<End>> {
    let farewell = Farewell { rank, to: keeper };
    spawn(&format!("loligo-rank-{rank}"), move || {
        let _farewell = farewell;
        machine.run()
    })
}

/// A rank's loop and the threads beside it.
pub(super) fn prepare(
    config: &ServerConfig,
    recovered: Recovered,
    others: Others,
    seat: &Seat,
    waker: &Waker,
    begun: Instant,
) -> Result<(Rank, Helpers)> {
    let backend = &config.backend;
    let Recovered { mds, tail, listeners, door, .. } = recovered;
    let (number, metrics) = (u32::from(others.own().0), seat.metrics.clone());
    let log = backend.log_dir(number)?;
    let journal_bytes = journal_bytes(config).max(JOURNAL_MIN);
    // Segments go as a whole: several must fit, or each change would wait for the checkpoint of the one before it.
    let segment_size = config.segment_bytes.clamp(JOURNAL_MIN / 16, journal_bytes / 8);
    let writer_config = WriterConfig { fs: backend.identity().fs_id, rank: number, segment_size };
    let writer = Writer::resume(writer_config, &tail);
    metrics.journal_space.set(writer.space());
    let segments = Arc::new(Segments::default());
    let journal = Journal::new(writer, log, segments.clone(), metrics.clone());
    let helpers = helpers(config, &others, journal, segments, seat)?;
    let ServerConfig { connections_max, trust_tcp, look, .. } = *config;
    let connections = Connections::of_rank(connections_max, &config.connections);
    let (lease, full) = (backend.lease(), backend.full());
    let limits = Limits { lease, full, auth: made(config)?, connections, journal_bytes, trust_tcp, look };
    let queues = Queues {
        journal: helpers.queues.journal.clone(),
        home: helpers.queues.home.clone(),
        table: helpers.queues.table.clone(),
        loads: helpers.queues.loads.clone(),
        policy: helpers.queues.policy.clone(),
        shut_out: helpers.queues.shut_out.clone(),
    };
    let plane = DataPlane::new(helpers.data.clone(), backend.blobs());
    let rank =
        Rank::new(mds, plane, queues, seat.inbox.clone(), waker, metrics, limits, (listeners, door), others, begun)
            .map_err(system("making the event loop"))?;
    Ok((rank, helpers))
}

/// Size limit of the journal: on a small disk it leaves room for the rest.
fn journal_bytes(config: &ServerConfig) -> u64 {
    let disk = config.backend.statfs().map_or(u64::MAX, |space| space.total_bytes);
    config.journal_bytes.min(disk / DISK_TO_JOURNAL)
}

fn mono(begun: Instant) -> Now {
    Now { mono_ms: begun.elapsed().as_millis() as u64, wall: wall() }
}

/// Progress of reading the journals of all ranks.
pub(super) struct Known<'a> {
    before: Progress,
    total_bytes: u64,
    tell: &'a mut dyn FnMut(Progress),
}

impl<'a> Known<'a> {
    /// One journal, of which nobody hears.
    pub(super) fn nothing(tell: &'a mut dyn FnMut(Progress)) -> Known<'a> {
        Known { before: Progress::default(), total_bytes: 0, tell }
    }

    pub(super) fn of(
        backend: &dyn Backend,
        ranks: &BTreeSet<RankId>,
        tell: &'a mut dyn FnMut(Progress),
    ) -> Result<Known<'a>> {
        let mut total_bytes = 0;
        for rank in ranks {
            total_bytes += backend.log_dir(u32::from(rank.0))?.list()?.iter().map(|segment| segment.len).sum::<u64>();
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
pub(super) fn recover(
    config: &ServerConfig,
    rank: RankId,
    data_epoch: u64,
    map: &ClusterMap,
    begun: Instant,
    known: &mut Known<'_>,
) -> Result<(Mds, Tail)> {
    let backend = &*config.backend;
    backend.own(u32::from(rank.0))?;
    // Of a store that servers share each life of a rank has a number of its own, beyond any that a server was ever counted by.
    let epoch = backend.servers().and_then(|servers| servers.epoch(u32::from(rank.0)));
    let data_epoch = epoch.map_or(data_epoch, |epoch| (1 << 40) + epoch);
    let table = backend.table();
    let head = read_head(&*table, rank)?;
    let meta = read_meta(&*table, rank, &head)?;
    // Ranks of other processes have the store over a socket, and could shut nobody out.
    let clients = backend.clients().filter(|_| config.direct_data && config.elsewhere.is_empty());
    // Where nobody waits for a sync of the log, nobody does for one of an object.
    let writes_durable = backend.log_dir(u32::from(rank.0))?.is_async();
    let settings = loligo_mds::Config {
        direct: clients.map(|clients| clients.place().into()),
        rank,
        map: map.clone(),
        fs_id: backend.identity().fs_id,
        hash_key: hash_key(backend),
        data_epoch,
        // Nothing is ordered with data that clients write there by themselves.
        journal_max: if writes_durable { 0 } else { config.mds.journal_max },
        writes_durable,
        after_crash: epoch.is_some() || data_epoch != head.data_epoch,
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
/// And which ranks it has, before any of them writes something. `batch`: what else is new.
pub(super) fn set_running(table: &dyn Table, mut batch: Batch, data_epoch: u64, members: &Members) -> Result<()> {
    put_meta(&mut batch, Meta::Clean, RankId::ZERO, 0);
    put_meta(&mut batch, Meta::DataEpoch, RankId::ZERO, data_epoch);
    members.put(&mut batch, None);
    table.write(&batch, Durability::Sync)?;
    Ok(())
}

/// Says in the table that the next start has nothing to recover, and that no data was lost. First makes that true.
/// `trimmed`: for each rank, where its replay starts, if that has changed. `all`: the ranks of other processes have come to a
/// clean stop, too; otherwise only the first is said.
pub(super) fn set_clean(backend: &dyn Backend, trimmed: &[(RankId, Option<Lsn>)], all: bool) -> Result<()> {
    backend.blobs().sync_all()?;
    let table = backend.table();
    let mut batch = Batch::new();
    if all {
        put_meta(&mut batch, Meta::Clean, RankId::ZERO, 1);
    }
    for (rank, lsn) in trimmed {
        if let Some(lsn) = lsn {
            put_meta(&mut batch, Meta::ReplayFrom, *rank, lsn.0);
        }
    }
    table.write(&batch, Durability::Sync)?;
    Ok(())
}

/// The same of one rank that has stopped.
pub(super) fn note_trimmed(table: &dyn Table, rank: RankId, replay_from: Option<Lsn>) -> Result<()> {
    let Some(lsn) = replay_from else { return Ok(()) };
    let mut batch = Batch::new();
    put_meta(&mut batch, Meta::ReplayFrom, rank, lsn.0);
    table.write(&batch, Durability::Sync)?;
    Ok(())
}

pub(super) fn spawn<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
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
    let queues = Queues {
        journal: Queue::new(),
        home: Queue::new(),
        table: Queue::new(),
        loads: Queue::new(),
        policy: Queue::new(),
        shut_out: Queue::new(),
    };
    let data = Jobs::new();
    let mut others = Vec::new();
    journal.begin(&queues.home, inbox);
    let (home, queue, to) = (queues.home.clone(), queues.journal.clone(), inbox.clone());
    others.push(spawn("loligo-journal", move || Journal::run_thread(&home, &queue, &to))?);
    let checkpointer = Checkpointer {
        rank: rank.own(),
        backend: backend.clone(),
        table: backend.table_of(u32::from(rank.own().0))?,
        segments,
        journal: queues.journal.clone(),
        metrics: seat.metrics.clone(),
    };
    let (queue, to) = (queues.table.clone(), inbox.clone());
    let checkpointer = spawn("loligo-table", move || checkpointer.run(&queue, &to))?;
    let adviser = Adviser {
        rank: rank.own(),
        // What a policy remembers is the rank's: it is put down wherever the rank runs.
        notes: Notes::new(backend.table_of(u32::from(rank.own().0))?),
        advice: seat.advice.clone(),
        limits: Default::default(),
    };
    let (queue, to) = (queues.policy.clone(), inbox.clone());
    others.push(spawn("loligo-balancer", move || adviser.run(&queue, &to))?);
    let (clients, queue, to) = (backend.clients(), queues.shut_out.clone(), inbox.clone());
    others.push(spawn("loligo-shut-out", move || fencing::run(clients, &queue, &to))?);
    let share = |threads: usize| threads.div_ceil(rank.count()).max(1);
    for at in 0..share(config.load_threads) {
        let (loader, table) = (Loader::new(hash_key(&**backend), Pieces::default()), backend.table());
        let (queue, to) = (queues.loads.clone(), inbox.clone());
        others.push(spawn(&format!("loligo-load-{at}"), move || run_loader(loader, &*table, &queue, &to))?);
    }
    for (name, threads, queue) in
        [("data", config.data_threads, &data.quick), ("sync", config.sync_threads, &data.syncs)]
    {
        for at in 0..share(threads) {
            let (blobs, queue, to) = (backend.blobs(), Arc::clone(queue), inbox.clone());
            others.push(spawn(&format!("loligo-{name}-{at}"), move || data::run(&*blobs, &queue, &to))?);
        }
    }
    Ok(Helpers { queues, data, others, checkpointer })
}

impl Helpers {
    /// Ends the threads; says where replay would start now. `None`: one of them panicked.
    pub(super) fn end(self) -> Option<Option<Lsn>> {
        self.data.close();
        self.queues.loads.close();
        self.queues.policy.close();
        self.queues.shut_out.close();
        self.queues.table.close();
        let trimmed = self.checkpointer.join();
        self.queues.journal.close();
        self.queues.home.close();
        let panicked = self.others.into_iter().map(JoinHandle::join).filter(|joined| joined.is_err()).count();
        trimmed.ok().filter(|_| panicked == 0)
    }
}
