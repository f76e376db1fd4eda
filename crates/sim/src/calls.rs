//! Calls: from a program's request to the checks, the client, and back.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use loligo_client::{Call, CallId, CallResult, Client, Input};
use loligo_types::{Answer, Cred, FsError, Ino, Kind, Op, Rank, SessionId};

use crate::data::{WriteId, Writer};
use crate::direct::Way;
use crate::locks::Held;
use crate::node::{Caller, Kernel, Moving, Node, Pending, Program, Want};
use crate::tree::{NameId, NsOp, Res};
use crate::workload::{Deed, Mail, NAMES, Rep, Req, Shell, Track, is_way_alone, name};
use crate::world::{Event, World};

/// A call that may have been executed, or not, or will be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostCall {
    Op(u64),
    Write(WriteId),
}

/// Errors that do not say what became of the call.
fn is_unknown(error: FsError) -> bool {
    matches!(
        error,
        FsError::Io | FsError::Unavailable | FsError::Stale | FsError::Interrupted | FsError::Busy | FsError::BadHandle
    )
}

/// The handle that data goes through; 0: none.
fn fh_of(call: &Call) -> u64 {
    match call {
        Call::Write { fh, .. } | Call::Fsync { fh, .. } | Call::Fallocate { fh, .. } => fh.0,
        _ => 0,
    }
}

/// True if the call works on an open file.
fn is_through_handle(call: &Call) -> bool {
    match call {
        Call::Read { .. }
        | Call::Write { .. }
        | Call::Fsync { .. }
        | Call::Flush { .. }
        | Call::Fallocate { .. }
        | Call::SetLock { .. }
        | Call::Unlock { .. } => true,
        Call::SetAttr { fh, .. } => fh.is_some(),
        _ => false,
    }
}

/// True if this error of a close or sync says that data is lost, and not only that it could not be done now.
fn tells_of_loss(error: FsError) -> bool {
    // On a disk that is full what was held back may have found no room.
    matches!(error, FsError::Io | FsError::BadHandle | FsError::Stale | FsError::NoSpace)
}

/// The result of a call on names, as the history takes it; none if the outcome is unknown.
fn res_of(result: &CallResult, at_once: bool) -> Option<Res> {
    let done = match result {
        Err(failed) if failed.error == FsError::NoSpace => return Some(Res::Refused),
        // It never left the client.
        Err(failed) if at_once && is_unknown(failed.error) => return Some(Res::Refused),
        Err(failed) if is_unknown(failed.error) => return None,
        Err(failed) => return Some(Res::Err(failed.error)),
        Ok(done) => done,
    };
    let answer = match &done.answer {
        Answer::Walked { last, .. } if !is_way_alone(&done.answer) => last,
        answer => answer,
    };
    Some(match answer {
        Answer::Entry(attr) => {
            Res::Entry { ino: attr.ino.0, dir: attr.kind == Kind::Dir, mode: attr.mode, nlink: attr.nlink }
        }
        answer if is_way_alone(answer) => Res::Refused,
        Answer::Opened { attr, created, .. } => Res::Created { ino: attr.ino.0, created: *created },
        Answer::Entries { entries, .. } => {
            let id =
                |bytes: &[u8]| NAMES.iter().position(|n| n.as_bytes() == bytes).map_or(NameId::MAX, |at| at as NameId);
            let mut all: Vec<_> =
                entries.iter().map(|e| (id(e.name.as_bytes()), e.ino.0, e.kind == Kind::Dir)).collect();
            all.sort_unstable();
            Res::List(all)
        }
        _ => Res::Done,
    })
}

