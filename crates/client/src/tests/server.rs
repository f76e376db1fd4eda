//! A server in memory for tests: files only, in one directory, with the coherence rules of the real one. What it is not:
//! durable, fast, or strict about permissions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use loligo_types::msg::{Hello, Reclaim, Request, ToClient, ToServer, Welcome};
use loligo_types::{
    Answer, Attr, ClusterMap, Control, DataAnswer, DataError, DataOp, FileLock, FsError, FsResult, Ino, Inode, Kind,
    Lease, LockOwner, Name, Op, OpenFlags, Rank, Seq, SessionId, SetTime, Time,
};

pub const INLINE_MAX: usize = 64;

#[derive(Debug)]
struct Node {
    inode: Inode,
    inline: Vec<u8>,
    objects: Vec<u8>,
    /// Room that is reserved at the end: for whom, from where, up to where.
    rooms: Vec<(usize, u64, u64)>,
    /// Where appends lie that were told of.
    appended: (u64, u64),
}

#[derive(Debug, Default)]
struct Peer {
    known: bool,
    handles: BTreeMap<u64, (Ino, OpenFlags)>,
    rights: BTreeMap<Ino, Lease>,
    attrs: BTreeSet<Ino>,
    answers: BTreeMap<u64, FsResult<Answer>>,
}

impl Node {
    /// Growing a file requires that the client has reserved room from the end of the file, or that nobody has reserved any. A real server
    /// would make the client wait; here it is refused.
    fn take_room(&mut self, client: usize, to: u64, behind: u64) -> FsResult<()> {
        let size = self.inode.size;
        let own = self.rooms.iter().position(|(of, _, end)| *of == client && *end == to);
        if let Some((_, start, end)) = own.map(|at| self.rooms.remove(at)) {
            if start != size {
                return Err(FsError::Stale);
            }
            self.appended = (if self.appended.1 == 0 { start } else { self.appended.0 }, end);
            return Ok(());
        }
        let grows = to > size && self.rooms.iter().any(|(_, start, _)| *start < to);
        let overtaken = behind < to.min(size) && self.appended.0 < to && behind < self.appended.1;
        if grows || overtaken { Err(FsError::Stale) } else { Ok(()) }
    }
}

/// Injected faults.
#[derive(Debug, Default)]
pub struct Faults {
    /// Data writes that fail.
    pub data: VecDeque<DataError>,
    /// Data reads that fail.
    pub reads: VecDeque<DataError>,
    /// Changes of inline data that fail.
    pub inline: VecDeque<FsError>,
    /// Syncs of everything that fail.
    pub syncs: VecDeque<FsError>,
    /// Lock requests that fail.
    pub locks: VecDeque<FsError>,
    /// Do not answer at all.
    pub mute: bool,
}

#[derive(Debug, Default)]
pub struct Server {
    nodes: BTreeMap<Ino, Node>,
    names: BTreeMap<Name, Ino>,
    peers: Vec<Peer>,
    /// Requests that wait for recalls, in order.
    waiting: VecDeque<(usize, Request)>,
    /// Recalls without an answer: client, inode, id, bits.
    pub recalls: Vec<(usize, Ino, u64, Lease)>,
    /// Write-backs that were asked for on behalf of a client: it, the holder, the inode.
    flushed: BTreeSet<(usize, usize, Ino)>,
    next_recall: u64,
    /// Clients that have not reclaimed after a restart.
    grace: BTreeSet<usize>,
    time: i64,
    pub out: Vec<VecDeque<ToClient>>,
    pub faults: Faults,
    /// Every operation that was executed, by name.
    pub log: Vec<String>,
    epoch: u64,
    /// Sessions are not kept over a reconnect: the client must reclaim.
    pub forgets: bool,
    /// Data epoch that the server tells.
    pub data_epoch: u64,
    /// Locks of the last reclaim.
    pub claimed: Vec<(Ino, u64, FileLock)>,
    /// Ranges that were given back, in that order.
    pub unlocked: Vec<(Ino, LockOwner, u64, u64)>,
    /// Files of closed handles, and whether bytes that were never told of may be left of them.
    pub closed: Vec<(Ino, bool)>,
}

