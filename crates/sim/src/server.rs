//! One life of a simulated rank: the production machines and journal, driven as the driver's threads do it, with
//! every wait an event that the world brings later, or never.

mod lies;
mod objects;
mod storage;

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loligo_journal::{Writer, WriterConfig};
use loligo_mds::admin::{Ask, Told};
use loligo_mds::peer::PeerMsg;
use loligo_mds::{ConnId, DataAccess, Input, Mds, Member, Now, Output, Peer, Scan};
use loligo_namespace::{Loaded, MergeRows, Need, Record};
use loligo_osd::{Access, Effect, EffectId, EffectResult, Osd};
use loligo_store::{Backend, Batch, Blobs, Durability, LogDir, LogFile, Table};
use loligo_types::msg::{ToClient, ToServer};
use loligo_types::{DataError, Decision, Ino, Lsn, Rank, SessionId, Snapshot};

use crate::options::Canary;
use crate::recovery;
use crate::rows::{self, Result};
use crate::watch::Watch;

/// Something that takes time.
#[derive(Debug)]
pub enum Work {
    /// The journal's thread takes what was queued and writes it.
    JournalWrite,
    /// It syncs what it wrote.
    JournalSync,
    /// The table's thread does the next thing that was asked of it.
    Table,
    /// A loading thread reads.
    LoadRead { ticket: u64, needs: Vec<Need> },
    /// The items that it read are there.
    LoadDone { ticket: u64, items: Option<Vec<Loaded>> },
    /// A data thread does an effect.
    Effect { id: EffectId },
    /// Its result is there.
    EffectDone { id: EffectId },
    /// The clock of the rank thread.
    Tick,
    /// The rank thread goes on with a long work.
    Again,
    /// The balancer's policy answers.
    Decided(Decision),
    /// The store refuses the client of a session.
    ShutOut { session: SessionId },
}

/// Action that the server asks of the world.
#[derive(Debug)]
pub enum Act {
    /// Send.
    Send { conn: u64, msg: ToClient },
    /// Close after what was sent.
    Close { conn: u64 },
    /// Bring this back when it is done.
    Begin(Work),
    /// The session is to end.
    Fenced { session: SessionId },
    /// It is gone; durably so with this record.
    Gone { session: SessionId, lsn: Lsn },
    /// Have the store refuse its client.
    ShutOut { session: SessionId, addresses: Vec<Box<[u8]>> },
    /// Say this to another rank.
    Peer { to: Rank, msg: PeerMsg },
    /// Ask the balancer's policy.
    Balance(Box<Snapshot>),
    /// The answer to an administrator.
    Told { id: u64, told: Told },
    /// The journal is durable up to here.
    Durable(Lsn),
    /// An effect on file data failed.
    DataFailed,
    /// A line for the trace.
    Note(String),
    /// It stops: with a failure, or in order.
    Fatal(String),
    /// A record was made with these, if there are relaxed directories.
    Changed { lsn: Lsn, events: Vec<loligo_types::Event> },
    /// To the keeper of the cluster map.
    Member(Member),
    /// All is in the table.
    Stopped,
}

#[derive(Debug)]
enum TableWork {
    Checkpoint {
        id: u64,
        records: Vec<Record>,
    },
    /// Rows of a merge.
    MergeRows {
        id: u64,
        rows: Box<MergeRows>,
    },
    /// Remaining rows of a checkpoint that is written bit by bit.
    Rest {
        id: u64,
        turn: u64,
        rows: Batch,
    },
    Trim {
        below: Lsn,
    },
    Settle {
        replay_from: Lsn,
        table_upto: Lsn,
    },
    Scan {
        ticket: u64,
        what: Scan,
        from: Ino,
    },
}

#[derive(Debug)]
enum Asked {
    Client { conn: u64, id: u64 },
    Discard { from: u64, object_size: u32 },
    Spill,
    Restore { copy: Ino },
    Keep,
    Look { copy: Ino },
    SyncAll { ticket: u64 },
}

