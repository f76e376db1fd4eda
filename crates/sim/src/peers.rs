//! Connections between ranks: ordered both ways, broken and made again at random, with what was on its way lost; and the
//! migrations that somebody orders all the time.

use loligo_mds::admin::{Ask, Told};
use loligo_mds::peer::PeerMsg;
use loligo_types::{Frag, Ino, Letter, Rank};

use crate::net::Stream;
use crate::options::Canary;
use crate::world::{Event, World, show};

/// Interval of trying to connect, microseconds.
const LOOK_US: u64 = 30_000;
/// An order is passed on so often at most.
const HOPS_MAX: u64 = 3;

/// One end.
#[derive(Debug, Default)]
struct End {
    /// The rank was told that the connection is there, and not yet that it is gone.
    up: bool,
    /// Messages on their way to it.
    stream: Stream<PeerMsg>,
}

/// A pair of ranks.
#[derive(Debug)]
pub struct Pair {
    ranks: [usize; 2],
    ends: [End; 2],
    /// Which of their connections.
    number: u64,
    /// It is whole.
    whole: bool,
    /// None can be made before this.
    blocked_until: u64,
}

impl Pair {
    /// All pairs of so many ranks.
    pub fn all(ranks: usize) -> Vec<Pair> {
        let pairs = (0..ranks).flat_map(|a| (a + 1..ranks).map(move |b| [a, b]));
        let new = |ranks| Pair { ranks, ends: Default::default(), number: 0, whole: false, blocked_until: 0 };
        pairs.map(new).collect()
    }

    fn end_of(&self, rank: usize) -> Option<usize> {
        self.ranks.iter().position(|of| *of == rank)
    }
}

impl World {
    /// True if all ranks are connected.
    pub fn all_linked(&self) -> bool {
        let needed = |pair: &&Pair| pair.ranks.iter().all(|rank| self.is_member(*rank));
        self.pairs.iter().filter(needed).all(|pair| pair.whole && pair.ends.iter().all(|end| end.up))
    }

    /// Now and then: connects those that can be.
    pub fn look_at_pairs(&mut self) {
        for at in 0..self.pairs.len() {
            let pair = &self.pairs[at];
            if !pair.ranks.iter().all(|rank| self.is_member(*rank)) {
                continue;
            }
            let down = !pair.whole && pair.ends.iter().all(|end| !end.up);
            let there = pair.ranks.iter().all(|rank| self.seats[*rank].server.is_some());
            if down && there && pair.blocked_until <= self.now {
                self.connect_pair(at);
            }
        }
        self.after(LOOK_US, Event::LookAtPairs);
    }

    fn connect_pair(&mut self, at: usize) {
        let ups = [0, 1].map(|_| self.now + self.rng.delay(1000, 60_000));
        let pair = &mut self.pairs[at];
        (pair.whole, pair.number) = (true, pair.number + 1);
        let number = pair.number;
        for (side, up) in ups.into_iter().enumerate() {
            let mut stream = Stream::default();
            stream.stall(up);
            self.pairs[at].ends[side].stream = stream;
            self.at(up, Event::PairUp { at, side, number });
        }
    }

    pub fn pair_up(&mut self, at: usize, side: usize, number: u64) {
        let pair = &mut self.pairs[at];
        if pair.number != number || !pair.whole {
            return;
        }
        pair.ends[side].up = true;
        let (rank, other) = (pair.ranks[side], pair.ranks[1 - side]);
        self.note(|| format!("rank {rank} is connected to rank {other}"));
        self.with_server(rank, |server, now| server.peer(now, Rank(other as u16), true));
    }

    pub fn pair_down(&mut self, at: usize, side: usize, number: u64) {
        let pair = &mut self.pairs[at];
        if pair.number != number || !std::mem::take(&mut pair.ends[side].up) {
            return;
        }
        let (rank, other) = (pair.ranks[side], pair.ranks[1 - side]);
        self.note(|| format!("rank {rank} loses rank {other}"));
        self.with_server(rank, |server, now| server.peer(now, Rank(other as u16), false));
    }

