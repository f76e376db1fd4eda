//! A driver in memory: a table of real bytes, a journal that becomes durable when told, clients with inboxes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use loligo_journal::decode_record;
use loligo_journal::frame::BODY_MAX;
use loligo_namespace::{Need, Record};
use loligo_types::msg::{Hello, PROTOCOL_VERSION, Reclaim, Request, ToClient, ToServer, Welcome};
use loligo_types::{Answer, Attr, Cred, FsResult, Ino, Lease, Lsn, Name, Op, OpenFlags, Rank, Seq, SessionId, Time};

pub use super::requests::*;
use super::rows::{meta, read, settle, write};
use crate::admin::Told;
use crate::peer::PeerMsg;
use crate::{Config, ConnId, DataAccess, Input, Mds, Member, Now, Output, Peer};

pub const READ: OpenFlags = OpenFlags { read: true, write: false, truncate: false, append: false, exec: false };
pub const WRITE: OpenFlags = OpenFlags { read: true, write: true, truncate: false, append: false, exec: false };
pub const BOTH: Lease = Lease(Lease::ATTR.0 | Lease::NAMES.0);

/// An answer with the leases that came with it.
pub type Reply = (FsResult<Answer>, Vec<(Ino, Lease)>);

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).expect("a test's name is a name")
}

/// A client as the tests see it.
#[derive(Default)]
pub struct Client {
    pub conn: ConnId2,
    pub welcome: Option<Welcome>,
    pub next_seq: u64,
    pub inbox: VecDeque<ToClient>,
    /// Recalls not answered.
    pub recalls: Vec<(Ino, u64, Lease)>,
    pub obeys: bool,
    pub want: Lease,
    pub uid: u32,
    pub closed: bool,
    /// Its number at every rank; 0: it keeps to one.
    pub number: u64,
    /// The peer that a server sees; none: root.
    pub peer: Option<Peer>,
}

/// A connection number that has a default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnId2(pub ConnId);

impl Default for ConnId2 {
    fn default() -> ConnId2 {
        ConnId2(ConnId(0))
    }
}

pub struct World {
    pub mds: Mds,
    pub config: Config,
    pub now: Now,
    pub table: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Durable records.
    pub journal: BTreeMap<Lsn, Vec<u8>>,
    /// Records given out and not durable yet.
    pub volatile: VecDeque<(Lsn, Vec<u8>)>,
    pub clients: Vec<Client>,
    /// Outputs about data in the journal.
    pub logged: Vec<Output>,
    next_conn: u64,
    /// Work that gets done by itself.
    pub syncs: bool,
    pub loads: bool,
    pub checkpoints: bool,
    pub discards: bool,
    pub pending_loads: VecDeque<(u64, Vec<Need>)>,
    /// All that was to be read, until a test clears it.
    pub read: Vec<Need>,
    pub pending_checkpoints: VecDeque<(u64, Vec<Record>)>,
    /// Rows of merges; they get into the table by themselves if `checkpoints` do.
    pub pending_rows: VecDeque<(u64, Box<loligo_namespace::MergeRows>)>,
    pub pending_discards: VecDeque<(Ino, u64)>,
    /// Syncs of all data that were asked for.
    pub data_syncs: Vec<u64>,
    /// They end by themselves.
    pub syncs_data: bool,
    pub pending_syncs: VecDeque<u64>,
    /// Files of which no data operation was to be under way.
    pub quieted: Vec<Ino>,
    pub spills: Vec<(Ino, Arc<[u8]>)>,
    pub access: BTreeMap<(SessionId, Ino), DataAccess>,
    /// Files whose access was said one by one, which counts before that of ranges; and the ranges.
    said_of_one: BTreeSet<(SessionId, Ino)>,
    ranges: Vec<(SessionId, Ino, u64, DataAccess)>,
    /// Files that others read as they were: the number of the copy, and who changes them.
    pub frozen: BTreeMap<Ino, (Ino, SessionId)>,
    pub pending_restores: VecDeque<(Ino, Ino)>,
    pub objects: super::stored::Objects,
    pub keeps: bool,
    pub pending_keeps: VecDeque<((Ino, Ino), Ino, u64)>,
    pub fenced: Vec<SessionId>,
    /// Addresses that the store was to refuse, for sessions that end.
    pub shut_out: Vec<(SessionId, Vec<Box<[u8]>>)>,
    pub trimmed: Lsn,
    pub stopped: bool,
    /// Lists of inodes with possible stray objects that the rank has looked through.
    pub lists_done: u32,
    /// The last of them left something open.
    pub strays_left_open: bool,
    pub owners_lost: u32,
    pub fatal: Option<String>,
    pub last_lsn: Lsn,
    /// Bytes of the longest record.
    pub longest: usize,
    /// Messages to other ranks that were given out.
    pub to_peers: VecDeque<(Rank, PeerMsg)>,
    /// The last answer to an administrator.
    pub told: Option<Told>,
    /// The last snapshot for a balancer.
    pub snapshot: Option<Box<loligo_types::Snapshot>>,
    /// Messages of the rank to the keeper of the cluster map.
    pub members: Vec<Member>,
    /// Data operations that are under way end by themselves when something moves.
    pub quiesces: bool,
    pub pending_quiesces: VecDeque<u64>,
    /// The machine has more of a long work to do.
    again: bool,
    /// Subtrees that were taken back; true: with data that was not merged.
    pub taken_back: Vec<(Ino, bool)>,
}

