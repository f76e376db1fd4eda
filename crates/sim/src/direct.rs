//! Clients that read and write file data straight in the store, beside the ranks (`direct_data`), and the store that refuses a client
//! when a rank has it do so.
//!
//! The store is a cluster's: it outlives all ranks, what it has answered is durable, and it refuses for ever. An operation is done in
//! pieces, one for each object; each reaches the store when it likes, also long after its client has crashed or lost its session, and in
//! any order beside others. What its threads do with the connection is that of `driver::client::direct`. Not here: which operations
//! these are (the client's machine), and late writes of servers, which epochs keep out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use loligo_client::{DirectError, Input};
use loligo_osd::Effect;
use loligo_store::{Backend, Blobs, StoreError};
use loligo_types::msg::DataRequest;
use loligo_types::{DataAnswer, DataError, DataOp, SessionId};

use crate::options::Canary;
use crate::pieces::{Pieces, Upto};
use crate::server::Work;
use crate::world::{Event, World, show};

type Address = Arc<[u8]>;
type Done = Result<DataAnswer, DirectError>;

/// Pause before a client connects again after a refusal, microseconds.
const PAUSE_US: u64 = 500_000;

/// Of so many writes one is on its way for long, and its client dies or is cut off meanwhile.
const LOSES: u64 = 40;
/// After one of so many that were done a rank crashes: what it says of the file's data may be older then.
const CRASHES: u64 = 60;

/// Something that takes time.
#[derive(Debug)]
pub enum Step {
    /// A client that writes dies or is cut off.
    Lose { node: usize, life: u64 },
    /// A client connects to the store.
    Connect { node: usize, life: u64 },
    /// The next piece of an operation reaches the store.
    Piece { op: u64 },
    /// The result of the operation reaches the client's thread.
    Answer { op: u64 },
    /// The thread tells the machine, and first, if so, that there is no connection any more.
    Tell { node: usize, life: u64, id: u64, result: Done, refused: bool },
    /// The addresses that a rank wants to be refused reach the store.
    ShutOut { rank: usize, life: u64, session: SessionId, addresses: Vec<Box<[u8]>> },
}

/// An operation under way.
#[derive(Debug)]
struct Running {
    node: usize,
    life: u64,
    address: Address,
    known: Upto,
    pieces: u64,
    request: DataRequest,
    /// Pieces that are still to be done.
    todo: VecDeque<Effect>,
    /// Bytes that were read.
    read: Vec<u8>,
    result: Option<Done>,
}

/// The simulated store: its state beyond the objects, and requests on their way to it.
#[derive(Default)]
pub struct Store {
    refused: BTreeSet<Address>,
    running: BTreeMap<u64, Running>,
    next: u64,
    pub upto: Upto,
}

/// A client's connection, and the threads that use it.
#[derive(Default)]
pub struct Way {
    /// A rank has said where file data is.
    found: bool,
    address: Option<Address>,
    refused: bool,
    queue: VecDeque<(DataRequest, u64)>,
    running: u64,
    /// By inode, since when nobody else has removed objects.
    pieces: BTreeMap<u64, u64>,
    known: Upto,
}

/// One part for each object.
fn parts(request: &DataRequest) -> Option<VecDeque<Effect>> {
    let DataRequest { ino, object_size, op, .. } = request;
    let (ino, object_size) = (*ino, u64::from(*object_size));
    let cut = |offset: u64, len: u64| {
        let mut at = offset;
        std::iter::from_fn(move || {
            let from = at;
            at = (from / object_size + 1).saturating_mul(object_size).min(offset + len);
            (at > from).then_some((from, at))
        })
    };
    Some(match op {
        DataOp::Read { offset, len } => cut(*offset, u64::from(*len))
            .map(|(from, to)| Effect::Read { ino, object_size, offset: from, len: (to - from) as u32 })
            .collect(),
        DataOp::Write { offset, data } => {
            let part = |(from, to): (u64, u64)| {
                let data = Arc::from(&data[(from - offset) as usize..(to - offset) as usize]);
                Effect::Write { ino, object_size, offset: from, data }
            };
            cut(*offset, data.len() as u64).map(part).collect()
        }
        DataOp::Sync => VecDeque::from([Effect::Sync { ino, ranges: Vec::new(), removed: false, copy: None }]),
        DataOp::Punch { .. } | DataOp::Discard { .. } | DataOp::Seek { .. } => return None,
    })
}

fn why(error: &StoreError) -> DirectError {
    DirectError::Failed(match error {
        StoreError::Full { .. } => DataError::NoSpace,
        StoreError::Corrupt { .. } => DataError::Corrupt,
        _ => DataError::Io,
    })
}

