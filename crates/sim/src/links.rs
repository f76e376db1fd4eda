//! Messages between machines, and the handling of those that reach a client machine.

use std::collections::BTreeSet;

use loligo_client::{Input, Output, Token};
use loligo_types::msg::{Refusal, ToClient, ToServer, Welcome};
use loligo_types::{FsError, Lease, Rank};

use crate::knobs::SESSION_MS;
use crate::options::Canary;
use crate::world::{Event, World, show};

impl World {
    pub fn send_to_server(&mut self, node: usize, number: Rank, mut msg: ToServer) {
        let Some(id) = self.nodes[node].conns.get(&number).copied() else { return };
        let us = self.rng.delay(self.knobs.net.0, self.knobs.net.1);
        let at = self.now + us;
        let Some(conn) = self.net.conns.get_mut(&id) else { return };
        if self.options.canary == Some(Canary::SessionForgotten)
            && let ToServer::Hello(hello) = &mut msg
            && hello.resume.take().is_some()
        {
            conn.pretends = true;
        }
        if let Some(at) = conn.up.push(at, msg) {
            self.at(at, Event::ToServer(id));
        }
    }

    pub fn send_to_client(&mut self, id: u64, mut msg: ToClient) {
        let us = self.rng.delay(self.knobs.net.0, self.knobs.net.1);
        let at = self.now + us;
        let Some(conn) = self.net.conns.get_mut(&id) else { return };
        if let (true, ToClient::Welcome(welcome)) = (conn.pretends, &mut msg) {
            (welcome.resumed, welcome.kept) = (true, true);
        }
        if let ToClient::Recall { ino, id: recall, bits } = &msg
            && match self.options.canary {
                Some(Canary::RecallsDropped) => true,
                Some(Canary::PartNamesStay) => bits.has(Lease::NAMES) && self.spread.contains(ino),
                _ => false,
            }
        {
            let done = ToServer::RecallDone { ino: *ino, id: *recall };
            if let Some(at) = conn.up.push(at, done) {
                self.at(at, Event::ToServer(id));
            }
            return;
        }
        if let (Some(Canary::LeasesLast), ToClient::Reply { ways, .. }) = (self.options.canary, &mut msg) {
            ways.iter_mut().for_each(|(_, ms)| *ms *= 3);
        }
        let refused = matches!(
            msg,
            ToClient::Reply { result: Err(FsError::NoSpace | FsError::Io | FsError::BadHandle), .. }
                | ToClient::Data { result: Err(_), .. }
        );
        if let Some(at) = conn.down.push(at, msg) {
            self.at(at, Event::ToClient(id));
        }
        if refused && self.disk_faults {
            // The disk's fault: data that was held back is lost with it; the client tells who closes or syncs.
            self.data.server_lost();
        }
    }

    pub fn arrive_at_server(&mut self, id: u64) {
        let now = self.now;
        let Some(conn) = self.net.conns.get_mut(&id) else { return };
        let rank = conn.rank;
        if conn.gone_up || conn.server_life != self.seats[rank].life {
            return;
        }
        let Some(msg) = conn.up.pop(now) else { return };
        self.note(|| format!("-> conn {id} {}", show(&msg)));
        self.with_server(rank, |server, now| server.message(now, id, msg));
    }

    pub fn arrive_at_client(&mut self, id: u64) {
        let now = self.now;
        let Some(conn) = self.net.conns.get_mut(&id) else { return };
        let (node, life, rank) = (conn.node, conn.node_life, conn.number);
        let Some(msg) = conn.down.pop(now) else { return };
        conn.refused |= matches!(msg, ToClient::Refused { .. });
        if !self.is_alive(node, life) || self.nodes[node].conns.get(&rank) != Some(&id) {
            return;
        }
        self.note(|| format!("<- conn {id} client {node} {}", show(&msg)));
        if matches!(msg, ToClient::Evicted) {
            self.nodes[node].sessions.remove(&rank);
            self.lose_epoch(node);
        }
        self.feed_client(node, Input::Message { rank, message: msg });
    }

