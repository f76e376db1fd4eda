//! The rank thread: one loop that owns all sockets and both machines. It never waits but in epoll.
//!
//! A round: take what sockets and other threads brought, feed the machines, carry out what they put out, hand the
//! journal everything at once, and write once per connection.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use loligo_mds::{ConnId, Input, Mds, Output, Peer};
use loligo_namespace::Loaded;
use loligo_types::msg::{Refusal, ToClient, ToServer};
use loligo_types::{Lsn, StatFs};
use loligo_wire::DecodeError;
use rustix::event::epoll;

use super::conn::{Conn, Verdict, answered};
use super::data::{DataDone, DataPlane};
use super::format::now as wall;
use super::listen::Listeners;
use super::metrics::{Metrics, OP_DATA, OPS};
use super::queue::{Inbox, Queue};
use super::{RankStatus, journal, table};
use crate::sock::{Sock, Waker};

/// Time between ticks of the machines.
const TICK: Duration = Duration::from_millis(20);
/// Time between looks at the space of the disk.
const STATFS_EVERY: Duration = Duration::from_secs(1);
/// Bytes read from one connection before the others have their turn.
const READ_AT_ONCE: usize = 1 << 20;
/// Events taken from epoll at a time.
const EVENTS: usize = 256;
/// Connections accepted at a time.
const ACCEPT_AT_ONCE: usize = 64;
/// Time for connections to take their last answers when the server stops.
const LINGER: Duration = Duration::from_millis(500);

const TOKEN_WAKER: u64 = u64::MAX;
const TOKEN_LISTENERS: u64 = u64::MAX / 2;

/// What other threads bring.
pub(crate) enum Done {
    Durable(Lsn),
    JournalFailed(String),
    Loaded { ticket: u64, items: Vec<Loaded>, rows: u64 },
    LoadFailed { ticket: u64 },
    /// `full`: it failed; for want of space if true.
    Checkpoint { id: u64, full: Option<bool> },
    Data(DataDone),
    StatFs(loligo_store::StatFs),
    Command(Command),
}

/// What the server's owner asks.
pub(crate) enum Command {
    Stop,
    Adopt(OwnedFd),
    Status(Sender<RankStatus>),
}

/// How the loop ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Stopped,
    Fatal(String),
}

/// Where work for other threads goes.
pub(crate) struct Queues {
    pub(crate) journal: Arc<Queue<journal::Work>>,
    pub(crate) table: Arc<Queue<table::Work>>,
    pub(crate) loads: Arc<Queue<table::Load>>,
}