/// Steps of a long work after each tick: few, so that tests see what is between them.
const STEPS: usize = 3;

pub fn config() -> Config {
    Config { hash_key: (3, 5), session_ms: 1000, recall_ms: 1000, grace_ms: 2000, ..Config::default() }
}

impl World {
    pub fn new() -> World {
        World::with(config())
    }

    pub fn with(config: Config) -> World {
        let now = Now { mono_ms: 1, wall: Time(1_000_000) };
        let mds = Mds::new(config.clone(), now);
        let mut world = World {
            mds,
            config,
            now,
            table: super::rows::begun(),
            journal: BTreeMap::new(),
            volatile: VecDeque::new(),
            clients: Vec::new(),
            logged: Vec::new(),
            next_conn: 0,
            syncs: true,
            loads: true,
            checkpoints: true,
            discards: true,
            pending_loads: VecDeque::new(),
            read: Vec::new(),
            pending_checkpoints: VecDeque::new(),
            pending_rows: VecDeque::new(),
            pending_discards: VecDeque::new(),
            data_syncs: Vec::new(),
            syncs_data: false,
            pending_syncs: VecDeque::new(),
            quieted: Vec::new(),
            spills: Vec::new(),
            access: BTreeMap::new(),
            said_of_one: BTreeSet::new(),
            ranges: Vec::new(),
            frozen: BTreeMap::new(),
            pending_restores: VecDeque::new(),
            objects: super::stored::Objects::default(),
            keeps: true,
            pending_keeps: VecDeque::new(),
            fenced: Vec::new(),
            shut_out: Vec::new(),
            trimmed: Lsn(0),
            stopped: false,
            lists_done: 0,
            strays_left_open: false,
            owners_lost: 0,
            fatal: None,
            last_lsn: Lsn(0),
            longest: 0,
            to_peers: VecDeque::new(),
            told: None,
            snapshot: None,
            members: Vec::new(),
            quiesces: true,
            pending_quiesces: VecDeque::new(),
            again: false,
            taken_back: Vec::new(),
        };
        world.pump();
        world
    }

    pub fn input(&mut self, input: Input) {
        self.mds.handle(self.now, input);
        self.pump();
    }

