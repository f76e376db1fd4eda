//! The server of a file system: its threads around the machines, from start to stop.
//!
//! Each rank has a thread that owns its sockets and machines; a journal thread, a checkpoint thread, loading threads and
//! data threads wait for disks in its stead. The rank thread talks to them by queues, they to it by its inbox, and so do
//! ranks to each other. They share the table and the objects.

pub(crate) mod error;
pub(crate) mod format;
pub(crate) mod recover;

mod auth;
mod cluster;
mod conn;
mod data;
mod faults;
mod fencing;
mod joined;
mod journal;
mod link;
mod listen;
pub(crate) mod members;
mod membership;
pub mod metrics;
mod others;
mod peers;
mod policy;
mod queue;
mod rank;
mod rank_placement;
mod rarely;
mod resident;
mod shares;
mod slots;
mod start;
mod start_shared;
mod store_owner;
mod stray_search;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loligo_mds::Rights;
use loligo_mds::admin::{Ask, Told};
use loligo_store::{Backend, Identity, Sight, Snapshots, TableSize};
use loligo_types::{PolicyId, Rank, RankState};

pub use self::auth::{Auth, Listed};
pub use self::cluster::RANKS_MAX;
pub use self::error::{Result, ServerError};
pub use self::faults::DataFault;
pub use self::format::{FormatOptions, format};
pub use self::joined::Joint;
pub use self::listen::check_listen;
pub use self::metrics::Metrics;
pub use self::peers::{Replier, Unanswered};
pub use self::policy::{
    AdviceStatus, Advised, DefaultPolicy, InForce, LogLine, Named, Tick, Version, is_name, policy_before,
};
pub use self::recover::Progress;
pub use self::resident::{Guest, Resident, Took};
pub use self::slots::{Connections, is_last};

use self::membership::{MembershipEvent, Seats, names};
use self::peers::Peers;
use self::policy::{Advice, Notes, is_chosen};
use self::queue::Inbox;
use self::rank::{Command, Done, End};
use self::rank_placement::View;
use self::store_owner::StoreOwner;
use crate::Address;
use crate::sock::Sock;

/// Time for the rank thread to answer a question about it.
const STATUS_TIME: Duration = Duration::from_secs(5);

/// Time for the keeper of the cluster map to do what it is asked.
const KEEPER_TIME: Duration = Duration::from_secs(60);

/// Time for a server that is dropped to stop cleanly.
const DROP_TIME: Duration = Duration::from_secs(30);

/// Configuration of a server.
pub struct ServerConfig {
    /// The store. Whoever opened it holds its lock.
    pub backend: Arc<dyn Backend>,
    /// Number of ranks, at most [`RANKS_MAX`]; 0: as many as there were. Never fewer than there were: each may have changes in its journal.
    /// New ones are added.
    pub ranks: u16,
    /// Those of the ranks that other processes run ([`Server::start_joined`]), not rank 0. They join at a socket beside the first Unix
    /// socket of `listen`, which then has to be there.
    pub elsewhere: BTreeSet<Rank>,
    /// Where clients begin: Unix sockets, and TCP addresses of this host, where they come in over TLS. Rank 0 listens
    /// there, or, once that was removed, another one of this process. Rank N listens beside it: at `loligo-N.sock` for
    /// `loligo.sock`, N ports above (or also at a free one).
    pub listen: Vec<Address>,
    /// Its part in a store that several servers share.
    pub sharing: Sharing,
    /// The policy by which ranks balance as long as nobody has chosen one.
    pub default_policy: DefaultPolicy,
    /// Settings of each rank; file system, key, rank and cluster map are set by the server.
    pub mds: loligo_mds::Config,
    /// Clients without TLS at a TCP address that only this host can reach may claim to be any user. Only where all users of this host may
    /// act as root in the file system: the kernel does not tell who connects over TCP, so otherwise such connections are refused, as they
    /// are on other addresses in any case.
    pub trust_tcp: bool,
    /// Identities that may come in over TLS; set by the server.
    pub auth: Option<Arc<Auth>>,
    /// Most connections of a rank over Unix sockets, and as many over TCP. Of the latter an identity may have half.
    pub connections_max: usize,
    /// Those of all ranks of this process, which have to leave descriptors for everything else.
    pub connections: Arc<Connections>,
    /// The journal of a rank is kept below this, bytes; above, changes wait for checkpoints.
    pub journal_bytes: u64,
    /// A journal segment is about this large, bytes.
    pub segment_bytes: u64,
    /// After a request, how long the rank's thread looks for the next one before it sleeps. It gives its core away to
    /// whoever needs it, but an idle core is kept busy so long. 0: it sleeps at once.
    pub look: Duration,
    /// Threads that read the table, over all ranks; each has one at least.
    pub load_threads: usize,
    /// Threads that read and write file data, likewise.
    pub data_threads: usize,
    /// Threads that make file data durable, likewise: so many files are synced at a time.
    pub sync_threads: usize,
    /// Clients may read and write file data in the store by themselves, if it is one that they can reach.
    pub direct_data: bool,
}

