//! A run from the empty disk to the last check: set-up, the random part, quiet, a look at everything, the stop, and a
//! look at the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use loligo_client::{Call, Fh, Input};
use loligo_journal::table::Row;
use loligo_namespace::{LOOKUP_LEASE, PLACEMENT, fsck};
use loligo_store::Backend;
use loligo_store::mem::{CrashPlan, Torn};
use loligo_types::{Answer, FsError, Ino, Kind, Layout, Name, Op, OpenFlags, SetAttr, XattrMode};

use crate::data::{BLOCK, BLOCKS, HEAD, OBJECT, offset_of};
use crate::node::{Caller, Want};
use crate::options::{Canary, Options, Outcome};
use crate::rows;
use crate::tree::{NameId, Node as TreeNode, NsOp, State};
use crate::workload::{NAMES, Places, Track};
use crate::world::{Event, World};

/// Numbers of nodes that are there from the start begin here.
const FIXED: u64 = 1 << 60;
/// A call of the world must be answered in this time, milliseconds.
const CALL_MS: u64 = 30_000;
/// Everything that waits must end in this time, milliseconds.
const QUIET_MS: u64 = 60_000;
/// No lease of a decoupled directory is longer, and some more, milliseconds.
const LEASE_MS: u64 = 6_000;

/// Runs one seed.
pub fn run(seed: u64, options: Options) -> Outcome {
    let mut world = World::new(seed, options);
    world.run_all();
    world.finish()
}

impl World {
    fn run_all(&mut self) {
        self.set_up();
        if self.is_broken() {
            return;
        }
        self.random_part();
        self.calm_down();
        if !self.is_broken() {
            self.look_at_everything();
        }
        if !self.is_broken() && self.options.handles {
            self.look_at_handles();
        }
        if !self.is_broken() {
            self.stop_clients();
        }
        if !self.is_broken() {
            self.stop_server();
        }
        if !self.is_broken() {
            self.look_at_disk();
        }
    }

    fn is_broken(&self) -> bool {
        !self.outcome.findings.is_empty()
    }

    /// A call of the world through the first client, as if it blocked.
    fn ask(&mut self, call: Call, track: Track) -> Result<loligo_client::Done, FsError> {
        let id = self.next_call;
        // Shown only if it goes wrong: showing all of them took a twelfth of the time of a run.
        let shown = call.clone();
        self.call(0, Caller::World, Want::Plain, call, track);
        self.until(CALL_MS, |world| world.world_answers.contains_key(&id));
        match self.world_answers.remove(&id) {
            Some(result) => result.map_err(|failed| failed.error),
            None => {
                let status = self.show_servers();
                self.wrong(format!("{shown:?} was not answered: {status}"));
                Err(FsError::Unavailable)
            }
        }
    }

    /// The same, for what must go well.
    pub(crate) fn must(&mut self, call: Call, track: Track) -> Option<loligo_client::Done> {
        let shown = call.clone();
        let names = matches!(track, Track::Names(_)) || self.quiet && matches!(call, Call::Open { .. });
        // A client that gave up long ago needs a moment to find the server again.
        let up = |world: &mut World| {
            let node = &world.nodes[0];
            let connected = node.connecting.is_empty() && node.conns.keys().all(|rank| node.ready.contains(rank));
            world.all_up() && connected && !node.ready.is_empty()
        };
        if !self.until(CALL_MS, up) {
            self.wrong("the first client does not find the server".into());
            return None;
        }
        let epoch = self.nodes[0].epoch;
        match self.ask(call, track) {
            Ok(done) => Some(done),
            // A connection that broke in silence before may cost the session only now.
            Err(_) if self.nodes[0].epoch != epoch => None,
            // Something that was given up long ago may come late and take it away.
            Err(FsError::NotFound | FsError::Stale) if names => None,
            Err(error) => {
                self.wrong(format!("{shown:?} failed while nothing was wrong: {error}"));
                None
            }
        }
    }