    /// Carries outputs out, and what follows from them, until nothing happens any more.
    pub fn pump(&mut self) {
        loop {
            while let Some(output) = self.mds.pop() {
                self.carry_out(output);
            }
            if self.syncs && !self.volatile.is_empty() {
                self.sync();
            } else if self.loads && !self.pending_loads.is_empty() {
                self.load_one();
            } else if self.checkpoints && !self.pending_checkpoints.is_empty() {
                self.checkpoint_one();
            } else if self.checkpoints && !self.pending_rows.is_empty() {
                self.merge_rows_one(true);
            } else if self.discards && !self.pending_discards.is_empty() {
                self.discard_one();
            } else if self.keeps && !self.pending_keeps.is_empty() {
                self.keep_one();
            } else if self.quiesces && !self.pending_quiesces.is_empty() {
                self.quiesce_one();
            } else if self.syncs_data && !self.pending_syncs.is_empty() {
                self.sync_data_one();
            } else if !self.obey_one() {
                return;
            }
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send { conn, msg } => self.deliver(conn, msg),
            Output::Close { conn } => self.client_of(conn).into_iter().for_each(|c| c.closed = true),
            Output::Append { lsn, record } => {
                assert_eq!(lsn, self.last_lsn.next(), "records are numbered one after the other");
                assert!(record.len() <= BODY_MAX, "the journal takes no record of {} bytes", record.len());
                self.longest = self.longest.max(record.len());
                self.last_lsn = lsn;
                self.volatile.push_back((lsn, record));
            }
            Output::Load { ticket, needs } => {
                self.read.extend(needs.iter().cloned());
                self.pending_loads.push_back((ticket, needs));
            }
            Output::Checkpoint { id, records } => {
                assert!(self.pending_checkpoints.is_empty(), "one checkpoint at a time");
                self.pending_checkpoints.push_back((id, records));
            }
            Output::MergeRows { id, rows } => self.pending_rows.push_back((id, rows)),
            Output::Trim { below } => {
                assert!(below >= self.trimmed, "the journal is not trimmed backwards");
                self.trimmed = below;
                self.journal.retain(|lsn, _| *lsn >= below);
            }
            Output::Discard { ino, from, .. } => {
                self.objects.discard(ino, from);
                self.pending_discards.push_back((ino, from));
            }
            Output::Spill { ino, data, .. } => self.spills.push((ino, data)),
            Output::Access { session, ino, access } => {
                self.access.insert((session, ino), access);
                self.said_of_one.insert((session, ino));
            }
            Output::AccessRange { session, first, count, access } => {
                self.ranges.retain(|range| (range.0, range.1, range.2) != (session, first, count));
                if access != DataAccess::None {
                    self.ranges.push((session, first, count, access));
                }
                // Of several that cover a number the last one counts.
                for (session, first, count, access) in [(session, first, count, access)].iter().chain(&self.ranges) {
                    for ino in (first.0..first.0 + count).map(Ino) {
                        if !self.said_of_one.contains(&(*session, ino)) {
                            self.access.insert((*session, ino), *access);
                        }
                    }
                }
            }
            Output::Freeze { ino, copy, size, owner, shared } => {
                self.objects.freeze(ino, copy, size, owner, shared);
                self.frozen.insert(ino, (copy, owner));
            }
            Output::Thaw { ino } => {
                self.objects.thaw(ino);
                self.frozen.remove(&ino);
            }
            Output::KeepTheirs { ino, copy, to, len, .. } => self.pending_keeps.push_back(((ino, copy), to, len)),
            Output::LookAtFork { ino, copy } => {
                self.mds.handle(self.now, Input::Fork { ino, size: self.objects.look(copy) });
            }
            Output::Restore { ino, copy } => self.pending_restores.push_back((ino, copy)),
            output @ (Output::WriteData { .. } | Output::SettleData | Output::DataInPlace { .. }) => {
                self.logged.push(output)
            }
            Output::SyncData { ticket } => {
                self.data_syncs.push(ticket);
                self.pending_syncs.push_back(ticket);
            }
            Output::Quiesce { ticket, inos } => {
                self.pending_quiesces.push_back(ticket);
                self.quieted.extend(inos);
            }
            Output::Settle { replay_from, table_upto } => {
                self.trimmed = self.trimmed.max(replay_from);
                self.journal.retain(|lsn, _| *lsn >= replay_from);
                settle(&mut self.table, self.config.rank, table_upto);
                self.mds.handle(self.now, Input::Settled { table_upto });
            }
            Output::Peer { to, msg } => self.to_peers.push_back((to, msg)),
            Output::Told { told, .. } => self.told = Some(told),
            Output::Balance(snapshot) => self.snapshot = Some(snapshot),
            Output::Member(member) => self.members.push(member),
            Output::Scan { ticket, what, from } => {
                let rows = |start: &[u8], end: &[u8], limit: usize| -> Result<_, String> {
                    let range = self.table.range(start.to_vec()..end.to_vec()).take(limit);
                    Ok(range.map(|(key, value)| (key.clone(), value.clone())).collect())
                };
                let rank = self.config.rank;
                let page = what.page(rank, from, rows, |_, error| error.to_string()).ok();
                self.mds.handle(self.now, Input::Scanned { ticket, page });
            }
            Output::StraysDropped { all } => {
                self.lists_done += 1;
                self.strays_left_open = !all;
            }
            Output::OwnerLost => self.owners_lost += 1,
            Output::Bound { .. } => {}
            Output::TakenBack { dir, unmerged, .. } => self.taken_back.push((dir, unmerged)),
            Output::Again => self.again = true,
            Output::Fence { session } => self.fenced.push(session),
            Output::ShutOut { session, addresses } => self.shut_out.push((session, addresses)),
            Output::Stopped => self.stopped = true,
            Output::Fatal { text } => self.fatal = Some(text),
        }
    }