impl ServerConfig {
    /// The defaults, listening nowhere.
    pub fn new(backend: Arc<dyn Backend>) -> ServerConfig {
        ServerConfig {
            backend,
            ranks: 1,
            elsewhere: BTreeSet::new(),
            listen: Vec::new(),
            sharing: Sharing::default(),
            default_policy: None,
            mds: loligo_mds::Config { grace_ms: 5000, ..loligo_mds::Config::default() },
            trust_tcp: false,
            auth: None,
            connections_max: 1024,
            connections: Connections::of_process(usize::MAX),
            journal_bytes: 256 << 20,
            segment_bytes: 32 << 20,
            look: Duration::from_micros(100),
            load_threads: 2,
            data_threads: 2,
            sync_threads: 8,
            direct_data: false,
        }
    }
}

/// A server's part in a store that several share.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    /// Where other servers reach it, as HOST:PORT; `None`: at a free port of the first TCP address of `listen`, or else of this machine only.
    pub at: Option<String>,
    /// It takes its share of the ranks when it comes; otherwise it stands by for those whose server is gone.
    pub takes_share: bool,
    /// It has to lead, and run all ranks that no other server has; otherwise it is refused.
    pub must_lead: bool,
}

/// The address of the Unix socket in a data directory.
pub fn socket_in(data: &Path) -> Address {
    Address::Unix(data.join("loligo.sock"))
}

/// A picture of a rank.
pub struct RankStatus {
    /// Files whose data could not be read or written since the rank was started, at most 64.
    pub faults: Vec<DataFault>,
    /// Number of times that file data could not be read or written.
    pub data_errors: u64,
    /// The rank's number.
    pub rank: Rank,
    /// The metadata server's status.
    pub mds: loligo_mds::Status,
    /// Where it listens.
    pub addresses: Vec<Address>,
    /// All its counters.
    pub metrics: Arc<Metrics>,
    /// State of the balancer's policy there.
    pub advice: AdviceStatus,
}

/// A picture of a server.
pub struct Status {
    /// The file system.
    pub identity: Identity,
    /// Its ranks, by number.
    pub ranks: Vec<RankStatus>,
    /// Where clients begin: the rank there tells them of the others.
    pub addresses: Vec<Address>,
    /// Space of the store's device.
    pub space: loligo_store::StatFs,
    /// The table.
    pub table: TableSize,
}

/// A running server. Dropping it stops it as [`Server::stop_within`] does, with half a minute.
pub struct Server {
    backend: Arc<dyn Backend>,
    /// Where clients begin; in a process that joined another one, where its first rank listens.
    addresses: Vec<Address>,
    seats: Seats,
    auth: Arc<Auth>,
    /// Dropped with it, which ends the thread that looks for changes of the list of identities.
    _watch: Option<auth::Watch>,
    /// To the processes that run other ranks, if there may be some.
    hub: Option<Arc<StoreOwner>>,
    /// It runs ranks for another process.
    has_joined: bool,
    /// The servers that share the store, as they were seen last, if several may.
    view: Option<Arc<Mutex<View>>>,
    /// The connections to them.
    peers: Option<Arc<Peers>>,
    keeper: Mutex<Sender<MembershipEvent>>,
    /// The rank on whose thread the resident client lives.
    resident_at: Arc<Mutex<Option<Rank>>>,
    supervisor: Mutex<Option<JoinHandle<Result<()>>>>,
    ended: Arc<Ended>,
}

/// The server's handles to a rank's thread.
#[derive(Clone)]
struct Seat {
    inbox: Arc<Inbox<Done>>,
    metrics: Arc<Metrics>,
    advice: Arc<Advice>,
    addresses: Vec<Address>,
}