/// A running rank.
pub struct Server {
    rank: Rank,
    pub mds: Mds,
    osd: Osd,
    /// Keep the disks open: the one that all share, and the journal's.
    _disks: Disks,
    table: Arc<dyn Table>,
    pub blobs: Arc<dyn Blobs>,
    log: Arc<dyn LogDir>,
    key: (u64, u64),
    writer: Writer,
    file: Option<(u64, Box<dyn LogFile>)>,
    appends: Vec<(Lsn, Vec<u8>)>,
    /// Taken from the writer, and refused by a full disk.
    waiting: Option<loligo_journal::Batch>,
    /// True while the shared disk has no room.
    full: Option<Arc<AtomicBool>>,
    journal_busy: bool,
    unsynced: Option<Lsn>,
    table_queue: VecDeque<TableWork>,
    table_busy: bool,
    asked: BTreeMap<u64, Asked>,
    next_tag: u64,
    sessions: BTreeMap<u64, SessionId>,
    retry: Vec<(Ino, u64, u32)>,
    effects: BTreeMap<EffectId, Effect>,
    results: BTreeMap<EffectId, EffectResult>,
    journal_limit: u64,
    canary: Option<Canary>,
    lies: lies::Lies,
    /// Files that are to be quiet, by the ticket of who wants it.
    quieting: BTreeMap<u64, Vec<Ino>>,
    durability: Durability,
    /// Rows of a checkpoint are written bit by bit, in any order.
    rows_apart: bool,
    direct: bool,
    trace: bool,
    relaxed: bool,
    /// The last record of the journal that it found.
    pub found_upto: Lsn,
    pub watch: Watch,
    pub out: VecDeque<Act>,
    /// The rank thread has more of a long work to do.
    again: bool,
}

/// Disks of a rank.
#[derive(Clone)]
pub struct Disks {
    /// Table and objects: all ranks'.
    pub shared: Arc<dyn Backend>,
    /// The rank's journal.
    pub journal: Arc<dyn Backend>,
}

/// Parameters of a start.
pub struct Start {
    /// The objects, as this process sees them.
    pub blobs: Arc<dyn Blobs>,
    /// Clients may reach file data by themselves.
    pub direct: bool,
    pub config: loligo_mds::Config,
    pub segment_size: u64,
    pub journal_limit: u64,
    pub canary: Option<Canary>,
    /// Record up to which earlier lives have written merges, which are then not replayed: for
    /// [`crate::Canary::RowsTrimmedEarly`].
    pub rows_upto: Rc<Cell<Lsn>>,
    /// A number for choices of canaries.
    pub chance: u64,
    /// That of checkpoints: the journal keeps what they wrote until a trim has synced the table.
    pub durability: Durability,
    pub rows_apart: bool,
    /// Records are shown.
    pub trace: bool,
    /// There are relaxed directories.
    pub relaxed: bool,
}

