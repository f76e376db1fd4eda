//! The resident client's part of a round: what its guest brings goes through its machine to the metadata machine and
//! back, by value. What other ranks are to get goes over connections (`peer_sockets.rs`).

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use loligo_client::{Input as ClientInput, Now as ClientNow, Output as ClientOutput};
use loligo_mds::{ConnId, Input, Peer};
use loligo_types::FsError;
use loligo_types::msg::ToClient;
use rustix::event::epoll;

use super::super::conn::answered;
use super::super::format::now as wall;
use super::super::resident::{Ask, Residence, Took};
use super::{PeerSockets, Rank, TOKEN_GUEST};
use crate::client::{calls, subtree};

impl Rank {
    pub(super) fn resident_asks(&mut self, ask: Ask) {
        match ask {
            Ask::Begin(residence) => {
                if self.resident.is_some() {
                    let mut residence = residence;
                    residence.welcome(Err("the server has a resident client already".into()));
                    return;
                }
                self.resident = Some(residence);
                self.resident_connects();
                self.resident_round();
            }
            Ask::Call { id, cred, call, done } => match &mut self.resident {
                Some(residence) if !residence.stopped => {
                    let input = residence.input(id, cred, call, done);
                    self.resident_feed(input);
                }
                _ => calls::run(vec![(done, Err(FsError::Unavailable.into()))]),
            },
            Ask::Interrupt { id, unserved } => self.resident_feed(ClientInput::Interrupt { id, unserved }),
            Ask::Invalidated(token) => self.resident_feed(ClientInput::Invalidated { token }),
            Ask::Kept(token, result) => self.resident_feed(ClientInput::KeepDone { token, result }),
            Ask::Host(guest) => self.host(guest),
            Ask::Stop => self.resident_feed(ClientInput::Stop),
        }
    }

    fn host(&mut self, guest: Box<dyn super::super::resident::Guest>) {
        let Some(residence) = &mut self.resident else { return guest.orphaned() };
        let watched =
            epoll::add(&self.epoll, guest.source(), epoll::EventData::new_u64(TOKEN_GUEST), epoll::EventFlags::IN);
        match watched {
            Ok(()) => residence.guest = Some(guest),
            Err(error) => {
                tracing::error!("the guest of the rank's thread could not be watched: {error}");
                guest.orphaned();
            }
        }
    }

    /// The guest may have something. Whether it had.
    pub(super) fn guest_turn(&mut self) -> bool {
        let most = self.visits.most();
        let mut taken = 0;
        while taken < most && self.guest_takes() {
            taken += 1;
        }
        self.visits.took(taken);
        taken > 0
    }

    /// Lets the guest take one request. Whether there was one.
    fn guest_takes(&mut self) -> bool {
        let Some(guest) = self.resident.as_mut().and_then(|r| r.guest.as_mut()) else { return false };
        // What a guest does wrong must not end the server. The request that it was at is answered with an error when it
        // is dropped.
        let took = std::panic::catch_unwind(AssertUnwindSafe(|| guest.take())).unwrap_or_else(|_| {
            tracing::error!("the guest of the rank's thread panicked over a request; it goes on with the next");
            Took::Request
        });
        if took == Took::End {
            let _ = epoll::delete(&self.epoll, guest.source());
            if let Some(residence) = &mut self.resident {
                residence.guest = None;
            }
        }
        took == Took::Request
    }

    /// Tells the resident client something, if there is one, and does what it says.
    pub(super) fn resident_feed(&mut self, input: ClientInput) {
        self.resident_hears(input);
        self.resident_round();
    }

    /// Only tells it; what it says is carried out by the caller's round.
    fn resident_hears(&mut self, input: ClientInput) {
        let now = self.resident_now();
        if let Some(residence) = &mut self.resident {
            residence.machine.handle(now, input);
        }
    }

    /// True if the server has sent the resident client something that it has not seen.
    pub(super) fn resident_waits(&self) -> bool {
        self.resident.as_ref().is_some_and(|r| !r.incoming.is_empty() || r.hung_up)
    }

    /// Carries out what the resident client said and gives it what it was sent, until nothing is left.
    pub(super) fn resident_round(&mut self) {
        if !self.may_answer() {
            return;
        }
        let mut ready = Vec::new();
        let now = self.resident_now();
        while let Some(residence) = &mut self.resident {
            let rank = residence.rank;
            if let Some(output) = residence.machine.poll() {
                self.resident_output(output, &mut ready);
            } else if let Some(message) = residence.incoming.pop_front() {
                residence.machine.handle(now, ClientInput::Message { rank, message });
            } else if std::mem::take(&mut residence.hung_up) {
                residence.machine.handle(now, ClientInput::Disconnected { rank });
            } else {
                break;
            }
        }
        self.abroad_flush();
        calls::run(ready);
    }

    /// Gives it what another rank has sent it; what it says is carried out by the caller's round.
    pub(super) fn resident_messages(&mut self, rank: loligo_types::Rank, messages: Vec<ToClient>) {
        for message in messages {
            self.resident_hears(ClientInput::Message { rank, message });
        }
    }