    pub(crate) fn make_dir(&mut self, name: &str) -> Ino {
        let name = Name::new(name.as_bytes()).expect("the names are valid");
        let call = Call::Op(Op::Mkdir { dir: Ino::ROOT, name, mode: 0o755, umask: 0 });
        self.must(call, Track::None).and_then(|done| done.attr().map(|attr| attr.ino)).unwrap_or_default()
    }

    fn make_file(&mut self, dir: Ino, name: &str, layout: bool) -> Ino {
        let name = Name::new(name.as_bytes()).expect("the names are valid");
        let flags = OpenFlags { write: true, ..OpenFlags::default() };
        let call = Call::Create { dir, name, mode: 0o644, umask: 0, flags, exclusive: true };
        let Some(done) = self.must(call, Track::None) else { return Ino(0) };
        let ino = done.attr().map(|attr| attr.ino).unwrap_or_default();
        if let Some(fh) = done.fh {
            self.must(Call::Release { fh, flock_owner: None }, Track::None);
        }
        if layout {
            let set = SetAttr { layout: Some(Layout { object_size: OBJECT as u32 }), ..SetAttr::default() };
            self.must(Call::SetAttr { ino, set, fh: None }, Track::None);
        }
        ino
    }

    /// From now on directories that are made in one get ranks of their own.
    fn scatter(&mut self, ino: Ino) {
        // In half of the worlds of paths these give which ones.
        let by_path = self.options.paths && self.knobs.server.hash_key.0 >> 30 & 1 == 1;
        // In a quarter of those paths lead through directories whoever may search them.
        let how: &[u8] = match self.knobs.server.hash_key.0 >> 27 & 7 {
            _ if !by_path => b"giga",
            0..2 => b"table",
            _ => b"replicated",
        };
        let op = Op::SetXattr { ino, name: PLACEMENT.into(), value: how.into(), mode: XattrMode::Set };
        self.must(Call::Op(op), Track::None);
    }

    /// From now on clients may go by what they are told of it, and of directories that are made in it, for a time.
    fn lease(&mut self, ino: Ino) {
        let how: &[u8] = match self.knobs.server.hash_key.0 >> 33 & 7 {
            0..3 => b"50ms",
            3..5 => b"250ms",
            5 => b"1s",
            6 => b"rate",
            _ => b"depth",
        };
        let op = Op::SetXattr { ino, name: LOOKUP_LEASE.into(), value: how.into(), mode: XattrMode::Set };
        self.must(Call::Op(op), Track::None);
    }

    fn set_up(&mut self) {
        let mut places = Places::default();
        // By the secret, so that seeds stay what they were.
        let choice = if self.options.scattered { self.knobs.server.hash_key.1 >> 20 | 8 } else { 0 };
        if choice & 3 == 3 {
            self.scatter(Ino::ROOT);
        }
        for (at, name) in crate::workload::DIRS.into_iter().enumerate() {
            let dir = self.make_dir(name);
            places.dirs.push(dir);
            if choice & 3 != 3 && choice >> (at + 2) & 1 == 1 {
                self.scatter(dir);
            }
            if self.options.leases {
                self.lease(dir);
            }
        }
        let data = self.make_dir("data");
        for at in 0..2 {
            let ino = self.make_file(data, &format!("f{at}"), true);
            self.data.create(ino.0);
            places.files.push(ino);
        }
        let log = self.make_file(data, "log", false);
        self.data.create(log.0);
        places.logs.push(log);
        places.lock = self.make_file(data, "lock", false);
        places.data = data;
        places.own = self.make_dir("own");
        let mut state = State::default();
        for dir in &places.dirs {
            let id = FIXED + dir.0;
            let node = TreeNode { ino: dir.0, dir: true, mode: 0o755, nlink: 2, entries: BTreeMap::new(), parent: id };
            state.nodes.insert(id, node);
        }
        self.history.start(state);
        if self.options.subtrees {
            let dir = self.make_dir("common");
            let set = SetAttr { mode: Some(0o777), ..SetAttr::default() };
            self.must(Call::SetAttr { ino: dir, set, fh: None }, Track::None);
            places.common = (dir, self.make_file(dir, "f", false));
        }
        self.places = Rc::new(places);
        if self.options.relaxed {
            self.set_up_relaxed();
        }
        for name in ["job0", "job1"] {
            if self.options.subtrees {
                let dir = self.make_dir(name);
                let mut jobs = self.jobs.borrow_mut();
                jobs.hash_key = self.knobs.server.hash_key;
                jobs.keeps = self.options.stored;
                jobs.readers = self.options.readers;
                jobs.merges_twice = self.options.canary == Some(Canary::KeptMergedTwice);
                jobs.several = self.seats.len() > 1;
                jobs.create(dir);
            }
        }
        if self.options.allow {
            let dir = self.make_dir("both");
            let mut jobs = self.jobs.borrow_mut();
            jobs.hash_key = self.knobs.server.hash_key;
            jobs.shared.begin(dir);
        }
    }