    pub fn gone_server(&mut self, id: u64) {
        let Some(conn) = self.net.conns.get_mut(&id) else { return };
        let rank = conn.rank;
        let ours = conn.server_life == self.seats[rank].life && !conn.gone_up;
        conn.gone_up = true;
        if ours {
            self.note(|| format!("rank {rank} loses conn {id}"));
            self.with_server(rank, |server, now| server.disconnected(now, id));
        }
        self.net.tidy();
    }

    pub fn gone_client(&mut self, id: u64) {
        let Some(conn) = self.net.conns.get_mut(&id) else { return };
        let (node, life, rank) = (conn.node, conn.node_life, conn.number);
        let first = !std::mem::replace(&mut conn.gone_down, true);
        let begun = (!conn.refused).then_some(conn.since);
        self.net.tidy();
        if first && self.is_alive(node, life) && self.nodes[node].conns.get(&rank) == Some(&id) {
            self.unanswered(node, rank, begun);
            self.note(|| format!("client {node} loses conn {id}"));
            self.nodes[node].conns.remove(&rank);
            self.feed_client(node, Input::Disconnected { rank });
        }
    }

    /// The client lets all its connections go.
    pub fn leave_all(&mut self, node: usize) {
        for number in self.nodes[node].conns.keys().copied().collect::<Vec<_>>() {
            self.leave(node, number);
        }
    }

    /// The client lets a connection go; the server learns of it some time later.
    pub fn leave(&mut self, node: usize, number: Rank) {
        self.nodes[node].ready.remove(&number);
        let Some(id) = self.nodes[node].conns.remove(&number) else { return };
        let us = self.rng.delay(2000, 500_000);
        let (rng, now) = (&mut self.rng, self.now);
        let Some(conn) = self.net.conns.get_mut(&id) else { return };
        conn.gone_down = true;
        conn.down.drop_all();
        let end = if conn.up.closed { now } else { conn.up.cut(rng, now) };
        let begun = (!conn.refused).then_some(conn.since);
        self.at(end + us, Event::GoneServer(id));
        self.unanswered(node, number, begun);
    }

    /// A connection is lost over which the client may have greeted a rank in vain.
    fn unanswered(&mut self, node: usize, number: Rank, begun: Option<u64>) {
        let node = &mut self.nodes[node];
        if let Some(begun) = begun.filter(|_| !node.sessions.contains_key(&number)) {
            node.unanswered.entry(number).or_insert(begun);
        }
    }

    pub fn close_by_server(&mut self, id: u64) {
        let now = self.now;
        let us = self.rng.delay(self.knobs.net.0, self.knobs.net.1);
        let Some(conn) = self.net.conns.get_mut(&id) else { return };
        conn.up.drop_all();
        conn.gone_up = true;
        let (end, rank) = (conn.down.end(now), conn.rank);
        self.at(end + us, Event::GoneClient(id));
        self.with_server(rank, |server, now| server.disconnected(now, id));
    }

    pub fn connect(&mut self, node: usize, life: u64, number: Rank, rank: usize) {
        if !self.is_alive(node, life) || self.nodes[node].connecting.get(&number) != Some(&rank) {
            return;
        }
        self.nodes[node].connecting.remove(&number);
        if self.seats[rank].server.is_none() || self.nodes[node].cut_off_until > self.now {
            return self.feed_client(node, Input::Disconnected { rank: number });
        }
        let id = self.net.next;
        self.net.next += 1;
        let (server_life, node_life) = (self.seats[rank].life, life);
        let conn = crate::net::Conn {
            node,
            node_life,
            server_life,
            rank,
            number,
            since: self.now,
            ..crate::net::Conn::default()
        };
        self.net.conns.insert(id, conn);
        self.nodes[node].conns.insert(number, id);
        self.note(|| format!("client {node} has conn {id} to rank {rank}"));
        self.with_server(rank, |server, now| server.connected(now, id));
        self.feed_client(node, Input::Connected { rank: number });
    }

    pub fn is_alive(&self, node: usize, life: u64) -> bool {
        self.nodes[node].up && self.nodes[node].life == life
    }

    /// Feeds a client and carries out what it puts out.
    pub fn feed_client(&mut self, node: usize, input: Input) {
        let now = self.client_now(node);
        self.nodes[node].client.handle(now, input);
        while let Some(output) = self.nodes[node].client.poll() {
            self.client_output(node, output);
        }
    }