impl World {
    pub fn new_node(&mut self) -> Node {
        let (life, mut home) = (self.next_life, 0);
        self.next_life += 1;
        let mut config = loligo_client::Config { client: life, ..self.knobs.client.clone() };
        if self.seats.len() > 1 {
            home = if self.options.members { 0 } else { self.rng.below(self.seats.len() as u64) as usize };
            // Now and then another one is there than was thought.
            let thought = if self.rng.one_in(4) { 0 } else { home };
            config.rank = Rank(thought as u16);
        }
        Node {
            first: config.rank,
            home,
            client: Client::new(config),
            life,
            up: false,
            conns: BTreeMap::new(),
            connecting: BTreeMap::new(),
            ready: BTreeSet::new(),
            sessions: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            epoch: 0,
            calls: BTreeMap::new(),
            kernel: Kernel::default(),
            ways: loligo_client::PathCache::default(),
            programs: Vec::new(),
            cut_off_until: 0,
            dropping: 0,
            lost_early: Vec::new(),
            stopped: false,
            way: Way::default(),
        }
    }

    /// A client machine starts, without programs.
    pub fn begin_node(&mut self, at: usize) {
        let mut node = self.new_node();
        (node.epoch, node.up) = (self.next_epoch, true);
        node.cut_off_until = self.nodes[at].cut_off_until;
        self.next_epoch += 1;
        let (life, number, home) = (node.life, node.first, node.home);
        let rank = self.door(home);
        node.connecting.insert(number, rank);
        self.nodes[at] = node;
        self.note(|| format!("client {at} starts"));
        self.after(100, Event::Connect { node: at, life, number, rank });
        self.after(50_000, Event::ClientTick { node: at, life });
    }

    pub fn begin_programs(&mut self, at: usize) {
        for program in 0..self.knobs.programs {
            let mail = Rc::new(RefCell::new(Mail::default()));
            let id = self.next_op;
            self.next_op += 1;
            let shell = Shell {
                mail: Rc::clone(&mail),
                rng: self.rng.fork(),
                places: Rc::clone(&self.places),
                stop: Rc::clone(&self.stop),
                id,
                think: self.knobs.think_us,
                removes: self.options.removers,
                direct: self.options.direct,
                paths: self.options.paths,
                leases: self.options.leases,
                subtrees: self.options.subtrees,
                allow: self.options.allow,
                relaxes: if self.options.relaxed { self.knobs.relaxed_of_8 } else { 0 },
                relaxed: Rc::clone(&self.relaxed),
                jobs: Rc::clone(&self.jobs),
            };
            self.nodes[at].programs.push(Program { mail, future: Some(Box::pin(shell.run())), id });
            self.ready.push_back((at, program));
        }
    }

    /// The client machine stops at once.
    pub fn crash_node(&mut self, at: usize) {
        if !self.nodes[at].up {
            return;
        }
        self.outcome.faults[1] += 1;
        self.note(|| format!("client {at} crashes"));
        self.leave_all(at);
        self.nodes[at].up = false;
        self.nodes[at].programs.clear();
        let epoch = self.nodes[at].epoch;
        for (_, pending) in std::mem::take(&mut self.nodes[at].calls) {
            self.lose(at, &pending);
        }
        for call in std::mem::take(&mut self.nodes[at].lost_early) {
            self.close_lost(call);
        }
        self.relaxed.borrow_mut().client_gone(self.nodes[at].life);
        self.data.client_lost(epoch);
        let us = self.rng.range(1_000, 500_000);
        self.after(us, Event::StartNode(at));
    }

    /// A client loses its session, and all that it held under it.
    pub fn lose_epoch(&mut self, node: usize) {
        let epoch = std::mem::replace(&mut self.nodes[node].epoch, self.next_epoch);
        self.next_epoch += 1;
        self.data.client_lost(epoch);
        self.note(|| format!("client {node} lost its session"));
    }

    // Programs.

    pub fn wake(&mut self, node: usize, program: usize) {
        self.reply(node, Caller::Program(program), Rep::Woken);
    }

    fn reply(&mut self, node: usize, caller: Caller, rep: Rep) {
        match caller {
            Caller::Program(program) => {
                if let Some(p) = self.nodes[node].programs.get(program) {
                    p.mail.borrow_mut().rep = Some(rep);
                    self.ready.push_back((node, program));
                }
            }
            Caller::World => {}
        }
    }