    pub fn send_to_peer(&mut self, from: usize, to: usize, mut msg: PeerMsg) {
        let us = self.rng.delay(self.knobs.net.0, self.knobs.net.1);
        let when = self.now + us;
        let found = self.pairs.iter().position(|pair| pair.end_of(from).is_some() && pair.end_of(to).is_some());
        let Some(at) = found.filter(|_| from != to) else {
            return self.wrong(format!("rank {from} speaks to rank {to}, which there is not"));
        };
        let mut pair = &mut self.pairs[at];
        let (own, mut side, number) = (pair.end_of(from).unwrap_or(0), pair.end_of(to).unwrap_or(0), pair.number);
        if !pair.ends[own].up {
            return;
        }
        if let (Some(Canary::ApartNotSaid), PeerMsg::Lent { lent, .. }) = (self.options.canary, &mut msg) {
            lent.apart.clear();
        }
        if let (Some(Canary::ReplicasStay), PeerMsg::DropReplica { ino }) = (self.options.canary, &msg) {
            (msg, side) = (PeerMsg::ReplicaDropped { ino: *ino, promised_ms: 0 }, own);
        }
        if let (Some(Canary::PromisesNotSaid), PeerMsg::ReplicaDropped { promised_ms, .. }) =
            (self.options.canary, &mut msg)
        {
            *promised_ms = 0;
        }
        let mut again = None;
        if let PeerMsg::Letter { letter, .. } = &msg
            && let Letter::Fragment { part, .. } = &**letter
        {
            // By order, or because it has grown.
            self.spread.insert(part.ino);
        }
        if let PeerMsg::Letter { seq, letter } = &mut msg {
            match self.options.canary {
                Some(Canary::LettersDoubled) => {
                    again = Some(PeerMsg::Letter { seq: *seq + 1, letter: letter.clone() });
                }
                Some(Canary::ImportsEmptied) => empty(letter),
                _ => {}
            }
        }
        if self.options.canary == Some(Canary::HeatDoubled) && matches!(msg, PeerMsg::Heat(_)) {
            again = Some(msg.clone());
        }
        for msg in [Some(msg), again].into_iter().flatten() {
            if let Some(when) = pair.ends[side].stream.push(when, msg) {
                self.at(when, Event::ToPeer { at, side, number });
            }
            let Some(same) = self.pairs.get_mut(at) else { return };
            pair = same;
        }
    }

    pub fn arrive_at_peer(&mut self, at: usize, side: usize, number: u64) {
        let now = self.now;
        let pair = &mut self.pairs[at];
        if pair.number != number || !pair.ends[side].up {
            return;
        }
        let (rank, other) = (pair.ranks[side], pair.ranks[1 - side]);
        let Some(msg) = pair.ends[side].stream.pop(now) else { return };
        self.note(|| format!("rank {other} to rank {rank}: {}", show(&msg)));
        self.with_server(rank, |server, now| server.peer_message(now, Rank(other as u16), msg));
    }

    /// A connection breaks: both ends lose a rest of what was under way, and learn of it at different times.
    pub fn break_pair(&mut self) {
        if self.pairs.is_empty() {
            return;
        }
        let at = self.rng.below(self.pairs.len() as u64) as usize;
        if self.rng.one_in(3) {
            let us = self.rng.range(10_000, 2_000_000);
            self.pairs[at].blocked_until = self.now + us;
        }
        self.cut_pair(at, [true, true]);
    }

    /// Nothing arrives for a while, and then everything.
    pub fn stall_pair(&mut self) {
        if self.pairs.is_empty() {
            return;
        }
        let (at, side) = (self.rng.below(self.pairs.len() as u64) as usize, self.rng.below(2) as usize);
        let until = self.now + self.rng.delay(100_000, 1_000_000);
        let pair = &mut self.pairs[at];
        if !pair.whole || !pair.ends[side].up {
            return;
        }
        pair.ends[side].stream.stall(until);
        let (waiting, number) = (pair.ends[side].stream.waiting(), pair.number);
        for _ in 0..waiting {
            self.at(until, Event::ToPeer { at, side, number });
        }
    }

    /// `lives`: which of the ends are there to learn of it.
    fn cut_pair(&mut self, at: usize, lives: [bool; 2]) {
        let pair = &mut self.pairs[at];
        if !std::mem::take(&mut pair.whole) {
            return;
        }
        let (ranks, number) = (pair.ranks, pair.number);
        for (side, lives) in lives.into_iter().enumerate() {
            let end = self.pairs[at].ends[side].stream.cut(&mut self.rng, self.now);
            let us = self.rng.delay(1000, 300_000);
            if lives {
                self.at(end + us, Event::PairDown { at, side, number });
            }
        }
        self.note(|| format!("ranks {ranks:?} are parted"));
    }