impl Server {
    /// Recovers. Also says what is wrong with the tree that was found.
    pub fn start(disks: Disks, start: Start, now: Now) -> Result<(Server, Vec<String>)> {
        let Start { blobs, direct, config, segment_size, journal_limit, canary, .. } = start;
        let Start { rows_upto, chance, durability, rows_apart, trace, relaxed, .. } = start;
        let (rank, alone) = (config.rank, config.map.ranks.is_empty());
        if !alone {
            // What the life before had written is on no disk yet, and this one cannot know of it: so does every backend.
            disks.shared.blobs().sync_all().map_err(|e| e.to_string())?;
        }
        let mut found = recovery::read(&*disks.shared.table(), &*disks.journal, rank)?;
        if canary == Some(Canary::ReplaySkips) && !found.records.is_empty() {
            let at = found.records.len() - 1 - chance as usize % found.records.len().min(8);
            found.records.remove(at);
        }
        if canary == Some(Canary::DataForgotten) {
            recovery::forget_data(&mut found.records);
        }
        if canary == Some(Canary::PartsForgotten) {
            recovery::forget_parts(&mut found.records);
        }
        lies::trim_merges(&mut found.records, rows_upto.get());
        let mut watch = Watch::default();
        let mut faults = Vec::new();
        if alone {
            faults = recovery::check_tree(&found.rows, &found.records, config.hash_key, config.inline_max);
            let known = found.rows.iter().filter_map(|row| rows::event_of(row.clone()));
            known.for_each(|event| watch.learn(&event));
        }
        found.records.iter().filter(|_| alone).flat_map(|(_, r)| &r.events).for_each(|event| watch.learn(event));
        let key = config.hash_key;
        let fs = config.fs_id;
        let mut mds = Mds::recover(config, found.meta.clone(), now);
        for (lsn, record) in &found.records {
            mds.replay(*lsn, record);
        }
        let last = Lsn(found.tail.next_lsn.0 - 1);
        mds.recovered(now, last);
        let writer = Writer::resume(WriterConfig { fs, rank: u32::from(rank.0), segment_size }, &found.tail);
        let mut server = Server {
            rank,
            mds,
            osd: Osd::new(loligo_osd::Config { queue_bytes: 64 << 10, dirty_files: 4 }),
            table: disks.shared.table(),
            blobs,
            log: disks.journal.log_dir(u32::from(rank.0)).map_err(|e| e.to_string())?,
            key,
            writer,
            file: None,
            appends: Vec::new(),
            waiting: None,
            full: disks.shared.full(),
            journal_busy: false,
            unsynced: None,
            table_queue: VecDeque::new(),
            table_busy: false,
            asked: BTreeMap::new(),
            next_tag: 1,
            sessions: BTreeMap::new(),
            retry: Vec::new(),
            effects: BTreeMap::new(),
            results: BTreeMap::new(),
            journal_limit,
            canary,
            lies: lies::Lies::after(rows_upto),
            quieting: BTreeMap::new(),
            durability,
            rows_apart,
            direct,
            trace,
            relaxed,
            found_upto: last,
            watch,
            out: VecDeque::from([Act::Begin(Work::Tick)]),
            again: false,
            _disks: disks,
        };
        if canary.is_some() {
            found.rows.iter().filter_map(|row| rows::event_of(row.clone())).for_each(|event| server.lies.learn(&event));
            found.records.iter().flat_map(|(_, record)| &record.events).for_each(|event| server.lies.learn(event));
        }
        server.drain();
        Ok((server, faults))
    }

    /// A connection was made.
    pub fn connected(&mut self, now: Now, conn: u64) {
        let peer = Peer { uid: None, groups: Vec::new(), trusted: true, local: false, identity: None };
        self.feed(now, Input::Connected { conn: ConnId(conn), peer });
    }

    /// A connection is gone.
    pub fn disconnected(&mut self, now: Now, conn: u64) {
        self.sessions.remove(&conn);
        self.asked.retain(|_, asked| !matches!(asked, Asked::Client { conn: of, .. } if *of == conn));
        self.feed(now, Input::Disconnected { conn: ConnId(conn) });
    }

    /// A message came.
    pub fn message(&mut self, now: Now, conn: u64, mut msg: ToServer) {
        self.hear_wrongly(conn, &mut msg);
        match msg {
            ToServer::Data(request) => {
                let Some(session) = self.sessions.get(&conn).copied() else {
                    let msg = ToClient::Data { id: request.id, result: Err(DataError::Stale) };
                    return self.out.push_back(Act::Send { conn, msg });
                };
                let tag = self.tag(Asked::Client { conn, id: request.id });
                let loligo_types::msg::DataRequest { ino, object_size, op, .. } = request;
                self.osd_feed(loligo_osd::Input::Request { session, tag, ino, object_size, op });
                self.osd_outputs(now);
            }
            msg => {
                self.watch.input(ConnId(conn), &msg);
                self.feed(now, Input::Message { conn: ConnId(conn), msg });
                self.answer_edge();
            }
        }
    }