    /// Lets a program go on to its next request.
    pub fn poll(&mut self, node: usize, program: usize) {
        let Some(p) = self.nodes[node].programs.get_mut(program) else { return };
        let Some(future) = &mut p.future else { return };
        self.jobs.borrow_mut().now = self.now;
        let mut context = Context::from_waker(Waker::noop());
        if future.as_mut().poll(&mut context).is_ready() {
            p.future = None;
            return;
        }
        let Some(req) = p.mail.borrow_mut().req.take() else { return };
        self.request(node, program, req);
    }

    fn request(&mut self, node: usize, program: usize, req: Req) {
        let (life, caller) = (self.nodes[node].life, Caller::Program(program));
        match req {
            Req::Sleep(us) => self.after(us, Event::Program { node, life, program }),
            Req::Call(call, track) => self.call(node, caller, Want::Plain, call, track),
            Req::Try(call) => self.call_as(Cred::user(1, 1), node, caller, Want::Plain, call, Track::None),
            Req::Tag => {
                self.next_tag += 1;
                let tag = self.next_tag;
                self.reply(node, caller, Rep::Tag(tag));
            }
            Req::Crash => {
                self.after(1, Event::CrashNode { node, life });
                self.reply(node, caller, Rep::Woken);
            }
            Req::Wrong(text) => {
                self.wrong(text);
                self.reply(node, caller, Rep::Woken);
            }
            Req::Forget(ino) => {
                self.nodes[node].kernel.invalidate(loligo_client::Invalidation::Names(ino));
                self.nodes[node].kernel.invalidate(loligo_client::Invalidation::Attr(ino));
                self.call(node, caller, Want::Plain, Call::Forget { inos: vec![ino] }, Track::None);
            }
            Req::Lookup(dir, n) => self.lookup(node, program, dir, n),
            Req::Stat(ino) => self.stat(node, program, ino),
        }
    }

    fn lookup(&mut self, node: usize, program: usize, dir: Ino, n: NameId) {
        let caller = Caller::Program(program);
        let op = NsOp::Lookup { dir: dir.0, name: n };
        let kernel = &self.nodes[node].kernel;
        if let (true, Some(cached)) = (kernel.names_usable(dir), kernel.names.get(&(dir, n)).copied()) {
            self.note(|| format!("client {node} has cached {dir}/{n}: {cached:?}"));
            if self.relaxed.borrow().has(dir) {
                self.glance_relaxed(node, dir, n, cached);
                return self.reply(node, caller, Rep::Found(cached.ok_or(FsError::NotFound)));
            }
            let res = cached.map_or(Res::Err(FsError::NotFound), |(ino, dir)| Res::Name { ino: ino.0, dir });
            self.next_op += 1;
            self.history.glance(self.next_op, op, &res);
            return self.reply(node, caller, Rep::Found(cached.ok_or(FsError::NotFound)));
        }
        // Not always, so that leases end.
        if self.options.leases && self.next_op.is_multiple_of(2) {
            let now_ms = self.lease_clock(node, self.now);
            let lead = self.nodes[node].ways.lead(dir, &[name(n)], now_ms);
            if lead.names == 1 {
                self.note(|| format!("client {node} is promised that {dir}/{n} is {}", lead.dir));
                self.next_op += 1;
                self.outcome.led += 1;
                self.history.glance(self.next_op, op, &Res::Name { ino: lead.dir.0, dir: true });
                return self.reply(node, caller, Rep::Found(Ok((lead.dir, true))));
            }
        }
        let call = Call::Op(Op::Lookup { dir, name: name(n) });
        let is_relaxed = self.relaxed.borrow().has(dir);
        let track = if is_relaxed { Track::Relaxed(Deed::Names(op)) } else { Track::Names(op) };
        self.call(node, caller, Want::Lookup(dir, n), call, track);
    }

    /// By which a client takes what was promised for a time: those of some run a tenth slower than ranks', milliseconds.
    fn lease_clock(&self, node: usize, us: u64) -> u64 {
        (if self.nodes[node].life.is_multiple_of(2) { us } else { us / 110 * 100 }) / 1000
    }

