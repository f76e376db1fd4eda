//! The session with the server: handshake, numbered requests and their answers, data requests. What happens when the
//! connection or the session is lost is in `recover`.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_types::limits::IN_FLIGHT_MAX;
use loligo_types::msg::{DataRequest, Hello, PROTOCOL_VERSION, Request, ToClient, ToServer, Welcome};
use loligo_types::{Answer, Cred, DataAnswer, DataError, DataOp, FsError, FsResult, Ino, Lease, Op, Seq, SessionId};

use crate::dispatch::Pass;
use crate::machine::Client;
use crate::task::Event;
use crate::{Invalidation, Output};

/// What the answer to a request is for.
#[derive(Debug)]
pub(crate) enum Then {
    Nothing,
    /// A call that is one request.
    Pass(Pass),
    /// A step of a task.
    Task(u64),
    /// A step of writing a file back.
    Flush(Ino),
    /// The server has taken back what was held, so data requests are welcome.
    Reclaimed,
}

/// What the answer to a data request is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DataThen {
    Task(u64),
    /// Bytes from an offset on, for a task that reads.
    Read {
        task: u64,
        at: u64,
    },
    Flush(Ino),
    /// A block of the read cache.
    Block {
        ino: Ino,
        start: u64,
    },
}

/// A request without an answer.
#[derive(Debug)]
pub(crate) struct Pending {
    pub request: Request,
    pub then: Then,
}

/// A data request without an answer.
#[derive(Debug)]
pub(crate) struct PendingData {
    pub request: DataRequest,
    pub then: DataThen,
    /// The server was too busy: to be sent again.
    pub again: bool,
}

/// How far the connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Link {
    /// None.
    #[default]
    Down,
    /// Hello was sent.
    Greeting,
    /// Welcome came.
    Up,
}

/// Requests are sent at most this far beyond the oldest unanswered one, whose followers the server must remember.
const WINDOW: u64 = 100_000;

/// State of the session.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub link: Link,
    /// Id and secret.
    pub id: Option<(SessionId, u64)>,
    pub fs_id: Option<[u8; 16]>,
    pub inline_max: u64,
    pub session_ms: u64,
    pub next_seq: u64,
    pub pending: BTreeMap<u64, Pending>,
    /// The first request that was not sent over this connection.
    pub unsent: u64,
    /// Requests sent over this connection and not answered.
    pub in_flight: usize,
    pub next_data: u64,
    pub data: BTreeMap<u64, PendingData>,
    /// Data requests wait: the server restarted and may not know yet what is open.
    pub data_held: bool,
    /// What the server said last of data that it may have lost.
    pub data_epoch: u64,
    /// How often the server restarted under the session and may have lost data.
    pub restarts: u64,
    pub last_sent: u64,
    pub last_heard: u64,
    /// Since when there is no working connection, milliseconds.
    pub down_since: Option<u64>,
    /// Calls fail until there is one again.
    pub gave_up: bool,
    /// The server will not have this client.
    pub refused: bool,
    /// So long without the server that it may have given the leases to others: nothing cached is used.
    pub suspended: bool,
    /// Recalls that were answered lately: the answer may have been lost with a connection.
    pub recalls_done: std::collections::VecDeque<(Ino, u64)>,
}

impl Client {
    pub(crate) fn send(&mut self, message: ToServer) {
        self.session.last_sent = self.now.ms;
        self.out.push_back(Output::Send(message));
    }

    /// A connection was made: greets.
    pub(crate) fn connected(&mut self) {
        self.session.link = Link::Greeting;
        self.session.last_heard = self.now.ms;
        let hello = Hello {
            versions: (PROTOCOL_VERSION, PROTOCOL_VERSION),
            resume: self.session.id,
            name: self.config.name.clone(),
            fs_id: self.session.fs_id,
        };
        self.send(ToServer::Hello(hello));
    }

    pub(crate) fn message(&mut self, message: ToClient) {
        self.session.last_heard = self.now.ms;
        match (self.session.link, message) {
            (Link::Greeting, ToClient::Welcome(welcome)) => self.welcomed(welcome),
            (Link::Greeting, ToClient::Refused { why, text }) => self.refused(why, text),
            (Link::Up, ToClient::Reply { seq, result, granted }) => self.reply(seq, result, &granted),
            (Link::Up, ToClient::Data { id, result }) => self.data_reply(id, result),
            (Link::Up, ToClient::Recall { ino, id, bits }) => self.recalled(ino, id, bits),
            (Link::Up | Link::Greeting, ToClient::Evicted) => self.evicted(),
            // Of a connection that was given up already, or out of place.
            _ => {}
        }
    }

