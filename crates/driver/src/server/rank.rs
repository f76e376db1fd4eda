//! The rank thread: one loop that owns all sockets and both machines. It never waits but in epoll.
//!
//! A round: take what sockets and other threads brought, feed the machines, carry out what they put out, hand the
//! journal everything at once, and write once per connection.

mod appends;
mod cores;
mod doorway;
mod messages;
mod peer_sockets;
mod rate;
mod resident;
mod sockets;
mod wait;

use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use loligo_mds::admin::Told;
use loligo_mds::{Input, Mds, Output, Peer};
use loligo_store::Lease;
use loligo_types::{Lsn, SessionId, StatFs};
use rustix::event::epoll;

use super::auth::Auth;
use super::cluster::Others;
use super::conn::Conn;
use super::data::DataPlane;
use super::format::now as wall;
use super::listen::Listeners;
use super::metrics::Metrics;
use super::queue::{Inbox, Queue};
use super::resident::Residence;
use super::slots::Connections;
use super::{DataFault, RankStatus, fencing, journal, policy, table};
use crate::alive::Sign;
use crate::sock::{Sock, Waker};

/// Time between ticks of the machines.
const TICK: Duration = Duration::from_millis(20);
/// Time between looks at the space of the disk.
const STATFS_EVERY: Duration = Duration::from_secs(1);
/// Events taken from epoll at a time.
const EVENTS: usize = 256;

const TOKEN_WAKER: u64 = u64::MAX;
const TOKEN_GUEST: u64 = u64::MAX - 1;
const TOKEN_LISTENERS: u64 = u64::MAX / 2;
const TOKEN_DOOR: u64 = TOKEN_LISTENERS + (1 << 32);
const TOKEN_ABROAD: u64 = TOKEN_LISTENERS + (1 << 40);

use self::appends::Appends;
use self::cores::Core;
pub(crate) use self::messages::{Command, Done};
pub(crate) use self::peer_sockets::PeerSockets;
use self::wait::Visits;

/// The end of the loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Stopped,
    Fatal(String),
}

/// Where work for other threads goes.
pub(crate) struct Queues {
    pub(crate) journal: Arc<Queue<journal::Work>>,
    /// Where the journal goes when the rank thread does not keep it itself.
    pub(crate) home: Arc<Queue<journal::Chore>>,
    pub(crate) table: Arc<Queue<table::Work>>,
    pub(crate) loads: Arc<Queue<table::Load>>,
    pub(crate) policy: Arc<Queue<policy::Work>>,
    pub(crate) shut_out: Arc<Queue<fencing::Job>>,
}

/// Limits of the loop.
pub(crate) struct Limits {
    /// Until when what it answers is true; `None`: for ever.
    pub(crate) lease: Option<Arc<dyn Lease>>,
    /// Set while the store has no room for more.
    pub(crate) full: Option<Arc<AtomicBool>>,
    pub(crate) auth: Arc<Auth>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) journal_bytes: u64,
    pub(crate) trust_tcp: bool,
    /// Time to look for the next request before sleeping.
    pub(crate) look: Duration,
}

/// The loop's state.
pub(crate) struct Rank {
    mds: Mds,
    data: DataPlane,
    queues: Queues,
    inbox: Arc<Inbox<Done>>,
    metrics: Arc<Metrics>,
    limits: Limits,
    epoll: OwnedFd,
    listeners: Listeners,
    /// Where clients begin, if that is here.
    door: Listeners,
    conns: HashMap<u64, Conn>,
    /// Those of them whose other ends have not shown who they are.
    half_open: BTreeSet<u64>,
    /// Steps of handshakes that may still be made in this round.
    greets_left: usize,
    /// There was no descriptor for a connection: the listeners are looked at again with the next tick.
    is_resting: bool,
    lines: doorway::Lines,
    resident: Option<Box<Residence>>,
    others: Others,
    /// Administrators who wait for an answer, by the number of their question.
    told: HashMap<u64, Sender<Told>>,
    /// Hears that the objects which no inode tells of are dropped.
    strays: Option<Sender<bool>>,
    next_ask: u64,
    /// Sessions whose connection broke: their clients may come back, or be dead.
    lost: Vec<SessionId>,
    next_conn: u64,
    own_uid: u32,
    begun: Instant,
    now: Instant,
    appends: Appends,
    /// While syncs are cheap: the journal itself.
    journal: Option<Box<journal::Journal>>,
    to_flush: Vec<u64>,
    requests: u64,
    /// Requests answered and nanoseconds of processor time taken when that was last looked at, and when that was.
    answered: (u64, u64, Instant),
    /// Time that it slept or looked for the next request since that.
    idle: Duration,
    next_tick: Instant,
    /// The metadata server has more of a long work to do.
    again: bool,
    look_until: Instant,
    visits: Visits,
    core: Core,
    /// The last record that the journal's thread was given and has not reported durable.
    awaited: Option<Lsn>,
    next_statfs: Instant,
    /// Nobody can have taken over: it may answer.
    holds: bool,
    end: Option<End>,
    /// It came to its end, whatever that was, and the others know or need not know.
    has_ended: bool,
}