    /// Learns the paths that an answer promises.
    fn learn_ways(&mut self, at: usize, pending: &Pending, result: &CallResult) {
        let Ok(done) = result else { return };
        let looks = match &pending.track {
            Track::Walk(first, second) => vec![first, second],
            Track::Way(first) => vec![first],
            _ => return,
        };
        let name_of = |op: &NsOp| if let NsOp::Lookup { name: n, .. } = op { Some(name(*n)) } else { None };
        let names: Vec<_> = looks.into_iter().filter_map(name_of).collect();
        if !done.ways.is_empty() {
            let (sent_ms, now_ms) = (self.lease_clock(at, pending.begun), self.lease_clock(at, self.now));
            self.nodes[at].ways.learn(&names, &done.ways, 1, sent_ms, now_ms);
        }
    }

    fn stat(&mut self, node: usize, program: usize, ino: Ino) {
        let caller = Caller::Program(program);
        let op = NsOp::GetAttr { ino: ino.0 };
        let kernel = &self.nodes[node].kernel;
        if let (true, Some((dir, mode, nlink, _))) = (kernel.attrs_usable(), kernel.attrs.get(&ino).copied()) {
            self.note(|| format!("client {node} has cached attributes of {ino}"));
            if self.relaxed.borrow().knows(ino) {
                self.glance_relaxed_mode(node, ino, mode);
                return self.reply(node, caller, Rep::Woken);
            }
            self.next_op += 1;
            self.history.glance(self.next_op, op, &Res::Entry { ino: ino.0, dir, mode, nlink });
            return self.reply(node, caller, Rep::Woken);
        }
        let is_relaxed = self.relaxed.borrow().knows(ino);
        let track = if is_relaxed { Track::Relaxed(Deed::Names(op)) } else { Track::Names(op) };
        self.call(node, caller, Want::Stat(ino), Call::GetAttr { ino }, track);
    }

    // Calls.

    pub fn call(&mut self, at: usize, caller: Caller, want: Want, call: Call, track: Track) {
        self.call_as(Cred::root(), at, caller, want, call, track);
    }

    fn call_as(&mut self, cred: Cred, at: usize, caller: Caller, want: Want, call: Call, track: Track) {
        let id = CallId(self.next_call);
        self.next_call += 1;
        self.next_op += 1;
        self.outcome.calls += 1;
        let op = self.next_op;
        let node = &self.nodes[at];
        let sessions: BTreeSet<SessionId> = node.sessions.values().copied().collect();
        let (epoch, begun) = (node.epoch, self.now);
        self.note(|| format!("client {at} call {} op {op} {call:?} {track:?}", id.0));
        let (mut write, through_handle) = (None, is_through_handle(&call));
        let mut moving = Moving::default();
        let by = Writer { epoch, fh: fh_of(&call) };
        match &track {
            Track::Names(ns) => {
                if !ns.is_read() {
                    moving = self.nodes[at].kernel.moving(ns);
                    self.nodes[at].kernel.begin(ns);
                }
                self.history.invoke(op, ns.clone());
            }
            Track::Relaxed(deed) => {
                if let Some(ns) = deed.change() {
                    moving = self.nodes[at].kernel.moving(ns);
                    self.nodes[at].kernel.begin(ns);
                }
                self.begin_deed(at, op, deed);
            }
            Track::SyncAll => self.begin_deed(at, op, &Deed::Sync(None)),
            Track::Way(ns) => self.history.invoke(op, ns.clone()),
            Track::Walk(first, second) => {
                self.next_op += 1;
                self.history.invoke(op, first.clone());
                self.history.invoke(op + 1, second.clone());
            }
            Track::Write { file, first, end, tag, .. } => {
                write = Some(self.data.begin(file.0, *first..*end, *tag, by, begun));
            }
            Track::Append { file, tag } => write = Some(self.data.begin(file.0, 0..0, *tag, by, begun)),
            Track::Unlock { file } => {
                let owner = self.owner(at, caller);
                self.locks.give_back(file.0, owner);
            }
            _ => {}
        }
        let turn = self.nodes[at].kernel.turn;
        let pending = Pending { caller, want, track, op, write, begun, by, sessions, turn, moving, through_handle };
        self.nodes[at].calls.insert(id, pending);
        self.feed_client(at, Input::Call { id, cred: Arc::new(cred), call });
    }