    fn welcomed(&mut self, welcome: Welcome) {
        let had = self.session.id.replace((welcome.session, welcome.secret)).is_some();
        let before = std::mem::replace(&mut self.session.data_epoch, welcome.data_epoch);
        let lost = before != welcome.data_epoch || before == 0;
        self.session.fs_id = Some(welcome.fs_id);
        self.session.inline_max = u64::from(welcome.inline_max);
        self.session.session_ms = u64::from(welcome.session_ms).max(100);
        self.session.down_since = None;
        self.session.gave_up = false;
        self.out.push_back(Output::Ready(welcome.clone()));
        if had && !welcome.resumed {
            self.session_lost();
        } else if welcome.resumed && !welcome.kept {
            self.reclaim(lost);
            self.hold_data();
        } else if welcome.resumed {
            self.repeat_recalls_done();
        }
        if std::mem::take(&mut self.session.suspended) {
            for ino in self.files.map.keys().copied().collect::<Vec<_>>() {
                self.start_waiting(ino);
            }
        }
        self.session.link = Link::Up;
        self.resend();
    }

    /// Sends what is unanswered, in order.
    fn resend(&mut self) {
        self.session.in_flight = 0;
        self.session.unsent = 0;
        self.send_data();
        self.send_requests();
    }

    /// Sends all data requests that are unanswered, unless they must wait.
    fn send_data(&mut self) {
        if self.session.data_held {
            return;
        }
        let data: Vec<_> = self.session.data.values().map(|pending| pending.request.clone()).collect();
        for pending in self.session.data.values_mut() {
            pending.again = false;
        }
        for request in data {
            self.send(ToServer::Data(request));
        }
    }

    /// Holds data requests back until a request was answered that the server does only when it knows what is open.
    pub(crate) fn hold_data(&mut self) {
        let Some(cred) = self.files.handles.values().next().map(|handle| Cred::clone(&handle.cred)) else { return };
        self.session.data_held = true;
        let seq = self.session.next_seq.max(1);
        self.session.next_seq = seq + 1;
        let op = Op::Close { handles: Vec::new() };
        let request = Request { seq: Seq(seq), answered: Seq(seq), want: Lease::NONE, cred, op };
        self.session.pending.insert(seq, Pending { request, then: Then::Reclaimed });
    }

    /// Sends requests as far as the server takes them.
    fn send_requests(&mut self) {
        while self.session.link == Link::Up && self.session.in_flight < IN_FLIGHT_MAX {
            let Some((seq, pending)) = self.session.pending.range(self.session.unsent..).next() else { return };
            let (seq, mut request) = (*seq, pending.request.clone());
            let first = self.first_unanswered();
            if seq >= first + WINDOW {
                return;
            }
            request.answered = Seq(first);
            self.session.unsent = seq + 1;
            self.session.in_flight += 1;
            self.send(ToServer::Request(request));
        }
    }

    fn first_unanswered(&self) -> u64 {
        self.session.pending.keys().next().copied().unwrap_or(self.session.next_seq)
    }

    /// Asks the server something.
    pub(crate) fn request(&mut self, cred: &Arc<Cred>, op: Op, then: Then) {
        self.session.next_seq = self.session.next_seq.max(1);
        let seq = self.session.next_seq;
        self.session.next_seq += 1;
        let want = self.want(&op);
        let request = Request { seq: Seq(seq), answered: Seq(seq), want, cred: Cred::clone(cred), op };
        self.session.pending.insert(seq, Pending { request, then });
        self.send_requests();
    }

    /// Leases that are of use with an operation.
    fn want(&self, op: &Op) -> Lease {
        if !self.config.cache {
            return Lease::NONE;
        }
        let names = if self.config.cache_names { Lease::NAMES } else { Lease::NONE };
        match op {
            Op::Lookup { .. }
            | Op::LookupParent { .. }
            | Op::Create { .. }
            | Op::Mknod { .. }
            | Op::Mkdir { .. }
            | Op::Symlink { .. }
            | Op::Link { .. } => names | Lease::ATTR,
            Op::Readdir { plus: true, .. } => names | Lease::ATTR,
            Op::Readdir { .. } => names,
            Op::GetAttr { .. }
            | Op::SetAttr { .. }
            | Op::Open { .. }
            | Op::Tmpfile { .. }
            | Op::SetXattr { .. }
            | Op::RemoveXattr { .. }
            | Op::WriteInline { .. }
            | Op::SetData { .. } => Lease::ATTR,
            _ => Lease::NONE,
        }
    }