    fn random_part(&mut self) {
        self.quiet = false;
        for at in 0..self.nodes.len() {
            self.begin_programs(at);
        }
        let first = self.rng.range(1_000, 200_000);
        if !self.options.calm {
            self.after(first, Event::Fault);
        }
        // Something must happen for programs that were put in to begin.
        self.after(0, Event::Crash { rank: 0, life: u64::MAX, all: false });
        if self.seats.len() > 1 {
            self.after(first / 2, Event::Thrash);
        }
        if self.options.balance && self.seats.len() > 1 {
            self.change_policy();
        }
        if self.options.members && self.seats.len() > 1 {
            self.after(first, Event::Members);
        }
        let ms = self.options.duration_ms;
        self.until(ms, |_| false);
    }

    /// No faults any more; everything that waits must end.
    fn calm_down(&mut self) {
        if self.is_broken() {
            return;
        }
        self.note(|| "no more faults".into());
        self.quiet = true;
        self.stop.set(true);
        self.nodes.iter_mut().for_each(|node| node.cut_off_until = 0);
        self.unblock_pairs();
        self.make_room();
        self.settle_members();
        if self.disk_faults {
            // Those that were planned go with the process.
            self.crash_all(&CrashPlan::lose_nothing());
        }
        let idle = |world: &mut World| {
            world.all_up()
                && !world.stopping
                && world.members_are_settled()
                && world
                    .nodes
                    .iter()
                    .all(|n| n.up && n.calls.is_empty() && n.programs.iter().all(|p| p.future.is_none()))
        };
        if !self.until(QUIET_MS, idle) && !self.is_broken() {
            let mut text = String::from("calls hang:");
            for (at, node) in self.nodes.iter().enumerate() {
                for (id, pending) in &node.calls {
                    text += &format!("\n  client {at} call {} since {}: {:?}", id.0, pending.begun, pending.track);
                }
            }
            text += &self.show_servers();
            return self.wrong(text);
        }
        if self.rng.one_in(2) {
            let plan = CrashPlan::lose_some(Torn::Byte, self.rng.bits());
            self.crash_all(&plan);
        }
    }

    fn look_at_everything(&mut self) {
        let places = Rc::clone(&self.places);
        for file in &places.files {
            self.read_file(*file, |world, fh| {
                for (first, count) in [(0, HEAD), (HEAD, BLOCKS - HEAD)] {
                    let call = Call::Read { fh, offset: offset_of(first), len: (count as u64 * BLOCK) as u32 };
                    world.must(call, Track::Read { file: *file, first, count });
                }
            });
        }
        for log in &places.logs {
            self.read_file(*log, |world, fh| {
                world.must(Call::Read { fh, offset: 0, len: 1 << 20 }, Track::ReadLog { file: *log });
            });
        }
        if self.options.relaxed {
            self.look_at_relaxed();
        }
        let mut dirs = places.dirs.clone();
        while let Some(dir) = dirs.pop() {
            self.read_file(dir, |world, fh| {
                let call = Call::Readdir { fh, cookie: 0, limit: 100, plus: true };
                let done = world.must(call, Track::Names(NsOp::Readdir { dir: dir.0 }));
                if let Some(Answer::Entries { entries, .. }) = done.map(|done| done.answer) {
                    dirs.extend(entries.iter().filter(|e| e.kind == Kind::Dir).map(|e| e.ino));
                    for entry in entries {
                        let call = Call::GetAttr { ino: entry.ino };
                        world.must(call, Track::Names(NsOp::GetAttr { ino: entry.ino.0 }));
                    }
                }
            });
        }
    }