    /// Something that took time is over.
    pub fn work(&mut self, now: Now, work: Work) {
        match work {
            Work::JournalWrite => self.journal_write(now),
            Work::JournalSync => self.journal_sync(now),
            Work::Table => self.table_work(now),
            Work::LoadRead { ticket, needs } => {
                let items = rows::load(&*self.table, self.key, &needs).ok();
                let goes_on = items.iter().flatten().find_map(|item| match item {
                    Loaded::Range { dir, upto_hash, .. } => Some((*dir, upto_hash.checked_add(1)?)),
                    _ => None,
                });
                self.out.push_back(Act::Begin(Work::LoadDone { ticket, items }));
                if let Some((dir, from_hash)) = goes_on {
                    self.feed(now, Input::LoadGoesOn { ticket, dir, from_hash });
                }
            }
            Work::LoadDone { ticket, items: Some(items) } => self.feed(now, Input::Loaded { ticket, items }),
            Work::LoadDone { ticket, items: None } => self.feed(now, Input::LoadFailed { ticket }),
            Work::Effect { id } => self.effect(id),
            Work::EffectDone { id } => {
                if let Some(result) = self.results.remove(&id) {
                    self.osd_feed(loligo_osd::Input::Done { id, result });
                    self.osd_outputs(now);
                }
            }
            Work::Tick => self.tick(now),
            Work::Decided(decision) => self.feed(now, Input::Decided(decision)),
            Work::ShutOut { session } => self.feed(now, Input::ShutOut { session }),
            Work::Again => {
                self.again = false;
                self.feed(now, Input::Again);
            }
        }
    }

    /// There is a connection to another rank, or it is gone.
    pub fn peer(&mut self, now: Now, rank: Rank, up: bool) {
        self.feed(now, if up { Input::PeerUp { rank } } else { Input::PeerDown { rank } });
    }

    /// Another rank says something.
    pub fn peer_message(&mut self, now: Now, from: Rank, msg: PeerMsg) {
        self.feed(now, Input::Peer { from, msg });
    }

    /// An administrator asks.
    pub fn admin(&mut self, now: Now, id: u64, ask: Ask) {
        self.feed(now, Input::Admin { id, ask });
    }

    /// The server is to stop in order.
    pub fn stop(&mut self, now: Now) {
        self.feed(now, Input::Stop);
    }

    /// Feeds the metadata server.
    pub fn feed(&mut self, now: Now, input: Input) {
        self.mds.handle(now, input);
        self.drain();
        self.osd_outputs(now);
    }

    fn tick(&mut self, now: Now) {
        self.feed(now, Input::JournalSpace { used: self.writer.space(), limit: self.journal_limit });
        if let Some(full) = &self.full {
            let full = full.load(Ordering::Acquire);
            self.feed(now, Input::Full(full));
        }
        self.feed(now, Input::JournalFull(self.waiting.is_some()));
        self.feed(now, Input::Tick);
        if self.waiting.is_some() {
            self.kick_journal();
        }
        self.osd_feed(loligo_osd::Input::Retry);
        for (ino, from, object_size) in std::mem::take(&mut self.retry) {
            self.discard(ino, from, object_size);
        }
        self.osd_outputs(now);
        self.out.push_back(Act::Begin(Work::Tick));
    }