impl World {
    /// Something has taken its time.
    pub fn direct_step(&mut self, step: Step) {
        match step {
            Step::Lose { node, life } if !self.is_alive(node, life) || self.quiet => {}
            Step::Lose { node, .. } if self.rng.one_in(2) => self.crash_node(node),
            Step::Lose { node, .. } => self.cut_off(node),
            Step::Connect { node, life } => self.connect_way(node, life),
            Step::Piece { op } => self.piece_done(op),
            Step::Answer { op } => self.direct_answer(op),
            Step::Tell { node, life, id, result, refused } if self.is_alive(node, life) => {
                if refused {
                    self.feed_client(node, Input::Direct { address: None });
                }
                self.feed_client(node, Input::DirectDone { id, result });
            }
            Step::Tell { .. } => {}
            Step::ShutOut { rank, life, session, addresses } => self.refuse(rank, life, session, addresses),
        }
    }

    /// A rank has said where file data is. Not every client reaches it.
    pub fn store_found(&mut self, node: usize) {
        if !std::mem::replace(&mut self.nodes[node].way.found, true) && !self.rng.one_in(8) {
            self.connect_later(node, 0);
        }
    }

    fn connect_later(&mut self, node: usize, pause: u64) {
        let (life, us) = (self.nodes[node].life, self.rng.delay(5_000, 500_000));
        self.after(pause + us, Event::Direct(Step::Connect { node, life }));
    }

    fn connect_way(&mut self, node: usize, life: u64) {
        if !self.is_alive(node, life) {
            return;
        }
        self.direct.next += 1;
        let address: Address = format!("{node}/{}", self.direct.next).into_bytes().into();
        let way = &mut self.nodes[node].way;
        (way.address, way.refused) = (Some(Arc::clone(&address)), false);
        way.pieces.clear();
        way.known = Upto::default();
        self.note(|| format!("client {node} has a connection to the store as {}", String::from_utf8_lossy(&address)));
        self.feed_client(node, Input::Direct { address: Some(address) });
    }

    /// The client's machine wants an operation done.
    pub fn direct(&mut self, node: usize, request: DataRequest, pieces: u64) {
        self.nodes[node].way.queue.push_back((request, pieces));
        self.begin_direct(node);
    }