    /// Nothing stays open at a rank that its client has closed, and nobody else's: such a file would never end, and nobody could decouple
    /// what it is in.
    fn look_at_handles(&mut self) {
        let left = |world: &World| {
            let servers = world.seats.iter().enumerate().filter_map(|(rank, seat)| Some((rank, seat.server.as_ref()?)));
            let all = servers.flat_map(|(rank, server)| {
                server.mds.open_handles().into_iter().map(move |(client, number, ino)| (rank, client, number, ino))
            });
            let known = |client, number| world.nodes.iter().any(|node| node.client.has_handle(client, number));
            all.filter(|(_, client, number, _)| !known(*client, *number)).collect::<Vec<_>>()
        };
        if !self.until(QUIET_MS, |world| left(world).is_empty()) && !self.is_broken() {
            let left = left(self);
            self.wrong(format!("handles that nobody has are open (rank, client, handle, inode): {left:?}"));
        }
    }

    pub(crate) fn read_file(&mut self, ino: Ino, mut read: impl FnMut(&mut World, Fh)) {
        let flags = OpenFlags { read: true, ..OpenFlags::default() };
        let Some(fh) = self.must(Call::Open { ino, flags }, Track::None).and_then(|done| done.fh) else { return };
        read(self, fh);
        self.must(Call::Release { fh, flock_owner: None }, Track::None);
    }

    fn stop_clients(&mut self) {
        for at in 0..self.nodes.len() {
            self.feed_client(at, Input::Stop);
        }
        if !self.until(QUIET_MS, |world| world.nodes.iter().all(|node| node.stopped)) {
            return self.wrong("a client does not stop".into());
        }
        let empty = |world: &mut World| {
            world.members().into_iter().all(|rank| {
                let seat = &world.seats[rank];
                let Some(server) = &seat.server else { return false };
                let status = server.mds.status();
                status.sessions.is_empty()
                    && status.orphans == 0
                    && status.discards == 0
                    && status.locks == 0
                    && status.leases == 0
                    && status.waiting_count == 0
                    && status.recalls_pending == 0
                    && server.watch.outstanding() == 0
            })
        };
        if !self.until(QUIET_MS, empty) {
            let status = self.show_servers();
            self.wrong(format!("with all clients gone the server still holds something: {status}"));
        }
        if self.has_subtrees() {
            // Whoever had something decoupled is gone, and so is his lease soon.
            self.until(LEASE_MS, |_| false);
        }
        self.look_at_ranks();
        // What has moved last may have brought a session of a client that was gone by then.
        if !self.until(QUIET_MS, empty) && !self.is_broken() {
            let status = self.show_servers();
            self.wrong(format!("after all migrations the server still holds something: {status}"));
        }
        // All sessions have ended: what was lost cannot come any more.
        for (.., call) in std::mem::take(&mut self.lost) {
            self.close_lost(call);
        }
        for at in 0..self.nodes.len() {
            for call in std::mem::take(&mut self.nodes[at].lost_early) {
                self.close_lost(call);
            }
        }
    }

    /// Left to themselves, ranks give files home that live by themselves with a rank that has not the directory which counts
    /// them.
    fn go_home(&mut self) {
        let at_home = |world: &mut World| {
            world.members().into_iter().all(|rank| {
                let server = world.seats[rank].server.as_mut();
                server.is_some_and(|server| server.mds.far_from_home().is_empty())
            })
        };
        if !self.until(QUIET_MS, at_home) && !self.is_broken() {
            let left: Vec<_> = self
                .seats
                .iter_mut()
                .map(|seat| seat.server.as_mut().map(|server| (server.mds.far_from_home(), server.mds.under_way())))
                .collect();
            self.wrong(format!("files do not go home: {left:?}"));
        }
    }