    fn client_of(&mut self, conn: ConnId) -> Option<&mut Client> {
        self.clients.iter_mut().find(|client| client.conn.0 == conn)
    }

    fn deliver(&mut self, conn: ConnId, msg: ToClient) {
        let Some(client) = self.client_of(conn) else { return };
        match msg {
            ToClient::Welcome(welcome) => client.welcome = Some(welcome),
            ToClient::Recall { ino, id, bits } => client.recalls.push((ino, id, bits)),
            msg => client.inbox.push_back(msg),
        }
    }

    /// The journal becomes durable as far as it was given out.
    pub fn sync(&mut self) {
        let Some((lsn, _)) = self.volatile.back() else { return };
        let lsn = *lsn;
        self.journal.extend(std::mem::take(&mut self.volatile));
        self.mds.handle(self.now, Input::Durable { lsn });
    }

    pub fn load_one(&mut self) {
        let Some((ticket, needs)) = self.pending_loads.pop_front() else { return };
        let items = needs.iter().flat_map(|need| read(&self.table, self.config.hash_key, need)).collect();
        self.mds.handle(self.now, Input::Loaded { ticket, items });
    }

    pub fn checkpoint_one(&mut self) {
        let Some((id, records)) = self.pending_checkpoints.pop_front() else { return };
        records.into_iter().for_each(|record| write(&mut self.table, self.config.rank, record));
        self.mds.handle(self.now, Input::CheckpointDone { id });
    }

    /// Rows of a merge get into the table, or, `ok` not said, only every other one of them.
    pub fn merge_rows_one(&mut self, ok: bool) {
        let Some((id, rows)) = self.pending_rows.pop_front() else { return };
        let mut merged = rows.rows();
        for (at, record) in std::mem::take(&mut merged.records).into_iter().enumerate() {
            if ok || at % 2 == 0 {
                write(&mut self.table, self.config.rank, record);
            }
        }
        self.mds.handle(self.now, Input::MergeRowsDone { id, merged: ok.then(|| Box::new(merged)) });
    }

    pub fn discard_one(&mut self) {
        let Some((ino, _)) = self.pending_discards.pop_front() else { return };
        self.mds.handle(self.now, Input::Discarded { ino });
    }

    pub fn keep_one(&mut self) {
        let Some((from, to, len)) = self.pending_keeps.pop_front() else { return };
        self.objects.keep(from, to, len);
        self.mds.handle(self.now, Input::Kept { to, result: Ok(()) });
    }

    pub fn restore_all(&mut self) {
        while let Some((ino, copy)) = self.pending_restores.pop_front() {
            self.objects.restore(ino, copy);
            self.input(Input::Restored { ino });
        }
    }

    fn sync_data_one(&mut self) {
        let Some(ticket) = self.pending_syncs.pop_front() else { return };
        self.mds.handle(self.now, Input::DataSynced { ticket, ok: true });
    }

    fn quiesce_one(&mut self) {
        let Some(ticket) = self.pending_quiesces.pop_front() else { return };
        self.mds.handle(self.now, Input::Quiesced { ticket, ok: true });
    }

    fn obey_one(&mut self) -> bool {
        let obedient = self.clients.iter().position(|client| client.obeys && !client.recalls.is_empty());
        let Some(at) = obedient else { return false };
        let (ino, id, _) = self.clients[at].recalls.remove(0);
        let conn = self.clients[at].conn.0;
        self.mds.handle(self.now, Input::Message { conn, msg: ToServer::RecallDone { ino, id } });
        true
    }

    /// Time goes on.
    pub fn wait(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(50) {
            self.now.mono_ms += 50;
            self.now.wall.0 += 50_000_000;
            self.tick();
        }
    }

    /// A tick, and so many more steps of a long work.
    pub fn tick(&mut self) {
        self.input(Input::Tick);
        for _ in 0..STEPS {
            if std::mem::take(&mut self.again) {
                self.input(Input::Again);
            }
        }
    }

    /// All live clients show that they live, then time goes on.
    pub fn wait_alive(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(100) {
            for at in 0..self.clients.len() {
                if !self.clients[at].closed {
                    self.message(at, ToServer::Ping);
                }
            }
            self.wait(100);
        }
    }