/// Limits of the loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) connections: usize,
    pub(crate) journal_bytes: u64,
    pub(crate) trust_tcp: bool,
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
    conns: HashMap<u64, Conn>,
    next_conn: u64,
    own_uid: u32,
    begun: Instant,
    now: Instant,
    appends: Vec<(Lsn, Vec<u8>)>,
    to_flush: Vec<u64>,
    requests: u64,
    next_tick: Instant,
    next_statfs: Instant,
    end: Option<End>,
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
        listeners: Listeners,
        begun: Instant,
    ) -> std::io::Result<Rank> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let read = epoll::EventFlags::IN;
        epoll::add(&epoll, waker, epoll::EventData::new_u64(TOKEN_WAKER), read)?;
        for (at, listener) in listeners.sockets.iter().enumerate() {
            epoll::add(&epoll, listener, epoll::EventData::new_u64(TOKEN_LISTENERS + at as u64), read)?;
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
            conns: HashMap::new(),
            next_conn: 1,
            own_uid: rustix::process::geteuid().as_raw(),
            begun,
            now,
            appends: Vec::new(),
            to_flush: Vec::new(),
            requests: 0,
            next_tick: now,
            next_statfs: now,
            end: None,
        })
    }

    /// Runs until the machine has stopped, by command or by failure.
    pub(crate) fn run(mut self) -> End {
        let mut events = Vec::with_capacity(EVENTS);
        let mut brought = Vec::new();
        loop {
            self.wait(&mut events);
            self.now = Instant::now();
            for (token, ready) in events.drain(..) {
                self.socket_event(token, ready);
            }
            self.inbox.take(&mut brought);
            for done in brought.drain(..) {
                self.bring(done);
            }
            if self.now >= self.next_tick {
                self.tick();
            }
            self.finish_round();
            if let Some(end) = self.end.take() {
                self.linger();
                return end;
            }
        }
    }

    fn wait(&mut self, events: &mut Vec<(u64, epoll::EventFlags)>) {
        let mut timeout = self.next_tick.saturating_duration_since(Instant::now());
        if !self.inbox.may_sleep() {
            timeout = Duration::ZERO;
        }
        let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: timeout.min(TICK).as_nanos() as i64 };
        let mut buffer = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; EVENTS];
        let count = match epoll::wait(&self.epoll, &mut buffer[..], Some(&timeout)) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => {
                self.end = Some(End::Fatal(format!("waiting for connections failed: {error}")));
                0
            }
        };
        let mut woken = false;
        for event in &buffer[..count] {
            match event.data.u64() {
                TOKEN_WAKER => woken = true,
                token => events.push((token, event.flags)),
            }
        }
        self.inbox.awake(woken);
    }

    fn socket_event(&mut self, token: u64, ready: epoll::EventFlags) {
        if token >= TOKEN_LISTENERS {
            return self.accept((token - TOKEN_LISTENERS) as usize);
        }
        if ready.intersects(epoll::EventFlags::OUT) {
            self.queue_flush(token);
        }
        let hung_up = ready.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        if hung_up && self.conns.get(&token).is_some_and(Conn::is_paused) {
            return self.gone(token);
        }
        if hung_up || ready.intersects(epoll::EventFlags::IN) {
            self.read(token);
        }
    }

    fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPT_AT_ONCE {
            let Some(listener) = self.listeners.sockets.get(listener) else { return };
            match listener.accept() {
                Ok(Some(sock)) => {
                    let knows = listener.knows_peers();
                    let uid = if knows { sock.peer_uid().ok() } else { None };
                    let trusted = match uid {
                        Some(uid) => uid == 0 || uid == self.own_uid,
                        None => !knows && self.limits.trust_tcp,
                    };
                    let groups = if knows { sock.peer_groups() } else { Vec::new() };
                    self.adopt(sock, Peer { uid, groups, trusted, local: false });
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!("a connection could not be accepted: {error}; is the limit of open files too low?");
                    return;
                }
            }
        }
    }

    fn adopt(&mut self, sock: Sock, peer: Peer) {
        self.metrics.accepted.add(1);
        let mut conn = Conn::new(sock, self.now);
        if self.conns.len() >= self.limits.connections && !peer.local {
            let text = format!("the server has {} connections, which is its limit; try again later", self.conns.len());
            conn.send(&ToClient::Refused { why: Refusal::TooMany, text }, self.now);
            let _ = conn.flush(self.now);
            return;
        }
        let id = self.next_conn;
        self.next_conn += 1;
        if let Err(error) = epoll::add(&self.epoll, &conn.sock, epoll::EventData::new_u64(id), epoll::EventFlags::IN) {
            tracing::warn!("a connection could not be watched: {error}");
            return;
        }
        self.conns.insert(id, conn);
        self.metrics.connections.set(self.conns.len() as u64);
        self.feed(Input::Connected { conn: ConnId(id), peer });
    }

    /// Reads and handles what a connection sent, but no more than its share.
    fn read(&mut self, id: u64) {
        let mut total = 0;
        loop {
            let Some(conn) = self.conns.get_mut(&id) else { return };
            if conn.is_paused() {
                return self.watch(id);
            }
            match conn.read(self.now) {
                Ok(None) => return,
                Ok(Some((0, _))) => return self.gone(id),
                Ok(Some((n, more))) => {
                    total += n;
                    self.metrics.bytes_in.add(n as u64);
                    self.decode(id);
                    if !more || total >= READ_AT_ONCE {
                        return;
                    }
                }
                Err(_) => return self.gone(id),
            }
        }
    }

    /// Handles the whole messages that a connection has, as long as it is not paused.
    fn decode(&mut self, id: u64) {
        loop {
            let Some(conn) = self.conns.get_mut(&id) else { return };
            if conn.is_paused() {
                return self.watch(id);
            }
            match conn.decoder.next_message() {
                Ok(None) => return,
                Ok(Some(msg)) => self.message(id, msg),
                Err(error) => return self.malformed(id, &error),
            }
        }
    }

    fn message(&mut self, id: u64, msg: ToServer) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        self.requests += 1;
        match msg {
            ToServer::Data(request) => {
                conn.data_asked.push_back((request.id, OP_DATA, self.now));
                match conn.session {
                    Some(session) => self.data.request(id, session, request),
                    None => self.data.refuse(id, request.id),
                }
                self.data_outputs();
            }
            msg => {
                match &msg {
                    ToServer::Hello(_) => {
                        conn.greeted = true;
                        conn.decoder.handshake_done();
                    }
                    ToServer::Request(request) => conn.asked.push_back((request.seq.0, op_index(&request.op), self.now)),
                    _ => {}
                }
                self.feed(Input::Message { conn: ConnId(id), msg });
            }
        }
    }

    fn malformed(&mut self, id: u64, error: &DecodeError) {
        tracing::warn!("connection {id} is closed: {error}");
        self.metrics.dropped.add(1);
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.send(&ToClient::Refused { why: Refusal::Malformed, text: error.to_string() }, self.now);
            let _ = conn.flush(self.now);
        }
        self.gone(id);
    }

    fn bring(&mut self, done: Done) {
        match done {
            Done::Durable(lsn) => self.feed(Input::Durable { lsn }),
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
            Done::LoadFailed { ticket } => self.feed(Input::LoadFailed { ticket }),
            Done::Checkpoint { id, full: None } => self.feed(Input::CheckpointDone { id }),
            Done::Checkpoint { id, full: Some(full) } => self.feed(Input::CheckpointFailed { id, full }),
            Done::Data(done) => {
                self.data.done(done);
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
            Done::Command(Command::Stop) => self.feed(Input::Stop),
            Done::Command(Command::Adopt(fd)) => match Sock::new(fd) {
                Ok(sock) => self.adopt(sock, Peer { uid: Some(self.own_uid), groups: Vec::new(), trusted: true, local: true }),
                Err(error) => tracing::warn!("a socket of this process could not be used: {error}"),
            },
            Done::Command(Command::Status(to)) => {
                let _ = to.send(self.status());
            }
        }
    }

    fn status(&self) -> RankStatus {
        RankStatus { mds: self.mds.status() }
    }

    fn tick(&mut self) {
        self.next_tick = self.now + TICK;
        if self.now >= self.next_statfs {
            self.next_statfs = self.now + STATFS_EVERY;
            self.queues.table.push(table::Work::StatFs);
            self.metrics.rank_cpu_ns.set(thread_cpu_ns());
            self.judge();
        }
        let used = self.metrics.journal_space.get();
        self.feed(Input::JournalSpace { used, limit: self.limits.journal_bytes });
        self.feed(Input::Tick);
        self.data.tick();
        self.data_outputs();
    }

    /// Closes connections that break the rules.
    fn judge(&mut self) {
        let mut bad = Vec::new();
        for (id, conn) in &self.conns {
            if let Verdict::Drop(why) = conn.verdict(self.now) {
                bad.push((*id, why));
            }
        }
        for (id, why) in bad {
            tracing::warn!("connection {id} is closed: {why}");
            self.metrics.dropped.add(1);
            self.gone(id);
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
            Output::Send { conn, msg } => self.send(conn.0, &msg),
            Output::Close { conn } => {
                if let Some(c) = self.conns.get_mut(&conn.0) {
                    c.closing = true;
                    self.queue_flush(conn.0);
                }
            }
            Output::Append { lsn, record } => self.appends.push((lsn, record)),
            Output::Load { ticket, needs } => self.queues.loads.push((ticket, needs)),
            Output::Checkpoint { id, records } => self.queues.table.push(table::Work::Checkpoint { id, records }),
            Output::Trim { below } => self.queues.table.push(table::Work::Trim { below }),
            Output::Discard { ino, from, object_size } => self.data.discard(ino, from, object_size),
            Output::Spill { ino, data, object_size } => self.data.spill(ino, data, object_size),
            Output::Access { session, ino, access } => self.data.access(session, ino, access),
            Output::Bound { conn, session } => {
                if let Some(conn) = self.conns.get_mut(&conn.0) {
                    conn.session = Some(session);
                }
            }
            Output::Fence { session } => self.data.fence(session),
            Output::Stopped => self.end = self.end.take().or(Some(End::Stopped)),
            Output::Fatal { text } => self.fatal(text),
        }
    }

    fn fatal(&mut self, text: String) {
        tracing::error!("{text}");
        if !matches!(self.end, Some(End::Fatal(_))) {
            self.end = Some(End::Fatal(text));
        }
    }

    /// Carries out what the data plane has to tell.
    fn data_outputs(&mut self) {
        while let Some(out) = self.data.next_output() {
            match out {
                super::data::Out::Reply { conn, msg } => self.send(conn, &msg),
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

    fn send(&mut self, id: u64, msg: &ToClient) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let (asked, failed) = match msg {
            ToClient::Reply { seq, result, .. } => (answered(&mut conn.asked, seq.0), result.is_err()),
            ToClient::Data { id, result } => (answered(&mut conn.data_asked, *id), result.is_err()),
            _ => (None, false),
        };
        conn.send(msg, self.now);
        if let Some((_, op, since)) = asked {
            let op = self.metrics.ops.at(op);
            op.done.add(1);
            op.errors.add(u64::from(failed));
            op.latency.record(since.elapsed().as_nanos() as u64);
        }
        self.queue_flush(id);
    }

    fn queue_flush(&mut self, id: u64) {
        if let Some(conn) = self.conns.get_mut(&id)
            && !conn.queued
        {
            conn.queued = true;
            self.to_flush.push(id);
        }
    }

    /// Hands out what the round made, the journal's part first. Answers make room for requests that waited, and these
    /// make more, so it goes on until nothing is left.
    fn finish_round(&mut self) {
        while !self.appends.is_empty() || !self.to_flush.is_empty() || self.data.has_work() {
            if !self.appends.is_empty() {
                self.queues.journal.push(journal::Work::Append(std::mem::take(&mut self.appends)));
            }
            self.data.submit();
            for id in std::mem::take(&mut self.to_flush) {
                self.flush(id);
            }
        }
        self.metrics.rounds.add(1);
        if self.requests > 0 {
            self.metrics.round_requests.record(self.requests);
            self.requests = 0;
        }
    }

    fn flush(&mut self, id: u64) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        conn.queued = false;
        let was_paused = !conn.interest.0;
        match conn.flush(self.now) {
            Ok(n) => self.metrics.bytes_out.add(n as u64),
            Err(_) => return self.gone(id),
        }
        if conn.closing && !conn.has_unsent() {
            return self.gone(id);
        }
        self.watch(id);
        // Requests that came while it was paused are in the decoder, where epoll does not see them.
        if was_paused {
            self.decode(id);
        }
    }

    /// Tells epoll what the connection waits for now.
    fn watch(&mut self, id: u64) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let interest = (!conn.is_paused(), conn.has_unsent());
        if interest == conn.interest {
            return;
        }
        conn.interest = interest;
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, interest.0);
        flags.set(epoll::EventFlags::OUT, interest.1);
        if let Err(error) = epoll::modify(&self.epoll, conn.sock.as_fd(), epoll::EventData::new_u64(id), flags) {
            tracing::warn!("connection {id} could not be watched: {error}");
            self.gone(id);
        }
    }

    fn gone(&mut self, id: u64) {
        let Some(conn) = self.conns.remove(&id) else { return };
        let _ = epoll::delete(&self.epoll, conn.sock.as_fd());
        drop(conn);
        self.metrics.connections.set(self.conns.len() as u64);
        self.data.disconnected(id);
        self.feed(Input::Disconnected { conn: ConnId(id) });
    }

    /// Lets connections take their last answers, for a short time.
    fn linger(&mut self) {
        let until = Instant::now() + LINGER;
        while Instant::now() < until {
            self.now = Instant::now();
            let now = self.now;
            self.conns.retain(|_, conn| conn.has_unsent() && conn.flush(now).is_ok() && conn.has_unsent());
            if self.conns.is_empty() {
                return;
            }
            let pause = rustix::event::Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
            let mut buffer = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 8];
            let _ = epoll::wait(&self.epoll, &mut buffer[..], Some(&pause));
        }
    }
}

/// Index of an operation in [`OPS`].
fn op_index(op: &loligo_types::Op) -> usize {
    // The names are static and few; equal pointers end the search at once in practice.
    let name = op.name();
    OPS.iter().position(|known| std::ptr::eq(known.as_ptr(), name.as_ptr()) || *known == name).unwrap_or(0)
}

fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