    /// When nothing is under way between ranks, each inode is one rank's at most.
    fn look_at_ranks(&mut self) {
        self.go_home();
        let at_rest = |world: &mut World| {
            let servers = world.members().into_iter().map(|rank| world.seats[rank].server.as_ref());
            let servers: Vec<_> = servers.collect();
            world.all_linked()
                && servers.into_iter().all(|server| server.is_some_and(|server| server.mds.under_way().is_empty()))
        };
        if !self.until(2 * QUIET_MS, at_rest) && !self.is_broken() {
            let status = self.show_servers();
            return self.wrong(format!("what is under way between ranks does not end: {status}"));
        }
        let mut owners: BTreeMap<Ino, usize> = BTreeMap::new();
        let mut twice = Vec::new();
        for (rank, seat) in self.seats.iter().enumerate() {
            for ino in seat.server.iter().flat_map(|server| server.mds.inodes_held()) {
                if let Some(other) = owners.insert(ino, rank) {
                    twice.push(format!("inode {ino} is held by rank {other} and by rank {rank}"));
                }
            }
        }
        twice.into_iter().for_each(|text| self.wrong(text));
    }

    fn stop_server(&mut self) {
        self.ends = true;
        self.stop_servers();
        if !self.until(QUIET_MS, |world| world.all_stopped()) {
            let status = self.show_servers();
            return self.wrong(format!("the server does not stop: {status}"));
        }
        for rank in 0..self.seats.len() {
            self.take_server(rank);
        }
        self.store = None;
    }

    fn show_servers(&self) -> String {
        let mut text = String::new();
        for (rank, seat) in self.seats.iter().enumerate() {
            let status = seat.server.as_ref().map(|server| server.mds.status());
            let under_way = seat.server.as_ref().map(|server| server.mds.under_way());
            let drain = seat.server.as_ref().and_then(|server| server.mds.drain_status());
            text += &format!("\n  rank {rank}: {under_way:?} {drain:?} {status:?}");
        }
        text
    }

    fn look_at_disk(&mut self) {
        let backend: Arc<dyn Backend> = match self.disk.open() {
            Ok(backend) => backend,
            Err(error) => return self.wrong(format!("the disk does not open: {error}")),
        };
        let rows = match rows::all_rows(&*backend.table()) {
            Ok(rows) => rows,
            Err(text) => return self.wrong(text),
        };
        let left = rows.iter().filter(|row| matches!(row, Row::Orphan { .. } | Row::Discard { .. } | Row::Session(_)));
        for row in left.cloned().collect::<Vec<_>>() {
            self.wrong(format!("after a stop in order the table has {row:?}"));
        }
        self.check_letters(&rows);
        if self.seats.len() > 1 || self.options.allow {
            let config = &self.knobs.server;
            let faults = crate::recovery::check_tree(&rows::counted(&rows), &[], config.hash_key, config.inline_max);
            faults.into_iter().for_each(|fault| self.wrong(format!("at the end: {fault}")));
        }
        let events: Vec<_> = rows.iter().cloned().filter_map(rows::event_of).collect();
        for finding in fsck::check_all(self.knobs.server.hash_key, &events).findings {
            self.wrong(format!("fsck: {}", finding.text));
        }
        // Whether each file is held in its inode.
        let mut files: BTreeMap<u64, bool> = BTreeMap::new();
        for row in &rows {
            if let Row::Inode(inode) = row
                && inode.kind == Kind::File
            {
                files.insert(inode.ino.0, inode.inline);
            }
        }
        let (mut wrong, spilled, calm) = (Vec::new(), &self.spilled, self.outcome.faults[0] == 0);
        // Of directories that wait for somebody to merge them.
        let waiting: BTreeSet<u64> = rows.iter().filter_map(journals_of).flatten().map(|ino| ino.0).collect();
        let listed = backend.blobs().list(&mut |id, len| {
            // Of a client that died while it moved an inline file to objects, a server that was restarted since knows
            // nothing: then only fsck sees what is left.
            let left = match files.get(&id.ino) {
                Some(inline) => calm && *inline,
                None => !waiting.contains(&id.ino) && (calm || spilled.contains(&id.ino)),
            };
            if left {
                wrong.push(format!("{id} of {len} bytes belongs to no file"));
            }
            std::ops::ControlFlow::Continue(())
        });
        if let Err(error) = listed {
            wrong.push(format!("objects cannot be listed: {error}"));
        }
        wrong.into_iter().for_each(|text| self.wrong(text));
        self.compare_names(&rows::counted(&rows));
        if self.options.relaxed {
            self.compare_relaxed(&rows);
        }
        if self.has_subtrees() {
            self.jobs.borrow_mut().compare(&rows::counted(&rows));
            self.gather();
        }
    }