    pub fn client(&mut self) -> usize {
        self.client_as(0, Peer { uid: Some(0), groups: Vec::new(), trusted: true, local: false, identity: None })
    }

    pub fn client_as(&mut self, uid: u32, peer: Peer) -> usize {
        let at = self.clients.len();
        self.clients.push(Client { obeys: true, want: BOTH, uid, ..Client::default() });
        self.dial(at, peer, None);
        at
    }

    /// A client that has the same number at every rank.
    pub fn client_of_many(&mut self, number: u64, peer: Option<Peer>) -> usize {
        let at = self.clients.len();
        self.clients.push(Client { obeys: true, want: BOTH, number, peer, ..Client::default() });
        self.connect(at);
        at
    }

    /// A client of the network, which has a number of its own.
    pub fn client_from_afar(&mut self, peer: Peer) -> usize {
        let at = self.clients.len();
        let (number, peer) = (100 + at as u64, Some(peer));
        self.clients.push(Client { obeys: true, want: BOTH, number, peer, ..Client::default() });
        self.connect(at);
        at
    }

    /// Connects without a session to go on with.
    pub fn connect(&mut self, at: usize) {
        let peer = self.peer(at);
        self.dial(at, peer, None);
    }

    fn peer(&self, at: usize) -> Peer {
        let root = Peer { uid: Some(0), groups: Vec::new(), trusted: true, local: false, identity: None };
        self.clients[at].peer.clone().unwrap_or(root)
    }

    fn dial(&mut self, at: usize, peer: Peer, resume: Option<(SessionId, u64)>) {
        self.next_conn += 1;
        let conn = ConnId(self.next_conn);
        let client = &mut self.clients[at];
        (client.conn, client.welcome, client.closed) = (ConnId2(conn), None, false);
        client.recalls.clear();
        let number = client.number;
        self.input(Input::Connected { conn, peer });
        let hello = Hello {
            versions: (PROTOCOL_VERSION, PROTOCOL_VERSION),
            client: number,
            resume,
            name: format!("client {at}"),
            fs_id: None,
        };
        self.input(Input::Message { conn, msg: ToServer::Hello(hello) });
    }

    /// The connection breaks, and the client comes back with its session.
    pub fn reconnect(&mut self, at: usize) {
        self.disconnect(at);
        self.resume(at);
    }

    pub fn disconnect(&mut self, at: usize) {
        let conn = self.clients[at].conn.0;
        self.clients[at].conn = ConnId2::default();
        self.input(Input::Disconnected { conn });
    }

    pub fn resume(&mut self, at: usize) {
        let welcome = self.clients[at].welcome.clone().expect("the client was welcome before");
        let peer = self.peer(at);
        self.dial(at, peer, Some((welcome.session, welcome.secret)));
    }

    pub fn session(&self, at: usize) -> SessionId {
        self.clients[at].welcome.as_ref().expect("the client is welcome").session
    }

    pub fn message(&mut self, at: usize, msg: ToServer) {
        let conn = self.clients[at].conn.0;
        self.input(Input::Message { conn, msg });
    }

    pub fn send(&mut self, at: usize, op: Op) -> Seq {
        self.clients[at].next_seq += 1;
        let seq = Seq(self.clients[at].next_seq);
        self.send_again(at, seq, op);
        seq
    }

    pub fn send_again(&mut self, at: usize, seq: Seq, op: Op) {
        self.send_numbered(at, seq, op, None);
    }

    /// The same with a number for the inode that is made.
    pub fn send_numbered(&mut self, at: usize, seq: Seq, op: Op, ino: Option<Ino>) {
        let client = &self.clients[at];
        let cred = if client.uid == 0 { Cred::root() } else { Cred::user(client.uid, client.uid) };
        let request = Request { seq, answered: Seq(0), want: client.want, cred, op, ino, ways: None };
        self.message(at, ToServer::Request(request));
    }

    pub fn reply(&mut self, at: usize, seq: Seq) -> Option<Reply> {
        let inbox = &mut self.clients[at].inbox;
        let place = inbox.iter().position(|msg| matches!(msg, ToClient::Reply { seq: s, .. } if *s == seq))?;
        match inbox.remove(place) {
            Some(ToClient::Reply { result, granted, .. }) => Some((result, granted)),
            _ => None,
        }
    }

    pub fn call(&mut self, at: usize, op: Op) -> FsResult<Answer> {
        self.call_granted(at, op).0
    }