impl Server {
    pub fn new(clients: usize) -> Server {
        let mut server = Server { epoch: 1, data_epoch: 1, ..Server::default() };
        for _ in 0..clients {
            server.peers.push(Peer::default());
            server.out.push(VecDeque::new());
        }
        server
    }

    pub fn content(&self, ino: Ino) -> Vec<u8> {
        let node = &self.nodes[&ino];
        let size = node.inode.size as usize;
        let mut bytes = if node.inode.inline { node.inline.clone() } else { node.objects.clone() };
        bytes.resize(size, 0);
        bytes
    }

    pub fn attr(&self, ino: Ino) -> Attr {
        self.nodes[&ino].inode.attr()
    }

    pub fn open_handles(&self, client: usize) -> usize {
        self.peers[client].handles.len()
    }

    /// Puts bytes where a writer that died would have left them.
    pub fn soil(&mut self, ino: Ino, offset: usize, bytes: &[u8]) {
        let objects = &mut self.nodes.get_mut(&ino).unwrap().objects;
        if objects.len() < offset + bytes.len() {
            objects.resize(offset + bytes.len(), 0);
        }
        objects[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// Forgets all sessions, as after an eviction.
    pub fn evict_all(&mut self) {
        self.epoch += 1;
        for peer in &mut self.peers {
            *peer = Peer::default();
        }
        self.recalls.clear();
        self.waiting.clear();
    }

    /// A restart after which data that was not synced may be gone.
    pub fn restart(&mut self) {
        self.data_epoch += 1;
        self.restart_cleanly();
    }

    /// A restart: opens, leases and recalls are forgotten until the clients tell, sessions and answers are not.
    pub fn restart_cleanly(&mut self) {
        self.forgets = true;
        self.recalls.clear();
        self.waiting.clear();
        self.flushed.clear();
        for node in self.nodes.values_mut().filter(|node| !node.rooms.is_empty()) {
            // What was reserved is not known any more, and is dropped.
            node.rooms.clear();
            node.inode.cuts += 1;
        }
        for (client, peer) in self.peers.iter_mut().enumerate() {
            peer.handles.clear();
            peer.rights.clear();
            peer.attrs.clear();
            // That room was given is not in the journal.
            peer.answers.retain(|_, answer| !matches!(answer, Ok(Answer::Offset(_))));
            if peer.known {
                self.grace.insert(client);
            }
        }
    }

    pub fn hung_up(&mut self, client: usize) {
        self.out[client].clear();
        self.flushed.retain(|flushed| flushed.0 != client);
        // The answer is given again when the client asks again.
        self.waiting.retain(|(who, _)| *who != client);
    }

    pub fn receive(&mut self, client: usize, message: ToServer) {
        if self.faults.mute {
            return;
        }
        match message {
            ToServer::Hello(hello) => self.hello(client, &hello),
            ToServer::Reclaim(claim) => self.reclaim(client, &claim),
            ToServer::Request(request) => self.request(client, request),
            ToServer::Data(request) => {
                let result = self.data(client, request.ino, &request.op);
                self.out[client].push_back(ToClient::Data { id: request.id, result });
            }
            ToServer::RecallDone { ino, id } => {
                self.recall_done(client, ino, id);
                self.retry();
            }
            ToServer::Release(leases) => {
                for (ino, bits) in leases {
                    if bits.has(Lease::ATTR) {
                        self.peers[client].attrs.remove(&ino);
                    }
                    if let Some(rights) = self.peers[client].rights.get_mut(&ino) {
                        *rights = rights.without(bits);
                    }
                }
            }
            ToServer::Ping => self.out[client].push_back(ToClient::Pong { at_ms: 0 }),
            ToServer::Goodbye { .. } => self.peers[client] = Peer::default(),
        }
    }

    fn hello(&mut self, client: usize, hello: &Hello) {
        let resumed = hello.resume.is_some_and(|(_, secret)| secret == self.epoch) && self.peers[client].known;
        if !resumed {
            self.peers[client] = Peer { known: true, ..Peer::default() };
            self.grace.remove(&client);
            if self.grace.is_empty() {
                self.retry();
            }
        }
        let kept = resumed && !self.forgets && !self.grace.contains(&client);
        if resumed && !kept {
            let peer = &mut self.peers[client];
            peer.handles.clear();
            peer.rights.clear();
            peer.attrs.clear();
            self.recalls.retain(|recall| recall.0 != client);
        }
        self.out[client].push_back(ToClient::Welcome(Welcome {
            version: 2,
            session: SessionId(client as u64 + 1),
            secret: self.epoch,
            resumed,
            kept,
            fs_id: [7; 16],
            inline_max: INLINE_MAX as u32,
            session_ms: 10_000,
            data_epoch: self.data_epoch,
            rank: Rank::ZERO,
            hash_key: (5, 6),
            map: ClusterMap::default(),
            routes: Vec::new(),
            direct: String::new(),
            recovered: loligo_types::Lsn(0),
            journal_max: 0,
        }));
        for (_, ino, id, bits) in self.recalls.iter().filter(|recall| recall.0 == client) {
            self.out[client].push_back(ToClient::Recall { ino: *ino, id: *id, bits: *bits });
        }
        if resumed && !kept {
            self.retry();
        }
    }

    fn reclaim(&mut self, client: usize, claim: &Reclaim) {
        self.claimed.clone_from(&claim.locks);
        let peer = &mut self.peers[client];
        for (handle, ino, flags, rights) in &claim.opens {
            peer.handles.insert(*handle, (*ino, *flags));
            let held = peer.rights.entry(*ino).or_default();
            *held = *held | *rights;
        }
        for (ino, bits) in &claim.leases {
            if bits.has(Lease::ATTR) {
                peer.attrs.insert(*ino);
            }
        }
        self.grace.remove(&client);
        if self.grace.is_empty() {
            self.retry();
        }
    }

    fn recall_done(&mut self, client: usize, ino: Ino, id: u64) {
        let Some(at) = self.recalls.iter().position(|recall| recall.0 == client && recall.2 == id) else { return };
        let (_, _, _, bits) = self.recalls.remove(at);
        let peer = &mut self.peers[client];
        if bits.has(Lease::ATTR) {
            peer.attrs.remove(&ino);
        }
        if let Some(rights) = peer.rights.get_mut(&ino) {
            *rights = rights.without(bits);
        }
    }

    fn retry(&mut self) {
        for (client, request) in std::mem::take(&mut self.waiting) {
            self.request(client, request);
        }
    }

    fn subject(&self, op: &Op) -> Ino {
        match op {
            Op::Create { name, .. } | Op::Lookup { name, .. } => self.names.get(name).copied().unwrap_or_default(),
            Op::GetAttr { ino }
            | Op::SetAttr { ino, .. }
            | Op::Open { ino, .. }
            | Op::ReadInline { ino, .. }
            | Op::WriteInline { ino, .. }
            | Op::SetData { ino, .. }
            | Op::Extend { ino, .. } => *ino,
            _ => Ino(0),
        }
    }

    fn request(&mut self, client: usize, request: Request) {
        let seq = request.seq.0;
        self.peers[client].answers.retain(|done, _| *done >= request.answered.0);
        if let Some(result) = self.peers[client].answers.get(&seq) {
            let reply = ToClient::Reply {
                seq: request.seq,
                result: result.clone(),
                granted: Vec::new(),
                ways: Vec::new(),
                volatile: None,
                journal: None,
            };
            return self.out[client].push_back(reply);
        }
        let ino = self.subject(&request.op);
        // Nobody overtakes on an inode, but what a holder must do to obey.
        let obeys = matches!(request.op, Op::WriteInline { .. } | Op::SetData { .. } | Op::ReadInline { .. });
        let queued = self.waiting.iter().any(|(_, earlier)| ino != Ino(0) && self.subject(&earlier.op) == ino);
        if !self.grace.is_empty() || queued && !obeys || !self.ready(client, ino, &request.op) {
            return self.waiting.push_back((client, request));
        }
        self.log.push(format!("{client} {}", request.op.name()));
        let result = self.execute(client, &request.op);
        self.peers[client].answers.insert(seq, result.clone());
        let mut granted = Vec::new();
        if let (Ok(answer), true) = (&result, request.want.has(Lease::ATTR)) {
            let written = |ino: Ino| {
                self.peers.iter().enumerate().any(|(who, peer)| {
                    who != client && peer.handles.values().any(|(of, flags)| *of == ino && flags.write)
                })
            };
            let contested = self.waiting.iter().any(|(_, waiting)| self.subject(&waiting.op) == ino)
                || self.recalls.iter().any(|recall| recall.1 == ino);
            if let Some(attr) = answer.attr().filter(|attr| !contested && !written(attr.ino)) {
                self.peers[client].attrs.insert(attr.ino);
                granted.push((attr.ino, Lease::ATTR));
            }
        }
        self.out[client].push_back(ToClient::Reply {
            seq: Seq(seq),
            result,
            granted,
            ways: Vec::new(),
            volatile: None,
            journal: None,
        });
        self.retry_later(ino);
    }

    /// Resumes requests that waited behind this one.
    fn retry_later(&mut self, ino: Ino) {
        if let Some(at) = self.waiting.iter().position(|(_, request)| self.subject(&request.op) == ino) {
            let (client, request) = self.waiting.remove(at).unwrap();
            self.request(client, request);
        }
    }

    /// True if nothing must be recalled first; else recalls it.
    fn ready(&mut self, client: usize, ino: Ino, op: &Op) -> bool {
        if ino == Ino(0) {
            return true;
        }
        let data = Lease::CACHE | Lease::BUFFER;
        let mut wanted = Vec::new();
        for other in (0..self.peers.len()).filter(|other| *other != client) {
            let peer = &self.peers[other];
            let rights = peer.rights.get(&ino).copied().unwrap_or_default();
            let writes = peer.handles.values().any(|(of, flags)| *of == ino && flags.write);
            let mut bits = Lease::NONE;
            match op {
                Op::Open { flags, .. } | Op::Create { flags, .. } => {
                    bits = if flags.write || writes || flags.truncate { rights & data } else { rights & Lease::BUFFER };
                }
                Op::SetAttr { set, .. } if set.size.is_some() => bits = rights & data,
                Op::GetAttr { .. } | Op::Lookup { .. } | Op::SetAttr { .. } if rights.has(Lease::BUFFER) => {
                    bits = Lease::FLUSH;
                }
                _ => {}
            }
            let changes = matches!(op, Op::Open { flags, .. } if flags.truncate)
                || matches!(op, Op::SetAttr { .. } | Op::WriteInline { .. } | Op::SetData { .. } | Op::Extend { .. });
            if changes && peer.attrs.contains(&ino) {
                bits = bits | Lease::ATTR;
            }
            if !bits.is_none() {
                wanted.push((other, bits));
            }
        }
        let mut ready = true;
        for (other, bits) in wanted {
            let asked = self.recalls.iter().any(|r| r.0 == other && r.1 == ino && r.3.has(bits));
            if bits == Lease::FLUSH && self.flushed.contains(&(client, other, ino)) && !asked {
                self.flushed.remove(&(client, other, ino));
                continue;
            }
            ready = false;
            if !asked {
                self.next_recall += 1;
                let id = self.next_recall;
                if bits == Lease::FLUSH {
                    self.flushed.insert((client, other, ino));
                }
                self.recalls.push((other, ino, id, bits));
                self.out[other].push_back(ToClient::Recall { ino, id, bits });
            }
        }
        ready
    }

    fn now(&mut self) -> Time {
        self.time += 1;
        Time(self.time)
    }

    fn execute(&mut self, client: usize, op: &Op) -> FsResult<Answer> {
        let now = self.now();
        match op {
            Op::Lookup { name, .. } => {
                let ino = self.names.get(name).ok_or(FsError::NotFound)?;
                Ok(Answer::Entry(self.attr(*ino)))
            }
            Op::Create { name, flags, handle, mode, .. } => {
                let created = !self.names.contains_key(name);
                if created {
                    let ino = Ino(0x100 + self.nodes.len() as u64);
                    let inode = Inode::new(ino, Kind::File, *mode, 0, 0, Ino::ROOT, now);
                    self.nodes.insert(
                        ino,
                        Node { inode, inline: Vec::new(), objects: Vec::new(), rooms: Vec::new(), appended: (0, 0) },
                    );
                    self.names.insert(name.clone(), ino);
                }
                let ino = self.names[name];
                self.open(client, ino, *flags, *handle, created)
            }
            Op::Open { ino, flags, handle } => {
                if flags.truncate {
                    self.resize(*ino, 0, now);
                }
                self.open(client, *ino, *flags, *handle, false)
            }
            Op::Control(Control::Close { handles, lost }) => {
                for handle in handles {
                    let Some((ino, _)) = self.peers[client].handles.remove(handle) else { continue };
                    self.closed.push((ino, *lost));
                    if !self.peers[client].handles.values().any(|(of, _)| *of == ino) {
                        self.peers[client].rights.remove(&ino);
                    }
                }
                Ok(Answer::Done)
            }
            Op::GetAttr { ino } => Ok(Answer::Entry(self.nodes.get(ino).ok_or(FsError::Stale)?.inode.attr())),
            Op::SetAttr { ino, set, .. } => {
                let len = self.nodes.get(ino).map_or(0, |node| node.inode.size);
                if let Some(size) = set.size.filter(|size| !set.grow || *size > len) {
                    self.resize(*ino, size, now);
                }
                let node = self.nodes.get_mut(ino).ok_or(FsError::Stale)?;
                node.inode.mode = set.mode.unwrap_or(node.inode.mode);
                if let Some(SetTime::At(mtime)) = set.mtime {
                    node.inode.mtime = mtime;
                }
                node.inode.change += 1;
                Ok(Answer::Entry(node.inode.attr()))
            }
            Op::ReadInline { ino, handle } => {
                if !self.peers[client].handles.get(handle).is_some_and(|(_, flags)| flags.read) {
                    return Err(FsError::BadHandle);
                }
                let node = &self.nodes[ino];
                if node.inode.inline { Ok(Answer::Bytes(Arc::from(&node.inline[..]))) } else { Err(FsError::Stale) }
            }
            Op::WriteInline { ino, offset, data, mtime, handle, .. } => {
                self.check_writer(client, *handle)?;
                // A holder that can read the content spills it itself.
                let reads = self.peers[client].handles[handle].1.read;
                let buffers = reads && self.peers[client].rights.get(ino).is_some_and(|r| r.has(Lease::BUFFER));
                self.write_inline(*ino, *offset, data, *mtime, now, buffers)
            }
            Op::SetData { ino, handle, cuts, grow_to, behind, mtime, spilled, .. } => {
                self.check_writer(client, *handle)?;
                let node = self.nodes.get_mut(ino).ok_or(FsError::Stale)?;
                node.take_room(client, grow_to.unwrap_or(0), behind.unwrap_or(u64::MAX))?;
                if node.inode.cuts != *cuts {
                    return Err(FsError::Stale);
                }
                if *spilled {
                    node.inode.inline = false;
                    node.inline.clear();
                }
                if node.inode.inline && grow_to.is_some_and(|size| size > node.inode.size) {
                    return Err(FsError::Busy);
                }
                node.inode.size = node.inode.size.max(grow_to.unwrap_or(0));
                stamp(&mut node.inode, *mtime, now);
                Ok(Answer::Entry(node.inode.attr()))
            }
            Op::Extend { ino, len, handle, .. } => {
                self.check_writer(client, *handle)?;
                let node = self.nodes.get_mut(ino).ok_or(FsError::Stale)?;
                if node.inode.inline {
                    return Err(FsError::Busy);
                }
                node.rooms.retain(|(of, ..)| *of != client);
                let at = node.rooms.iter().map(|(_, _, end)| *end).fold(node.inode.size, u64::max);
                if *len > 0 {
                    node.rooms.push((client, at, at + len));
                }
                Ok(Answer::Offset(at))
            }
            Op::Control(Control::SetLock { .. }) => self.faults.locks.pop_front().map_or(Ok(Answer::Done), Err),
            Op::Control(Control::Unlock { ino, lock, .. }) => {
                self.unlocked.push((*ino, lock.owner, lock.start, lock.end));
                Ok(Answer::Done)
            }
            Op::Control(Control::Sync) => self.faults.syncs.pop_front().map_or(Ok(Answer::Done), Err),
            Op::Mkdir { .. } => Err(FsError::NotSupported),
            _ => Err(FsError::NotSupported),
        }
    }

    fn check_writer(&self, client: usize, handle: u64) -> FsResult<()> {
        match self.peers[client].handles.get(&handle) {
            Some((_, flags)) if flags.write => Ok(()),
            _ => Err(FsError::BadHandle),
        }
    }

    fn open(&mut self, client: usize, ino: Ino, flags: OpenFlags, handle: u64, created: bool) -> FsResult<Answer> {
        self.peers[client].handles.insert(handle, (ino, flags));
        let mut others = false;
        let mut writers = false;
        for (who, peer) in self.peers.iter().enumerate() {
            for (of, flags) in peer.handles.values() {
                others |= *of == ino && who != client;
                writers |= *of == ino && flags.write;
            }
        }
        let lent = self.peers.iter().enumerate().any(|(who, peer)| who != client && peer.attrs.contains(&ino));
        let mut rights = match (others, writers) {
            (false, true) => Lease::CACHE | Lease::BUFFER,
            (false, false) | (true, false) => Lease::CACHE,
            (true, true) => Lease::NONE,
        };
        if lent {
            rights = rights.without(Lease::BUFFER);
        }
        let held = self.peers[client].rights.entry(ino).or_default();
        *held = *held | rights;
        let rights = *held;
        let node = &self.nodes[&ino];
        let data = (node.inode.inline && (flags.read || node.inline.is_empty())).then(|| Arc::from(&node.inline[..]));
        Ok(Answer::Opened { attr: node.inode.attr(), created, rights, data })
    }

    fn resize(&mut self, ino: Ino, size: u64, now: Time) {
        let node = self.nodes.get_mut(&ino).unwrap();
        if size < node.inode.size {
            node.inode.cuts += 1;
            node.rooms.clear();
            node.appended = (0, 0);
        }
        let old = node.inode.size;
        if node.inode.inline {
            // What lies beyond the threshold are zeros that nobody stores.
            if size as usize <= INLINE_MAX {
                node.inline.resize(size as usize, 0);
            } else if old == 0 {
                node.inode.inline = false;
                node.objects.clear();
            }
        } else {
            node.objects.truncate(size.min(old) as usize);
        }
        node.inode.size = size;
        stamp(&mut node.inode, SetTime::Now, now);
    }

    fn write_inline(
        &mut self,
        ino: Ino,
        offset: Option<u64>,
        data: &[u8],
        mtime: SetTime,
        now: Time,
        buffers: bool,
    ) -> FsResult<Answer> {
        if let Some(error) = self.faults.inline.pop_front() {
            return Err(error);
        }
        let node = self.nodes.get_mut(&ino).ok_or(FsError::Stale)?;
        if !node.inode.inline {
            return Err(FsError::Busy);
        }
        let offset = offset.unwrap_or(node.inode.size) as usize;
        let end = offset + data.len();
        if end > INLINE_MAX && buffers {
            return Err(FsError::Busy);
        }
        if end > INLINE_MAX {
            node.objects = std::mem::take(&mut node.inline);
            node.inode.inline = false;
            node.inode.change += 1;
            return Err(FsError::Busy);
        }
        if node.inline.len() < end {
            node.inline.resize(end, 0);
        }
        node.inline[offset..end].copy_from_slice(data);
        node.inode.size = node.inode.size.max(end as u64);
        stamp(&mut node.inode, mtime, now);
        Ok(Answer::Entry(node.inode.attr()))
    }

    fn data(&mut self, client: usize, ino: Ino, op: &DataOp) -> Result<DataAnswer, DataError> {
        if !self.peers[client].handles.values().any(|(of, _)| *of == ino) {
            return Err(DataError::Stale);
        }
        let writes = matches!(op, DataOp::Write { .. });
        let reads = matches!(op, DataOp::Read { .. });
        if let (true, Some(error)) = (reads, self.faults.reads.front().copied()) {
            self.faults.reads.pop_front();
            return Err(error);
        }
        if let (true, Some(error)) = (writes, self.faults.data.pop_front()) {
            return Err(error);
        }
        self.log.push(format!("{client} {}", data_name(op)));
        let objects = &mut self.nodes.get_mut(&ino).unwrap().objects;
        let reach = |objects: &mut Vec<u8>, end: usize| {
            if objects.len() < end {
                objects.resize(end, 0);
            }
        };
        match op {
            DataOp::Read { offset, len } => {
                let mut bytes = vec![0; *len as usize];
                let from = (*offset as usize).min(objects.len());
                let part = &objects[from..objects.len().min(*offset as usize + *len as usize)];
                bytes[..part.len()].copy_from_slice(part);
                Ok(DataAnswer::Bytes(Arc::from(bytes)))
            }
            DataOp::Write { offset, data } => {
                let (from, to) = (*offset as usize, *offset as usize + data.len());
                reach(objects, to);
                objects[from..to].copy_from_slice(data);
                Ok(DataAnswer::Done)
            }
            DataOp::Sync => Ok(DataAnswer::Done),
            DataOp::Punch { offset, len } => {
                let to = (*offset + *len) as usize;
                reach(objects, to);
                objects[*offset as usize..to].fill(0);
                Ok(DataAnswer::Done)
            }
            DataOp::Discard { from } => {
                objects.truncate(*from as usize);
                Ok(DataAnswer::Done)
            }
            DataOp::Seek { offset, size, data } => Ok(DataAnswer::Offset(Some(if *data { *offset } else { *size }))),
        }
    }
}

fn stamp(inode: &mut Inode, mtime: SetTime, now: Time) {
    (inode.mtime, inode.ctime) = match mtime {
        SetTime::Now => (now, now),
        SetTime::At(time) => (time, inode.ctime.max(time)),
    };
    inode.change += 1;
}

fn data_name(op: &DataOp) -> String {
    match op {
        DataOp::Read { offset, len } => format!("read {offset} {len}"),
        DataOp::Write { offset, data } => format!("write {offset} {}", data.len()),
        DataOp::Sync => "sync".into(),
        DataOp::Punch { offset, len } => format!("punch {offset} {len}"),
        DataOp::Discard { from } => format!("discard {from}"),
        DataOp::Seek { offset, .. } => format!("seek {offset}"),
    }
}