    fn resident_output(&mut self, output: ClientOutput, ready: &mut Vec<(calls::Callback, loligo_client::CallResult)>) {
        let Some(residence) = &mut self.resident else { return };
        match output {
            ClientOutput::Send { rank, message } => {
                if rank != residence.rank {
                    residence.abroad.send(rank, &message);
                } else if residence.connected {
                    let conn = residence.conn;
                    self.message(conn, message);
                }
            }
            // It was never told of a connection to the store: the rank is at hand.
            ClientOutput::Direct { .. } => {}
            ClientOutput::Complete { id, result } => {
                if let Some(done) = residence.calls.remove(&id) {
                    ready.push((done, result));
                }
            }
            ClientOutput::Invalidate { token, what } => match &residence.invalidator {
                Some(invalidator) => invalidator.push(token, what),
                // Without caches above, they have dropped it already.
                None => self.resident_hears(ClientInput::Invalidated { token }),
            },
            ClientOutput::Keep { token, fs, record, groups } => match &residence.keeping {
                Some(keeping) => keeping.keep(token, fs, record, groups),
                None => {
                    let result = Err(FsError::NotSupported);
                    self.resident_hears(ClientInput::KeepDone { token, result });
                }
            },
            ClientOutput::KeptMerged { epoch, all } => {
                residence.keeping.iter().for_each(|keeping| keeping.merged(epoch, all));
            }
            ClientOutput::KeptLost { epoch } => residence.keeping.iter().for_each(|keeping| keeping.lost(epoch)),
            ClientOutput::StageFailed { dir, stage, error } => subtree::log_failed(dir, stage, error),
            // No program of the library is in this process.
            ClientOutput::Doubt { .. } => {}
            ClientOutput::Connect { rank, .. } if rank != residence.rank => residence.abroad.connect(rank),
            ClientOutput::Disconnect { rank } => residence.abroad.disconnect(rank),
            ClientOutput::Connect { .. } => {
                residence.wants_connection = true;
                self.resident_parts();
            }
            ClientOutput::Ready { .. } => residence.welcome(Ok(())),
            ClientOutput::Refused { text, .. } => {
                tracing::error!(text, "the server refuses its resident client");
                let never_in = residence.welcomed.is_some();
                residence.welcome(Err(text));
                if never_in {
                    self.resident = None;
                }
            }
            // It is the same machine's.
            ClientOutput::ClockRuns { .. } => {}
            ClientOutput::Stopped => {
                residence.stopped = true;
                residence.state.set(residence.machine.unmerged());
                // With their last words; connections that end end the sessions, too, as they are of this process.
                self.abroad_flush();
                if let Some(residence) = &mut self.resident {
                    residence.abroad = PeerSockets::default();
                }
                self.resident_parts();
            }
        }
    }

    /// A connection without a socket, trusted as one of this process.
    fn resident_connects(&mut self) {
        self.resident_parts();
        let conn = self.next_conn;
        self.next_conn += 1;
        let Some(residence) = &mut self.resident else { return };
        (residence.conn, residence.connected, residence.hung_up) = (conn, true, false);
        self.metrics.accepted.add(1);
        let peer = Peer { uid: Some(self.own_uid), groups: Vec::new(), trusted: true, local: true, identity: None };
        self.feed(Input::Connected { conn: ConnId(conn), peer });
        let Some(residence) = &self.resident else { return };
        let rank = residence.rank;
        self.resident_hears(ClientInput::Connected { rank });
    }

    /// Ends the connection, if there is one, for the server.
    fn resident_parts(&mut self) {
        let Some(residence) = &mut self.resident else { return };
        if !std::mem::take(&mut residence.connected) {
            return;
        }
        let conn = residence.conn;
        residence.incoming.clear();
        residence.part();
        self.data.disconnected(conn);
        self.feed(Input::Disconnected { conn: ConnId(conn) });
    }

    /// The server closes its connection.
    pub(super) fn resident_closed(&mut self) {
        let Some(residence) = &mut self.resident else { return };
        (residence.connected, residence.hung_up) = (false, true);
        residence.part();
        let conn = residence.conn;
        self.data.disconnected(conn);
    }

    /// Time goes on for it.
    pub(super) fn resident_ticks(&mut self) {
        if self.resident.as_mut().is_some_and(|r| std::mem::take(&mut r.wants_connection)) {
            self.resident_connects();
        }
        self.abroad_connects();
        self.resident_feed(ClientInput::Tick);
    }

    /// Takes a message for the resident client, if it is one; counts what it answers.
    pub(super) fn resident_takes(&mut self, conn: u64, message: ToClient) -> Option<ToClient> {
        let Some(residence) = self.resident.as_mut().filter(|r| r.connected && r.conn == conn) else {
            return Some(message);
        };
        let (asked, failed) = match &message {
            ToClient::Reply { seq, result, .. } => (answered(&mut residence.asked, seq.0), result.is_err()),
            ToClient::Data { id, result } => (answered(&mut residence.data_asked, *id), result.is_err()),
            _ => (None, false),
        };
        residence.incoming.push_back(message);
        if let Some((_, op, since)) = asked {
            self.count(op, failed, since);
        }
        None
    }

    /// Counts an answered request.
    pub(super) fn count(&self, op: usize, failed: bool, since: Instant) {
        let op = self.metrics.ops.at(op);
        op.done.add(1);
        op.errors.add(u64::from(failed));
        op.latency.record(since.elapsed().as_nanos() as u64);
    }

    fn resident_now(&self) -> ClientNow {
        ClientNow { ms: self.now.saturating_duration_since(self.begun).as_millis() as u64, wall: wall() }
    }

    /// The rank ends: who still waits is told, and the guest is on its own.
    pub(super) fn resident_ends(&mut self) {
        self.inbox.close();
        drop::<Option<Box<Residence>>>(self.resident.take());
    }
}