    pub fn client_output(&mut self, node: usize, output: Output) {
        let life = self.nodes[node].life;
        match output {
            Output::Send { rank, message } => self.send_to_server(node, rank, message),
            Output::Connect { rank: number, address } => {
                self.leave(node, number);
                let rank = address.and_then(|at| at.parse().ok()).unwrap_or(self.door(self.nodes[node].home));
                self.nodes[node].connecting.insert(number, rank);
                let us = self.rng.delay(20_000, 200_000);
                self.after(us, Event::Connect { node, life, number, rank });
            }
            Output::Disconnect { rank } => {
                self.nodes[node].connecting.remove(&rank);
                self.leave(node, rank);
            }
            Output::Ready { rank, welcome } => self.welcomed(node, rank, &welcome),
            // Its machine tries again with a new client, as whoever mounts would.
            Output::Refused { why: Refusal::Stopping, .. } => self.after(1, Event::Refused { node, life }),
            Output::Refused { why, text } => self.wrong(format!("client {node} was refused: {why:?}, {text}")),
            Output::Direct { request, pieces } => self.direct(node, request, pieces),
            Output::Complete { id, result } => self.complete(node, id, result),
            Output::Invalidate { token, what } => {
                if token == Token::NONE {
                    self.note(|| format!("client {node} drops {what:?} at once"));
                    self.nodes[node].kernel.invalidate(what);
                } else {
                    let us = self.rng.delay(self.knobs.kernel.0, self.knobs.kernel.1);
                    self.nodes[node].dropping += 1;
                    self.after(us, Event::Invalidated { node, life, token, what });
                }
            }
            // Subtrees are decoupled here by programs that have them for themselves.
            // They hear of it with their next request.
            Output::Doubt { .. } => {}
            Output::Keep { .. } | Output::KeptMerged { .. } | Output::KeptLost { .. } | Output::StageFailed { .. } => {
                self.wrong(format!("client {node} keeps a subtree that nobody asked it to decouple"));
            }
            Output::ClockRuns { rank, runs } => {
                self.wrong(format!(
                    "client {node} takes the clock of rank {rank} for one that runs {runs:?}, which none does"
                ));
            }
            Output::Stopped => {
                self.check_direct_end(node);
                (self.nodes[node].stopped, self.nodes[node].up) = (true, false);
                for id in std::mem::take(&mut self.nodes[node].conns).into_values() {
                    if let Some(conn) = self.net.conns.get_mut(&id) {
                        conn.gone_down = true;
                        let end = conn.up.end(self.now);
                        self.at(end + 1, Event::GoneServer(id));
                    }
                }
            }
        }
    }

    fn welcomed(&mut self, node: usize, rank: Rank, welcome: &Welcome) {
        let known = self.nodes[node].sessions.insert(rank, welcome.session);
        let canary = self.options.canary == Some(Canary::SessionForgotten);
        let other = known.is_some_and(|known| known != welcome.session) && !canary;
        // What moved there before its first hello had arrived by then, and was lost only if the rank had ended the session.
        let life = self.nodes[node].life;
        // A hello that was not answered may have begun the session, after the one with what had moved there had ended: a client that
        // was not heard for so long cannot know.
        let since = self.nodes[node].unanswered.remove(&rank).filter(|_| known.is_none());
        if since.is_some_and(|since| since + u64::from(SESSION_MS) * 750 < self.now) && welcome.resumed && !welcome.kept
        {
            self.ended_at.insert((welcome.rank, life));
            self.locks.ended(life);
        }
        let late = known.is_none() && !welcome.kept && self.ended_at.contains(&(welcome.rank, life));
        if other || late {
            self.lose_epoch(node);
        }
        if !welcome.direct.is_empty() {
            self.store_found(node);
        }
        self.nodes[node].ready.insert(rank);
        self.epochs.insert(welcome.session, self.nodes[node].epoch);
        let early = std::mem::take(&mut self.nodes[node].lost_early);
        // A call that was given up may still wait in the client, and be executed under this session.
        let of_it = self.lost.iter_mut().filter(|(of, ..)| *of == node);
        of_it.for_each(|(_, sessions, _)| _ = sessions.insert(welcome.session));
        self.lost.extend(early.into_iter().map(|call| (node, BTreeSet::from([welcome.session]), call)));
    }
}