/// The end of the ranks, once all have ended.
#[derive(Default)]
struct Ended {
    end: Mutex<Option<End>>,
    told: std::sync::Condvar,
}

impl Server {
    /// Recovers and then serves. `progress` is called while the journal is read. When this returns, the server listens.
    pub fn start(config: ServerConfig, progress: &mut dyn FnMut(Progress)) -> Result<Server> {
        start::start(config, progress)
    }

    /// Recovers and then serves some ranks on the store of another process. The store and the ranks of `config` are those of
    /// `joint`; `listen` is as the owner's, where clients begin. The server ends by itself when the owner does.
    pub fn start_joined(config: ServerConfig, joint: Joint, progress: &mut dyn FnMut(Progress)) -> Result<Server> {
        start::join(config, joint, progress)
    }

    /// Snapshots of its store; `None`: the store makes none.
    pub fn snapshots(&self) -> Option<Arc<dyn Snapshots>> {
        self.backend.snapshots()
    }

    /// A connection to the first rank for a client in the same process, which is trusted and dies with it.
    pub fn connect_pair(&self) -> Result<Address> {
        let (ours, theirs): (OwnedFd, OwnedFd) = Sock::pair().map_err(error::system("making a socket pair"))?;
        self.first()?.1.inbox.push(Done::Command(Command::Adopt(ours)));
        Ok(Address::Pair(Arc::new(theirs)))
    }

    /// Makes the client that lives on a rank's thread, of which there can be one, and waits until it is welcomed. It
    /// reaches ranks that are added by connections; that rank is not drained.
    pub fn resident(&self, options: &crate::client::Options) -> Result<Resident> {
        let (rank, seat) = self.first()?;
        let before = self.set_resident(Some(rank));
        let (to, from) = channel();
        let resident = Resident::begin((rank, &seat.inbox), options, to)
            .map_err(error::system("starting the invalidation threads"))?;
        let refused = match from.recv_timeout(STATUS_TIME) {
            Ok(Ok(())) => return Ok(resident),
            Ok(Err(text)) => ServerError::Fatal(text),
            Err(_) => self.silent(),
        };
        self.set_resident(before);
        Err(refused)
    }

    fn set_resident(&self, at: Option<Rank>) -> Option<Rank> {
        std::mem::replace(&mut *self.resident_at.lock().unwrap_or_else(PoisonError::into_inner), at)
    }

    /// The lowest rank there is.
    fn first(&self) -> Result<(Rank, Arc<Seat>)> {
        self.seats().into_iter().next().ok_or_else(|| self.silent())
    }

    fn seats(&self) -> BTreeMap<Rank, Arc<Seat>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of ranks.
    pub fn rank_count(&self) -> usize {
        self.seats().len()
    }

    /// The ranks there are, ascending.
    pub fn ranks(&self) -> Vec<Rank> {
        self.seats().into_keys().collect()
    }

    /// The processes that run ranks for this one and can be reached: the lowest rank that each was started with, and those
    /// that it has.
    pub fn joined(&self) -> Vec<(Rank, Vec<Rank>)> {
        self.hub.as_ref().map(|hub| hub.joined()).unwrap_or_default()
    }

    /// State of a rank that other processes run, or are to run; `None`: there is none, or it is one of this process.
    pub fn state_elsewhere(&self, rank: Rank) -> Option<RankState> {
        if let Some(view) = &self.view {
            let view = view.lock().unwrap_or_else(PoisonError::into_inner);
            let state = view.map.ranks.iter().find(|info| info.rank == rank).map(|info| info.state);
            // One that never had company is in no map.
            let is_alone = view.map.ranks.is_empty() && view.sight.wants.contains_key(&u32::from(rank.0));
            let state = state.or(is_alone.then_some(RankState::Up));
            return state.filter(|_| !self.seats().contains_key(&rank));
        }
        self.hub.as_ref()?.state_elsewhere(rank)
    }

    /// True if other processes may run ranks.
    pub fn has_others(&self) -> bool {
        self.hub.is_some() || self.has_joined || self.view.is_some()
    }