    /// Threads that are free take what waits.
    fn begin_direct(&mut self, node: usize) {
        while self.nodes[node].way.running < self.knobs.direct.threads
            && let Some((request, pieces)) = self.nodes[node].way.queue.pop_front()
        {
            let way = &mut self.nodes[node].way;
            let Some(address) = way.address.clone().filter(|_| !way.refused) else {
                self.tell_client(node, request.id, Err(DirectError::Refused), false);
                continue;
            };
            let Some(todo) = parts(&request) else {
                return self.wrong(format!("client {node} does by itself what a rank is to do: {request:?}"));
            };
            way.running += 1;
            if way.pieces.insert(request.ino.0, pieces) != Some(pieces) {
                way.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner).remove(&request.ino.0);
            }
            let (known, life) = (Arc::clone(&way.known), self.nodes[node].life);
            self.direct.next += 1;
            let op = self.direct.next;
            self.outcome.direct += 1;
            self.note(|| format!("client {node} begins in the store as {op}: {}", show(&request)));
            let running = Running { node, life, address, known, pieces, request, todo, read: Vec::new(), result: None };
            let loses = !self.quiet && running.request.op.is_change() && self.rng.one_in(LOSES);
            if loses {
                let us = self.rng.delay(2_000, 300_000);
                self.after(us, Event::Direct(Step::Lose { node, life }));
            }
            self.direct.running.insert(op, running);
            self.next_piece(op, loses);
        }
    }

    fn next_piece(&mut self, op: u64, hangs: bool) {
        // Now and then it is on its way for longer than a session lives.
        let hangs = hangs || !self.quiet && self.rng.one_in(self.knobs.direct.hangs);
        let (short, long) = self.knobs.data;
        let us = if hangs { self.rng.range(300_000, 6_000_000) } else { self.rng.delay(short, long) };
        self.after(us, Event::Direct(Step::Piece { op }));
    }

    /// A piece takes effect, or is refused.
    fn piece_done(&mut self, op: u64) {
        let Some(mut running) = self.direct.running.remove(&op) else { return };
        let alive = self.is_alive(running.node, running.life);
        let late = if alive { "" } else { ", whose client is gone" };
        let result = if self.direct.refused.contains(&running.address) {
            self.outcome.refused += 1;
            self.note(|| format!("the store refuses {op}{late}"));
            Some(Err(DirectError::Refused))
        } else {
            let effect = running.todo.pop_front();
            self.note(|| format!("the store does a piece of {op}{late}"));
            let done = effect.map_or(Ok(Ok(DataAnswer::Done)), |effect| self.do_piece(&running.known, &effect));
            match done {
                Err(text) => return self.wrong(text),
                Ok(Err(error)) => {
                    self.data.server_lost();
                    Some(Err(why(&error)))
                }
                Ok(Ok(answer)) => {
                    if let DataAnswer::Bytes(bytes) = &answer {
                        running.read.extend_from_slice(bytes);
                    }
                    if !self.quiet && running.request.op.is_change() && self.rng.one_in(CRASHES) {
                        let (rank, us) = (self.some_rank(), self.rng.below(3_000));
                        let life = self.seats[rank].life;
                        self.after(us, Event::Crash { rank, life, all: false });
                    }
                    let is_read = matches!(running.request.op, DataOp::Read { .. });
                    let whole = || if is_read { DataAnswer::Bytes(running.read[..].into()) } else { DataAnswer::Done };
                    running.todo.is_empty().then(|| Ok(whole()))
                }
            }
        };
        if !alive {
            // What was not sent yet never will be.
            return;
        }
        let is_done = result.is_some();
        running.result = result;
        self.direct.running.insert(op, running);
        if is_done {
            let us = self.rng.delay(self.knobs.data.0, self.knobs.data.1);
            self.after(us, Event::Direct(Step::Answer { op }));
        } else {
            self.next_piece(op, false);
        }
    }

    fn do_piece(&mut self, known: &Upto, effect: &Effect) -> Result<loligo_osd::EffectResult, String> {
        let store: Arc<dyn Backend> = self.shared()?;
        let pieces = Pieces::new(store.blobs(), Arc::clone(&self.direct.upto), Arc::clone(known));
        Ok(loligo_osd::execute(&pieces, effect))
    }

    /// A thread hears what came of its operation, and is free for the next.
    fn direct_answer(&mut self, op: u64) {
        let Some(running) = self.direct.running.remove(&op) else { return };
        let Running { node, life, address, known, pieces, request, result, .. } = running;
        let (Some(mut result), true) = (result, self.is_alive(node, life)) else { return };
        // Who hears that it is refused does not know what became of all that was on its way.
        if self.direct.refused.contains(&address) && self.rng.one_in(2) {
            result = Err(DirectError::Refused);
        }
        let way = &mut self.nodes[node].way;
        way.running -= 1;
        let is_refused = result == Err(DirectError::Refused);
        if way.pieces.get(&request.ino.0) != Some(&pieces) {
            known.lock().unwrap_or_else(std::sync::PoisonError::into_inner).remove(&request.ino.0);
        }
        let first = is_refused && !std::mem::replace(&mut way.refused, true);
        self.tell_client(node, request.id, result, first);
        self.begin_direct(node);
        let way = &mut self.nodes[node].way;
        if way.refused && way.running == 0 && way.address.take().is_some() {
            self.connect_later(node, PAUSE_US);
        }
    }

    /// Threads tell the machine what they have done in any order.
    fn tell_client(&mut self, node: usize, id: u64, result: Done, refused: bool) {
        let (life, us) = (self.nodes[node].life, self.rng.delay(50, 5_000));
        self.after(us, Event::Direct(Step::Tell { node, life, id, result, refused }));
    }

    /// A rank wants clients refused.
    pub fn shut_out(&mut self, rank: usize, session: SessionId, addresses: Vec<Box<[u8]>>) {
        let (life, us) = (self.seats[rank].life, self.rng.delay(20_000, 1_500_000));
        self.after(us, Event::Direct(Step::ShutOut { rank, life, session, addresses }));
    }

    fn refuse(&mut self, rank: usize, life: u64, session: SessionId, addresses: Vec<Box<[u8]>>) {
        let runs = self.seats[rank].life == life && self.seats[rank].server.is_some();
        // Of what a server has begun that is gone some may have reached the store.
        let count = if runs { addresses.len() } else { self.rng.below(addresses.len() as u64 + 1) as usize };
        for address in addresses.into_iter().take(count) {
            self.note(|| format!("the store refuses {} from now on", String::from_utf8_lossy(&address)));
            if self.options.canary != Some(Canary::ShutOutDoesNothing) {
                self.direct.refused.insert(address.into());
            }
        }
        if runs {
            let us = self.rng.delay(1_000, 300_000);
            self.after(us, Event::Work { rank, life, work: Work::ShutOut { session } });
        }
    }

    /// A client says that it has given everything back.
    pub fn check_direct_end(&mut self, node: usize) {
        let life = self.nodes[node].life;
        let left = |running: &&Running| running.node == node && running.life == life && running.request.op.is_change();
        if let Some(running) = self.direct.running.values().find(left) {
            self.wrong(format!("client {node} ends while it writes in the store: {:?}", running.request));
        }
    }

    /// The objects as ranks see them.
    pub fn objects(&mut self, objects: Arc<dyn Blobs>) -> Arc<dyn Blobs> {
        if !self.options.direct {
            return objects;
        }
        Arc::new(Pieces::new(objects, Arc::clone(&self.direct.upto), Upto::default()))
    }
}