    fn owner(&self, node: usize, caller: Caller) -> u64 {
        match caller {
            Caller::Program(program) => self.nodes[node].programs.get(program).map_or(0, |p| p.id),
            Caller::World => 0,
        }
    }

    /// A call was answered.
    pub fn complete(&mut self, at: usize, id: CallId, result: CallResult) {
        let Some(pending) = self.nodes[at].calls.remove(&id) else {
            return self.wrong(format!("client {at} answered call {} twice", id.0));
        };
        self.note(|| {
            let text = format!("{result:?}");
            let end = (0..=300.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            format!("client {at} answers {} op {}: {}", id.0, pending.op, &text[..end])
        });
        self.check(at, &pending, &result);
        self.learn_ways(at, &pending, &result);
        self.keep(at, &pending, &result);
        let rep = match (&pending.want, &result) {
            (Want::Lookup(..), Ok(done)) => Rep::Found(match done.attr() {
                Some(attr) => Ok((attr.ino, attr.kind == Kind::Dir)),
                None => Err(FsError::Io),
            }),
            (Want::Lookup(..), Err(failed)) => Rep::Found(Err(failed.error)),
            _ => Rep::Done(Box::new(result.clone())),
        };
        if pending.caller == Caller::World {
            self.world_answers.insert(id.0, result);
        }
        self.reply(at, pending.caller, rep);
    }

    fn check(&mut self, at: usize, pending: &Pending, result: &CallResult) {
        let now = self.now;
        let is_relaxed = matches!(pending.track, Track::Relaxed(_));
        let is_merged = pending.track == Track::Merged && self.options.readers;
        if let (Err(failed), true) = (result, pending.through_handle && !is_relaxed && !is_merged)
            && let FsError::Stale | FsError::BadHandle = failed.error
            && !self.ended_at.iter().any(|(_, client)| *client == self.nodes[at].life)
        {
            self.wrong(format!("client {at} lost a handle, and no rank had ended its session (op {})", pending.op));
        }
        if pending.track == Track::SyncAll {
            self.check_deed(at, pending, &Deed::Sync(None), result);
        }
        match (&pending.track, result) {
            (Track::Names(ns), result) => {
                if !ns.is_read() {
                    self.nodes[at].kernel.end(ns);
                }
                // With several ranks one may know the name and another one, asked later, the attributes.
                let parted = self.seats.len() > 1 && matches!(ns, NsOp::Lookup { .. });
                // A directory that several ranks have is listed by one after the other; at the end nothing changes meanwhile.
                let parts = |dir: &u64| pending.caller != Caller::World && self.spread.contains(&Ino(*dir));
                let listed = matches!(ns, NsOp::Readdir { dir } if parts(dir));
                let res = match res_of(result, pending.begun == now) {
                    // What is open was found by the name.
                    Some(Res::Created { ino, .. }) if matches!(ns, NsOp::Lookup { .. }) => {
                        let is_dir =
                            result.as_ref().is_ok_and(|done| done.attr().is_some_and(|attr| attr.kind == Kind::Dir));
                        Some(Res::Name { ino, dir: is_dir })
                    }
                    res => res,
                };
                match res.filter(|res| !(listed && matches!(res, Res::List(_)))) {
                    Some(Res::Entry { ino, dir, .. }) if parted => {
                        self.history.answer(pending.op, &Res::Name { ino, dir });
                    }
                    // Asked again, a change is answered with the attributes of later.
                    Some(Res::Entry { ino, dir, nlink, .. }) if !ns.is_read() && nlink > 0 => {
                        self.history.answer(pending.op, &Res::Name { ino, dir });
                    }
                    Some(res) => {
                        self.number_given(pending.op, ns, &res);
                        self.history.answer(pending.op, &res);
                    }
                    None => self.lose_names(at, pending),
                }
            }
            (Track::Relaxed(deed), result) => {
                if let Some(ns) = deed.change() {
                    self.nodes[at].kernel.end(ns);
                }
                self.check_deed(at, pending, deed, result);
            }
            (Track::Way(_), result) => self.check_way(at, pending, result),
            (Track::Walk(_, second), result) => self.check_walk(at, pending, second, result),
            (Track::Write { .. }, Ok(done)) if is_way_alone(&done.answer) => self.lose_write(at, pending),
            (Track::Write { durable, .. }, Ok(_)) => {
                if let Some(id) = pending.write {
                    self.data.end(id, *durable, now);
                }
            }
            (Track::Append { .. }, Ok(_)) => {
                if let Some(id) = pending.write {
                    self.data.end(id, false, now);
                }
            }
            (Track::Write { .. } | Track::Append { .. }, Err(_)) => self.lose_write(at, pending),
            (Track::Read { file, first, count }, Ok(done)) => {
                if let Answer::Bytes(bytes) = &done.answer {
                    self.data.read(file.0, *first, *count, bytes, pending.begun, now);
                }
            }
            (Track::ReadLog { file }, Ok(done)) => {
                if let Answer::Bytes(bytes) = &done.answer {
                    self.data.read_log(file.0, bytes, pending.begun, now);
                }
            }
            (Track::SyncAll, Ok(_)) => self.data.all_synced(pending.by.epoch, pending.begun),
            (Track::Fsync { file }, Ok(_)) => self.data.synced(file.0, pending.by, pending.begun),
            (Track::Fsync { file } | Track::Flush { file }, Err(failed)) if tells_of_loss(failed.error) => {
                self.data.told(Some(file.0), pending.by.epoch);
            }
            (Track::SyncAll, Err(failed)) if tells_of_loss(failed.error) => self.data.told(None, pending.by.epoch),
            (Track::Lock { file, exclusive }, Ok(_)) => {
                let node = &self.nodes[at];
                let fenced = node.sessions.values().any(|session| self.fenced.contains(session));
                if !fenced && pending.by.epoch == node.epoch {
                    let (owner, client) = (self.owner(at, pending.caller), node.life);
                    self.locks.got(Held { file: file.0, client, owner, exclusive: *exclusive });
                }
            }
            _ => {}
        }
    }

    /// A number that a client was told is not given again, if something may be lost.
    fn number_given(&mut self, op: u64, ns: &NsOp, res: &Res) {
        if let (NsOp::Create { .. }, Res::Created { ino, created: true }, true) = (ns, res, self.options.relaxed) {
            self.relaxed.borrow_mut().gives(Ino(*ino), op);
        }
    }

    /// Nobody will know what became of it.
    fn lose(&mut self, at: usize, pending: &Pending) {
        match &pending.track {
            Track::Names(_) => self.lose_names(at, pending),
            Track::Way(_) => self.history.lose(pending.op),
            Track::Walk(..) => {
                self.history.lose(pending.op);
                self.history.lose(pending.op + 1);
            }
            _ => self.lose_write(at, pending),
        }
    }

    /// Checks the result of a walk over one name.
    fn check_way(&mut self, at: usize, pending: &Pending, result: &CallResult) {
        let found = match result.as_ref().map(|done| &done.answer) {
            Ok(Answer::Walked { done: 1, last, .. }) => match &**last {
                Answer::Entry(attr) => Some(Res::Name { ino: attr.ino.0, dir: attr.kind == Kind::Dir }),
                Answer::Remote { ino, kind, .. } => Some(Res::Name { ino: ino.0, dir: *kind == Kind::Dir }),
                _ => None,
            },
            Ok(_) => None,
            Err(_) => res_of(result, pending.begun == self.now),
        };
        match found {
            Some(res) => self.history.answer(pending.op, &res),
            None => self.lose(at, pending),
        }
    }

    /// Checks the result of a walk over two names, for each of them. An error does not tell which name was missing.
    fn check_walk(&mut self, at: usize, pending: &Pending, second: &NsOp, result: &CallResult) {
        let Ok(Answer::Walked { done, dir, last, .. }) = result.as_ref().map(|done| &done.answer) else {
            return self.lose(at, pending);
        };
        let found = match &**last {
            Answer::Entry(attr) => Res::Name { ino: attr.ino.0, dir: attr.kind == Kind::Dir },
            Answer::Remote { ino, kind, .. } => Res::Name { ino: ino.0, dir: *kind == Kind::Dir },
            other => return self.wrong(format!("a walk came to {other:?}")),
        };
        match done {
            1 => {
                self.history.answer(pending.op, &found);
                self.history.lose(pending.op + 1);
            }
            _ => {
                self.history.answer(pending.op, &Res::Name { ino: dir.0, dir: true });
                // Another directory may have taken the name since the program looked.
                match second {
                    NsOp::Lookup { dir: expected, .. } if *expected == dir.0 => {
                        self.history.answer(pending.op + 1, &found);
                    }
                    _ => self.history.lose(pending.op + 1),
                }
            }
        }
    }

    fn lose_names(&mut self, at: usize, pending: &Pending) {
        self.history.lose(pending.op);
        self.lost_call(at, pending, LostCall::Op(pending.op));
    }

    fn lose_write(&mut self, at: usize, pending: &Pending) {
        if let Some(id) = pending.write {
            self.lost_call(at, pending, LostCall::Write(id));
        }
    }

    fn lost_call(&mut self, at: usize, pending: &Pending, call: LostCall) {
        let node = &self.nodes[at];
        let mut sessions: BTreeSet<SessionId> = node.sessions.values().copied().collect();
        sessions.extend(&pending.sessions);
        sessions.retain(|session| !self.ended.contains(session));
        if !sessions.is_empty() {
            self.lost.push((at, sessions, call));
        } else if node.up && (node.sessions.is_empty() || node.client.has_requests()) {
            // It may wait in the client for a session to come.
            self.nodes[at].lost_early.push(call);
        } else {
            self.close_lost(call);
        }
    }

    /// A session has ended: nothing happens under it any more.
    pub fn close_lost_of(&mut self, session: SessionId) {
        self.lost.iter_mut().for_each(|(_, sessions, _)| _ = sessions.remove(&session));
        let (gone, left): (Vec<_>, Vec<_>) = self.lost.drain(..).partition(|(_, sessions, _)| sessions.is_empty());
        self.lost = left;
        for (at, _, call) in gone {
            let node = &mut self.nodes[at];
            if node.up && node.client.has_requests() {
                // It may not have been sent yet, and wait for a session with another rank.
                node.lost_early.push(call);
            } else {
                self.close_lost(call);
            }
        }
    }

    /// It cannot happen any more.
    pub fn close_lost(&mut self, call: LostCall) {
        match call {
            LostCall::Op(op) => self.history.close(op),
            LostCall::Write(id) => self.data.close(id, self.now),
        }
    }

    /// Puts the names and attributes of an answer into the kernel's cache.
    fn keep(&mut self, at: usize, pending: &Pending, result: &CallResult) {
        let kernel = &mut self.nodes[at].kernel;
        if result.as_ref().is_ok_and(|done| done.names_cached) {
            kernel.moved(&pending.moving);
        }
        if let Want::Lookup(dir, n) = pending.want
            && kernel.turn == pending.turn
            && kernel.names_usable(dir)
        {
            match result {
                Ok(done) if done.names_cached => {
                    if let Some(attr) = done.attr() {
                        kernel.names.insert((dir, n), Some((attr.ino, attr.kind == Kind::Dir)));
                    }
                }
                Err(failed) if failed.names_cached && failed.error == FsError::NotFound => {
                    kernel.names.insert((dir, n), None);
                }
                _ => {}
            }
        }
        if let Ok(done) = result
            && let (true, Some(attr)) = (done.attr_cached, done.attr())
            && kernel.turn == pending.turn
            && kernel.attrs_usable()
            && kernel.attrs.get(&attr.ino).is_none_or(|known| known.3 <= attr.change)
        {
            kernel.attrs.insert(attr.ino, (attr.kind == Kind::Dir, attr.mode, attr.nlink, attr.change));
        }
    }
}