impl Rank {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        mds: Mds,
        data: DataPlane,
        queues: Queues,
        inbox: Arc<Inbox<Done>>,
        waker: &Waker,
        metrics: Arc<Metrics>,
        limits: Limits,
        (listeners, door): (Listeners, Listeners),
        others: Others,
        begun: Instant,
    ) -> std::io::Result<Rank> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let read = epoll::EventFlags::IN;
        epoll::add(&epoll, waker, epoll::EventData::new_u64(TOKEN_WAKER), read)?;
        // Rank 0 has no other address than that where clients begin, unless it may go elsewhere.
        let has_one = others.own() == loligo_types::Rank::ZERO && !others.stands_apart();
        let (listeners, door) = if has_one { (door, listeners) } else { (listeners, door) };
        for (listeners, first) in [(&listeners, TOKEN_LISTENERS), (&door, TOKEN_DOOR)] {
            for (at, listener) in listeners.sockets.iter().enumerate() {
                epoll::add(&epoll, listener, epoll::EventData::new_u64(first + at as u64), read)?;
            }
        }
        let now = Instant::now();
        Ok(Rank {
            mds,
            data,
            queues,
            inbox,
            metrics,
            limits,
            epoll,
            listeners,
            door,
            conns: HashMap::new(),
            half_open: BTreeSet::new(),
            greets_left: doorway::GREETS_A_ROUND,
            is_resting: false,
            lines: doorway::Lines::default(),
            resident: None,
            others,
            told: HashMap::new(),
            strays: None,
            next_ask: 1,
            lost: Vec::new(),
            next_conn: 1,
            own_uid: rustix::process::geteuid().as_raw(),
            begun,
            now,
            appends: Appends::default(),
            journal: None,
            to_flush: Vec::new(),
            requests: 0,
            answered: (0, 0, now),
            idle: Duration::ZERO,
            next_tick: now,
            again: false,
            look_until: now,
            visits: Visits::default(),
            core: Core::default(),
            awaited: None,
            next_statfs: now,
            holds: false,
            end: None,
            has_ended: false,
        })
    }

    /// It does not run after all, and nobody needs to hear of its end.
    pub(crate) fn never_ran(mut self) {
        self.has_ended = true;
    }

    /// Runs until the machine has stopped, by command or by failure.
    pub(crate) fn run(mut self) -> End {
        let mut events = Vec::with_capacity(EVENTS);
        let mut brought = Vec::new();
        for rank in self.others.ranks() {
            self.feed(Input::PeerUp { rank });
        }
        loop {
            let asleep = self.wait(&mut events);
            self.now = Instant::now();
            self.holds = self.limits.lease.as_ref().is_none_or(|lease| lease.holds());
            self.greets_left = doorway::GREETS_A_ROUND;
            self.idle += self.now.saturating_duration_since(asleep);
            for (token, ready) in events.drain(..) {
                self.socket_event(token, ready);
            }
            self.inbox.take(&mut brought);
            if std::mem::take(&mut self.again) {
                self.feed(Input::Again);
            }
            for done in brought.drain(..) {
                self.bring(done);
            }
            if self.now >= self.next_tick {
                self.tick();
            }
            self.finish_round();
            if let Some(end) = self.end.take() {
                self.has_ended = true;
                if let End::Fatal(text) = &end {
                    self.others.failed(text);
                }
                self.send_appends();
                self.send_home();
                self.resident_ends();
                self.linger();
                return end;
            }
        }
    }

    fn bring(&mut self, done: Done) {
        match done {
            Done::Durable(lsn) => {
                self.awaited = self.awaited.filter(|awaited| *awaited > lsn);
                self.feed(Input::Durable { lsn });
            }
            Done::JournalHere(journal) => {
                self.journal = Some(journal);
                self.awaited = None;
                // What was queued since it left its thread.
                self.commit_here();
            }
            Done::Landed { lsn, begun, done } => {
                self.awaited = self.awaited.filter(|awaited| *awaited > lsn);
                // One that went home at the end knows by itself.
                let Some(journal) = &mut self.journal else { return };
                match journal.landed(lsn, begun, done) {
                    Ok(lsn) => self.feed(Input::Durable { lsn }),
                    Err(text) => self.journal_failed(text),
                }
            }
            Done::SegmentHere { id, made } => {
                let Some(journal) = &mut self.journal else { return };
                if let Err(text) = journal.created(id, made) {
                    self.journal_failed(text);
                }
            }
            Done::JournalFailed(text) => {
                self.feed(Input::JournalFailed);
                self.fatal(format!(
                    "the journal could not be written ({text}); nothing that was acknowledged is lost: look at the \
                     disk of the data directory and start again"
                ));
            }
            Done::Loaded { ticket, items, rows } => {
                self.metrics.loads.add(1);
                self.metrics.load_rows.add(rows);
                self.feed(Input::Loaded { ticket, items });
            }
            Done::LoadGoesOn { ticket, dir, from_hash } => self.feed(Input::LoadGoesOn { ticket, dir, from_hash }),
            Done::LoadFailed { ticket } => self.feed(Input::LoadFailed { ticket }),
            Done::Strays { inos, done } => {
                self.strays = Some(done);
                self.feed(Input::Strays { inos });
            }
            Done::Replaced(text) => self.fatal(text),
            Done::Checkpoint { id, full: None } => self.feed(Input::CheckpointDone { id }),
            Done::Checkpoint { id, full: Some(full) } => self.feed(Input::CheckpointFailed { id, full }),
            Done::MergeRows { id, merged } => self.feed(Input::MergeRowsDone { id, merged }),
            Done::Settled { table_upto } => self.feed(Input::Settled { table_upto }),
            Done::Data(done) => {
                self.metrics.note_data(done.work());
                if let Some(fault) = self.data.done(done) {
                    self.log_fault(&fault);
                }
                self.data_outputs();
            }
            Done::StatFs(space) => {
                self.feed(Input::StatFs(StatFs {
                    bytes: space.total_bytes,
                    bytes_free: space.free_bytes,
                    inodes: 0,
                    inodes_free: if space.total_inodes == 0 { u64::MAX >> 1 } else { space.free_inodes },
                }));
            }
            Done::Peer { from, msg } => self.feed(Input::Peer { from, msg: *msg }),
            Done::Scanned { ticket, page } => self.feed(Input::Scanned { ticket, page }),
            Done::Map(map) => self.feed(Input::Map(map)),
            Done::Joined { map, rank, inbox } => {
                self.others.join(rank, inbox);
                self.feed(Input::Map(map));
                self.feed(Input::PeerUp { rank });
            }
            Done::GiveDoor { to } => self.give_door(&to),
            Done::TakeDoor(door) => self.take_door(*door),
            Done::Parted { map, rank } => {
                self.feed(Input::PeerDown { rank });
                self.feed(Input::Map(map));
                self.others.part(rank);
            }
            Done::LinkUp { rank, process, link } => {
                self.others.reach(rank, process, link);
                self.feed(Input::PeerUp { rank });
            }
            Done::LinkDown { rank, process } => {
                if self.others.reaches(rank, process) {
                    self.feed(Input::PeerDown { rank });
                    self.others.unreach(rank);
                }
            }
            Done::Away { rank } => {
                self.feed(Input::PeerDown { rank });
                self.others.part(rank);
            }
            Done::Decided(decision) => self.feed(Input::Decided(decision)),
            Done::Say(member) => self.others.say(member),
            Done::ShutOut(session) => self.feed(Input::ShutOut { session }),
            Done::Identities(left) => self.feed(Input::Identities(left)),
            Done::AllStopped => self.end = self.end.take().or(Some(End::Stopped)),
            Done::OtherFailed(text) => self.end = self.end.take().or(Some(End::Fatal(text))),
            Done::Resident(ask) => self.resident_asks(ask),
            Done::Command(Command::Stop) => self.feed(Input::Stop),
            Done::Command(Command::HandOver) => self.feed(Input::StopSoon),
            Done::Command(Command::Leave) => {
                self.others.leave();
                self.feed(Input::Stop);
            }
            Done::Command(Command::Depart) => {
                self.others.depart();
                self.feed(Input::Stop);
            }
            Done::Command(Command::Abandon) => {
                let text =
                    "the server was stopped before everything was in the table; the next start recovers the rest";
                self.end = self.end.take().or(Some(End::Fatal(text.into())));
            }
            Done::Command(Command::Adopt(fd)) => match Sock::new(fd) {
                Ok(sock) => self.adopt(
                    sock,
                    Peer { uid: Some(self.own_uid), groups: Vec::new(), trusted: true, local: true, identity: None },
                ),
                Err(error) => tracing::warn!("a socket of this process could not be used: {error}"),
            },
            Done::Command(Command::Status(to)) => {
                let _ = to.send(self.status());
            }
            Done::Command(Command::Admin(ask, to)) => {
                let id = self.next_ask;
                self.next_ask += 1;
                self.told.insert(id, to);
                self.feed(Input::Admin { id, ask });
            }
        }
    }

    fn status(&self) -> RankStatus {
        self.metrics.rank_cpu_ns.set(thread_cpu_ns());
        let path = |fault: DataFault| DataFault { path: self.mds.path_of(fault.ino), ..fault };
        RankStatus {
            faults: self.data.faults().files().map(path).collect(),
            data_errors: self.data.faults().total(),
            rank: self.others.own(),
            mds: self.mds.status(),
            addresses: self.door.addresses().into_iter().chain(self.listeners.addresses()).collect(),
            metrics: self.metrics.clone(),
            advice: Default::default(),
        }
    }

    /// Names the file, where names are in memory.
    fn log_fault(&self, fault: &DataFault) {
        let DataFault { ino, text, .. } = fault;
        match self.mds.path_of(*ino) {
            Some(path) => tracing::warn!("data of {path} (inode {ino}): {text}"),
            None => tracing::warn!("data of inode {ino} (its path: loligo path {ino}): {text}"),
        }
    }

    fn tick(&mut self) {
        self.next_tick = self.now + TICK;
        self.core.tick(self.now);
        self.wake_listeners();
        if let Some(why) = self.limits.lease.as_ref().and_then(|lease| lease.lost()) {
            return self.fatal(format!("{why}; nothing that was acknowledged is lost"));
        }
        self.bury();
        if self.now >= self.next_statfs {
            self.next_statfs = self.now + STATFS_EVERY;
            self.queues.table.push(table::Work::StatFs);
            self.metrics.rank_cpu_ns.set(thread_cpu_ns());
            self.tell_rate();
            self.judge();
        }
        if self.journal.is_some() && !self.queues.journal.is_empty() {
            self.commit_here();
        }
        let used = self.metrics.journal_space.get();
        self.feed(Input::JournalSpace { used, limit: self.limits.journal_bytes });
        if let Some(full) = &self.limits.full {
            self.feed(Input::Full(full.load(Ordering::Acquire)));
        }
        self.feed(Input::JournalFull(self.metrics.journal_full.get() > 0));
        self.feed(Input::Tick);
        self.resident_ticks();
        self.data.tick();
        self.data_outputs();
    }

    /// Ends the sessions of clients that died, so that nobody waits for what they held.
    fn bury(&mut self) {
        for session in std::mem::take(&mut self.lost) {
            let signs =
                self.listeners.files().chain(self.door.files()).map(|socket| crate::alive::look(socket, session));
            match signs.max_by_key(|sign| *sign as u8) {
                Some(Sign::Dead) => self.feed(Input::PeerDead { session }),
                Some(Sign::Alive) => self.lost.push(session),
                Some(Sign::None) | None => {}
            }
        }
    }

    /// Feeds the metadata machine and carries out what it puts out.
    fn feed(&mut self, input: Input) {
        let now = loligo_mds::Now {
            mono_ms: self.now.saturating_duration_since(self.begun).as_millis() as u64,
            wall: wall(),
        };
        self.mds.handle(now, input);
        while let Some(output) = self.mds.pop() {
            self.carry_out(output);
        }
        self.data_outputs();
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send { conn, msg } => self.send(conn.0, msg),
            Output::Close { conn } => {
                if self.resident.as_ref().is_some_and(|r| r.connected && r.conn == conn.0) {
                    self.resident_closed();
                } else if let Some(c) = self.conns.get_mut(&conn.0) {
                    c.closing = true;
                    self.queue_flush(conn.0);
                }
            }
            Output::Append { lsn, record } => self.appends.push(lsn, record, self.now),
            Output::Load { ticket, needs } => self.queues.loads.push((ticket, needs)),
            Output::Checkpoint { id, records } => self.queues.table.push(table::Work::Checkpoint { id, records }),
            Output::MergeRows { id, rows } => self.queues.table.push(table::Work::MergeRows { id, rows }),
            Output::Again => self.again = true,
            Output::TakenBack { dir, path, name, unmerged } => {
                let at = path.unwrap_or_else(|| format!("inode {dir} (its path: loligo path {dir})"));
                decouple_over(&at, &name, unmerged);
            }
            Output::Settle { replay_from, table_upto } => {
                self.queues.table.push(table::Work::Settle { replay_from, table_upto });
            }
            Output::Trim { below } => self.queues.table.push(table::Work::Trim { below }),
            Output::Discard { ino, from, object_size } => self.data.discard(ino, from, object_size),
            Output::Spill { ino, data, object_size } => self.data.spill(ino, data, object_size),
            Output::StraysDropped { all } => {
                // The search may have ended.
                self.strays.take().into_iter().for_each(|done| _ = done.send(all));
            }
            Output::OwnerLost => self.data.expect_strays(),
            Output::WriteData { lsn, ino, object_size, patches } => {
                self.data.write_logged(lsn, ino, object_size, patches);
            }
            Output::SettleData => self.data.settle_logged(),
            Output::DataInPlace { ino, upto } => self.data.forget_logged(ino, upto),
            Output::SyncData { ticket } => self.data.sync_all(ticket),
            Output::Quiesce { ticket, inos } => self.data.quiesce(ticket, inos),
            Output::Scan { ticket, what, from } => self.queues.table.push(table::Work::Scan { ticket, what, from }),
            Output::Member(member) => self.others.say(member),
            Output::Peer { to, msg } => self.others.send(to, msg),
            // One that is still to be looked at is older: this one is dropped, and counts as not answered.
            Output::Balance(snapshot) => drop(self.queues.policy.push_if_empty(policy::Work::Decide(snapshot))),
            Output::Told { id, told } => {
                // Who asked may have lost patience.
                if let Some(to) = self.told.remove(&id) {
                    let _ = to.send(told);
                }
            }
            Output::Access { session, ino, access } => self.data.access(session, ino, access),
            Output::AccessRange { session, first, count, access } => {
                self.data.access_range(session, (first, count), access);
            }
            Output::Freeze { ino, copy, size, owner, shared } => self.data.freeze(ino, copy, size, (owner, shared)),
            Output::Thaw { ino } => self.data.thaw(ino),
            Output::Restore { ino, copy } => self.data.restore(ino, copy),
            Output::KeepTheirs { ino, copy, object_size, to, len } => {
                self.data.keep_theirs(ino, copy, object_size, (to, len));
            }
            Output::LookAtFork { ino, copy } => self.data.look_at_fork(ino, copy),
            Output::Bound { conn, session } => {
                self.lost.retain(|lost| *lost != session);
                if let Some(residence) = self.resident.as_mut().filter(|r| r.connected && r.conn == conn.0) {
                    residence.session = Some(session);
                } else {
                    self.bound(conn, session);
                }
            }
            Output::Fence { session } => self.data.fence(session),
            Output::ShutOut { session, addresses } => self.queues.shut_out.push((session, addresses)),
            Output::Stopped => {
                if self.others.stopped() {
                    self.end = self.end.take().or(Some(End::Stopped));
                }
            }
            Output::Fatal { text } => self.fatal(text),
        }
    }

    /// True if decisions made until now may be answered: nobody can have taken over before they were made. Once it is false, it stays so in
    /// this round.
    pub(super) fn may_answer(&mut self) -> bool {
        self.holds = self.holds && self.limits.lease.as_ref().is_none_or(|lease| lease.holds());
        self.holds
    }

    fn fatal(&mut self, text: String) {
        let text = if self.others.is_alone() { text } else { format!("rank {}: {text}", self.others.own()) };
        tracing::error!("{text}");
        if !matches!(self.end, Some(End::Fatal(_))) {
            self.end = Some(End::Fatal(text));
        }
    }

    /// Carries out what the data plane has to tell.
    fn data_outputs(&mut self) {
        while let Some(out) = self.data.next_output() {
            match out {
                super::data::Out::Reply { conn, msg } => self.send(conn, msg),
                super::data::Out::Input(input) => self.feed_only(input),
            }
        }
    }

    /// Feeds without draining the data plane again, which is done by the caller.
    fn feed_only(&mut self, input: Input) {
        let now = loligo_mds::Now {
            mono_ms: self.now.saturating_duration_since(self.begun).as_millis() as u64,
            wall: wall(),
        };
        self.mds.handle(now, input);
        while let Some(output) = self.mds.pop() {
            self.carry_out(output);
        }
    }

    /// Commits, if the journal is here.
    fn commit_here(&mut self) {
        let Some(journal) = &mut self.journal else { return };
        match journal.step(&self.queues.journal) {
            Ok(durable) => {
                if !journal.may_stay() {
                    self.send_home();
                }
                if let Some(lsn) = durable {
                    self.feed(Input::Durable { lsn });
                }
            }
            Err(text) => self.journal_failed(text),
        }
    }

    fn journal_failed(&mut self, text: String) {
        self.journal = None;
        self.bring(Done::JournalFailed(text));
    }

    /// Gives the journal to its thread.
    fn send_home(&mut self) {
        if let Some(journal) = self.journal.take() {
            self.queues.home.push(journal::Chore::Keep(journal));
        }
    }

    fn appends_are_due(&self) -> bool {
        self.appends.are_due(self.mds.journal_may_wait(), self.now)
    }

    /// Hands the journal what it is to write. Whether there was something.
    fn send_appends(&mut self) -> bool {
        let Some((last, records)) = self.appends.take() else { return false };
        self.awaited = self.journal.as_ref().is_none_or(|journal| journal.flies()).then_some(last);
        self.queues.journal.push(journal::Work::Append(records));
        true
    }

    /// Hands out what the round made, the journal's part first. Answers make room for requests that waited, and these
    /// make more, so it goes on until nothing is left.
    fn finish_round(&mut self) {
        let mut is_asked = self.requests > 0 || self.visits.were_any();
        while self.appends_are_due()
            || self.data.has_work()
            || self.holds && (!self.to_flush.is_empty() || self.resident_waits())
        {
            if self.appends_are_due() && self.send_appends() {
                self.commit_here();
            }
            self.data.submit_awaited();
            if self.holds {
                // Who is answered asks again, if anybody does.
                is_asked |= !self.to_flush.is_empty();
                for id in std::mem::take(&mut self.to_flush) {
                    self.flush(id);
                }
            }
            self.resident_round();
            // Threads that are woken for it would take processors from those who were answered.
            self.data.submit();
        }
        self.metrics.rounds.add(1);
        if self.requests > 0 {
            self.metrics.round_requests.record(self.requests);
            self.requests = 0;
        }
        if is_asked {
            self.look_until = Instant::now() + self.limits.look;
        }
    }
}

/// However the rank ends: whoever still hands it something learns that nobody takes it.
impl Drop for Rank {
    fn drop(&mut self) {
        if !self.has_ended {
            self.others.failed(&format!("the thread of rank {} panicked; this is a bug", self.others.own()));
        }
        self.inbox.close();
    }
}

fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Says that a decoupled directory is one like others again because its owner was not heard.
fn decouple_over(at: &str, owner: &str, unmerged: bool) {
    // Both are whatever somebody has called them.
    let (at, owner) = (at.escape_debug(), owner.escape_debug());
    if unmerged {
        tracing::warn!(
            "{at} is taken back from {owner}, which was not heard for longer than its lease, and had written files that are not merged: they are not \
             there. If its policy is local their names and attributes are in keep_dir of its machine: loligo journal inspect FILE. A longer lease: \
             loligo decouple --lease SECONDS"
        );
    } else {
        tracing::info!("{at} is taken back from {owner}, which was not heard for longer than its lease");
    }
}
