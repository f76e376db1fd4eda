//! State of an open file and of its handles at the client. Data and small rules only; the work is in `open`, `data` and `flush`. Not here:
//! which handle serves what (`handles`), the read cache (`cache`) and the buffer (`buffer`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use loligo_types::{Attr, Cred, FsError, Ino, Journaling, Lease, OpenFlags, Rank, Time};

use crate::Fh;
use crate::blocks::Blocks;
use crate::calls::Waiter;
use crate::core::Core;
use crate::extents::Extents;
use crate::recall::DataRecall;
use crate::run::{FlushWaiter, Run};
use crate::unsynced::Unsynced;

/// A handle at the server.
#[derive(Debug)]
pub(crate) struct Handle {
    pub ino: Ino,
    pub flags: OpenFlags,
    pub cred: Arc<Cred>,
    pub dir: bool,
    /// Through which it is in use here.
    pub fh: Option<Fh>,
    /// Since when it is not, milliseconds.
    pub idle_since: u64,
    /// May serve another open that asks for the same.
    pub reusable: bool,
}

/// A file opened here.
#[derive(Debug)]
pub(crate) struct Opened {
    pub ino: Ino,
    pub handle: u64,
    pub flags: OpenFlags,
    /// Errors of the file that were reported through it, by their number.
    pub errors_seen: u64,
    /// Caches above may hold data, because CACHE was held when it was opened.
    pub cached: bool,
    /// Where a sequential reader goes on.
    pub next_read: u64,
    /// Read-ahead window, bytes.
    pub window: u64,
    /// The session that it belonged to is gone; `lost`: with data that was not written, not reported yet.
    pub dead: bool,
    pub lost: bool,
}

/// State that all handles of one inode share.
#[derive(Debug)]
pub(crate) struct File {
    /// The rank that has it.
    pub rank: Rank,
    /// As the server said last.
    pub attr: Attr,
    /// Size, place and cuts in `attr` are what the server has as long as the ATTR lease is held.
    pub current: bool,
    /// CACHE and BUFFER.
    pub rights: Lease,
    /// Numbers of the handles at the server, in the order they were opened.
    pub handles: Vec<u64>,
    /// Those that are not in use: there may be thousands that are.
    pub spare: Vec<u64>,
    /// At most so many of them may write.
    pub writers: usize,
    /// With what is written and waits.
    pub size: u64,
    /// Time of the last write that waits.
    pub mtime: Option<Time>,
    /// A write that waits clears setuid and setgid.
    pub kill_priv: bool,
    /// The credentials of that write.
    pub kill_cred: Option<Arc<Cred>>,
    /// The content at the server, of an inline file, while CACHE or BUFFER is held. May end before the file does: the
    /// rest is zeros.
    pub base: Option<Arc<[u8]>>,
    /// Written, waits.
    pub dirty: Extents,
    /// Since when, milliseconds.
    pub dirty_since: u64,
    /// The way of its data to the disk, as its rank said last.
    pub journaling: Journaling,
    /// Being written; counts less than `dirty` and more than everything else.
    pub flying: Extents,
    pub flying_mtime: Option<Time>,
    /// Number of buffered writes, and how many of the first of them are at the server (or lost).
    pub written: u64,
    pub flushed: u64,
    /// Objects hold nothing but zeros from here on, or bytes that this client wrote without a gap.
    pub clean_to: u64,
    pub run: Option<Run>,
    pub flush_waiters: Vec<FlushWaiter>,
    /// Of objects, while CACHE or BUFFER is held.
    pub blocks: Blocks,
    /// Changes when others may have removed objects of it.
    pub pieces: u64,
    /// Reads that have not been answered.
    pub reads: Vec<u64>,
    /// Number of write errors so far, and the last.
    pub errors: u64,
    pub error: Option<FsError>,
    /// Buffered writes that were lost with the last run that failed, the first and the last of them by their numbers. From 0:
    /// others that were at the server may be lost as well.
    pub failed: (u64, u64),
    /// A write failed: objects may hold bytes of it whose size was never told. The rank drops them when the file is closed.
    pub leaves_bytes: bool,
    /// Objects may hold bytes that are not durable.
    pub unsynced: bool,
    /// Unsynced bytes that this client wrote, as far as they are kept.
    pub unstable: Extents,
    /// There is more of it, which is not kept.
    pub at_risk: bool,
    /// It is believed to have moved, and something is held back of it by rights of before; its rank has not said yet that it
    /// knows what is open of it.
    pub doubted: bool,
    /// True while bytes beyond the end are being dropped. Nobody else may drop them meanwhile.
    pub discarding: bool,
    /// The task that has the file to itself, and those that wait for it.
    pub exclusive: Option<u64>,
    pub waiting: VecDeque<u64>,
    pub recalls: Vec<DataRecall>,
}