    pub fn call_granted(&mut self, at: usize, op: Op) -> Reply {
        let text = format!("{op:?}");
        let seq = self.send(at, op);
        self.reply(at, seq).unwrap_or_else(|| panic!("{text} is not answered"))
    }

    pub fn create(&mut self, at: usize, dir: Ino, text: &str, flags: OpenFlags, handle: u64) -> Attr {
        match self.call(at, create(dir, text, flags, handle)) {
            Ok(Answer::Opened { attr, .. }) => attr,
            other => panic!("create {text}: {other:?}"),
        }
    }

    pub fn mkdir(&mut self, at: usize, dir: Ino, text: &str) -> Attr {
        match self.call(at, mkdir(dir, text)) {
            Ok(Answer::Entry(attr)) => attr,
            other => panic!("mkdir {text}: {other:?}"),
        }
    }

    pub fn lookup(&mut self, at: usize, dir: Ino, text: &str) -> FsResult<Attr> {
        match self.call(at, Op::Lookup { dir, name: name(text) }) {
            Ok(Answer::Entry(attr)) => Ok(attr),
            Ok(other) => panic!("lookup {text}: {other:?}"),
            Err(error) => Err(error),
        }
    }

    pub fn open(&mut self, at: usize, ino: Ino, flags: OpenFlags, handle: u64) -> (Attr, Lease) {
        match self.call(at, Op::Open { ino, flags, handle }) {
            Ok(Answer::Opened { attr, rights, .. }) => (attr, rights),
            other => panic!("open {ino:?}: {other:?}"),
        }
    }

    /// The process dies: what was not durable is lost. It starts again from journal and table.
    pub fn crash(&mut self) {
        self.volatile.clear();
        self.pending_loads.clear();
        self.pending_checkpoints.clear();
        self.pending_rows.clear();
        self.pending_discards.clear();
        self.to_peers.clear();
        self.pending_quiesces.clear();
        self.pending_keeps.clear();
        self.frozen.clear();
        self.objects.crash();
        self.pending_syncs.clear();
        let last = self.journal.last_key_value().map_or(Lsn(self.trimmed.0.saturating_sub(1)), |(lsn, _)| *lsn);
        self.last_lsn = last;
        let mut mds = Mds::recover(self.config.clone(), meta(&self.table, self.config.rank), self.now);
        let mut inline = loligo_journal::InlineLog::default();
        for (lsn, record) in &self.journal {
            let mut record = decode_record(record).expect("what was encoded can be decoded");
            inline.make_whole(*lsn, &mut record.events).expect("changes have what they build on");
            mds.replay(*lsn, &record);
        }
        mds.recovered(self.now, last);
        self.mds = mds;
        for client in &mut self.clients {
            client.conn = ConnId2::default();
            client.inbox.clear();
            client.recalls.clear();
        }
        self.pump();
    }

    pub fn reclaim(&mut self, at: usize, held: Reclaim) {
        self.message(at, ToServer::Reclaim(held));
    }

    /// The whole namespace as it is: what a walk from the root finds.
    pub fn walk(&mut self, at: usize) -> BTreeMap<String, (Attr, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut todo = vec![(String::new(), Ino::ROOT)];
        while let Some((path, dir)) = todo.pop() {
            let Ok(Answer::Entry(attr)) = self.call(at, Op::GetAttr { ino: dir }) else {
                panic!("{path} has no inode")
            };
            found.insert(format!("{path}/"), (attr, Vec::new()));
            let mut cookie = 0;
            loop {
                let op = Op::Readdir { dir, cookie, limit: 3, plus: true, handle: None };
                let Ok(Answer::Entries { entries, end, .. }) = self.call(at, op) else {
                    panic!("{path} is not readable")
                };
                for entry in &entries {
                    let path = format!("{path}/{}", entry.name);
                    let attr = entry.attr.expect("asked for attributes");
                    if entry.kind == loligo_types::Kind::Dir {
                        todo.push((path, entry.ino));
                    } else {
                        let names = self.call(at, Op::ListXattr { ino: entry.ino });
                        let Ok(Answer::Bytes(names)) = names else { panic!("{path} has no xattrs") };
                        found.insert(path, (attr, names.to_vec()));
                    }
                }
                if end {
                    break;
                }
                cookie = entries.last().expect("not the end, so there is an entry").cookie;
            }
        }
        found
    }
}