    fn drain(&mut self) {
        while let Some(output) = self.mds.pop() {
            self.watch.output(&output);
            self.carry_out(output);
            let gone = self.watch.gone.drain(..);
            self.out.extend(gone.map(|(session, lsn)| Act::Gone { session, lsn }));
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send { conn, mut msg } => {
                self.tell_wrongly(conn.0, &mut msg);
                self.out.push_back(Act::Send { conn: conn.0, msg });
            }
            Output::Close { conn } => self.out.push_back(Act::Close { conn: conn.0 }),
            Output::Append { lsn, record } => {
                if self.trace
                    && let Ok(record) = loligo_journal::decode_record(&record)
                {
                    self.out.push_back(Act::Note(format!("record {lsn} {:?} {:?}", record.origin, record.events)));
                }
                self.note_merges(lsn, &record);
                if let (true, Ok(record)) = (self.relaxed, loligo_journal::decode_record(&record)) {
                    self.note_edge(lsn, &record);
                    self.out.push_back(Act::Changed { lsn, events: record.events });
                }
                self.appends.push((lsn, record));
                self.kick_journal();
            }
            Output::Load { ticket, needs } => self.out.push_back(Act::Begin(Work::LoadRead { ticket, needs })),
            Output::Checkpoint { id, records } => self.push_table(TableWork::Checkpoint { id, records }),
            Output::MergeRows { id, rows } => self.push_table(TableWork::MergeRows { id, rows }),
            Output::Trim { below } => self.push_table(TableWork::Trim { below }),
            Output::Settle { replay_from, table_upto } => {
                self.push_table(TableWork::Settle { replay_from, table_upto });
            }
            Output::Discard { ino, from, object_size } => self.discard(ino, from, object_size),
            Output::Spill { ino, data, object_size } => {
                let tag = self.tag(Asked::Spill);
                self.osd_feed(loligo_osd::Input::Spill { tag, ino, object_size, data });
            }
            Output::WriteData { lsn, ino, object_size, patches } => {
                self.osd_feed(loligo_osd::Input::WriteLogged { lsn, ino, object_size, patches });
            }
            Output::SettleData => self.osd_feed(loligo_osd::Input::SettleLogged),
            Output::DataInPlace { ino, upto } => self.osd_feed(loligo_osd::Input::Forget { ino, upto }),
            Output::SyncData { ticket } => {
                let tag = self.tag(Asked::SyncAll { ticket });
                self.osd_feed(loligo_osd::Input::SyncAll { tag });
            }
            Output::Quiesce { ticket, inos } => {
                self.quieting.insert(ticket, inos.clone());
                self.osd_feed(loligo_osd::Input::Quiesce { ticket, inos });
            }
            Output::Scan { ticket, what, from } => self.push_table(TableWork::Scan { ticket, what, from }),
            Output::Member(member) => self.out.push_back(Act::Member(member)),
            Output::Peer { to, msg } => self.out.push_back(Act::Peer { to, msg }),
            Output::Balance(snapshot) => self.out.push_back(Act::Balance(snapshot)),
            Output::Told { id, told } => self.out.push_back(Act::Told { id, told }),
            Output::Access { session, ino, access } => {
                let access = to_osd(access);
                if access == Access::Write {
                    // Another one may have removed objects since it was written here.
                    self.blobs.forget(ino.0);
                }
                self.osd_feed(loligo_osd::Input::Access { session, ino, access });
            }
            Output::AccessRange { session, first, count, access } => {
                self.osd_feed(loligo_osd::Input::AccessRange { session, first, count, access: to_osd(access) });
            }
            Output::Freeze { ino, copy, size, owner, shared } => {
                self.osd_feed(loligo_osd::Input::Freeze { ino, copy, size, owner, shared });
            }
            Output::Thaw { ino } => self.osd_feed(loligo_osd::Input::Thaw { ino }),
            Output::Restore { ino, copy } => {
                let tag = self.tag(Asked::Restore { copy });
                self.osd_feed(loligo_osd::Input::Restore { tag, ino, copy });
            }
            Output::KeepTheirs { ino, copy, object_size, to, len } => {
                let tag = self.tag(Asked::Keep);
                self.osd_feed(loligo_osd::Input::KeepTheirs { tag, ino, copy, object_size, to, len });
            }
            Output::LookAtFork { ino, copy } => {
                let tag = self.tag(Asked::Look { copy });
                self.osd_feed(loligo_osd::Input::LookAtFork { tag, ino, copy });
            }
            Output::Bound { conn, session } => drop(self.sessions.insert(conn.0, session)),
            Output::TakenBack { .. } | Output::StraysDropped { .. } | Output::OwnerLost => {}
            Output::Again if self.again => {}
            Output::Again => {
                self.again = true;
                self.out.push_back(Act::Begin(Work::Again));
            }
            Output::Fence { session } => {
                self.osd_feed(loligo_osd::Input::Fence { session });
                self.out.push_back(Act::Fenced { session });
            }
            Output::ShutOut { session, addresses } => self.out.push_back(Act::ShutOut { session, addresses }),
            Output::Stopped => self.out.push_back(Act::Stopped),
            Output::Fatal { text } => self.out.push_back(Act::Fatal(text)),
        }
    }
}

/// Converts the metadata server's access into the object server's.
fn to_osd(access: DataAccess) -> Access {
    match access {
        DataAccess::None => Access::None,
        DataAccess::Read => Access::Read,
        DataAccess::Write => Access::Write,
        DataAccess::Hidden => Access::Hidden,
        DataAccess::Moving => Access::Moving,
        DataAccess::Moved => Access::Moved,
    }
}