    /// After a stop in order no letter is on its way, and the subtree map says one thing.
    fn check_letters(&mut self, rows: &[Row]) {
        let (mut peers, mut routes) = (BTreeMap::new(), BTreeMap::new());
        let mut wrong = Vec::new();
        for row in rows {
            match row {
                Row::Peer { of, peer } => drop(peers.insert((*of, peer.rank), *peer)),
                Row::Route { route, .. } => {
                    let known = routes.insert((route.dir, route.frag, route.version), route.rank);
                    if known.is_some_and(|rank| rank != route.rank) {
                        wrong.push(format!("ranks {known:?} and {} are both said to have {route:?}", route.rank));
                    }
                }
                _ => {}
            }
        }
        for ((of, to), peer) in &peers {
            let received = peers.get(&(*to, *of)).map_or(0, |other| other.received);
            if peer.sent != received {
                wrong.push(format!("rank {of} sent letters up to {} to rank {to}, which has {received}", peer.sent));
            }
        }
        wrong.into_iter().for_each(|text| self.wrong(text));
    }

    /// The names in the table must be those of one of the ways that everything can have happened.
    fn compare_names(&mut self, rows: &[Row]) {
        if self.history.gave_up {
            return;
        }
        let mut entries: BTreeMap<u64, BTreeMap<NameId, u64>> = BTreeMap::new();
        let mut attrs: BTreeMap<u64, (u16, u32)> = BTreeMap::new();
        for row in rows {
            match row {
                Row::Entry { dir, name, target, .. } => {
                    if let Some(id) = NAMES.iter().position(|n| n.as_bytes() == name.as_bytes()) {
                        entries.entry(dir.0).or_default().insert(id as NameId, target.ino.0);
                    }
                }
                Row::Inode(inode) => drop(attrs.insert(inode.ino.0, (inode.mode, inode.nlink))),
                _ => {}
            }
        }
        let same = |state: &State| {
            let mut todo: Vec<(u64, u64)> = self.places.dirs.iter().map(|dir| (FIXED + dir.0, dir.0)).collect();
            while let Some((id, ino)) = todo.pop() {
                let Some(node) = state.nodes.get(&id) else { return false };
                let known = node.ino == 0 || node.ino == ino;
                if !known || attrs.get(&ino) != Some(&(node.mode, node.nlink)) {
                    return false;
                }
                let empty = BTreeMap::new();
                let real = entries.get(&ino).unwrap_or(&empty);
                if !node.entries.keys().eq(real.keys()) {
                    return false;
                }
                todo.extend(node.entries.values().copied().zip(real.values().copied()));
            }
            true
        };
        if !self.history.ways.iter().any(|way| same(&way.state)) {
            let way = self.history.ways.first().map(|way| way.state.clone());
            self.wrong(format!("the names on the disk are none that the calls explain: {entries:?}, not {way:?}"));
        }
    }
}

/// Numbers of the objects that hold the journal of a decoupled directory.
fn journals_of(row: &Row) -> Option<[Ino; 2]> {
    match row {
        Row::Decoupled { record, .. } => Some(record.journal_inos()),
        _ => None,
    }
}