    /// A rank is gone: so are its connections.
    pub fn lose_peers_of(&mut self, rank: usize) {
        for at in 0..self.pairs.len() {
            if let Some(side) = self.pairs[at].end_of(rank) {
                self.pairs[at].ends[side].up = false;
                self.cut_pair(at, [side != 0, side != 1]);
            }
        }
    }

    /// All can be connected again.
    pub fn unblock_pairs(&mut self) {
        self.pairs.iter_mut().for_each(|pair| pair.blocked_until = 0);
    }

    // Migrations.

    /// Somebody orders a migration, and the next is planned.
    pub fn thrash(&mut self) {
        if self.quiet || self.seats.len() < 2 {
            return;
        }
        self.look_at_heat();
        let dirs = self.known_dirs();
        let dir = self.rng.pick(&dirs);
        let to = Rank(self.rng.below(self.seats.len() as u64) as u16);
        let at = self.rng.below(self.seats.len() as u64) as usize;
        // Most of the time a fragment, small or large, so that few directories stay whole.
        let frag = match self.rng.below(4) {
            0 => None,
            bits => Frag::new(bits as u8, self.rng.below(1 << bits) as u32),
        };
        self.order(at, dir, frag, to, 0);
        let us = self.knobs.migrate_every_ms * 1000;
        let next = self.rng.range(us / 5, us * 2);
        self.after(next, Event::Thrash);
    }

    fn known_dirs(&self) -> Vec<Ino> {
        let mut dirs = self.places.dirs.clone();
        dirs.extend([self.places.own, self.places.data]);
        let ways = self.history.ways.iter().take(1);
        let nodes = ways.flat_map(|way| way.state.nodes.values());
        dirs.extend(nodes.filter(|node| node.dir && node.ino != 0).map(|node| Ino(node.ino)));
        if self.has_subtrees() {
            if self.options.subtrees {
                // Often: it is to be another rank's than those that are decoupled.
                dirs.extend([self.places.common.0; 4]);
            }
            dirs.extend(self.jobs.borrow().all_dirs());
        }
        dirs
    }

    fn order(&mut self, rank: usize, dir: Ino, frag: Option<Frag>, to: Rank, hops: u64) {
        self.next_ask += 1;
        let id = self.next_ask;
        self.orders.insert(id, (dir, frag, to, hops));
        self.note(|| format!("rank {rank} is to move {dir} {frag:?} to rank {to}"));
        let ask = match frag {
            Some(frag) => Ask::MigrateFrag { dir, frag, to },
            None => Ask::Migrate { dir, to },
        };
        if frag.is_some() {
            self.spread.insert(dir);
        }
        self.with_server(rank, |server, now| server.admin(now, id, ask));
    }

    pub fn told(&mut self, rank: usize, id: u64, told: &Told) {
        self.note(|| format!("rank {rank} says of that: {told:?}"));
        let Some((dir, frag, to, hops)) = self.orders.remove(&id) else { return };
        match told {
            Told::Begun(_) => self.outcome.migrations += 1,
            Told::Elsewhere(other) if hops < HOPS_MAX && usize::from(other.0) < self.seats.len() => {
                self.after(1, Event::Order { rank: usize::from(other.0), dir, frag, to, hops: hops + 1 });
            }
            _ => {}
        }
    }

    pub fn order_again(&mut self, rank: usize, dir: Ino, frag: Option<Frag>, to: Rank, hops: u64) {
        if !self.quiet {
            self.order(rank, dir, frag, to, hops);
        }
    }
}

/// For [`Canary::ImportsEmptied`].
fn empty(letter: &mut std::sync::Arc<Letter>) {
    if let Letter::Fragment { part, routes, clients, .. } = &**letter {
        let (part, routes, clients) = (part.clone(), routes.clone(), clients.clone());
        *letter = std::sync::Arc::new(Letter::Fragment { part, routes, events: Vec::new(), clients });
        return;
    }
    if let Letter::Import { routes, clients, .. } = &**letter {
        let (routes, clients) = (routes.clone(), clients.clone());
        *letter = std::sync::Arc::new(Letter::Import { routes, events: Vec::new(), clients });
    }
}