impl File {
    pub(crate) fn new(attr: Attr, rank: Rank) -> File {
        File {
            rank,
            attr,
            current: false,
            rights: Lease::NONE,
            handles: Vec::new(),
            spare: Vec::new(),
            writers: 0,
            size: attr.size,
            mtime: None,
            kill_priv: false,
            kill_cred: None,
            base: None,
            dirty: Extents::default(),
            journaling: Journaling::default(),
            dirty_since: 0,
            flying: Extents::default(),
            flying_mtime: None,
            written: 0,
            flushed: 0,
            clean_to: attr.size,
            run: None,
            flush_waiters: Vec::new(),
            blocks: Blocks::default(),
            pieces: 0,
            reads: Vec::new(),
            errors: 0,
            error: None,
            failed: (0, 0),
            leaves_bytes: false,
            // Somebody may have written before and not waited for the disk.
            unsynced: true,
            unstable: Extents::default(),
            at_risk: false,
            doubted: false,
            discarding: false,
            exclusive: None,
            waiting: VecDeque::new(),
            recalls: Vec::new(),
        }
    }

    /// A handle is opened with these rights; `current`: the attributes are current. Whether rights are held here that the answer does not
    /// say: they were lost at a rank that has forgotten them.
    pub(crate) fn opened(
        &mut self,
        core: &mut Core,
        (handle, flags): (u64, OpenFlags),
        attr: &Attr,
        current: bool,
        rights: Lease,
        data: Option<Arc<[u8]>>,
    ) -> bool {
        self.handles.push(handle);
        self.writers += usize::from(flags.write);
        if flags.truncate {
            self.cut(attr);
        }
        if self.learn(attr) {
            self.current = current;
        }
        // While a recall takes rights away the server gives none; what an older answer says does not count.
        let mut unfounded = false;
        if self.recalls.iter().all(|recall| !recall.takes_rights()) {
            // The answer says all that the session has: what is held here besides was lost at a rank that has forgotten.
            unfounded = !self.rights.without(rights).is_none();
            if !self.rights.has(Lease::BUFFER) {
                core.next_data += 1;
                self.pieces = core.next_data;
            }
            self.rights = self.rights | (rights & (Lease::CACHE | Lease::BUFFER));
        }
        if self.may_cache() && self.attr.inline && self.base.is_none() && self.is_clean() {
            self.base = data;
        }
        self.know_empty();
        unfounded
    }

    /// Takes what the server said, unless something newer is known. Whether it was news.
    pub(crate) fn learn(&mut self, attr: &Attr) -> bool {
        if attr.change < self.attr.change {
            return false;
        }
        self.attr = *attr;
        self.size = if self.is_clean() { attr.size } else { self.size.max(attr.size) };
        self.clean_to = self.clean_to.max(attr.size);
        true
    }

    /// The end of the file was moved at the server. What waits to be written was written while that was under way, and
    /// comes after it.
    pub(crate) fn cut(&mut self, attr: &Attr) {
        if let Some(own) = self.run.as_mut().and_then(|run| run.own.take()) {
            // What was there before is on its way into objects with it.
            self.flying = own;
        }
        let from = self.attr.size.min(attr.size);
        self.learn(attr);
        self.size = self.attr.size.max(self.dirty.end()).max(self.flying.end());
        self.clean_to = self.attr.size;
        self.base = match self.base.take() {
            Some(base) if self.attr.inline && (base.len() as u64) <= self.attr.size => Some(base),
            Some(base) if self.attr.inline => Some(Arc::from(&base[..self.attr.size as usize])),
            _ => None,
        };
        self.blocks.drop_from(from);
        self.unstable.remove(from, u64::MAX);
        self.know_empty();
    }

    /// An empty inline file needs no fetching.
    pub(crate) fn know_empty(&mut self) {
        if self.attr.inline && self.attr.size == 0 && self.base.is_none() && self.may_cache() {
            self.base = Some(Arc::from(&[][..]));
        }
    }

    /// Nothing waits to be written.
    pub(crate) fn is_clean(&self) -> bool {
        self.dirty.is_empty() && self.flying.is_empty() && self.mtime.is_none() && self.flying_mtime.is_none()
    }

    /// True if bytes of a range wait to be written.
    pub(crate) fn has_waiting(&self, start: u64, end: u64) -> bool {
        self.dirty.gaps(start, end) != [(start, end)] || self.flying.gaps(start, end) != [(start, end)]
    }

    /// Bytes that wait.
    pub(crate) fn held_back(&self) -> u64 {
        self.dirty.bytes() + self.flying.bytes()
    }

    /// True if bytes that were read may be cached.
    pub(crate) fn may_cache(&self) -> bool {
        self.rights.any(Lease::CACHE | Lease::BUFFER) && !self.recalls.iter().any(DataRecall::is_own)
    }

    pub(crate) fn may_buffer(&self) -> bool {
        self.rights.has(Lease::BUFFER)
    }

    /// A recall is at the point from which on no new data may come.
    pub(crate) fn is_gated(&self) -> bool {
        self.recalls.iter().any(DataRecall::is_gate)
    }

    /// A rank does not know any more what it wanted back. Rights in doubt are given up nevertheless: what made them so is as it was.
    pub(crate) fn void_recalls(&mut self, rank: Rank) {
        self.recalls.retain(|recall| recall.rank != rank || recall.is_own());
    }