    fn reply(&mut self, seq: Seq, result: FsResult<Answer>, granted: &[(Ino, Lease)]) {
        let Some(pending) = self.session.pending.remove(&seq.0) else { return };
        self.session.in_flight = self.session.in_flight.saturating_sub(1);
        if matches!((&pending.request.op, &result), (Op::SetLock { wait: true, .. }, Err(FsError::Busy))) {
            // It has waited so long that the server must remember too much for it: it is to ask again.
            let Request { cred, op, .. } = pending.request;
            return self.request(&Arc::new(cred), op, pending.then);
        }
        let answered = self.first_unanswered();
        self.leases.grant(seq.0, granted, answered);
        if let Ok(answer) = &result {
            self.learn_answer(seq, answer);
        }
        match pending.then {
            Then::Nothing => {}
            Then::Pass(pass) => self.passed(pass, result),
            Then::Task(id) => self.events.push_back((id, Event::Reply(result))),
            Then::Flush(ino) => self.flush_reply(ino, result),
            Then::Reclaimed => {
                self.session.data_held = false;
                self.send_data();
            }
        }
        self.send_requests();
    }

    fn learn_answer(&mut self, seq: Seq, answer: &Answer) {
        if let Answer::Entry(attr) = answer {
            self.learn(attr);
        }
        if let Answer::Entries { entries, .. } = answer {
            for entry in entries {
                if !entry.lease.is_none() {
                    self.leases.grant(seq.0, &[(entry.ino, entry.lease)], 0);
                }
            }
        }
    }

    /// Asks the data server something; the request's number. The file must be known.
    pub(crate) fn data_request(&mut self, ino: Ino, op: DataOp, then: DataThen) -> u64 {
        let object_size = self.files.map.get(&ino).map(|file| file.attr.layout).unwrap_or_default().object_size;
        self.session.next_data += 1;
        let id = self.session.next_data;
        let request = DataRequest { id, ino, object_size, op };
        if self.session.link == Link::Up && !self.session.data_held {
            self.send(ToServer::Data(request.clone()));
        }
        self.session.data.insert(id, PendingData { request, then, again: false });
        id
    }

    fn data_reply(&mut self, id: u64, result: Result<DataAnswer, DataError>) {
        let Some(pending) = self.session.data.get_mut(&id) else { return };
        if result == Err(DataError::Busy) {
            pending.again = true;
            return;
        }
        let then = pending.then;
        self.session.data.remove(&id);
        match then {
            DataThen::Task(task) => self.events.push_back((task, Event::Data(result))),
            DataThen::Read { task, at } => self.events.push_back((task, Event::Block(bytes_at(at, result)))),
            DataThen::Flush(ino) => self.flush_data(ino, result),
            DataThen::Block { ino, start } => self.fetched(id, ino, start, result),
        }
    }

    /// Sends data requests again that the server was too busy for. In order, and all: later ones of the same file may
    /// rest on earlier ones.
    pub(crate) fn repeat_busy(&mut self) {
        if self.session.link != Link::Up || self.session.data_held {
            return;
        }
        let again: Vec<_> = self.session.data.values_mut().filter(|p| p.again).collect();
        let requests: Vec<_> = again
            .into_iter()
            .map(|pending| {
                pending.again = false;
                pending.request.clone()
            })
            .collect();
        for request in requests {
            self.send(ToServer::Data(request));
        }
    }

    /// Drops everything that was lent, above and here, without waiting: it may be somebody else's by now.
    pub(crate) fn drop_leases(&mut self) {
        for (ino, bits) in self.leases.take_all() {
            if bits.has(Lease::NAMES) {
                self.invalidate(Invalidation::Names(ino), false);
            }
            if bits.has(Lease::ATTR) {
                self.invalidate(Invalidation::Attr(ino), false);
            }
        }
    }
}

/// The bytes of an answer to a read.
pub(crate) fn bytes_at(at: u64, result: Result<DataAnswer, DataError>) -> Result<(u64, Arc<[u8]>), DataError> {
    match result? {
        DataAnswer::Bytes(bytes) => Ok((at, bytes)),
        // The server breaks the protocol; nothing it said can be used.
        _ => Err(DataError::Io),
    }
}