    /// The servers that share the store, as they were seen last, and the number of this one; `None`: it is this machine's.
    pub fn sight(&self) -> Option<(u64, Sight)> {
        let me = self.backend.servers()?.me();
        let sight = self.view.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).sight.clone();
        Some((me, sight))
    }

    /// Has another server run a rank: the one of this name or number, or that which has the fewest. Comes back with its name when the rank
    /// serves there.
    pub fn hand_over(&self, rank: Rank, to: Option<String>) -> Result<String> {
        self.keep(|answer| MembershipEvent::HandOver(rank, to, answer))
    }

    /// Adds so many ranks, which begin empty; which they are. A number that was drained is used again, but for 0.
    pub fn add_ranks(&self, count: u16) -> Result<Vec<Rank>> {
        self.keep(|to| MembershipEvent::Add(count, to))
    }

    /// Has a rank give away all it has, then removes it. Comes back when it has begun, which takes as long as the changes
    /// of before take to get into the table; [`Ask::Drain`] tells how far it is, until there is no such rank any more.
    pub fn drain_rank(&self, rank: Rank) -> Result<()> {
        self.keep(|to| MembershipEvent::Drain(rank, to))
    }

    /// Stops draining a rank: what it still has it keeps, and it takes more again.
    pub fn undrain_rank(&self, rank: Rank) -> Result<()> {
        self.keep(|to| MembershipEvent::Undrain(rank, to))
    }

    /// Puts a new version of a policy down and in force at all ranks, and nothing if it cannot be loaded. One that is the newest
    /// of its name already is put in force again.
    pub fn set_policy(&self, name: &str, text: &str) -> Result<Version> {
        self.can_be_policy(name, text)?;
        self.keep(|to| MembershipEvent::SetPolicy(name.into(), text.into(), to))
    }

    /// Puts a new version of a policy down for directories that name it, and nothing if it cannot be loaded.
    pub fn add_policy(&self, name: &str, text: &str) -> Result<Version> {
        self.can_be_policy(name, text)?;
        self.keep(|to| MembershipEvent::AddPolicy(name.into(), text.into(), to))
    }

    fn can_be_policy(&self, name: &str, text: &str) -> Result<()> {
        if !is_name(name) {
            let text = format!("a policy cannot be called {name:?}: use letters, digits, `_`, `-` and `.`, 64 at most");
            return Err(ServerError::Refused(text));
        }
        if let Err(fault) = loligo_balancer::balance::Policy::load(name, text, &Default::default()) {
            return Err(ServerError::Refused(format!("policy {name} cannot be loaded: {fault}")));
        }
        self.not_joined()
    }

    /// Puts a version of a policy in force that is there, or none.
    pub fn use_policy(&self, policy: PolicyId, why: &str) -> Result<()> {
        self.not_joined()?;
        self.keep(|to| MembershipEvent::UsePolicy(policy, why.into(), to))
    }

    /// Takes back what was chosen: the default is in force, if there is one.
    pub fn unset_policy(&self) -> Result<()> {
        self.not_joined()?;
        self.keep(MembershipEvent::UnsetPolicy)
    }

    /// True if the policy in force, or that there is none, was chosen; else it is the default.
    pub fn is_policy_chosen(&self) -> Result<bool> {
        let history = self.policy_history()?;
        let now = history.iter().rfind(|one| one.name.is_none()).map_or(PolicyId::NONE, |one| one.policy);
        is_chosen(&Notes::new(self.backend.table()), now)
    }

    /// Puts the policy in force again that was before, of those that have not failed; which one.
    pub fn roll_back_policy(&self) -> Result<PolicyId> {
        self.not_joined()?;
        self.keep(MembershipEvent::RollBack)
    }

    /// Makes an identity with which clients come in over TLS: its line of the list, and the text of its file, which is kept
    /// nowhere.
    pub fn add_identity(&self, name: &str, rights: Rights) -> Result<(Listed, String)> {
        self.not_joined()?;
        self.auth.add(name, rights)
    }

    /// Takes an identity off the list. Who has come in with it is evicted.
    pub fn revoke_identity(&self, name: &str) -> Result<()> {
        self.not_joined()?;
        self.auth.revoke(name)?;
        self.auth.tell(&self.seats);
        Ok(())
    }

    /// The list of identities, by name.
    pub fn identities(&self) -> Result<Vec<Listed>> {
        self.auth.all()
    }

    fn not_joined(&self) -> Result<()> {
        if let Some((_, sight)) = self.sight().filter(|(me, sight)| sight.leader != Some(*me)) {
            let leader = sight.leader.and_then(|leader| sight.servers.get(&leader));
            let name = leader.map_or("the one that will lead in a moment", |leader| leader.name.as_str());
            return Err(ServerError::Refused(format!(
                "another server leads, which keeps what concerns all: ask {name} (on its machine, or with its --data)"
            )));
        }
        match self.has_joined {
            true => Err(ServerError::Refused("another process keeps the cluster map: ask that one".into())),
            false => Ok(()),
        }
    }

    /// All versions of policies, by number.
    pub fn policies(&self) -> Result<Vec<Version>> {
        Notes::new(self.backend.table()).versions()
    }

    /// A version of a policy.
    pub fn policy(&self, policy: PolicyId) -> Result<Option<Version>> {
        Notes::new(self.backend.table()).version(policy)
    }

    /// Which versions directories mean that name a policy, by name.
    pub fn named_policies(&self) -> Result<Vec<(String, Named)>> {
        Notes::new(self.backend.table()).all_named()
    }

    /// The policies that were put in force, the last one last.
    pub fn policy_history(&self) -> Result<Vec<InForce>> {
        Notes::new(self.backend.table()).history()
    }

    /// The last lines of the log of balancers, the newest last.
    pub fn policy_log(&self, most: usize) -> Result<Vec<LogLine>> {
        Notes::new(self.backend.table()).log_lines(most)
    }

    /// The last ticks of a rank's balancer, the newest last; of one that another process runs nothing is known here.
    pub fn balancer_ticks(&self, rank: Rank) -> Result<Vec<Tick>> {
        let seats = self.seats();
        let seat = seats.get(&rank).ok_or_else(|| ServerError::NoSuchRank { rank, there: names(seats.keys()) })?;
        Ok(seat.advice.ticks())
    }

    fn advice(&self, rank: Rank) -> AdviceStatus {
        self.seats().get(&rank).map(|seat| seat.advice.status()).unwrap_or_default()
    }

    /// Asks the keeper of the map.
    fn keep<T>(&self, what: impl FnOnce(Sender<Result<T>>) -> MembershipEvent) -> Result<T> {
        let (to, from) = channel();
        self.tell_keeper(what(to));
        from.recv_timeout(KEEPER_TIME).map_err(|error| match error {
            RecvTimeoutError::Timeout => ServerError::Refused(
                "it was begun and goes on, but takes longer than usual: see how far with loligo rank list".into(),
            ),
            RecvTimeoutError::Disconnected => self.silent(),
        })?
    }

    fn tell_keeper(&self, news: MembershipEvent) {
        // Without a keeper the server has ended, as whoever waits for an answer learns.
        let _ = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).send(news);
    }

    /// Where clients begin, with the ports that the system chose. They are told there of all ranks.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// All counters of the lowest rank; [`Server::status`] has those of the others, too.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.first().map(|(_, seat)| seat.metrics.clone()).unwrap_or_default()
    }

    /// A picture of it; an error if it has ended or does not answer.
    pub fn status(&self) -> Result<Status> {
        Ok(Status {
            ranks: self.rank_statuses()?,
            identity: self.backend.identity(),
            addresses: self.addresses().to_vec(),
            space: self.backend.statfs()?,
            table: self.backend.table().approximate_size()?,
        })
    }

    /// A picture of each of its ranks, for which the store is not asked.
    pub fn rank_statuses(&self) -> Result<Vec<RankStatus>> {
        let asked: Vec<_> = self.seats().iter().map(|(rank, seat)| (*rank, ask(seat, Command::Status))).collect();
        let mut ranks = Vec::new();
        for (rank, from) in asked {
            match from.recv_timeout(STATUS_TIME) {
                Ok(status) => ranks.push(RankStatus { advice: self.advice(rank), ..status }),
                Err(error) if self.has_left(rank, error) => {}
                Err(_) => return Err(self.silent()),
            }
        }
        if ranks.is_empty() && (self.view.is_none() || self.has_ended()) {
            return Err(self.silent());
        }
        Ok(ranks)
    }

    /// Asks a rank something, or orders it to do something, as its administrator.
    pub fn admin(&self, rank: Rank, what: Ask) -> Result<Told> {
        let seats = self.seats();
        if let (Some(_), Some((_, sight))) = (self.state_elsewhere(rank), self.sight()) {
            let server = sight.wants.get(&u32::from(rank.0)).and_then(|server| sight.servers.get(server));
            let name = server.map_or("another server", |server| server.name.as_str());
            return Err(ServerError::Refused(format!("{name} runs rank {rank}: ask there")));
        }
        if self.state_elsewhere(rank).is_some() {
            let text = format!(
                "another process runs rank {rank}: ask that one (its admin socket is beside that of this server, with its \
                 lowest rank in the name)"
            );
            return Err(ServerError::Refused(text));
        }
        let no_such = || ServerError::NoSuchRank { rank, there: names(self.all_ranks().iter()) };
        let seat = seats.get(&rank).ok_or_else(no_such)?;
        ask(seat, |to| Command::Admin(what, to))
            .recv_timeout(STATUS_TIME)
            .map_err(|error| if self.has_left(rank, error) { no_such() } else { self.silent() })
    }

    /// True if a rank does not answer because it was removed meanwhile. If its thread has only just ended, waits until the keeper has put
    /// down that it is gone: the caller may rely on it.
    fn has_left(&self, rank: Rank, error: RecvTimeoutError) -> bool {
        let until = Instant::now() + STATUS_TIME;
        let mut end = self.ended.end.lock().unwrap_or_else(PoisonError::into_inner);
        while end.is_none() {
            if !self.seats().contains_key(&rank) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if error != RecvTimeoutError::Disconnected || left.is_zero() {
                return false;
            }
            (end, _) = self.ended.told.wait_timeout(end, left).unwrap_or_else(PoisonError::into_inner);
        }
        false
    }

    /// Why there is no answer.
    fn silent(&self) -> ServerError {
        ServerError::Fatal(self.fatal_text().unwrap_or_else(|| "the server does not answer".into()))
    }

    fn fatal_text(&self) -> Option<String> {
        match &*self.ended.end.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(End::Fatal(text)) => Some(text.clone()),
            _ => None,
        }
    }

    /// Waits until the server has ended, or this time is over (`None`: for ever). The text: why it ended by itself;
    /// `None`: it runs, or was stopped.
    pub fn wait_fatal(&self, time: Option<Duration>) -> Option<String> {
        let mut end = self.ended.end.lock().unwrap_or_else(PoisonError::into_inner);
        let until = time.map(|time| Instant::now() + time);
        while end.is_none() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            match left {
                Some(Duration::ZERO) => break,
                Some(left) => {
                    (end, _) = self.ended.told.wait_timeout(end, left).unwrap_or_else(PoisonError::into_inner);
                }
                None => end = self.ended.told.wait(end).unwrap_or_else(PoisonError::into_inner),
            }
        }
        match &*end {
            Some(End::Fatal(text)) => Some(text.clone()),
            _ => None,
        }
    }

    /// True if it has ended, by itself or as it was told; that of a process which joined also because the owner stopped all.
    pub fn has_ended(&self) -> bool {
        self.ended.end.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Stops cleanly: answers what is under way, checkpoints everything, and says on disk that nothing is to be
    /// recovered. Further calls do nothing.
    pub fn stop(&self) -> Result<()> {
        self.tell_keeper(MembershipEvent::Stop);
        self.join()
    }

    /// As [`Server::stop`]; but if it cannot be done in this time (the disk is full, say), the server ends without a
    /// checkpoint, with an error that says so. Nothing acknowledged is lost: the next start recovers it.
    pub fn stop_within(&self, time: Duration) -> Result<()> {
        self.tell_keeper(MembershipEvent::Stop);
        if self.wait_fatal(Some(time)).is_none() {
            self.tell_keeper(MembershipEvent::Abandon);
        }
        self.join()
    }

    fn join(&self) -> Result<()> {
        let supervisor = self.supervisor.lock().unwrap_or_else(PoisonError::into_inner).take();
        match supervisor.map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(ServerError::Fatal("a thread of the server panicked; this is a bug".into())),
        }
    }
}

/// Gives a rank a command that is answered; where the answer comes.
fn ask<T>(seat: &Seat, command: impl FnOnce(Sender<T>) -> Command) -> Receiver<T> {
    let (to, from) = channel();
    seat.inbox.push(Done::Command(command(to)));
    from
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.stop_within(DROP_TIME) {
            tracing::error!("the server did not stop cleanly: {error}");
        }
    }
}