    /// The rights in doubt are given up, or there are none. Unless something was held back by them, nothing is in doubt any
    /// more: what is written from now on rests on rights that the rank has given since.
    pub(crate) fn end_doubt(&mut self) {
        self.doubted &= !self.is_clean() || self.recalls.iter().any(DataRecall::is_own);
    }

    /// Notes that written data was lost.
    pub(crate) fn fail(&mut self, error: FsError) {
        self.leaves_bytes = true;
        self.errors += 1;
        self.error = Some(error);
    }

    /// Changes attributes into what they will be when everything is written.
    pub(crate) fn overlay(&self, attr: &mut Attr) {
        if attr.change < self.attr.change {
            *attr = self.attr;
        }
        if !self.is_clean() {
            attr.size = self.size.max(attr.size);
        }
        if let Some(mtime) = self.mtime.or(self.flying_mtime) {
            attr.mtime = mtime;
            attr.ctime = attr.ctime.max(mtime);
        }
    }
}

/// All handles and files.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub map: BTreeMap<Ino, File>,
    /// Journal modes of files that are about to be opened, as their ranks said.
    pub modes: BTreeMap<Ino, Journaling>,
    pub handles: BTreeMap<u64, Handle>,
    /// The ranks at which handles are open, until these are told to close them.
    pub at: BTreeMap<u64, Rank>,
    /// Handles that are believed to have moved, and from where: they may be open there still. Until that rank says that they are
    /// not, or the one where they are believed to be answers for what they open.
    pub guessed: BTreeSet<(u64, Rank)>,
    pub opened: BTreeMap<Fh, Opened>,
    /// Handles whose `Close` was not sent yet.
    pub closing: Vec<u64>,
    /// Those of them whose file may have such bytes ([`File::leaves_bytes`]).
    pub closing_leaves: BTreeSet<u64>,
    /// A user who had one of them open.
    pub close_cred: Option<Arc<Cred>>,
    /// Handles that were lost with sessions: what they opened may have moved before, to a rank that has not been met yet.
    pub lost: Vec<u64>,
    /// A user who had one of them open.
    pub lost_cred: Option<Cred>,
    /// Handles not in use, oldest first; may hold some that are in use again or closed.
    pub idle: VecDeque<u64>,
    pub locks: crate::locks::Locks,
    pub next_handle: u64,
    pub next_fh: u64,
    /// Files with something to be written.
    pub dirty: BTreeSet<Ino>,
    /// Files that may hold data which the server's disk may not have.
    pub unstable: BTreeSet<Ino>,
    pub unsynced: Unsynced,
    /// Files with blocks in the read cache, and a clock that counts uses.
    pub blocks_of: BTreeSet<Ino>,
    pub block_bytes: u64,
    pub tick: u64,
    /// Until when writes are not answered before they are at the server, because its store was full, milliseconds.
    pub full_until: u64,
    /// Writes that wait for room in the buffer, with their lengths.
    pub blocked: VecDeque<(Waiter, u64)>,
}

impl Files {
    /// A handle of the file that may read.
    pub(crate) fn reader(&self, file: &File) -> Option<u64> {
        file.handles.iter().copied().find(|h| self.handles.get(h).is_some_and(|h| h.flags.read || h.flags.exec))
    }

    /// The ranks where a handle may be open still, which are forgotten.
    pub(crate) fn take_guessed(&mut self, handle: u64) -> Vec<Rank> {
        let guessed = self.guessed.range((handle, Rank::ZERO)..=(handle, Rank(u16::MAX)));
        let ranks: Vec<Rank> = guessed.map(|(_, rank)| *rank).collect();
        ranks.iter().for_each(|rank| _ = self.guessed.remove(&(handle, *rank)));
        ranks
    }

    /// True if the rank of the file is a guess.
    pub(crate) fn is_guessed(&self, file: &File) -> bool {
        let is_it =
            |handle: &u64| self.guessed.range((*handle, Rank::ZERO)..=(*handle, Rank(u16::MAX))).next().is_some();
        !self.guessed.is_empty() && file.handles.iter().any(is_it)
    }

    /// It is known that an open file is where it is believed to be.
    pub(crate) fn is_known(&mut self, ino: Ino) {
        if !self.guessed.is_empty() {
            let handles = self.map.get(&ino).map_or_else(Vec::new, |file| file.handles.clone());
            handles.into_iter().for_each(|handle| _ = self.take_guessed(handle));
        }
    }

    /// A handle of the file that may write.
    pub(crate) fn writer(&self, file: &File) -> Option<u64> {
        if file.writers == 0 {
            return None;
        }
        file.handles.iter().copied().find(|h| self.handles.get(h).is_some_and(|h| h.flags.write))
    }

    /// Changes attributes into what they will be when everything held back is written.
    pub(crate) fn overlay(&self, attr: &mut Attr) {
        if let Some(file) = self.map.get(&attr.ino) {
            file.overlay(attr);
        }
    }
}
